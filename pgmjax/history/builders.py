"""Builders of queries for histories: ranges, conditions, moments, transforms, marginals.

`random_ranges` and `random_tables` draw the two kinds of the paper's experiments; `is_in`, `equals` and
`between` are conditions that combine by `&`, `|` and `~`; `moments`, `covariances`; `fourier` and
`wavelet` strategies, the coefficients of a marginal's transform; `all_marginals`.

The truth table of a condition is written as a sum of a few products of one vector per axis. A table that is
not a product is sliced along an axis. Slices that are integer combinations of others need no terms of their
own: a table of two axes takes as many terms as its rank, and "a or b or c", whose complement is a box, takes
two. Coefficients and entries are integers, so that the query can be measured.

References:
    Chen, Zhou and Bhowmick 2012, section 3.2 (both transforms as products of one function per attribute);
    Barak et al. 2007, "Privacy, accuracy and consistency too" (Fourier, binary attributes); Xiao, Wang and
    Gehrke 2011, "Differential privacy via wavelet transforms".
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks, migration
from pgmjax.data.attribute import Code
from pgmjax.data.domain import Domain, as_clique
from pgmjax.queries import Product, Query, WeightedSum, marginal, matrix, point, subset, total
from pgmjax.queries import range as code_range
from pgmjax.queries.blocks import AttributeQuery, Matrix, Range, Subset, Value
from pgmjax.queries.random import random_ranges, random_tables
from pgmjax.strategies import fixed

__all__ = [
    "all_marginals",
    "between",
    "covariances",
    "equals",
    "fourier",
    "is_in",
    "moment",
    "moments",
    "random_ranges",
    "random_tables",
    "wavelet",
]

MAX_CASES = 1_000_000
"""Largest number of combinations of attribute cases that a condition may distinguish."""

Term = tuple[int, tuple[np.ndarray, ...]]
"""A coefficient, and an integer vector for each axis."""

_ALL_AXES = 6
"""Tables with more axes are sliced only along the axis with the fewest distinct slices."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition on one record: values of an attribute, or others joined by `&`, `|` and `~`.

    Attributes:
        attribute: the name of the attribute; "" for conditions that are joined.
        values: the values for which it holds: a block of one row of zeros and ones.
        join: joins the truths of the parts.
        parts: the conditions that are joined.

    Example:
        >>> domain = Domain({"age": 80, "sex": 2})
        >>> either = between("age", 18, 64) | equals("sex", 1)
        >>> len(either.query(domain).factors(domain))
        2
    """

    attribute: str = ""
    values: AttributeQuery = dataclasses.field(default_factory=total)
    join: Callable[..., np.ndarray] = np.logical_and
    parts: tuple[Condition, ...] = ()

    __bool__ = migration.instead(
        "A condition holds for some records and is neither true nor false: join conditions by &, | and ~ "
        "in place of and, or and not."
    )

    def __and__(self, other: Condition) -> Condition:
        return _joined(np.logical_and, self, other)

    def __or__(self, other: Condition) -> Condition:
        return _joined(np.logical_or, self, other)

    def __invert__(self) -> Condition:
        return Condition(join=np.logical_not, parts=(self,))

    def query(self, domain: Domain) -> Query:
        """Return the query that counts the records satisfying the condition.

        A `Product` if possible, otherwise a `WeightedSum` of few products with integer entries. For two
        attributes the number of products is minimal unless that requires fractions; for more it is rarely far
        from minimal.

        Raises:
            ValueError: an attribute or code is unknown, the condition never holds, or it distinguishes more
                than `MAX_CASES` combinations.
        """
        truths: dict[str, list[np.ndarray]] = {}
        holds = self._over(domain, truths)
        order = tuple(name for name in domain if name in truths)
        # codes that no part tells apart are one case: the first code of each stands for all of them
        unique = [
            np.unique(np.stack(truths[name], axis=1), axis=0, return_index=True, return_inverse=True)
            for name in order
        ]
        firsts, cases = [each[1] for each in unique], [each[2].reshape(-1) for each in unique]
        shape = [len(first) for first in firsts]
        if math.prod(shape) > MAX_CASES:
            raise ValueError(
                f"the condition on {order} tells {math.prod(shape):,} combinations of codes apart, above "
                f"the limit of {MAX_CASES:,}: split it into several queries."
            )
        truth = holds(dict(zip(order, np.ix_(*firsts), strict=True)))
        truth = np.broadcast_to(truth, shape).astype(np.int64)
        if not truth.any():
            raise ValueError(f"the condition on {order} never holds: there is nothing to count.")
        terms = [
            (number, Product({n: _block(v[c]) for n, v, c in zip(order, vectors, cases, strict=True)}))
            for number, vectors in decomposed(truth)
        ]
        return terms[0][1] if len(terms) == 1 and terms[0][0] == 1 else WeightedSum(terms)

    def _over(self, domain: Domain, truths: dict[str, list[np.ndarray]]) -> Holds:
        """Return whether the condition holds, as a function of arrays of codes that broadcast together.

        Args:
            domain: the attributes.
            truths: for which codes its parts hold, by attribute; theirs are added.
        """
        if self.parts:
            parts = [part._over(domain, truths) for part in self.parts]
            return lambda codes: self.join(*(part(codes) for part in parts))
        (name,) = as_clique(domain, (self.attribute,))
        truth = self.values.over(domain.attribute(name)).matrix(domain[name])[0] > 0
        truths.setdefault(name, []).append(truth)
        return lambda codes: truth[codes[name]]


Holds = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Whether a condition holds, from the codes by attribute."""


def is_in(attribute: str, values: Iterable[Value]) -> Condition:
    """Return the condition that an attribute has one of some values; see `queries.point`.

    Raises:
        ValueError: there is no value, or one is given twice.
    """
    _check_name(attribute)
    return Condition(attribute, Subset(values))


def equals(attribute: str, value: Value) -> Condition:
    """Return the condition that an attribute has a value; see `queries.point`."""
    return is_in(attribute, [value])


def between(attribute: str, low: Value, high: Value) -> Condition:
    """Return the condition that an attribute has a value from `low` to `high`, both included."""
    _check_name(attribute)
    return Condition(attribute, Range(low, high))


def _check_name(attribute: Any) -> None:
    checks.kind(attribute, str, "the name of the attribute comes first", 'write between("age", 18, 64)')


def _joined(join: Callable[..., np.ndarray], first: Condition, second: Condition) -> Condition:
    checks.kind(second, Condition, "a condition is joined with another one")
    return Condition(join=join, parts=(first, second))


def _block(vector: np.ndarray) -> AttributeQuery:
    """Return the simplest block of one row."""
    codes = np.flatnonzero(vector)
    if not np.array_equal(vector[codes], np.ones(len(codes))):
        return matrix([vector])
    if len(codes) == len(vector):
        return total()
    if len(codes) == 1:
        return point(Code(codes[0]))
    if codes[-1] - codes[0] + 1 == len(codes):
        return code_range(Code(codes[0]), Code(codes[-1]))
    return subset(map(Code, codes.tolist()))


def decomposed(table: np.ndarray) -> tuple[Term, ...]:
    """Return terms whose sum is a table of zeros and ones (int64); few, but not always the fewest.

    Example:
        >>> either = np.array([[0, 1], [1, 1]])
        >>> [coefficient for coefficient, _ in decomposed(either)]
        [1, -1]
    """
    return _decomposed(table.shape, table.astype(np.int8).tobytes())


@functools.lru_cache(maxsize=1 << 14)  # slices along different axes have the same slices
def _decomposed(shape: tuple[int, ...], content: bytes) -> tuple[Term, ...]:
    table = np.frombuffer(content, np.int8).reshape(shape).astype(np.int64)
    if not table.any():
        return ()
    box = _box(table)
    if box is not None:
        return ((1, box),)
    outside = _box(1 - table)
    if outside is not None:
        return (1, tuple(np.ones(size, np.int64) for size in shape)), (-1, outside)
    best: tuple[Term, ...] = ()
    for axis, constant in itertools.product(_axes(table), (False, True)):
        found = _sliced(table, axis, constant)
        best = found if not best or len(found) < len(best) else best
        if len(best) == 2:
            break
    return best


def _sliced(table: np.ndarray, axis: int, constant: bool) -> tuple[Term, ...]:
    """Return the terms of a basis of the slices along an axis, with the coefficients of each slice.

    Args:
        table: zeros and ones.
        axis: the axis.
        constant: whether the slice of ones is in the basis.
    """
    slices = np.moveaxis(table, axis, 0)
    shape = slices.shape[1:]
    flat = slices.reshape(len(slices), -1)
    candidates = sorted(np.unique(flat, axis=0), key=lambda row: _box(row.reshape(shape)) is None)
    if constant:
        candidates.insert(0, np.ones(flat.shape[1], np.int64))
    basis, coefficients = _basis(np.stack(candidates), flat)
    return tuple(
        (number, (*vectors[:axis], weights, *vectors[axis:]))
        for row, weights in zip(basis, coefficients.T, strict=True)
        if weights.any()
        for number, vectors in decomposed(row.reshape(shape))
    )


def _box(table: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """Return the vectors whose product a table is, if it is one."""
    if not table.ndim:
        return () if table.all() else None
    sides = []
    for axis in range(table.ndim):
        others = tuple(k for k in range(table.ndim) if k != axis)
        sides.append(np.asarray(table.any(axis=others), np.int64))
    count = math.prod(int(side.sum()) for side in sides)
    return tuple(sides) if count and count == int(table.sum()) else None


def _axes(table: np.ndarray) -> list[int]:
    axes = [axis for axis in range(table.ndim) if table.shape[axis] > 1]
    if len(axes) <= _ALL_AXES:
        return axes
    different = [len(np.unique(np.moveaxis(table, k, 0).reshape(table.shape[k], -1), axis=0)) for k in axes]
    return [axes[int(np.argmin(different))]]


def _basis(candidates: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a basis with integer coefficients for all rows, and the coefficients [rows, basis]."""
    kept: list[np.ndarray] = []
    for candidate in candidates:
        if candidate.any() and _combination(kept, candidate) is None:
            kept.append(candidate)
    numbers = np.zeros((len(rows), len(kept)), np.int64)
    for place, row in enumerate(rows):
        found = _combination(kept, row)
        numbers[place] = [np.array_equal(row, each) for each in kept] if found is None else found
    return np.stack(kept), numbers


def _combination(basis: list[np.ndarray], row: np.ndarray) -> np.ndarray | None:
    if not row.any():
        return np.zeros(len(basis), np.int64)
    if not basis:
        return None
    matrix = np.stack(basis)
    numbers = np.rint(np.linalg.lstsq(matrix.T.astype(float), row.astype(float), rcond=None)[0])
    whole = numbers.astype(np.int64)
    return whole if np.array_equal(whole @ matrix, row) else None


def moment(domain: Domain, powers: Mapping[str, int], values: Mapping[str, Any] | None = None) -> Product:
    """Return the query for the sum over records of a product of powers of their values.

    Args:
        domain: the attributes.
        powers: the power of each attribute, >= 0.
        values: values [size] of an attribute's codes, by attribute. Default: the codes 0, 1, ...

    Raises:
        TypeError: powers are not a mapping, or not integers.
        ValueError: there is no attribute, one is unknown, a power is negative, or values have the wrong
            length.

    Example:
        >>> query = moment(Domain({"age": 3, "pay": 2}), {"age": 2, "pay": 1})
        >>> query.matrix(Domain({"age": 3, "pay": 2})).tolist()
        [[0, 0, 0, 1, 0, 4]]
    """
    checks.kind(powers, Mapping, "powers must map attribute names to integers")
    clique = as_clique(domain, list(powers))
    given = _values(domain, values)
    return Product({name: _power(domain, name, powers[name], given) for name in clique})


def moments(
    domain: Domain, attributes: Iterable[str], order: int, values: Mapping[str, Any] | None = None
) -> list[Product]:
    """Return all moments up to an order: sums of products of 1 to `order` values of some attributes.

    Args:
        domain: the attributes.
        attributes: attributes whose values are multiplied.
        order: largest number of values in a product, >= 1.
        values: as in `moment`.

    Raises:
        ValueError: as in `moment`, or the order is below 1.

    Example:
        >>> asked = moments(Domain({"age": 3, "pay": 2}), ["age", "pay"], 2)
        >>> [query.clique for query in asked]  # sums of age, pay, age^2, age x pay, pay^2
        [('age',), ('pay',), ('age',), ('age', 'pay'), ('pay',)]
    """
    clique = as_clique(domain, list(attributes))
    order = checks.integer("order", order, low=1)
    chosen = (
        names
        for size in range(1, order + 1)
        for names in itertools.combinations_with_replacement(clique, size)
    )
    return [moment(domain, Counter(names), values) for names in chosen]


def covariances(
    domain: Domain, attributes: Iterable[str], values: Mapping[str, Any] | None = None
) -> list[Product]:
    """Return the count and the moments up to order 2, for means, variances and covariances.

    The covariance of x and y is (sum of x y) / n - (sum of x) (sum of y) / n^2.

    Args:
        domain: the attributes.
        attributes: attributes whose covariances are wanted.
        values: as in `moment`.
    """
    clique = as_clique(domain, list(attributes))
    return [Product({clique[0]: total()}), *moments(domain, clique, 2, values)]


def _values(domain: Domain, values: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    result = {}
    for name, given in ({} if values is None else values).items():
        size = domain[name]
        array = Matrix([given]).entries.array[0]
        if len(array) != size:
            raise ValueError(f"the values of {name!r} must be one a code, {size}, got {len(array)}.")
        result[name] = array
    return result


def _power(domain: Domain, name: str, power: Any, values: dict[str, np.ndarray]) -> AttributeQuery:
    power = checks.integer(f"the power of {name!r}", power, low=0)
    if power == 0:
        return total()
    codes = values.get(name, np.arange(domain[name]))
    exact = codes.dtype == np.int64 and int(np.abs(codes).max()) ** power < 2**53
    with np.errstate(over="ignore"):
        row = (codes if exact else codes.astype(np.float64)) ** power
    if not np.isfinite(row).all():
        raise ValueError(f"power {power} of {name!r} overflows: give smaller values.")
    return matrix([row])


def all_marginals(domain: Domain, k: int) -> list[Product]:
    """Return the marginals of every k attributes, in the domain's order.

    Args:
        domain: the attributes.
        k: number of attributes of each marginal, 1 to all.

    Raises:
        ValueError: k out of range.

    Example:
        >>> [query.clique for query in all_marginals(Domain({"a": 2, "b": 2, "c": 3}), 2)]
        [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    k = checks.integer("k", k, low=1, high=len(domain))
    return [marginal(clique) for clique in itertools.combinations(domain.attributes, k)]


def fourier(domain: Domain, attributes: Iterable[str], order: int | None = None) -> list[Product]:
    """Return Fourier coefficients of the marginal of some attributes.

    One query for each set of up to `order` attributes, the empty set first. Its rows are the products of one
    wave of each attribute. A binary attribute has the wave (1, -1), so entries are integers; an attribute
    with k codes has k - 1 waves, cosines and sines scaled to mean square 1.

    Args:
        domain: the attributes.
        attributes: the attributes of the marginal.
        order: largest number of attributes in one coefficient. Default: all.

    Raises:
        ValueError: an attribute is unknown, or the order is out of range.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> [query.matrix(domain.project(query.clique)).tolist() for query in fourier(domain, ["a", "b"], 1)]
        [[[1, 1]], [[1, -1]], [[1, -1]]]
    """
    clique = as_clique(domain, list(attributes))
    order = len(clique) if order is None else checks.integer("order", order, low=0, high=len(clique))
    wide = [name for name in clique if domain[name] > 1]
    waves = {name: matrix(_waves(domain[name])) for name in wide}
    result = [Product({clique[0]: total()})]
    for size in range(1, order + 1):
        for names in itertools.combinations(wide, size):
            result.append(Product({name: waves[name] for name in names}))
    return result


def wavelet(domain: Domain, attributes: Iterable[str]) -> Product:
    """Return the Haar wavelet coefficients of the marginal of some attributes, as many as it has cells.

    Rows are the products of one wavelet of each attribute: its total, and for each node at each level the
    difference of its halves, with entries 1, 0 and -1.

    Args:
        domain: the attributes.
        attributes: the attributes of the marginal, in order.

    Raises:
        ValueError: an attribute is unknown.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> wavelet(domain, ["a", "b"]).matrix(domain).tolist()
        [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    clique = as_clique(domain, list(attributes))
    return Product({name: matrix(fixed.wavelet(domain[name])) for name in clique})


def _waves(size: int) -> np.ndarray:
    """Return the real Fourier basis without the constant [size - 1, size], each row of mean square 1."""
    codes = np.arange(size)
    rows = []
    for frequency in range(1, size // 2 + 1):
        angles = 2 * math.pi * frequency * codes / size
        if 2 * frequency == size:
            rows.append(1.0 - 2.0 * (codes % 2))
        else:
            rows += [math.sqrt(2) * np.cos(angles), math.sqrt(2) * np.sin(angles)]
    return np.stack(rows)


migration.answer(globals())
