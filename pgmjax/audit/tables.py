"""Made-up neighbouring tables to audit on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pgmjax import _checks, random
from pgmjax.dataset import Dataset
from pgmjax.domain import Domain
from pgmjax.relation import Relation

KINDS = ("random", "nearly empty", "all alike", "extreme")
_MOST_ROWS = 30


def neighbours(
    domain: Domain,
    relation: Relation | str,
    *,
    pairs: int = 60,
    max_weight: int | None = None,
    seed: int = 0,
) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield pairs of neighbouring tables over a domain, in both orders.

    A quarter of them are random, a quarter nearly empty, in a quarter all records are alike, and in a
    quarter the record that differs has the smallest or largest codes.

    Args:
        domain: the tables' domain.
        relation: which tables are neighbours.
        pairs: how many.
        max_weight: with weights of records up to this bound; None without.
        seed: of the made-up records; they are no noise.

    Example:
        >>> domain = Domain({"a": 3, "b": 2})
        >>> len(list(neighbours(domain, Relation.REPLACE_ONE, pairs=8)))
        8
    """
    relation = Relation.parse(relation)
    generator = random.generator(seed)
    for number in range(_checks.integer("pairs", pairs, low=1)):
        kind = KINDS[number % len(KINDS)]
        columns = _records(domain, kind, max_weight, generator)
        rows = columns.shape[1]
        place = int(generator.integers(rows))
        other = np.delete(columns, place, axis=1)
        if relation is Relation.REPLACE_ONE:
            other = columns.copy()
            other[:, place] = _changed(domain, kind, max_weight, generator)
        pair = _dataset(domain, columns, max_weight), _dataset(domain, other, max_weight)
        yield pair if number % (2 * len(KINDS)) < len(KINDS) else pair[::-1]


def _records(domain: Domain, kind: str, max_weight: int | None, generator: np.random.Generator) -> np.ndarray:
    """Codes and, in the last row where there are weights, weights: int64 [attributes (+ 1), rows]."""
    rows = 2 if kind == "nearly empty" else int(generator.integers(2, _MOST_ROWS))
    limits = [*domain.shape, *([] if max_weight is None else [max_weight + 1])]
    columns = np.stack([generator.integers(0, limit, rows) for limit in limits])
    if kind == "all alike":
        columns[:] = columns[:, :1]
    return columns


def _changed(domain: Domain, kind: str, max_weight: int | None, generator: np.random.Generator) -> np.ndarray:
    limits = np.array([*domain.shape, *([] if max_weight is None else [max_weight + 1])])
    if kind == "extreme":
        return (limits - 1) * generator.integers(0, 2, limits.size)
    return generator.integers(0, limits)


def _dataset(domain: Domain, columns: np.ndarray, max_weight: int | None) -> Dataset:
    codes = dict(zip(domain.attributes, columns, strict=False))
    if max_weight is None:
        return Dataset.from_columns(domain, codes)
    return Dataset.from_columns(domain, codes, weights=columns[-1], max_weight=max_weight)
