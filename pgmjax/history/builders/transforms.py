"""Fourier and wavelet strategies: coefficients of a marginal's transform as queries.

References:
    Barak et al. 2007, "Privacy, accuracy and consistency too" (Fourier, binary attributes); Xiao, Wang
    and Gehrke 2011, "Differential privacy via wavelet transforms"; Chen, Zhou and Bhowmick 2012, section
    3.2, for both as products of one function an attribute.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import as_clique
from pgmjax.data.domain import Domain
from pgmjax.queries import Product, matrix, total
from pgmjax.strategies import fixed


def fourier(domain: Domain, attributes: Iterable[str], order: int | None = None) -> list[Product]:
    """Return Fourier coefficients of the marginal of some attributes.

    One query for each set of up to `order` attributes, that without any first: its rows are the products
    of one wave of each. A binary attribute has the wave (1, -1), so that entries are integers; one of k
    codes has k - 1 waves, cosines and sines scaled to the mean square 1.

    Args:
        domain: the attributes.
        attributes: the attributes of the marginal.
        order: the most attributes in one coefficient; None takes all.

    Raises:
        ValueError: an unknown attribute, or an order out of range.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> [query.matrix(domain.project(query.clique)).tolist() for query in fourier(domain, ["a", "b"], 1)]
        [[[1, 1]], [[1, -1]], [[1, -1]]]
    """
    clique = as_clique(domain, list(attributes))
    order = len(clique) if order is None else checks.integer("order", order, low=0, high=len(clique))
    wide = [name for name in clique if domain[name] > 1]
    waves = {name: matrix(_waves(domain[name])) for name in wide}
    result = [Product({clique[0]: total()})]
    for size in range(1, order + 1):
        for names in itertools.combinations(wide, size):
            result.append(Product({name: waves[name] for name in names}))
    return result


def wavelet(domain: Domain, attributes: Iterable[str]) -> Product:
    """Return the Haar wavelet coefficients of the marginal of some attributes, as many as it has cells.

    Rows are the products of one wavelet of each attribute: its total, and at each level one half of a
    node less the other, entries 1, 0 and -1.

    Args:
        domain: the attributes.
        attributes: the attributes of the marginal, in order.

    Raises:
        ValueError: an unknown attribute.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> wavelet(domain, ["a", "b"]).matrix(domain).tolist()
        [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    clique = as_clique(domain, list(attributes))
    return Product({name: matrix(fixed.wavelet(domain[name])) for name in clique})


def _waves(size: int) -> np.ndarray:
    """Return the real Fourier basis without its constant [size - 1, size], each of mean square 1."""
    codes = np.arange(size)
    rows = []
    for frequency in range(1, size // 2 + 1):
        angles = 2 * math.pi * frequency * codes / size
        if 2 * frequency == size:
            rows.append(1.0 - 2.0 * (codes % 2))
        else:
            rows += [math.sqrt(2) * np.cos(angles), math.sqrt(2) * np.sin(angles)]
    return np.stack(rows)
