"""Query blocks that pick codes: every code, all of them, one, some."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.queries import extremes
from pgmjax.queries.block import AttributeQuery
from pgmjax.queries.extremes import Extremes


@dataclasses.dataclass(frozen=True)
class Identity(AttributeQuery):
    """Every code by itself: the attribute is kept.

    Example:
        >>> Identity().matrix(2).tolist()
        [[1, 0], [0, 1]]
    """

    kind: ClassVar[str] = "identity"

    def _rows(self, size: int) -> int:
        return size

    def _matrix(self, size: int) -> np.ndarray:
        return np.eye(size, dtype=np.int64)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return table

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 2 if size > 1 else 0

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return extremes.MIXED if size > 1 else extremes.CONSTANT

    def _separates(self, size: int) -> bool:
        return size > 1


@dataclasses.dataclass(frozen=True)
class Total(AttributeQuery):
    """The sum over all codes: the attribute is marginalised out.

    Example:
        >>> Total().matrix(3).tolist()
        [[1, 1, 1]]
    """

    kind: ClassVar[str] = "total"

    def _rows(self, size: int) -> int:
        return 1

    def _matrix(self, size: int) -> np.ndarray:
        return np.ones((1, size), np.int64)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return xp.sum(table, axis=axis, keepdims=True)

    def _max_column(self, size: int, power: int) -> int:
        return 1

    def _max_distance(self, size: int, power: int) -> int:
        return 0


@dataclasses.dataclass(frozen=True, init=False)
class Subset(AttributeQuery):
    """How many have one of the given codes: evidence with alternatives, one row.

    Args:
        codes: distinct codes, at least one; kept sorted.

    Example:
        >>> Subset([2, 0]).matrix(4).tolist()
        [[1, 0, 1, 0]]
    """

    kind: ClassVar[str] = "subset"
    codes: tuple[int, ...]

    def __init__(self, codes: Iterable[int]) -> None:
        kept = tuple(sorted(checks.integer("a code of a subset", code, low=0) for code in items(codes)))
        if not kept or len(set(kept)) != len(kept):
            raise ValueError(
                f"subset needs distinct codes, at least one, got {len(kept)} of which "
                f"{len(set(kept))} are distinct."
            )
        object.__setattr__(self, "codes", kept)

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
    """How many have one given code: evidence, one row.

    Example:
        >>> Point(1).matrix(3).tolist()
        [[0, 1, 0]]
    """

    kind: ClassVar[str] = "point"
    code: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", checks.integer("the code of a point", self.code, low=0))

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


def items(values: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple; refuse text and what is no sequence."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"expected a sequence of integers, got {type(values).__name__}.")
    return tuple(values)


def check_code(code: int, size: int, attribute: str, kind: str) -> None:
    """Refuse a code that an attribute of `size` codes does not have."""
    if code >= size:
        raise ValueError(f"the {kind} query names code {code}, but {attribute} has codes 0..{size - 1}.")


def cut(table: Any, axis: int, low: int, high: int) -> Any:
    """Return the part of a table with codes low..high-1 on one axis."""
    index = [slice(None)] * table.ndim
    index[axis] = slice(low, high)
    return table[tuple(index)]
