"""Forward and backward passes of a contraction, written out so that little is compiled.

In the forward pass, each step adds two tables and sums variables out. The backward pass computes the
marginal of every table: with the joint marginal `p = weight * exp(left + right - result)` of a step's
union, where `weight` is the marginal of the step's result, both operands get sums of p. Each table is
used once, so contributions never have to be added. Automatic differentiation computes the same numbers
with twice as many compiled operations.

Large products, whose union must not be stored, use one of `EXACT`, `FAST` and `MAXIMUM`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import device
from pgmjax.inference.ops import Reduce, Table, align, join, potentials_at, recentred
from pgmjax.inference.plan.contraction import ContractionPath, Step, large
from pgmjax.inference.plan.structure import IMPOSSIBLE, NEUTRAL, offsets, parts_of
from pgmjax.kernels import exact_product, fast_product
from pgmjax.kernels.log_sum_exp import ONE_PASS, largest_and_sum, logmax, logsumexp, lowest

# On paths with more steps than this from an input to the result, messages are recentred and marginals
# renormalised. This keeps float32 accurate on long chains at no cost for short ones.
DEEP = 12
SMALL = 1 << 16  # cells of a union, up to which steps are reduced together off a CPU


@dataclasses.dataclass(frozen=True)
class Products:
    """The numbers computed, and the method for large products of tables [b, m, k], [b, k, n] of log values.

    Attributes:
        reduce: reduction of axes, of all other steps.
        forward: maps both tables to the product [b, m, n], a mask of the entries that are only upper
            bounds (None if there are none), and what the backward pass needs.
        backward: maps that and the product's marginal to the marginals of both tables; None if there is
            no backward pass.
    """

    reduce: Reduce
    forward: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array | None, Any]]
    backward: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]] | None = None


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The state that the forward pass stores for the backward pass.

    Attributes:
        tables: the inputs, then each step's result minus the scale taken out of it.
        shares: for each step, the largest term of its union and the sum of exponentials relative to it,
            which give each term's share of the result. These shares sum to 1 up to the last digits. Shares
            computed from the result's logarithm do not, which is enough to stop a float32 fit long before
            its optimum. For large products, what their method keeps.
        scale: the sum of all scales taken out.
        bounds: for large products, by step number, a mask of the entries [b, m, n] that are upper bounds.
    """

    tables: tuple[Table, ...]
    shares: tuple[Any, ...]
    scale: Table
    bounds: dict[int, jax.Array]

    @property
    def total(self) -> Table:
        """The contraction's value."""
        return self.tables[-1] + self.scale if self.shares else self.scale


def forward(path: ContractionPath, tables: Sequence[Table], products: Products) -> Sweep:
    """Run a path's steps.

    Args:
        path: the plan; its last step leaves a scalar.
        tables: log values for each clique.
        products: `EXACT`, `FAST` or `MAXIMUM`.
    """
    first, count = len(tables), len(path.steps)
    every: list[Table] = [*tables, *[None] * count]
    shares: list[Any] = [None] * count
    bounds = {}
    scale: Table = np.zeros((), tables[0].dtype if tables else None)
    deep, large_ones = _depth(path) > DEEP, large(path)
    for level in _levels(path):
        together = _reduced_together(path, _together(path, level), every, products)
        for number in level:
            step = path.steps[number]
            if number in together:
                result, shares[number] = together[number]
            elif number in large_ones:
                *operands, written = path.forms[number]
                cells, bound, shares[number] = products.forward(*(f.read(every[f.table]) for f in operands))
                result = written.written(cells)
                if bound is not None:
                    bounds[number] = bound
            else:
                combined = _combined(path, step, every)
                if products.backward and _gone(step):
                    shares[number] = largest_and_sum(combined, _gone(step))
                result = products.reduce(combined, _gone(step)) if _gone(step) else combined
            if deep:
                result, top = recentred(result)
                scale = scale + top
            every[first + number] = result
    return Sweep(tuple(every), tuple(shares), scale, bounds)


def backward(path: ContractionPath, sweep: Sweep, products: Products) -> tuple[tuple[Table, ...], Table]:
    """Marginals of all cliques, from the result of `forward` with log-sum-exp.

    Returns:
        The marginals (probabilities), and the total probability of entries that are only upper bounds. If
        it is negligible, so is the error of all results.
    """
    count = len(path.structure.cliques)
    deep, large_ones = _depth(path) > DEEP, large(path)
    weights: list[Table] = [None] * len(sweep.tables)
    inaccurate: Table = np.zeros((), np.float32)
    if path.steps:
        weights[-1] = jnp.ones_like(sweep.tables[-1])
    for number in reversed(range(len(path.steps))):
        step = path.steps[number]
        weight = weights[count + number]
        if deep:
            total = jnp.sum(weight)
            weight = weight / jnp.where(total > 0, total, 1)
        if number in large_ones and products.backward is not None:
            *operands, written = path.forms[number]
            cells = written.read(weight)
            both = _renormalised(products.backward(sweep.shares[number], cells), cells)
            if number in sweep.bounds:
                inaccurate = inaccurate + jnp.sum(jnp.where(sweep.bounds[number], cells, 0))
            for form, part in zip(operands, both, strict=True):
                weights[form.table] = form.written(part)
            continue
        if _gone(step):
            # shares of the result's weight, which sum to 1 up to the last digits (`Sweep.shares`)
            top, total = sweep.shares[number]
            weight = weight / jnp.where(total > 0, total, 1)
            combined = _combined(path, step, sweep.tables)
            joint = align(weight, step.kept, step.union) * jnp.exp(combined - top)
        else:
            joint = align(weight, step.kept, step.union)
        for i in step.operands:
            own = path.variables(i)
            axes = tuple(a for a, v in enumerate(step.union) if v not in own)
            held = tuple(v for v in step.union if v in own)
            weights[i] = align(jnp.sum(joint, axis=axes) if axes else joint, held, own)
    return tuple(weights[:count]), inaccurate


def _together(path: ContractionPath, numbers: Sequence[int]) -> tuple[int, ...]:
    """The steps of a level that are reduced together: small ones, off a CPU."""
    cells = path.structure.cells
    small = [n for n in numbers if _gone(path.steps[n]) and cells(path.steps[n].union) <= SMALL]
    shapes = [_rows(path, n) for n in small]
    padded = sum(height for height, _ in shapes) * max((width for _, width in shapes), default=0)
    return () if device.is_cpu() or len(small) < 2 or padded > ONE_PASS else tuple(small)


def _rows(path: ContractionPath, number: int) -> tuple[int, int]:
    """Cells of a step's result, and cells that are summed to each."""
    step = path.steps[number]
    height = path.structure.cells(step.kept)
    return height, path.structure.cells(step.union) // height


def _reduced_together(
    path: ContractionPath, numbers: tuple[int, ...], tables: Sequence[Table], products: Products
) -> dict[int, tuple[Table, Any]]:
    """Results and shares of steps that do not wait for each other, padded to rows of one length."""
    if not numbers:
        return {}
    used = tuple(sorted({i for n in numbers for i in path.steps[n].operands}))
    if used[-1] < len(path.structure.cliques):
        used = tuple(range(len(path.structure.cliques)))  # of a split vector, which is not copied then
    rows = sum(potentials_at(join([tables[i] for i in used]), each) for each in _places(path, numbers, used))
    found = [products.reduce(rows, (1,)), *(largest_and_sum(rows, (1,)) if products.backward else ())]
    ends = np.cumsum([_rows(path, n)[0] for n in numbers])[:-1]
    results: dict[int, tuple[Table, Any]] = {}
    for number, result, *share in zip(numbers, *(jnp.split(each, ends) for each in found), strict=True):
        kept = path.structure.shape(path.steps[number].kept)
        ones = (1,) * len(_gone(path.steps[number]))
        own = (share[0].reshape(*kept, *ones), share[1].reshape(kept)) if share else None
        results[number] = result.reshape(kept), own
    return results


@functools.lru_cache(maxsize=64)
def _places(path: ContractionPath, numbers: tuple[int, ...], used: tuple[int, ...]) -> np.ndarray:
    """Positions of the operands' entries in the joined tables of `used` [operands, rows, width]."""
    structure = path.structure
    starts = dict(
        zip(used, np.cumsum([0, *(structure.cells(path.variables(i)) for i in used)]), strict=False)
    )
    width = max(_rows(path, n)[1] for n in numbers)
    blocks = []
    for number in numbers:
        step = path.steps[number]
        shape = (_rows(path, number)[0], width)
        block = np.full((2, *shape), NEUTRAL, np.int32)
        for side, i in enumerate(step.operands):
            own = path.variables(i)
            axes = (step.kept, step.union[len(step.kept) :])
            place = offsets(parts_of(structure, axes, structure.strides(own)), shape).reshape(shape)
            block[side] = np.where(place >= 0, place + starts[i], IMPOSSIBLE)
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def _renormalised(tables: tuple[jax.Array, jax.Array], weight: jax.Array) -> list[jax.Array]:
    """Both tables, each rescaled to the sum of `weight`."""
    sums = [jnp.sum(table) for table in tables]
    return [t * (jnp.sum(weight) / jnp.where(s > 0, s, 1)) for t, s in zip(tables, sums, strict=True)]


@functools.lru_cache(maxsize=256)
def _depth(path: ContractionPath) -> int:
    return max(_depths(path), default=0)


@functools.lru_cache(maxsize=256)
def _depths(path: ContractionPath) -> tuple[int, ...]:
    """Number of steps on the longest path from an input to each step's result."""
    count = len(path.structure.cliques)
    depths: list[int] = []
    for step in path.steps:
        depths.append(1 + max((depths[i - count] for i in step.operands if i >= count), default=0))
    return tuple(depths)


def _levels(path: ContractionPath) -> list[list[int]]:
    """The steps in groups that do not wait for each other; on a CPU one by one, in their order."""
    if device.is_cpu():
        return [[number] for number in range(len(path.steps))]
    depths = _depths(path)
    return [[n for n, each in enumerate(depths) if each == depth] for depth in sorted(set(depths))]


def _combined(path: ContractionPath, step: Step, tables: Sequence[Table]) -> Table:
    parts = [align(tables[i], path.variables(i), step.union) for i in step.operands]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _gone(step: Step) -> tuple[int, ...]:
    return tuple(range(len(step.kept), len(step.union)))


def _exact(left: jax.Array, right: jax.Array) -> tuple[jax.Array, None, Any]:
    out = exact_product.log_matmul_exp(left, right)  # whose derivative is 0 where nothing is possible
    return out, None, (left, right, lowest(out))


def _exact_backward(kept: Any, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    left, right, out = kept
    return exact_product.exact_backward(left, right, out, weight)


def _maximum(left: jax.Array, right: jax.Array) -> tuple[jax.Array, None, None]:
    return exact_product.max_plus(left, right), None, None


EXACT = Products(logsumexp, _exact, _exact_backward)
# matrix products of finite tables: entries that underflow are upper bounds
FAST = Products(logsumexp, fast_product.fast_forward, fast_product.fast_backward)
MAXIMUM = Products(logmax, _maximum)  # only values of maxima are needed, so there is no backward pass
