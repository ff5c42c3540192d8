"""Made-up neighbouring tables over a domain, to audit on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit

KINDS = ("random", "nearly empty", "all alike", "extreme")
_SIZES = 28
_STRIDES = (11, 7)  # prime to the number of sizes: small numbers of pairs have sizes far apart


def neighbours(
    domain: Domain,
    relation: Relation | str,
    *,
    pairs: int = 60,
    max_weight: int | None = None,
    unit: Unit | None = None,
    seed: int = 0,
) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield pairs of neighbouring tables over a domain, in both orders.

    A quarter of the pairs are random, a quarter nearly empty, and in a quarter all records are alike. In the
    last quarter, the differing record has the smallest or largest code of each attribute and, on one table,
    the largest weight; if it is replaced, then by the opposite codes. The number of records goes through 2
    to 29, so that some pair straddles any threshold on it.

    Args:
        domain: the tables' domain.
        relation: the neighbouring relation.
        pairs: number of pairs.
        max_weight: bound on the records' weights; None for no weights.
        unit: the unit of privacy, of whose records there are a third as many units; the tables differ in all
            records of one. None: in one record.
        seed: seed of the made-up records, not of noise.

    Example:
        >>> domain = Domain({"a": 3, "b": 2})
        >>> len(list(neighbours(domain, Relation.REPLACE_ONE, pairs=8)))
        8
    """
    relation = Relation.parse(relation)
    generator = random.generator(seed)
    for number in range(checks.integer("pairs", pairs, low=1)):
        kind = KINDS[number % len(KINDS)]
        columns = _records(domain, number, max_weight, generator)
        rows = columns.shape[1]
        place = int(generator.integers(rows))
        names = np.arange(rows) if unit is None else _names(rows, place, generator)
        mine = names == names[place]
        if kind == "extreme":
            columns[:, mine] = _extreme(domain, max_weight, generator)[:, None]
        other = columns[:, ~mine]
        if relation is Relation.REPLACE_ONE:
            other = columns.copy()
            other[:, mine] = _changed(columns[:, place], domain, kind, max_weight, generator)[:, None]
        left = names[~mine] if relation is Relation.ADD_REMOVE else names
        pair = (
            made_up(domain, columns, max_weight, unit, names),
            made_up(domain, other, max_weight, unit, left),
        )
        yield pair if number % (2 * len(KINDS)) < len(KINDS) else pair[::-1]


def _limits(domain: Domain, max_weight: int | None) -> np.ndarray:
    return np.array([*domain.shape, *([] if max_weight is None else [max_weight + 1])])


def _records(
    domain: Domain, number: int, max_weight: int | None, generator: np.random.Generator
) -> np.ndarray:
    """Return codes and, if weighted, weights in the last row: int64 [attributes (+ 1), rows]."""
    turn, place = divmod(number, len(KINDS))
    kind = KINDS[place]
    rows = 2 if kind == "nearly empty" else 2 + (_STRIDES[0] * turn + _STRIDES[1] * place) % _SIZES
    columns = np.stack([generator.integers(0, limit, rows) for limit in _limits(domain, max_weight)])
    if kind == "all alike":
        columns[:] = columns[:, :1]
    return columns


def _extreme(domain: Domain, max_weight: int | None, generator: np.random.Generator) -> np.ndarray:
    """Return the smallest or largest code of each attribute, with the largest weight."""
    limits = _limits(domain, max_weight)
    record = (limits - 1) * generator.integers(0, 2, limits.size)
    if max_weight is not None:
        record[-1] = max_weight
    return record


def _changed(
    record: np.ndarray, domain: Domain, kind: str, max_weight: int | None, generator: np.random.Generator
) -> np.ndarray:
    limits = _limits(domain, max_weight)
    if kind != "extreme":
        return generator.integers(0, limits)
    changed = limits - 1 - record
    if max_weight is not None:
        changed[-1] = max_weight * generator.integers(0, 2)
    return changed


def _names(rows: int, place: int, generator: np.random.Generator) -> np.ndarray:
    """Return whose each record is, int64 [rows]; not all are of the unit of the record at `place`."""
    names = generator.integers(0, max(2, rows // 3), rows)
    names[(place + 1) % rows] = names[place] + 1
    return names


def made_up(
    domain: Domain,
    columns: np.ndarray,
    max_weight: int | None = None,
    unit: Unit | None = None,
    names: np.ndarray | None = None,
) -> Dataset:
    """Return a table of codes and, if weighted, weights in the last row: int64 [attributes (+ 1), rows].

    Args:
        domain: the domain.
        columns: codes, and weights.
        max_weight: bound on the weights; None for none.
        unit: the unit of privacy; None for one record.
        names: what names the unit of each record [rows].
    """
    codes = dict(zip(domain.attributes, columns, strict=False))
    if unit is not None:
        assert names is not None
        codes[unit.column] = names
    if max_weight is None:
        return Dataset.from_columns(domain, codes, unit=unit)
    return Dataset.from_columns(domain, codes, weights=columns[-1], max_weight=max_weight, unit=unit)
