"""A contraction forwards, and backwards for all marginals: written out, so that little is compiled.

Forwards each step adds two tables and sums variables out. Backwards each table receives its own
marginal: with the joint marginal `p = weight * exp(left + right - result)` of a step's union, where
`weight` is the marginal of the step's result, both operands get sums of p. Every table is used
once, so that no two contributions ever meet. Automatic differentiation reaches the same numbers
through twice the number of compiled operations.

Large products, whose union must not be stored, go through one of `EXACT`, `FAST` and `MAXIMUM`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.inference.ops import exact_product, fast_product
from pgmjax.inference.ops.tables import Reduce, Table, align, lowest, recentred
from pgmjax.inference.plan.path import ContractionPath, MatrixProduct, Step

# On paths with more steps than this from an input to the result, messages are recentred and marginals
# made to sum to 1 again: float32 keeps its digits however long the chain, and short ones pay nothing.
DEEP = 12
# A step whose union has so many cells, and no side below the second figure, counts as a large product.
LARGE, SIDE = 300_000, 8


@dataclasses.dataclass(frozen=True)
class Products:
    """The method for large products of tables [b, m, k] and [b, k, n] of log values.

    Attributes:
        forward: from both tables to the product [b, m, n], and which of its entries hold only an upper
            bound (None: none).
        backward: from both tables, the product and its marginal to the marginals of both; None where
            nobody goes backwards.
    """

    forward: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array | None]]
    backward: Callable[..., tuple[jax.Array, jax.Array]] | None = None


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The state that the forward sweep leaves for the backward one.

    Attributes:
        tables: the inputs, then each step's result less what was taken out of it.
        shares: for each step what turns a term of its union into its share of the result: the largest
            term and the sum of exponentials relative to it. Shares so found add up to 1 to the last
            digits, which those from the result's logarithm do not: enough to stop a float32 fit
            long before its optimum. For large products the result itself.
        scale: the sum of all that was taken out.
        bounds: for large products, by number of the step, which entries [b, m, n] are upper bounds.
    """

    tables: tuple[Table, ...]
    shares: tuple[Any, ...]
    scale: Table
    bounds: dict[int, jax.Array]

    @property
    def total(self) -> Table:
        """The contraction's value."""
        return self.tables[-1] + self.scale if self.shares else self.scale


def forward(
    path: ContractionPath,
    tables: Sequence[Table],
    reduce: Reduce,
    products: Products | None = None,
    with_shares: bool = True,
) -> Sweep:
    """Run a path's steps.

    Args:
        path: the plan; its last step leaves a scalar.
        tables: log values for each clique, JAX or NumPy arrays.
        reduce: how axes go; of the same library.
        products: how large products are computed; without it as all others.
        with_shares: whether to go back afterwards, with log-sum-exp.
    """
    every = list(tables)
    shares: list[Any] = []
    bounds = {}
    scale: Table = np.zeros((), tables[0].dtype if tables else None)
    deep = _depth(path) > DEEP
    for number, step in enumerate(path.steps):
        product = large(path).get(number) if products else None
        if products is not None and product is not None:
            left, right = _operands(path, step, product, every)
            cells, bound = products.forward(left, right)
            result = _from_product(path, cells, product, step)
            shares.append(lowest(cells))
            if bound is not None:
                bounds[number] = bound
        else:
            combined = _combined(path, step, every)
            share: tuple[Any, Any] = _largest_and_sum(combined, _gone(step)) if with_shares else (None, None)
            shares.append(share)
            if not _gone(step):
                result = combined
            elif with_shares and isinstance(combined, np.ndarray):
                with np.errstate(divide="ignore"):  # XLA finds what is common by itself, NumPy does not
                    result = np.log(share[1]) + np.squeeze(share[0], _gone(step))
            else:
                result = reduce(combined, _gone(step))
        if deep:
            result, top = recentred(result)
            scale = scale + top
        every.append(result)
    return Sweep(tuple(every), tuple(shares), scale, bounds)


def backward(
    path: ContractionPath, sweep: Sweep, products: Products | None = None
) -> tuple[tuple[Table, ...], Table]:
    """Marginals of all cliques, from what `forward` left with log-sum-exp.

    Returns:
        The marginals (probabilities), and the probability that lies on entries which hold only an upper
        bound: where it is negligible, so is the error of everything.
    """
    xp = np if all(isinstance(table, np.ndarray | np.generic) for table in sweep.tables) else jnp
    count = len(path.structure.cliques)
    deep = _depth(path) > DEEP
    weights: list[Table] = [None] * len(sweep.tables)
    inaccurate: Table = np.zeros((), np.float32)
    if path.steps:
        weights[-1] = xp.ones_like(sweep.tables[-1])
    for number in reversed(range(len(path.steps))):
        step = path.steps[number]
        weight = weights[count + number]
        if deep:
            total = xp.sum(weight)
            weight = weight / xp.where(total > 0, total, 1)
        product = large(path).get(number) if products else None
        if products is not None and products.backward is not None and product is not None:
            cells = _as_product(path, weight, step.kept, product.batch, product.left, product.right)
            left, right = _operands(path, step, product, sweep.tables)
            both = _renormalised(products.backward(left, right, sweep.shares[number], cells), cells)
            if number in sweep.bounds:
                inaccurate = inaccurate + jnp.sum(jnp.where(sweep.bounds[number], cells, 0))
            orders = (
                (*product.batch, *product.left, *product.summed),
                (*product.batch, *product.summed, *product.right),
            )
            for i, order, part in zip(step.operands, orders, both, strict=True):
                weights[i] = align(part.reshape(path.structure.shape(order)), order, path.variables(i))
            continue
        if _gone(step):
            top, total = sweep.shares[number]
            weight = weight / xp.where(total > 0, total, 1)
            combined = _combined(path, step, sweep.tables)
            joint = align(weight, step.kept, step.union) * xp.exp(combined - top)
        else:
            joint = align(weight, step.kept, step.union)
        for i in step.operands:
            own = path.variables(i)
            axes = tuple(a for a, v in enumerate(step.union) if v not in own)
            held = tuple(v for v in step.union if v in own)
            weights[i] = align(xp.sum(joint, axis=axes) if axes else joint, held, own)
    return tuple(weights[:count]), inaccurate


def _largest_and_sum(table: Table, axes: tuple[int, ...]) -> tuple[Table, Table]:
    """The largest entry along some axes [with size 1 there], and the sum of exponentials relative to it."""
    if not axes:
        return None, None
    xp = np if isinstance(table, np.ndarray | np.generic) else jnp
    top = lowest(xp.max(table, axis=axes, keepdims=True))
    if xp is jnp:
        top = jax.lax.stop_gradient(top)
    return top, xp.sum(xp.exp(table - top), axis=axes)


def _renormalised(tables: tuple[jax.Array, jax.Array], weight: jax.Array) -> list[jax.Array]:
    """Marginals of both tables, each with the sum of that which they come from."""
    sums = [jnp.sum(table) for table in tables]
    return [t * (jnp.sum(weight) / jnp.where(s > 0, s, 1)) for t, s in zip(tables, sums, strict=True)]


@functools.lru_cache(maxsize=256)
def large(path: ContractionPath) -> dict[int, MatrixProduct]:
    """The large products of a path, by number of their step."""
    cells = path.structure.cells
    found = {}
    for number, step in enumerate(path.steps):
        product = path.product(step)
        if product is None or cells(step.union) < LARGE:
            continue
        if min(cells(product.left), cells(product.summed), cells(product.right)) >= SIDE:
            found[number] = product
    return found


@functools.lru_cache(maxsize=256)
def _depth(path: ContractionPath) -> int:
    """Number of steps on the longest way from an input to the result."""
    count = len(path.structure.cliques)
    depths: list[int] = []
    for step in path.steps:
        depths.append(1 + max((depths[i - count] for i in step.operands if i >= count), default=0))
    return max(depths, default=0)


def _combined(path: ContractionPath, step: Step, tables: Sequence[Table]) -> Table:
    parts = [align(tables[i], path.variables(i), step.union) for i in step.operands]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _gone(step: Step) -> tuple[int, ...]:
    return tuple(range(len(step.kept), len(step.union)))


def _operands(
    path: ContractionPath, step: Step, product: MatrixProduct, tables: Sequence[Table]
) -> tuple[Table, Table]:
    left, right = step.operands
    return (
        _as_product(path, tables[left], path.variables(left), product.batch, product.left, product.summed),
        _as_product(path, tables[right], path.variables(right), product.batch, product.summed, product.right),
    )


def _as_product(path: ContractionPath, table: Table, own: tuple[int, ...], *groups: tuple[int, ...]) -> Table:
    """A table with its axes gathered into three: the cells of each group of variables."""
    order = tuple(v for group in groups for v in group)
    return align(table, own, order).reshape([path.structure.cells(group) for group in groups])


def _from_product(path: ContractionPath, cells: Table, product: MatrixProduct, step: Step) -> Table:
    order = (*product.batch, *product.left, *product.right)
    return align(cells.reshape(path.structure.shape(order)), order, step.kept)


def _exact(left: jax.Array, right: jax.Array) -> tuple[jax.Array, None]:
    return exact_product.exact_forward(left, right), None


def _maximum(left: jax.Array, right: jax.Array) -> tuple[jax.Array, None]:
    return exact_product.max_plus(left, right), None


EXACT = Products(_exact, exact_product.exact_backward)
# of finite tables, as matrix products: what underflows holds an upper bound
FAST = Products(functools.partial(fast_product.fast_forward, finite=True), fast_product.fast_backward)
MAXIMUM = Products(_maximum)  # only values of maxima are asked for, so that nothing goes backwards
