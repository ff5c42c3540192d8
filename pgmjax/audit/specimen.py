"""The specimen: a minimal mechanism with every step of an adaptive one, to audit and to break.

It is MWEM without its estimation: choose the marginal with the worst estimate, measure it, repeat. Mutants
change its steps one at a time. `neighbours` makes pairs of neighbouring tables to audit on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.data.unit import Unit
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.base import PrivacyParameters
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Distances
from pgmjax.queries import marginal
from pgmjax.queries.workload import Workload

KINDS = ("random", "nearly empty", "all alike", "extreme")
_SIZES = 28
_STRIDES = (11, 7)  # prime to the number of sizes: small numbers of pairs have sizes far apart


@dataclasses.dataclass(frozen=True, eq=False)
class SpecimenResult:
    """The result of the specimen.

    Attributes:
        estimates: table of counts for each clique, int64.
        chosen: the cliques in the order of measurement.
        total: the estimated number of records.
        measurements: the noisy answers.
        remarks: further public information about the run.
    """

    estimates: dict[Clique, np.ndarray]
    chosen: tuple[Clique, ...]
    total: int
    measurements: tuple[LinearMeasurement, ...]
    remarks: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class SelectAndMeasure(PrivacyParameters):
    """Choose the marginal that is farthest from its estimate, measure it, and repeat.

    Args:
        rounds: number of marginals to measure.

    Guarantees:
        As for `mechanisms.Marginals`; half of the budget goes to choices, half to measurements.

    References:
        Hardt, Ligett and McSherry 2012, Algorithm 1, without its update of the estimate.
    """

    rounds: int = 2

    name: ClassVar[str] = "select-and-measure"

    def run(self, data: Dataset, workload: Workload) -> SpecimenResult:
        """Measure some marginals of the workload's cliques."""
        table = PrivateTable(data, self.relation, self.budget(), self.backend)
        cliques = [entry.query.clique for entry in workload.entries]
        estimates = {c: np.zeros(table.domain.shape_of(c), dtype=np.int64) for c in cliques}
        measured: list[LinearMeasurement] = []
        parts = table.budget.split([1] * (2 * self.rounds))
        for first, second in zip(parts[::2], parts[1::2], strict=True):
            if self._finished(table, estimates):
                break
            clique = self._choose(table, estimates, first)
            measured.append(self._measure(table, clique, second))
            estimates[clique] = measured[-1].values.reshape(table.domain.shape_of(clique))
        chosen = tuple(each.clique for each in measured)
        total = self._total(table, estimates, chosen)
        return SpecimenResult(estimates, chosen, total, tuple(measured), self._remarks(table, estimates))

    def _finished(self, table: PrivateTable, estimates: dict[Clique, np.ndarray]) -> bool:
        return False

    def _choose(self, table: PrivateTable, estimates: dict[Clique, np.ndarray], cost: Any) -> Clique:
        cliques = list(estimates)
        score = Distances([(marginal(clique), estimates[clique], 1, 0) for clique in cliques])
        unit = "epsilon" if self.delta == 0 else "rho"
        return cliques[table.select(score, **{unit: cost})]

    def _measure(self, table: PrivateTable, clique: Clique, cost: Any) -> LinearMeasurement:
        unit = "epsilons" if self.delta == 0 else "rhos"
        return table.measure([marginal(clique)], **{unit: [cost]}, show_progress=False)[0]

    def _total(
        self, table: PrivateTable, estimates: dict[Clique, np.ndarray], chosen: tuple[Clique, ...]
    ) -> int:
        public = table.public_total()
        if public is not None:
            return public
        return int(estimates[chosen[0]].sum()) if chosen else 0

    def _remarks(self, table: PrivateTable, estimates: dict[Clique, np.ndarray]) -> tuple[Any, ...]:
        return ()


def neighbours(
    domain: Domain,
    relation: Relation | str,
    *,
    pairs: int = 60,
    max_weight: int | None = None,
    seed: int = 0,
    unit: Unit | None = None,
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
        seed: seed of the made-up records, not of noise.
        unit: the unit of privacy: neighbours differ in all records of one, which has fewer, as many or more
            than count; other units have too. None: in one record.

    Example:
        >>> domain = Domain({"a": 3, "b": 2})
        >>> len(list(neighbours(domain, Relation.REPLACE_ONE, pairs=8)))
        8
    """
    relation = Relation.parse(relation)
    generator = random.generator(seed)
    for number in range(checks.integer("pairs", pairs, low=1)):
        if unit is not None:
            pair = _pair_of_units(domain, relation, number, max_weight, generator, unit)
            yield pair if number % (2 * len(KINDS)) < len(KINDS) else pair[::-1]
            continue
        kind = KINDS[number % len(KINDS)]
        columns = _records(domain, number, max_weight, generator)
        rows = columns.shape[1]
        place = int(generator.integers(rows))
        if kind == "extreme":
            columns[:, place] = _extreme(domain, max_weight, generator)
        other = np.delete(columns, place, axis=1)
        if relation is Relation.REPLACE_ONE:
            other = columns.copy()
            other[:, place] = _changed(columns[:, place], domain, kind, max_weight, generator)
        pair = _dataset(domain, columns, None, max_weight), _dataset(domain, other, None, max_weight)
        yield pair if number % (2 * len(KINDS)) < len(KINDS) else pair[::-1]


def _pair_of_units(
    domain: Domain,
    relation: Relation,
    number: int,
    max_weight: int | None,
    generator: np.random.Generator,
    unit: Unit,
) -> tuple[Dataset, Dataset]:
    """Return tables that differ in all records of unit 0, which lie anywhere among the others'."""
    turn, place = divmod(number, len(KINDS))
    kind, most = KINDS[place], unit.max_records
    others = _records(domain, number, max_weight, generator)
    size = (most + 1, 3 * most + 1, 1, most)[turn % 4]
    mine = np.stack([_record(others, domain, kind, max_weight, generator) for _ in range(size)], axis=1)
    at = np.sort(generator.choice(others.shape[1] + size, size, replace=False))
    columns = np.empty((len(others), others.shape[1] + size), dtype=np.int64)
    whose = np.zeros(columns.shape[1], dtype=np.int64)
    rest = np.setdiff1d(np.arange(columns.shape[1]), at)
    columns[:, at], columns[:, rest] = mine, others
    whose[rest] = generator.integers(1, 2 + others.shape[1] // (2 * most), len(rest))
    other, theirs = columns[:, rest], whose[rest]
    if relation is Relation.REPLACE_ONE:
        other, theirs = columns.copy(), whose
        changed = [_changed(record, domain, kind, max_weight, generator) for record in mine.T]
        other[:, at] = np.stack(changed[:1] * size if kind == "all alike" else changed, axis=1)
    return (
        _dataset(domain, columns, whose, max_weight, unit),
        _dataset(domain, other, theirs, max_weight, unit),
    )


def _record(
    others: np.ndarray, domain: Domain, kind: str, max_weight: int | None, generator: np.random.Generator
) -> np.ndarray:
    if kind == "extreme":
        return _extreme(domain, max_weight, generator)
    return others[:, 0] if kind == "all alike" else generator.integers(0, _limits(domain, max_weight))


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


def _dataset(
    domain: Domain,
    columns: np.ndarray,
    whose: np.ndarray | None,
    max_weight: int | None,
    unit: Unit | None = None,
) -> Dataset:
    codes = dict(zip(domain.attributes, columns, strict=False))
    if unit is not None and whose is not None:
        codes[unit.column] = whose
    if max_weight is None:
        return Dataset.from_columns(domain, codes, unit=unit)
    return Dataset.from_columns(domain, codes, weights=columns[-1], max_weight=max_weight, unit=unit)
