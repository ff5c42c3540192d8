"""One trial of a mechanism on a table: by its paper's estimate, at the optimum, and by the default fit.

Every function takes a table, a seed and epsilon, and returns a line with `errors` and `seconds` by arm:
"paper" is the mechanism's own estimate, "optimum" the engine's with `regularisation="none"`, "regularised"
the default. Arms of mechanisms that measure first and fit once take the same noisy answers; those of MWEM,
AIM and MST fit between their rounds, so that each chooses for itself. An arm that has not ended after 15
minutes, or refuses, is in `failed`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from harness import Line
from workload import error, exact_answers, load, relative, workload

import pgmjax as pj
from pgmjax.estimation.regularisation import weight_of
from pgmjax.mechanisms.adaptive import CHOSEN_SHARE
from pgmjax.mechanisms.conditionals import paper_model
from pgmjax.strategies import local_least_squares

REPLACE = pj.Relation.REPLACE_ONE
DELTA = "0.001"  # of DualQuery, as in the paper
STEPS = 2000
GAME_STEPS = 3000
LIMIT = 900  # seconds an arm may take, longer where it is asked for more steps
ARMS: dict[str, dict[str, Any]] = {
    "optimum": {"regularisation": "none", "tol": 1e-4},
    "regularised": {"regularisation": "auto", "tol": None},
}


class Table:
    """A table with its workload and the true answers."""

    def __init__(self, name: str, workload_seed: int = 0):
        self.name = name
        self.domain, self.data = load(name)
        self.total = self.data.count()
        self.workload = workload(name, self.domain, self.total, workload_seed)

    @functools.cached_property
    def exact(self) -> list:
        """True answers, for evaluation only."""
        return exact_answers(self.workload, self.data)

    def error(self, model: pj.GraphicalModel) -> float:
        """Error of a model on the workload."""
        return error(self.workload, self.exact, model)

    def rows_error(self, model: pj.GraphicalModel, seed: int) -> float:
        """Error of as many rows drawn from a model as the table has."""
        rows = pj.Dataset.from_columns(self.domain, model.sample(self.total, seed))
        return relative(self.exact, exact_answers(self.workload, rows))

    def fit(self, estimator: pj.Estimator, measurements: Sequence[pj.LinearMeasurement]) -> pj.Fit:
        """Fit a model."""
        return estimator.fit(self.domain, measurements, total=self.total)


def engine(**settings: Any) -> pj.Estimator:
    """The engine as every arm uses it: at the optimum of the loss, unless its settings say otherwise."""
    return pj.Estimator(**{"max_steps": STEPS, "progress": False, **ARMS["optimum"], **settings})


def noise(seed: int) -> pj.privacy.SeededBackend:
    """Repeatable noise: nothing here is a release."""
    return pj.privacy.SeededBackend(seed, insecure=True)


@contextlib.contextmanager
def arm(line: Line, name: str, times: int = 1) -> Iterator[None]:
    """Time an arm, end it after so many times the limit, and keep the reason if it fails."""
    limit = times * LIMIT

    def late(*_: object) -> None:
        raise TimeoutError(f"not ended after {limit} s")

    start = time.perf_counter()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    try:
        yield
    except (ValueError, RuntimeError, TimeoutError) as failure:  # refused, ended by a guard, or late
        line["failed"][name] = str(failure)
    finally:
        signal.alarm(0)
        line["seconds"][name] = round(time.perf_counter() - start, 1)


def started(seed: int) -> Line:
    """A line to be filled."""
    return {"seed": seed, "errors": {}, "seconds": {}, "failed": {}, "ends": {}}


def refitted(
    line: Line, table: Table, measurements: Sequence[pj.LinearMeasurement], lighter: bool = False
) -> None:
    """Fit the same answers by every arm of the engine; `lighter`: as a mechanism fits what it chose."""
    for name, options in ARMS.items():
        with arm(line, name):
            estimator = engine(**options)
            if lighter and estimator.regularisation == "auto":
                weight = CHOSEN_SHARE * weight_of("auto", table.domain, measurements, table.total)
                estimator = dataclasses.replace(estimator, regularisation=weight)
            fit = table.fit(estimator, measurements)
            line["errors"][name] = table.error(fit.model)
            line["ends"][name] = f"{fit.status.name} {fit.steps}"


def hdmm(table: Table, seed: int, epsilon: float, split: str = "equal", strategy: str = "union") -> Line:
    """Local least squares against the engine."""
    line = started(seed)
    release = hdmm_release(table, seed, epsilon, split, strategy)
    with arm(line, "paper"):
        local = local_least_squares(table.domain, table.workload, release.measurements)
        line["errors"]["paper"] = relative(table.exact, local)
    refitted(line, table, release.measurements)
    return line


@functools.lru_cache(maxsize=64)
def hdmm_release(table: Table, seed: int, epsilon: float, split: str, strategy: str = "union") -> pj.Release:
    """HDMM's measurements, with a fit of one step that nobody looks at."""
    mechanism = pj.mechanisms.HDMM(
        epsilon, REPLACE, strategy=strategy, split=split, backend=noise(seed), estimator=engine(max_steps=1)
    )
    return mechanism.run(table.data, table.workload, show_progress=False)


def privbayes(table: Table, seed: int, epsilon: float) -> Line:
    """Rows from the multiplied conditionals against the engine by L2 and by L1."""
    line = started(seed)
    quick = engine(max_steps=1)
    mechanism = pj.mechanisms.PrivBayes(epsilon, REPLACE, backend=noise(seed), estimator=quick)
    with arm(line, "paper"):
        release = mechanism.run(table.data, table.workload, show_progress=False)
        line["errors"]["paper"] = table.rows_error(paper_model(release), seed)
    if line["failed"]:
        return line
    refitted(line, table, release.measurements, lighter=True)
    with arm(line, "L1"):
        line["errors"]["L1"] = table.error(table.fit(engine(loss="l1"), release.measurements).model)
    return line


def dual_query(table: Table, seed: int, epsilon: float, steps: int = GAME_STEPS) -> Line:
    """The game's records against the engine's maximum likelihood, with the paper's accounting.

    Its likelihood is not regularised, so that there is one arm of the engine.
    """
    line = started(seed)
    estimator = engine(solver="mirror_descent", max_steps=steps)
    accounting: dict[str, Any] = {"accounting": "simple", "step": 2}
    mechanism = pj.mechanisms.DualQuery(
        epsilon, REPLACE, DELTA, **accounting, seed=seed, backend=noise(seed), estimator=estimator
    )
    with arm(line, "optimum", max(1, 2 * (steps // GAME_STEPS))):  # 10,000 of Loans did not end in half of it
        release = mechanism.run(table.data, table.workload, show_progress=False)
        records = [release.transcript.answer(entry.query) for entry in table.workload.entries]
        line["errors"] = {"paper": relative(table.exact, records), "optimum": table.error(release.model)}
        line["ends"]["optimum"] = f"{release.fit.status.name} {release.fit.steps}"
        line["rounds"] = release.transcript.rounds
    return line


def chosen(line: Line, table: Table, name: str, mechanism: pj.mechanisms.Mechanism) -> None:
    """Run a mechanism that chooses what it measures."""
    with arm(line, name):
        release = mechanism.run(table.data, table.workload, show_progress=False)
        line["errors"][name] = table.error(release.model)
        line["ends"][name] = f"{release.fit.status.name} {release.fit.steps}"
    jax.clear_caches()


def mwem(table: Table, seed: int, epsilon: float) -> Line:
    """Factored multiplicative weights against the engine, each choosing for itself.

    All may choose what leaves their estimate within the mechanism's own limit of cells. Without it
    factored weights merge what overlaps until memory or patience ends; the full vector has 3e8 cells or more.
    """
    line = started(seed)
    factored = "factored-multiplicative-weights"
    for name, estimate in (("paper", factored), ("optimum", "engine"), ("regularised", "engine")):
        estimator = engine(**ARMS.get(name, {}))
        kind = pj.mechanisms.MWEM
        mechanism = kind(epsilon, REPLACE, estimate=estimate, backend=noise(seed), estimator=estimator)
        chosen(line, table, name, mechanism)
    return line


def by_both_arms(kind: type[pj.mechanisms.Mechanism], table: Table, seed: int, epsilon: float) -> Line:
    """A mechanism that fits between its rounds, by both arms of the engine."""
    line = started(seed)
    for name, options in ARMS.items():
        mechanism = kind(epsilon, REPLACE, backend=noise(seed), estimator=engine(**options))
        chosen(line, table, name, mechanism)
    return line


MECHANISMS: dict[str, Callable[..., Line]] = {
    "privbayes": privbayes,
    "dual-query": dual_query,
    "mwem": mwem,
    "hdmm": hdmm,
    "mst": functools.partial(by_both_arms, pj.mechanisms.MST),
    "aim": functools.partial(by_both_arms, pj.mechanisms.AIM),
}
