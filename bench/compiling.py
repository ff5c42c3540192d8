"""What XLA's settings do to a fit: seconds to compile its block of steps, and to run a step.

    PGMJAX_DATA=... python bench/compiling.py [CASE ...]

One line of JSON for each case and setting. The settings take turns, twice, so that a busy machine
harms all of them alike; the least time of a step counts.
"""

from __future__ import annotations

import json
import sys
import time

import cases
import harness  # noqa: F401  before the library
import jax
import numpy as np

import pgmjax as pj
from pgmjax._internal.jit import CPU_OPTIONS
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.solvers import loop
from pgmjax.estimation.solvers.objective import Objective

SETTINGS = {
    "default": None,
    "no emitters": {"xla_cpu_use_fusion_emitters": False},
    "level 1": {"xla_backend_optimization_level": 1},
    "pgmjax": CPU_OPTIONS,
}
STEPS = 20


def problem_of(name: str) -> Objective:
    """What the fit of a case minimises, in float32, without regularisation."""
    case = cases.load(name)
    total, rows = cases.answers(case)
    domain = pj.Domain(case.sizes)
    measured = [
        pj.LinearMeasurement(clique, values, stddev=case.sigma)
        for clique, values in zip(case.cliques, rows[0], strict=True)
    ]
    bound = losses.build("l2", domain, measured, float(total), "float32")
    oracle = pj.Estimator(regularisation="none").plan(domain, bound.cliques, batch=True).oracle
    return Objective.build(oracle, bound, np.asarray(bound.lipschitz()))


def main(names: list[str]) -> None:
    """Measure each case under each setting."""
    for name in names:
        problem = problem_of(name)
        solver = solvers.build("auto")
        start = loop._start(problem, solver, np.zeros(problem.oracle.length, np.float32))
        arguments = (problem, solver, start)
        compiled, found = {}, {}
        for setting, options in SETTINGS.items():
            lowered = jax.jit(loop._run_block, compiler_options=options).lower(*arguments, np.int32(STEPS))
            wall, cpu = time.perf_counter(), time.process_time()
            compiled[setting] = lowered.compile()
            found[setting] = {
                "compile_s": time.perf_counter() - wall,
                "compile_cpu_s": time.process_time() - cpu,
                "step_ms": np.inf,
            }
        for _ in range(2):
            for setting, program in compiled.items():
                for _ in range(6):
                    began = time.perf_counter()
                    jax.block_until_ready(program(*arguments, np.int32(STEPS)))
                    step = (time.perf_counter() - began) / STEPS * 1e3
                    found[setting]["step_ms"] = min(found[setting]["step_ms"], step)
        for setting, figures in found.items():
            rounded = {key: round(value, 4) for key, value in figures.items()}
            print(json.dumps({"case": name, "setting": setting, **rounded}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["fit-adult9", "fit-loans15", "fit-chain-300"])
