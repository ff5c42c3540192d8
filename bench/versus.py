"""Time the library on one case and print one line of JSON that compares with a peer's.

    PGMJAX_DATA=... python bench/versus.py CASE [--cases FILE] [--solver S] [--oracle O] [--steps N]
        [--dtype T] [--batch B] [--later N] [--to-loss L] [--persistent-cache [DIR]] [--save F.npz]

Keys as in the peer's line: case, cold_s, warm_s, loss, rounds (loops), peak_mb. Seconds:

cold_s: the first call in this fresh process, from plain arrays to a result on the host; planning,
    tracing and compiling count, imports and drawing the inputs do not. No persistent cache of
    compiled programs is used. For a loop, all its fits.
warm_s: the best later call that is compiled, from plain arrays to a result on the host too. For oracles
    at least three calls and half a second of them are made, for fits --later.
cached_cold_s: with --persistent-cache, the first call of a fresh process that finds its compiled
    programs in a cache that a process before it filled.
compile_s, lower_s, trace_s, programs: where the first call's seconds went, as JAX reports them
    (a traced function that calls a compiled one counts both), and how many programs were compiled.

loss is 0.5 * sum(((mu - y) / sigma)**2) over every answer, from the model's marginals in float64.
`--save` writes the marginals arr_0, arr_1, ... in the order of the case's cliques: expected counts
for fits and loops (start, then rounds), probabilities for oracles.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import cases
import harness
import jax
import numpy as np

import pgmjax as pj
from pgmjax.inference.oracles.levels import Levels
from pgmjax.inference.plan.structure import Structure

Line = dict[str, Any]


EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace_s",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower_s",
    "/jax/core/compile/backend_compile_duration": "compile_s",
}


class Compiling:
    """Adds up what JAX says about its compiling."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(EVENTS.values(), 0.0)
        self.programs = 0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **_: Any) -> None:
        if event in EVENTS:
            self.seconds[EVENTS[event]] += seconds
            self.programs += event.endswith("backend_compile_duration")

    def so_far(self) -> Line:
        """The sums up to now."""
        return {**self.seconds, "programs": self.programs}


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of a call, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def best_of(call: Callable[[], Any], calls: int = 3, at_least: float = 0.5) -> float:
    """Seconds of the fastest call, of some calls and some seconds of them at least."""
    times: list[float] = []
    end = time.perf_counter() + at_least
    while len(times) < calls or time.perf_counter() < end:
        times.append(seconds_of(call)[0])
    return min(times)


def precision(dtype: str) -> Any:
    """Where arrays of a type can be made."""
    return jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext()


def run_oracle(case: cases.Case, options: argparse.Namespace, compiling: Compiling) -> tuple[Line, list]:
    """One inference: log-partition and the marginal of each clique."""
    tables = cases.potentials(case, options.dtype)
    start = time.perf_counter()
    structure, names = Structure.named(case.sizes, case.cliques)
    plan = pj.oracles.plan(structure, names, options.oracle, itemsize=tables[0].itemsize)
    planned = time.perf_counter() - start
    log_partition, marginals = plan.infer(tables)
    line: Line = {"cold_s": time.perf_counter() - start, "plan_s": planned, **compiling.so_far()}
    # later calls go from device to device, as the peer's; levels take a host vector in either case
    if not isinstance(plan.oracle, Levels):
        tables = [jax.device_put(table) for table in tables]
    plan.infer(tables)
    if isinstance(plan.oracle, Levels) and plan.beginning:
        for _ in range(plan.beginning.calls + 1):  # those that run in NumPy, and the one that compiles
            plan.infer(tables)
    line["warm_s"] = best_of(lambda: jax.block_until_ready(plan.infer(tables)[1]))
    if not np.isfinite(log_partition) or not all(np.isfinite(table).all() for table in marginals):
        raise FloatingPointError(f"{case.name}: the oracle gave numbers that are not finite.")
    return {**line, "log_partition": float(log_partition), **_plan_keys(plan)}, marginals


def _plan_keys(plan: pj.oracles.Plan) -> Line:
    cost = plan.oracle.forecast
    forecast = {"peak_mb": plan.peak_bytes / 2**20}
    for name in ("work", "flops", "bytes", "largest", "inputs", "operations"):
        if isinstance(getattr(cost, name, None), int | float):
            forecast[name] = getattr(cost, name)
    return {"oracle": type(plan.oracle).__name__, "method": cost.method, "forecast": forecast}


def estimator(case: cases.Case, options: argparse.Namespace) -> pj.Estimator:
    """The settings of a case's fits."""
    return pj.Estimator(
        regularisation="none",
        solver=options.solver,
        oracle=options.oracle,
        max_steps=options.steps or case.steps,
        tol=options.tol,
        dtype=options.dtype,
        progress=False,
    )


def measured(case: cases.Case, noisy: list[np.ndarray]) -> list[pj.LinearMeasurement]:
    """The answers as measurements; sigma is the weight of the loss, on both sides."""
    return [
        pj.LinearMeasurement(clique, values, stddev=case.sigma)
        for clique, values in zip(case.cliques, noisy, strict=True)
    ]


def loss_of(case: cases.Case, marginals: list[np.ndarray], noisy: list[np.ndarray]) -> float:
    """0.5 * sum(((mu - y) / sigma)**2) in float64."""
    squares = (np.sum((mu - y) ** 2) for mu, y in zip(marginals, noisy, strict=True))
    return float(sum(0.5 * s for s in squares) / case.sigma**2)


def run_fit(case: cases.Case, options: argparse.Namespace, compiling: Compiling) -> tuple[Line, list]:
    """One fit, and the same again."""
    total, (noisy,) = cases.answers(case)
    domain, settings = pj.Domain(case.sizes), estimator(case, options)

    if options.to_loss is not None:
        return run_to_loss(case, options, compiling)

    def call() -> pj.Fit:
        return settings.fit(domain, measured(case, noisy), total=float(total))

    cold, fit = seconds_of(call)
    line: Line = {"cold_s": cold, **compiling.so_far()}
    line["warm_s"] = min(seconds_of(call)[0] for _ in range(options.later))
    line["step_s"] = line["warm_s"] / max(fit.steps, 1)
    marginals = [fit.model.marginal(clique) for clique in case.cliques]
    line |= {"loss": loss_of(case, marginals, noisy), "fit_loss": fit.loss, "gap": fit.gap}
    return {**line, "steps": fit.steps, "status": fit.status.name, **_plan_keys(fit.plan)}, marginals


class Reached(Exception):
    """Ends a fit at a wanted loss; its argument is the report of the fit there."""


def run_to_loss(case: cases.Case, options: argparse.Namespace, compiling: Compiling) -> tuple[Line, list]:
    """One fit up to the first checked loss that is at most the wanted one, and the same again."""
    total, (noisy,) = cases.answers(case)
    domain, settings = pj.Domain(case.sizes), estimator(case, options)

    def look(progress: Any) -> None:
        if progress.loss <= options.to_loss:
            raise Reached(progress)

    def call() -> Any:
        try:
            fit = settings.fit(domain, measured(case, noisy), total=float(total), callback=look)
        except Reached as end:
            found = end.args[0]
            return found.step, "REACHED", found.marginals
        return fit.steps, fit.status.name, {clique: fit.model.marginal(clique) for clique in case.cliques}

    cold, (steps, status, tables) = seconds_of(call)
    line: Line = {"cold_s": cold, **compiling.so_far()}
    line["warm_s"] = min(seconds_of(call)[0] for _ in range(options.later))
    marginals = [tables[clique] for clique in case.cliques]
    plan = settings.plan(domain, case.cliques)
    line |= {"loss": loss_of(case, marginals, noisy), "steps": steps, "status": status, **_plan_keys(plan)}
    return {**line, "to_loss": options.to_loss}, marginals


def run_loop(case: cases.Case, options: argparse.Namespace, compiling: Compiling) -> tuple[Line, list]:
    """Fits of a growing structure, each started from the last; the loss is that of every answer."""
    total, (noisy,) = cases.answers(case)
    domain, settings = pj.Domain(case.sizes), estimator(case, options)
    rounds, steps, programs, fit = [], [], [], None
    start = time.perf_counter()
    measurements = measured(case, noisy)
    for count in range(len(case.start), len(case.cliques) + 1):
        model = fit and fit.model
        spent, fit = seconds_of(
            lambda model=model, count=count: settings.fit(
                domain, measurements[:count], total=float(total), warm_start=model
            )
        )
        rounds.append(round(spent, 3))
        steps.append(fit.steps)
        programs.append(compiling.programs - sum(programs))
    line: Line = {"cold_s": time.perf_counter() - start, **compiling.so_far(), "rounds": len(rounds)}
    marginals = [fit.model.marginal(clique) for clique in case.cliques]
    line |= {"loss": loss_of(case, marginals, noisy), "fit_loss": fit.loss, "gap": fit.gap}
    line |= {"steps": sum(steps), "status": fit.status.name, **_plan_keys(fit.plan)}
    return {**line, "round_s": rounds, "round_steps": steps, "round_programs": programs}, marginals


def run_batch(case: cases.Case, options: argparse.Namespace, compiling: Compiling) -> tuple[Line, list]:
    """Fits of one structure under many draws of the noise: at once, and one after the other.

    The first row is the single fit of the case. `singles_s` is the time that all rows take one after
    the other, compiled already; with --singles fewer are timed and the time is scaled up.
    """
    total, noisy = cases.answers(case, options.batch)
    domain, settings = pj.Domain(case.sizes), estimator(case, options)

    def call() -> list[pj.Fit]:
        return list(
            settings.fit_batch(
                domain, [measured(case, row) for row in noisy], totals=[float(total)] * len(noisy)
            )
        )

    cold, fits = seconds_of(call)
    line: Line = {"cold_s": cold, **compiling.so_far()}
    line["warm_s"] = min(seconds_of(call)[0] for _ in range(options.later))
    marginals = [[fit.model.marginal(clique) for clique in case.cliques] for fit in fits]
    losses = [loss_of(case, tables, row) for tables, row in zip(marginals, noisy, strict=True)]
    steps = [fit.steps for fit in fits]
    line |= {"loss": losses[0], "loss_mean": float(np.mean(losses)), "batch": options.batch}
    line |= {"steps": max(steps), "steps_min": min(steps), "status": sorted({f.status.name for f in fits})}
    line |= {"gap": max(fit.gap for fit in fits), **_plan_keys(fits[0].plan)}
    count = options.batch if options.singles is None else min(options.singles, options.batch)
    if count:
        settings.fit(domain, measured(case, noisy[0]), total=float(total))  # compiles
        spent, singles = seconds_of(
            lambda: [settings.fit(domain, measured(case, r), total=float(total)) for r in noisy[:count]]
        )
        apart = max(abs(one.loss / fit.loss - 1) for one, fit in zip(singles, fits, strict=False))
        line |= {"singles": count, "singles_s": spent * options.batch / count, "loss_apart": float(apart)}
    return line, [np.stack(tables) for tables in zip(*marginals, strict=True)]


def use_cache(folder: str | None) -> None:
    """Compile everything anew, or keep every compiled program in a folder."""
    jax.config.update("jax_enable_compilation_cache", folder is not None)
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def cached_cold(arguments: list[str], folder: str | None) -> float:
    """The first call of a second fresh process on a persistent cache that a first one filled."""
    with contextlib.ExitStack() as stack:
        where = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="pgmjax-bench-"))
        for _ in range(2):
            command = [sys.executable, __file__, *arguments, "--fill-cache", where]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)["cold_s"]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = harness.parser(__doc__)
    parser.add_argument("case", help="a name in the file of cases, or oracle-chain-10000 and the like")
    parser.add_argument("--cases", metavar="FILE", help="default: $PGMJAX_DATA/../peers/cases.json")
    parser.add_argument("--solver", default="auto", choices=("auto", *pj.solvers.names()))
    parser.add_argument("--oracle", default="auto", choices=("auto", *pj.oracles.names()))
    parser.add_argument("--steps", type=_count, metavar="N", help="steps at most; the case's own by default")
    parser.add_argument("--to-loss", type=float, metavar="L", help="end a fit at the first checked loss <= L")
    parser.add_argument("--tol", type=float, default=1e-4, help="relative gap to stop at (1e-4)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--later", type=_count, default=1, metavar="N", help="later calls of a fit (1)")
    parser.add_argument("--batch", type=_count, metavar="B", help="fits at once, each with its own noise")
    parser.add_argument("--singles", type=int, metavar="N", help="single fits to time beside a batch (all)")
    parser.add_argument(
        "--persistent-cache",
        nargs="?",
        const="",
        metavar="DIR",
        help="also time the first call with a persistent cache (in a temporary folder unless told)",
    )
    parser.add_argument("--fill-cache", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--save", metavar="F.npz", help="write the marginals")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def measure(case: cases.Case, options: argparse.Namespace) -> tuple[Line, list[np.ndarray]]:
    """Run a case under its options: its line, and its marginals in the order of its cliques."""
    kinds = {"oracle": run_oracle, "fit": run_fit, "loop": run_loop}
    if options.batch and case.kind != "fit":
        raise ValueError(f"--batch is for fits; {case.name} is of kind {case.kind}.")
    if options.to_loss is not None and (case.kind != "fit" or options.batch):
        raise ValueError(f"--to-loss is for single fits; {case.name} is of kind {case.kind}.")
    if options.batch and not hasattr(pj.Estimator, "fit_batch"):
        raise ValueError("this version of the library has no Estimator.fit_batch.")
    compiling = Compiling()
    with precision(options.dtype if case.kind == "oracle" else "float32"):
        line, marginals = (run_batch if options.batch else kinds[case.kind])(case, options, compiling)
    line["peak_mb"] = harness.peak_mb()
    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        line["device_peak_mb"] = stats["peak_bytes_in_use"] / 2**20
    used = {"solver": options.solver} if case.kind != "oracle" else {}
    versions = {"jax": jax.__version__, "numpy": np.__version__, "pgmjax": pj.__version__}
    return {
        **line,
        **used,
        "dtype": options.dtype,
        "device": device.device_kind,
        "versions": versions,
    }, marginals


def rounded(value: Any) -> Any:
    """Seven significant digits."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return float(f"{value:.7g}") if isinstance(value, float) else value


def main() -> None:
    """Run one case and print its line."""
    options = parse()
    use_cache(options.fill_cache)
    try:
        case = cases.load(options.case, options.cases)
        line, marginals = measure(case, options)
    except ValueError as error:
        sys.exit(f"versus.py: {error}")
    if options.save:
        np.savez(pathlib.Path(options.save), *marginals)
    if options.persistent_cache is not None and options.fill_cache is None:
        line["cached_cold_s"] = cached_cold(sys.argv[1:], options.persistent_cache or None)
    print(json.dumps(rounded({"case": case.name, "peer": f"pgmjax {pj.__version__}", **line})))


if __name__ == "__main__":
    main()
