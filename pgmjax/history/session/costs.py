"""The cost of a history of Laplace answers, cell by cell, and the least epsilon for a required accuracy.

`CellAccount` counts in integer units, so that rounding cannot exceed a cap.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import Product, Query
from pgmjax.queries.blocks import Identity
from pgmjax.queries.query import MAX_MATRIX_ENTRIES

PLACES = 12
"""Costs are integer multiples of 10^-12."""

LARGEST_TABLE = 1 << 22
"""Largest number of entries of a cost table; costs over more cells are added up separately."""

Table = tuple[tuple[str, ...], np.ndarray]
"""Attributes in the domain's order, and costs in units over their cells, int64, with one axis per attribute.
Under replace-one there are two per attribute: the axes of the first cell, then those of the second."""


def least_epsilon(sensitivity: float, half_width: float, delta: float) -> float:
    """Return the least epsilon whose Laplace noise is within a half-width with probability 1 - delta.

    For the continuous distribution of the paper it is S ln(1 / delta) / w. The discrete distribution that is
    drawn has the same scale S / epsilon, but integer noise. If w is an integer, it needs slightly less;
    otherwise it needs as much as for the next integer below w, which just below an integer w is more.

    Args:
        sensitivity: S > 0 (counts).
        half_width: w (counts), 0 or more.
        delta: the probability of exceeding it, in (0, 1).

    References:
        Xiao and Xiong 2012, Theorem 5.3; its equation 33 prints half the exponent.

    Example:
        >>> round(least_epsilon(1.0, 100.0, 0.2), 6)  # 0.016094 for the continuous distribution
        0.016014
    """
    sensitivity = checks.number("sensitivity", sensitivity, above=0)
    delta = checks.number("delta", delta, above=0, below=1)
    whole = math.floor(checks.number("half_width", half_width, at_least=0))

    def excess(rate: float) -> float:
        """Return log of 2 x^(whole + 1) / (1 + x) / delta with x = exp(-rate), rate = 1 / scale."""
        return math.log(2 / delta) - (whole + 1) * rate - math.log1p(math.exp(-rate))

    # P(abs(N) > whole) falls from 1 at rate 0, and is at most 2 exp(-rate), which is below delta at the end
    # precise relative to the root alone, as a rate may be tiny
    rate = scipy.optimize.brentq(excess, 0.0, math.log(2 / delta), xtol=1e-300, rtol=1e-15)
    result = sensitivity * rate
    step = math.ulp(result)
    while DiscreteLaplace(sensitivity / result).outside(whole) > delta:
        result, step = result + step, 2 * step  # near a delta of 1 rounding hides the root among many floats
    return result


@dataclasses.dataclass(frozen=True, eq=False)
class CellAccount:
    """The cell-wise cost of Laplace answers to integer queries.

    A record of cell j changes the answers of a query Q by abs(Q_j), and each answer's distribution changes by
    at most a factor exp(rate abs(Q_j)), where the rate is one over the noise's scale. Hence under
    add-remove the epsilon of all answers together is the largest cell's sum of rate abs(Q_j), and under
    replace-one the largest pair's sum of rate abs(Q_j - Q_k). If the attributes of all queries have too many
    cells together, several tables are kept and their largest costs are added: a bound that is no longer
    tight. A unit of privacy with several records loses at most that many times as much, wherever they lie, as
    long as the same ones count in every answer.

    Attributes:
        domain: the attributes.
        relation: the neighbouring relation.
        tables: costs over the cells of some attributes.
        rest: total cost in units of queries that fit in no table or have too large a matrix.
        largest_table: largest number of entries of a table.
        records: the largest number of records of a unit of privacy.

    References:
        Xiao and Xiong 2012, Theorem 5.4.

    Example:
        >>> from pgmjax.queries import Product, point
        >>> account = CellAccount(Domain({"sex": 2}), Relation.ADD_REMOVE)
        >>> for code in (0, 1):
        ...     account = account.added(Product({"sex": point(code)}), 3 * 10**11)
        >>> account.cost
        Fraction(3, 10)
    """

    domain: Domain
    relation: Relation
    tables: tuple[Table, ...] = ()
    rest: int = 0
    largest_table: int = LARGEST_TABLE
    records: int = 1

    @property
    def cost(self) -> Fraction:
        """The epsilon of all answers together."""
        largest = self.rest + sum(int(costs.max()) for _, costs in self.tables)
        return Fraction(self.records * largest, 10**PLACES)

    def added(self, query: Query, rate: int) -> CellAccount:
        """Return a new account that also has the answers of one more query.

        Args:
            query: query with integer entries, over the domain.
            rate: one over the scale of its noise, in units of 10^-12. Its product with the query's
                sensitivity, the query's own cost, must be below 2^60.
        """
        clique = tuple(name for name in self.domain if name in query.clique)
        loads = self._loads(query, clique) if self._entries(clique) <= self.largest_table else None
        if loads is not None:
            # with the first table that stays small: the largest cell of one table is less than the sum of two
            for place, (names, costs) in enumerate(self.tables):
                joint = tuple(name for name in self.domain if name in (*names, *clique))
                if self._entries(joint) <= self.largest_table:
                    known = _spread(costs, names, joint, self._sides)
                    table = joint, known + rate * _spread(loads, clique, joint, self._sides)
                    tables = (*self.tables[:place], table, *self.tables[place + 1 :])
                    return dataclasses.replace(self, tables=tables)
            return dataclasses.replace(self, tables=(*self.tables, (clique, rate * loads)))
        sensitivity = math.ceil(query.l1_sensitivity(self.relation, self.domain))
        return dataclasses.replace(self, rest=self.rest + rate * sensitivity)

    @property
    def _sides(self) -> int:
        return 1 if self.relation is Relation.ADD_REMOVE else 2

    def _entries(self, names: tuple[str, ...]) -> int:
        return math.prod(self.domain[name] for name in names) ** self._sides

    def _loads(self, query: Query, clique: tuple[str, ...]) -> np.ndarray | None:
        """Return L1 changes of the answers by adding or replacing a record: int64 [cells], or [cells, cells].

        None if the matrix would be too large.
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
        # row by row: the differences of all pairs of cells at once would not fit in memory
        for row in flat:
            result += np.abs(row if self._sides == 1 else row[:, None] - row[None])
        return result.reshape(rows.shape[1:] * self._sides)

    def _column_sums(self, query: Product, clique: tuple[str, ...]) -> np.ndarray | None:
        """Return the L1 norms of a product's columns, the products of its blocks' norms."""
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
    """Return integers as int64; integer input is not converted through floats."""
    return matrix if matrix.dtype == np.int64 else np.rint(matrix).astype(np.int64)


def _spread(table: np.ndarray, names: tuple[str, ...], joint: tuple[str, ...], sides: int) -> np.ndarray:
    """Return a table with an axis of length 1 for every attribute of `joint` that it does not name."""
    sizes = dict(zip(names, table.shape, strict=False))
    return table.reshape(tuple(sizes.get(name, 1) for name in joint) * sides)
