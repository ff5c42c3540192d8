"""Query blocks on one attribute: single codes, neighbouring codes, groups of codes, numbers, any matrix.

`Identity`, `Total`, `Subset` and `Point` pick codes; `Range`, `Ranges`, `AllRanges` and `Prefix` count
neighbouring ones; `Merge`, `Mean`, `Moments` and `Matrix` have other entries.

In float32, the running sum and the matrix product for `prefix` both have errors of about 1e-7 of the total
for up to 20,000 codes (XLA sums by a tree). Small sizes therefore use the product, which compiles six times
faster, and large ones the running sum.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pgmjax._internal import checks
from pgmjax.data.attribute import Attribute
from pgmjax.queries import columns
from pgmjax.queries.block import (
    SMALL_MATRIX,
    AttributeQuery,
    Code,
    FrozenArray,
    code_of,
    code_or_value,
    contract,
)
from pgmjax.queries.columns import Exact, Extremes

_LARGEST_EXACT = 2**53


@dataclasses.dataclass(frozen=True)
class Identity(AttributeQuery):
    """Every code by itself: the attribute is kept."""

    kind: ClassVar[str] = "identity"

    def _rows(self, size: int) -> int:
        return size

    def _matrix(self, size: int) -> np.ndarray:
        return np.eye(size, dtype=np.int64)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return table

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Same as `AttributeQuery.apply_transposed`."""
        return weights

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 2 if size > 1 else 0

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return columns.MIXED if size > 1 else columns.CONSTANT

    def _separates(self, size: int) -> bool:
        return size > 1


@dataclasses.dataclass(frozen=True)
class Total(AttributeQuery):
    """The sum over all codes: the attribute is marginalised out."""

    kind: ClassVar[str] = "total"

    def _rows(self, size: int) -> int:
        return 1

    def _matrix(self, size: int) -> np.ndarray:
        return np.ones((1, size), np.int64)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return xp.sum(table, axis=axis, keepdims=True)

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Same as `AttributeQuery.apply_transposed`."""
        return np.repeat(weights, size, axis=axis)

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 0


@dataclasses.dataclass(frozen=True, init=False)
class Subset(AttributeQuery):
    """One row that counts the records with any of the given codes (evidence with alternatives)."""

    kind: ClassVar[str] = "subset"
    codes: tuple[Code, ...]

    def __init__(self, codes: Iterable[Code]) -> None:
        given = [code_or_value("a code of a subset", code) for code in items(codes)]
        kept = tuple(sorted(given, key=lambda code: (isinstance(code, str), code)))
        if not kept or len(set(kept)) != len(kept):
            raise ValueError(
                f"subset needs distinct codes, at least one, got {len(kept)} of which "
                f"{len(set(kept))} are distinct."
            )
        object.__setattr__(self, "codes", kept)

    def over(self, attribute: Attribute) -> Subset:
        """Same as `AttributeQuery.over`."""
        if not any(isinstance(code, str) for code in self.codes):
            return self
        return Subset(code_of(attribute, code) for code in self.codes)

    def _check(self, size: int, attribute: str) -> None:
        check_code(self.codes[-1], size, attribute, self.kind)

    def _rows(self, size: int) -> int:
        return 1

    def _matrix(self, size: int) -> np.ndarray:
        result = np.zeros((1, size), np.int64)
        result[0, list(self.codes)] = 1
        return result

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return xp.sum(xp.take(table, np.array(self.codes), axis=axis), axis=axis, keepdims=True)

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 1 if len(self.codes) < size else 0

    def _arguments(self) -> Any:
        return list(self.codes)


@dataclasses.dataclass(frozen=True)
class Point(AttributeQuery):
    """One row that counts the records with a given code (evidence)."""

    kind: ClassVar[str] = "point"
    code: Code

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", code_or_value("the code of a point", self.code))

    def over(self, attribute: Attribute) -> Point:
        """Same as `AttributeQuery.over`."""
        return Point(code_of(attribute, self.code)) if isinstance(self.code, str) else self

    def _check(self, size: int, attribute: str) -> None:
        check_code(self.code, size, attribute, self.kind)

    def _rows(self, size: int) -> int:
        return 1

    def _matrix(self, size: int) -> np.ndarray:
        return (np.arange(size) == self.code).astype(np.int64)[None, :]

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return cut(table, axis, self.code, self.code + 1)

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 1 if size > 1 else 0

    def _arguments(self) -> Any:
        return self.code


@dataclasses.dataclass(frozen=True)
class Range(AttributeQuery):
    """One row that counts the records with a code from `low` to `high`, both included; see `Point`."""

    kind: ClassVar[str] = "range"
    low: Code
    high: Code

    def __post_init__(self) -> None:
        low, high = _bounds((self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def over(self, attribute: Attribute) -> Range:
        """Same as `AttributeQuery.over`."""
        if not (isinstance(self.low, str) or isinstance(self.high, str)):
            return self
        return Range(code_of(attribute, self.low), code_of(attribute, self.high))

    def _check(self, size: int, attribute: str) -> None:
        for code in (self.low, self.high):
            check_code(code, size, attribute, self.kind)

    def _rows(self, size: int) -> int:
        return 1

    def _matrix(self, size: int) -> np.ndarray:
        return _range_matrix(np.array([[self.low, self.high]]), size)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return xp.sum(cut(table, axis, self.low, self.high + 1), axis=axis, keepdims=True)

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 1 if self.high - self.low + 1 < size else 0

    def _arguments(self) -> Any:
        return [self.low, self.high]


@dataclasses.dataclass(frozen=True, init=False)
class Ranges(AttributeQuery):
    """Several ranges of codes, one row per range, both ends included; see `Point`."""

    kind: ClassVar[str] = "ranges"
    bounds: tuple[tuple[Code, Code], ...]

    def __init__(self, bounds: Iterable[Iterable[Code]]) -> None:
        pairs = tuple(_bounds(pair) for pair in items(bounds))
        if not pairs:
            raise ValueError("ranges needs at least one pair (low, high), got none.")
        object.__setattr__(self, "bounds", pairs)

    def over(self, attribute: Attribute) -> Ranges:
        """Same as `AttributeQuery.over`."""
        if not any(isinstance(end, str) for end in itertools.chain(*self.bounds)):
            return self
        return Ranges([code_of(attribute, end) for end in pair] for pair in self.bounds)

    def _check(self, size: int, attribute: str) -> None:
        for code in itertools.chain(*self.bounds):
            check_code(code, size, attribute, self.kind)

    def _rows(self, size: int) -> int:
        return len(self.bounds)

    def _matrix(self, size: int) -> np.ndarray:
        return _range_matrix(np.array(self.bounds), size)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return _apply_ranges(np.array(self.bounds), table, axis, xp)

    def _max_column(self, size: int, power: int) -> int:
        return _max_cover(np.array(self.bounds), size)

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        covered = all(high - low + 1 == size for low, high in self.bounds)
        return columns.CONSTANT if covered else columns.MIXED

    def _arguments(self) -> Any:
        return [list(pair) for pair in self.bounds]


@dataclasses.dataclass(frozen=True)
class AllRanges(AttributeQuery):
    """Every range of codes, in the order (0, 0), (0, 1), ..., (1, 1), ...: size * (size + 1) / 2 rows."""

    kind: ClassVar[str] = "all_ranges"

    def _rows(self, size: int) -> int:
        return size * (size + 1) // 2

    def _matrix(self, size: int) -> np.ndarray:
        return _range_matrix(np.stack(np.triu_indices(size), axis=1), size)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return _apply_ranges(np.stack(np.triu_indices(table.shape[axis]), axis=1), table, axis, xp)

    def _max_column(self, size: int, power: int) -> int:
        return ((size + 1) // 2) * (size // 2 + 1)

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return columns.MIXED if size > 1 else columns.CONSTANT


@dataclasses.dataclass(frozen=True)
class Prefix(AttributeQuery):
    """Cumulative counts: the records with a code up to b, for every b; the last row is the total."""

    kind: ClassVar[str] = "prefix"

    def _rows(self, size: int) -> int:
        return size

    def _matrix(self, size: int) -> np.ndarray:
        return np.tri(size, dtype=np.int64)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        size = table.shape[axis]
        if xp is not np and size * size <= SMALL_MATRIX:
            return super()._apply(table, axis, xp)
        return xp.cumsum(table, axis=axis)

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Same as `AttributeQuery.apply_transposed`."""
        return np.flip(np.cumsum(np.flip(weights, axis), axis=axis), axis)

    def _max_column(self, size: int, power: int) -> int:
        return size

    def _max_distance(self, size: int, power: int) -> int:
        return size - 1

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return columns.MIXED if size > 1 else columns.CONSTANT


@dataclasses.dataclass(frozen=True, init=False)
class Merge(AttributeQuery):
    """Counts per group of codes, as for a coarser attribute."""

    kind: ClassVar[str] = "compression"
    groups: FrozenArray

    def __init__(self, groups: ArrayLike | FrozenArray) -> None:
        rows = _frozen(groups, "the groups of a compression", 1)
        if rows.array.dtype != np.int64:
            raise TypeError(f"the groups of a compression must be integers, got {rows.array.dtype}.")
        if rows.array.min() < 0:
            raise ValueError("the groups of a compression must be rows >= 0, got a negative one.")
        object.__setattr__(self, "groups", rows)

    def _check(self, size: int, attribute: str) -> None:
        _check_length(self.groups, 0, size, attribute, self.kind)

    def _rows(self, size: int) -> int:
        return int(self.groups.array.max()) + 1

    def _matrix(self, size: int) -> np.ndarray:
        result = np.zeros((self._rows(size), size), np.int64)
        result[self.groups.array, np.arange(size)] = 1
        return result

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        size = table.shape[axis]
        if self._rows(size) * size <= SMALL_MATRIX:
            return contract(self._matrix(size), table, axis, xp)
        first = xp.moveaxis(table, axis, 0)
        result = xp.zeros((self._rows(size), *first.shape[1:]), table.dtype)
        if xp is np:
            np.add.at(result, self.groups.array, first)
        else:
            result = result.at[xp.asarray(self.groups.array)].add(first)
        return xp.moveaxis(result, 0, axis)

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Same as `AttributeQuery.apply_transposed`."""
        return np.take(weights, self.groups.array, axis=axis)

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 2 if self._separates(size) else 0

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return columns.MIXED if self._separates(size) else columns.CONSTANT

    def _separates(self, size: int) -> bool:
        return bool((self.groups.array != self.groups.array[0]).any())

    def _arguments(self) -> Any:
        return self.groups.array.tolist()


def _require_quantities(block: Mean | Moments, attribute: Attribute) -> None:
    """Refuse to sum the codes of labels, or of a bucket for missing values.

    Raises:
        ValueError: the block has no values of its own, and the attribute's codes are no quantities.
    """
    if block.values is None and (attribute.labels is not None or attribute.missing):
        why = "has labels" if attribute.labels is not None else "has a code for missing values"
        raise ValueError(
            f"{attribute.name!r} {why}, whose codes are no quantities: give {block.kind} the value of "
            "each of its "
            f"{attribute.size} codes, {', '.join(attribute.code_names()[:6])}."
        )


@dataclasses.dataclass(frozen=True, init=False)
class Mean(AttributeQuery):
    """The sum of a value over the records, one row: an unnormalised mean."""

    kind: ClassVar[str] = "mean"
    values: FrozenArray | None

    def __init__(self, values: ArrayLike | FrozenArray | None = None) -> None:
        object.__setattr__(self, "values", _optional(values, "the values of a mean"))

    def over(self, attribute: Attribute) -> Mean:
        """Same as `AttributeQuery.over`; refuse codes that are no quantities."""
        _require_quantities(self, attribute)
        return self

    def _check(self, size: int, attribute: str) -> None:
        if self.values is not None:
            _check_length(self.values, 0, size, attribute, self.kind)

    def _rows(self, size: int) -> int:
        return 1

    def _matrix(self, size: int) -> np.ndarray:
        return _values(self.values, size)[None, :]

    def _is_integral(self, size: int) -> bool:
        return self.values is None or self.values.array.dtype == np.int64

    def _is_nonnegative(self, size: int) -> bool:
        return self.values is None or bool(self.values.array.min() >= 0)

    def _max_distance(self, size: int, power: int) -> Exact | None:
        return columns.max_distance(self._matrix(size), power)

    def _arguments(self) -> Any:
        return None if self.values is None else self.values.array.tolist()


@dataclasses.dataclass(frozen=True, init=False)
class Moments(AttributeQuery):
    """The sums of the first `order` powers of a value over the records, unnormalised, one row per power."""

    kind: ClassVar[str] = "moments"
    order: int
    values: FrozenArray | None

    def __init__(self, order: int, values: ArrayLike | FrozenArray | None = None) -> None:
        object.__setattr__(self, "order", checks.integer("the number of moments", order, low=1))
        object.__setattr__(self, "values", _optional(values, "the values of moments"))

    def over(self, attribute: Attribute) -> Moments:
        """Same as `AttributeQuery.over`; refuse codes that are no quantities."""
        _require_quantities(self, attribute)
        return self

    def _check(self, size: int, attribute: str) -> None:
        if self.values is not None:
            _check_length(self.values, 0, size, attribute, self.kind)
        largest = float(np.abs(_values(self.values, size)).max())
        if largest > 1 and self.order * np.log2(largest) >= 1000:
            raise ValueError(
                f"{self.order} moments of {attribute} overflow: its values reach a power above 1e300. "
                "Ask for fewer moments or give smaller values."
            )

    def _rows(self, size: int) -> int:
        return self.order

    def _matrix(self, size: int) -> np.ndarray:
        values = _values(self.values, size)
        if not self._is_integral(size):
            values = values.astype(np.float64)
        return values[None, :] ** np.arange(1, self.order + 1)[:, None]

    def _is_integral(self, size: int) -> bool:
        values = _values(self.values, size)
        return values.dtype == np.int64 and int(np.abs(values).max()) ** self.order < _LARGEST_EXACT

    def _is_nonnegative(self, size: int) -> bool:
        return self.values is None or bool(self.values.array.min() >= 0)

    def _arguments(self) -> Any:
        if self.values is None:
            return self.order
        return {"order": self.order, "values": self.values.array.tolist()}


@dataclasses.dataclass(frozen=True, init=False)
class Matrix(AttributeQuery):
    """Any matrix over the codes of one attribute; entries may be negative."""

    kind: ClassVar[str] = "matrix"
    entries: FrozenArray

    def __init__(self, entries: ArrayLike | FrozenArray) -> None:
        object.__setattr__(self, "entries", _numbers(entries, "the entries of a matrix query", 2))

    def _check(self, size: int, attribute: str) -> None:
        _check_length(self.entries, 1, size, attribute, self.kind)

    def _rows(self, size: int) -> int:
        return self.entries.array.shape[0]

    def _matrix(self, size: int) -> np.ndarray:
        return self.entries.array

    def _is_integral(self, size: int) -> bool:
        return self.entries.array.dtype == np.int64

    def _is_nonnegative(self, size: int) -> bool:
        return bool(self.entries.array.min() >= 0)

    def _arguments(self) -> Any:
        return self.entries.array.tolist()


def items(values: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple; refuse strings and non-iterables."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"expected a sequence of integers, got {type(values).__name__}.")
    return tuple(values)


def check_code(code: Code, size: int, attribute: str, kind: str) -> None:
    """Refuse a code that an attribute of `size` codes does not have, and a value whose code is not known."""
    if isinstance(code, str):
        raise ValueError(
            f"the {kind} query names {code!r}, a value of {attribute}, and codes are needed here: write "
            "query.over(domain)."
        )
    if code >= size:
        raise ValueError(
            f"the {kind} query names code {code}, but {attribute} has codes 0..{size - 1}: "
            "codes are places in the domain. Conditions such as 'age>=18,age<40' ask in values: "
            "Synthesizer.query, "
            "or pgmjax query."
        )


def cut(table: Any, axis: int, low: int, high: int) -> Any:
    """Return the part of a table with codes low..high-1 on one axis."""
    index = [slice(None)] * table.ndim
    index[axis] = slice(low, high)
    return table[tuple(index)]


def _bounds(pair: Any) -> tuple[Code, Code]:
    pair = items(pair)
    if len(pair) != 2:
        raise ValueError(f"a range is a pair (low, high), got {len(pair)} numbers.")
    low = code_or_value("the low end of a range", pair[0])
    high = code_or_value("the high end of a range (included)", pair[1])
    if isinstance(low, str) or isinstance(high, str):
        return low, high
    return low, checks.integer("the high end of a range (included)", high, low=low)


def _range_matrix(bounds: np.ndarray, size: int) -> np.ndarray:
    codes = np.arange(size)
    return ((codes >= bounds[:, :1]) & (codes <= bounds[:, 1:])).astype(np.int64)


def _apply_ranges(bounds: np.ndarray, table: Any, axis: int, xp: Any) -> Any:
    """Answer ranges as differences of cumulative sums, or by one matrix product if that is small."""
    size = table.shape[axis]
    if xp is not np and len(bounds) * size <= SMALL_MATRIX:
        return contract(_range_matrix(bounds, size), table, axis, xp)
    sums = xp.cumsum(table, axis=axis)
    sums = xp.concatenate([xp.zeros_like(cut(sums, axis, 0, 1)), sums], axis=axis)
    return xp.take(sums, bounds[:, 1] + 1, axis=axis) - xp.take(sums, bounds[:, 0], axis=axis)


def _max_cover(bounds: np.ndarray, size: int) -> int:
    """Return the largest number of ranges that cover one code."""
    change = np.zeros(size + 1, np.int64)
    np.add.at(change, bounds[:, 0], 1)
    np.add.at(change, bounds[:, 1] + 1, -1)
    return int(np.cumsum(change).max())


def _frozen(values: Any, name: str, dimensions: int) -> FrozenArray:
    array = values.array if isinstance(values, FrozenArray) else values
    return FrozenArray(array, name, dimensions)


def _numbers(values: Any, name: str, dimensions: int) -> FrozenArray:
    """Freeze numbers; floats that are all whole numbers below 2**53 become integers and stay exact."""
    array = _frozen(values, name, dimensions).array
    if array.dtype == bool or (
        array.dtype == np.float64
        and bool((array == np.round(array)).all() and np.abs(array).max() < _LARGEST_EXACT)
    ):
        array = array.astype(np.int64)
    return FrozenArray(array, name, dimensions)


def _optional(values: Any, name: str) -> FrozenArray | None:
    return None if values is None else _numbers(values, name, 1)


def _values(values: FrozenArray | None, size: int) -> np.ndarray:
    return np.arange(size) if values is None else values.array


def _check_length(array: FrozenArray, axis: int, size: int, attribute: str, kind: str) -> None:
    length = array.array.shape[axis]
    if length != size:
        raise ValueError(
            f"the {kind} query has {length} {'columns' if axis else 'entries'}, but {attribute} has {size} "
            "codes: give one a code, the missing one included."
        )
