"""One point of Figure 2b: time one way of estimation on a chain of triples and print one line of JSON.

    python bench/paper004/scalability_point.py METHOD ATTRIBUTES [--steps N] [--seconds S]

Attributes have ten values, every triple of neighbours is measured: exact counts of 50,000 uniform records
plus Laplace noise of scale 50, the same numbers for every method (bench/cases.py). `mbi` runs in an
interpreter that has the peer and needs nothing else of this library. Seconds:

cold_s: the first call in this fresh process, from noisy answers to a result; imports do not count.
warm_s: the best later call; step_s: that over its steps. What is done once a call is in it: start, end,
    and for the engine and the peer whatever they plan or trace again.
step_cpu_s: the same in seconds of CPU over all threads, which says more on a machine that others use.

An iteration uses every measurement once: a step of the engine's default solver (one inference), a sweep of
multiplicative weights, an iteration of LSMR, a step of the peer's mirror descent (two inferences: it
searches along the line). The engine and the peer count in float32, the full vectors in float64.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import cases

Line = dict[str, Any]
Run = Callable[[], tuple[int, Line]]

VECTOR_WORK = 2e8
"""Cells times measurements that one call of a full-vector method goes over, about."""


def engine(case: cases.Case, total: float, noisy: list, steps: int, dtype: str = "float32") -> Run:
    """Fits of the engine, `steps` steps each."""
    import pgmjax as pj

    domain = pj.Domain(case.sizes)
    settings = pj.Estimator(regularisation="none", max_steps=steps, tol=0, dtype=dtype, progress=False)

    def call() -> tuple[int, Line]:
        fit = settings.fit(domain, _measured(case, noisy), total=total)
        return fit.steps, {"status": fit.status.name, "loss": fit.loss, "gap": fit.gap}

    return call


def certificate(case: cases.Case, total: float, noisy: list, steps: int) -> Run:
    """Fits of the engine to its default tolerance in both types: how they end."""
    import pgmjax as pj

    domain = pj.Domain(case.sizes)

    def call() -> tuple[int, Line]:
        line: Line = {}
        for dtype in ("float32", "float64"):
            start = time.perf_counter()
            settings = pj.Estimator(
                regularisation="none", tol=1e-4, max_steps=steps, dtype=dtype, progress=False
            )
            fit = settings.fit(domain, _measured(case, noisy), total=total)
            line[dtype] = {"status": fit.status.name, "steps": fit.steps, "loss": fit.loss, "gap": fit.gap}
            line[dtype] |= {"relative_gap": fit.gap / fit.loss, "seconds": time.perf_counter() - start}
        return line["float32"]["steps"], line

    return call


def multiplicative_weights(case: cases.Case, total: float, noisy: list, steps: int) -> Run:
    """Sweeps of multiplicative weights over all cells."""
    import pgmjax as pj
    from pgmjax.mechanisms.multiplicative_weights import FullVector

    domain = pj.Domain(case.sizes)
    return lambda: (FullVector(domain).sweep(_measured(case, noisy), total, steps), {})


def lsmr(case: cases.Case, total: float, noisy: list, steps: int) -> Run:
    """Global least squares by SciPy's LSMR over all cells."""
    import scipy.sparse.linalg

    import pgmjax as pj
    from pgmjax.strategies import global_least_squares

    domain = pj.Domain(case.sizes)
    workload = pj.Workload([list(clique) for clique in case.cliques])
    cells = math.prod(case.sizes.values())
    done, solve = [], scipy.sparse.linalg.lsmr

    def counted(*arguments: Any, **options: Any) -> tuple:
        found = solve(*arguments, **options)
        done.append(int(found[2]))
        return found

    def call() -> tuple[int, Line]:
        # the answers say nothing of the iterations, so LSMR is listened to
        scipy.sparse.linalg.lsmr = counted
        try:
            global_least_squares(domain, workload, _measured(case, noisy), max_cells=cells, max_steps=steps)
        finally:
            scipy.sparse.linalg.lsmr = solve
        return done[-1], {}

    return call


def mbi(case: cases.Case, total: float, noisy: list, steps: int) -> Run:
    """Fits of the peer's default estimator with its default oracle."""
    warnings.filterwarnings("ignore")
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    import jax
    import jax.numpy as jnp
    import mbi as peer

    domain = peer.Domain.fromdict(case.sizes)
    measured = [
        peer.LinearMeasurement(jnp.asarray(values.reshape(-1)), clique, stddev=case.sigma)
        for clique, values in zip(case.cliques, noisy, strict=True)
    ]

    def call() -> tuple[int, Line]:
        model = peer.estimation.MirrorDescent().estimate(domain, measured, known_total=total, iters=steps)
        jax.block_until_ready(model.potentials)
        return steps, {}

    return call


METHODS = {
    "engine": engine,
    "multiplicative-weights": multiplicative_weights,
    "lsmr": lsmr,
    "mbi": mbi,
    "certificate": certificate,
}


def _measured(case: cases.Case, noisy: list) -> list:
    import pgmjax as pj

    return [
        pj.LinearMeasurement(clique, values, stddev=case.sigma)
        for clique, values in zip(case.cliques, noisy, strict=True)
    ]


def default_steps(method: str, case: cases.Case) -> int:
    """Steps of one call: fewer where one goes over many cells; enough to end for the certificate."""
    if method == "certificate":
        return 5000
    if method in ("engine", "mbi"):
        return 200
    work = math.prod(case.sizes.values()) * len(case.cliques)
    return int(min(200, max(3, VECTOR_WORK // work)))


def measure(method: str, attributes: int, steps: int | None = None, seconds: float = 10.0) -> Line:
    """Time one method: the first call, and later calls for some seconds (one at least)."""
    case = cases.make(f"fit-chain-{attributes}")
    total, (noisy,) = cases.answers(case)
    call = METHODS[method](case, float(total), noisy, steps or default_steps(method, case))
    start = time.perf_counter()
    done, found = call()
    line: Line = {"cold_s": time.perf_counter() - start, "steps": done, **found}
    later: list[float] = []
    used: list[float] = []
    while method != "certificate" and (not later or (len(later) < 5 and sum(later) < seconds)):
        start, busy = time.perf_counter(), time.process_time()
        done, _ = call()
        later.append(time.perf_counter() - start)
        used.append(time.process_time() - busy)
    if later:
        line |= {"warm_s": min(later), "steps": done, "step_s": min(later) / done, "later_calls": len(later)}
        line["step_cpu_s"] = min(used) / done
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**line, "peak_mb": peak / (2**20 if sys.platform == "darwin" else 1024)}


def main() -> None:
    """Run one point and print its line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("attributes", type=int)
    parser.add_argument("--steps", type=int, metavar="N", help="of one call")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of later calls (10)")
    options = parser.parse_args()
    if options.method != "mbi":
        import harness  # noqa: F401  before the library
        import jax

        jax.config.update("jax_enable_compilation_cache", False)
    try:
        line = measure(options.method, options.attributes, options.steps, options.seconds)
    except ValueError as error:
        sys.exit(f"refused: {error}")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
