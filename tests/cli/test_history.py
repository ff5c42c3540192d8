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
    assert "a<=1: 70.0, standard error 2.8" in said.out and "alpha inf" in said.out
    assert "protects nothing" in said.err or "NOT FOR PUBLICATION" in said.err


@pytest.mark.parametrize(
    "words, message",
    [
        (["h.csv", "a=0"], "--domain is missing"),
        (["h.csv", "town=1", "--domain", "d.json"], "Unknown attribute 'town'"),
        (["h.csv", "--domain", "d.json"], "Say what to ask"),
        (["h.csv", "a=0", "--marginal", "a", "--domain", "d.json"], "Say what to ask"),
        (["none.csv", "a=0", "--domain", "d.json"], "no file none.csv"),
        ([".", "a=0"], "has no history.json"),
        ([".", "a=0", "--stddev", "3"], "--stddev is for a file"),
        (["h.csv", "a=0", "--domain", "d.json", "--alpha", "-1"], "--alpha must be a number > 0"),
        (["h.csv", "a=0", "--domain", "d.json", "--level", "0.9"], "--level is of --method best-linear"),
        (["h.csv", "a=0", "--domain", "d.json", "--total", "5000"], "contradict one another or --total"),
        (["h.csv", "a=0", "--domain", "d.json", "--total", "-1"], "--total must be"),
        (["h.csv", "a=0", "--domain", "d.json", "--folds", "9"], "--folds must be"),
        (["h.csv", "a=0", "--domain", "d.json", "--prior", "none.json"], "no file none.json"),
        (["h.csv", "a=0", "--domain", "d.json", "--prior", "p.json"], "prior of attribute 'a' must sum to 1"),
        (["h.csv", "a=0", "--domain", "d.json", "--method", "best-linear"], "--biased"),
        (
            ["h.csv", "a<=1", "--domain", "d.json", "--method", "best-linear", "--level", "95"],
            "--level must",
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
        (["bad.csv", "a=0", "--domain", "d.json"], "Row 2: stddev must be > 0, got 0"),
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
