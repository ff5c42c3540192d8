"""The GPU programs of named cases, compiled for an H100 without one, and a forecast of their times.

    PGMJAX_DATA=... PYTHONPATH=. python bench/gpu_forecast.py [PROGRAM ...] [--check] [--no-write]

Nothing here runs on a GPU, and no figure is measured on one. XLA compiles each program for a description of
an H100, and the kernels, waits of the host, bytes and exponentials in it are counted; the time is a forecast:
each kernel takes the longest of a launch, its bytes over the bandwidth, its exponentials and its operations
over their rates. Bandwidth, float32 operations, clock and number of multiprocessors are those of NVIDIA's
data sheet of the H100 SXM; 16 exponentials a clock and multiprocessor, and 4 instructions for 32 threads,
are those of the CUDA programming guide for compute capability 9.0. The costs of a launch and of a wait of the
host are assumptions: no data sheet says them.

It needs an environment of its own, Python 3.12, and is run with that environment's Python:

    python3.12 -m venv gpu-env
    gpu-env/bin/pip install 'jax[cuda12]==0.10.2' optax chex opt_einsum scipy

(of the wheels of CUDA, nvidia-cuda-nvcc-cu12 is enough: nothing is run). One line a program goes to
bench/results/gpu-forecast.jsonl. `kernels` and `host_syncs` are those of one step of a fit, of one call
otherwise; `trip_count` is the number of steps that XLA knows of, null if the host decides in every step or
if there are no steps.
`--check` compares the figures with limits and exits with 1 if one is passed.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
import cases
import harness
import jax
import numpy as np
from compiling import problem_of
from gpu_hlo import Program, Rates
from harness import Line
from jax.experimental import topologies

import pgmjax as pj
from pgmjax.estimation import solvers
from pgmjax.estimation.solvers import batch, loop
from pgmjax.inference.oracles.chain import Chain
from pgmjax.inference.oracles.levels import Levels
from pgmjax.inference.plan.structure import Structure

CORES, CLOCK = 132, 1.98e9
H100 = Rates(
    bytes=3.35e12,
    exponentials=CORES * 16 * CLOCK,
    flops=67e12,
    launch=2.5e-6,
    wait=15e-6,
)
TARGET = f"""
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  core_count: {CORES} fpus_per_core: 128 clock_rate_ghz: {CLOCK / 1e9}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {H100.bytes:.0f} l2_cache_size: 52428800 device_memory_size: 85899345920
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  cuda_compute_capability {{ major: 9 }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 7 }}
runtime_version {{ major: 12 minor: 8 }}
device_description_str: "NVIDIA H100 80GB HBM3"
"""
STEPS, ROWS = 50, 64
ORACLES = {"chain-1000": "oracle-chain-1000", "loans15": "oracle-loans15", "adult15-s0": "oracle-adult15-s0"}
FITS = {"fit-adult9": 1, "fit-loans15": 1, f"fit-adult9-rows{ROWS}": ROWS}
LIMITS = {
    "fit-adult9": {"kernels": 20, "host_syncs": 0, "temp_bytes": 100_000},
    "fit-loans15": {"kernels": 55, "host_syncs": 0, "temp_bytes": 2_000_000},
    f"fit-adult9-rows{ROWS}": {"kernels": 38, "host_syncs": 0, "temp_bytes": 20_000_000},
    "chain-1000": {"kernels": 150, "host_syncs": 0, "temp_bytes": 120_000_000},
    "loans15": {"kernels": 80, "host_syncs": 0, "temp_bytes": 1_000_000},
    "adult15-s0": {"kernels": 50, "host_syncs": 0, "temp_bytes": 10_000_000},
}


def device() -> Any:
    """The described device, which compiles and never runs."""
    made = topologies.get_topology_desc("h100", "cuda", target_config=TARGET, topology="1x1x1")
    return made.devices[0]


def compile_for(function: Callable[..., Any], arguments: Any, target: Any) -> Any:
    """Compile a function for a described device from arguments of which only shapes and types count."""
    place = jax.sharding.SingleDeviceSharding(target)

    def described(leaf: Any) -> Any:
        kind = jax.typeof(leaf)
        return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=place)

    shapes = jax.tree.map(described, arguments)
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",)).compile()


def oracle_program(name: str) -> tuple[Callable[..., Any], Any]:
    """One inference: the function that is compiled, and its arguments."""
    case = cases.load(name)
    structure, names = Structure.named(case.sizes, case.cliques)
    oracle = pj.oracles.plan(structure, names, itemsize=4).oracle
    if isinstance(oracle, (Levels, Chain)):
        vector = np.zeros(oracle.length, np.float32)
        return lambda oracle, vector: oracle.infer_flat_with_error(vector), (oracle, vector)
    return lambda oracle, tables: oracle.infer_with_error(tables), (oracle, tuple(cases.potentials(case)))


def fit_program(name: str, rows: int) -> tuple[Callable[..., Any], Any]:
    """A block of solver steps, of one fit or of some rows: the function that is compiled, its arguments."""
    problem = problem_of(name)
    oracle = problem.oracle
    solver, start = solvers.build("auto"), np.zeros(oracle.length, np.float32)
    if rows == 1:
        state = jax.eval_shape(loop._first, problem, solver, start)
        state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), state)
        return loop._run_block, (problem, solver, state, loop.block_steps(STEPS))
    slots = batch._empty(loop.StepRequest(problem, solver, start, STEPS, "float32"), rows, None)
    return batch._block, (batch._shared(problem), solver, slots, np.ones(rows, bool), loop.block_steps(STEPS))


def counted(name: str, target: Any) -> Line:
    """The figures of one program."""
    steps, step = STEPS if name in FITS else 1, None
    fit = name in FITS
    made = fit_program(name.split("-rows")[0], FITS[name]) if fit else oracle_program(ORACLES[name])
    compiled = compile_for(*made, target)
    program = Program(compiled.as_text(), H100, turns=steps)
    if name in FITS:
        step = max(program.loops, key=lambda found: found.turn.kernels)
        ours = {"oracle": type(made[1][0].oracle).__name__}
    else:
        ours = {"oracle": type(made[1][0]).__name__}
    total = program.total
    part = step.turn if step else total
    return {
        "kernels": part.kernels,
        "kernels_call": total.kernels,
        "host_syncs": part.host_syncs,
        "trip_count": step.turns if step else None,
        "loops": [found.turns for found in program.loops],
        "temp_bytes": compiled.memory_analysis().temp_size_in_bytes,
        "traffic_bytes": part.traffic,
        "exponentials": part.exponentials,
        "forecast_s": part.seconds,
        "forecast_call_s": total.seconds,
        "steps_call": steps,
        **ours,
    }


def passed(name: str, line: Line) -> list[str]:
    """The limits that a program passes, in words."""
    found = []
    for key, most in LIMITS.get(name, {}).items():
        value = max(line[key]) if isinstance(line[key], list) else line[key]
        if value > most:
            found.append(f"{name}: {key} is {value}, at most {most} is allowed")
    return found


def told(name: str, line: Line) -> str:
    """One program in a few words."""
    words = [f"{line['kernels']} kernels", f"{line['host_syncs']} waits of the host"]
    return f"{name}: {', '.join(words)}, forecast {1e3 * line['forecast_s']:.3g} ms (a forecast)"


def run(names: Sequence[str], *, check: bool, write: bool) -> bool:
    """Compile the programs, write and say each line; return whether a limit was passed."""
    target = device()
    jax.default_backend = lambda: "gpu"  # plans and forms are those of a GPU
    broken: list[str] = []
    for name in names:
        line = {"bench": "gpu-forecast", "program": name, **counted(name, target)}
        line |= {"target": "H100 SXM, described; nothing was run", "rates": dataclasses.asdict(H100)}
        if write:
            harness.keep("gpu-forecast", line)
        print(told(name, line), flush=True)
        broken += passed(name, line)
    for words in broken if check else ():
        print(words, file=sys.stderr)
    return check and bool(broken)


def main() -> None:
    """Compile the programs that are asked for."""
    parser = harness.parser(__doc__)
    every = [*FITS, *ORACLES]
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"of {', '.join(every)} (all)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is passed")
    parser.add_argument("--no-write", action="store_true", help="print the figures only")
    options = parser.parse_args()
    if wrong := [name for name in options.names if name not in every]:
        parser.error(f"{', '.join(wrong)} is not a program; there are {', '.join(every)}")
    sys.exit(run(options.names or every, check=options.check, write=not options.no_write))


if __name__ == "__main__":
    main()
