"""The accuracy of a release: intervals that hold as often as they say, verdicts by closed forms."""

import json
import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.queries import kronecker, marginal, mean, point, prefix
from pgmjax.release import accuracy, folder

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
RNG = np.random.default_rng(0)
TRUE = RNG.integers(0, 60, (3, 4, 2))


def noisy(clique, stddev, noise, rng):
    axes = tuple(k for k, name in enumerate(DOMAIN) if name not in clique)
    exact = TRUE.sum(axis=axes)
    draw = (
        rng.normal(0, stddev, exact.shape)
        if noise == "gaussian"
        else rng.laplace(0, stddev / 2**0.5, exact.shape)
    )
    return pj.LinearMeasurement(clique, exact + draw, stddev, noise=noise)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_hold_the_truth_as_often_as_they_say(noise):
    """Of a marginal in two tables, a prefix of it, and a mean, on a known table."""
    rng = np.random.default_rng(1)
    asked = [
        (marginal(["b"]), TRUE.sum(axis=(0, 2))),
        (kronecker({"b": prefix()}), np.cumsum(TRUE.sum(axis=(0, 2)))),
        (kronecker({"b": mean([1.0, 2.0, 3.0, 5.0])}), TRUE.sum(axis=(0, 2)) @ [1.0, 2, 3, 5]),
        (kronecker({"a": point(1), "b": point(2)}), TRUE.sum(axis=2)[1, 2]),
    ]
    held = np.zeros(len(asked))
    for _ in range(1500):
        found = [noisy(("a", "b"), 4.0, noise, rng), noisy(("b", "c"), 3.0, noise, rng)]
        for k, (query, truth) in enumerate(asked):
            ends = accuracy.unbiased(DOMAIN, found, query).intervals
            inside = (ends[:, 0] <= np.ravel(truth)) & (np.ravel(truth) <= ends[:, 1])
            held[k] += inside.mean() / 1500
    assert (held > 0.93).all() and (held < 0.98).all()


def test_the_answer_to_the_very_query_is_used_where_it_is_better():
    whole = pj.LinearMeasurement(("b",), TRUE.sum(axis=(0, 2)), 10.0)
    sums = pj.LinearMeasurement(("b",), np.cumsum(TRUE.sum(axis=(0, 2))), 2.0, "prefix")
    found = accuracy.unbiased(DOMAIN, [whole, sums], kronecker({"b": prefix()}))
    assert found.stddevs.tolist() == [2.0] * 4
    assert accuracy.unbiased(DOMAIN, [sums], marginal(["b"])) is None
    assert accuracy.unbiased(DOMAIN, [whole], marginal(["a"])) is None


def test_what_was_measured_through_other_queries_has_least_squares():
    sums = pj.LinearMeasurement(("b",), np.cumsum(TRUE.sum(axis=(0, 2))), 2.0, "prefix")
    model = pj.Estimator(progress=False).fit(DOMAIN, [sums]).model
    found = accuracy.unbiased(DOMAIN, [sums], marginal(["b"]), model)
    assert np.allclose(found.values, TRUE.sum(axis=(0, 2)))
    assert np.allclose(found.stddevs, [2, *[8**0.5] * 3])  # a difference of two prefixes
    assert accuracy.unbiased(DOMAIN, [sums], marginal(["a"]), model) is None


@pytest.mark.parametrize(
    ("counts", "stddev", "verdict"),
    [
        ([1000, 1000], 40.0, "good"),  # 1.96 * 40 / 1000 = 7.8 %
        ([1000, 1000], 60.0, "coarse"),
        ([1000, 1000], 300.0, "noise"),
        ([980, 20], 40.0, "good"),  # typical is the record, not the cell
        ([500, -200, -200, 500], 10.0, "noise"),  # 400 of 600 records were moved
        ([10_000, -600], 10.0, "coarse"),
    ],
)
def test_verdicts_by_closed_forms(counts, stddev, verdict):
    domain = pj.Domain({"x": len(counts)})
    measured = [pj.LinearMeasurement(("x",), counts, stddev)]
    model = pj.Estimator(progress=False, dtype="float64").fit(domain, measured, float(sum(counts))).model
    found = accuracy.table_accuracy(model, measured, ("x",))
    fitted = model.marginal(("x",))
    assert found.verdict == verdict
    assert found.half_width == pytest.approx(1.96 * stddev)
    assert found.relative == pytest.approx(1.96 * stddev / fitted.max(), rel=1e-6)
    assert found.moved == pytest.approx(-np.minimum(counts, 0).sum() / sum(counts))


def test_the_worst_column_is_that_of_the_worst_verdict():
    columns = [
        {"attributes": ["a"], "verdict": "coarse", "relative": 0.4, "small": 1.0, "moved": 0.0},
        {"attributes": ["b"], "verdict": "noise", "relative": 0.03, "small": 20.0, "moved": 0.9},
    ]
    said = list(accuracy.lines({"columns": columns, "tables": []}))
    assert (
        said[1]
        == "Worst: making negative noisy counts of b non-negative moved 90 % of the records to other values."
    )
    assert "of the values of b, the worst column, is known to within more than 1,000 %" in said[2]


def test_small_groups_are_the_fifth_with_fewest_records():
    counts = [5, 10, *[1000] * 8]
    measured = [pj.LinearMeasurement(("x",), counts, 1.0)]
    model = pj.Estimator(progress=False, dtype="float64").fit(pj.Domain({"x": 10}), measured, 8015.0).model
    assert accuracy.table_accuracy(model, measured, ("x",)).small == pytest.approx(
        np.median([1.96 / 5, 1.96 / 10]), rel=1e-3
    )


def test_a_column_of_thousands_of_values_is_noise_and_said_to_be(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    codes, age = rng.integers(0, 3000, 20_000), rng.integers(0, 4, 20_000)
    (tmp_path / "t.csv").write_text(
        "code,age\n" + "".join(f"{c},{a}\n" for c, a in zip(codes, age, strict=True))
    )
    (tmp_path / "d.json").write_text('{"code": 3000, "age": 4}')
    words = ["release", "t.csv", "--domain", "d.json", "--all-kway", "1", "--epsilon", "0.2"]
    assert main([*words, "--relation", "replace-one", "--steps", "30", "--out", "r"]) == 0
    said = capsys.readouterr().out
    assert (
        "1 good, 1 noise (code)" in said
        and "Worst: for a typical record, the count of its value of code" in said
    )
    saved = folder.read("r")
    assert [one["verdict"] for one in saved.record["accuracy"]["columns"]] == ["noise", "good"]
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.index("How good it is") < page.index("What is promised") and "<td>noise</td>" in page
    table = saved.answers().to_pydict()
    assert {"estimate", "stddev", "noise_stddev", "low", "high", "determined"} <= set(table)
    assert all(table["determined"])
    low, high = np.array(table["low"]), np.array(table["high"])
    exact = np.concatenate([np.bincount(codes, minlength=3000), np.bincount(age, minlength=4)])
    assert 0.94 < np.mean((low <= exact) & (exact <= high)) < 0.99
    assert main(["query", "r", "age=1", "age=1,code=7"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert (
        "95% interval of the noisy counts" in first
        and "no interval, because no measured marginal has all these" in second
    )
    assert main(["query", "r", "--marginal", "age", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["determined"] and len(found["low"]) == 4
    assert main(["query", "r", "--marginal", "age,code"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("These counts have no interval")


def test_what_was_left_out_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b,c\n" + "1,2,3\n" * 50)
    (tmp_path / "d.json").write_text('{"a": 5, "b": 5, "c": 50}')
    words = [
        "release",
        "t.csv",
        "--domain",
        "d.json",
        "--all-kway",
        "2",
        "--max-cells",
        "40",
        "--mechanism",
        "marginals",
        "--epsilon",
        "5",
    ]
    assert main([*words, "--relation", "add-remove", "--rows", "5", "--out", "r"]) == 0
    said = capsys.readouterr().out
    assert "left out 2 of 3 marginals" in said and "a, c; b, c" in said
    assert "1 not determined (c)" in said


def test_a_fit_that_did_not_end_is_explained():
    from pgmjax.release.text import ending

    fit = {"status": "MAX_STEPS", "steps": 3, "loss": 272.0, "gap": 37_200.0}
    assert "may be 37,200 above the least possible loss" in ending({"fit": fit})
    assert "at most 0.37% above the least" in ending({"fit": {**fit, "gap": 1.0}})
    assert ending({"fit": {**fit, "status": "CONVERGED"}}) == ""


def test_nothing_is_determined_without_measurements():
    model = pj.GraphicalModel.from_potentials(DOMAIN, {("a",): np.zeros(3)}, 10.0)
    found = accuracy.accuracy_of(model, [])
    assert {one.verdict for one in found.columns} == {"not determined"} and math.isnan(
        found.columns[0].relative
    )
    assert json.dumps(found.to_dict()) and len(list(accuracy.lines(found.to_dict()))) == 2
