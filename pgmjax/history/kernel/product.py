"""Kernel times vectors without the kernel, for histories whose kernel does not fit in memory.

With the rows as a matrix Q over the cells and the prior as weights D, ``K v = Q D (Q^T v)``. ``Q^T v`` is a
sum of functions of few attributes; terms of group h depend on the part of group g only through its mean
over the attributes they do not share. So a product costs the tables of shared attributes, not pairs of rows.
"""

from __future__ import annotations

import math

import numpy as np

from pgmjax.history.kernel import inner_products
from pgmjax.history.kernel.inner_products import same_domain
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows


class KernelProduct:
    """The kernel of two sets of rows as a linear operator.

    Args:
        rows: queries.
        others: other queries over the same domain. Default: `rows`.
        prior: weights of the cells. Default: the uniform prior.

    Raises:
        ValueError: the domains differ.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import marginal
        >>> KernelProduct(Rows.of(marginal(["sex"]), Domain({"sex": 2}))).apply(np.array([4.0, 2.0])).tolist()
        [2.0, 1.0]
    """

    def __init__(self, rows: Rows, others: Rows | None = None, prior: ProductPrior | None = None) -> None:
        self._prior = same_domain(rows, others, prior)
        self._rows = rows
        self._others = rows if others is None else others
        self._scales: dict[tuple[bool, int, tuple[int, ...]], np.ndarray] = {}
        self._vectors: dict[tuple[bool, int, int], Local] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows of both sides."""
        return self._rows.num_rows, self._others.num_rows

    def apply(self, vector: np.ndarray) -> np.ndarray:
        """Return the kernel times a vector.

        Args:
            vector: float64 [others].

        Returns:
            float64 [rows].

        Raises:
            ValueError: the vector has the wrong length.
        """
        vector = np.asarray(vector, np.float64)
        if vector.shape != (self._others.num_rows,):
            raise ValueError(f"expected a vector of {self._others.num_rows:,} numbers, got {vector.shape}.")
        tables: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}
        result = np.zeros(self._rows.num_rows)
        for at, group in enumerate(self._rows.groups):
            summed: dict[tuple[int, ...], np.ndarray] = {}
            for place, other in enumerate(self._others.groups):
                share = tuple(k for k in group.attributes if k in other.attributes)
                if (place, share) not in tables:
                    tables[place, share] = self._gathered(place, share, vector)
                summed[share] = summed.get(share, 0) + tables[place, share]
            for share, table in summed.items():
                weighted = table * inner_products.joint_weights(share, self._prior)
                local = [self._local(False, at, k) for k in share]
                values = self._scale(False, at, share) * at_terms(weighted, local, len(group.terms))
                result[group.rows] += np.add.reduceat(values, group.starts)
        return result

    def _scale(self, right: bool, at: int, share: tuple[int, ...]) -> np.ndarray:
        key = (right and self._others is not self._rows, at, share)
        if key not in self._scales:
            rows = self._others if right else self._rows
            self._scales[key] = inner_products.unshared(rows, rows.groups[at], share, self._prior)
        return self._scales[key]

    def _local(self, right: bool, at: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct vectors of one attribute in a group, and the index of each term's."""
        key = (right and self._others is not self._rows, at, k)
        if key not in self._vectors:
            rows = self._others if right else self._rows
            distinct, which = np.unique(rows.index[rows.groups[at].terms, k], return_inverse=True)
            self._vectors[key] = (rows.vectors[k][distinct], which.reshape(-1))
        return self._vectors[key]

    def _gathered(self, place: int, share: tuple[int, ...], vector: np.ndarray) -> np.ndarray:
        """Return a group's part of Q^T v as a function of some attributes [cells]."""
        group = self._others.groups[place]
        amounts = self._scale(True, place, share) * vector[self._others.owner[group.terms]]
        return gathered(amounts, [self._local(True, place, k) for k in share])


Local = tuple[np.ndarray, np.ndarray]
"""Distinct vectors [distinct, size] of an attribute, and the number of each term's [terms]."""


def gathered(amounts: np.ndarray, local: list[Local]) -> np.ndarray:
    """Return the sum over terms of an amount times the term's vectors [cells], cells row-major."""
    if not local:
        return np.array([amounts.sum()])
    counts = [len(vectors) for vectors, _ in local]
    if _few(local, len(amounts)):
        flat = np.ravel_multi_index(tuple(which for _, which in local), counts)
        table = np.bincount(flat, amounts, minlength=math.prod(counts)).reshape(counts)
        for vectors, _ in local:  # each step contracts the first axis and appends its own
            table = np.tensordot(table, vectors, axes=(0, 0))
        return table.reshape(-1)
    left = _products(local[:-1], amounts[:, None])
    vectors, which = local[-1]
    return (left.T @ vectors[which]).reshape(-1)


def at_terms(table: np.ndarray, local: list[Local], terms: int) -> np.ndarray:
    """Return for each term the sum over cells of a table [cells] times the term's vectors [terms]."""
    if not local:
        return np.full(terms, table[0])
    if _few(local, terms):
        whole = table.reshape([vectors.shape[1] for vectors, _ in local])
        for vectors, _ in local:
            whole = np.tensordot(whole, vectors, axes=(0, 1))
        return whole[tuple(which for _, which in local)]
    left = _products(local[:-1], np.ones((terms, 1)))
    vectors, which = local[-1]
    return np.einsum("tc,tc->t", left @ table.reshape(left.shape[1], -1), vectors[which])


def _few(local: list[Local], terms: int) -> bool:
    """Return whether combinations of distinct vectors cost less than individual terms."""
    others = math.prod(vectors.shape[1] for vectors, _ in local[:-1])
    return math.prod(len(vectors) for vectors, _ in local) <= max(4096, terms * others)


def _products(local: list[Local], table: np.ndarray) -> np.ndarray:
    """Multiply [terms, 1] by the terms' vectors: [terms, cells]."""
    for vectors, which in local:
        table = (table[:, :, None] * vectors[which][:, None, :]).reshape(len(table), -1)
    return table
