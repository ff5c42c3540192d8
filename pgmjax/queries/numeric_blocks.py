"""Query blocks beyond 0 and 1 for single codes: compression, mean, moments, any matrix."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pgmjax._internal import checks
from pgmjax.queries import columns, extremes
from pgmjax.queries.block import SMALL_MATRIX, AttributeQuery, contract
from pgmjax.queries.columns import Exact
from pgmjax.queries.extremes import Extremes
from pgmjax.queries.frozen_array import FrozenArray

_LARGEST_EXACT = 2**53


@dataclasses.dataclass(frozen=True, init=False)
class Compression(AttributeQuery):
    """How many fall to each group when codes are mapped many to one: a coarser attribute.

    Args:
        groups: the row of each code, one entry a code; rows are 0..max(groups).

    Example:
        >>> Compression([0, 1, 1]).matrix(3).tolist()
        [[1, 0, 0], [0, 1, 1]]
    """

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
            result = result.at[self.groups.array].add(first)
        return xp.moveaxis(result, 0, axis)

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 2 if self._separates(size) else 0

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return extremes.MIXED if self._separates(size) else extremes.CONSTANT

    def _separates(self, size: int) -> bool:
        return bool((self.groups.array != self.groups.array[0]).any())

    def _arguments(self) -> Any:
        return self.groups.array.tolist()


@dataclasses.dataclass(frozen=True, init=False)
class Mean(AttributeQuery):
    """The sum of a value over the records, one row: an unnormalised mean.

    Args:
        values: the value of each code; the code itself (0, 1, ...) when left out.

    Example:
        >>> Mean().matrix(3).tolist(), Mean([0.0, 0.5, 1.0]).matrix(3).tolist()
        ([[0, 1, 2]], [[0.0, 0.5, 1.0]])
    """

    kind: ClassVar[str] = "mean"
    values: FrozenArray | None

    def __init__(self, values: ArrayLike | FrozenArray | None = None) -> None:
        object.__setattr__(self, "values", _optional(values, "the values of a mean"))

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
    """The sums of the first `order` powers of a value over the records, unnormalised, a row each.

    Args:
        order: how many powers, at least 1.
        values: the value of each code; the code itself (0, 1, ...) when left out.

    Example:
        >>> Moments(2).matrix(4).tolist()
        [[0, 1, 2, 3], [0, 1, 4, 9]]
    """

    kind: ClassVar[str] = "moments"
    order: int
    values: FrozenArray | None

    def __init__(self, order: int, values: ArrayLike | FrozenArray | None = None) -> None:
        object.__setattr__(self, "order", checks.integer("the number of moments", order, low=1))
        object.__setattr__(self, "values", _optional(values, "the values of moments"))

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
    """Any matrix over the codes of one attribute; entries may be negative.

    Args:
        entries: [rows, size], finite.

    Example:
        >>> Matrix([[1, -1]]).rows(2)
        1
    """

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


def _frozen(values: Any, name: str, dimensions: int) -> FrozenArray:
    array = values.array if isinstance(values, FrozenArray) else values
    return FrozenArray(array, name, dimensions)


def _numbers(values: Any, name: str, dimensions: int) -> FrozenArray:
    """Freeze numbers; floats that are all whole numbers below 2**53 become integers, so stay exact."""
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
