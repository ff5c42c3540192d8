"""The features of a maximum-entropy model: weights to log-potentials, marginals to expected answers.

A row of a history is a sum of terms, each a product of one vector an attribute. Terms that name the same
attributes share a table: the log-potentials there are the terms' outer products times their weights, and
the expected answers are the same products summed against the marginal. No row is ever written out over
the domain.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows

MAX_BLOCK = 4_000_000
"""Entries of the arrays that are formed at once on the way to a table."""
MAX_TABLE = 50_000_000
"""Cells of the largest table over the attributes of one term (400 MB)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """The terms that name the same attributes.

    Attributes:
        clique: the attributes.
        shape: their sizes.
        owner: the row of each term [terms].
        coefficients: [terms].
        factors: for each attribute the vector of each term [terms, size].
        cells: where every term is a single cell of the table, that cell's number [terms], else None.
    """

    clique: Clique
    shape: tuple[int, ...]
    owner: np.ndarray
    coefficients: np.ndarray
    factors: tuple[np.ndarray, ...]
    cells: np.ndarray | None

    def table(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum over terms of weight times product [size of each attribute]."""
        scaled = weights[self.owner] * self.coefficients
        if self.cells is not None:
            return np.bincount(self.cells, scaled, math.prod(self.shape)).reshape(self.shape)
        result = np.zeros((math.prod(self.shape[:-1]), self.shape[-1]))
        for part, left in self._left():
            result += left.T @ (scaled[part, None] * self.factors[-1][part])
        return result.reshape(self.shape)

    def means(self, marginal: np.ndarray) -> np.ndarray:
        """Return each term's expected value under a marginal of the clique [terms]."""
        if self.cells is not None:
            return np.asarray(self.coefficients * marginal.reshape(-1)[self.cells])
        result = np.empty(len(self.owner))
        flat = marginal.reshape(-1, self.shape[-1])
        for part, left in self._left():
            result[part] = np.sum((left @ flat) * self.factors[-1][part], axis=1)
        return result * self.coefficients

    def _left(self) -> list[tuple[slice, np.ndarray]]:
        """Products of all vectors but the last [terms, cells of these attributes], block by block."""
        step = max(1, MAX_BLOCK // math.prod(self.shape[:-1]))
        parts = []
        for start in range(0, len(self.owner), step):
            part = slice(start, min(start + step, len(self.owner)))
            left = np.ones((part.stop - start, 1))
            for factor in self.factors[:-1]:
                left = (left[:, :, None] * factor[part][:, None, :]).reshape(len(left), -1)
            parts.append((part, left))
        return parts


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """All rows as features of one record, sorted by the attributes that their terms name.

    Attributes:
        rows: the rows.
        groups: their terms by attributes, without those that name none.
        constants: what the terms without attributes add to each row [rows].
    """

    rows: Rows
    groups: tuple[Group, ...]
    constants: np.ndarray

    @classmethod
    def of(cls, rows: Rows) -> Features:
        """Sort the terms of rows.

        Raises:
            ValueError: a term names attributes with more than `MAX_TABLE` cells together.
        """
        constants, groups = np.zeros(rows.num_rows), []
        for group in rows.groups:
            owner, coefficients = rows.owner[group.terms], rows.coefficients[group.terms]
            if group.attributes:
                index = rows.index[group.terms]
                groups.append(_group(rows, group.attributes, owner, coefficients, index))
            else:
                constants += np.bincount(owner, coefficients, rows.num_rows)
        return cls(rows, tuple(groups), constants)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The attributes of each group."""
        return tuple(group.clique for group in self.groups)

    def potentials(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the log-potentials of every group, ``sum_i w_i f_i`` without the constants."""
        return [group.table(weights) for group in self.groups]

    def answers(self, marginals: list[np.ndarray]) -> np.ndarray:
        """Return the expected value of every row [rows] from the marginal of every group."""
        result = self.constants.copy()
        for group, marginal in zip(self.groups, marginals, strict=True):
            result += np.bincount(group.owner, group.means(marginal), len(result))
        return result

    def squares(self, prior: ProductPrior) -> np.ndarray:
        """Return the mean square of every row under a product prior, or more [rows].

        Exact for rows of one term; for others the bound that the triangle inequality gives.
        """
        rows = self.rows
        means = rows.coefficients**2
        for place, vectors in enumerate(rows.vectors):
            means = means * (vectors**2 @ prior.probabilities[place])[rows.index[:, place]]
        return np.asarray(np.bincount(rows.owner, np.sqrt(means), rows.num_rows) ** 2)


def _group(
    rows: Rows, places: tuple[int, ...], owner: np.ndarray, coefficients: np.ndarray, index: np.ndarray
) -> Group:
    clique = tuple(rows.domain.attributes[place] for place in places)
    shape = tuple(rows.domain.shape[place] for place in places)
    if math.prod(shape) > MAX_TABLE:
        raise ValueError(
            f"a query names {len(clique)} attributes at once with {math.prod(shape):,} cells, above the "
            f"limit of {MAX_TABLE:,} for the table of one term: ask about fewer attributes, or integrate the "
            "history with KernelPCA, which needs no tables."
        )
    units = [_units(rows.vectors[place]) for place in places]
    cells = None
    if all((unit[index[:, place]] >= 0).all() for unit, place in zip(units, places, strict=True)):
        codes = [unit[index[:, place]] for unit, place in zip(units, places, strict=True)]
        cells = np.ravel_multi_index(codes, shape)
        factors: tuple[np.ndarray, ...] = ()
    else:
        factors = tuple(rows.vectors[place][index[:, place]] for place in places)
    return Group(clique, shape, owner, coefficients, factors, cells)


def _units(vectors: np.ndarray) -> np.ndarray:
    """For each vector the code that it picks alone, -1 where it is no such vector."""
    single = (np.count_nonzero(vectors, axis=1) == 1) & (vectors.max(axis=1) == 1)
    return np.where(single, np.argmax(vectors, axis=1), -1)
