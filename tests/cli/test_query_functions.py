"""`pgmjax query` of a perturbed table: functions of a record, means, and proper answers."""

import json

import numpy as np
import pandas
import pytest

import pgmjax as pj
from pgmjax.cli import main


@pytest.fixture(scope="module")
def place(small_domain, small_columns, tmp_path_factory):
    """A table of 400 records perturbed with much budget, in codes and in bits, and a workload."""
    place = tmp_path_factory.mktemp("functions")
    pandas.DataFrame(small_columns).to_csv(place / "t.csv", index=False)
    small_domain.write(place / "d.json")
    for name, more in (("codes", []), ("bits", ["--encoding", "optimal-unary"])):
        words = ["perturb", place / "t.csv", "--domain", place / "d.json", "--groups", "age,sex"]
        words += ["--groups", "region", "--epsilon", "8", "--relation", "replace-one", "--quiet"]
        words += ["--insecure-seed", "3", "--out", place / name, *more]
        assert main([*map(str, words)]) == 0
    asked = [
        {"clique": ["age", "sex"], "queries": {"age": {"mean": [9, 29, 52.5, 82.5, 0]}, "sex": "identity"}},
        {"clique": ["region"], "queries": {"region": "mean"}},
    ]
    (place / "w.json").write_text(json.dumps(asked))
    return place


def ask(capsys, *words):
    assert main(["query", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_workload_gives_sums_of_any_functions(place, small_domain, capsys):
    told = ask(capsys, place / "codes", "--workload", place / "w.json")
    table = pj.local.load(place / "codes" / "table")
    ages = pj.queries.Product({"age": pj.queries.mean([9, 29, 52.5, 82.5, 0]), "sex": pj.queries.identity()})
    universe = pj.local.Universe(small_domain, ["age", "sex"])
    found = pj.local.answer_queries(table.columns[0], universe, ages).times(400)
    women, men, regions = told["answers"]
    assert [women["estimate"], men["estimate"]] == pytest.approx(found.value.tolist())
    assert [women["stddev"], men["stddev"]] == pytest.approx(found.stddev.tolist())
    assert men["query"] == "age (mean),sex=Male" and men["interval"][0] < men["estimate"] < men["interval"][1]
    assert regions["interval"][1] - regions["interval"][0] < 800
    assert main(["query", str(place / "codes"), "--workload", str(place / "w.json")]) == 0
    assert "\nSums over all 400 rows" in capsys.readouterr().out


def test_a_mean_of_all_rows(place, small_domain, small_columns, capsys):
    told = ask(capsys, place / "codes", "--mean", "REGION")
    assert told["mean"] == "region" and told["reach_within_bins"] == 0
    assert told["estimate"] == pytest.approx(np.mean(small_columns["region"]), abs=5 * told["stddev"])
    assert main(["query", str(place / "codes"), "--mean", "region"]) == 0
    assert "mean of region: " in capsys.readouterr().out


def test_proper_answers_are_those_of_some_table(place, capsys):
    for words in (["sex=Male,age<40"], ["--marginal", "region"]):
        plain, proper = (ask(capsys, place / "codes", *words, *more) for more in ([], ["--proper"]))
        counts, nearest = (
            np.ravel([x["estimate"] for x in each.get("answers", [each])]) for each in (plain, proper)
        )
        assert np.all(nearest == np.clip(np.rint(counts), 0, 400)) and np.any(nearest != counts)
        # the half-width is one about the unbiased answer
        ends = [[x["interval"] for x in each.get("answers", [each])] for each in (plain, proper)]
        assert ends[0] == ends[1]
    asked = place / "codes", "--workload", place / "w.json"
    plain, proper = (ask(capsys, *asked, *more)["answers"] for more in ([], ["--proper"]))
    for one, other in zip(plain, proper, strict=True):
        step = 0.5 if "age" in one["query"] else 1
        assert other["estimate"] % step == pytest.approx(0, abs=1e-6)
        assert abs(other["estimate"] - one["estimate"]) <= step and other["interval"] == one["interval"]


@pytest.mark.parametrize(
    ("folder", "words", "said"),
    [
        ("codes", ["--mean", "age"], "Not every value of age is a number"),
        ("codes", ["--mean", "sex"], "its values are words"),
        ("codes", ["--mean", "region", "sex=Male"], "--mean is of all rows"),
        ("codes", ["--mean", "region", "--by", "sex"], "--mean is of all rows"),
        ("codes", ["--workload", "w.json", "--marginal", "sex"], "--workload stands alone"),
        ("codes", ["--workload", "none.json"], "none.json"),
        ("codes", ["--workload", "apart.json"], "were not perturbed together"),
        ("codes", ["--workload", "outside.json"], "income"),
        ("bits", ["--mean", "region"], "--encoding direct"),
    ],
)
def test_what_cannot_be_asked_is_refused(folder, words, said, place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    (place / "apart.json").write_text(json.dumps([["age", "region"]]))
    (place / "outside.json").write_text(json.dumps([["income>50K, nets"]]))
    assert main(["query", folder, *words]) == 2
    out, err = capsys.readouterr()
    assert said in err and not out


@pytest.mark.parametrize("words", [["--workload", "w.json"], ["--proper", "sex=Male"]])
def test_they_are_not_for_releases(words, small_release, tmp_path, capsys):
    from pgmjax.release import folder

    place = folder.write(small_release, tmp_path / "r", rows=folder.SyntheticRows(1), show_progress=False)
    assert main(["query", str(place), *words]) == 2
    assert f"{words[0]} is for a perturbed table" in capsys.readouterr().err


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """The pairs of 40 vertices of two groups, perturbed in their order and sorted, and the edges."""
    place, rng = tmp_path_factory.mktemp("graph"), np.random.default_rng(0)
    first, second = np.triu_indices(40, 1)
    edges = (rng.random(len(first)) < np.where((first < 20) == (second < 20), 0.6, 0.1)).astype(int)
    for name, sizes, more in (
        ("public", {"edge": 2}, ["--row-order", "public"]),
        ("sorted", {"edge": 2}, ["--row-order", "sorted"]),
        ("three", {"edge": 3}, ["--row-order", "public"]),
        ("bits", {"edge": 2}, ["--row-order", "public", "--encoding", "symmetric-unary"]),
        ("two", {"edge": 2, "other": 2}, ["--row-order", "public"]),
    ):
        pandas.DataFrame(dict.fromkeys(sizes, edges)).to_csv(place / "g.csv", index=False)
        (place / "d.json").write_text(json.dumps(sizes))
        words = ["perturb", place / "g.csv", "--domain", place / "d.json", "--each", "--epsilon", "4"]
        words += ["--relation", "replace-one", "--quiet", "--insecure-seed", "1", *more]
        assert main([*map(str, words), "--out", str(place / name)]) == 0
    return place, edges[(first < 20) & (second >= 20)].sum()


def test_cuts_of_a_graph(graph, capsys):
    place, crossing = graph
    half = ",".join(map(str, range(20)))
    told = ask(capsys, place / "public", "--cut", half, "--cut", "3")
    first, one = told["answers"]
    # the closed form: pairs across times e^4 / (e^4 - 1)^2
    assert first["stddev"] == pytest.approx(np.sqrt(400 * np.exp(4) / np.expm1(4) ** 2))
    assert abs(first["estimate"] - crossing) < 4 * first["stddev"] and told["vertices"] == 40
    assert one["stddev"] < first["stddev"] and one["interval"][0] < one["estimate"] < one["interval"][1]
    assert first["query"] == f"edges between {half} and all others"
    proper = ask(capsys, place / "public", "--cut", half, "--cut", "3", "--proper")["answers"]
    assert [each["interval"] for each in proper] == [first["interval"], one["interval"]]
    assert [each["estimate"] for each in proper] == [round(first["estimate"]), max(round(one["estimate"]), 0)]
    record = json.loads((place / "public" / "release.json").read_text())
    assert record["row_order"] == "table" and "promised" in record["statement"]
    assert main(["query", str(place / "public"), "--cut", "0,1"]) == 0
    assert "edges between 0,1 and all others: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("folder", "words", "said"),
    [
        (
            "sorted",
            ["--cut", "0"],
            "--row-order public and --encoding direct. This table has edge, with rows sorted",
        ),
        ("three", ["--cut", "0"], "This table has edge, with rows in their own order"),
        ("bits", ["--cut", "0"], "--encoding direct"),
        ("two", ["--cut", "0"], "This table has edge, other"),
        ("public", ["--cut", "0,40"], "from 0 to 39"),
        ("public", ["--cut", "0,0"], "each once"),
        ("public", ["--cut", "a"], "'a'"),
        ("public", ["--cut", ",".join(map(str, range(40)))], "not all"),
        ("public", ["--cut", "0", "edge=1"], "--cut stands alone"),
        ("public", ["--cut", "0", "--mean", "edge"], "--cut stands alone"),
    ],
)
def test_cuts_that_cannot_be_answered(graph, capsys, folder, words, said):
    assert main(["query", str(graph[0] / folder), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_cut_is_of_a_graph(place, capsys):
    assert main(["query", str(place / "codes"), "--cut", "0"]) == 2
    assert "400 is no number of pairs" in capsys.readouterr().err


def test_proper_sums_of_decimals_and_of_what_has_no_common_step(place, capsys):
    decimal = [
        {
            "clique": ["age", "sex"],
            "queries": {"age": {"mean": [0.1, 0.2, 0.3, 0, 0]}, "sex": {"mean": [0.3, 0.7]}},
        }
    ]
    (place / "decimal.json").write_text(json.dumps(decimal))
    asked = place / "codes", "--workload", place / "decimal.json"
    ((plain,), (proper,)) = (ask(capsys, *asked, *more)["answers"] for more in ([], ["--proper"]))
    assert abs(proper["estimate"] - plain["estimate"]) <= 0.01
    assert 100 * proper["estimate"] == pytest.approx(round(100 * proper["estimate"]), abs=1e-6)
    decimal[0]["queries"]["age"]["mean"] = [0.123456789, 0.2, 0.3, 0, 0]
    (place / "decimal.json").write_text(json.dumps(decimal))
    assert main(["query", *map(str, asked), "--proper"]) == 2
    assert "leave it out" in capsys.readouterr().err

    decimal[0]["queries"]["age"]["mean"], decimal[0]["queries"]["sex"]["mean"] = (
        [0, 1 / 3, 2 / 3, 1, 0],
        [1, 1],
    )
    (place / "decimal.json").write_text(json.dumps(decimal))
    (thirds,) = ask(capsys, *asked, "--proper")["answers"]
    assert 3 * thirds["estimate"] == pytest.approx(round(3 * thirds["estimate"]), abs=1e-6)
