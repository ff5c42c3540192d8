"""Strategies by name, and the best of them by expected error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import Product, marginal, total
from pgmjax.queries.workload import Workload
from pgmjax.strategies import products, weighted_marginals
from pgmjax.strategies.least_squares import serving
from pgmjax.strategies.strategy import (
    NORMS,
    LocalStrategy,
    MarginalStrategy,
    Strategy,
    entry_terms,
    unit_variances,
    weighted_error,
)

NAMES = ("workload", "identity", "h2", "hb", "wavelet", "union", "kron", "marginals")
SPLITS = ("optimal", "equal")


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
        ValueError: an argument out of range, or a workload that this kind of strategy cannot answer.

    Example:
        >>> domain = Domain({"a": 2, "b": 3})
        >>> workload = Workload([["a", "b"], ["a"]])
        >>> made = strategy("identity", workload, domain, "l1", Relation.ADD_REMOVE)
        >>> [round(share, 3) for share in made.shares]
        [0.591, 0.409]
    """
    name = checks.choice("strategy", name, NAMES)
    norm = checks.choice("norm", norm, NORMS)
    split = checks.choice("split", split, SPLITS)
    restarts = checks.integer("restarts", restarts, low=1)
    workload = workload.over(domain)
    search = {"restarts": restarts, "seed": seed}
    if name == "marginals":
        return _marginals(workload, domain, norm, split, **search)
    if name == "kron":
        clique = _attributes(workload, domain)
        return products.whole_product(workload, clique, domain, norm, relation, **search)
    return products.grouped(name, workload, domain, norm, relation, split=split, **search)


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
    named = {name for entry in workload.entries for name in entry.clique}
    return tuple(name for name in domain.attributes if name in named)


def _marginals(
    workload: Workload, domain: Domain, norm: str, split: str, restarts: int, seed: int
) -> MarginalStrategy:
    attributes = _attributes(workload, domain)
    terms = entry_terms(workload, domain)
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
