"""Boolean conditions on a record, and the query that counts the records satisfying them.

The truth table of a condition is written as a sum of a few products of one vector per axis. A table that is
not a product is sliced along an axis. Slices that are integer combinations of others need no terms of their
own: a table of two axes takes as many terms as its rank, and "a or b or c", whose complement is a box, takes
two. Coefficients and entries are integers, so that the query can be measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import as_clique
from pgmjax.data.domain import Domain
from pgmjax.queries import AttributeQuery, Product, Query, WeightedSum, matrix, point, subset, total
from pgmjax.queries import range as code_range
from pgmjax.queries.block import Code, code_of
from pgmjax.queries.blocks import Range, Subset

MAX_CASES = 1_000_000
"""Largest number of combinations of attribute cases that a condition may distinguish."""

Term = tuple[int, tuple[np.ndarray, ...]]
"""A coefficient, and an integer vector for each axis."""

_ALL_AXES = 6
"""Tables with more axes are sliced only along the axis with the fewest distinct slices."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition on one record: codes of an attribute, or others joined by `&`, `|` and `~`.

    Attributes:
        joined_by: "codes", "range", "and", "or" or "not".
        attribute: the name of the attribute, for "codes".
        codes: the codes (or labels) it holds for, ascending, for "codes"; the ends, for "range".
        parts: the conditions that are joined.

    Example:
        >>> domain = Domain({"age": 80, "sex": 2})
        >>> either = between("age", 18, 64) | equals("sex", 1)
        >>> len(either.query(domain).factors(domain))
        2
    """

    joined_by: str
    attribute: str = ""
    codes: tuple[Code, ...] = ()
    parts: tuple[Condition, ...] = ()

    def __and__(self, other: Condition) -> Condition:
        return _joined("and", self, other)

    def __or__(self, other: Condition) -> Condition:
        return _joined("or", self, other)

    def __invert__(self) -> Condition:
        return Condition("not", parts=(self,))

    def query(self, domain: Domain) -> Query:
        """Return the query that counts the records satisfying the condition.

        A `Product` if possible, otherwise a `WeightedSum` of few products with integer entries. For two
        attributes the number of products is minimal unless that requires fractions; for more it is rarely far
        from minimal.

        Raises:
            ValueError: an attribute or code is unknown, the condition never holds, or it distinguishes more
                than `MAX_CASES` combinations.
        """
        named = self.over(domain).codes_by_attribute()
        order = tuple(name for name in domain if name in named)
        for name in named:
            _check_codes(name, named[name], domain[name])
        cases = [_cases(named[name], domain[name]) for name in order]
        shape = [int(case.max()) + 1 for case in cases]
        if math.prod(shape) > MAX_CASES:
            raise ValueError(
                f"the condition on {order} tells {math.prod(shape):,} combinations of codes apart, above "
                f"the limit of {MAX_CASES:,}: split it into several queries."
            )
        first = [np.unique(case, return_index=True)[1] for case in cases]
        truth = self.over(domain).holds(dict(zip(order, np.ix_(*first), strict=True)))
        truth = np.broadcast_to(truth, shape).astype(np.int64)
        if not truth.any():
            raise ValueError(f"the condition on {order} never holds: there is nothing to count.")
        terms = [
            (number, Product({n: _block(v[c]) for n, v, c in zip(order, vectors, cases, strict=True)}))
            for number, vectors in Decomposer().terms(truth)
        ]
        return terms[0][1] if len(terms) == 1 and terms[0][0] == 1 else WeightedSum(terms)

    def over(self, domain: Domain) -> Condition:
        """Return the condition with labels as codes and attributes as the domain writes them.

        Raises:
            ValueError: an attribute or a label is unknown, or a range is empty.
        """
        if self.parts:
            return dataclasses.replace(self, parts=tuple(part.over(domain) for part in self.parts))
        (name,) = as_clique(domain, (self.attribute,))
        codes = tuple(code_of(domain.attribute(name), code) for code in self.codes)
        return between(name, *codes) if self.joined_by == "range" else is_in(name, codes)

    def holds(self, codes: dict[str, np.ndarray]) -> np.ndarray:
        """Return whether the condition holds, for arrays of codes by attribute that broadcast together."""
        if self.joined_by == "codes":
            return np.isin(codes[self.attribute], self.codes)
        inner = [part.holds(codes) for part in self.parts]
        if self.joined_by == "not":
            return ~inner[0]
        return inner[0] & inner[1] if self.joined_by == "and" else inner[0] | inner[1]

    def codes_by_attribute(self) -> dict[str, list[tuple[int, ...]]]:
        """Return the sets of codes that the condition names, by attribute."""
        if self.joined_by == "codes":
            return {self.attribute: [self.codes]}
        result: dict[str, list[tuple[int, ...]]] = {}
        for part in self.parts:
            for name, sets in part.codes_by_attribute().items():
                result.setdefault(name, []).extend(sets)
        return result


def is_in(attribute: str, codes: Iterable[Code]) -> Condition:
    """Return the condition that an attribute has one of some codes or labels.

    Raises:
        ValueError: there is no code, or one is negative or given twice.
    """
    return Condition("codes", attribute, Subset(codes).codes)


def equals(attribute: str, code: Code) -> Condition:
    """Return the condition that an attribute has a code or label."""
    return is_in(attribute, [code])


def between(attribute: str, low: Code, high: Code) -> Condition:
    """Return the condition that an attribute has a code from `low` to `high` (or labels), both included."""
    ((low, high),) = Range(low, high).bounds
    if isinstance(low, str) or isinstance(high, str):
        return Condition("range", attribute, (low, high))
    return Condition("codes", attribute, tuple(np.arange(low, high + 1).tolist()))


def _joined(word: str, first: Condition, second: Condition) -> Condition:
    checks.kind(second, Condition, "a condition is joined with another one")
    return Condition(word, parts=(first, second))


def _check_codes(name: str, sets: list[tuple[int, ...]], size: int) -> None:
    for codes in sets:
        if codes[-1] >= size:
            raise ValueError(
                f"the condition names code {codes[-1]} of {name!r}, which has 0..{size - 1}: numbers are "
                "codes, and a bin is named by its text, such as '[18, 35)'."
            )


def _cases(sets: list[tuple[int, ...]], size: int) -> np.ndarray:
    """Return the case of each code: a case holds the codes that are in the same sets."""
    member = np.stack([np.isin(np.arange(size), codes) for codes in sets], axis=1)
    return np.unique(member, axis=0, return_inverse=True)[1].reshape(-1)


def _block(vector: np.ndarray) -> AttributeQuery:
    """Return the simplest block of one row."""
    codes = np.flatnonzero(vector)
    if not np.array_equal(vector[codes], np.ones(len(codes))):
        return matrix([vector])
    if len(codes) == len(vector):
        return total()
    if len(codes) == 1:
        return point(int(codes[0]))
    if codes[-1] - codes[0] + 1 == len(codes):
        return code_range(int(codes[0]), int(codes[-1]))
    return subset(codes.tolist())


class Decomposer:
    """Splits truth tables into sums of products, with a cache."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bytes], list[Term]] = {}

    def terms(self, table: np.ndarray) -> list[Term]:
        """Return terms whose sum is a table of zeros and ones (int64); few, but not always the fewest.

        Example:
            >>> either = np.array([[0, 1], [1, 1]])
            >>> [coefficient for coefficient, _ in Decomposer().terms(either)]
            [1, -1]
        """
        key = (table.shape, np.packbits(table.astype(bool)).tobytes())
        if key not in self._known:
            self._known[key] = self._split(table)
        return self._known[key]

    def _split(self, table: np.ndarray) -> list[Term]:
        if not table.any():
            return []
        box = _box(table)
        if box is not None:
            return [(1, box)]
        outside = _box(1 - table)
        if outside is not None:
            return [(1, _ones(table.shape)), (-1, outside)]
        best: list[Term] | None = None
        for axis in _axes(table):
            for constant in (False, True):
                found = self._sliced(table, axis, constant)
                best = found if best is None or len(found) < len(best) else best
                if len(best) == 2:
                    return best
        assert best is not None
        return best

    def _sliced(self, table: np.ndarray, axis: int, constant: bool) -> list[Term]:
        """Return the terms of a basis of the slices, with the coefficients of each slice."""
        slices = np.moveaxis(table, axis, 0)
        flat = slices.reshape(len(slices), -1)
        candidates = sorted(np.unique(flat, axis=0), key=lambda row: _box(_shaped(row, slices)) is None)
        if constant:
            candidates.insert(0, np.ones(flat.shape[1], np.int64))
        basis, coefficients = _basis(np.stack(candidates), flat)
        result: list[Term] = []
        for row, weights in zip(basis, coefficients.T, strict=True):
            if weights.any():
                for number, vectors in self.terms(_shaped(row, slices)):
                    result.append((number, (*vectors[:axis], weights, *vectors[axis:])))
        return result


def _shaped(row: np.ndarray, slices: np.ndarray) -> np.ndarray:
    return row.reshape(slices.shape[1:])


def _ones(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.ones(size, np.int64) for size in shape)


def _box(table: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """Return the vectors whose product a table is, if it is one."""
    if not table.ndim:
        return () if table.all() else None
    sides = []
    for axis in range(table.ndim):
        others = tuple(k for k in range(table.ndim) if k != axis)
        sides.append(np.asarray(table.any(axis=others), np.int64))
    count = 1
    for side in sides:
        count *= int(side.sum())
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
