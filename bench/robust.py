"""Run fits for ten thousand steps under tame and wild noise and totals, and watch that nothing breaks.

    PGMJAX_DATA=... python bench/robust.py CASE... [--cases FILE] [--steps N] [--sigma S...] [--records N...]
        [--solver S] [--tol T] [--every N]

One JSON line for each run. The loss is watched from outside: the potentials at the end of some blocks
are kept, and their loss is computed afterwards in float64.

loss, gap: of the fit, as it reports them.
relative: gap over max(1, loss).
rise: the largest rise of the watched loss above its lowest before, over max(1, that lowest).
potential: the largest difference of two potentials of one clique.
finite: whether all watched numbers were.

Answers are the case's counts scaled to the number of records, plus Laplace noise of scale sigma.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import time
from typing import Any

import cases
import checkout  # noqa: F401  before the library
import jax
import numpy as np

import pgmjax as pj
from pgmjax.inference.plan.structure import Structure


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Watched(pj.solvers.Solver):
    """A solver whose result, asked for once a block, is kept on the host."""

    inner: pj.solvers.Solver
    seen: Any = dataclasses.field(metadata={"static": True})

    @property
    def copies(self) -> int:
        """Those of the solver."""
        return self.inner.copies

    def start(self, problem: Any, potentials: Any) -> Any:
        """As the solver."""
        return self.inner.start(problem, potentials)

    def step(self, problem: Any, state: Any) -> Any:
        """As the solver."""
        return self.inner.step(problem, state)

    def recentred(self, gauge: Any, state: Any) -> Any:
        """As the solver."""
        return self.inner.recentred(gauge, state)

    def stalled(self, state: Any) -> Any:
        """As the solver."""
        return self.inner.stalled(state)

    def result(self, problem: Any, state: Any) -> Any:
        """The solver's, after a copy went to the host."""
        point = self.inner.result(problem, state)
        # callbacks run where 64-bit types are off: numbers go as bytes
        raw = jax.lax.bitcast_convert_type(point.potentials, np.uint8)
        jax.debug.callback(self.seen, raw, ordered=True)
        return point


class Seen:
    """The potentials of every so many blocks, and of the first few and the last."""

    def __init__(self, every: int) -> None:
        self.every, self.kept, self.count = every, [], 0

    def __call__(self, raw: Any) -> None:
        """Keep or forget."""
        potentials = np.array(raw).view(np.float32 if raw.shape[-1] == 4 else np.float64)[:, 0]
        if self.count > 5 and (self.count - 1) % self.every:
            self.kept.pop()
        self.kept.append(potentials)
        self.count += 1


def answers(case: cases.Case, sigma: float, records: float | None) -> tuple[float, list[np.ndarray]]:
    """A number of records and noisy counts."""
    total, (exact,) = cases.answers(dataclasses.replace(case, sigma=0.0))
    rng = np.random.default_rng(case.seed)
    wanted = float(total if records is None else records)
    return wanted, [
        counts * (wanted / total) + rng.laplace(scale=sigma, size=counts.shape) for counts in exact
    ]


def watched_losses(
    case: cases.Case, seen: Seen, values: list[np.ndarray], total: float, sigma: float
) -> list:
    """The loss in float64 at what was kept."""
    structure, names = Structure.named(case.sizes, case.cliques)
    infer = pj.oracles.plan(structure, names, itemsize=8).infer
    shapes = structure.shapes
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    losses = []
    for vector in seen.kept:
        parts = np.split(vector.astype(np.float64), ends)[: len(shapes)]
        marginals = infer([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])[1]
        squares = [np.sum((total * m - y) ** 2) for m, y in zip(marginals, values, strict=True)]
        losses.append(0.5 * float(sum(squares)) / sigma**2)
    return losses


def run(case: cases.Case, sigma: float, records: float | None, options: argparse.Namespace) -> dict[str, Any]:
    """One fit and its line."""
    total, values = answers(case, sigma, records)
    seen = Seen(options.every)
    estimator = pj.Estimator(
        regularisation="none",
        solver=Watched(pj.solvers.build(options.solver), seen),
        max_steps=options.steps,
        tol=options.tol,
        progress=False,
    )
    measured = [pj.LinearMeasurement(c, y, stddev=sigma) for c, y in zip(case.cliques, values, strict=True)]
    start = time.perf_counter()
    fit = estimator.fit(pj.Domain(case.sizes), measured, total=total)
    jax.effects_barrier()
    seconds = time.perf_counter() - start
    losses = watched_losses(case, seen, values, total, sigma)
    lowest = np.minimum.accumulate(losses)
    rises = (np.array(losses[1:]) - lowest[:-1]) / np.maximum(1, lowest[:-1])
    tables = fit.model.potentials.tables
    return {
        "case": case.name,
        "sigma": sigma,
        "records": total,
        "steps": fit.steps,
        "status": fit.status.name,
        "loss": fit.loss,
        "gap": fit.gap,
        "relative": fit.gap / max(1.0, fit.loss),
        "rise": float(max(rises, default=0.0)),
        "watched": [len(losses), losses[-1]],
        "potential": float(max(np.ptp(table) for table in tables)),
        "finite": bool(np.isfinite(losses).all() and all(np.isfinite(v).all() for v in seen.kept)),
        "seconds": seconds,
    }


def main() -> None:
    """Run the grid."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="+", help="fits by name")
    parser.add_argument("--cases", metavar="FILE", help="default: $PGMJAX_DATA/../peers/cases.json")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--sigma", type=float, nargs="+", help="the case's, 1e-3 and 1e3 by default")
    parser.add_argument(
        "--records", type=float, nargs="+", help="the case's, 1e2 and 1e9 by default; 0: its own"
    )
    parser.add_argument("--solver", default="auto", choices=("auto", *pj.solvers.names()))
    parser.add_argument("--tol", type=float, default=0.0, help="relative gap to stop at (0: none)")
    parser.add_argument("--every", type=int, default=10, help="blocks between two watched losses (10)")
    options = parser.parse_args()
    for name in options.case:
        case = cases.load(name, options.cases)
        sigmas = options.sigma or [case.sigma, 1e-3, 1e3]
        for sigma, records in itertools.product(sigmas, options.records or [0.0, 1e2, 1e9]):
            line = run(case, sigma, records or None, options)
            print(json.dumps({k: float(f"{v:.7g}") if isinstance(v, float) else v for k, v in line.items()}))


if __name__ == "__main__":
    main()
