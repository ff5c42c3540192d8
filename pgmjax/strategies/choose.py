"""Strategies by name, and the best of them by expected error.

Product strategies are one for a whole workload (OPT_kron), or one for each group of its entries (OPT_+). The
error of a product strategy on a union of products is a sum of products of single-attribute errors. With
all attributes but one fixed, it is the error of that attribute's strategy on a weighted sum of Gram matrices,
which OPT_0 lowers; sweeps over the attributes are repeated until the error stops decreasing.

Entries on the same attributes form a group with one product strategy: optimised, or a tree, a wavelet or all
cells. The budget is split between groups to minimise the sum of their errors: with Laplace noise in
proportion to ``error**(1/3)``, with Gaussian noise (rho) to ``error**(1/2)``.

References:
    McKenna et al. 2018, sections 6 (OPT_kron) and 6.2 (OPT_+); McKenna et al. 2019, section 5.1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pgmjax.data.domain import Clique, Domain, in_order
from pgmjax.data.relation import Relation
from pgmjax.queries import DenseMatrix, Product, Query, identity, marginal, matrix, total
from pgmjax.queries.blocks import AttributeQuery
from pgmjax.queries.workload import Entry, Workload
from pgmjax.random import generator
from pgmjax.strategies import weighted_marginals
from pgmjax.strategies.attribute import AttributeStrategy, best_factor, fixed_factor, is_identity
from pgmjax.strategies.grams import Term, query_terms, trace
from pgmjax.strategies.least_squares import serving
from pgmjax.strategies.strategy import (
    LocalStrategy,
    MarginalStrategy,
    Strategy,
    entry_trace,
    sensitivity_squared,
    unit_variances,
    weighted_error,
    whole,
)

NAMES = ("workload", "identity", "h2", "hb", "wavelet", "union", "kron", "marginals")
SPLITS = ("optimal", "equal")
_SWEEPS = 10
_GAIN = 1e-4


def optimise_product(
    terms: Sequence[Term],
    clique: Clique,
    domain: Domain,
    norm: str = "l1",
    *,
    restarts: int = 5,
    seed: int = 0,
) -> tuple[dict[str, AttributeStrategy], float]:
    """Return a strategy for each attribute, and the error of their product in units.

    For the units see `strategies.strategy`.

    Args:
        terms: the Gram matrix of the workload, a sum of products.
        clique: the attributes of the strategy, including all attributes of the terms.
        domain: the domain.
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        restarts: number of random starts of the whole search.
        seed: seed of the random starts.

    Example:
        >>> from pgmjax.strategies.grams import query_terms
        >>> from pgmjax.queries import Product, prefix, identity
        >>> domain = Domain({"a": 2, "b": 16})
        >>> terms = query_terms(Product({"a": identity(), "b": prefix()}), domain)
        >>> factors, error = optimise_product(terms, ("a", "b"), domain)
        >>> factors["a"].matrix.tolist(), error < 2 * 16 * 17 / 2
        ([[1, 0], [0, 1]], True)
    """
    alone = len(clique) == 1 or len(terms) == 1
    found = [
        _once(terms, clique, domain, norm, restarts if alone else 1, seed + each)
        for each in range(1 if alone else restarts)
    ]
    return min(found, key=lambda pair: pair[1])


def _once(
    terms: Sequence[Term], clique: Clique, domain: Domain, norm: str, restarts: int, seed: int
) -> tuple[dict[str, AttributeStrategy], float]:
    """Sweep from randomly weighted terms, so that restarts begin differently."""
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


def product_error(terms: Sequence[Term], factors: Mapping[str, AttributeStrategy]) -> float:
    """Return the error of a product of strategies, in units (see `strategies.strategy`)."""
    return trace(terms, {name: factor.inverse for name, factor in factors.items()})


def _weighted(
    terms: Sequence[Term], name: str, size: int, factors: Mapping[str, AttributeStrategy]
) -> np.ndarray:
    """Sum one attribute's Gram matrices, each times its term's error in the other attributes."""
    gram = np.zeros((size, size))
    for term in terms:
        others = {other: factor.inverse for other, factor in factors.items() if other != name}
        gram += trace([term], others) * term.factor(name, size)
    return (gram + gram.T) / 2


def grouped(
    name: str,
    workload: Workload,
    domain: Domain,
    norm: str,
    relation: Relation,
    *,
    split: str = "optimal",
    restarts: int = 5,
    seed: int = 0,
) -> LocalStrategy:
    """Return a strategy with one product for each set of attributes in the workload, or one for all entries.

    Args:
        name: "union" (optimised), "identity", "h2", "hb", "wavelet", "workload" (each entry's own query), or
            "kron" (OPT_kron: one optimised product over all attributes that answers every entry).
        workload: the workload to be answered.
        domain: the domain.
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        relation: which tables are neighbours.
        split: how the budget is split between the groups, "optimal" or "equal".
        restarts: number of random starts of "union" and "kron".
        seed: seed of the random starts.

    Raises:
        ValueError: an entry is a joint matrix over several attributes, for "kron".
    """
    if name == "workload":
        serves = list(range(len(workload.entries)))
        queries = [whole(entry.query, domain) for entry in workload.entries]
    else:
        every = _attributes(workload, domain)
        answering = [every if name == "kron" else entry.clique for entry in workload.entries]
        groups: dict[frozenset[str], list[Entry]] = {}
        for clique, entry in zip(answering, workload.entries, strict=True):
            groups.setdefault(frozenset(clique), []).append(entry)
        places = {clique: at for at, clique in enumerate(groups)}
        serves = [places[frozenset(clique)] for clique in answering]
        queries = [
            _product(name, every if name == "kron" else group[0].clique, group, domain, norm, restarts, seed)
            for group in groups.values()
        ]
    return served(name, workload, domain, queries, serves, norm, relation, split)


def served(
    name: str,
    workload: Workload,
    domain: Domain,
    queries: Sequence[Query],
    serves: Sequence[int],
    norm: str,
    relation: Relation,
    split: str,
) -> LocalStrategy:
    """Return the strategy of the given queries, with each entry answered by the query that serves it."""
    traces = []
    errors = np.zeros(len(queries))
    for entry, at in zip(workload.entries, serves, strict=True):
        traces.append(entry_trace(entry.query, queries[at], domain))
        errors[at] += float(entry.weight) ** 2 * traces[-1]
    errors *= [sensitivity_squared(query, norm, relation, domain) for query in queries]
    equal = split == "equal" or len(queries) == 1  # one query has all, whatever its error
    shares = np.ones(len(queries)) if equal else errors ** (1 / 3 if norm == "l1" else 1 / 2)
    shares = shares / shares.sum()
    return LocalStrategy(name, tuple(queries), tuple(shares.tolist()), tuple(serves), tuple(traces))


def _product(
    name: str,
    clique: Clique,
    group: Sequence[Entry],
    domain: Domain,
    norm: str,
    restarts: int,
    seed: int,
) -> Query:
    """Return the product over a clique that answers a group of entries on its attributes."""
    joint = any(isinstance(each.query, DenseMatrix) and len(each.clique) > 1 for each in group)
    if name == "identity" or (joint and name != "kron"):
        return marginal(clique)
    terms = [term for each in group for term in query_terms(each.query, domain, float(each.weight) ** 2)]
    if name in ("union", "kron"):
        factors, _ = optimise_product(terms, clique, domain, norm, restarts=restarts, seed=seed)
    else:
        factors = {
            attribute: fixed_factor(name, _weighted(terms, attribute, domain[attribute], {}), norm)
            for attribute in clique
        }
    return whole(_as_query(factors), domain)


def _as_query(factors: dict[str, AttributeStrategy]) -> Product:
    blocks: dict[str, AttributeQuery] = {}
    for name, factor in factors.items():
        rows = factor.matrix
        if len(rows) == 1 and (rows == 1).all():
            blocks[name] = total()
        elif rows.shape[0] == rows.shape[1] and is_identity(rows):
            blocks[name] = identity()
        else:
            blocks[name] = matrix(rows)
    return Product(blocks)


@functools.lru_cache(maxsize=64)
def strategy(
    name: str,
    workload: Workload,
    domain: Domain,
    norm: str,
    relation: Relation,
    *,
    split: str = "optimal",
    restarts: int = 5,
    seed: int = 0,
) -> Strategy:
    """Return a strategy for a workload; it depends only on these arguments.

    Args:
        name: one of `NAMES`: "workload" (the workload's own queries), "identity" (all cells of each group's
            attributes), "h2" and "hb" (trees), "wavelet", "union" (OPT_+), "kron" (OPT_kron), "marginals"
            (OPT_M).
        workload: the workload to be answered; its weights enter the error squared.
        domain: the domain.
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        relation: which tables are neighbours.
        split: how the budget is split between the queries: "optimal" by expected error, or "equal".
        restarts: number of random starts for optimised strategies.
        seed: seed of the random starts.

    Raises:
        ValueError: a workload that this kind of strategy cannot answer.

    Example:
        >>> domain = Domain({"a": 2, "b": 3})
        >>> workload = Workload([["a", "b"], ["a"]])
        >>> made = strategy("identity", workload, domain, "l1", Relation.ADD_REMOVE)
        >>> [round(share, 3) for share in made.shares]
        [0.591, 0.409]
    """
    workload = workload.over(domain)
    if name == "marginals":
        return _marginals(workload, domain, norm, split, restarts, seed)
    return grouped(name, workload, domain, norm, relation, split=split, restarts=restarts, seed=seed)


def candidates(
    workload: Workload,
    domain: Domain,
    norm: str,
    relation: Relation,
    *,
    fits: Callable[[Sequence[Clique]], bool] = lambda cliques: True,
    split: str = "optimal",
    restarts: int = 5,
    seed: int = 0,
) -> list[tuple[Strategy, float]]:
    """Return all strategies that can answer a workload, best first, with their errors.

    Args:
        workload: the workload to be answered.
        domain: the domain.
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        relation: which tables are neighbours.
        fits: function that says whether a model of these cliques fits; other strategies are left out.
        split: as in `strategy`.
        restarts: as in `strategy`.
        seed: as in `strategy`.

    Returns:
        pairs of a strategy and its expected squared error, with entries multiplied by their squared weights,
        in units of ``2 / epsilon**2`` or ``1 / (2 rho)``.

    Raises:
        ValueError: no strategy can answer the workload.
    """
    found = []
    refusal: ValueError | str = "no model of what would be measured fits in memory; take smaller entries."
    for name in NAMES:
        if name == "kron" and not fits([_attributes(workload, domain)]):
            continue
        try:
            made = strategy(name, workload, domain, norm, relation, split=split, restarts=restarts, seed=seed)
        except ValueError as error:
            refusal = error
            continue
        if fits([query.clique for query in made.queries]):
            variances = unit_variances(made, norm, relation, domain)
            found.append((made, weighted_error(made, variances, workload)))
    if not found:
        raise ValueError(f"no strategy can answer this workload: {refusal}")
    return sorted(found, key=lambda pair: pair[1])


def answered_alone(
    strategies: Sequence[Strategy], workload: Workload, domain: Domain, norm: str, relation: Relation
) -> LocalStrategy:
    """Return the best strategy if each entry is answered from a single one of its queries.

    Args:
        strategies: at least one.
        workload: the workload to be answered.
        domain: the domain.
        norm: as in `strategy`.
        relation: as in `strategy`.

    Raises:
        ValueError: in every strategy, some entry needs several queries.
    """
    found = []
    for made in strategies:
        variances = unit_variances(made, norm, relation, domain)
        try:
            serves, traces = serving(domain, workload, made.queries, variances)
        except ValueError as error:
            refusal = ValueError(f"strategy {made.name!r}: {error}")
            continue
        alone = LocalStrategy(made.name, made.queries, made.shares, serves, traces)
        found.append((alone, weighted_error(alone, variances, workload)))
    if not found:
        raise refusal
    return min(found, key=lambda pair: pair[1])[0]


def _attributes(workload: Workload, domain: Domain) -> Clique:
    return in_order(domain.attributes, set().union(*workload.cliques))


def _marginals(
    workload: Workload, domain: Domain, norm: str, split: str, restarts: int, seed: int
) -> MarginalStrategy:
    attributes = _attributes(workload, domain)
    terms = [query_terms(entry.query, domain) for entry in workload.entries]
    spectrum = weighted_marginals.Spectrum.of(terms, attributes, domain)
    squares = np.array([[float(entry.weight) ** 2] for entry in workload.entries])
    competing = weighted_marginals.Spectrum(
        spectrum.sets, spectrum.marginals, spectrum.values * squares, spectrum.reach
    )
    weights, _ = weighted_marginals.optimise_marginals(competing, norm, restarts=restarts, seed=seed)
    places = tuple(int(place) for place in np.flatnonzero(weights))
    queries = [spectrum.marginals[place] for place in places]
    shares = weights[list(places)] ** (1 if norm == "l1" else 2)
    shares = np.ones(len(places)) if split == "equal" else shares
    shares = shares / shares.sum()
    return MarginalStrategy(
        "marginals",
        tuple(marginal(each) if each else Product({attributes[0]: total()}) for each in queries),
        tuple(shares.tolist()),
        places,
        spectrum,
    )
