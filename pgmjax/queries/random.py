"""Random queries: ranges, boxes of ranges and sets of cells, drawn from a seed without looking at any data.

`distinct_ranges` and `random_subsets` draw the rows of one query over given attributes, for training;
`random_ranges` and `random_tables` draw many queries over random attributes, for experiments.

References:
    Zhu et al. 2017 (training queries); Chen, Zhou and Bhowmick 2012, section 5.1 (both kinds of experiments).
"""

from __future__ import annotations

import math

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.queries import Code, DenseMatrix, Product, Query, ranges
from pgmjax.queries import range as code_range
from pgmjax.queries.query import MAX_MATRIX_ENTRIES

_BATCH = 1024


def distinct_ranges(domain: Domain, clique: Clique, number: int, seed: int = 0) -> Query:
    """Return distinct ranges, each equally likely; for several attributes boxes, one range per attribute.

    Args:
        domain: the domain.
        clique: the attributes of the query.
        number: number of queries; a larger number keeps the first ones.
        seed: seed of the choice, which is not noise and uses no data.

    Returns:
        a query of `number` rows of zeros and ones.

    Raises:
        ValueError: there are fewer ranges, or a matrix of boxes would have more than 50 million entries.

    Example:
        >>> query = distinct_ranges(Domain({"a": 4}), ("a",), 10)
        >>> sorted(query.blocks[0].bounds)[:4], query.num_rows(Domain({"a": 4}))
        ([(0, 0), (0, 1), (0, 2), (0, 3)], 10)
    """
    number = checks.integer("the number of queries", number, low=1)
    bounds = _boxes(domain.shape_of(clique), number, ranges_there_are(domain, clique), seed)
    if len(clique) == 1:
        return Product({clique[0]: ranges(map(Code, pair) for pair in bounds[:, 0].tolist())})
    check_matrix(domain, clique, number)
    cells = np.ones((number, 1), np.int64)
    for axis, name in enumerate(clique):
        inside = ranges(bounds[:, axis].tolist()).matrix(domain[name])
        cells = (cells[:, :, None] * inside[:, None, :]).reshape(number, -1)
    return DenseMatrix(clique, cells)


def random_subsets(domain: Domain, clique: Clique, number: int, seed: int = 0) -> Query:
    """Return counting queries on random sets of cells; each cell is included with probability one half.

    Args:
        domain: the domain.
        clique: the attributes of the query.
        number: number of queries; some may be equal if there are few cells.
        seed: seed of the choice, which is not noise and uses no data.

    Raises:
        ValueError: the matrix would have more than 50 million entries.
    """
    number = checks.integer("the number of queries", number, low=1)
    check_matrix(domain, clique, number)
    drawn = random.generator(seed).integers(0, 2, (number, domain.size(clique)))
    return DenseMatrix(clique, drawn.astype(np.int64))


def check_matrix(domain: Domain, clique: Clique, number: int) -> None:
    """Refuse more random queries than an explicit matrix can hold.

    Raises:
        ValueError: the matrix would have too many entries.
    """
    if number * domain.size(clique) > MAX_MATRIX_ENTRIES:
        raise ValueError(
            f"{number:,} random queries over {domain.size(clique):,} cells are above the limit of "
            f"{MAX_MATRIX_ENTRIES:,} entries: take fewer, or a training of products such as 'hb'."
        )


def ranges_there_are(domain: Domain, clique: Clique) -> int:
    """Return the number of distinct ranges, or of boxes for several attributes."""
    return math.prod(size * (size + 1) // 2 for size in domain.shape_of(clique))


def _boxes(shape: tuple[int, ...], number: int, existing: int, seed: int) -> np.ndarray:
    """Return distinct bounds [number, attributes, low and high]."""
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
    """Return ranges between two distinct borders out of size + 1, each range equally likely."""
    first = generator.integers(0, size + 1, _BATCH)
    # the second border is one of the others, each equally likely
    second = (first + generator.integers(1, size + 1, _BATCH)) % (size + 1)
    return np.stack([np.minimum(first, second), np.maximum(first, second) - 1], axis=1)


def random_ranges(domain: Domain, count: int, *, dimensions: int = 2, seed: int) -> list[Product]:
    """Return queries that count the records in a random box of some random attributes.

    Every set of attributes is equally likely. The two ends of each range are drawn uniformly and sorted.

    Args:
        domain: the domain.
        count: number of queries.
        dimensions: attributes per query, 1 to all.
        seed: seed of the choice, which is not noise.

    Raises:
        ValueError: a count below 1, or dimensions out of range.

    Example:
        >>> first, second = random_ranges(Domain({"age": 80, "pay": 50, "sex": 2}), 2, seed=0)
        >>> first.num_rows(Domain({"age": 80, "pay": 50, "sex": 2})), len(first.clique)
        (1, 2)
    """
    rng, cliques = _cliques(domain, count, dimensions, seed)
    result = []
    for clique in cliques:
        ends = {name: sorted(rng.integers(domain[name], size=2).tolist()) for name in clique}
        result.append(Product({name: code_range(*map(Code, pair)) for name, pair in ends.items()}))
    return result


def random_tables(domain: Domain, count: int, *, dimensions: int = 2, seed: int) -> list[DenseMatrix]:
    """Return queries that count the records in a random half of the cells of some random attributes.

    Every cell's entry is 0 or 1 with equal probability; a query of all zeros is drawn again.

    Args:
        domain: the domain.
        count: number of queries.
        dimensions: attributes per query, 1 to all.
        seed: seed of the choice, which is not noise.

    Raises:
        ValueError: a count below 1, or dimensions out of range.
    """
    rng, cliques = _cliques(domain, count, dimensions, seed)
    result = []
    for clique in cliques:
        entries = np.zeros((1, domain.size(clique)), np.int64)
        while not entries.any():
            entries = rng.integers(2, size=entries.shape)
        result.append(DenseMatrix(clique, entries))
    return result


def _cliques(
    domain: Domain, count: int, dimensions: int, seed: int
) -> tuple[np.random.Generator, list[Clique]]:
    count = checks.integer("count", count, low=1)
    dimensions = checks.integer("dimensions", dimensions, low=1, high=len(domain))
    rng = random.generator(seed)
    chosen = [np.sort(rng.choice(len(domain), dimensions, replace=False)) for _ in range(count)]
    return rng, [tuple(domain.attributes[place] for place in places) for places in chosen]
