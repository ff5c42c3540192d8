"""Which queries a model is trained on: covering ones of low sensitivity, or random ones."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.learning.random_queries import random_ranges, random_subsets
from pgmjax.queries import AttributeQuery, Product, Query, identity, marginal, ranges
from pgmjax.queries.workload import Workload
from pgmjax.strategies import fixed
from pgmjax.strategies.choose import strategy

COVERING = ("identity", "tree", "hb", "opt_0")
"""Those whose answers determine every cell (OPT_0: every query of the workload)."""

RANDOM = ("random", "random_subsets")
"""Those of which a number is drawn."""


def training_query(
    training: str,
    clique: Clique,
    domain: Domain,
    *,
    workload: Workload | None = None,
    count: int | None = None,
    norm: str = "l1",
    relation: Relation = Relation.ADD_REMOVE,
    seed: int = 0,
) -> Query:
    """Return the queries to train on, as one query; looks at no data.

    Args:
        training: "identity" (every cell), "tree" (binary trees with roots), "hb" (trees of the best
            branching), "opt_0" (optimised for `workload`, OPT_kron for several attributes), "random" (ranges)
            or "random_subsets" (of cells).
        clique: the attributes.
        domain: their sizes.
        workload: for "opt_0", what is to be answered; entries on other attributes are left out.
        count: for random ones, how many.
        norm: for "opt_0", "l1" for Laplace, "l2" for Gaussian noise.
        relation: for "opt_0", which tables are neighbours.
        seed: of random queries and of the starts of "opt_0", which are no noise.

    Returns:
        a query with integers as entries; its rows are the training queries.

    Raises:
        ValueError: no such training, no count or workload where one is needed, or more queries than fit.

    References:
        Zhu et al. 2017, section III-C; Hay et al. 2010 (trees); Qardaji et al. 2013 (HB); McKenna et al.
        2018 (OPT_0, OPT_kron).

    Example:
        >>> query = training_query("tree", ("a",), Domain({"a": 4}))
        >>> query.num_rows(Domain({"a": 4})), query.l1_sensitivity(Relation.ADD_REMOVE, Domain({"a": 4}))
        (7, 3)
    """
    checks.choice("training", training, (*COVERING, *RANDOM))
    if training == "identity":
        return marginal(clique)
    if training in ("tree", "hb"):
        return Product({name: _tree(training, domain[name]) for name in clique})
    if training == "opt_0":
        return _optimised(clique, domain, workload, norm, relation, seed)
    if count is None:
        raise ValueError(f"the training {training!r} needs a count of queries.")
    return (random_ranges if training == "random" else random_subsets)(domain, clique, count, seed)


def validation_query(clique: Clique, domain: Domain, most: int = 31) -> Query:
    """Return ranges of several widths with low sensitivity: the tops of binary trees.

    Args:
        clique: the attributes; the largest are cut most often.
        domain: their sizes.
        most: no more rows than this.

    Example:
        >>> query = validation_query(("a",), Domain({"a": 100}))
        >>> query.num_rows(Domain({"a": 100})), query.l1_sensitivity(Relation.ADD_REMOVE, Domain({"a": 100}))
        (31, 5)
    """
    checks.integer("the number of validation queries", most, low=1)
    depths = dict.fromkeys(clique, 0)
    while True:
        name = max(clique, key=lambda each: domain[each] >> depths[each])
        deeper = {**depths, name: depths[name] + 1}
        rows = math.prod(2 ** (depth + 1) - 1 for depth in deeper.values())
        if domain[name] >> depths[name] < 2 or rows > most:
            return Product({each: _top(domain[each], depth) for each, depth in depths.items()})
        depths = deeper


@functools.lru_cache(maxsize=64)
def _tree(training: str, size: int) -> AttributeQuery:
    """A tree as ranges, which need no matrix to be answered; the identity where it is that."""
    if size == 1:
        return identity()
    rows = fixed.h2(size) if training == "tree" else fixed.hb(size)
    if len(rows) == size:
        return identity()
    low, above = rows.argmax(axis=1), size - rows[:, ::-1].argmax(axis=1)
    return ranges(np.stack([low, above - 1], axis=1).tolist())


def _optimised(
    clique: Clique, domain: Domain, workload: Workload | None, norm: str, relation: Relation, seed: int
) -> Query:
    entries = () if workload is None else workload.entries
    served = [entry for entry in entries if set(entry.clique) <= set(clique)]
    if not served:
        raise ValueError(f"the training 'opt_0' needs a workload that asks for some of {clique}.")
    (query,) = strategy("kron", Workload(served), domain, norm, relation, seed=seed).queries
    return query


def _top(size: int, depth: int) -> AttributeQuery:
    bounds = []
    for level in range(depth + 1):
        ends = [size * part // 2**level for part in range(2**level + 1)]
        bounds += [(low, above - 1) for low, above in itertools.pairwise(ends)]
    return ranges(bounds)
