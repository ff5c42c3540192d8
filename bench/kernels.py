"""GPU kernels of the log-space product against XLA's broadcast form and a plain matrix product.

    python bench/kernels.py [--shapes 1x256x256x256 ...] [--repeats N] [--sweep]

Shapes are b x m x k x n. Prints JSON lines: first the device and its measured rate of exponentials,
then for every shape and direction the milliseconds of each form, the largest difference between the
kernel and XLA, the kernel's gain over XLA and its share of the exponential rate. `--sweep` tries blocks
and warps. Needs a GPU; elsewhere it checks one small product in interpret mode and says so. Runs from a
checkout that is not installed.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import checkout  # noqa: F401  (first: it makes the checkout importable)
import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.inference.ops import fast_backward, fast_forward
from pgmjax.kernels.log_matmul_exp import log_matmul_exp, log_matmul_exp_backward

SHAPES = (
    "1x256x256x256",
    "1x512x512x512",
    "1x1024x1024x1024",
    "1x2000x70x3000",
    "41x500x16x900",
    "64x256x256x256",
    "1024x64x64x64",
    "3x333x257x1001",
)
SMALL = "2x33x9x17"
Tables = tuple[jax.Array, ...]


def broadcast(left: jax.Array, right: jax.Array) -> jax.Array:
    """The product as XLA fuses it: two reductions over a broadcast sum."""
    terms = left[:, :, :, None] + right[:, None]
    top = jnp.max(terms, axis=2)
    return jnp.log(jnp.sum(jnp.exp(terms - top[:, :, None]), axis=2)) + top


def broadcast_backward(left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array) -> Tables:
    """Both gradients as XLA fuses them; the barrier keeps the terms from being stored for both."""
    again = jax.lax.optimization_barrier((left, right, out, weight))

    def terms(left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array) -> jax.Array:
        return jnp.exp(left[:, :, :, None] + right[:, None] - out[:, :, None]) * weight[:, :, None]

    return terms(left, right, out, weight).sum(3), terms(*again).sum(1)


def matrix_product(left: jax.Array, right: jax.Array) -> jax.Array:
    """A plain product of the same shape in full precision."""
    return jnp.matmul(left, right, precision="highest")


def milliseconds(function: Callable[..., Any], tables: Tables, repeats: int) -> float | None:
    """Median time of a compiled call; the device is kept busy for about 10 ms a measurement.

    None where the form does not run, for want of memory as a rule.
    """
    compiled = jax.jit(function)

    def seconds(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            result = compiled(*tables)
        jax.block_until_ready(result)
        return (time.perf_counter() - start) / calls

    try:
        jax.block_until_ready(compiled(*tables))
        calls = max(1, min(200, int(0.01 / seconds(3))))
        return 1e3 * statistics.median(seconds(calls) for _ in range(repeats))
    except jax.errors.JaxRuntimeError:
        return None


def exponential_rate(repeats: int) -> float:
    """Exponentials a second, 1e9: each thread sums many over a number of its own, nothing is stored."""
    counts = jnp.arange(4096, dtype=jnp.float32)

    def function(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 4096, lambda i, s: s + jnp.exp(x * 1e-4 * i), jnp.zeros_like(x))

    x = -jnp.tile(counts, 256)
    part = x[: 1 << 17]
    reduced = milliseconds(lambda x: jnp.exp(x[:, None] * counts[None] * -1e-7).sum(1), (part,), repeats)
    looped = milliseconds(function, (x,), repeats)
    rates = [part.size * 4096 / reduced if reduced else 0.0, x.size * 4096 / looped if looped else 0.0]
    return max(rates) / 1e6


def tables_of(shape: str) -> tuple[Tables, Tables, int]:
    """Random tables forward and backward, and the number of terms."""
    batch, rows, inner, columns = map(int, shape.split("x"))
    rng = np.random.default_rng(0)
    left = jnp.asarray(rng.normal(size=(batch, rows, inner)) * 3, jnp.float32)
    right = jnp.asarray(rng.normal(size=(batch, inner, columns)) * 3, jnp.float32)
    weight = jnp.asarray(rng.random(size=(batch, rows, columns)), jnp.float32)
    weight = weight / weight.sum((1, 2), keepdims=True)
    out = jax.jit(fast_forward)(left, right)[0]
    return (left, right), (left, right, out, weight), batch * rows * inner * columns


def difference(one: Any, other: Any) -> float:
    """The largest difference between two results, relative to the largest number in them."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(float(jnp.max(jnp.abs(a - b)) / jnp.max(jnp.abs(b))) for a, b in pairs)


def lines(shape: str, rate: float, repeats: int, sweep: bool) -> Iterator[dict[str, Any]]:
    """One line for each direction, and one for each setting of the kernel if asked."""
    ahead, back, terms = tables_of(shape)
    cases = (
        ("forward", ahead, log_matmul_exp, broadcast, fast_forward, 1),
        ("backward", back, log_matmul_exp_backward, broadcast_backward, fast_backward, 1),
    )
    for direction, tables, kernel, xla, fast, exponentials in cases:
        settings = [(b, w) for b in (16, 32, 64) for w in (2, 4, 8)] if sweep else []
        for block, warps in settings:
            setting = functools.partial(kernel, block=block, warps=warps)
            taken = milliseconds(setting, tables, repeats)
            yield {"shape": shape, "direction": direction, "block": block, "warps": warps, "kernel_ms": taken}
        line: dict[str, Any] = {"shape": shape, "direction": direction, "terms": terms}
        line["kernel_ms"] = milliseconds(kernel, tables, repeats)
        line["xla_ms"] = milliseconds(xla, tables, repeats)
        line["fast_ms"] = milliseconds(fast, tables, repeats)
        line["matmul_ms"] = milliseconds(matrix_product, ahead, repeats)
        if line["kernel_ms"]:
            line["share_of_exponential_rate"] = exponentials * terms / line["kernel_ms"] / 1e6 / rate
            reference = jax.jit(fast)(*tables)
            reference = reference[0] if direction == "forward" else reference
            line["difference"] = difference(jax.jit(kernel)(*tables), reference)
            line["gain_over_xla"] = line["xla_ms"] and line["xla_ms"] / line["kernel_ms"]
        yield line


def smoke() -> dict[str, Any]:
    """A small product in interpret mode: the kernels' arithmetic without a GPU."""
    ahead, back, _ = tables_of(SMALL)
    one = difference(log_matmul_exp(*ahead, interpret=True), fast_forward(*ahead)[0])
    other = difference(log_matmul_exp_backward(*back, interpret=True), fast_backward(*back))
    found = {"shape": SMALL, "interpreted_forward": one, "interpreted_backward": other}
    return {"skipped": f"no GPU: JAX runs on {jax.default_backend()}; nothing was timed", **found}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="b x m x k x n, such as 1x256x256x256")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sweep", action="store_true", help="try blocks of 16 to 64 and 2 to 8 warps")
    options = parser.parse_args()
    if jax.default_backend() not in ("gpu", "cuda"):
        print(json.dumps(smoke()))
        return
    rate = exponential_rate(options.repeats)
    device = jax.devices()[0].device_kind
    print(json.dumps({"device": device, "jax": jax.__version__, "exponentials_per_ns": rate}), flush=True)
    for shape in options.shapes:
        for line in lines(shape, rate, options.repeats, options.sweep):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
