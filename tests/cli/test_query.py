"""`pgmjax query`: answers agree with the model; what cannot be answered is said."""

import json

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.privacy import SeededBackend
from pgmjax.queries import text as query_text
from pgmjax.release import folder as release_folder
from pgmjax.release.folder import SyntheticRows


@pytest.fixture(scope="module")
def folder(small_release, tmp_path_factory):
    out = tmp_path_factory.mktemp("query") / "r"
    return release_folder.write(small_release, out, rows=SyntheticRows(1), show_progress=False)


@pytest.mark.parametrize("text", ["sex=Male,age<40", "region>=1", "'income>50K, net'='yes & more'"])
def test_condition(text, folder, small_release, capsys):
    """All are determined: marginals were measured, and prefixes of ages by sex."""
    assert main(["query", str(folder), text]) == 0
    asked = query_text.parse(text, small_release.domain)
    expected = np.ravel(small_release.model.answer(asked))[0]
    known = small_release.estimates.unbiased(asked).intervals[0]
    known = min(known[0], expected), max(known[1], expected)
    total = small_release.model.total
    low, high = small_release.estimates.shares(asked, small_release.estimates.unbiased(asked))[0]
    interval = f"95% interval {known[0]:,.1f} to {known[1]:,.1f}, as a share {low:.2%} to {high:.2%}"
    share = np.clip(expected / total, low, high)
    shown = f"{text}: {expected:,.1f} of {total:,.1f} rows ({share:.2%}); {interval}"
    assert capsys.readouterr().out.splitlines()[:-1] == [shown]


def test_what_is_not_determined_says_so(folder, capsys):
    assert main(["query", str(folder), "sex=Male,'income>50K, net'='yes & more'"]) == 0
    assert "no interval, because what was measured does not determine it" in capsys.readouterr().out


def test_what_is_not_determined_gets_an_interval_of_draws(folder, capsys):
    """That of `estimate`, and only where asked for and nothing better is known."""
    asked, sure = "sex=Male,'income>50K, net'='yes & more'", "sex=Male,age<40"
    assert main(["query", str(folder), asked, sure, "--draws", "20"]) == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert "95% interval of 20 draws" in first and "if the model is right about what was not" in first
    assert "draws" not in second and "95% interval" in second
    assert main(["query", str(folder), asked, sure, "--draws", "20", "--json"]) == 0
    one, two = json.loads(capsys.readouterr().out)["answers"]
    saved = pj.load(folder)
    query = query_text.parse(asked, saved.model.domain)
    found = saved.estimate(lambda model: model.answer(query), 20)
    low, high = (float(np.ravel(end)[0]) for end in found.interval)
    assert one["drawn_interval"] == pytest.approx([max(low, 0.0), high]) and found.rests_on_model
    assert not one["determined"] and two["determined"] and two["drawn_interval"] is None
    assert main(["query", str(folder), "--marginal", "sex,'income>50K, net'", "--draws", "5"]) == 2
    capsys.readouterr()
    assert main(["query", str(folder), "--marginal", 'sex,"income>50K, net"', "--draws", "5", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)
    assert np.shape(cells["drawn_low"]) == np.shape(cells["estimate"])
    assert (np.array(cells["drawn_low"]) <= np.array(cells["drawn_high"])).all()
    assert main(["query", str(folder), asked, "--draws", "1"]) == 2
    assert "--draws" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["linear", "laplace", "bootstrap"])
def test_error_bars_are_those_of_the_method(method, tmp_path, capsys):
    """As `uncertainty.error_bars` gives them for the fit in memory, pulled or not."""
    domain, rng = pj.Domain({"a": 12, "b": 12, "c": 2}), np.random.default_rng(0)
    data = pj.Dataset.from_columns(domain, {name: rng.integers(0, domain[name], 4000) for name in domain})
    estimator = pj.Estimator(regularisation="none" if method == "laplace" else "auto", progress=False)
    backend = SeededBackend(1, insecure=True)
    mechanism = pj.mechanisms.Marginals(
        epsilon=1, relation="replace-one", estimator=estimator, backend=backend
    )
    release = mechanism.run(data, pj.Workload([["a", "b"], ["c"]]))
    out = str(release_folder.write(release, tmp_path / "r", rows=SyntheticRows(1), show_progress=False))
    asked = [("a", "b")]
    bars = pj.uncertainty.error_bars(
        release.fit, release.measurements, asked, method=method, total=release.model.total
    )
    assert main(["query", out, "--marginal", "a,b", "--error-bars", method, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["method"] == method and told["answers"][13]["query"] == "a=1,b=1"
    for name, expected in (("estimate", bars.values), ("stddev", bars.stddevs), ("bias", bars.biases)):
        found = np.array([np.nan if each[name] is None else each[name] for each in told["answers"]])
        np.testing.assert_allclose(found, expected, rtol=0.02, atol=1e-9)
    assert (bars.biases > 0).any() == (method == "bootstrap")
    assert main(["query", out, "a=0,c=1", "b=0", "--error-bars", method]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert "no interval, because what was measured does not determine it" in first
    assert ("95% interval" in second) == (method != "bootstrap") and "standard error" in second
    if method == "bootstrap":
        assert "over 100 determined answers" in second


@pytest.mark.parametrize(
    "words, message",
    [
        (["sex=Male", "--error-bars", "laplace"], "this one was pulled towards independence"),
        (["sex=Male", "--error-bars", "exact"], "invalid choice"),
        (["sex=Male", "--error-bars", "linear", "--draws", "5"], "give one of them"),
    ],
)
def test_error_bars_that_cannot_be(folder, capsys, words, message):
    assert main(["query", str(folder), *words]) == 2
    said = capsys.readouterr()
    assert message in said.err and not said.out


def test_only_least_squares_is_bootstrapped(tmp_path, capsys):
    domain = pj.Domain({"a": 3, "b": 2})
    data = pj.Dataset.from_columns(domain, {"a": [0, 1, 1, 2] * 50, "b": [0, 1] * 100})
    mechanism = pj.mechanisms.MaximumEntropy(
        epsilon=1, relation="replace-one", backend=SeededBackend(1, insecure=True)
    )
    release = mechanism.run(data, pj.Workload([["a", "b"]]))
    out = str(release_folder.write(release, tmp_path / "r", rows=SyntheticRows(1), show_progress=False))
    assert main(["query", out, "a=1", "--error-bars", "bootstrap"]) == 2
    assert "not fitted by least squares: take linear" in capsys.readouterr().err
    assert main(["query", out, "a=1", "--error-bars", "linear"]) == 0
    assert "95% interval" in capsys.readouterr().out


def test_a_bound_within_a_bin_is_interpolated_and_says_so(folder, small_release, capsys):
    low, high = small_release.domain.attribute("age").bins[1:3]
    middle = (3 * low + high) / 4
    assert main(["query", str(folder), f"Sex=male,age<{middle:g}", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    below, within = (
        small_release.model.answer(query_text.parse(f"sex=Male,age<{edge:g}", small_release.domain)).item()
        for edge in (low, high)
    )
    assert answer["estimate"] == pytest.approx(below + (within - below) / 4)
    assert answer["interpolated"] == [
        f"Interpolated: 25 % of [{low:g}, {high:g}) of 'age' is counted, as if its values were spread evenly."
    ]
    assert answer["interval"][0] <= answer["estimate"] <= answer["interval"][1]
    assert main(["query", str(folder), f"age>={middle:g}"]) == 0
    assert "75 % of [" in (said := capsys.readouterr().out) and query_text.NOT_COVERED in said


def test_conditions_as_json(folder, small_release, capsys):
    texts = ["sex=Male", "sex=Female"]
    assert main(["query", str(folder), *texts, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [a["query"] for a in answer["answers"]] == texts
    assert all(a["interval"][0] <= a["estimate"] <= a["interval"][1] for a in answer["answers"])
    assert answer["total"] == small_release.model.total


def test_marginal_as_table(folder, small_release, capsys):
    assert main(["query", str(folder), "--marginal", "sex, age"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    ends = ["low", "high", "share_low", "share_high"]
    assert lines[0] == ["sex", "age", "estimate", *ends] and lines[1][:2] == ["Female", "[0, 18)"]
    assert len(lines.pop()) == 1
    values, low, high = np.array([[float(text) for text in line[2:5]] for line in lines[1:]]).T
    assert all(line[5].endswith("%") and line[6].endswith("%") for line in lines[1:])
    fitted = small_release.model.marginal(("sex", "age")).ravel()
    np.testing.assert_allclose(values, fitted, atol=0.051)
    assert (low <= values).all() and (values <= high).all()
    assert main(["query", str(folder), "--marginal", 'sex, "income>50K, net"']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t") == ["sex", "income>50K, net", "estimate"]
    assert lines[-2].startswith("These counts have no interval")


def test_marginal_as_json_with_a_quoted_name(folder, small_release, capsys):
    assert main(["query", str(folder), "--marginal", 'sex,"income>50K, net"', "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    clique = ("sex", "income>50K, net")
    assert answer["values"] == {"sex": ["Female", "Male"], "income>50K, net": ["<no>", "yes & more"]}
    np.testing.assert_allclose(answer["estimate"], small_release.model.marginal(clique))
    assert not answer["determined"] and answer["rests_on"] == "the model alone" and "low" not in answer


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("asked", [["a=1"], ["--marginal", "a"]])
@pytest.mark.parametrize("kind", ["release", "prior", "fit", "perturbed"])
def test_answers_that_must_not_be_published_say_so(folders, kind, asked, secure, capsys):
    place = str(folders[kind, secure])
    assert main(["query", place, *asked]) == 0
    said = capsys.readouterr()
    assert (
        said.err.startswith("pgmjax: NOT FOR PUBLICATION: the noise of ") and said.err.count("\n") == 1
    ) or (secure and said.err == "")
    assert main(["query", place, *asked, "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["secure"] is secure and told.err == said.err


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """What can be asked, of noise that protects and of a seed: each kind by the source of one input."""
    place, found = tmp_path_factory.mktemp("folders"), {}
    data = pj.Dataset.from_columns(pj.Domain({"a": 3}), {"a": [0, 1, 1, 2] * 50})
    secure = pj.mechanisms.Marginals(epsilon=1, relation="replace-one").run(data, pj.Workload([["a"]]))
    data.domain.write(place / "d.json")
    for word, seed in ((True, []), (False, ["--insecure-seed", "3"])):
        source = SeededBackend(3, insecure=True) if seed else None
        given = {"epsilon": 1, "relation": "replace-one", "backend": source}
        release = pj.mechanisms.Marginals(**given).run(data, pj.Workload([["a"]]))
        made = {kind: place / f"{kind}-{word}" for kind in ("release", "prior", "fit", "perturbed")}
        release.save(made["release"])
        secure.with_prior(release.model).save(made["prior"])
        counts = made["release"] / "measurements.parquet"
        call = ["fit", str(counts), "--domain", str(place / "d.json"), "--out", str(made["fit"])]
        assert main([*call, "--quiet"]) == 0
        (place / "t.csv").write_text("a\n" + "0\n1\n1\n2\n" * 50)
        call = [
            "perturb",
            str(place / "t.csv"),
            "--domain",
            str(place / "d.json"),
            "--each",
            "--epsilon",
            "1",
        ]
        call += ["--relation", "replace-one", "--out", str(made["perturbed"]), "--quiet", *seed]
        assert main(call) == 0
        found |= {(kind, word): path for kind, path in made.items()}
    return found


BAD = [
    ([], "Give a condition"),
    (["sex=Male", "--marginal", "age"], "not both"),
    (["sex=Other"], "'sex'"),
    (["age<=18"], "write age<18 for age<=18, or age>=18"),
    (["--marginal", "sex,height"], "height"),
    (["--marginal", "sex,sex"], "twice"),
    (["--marginal", ","], "--marginal"),
    (["--marginal", "sex=Male"], "give it without --marginal, or give --marginal sex."),
    (["--nonsense"], "--nonsense"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=str)
def test_bad_questions(words, message, folder, capsys):
    assert main(["query", str(folder), *words]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.out == "" and "Traceback" not in said.err


def test_no_release_there(tmp_path, capsys):
    assert main(["query", str(tmp_path / "none"), "sex=Male"]) == 2
    assert "folder" in capsys.readouterr().err
    assert main(["query", str(tmp_path), "sex=Male"]) == 2
    assert "release.json" in capsys.readouterr().err


def test_what_is_given_for_a_release(folder, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("sex\nMale\n")
    for place, said in (
        (folder / "report.html", f"Give the folder: {folder}."),
        (tmp_path / "t.csv", "This is a table: release it first"),
    ):
        assert main(["query", str(place), "sex=Male"]) == 2
        assert said in capsys.readouterr().err
    assert main(["release", str(tmp_path / "t.csv"), "--add-rows", "100"]) == 2
    assert "in place of the table: pgmjax release DIR --add-rows 100." in capsys.readouterr().err
    assert main(["look", str(tmp_path / "t.csv"), str(folder)]) == 2
    assert "the folder of the release stands before its table" in capsys.readouterr().err
    assert main(["look", str(folder), str(tmp_path / "t.csv")]) == 2
    assert "t.csv must be the table that the release was made of." in capsys.readouterr().err


def test_corrupt_model(folder, tmp_path, capsys):
    import shutil

    shutil.copytree(folder, tmp_path / "r")
    (tmp_path / "r" / "model" / "model.npz").write_bytes(b"not a zip file")
    assert main(["query", str(tmp_path / "r"), "sex=Male"]) == 2
    assert "corrupt" in capsys.readouterr().err


def test_a_shell_that_keeps_its_quotes_and_names_that_are_joined_otherwise(folder, capsys):
    for text in ("sex=Male,age<40", "'sex=Male,age<40'"):
        assert main(["query", str(folder), text, "--json"]) == 0
    one, two = (json.loads(line)["answers"][0]["estimate"] for line in capsys.readouterr().out.splitlines())
    assert one == two
    for text in ("age,sex", "~ age + sex", "age*sex", "age:sex", "[age, SEX]", "('age', \"sex\")"):
        assert main(["query", str(folder), "--marginal", text]) == 0
    assert len({*capsys.readouterr().out.split("age\tsex\t")}) == 2  # an empty one and one table
    assert main(["query", str(folder), str(folder), "sex=Male"]) == 2
    assert "one is queried at a time" in capsys.readouterr().err


def test_a_release_that_is_not_finished_is_told(tmp_path, capsys):
    (tmp_path / "r.partial").mkdir()
    assert main(["query", str(tmp_path / "r"), "sex=Male"]) == 2
    assert "is not finished: go on with --resume" in capsys.readouterr().err


def test_means_by_group(folder, capsys):
    """Those of `mean`, of the records that a condition counts; a group without an interval says why."""
    saved = pj.load(folder)
    assert main(["query", str(folder), "--mean", "AGE", "--by", "sex", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = saved.mean("age", "sex")
    assert told["answers"][0]["means"] == found.estimates.tolist()
    assert told["answers"][0]["intervals"] == found.intervals.tolist() and found.determined.all()
    assert main(["query", str(folder), "--mean", "age", "sex=Male"]) == 0
    first, *more = capsys.readouterr().out.splitlines()
    assert first.startswith("mean of age where sex=Male: ") and f"{found.estimates[1]:,.6g}" in first
    assert "Finer bins narrow it." in more[0]
    assert main(["query", str(folder), "--mean", "age", "--by", '"income>50K, net"', "--draws", "5"]) == 0
    assert "5 draws hold if the model is right" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "sex"], "give --mean NAME too"),
        (["--mean", "sex"], "'sex'"),
        (["--mean", "age", "--marginal", "sex"], "--mean stands without --marginal"),
    ],
)
def test_what_is_no_mean_is_refused(words, said, folder, capsys):
    assert main(["query", str(folder), *words]) == 2
    assert said in capsys.readouterr().err
