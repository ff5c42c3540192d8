"""All cells of all marginals of a number of attributes."""

from __future__ import annotations

import itertools

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.queries import Product, marginal


def all_marginals(domain: Domain, k: int) -> list[Product]:
    """Return the marginals of every k attributes, in the domain's order.

    Args:
        domain: the attributes.
        k: how many attributes each, 1 to all.

    Raises:
        ValueError: k out of range.

    Example:
        >>> [query.clique for query in all_marginals(Domain({"a": 2, "b": 2, "c": 3}), 2)]
        [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    k = checks.integer("k", k, low=1, high=len(domain))
    return [marginal(clique) for clique in itertools.combinations(domain.attributes, k)]
