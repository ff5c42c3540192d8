"""Random queries of the two kinds of the paper's experiments.

References:
    Chen, Zhou and Bhowmick 2012, section 5.1.
"""

from __future__ import annotations

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.queries import DenseMatrix, Product
from pgmjax.queries import range as code_range


def random_ranges(domain: Domain, count: int, *, dimensions: int = 2, seed: int) -> list[Product]:
    """Return queries that count the records in a random box of some random attributes.

    Every set of attributes is as likely; the two ends of an attribute's range are drawn uniformly and
    put in order.

    Args:
        domain: the attributes.
        count: how many queries.
        dimensions: attributes a query, 1 to all.
        seed: of the drawing, which is not noise.

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
        result.append(Product({name: code_range(low, high) for name, (low, high) in ends.items()}))
    return result


def random_tables(domain: Domain, count: int, *, dimensions: int = 2, seed: int) -> list[DenseMatrix]:
    """Return queries that count the records in a random half of the cells of some random attributes.

    Every cell's entry is 0 or 1 with equal probability; a query all zeros is drawn again.

    Args:
        domain: the attributes.
        count: how many queries.
        dimensions: attributes a query, 1 to all.
        seed: of the drawing, which is not noise.

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
