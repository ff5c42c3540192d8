"""Quantised queries: real matrices rounded to whole multiples of a power of two before anything is measured.

Noise is integer, so queries must be too. The query, which is public, is rounded in exact arithmetic; the
answers never are. Sensitivities follow exactly from the rounded matrix, and the released numbers are
integers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import columns, integers
from pgmjax.queries.blocks import Matrix
from pgmjax.queries.query import Product, Query
from pgmjax.queries.sums import DenseMatrix, WeightedSum

MAX_BITS = 32
"""The finest grid is 2**-32."""

_LARGEST = 2.0**53


@dataclasses.dataclass(frozen=True)
class Quantised:
    """An integral query that replaces a real one.

    Measure `query` and fit the model to it like any other. Its answers are `2**bits` times those of the
    rounded real query; no division is needed.

    Attributes:
        query: the rounded query times `2**bits`, with a matrix of integers.
        bits: the grid's step is `2**-bits`; 0 for a query that was integral already.
        error_bound: bound on the rounding error of every entry.
    """

    query: Query
    bits: int
    error_bound: Fraction

    @property
    def scale(self) -> int:
        """The factor between the answers of `query` and those of the rounded real one: `2**bits`."""
        return 2**self.bits

    def unscale(self, answers: Any) -> np.ndarray:
        """Return answers to `query` in the units of the real one, float64 of the same shape."""
        return np.ldexp(np.asarray(answers, dtype=np.float64), -self.bits)


def quantise(query: Query, domain: Domain, bits: int = 16) -> Quantised:
    """Round a query's entries to multiples of `2**-bits`, halves to even, and return it as integers.

    Products stay products and sums stay sums. Within a term, the non-integral factors (including the
    coefficient) share the bits so that their rounding errors relative to their size are similar; integral
    factors stay as they are. An integral query is returned unchanged.

    Args:
        query: any query, with finite entries.
        domain: the domain of the table.
        bits: binary digits after the point, 0..`MAX_BITS`; the grid's step is `2**-bits`.

    Raises:
        TypeError: not a query.
        ValueError: bits out of range; entries that would exceed
            `queries.integers.LARGEST_ENTRY` (the message says how many bits would fit); a row of a matrix
            or of a factor, a coefficient or the whole query that rounds to zero, so that its answers would
            be nothing but noise.

    Guarantees:
        `error_bound` is computed in exact arithmetic. For a joint matrix, or one non-integral factor
        next to factors of zeros and ones, it is at most half a step, `2**-(bits + 1)`.

    Example:
        >>> from pgmjax.queries import matrix
        >>> halves = Product({"a": matrix([[0.5, -0.5, 1.0]])})
        >>> quantised = quantise(halves, Domain({"a": 3}), bits=2)
        >>> quantised.query.matrix(Domain({"a": 3})).tolist(), quantised.scale, quantised.error_bound
        ([[2, -2, 4]], 4, Fraction(0, 1))
    """
    checks.kind(query, Query, "a query to be quantised must be a queries.Query")
    bits = checks.integer("the bits of a quantised query", bits, low=0, high=MAX_BITS)
    query = query.over(domain)
    if query.is_integral(domain):
        return Quantised(query, 0, Fraction(0))
    result = _round(query, domain, bits)
    if result is None:
        fitting = next((b for b in reversed(range(bits)) if _round(query, domain, b)), None)
        advice = "divide the query by a constant" if fitting is None else f"at most {fitting} bits fit"
        raise ValueError(
            f"the query on {query.clique}, rounded with {bits} bits, has entries above 2^30, beyond which "
            f"nothing is measured: {advice}."
        )
    lost = _lost(result, domain)
    if lost:
        finer = ((b, _round(query, domain, b)) for b in range(bits + 1, MAX_BITS + 1))
        enough = next((b for b, made in finer if made and not _lost(made, domain)), None)
        advice = "multiply the query by a constant" if enough is None else f"{enough} bits would keep them"
        raise ValueError(
            f"{lost} of the query on {query.clique} round to zero with {bits} bits, so that their answers "
            f"would be nothing but noise: {advice}, or leave them out."
        )
    return Quantised(result.query, bits, result.error)


@dataclasses.dataclass(frozen=True)
class _Rounded:
    """A query times `2**bits` in integers, and the matrices rounded for it."""

    query: Query
    error: Fraction
    grids: tuple[RoundedMatrix, ...]
    coefficient: int = 1


def _round(query: Query, domain: Domain, bits: int) -> _Rounded | None:
    """Return the rounded query, or None if it would be too large."""
    try:
        if isinstance(query, Product):
            result = _round_term(1, query, domain, bits)
        elif isinstance(query, WeightedSum):
            result = _round_sum(query, domain, bits)
        else:
            grid = round_to("rows", query.matrix(domain), bits)
            result = _Rounded(DenseMatrix(query.clique, grid.integers), grid.error, (grid,))
    except OverflowError:
        return None
    fits = result.query.is_integral(domain)
    fits = fits and integers.largest_entry(result.query, domain) <= integers.LARGEST_ENTRY
    return result if fits else None


def _round_sum(query: WeightedSum, domain: Domain, bits: int) -> _Rounded:
    pairs = zip(query.coefficients, query.products, strict=True)
    terms = [_round_term(coefficient, product, domain, bits) for coefficient, product in pairs]
    rounded = WeightedSum([(term.coefficient, cast(Product, term.query)) for term in terms])
    error = sum((term.error for term in terms), Fraction(0))
    return _Rounded(rounded, error, tuple(grid for term in terms for grid in term.grids))


def _round_term(coefficient: int | float, product: Product, domain: Domain, bits: int) -> _Rounded:
    """Return a coefficient times a product, rounded; its non-integral parts share the bits."""
    blocks = dict(zip(product.clique, product.blocks, strict=True))
    real = {name: block for name, block in blocks.items() if not block.is_integral(domain[name])}
    matrices = {f"rows of attribute {name!r}": block.matrix(domain[name]) for name, block in real.items()}
    if not isinstance(coefficient, int):
        matrices["coefficients"] = np.array([[coefficient]])
    elif not real:
        return _Rounded(product, Fraction(0), (), coefficient * 2**bits)
    shares = share(list(matrices.values()), bits)
    grids = tuple(round_to(*item, part) for item, part in zip(matrices.items(), shares, strict=True))
    rounded = blocks | {name: Matrix(grid.integers) for name, grid in zip(real, grids, strict=False)}
    kept = [block.row_extremes(domain[name]) for name, block in blocks.items() if name not in real]
    # the largest entry of what stays exact, by which errors of the rest are multiplied
    size = math.prod(columns.entry_and_spread(rows)[0] for rows in kept)
    whole = int(grids[-1].integers[0, 0])
    if isinstance(coefficient, int):
        size, whole = size * abs(coefficient), coefficient
    # |(a + e)(b + f) - a b| is largest where a, b and both errors are, all of one sign
    error = math.prod(g.largest + g.error for g in grids) - math.prod(g.largest for g in grids)
    return _Rounded(Product(rounded), Fraction(size * error), grids, whole)


def _lost(rounded: _Rounded, domain: Domain) -> str:
    """Describe what was rounded to zero; the empty string if nothing was."""
    for grid in rounded.grids:
        if grid.lost:
            rows = len(grid.integers)
            return f"{'all' if grid.lost == rows else grid.lost} of {rows} {grid.name}"
    if rounded.query.linf_sensitivity(Relation.ADD_REMOVE, domain) == 0:
        return "all rows"
    return ""


@dataclasses.dataclass(frozen=True, eq=False)
class RoundedMatrix:
    """A matrix times `2**bits`, rounded to integers.

    Attributes:
        name: what its rows are, for messages.
        integers: int64 [rows, columns].
        error: largest rounding error of an entry, in the original units.
        largest: largest magnitude of an entry before rounding.
        lost: number of nonzero rows that were rounded to zero.
    """

    name: str
    integers: np.ndarray
    error: Fraction
    largest: Fraction
    lost: int


def round_to(name: str, matrix: np.ndarray, bits: int) -> RoundedMatrix:
    """Round a matrix [rows, columns] times `2**bits`, halves to even.

    Raises:
        OverflowError: an entry would not be below 2**53.
    """
    with np.errstate(over="ignore"):
        scaled = np.ldexp(matrix, bits)
    # in this form an overflow to infinity is refused too
    if not np.abs(scaled).max() < _LARGEST:
        raise OverflowError
    whole = np.rint(scaled)
    error = Fraction(float(np.abs(scaled - whole).max())) / 2**bits  # a difference without rounding
    lost = int((matrix.any(axis=1) & ~whole.any(axis=1)).sum())
    return RoundedMatrix(name, whole.astype(np.int64), error, Fraction(float(np.abs(matrix).max())), lost)


def share(matrices: Sequence[np.ndarray], bits: int) -> list[int]:
    """Divide bits among the factors of a product: each goes to the factor coarsest relative to its size.

    Example:
        >>> share([np.array([[0.5, 1.0]]), np.array([[0.1, 0.3]])], 6)
        [1, 5]
    """
    needed = [columns.scaled(matrix)[1] for matrix in matrices]
    largest = [float(np.abs(matrix).max()) or 1.0 for matrix in matrices]
    result = [0] * len(matrices)
    for _ in range(bits):
        coarseness = [
            0.0 if have >= need else 2.0**-have / size
            for have, need, size in zip(result, needed, largest, strict=True)
        ]
        result[coarseness.index(max(coarseness))] += 1
    return result
