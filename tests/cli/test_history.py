"""`pgmjax history ask`: each method against its closed form or the papers' numbers, and what is refused."""

import json

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main

SIZES = {"a": 4, "b": 3}
LOW, SMALL = np.arange(12) // 3 <= 1, np.arange(12) % 3 == 0
ROWS = np.stack([np.ones(12), LOW, SMALL, LOW & SMALL]).astype(float)
VALUES, STDDEVS = np.array([100.0, 61, 30, 19]), np.array([2.0, 5, 4, 6])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pj.Domain(SIZES).write("d.json")
    asked = ["*", "a<=1", "b=0", "a<=1,b=0"]
    lines = [f'"{text}",{value},{stddev}' for text, value, stddev in zip(asked, VALUES, STDDEVS, strict=True)]
    (tmp_path / "h.csv").write_text("\n".join(["query,value,stddev", *lines]) + "\n")
    return tmp_path


def answers(capsys, *words):
    assert main(["history", "ask", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_kernel_pca_and_ridge_are_the_closed_form(folder, capsys):
    query = (np.arange(12) // 3 == 0).astype(float)
    kernel = ROWS @ ROWS.T / 12 + np.diag(STDDEVS**2) / 7.0**2
    weights = np.linalg.solve(kernel, ROWS @ query / 12)
    for method in ("kernel-pca", "ridge"):
        found = answers(capsys, "h.csv", "a=0", "--domain", "d.json", "--alpha", "7", "--method", method)
        (one,) = found["answers"]
        assert one["estimate"] == pytest.approx(weights @ VALUES, rel=1e-9)
        assert one["stddev"] == pytest.approx(np.sqrt(weights**2 @ STDDEVS**2), rel=1e-9)
        distance = np.linalg.norm(query - weights @ ROWS) / np.sqrt(12)
        assert one["bias"] == pytest.approx(7 * distance, rel=1e-9) and found["alpha"] == 7


def test_alpha_and_the_prior_by_cross_validation(folder, capsys):
    """A table far from uniform: the history's own one-way tables predict its other answers better."""
    rng = np.random.default_rng(0)
    shares = [np.array([0.7, 0.2, 0.06, 0.04]), np.array([0.8, 0.15, 0.05])]
    cells = 10_000 * np.outer(*shares)
    listed = [
        {"clique": [name], "values": (10_000 * share).tolist(), "stddev": 5}
        for name, share in zip(SIZES, shares, strict=True)
    ]
    for _ in range(20):
        (a, b), (c, d) = (sorted(rng.integers(0, n, 2).tolist()) for n in (4, 3))
        value = cells[a : b + 1, c : d + 1].sum() + rng.normal(0, 200)
        queries = {"a": {"range": [a, b]}, "b": {"range": [c, d]}}
        listed.append({"clique": ["a", "b"], "queries": queries, "values": [value], "stddev": 200})
    (folder / "h.json").write_text(json.dumps(listed))
    found = answers(capsys, "h.json", "--marginal", "a,b", "--domain", "d.json", "--total", "10000")
    assert found["prior"] == "one-way tables" and found["squared_error"] < 200**2
    values = np.array([one["estimate"] for one in found["answers"]])
    plain = answers(
        capsys,
        *("h.json", "--marginal", "a,b", "--domain", "d.json", "--total", "10000", "--prior", "uniform"),
    )
    uniform = np.array([one["estimate"] for one in plain["answers"]])
    assert np.linalg.norm(values - cells.ravel()) < 0.5 * np.linalg.norm(uniform - cells.ravel())
    assert [one["query"] for one in found["answers"]][:2] == ["a=0,b=0", "a=0,b=1"]


def test_maximum_entropy_meets_consistent_answers(folder, capsys):
    words = ("h.csv", "a<=1,b=0", "a<=1", "--domain", "d.json", "--method", "maximum-entropy")
    found = answers(capsys, *words, "--alpha", "1000", "--total", "100")
    assert [one["estimate"] for one in found["answers"]] == pytest.approx([19, 61], abs=0.05)
    assert found["gap"] < 1e-3 and found["total"] == 100


def test_the_worked_example_of_paper_003(folder, capsys):
    """x_hat, interval and P(theta > 0) as in the paper's section 5.2, corrected; the posterior by MCMC."""
    rows = [(1, 1, 0, 0), (0, 0, 1, 1), (0, 0, 0, 1), (0, 0, 1, 0), (0, 1, 0, 1), (2, 1, 0, 0), (0, 0, 2, -1)]
    rows.append((0, -1, 0, 1))
    scales = np.array([1, 1, 1, 1, 1, 2, 2, 1]) / [0.05, 0.1, 0.05, 0.1, 0.1, 0.05, 0.05, 0.1]
    values = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]
    history = [
        {"clique": ["x"], "matrix": [row], "values": [y], "stddev": b * 2**0.5, "noise": "laplace"}
        for row, y, b in zip(rows, values, scales.tolist(), strict=True)
    ]
    (folder / "h.json").write_text(json.dumps(history))
    (folder / "d.json").write_text('{"x": 4}')
    (folder / "w.json").write_text('[{"clique": ["x"], "matrix": [[1, 0, 1, 0]]}]')
    words = ("h.json", "--workload", "w.json", "--domain", "d.json", "--at-least", "0")
    (one,) = answers(capsys, *words, "--method", "best-linear")["answers"]
    assert one["estimate"] == pytest.approx(42.0138030194, abs=1e-9)
    assert one["stddev"] == pytest.approx(23.546763, abs=1e-5)
    assert one["interval"] == pytest.approx([-5.3695, 89.3971], abs=1e-3)
    assert one["probability"] == pytest.approx(0.961904, abs=1e-5) and one["holds"] is True
    (one,) = answers(capsys, *words, "--method", "posterior")["answers"]
    assert one["estimate"] == pytest.approx(43.61, abs=0.3)
    assert one["interval"] == pytest.approx([6.55, 79.58], abs=1.5)
    assert one["probability"] == pytest.approx(0.987, abs=0.004)
    assert main(["history", "ask", *words, "--method", "best-linear"]) == 0
    said = capsys.readouterr().out
    assert "95% interval -5.4 to 89.4, claim 96.2%: it holds" in said and "taken to be continuous" in said


def test_scales_give_the_distribution(folder, capsys):
    text = 'query,value,scale,noise\n"a=0",40,10,laplace\n'
    (folder / "h.csv").write_text(text)
    words = ("h.csv", "a=0", "--domain", "d.json", "--method", "best-linear")
    (one,) = answers(capsys, *words)["answers"]
    q = np.exp(-0.1)
    assert one["stddev"] == pytest.approx(np.sqrt(2 * q) / (1 - q), rel=1e-9)
    assert one["interval"] == pytest.approx([11, 70], abs=1e-4)  # P(N < -30) + P(N > 29) = 0.0498


def test_the_folder_of_a_session(folder, capsys):
    measured = pj.LinearMeasurement(("a",), [40, 30, 20, 10], stddev=2.0)
    pj.history.History(pj.Domain(SIZES), [measured], secure=False).save("history")
    assert main(["history", "ask", "history", "--query", "a<=1", "--alpha", "infinity"]) == 0
    said = capsys.readouterr()
    assert "a<=1: 70.0" in said.out and "alpha inf" in said.out
    assert "NOT FOR PUBLICATION" in said.err


def test_a_trained_model_answers_by_weighted_least_squares(folder, capsys):
    """The encoding by cells and the linear learner: the least-norm solution of weighted least squares."""
    words = ["history", "train", "h.csv", "--domain", "d.json", "--out", "trained"]
    assert main(words) == 0
    assert "linear on 4 noisy answers" in capsys.readouterr().out
    found = answers(capsys, "trained", "a<=1,b>0", "a=3", "--level", "0.9")
    cells = np.linalg.pinv(ROWS / STDDEVS[:, None]) @ (VALUES / STDDEVS)
    queries = np.stack([LOW & ~SMALL, np.arange(12) // 3 == 3]).astype(float)
    assert [one["estimate"] for one in found["answers"]] == pytest.approx(queries @ cells, rel=1e-6)
    assert found["answers_used"] == 4 and found["learner"] == "linear" and found["level"] == 0.9
    predictor = pj.load("trained")
    assert predictor.predict(pj.queries.marginal(["a"]))[3] == found["answers"][1]["estimate"]
    assert main(["history", "ask", "trained", "--marginal", "a,b"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 13 and said[-1] == "Predicted by linear, trained on 4 noisy answers."


def test_noise_of_one_scale_has_a_bound(folder, capsys):
    lines = [*(f'"a={code}",{10 * code},5,laplace' for code in range(4)), '"b=0",20,5,laplace']
    (folder / "h.csv").write_text("\n".join(["query,value,scale,noise", *lines]) + "\n")
    assert main(["history", "train", "h.csv", "--domain", "d.json", "--out", "trained", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["learner"] == "linear"
    asked = answers(capsys, "trained", "a<=1", "a=0,b=0")["answers"]
    expected = pj.learning.predictor.noise_bound(pj.privacy.DiscreteLaplace(5.0), np.array([1.0, 1.0]))
    assert asked[0]["noise"] == pytest.approx(expected) and asked[0]["determined"]
    assert not asked[1]["determined"]
    assert main(["history", "ask", "trained", "a<=1", "a=0,b=0"]) == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert "of which noise at most" in first and "not determined by the history" in second


def test_of_several_learners_the_best_one_is_trained(folder, capsys):
    """Answers along a wave, which a line misses: held-out answers tell."""
    rng = np.random.default_rng(0)
    pj.Domain({"x": 60}).write("x.json")
    kept = rng.permutation(60)[:45]
    wave = 1000 + 200 * np.sin(np.arange(60) / 8)
    lines = [f'"x={code}",{wave[code] + rng.normal(0, 5):.2f},5' for code in kept]
    (folder / "x.csv").write_text("\n".join(["query,value,stddev", *lines]) + "\n")
    words = ["history", "train", "x.csv", "--domain", "x.json", "--encoding", "corners", "--out", "trained"]
    learners = ["--learner", "linear", "--learner", '{"name": "gaussian-basis", "width": 0.3}']
    assert main([*words, *learners, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    errors = {one["learner"]: one["error"] for one in told["tried"]}
    assert told["learner"] == "gaussian-basis" == min(errors, key=errors.get)
    left = [code for code in range(60) if code not in kept]
    found = answers(capsys, "trained", *[f"x={code}" for code in left])["answers"]
    missed = [one["estimate"] - wave[code] for one, code in zip(found, left, strict=True)]
    assert np.sqrt(np.mean(np.square(missed))) < 4 * max(errors["gaussian-basis"], 5)


def test_what_repeatable_noise_taught_says_so(folder, capsys):
    measured = pj.LinearMeasurement(("a",), [40, 30, 20, 10], stddev=2.0)
    pj.history.History(pj.Domain(SIZES), [measured], secure=False).save("history")
    assert main(["history", "train", "history", "--out", "trained", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["secure"] is False
    assert main(["history", "ask", "trained", "a=1", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["secure"] is False and "NOT FOR PUBLICATION" in said.err


@pytest.mark.parametrize(
    "words, message",
    [
        (["--learner", "forest"], "--learner"),
        (["--learner", "sklearn.Nothing"], "Nothing"),
        (["--learner", "sklearn.RandomForest"], "Did you mean 'sklearn.RandomForestRegressor'?"),
        (["--learner", '{"name": "ridge", "penalty": -1}'], "penalty"),
        (["--learner", "linear", "--learner", "ridge"], "cross-validation in 5 parts"),
        (["--learner", "linear", "--learner", "ridge", "--folds", "1"], "--folds"),
        (["--encoding", "words"], "invalid choice"),
        (["--out", "d.json"], "exists"),
        (["--stddev", "3"], "has a column stddev"),
        (["--seed", "-1"], "seed"),
        (["--domain", "other.json"], "'a'"),
    ],
)
def test_a_model_that_cannot_be_trained(folder, capsys, words, message):
    (folder / "other.json").write_text('{"c": 2}')
    before = sorted(folder.iterdir())
    out = [] if "--out" in words else ["--out", "trained"]
    domain = [] if "--domain" in words else ["--domain", "d.json"]
    assert main(["history", "train", "h.csv", *domain, *out, *words]) == 2
    said = capsys.readouterr()
    assert message in said.err and not said.out and sorted(folder.iterdir()) == before


def test_exact_answers_that_contradict_teach_nothing(folder, capsys):
    (folder / "twice.csv").write_text("query,value,stddev\na=0,3,1e-6\na=0,4,1e-6\n")
    assert main(["history", "train", "twice.csv", "--domain", "d.json", "--out", "trained"]) == 2
    assert "The answers contradict one another" in capsys.readouterr().err
    assert not (folder / "trained").exists()


@pytest.mark.parametrize("part", ["a=0", '"a=0,b=1"', '"a<=1,b=1"'])
def test_a_part_far_above_its_whole_is_refused(part, folder, capsys):
    """Least squares finds nothing wrong: a cell below 0 would explain it."""
    for value, refused in ((900, True), (105, False)):
        (folder / "p.csv").write_text(f"query,value,stddev\n*,1000,5\na<=1,100,5\n{part},{value},5\n")
        code = main(["history", "ask", "p.csv", "a=0", "--domain", "d.json"])
        assert code == 2 * refused
        assert ("Answer 3 can be no larger than answer 2" in capsys.readouterr().err) is refused
    (folder / "p.csv").write_text("query,value,stddev\n*,1000,5\nb=1,100,5\na=0,900,5\n")  # no part
    assert main(["history", "ask", "p.csv", "a=0", "--domain", "d.json"]) == 0
    (folder / "p.csv").write_text('query,value,stddev\na=0,100,1e-7\n"a=0,b=0",100.00001,1e-7\n')  # rounded
    assert main(["history", "ask", "p.csv", "a=0", "--domain", "d.json"]) == 0


def test_what_a_trained_model_refuses(folder, capsys):
    assert main(["history", "train", "h.csv", "--domain", "d.json", "--out", "trained"]) == 0
    assert main(["history", "ask", "trained", "a=0", "--method", "ridge"]) == 2
    assert "--method is for a history, and trained is a trained model" in capsys.readouterr().err
    assert main(["history", "ask", "trained", "town=0"]) == 2
    assert "'town'" in capsys.readouterr().err
    assert main(["query", "trained", "a=0"]) == 2
    assert "which pgmjax history ask reads" in capsys.readouterr().err
    (folder / "trained" / "part-0.npz").write_bytes(b"nothing")
    assert main(["history", "ask", "trained", "a=0"]) == 2
    assert "damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, message",
    [
        (["h.csv", "a=0"], "--domain is missing"),
        (["h.csv", "town=1", "--domain", "d.json"], "'town'"),
        (["h.csv", "a=9", "--domain", "d.json"], "'a'"),
        (["h.csv", "--domain", "d.json"], "Say what to ask"),
        (["h.csv", "a=0", "--marginal", "a", "--domain", "d.json"], "Say what to ask"),
        (["none.csv", "a=0", "--domain", "d.json"], "none.csv"),
        ([".", "a=0"], "has no history.json"),
        ([".", "a=0", "--stddev", "3"], "--stddev is for a file"),
        (["h.csv", "a=0", "--domain", "d.json", "--alpha", "-1"], "--alpha must be a number > 0"),
        (["h.csv", "a=0", "--domain", "d.json", "--level", "0.9"], "--level is of --method best-linear"),
        (["h.csv", "a=0", "--domain", "d.json", "--total", "5000"], "contradict one another or the total"),
        (["h.csv", "a=0", "--domain", "d.json", "--total", "-1"], "--total"),
        (["h.csv", "a=0", "--domain", "d.json", "--folds", "9"], "--folds"),
        (["h.csv", "a=0", "--domain", "d.json", "--prior", "none.json"], "no file none.json"),
        (["h.csv", "a=0", "--domain", "d.json", "--prior", "p.json"], "'a'"),
        (["h.csv", "a=0", "--domain", "d.json", "--method", "best-linear"], "--biased"),
        (
            ["h.csv", "a<=1", "--domain", "d.json", "--method", "best-linear", "--level", "95"],
            "--level",
        ),
        (
            [
                "h.csv",
                "a<=1",
                "--domain",
                "d.json",
                "--method",
                "posterior",
                "--at-least",
                "5",
                "--at-most",
                "4",
            ],
            "--at-least must be at most --at-most",
        ),
        (["h.csv", "a=0", "--domain", "d.json", "--stddev", "3"], "has a column stddev"),
        (["bad.csv", "a=0", "--domain", "d.json"], "stddev"),
        (["twice.csv", "a=0", "--domain", "d.json"], "of 2 is 500,000 standard deviations"),
        (["bad.json", "a=0", "--domain", "d.json"], "Answer 1: scale needs a column noise"),
        (["short.json", "a=0", "--domain", "d.json"], "Answer 1: "),
    ],
)
def test_bad_input(folder, capsys, words, message):
    (folder / "p.json").write_text('{"a": [0.5, 0.1, 0.1, 0.1]}')
    (folder / "bad.csv").write_text("query,value,stddev\na=0,3,1\na=1,4,0\n")
    (folder / "twice.csv").write_text("query,value,stddev\na=0,3,1e-6\na=0,4,1e-6\n")
    (folder / "bad.json").write_text('[{"clique": ["a"], "values": [1, 2, 3, 4], "scale": 2}]')
    (folder / "short.json").write_text('[{"clique": ["a"], "values": [1, 2, 3], "stddev": 2}]')
    assert main(["history", "ask", *words]) == 2
    said = capsys.readouterr()
    assert message in said.err and not said.out


WATCH = ("h.csv", "a<=1", "--domain", "d.json", "--method")


@pytest.mark.parametrize("method", ["best-linear", "posterior"])
def test_what_must_not_be_certain_is_not_answered(folder, capsys, method):
    """The answer to a<=1,b=0 alone decides the claim: 19 with its noise."""
    for least, code in ((0, 2), (1000, 0)):
        (folder / "w.json").write_text(json.dumps([{"query": "a<=1,b=0", "at_least": least}]))
        assert main(["history", "ask", *WATCH, method, "--watch", "w.json"]) == code
        said = capsys.readouterr()
        assert ("1 of 1 watched" in said.err and not said.out) if code else said.out.startswith("a<=1: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"query": "a=0"}', "JSON list"),
        ('[{"query": "a=0"}]', "entry 1"),
        ('[{"query": "a=0", "at_least": 3}, {"query": "z=1", "at_least": 3}]', "entry 2"),
        ('[{"query": "a=0", "at_least": 3, "at_most": 1}]', "w.json, entry 1: a claim's low end"),
        ('[{"query": "a=0", "at_least": true}]', "entry 1: the low end"),
        ('[{"query": "a=0", "at_most": "3"}]', "entry 1: the high end"),
        ('[{"query": "a=0", "at_least": NaN}]', "entry 1: the low end"),
        ('[{"query": 3, "at_least": 3}]', "entry 1"),
        ("[3", "w.json is not JSON"),
        ('[{"query": "a=0", "at_least": 3, "level": 1}]', "entry 1"),
        ('[{"query": "a=0", "at_least": "x"}]', "entry 1"),
        ("[3]", "entry 1"),
        (None, "w.json"),
    ],
)
def test_bad_files_of_claims(folder, capsys, text, said):
    if text is not None:
        (folder / "w.json").write_text(text)
    assert main(["history", "ask", *WATCH, "best-linear", "--watch", "w.json"]) == 2
    assert said in capsys.readouterr().err


def test_answers_that_hardly_agree_are_told(folder, capsys):
    """A zero less: 7 standard deviations, which is said; noise of two is not."""
    for total, said in ((19, True), (200, False)):
        answers = ('"b=y,a=u",97', '"b=y,a=v",93', f"b=y,{total}")
        text = "".join(
            f"{line}\n" for line in ("query,value,scale,noise", *(f"{a},10,laplace" for a in answers))
        )
        (folder / "h.csv").write_text(text)
        domain = pj.Domain({"a": ["u", "v"], "b": ["y", "z"]})
        (folder / "ab.json").unlink(missing_ok=True)
        domain.write(folder / "ab.json")
        assert (
            main(["history", "ask", str(folder / "h.csv"), "b=y", "--domain", str(folder / "ab.json")]) == 0
        )
        assert ("hardly agree: one is 7.0 standard deviations" in capsys.readouterr().err) is said


def test_answers_that_say_more_of_themselves_than_others_are_unbiased(tmp_path, capsys):
    """Two answers tell nothing of one another: shrinking them to a third with a small bias would be a lie."""
    (tmp_path / "d.yaml").write_text("sex: {labels: [F, M], missing: '?'}\n")
    (tmp_path / "s.csv").write_text("sex,value\nF,900\nM,905\n")
    words = [
        "history",
        "ask",
        str(tmp_path / "s.csv"),
        "sex=M",
        "sex=F",
        "--domain",
        str(tmp_path / "d.yaml"),
    ]
    assert main([*words, "--stddev", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["answers"]
    assert [each["estimate"] for each in told] == pytest.approx([905, 900])
    assert [each["stddev"] for each in told] == pytest.approx([5, 5]) and told[0]["bias"] == 0
