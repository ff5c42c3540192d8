"""OPT_kron: one product strategy for a union of product workloads, attribute by attribute.

The error of a product strategy on a union of products is a sum of products of errors of one
attribute. With all attributes but one held, it is the error of that attribute's strategy on a
weighted sum of Gram matrices, which OPT_0 lowers; sweeps go on until nothing is gained.

References:
    McKenna et al. 2018, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.random import generator
from pgmjax.strategies.attribute import Factor, best_factor, fixed_factor
from pgmjax.strategies.grams import Term, trace

_SWEEPS = 10
_GAIN = 1e-4


def optimise(
    terms: Sequence[Term],
    clique: Clique,
    domain: Domain,
    norm: str = "l1",
    *,
    restarts: int = 5,
    seed: int = 0,
) -> tuple[dict[str, Factor], float]:
    """Return a strategy for each attribute, and the error of their product in units (see `errors`).

    Args:
        terms: the Gram matrix of the workload, a sum of products.
        clique: the attributes of the strategy, all that any term names.
        domain: their sizes.
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        restarts: random starts of the whole search.
        seed: of the random starts.

    Example:
        >>> from pgmjax.strategies.grams import query_terms
        >>> from pgmjax.queries import Product, prefix, identity
        >>> domain = Domain({"a": 2, "b": 16})
        >>> terms = query_terms(Product({"a": identity(), "b": prefix()}), domain)
        >>> factors, error = optimise(terms, ("a", "b"), domain)
        >>> factors["a"].matrix.tolist(), error < 2 * 16 * 17 / 2
        ([[1, 0], [0, 1]], True)
    """
    alone = len(clique) == 1 or len(terms) == 1
    found = [
        _once(terms, clique, domain, norm, restarts if alone else 1, seed + each)
        for each in range(1 if alone else restarts)
    ]
    return min(found, key=lambda pair: pair[1])


def fixed_product(
    kind: str, terms: Sequence[Term], clique: Clique, domain: Domain, norm: str
) -> dict[str, Factor]:
    """Return a fixed strategy of each attribute, by name (see `attribute.fixed_factor`)."""
    return {name: fixed_factor(kind, _weighted(terms, name, domain[name], {}), norm) for name in clique}


def _once(
    terms: Sequence[Term], clique: Clique, domain: Domain, norm: str, restarts: int, seed: int
) -> tuple[dict[str, Factor], float]:
    """Sweep from random weights of the terms, so that restarts begin differently."""
    random = generator(seed)
    skewed = [
        Term(term.coefficient * float(weight), term.factors)
        for term, weight in zip(terms, random.uniform(0.5, 1.5, len(terms)), strict=True)
    ]
    begun = skewed if len(clique) > 1 and len(terms) > 1 else terms
    factors = {
        name: best_factor(_weighted(begun, name, domain[name], {}), norm, restarts=restarts, seed=seed)
        for name in clique
    }
    error = product_error(terms, factors)
    for _ in range(_SWEEPS if len(clique) > 1 and len(terms) > 1 else 0):
        for name in clique:
            gram = _weighted(terms, name, domain[name], factors)
            factors[name] = best_factor(gram, norm, restarts=1, seed=seed, earlier=factors[name])
        before, error = error, product_error(terms, factors)
        if error > before * (1 - _GAIN):
            break
    return factors, error


def product_error(terms: Sequence[Term], factors: Mapping[str, Factor]) -> float:
    """Return the error of a product of strategies, in units (see `errors`)."""
    return trace(terms, {name: factor.inverse for name, factor in factors.items()})


def _weighted(terms: Sequence[Term], name: str, size: int, factors: Mapping[str, Factor]) -> np.ndarray:
    """Sum one attribute's Gram matrices, each times the error of its term in the other attributes."""
    gram = np.zeros((size, size))
    for term in terms:
        others = {other: factor.inverse for other, factor in factors.items() if other != name}
        gram += trace([term], others) * term.factor(name, size)
    return (gram + gram.T) / 2
