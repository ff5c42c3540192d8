"""`pgmjax fit`, `release --from` and `release --add-rows`: from one release to the next."""

import csv
import json
import pathlib

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main

ROWS = 4000


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, ROWS)
    b = np.where(rng.random(ROWS) < 0.8, a, rng.integers(0, 3, ROWS))
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{x},{y}\n" for x, y in zip(a, b, strict=True)))
    (tmp_path / "d.json").write_text('{"a": 3, "b": 3}')
    (tmp_path / "w.json").write_text('[["a"]]')
    counts = np.zeros((3, 3))
    np.add.at(counts, (a, b), 1)
    return counts


def release(*options, out="r"):
    words = ["release", "t.csv", "--domain", "d.json", "--epsilon", "10", "--relation", "replace-one"]
    return main([*words, *options, "--out", out, "--quiet"])


def test_what_is_not_measured_follows_the_earlier_release(table):
    """The model of least relative entropy with a given margin: the prior's conditionals, in closed form."""
    assert release("--all-kway", "2") == 0
    assert release("--workload", "w.json", "--from", "r", out="next") == 0
    assert release("--workload", "w.json", out="alone") == 0
    first, after, alone = (pj.load(f"{name}/model").marginal(("a", "b")) for name in ("r", "next", "alone"))
    margin = after.sum(axis=1)
    assert np.allclose(after, first * (margin / first.sum(axis=1))[:, None], atol=0.5)
    assert np.abs(after - table).sum() < 0.1 * np.abs(alone - table).sum()
    record = json.loads(pathlib.Path("next/release.json").read_text())
    assert [(each["name"], each["role"], each["cost"]) for each in record["inputs"]] == [
        ("a release by 'auto'", role, {"epsilon": "10", "delta": "0"}) for role in ("measured", "prior")
    ]
    assert record["spent"] == {"epsilon": "20", "delta": "0"} and record["secure"] is True
    page = pathlib.Path("next/report.html").read_text()
    assert "the model follows that of the earlier release" in page and "epsilon = 20" in page


def test_more_rows(table, capsys):
    assert release("--all-kway", "1", "--rows", "50", "--synthetic", "csv") == 0
    assert main(["release", "r", "--add-rows", "60"]) == 0
    assert main(["release", "r", "--add-rows", "50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["seed"] == 2
    texts = [pathlib.Path(f"r/synthetic{number}.csv").read_text() for number in ("", "-2", "-3")]
    assert [text.count("\n") for text in texts] == [51, 61, 51] and texts[0] != texts[2]
    assert main(["release", "r", "--add-rows", "60", "--method", "multinomial", "--codes"]) == 0
    drawn = pj.load("r/model").sample(60, seed=3, method="multinomial")
    names = list(drawn)
    written = [line.split(",") for line in pathlib.Path("r/synthetic-4.csv").read_text().splitlines()[1:]]
    assert [[int(code) for code in line] for line in written] == np.stack(
        [drawn[n] for n in names], 1
    ).tolist()
    for words, said in [
        (["release", "r", "--add-rows", "0"], "--add-rows"),
        (["release", "r", "--add-rows", "5", "--epsilon", "1"], "--epsilon cannot be used with --add-rows"),
        (["release", "t.csv", "--add-rows", "5"], "pgmjax release DIR"),
        (["release", "--add-rows", "5"], "--add-rows"),
    ]:
        assert main(words) == 2 and said in capsys.readouterr().err


def test_an_earlier_release_over_another_domain(table, tmp_path, capsys):
    assert release("--all-kway", "1") == 0
    (tmp_path / "d.json").write_text('{"a": 3, "b": 4}')
    assert release("--all-kway", "1", "--from", "r", out="next") == 2
    assert "another domain, so it cannot be the prior. They differ in b" in capsys.readouterr().err
    assert not (tmp_path / "next.partial").exists()
    words = ["release", "t.csv", "--discover", "0.1", "--epsilon", "1", "--relation", "add-remove"]
    assert main([*words, "--all-kway", "1", "--from", "r", "--out", "next"]) == 2
    assert "--from does not go with --discover" in capsys.readouterr().err


def test_published_numbers(table, tmp_path, capsys):
    rows = "".join(f"{x},{y},{table[x, y]:.0f}\n" for x in range(3) for y in range(3) if (x, y) != (1, 2))
    (tmp_path / "p.csv").write_text(f"a,b,value\n{rows}")
    words = ["fit", "p.csv", "--domain", "d.json", "--stddev", "2", "--out", "m"]
    assert main(words) == 2
    assert "Every table lacks some cells" in capsys.readouterr().err
    assert main([*words, "--total", str(ROWS), "--rows", "30"]) == 0
    assert "1 table, 8 counts; 1 cell was not published" in capsys.readouterr().out
    assert main(["query", "m", "a=1,b=2", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["estimate"] == pytest.approx(table[1, 2], abs=10)
    page = pathlib.Path("m/report.html").read_text()
    assert "published elsewhere" in page and "ε" not in page
    assert main(["release", "m", "--add-rows", "5"]) == 0
    assert release("--workload", "w.json", "--from", "m", out="next") == 0
    assert main([*words, "--total", str(ROWS)]) == 2
    assert "exists" in capsys.readouterr().err
    (tmp_path / "p.csv").write_text("a,b,value\n7,1,3\n")
    assert main([*words[:-1], "other"]) == 2
    assert "p.csv" in capsys.readouterr().err


def test_a_release_that_is_not_fitted_takes_no_prior(table):
    data = pj.Dataset.read("t.csv", pj.Domain.read("d.json"))
    game = pj.mechanisms.DualQuery(2, "replace-one", delta="1e-6", rounds=3)
    made = game.run(data, pj.Workload([["a"]]))
    with pytest.raises(ValueError, match="cannot have a prior"):
        made.with_prior(made.model)
    with pytest.raises(TypeError, match="must be a GraphicalModel"):
        made.with_prior("r")


def test_formulas_are_escaped_in_csv_on_request(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n" + "=1+1,0\n-5,1\n" * 200)
    (tmp_path / "d.json").write_text('{"a": {"labels": ["=1+1", "-5"]}, "b": 2}')
    escape = ["--escape-formulas", "--quiet"]
    assert release("--all-kway", "1", "--synthetic", "parquet", *escape) == 2
    assert "--escape-formulas is for rows written as CSV" in capsys.readouterr().err
    assert release("--all-kway", "1", "--synthetic", "csv", *escape) == 0
    assert main(["release", "r", "--add-rows", "50", *escape]) == 0
    words = ["--domain", "d.json", "--synthetic", "csv", *escape, "--out", "f"]
    assert main(["fit", "r/measurements.parquet", *words]) == 0
    words = ["--domain", "d.json", "--each", "--epsilon", "3", "--relation", "replace-one"]
    assert main(["perturb", "t.csv", *words, "--responses", "csv", *escape, "--out", "p"]) == 0
    for name in ("r/synthetic.csv", "r/synthetic-2.csv", "f/synthetic.csv", "p/responses.csv"):
        with pathlib.Path(name).open(newline="") as file:
            assert {row["a"] for row in csv.DictReader(file)} == {"'=1+1", "-5"}, name


def test_answers_to_any_query(table, tmp_path, capsys):
    """A model of ranges and a sum: it meets what the answers determine."""
    asked = [
        {"clique": ["a", "b"], "values": table.tolist(), "stddev": 3},
        {"clique": ["a"], "queries": {"a": "prefix"}, "values": table.sum(1).cumsum().tolist(), "stddev": 1},
        {"clique": ["b"], "matrix": [[0, 1, 2]], "values": [float(table.sum(0) @ [0, 1, 2])], "stddev": 1},
    ]
    (tmp_path / "p.json").write_text(json.dumps(asked))
    fitted = ["fit", "p.json", "--domain", "d.json", "--rows", "9", "--quiet"]
    assert main([*fitted, "--regularisation", "none", "--out", "m"]) == 0
    assert np.allclose(pj.load("m/model").marginal(("a", "b")), table, atol=0.5)
    told = pj.load("m").query("a=0")
    assert told.count == pytest.approx(table[0].sum(), abs=5) and told.population is None
    assert str(told).endswith("of the records that were counted for what was published.")
    (tmp_path / "q.csv").write_text('query,value,stddev\n"a=0,b=0",400,3\n"a<2",2600,3\n')
    assert main([*fitted[:1], "q.csv", *fitted[2:], "--out", "n"]) == 2
    assert "or give --total N." in capsys.readouterr().err
    assert not (tmp_path / "n").exists()


FACTS = [
    {"kind": "allowed-set", "clique": ["a", "b"], "combinations": [[0, 0], [0, 1], [1, 1], [2, 0], [2, 2]]},
    {"kind": "structural-zeros", "clique": ["b"], "allowed": [True, True, True]},
    {"kind": "fixed-marginal", "clique": ["a"], "counts": [1000, 1400, 1600]},
]


def test_a_fit_keeps_to_facts_from_a_file(table, capsys):
    """Impossible cells are exact zeros, in the model and in every row; a fixed marginal is met."""
    assert release("--all-kway", "2") == 0
    pathlib.Path("facts.json").write_text(json.dumps(FACTS))
    words = ["fit", "r/measurements.parquet", "--domain", "d.json", "--constraints", "facts.json"]
    assert main([*words, "--rows", "500", "--synthetic", "csv", "--out", "f", "--quiet"]) == 0
    joint = pj.load("f").model.marginal(("a", "b"))
    possible = {tuple(pair) for pair in FACTS[0]["combinations"]}
    assert {tuple(cell) for cell in np.argwhere(joint > 0).tolist()} <= possible
    np.testing.assert_allclose(joint.sum(1), [1000, 1400, 1600], rtol=1e-9)
    with open("f/synthetic.csv") as file:
        rows = [(int(row["a"]), int(row["b"])) for row in csv.DictReader(file)]
    assert len(rows) == 500 and {*rows} <= possible
    record = json.loads(pathlib.Path("f/fit.json").read_text())
    assert (
        record["total"] == 4000
        and record["total_public"]
        and "what is taken to be public" in record["statement"]
    )


def test_answers_keep_to_facts_that_the_counts_contradict(tmp_path, monkeypatch, capsys):
    """The answer is the model's, and not one near the noisy counts; the disagreement is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text('{"a": 2, "b": 2}')
    (tmp_path / "c.csv").write_text("a,b,value\n0,0,50\n0,1,55\n1,0,45\n1,1,50\n")
    for counts, said in (([105, 95], False), ([180, 20], True)):
        (tmp_path / "f.json").write_text(
            json.dumps([{"kind": "fixed-marginal", "clique": ["a"], "counts": counts}])
        )
        words = [
            "fit",
            "c.csv",
            "--domain",
            "d.json",
            "--stddev",
            "5",
            "--constraints",
            "f.json",
            "--out",
            f"o{said}",
        ]
        assert main(words) == 0
        assert ("facts and the noisy counts disagree" in capsys.readouterr().err) is said
        assert main(["query", f"o{said}", "a=0", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)["answers"][0]
        low, high = answer["interval"]
        assert answer["estimate"] == pytest.approx(counts[0], abs=1e-3) and low <= answer["estimate"] <= high
    assert main(["query", "oTrue", "a=0"]) == 0
    assert "Answers keep to fixed-marginal over a" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "facts.json"),
        ("{}", 'facts.json must be a JSON list of constraints, such as [{"kind"'),
        ('["a"]', "entry 1: expected an object whose kind is one of structural-zeros, allowed-set"),
        ('[{"kind": "zeros"}]', "entry 1: expected an object whose kind"),
        (
            '[{"kind": "fixed-marginal", "clique": ["a"]}]',
            "the kind fixed-marginal has clique, counts, got clique",
        ),
        (
            '[{"kind": "fixed-marginal", "clique": ["a"], "counts": ["x"]}]',
            "entry 1: counts are numbers without quotes",
        ),
        (
            '[{"kind": "functional-dependency", "determining": ["a"], "determined": "b", "mapping": [0]}]',
            "entry 1: a mapping is a list of pairs",
        ),
        ('[{"kind": "fixed-marginal", "clique": ["z"], "counts": [1]}]', "'z'"),
        ('[{"kind": "fixed-marginal", "clique": "a", "counts": [1]}]', 'in "clique": ["a"]'),
        (
            '[{"kind": "fixed-marginal", "clique": ["a"], "counts": {"x": 1}}]',
            "counts are a list in the order",
        ),
        (
            '[{"kind": "functional-dependency", "determining": ["a"], "determined": "b", '
            '"mapping": {"0": 1}}]',
            "write the mapping as pairs",
        ),
    ],
)
def test_what_is_no_constraint_is_said(table, capsys, text, said):
    pathlib.Path("counts.csv").write_text("a,value,stddev\n0,10,1\n1,20,1\n2,30,1\n")
    pathlib.Path("facts.json").write_text(text)
    assert main(["fit", "counts.csv", "--domain", "d.json", "--constraints", "facts.json", "--out", "f"]) == 2
    assert said in capsys.readouterr().err and not pathlib.Path("f").exists()


def test_a_dependency_from_a_file(table):
    """b is a function of a, so that the joint has one cell a row; by hand."""
    pathlib.Path("counts.csv").write_text("a,b,value,stddev\n0,,10,1\n1,,20,1\n2,,30,1\n")
    fact = {"kind": "functional-dependency", "determining": ["a"], "determined": "b"}
    pathlib.Path("facts.json").write_text(json.dumps([{**fact, "mapping": [[0, 2], [[1], 0], [2, 0]]}]))
    words = [
        "fit",
        "counts.csv",
        "--domain",
        "d.json",
        "--constraints",
        "facts.json",
        "--regularisation",
        "none",
    ]
    assert main([*words, "--out", "f", "--quiet"]) == 0
    joint = pj.load("f").model.marginal(("a", "b"))
    np.testing.assert_allclose(joint, [[0, 0, 10], [20, 0, 0], [30, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize("oracle", ["host", "contraction", "levels", "message_passing"])
def test_loss_and_oracle_are_those_asked_for(table, oracle):
    """Of three counts of one cell least absolute deviations take the median, least squares the mean."""
    cells = "".join(f"{a},{value},1\n" for a in range(3) for value in [10 + a])
    pathlib.Path("one.csv").write_text("a,value,stddev\n" + cells)
    pathlib.Path("many.json").write_text(
        json.dumps([{"clique": ["a"], "values": [v, 20, 70 - v], "stddev": 1} for v in (10, 20, 60)])
    )
    found = {}
    for loss in ("l1", "l2"):
        words = ["fit", "many.json", "--domain", "d.json", "--loss", loss, "--oracle", oracle]
        words += ["--regularisation", "none", "--total", "90", "--out", loss, "--quiet"]
        assert main(words) == 0
        found[loss] = pj.load(loss).model.marginal(("a",))
    np.testing.assert_allclose(found["l1"], [20, 20, 50], atol=0.2)
    np.testing.assert_allclose(found["l2"], [30, 20, 40], atol=0.01)


def test_what_no_exact_model_holds_is_fitted_approximately_if_asked(table, capsys):
    """Seven attributes of 100 values, all pairs: 10^14 cells, of which the first two are equal."""
    names, rng = [f"x{i}" for i in range(7)], np.random.default_rng(0)
    pathlib.Path("wide.json").write_text(json.dumps(dict.fromkeys(names, 100)))
    lines = []
    for i in range(7):
        for j in range(i):
            for value in range(100):
                other = value if (i, j) == (1, 0) else int(rng.integers(100))
                cells = [str(value) if k == i else str(other) if k == j else "" for k in range(7)]
                lines.append(",".join([*cells, "30", "1"]))
    pathlib.Path("wide.csv").write_text(",".join([*names, "value", "stddev"]) + "\n" + "\n".join(lines))
    words = ["fit", "wide.csv", "--domain", "wide.json", "--total", "3000", "--steps", "10"]
    assert main([*words, "--out", "f"]) == 2
    assert "fit an approximate model: --approximate" in capsys.readouterr().err
    assert main([*words, "--approximate", "--rows", "100", "--out", "f", "--quiet"]) == 0
    saved = pj.load("f")
    assert type(saved.model).__name__ == "RegionModel" and saved.model.total == 3000
    assert main(["query", "f", "x0=1,x1=1"]) == 0
    assert "of 3,000.0 rows" in capsys.readouterr().out
    assert main(["release", "f", "--add-rows", "50"]) == 0
    assert len([*pathlib.Path("f").glob("synthetic*")]) == 2


def test_a_share_of_a_given_total_is_a_share_of_it(table, capsys):
    """The noisy counts add up to 3,900, and 4,000 records are known: shares are of these."""
    pathlib.Path("counts.csv").write_text("a,value,stddev\n0,1300,5\n1,1300,5\n2,1300,5\n")
    assert main(["fit", "counts.csv", "--domain", "d.json", "--total", "4000", "--out", "f", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["query", "f", "a=0", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["answers"]
    np.testing.assert_allclose(np.array(found["interval"]) / 4000, found["share_interval"], rtol=1e-9)
