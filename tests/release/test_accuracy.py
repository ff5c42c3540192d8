"""The accuracy of a release: intervals that hold as often as they say, verdicts by closed forms."""

import dataclasses
import json
import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import kronecker, marginal, mean, point, prefix, total
from pgmjax.release import accuracy, figures, folder

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
            ends = accuracy.CountEstimates(DOMAIN, found).unbiased(query).intervals
            inside = (ends[:, 0] <= np.ravel(truth)) & (np.ravel(truth) <= ends[:, 1])
            held[k] += inside.mean() / 1500
    assert (held > 0.93).all() and (held < 0.98).all()


def test_the_answer_to_the_very_query_is_used_where_it_is_better():
    whole = pj.LinearMeasurement(("b",), TRUE.sum(axis=(0, 2)), 10.0)
    sums = pj.LinearMeasurement(("b",), np.cumsum(TRUE.sum(axis=(0, 2))), 2.0, "prefix")
    found = accuracy.CountEstimates(DOMAIN, [whole, sums]).unbiased(kronecker({"b": prefix()}))
    assert (found.stddevs < 2.0).all() and (found.stddevs > 1.9).all()  # both together are a little better
    assert accuracy.CountEstimates(DOMAIN, [whole]).unbiased(marginal(["a"])) is None


def test_what_was_measured_through_other_queries_has_least_squares(monkeypatch):
    sums = pj.LinearMeasurement(("b",), np.cumsum(TRUE.sum(axis=(0, 2))), 2.0, "prefix")
    for work in (accuracy._MOST_WORK, 0.0):  # all together, or one measurement by itself
        monkeypatch.setattr(accuracy, "_MOST_WORK", work)
        estimates = accuracy.CountEstimates(DOMAIN, [sums])
        found = estimates.unbiased(marginal(["b"]))
        assert np.allclose(found.values, TRUE.sum(axis=(0, 2)))
        assert np.allclose(found.stddevs, [2, *[8**0.5] * 3])  # a difference of two prefixes
        assert estimates.unbiased(marginal(["a"])) is None


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
    fitted = model.marginal(("x",))
    estimates = accuracy.CountEstimates(domain, measured)
    found = accuracy.table_accuracy(estimates, ("x",), fitted, model.total)
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
    assert "of the values of b, the worst column, are noise." in said[2]


def test_small_groups_are_the_fifth_with_fewest_records():
    counts = [5, 10, *[1000] * 8]
    measured = [pj.LinearMeasurement(("x",), counts, 1.0)]
    estimates = accuracy.CountEstimates(pj.Domain({"x": 10}), measured)
    found = accuracy.table_accuracy(estimates, ("x",), np.array(counts), 8015.0)
    assert found.small == pytest.approx(np.median([1.96 / 5, 1.96 / 10]), rel=1e-3)


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
        "1 is good and 1 is noise (code)" in said
        and "Worst: a typical count of code is noise: its 95 % interval is wider than the count itself."
        in said
    )
    saved = folder.read("r")
    assert [one["verdict"] for one in saved.record["accuracy"]["columns"]] == ["noise", "good"]
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.index("How good it is") < page.index("What is promised") and ">noise</td>" in page
    table = saved.answers().to_pydict()
    assert {"estimate", "stddev", "noise_stddev", "low", "high", "determined"} <= set(table)
    assert all(table["determined"])
    low, high = np.array(table["low"]), np.array(table["high"])
    exact = np.concatenate([np.bincount(codes, minlength=3000), np.bincount(age, minlength=4)])
    assert 0.94 < np.mean((low <= exact) & (exact <= high)) < 0.99
    assert main(["query", "r", "age=1", "age=1,code=7"]) == 0
    first, second, whose = capsys.readouterr().out.splitlines()
    assert whose == "All counts and shares are of all records of the table."
    assert "95%" in first and "95%" not in second
    assert main(["query", "r", "--marginal", "age", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["determined"] and len(found["low"]) == 4
    assert main(["query", "r", "--marginal", "age,code"]) == 0
    assert capsys.readouterr().out.splitlines()[-2].startswith("These counts have no interval")


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
    assert "--max-cells" in said and "a, c; b, c" in said
    assert "1 is not determined (c)" in said


def test_a_fit_that_did_not_end_is_explained():
    from pgmjax.release.statement import ending

    fit = {"status": "MAX_STEPS", "steps": 3, "loss": 272.0, "gap": 37_200.0}
    assert "may be 37,200 above the least possible loss" in ending({"fit": fit})
    assert "at most 0.37% above the least" in ending({"fit": {**fit, "gap": 1.0}})
    assert ending({"fit": {**fit, "status": "CONVERGED"}}) == ""


def test_nothing_is_determined_without_measurements():
    model = pj.GraphicalModel.from_potentials(DOMAIN, {("a",): np.zeros(3)}, 10.0)
    found = accuracy.accuracy_of(model, accuracy.CountEstimates(DOMAIN, []))
    assert {one.verdict for one in found.columns} == {"not determined"} and math.isnan(
        found.columns[0].relative
    )
    assert json.dumps(found.to_dict()) and len(list(accuracy.lines(found.to_dict()))) == 2


def test_an_interval_never_claims_certainty_about_a_count():
    """A noisy count far below 0 leaves half a width, and the answer lies in every interval."""
    found = accuracy.CountEstimates(pj.Domain({"a": 3}), [pj.LinearMeasurement(("a",), [-90, 4, 70], 10.0)])
    told = found.report(marginal(["a"]), np.array([1.0, 2.0, 99.0]))
    assert np.allclose(told.intervals, [[0, 19.6], [0, 23.6], [50.4, 99.0]])
    assert np.allclose(told.estimates, [1.0, 2.0, 99.0])
    wrong = found.report(marginal(["a"]), np.array([500.0, 500.0, 0.0]))  # moved as far as noise may reach
    assert np.allclose(wrong.estimates, [32.9, 36.9, 37.1])
    assert np.allclose(wrong.intervals, [[0, 32.9], [0, 36.9], [37.1, 89.6]])
    signed = kronecker({"a": mean([1.0, 0.0, -1.0])})  # no count: it may be negative
    assert (found.unbiased(signed).intervals[0] < 0).all()


def test_a_public_total_is_used_and_needs_no_interval():
    estimates = accuracy.CountEstimates(DOMAIN, [noisy(("a",), 4.0, "gaussian", RNG)], float(TRUE.sum()))
    assert np.allclose(estimates.unbiased(marginal(["a"])).stddevs, 4 * (2 / 3) ** 0.5)
    whole = estimates.report(kronecker({"b": total()}), np.array([1.0]))
    assert whole.intervals.tolist() == [[TRUE.sum()] * 2] and whole.estimates.tolist() == [TRUE.sum()]


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_reported_intervals_hold_the_counts_of_the_true_table(delta):
    """Over many seeded releases of a skewed table, whose empty and small cells are cut at 0."""
    domain, rng = pj.Domain({"a": 6, "b": 5, "c": 2}), np.random.default_rng(5)
    shares = [rng.dirichlet(np.full(size, 0.5)) for size in domain.shape]
    codes = {name: rng.choice(len(p), 2000, p=p) for name, p in zip(domain, shares, strict=True)}
    data = pj.Dataset.from_columns(domain, codes)
    asked = [("a",), ("b",), ("a", "b"), ("b", "c")]
    true = [np.ravel(table) for table in data.marginals(asked)]
    held = []
    for seed in range(300):
        backend = SeededBackend(seed, insecure=True)
        mechanism = pj.mechanisms.Marginals(epsilon=1, delta=delta, relation="add-remove", backend=backend)
        noisy = mechanism.measure(data, pj.Workload([["a", "b"], ["b", "c"], ["a"]])).measurements
        estimates = accuracy.CountEstimates(domain, noisy)
        ends = [estimates.unbiased(marginal(clique)).intervals for clique in asked]
        held.append([np.mean((e[:, 0] <= t) & (t <= e[:, 1])) for e, t in zip(ends, true, strict=True)])
    found = np.mean(held, axis=0)
    error = np.std(held, axis=0, ddof=1) / np.sqrt(len(held))
    # nothing is cut from an interval of 95 %, and cutting at 0 leaves out at most one of its two tails
    assert (found >= 0.95 - 4 * error).all() and (found <= 0.975 + 4 * error).all()


def test_noisy_distances_bound_the_share_of_misplaced_records():
    one = accuracy.NoisyDistance(("a", "b"), 2, 100.0, 10.0, 4.4)
    assert one.misplaced(1000.0) == pytest.approx((0.038, 0.062))
    model = pj.GraphicalModel.from_potentials(DOMAIN, {("a",): np.zeros(3)}, 1000.0)
    found = accuracy.accuracy_of(model, accuracy.CountEstimates(DOMAIN, []), [("b", "a")], [one])
    assert found.tables[0].misplaced == pytest.approx((0.038, 0.062))
    said = list(accuracy.lines(found.to_dict()))
    assert said[-2] == "Of 1 pair, 1 was not measured: its counts rest on the model alone."
    assert "at most 6.2 % of the records in a wrong cell" in said[-1]


def test_a_pair_measured_with_values_merged_is_not_said_to_be_unmeasured():
    data = pj.Dataset.from_columns(pj.Domain({"a": 4, "b": 4}), {"a": [0, 1] * 400, "b": [0, 1] * 400})
    backend = SeededBackend(0, insecure=True)
    release = pj.mechanisms.MST(epsilon=1, relation="add-remove", backend=backend).run(
        data, pj.Workload([["a", "b"]])
    )
    (pair,) = release.count_accuracy.tables
    assert pair.merged and pair.verdict == "not determined"
    said = list(accuracy.lines(release.count_accuracy.to_dict()))
    assert any(each.startswith("Of 1 pair, 1 was measured with rare values merged") for each in said)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_batch_aim_keeps_the_distances_that_it_published(delta, tmp_path):
    rng = np.random.default_rng(0)
    domain = pj.Domain({"a": 4, "b": 3, "c": 5, "d": 2})
    codes = {name: rng.integers(0, size, 3000) for name, size in zip(domain, domain.shape, strict=True)}
    data = pj.Dataset.from_columns(domain, codes)
    workload = pj.Workload.all_kway(domain, 2)
    true = dict(zip(workload.cliques, data.marginals(workload.cliques), strict=True))
    held = []
    for seed in range(12):
        backend = SeededBackend(seed, insecure=True)
        mechanism = pj.mechanisms.BatchAIM(
            epsilon=1, delta=delta, relation="add-remove", max_cells=60, backend=backend
        )
        release = mechanism.run(data, workload)
        assert {frozenset(each.clique) for each in release.distances} <= set(map(frozenset, true))
        for each in release.distances:
            clique = next(c for c in true if set(c) == set(each.clique))
            wrong = np.abs(true[clique] - release.model.marginal(clique)).sum() / (2 * release.model.total)
            low, high = each.misplaced(release.model.total)
            held.append(low <= wrong <= high)
    assert len(held) > 20 and np.mean(held) >= 0.9  # an interval widened by how far the model moved
    folder.write(release, tmp_path / "r")
    saved = folder.read(tmp_path / "r")
    assert saved.distances() == release.distances
    tables = {frozenset(one["attributes"]): one for one in saved.record["accuracy"]["tables"]}
    assert all("misplaced" in tables[frozenset(each.clique)] for each in release.distances)


def test_one_answer_is_the_same_wherever_it_is_asked(tmp_path, capsys):
    """The folder's answers, its queries as text and JSON, the report's numbers and the release agree."""
    rng = np.random.default_rng(1)
    domain = pj.Domain({"a": 3, "b": 4, "c": 2})
    codes = {name: rng.integers(0, size, 400) for name, size in zip(domain, domain.shape, strict=True)}
    data = pj.Dataset.from_columns(domain, codes)
    mechanism = pj.mechanisms.HDMM(
        epsilon=0.5, relation="add-remove", backend=SeededBackend(3, insecure=True)
    )
    sums = [{"clique": [name], "queries": {name: "prefix"}} for name in ("b", "c")]
    workload = pj.Workload([["a", "b"], *sums])
    release = mechanism.run(data, workload)
    release = dataclasses.replace(release, answered_by="engine")
    folder.write(release, tmp_path / "r")
    rows = [row for row in folder.read(tmp_path / "r").answers().to_pylist() if row["query"] == "a,b"]
    assert all(row["low"] <= row["estimate"] <= row["high"] for row in rows if row["determined"])
    assert {row["rests_on"] for row in rows} <= {"noisy counts and the model", "the model alone"}
    main(["query", str(tmp_path / "r"), "--marginal", "a,b", "--json"])
    asked = json.loads(capsys.readouterr().out)
    assert np.allclose(np.ravel(asked["estimate"]), [row["estimate"] for row in rows])
    main(["query", str(tmp_path / "r"), "a=1,b=2", "--json"])
    (one,) = json.loads(capsys.readouterr().out)["answers"]
    row = rows[1 * 4 + 2]
    assert one["estimate"] == pytest.approx(row["estimate"]) and one["determined"] == row["determined"]
    assert one["interval"] == pytest.approx([row["low"], row["high"]]) and one["rests_on"] == row["rests_on"]
    page = figures.explorer_numbers(release.model, release.estimates)["pairs"]["0,1"]["count"]
    assert np.allclose(page, [row["estimate"] for row in rows], atol=0.051)
