"""The number of records that a table's counts leave out, for a share of a run's budget.

Write n(u) for the number of records of a unit u, K for the bound on those that count, c(u) = min(n(u), K),
and M for the largest number of records that a unit is said to have. Three numbers are counted:

- d, the records that were dropped for a value outside the domain, of those within the bound: a sum of terms
  d(u) with 0 <= d(u) <= c(u) <= K. Without a unit of privacy each record is one, and K is 1.
- b, the units with more than K records: a sum of terms 1[n(u) > K].
- r, the records beyond the bound: a sum of terms min(max(n(u) - K, 0), M - K).

Each term depends on the records of its own unit and, by the choice of the K records that count, on a secret
key that neighbours share; a record without an id is a unit of one record, with the terms 0 in b and r.

Under ADD_REMOVE neighbours differ in all records of one unit, so that each sum gains or loses one term: d
changes by at most K, b by at most 1, and r by at most M - K. Without M, a unit may leave out any number of
records, and no noise would do for r: it is not counted. That no unit has more than M records is a statement
of whoever asks. The guarantee does not need it, as terms are cut at M - K; that r is all records beyond the
bound does.

Under REPLACE_ONE the values in the records of one unit change, while n(u) stays as it is for every u. So b
and r are the same for neighbours, whatever M is: their sensitivity is 0, and they are told exactly, at no
cost, as is the number of records that count. Rows cannot be dropped under this relation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.population import BEYOND, OUTSIDE, UNITS, LeftOutCount
from pgmjax.data.relation import Relation, Unit
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import measuring
from pgmjax.privacy import tape as tapes
from pgmjax.privacy.accounting.events import Event
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.exact import as_text, exact_share, shortened, split
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.sensitivity import Sensitivity

_COVERAGE = 0.95


@dataclasses.dataclass(frozen=True)
class CountLeftOut:
    """The part of a run's budget that counting what is left out of its table may cost.

    Args:
        share: of the run's epsilon (of its rho, if it has a delta), exact, 0 < share < 1. Numbers that are
            public, which they are under replace-one, cost nothing.
        largest_unit: with a unit of privacy, a number of records that no unit exceeds, known in public: by
            it the records beyond the bound are counted too. Where it is too small, the guarantee holds all
            the same, but more records may be left out than are counted.

    Raises:
        TypeError: no number.
        ValueError: the share is not within (0, 1), or `largest_unit` is below 2.

    Guarantees:
        A run with a share s is as private as one without: the numbers cost s of its epsilon or rho, in equal
        parts, and what it measures afterwards the rest. The module says why.

    Example:
        >>> CountLeftOut("0.05", largest_unit=40).share
        Fraction(1, 20)
    """

    share: Any
    largest_unit: int | None = None

    def __post_init__(self) -> None:
        checks.set_fields(self, share=exact_share("count_left_out", self.share))
        if self.largest_unit is not None:
            checks.set_integers(self, "largest_unit", low=2)

    @classmethod
    def of(cls, given: Any) -> CountLeftOut | None:
        """Return the settings themselves, those of a share alone, or None for None."""
        return given if given is None or isinstance(given, cls) else cls(given)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for JSON, the share as an exact string."""
        return {"share": as_text(self.share), "largest_unit": self.largest_unit}

    def cost(self, relation: Relation, whole: Fraction) -> Fraction:
        """Return what of a whole budget is kept for counting: nothing where the numbers are public."""
        return whole * self.share if relation is Relation.ADD_REMOVE else Fraction(0)

    def lines(
        self,
        planned: Sequence[PlannedLeftOut],
        relation: Relation,
        budget: Budget,
        backend: NoiseBackend,
    ) -> list[str]:
        """Return what each number costs and what its noise is, in words.

        Args:
            planned: what is counted.
            relation: the neighbouring relation.
            budget: of the run, whole.
            backend: draws the noise.
        """
        whole = self.cost(relation, budget.cap)
        if not whole:
            return [f"  {each.kind}: exactly, at no cost, because it is public" for each in planned]
        found = []
        for each, cost in zip(planned, split(whole, [1] * len(planned)), strict=True):
            _, noise, _ = each.noise(backend, budget.unit, cost, relation)
            found.append(
                f"  {each.kind}: {budget.unit} {shortened(cost)}, noise of standard deviation "
                f"{noise.stddev:,.4g}"
            )
        return found

    def plan(
        self, relation: Relation, unit: Unit | None, *, drops: bool, weighted: bool
    ) -> tuple[PlannedLeftOut, ...]:
        """Return what is counted, from public facts alone.

        Args:
            relation: the neighbouring relation.
            unit: the unit of privacy; None for one record.
            drops: whether records outside the domain are dropped.
            weighted: whether records have weights.

        Raises:
            ValueError: nothing can be left out, records have weights, or `largest_unit` does not fit.
        """
        remedy = "leave count_left_out out. Nothing was spent."
        if weighted:
            raise ValueError(
                "The records have weights, so that what is left out is a weight, which no number of records "
                f"tells: {remedy}"
            )
        if unit is None and not drops:
            raise ValueError(
                "Nothing is left out of this table: no unit of privacy bounds its records and none are "
                f"dropped by rows_outside, so all of them count: {remedy}"
            )
        if drops and relation is Relation.REPLACE_ONE:
            raise ValueError(
                'rows_outside "drop" makes the number of records private, and replace-one makes it public: '
                "take the relation add-remove. Nothing was spent."
            )
        most = self.largest_unit
        if most is not None and (
            unit is None or relation is Relation.REPLACE_ONE or most <= unit.max_records
        ):
            why = (
                "bounds the records of a unit, and there is none"
                if unit is None
                else "is for add-remove; under replace-one the number of each unit's records is public"
                if relation is Relation.REPLACE_ONE
                else f"must be above max_records, {unit.max_records}, got {most}"
            )
            raise ValueError(f"largest_unit {why}: correct it, or leave it out.")
        return _counted(relation, unit, most, drops)


def _counted(
    relation: Relation, unit: Unit | None, most: int | None, drops: bool
) -> tuple[PlannedLeftOut, ...]:
    """Return what is counted, with how far neighbours move it; the module derives that."""
    counted = [PlannedLeftOut(OUTSIDE, 1 if unit is None else unit.max_records)] if drops else []
    if unit is not None and relation is Relation.REPLACE_ONE:
        counted += [PlannedLeftOut(UNITS, 0), PlannedLeftOut(BEYOND, 0)]
    elif unit is not None:
        counted += [PlannedLeftOut(UNITS, 1)]
        counted += [] if most is None else [PlannedLeftOut(BEYOND, most - unit.max_records, most)]
    return tuple(counted)


@dataclasses.dataclass(frozen=True)
class PlannedLeftOut:
    """A number that is counted, with its sensitivity, all public.

    Attributes:
        kind: one of `data.population.KINDS`.
        moved: how far neighbours may move it; 0 if it is public.
        largest_unit: see `CountLeftOut`; of `BEYOND` under ADD_REMOVE.
    """

    kind: str
    moved: int
    largest_unit: int | None = None

    def exact(self, dropped: int, beyond: np.ndarray) -> int:
        """Return the exact number; private.

        Args:
            dropped: the records that were dropped.
            beyond: how many records are beyond the bound, of each unit that has any [units].
        """
        if self.kind == OUTSIDE:
            return dropped
        if self.kind == UNITS:
            return len(beyond)
        return int((beyond if self.largest_unit is None else np.minimum(beyond, self.moved)).sum())

    def noise(
        self, backend: NoiseBackend, unit: str, cost: Fraction, relation: Relation
    ) -> tuple[Sensitivity, DiscreteNoise, Event]:
        """Return the sensitivity, the noise for a cost in "epsilon" or "rho", and the event."""
        norm, value = ("l1", self.moved) if unit == "epsilon" else ("l2_squared", self.moved**2)
        sensitivity = Sensitivity(value, norm, relation)
        return sensitivity, *measuring.noise_for(backend, sensitivity, cost, (self.moved,))


def count_left_out(table: PrivateTable, settings: CountLeftOut, cost: Fraction) -> tuple[LeftOutCount, ...]:
    """Count what is left out of the records that count.

    Args:
        table: the private table.
        settings: what may be counted.
        cost: what it costs in the unit of the table's budget, exact; 0 under REPLACE_ONE.

    Raises:
        ValueError: as `CountLeftOut.plan`; nothing was spent.
        BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
        TableReadError: the table could not be read; the spend stays.

    Guarantees:
        Each number is told with discrete noise for its sensitivity and an equal part of the cost, by Laplace
        noise for an epsilon and Gaussian noise for a rho. The module derives the sensitivities.

    Example:
        >>> import pgmjax as pj
        >>> columns = {"a": [0, 1, 1, 7, 9], "id": ["x", "x", "y", "y", "z"]}
        >>> unit = pj.Unit("id", 1)
        >>> data = pj.Dataset.from_columns(pj.Domain({"a": 2}), columns, rows_outside="drop", unit=unit)
        >>> budget = pj.privacy.Budget(40)
        >>> table = pj.privacy.PrivateTable(data, "add-remove", budget)
        >>> [each.kind for each in count_left_out(table, CountLeftOut("0.5"), budget.cap)]
        ['records outside the domain', 'units beyond the bound']
    """
    drops = table.population.drops
    planned = settings.plan(table.relation, table.unit, drops=drops, weighted=table.weighted)
    if table.relation is Relation.REPLACE_ONE:
        return tuple(LeftOutCount(each.kind, _public(table, each)) for each in planned)
    unit, costs = table.budget.unit, split(cost, [1] * len(planned))
    noises = [
        each.noise(table._backend, unit, part, table.relation)
        for each, part in zip(planned, costs, strict=True)
    ]
    asked = [
        {"kind": each.kind, "largest_unit": each.largest_unit, "noise": noise.noise, "scale": noise.scale}
        for each, (_, noise, _) in zip(planned, noises, strict=True)
    ]
    request = {"left_out": asked}
    events = [event for _, _, event in noises]
    released = table._buy(events, request, lambda: _released(table, planned, noises))
    return tuple(
        LeftOutCount(
            each.kind,
            int(value),
            float(noise.stddev),
            int(noise.half_width(_COVERAGE)),
            noise.noise,
            {unit: as_text(part)},
            each.largest_unit,
        )
        for each, value, (_, noise, _), part in zip(planned, released, noises, costs, strict=True)
    )


def _read(table: PrivateTable) -> tuple[int, np.ndarray]:
    found: tuple[int, np.ndarray] = table._withheld("Reading the table", table._records().left_out)
    return found


def _public(table: PrivateTable, planned: PlannedLeftOut) -> int:
    """Return a number that neighbours have in common."""
    exact = np.array([planned.exact(*_read(table))], dtype=np.int64)
    unmoved = Sensitivity(planned.moved, "l1", table.relation)
    call = tapes.Call("public count", (planned,), None, unmoved, exact)
    return int(table._through_tape(call, lambda: exact)[0])


def _released(
    table: PrivateTable,
    planned: Sequence[PlannedLeftOut],
    noises: Sequence[tuple[Sensitivity, DiscreteNoise, Event]],
) -> np.ndarray:
    """Return the numbers with their noise, all of which is drawn before the table is read."""
    drawn = [
        np.zeros(1, np.int64) if table._replays else measuring.fresh(table._backend, noise, 1)
        for _, noise, _ in noises
    ]
    dropped, beyond = _read(table)
    found = []
    for each, (sensitivity, noise, _), draw in zip(planned, noises, drawn, strict=True):
        exact = np.array([each.exact(dropped, beyond)], dtype=np.int64)
        call = tapes.Call(noise.noise, (each,), noise, sensitivity, exact)
        noisy = measuring.noisy(exact, draw)
        found.append(table._through_tape(call, lambda noisy=noisy: noisy))  # type: ignore[misc]
    return np.concatenate(found)
