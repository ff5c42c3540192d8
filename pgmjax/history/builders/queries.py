"""Builders of queries: moments, marginals, Fourier and wavelet strategies.

`fourier` and `wavelet` make the coefficients of a marginal's transform; `queries.random` draws queries.

References:
    Chen, Zhou and Bhowmick 2012, section 3.2 (both transforms as products of one function per attribute);
    Barak et al. 2007, "Privacy, accuracy and consistency too" (Fourier, binary attributes); Xiao, Wang and
    Gehrke 2011, "Differential privacy via wavelet transforms".
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import as_clique
from pgmjax.data.domain import Domain
from pgmjax.queries import AttributeQuery, Product, marginal, matrix, total
from pgmjax.queries.blocks import Matrix
from pgmjax.strategies import fixed


def moment(domain: Domain, powers: Mapping[str, int], values: Mapping[str, Any] | None = None) -> Product:
    """Return the query for the sum over records of a product of powers of their values.

    Args:
        domain: the attributes.
        powers: the power of each attribute, >= 0.
        values: values [size] of an attribute's codes, by attribute. Default: the codes 0, 1, ...

    Raises:
        TypeError: powers are not a mapping, or not integers.
        ValueError: there is no attribute, one is unknown, a power is negative, or values have the wrong
            length.

    Example:
        >>> query = moment(Domain({"age": 3, "pay": 2}), {"age": 2, "pay": 1})
        >>> query.matrix(Domain({"age": 3, "pay": 2})).tolist()
        [[0, 0, 0, 1, 0, 4]]
    """
    checks.kind(powers, Mapping, "powers must map attribute names to integers")
    clique = as_clique(domain, list(powers))
    given = _values(domain, values)
    return Product({name: _power(domain, name, powers[name], given) for name in clique})


def moments(
    domain: Domain, attributes: Iterable[str], order: int, values: Mapping[str, Any] | None = None
) -> list[Product]:
    """Return all moments up to an order: sums of products of 1 to `order` values of some attributes.

    Args:
        domain: the attributes.
        attributes: attributes whose values are multiplied.
        order: largest number of values in a product, >= 1.
        values: as in `moment`.

    Raises:
        ValueError: as in `moment`, or the order is below 1.

    Example:
        >>> asked = moments(Domain({"age": 3, "pay": 2}), ["age", "pay"], 2)
        >>> [query.clique for query in asked]  # sums of age, pay, age^2, age x pay, pay^2
        [('age',), ('pay',), ('age',), ('age', 'pay'), ('pay',)]
    """
    clique = as_clique(domain, list(attributes))
    order = checks.integer("order", order, low=1)
    chosen = (
        names
        for size in range(1, order + 1)
        for names in itertools.combinations_with_replacement(clique, size)
    )
    return [moment(domain, Counter(names), values) for names in chosen]


def covariances(
    domain: Domain, attributes: Iterable[str], values: Mapping[str, Any] | None = None
) -> list[Product]:
    """Return the count and the moments up to order 2, for means, variances and covariances.

    The covariance of x and y is (sum of x y) / n - (sum of x) (sum of y) / n^2.

    Args:
        domain: the attributes.
        attributes: attributes whose covariances are wanted.
        values: as in `moment`.
    """
    clique = as_clique(domain, list(attributes))
    return [Product({clique[0]: total()}), *moments(domain, clique, 2, values)]


def _values(domain: Domain, values: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    result = {}
    for name, given in ({} if values is None else values).items():
        size = domain[name]
        array = Matrix([given]).entries.array[0]
        if len(array) != size:
            raise ValueError(f"the values of {name!r} must be one a code, {size}, got {len(array)}.")
        result[name] = array
    return result


def _power(domain: Domain, name: str, power: Any, values: dict[str, np.ndarray]) -> AttributeQuery:
    power = checks.integer(f"the power of {name!r}", power, low=0)
    if power == 0:
        return total()
    codes = values.get(name, np.arange(domain[name]))
    exact = codes.dtype == np.int64 and int(np.abs(codes).max()) ** power < 2**53
    with np.errstate(over="ignore"):
        row = (codes if exact else codes.astype(np.float64)) ** power
    if not np.isfinite(row).all():
        raise ValueError(f"power {power} of {name!r} overflows: give smaller values.")
    return matrix([row])


def all_marginals(domain: Domain, k: int) -> list[Product]:
    """Return the marginals of every k attributes, in the domain's order.

    Args:
        domain: the attributes.
        k: number of attributes of each marginal, 1 to all.

    Raises:
        ValueError: k out of range.

    Example:
        >>> [query.clique for query in all_marginals(Domain({"a": 2, "b": 2, "c": 3}), 2)]
        [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    k = checks.integer("k", k, low=1, high=len(domain))
    return [marginal(clique) for clique in itertools.combinations(domain.attributes, k)]


def fourier(domain: Domain, attributes: Iterable[str], order: int | None = None) -> list[Product]:
    """Return Fourier coefficients of the marginal of some attributes.

    One query for each set of up to `order` attributes, the empty set first. Its rows are the products of one
    wave of each attribute. A binary attribute has the wave (1, -1), so entries are integers; an attribute
    with k codes has k - 1 waves, cosines and sines scaled to mean square 1.

    Args:
        domain: the attributes.
        attributes: the attributes of the marginal.
        order: largest number of attributes in one coefficient. Default: all.

    Raises:
        ValueError: an attribute is unknown, or the order is out of range.

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

    Rows are the products of one wavelet of each attribute: its total, and for each node at each level the
    difference of its halves, with entries 1, 0 and -1.

    Args:
        domain: the attributes.
        attributes: the attributes of the marginal, in order.

    Raises:
        ValueError: an attribute is unknown.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> wavelet(domain, ["a", "b"]).matrix(domain).tolist()
        [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    clique = as_clique(domain, list(attributes))
    return Product({name: matrix(fixed.wavelet(domain[name])) for name in clique})


def _waves(size: int) -> np.ndarray:
    """Return the real Fourier basis without the constant [size - 1, size], each row of mean square 1."""
    codes = np.arange(size)
    rows = []
    for frequency in range(1, size // 2 + 1):
        angles = 2 * math.pi * frequency * codes / size
        if 2 * frequency == size:
            rows.append(1.0 - 2.0 * (codes % 2))
        else:
            rows += [math.sqrt(2) * np.cos(angles), math.sqrt(2) * np.sin(angles)]
    return np.stack(rows)
