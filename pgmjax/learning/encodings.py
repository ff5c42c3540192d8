"""Queries as vectors, the inputs of a learner.

A row of a query is written out over all cells or attribute by attribute.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.queries import Query
from pgmjax.queries.query import MAX_MATRIX_ENTRIES


@dataclasses.dataclass(frozen=True)
class Encoding(abc.ABC):
    """A map from a row of a query to a vector of fixed length; it uses no data.

    A new encoding is a frozen dataclass with `name`, `dimensions` and `_encode`.
    """

    name: ClassVar[str]

    @abc.abstractmethod
    def dimensions(self, domain: Domain, clique: Clique) -> int:
        """Return the length of a vector for queries on these attributes."""

    @abc.abstractmethod
    def _encode(self, query: Query, domain: Domain, clique: Clique) -> np.ndarray: ...

    def encode(self, query: Query, domain: Domain, clique: Clique) -> np.ndarray:
        """Return a vector for every row of a query.

        Args:
            query: a query on some of the attributes of `clique`.
            domain: the domain.
            clique: all encoded attributes; those not in the query are summed over.

        Returns:
            float64 [rows, dimensions].

        Raises:
            ValueError: an attribute outside `clique`, rows that this encoding cannot represent, or more
                than 50 million numbers.
        """
        query = query.over(domain)
        outside = [name for name in query.clique if name not in clique]
        if outside:
            raise ValueError(f"a query on {query.clique} asks for {outside}; the encoding is of {clique}.")
        rows, length = query.num_rows(domain), self.dimensions(domain, clique)
        if rows * length > MAX_MATRIX_ENTRIES:
            raise ValueError(
                f"the encoding {self.name!r} of this query would have {rows:,} x {length:,} numbers, above "
                f"the limit of {MAX_MATRIX_ENTRIES:,}: ask fewer rows at once, or take a shorter encoding."
            )
        encoded = np.asarray(self._encode(query, domain, clique), np.float64)
        if encoded.shape != (rows, length) or not np.isfinite(encoded).all():
            raise ValueError(
                f"the encoding {self.name!r} must give {rows:,} x {length:,} finite numbers, got shape "
                f"{encoded.shape}."
            )
        return encoded


@dataclasses.dataclass(frozen=True)
class CellWeights(Encoding):
    """The weight of every cell; different queries always have different vectors.

    Example:
        >>> from pgmjax.queries import Product, prefix
        >>> CellWeights().encode(Product({"a": prefix()}), Domain({"a": 2}), ("a",)).tolist()
        [[1.0, 0.0], [1.0, 1.0]]
    """

    name: ClassVar[str] = "cells"

    def dimensions(self, domain: Domain, clique: Clique) -> int:
        """Return the number of cells."""
        return domain.size(clique)

    def _encode(self, query: Query, domain: Domain, clique: Clique) -> np.ndarray:
        return cell_rows(query, domain, clique)


@dataclasses.dataclass(frozen=True)
class Factors(Encoding):
    """The weights of every code, attribute by attribute, for rows that are products: short vectors.

    Example:
        >>> from pgmjax.queries import Product, point
        >>> Factors().encode(Product({"a": point(1)}), Domain({"a": 2, "b": 3}), ("a", "b")).tolist()
        [[0.0, 1.0, 1.0, 1.0, 1.0]]
    """

    name: ClassVar[str] = "factors"

    def dimensions(self, domain: Domain, clique: Clique) -> int:
        """Return the sum of the attributes' sizes."""
        return sum(domain.shape_of(clique))

    def _encode(self, query: Query, domain: Domain, clique: Clique) -> np.ndarray:
        return np.concatenate(factor_rows(query, domain, clique), axis=1)


@dataclasses.dataclass(frozen=True)
class Corners(Encoding):
    """Both ends of the range of every attribute, between 0 and 1: two numbers per attribute.

    Example:
        >>> from pgmjax.queries import Product, range
        >>> Corners().encode(Product({"a": range(1, 2)}), Domain({"a": 4}), ("a",)).tolist()
        [[0.25, 0.75]]
    """

    name: ClassVar[str] = "corners"

    def dimensions(self, domain: Domain, clique: Clique) -> int:
        """Return two for each attribute."""
        return 2 * len(clique)

    def _encode(self, query: Query, domain: Domain, clique: Clique) -> np.ndarray:
        columns = []
        for name, rows in zip(clique, factor_rows(query, domain, clique), strict=True):
            low, above = rows.argmax(axis=1), rows.shape[1] - rows[:, ::-1].argmax(axis=1)
            codes = np.arange(rows.shape[1])
            if not np.array_equal(rows, (codes >= low[:, None]) & (codes < above[:, None])):
                raise ValueError(
                    f"the encoding 'corners' takes ranges only, and the query on {query.clique} asks "
                    f"{name!r} for something else: use the encoding 'cells' or 'factors'."
                )
            columns += [low / rows.shape[1], above / rows.shape[1]]
        return np.stack(columns, axis=1)


ENCODINGS: dict[str, type[Encoding]] = {each.name: each for each in (CellWeights, Factors, Corners)}


def as_encoding(encoding: Any) -> Encoding:
    """Return an encoding from itself or its name.

    Raises:
        TypeError: neither.
        ValueError: unknown name.
    """
    if isinstance(encoding, Encoding):
        return encoding
    checks.kind(encoding, str, "encoding must be a name or an Encoding")
    return ENCODINGS[checks.choice("encoding", encoding, ENCODINGS, "an Encoding")]()


def cell_rows(query: Query, domain: Domain, clique: Clique) -> np.ndarray:
    """Return the weights of the cells of `clique`, which contains the query's attributes: [rows, cells]."""
    axes = [clique.index(name) for name in query.clique]
    codes = np.indices(domain.shape_of(clique), np.int32, sparse=True)
    place: np.ndarray = np.zeros(domain.shape_of(clique), np.int64)
    for axis, size in zip(axes, domain.shape_of(query.clique), strict=True):
        place = place * size + codes[axis]
    return query.matrix(domain)[:, place.reshape(-1)].astype(np.float64)


def factor_rows(query: Query, domain: Domain, clique: Clique) -> list[np.ndarray]:
    """Return each row of a query as a product of weights of codes.

    Args:
        query: a query on some of the attributes of `clique`.
        domain: the domain.
        clique: the attributes; those not in the query are summed over.

    Returns:
        float64 [rows, size] for each attribute of `clique`; their product over attributes is the row.

    Raises:
        ValueError: a row that is not a product, such as that of a weighted sum; products of zeros and ones
            are recognised in any matrix.
    """
    rows = query.num_rows(domain)
    found = _of_blocks(query, domain)
    if found is None:
        found = _of_matrix(query, domain)
    return [found.get(name, np.ones((rows, domain[name]))) for name in clique]


def _of_blocks(query: Query, domain: Domain) -> dict[str, np.ndarray] | None:
    try:
        terms = query.factors(domain)
    except ValueError:
        return None
    if len(terms) != 1:
        return None
    ((coefficient, blocks),) = terms
    matrices = [blocks[name].matrix(domain[name]).astype(np.float64) for name in query.clique]
    shape = tuple(len(matrix) for matrix in matrices)
    places = np.indices(shape).reshape(len(shape), -1)
    found = {name: matrix[place] for name, matrix, place in zip(query.clique, matrices, places, strict=True)}
    found[query.clique[0]] = found[query.clique[0]] * float(coefficient)
    return found


def _of_matrix(query: Query, domain: Domain) -> dict[str, np.ndarray]:
    shape = domain.shape_of(query.clique)
    cells = query.matrix(domain).reshape(-1, *shape)
    found, product = {}, np.ones((len(cells), *[1] * len(shape)))
    for axis, name in enumerate(query.clique):
        others = tuple(1 + other for other in range(len(shape)) if other != axis)
        found[name] = (cells != 0).any(axis=others).astype(np.float64)
        product = product * found[name].reshape(-1, *[n if i == axis else 1 for i, n in enumerate(shape)])
    if not np.array_equal(product, cells):
        raise ValueError(
            f"rows of the query on {query.clique} are no products of zeros and ones over its attributes: use "
            "the encoding 'cells'."
        )
    return found
