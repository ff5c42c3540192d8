"""Random small fits against an independent optimum: does every status, and every gap, tell the truth?

    python bench/statuses.py [--fits N] [--first SEED] [--only SEED] [--out FILE]

One JSON line for each fit, and one of counts at the end. A fit has at most 400 measured cells. Its seed draws
loss, solver, dtype, tolerance, regularisation, number of records and noise, and whether it runs alone, on a
mesh or in a batch. The optimum is that of SciPy's non-negative least squares or linear program over the joint
table, refined with 80-bit numbers, or of Newton's method over the joint table for a regularised fit: a table
that exists, so that the least loss is at most this.

false: CONVERGED, and the gap or the true excess is above a hundredth of max(1, loss).
low: the gap lies below the true excess. high: the gap of a loss alone lies above the loss.
slow: more than five CPU seconds.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import os
import pathlib
import time
import warnings
from typing import Any

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"

import harness
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog, nnls

import pgmjax as pj

CERTIFIED, SECONDS = 0.01, 5.0
LONG = np.longdouble


@dataclasses.dataclass(frozen=True)
class Case:
    """A random fit.

    Attributes:
        domain: at most five attributes, with at most 1,200 joint cells.
        measurements: their noisy counts, of whole tables.
        total: number of records.
        kind: `l2`, `l1` or `custom`, which is l2 as a function.
        settings: those of the estimator but for the loss.
        way: `alone`, `mesh` or `batch`.
    """

    domain: pj.Domain
    measurements: list[pj.LinearMeasurement]
    total: float
    kind: str
    settings: dict[str, Any]
    way: str

    def system(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows over the joint cells and noisy counts, both in standard deviations."""
        joint = np.indices(self.domain.shape).reshape(len(self.domain.shape), -1)
        rows, values = [], []
        for one in self.measurements:
            places = [self.domain.attributes.index(name) for name in one.clique]
            code = np.ravel_multi_index([joint[p] for p in places], self.domain.shape_of(one.clique))
            spread = one.row_stddevs()
            rows.append((np.arange(one.values.size)[:, None] == code) / spread[:, None])
            values.append(one.flat_values() / spread)
        return np.concatenate(rows), np.concatenate(values)


def case_of(seed: int) -> Case:
    """Return the fit of a seed."""
    rng = np.random.default_rng(seed)
    while True:
        sizes = rng.integers(2, 8, size=rng.integers(1, 6))
        if rng.random() < 0.1:
            sizes = rng.integers(5, 300, size=1)
        cliques = {
            tuple(sorted(rng.choice(len(sizes), size=min(len(sizes), 1 + rng.integers(3)), replace=False)))
            for _ in range(rng.integers(1, 7))
        }
        cells = sum(math.prod(int(sizes[a]) for a in clique) for clique in cliques)
        if cells <= 400 and math.prod(map(int, sizes)) <= 1200:
            break
    domain = pj.Domain({f"x{i}": int(size) for i, size in enumerate(sizes)})
    total = float(round(10 ** rng.uniform(1, 9)))
    spread = 10 ** rng.uniform(-0.5, min(3.0, math.log10(total)))
    joint = total * rng.dirichlet(np.full(math.prod(domain.shape), 10 ** rng.uniform(-1.5, 0.5)))
    joint = joint.reshape(domain.shape)
    measurements = []
    uneven = rng.random() < 0.3
    for clique in sorted(cliques):
        exact = joint.sum(tuple(a for a in range(len(sizes)) if a not in clique))
        own = spread * (10 ** rng.uniform(-2, 1) if uneven else 1)
        noisy = exact + own * rng.normal(size=exact.shape)
        measurements.append(pj.LinearMeasurement(tuple(f"x{a}" for a in clique), noisy, stddev=own))
    kind = str(rng.choice(["l2", "l1", "custom"], p=[0.5, 0.3, 0.2]))
    solver = str(rng.choice(["auto", "auto", "accelerated", "mirror_descent", "dual_averaging", "lbfgs"]))
    if kind == "custom" and solver == "dual_averaging":
        solver = "auto"
    settings = {
        "solver": solver,
        "dtype": str(rng.choice(["float32", "float64"])),
        "tol": [None, None, 1e-2, 1e-4][rng.integers(4)],
        "regularisation": str(rng.choice(["none", "auto"])),
        "oracle": str(rng.choice(["auto", "auto", "contraction"])),
        "max_steps": int(rng.choice([1000, 1000, 200, 3000])),
    }
    way = str(rng.choice(["alone", "alone", "alone", "mesh", "batch"]))
    if way == "mesh" and solver == "lbfgs":
        way = "alone"
    if way == "mesh":
        settings["oracle"] = "auto"
    return Case(domain, measurements, total, kind, settings, way)


def fitted(case: Case) -> pj.Fit:
    """Return the fit, in the way of the case."""
    loss: Any = case.kind
    if case.kind == "custom":
        cliques = tuple(one.clique for one in case.measurements)

        def function(marginals: Any) -> Any:
            terms = [
                jnp.sum(((marginals[one.clique] - jnp.asarray(one.values.copy())) / float(one.stddev)) ** 2)
                for one in case.measurements
            ]
            return 0.5 * sum(terms)

        loss = pj.losses.Custom(function, cliques=cliques)
    estimator = pj.Estimator(loss=loss, progress=False, **case.settings)
    noisy = case.measurements if case.kind != "custom" else []
    if case.way == "batch" and case.kind != "custom" and case.settings["oracle"] != "host":
        return estimator.fit_batch(case.domain, [noisy, noisy], case.total)[1]
    devices = min(2, len(jax.devices()))
    mesh = jax.make_mesh((devices,), ("slices",)) if case.way == "mesh" else None
    return estimator.fit(case.domain, noisy, total=case.total, mesh=mesh)


def loss_of(kind: str, residuals: np.ndarray) -> float:
    """Return the loss of residuals in standard deviations."""
    return float(np.abs(residuals).sum() if kind == "l1" else 0.5 * (residuals**2).sum())


def least_squares(rows: np.ndarray, values: np.ndarray, total: float) -> np.ndarray:
    """Return a table of counts with about the least squares, and no cell below 0, in 80-bit numbers."""
    heavy = 1e3 * rows.max()
    system = np.vstack([rows, np.full(rows.shape[1], heavy)]) * total
    try:
        found = nnls(system, np.append(values, heavy * total), maxiter=30 * rows.shape[1])[0]
    except RuntimeError:
        found = np.full(rows.shape[1], 1 / rows.shape[1])
    table = LONG(found / found.sum()) * LONG(total)
    for _ in range(8):  # refined on its support, where sums are kept
        support = np.flatnonzero(table > 0)
        left = np.asarray(LONG(values) - LONG(rows) @ table, np.float64)
        free = rows[:, support] - rows[:, support].mean(1, keepdims=True)
        move = np.linalg.lstsq(free, left, rcond=1e-12)[0]
        move = np.asarray(LONG(move) - LONG(move).sum() / len(support), LONG)
        now = table[support]
        down = move < 0
        far = float(np.min(-now[down] / move[down], initial=1.0))
        step = min(1.0, far)
        moved = np.maximum(now + LONG(step) * move, 0)
        table = np.zeros_like(table)
        table[support] = moved * (LONG(total) / moved.sum())
    return table


def optimum(case: Case) -> float:
    """Return the loss of a table that is about the best."""
    rows, values = case.system()
    table = least_squares(rows, values, case.total)
    left = np.asarray(LONG(values) - LONG(rows) @ table, np.float64)
    if case.kind != "l1":
        return loss_of(case.kind, left)
    # moves of the table in standard deviations, and the absolute residuals after them
    count, cells = rows.shape
    scale = 1 / rows.max()
    base = np.asarray(table, np.float64)
    cost = np.r_[np.zeros(cells), np.ones(count)]
    moved = rows * scale
    upper = np.block([[moved, -np.eye(count)], [-moved, -np.eye(count)]])
    found = linprog(
        cost,
        A_ub=upper,
        b_ub=np.r_[left, -left],
        A_eq=np.r_[np.ones(cells), np.zeros(count)][None],
        b_eq=[0.0],
        bounds=[*((-b / scale, None) for b in base), *([(0, None)] * count)],
        method="highs",
    )
    best = loss_of("l1", left)
    if found.x is None:
        return best
    end = np.maximum(table + LONG(scale) * LONG(found.x[:cells]), 0)
    end *= LONG(case.total) / end.sum()
    return min(best, loss_of("l1", np.asarray(LONG(values) - LONG(rows) @ end, np.float64)))


def pulled_optimum(case: Case, fit: pj.Fit) -> tuple[float, float]:
    """Return the objective of a regularised fit, and that of about the best table, by Newton's method."""
    assert fit.regularisation is not None
    rows, values = case.system()
    weight = fit.regularisation.weight
    aims = np.maximum(fit.regularisation.reference.marginal(case.domain.attributes).ravel(), 1e-300)
    log_aim = np.log(aims / aims.sum())
    system = rows * case.total

    def objective(p: np.ndarray) -> float:
        inside = np.where(p > 0, p * (np.log(np.maximum(p, 1e-320)) - log_aim), 0.0)
        return 0.5 * float(np.sum((system @ p - values) ** 2)) + weight * float(inside.sum())

    own = fit.model.marginal(case.domain.attributes).ravel() / case.total
    own /= own.sum()
    reached, p = objective(own), np.maximum(own, 1e-14)
    p /= p.sum()
    best = min(reached, objective(p))
    for _ in range(200):
        gradient = system.T @ (system @ p - values) + weight * (np.log(p) - log_aim + 1)
        # in units of the square root of p, which keep the system well scaled
        root = np.sqrt(p)
        bend = (system * root).T @ (system * root) + weight * np.eye(len(p))
        both = np.linalg.solve(bend, np.stack([root * gradient, root], 1))
        move = -root * (both[:, 0] - both[:, 1] * (root @ both[:, 0]) / (root @ both[:, 1]))
        down = move < 0
        size = min(1.0, 0.95 * float(np.min(-p[down] / move[down], initial=np.inf)))
        while size > 1e-12 and not objective(p + size * move) < best:
            size /= 2
        if size <= 1e-12:
            break
        p = p + size * move
        p /= p.sum()
        now = objective(p)
        if best - now < 1e-12 * max(1.0, best):
            best = min(best, now)
            break
        best = min(best, now)
    return reached, best


def line_of(seed: int) -> dict[str, Any]:
    """Run a fit and compare it with the optimum."""
    case = case_of(seed)
    started = time.process_time()
    fit = fitted(case)
    seconds = time.process_time() - started
    rows, values = case.system()
    loss, gap = fit.loss, fit.gap
    if fit.regularisation is None:
        best = optimum(case)
        excess = loss - best
    else:
        reached, best = pulled_optimum(case, fit)
        excess = reached - best
    unit = max(1.0, loss)
    converged = fit.status is pj.Status.CONVERGED
    line = {
        "seed": seed, "kind": case.kind, "way": case.way, **case.settings,
        "cells": len(values), "joint": rows.shape[1], "records": case.total,
        "counts_per_noise": float(f"{case.total * rows.max():.3g}"),
        "status": fit.status.name, "steps": fit.steps, "loss": loss, "gap": gap, "optimum": best,
        "pulled": fit.regularisation is not None, "seconds": round(seconds, 2),
        "false": bool(converged and (gap > CERTIFIED * unit or excess > CERTIFIED * unit)),
        "low": bool(gap < excess - 1e-9 * unit),
        "high": bool(fit.regularisation is None and case.kind != "custom" and gap > loss * (1 + 1e-12)),
        "far": bool(excess > CERTIFIED * max(1.0, best)),
        "slow": seconds > SECONDS,
    }  # fmt: skip
    return line


def tell(line: harness.Line, out: pathlib.Path | None) -> None:
    """Print a line, and keep it where a file is given."""
    print(json.dumps(line), flush=True)
    if out is not None:
        harness.append(out, {**harness.provenance(), **line})


def main() -> None:
    """Print a line for each fit, and the counts."""
    parser = harness.parser(__doc__)
    parser.add_argument("--fits", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--out", type=pathlib.Path, help="file that keeps the lines too")
    given = parser.parse_args()
    seeds = [given.only] if given.only is not None else range(given.first, given.first + given.fits)
    counts: collections.Counter[str] = collections.Counter()
    slowest = 0.0
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line = line_of(seed)
        tell(line, given.out)
        counts["fits"] += 1
        counts[line["status"]] += 1
        counts.update(name for name in ("false", "low", "high", "far", "slow") if line[name])
        slowest = max(slowest, line["seconds"])
    tell({**counts, "slowest": slowest}, given.out)


if __name__ == "__main__":
    main()
