"""Whether each system of the five papers works at every door: Python, command, notebook, page.

`python bench/mission.py` makes one small check for each, prints what every cell did, and exits with 1 if one
that should work does not. `--paper 003` checks one paper only. A door that a system does not have says why.
Noise is secure in commands and seeded in Python; nothing here is a measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import harness
import numpy as np

import pgmjax as pj
from pgmjax.cli import main as command_line
from pgmjax.history.rows import Rows

ROOT = harness.ROOT
SIZES = {"a": 4, "b": 3, "c": 2}
PLAIN = pj.Estimator(progress=False)


class Missing(str):
    """Why a system has no such door."""


@dataclasses.dataclass(frozen=True)
class System:
    """A system of a paper with its doors.

    Attributes:
        paper: number of the paper.
        name: of the system.
        python: a check that returns what it did.
        command: the commands of a session at a terminal, a line each, and a pattern of what the last prints.
        notebook: the notebook, and a word of its code.
        page: the page, with its section, and a word of a block there that the tests run.
    """

    paper: str
    name: str
    python: Callable[[], str]
    command: tuple[str, str] | Missing
    notebook: tuple[str, str] | Missing
    page: tuple[str, str]


def near(found: Any, expected: Any, within: float) -> str:
    """Check that numbers are near others, and say how near."""
    off = float(np.abs(np.asarray(found, float) - np.asarray(expected, float)).max())
    assert off <= within, f"off by {off:.3g}, and {within:.3g} was allowed"
    return f"off by {off:.2g}"


def table(rows: int = 3000) -> pj.Dataset:
    """Return a small table in which a and b depend on each other."""
    rng = np.random.default_rng(0)
    a = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    b = np.where(rng.random(rows) < 0.6, a % 3, rng.integers(0, 3, rows))
    columns = {"a": a, "b": b, "c": rng.integers(0, 2, rows)}
    return pj.Dataset.from_columns(pj.Domain(SIZES), columns)


def noise(seed: int = 0) -> Any:
    """Return repeatable noise."""
    return pj.privacy.SeededBackend(seed, insecure=True)


def history(stddev: float = 1.0) -> tuple[pj.history.History, np.ndarray]:
    """Return noisy answers to ranges, and the counts of all cells."""
    counts = table().marginals([("a", "b", "c")])[0].astype(float)
    domain = pj.Domain(SIZES)
    asked = pj.history.builders.random_ranges(domain, 30, seed=0)
    rows = Rows.of(asked, domain).matrix()
    values = rows @ counts.ravel() + np.random.default_rng(1).normal(0, stddev, len(rows))
    return pj.history.History.from_answers(domain, asked, values, stddev=stddev), counts


# Paper 000.


def kernel_pca() -> str:
    """Without bias, kernel PCA is generalised least squares."""
    past, _ = history()
    rows = past.rows.matrix()
    truth = rows @ np.linalg.pinv(rows) @ past.values
    found = pj.history.KernelPCA.of(past).answer(list(past.queries)).values
    return "least squares, " + near(found, truth, 1e-6)


def maximum_entropy() -> str:
    """With next to no noise a distribution meets all answers."""
    past, counts = history(0.01)
    fit = pj.history.MaxEntropy(alpha=100.0, progress=False).fit(past, counts.sum())
    return "meets the answers, " + near(fit.answers, past.values, 0.5)


def publishing() -> str:
    """With next to no noise the published distribution has the table's pairs."""
    return released("MaximumEntropy", 5, alpha=10.0)


# Paper 001.


def mldp() -> str:
    """Trained on the workload itself, MLDP predicts a range of it."""
    mechanism = pj.mechanisms.MLDP(40, "add-remove", training="workload", backend=noise())
    data = table()
    release = mechanism.run(data, pj.Workload([["a", "b"]]))
    query = pj.queries.Product({"a": pj.queries.range(1, 2)})
    return "predicts a range, " + near(release.predict(query), data.marginals([("a",)])[0][1:3].sum(), 3)


def learners() -> str:
    """A model trained on a history answers one of its queries as the table does."""
    past, counts = history(0.01)
    predictor, errors = pj.learning.learn(past.domain, past.measurements, ["linear", "ridge"])
    asked = past.queries[0]
    assert len(errors) == 2
    return "learns a history, " + near(predictor.predict(asked), asked.apply(project(counts, asked)), 0.1)


def project(counts: np.ndarray, query: Any) -> np.ndarray:
    """Return the marginal of all cells that a query is asked of."""
    names = list(SIZES)
    summed = counts.sum(axis=tuple(k for k, name in enumerate(names) if name not in query.clique))
    kept = [name for name in names if name in query.clique]
    return summed.transpose([kept.index(name) for name in query.clique])


def similarities() -> str:
    """With a large budget the released similarities are the exact ones."""
    rng = np.random.default_rng(0)
    rated = np.argwhere(rng.random((8, 6)) < 0.9)
    ratings = pj.mechanisms.Ratings(
        rated[:, 0], rated[:, 1], rng.integers(1, 6, len(rated)), shape=(8, 6), scale=(1, 5)
    )
    mechanism = pj.mechanisms.SimilarityMLDP(
        1000, "replace-one", protect="record", training_count=28, backend=noise()
    )
    found = mechanism.run(ratings)
    return "released, " + near(
        found.released.answers, ratings.similarities(found.released.pairs, "cosine"), 0.1
    )


def online_weights() -> str:
    """A count that the even start is far off is measured."""
    data = table()
    opened = pj.mechanisms.OnlineWeights(100, "replace-one", updates=4, backend=noise()).open(data)
    query = pj.queries.Product({"a": pj.queries.point(3)})
    answer = opened.answer(query)
    assert len(opened.measurements) == 1
    return "measures what is far off, " + near(answer, data.marginals([("a",)])[0][3], 2)


# Paper 002.


def randomised_response() -> str:
    """The estimates of a perturbed table are unbiased."""
    data = table(20_000)
    mechanism = pj.mechanisms.RandomizedResponse(2, "replace-one", universe=[["a", "b"]], backend=noise())
    marginal = mechanism.perturb(data, row_order="sorted").marginal(("a",))
    off = np.abs(marginal.estimate() - data.marginals([("a",)])[0]) / np.sqrt(marginal.variance())
    assert off.max() < 5
    return f"unbiased, off by {off.max():.1f} standard deviations"


def respondents() -> str:
    """Responses of forty people count up to what they said."""
    domain = pj.Domain({"vote": ["yes", "no"]})
    question = pj.mechanisms.RandomizedResponse(20, "replace-one", useless="answer")
    sent = [pj.local.respond(domain, {"vote": word}, question) for word in ["yes"] * 30 + ["no"] * 10]
    collected = pj.local.collect(domain, sent)
    return "collected, " + near(collected.marginal(("vote",)).estimate(), [30, 10], 0.01)


def proper() -> str:
    """The nearest mean of all that seven rows may have, by listing them."""
    estimator = pj.local.ProperEstimator([[0, 2, 5], [0, 1]], rows=[3, 4])
    sums = {3 * 0 + x + y for x in (0, 2, 4, 5, 6, 7, 9, 10, 12, 15) for y in range(5)}
    nearest = min(sums, key=lambda total: abs(total / 7 - 1.03)) / 7
    return "the nearest mean, " + near(estimator.nearest([1.03]), nearest, 1e-12)


def continuous() -> str:
    """The mean of a function lies within its bound."""
    best = pj.local.best_grid(rows=100_000, epsilon=1.0, lipschitz=1.0)
    points = np.random.default_rng(0).beta(2, 5, 100_000)
    heights = pj.Dataset.from_columns(best.grid.domain, {"x0": best.grid.encode(points)})
    mechanism = pj.mechanisms.RandomizedResponse(1, "replace-one", universe="joint", backend=noise())
    seen = pj.local.group_histograms(mechanism.perturb(heights, row_order_is_public=True))
    found = pj.local.answer_lipschitz(seen, best.grid, lambda x: x[:, 0] ** 2 / 2, lipschitz=1.0)
    return "a mean, " + near(found.answers.value, np.mean(points**2 / 2), found.half_width(0.9999)[0])


def graph_cuts() -> str:
    """A cut has the variance of the closed form."""
    pairs = pj.local.VertexPairs(60)
    edges = np.argwhere(np.triu(np.random.default_rng(0).random((60, 60)) < 0.2, 1))
    graph = pj.Dataset.from_columns(pj.Domain({"edge": 2}), {"edge": pairs.codes(edges)})
    mechanism = pj.mechanisms.RandomizedResponse(2, "replace-one", universe="joint", backend=noise())
    half = np.arange(60) < 30
    perturbed = pj.local.PerturbedGraph.of(mechanism.perturb(graph, row_order_is_public=True), 60)
    cut = perturbed.cuts(half[None])
    near(cut.stddev, np.sqrt(900 * np.e**2 / (np.e**2 - 1) ** 2), 1e-9)
    return "a cut, " + near(cut.value, (half[edges[:, 0]] != half[edges[:, 1]]).sum(), 5 * cut.stddev[0])


# Paper 003.


def blue() -> tuple[pj.history.BestLinearUnbiased, np.ndarray]:
    """The worked example of the paper."""
    rows = [(1, 1, 0, 0), (0, 0, 1, 1), (0, 0, 0, 1), (0, 0, 1, 0), (0, 1, 0, 1), (2, 1, 0, 0), (0, 0, 2, -1)]
    rows.append((0, -1, 0, 1))
    scales = np.array([1, 1, 1, 1, 1, 2, 2, 1]) / [0.05, 0.1, 0.05, 0.1, 0.1, 0.05, 0.05, 0.1]
    values = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]
    given = np.array(rows, float), values, scales
    return pj.history.BestLinearUnbiased.from_matrix(*given, continuous=True), np.array([[1.0, 0, 1, 0]])


def credible_intervals() -> str:
    """The worked example of the paper, corrected."""
    found, target = blue()
    answer = found.answer(target)
    near(answer.value, 42.0138030194, 1e-8)
    return "the worked example, " + near(answer.interval(0.95), [-5.3695, 89.3971], 1e-3)


def posteriors() -> str:
    """The mean of the worked example's posterior, by other chains."""
    found = pj.history.posterior(*blue())
    return "the worked example, " + near(found.mean, 43.61, 0.3)


def sessions() -> str:
    """A session measures, answers from the past, and refuses beyond its cap."""
    data = table()
    with tempfile.TemporaryDirectory() as place:
        ledger = pj.privacy.Ledger.create(pathlib.Path(place) / "l.ledger")
        promise = {"epsilon": 1, "relation": "add-remove", "digest": ledger.digest_of(data), "research": True}
        ledger.register("t", domain=data.domain, **promise)
        session = pj.history.Session.open(ledger, data, cap=1, relation="add-remove", backend=noise())
        query = pj.queries.Product({"a": pj.queries.point(0)})
        asked = [session.ask(query, half_width=width) for width in (40, 60, 0.5)]
        session.close()
        ledger.close()
    sources = [answer.source for answer in asked]
    assert sources == ["measured", "history", "refused"], sources
    return "measured, from the history, refused"


# Paper 004.


def released(
    name: str, within: float, relation: str = "replace-one", epsilon: Any = 60, **settings: Any
) -> str:
    """Release a table with little noise, and compare the answers with it."""
    data = table()
    workload = pj.Workload([["a", "b"], ["c"]])
    mechanism = getattr(pj.mechanisms, name)(epsilon, relation, estimator=PLAIN, backend=noise(), **settings)
    answers = mechanism.run(data, workload).answers()
    exact = data.marginals(workload.cliques)
    return "answers, " + near(
        np.concatenate([np.ravel(each) for each in answers]),
        np.concatenate([each.ravel() for each in exact]),
        within,
    )


def algorithm(solver: str) -> Callable[[], str]:
    """Return the check of a solver: the projection onto the simplex."""

    def check() -> str:
        domain = pj.Domain({"a": 3})
        noisy = [pj.LinearMeasurement(("a",), [12.0, -3.0, 5.0], stddev=1.0)]
        settings = {"solver": solver, "regularisation": "none", "tol": 1e-8, "dtype": "float64"}
        fit = pj.Estimator(**settings, max_steps=20_000, progress=False).fit(domain, noisy, total=10)
        return "the projection, " + near(fit.model.marginal(("a",)), [8.5, 0, 1.5], 0.01)

    return check


def own_loss() -> str:
    """A loss and a class of oracles that are given find the same projection."""
    domain = pj.Domain({"a": 3})
    noisy = [pj.LinearMeasurement(("a",), [12.0, -3.0, 5.0], stddev=1.0)]

    def loss(marginals: Any) -> Any:
        return ((marginals["a",] - noisy[0].flat_values()) ** 2).sum() / 2

    page = (ROOT / "docs/own.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"## An oracle.*?```python\n(.*?)```", page, re.DOTALL)[:1]
    written: dict[str, Any] = {"__name__": __name__}
    exec(block, written)  # the oracle of the page, as a reader copies it
    own = {"loss": loss, "oracle": written["Enumeration"]}
    estimator = pj.Estimator(**own, dtype="float64", progress=False)
    fit = estimator.fit(domain, noisy, total=10)
    return "the projection, " + near(fit.model.marginal(("a",)), [8.5, 0, 1.5], 0.05)


def error_bars() -> str:
    """All methods give the standard deviation of the noise, where no bound holds."""
    noisy = [pj.LinearMeasurement(("a",), [30.0, 10.0], stddev=2.0)]
    fit = pj.Estimator(progress=False, regularisation="none").fit(pj.Domain({"a": 2}), noisy)
    for method in ("linear", "laplace", "bootstrap"):
        bars = pj.uncertainty.error_bars(fit, noisy, [("a",)], method=method, draws=400)
        said = near(bars.stddevs, [2, 2], 0.3)
    return f"three methods, {said}"


TABLE = "people.csv.gz --domain people.yaml"


def asking(mechanism: str, *more: str, relation: str = "replace-one") -> tuple[str, str]:
    """Return the commands of a release by a mechanism and of a query of it, and what the query prints."""
    words = [f"release {TABLE} --all-kway 2 --epsilon 2 --quiet", *more]
    made = f"--mechanism {mechanism} --relation {relation} --out {mechanism}-r"
    asked = f"query {mechanism}-r age<35,sex=Male"
    return f"{' '.join(words)} {made}\n{asked}", r"^age<35,sex=Male: [\d,.]+ of"


def rows() -> Iterator[System]:
    """Yield the systems, paper by paper."""
    history_page, notebook = "docs/history.md", "06_a_history"
    ask = "history ask answers.csv --domain people.yaml --query age<35"
    yield System(
        *("000", "kernel PCA", kernel_pca, (ask, "by cross-validation"), (notebook, "KernelPCA")),
        (f"{history_page}#better-answers-by-kernel-pca", "KernelPCA.of"),
    )
    yield System(
        *("000", "maximum entropy", maximum_entropy),
        *((f"{ask} --method maximum-entropy --total 2000", "certified"), (notebook, "MaxEntropy")),
        (f"{history_page}#maximum-entropy-one-distribution-from-all-answers", "MaxEntropy"),
    )
    yield System(
        *("000", "publishing", publishing, asking("maximum-entropy", relation="add-remove")),
        *(
            (notebook, "MaximumEntropy"),
            ("docs/mechanisms/maximum-entropy.md#on-the-command-line", "--mechanism"),
        ),
    )
    notebook = "07_a_trained_model"
    yield System(
        *("001", "MLDP from a workload", mldp),
        asking("mldp", "--option training=workload", relation="add-remove"),
        *((notebook, "MLDP"), ("docs/mechanisms/mldp.md#on-the-command-line", "training=workload")),
    )
    train = (
        "history train answers.csv --domain people.yaml --learner linear --learner ridge --folds 3 --out t"
    )
    yield System(
        *("001", "learners", learners, (f"{train}\nhistory ask t age<35", "trained on 6 noisy answers")),
        *((notebook, "pj.learning"), ("docs/learning.md#train-on-answers-that-are-there", "history train")),
    )
    alike = "similarities ratings.csv 3,17 --records 40 --items 30 --scale 1,5 --protect record"
    yield System(
        *("001", "similarities", similarities),
        *(
            (f"{alike} --epsilon 2 --training-count 40 --relation replace-one", "protecting all ratings"),
            (notebook, "SimilarityMLDP"),
        ),
        ("docs/mechanisms/mldp.md#similarities-of-ratings", "pgmjax similarities"),
    )
    account = f"{TABLE} --name p --epsilon 2 --relation"
    weights = f"session online-weights w.ledger age<35 sex=Male --table {TABLE} --updates 2 --epsilon 1"
    yield System(
        *("001", "online weights", online_weights),
        (
            f"ledger init w.ledger {account} replace-one\n{weights} --relation replace-one",
            "of 1 is spent",
        ),
        *(
            (notebook, "OnlineWeights"),
            ("docs/mechanisms/online-weights.md#on-the-command-line", "online-weights"),
        ),
    )
    notebook, local = "08_every_record_for_itself", "docs/local.md"
    perturb = f"perturb {TABLE} --groups age,sex --epsilon 3 --relation replace-one --out perturbed --quiet"
    yield System(
        *("002", "randomised response", randomised_response),
        *(
            (f"{perturb}\nquery perturbed sex=Male,age<35", "standard error"),
            (notebook, "RandomizedResponse"),
        ),
        (f"{local}#use-the-command-line", "pgmjax perturb"),
    )
    respond = "respond age=34 sex=Female --domain people.yaml --groups age,sex --epsilon 2 --out one.json"
    collect = "collect one.json --domain people.yaml --out joined"
    yield System(
        *("002", "respondents", respondents, (f"{respond}\n{collect}", "joined in")),
        *((notebook, "pj.local.respond"), (f"{local}#answer-without-a-table", "pgmjax respond")),
    )
    proper_too, means_too = (perturb.replace("perturbed", name) for name in ("proper", "means"))
    friends = "perturb friends.csv --domain friends.json --each --row-order public --epsilon 4 "
    friends += "--relation replace-one --out friends --quiet"
    asked = {
        "proper": (f"{proper_too}\nquery proper --marginal sex --proper", "Female"),
        "continuous": (f"{means_too}\nquery means --mean age", "^mean of age"),
        "cuts": (f"{friends}\nquery friends --cut 0,1,2,3,4", "^edges between 0,1,2,3,4"),
    }
    for name, check, word, place in (
        ("proper answers", proper, "ProperEstimator", "proper-answers"),
        ("continuous attributes", continuous, "best_grid", "continuous-attributes"),
        ("cuts of a graph", graph_cuts, "PerturbedGraph", "cuts-of-a-graph"),
    ):
        command = asked[name.split()[0]]
        yield System("002", name, check, command, (notebook, word), (f"{local}#{place}", word))
    notebook = "09_a_posterior_and_a_session"
    yield System(
        *("003", "credible intervals", credible_intervals),
        *((f"{ask} --method best-linear --at-least 500", "it holds"), (notebook, ".blue")),
        (f"{history_page}#bayesian-inference-what-an-answer-may-be", "BestLinearUnbiased"),
    )
    yield System(
        *("003", "posterior", posteriors, (f"{ask} --method posterior --level 0.9", "90% interval")),
        *((notebook, "history.posterior"), (f"{history_page}#at-the-command-line", "--method posterior")),
    )
    paid = f"session ask s.ledger age<35 --half-width 50 --table {TABLE} --cap 1 --relation add-remove"
    free = "session ask s.ledger age<35 --half-width 80"
    yield System(
        *("003", "session with a budget", sessions),
        (f"ledger init s.ledger {account} add-remove\n{paid}\n{free}", "of 1 is spent"),
        *((notebook, "Session.open"), (f"{history_page}#asking-online", "pgmjax session ask")),
    )
    notebook = "04_estimation_taken_apart"
    fit = "fit counts.csv --domain people.yaml --stddev 5 --total 2400 --quiet"
    for number, solver in enumerate(("mirror_descent", "dual_averaging"), start=1):
        yield System(
            *("004", f"Algorithm {number}", algorithm(solver)),
            (f"{fit} --solver {solver} --out m{number}\nquery m{number} sex=Male", "^sex=Male"),
            *((notebook, solver), ("docs/lab/five-papers.md#004-graphical-models", solver)),
        )
    yield System(
        *("004", "own loss and oracle", own_loss),
        Missing("none: they are code; --loss and --oracle name those of the library"),
        *((notebook, "class Summation"), ("docs/own.md#an-oracle", "pj.oracles.Oracle")),
    )
    yield System(
        *("004", "error bars", error_bars),
        (
            f"{fit} --regularisation none --out bars\nquery bars sex=Male --error-bars laplace",
            "Error bars by laplace",
        ),
        *(("01_first_model", "error_bars"), ("docs/error-bars.md#compute-error-bars", "--error-bars")),
    )
    yield System(
        *("004", "HDMM", lambda: released("HDMM", 5, restarts=1), asking("hdmm", "--option restarts=1")),
        ("02_choosing_what_to_measure", "HDMM"),
        ("docs/mechanisms/hdmm.md#know-the-error-beforehand", "HDMM"),
    )
    for name, check, command in (
        ("MWEM", lambda: released("MWEM", 5, rounds=2), asking("mwem", "--option rounds=2")),
        ("PrivBayes", lambda: released("PrivBayes", 5), asking("privbayes")),
        ("DualQuery", lambda: released("DualQuery", 100, epsilon=20), asking("dual-query")),
    ):
        word = command[0].rpartition("query ")[2].partition("-r ")[0]
        page = f"docs/mechanisms/{word}.md#example", name
        yield System("004", name, check, command, ("10_an_own_mechanism_in_a_sweep", word), page)


SYSTEMS = [*rows()]


# The doors.


def at_python(system: System) -> str:
    """Run the check of the system in Python."""
    return system.python()


def at_command(system: System) -> str:
    """Run the commands; the last one must print what it should."""
    commands, pattern = system.command
    for text in commands.splitlines():
        said, wrong = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            code = command_line(shlex.split(text))
        assert code == 0, f"pgmjax {text}: {wrong.getvalue().strip()}"
    found = re.search(pattern, said.getvalue(), re.MULTILINE)
    assert found, f"pgmjax {text} does not print {pattern!r}"
    return f"pgmjax {' '.join(shlex.split(text)[:2])}"


def at_notebook(system: System) -> str:
    """Find the word in the code of a stored notebook, all of whose cells ran without an error."""
    name, word = system.notebook
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    cells = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells), f"{name} has cells that did not run"
    errors = [output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]
    assert not errors, f"{name} has a cell that failed"
    assert any(word in "".join(cell["source"]) for cell in cells), f"{name} has no {word}"
    return name


def at_page(system: System) -> str:
    """Find the section of a page, and the word in one of its blocks that the tests run."""
    place, word = system.page
    name, _, anchor = place.partition("#")
    text = (ROOT / name).read_text()
    parts = {slug(head): body for head, body in sections(text)}
    assert anchor in parts, f"{name} has no section {anchor}"
    blocks = example_pages().blocks(parts[anchor], "python") + example_pages().blocks(parts[anchor], "bash")
    assert any(word in block.code for block in blocks), f"no block of {place} has {word}"
    return place.removeprefix("docs/")


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the headings of a page, each with what stands below it up to the next of its level or above."""
    code = "\n".join("" if line.startswith("# ") and odd else line for line, odd in fenced(text))
    heads = [*re.finditer(r"^(#+) (.*)$", code, re.MULTILINE)]
    for place, head in enumerate(heads):
        later = [each.start() for each in heads[place + 1 :] if len(each[1]) <= len(head[1])]
        yield head[2], code[head.end() : later[0] if later else len(code)]


def fenced(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a page with whether they are inside a block of code."""
    inside = False
    for line in text.splitlines():
        yield line, inside
        inside ^= line.startswith("```")


def slug(head: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.lower())).strip("-")


def example_pages() -> Any:
    """The module that runs the blocks of pages, and writes the tables that they take."""
    if "example_pages" not in sys.modules:
        spec = importlib.util.spec_from_file_location("example_pages", ROOT / "docs" / "example_pages.py")
        sys.modules["example_pages"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["example_pages"])
    return sys.modules["example_pages"]


AT = {"python": at_python, "command": at_command, "notebook": at_notebook, "page": at_page}


def checked(system: System, door: str) -> tuple[bool, str]:
    """Return whether a system works at a door, and what the check did."""
    if isinstance(getattr(system, door), Missing):
        return True, str(getattr(system, door))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return True, AT[door](system)
    except Exception as error:  # whatever it is, the cell does not work
        return False, f"FAILED: {' '.join(str(error).split())[:200] or type(error).__name__}"


def main(argv: Sequence[str] | None = None) -> int:
    """Check all cells, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--paper", choices=sorted({system.paper for system in SYSTEMS}), help="one paper only"
    )
    wanted = parser.parse_args(argv).paper
    started, failed = time.monotonic(), 0
    print(f"| paper | system | {' | '.join(AT)} |")
    print(f"|---|---|{'---|' * len(AT)}")
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        example_pages().example_tables(pathlib.Path(place))
        for system in SYSTEMS:
            if wanted in (None, system.paper):
                cells = [checked(system, door) for door in AT]
                failed += sum(not works for works, _ in cells)
                print(
                    f"| {system.paper} | {system.name} | {' | '.join(said for _, said in cells)} |",
                    flush=True,
                )
    said = f"{failed} cells failed" if failed else "all work"
    print(f"\n{said}, after {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
