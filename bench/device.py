"""Run the named programs on the device at hand, check every number against float64, and keep the times.

    PGMJAX_DATA=... python bench/device.py [PROGRAM ...] [--minutes 9] [--sides device,cpu,mbi]
    python bench/device.py --quick --no-write     # small made inputs, no data, any device: a test

Under ten minutes on one card. Needs Python 3.11 and what the library needs; duckdb for the sweep, mbi 2.0.0
(if it is installed) for the peer. Each program runs in a fresh process on each side:

device: what JAX chooses, a card where there is one.
cpu: JAX on the processor of the same machine. Left out where the device is the processor.
mbi: the peer's own script beside the file of cases, on the device.

Programs: the rates that forecasts follow; inferences, fits, a batch of 64 fits, an AIM loop, a sweep of
100 trials; with several devices, a fit and a batch on their mesh.

`first_s` is the first call (planning, tracing, compiling), `later_s` the best later one, `numpy_s` the same
work by the oracle `host` in float64 NumPy, with whose result the device's is compared: `error` must be at
most `allowed`. Of inferences it is the largest difference of a probability; of fits the relative difference
of losses, of which both certify how far they are from the least at most; of the sweep that of its errors on
the cpu. `launches` are kernels of one later call as the profiler saw them, `busy_s` the time they ran;
`forecast_s` what the plan had forecast.
Lines go to bench/results/device.jsonl; `bench/tables.py` makes docs/lab/device.md of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import cases
import harness
import jax
import machine_rates
import numpy as np
import versus
from harness import Line

import pgmjax as pj
from pgmjax.inference.plan.structure import Structure
from pgmjax.privacy.seeded import SeededBackend

ORACLES = ("loans15", "adult15-s0", "chain-1000", "tree-300", "stroke15")
FITS = ("adult9", "loans15", "chain-300")
ROWS, TRIALS, SIDES = 64, 25, ("device", "cpu", "mbi")
FLOAT32 = 2e-6  # what float32 may differ by from float64, of probabilities and of losses
SWEEPS = 1e-2  # what errors of fits that stop at a relative gap of 1e-4 may be apart
COLUMNS = ("age", "workclass", "education-num", "sex", "income>50K")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one call gave.

    Attributes:
        values: arrays that another side must give too: probabilities, or losses.
        facts: for the line.
        allowed: largest difference from float64.
        again: the same from what this call measured, in float64; None if the whole call is made anew.
    """

    values: Sequence[Any]
    facts: Line
    allowed: float = FLOAT32
    again: Callable[[], Outcome] | None = None


Call = Callable[[], Outcome]


@dataclasses.dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        prepare: draws the inputs, for which no time counts, and returns the call for an oracle's name.
        exact: whether `host` can do the same work in float64 in reasonable time.
        peer: its case of the peer's script.
    """

    prepare: Callable[[str], Call]
    exact: bool = True
    peer: str | None = None


def inference(name: str, oracle: str) -> Call:
    """One inference from standard normal log-potentials."""
    case = cases.load(name)
    wide = oracle == "host"
    tables = cases.potentials(case, "float64" if wide else "float32")
    structure, names = Structure.named(case.sizes, case.cliques)

    @functools.cache
    def planned() -> pj.oracles.Plan:
        return pj.oracles.plan(structure, names, oracle, itemsize=8 if wide else 4)

    def call() -> Outcome:
        plan = planned()
        _, marginals = plan.infer(tables)
        return Outcome(jax.block_until_ready(marginals), told(plan, plan.seconds))

    return call


def told(plan: pj.oracles.Plan, seconds: float) -> Line:
    """What a plan said beforehand."""
    return {
        "oracle": type(plan.oracle).__name__,
        "forecast_s": seconds,
        "forecast_mb": plan.peak_bytes / 2**20,
    }


def settings(oracle: str, steps: int) -> pj.Estimator:
    """The settings of all fits."""
    dtype = "float64" if oracle == "host" else "float32"
    return pj.Estimator(
        regularisation="none", oracle=oracle, max_steps=steps, tol=1e-4, dtype=dtype, progress=False
    )


def fits(name: str, oracle: str, *, rows: int = 1, mesh: bool = False) -> Call:
    """A fit of noisy counts, or a batch of some with noise of their own; on a mesh of all devices."""
    case = cases.load(name)
    total, drawn = cases.answers(case, rows)
    domain, estimator = pj.Domain(case.sizes), settings(oracle, case.steps)
    asked = [versus.measured(case, row) for row in drawn]
    devices = (
        {"mesh": jax.make_mesh((jax.device_count(),), ("devices",))} if mesh and oracle != "host" else {}
    )

    def call() -> Outcome:
        if oracle == "host" or rows == 1:
            some = asked[:2]
            found = [estimator.fit(domain, one, total=float(total), **devices) for one in some]
        else:
            found = list(estimator.fit_batch(domain, asked, totals=[float(total)] * rows, **devices))
        return of_fits(found)

    return call


def of_fits(found: Sequence[pj.Fit]) -> Outcome:
    """The losses of fits; how far two certified fits can be from each other is the larger gap."""
    seconds = sum(fit.plan.step_seconds * fit.steps for fit in found[:1])
    facts = {
        **told(found[0].plan, seconds),
        "steps": max(fit.steps for fit in found),
        "status": sorted({fit.status.name for fit in found}),
        "loss": found[0].loss,
        "gap": max(fit.gap for fit in found),
    }
    apart = max(fit.gap / max(abs(fit.loss), 1.0) for fit in found)
    return Outcome([fit.loss for fit in found], facts, apart + FLOAT32)


Table = tuple[dict[str, int], dict[str, np.ndarray]]


def made() -> Table:
    """Sizes and codes of a table that needs no file."""
    sizes, rng = {"a": 4, "b": 3, "c": 5, "d": 2}, np.random.default_rng(0)
    columns = {name: rng.integers(0, size, 2000) for name, size in sizes.items()}
    return sizes, {**columns, "b": np.minimum(columns["a"], 2)}


def adult() -> Table:
    """Sizes and codes of five columns of Adult."""
    case = cases.load("fit-adult9")
    whole = pj.Domain.read(pathlib.Path(os.environ["PGMJAX_DATA"]) / "adult" / "adult-domain.json").sizes
    sizes = {name: whole[name] for name in COLUMNS}
    return sizes, cases.table_of(dataclasses.replace(case, sizes=sizes))


def aim(oracle: str, *, table: Callable[[], Table]) -> Call:
    """The loop of AIM over all pairs of a table, with seeded noise, which is no release."""
    sizes, columns = table()
    domain = pj.Domain(sizes)
    data, workload = pj.Dataset.from_columns(domain, columns), pj.Workload.all_kway(domain, 2)

    def call() -> Outcome:
        mechanism = pj.mechanisms.AIM(
            "1",
            "add-remove",
            backend=SeededBackend(0, insecure=True),
            estimator=settings(oracle, 1000),
        )
        release = mechanism.run(data, workload, show_progress=False)
        found = of_fits([release.fit])
        facts = {**found.facts, "measured": len(release.measurements)}
        return dataclasses.replace(found, facts=facts, again=lambda: refit(release))

    def refit(release: Any) -> Outcome:
        alone = settings("host", 1000).fit(domain, release.measurements, total=release.model.total)
        return of_fits([alone])

    return call


GRID = """
[grid]
name = "device"
seed = 0
trials = {trials}
epsilons = [0.3, 1]
delta = 0
relation = "add-remove"
[[tables]]
name = "table"
path = "{table}"
domain = "{domain}"
[[workloads]]
name = "2-way"
all_kway = 2
[[mechanisms]]
name = "marginals"
[[mechanisms]]
name = "mst"
"""


def sweep(oracle: str, *, table: Callable[[], Table], trials: int) -> Call:
    """A sweep of two mechanisms at two budgets, for the errors of its trials."""
    from pgmjax import sweeps

    sizes, columns = table()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pgmjax-device-"))
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    pj.Domain(sizes).write(folder / "domain.json")
    text = GRID.format(
        trials=trials,
        dtype="float64" if oracle == "host" else "float32",
        table="table.csv",
        domain="domain.json",
    )
    (folder / "grid.toml").write_text(text)
    runs = iter(range(100))

    def call() -> Outcome:
        path = folder / f"results-{next(runs)}.duckdb"
        outcome = sweeps.run(sweeps.SweepGrid.read(folder / "grid.toml"), path)
        with sweeps.ResultFile(path, read_only=True) as results:
            rows = results.rows()
        rows.sort(key=lambda row: (row["label"], row["epsilon_value"], row["trial"]))
        failed = {row["error"] for row in rows if row["error"]}
        if failed:
            raise RuntimeError(f"{outcome.failed} trials failed, one of them: {failed.pop()}")
        return Outcome([], {"trials": len(rows), "errors": [row["mean_absolute"] for row in rows]})

    return call


def rates(oracle: str) -> Call:
    """The rates that forecasts follow, as `machine_rates.py` measures them."""

    def call() -> Outcome:
        found = {f"{line['of']}.{line['rate']}": line["value"] for line in machine_rates.measure()}
        return Outcome([], {"rates": found})

    return call


def programs(quick: bool) -> dict[str, Program]:
    """The programs by name: those of the record, or small ones."""
    table, trials, rows = (made, 2, 3) if quick else (adult, TRIALS, ROWS)
    inferences = ("chain-12x3", "tree-12") if quick else ORACLES
    fitted = ("chain-12x3",) if quick else FITS
    batch = fitted[0]
    part = functools.partial
    found = {
        "rates": Program(rates, exact=False),
        **{f"fit-{x}": Program(part(fits, f"fit-{x}"), peer=None if quick else f"fit-{x}") for x in fitted},
        **{
            f"oracle-{x}": Program(part(inference, f"oracle-{x}"), peer=None if quick else f"oracle-{x}")
            for x in inferences
        },
        f"fit-{batch}@{rows}": Program(part(fits, f"fit-{batch}", rows=rows)),
        "aim": Program(part(aim, table=table)),
        "sweep": Program(part(sweep, table=table, trials=trials), exact=False),
    }
    if jax.device_count() > 1:
        found["mesh-fit"] = Program(part(fits, f"fit-{batch}", mesh=True))
        found["mesh-batch"] = Program(part(fits, f"fit-{batch}", rows=4 * rows, mesh=True))
    return found


def largest_difference(found: Outcome, exact: Outcome, relative: bool) -> float:
    """The largest difference from float64, of those that both have."""
    pairs = zip(found.values, exact.values, strict=False)
    each = [np.max(np.abs(np.asarray(one, np.float64) - other), initial=0) for one, other in pairs]
    if relative:
        each = [x / max(abs(float(y)), 1.0) for x, y in zip(each, exact.values, strict=False)]
    return float(max(each)) if np.isfinite(each).all() else float("inf")


def launched(call: Call) -> Line:
    """The kernels and copies of one call as the profiler saw them on a card, and the time they ran."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            call()
        file = next(pathlib.Path(folder).rglob("*.xplane.pb"))
        planes = jax.profiler.ProfileData.from_file(str(file)).planes
        lines = [line for plane in planes if plane.name.startswith("/device:") for line in plane.lines]
        events = [event for line in lines if line.name.startswith("Stream") for event in line.events]
        copies = [event for event in events if event.name.lower().startswith(("memcpy", "memset"))]
        busy = sum(event.duration_ns for event in events) / 1e9
    return {"launches": len(events) - len(copies), "copies": len(copies), "busy_s": busy}


def best_of(call: Call, first_s: float) -> float | None:
    """The best of some later calls; None for what takes too long to do again."""
    if first_s > 60:
        return None
    times: list[float] = []
    while len(times) < 60 and (len(times) < 3 or sum(times) < 1.0) and sum(times) < 10:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(program: Program, side: str) -> Line:
    """One program in this process: times, memory, launches and, on the device, the check."""
    call = program.prepare("auto")
    start = time.perf_counter()
    found = call()
    line: Line = {"first_s": time.perf_counter() - start, **found.facts, "allowed": found.allowed}
    line |= {"device": jax.devices()[0].device_kind, "devices": jax.device_count()}
    if program.exact:
        line["later_s"] = best_of(call, line["first_s"])
    stats = jax.local_devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        line["device_peak_mb"] = stats["peak_bytes_in_use"] / 2**20
    if jax.default_backend() != "cpu" and (line.get("later_s") or 60) < 20:
        try:
            line |= launched(call)
        except Exception as failure:
            line["launches_failed"] = repr(failure)[:300]
    if side == "device" and program.exact:
        on_host = program.prepare("host")
        try:
            start = time.perf_counter()
            exact = found.again() if found.again else on_host()
            line["numpy_first_s"] = time.perf_counter() - start
            line["numpy_s"] = best_of(on_host, 10 * line["numpy_first_s"]) or line["numpy_first_s"]
        except pj.ModelTooLargeError as refusal:
            exact = None
            line["numpy_failed"] = str(refusal)[:200]
        if exact is not None:
            line["error"] = largest_difference(found, exact, relative="loss" in line)
    line["right"] = line.get("error", 0.0) <= found.allowed
    return {**line, "peak_mb": harness.peak_mb()}


def command(name: str, program: Program, side: str, quick: bool) -> list[str]:
    """The command line of one program on one side."""
    if side == "mbi":
        return [sys.executable, str(cases.default_file().with_name("mbi_run.py")), str(program.peer)]
    words = [sys.executable, __file__, name, "--one", side, *(["--quick"] if quick else [])]
    return ["env", "JAX_PLATFORMS=cpu", *words] if side == "cpu" else words


def wanted(sides: Sequence[str], chosen: dict[str, Program]) -> list[tuple[str, str]]:
    """Sides and names to run, the device's first: where time ends, it ends with the others."""
    can = {"device"} | ({"cpu"} if jax.default_backend() != "cpu" else set())
    if importlib.util.find_spec("mbi"):
        can.add("mbi")
    return [
        (side, name)
        for side in sides
        if side in can
        for name, program in chosen.items()
        if not (side == "mbi" and program.peer is None)
    ]


def say(side: str, name: str, line: Line) -> None:
    """One run in a few words."""
    if "failed" in line:
        harness.say(f"{side} {name}: failed: {line['failed']}")
        return
    keys = ("first_s", "later_s", "cold_s", "warm_s", "numpy_s", "error", "launches", "steps", "right")
    parts = [f"{key} {line[key]:.4g}" for key in keys if line.get(key) is not None]
    harness.say(f"{side} {name}: {', '.join(parts)}")


def compared(found: Sequence[float], first: Sequence[float]) -> Line:
    """How far the errors of a sweep are from those of the side that ran first."""
    error = max(abs(one - other) / other for one, other in zip(found, first, strict=True))
    return {"error": error, "allowed": SWEEPS, "right": error <= SWEEPS}


def run(options: argparse.Namespace) -> bool:
    """Run what is asked for while there is time; return whether all was right."""
    every = programs(options.quick)
    chosen = {name: every[name] for name in options.names or every}
    end, right, errors = time.monotonic() + 60 * options.minutes, True, {}
    for side, name in wanted(options.sides.split(","), chosen):
        left = end - time.monotonic()
        if left < 10:
            harness.say(f"{side} {name}: not run, for want of time")
            continue
        line = harness.run(command(name, chosen[name], side, options.quick), memory_gb=None, timeout=left)
        if found := line.pop("errors", None):
            line |= compared(found, errors.setdefault(name, found))
        right &= "failed" not in line and line.get("right", True)
        say(side, name, line)
        line = {
            "bench": "device",
            "program": name,
            "side": side,
            **line,
        }
        if options.write:
            harness.keep("device", line)
    return right


def main() -> None:
    """Run the programs, or one of them in this process."""
    parser = harness.parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="all, unless some are named")
    parser.add_argument("--sides", default=",".join(SIDES), help="of device, cpu, mbi (all)")
    parser.add_argument("--minutes", type=float, default=9, help="after which no program begins (9)")
    parser.add_argument("--quick", action="store_true", help="small made inputs, as a test")
    parser.add_argument("--no-write", dest="write", action="store_false", help="print only")
    parser.add_argument("--one", choices=SIDES[:2], help=argparse.SUPPRESS)
    options = parser.parse_args()
    every = programs(options.quick)
    if strange := [name for name in options.names if name not in every]:
        parser.error(f"there is no program {', '.join(strange)}; there are {', '.join(every)}")
    if options.one:
        print(json.dumps(measure(every[options.names[0]], options.one)))
        return
    sys.exit(0 if run(options) else 1)


if __name__ == "__main__":
    main()
