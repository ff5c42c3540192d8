"""Optimised strategies against SciPy's L-BFGS-B on the same objective in NumPy, and restarts in one call.

    python bench/strategies.py [--repeats R] [--parts range census restarts] [--out FILE]

range: one search of all ranges over 512 codes from the same random start (OPT_0). census: OPT_kron on the
workload SF1 of the HDMM papers (4151 queries). SciPy's side is written in plain NumPy from the formulas:
for the range its own gradient, for the census the joint objective over the weights of all attributes,
from random starts of the same distributions. Its tolerance is our library's. restarts: 25 starts in one call
against 25 calls with one.

Sides take turns in one process, the median of all turns counts; the first turn of a shape, which compiles,
is told apart (`first_s`). `rmse` is the expected error of a query where ``2 / epsilon**2`` is 1. SciPy's
driver calls threaded BLAS on tiny arrays: `blas_threads` says what the environment allows
(OPENBLAS_NUM_THREADS=1 spares SciPy most of its time on a busy machine).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import checkout  # noqa: F401  before the library
import harness
import jax
import numpy as np
from harness import Line
from scipy import linalg, optimize

from pgmjax import queries
from pgmjax.random import generator
from pgmjax.strategies import attribute, products
from pgmjax.strategies.grams import Term, block_gram, query_terms

RESTARTS, TOLERANCE, MAX_STEPS = 25, 1e-9, 2000
Sides = dict[str, Callable[[], float]]


def inverse_and_pull(theta: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The inverse Gram matrix of a p-identity, and the gradient of ``tr(gram inverse)`` for any gram."""
    scales = 1 + theta.sum(axis=0)
    factor = linalg.cho_factor(np.eye(len(theta)) + theta @ theta.T, lower=True)
    solved = linalg.cho_solve(factor, theta)
    inverse = (np.eye(theta.shape[1]) - theta.T @ solved) * np.outer(scales, scales)

    def pull(gram: np.ndarray) -> np.ndarray:
        return error_and_gradient(gram, theta)[1]

    return inverse, pull


def error_and_gradient(gram: np.ndarray, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """The error of a p-identity and its gradient in NumPy, with one product of cost size^2 p."""
    scales, diagonal = 1 + theta.sum(axis=0), np.diagonal(gram)
    asked = (theta * scales) @ gram
    factor = linalg.cho_factor(np.eye(len(theta)) + theta @ theta.T, lower=True)
    solved, moved = linalg.cho_solve(factor, theta), linalg.cho_solve(factor, asked * scales)
    error = float((diagonal * scales**2).sum() - (asked * scales * solved).sum())
    by_scales = 2 * (diagonal * scales - (asked * solved).sum(axis=0))
    return error, by_scales - 2 * (moved - (moved @ theta.T) @ solved)


def scipy_search(evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> float:
    """Least value that L-BFGS-B finds over weights >= 0, in units of the value at the start."""
    scale = evaluate(start)[0]

    def scaled(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evaluate(weights)
        return value / scale, gradient / scale

    options = {"ftol": TOLERANCE, "gtol": 1e-12, "maxiter": MAX_STEPS, "maxfun": MAX_STEPS}
    bounds = [(0, None)] * start.size
    end = optimize.minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(end.fun) * scale


def range_sides(size: int = 512) -> tuple[Sides, int]:
    """Both searches of all ranges, and the number of ranges."""
    gram = block_gram(queries.all_ranges(), size)
    scale = float(np.trace(gram))
    start = generator(0).random((attribute.default_rows(gram), size))

    def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray]:
        error, gradient = error_and_gradient(gram / scale, weights.reshape(start.shape))
        return error, gradient.reshape(-1)

    sides = {
        "pgmjax": lambda: attribute.optimise_p_identity(gram, restarts=0, start=start)[1],
        "scipy": lambda: scipy_search(evaluate, start.reshape(-1)) * scale,
    }
    return sides, size * (size + 1) // 2


def census() -> tuple[list[Term], Any]:
    """The Gram matrix of SF1 as a sum of products, and its domain."""
    file = pathlib.Path(__file__).parent.parent / "tests" / "strategies" / "census.py"
    spec = importlib.util.spec_from_file_location("census", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    terms = [term for product in module.products() for term in query_terms(product, module.DOMAIN)]
    return terms, module.DOMAIN


def census_sides() -> tuple[Sides, int]:
    """OPT_kron by the library and as one joint search in NumPy, and the number of queries."""
    terms, domain = census()
    names = domain.attributes
    grams = {name: np.stack([term.factor(name, domain[name]) for term in terms]) for name in names}
    coefficients = np.array([term.coefficient for term in terms])
    shapes = {name: (attribute.default_rows(grams[name].sum(axis=0)), domain[name]) for name in names}
    cuts = np.cumsum([0, *(rows * size for rows, size in shapes.values())])

    def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [weights[a:b].reshape(shapes[n]) for n, a, b in zip(names, cuts, cuts[1:], strict=False)]
        made = [inverse_and_pull(part) for part in parts]
        errors = np.stack(
            [np.tensordot(grams[name], made[at][0], ((1, 2), (0, 1))) for at, name in enumerate(names)]
        )
        slopes = []
        for at, name in enumerate(names):
            others = coefficients * np.delete(errors, at, axis=0).prod(axis=0)
            slopes.append(made[at][1](np.tensordot(others, grams[name], 1)).reshape(-1))
        return float(coefficients @ errors.prod(axis=0)), np.concatenate(slopes)

    def searched_anew() -> float:
        attribute._from_random_starts.cache_clear()
        return products.optimise_product(terms, names, domain, restarts=1)[1]

    sides = {
        "pgmjax": searched_anew,
        "scipy": lambda: scipy_search(evaluate, generator(0).random(cuts[-1])),
    }
    return sides, 4151


def restart_sides(size: int) -> tuple[Sides, int]:
    """As many restarts in one call and in single calls, from the same starts."""
    gram = block_gram(queries.all_ranges(), size)
    random = generator(0)
    starts = [random.random((attribute.default_rows(gram), size)) for _ in range(RESTARTS)]
    sides = {
        "one call": lambda: attribute.optimise_p_identity(gram, restarts=RESTARTS)[1],
        "single calls": lambda: min(
            attribute.optimise_p_identity(gram, restarts=0, start=s)[1] for s in starts
        ),
        "one start": lambda: attribute.optimise_p_identity(gram, restarts=1)[1],
    }
    return sides, size * (size + 1) // 2


def compared(sides: Sides, queries_asked: int, repeats: int) -> Line:
    """Times of all sides, which take turns, and what they reached."""
    spent: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    reached: dict[str, float] = {}
    for _ in range(1 + repeats):
        for side, run in sides.items():
            start, busy = time.perf_counter(), time.process_time()
            reached[side] = run()
            spent[side].append(time.perf_counter() - start)
            cpu[side].append(time.process_time() - busy)
    return {
        "first_s": {side: times[0] for side, times in spent.items()},
        "median_s": {side: statistics.median(times[1:]) for side, times in spent.items()},
        "median_cpu_s": {side: statistics.median(times[1:]) for side, times in cpu.items()},
        "rmse": {side: float(np.sqrt(error / queries_asked)) for side, error in reached.items()},
        "repeats": repeats,
    }


def show(line: Line) -> str:
    """One line of words."""
    sides = ", ".join(f"{side} {seconds:.3g} s" for side, seconds in line["median_s"].items())
    errors = ", ".join(f"{error:.4f}" for error in line["rmse"].values())
    return f"{line['part']}: {sides}; ratio {line['ratio']:.2f}; rmse {errors}"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parts = ("range", "census", "restarts")
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=parts)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256], help="codes, for restarts")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "strategies.jsonl")
    return parser.parse_args(arguments)


def main() -> None:
    """Measure and record."""
    options = parse()
    about = harness.provenance()
    about["versions"] |= harness.versions(names=("scipy",))
    about["blas_threads"] = os.environ.get("OPENBLAS_NUM_THREADS", "default")
    accelerated = jax.default_backend() != "cpu"
    made: list[tuple[str, Callable[[], tuple[Sides, int]], str, str]] = []
    if "range" in options.parts:
        made.append(("all ranges of 512", range_sides, "scipy", "pgmjax"))
    if "census" in options.parts:
        made.append(("SF1", census_sides, "scipy", "pgmjax"))
    for size in options.sizes if "restarts" in options.parts else []:
        made.append(
            (f"restarts of {size}", lambda size=size: restart_sides(size), "single calls", "one call")
        )
    for part, build, theirs, ours in made:
        load = harness.load_average()
        line = compared(*build(), options.repeats)
        line["ratio"] = line["median_s"][theirs] / line["median_s"][ours]
        line["cpu_ratio"] = line["median_cpu_s"][theirs] / line["median_cpu_s"][ours]
        batch: float | str = "not measured"
        if accelerated and "one start" in line["median_s"]:
            batch = line["median_s"]["one call"] / line["median_s"]["one start"]
        line = {"bench": "strategies", "part": part, **line, "gpu_batch_over_one": batch}
        line |= {"load_before": load, **about}
        harness.append(options.out, line)
        print(show(line), flush=True)
    if not accelerated:
        print(f"on a GPU, {RESTARTS} restarts against one: not measured")


if __name__ == "__main__":
    main()
