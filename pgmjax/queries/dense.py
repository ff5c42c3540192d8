"""Any matrix over the joint cells of a clique."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.queries import columns, extremes, sensitivity
from pgmjax.queries.block import contract
from pgmjax.queries.columns import Exact
from pgmjax.queries.frozen_array import FrozenArray
from pgmjax.queries.numeric_blocks import Matrix
from pgmjax.queries.query import Query, Term, attribute_names


@dataclasses.dataclass(frozen=True, init=False)
class DenseMatrix(Query):
    """A matrix written out: rows of any linear answers over the cells of a clique.

    Args:
        clique: the attributes; cells are numbered row-major in this order.
        entries: [rows, cells], finite; entries may be negative.

    Example:
        >>> query = DenseMatrix(("a", "b"), [[1, -1, 0, 0]])
        >>> query.apply(np.array([[5, 2], [1, 1]])).tolist()
        [3]
    """

    entries: FrozenArray

    def __init__(self, clique: Any, entries: Any) -> None:
        object.__setattr__(self, "clique", attribute_names(clique))
        object.__setattr__(self, "entries", Matrix(entries).entries)

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return (rows,)."""
        return (self.entries.array.shape[0],)

    def apply(self, table: Any, xp: Any = np) -> Any:
        """Return the answers [rows] to a table [size of each attribute]."""
        cells = self.entries.array.shape[1]
        if table.ndim != len(self.clique) or table.size != cells:
            raise ValueError(
                f"expected a table over {self.clique} with {cells} cells, got shape {table.shape}."
            )
        return contract(self.entries.array, xp.reshape(table, (-1,)), 0, xp)

    def is_integral(self, domain: Domain) -> bool:
        """Return whether every entry is an integer."""
        return self.entries.array.dtype == np.int64

    def is_nonnegative(self, domain: Domain) -> bool:
        """Return whether no entry is negative."""
        return bool(self.entries.array.min() >= 0)

    def factors(self, domain: Domain) -> list[Term]:
        """Return one factor where the clique is one attribute; otherwise refuse."""
        if len(self.clique) == 1:
            return [(1, {self.clique[0]: Matrix(self.entries.array)})]
        raise ValueError(f"a joint matrix over {self.clique} is no product of factors an attribute.")

    def reorder(self, clique: Clique) -> DenseMatrix:
        """Return itself for its own order; refuse another, in which columns would mean other cells."""
        if tuple(clique) != self.clique:
            raise ValueError(
                f"a joint matrix has its columns in the order of {self.clique}, got {tuple(clique)}: give "
                "the clique in that order."
            )
        return self

    def rename(self, clique: Clique) -> DenseMatrix:
        """Return the same query asked of other attributes, in the order of its own."""
        if len(clique) != len(self.clique):
            raise ValueError(
                f"expected {len(self.clique)} attributes in place of {self.clique}, got {clique}."
            )
        return DenseMatrix(clique, self.entries.array)

    def to_spec(self) -> dict[str, Any]:
        """Return the form of a workload file: `clique` and `matrix`."""
        return {"clique": list(self.clique), "matrix": self.entries.array.tolist()}

    def _check(self, domain: Domain) -> None:
        cells = self.entries.array.shape[1]
        expected = domain.size(self.clique)
        if cells != expected:
            raise ValueError(
                f"the matrix query on {self.clique} must have {expected:,} columns, got {cells:,}."
            )

    def _matrix(self, domain: Domain) -> np.ndarray:
        return self.entries.array

    def _max_column(self, domain: Domain, power: int) -> Exact:
        return columns.max_column(self.entries.array, power)

    def _row_extremes(self, domain: Domain) -> tuple[Exact, Exact]:
        return extremes.entry_and_spread(extremes.of_matrix(self.entries.array))

    def _max_distance(self, domain: Domain, power: int) -> Exact:
        result = columns.max_distance(self.entries.array, power)
        if result is not None:
            return result
        return sensitivity.distance_bound(self._max_column(domain, power), self.is_nonnegative(domain), power)
