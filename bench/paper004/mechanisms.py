"""One cell of Figure 1: a mechanism on a table, by its paper's estimate and by the engine.

Every function takes a table, the seeds of its trials, and epsilon; it yields a line a trial with `errors`
by arm and `seconds` in all.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence

import jax
from harness import Line
from workload import error, exact_answers, load, relative, workload

import pgmjax as pj
from pgmjax.mechanisms.bayes_network import paper_model
from pgmjax.strategies import local_least_squares

REPLACE = pj.Relation.REPLACE_ONE
DELTA = "0.001"  # of DualQuery, as in the paper
STEPS = 2000
GAME_STEPS = 3000


class Table:
    """A table with its workload and the true answers."""

    def __init__(self, name: str):
        self.name = name
        self.domain, self.data = load(name)
        self.workload = workload(name, self.domain)
        self.total = self.data.count()

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


def engine(**settings: object) -> pj.Estimator:
    """The engine as every arm uses it: at the optimum of the loss, unless its settings say otherwise."""
    usual = {"max_steps": STEPS, "progress": False, "regularisation": "none", "tol": 1e-4}
    return pj.Estimator(**{**usual, **settings})  # type: ignore[arg-type]


def noise(seed: int) -> pj.privacy.SeededBackend:
    """Repeatable noise: nothing here is a release."""
    return pj.privacy.SeededBackend(seed, insecure=True)


def hdmm(
    table: Table, seeds: Sequence[int], epsilon: float = 1.0, split: str = "equal", strategy: str = "union"
) -> Iterator[Line]:
    """Local least squares against the engine, all trials fitted in one batch."""
    if not seeds:
        return
    start = time.perf_counter()
    releases = [hdmm_release(table, seed, epsilon, split, strategy) for seed in seeds]
    answers = [list(release.measurements) for release in releases]
    fits = {
        name: engine(stop=stop).fit_batch(table.domain, answers, table.total)
        for name, stop in (("engine", "optimum"), ("engine, noise level", "noise"))
    }
    seconds = (time.perf_counter() - start) / len(seeds)
    for place, (seed, release) in enumerate(zip(seeds, releases, strict=True)):
        local = local_least_squares(table.domain, table.workload, release.measurements)
        errors = {"paper": relative(table.exact, local)}
        errors |= {name: table.error(batch[place].model) for name, batch in fits.items()}
        ends = {name: batch[place].status.name for name, batch in fits.items()}
        yield {"seed": seed, "errors": errors, "ends": ends, "seconds": seconds}


@functools.lru_cache(maxsize=64)
def hdmm_release(table: Table, seed: int, epsilon: float, split: str, strategy: str = "union") -> pj.Release:
    """HDMM's measurements, with a fit of one step that nobody looks at."""
    mechanism = pj.mechanisms.HDMM(
        epsilon, REPLACE, strategy=strategy, split=split, backend=noise(seed), estimator=engine(max_steps=1)
    )
    return mechanism.run(table.data, table.workload, show_progress=False)


def privbayes(table: Table, seeds: Sequence[int], epsilon: float = 1.0) -> Iterator[Line]:
    """Rows from the multiplied conditionals against the engine by L2 and by L1."""
    for seed in seeds:
        start = time.perf_counter()
        mechanism = pj.mechanisms.PrivBayes(epsilon, REPLACE, backend=noise(seed), estimator=engine())
        release = mechanism.run(table.data, table.workload, show_progress=False)
        errors = {
            "paper": table.rows_error(paper_model(release), seed),
            "engine": table.error(release.model),
            "engine, L1": table.error(table.fit(engine(loss="l1"), release.measurements).model),
            "engine, noise level": table.error(table.fit(engine(stop="noise"), release.measurements).model),
        }
        seconds = time.perf_counter() - start
        yield {
            "seed": seed,
            "errors": errors,
            "ends": {"engine": release.fit.status.name},
            "seconds": seconds,
        }


def dual_query(table: Table, seeds: Sequence[int], epsilon: float = 1.0) -> Iterator[Line]:
    """The game's records against the engine's maximum likelihood, with the paper's accounting."""
    for seed in seeds:
        start = time.perf_counter()
        mechanism = pj.mechanisms.DualQuery(
            epsilon,
            REPLACE,
            DELTA,
            accounting="simple",
            step=2,
            seed=seed,
            backend=noise(seed),
            estimator=engine(solver="mirror_descent", max_steps=GAME_STEPS),
        )
        release = mechanism.run(table.data, table.workload, show_progress=False)
        records = [release.transcript.answer(entry.query) for entry in table.workload.entries]
        errors = {"paper": relative(table.exact, records), "engine": table.error(release.model)}
        yield {
            "seed": seed,
            "errors": errors,
            "ends": {"engine": release.fit.status.name},
            "rounds": release.transcript.rounds,
            "seconds": time.perf_counter() - start,
        }


def mwem(table: Table, seeds: Sequence[int], epsilon: float = 1.0) -> Iterator[Line]:
    """Factored multiplicative weights against the engine, each choosing for itself.

    Both may choose what leaves their estimate within the mechanism's own limit of cells. Without it
    factored weights merge what overlaps until memory or patience ends; the full vector has 3e8 cells or more.
    """
    arms = {"paper": "factored-multiplicative-weights", "engine": "engine"}
    for seed in seeds:
        start = time.perf_counter()
        line: Line = {"seed": seed, "errors": {}, "failed": {}}
        for arm, estimate in arms.items():
            mechanism = pj.mechanisms.MWEM(
                epsilon, REPLACE, estimate=estimate, backend=noise(seed), estimator=engine()
            )
            try:
                release = mechanism.run(table.data, table.workload, show_progress=False)
                line["errors"][arm] = table.error(release.model)
            except (ValueError, RuntimeError) as failure:  # refused beforehand, or ended by its memory guard
                line["failed"][arm] = str(failure)
            jax.clear_caches()
        line["seconds"] = time.perf_counter() - start
        yield line


MECHANISMS: dict[str, Callable[..., Iterator[Line]]] = {
    "privbayes": privbayes,
    "dual-query": dual_query,
    "mwem": mwem,
    "hdmm": hdmm,
}
