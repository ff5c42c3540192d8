"""Matrix products in log space: `out[b, m, n]`, the log-sum-exp over k of `left[b, m, k] + right[b, k, n]`.

Every step of a contraction is such a product, and its gradient takes two more. Minus infinity is an exact
zero: if no k has a finite term, the result is minus infinity, with zero gradient.

A product is computed in one of three forms: exact (`exact_product`), fast (`fast_product`, which may
underflow), or guarded: fast, with rows that underflow recomputed in the exact form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.kernels import exact_product, fast_product
from pgmjax.kernels.where_needed import held_back

Form = Literal["auto", "exact", "fast", "guarded"]
FORMS = ("auto", "exact", "fast", "guarded")
GUARDED_CELLS = 1 << 17  # with fewer terms, the exact form is faster than three matrix products

# operands of the guarded form
Tables = tuple[jax.Array, jax.Array]
CHUNK_CELLS = 1 << 14  # cells of (m, n) recomputed together; small, since one wrong entry costs its chunk


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def log_matmul_exp(left: jax.Array, right: jax.Array, form: Form = "auto") -> jax.Array:
    """Log-sum-exp over k of `left[b, m, k] + right[b, k, n]`, differentiable to any order in reverse.

    Args:
        left: log values [b, m, k], float32 or float64; finite or minus infinity.
        right: log values [b, k, n] of the same type.
        form: as for `forward`. The gradient of "fast" also uses the fast form, so choose it only if the
            weight on clipped entries is known to be negligible.

    Returns:
        Log values [b, m, n]. Minus infinity where no k has a finite term, with zero gradient.

    Raises:
        TypeError: if the tables do not have the same floating type.
        ValueError: if the shapes do not match, or the form is unknown.

    Example:
        >>> left, right = jnp.log(jnp.array([[[1.0, 2.0]]])), jnp.log(jnp.array([[[3.0], [4.0]]]))
        >>> print(f"{jnp.exp(log_matmul_exp(left, right)).item():.4f}")
        11.0000
    """
    return forward(left, right, form)


def _log_matmul_exp_forward(left, right, form):
    # calls the function with the custom rule, as second derivatives go through the saved output
    out = log_matmul_exp(left, right, form)
    return out, (left, right, out)


def _log_matmul_exp_backward(form, saved, cotangent):
    return _differentiable_backward(*saved, cotangent, form)


log_matmul_exp.defvjp(_log_matmul_exp_forward, _log_matmul_exp_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _differentiable_backward(left, right, out, weight, form):
    if form == "fast":
        weight, scale = weight_scale(weight)
        by_left, by_right = backward(left, right, out, weight, form)
        return by_left * scale, by_right * scale
    return backward(left, right, out, weight, form)


def _backward_forward(left, right, out, weight, form):
    results = _differentiable_backward(left, right, out, weight, form)
    return results, (left, right, out, weight)


def _backward_backward(form, saved, cotangents):
    return jax.vjp(_plain_backward, *saved)[1](cotangents)


_differentiable_backward.defvjp(_backward_forward, _backward_backward)


def _plain_backward(left, right, out, weight):
    """The exact gradient in operations that JAX differentiates to any order, one entry of k at a time."""
    out = jnp.where(out == -jnp.inf, jnp.inf, out)

    @jax.checkpoint
    def step(carry, tables):
        exponents = tables[0][:, :, None] + tables[1][:, None, :] - out
        terms = jnp.exp(exponents) * weight
        return carry, (terms.sum(2), terms.sum(1))

    _, (by_left, by_right) = jax.lax.scan(step, None, (jnp.moveaxis(left, 2, 0), jnp.moveaxis(right, 1, 0)))
    return jnp.moveaxis(by_left, 0, 2), jnp.moveaxis(by_right, 0, 1)


def _checked(left: jax.Array, right: jax.Array, form: Form) -> Form:
    """The form to use, after validating the tables and the form."""
    if form not in FORMS:
        raise ValueError(f"expected a form of {', '.join(FORMS)}, got {form!r}")
    if left.dtype != right.dtype or np.dtype(left.dtype).name not in fast_product.RAISED_BITS:
        raise TypeError(f"expected two tables of float32 or of float64, got {left.dtype} and {right.dtype}")
    fits = left.ndim == 3 and right.ndim == 3
    if not fits or left.shape[0] != right.shape[0] or left.shape[2] != right.shape[1]:
        raise ValueError(
            f"expected shapes [b, m, k] and [b, k, n], got {left.shape} and {right.shape}: "
            "reshape the tables so that they share the batch and the inner size"
        )
    batch, rows, inner = left.shape
    return choose_form(batch, rows, inner, right.shape[2]) if form == "auto" else form


def choose_form(batch: int, rows: int, inner: int, columns: int) -> Form:
    """The form that "auto" selects for a product of these sizes: "exact" or "guarded".

    Example:
        >>> choose_form(1, 256, 256, 256), choose_form(1, 10, 10, 10)
        ('guarded', 'exact')
    """
    large = batch * rows * inner * columns >= GUARDED_CELLS and min(rows, inner, columns) >= 4
    return "guarded" if large else "exact"


def forward(left: jax.Array, right: jax.Array, form: Form = "auto") -> jax.Array:
    """The product itself, without a gradient rule.

    Args:
        left: log values [b, m, k], float32 or float64; finite or minus infinity.
        right: log values [b, k, n] of the same type.
        form: "exact", the on-line log-sum-exp; "fast", one matrix product, in which entries that underflow
            are replaced by an upper bound (see `fast_product.fast_forward`); "guarded", the
            fast form with the exact one where needed; "auto", exact or guarded, depending on the size.

    Returns:
        Log values [b, m, n].

    Raises:
        TypeError: if the tables do not have the same floating type.
        ValueError: if the shapes do not match, or the form is unknown.
    """
    form = _checked(left, right, form)
    if form == "fast":
        return fast_product.fast_forward(left, right)[0]
    return (exact_product.exact_forward if form == "exact" else guarded_forward)(left, right)


def backward(
    left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array, form: Form = "auto"
) -> tuple[jax.Array, jax.Array]:
    """The product's gradient: sums of `weight * exp(left + right - out)` over n and over m.

    If `weight` contains the probabilities of the cells (m, n), the results are those of (m, k) and (k, n).

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].
        out: the product [b, m, n]; of the fast form if `form` is "fast".
        weight: weights of the entries of `out` [b, m, n]. For the fast form, no row or column of absolute
            values may sum to more than about 1.
        form: as for `forward`.

    Returns:
        The gradients with respect to left [b, m, k] and right [b, k, n].

    Raises:
        TypeError: if the tables do not have the same floating type.
        ValueError: if the shapes do not match, or the form is unknown.
    """
    form = _checked(left, right, form)
    for name, table in (("out", out), ("weight", weight)):
        if table.shape != (*left.shape[:2], right.shape[2]):
            expected = (*left.shape[:2], right.shape[2])
            raise ValueError(f"expected {name} of shape {expected}, got {table.shape}")
    kinds = {
        "exact": exact_product.exact_backward,
        "fast": fast_product.fast_backward,
        "guarded": guarded_backward,
    }
    return kinds[form](left, right, out, weight)


def guarded_forward(left: jax.Array, right: jax.Array) -> jax.Array:
    """Log-sum-exp over k, always exact, and as fast as a matrix product if no entry underflows.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].

    Returns:
        Log values [b, m, n], equal to those of the exact form up to rounding.
    """
    out, clipped = fast_product.fast_forward(left, right)

    def recompute(tables: Tables, entry: jax.Array, rows: jax.Array, out: jax.Array) -> jax.Array:
        exact = exact_product.exact_forward(_taken(tables[0], entry, rows, -jnp.inf), tables[1][entry][None])
        kept = jnp.where(_taken(clipped, entry, rows, False), exact, _taken(out, entry, rows, 0))
        return out.at[entry, rows].set(kept[0], mode="drop")

    return _over_wrong_rows(clipped, recompute, (left, right), out)


def guarded_backward(
    left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sums of `weight * exp(left + right - out)` over n and over m, exact wherever weight is not negligible.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].
        out: the exact forward result [b, m, n].
        weight: weights of the entries of `out`, of any sign and scale [b, m, n].

    Returns:
        The gradients with respect to left [b, m, k] and right [b, k, n]. The lost weight of an entry is
        below 2e-14 (float32) of the largest weight in the same b.
    """
    weight, scale = weight_scale(weight)
    tables = fast_product.scaled(left, right)
    gap = tables.row_top[:, :, None] + tables.column_top[:, None, :] - out
    negligible = float(jnp.finfo(left.dtype).eps) ** 2 / max(out.shape[1:])
    limit = fast_product.clip_gap(left.shape[2], left.dtype)
    wrong = (gap > limit) & (jnp.abs(weight) > negligible) & (out > -jnp.inf)
    by_left, by_right = fast_product.fast_backward(left, right, out, jnp.where(gap > limit, 0, weight))

    def recompute(tables: Tables, entry: jax.Array, rows: jax.Array, state: Tables) -> Tables:
        weights = jnp.where(_taken(wrong, entry, rows, False), _taken(weight, entry, rows, 0), 0)
        by_left, by_right = exact_product.exact_backward(
            _taken(tables[0], entry, rows, -jnp.inf),
            tables[1][entry][None],
            _taken(out, entry, rows, 0),
            weights,
        )
        return state[0].at[entry, rows].add(by_left[0], mode="drop"), state[1].at[entry].add(by_right[0])

    by_left, by_right = _over_wrong_rows(wrong, recompute, (left, right), (by_left, by_right))
    return by_left * scale, by_right * scale


def weight_scale(weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weights [b, m, n] scaled so that rows and columns sum to at most 1, and the scale [b, 1, 1]."""
    scale = jnp.max(jnp.abs(weight), axis=(1, 2), keepdims=True) * max(weight.shape[1:])
    scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    return weight / scale, scale


def _taken(table: jax.Array, entry: jax.Array, rows: jax.Array, fill: float | bool) -> jax.Array:
    """Some rows of one batch entry, [1, rows, ...]; `fill` for rows past the end."""
    return table.at[entry, rows].get(mode="fill", fill_value=fill)[None]


def _over_wrong_rows(wrong: jax.Array, recompute: Callable[..., Any], tables: Tables, state: Any) -> Any:
    """Run `state = recompute(tables, entry, rows, state)` over all rows with a wrong entry, in chunks.

    The loops run over the number of such rows, so nothing is recomputed if there are none, also under `vmap`.
    """
    batch, size, columns = wrong.shape
    chunk = max(1, min(size, CHUNK_CELLS // max(1, columns)))
    affected = wrong.any(2)
    counts = affected.sum(1)
    # wrong rows first; indices past the table, at the end of the last chunk, are dropped
    order = jnp.where(jnp.arange(size) < counts[:, None], jnp.argsort(~affected, axis=1, stable=True), size)
    order = jnp.pad(order, ((0, 0), (0, -size % chunk)), constant_values=size)

    def entry_step(entry: jax.Array, state: Any) -> Any:
        def chunk_step(i: jax.Array, state: Any) -> Any:
            rows = jax.lax.dynamic_slice(order, (entry, i * chunk), (1, chunk))[0]
            return recompute(held_back(tables, i), entry, rows, state)

        return jax.lax.fori_loop(0, -(-counts[entry] // chunk), chunk_step, state)

    # entries after the last one with a wrong row are not visited
    last = jnp.max(jnp.where(counts > 0, jnp.arange(batch) + 1, 0))
    return jax.lax.fori_loop(0, last, entry_step, state)
