"""The interface of a query on one attribute: a matrix that knows its size only when it is bound."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.queries import columns, extremes
from pgmjax.queries.columns import Exact
from pgmjax.queries.extremes import Extremes

SMALL_MATRIX = 65_536
"""Up to this many entries a block is applied as one matrix product: as accurate, faster to compile."""


@dataclasses.dataclass(frozen=True)
class AttributeQuery(abc.ABC):
    """One factor of a query: a matrix [rows, size] over the codes 0..size-1 of one attribute.

    A block has no size until it is bound to an attribute, is hashable and compared by content, so
    that it may be static under `jax.jit`. A new block is one class with `kind`, `_rows` and
    `_matrix`; the other underscored methods are shortcuts that must agree with the matrix.

    References:
        McKenna et al. 2019, Appendix B.1, Table 2.
    """

    kind: ClassVar[str]

    def check(self, size: int, attribute: str = "the attribute") -> None:
        """Refuse an attribute of a size this block does not fit.

        Raises:
            ValueError: the block does not fit; the message names the attribute and its size.
        """
        self._check(checks.integer(f"the size of {attribute}", size, low=1), attribute)

    def rows(self, size: int) -> int:
        """Return the number of answers on an attribute of `size` codes."""
        self.check(size)
        return self._rows(size)

    def matrix(self, size: int) -> np.ndarray:
        """Return the matrix [rows, size]: int64 when `is_integral`, float64 otherwise."""
        self.check(size)
        return self._matrix(size)

    def is_integral(self, size: int) -> bool:
        """Return whether every entry is an integer."""
        self.check(size)
        return self._is_integral(size)

    def apply(self, table: Any, axis: int, xp: Any = np) -> Any:
        """Replace one axis of a table by the answers: [..., size, ...] to [..., rows, ...].

        Args:
            table: a NumPy array (integers stay exact) or a JAX array.
            axis: which axis belongs to the attribute.
            xp: the module of the array, `numpy` or `jax.numpy`.
        """
        axis = axis % table.ndim
        self.check(table.shape[axis])
        return self._apply(table, axis, xp)

    def max_column(self, size: int, power: int) -> Exact:
        """Return the largest sum over a column of ``abs(entry) ** power``, for power 1 or 2."""
        self.check(size)
        return self._max_column(size, power)

    def max_distance(self, size: int, power: int) -> Exact | None:
        """Return the largest sum over rows of ``abs(difference of two columns) ** power``.

        None where there is no closed form and too many columns to compare all pairs.
        """
        self.check(size)
        return self._max_distance(size, power)

    def row_extremes(self, size: int) -> tuple[Extremes, ...]:
        """Return the least and largest entry of every row that matters, see `queries.extremes`."""
        self.check(size)
        return self._row_extremes(size)

    def separates(self, size: int) -> bool:
        """Return whether columns are either equal or of disjoint supports and equal norms.

        It asks for two different columns at least: then records that differ here share no answer.
        """
        self.check(size)
        return self._separates(size)

    def is_nonnegative(self, size: int) -> bool:
        """Return whether no entry is negative."""
        self.check(size)
        return self._is_nonnegative(size)

    def to_spec(self) -> Any:
        """Return the form of a workload file: a word, or a mapping of the word to its arguments."""
        arguments = self._arguments()
        return self.kind if arguments is None else {self.kind: arguments}

    def _check(self, size: int, attribute: str) -> None:  # noqa: B027
        pass

    @abc.abstractmethod
    def _rows(self, size: int) -> int: ...

    @abc.abstractmethod
    def _matrix(self, size: int) -> np.ndarray: ...

    def _is_integral(self, size: int) -> bool:
        return True

    def _is_nonnegative(self, size: int) -> bool:
        return True

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return contract(self._matrix(table.shape[axis]), table, axis, xp)

    def _max_column(self, size: int, power: int) -> Exact:
        return columns.max_column(self._matrix(size), power)

    def _max_distance(self, size: int, power: int) -> Exact | None:
        if size > columns.MAX_PAIRWISE_COLUMNS:
            return None
        return columns.max_distance(self._matrix(size), power)

    def _row_extremes(self, size: int) -> tuple[Extremes, ...]:
        return extremes.of_matrix(self._matrix(size))

    def _separates(self, size: int) -> bool:
        return False

    def _arguments(self) -> Any:
        return None


def contract(matrix: np.ndarray, table: Any, axis: int, xp: Any) -> Any:
    """Multiply one axis of `table` by `matrix` [rows, size], in full precision on every device."""
    if xp is np:
        result = np.tensordot(matrix, table, axes=(1, axis))
    else:
        dtype = table.dtype if xp.issubdtype(table.dtype, xp.inexact) else None
        result = xp.tensordot(xp.asarray(matrix, dtype), table, axes=(1, axis), precision="highest")
    return xp.moveaxis(result, 0, axis)
