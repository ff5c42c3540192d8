"""Workloads that many tables have in common: blocks on attributes, unions, random marginals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.cliques import as_clique
from pgmjax.data.domain import Domain
from pgmjax.queries import as_query
from pgmjax.queries.workload import Workload
from pgmjax.queries.workload_entry import Entry


def of_blocks(cliques: Iterable[Any], blocks: Mapping[str, Any]) -> Workload:
    """Return a workload that asks a block of each of some attributes wherever it stands in a clique.

    Args:
        cliques: lists of attribute names.
        blocks: by attribute a block (`queries.prefix()`, ...) or its name ("prefix", "range", ...);
            attributes that are not named are kept whole.

    Raises:
        TypeError: cliques that are one string, or a block that is none.
        ValueError: no clique, or an attribute of `blocks` that stands in none.

    Example:
        >>> workload = of_blocks([("age", "sex"), ("sex",)], {"age": "prefix"})
        >>> workload.entries[0].to_spec()
        {'clique': ['age', 'sex'], 'queries': {'age': 'prefix'}}
    """
    if isinstance(cliques, str):
        raise TypeError("cliques must be a list of tuples of attribute names, got one string.")
    if not isinstance(blocks, Mapping):
        raise TypeError(f"blocks must map attribute names to blocks, got {type(blocks).__name__}.")
    listed = [tuple(clique) for clique in cliques]
    idle = [name for name in blocks if not any(name in clique for clique in listed)]
    if idle:
        raise ValueError(f"blocks are given for {idle}, which no clique holds: leave them out.")
    entries = [
        Entry(as_query(clique, {name: blocks[name] for name in clique if name in blocks}))
        for clique in listed
    ]
    return Workload(entries)


def union(parts: Iterable[tuple[Any, Workload]]) -> Workload:
    """Return several workloads as one, each entry's weight multiplied by that of its part.

    Args:
        parts: pairs (weight, workload), weights positive and exact.

    Raises:
        TypeError: parts that are no such pairs.
        ValueError: no part, a weight that is not positive, or one query in two parts.

    Example:
        >>> both = union([(1, Workload.of_marginals([("a",)])), (3, Workload.of_marginals([("a", "b")]))])
        >>> [str(entry.weight) for entry in both.entries]
        ['1', '3']
    """
    entries = []
    for part in parts:
        if not isinstance(part, tuple | list) or len(part) != 2 or not isinstance(part[1], Workload):
            raise TypeError("parts must be pairs (weight, Workload).")
        factor = Entry(part[1].entries[0].query, part[0]).weight
        entries += [Entry(entry.query, entry.weight * factor) for entry in part[1].entries]
    return Workload(entries)


def random_marginals(
    domain: Domain,
    number: int,
    *,
    k: int = 3,
    blocks: Mapping[str, Any] | None = None,
    max_queries: int | None = None,
    seed: int = 0,
) -> Workload:
    """Return random marginals of `k` attributes, with blocks where they are given.

    Args:
        domain: the attributes and their sizes; the choice depends on it and on the seed alone.
        number: how many, all different.
        k: attributes of each.
        blocks: by attribute a block or its name, see `of_blocks`.
        max_queries: leave out marginals with more answers.
        seed: of the choice, which is no noise.

    Raises:
        ValueError: fewer marginals than asked for fit.

    Example:
        >>> domain = Domain({"a": 2, "b": 3, "c": 4, "d": 5})
        >>> random_marginals(domain, 2, k=2, max_queries=12, seed=1).num_queries(domain) <= 24
        True
    """
    checks.integer("number", number, low=1)
    checks.integer("k", k, low=1, high=len(domain))
    asked = {} if blocks is None else dict(blocks)
    candidates = [
        clique
        for clique in itertools.combinations(domain.attributes, k)
        if max_queries is None or _queries(domain, clique, asked) <= max_queries
    ]
    if len(candidates) < number:
        few = "" if max_queries is None else f" with at most {max_queries:,} answers"
        raise ValueError(
            f"there are {len(candidates)} marginals of {k} attributes{few}, fewer than {number}."
        )
    chosen = sorted(random.generator(seed).choice(len(candidates), size=number, replace=False))
    cliques = [as_clique(domain, candidates[place]) for place in chosen]
    used = {name: block for name, block in asked.items() if any(name in clique for clique in cliques)}
    return of_blocks(cliques, used)


def _queries(domain: Domain, clique: tuple[str, ...], blocks: Mapping[str, Any]) -> int:
    return as_query(clique, {name: blocks[name] for name in clique if name in blocks}).num_rows(domain)
