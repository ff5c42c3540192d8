"""What measured queries cost together, cell by cell, in whole units: no rounding can pass a cap."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import Product, Query
from pgmjax.queries.blocks import Identity
from pgmjax.queries.query import MAX_MATRIX_ENTRIES

PLACES = 12
"""Costs are whole numbers of 10^-12."""
LARGEST_TABLE = 1 << 22
"""Entries of a table of costs; what names more attributes than fit is added up apart."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Table:
    """Costs over the cells, or pairs of cells, of some attributes.

    Attributes:
        attributes: in the domain's order.
        costs: units, int64, one axis an attribute, under replace-one two: all firsts, then all seconds.
    """

    attributes: tuple[str, ...]
    costs: np.ndarray

    @property
    def largest(self) -> int:
        return int(self.costs.max())


@dataclasses.dataclass(frozen=True, eq=False)
class CellAccount:
    """The cell-wise cost of Laplace answers to integer queries.

    A record of cell j moves the answers of a query Q by abs(Q_j), and each answer's law changes by at most
    a factor exp(rate abs(Q_j)), where the rate is one over the noise's scale. So under add-remove all answers
    together are private with the largest cell's sum, and under replace-one with the largest pair's sum of
    rate abs(Q_j - Q_k). Where the attributes of all queries have too many cells together, they are kept in
    several tables whose largest costs are added up: a bound, no longer tight.

    Attributes:
        domain: the attributes.
        relation: which tables are neighbours.
        tables: the costs.
        rest: units of what fits no table, or has too large a matrix, added up plainly.
        largest_table: how many entries a table may have.

    References:
        Xiao and Xiong 2012, Theorem 5.4.

    Example:
        >>> from pgmjax.queries import Product, point
        >>> account = CellAccount.empty(Domain({"sex": 2}), "add-remove")
        >>> for code in (0, 1):
        ...     account = account.added(Product({"sex": point(code)}), units("0.3"))
        >>> account.cost
        Fraction(3, 10)
    """

    domain: Domain
    relation: Relation
    tables: tuple[_Table, ...] = ()
    rest: int = 0
    largest_table: int = LARGEST_TABLE

    @classmethod
    def empty(
        cls, domain: Domain, relation: Relation | str, largest_table: int = LARGEST_TABLE
    ) -> CellAccount:
        """Return the account of no answers."""
        return cls(domain, Relation.parse(relation), largest_table=largest_table)

    @property
    def cost(self) -> Fraction:
        """The epsilon of all answers together."""
        return Fraction(self.rest + sum(table.largest for table in self.tables), 10**PLACES)

    @property
    def is_tight(self) -> bool:
        """Whether the cost is the least that the answers' laws allow, not only a bound."""
        return not self.rest and len(self.tables) < 2

    def added(self, query: Query, rate: int) -> CellAccount:
        """Return the account with the answers of one more query, this one staying as it is.

        Args:
            query: of integer entries, over the domain.
            rate: one over the scale of its noise, in units of 10^-12; times the query's sensitivity, which is
                its plain cost, it must be below 2^60.
        """
        clique = tuple(name for name in self.domain if name in query.clique)
        loads = self._loads(query, clique) if self._entries(clique) <= self.largest_table else None
        if loads is not None:
            for place, table in enumerate(self.tables):
                joint = tuple(name for name in self.domain if name in (*table.attributes, *clique))
                if self._entries(joint) <= self.largest_table:
                    known = _spread(table.costs, table.attributes, joint, self._sides)
                    costs = known + rate * _spread(loads, clique, joint, self._sides)
                    tables = (*self.tables[:place], _Table(joint, costs), *self.tables[place + 1 :])
                    return dataclasses.replace(self, tables=tables)
            return dataclasses.replace(self, tables=(*self.tables, _Table(clique, rate * loads)))
        moves = math.ceil(query.l1_sensitivity(self.relation, self.domain))
        return dataclasses.replace(self, rest=self.rest + rate * moves)

    @property
    def _sides(self) -> int:
        return 1 if self.relation is Relation.ADD_REMOVE else 2

    def _entries(self, names: tuple[str, ...]) -> int:
        return math.prod(self.domain[name] for name in names) ** self._sides

    def _loads(self, query: Query, clique: tuple[str, ...]) -> np.ndarray | None:
        """How far a record, or its replacement, moves the answers: int64 [cells of the clique], or twice.

        None where that takes a matrix which is too large.
        """
        if query.num_rows(self.domain) * self.domain.size(query.clique) > MAX_MATRIX_ENTRIES:
            if isinstance(query, Product) and self.relation is Relation.ADD_REMOVE:
                return self._column_sums(query, clique)
            return None
        matrix = _whole(query.matrix(self.domain))
        shape = tuple(self.domain[name] for name in query.clique)
        order = [query.clique.index(name) for name in clique]
        rows = np.transpose(matrix.reshape(-1, *shape), [0, *(1 + place for place in order)])
        flat = rows.reshape(len(rows), -1)
        result = np.zeros(flat.shape[1:] * self._sides, np.int64)
        for row in flat:
            result += np.abs(row if self._sides == 1 else row[:, None] - row[None])
        return result.reshape(rows.shape[1:] * self._sides)

    def _column_sums(self, query: Product, clique: tuple[str, ...]) -> np.ndarray | None:
        """Return the sums of a product's columns in size, which are the products of its blocks' sums."""
        blocks = dict(zip(query.clique, query.blocks, strict=True))
        result = np.ones((), np.int64)
        for name in clique:
            block, size = blocks[name], self.domain[name]
            if isinstance(block, Identity):
                sums = np.ones(size, np.int64)
            elif block.rows(size) * size > MAX_MATRIX_ENTRIES:
                return None
            else:
                sums = np.abs(_whole(block.matrix(size))).sum(axis=0)
            result = np.multiply.outer(result, sums)
        return result


def _whole(matrix: np.ndarray) -> np.ndarray:
    """Return whole numbers as int64; those that are so already do not go through floats."""
    return matrix if matrix.dtype == np.int64 else np.rint(matrix).astype(np.int64)


def units(amount: Fraction | str) -> int:
    """Return an amount in units of 10^-12, rounded up."""
    return math.ceil(Fraction(amount) * 10**PLACES)


def _spread(table: np.ndarray, names: tuple[str, ...], joint: tuple[str, ...], sides: int) -> np.ndarray:
    """Return a table with an axis of length 1 for every attribute of `joint` that it does not name."""
    sizes = dict(zip(names, table.shape, strict=False))
    return table.reshape(tuple(sizes.get(name, 1) for name in joint) * sides)
