"""Sums of powers and of products of values: means, variances, covariances and what lies beyond."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import as_clique
from pgmjax.data.domain import Domain
from pgmjax.queries import AttributeQuery, Product, total
from pgmjax.queries import matrix as Matrix


def moment(domain: Domain, powers: Mapping[str, int], values: Mapping[str, Any] | None = None) -> Product:
    """Return the query for the sum over records of a product of powers of their values.

    Args:
        domain: the attributes.
        powers: the power of each attribute, >= 0.
        values: the values of the codes [size] of some attributes; those left out have the codes 0, 1, ...

    Raises:
        TypeError: powers that are no mapping, or not integers.
        ValueError: no attribute, an unknown one, a negative power, or values of another length.

    Example:
        >>> query = moment(Domain({"age": 3, "pay": 2}), {"age": 2, "pay": 1})
        >>> query.matrix(Domain({"age": 3, "pay": 2})).tolist()
        [[0, 0, 0, 1, 0, 4]]
    """
    if not isinstance(powers, Mapping):
        raise TypeError(f"powers must map attribute names to integers, got {type(powers).__name__}.")
    clique = as_clique(domain, list(powers))
    given = _values(domain, values)
    return Product({name: _power(domain, name, powers[name], given) for name in clique})


def moments(
    domain: Domain, attributes: Iterable[str], order: int, values: Mapping[str, Any] | None = None
) -> list[Product]:
    """Return all moments up to an order: sums of products of 1 to `order` values of some attributes.

    Args:
        domain: the attributes.
        attributes: whose values are multiplied.
        order: the most values in a product, >= 1.
        values: as for `moment`.

    Raises:
        ValueError: as `moment`, or an order below 1.

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
    """Return what means, variances and covariances are made of: the count and the moments up to order 2.

    The covariance of x and y is (sum of x y) / n - (sum of x) (sum of y) / n^2.

    Args:
        domain: the attributes.
        attributes: whose covariances are wanted.
        values: as for `moment`.
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
    return Matrix([row])
