"""Random queries to learn from: ranges, boxes of ranges, and subsets of cells."""

from __future__ import annotations

import math

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.queries import DenseMatrix, Product, Query, ranges
from pgmjax.queries.query import MAX_MATRIX_ENTRIES

_BATCH = 1024


def random_ranges(domain: Domain, clique: Clique, number: int, seed: int = 0) -> Query:
    """Return different ranges, each equally likely; of several attributes boxes, a range of each.

    Args:
        domain: the attributes.
        clique: those that are asked for.
        number: of queries; the first ones do not depend on it.
        seed: of the choice, which is no noise and looks at no data.

    Returns:
        a query of `number` rows of zeros and ones.

    Raises:
        ValueError: there are fewer ranges, or a matrix of boxes would have more than 50 million entries.

    Example:
        >>> query = random_ranges(Domain({"a": 4}), ("a",), 10)
        >>> sorted(query.blocks[0].bounds)[:4], query.num_rows(Domain({"a": 4}))
        ([(0, 0), (0, 1), (0, 2), (0, 3)], 10)
    """
    number = checks.integer("the number of queries", number, low=1)
    bounds = _boxes(domain.shape_of(clique), number, ranges_there_are(domain, clique), seed)
    if len(clique) == 1:
        return Product({clique[0]: ranges(bounds[:, 0].tolist())})
    check_matrix(domain, clique, number)
    shape = domain.shape_of(clique)
    cells = np.ones((number, *[1] * len(shape)), bool)
    for axis, size in enumerate(shape):
        codes = np.arange(size)
        inside = (codes >= bounds[:, axis, :1]) & (codes <= bounds[:, axis, 1:])
        cells = cells & inside.reshape(-1, *[size if i == axis else 1 for i in range(len(shape))])
    return DenseMatrix(clique, cells.reshape(number, -1).astype(np.int64))


def random_subsets(domain: Domain, clique: Clique, number: int, seed: int = 0) -> Query:
    """Return counting queries: each asks for a random set of cells, every cell with probability one half.

    Args:
        domain: the attributes.
        clique: those that are asked for.
        number: of queries; sets may be equal where there are few cells.
        seed: of the choice, which is no noise and looks at no data.

    Raises:
        ValueError: the matrix would have more than 50 million entries.
    """
    number = checks.integer("the number of queries", number, low=1)
    check_matrix(domain, clique, number)
    drawn = random.generator(seed).integers(0, 2, (number, domain.size(clique)))
    return DenseMatrix(clique, drawn.astype(np.int64))


def check_matrix(domain: Domain, clique: Clique, number: int) -> None:
    """Refuse more random queries than can be written out.

    Raises:
        ValueError: how many entries there would be.
    """
    if number * domain.size(clique) > MAX_MATRIX_ENTRIES:
        raise ValueError(
            f"{number:,} random queries over {domain.size(clique):,} cells are above the limit of "
            f"{MAX_MATRIX_ENTRIES:,} entries: take fewer, or a training of products such as 'hb'."
        )


def ranges_there_are(domain: Domain, clique: Clique) -> int:
    """Return the number of different ranges, of several attributes that of boxes."""
    return math.prod(size * (size + 1) // 2 for size in domain.shape_of(clique))


def _boxes(shape: tuple[int, ...], number: int, existing: int, seed: int) -> np.ndarray:
    """Return different bounds [number, attributes, low and high]."""
    if number > existing:
        raise ValueError(f"there are {existing:,} different ranges of {shape} codes, fewer than {number:,}.")
    generator = random.generator(seed)
    kept: dict[bytes, np.ndarray] = {}
    while len(kept) < number:
        borders = [_borders(generator, size) for size in shape]
        for drawn in np.stack(borders, axis=1):
            kept.setdefault(drawn.tobytes(), drawn)
    return np.stack(list(kept.values())[:number])


def _borders(generator: np.random.Generator, size: int) -> np.ndarray:
    """Return ranges between two different ones of size + 1 borders: each range is equally likely."""
    first = generator.integers(0, size + 1, _BATCH)
    second = (first + generator.integers(1, size + 1, _BATCH)) % (size + 1)
    return np.stack([np.minimum(first, second), np.maximum(first, second) - 1], axis=1)
