"""From queries to terms: every row a sum of coefficients times one vector an attribute.

This is the polynomial form of the paper: row i of a query matrix, as a function of a cell t, is the
sum over its terms of ``coefficient * product over attributes k of vector_k[t_k]``. Distinct vectors of
an attribute are kept once; number 0 is the vector of ones, of attributes that a term does not name.

References:
    Chen, Zhou and Bhowmick 2012, "Integrating historical noisy answers", equations 9 and 13.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.queries import DenseMatrix, Query
from pgmjax.queries.block import AttributeQuery


@dataclasses.dataclass(frozen=True)
class Terms:
    """The terms of some rows, as plain arrays.

    Attributes:
        num_rows: number of rows, those without any term included.
        owner: the row of each term, nondecreasing, int64 [terms].
        coefficients: float64 [terms].
        index: which of its attribute's vectors each term has, int32 [terms, attributes].
        vectors: the distinct vectors of each attribute, float64 [distinct, size]; the first is ones.
    """

    num_rows: int
    owner: np.ndarray
    coefficients: np.ndarray
    index: np.ndarray
    vectors: tuple[np.ndarray, ...]


class VectorTable:
    """The distinct vectors met so far on one attribute, numbered as they came."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._numbers: dict[bytes, int] = {}
        self._kept: list[np.ndarray] = []
        self._blocks: dict[AttributeQuery, np.ndarray] = {}
        self.add(np.ones((1, size)))

    def add(self, vectors: np.ndarray) -> np.ndarray:
        """Return the numbers [n] of vectors [n, size], kept from now on."""
        vectors = np.ascontiguousarray(vectors, np.float64) + 0.0  # no negative zeros
        result = np.empty(len(vectors), np.int32)
        for place, vector in enumerate(vectors):
            key = vector.tobytes()
            number = self._numbers.setdefault(key, len(self._kept))
            if number == len(self._kept):
                self._kept.append(vector)
            result[place] = number
        return result

    def block(self, block: AttributeQuery) -> np.ndarray:
        """Return the numbers [rows] of a block's rows."""
        if block not in self._blocks:
            self._blocks[block] = self.add(block.matrix(self._size))
        return self._blocks[block]

    def points(self) -> np.ndarray:
        """Return the numbers [size] of the vectors that pick one code each."""
        return self.add(np.eye(self._size))

    def array(self) -> np.ndarray:
        """Return all vectors [distinct, size]."""
        return np.stack(self._kept)


def terms_of(queries: Iterable[Query], domain: Domain) -> Terms:
    """Return the terms of queries, their rows in order.

    Raises:
        ValueError: a query does not fit the domain.
    """
    tables = [VectorTable(size) for size in domain.shape]
    places = {name: place for place, name in enumerate(domain.attributes)}
    parts = []
    start = 0
    for query in queries:
        query.check(domain)
        if isinstance(query, DenseMatrix) and len(query.clique) > 1:
            parts.append(_of_joint(query, domain, places, tables, start))
        else:
            parts.extend(_of_products(query, domain, places, tables, start))
        start += query.num_rows(domain)
    return assemble(start, parts, [table.array() for table in tables])


Part = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Owner, coefficients and index of some terms."""


def assemble(num_rows: int, parts: list[Part], vectors: list[np.ndarray]) -> Terms:
    """Return the terms of all parts, by row, without those that are zero."""
    width = len(vectors)
    owner = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
    coefficients = np.concatenate([np.zeros(0), *(part[1] for part in parts)])
    index = np.concatenate([np.zeros((0, width), np.int32), *(part[2] for part in parts)])
    keep = np.asarray(coefficients != 0)
    for place, table in enumerate(vectors):
        keep &= np.asarray(table.any(axis=1))[index[:, place]]
    owner, coefficients, index = owner[keep], coefficients[keep], index[keep]
    if np.any(np.diff(owner) < 0):
        order = np.argsort(owner, kind="stable")
        owner, coefficients, index = owner[order], coefficients[order], index[order]
    for array in (owner, coefficients, index, *vectors):
        array.flags.writeable = False
    return Terms(num_rows, owner, coefficients, index, tuple(vectors))


def _of_products(
    query: Query, domain: Domain, places: dict[str, int], tables: list[VectorTable], start: int
) -> list[Part]:
    """Return a part for each Kronecker product of a query: one term a row."""
    parts = []
    shape = query.shape(domain)
    rows = query.num_rows(domain)
    along = np.unravel_index(np.arange(rows), shape)
    for coefficient, blocks in query.factors(domain):
        index = np.zeros((rows, len(tables)), np.int32)
        for axis, name in enumerate(query.clique):
            index[:, places[name]] = tables[places[name]].block(blocks[name])[along[axis]]
        parts.append((start + np.arange(rows), np.full(rows, float(coefficient)), index))
    return parts


def _of_joint(
    query: DenseMatrix, domain: Domain, places: dict[str, int], tables: list[VectorTable], start: int
) -> Part:
    """Return a joint matrix as sums over the cells of all attributes but the largest."""
    sizes = domain.shape_of(query.clique)
    longest = int(np.argmax(sizes))
    entries = query.matrix(domain).astype(np.float64).reshape(-1, *sizes)
    entries = np.moveaxis(entries, 1 + longest, -1)
    others = [name for name in query.clique if name != query.clique[longest]]
    where = np.nonzero(entries.any(axis=-1))
    index = np.zeros((len(where[0]), len(tables)), np.int32)
    for name, codes in zip(others, where[1:], strict=True):
        index[:, places[name]] = tables[places[name]].points()[codes]
    place = places[query.clique[longest]]
    index[:, place] = tables[place].add(entries[where])
    return start + where[0], np.ones(len(where[0])), index
