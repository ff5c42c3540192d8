"""Strategies that answer each group of a workload on its own: OPT_+, trees, wavelets, cells.

Entries on the same attributes form a group with one product strategy. The budget is split between
groups so that their errors add up to the least: with Laplace noise in proportion to ``error**(1/3)``,
with Gaussian noise (rho) to ``error**(1/2)``.

References:
    McKenna et al. 2018, section 6.2 (OPT_+); McKenna et al. 2019, section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import AttributeQuery, DenseMatrix, Product, Query, identity, marginal, matrix, total
from pgmjax.queries.workload import Workload
from pgmjax.strategies import products
from pgmjax.strategies.attribute import Factor, is_identity
from pgmjax.strategies.grams import Term, query_terms
from pgmjax.strategies.strategy import LocalStrategy, entry_trace, sensitivity_squared, whole


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
    """Return a strategy with one product for each set of attributes that the workload names.

    Args:
        name: "union" (optimised), "identity", "h2", "hb", "wavelet", or "workload" (itself, one an entry).
        workload: what is to be answered.
        domain: the attributes.
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        relation: which tables are neighbours.
        split: "optimal" or "equal" between the groups.
        restarts: random starts of "union".
        seed: of the random starts.
    """
    if name == "workload":
        serves = list(range(len(workload.entries)))
        queries = [whole(entry.query, domain) for entry in workload.entries]
    else:
        cliques = list(dict.fromkeys(frozenset(entry.clique) for entry in workload.entries))
        serves = [cliques.index(frozenset(entry.clique)) for entry in workload.entries]
        members: list[list[tuple[Query, float]]] = [[] for _ in cliques]
        for entry, at in zip(workload.entries, serves, strict=True):
            members[at].append((entry.query, float(entry.weight) ** 2))
        queries = [_product(name, group, domain, norm, restarts, seed) for group in members]
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
    """Return the strategy of these queries, of which each entry is answered by the one that serves it."""
    traces = []
    errors = np.zeros(len(queries))
    for entry, at in zip(workload.entries, serves, strict=True):
        traces.append(entry_trace(entry.query, queries[at], domain))
        errors[at] += float(entry.weight) ** 2 * traces[-1]
    errors *= [sensitivity_squared(query, norm, relation, domain) for query in queries]
    shares = np.ones(len(queries)) if split == "equal" else errors ** (1 / 3 if norm == "l1" else 1 / 2)
    shares = shares / shares.sum()
    return LocalStrategy(name, tuple(queries), tuple(shares.tolist()), tuple(serves), tuple(traces))


def whole_product(
    workload: Workload,
    clique: Clique,
    domain: Domain,
    norm: str,
    relation: Relation,
    *,
    restarts: int = 5,
    seed: int = 0,
) -> LocalStrategy:
    """Return OPT_kron: one product over all attributes serves every entry.

    Raises:
        ValueError: an entry is one joint matrix over several attributes.
    """
    terms: list[Term] = []
    for entry in workload.entries:
        terms += query_terms(entry.query, domain, float(entry.weight) ** 2)
    factors, _ = products.optimise(terms, clique, domain, norm, restarts=restarts, seed=seed)
    query = whole(_as_query(factors), domain)
    return served("kron", workload, domain, [query], [0] * len(workload.entries), norm, relation, "equal")


def _product(
    name: str, group: Sequence[tuple[Query, float]], domain: Domain, norm: str, restarts: int, seed: int
) -> Query:
    clique = group[0][0].clique
    joint = any(isinstance(query, DenseMatrix) and len(query.clique) > 1 for query, _ in group)
    if joint or name == "identity":
        return marginal(clique)
    terms = [term for query, weight in group for term in query_terms(query, domain, weight)]
    if name == "union":
        factors, _ = products.optimise(terms, clique, domain, norm, restarts=restarts, seed=seed)
    else:
        factors = products.fixed_product(name, terms, clique, domain, norm)
    return whole(_as_query(factors), domain)


def _as_query(factors: dict[str, Factor]) -> Product:
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
