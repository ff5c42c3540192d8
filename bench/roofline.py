"""How near the oracle cases come to what this machine can do.

    PGMJAX_DATA=... python bench/roofline.py [CASE ...] [--cases FILE]

Three rates are measured first, float32, with the device that JAX chooses:

matrix product: 2 n^3 operations over the time of a product of two n x n matrices in full precision;
exponential: 16 exponentials of every entry of a large array in one fused pass, so that memory is not
    what is measured;
copy: bytes read plus bytes written over the time of adding one, in place, to an array larger than any
    cache; a case whose tables fit a cache may pass it.

Then every case runs in a fresh process of bench/versus.py, and the time of its best later call is
held against what it needs at least: the exponentials and, where the plan forecasts them, the matrix
operations and bytes that `Forecast` counts, and always the compulsory traffic: every potential
read once and every marginal written once, 8 bytes a cell. A share is that count over the time, over the
measured rate. One line for the machine and one a case go to bench/results/roofline.jsonl.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import cases
import harness
from harness import Line
from ratios import seconds


def best(call: Callable[[], Any], at_least: float = 1.0) -> float:
    """Seconds of the fastest of several calls."""
    times: list[float] = []
    end = time.perf_counter() + at_least
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def rates() -> Line:
    """Measure the device: operations, exponentials and bytes a second."""
    import jax
    import jax.numpy as jnp

    large = jax.default_backend() != "cpu"
    side, cells = (8192, 2**28) if large else (2048, 2**24)
    square = jnp.full((side, side), 0.5, jnp.float32)
    long = jnp.linspace(-1, 0, cells, dtype=jnp.float32)
    wide = jnp.zeros(cells * 4, jnp.float32)
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    exponentials = jax.jit(lambda x: sum(jnp.exp(x * k) for k in range(1, 17)))
    copy = jax.jit(lambda x: x + 1, donate_argnums=0)  # in place: fresh pages would be what is measured
    product(square).block_until_ready(), exponentials(long).block_until_ready()
    held = [copy(wide).block_until_ready()]

    def copied() -> None:
        held.append(copy(held.pop()).block_until_ready())

    return {
        "device": jax.devices()[0].device_kind,
        "matmul_per_s": 2 * side**3 / best(lambda: product(square).block_until_ready()),
        "exp_per_s": 16 * cells / best(lambda: exponentials(long).block_until_ready()),
        "copy_bytes_per_s": 2 * 4 * cells * 4 / best(copied),
    }


def shares(line: Line, rate: Line) -> Line:
    """What a later call needs at least, by each measured rate, and the share of the time that is."""
    cost, spent = line["forecast"], line["warm_s"]
    least = {
        "exp": cost["work"] / rate["exp_per_s"],
        "traffic": 8 * cost["inputs"] / rate["copy_bytes_per_s"],
    }
    if "flops" in cost:
        least["matmul"] = cost["flops"] / rate["matmul_per_s"]
    if "bytes" in cost:
        least["copy"] = cost["bytes"] / rate["copy_bytes_per_s"]
    result = {f"{name}_share": round(needed / spent, 4) for name, needed in least.items()}
    return {**result, "bound": max(least, key=least.__getitem__), "bound_s": max(least.values())}


def measured_apart() -> Line:
    """The rates, from a process of their own: this one stays small and leaves the device free."""
    done = subprocess.run(
        [sys.executable, __file__, "--rates"], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def run(names: Sequence[str], options: argparse.Namespace) -> None:
    """Measure the machine and every case; write and say each line."""
    about = harness.provenance()
    rate = measured_apart()
    harness.append(options.out, {"bench": "roofline", "case": None, **rate, **about})
    print(
        f"{rate['device']}: matrix product {rate['matmul_per_s'] / 1e9:.3g} G/s, exponential "
        f"{rate['exp_per_s'] / 1e9:.3g} G/s, copy {rate['copy_bytes_per_s'] / 1e9:.3g} GB/s"
    )
    for name in names:
        versus = str(pathlib.Path(__file__).with_name("versus.py"))
        command = [sys.executable, versus, name, *(["--cases", options.cases] if options.cases else [])]
        line = harness.run(command, memory_gb=options.memory, timeout=options.timeout, label=f"{name}:")
        if "failed" not in line:
            line |= shares(line, rate)
        line["versions"] = {**about["versions"], **line.get("versions", {})}
        keys = {"bench": "roofline", "case": name, "command": harness.shown(command)}
        line = {**about, **line, **keys, "date": harness.now()}
        harness.append(options.out, line)
        print(f"{name}: {told(line)}", flush=True)


def told(line: Line) -> str:
    """One case in a few words."""
    if "failed" in line:
        return f"FAILED: {line['failed']}"
    named = ", ".join(f"{k[:-6]} {line[k]:.1%}" for k in line if k.endswith("_share"))
    return f"later {seconds(line['warm_s'])}, of that at the measured rate: {named} (most: {line['bound']})"


def main() -> None:
    """Run the oracle cases that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="CASE", help="all oracle cases of the file by default")
    parser.add_argument("--cases", metavar="FILE", help="default: $PGMJAX_DATA/../peers/cases.json")
    parser.add_argument("--memory", type=float, metavar="GB", help="ulimit -v (24, less what is not there)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="of one case (600)")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "roofline.jsonl")
    parser.add_argument("--rates", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rates:
        print(json.dumps(rates()))
        return
    try:
        names = options.names or [n for n, c in cases.read(options.cases).items() if c["kind"] == "oracle"]
        wrong = [name for name in names if cases.load(name, options.cases).kind != "oracle"]
    except ValueError as error:
        parser.error(str(error))
    if wrong:
        parser.error(f"roofline.py takes oracle cases, got {', '.join(wrong)}")
    if options.memory is None:
        options.memory = harness.free_memory_gb()
    try:
        run(names, options)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
