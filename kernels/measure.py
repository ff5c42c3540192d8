"""Measure our kernels against XLA's forms on the device at hand, and check their numbers on the host.

Results are compared with the same sums in float64 NumPy. A kernel has won if it is right and faster than XLA
at each of the named shapes; `pgmjax.kernels.switch` keeps that, and follows it where nobody set the switch.
"""

from __future__ import annotations

import functools
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import device
from pgmjax.kernels import log_matmul_exp, log_sum_exp

_LOG = logging.getLogger("pgmjax")
SHAPES: Mapping[str, tuple[int, int, int, int]] = {
    "square": (1, 256, 256, 256),
    "large": (1, 512, 512, 512),
    "wide": (1, 2000, 70, 300),
    "small in a batch": (64, 64, 64, 64),
    "ragged": (3, 333, 257, 101),
}
"""The shapes (b, m, k, n) of log-space products that are measured."""
TOLERANCE = 2e-5  # of the largest number: ten times the largest error of XLA's forms on a CPU
_BUSY = 0.01  # seconds that the device works for one reading of the clock
_CELLS = 1 << 22  # terms that the host holds at a time
Tables = tuple[Any, ...]


def xla_forward(left: jax.Array, right: jax.Array) -> jax.Array:
    """The product as XLA fuses it: two reductions over a broadcast sum [b, m, k, n]."""
    terms = left[:, :, :, None] + right[:, None]
    top = jnp.max(terms, axis=2)
    return jnp.log(jnp.sum(jnp.exp(terms - top[:, :, None]), axis=2)) + top


def xla_backward(left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array) -> Tables:
    """Both gradients as XLA fuses them; the barrier keeps the terms from being stored for both."""
    again = jax.lax.optimization_barrier((left, right, out, weight))

    def terms(left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array) -> jax.Array:
        return jnp.exp(left[:, :, :, None] + right[:, None] - out[:, :, None]) * weight[:, :, None]

    return terms(left, right, out, weight).sum(3), terms(*again).sum(1)


def kernel_sum(left: jax.Array, right: jax.Array) -> jax.Array:
    """The same product by the kernel that sums any broadcast tables."""
    return log_sum_exp.log_sum_exp([left[:, :, :, None], right[:, None]], (2,))


FORMS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any], bool]] = {
    "log_matmul_exp": (log_matmul_exp.log_matmul_exp, xla_forward, False),
    "log_matmul_exp_backward": (log_matmul_exp.log_matmul_exp_backward, xla_backward, True),
    "log_sum_exp": (kernel_sum, xla_forward, False),
}
"""By name: a kernel, XLA's form of it, and whether it is backward."""


def measure(
    shapes: Mapping[str, Sequence[int]] = SHAPES,
    *,
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[dict[str, Any]]:
    """Time each kernel and XLA's form of it over shapes; where kernels cannot run, XLA's forms alone.

    Args:
        shapes: shapes (b, m, k, n), each at least 1, by name.
        repeats: readings of the clock for each form; the median counts.
        clock: seconds since any time.

    Returns:
        A line for each shape and kernel: `kernel`, `shape`, `sizes`, `terms`, `kernel_ms`, `xla_ms`,
        `kernel_error`, `xla_error` (largest difference from float64, relative to the largest number) and
        `won`. Times and errors are None for what did not run.
    """
    with_kernels = device.is_gpu()
    for shape, sizes in shapes.items():
        tables, truth, gradients = _case(*sizes)
        for name, (kernel, xla, backward) in FORMS.items():
            given, expected = (tables, gradients) if backward else (tables[:2], (truth,))
            one = functools.partial(_timed, tables=given, expected=expected, repeats=repeats, clock=clock)
            kernel_ms, kernel_error = one(kernel) if with_kernels else (None, None)
            xla_ms, xla_error = one(xla)
            right = kernel_error is not None and kernel_error <= TOLERANCE  # NaN is not
            yield {
                "kernel": name,
                "shape": shape,
                "sizes": list(sizes),
                "terms": math.prod(sizes),
                "kernel_ms": kernel_ms,
                "xla_ms": xla_ms,
                "kernel_error": kernel_error,
                "xla_error": xla_error,
                "won": right and (kernel_ms or 0.0) < (math.inf if xla_ms is None else xla_ms),
            }


def winners(lines: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Return by kernel whether it won at every shape that was measured."""
    names = {line["kernel"] for line in lines}
    return {
        name: all(line["won"] for line in lines if line["kernel"] == name) for name in FORMS if name in names
    }


def _case(batch: int, rows: int, inner: int, columns: int) -> tuple[Tables, np.ndarray, Tables]:
    """Fixed float32 tables on the device, and what comes of them in float64 on the host."""
    left, right = _waves((batch, rows, inner), 0.7), _waves((batch, inner, columns), 1.3)
    weight = np.abs(_waves((batch, rows, columns), 2.1)) + np.float32(0.1)
    weight /= weight.sum((1, 2), keepdims=True)
    truth = np.empty((batch, rows, columns))
    by_left, by_right = np.empty(left.shape), np.zeros(right.shape)
    step = max(1, _CELLS // (inner * columns))
    for entry in range(batch):
        for first in range(0, rows, step):
            part = (entry, slice(first, first + step))
            terms = left[part].astype(np.float64)[:, :, None] + right[entry].astype(np.float64)
            top = terms.max(1)
            shares = np.exp(terms - top[:, None])
            total = shares.sum(1)
            truth[part] = np.log(total) + top
            shares *= (weight[part] / total)[:, None]
            by_left[part] = shares.sum(2)
            by_right[entry] += shares.sum(0)
    tables = tuple(jnp.asarray(table, jnp.float32) for table in (left, right, truth, weight))
    return tables, truth, (by_left, by_right)


def _waves(shape: tuple[int, ...], pace: float) -> np.ndarray:
    """Numbers between -9 and 9 without a pattern that a block could follow; no random generator is needed."""
    places = np.arange(math.prod(shape), dtype=np.float64)
    return (9 * np.sin(pace * places * (1 + np.sqrt(places)))).reshape(shape).astype(np.float32)


def _timed(
    function: Callable[..., Any],
    tables: Tables,
    expected: Tables,
    repeats: int,
    clock: Callable[[], float],
) -> tuple[float | None, float | None]:
    """Return the milliseconds of a call and its largest relative error; None if it does not run."""
    compiled = jax.jit(function)

    def seconds(calls: int) -> float:
        start = clock()
        for _ in range(calls):
            result = compiled(*tables)
        jax.block_until_ready(result)
        return (clock() - start) / calls

    try:
        with jax.default_matmul_precision("highest"):
            got = jax.device_get(jax.tree.leaves(compiled(*tables)))
            calls = max(1, min(200, int(_BUSY / max(seconds(3), 1e-9))))
            taken = 1e3 * statistics.median(seconds(calls) for _ in range(repeats))
    except Exception as error:  # memory, or it does not lower: Pallas has a private class for that
        _LOG.warning("A form of a product does not run on this device: %s", type(error).__name__)
        return None, None
    return taken, max(
        float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in zip(got, expected, strict=True)
    )
