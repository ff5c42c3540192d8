"""Query blocks of neighbouring codes: ranges and cumulative counts.

The running-sum form of `prefix` in float32 was compared with the matrix product: both err by about
1e-7 of the total for up to 20,000 codes (XLA sums by a tree), so small sizes take the product, which
compiles six times faster, and long ones the running sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.queries import extremes
from pgmjax.queries.block import SMALL_MATRIX, AttributeQuery, contract
from pgmjax.queries.blocks import check_code, cut, items
from pgmjax.queries.extremes import Extremes


@dataclasses.dataclass(frozen=True)
class Range(AttributeQuery):
    """How many have a code from `low` to `high`, both included: one row.

    Example:
        >>> Range(1, 2).matrix(4).tolist()
        [[0, 1, 1, 0]]
    """

    kind: ClassVar[str] = "range"
    low: int
    high: int

    def __post_init__(self) -> None:
        low, high = _bounds((self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def _check(self, size: int, attribute: str) -> None:
        check_code(self.high, size, attribute, self.kind)

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
    """Several ranges of codes, a row each, both ends of each included.

    Example:
        >>> Ranges([(0, 1), (1, 2)]).matrix(3).tolist()
        [[1, 1, 0], [0, 1, 1]]
    """

    kind: ClassVar[str] = "ranges"
    bounds: tuple[tuple[int, int], ...]

    def __init__(self, bounds: Iterable[Iterable[int]]) -> None:
        pairs = tuple(_bounds(pair) for pair in items(bounds))
        if not pairs:
            raise ValueError("ranges needs at least one pair (low, high), got none.")
        object.__setattr__(self, "bounds", pairs)

    def _check(self, size: int, attribute: str) -> None:
        check_code(max(high for _, high in self.bounds), size, attribute, self.kind)

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
        return extremes.CONSTANT if covered else extremes.MIXED

    def _arguments(self) -> Any:
        return [list(pair) for pair in self.bounds]


@dataclasses.dataclass(frozen=True)
class AllRanges(AttributeQuery):
    """Every range of codes, in the order (0, 0), (0, 1), ..., (1, 1), ...: size * (size + 1) / 2 rows.

    Example:
        >>> AllRanges().matrix(2).tolist()
        [[1, 0], [1, 1], [0, 1]]
    """

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
        return extremes.MIXED if size > 1 else extremes.CONSTANT


@dataclasses.dataclass(frozen=True)
class Prefix(AttributeQuery):
    """How many have a code up to b, for every b: cumulative counts; the last row is the total.

    Example:
        >>> Prefix().matrix(3).tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

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

    def _max_column(self, size: int, power: int) -> int:
        return size

    def _max_distance(self, size: int, power: int) -> int:
        return size - 1

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return extremes.MIXED if size > 1 else extremes.CONSTANT


def _bounds(pair: Any) -> tuple[int, int]:
    pair = items(pair)
    if len(pair) != 2:
        raise ValueError(f"a range is a pair (low, high), got {len(pair)} numbers.")
    low = checks.integer("the low end of a range", pair[0], low=0)
    return low, checks.integer("the high end of a range (included)", pair[1], low=low)


def _range_matrix(bounds: np.ndarray, size: int) -> np.ndarray:
    codes = np.arange(size)
    return ((codes >= bounds[:, :1]) & (codes <= bounds[:, 1:])).astype(np.int64)


def _apply_ranges(bounds: np.ndarray, table: Any, axis: int, xp: Any) -> Any:
    """Answer ranges as differences of cumulative sums, or by one product where that is small."""
    size = table.shape[axis]
    if xp is not np and len(bounds) * size <= SMALL_MATRIX:
        return contract(_range_matrix(bounds, size), table, axis, xp)
    sums = xp.cumsum(table, axis=axis)
    sums = xp.concatenate([xp.zeros_like(cut(sums, axis, 0, 1)), sums], axis=axis)
    return xp.take(sums, bounds[:, 1] + 1, axis=axis) - xp.take(sums, bounds[:, 0], axis=axis)


def _max_cover(bounds: np.ndarray, size: int) -> int:
    """Return how many of the ranges cover the code that most ranges cover."""
    change = np.zeros(size + 1, np.int64)
    np.add.at(change, bounds[:, 0], 1)
    np.add.at(change, bounds[:, 1] + 1, -1)
    return int(np.cumsum(change).max())
