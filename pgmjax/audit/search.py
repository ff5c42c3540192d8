"""Neighbours found by search: hill climbing on the privacy loss that the replay reports.

A fixed list of neighbouring tables is seldom the worst. The search begins with random tables, changes a value
of a record, adds or removes a record, or changes the record that differs, and keeps what loses no less. The
loss of a pair is what its calls cost by how far they really moved the exact numbers, in the account's unit:
of a sound mechanism it comes near the claim and never passes it.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax.audit.claims import check_claims, loss
from pgmjax.audit.mechanism import DOMAIN, WORKLOAD, AuditCase, made_up_pair
from pgmjax.audit.replay import check_outcome
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.queries.workload import Workload

_UNITS = 4  # at the start of a walk
_MOST_ROWS = 40
_PATIENCE = 50  # steps without a gain after which the search begins again


@dataclasses.dataclass(frozen=True)
class LargestLoss:
    """The largest privacy loss that a search has found.

    Attributes:
        mechanism: its name.
        relation: which tables were neighbours.
        unit: "epsilon" or "rho": with delta the one of which the smaller share of the claim was lost.
        loss: the largest, in the unit.
        claimed: what the mechanism may spend, in the unit.
        pairs: how many pairs of tables were replayed.
        records: how many records the first table of the worst pair has, None where it is no `Dataset`.
        fault: what was found, None if nothing.
    """

    mechanism: str
    relation: str
    unit: str
    loss: float
    claimed: float
    pairs: int
    records: int | None = None
    fault: str | None = None

    @property
    def passed(self) -> bool:
        """True if nothing was found."""
        return self.fault is None

    def to_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return {**dataclasses.asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        found = f"{self.unit} {self.loss:.6g} of {self.claimed:.6g} claimed, in {self.pairs:,} pairs"
        return f"{self.mechanism}, {self.relation}: {found if self.passed else f'FAILED: {self.fault}'}"


def largest_loss(
    case: AuditCase,
    *,
    seconds: float | None = 2.0,
    pairs: int | None = None,
    max_weight: int | None = None,
    unit: Unit | None = None,
    domain: Domain = DOMAIN,
    workload: Workload = WORKLOAD,
) -> LargestLoss:
    """Search for the pair of neighbouring tables with the largest privacy loss, and for faults on the way.

    Mechanisms with tables of their own (`neighbours`) are shown random pairs of these instead.

    Args:
        case: the mechanism and its claim.
        seconds: no pair is begun after this time; None sets no limit.
        pairs: at most so many; None sets no limit.
        max_weight: records have weights up to this bound; None without.
        unit: the unit of privacy, in all of whose records the tables differ; None for one record.
        domain: of the tables.
        workload: what is asked.

    Raises:
        ValueError: no limit at all.

    Example:
        >>> from pgmjax.mechanisms import Marginals
        >>> found = largest_loss(AuditCase(Marginals, "add-remove"), pairs=5, seconds=None)
        >>> found.passed, found.unit, found.loss <= found.claimed
        (True, 'epsilon', True)
    """
    if seconds is None and pairs is None:
        raise ValueError("A search has no end: give `seconds`, or a number of `pairs`.")
    begun, done = time.monotonic(), 0
    climb = _Climb(case, domain, max_weight, unit)
    best = _Loss("epsilon", -1.0, float(case.epsilon))
    records, fault = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for first, second, keep in climb.pairs():
            out_of_time = seconds is not None and time.monotonic() - begun >= seconds
            if done == pairs or (out_of_time and done):
                break
            try:
                found = _replayed(case, workload, first, second)
            except Exception as error:  # of which a leak is one
                fault = f"{type(error).__name__}: {error}"
                break
            finally:
                done += 1
            keep(found.share)
            if found.share > best.share:
                best, records = found, first.count() if isinstance(first, Dataset) else None
    name, relation = case.mechanism.name, case.relation.value
    return LargestLoss(name, relation, best.unit, max(best.value, 0.0), best.claimed, done, records, fault)


@dataclasses.dataclass(frozen=True)
class _Loss:
    unit: str
    value: float
    claimed: float

    @property
    def share(self) -> float:
        return self.value / self.claimed


def _replayed(case: AuditCase, workload: Workload, first: Any, second: Any) -> _Loss:
    """Return the loss between two tables; a run that is refused on both loses nothing."""
    outcome = check_outcome(lambda data: case.make().run(data, workload), first, second)
    if outcome.error is not None:
        return _Loss("epsilon", 0.0, float(case.epsilon))
    check_claims(outcome.tape.calls, first, case.epsilon, delta=case.delta)
    epsilon, rho = loss(outcome.tape)
    losses = [] if epsilon is None else [_Loss("epsilon", epsilon, float(case.epsilon))]
    if case.delta:
        losses.append(_Loss("rho", rho, float(rho_for(case.epsilon, case.delta))))
    return min(losses, key=lambda each: each.share)


@dataclasses.dataclass
class _Pair:
    """A table as columns [attributes (+ weights), records], and what stands in one place of its neighbour.

    Attributes:
        columns: of the first table.
        place: of the record that differs.
        other: what stands there in the second table; None where it is removed.
    """

    columns: np.ndarray
    place: int
    other: np.ndarray | None


class _Climb:
    """A walk through pairs of tables that keeps to those which lose no less."""

    def __init__(self, case: AuditCase, domain: Domain, max_weight: int | None, unit: Unit | None):
        self._case, self._domain, self._max_weight, self._unit = case, domain, max_weight, unit
        self._generator = random.generator(case.seed)
        weights = [] if max_weight is None else [max_weight + 1]
        self._limits = np.array([*domain.shape, *weights, *([] if unit is None else [_UNITS])])

    def pairs(self) -> Iterator[tuple[Any, Any, Callable[[float], None]]]:
        """Yield tables with a function that takes what they lose, which decides where the walk goes on."""
        if hasattr(self._case.mechanism, "neighbours"):
            for turn in itertools.count(self._case.seed):
                case = dataclasses.replace(self._case, seed=turn)
                yield from ((first, second, lambda _: None) for first, second in case.tables(4))
        while True:
            yield from self._one_walk()

    def _one_walk(self) -> Iterator[tuple[Any, Any, Callable[[float], None]]]:
        here, least, waited = self._start(), -1.0, 0
        pair = here
        while waited < _PATIENCE:
            reported: list[float] = []
            first, second = self._tables(pair)
            if self._generator.integers(2):
                first, second = second, first
            yield first, second, reported.append
            lost = reported[0] if reported else -1.0
            waited = 0 if lost > least else waited + 1
            if lost >= least:
                here, least = pair, lost
            pair = self._changed(here)

    def _record(self) -> np.ndarray:
        return self._generator.integers(0, self._limits)

    def _start(self) -> _Pair:
        rows = int(self._generator.integers(2, _MOST_ROWS // 2))
        columns = np.stack([self._record() for _ in range(rows)], axis=1)
        other = self._record() if self._case.relation is Relation.REPLACE_ONE else None
        return _Pair(columns, int(self._generator.integers(rows)), other)

    def _changed(self, pair: _Pair) -> _Pair:
        """Return a pair that is one step away; every other step is in the record that differs."""
        made, rows = copy.deepcopy(pair), pair.columns.shape[1]
        step = int(self._generator.integers(6))
        if step == 0 and rows < _MOST_ROWS:
            made.columns = np.column_stack([made.columns, self._record()])
        elif step == 1 and rows > 2:
            made.columns = np.delete(made.columns, rows - 1 if made.place != rows - 1 else rows - 2, axis=1)
            made.place = min(made.place, rows - 2)
        elif step == 2:
            self._move(made.columns[:, int(self._generator.integers(rows))])
        elif step == 3 and made.other is not None:
            self._move(made.other)
        else:
            self._move(made.columns[:, made.place])
        return made

    def _move(self, record: np.ndarray) -> None:
        """Change one value of a record in place: to any other, or to the next."""
        attribute = int(self._generator.integers(self._limits.size))
        most = int(self._limits[attribute]) - 1
        near = int(record[attribute]) + (1 if self._generator.integers(2) else -1)
        far = int(self._generator.integers(most + 1))
        record[attribute] = min(max(near, 0), most) if self._generator.integers(2) else far

    def _tables(self, pair: _Pair) -> tuple[Dataset, Dataset]:
        columns, other = pair.columns, pair.other
        mine = np.arange(columns.shape[1]) == pair.place
        if self._unit is not None:
            mine = columns[-1] == columns[-1, pair.place]
            if other is None and mine.all():  # a table has at least one record
                columns = np.column_stack([columns, columns[:, 0]])
                columns[-1, -1] += 1
                mine = np.append(mine, False)
        names, values = columns[-1], slice(None) if self._unit is None else slice(-1)
        changed = None if other is None else other[values]
        return made_up_pair(self._domain, columns[values], mine, changed, self._max_weight, self._unit, names)
