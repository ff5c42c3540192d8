"""The rows of a query written out, over all cells or attribute by attribute."""

from __future__ import annotations

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.queries import Query


def cell_rows(query: Query, domain: Domain, clique: Clique) -> np.ndarray:
    """Return the weights of the cells of `clique`, which holds the query's attributes: [rows, cells]."""
    axes = [clique.index(name) for name in query.clique]
    codes = np.indices(domain.shape_of(clique), np.int32, sparse=True)
    place: np.ndarray = np.zeros(domain.shape_of(clique), np.int64)
    for axis, size in zip(axes, domain.shape_of(query.clique), strict=True):
        place = place * size + codes[axis]
    return query.matrix(domain)[:, place.reshape(-1)].astype(np.float64)


def factor_rows(query: Query, domain: Domain, clique: Clique) -> list[np.ndarray]:
    """Return each row of a query as a product of weights of codes.

    Args:
        query: on some of the attributes of `clique`.
        domain: the attributes.
        clique: the attributes; one that the query lacks is summed over.

    Returns:
        float64 [rows, size] for each attribute of `clique`, whose product over attributes is the row.

    Raises:
        ValueError: a row that is no product, such as that of a weighted sum; products of zeros and ones
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
