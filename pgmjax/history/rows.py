"""Rows of a query matrix over the whole domain, in factored form: never written out."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.history import terms
from pgmjax.history.prior import ProductPrior
from pgmjax.queries import Query
from pgmjax.queries.query import MAX_MATRIX_ENTRIES

MAX_JOINT_CELLS = 4_000_000
"""Up to this many cells of its attributes a row of several terms has its entries looked through."""


@dataclasses.dataclass(frozen=True)
class Group:
    """The terms that name the same attributes.

    Attributes:
        attributes: places of the attributes in the domain, ascending; none for constants.
        terms: numbers of the terms, ascending [terms].
        rows: the rows that have any of them, ascending [rows].
        starts: where each row's terms start in `terms` [rows].
    """

    attributes: tuple[int, ...]
    terms: np.ndarray
    rows: np.ndarray
    starts: np.ndarray

    @property
    def single(self) -> bool:
        """Whether every row has one term."""
        return len(self.rows) == len(self.terms)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Linear queries over a whole domain, each a sum of terms of one vector an attribute.

    Entry t of row i is the sum over its terms of ``coefficient * product of vectors[k][index[:, k]][t_k]``.

    Attributes:
        domain: the attributes.
        num_rows: number of rows.
        owner: the row of each term, nondecreasing, int64 [terms].
        coefficients: float64 [terms].
        index: int32 [terms, attributes]: which of `vectors` each term has; 0 where it names none.
        vectors: the distinct vectors of each attribute, float64 [distinct, size]; the first is ones.

    Example:
        >>> from pgmjax.queries import Product, prefix
        >>> rows = Rows.of([Product({"age": prefix()})], Domain({"age": 3, "sex": 2}))
        >>> rows.matrix().tolist()
        [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]

    References:
        Chen, Zhou and Bhowmick 2012, equation 9.
    """

    domain: Domain
    num_rows: int
    owner: np.ndarray
    coefficients: np.ndarray
    index: np.ndarray
    vectors: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, queries: Query | Iterable[Query], domain: Domain) -> Rows:
        """Return the rows of one query or of several, in order.

        Raises:
            TypeError: something that is no query.
            ValueError: a query that does not fit the domain.
        """
        several = [queries] if isinstance(queries, Query) else list(queries)
        for query in several:
            if not isinstance(query, Query):
                raise TypeError(f"rows are made of queries on cliques, got {type(query).__name__}.")
        made = terms.terms_of(several, domain)
        return cls(domain, made.num_rows, made.owner, made.coefficients, made.index, made.vectors)

    @property
    def num_terms(self) -> int:
        """The number of terms of all rows."""
        return len(self.owner)

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """The terms by the attributes they name."""
        if not self.num_terms:
            return ()
        packed = np.packbits(self.index != 0, axis=1)
        _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(which.reshape(-1)))
        groups: list[Group] = []
        for at, numbers in zip(first, np.split(order, ends[:-1]), strict=True):
            attributes = tuple(int(place) for place in np.flatnonzero(self.index[at]))
            rows, starts = np.unique(self.owner[numbers], return_index=True)
            groups.append(Group(attributes, numbers, rows, starts))
        return tuple(sorted(groups, key=lambda group: int(group.rows[0])))

    def take(self, rows: Any) -> Rows:
        """Return some of the rows, in the order asked for: numbers, a slice or a mask [rows]."""
        wanted = np.arange(self.num_rows)[rows].reshape(-1)
        low = np.searchsorted(self.owner, wanted, side="left")
        counts = np.searchsorted(self.owner, wanted, side="right") - low
        owner = np.repeat(np.arange(len(wanted)), counts)
        starts = np.cumsum(counts) - counts
        picked = np.arange(len(owner)) + (low - starts)[owner]
        return Rows(
            self.domain, len(wanted), owner, self.coefficients[picked], self.index[picked], self.vectors
        )

    def concatenated(self, *others: Rows) -> Rows:
        """Return these rows with those of others after them.

        Raises:
            ValueError: rows over another domain.
        """
        tables = [terms.VectorTable(size) for size in self.domain.shape]
        parts: list[terms.Part] = []
        start = 0
        for each in (self, *others):
            if each.domain != self.domain:
                raise ValueError(f"expected rows over {self.domain!r}, got rows over {each.domain!r}.")
            numbers = [table.add(vectors) for table, vectors in zip(tables, each.vectors, strict=True)]
            index = np.stack([n[each.index[:, k]] for k, n in enumerate(numbers)], axis=1)
            parts.append((each.owner + start, each.coefficients, index))
            start += each.num_rows
        made = terms.assemble(start, parts, [table.array() for table in tables])
        return Rows(self.domain, start, made.owner, made.coefficients, made.index, made.vectors)

    def weighted_terms(self, prior: ProductPrior | None = None) -> np.ndarray:
        """Return each term's mean under a product prior [terms]; None is the uniform one."""
        prior = ProductPrior.uniform(self.domain) if prior is None else prior
        result = self.coefficients.copy()
        for place, vectors in enumerate(self.vectors):
            result *= (vectors @ prior.probabilities[place])[self.index[:, place]]
        return result

    def mean(self, prior: ProductPrior | None = None) -> np.ndarray:
        """Return each row's mean entry under a product prior [rows]: its answer about one such record."""
        return np.bincount(self.owner, self.weighted_terms(prior), minlength=self.num_rows)

    def evaluate(self, cells: np.ndarray) -> np.ndarray:
        """Return the entries at some cells [cells, rows].

        Args:
            cells: codes, int [cells, attributes], columns in the domain's order.
        """
        cells = np.asarray(cells)
        values = np.broadcast_to(self.coefficients, (len(cells), self.num_terms)).copy()
        for place, vectors in enumerate(self.vectors):
            values *= vectors[:, cells[:, place]].T[:, self.index[:, place]]
        result = np.zeros((len(cells), self.num_rows))
        if self.num_terms:
            present, starts = np.unique(self.owner, return_index=True)
            result[:, present] = np.add.reduceat(values, starts, axis=1)
        return result

    def matrix(self) -> np.ndarray:
        """Return all entries, float64 [rows, cells of the domain], cells row-major.

        Raises:
            ValueError: there would be more than `MAX_MATRIX_ENTRIES`.
        """
        cells = self.domain.size()
        if self.num_rows * cells > MAX_MATRIX_ENTRIES:
            raise ValueError(
                f"the matrix of {self.num_rows:,} rows over {cells:,} cells would have more than "
                f"{MAX_MATRIX_ENTRIES:,} entries: use the kernel, which needs none of them."
            )
        return self._entries(tuple(range(len(self.domain))), np.arange(self.num_terms), self.num_rows)

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest entry of every row [rows], [rows].

        Exact for rows of one term, and of several that name up to `MAX_JOINT_CELLS` cells together;
        beyond, the sums of the terms' own, which lie outside.
        """
        low, high = self.coefficients.copy(), self.coefficients.copy()
        for place, vectors in enumerate(self.vectors):
            least, most = (f(axis=1)[self.index[:, place]] for f in (vectors.min, vectors.max))
            ends = np.stack([low * least, low * most, high * least, high * most])
            low, high = ends.min(axis=0), ends.max(axis=0)
        lows = np.bincount(self.owner, low, minlength=self.num_rows)
        highs = np.bincount(self.owner, high, minlength=self.num_rows)
        counts = np.bincount(self.owner, minlength=self.num_rows)
        starts = np.cumsum(counts) - counts
        for row in np.flatnonzero(counts > 1):
            numbers = np.arange(starts[row], starts[row] + counts[row])
            named = tuple(int(k) for k in np.flatnonzero(self.index[numbers].any(axis=0)))
            if math.prod(self.domain.shape[k] for k in named) <= MAX_JOINT_CELLS:
                entries = self._entries(named, numbers, 1, first=int(row))
                lows[row], highs[row] = entries.min(), entries.max()
        return lows, highs

    def has_exact_extremes(self) -> np.ndarray:
        """Return for which rows `extremes` are entries and no bounds, bool [rows]."""
        counts = np.bincount(self.owner, minlength=self.num_rows)
        ends = np.cumsum(counts)
        result = counts <= 1
        for row in np.flatnonzero(~result):
            named = np.flatnonzero(self.index[ends[row] - counts[row] : ends[row]].any(axis=0))
            cells = math.prod(self.domain.shape[place] for place in named)
            result[row] = cells <= MAX_JOINT_CELLS
        return result

    def largest(self) -> np.ndarray:
        """Return the largest magnitude of an entry of every row [rows]; see `extremes`."""
        low, high = self.extremes()
        return np.maximum(-low, high)

    def _entries(
        self, attributes: tuple[int, ...], numbers: np.ndarray, rows: int, first: int = 0
    ) -> np.ndarray:
        """Return entries [rows, cells of the attributes] of some terms, added up by owner."""
        result = np.zeros((rows, math.prod(self.domain.shape[k] for k in attributes)))
        for number in numbers:
            table = np.full(1, self.coefficients[number])
            for place in attributes:
                table = np.multiply.outer(table, self.vectors[place][self.index[number, place]]).reshape(-1)
            result[self.owner[number] - first] += table
        return result

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"Rows({self.num_rows:,} rows of {self.num_terms:,} terms over {len(self.domain)} attributes)"
