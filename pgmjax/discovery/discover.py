"""Discovery: from a table whose domain is open in part to a domain, for a part of the budget.

In order: the kinds of values of every open column; magnitudes of numbers and dates; sketches of these and,
from them, bins; keys of columns of text. Every step is an event of the budget, and is answered through the
choke point. What is found is public.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import Attribute
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import outside_of_found
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Notation
from pgmjax.data.relation import Relation
from pgmjax.data.value import moment_text
from pgmjax.discovery import probes
from pgmjax.discovery.open_table import OpenTable, key_column
from pgmjax.discovery.sketch import Sketch, choose_bins, sketches
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import Budget, Ledger, PrivateTable, rho_for
from pgmjax.privacy.exact import as_text, exact_share
from pgmjax.privacy.ledger.journal import HeldTable
from pgmjax.privacy.partition import find_keys
from pgmjax.queries import marginal

_STEP_SHARES = {"kinds": Fraction(1, 8), "magnitudes": Fraction(2, 8), "cells": Fraction(5, 8)}
"""The parts of a column's share that its steps cost; what text leaves over goes to its keys."""
_FALSE_ALARM = 1e-6  # probability that any empty cell of a histogram is taken for one with records
_RARE_SHARE = 0.01
MOST_LABELS = 512
_LARGEST_STEPS = 2.0**50
_CALENDAR = {"day": (-719_162, 2_932_896), "second": (-719_162 * 86_400, 2_932_896 * 86_400)}
"""The first and the last day that a date can be, of the years 1 to 9999, from 1970-01-01 on."""


class NothingFound(checks.Error, ValueError):
    """A search of the open columns found nothing that could be measured; its cost is spent."""


@dataclasses.dataclass(frozen=True)
class Discovery:
    """The part of a run's budget that discovery may cost.

    Args:
        share: of the run's epsilon (of its rho, if it has a delta), exact, 0 < share < 1.
        delta_share: of the run's delta for the search of labels, if one is needed.

    Raises:
        TypeError: a share is no number.
        ValueError: a share is not within (0, 1).

    Guarantees:
        A run with a share s and privacy parameters (epsilon, delta) is as private as one without: discovery
        costs s of its epsilon or rho, and labels of text delta_share of its delta, and what is measured
        afterwards the rest.

    Example:
        >>> Discovery("0.1").share
        Fraction(1, 10)
    """

    share: Any = Fraction(1, 10)
    delta_share: Any = Fraction(1, 2)

    def __post_init__(self) -> None:
        for name in ("share", "delta_share"):
            said = (
                "discover, the share of the budget that finds the open columns," if name == "share" else name
            )
            checks.set_fields(self, **{name: exact_share(said, getattr(self, name), "0.1")})

    def to_dict(self) -> dict[str, str]:
        """Return the shares as exact strings."""
        return {"share": as_text(self.share), "delta_share": as_text(self.delta_share)}


@dataclasses.dataclass
class Found:
    """The domain that was found and its price, all of it public.

    Attributes:
        domain: of the columns that are worth their cells, in the table's order.
        left_out: why a column is in no domain, by name.
        notes: how each column was read, by name, in words.
        records: estimated number of records.
        rows_outside: what happens to values that it has no place for: their records are left out ("drop"),
            or, where their number is public, the values count as missing ("missing").
        sketches: of the ordered columns.
        cost: what discovery cost: epsilon or rho, and delta; the events' kinds.
    """

    domain: Domain
    left_out: dict[str, str]
    notes: dict[str, str]
    records: float
    rows_outside: str
    sketches: dict[str, Sketch] = dataclasses.field(default_factory=dict)
    cost: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what was found for JSON."""
        return {
            "domain": self.domain.to_dict(),
            "left_out": self.left_out,
            "notes": self.notes,
            "records": self.records,
            "cost": self.cost,
        }


@dataclasses.dataclass
class _Column:
    """An open column and what is known of it so far."""

    name: str
    shape: str
    share: Fraction
    notation: Notation | None = None
    step: float | None = None
    missing: bool = False
    fine: probes.FineCells | None = None
    attribute: Attribute | None = None
    note: str = ""


def first_look(table: OpenTable) -> Dataset:
    """Return the records of a table by the kinds of their values, or by what is described. Private."""
    described = list(table.draft.closed.values())
    return table.under([probes.kind_probe(name) for name in table.draft.open] or described)


def discover(
    opened: PrivateTable,
    table: OpenTable,
    stddev: float,
    show_progress: bool | None = None,
    look: Dataset | None = None,
) -> Found:
    """Find a domain for the open columns of a table.

    Args:
        opened: the private table, over any of its columns, under the budget of discovery, which is spent as
            far as it is needed.
        table: the same table.
        stddev: the standard deviation of the noise that a count over the domain will have, see
            `stddev_of_use`: finer bins and rarer labels than that are of no use.
        show_progress: None shows a bar in terminals only, False never.
        look: the records as they were opened first; files that changed since then end the search. Default:
            as they are now.

    Returns:
        The domain and what it cost.

    Raises:
        ValueError: a column is to be searched for labels and the budget has no delta, or no column is worth
            its cells.
        BudgetExceeded: the budget does not suffice; nothing of it was spent for the step.
        TableChangedError: the table's files changed during the search.

    Guarantees:
        As `PrivateTable` gives them: all steps together cost at most the budget of `opened`.
    """
    search = _Search(opened, table, stddev, show_progress, first_look(table) if look is None else look)
    search.kinds()
    search.magnitudes()
    search.cells()
    search.keys()
    return search.found()


def stddev_of_use(unit: str, rest: Fraction, columns: int, records_of_unit: int = 1) -> float:
    """Return the standard deviation of a count if as many two-way marginals as columns are measured.

    Args:
        unit: of the budget, "epsilon" or "rho".
        rest: what is left for the measurements.
        columns: number of columns of the domain.
        records_of_unit: the largest number of records of a unit of privacy.
    """
    each = float(rest) / max(2 * columns, 1)
    if unit == "epsilon":
        return 2**0.5 * records_of_unit / each
    return records_of_unit / (2 * each) ** 0.5


class _Search:
    """One discovery: the columns, and the private table that answers."""

    def __init__(
        self,
        opened: PrivateTable,
        table: OpenTable,
        stddev: float,
        show_progress: bool | None,
        look: Dataset,
    ):
        self._opened, self._table, self._stddev, self._show = opened, table, stddev, show_progress
        self._look = look
        open_columns = table.draft.open
        share = opened.budget.remaining / max(len(open_columns), 1)
        self._columns = {name: _Column(name, shape, share) for name, shape in open_columns.items()}
        self._left_out: dict[str, str] = {}
        self._records = 0.0
        self._sketches: dict[str, Sketch] = {}
        self._keeps_all = opened.relation is Relation.REPLACE_ONE
        texts = [name for name, shape in open_columns.items() if shape in ("any", "labels")]
        if opened.budget.delta == 0 and texts:
            raise ValueError(f"{_NO_DELTA} These columns may be text: {', '.join(texts)}.")

    def _measure(
        self, attributes: Sequence[Attribute], part: str, names: Sequence[str]
    ) -> dict[str, LinearMeasurement]:
        """Measure the marginal of every column over an encoding of its own, for a part of its share."""
        if not names:
            return {}
        data = self._table.under(attributes, like=self._look)
        sibling = self._opened.over(data, self._opened.budget)
        costs = [self._columns[name].share * _STEP_SHARES[part] for name in names]
        given: dict[str, Any] = {f"{self._opened.budget.unit}s": costs, "show_progress": self._show}
        answers = sibling.measure([marginal([name]) for name in names], **given)
        return dict(zip(names, answers, strict=True))

    def kinds(self) -> None:
        """Find how the values of each column are read."""
        names = list(self._columns)
        answers = self._measure([probes.kind_probe(name) for name in names], "kinds", names)
        weights = [
            (float(a.values.sum()), a.values.size * float(a.row_stddevs()[0]) ** 2) for a in answers.values()
        ]
        if weights:
            precision = sum(1 / variance for _, variance in weights)
            self._records = max(sum(total / variance for total, variance in weights) / precision, 1.0)
        for name, answer in answers.items():
            _interpret(self._columns[name], answer.values.astype(float), _significant(answer))

    def _ordered(self) -> list[tuple[_Column, Notation]]:
        """Return the columns of numbers or dates that are not given up, and how they are written."""
        return [(c, c.notation) for c in self._columns.values() if c.notation is not None and not c.note]

    def magnitudes(self) -> None:
        """Find between which bounds the numbers of each ordered column lie."""
        ordered = self._ordered()
        attributes = [probes.magnitude_probe(column.name, notation) for column, notation in ordered]
        answers = self._measure(attributes, "magnitudes", [column.name for column, _ in ordered])
        edges = probes.magnitude_edges()
        for column, notation in ordered:
            answer = answers[column.name]
            counts, least = answer.values[:-1].astype(float), _significant(answer)
            there = np.flatnonzero(counts > least)
            if not len(there):
                column.note = "too few of its values are numbers of one size"
                continue
            low, high = float(edges[there[0]]), float(edges[there[-1] + 1])
            column.missing = self._keeps_all or bool(answer.values[-1] > least)
            if notation.time is not None:
                first, last = _CALENDAR[notation.time]  # the edges of magnitudes lie beyond its ends
                low, high = min(max(low, first), last - 1), min(high, last + 1)
            if column.step is not None and max(abs(low), abs(high)) >= _LARGEST_STEPS * column.step:
                column.step = None
            if column.step is not None and high > 0:
                high -= column.step
            if not high > low:
                high = low + (column.step or 1.0)
            column.fine = probes.FineCells.over(low, high, column.step)

    def cells(self) -> None:
        """Find where the numbers of each ordered column lie, and its bins."""
        ordered = self._ordered()
        if not ordered:
            return
        fine = {column.name: column.fine for column, _ in ordered if column.fine is not None}
        probed = [fine[column.name].probe(column.name, notation) for column, notation in ordered]
        data = self._table.under(probed, like=self._look)
        costs = {column.name: column.share * _STEP_SHARES["cells"] for column, _ in ordered}
        self._sketches = sketches(self._opened, data, fine, costs, self._records, self._show)
        for column, notation in ordered:
            sketch, cells = self._sketches[column.name].without_tails(), fine[column.name]
            edges = choose_bins(sketch, cells.is_point, self._records, self._stddev)
            pieces = list(zip(cells.edges(sketch.edges[:-1]), sketch.counts.round().tolist(), strict=True))
            column.attribute = _ordered_attribute(column, notation, cells.edges(edges), pieces)

    def keys(self) -> None:
        """Find the labels of each column of text."""
        columns = [c for c in self._columns.values() if c.notation is None and not c.note]
        budget = self._opened.budget
        for column in columns:
            data, coder = key_column(self._table, column.name, self._look)
            sibling = self._opened.over(data, budget)
            rest = column.share * (1 - _STEP_SHARES["kinds"])
            risk = budget.delta / len(columns)
            keys, missing, other, least = find_keys(sibling, column.name, coder, rho=rest, delta=risk)
            self._label(column, keys, missing, other, least)

    def _label(self, column: _Column, keys: Mapping[str, int], missing: int, other: int, least: int) -> None:
        if not keys:
            self._left_out[column.name] = "no value of it is shared by enough records"
            return
        kept = sorted(keys, key=lambda key: -keys[key])[:MOST_LABELS]
        labels = sorted(kept[: max(1, sum(keys[key] > self._stddev for key in kept))])
        rest = self._records - sum(keys[label] for label in labels) - max(missing, 0)
        significant = least / 2
        spec: dict[str, Any] = {"labels": labels}
        if self._keeps_all or rest > significant or len(labels) < len(keys) or other > significant:
            spec["other"] = True
        if self._keeps_all or missing > significant:
            spec["missing"] = [text for text in probes.MISSING_TEXTS if text and text not in labels]
        column.attribute = Attribute.from_spec(column.name, spec)
        column.note = f"text, {len(labels)} labels, each of at least about {least} records"

    def found(self) -> Found:
        """Return the domain."""
        attributes: dict[str, Attribute] = {}
        notes = {}
        for name in self._table.draft.columns:
            if name in self._table.draft.closed:
                attributes[name] = self._table.draft.closed[name]
                continue
            column = self._columns[name]
            if column.attribute is None:
                self._left_out.setdefault(name, column.note or "it has no values")
                continue
            if not self._table.reads(column.attribute):  # an account would keep what matches nothing
                self._left_out[name] = "what was found in it does not read its values"
                continue
            attributes[name] = column.attribute
            notes[name] = column.note
        budget = self._opened.budget
        if not attributes:
            raise NothingFound(
                "No column has values that enough records share, so that there is nothing to measure. Of "
                f"the budget only {budget.unit} {as_text(budget.spent)} is spent, for discovery. The same "
                "run finds the same again: describe columns by hand, or begin another with a larger share "
                "for discovery."
            )
        kinds = [event.kind for event in budget.events]
        cost = {
            budget.unit: as_text(budget.spent),
            "delta": as_text(sum((event.delta for event in budget.events), Fraction(0))),
            "events": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        }
        outside = outside_of_found(self._opened.relation)
        return Found(Domain(attributes), self._left_out, notes, self._records, outside, self._sketches, cost)


_NO_DELTA = (
    "Labels of text cannot be found without a delta, as the absence of a rare label would tell: give a "
    "delta such as 1e-6 (--delta 1e-6, or delta=1e-6 where the Synthesizer or mechanism is made), or say "
    "in a domain what the columns are, {bins: discover} for numbers (a frame "
    "does not say it: its types follow from its values). Nothing was spent."
)


def _significant(answer: LinearMeasurement) -> float:
    """Return the count that noise alone exceeds in no cell, but for a probability of 1 in a million."""
    assert isinstance(answer.distribution, DiscreteNoise)
    return float(answer.distribution.radius(_FALSE_ALARM / answer.values.size))


def _interpret(column: _Column, counts: np.ndarray, significant: float) -> None:
    """Decide from the noisy counts of kinds how a column is read."""
    sums = {
        "dot": counts[probes.WHOLE : probes.COMMA].sum(),
        "comma": counts[probes.COMMA : probes.DATE].sum(),
        "iso": counts[probes.DATE : probes.TIME + 1].sum(),
        "day.month.year": counts[probes.DAY_DOT],
        "slashes": counts[probes.DAY_FIRST : probes.EITHER + 1].sum(),
        "year/month/day": counts[probes.YEAR_SLASH],
        "text": counts[probes.TEXT],
    }
    possible = {"bins": ("dot", "comma"), "labels": ("text",), "dates": tuple(sums)[2:6]}.get(
        column.shape, (*sums,)
    )
    sums = {name: sums[name] for name in possible}
    best = max(sums, key=lambda name: sums[name])
    if best == "text":
        return
    if best in ("dot", "comma"):
        fractions = counts[probes.WHOLE + 1 : probes.THOUSANDS].sum()
        if sums.get("comma", 0.0) > max(2 * significant, fractions):  # whole numbers have no comma
            best = "comma"
        grouped = counts[probes.THOUSANDS] > significant
        decimal, thousands = (",", ".") if best == "comma" else (".", "," if grouped else "")
        column.notation = Notation(decimal=decimal, thousands=thousands)
        column.step = _step(counts, best, significant)
        return
    form = best
    if best == "slashes":
        first, second = counts[probes.DAY_FIRST], counts[probes.MONTH_FIRST]
        form = "day/month/year" if first >= second else "month/day/year"
    time = "second" if best == "iso" and counts[probes.TIME] > significant else "day"
    column.notation, column.step = Notation(time=time, format=probes.FORMATS[form]), 1


def _step(counts: np.ndarray, style: str, significant: float) -> float | None:
    """Return the grid of numbers: the coarsest that all but a rare part of them are on; None for reals."""
    start, number = (probes.WHOLE, 5) if style == "dot" else (probes.COMMA, 4)
    by_decimals = np.array(counts[start : start + number])
    by_decimals[0] += counts[probes.THOUSANDS] if style == "dot" else counts[probes.WHOLE]
    total = max(float(by_decimals.sum()), 1.0)
    for decimals in range(number - 1):
        beyond = float(by_decimals[decimals + 1 :].sum())
        if beyond <= max(2 * significant, _RARE_SHARE * total):  # a sum of several noisy counts
            return [1, 0.1, 0.01, 0.001][decimals]
    return None


def _within_calendar(
    edges: list[float], pieces: list[tuple[float, float]], first: int, last: int
) -> tuple[list[float], list[tuple[float, float]]]:
    """Move edges [bins + 1] that no date can have to the ends of the calendar, and join the pieces there."""
    inside = sorted({min(max(edge, first), last) for edge in edges})
    shares: dict[float, float] = {}
    for start, share in pieces:
        place = min(max(start, first), inside[-1] - 1)
        shares[place] = shares.get(place, 0) + share
    return inside, list(shares.items())


def _ordered_attribute(
    column: _Column, notation: Notation, edges: list[float], pieces: list[tuple[float, float]]
) -> Attribute:
    spec: dict[str, Any]
    if notation.time is not None:
        edges, pieces = _within_calendar(edges, pieces, *_CALENDAR[notation.time])
        spec = {"dates": [moment_text(edge, notation.time) for edge in edges], "format": notation.format}
        column.note = f"dates, {len(edges) - 1} cells"
    else:
        decimal = notation.decimal if notation.decimal != "." else ""
        spec = {"bins": edges, "grid": column.step, "decimal": decimal, "thousands": notation.thousands}
        on = "real numbers" if column.step is None else f"numbers on a grid of {column.step:g}"
        column.note = f"{on}, {len(edges) - 1} bins"
    has_shares = sum(share for _, share in pieces) > 0
    markers = [text for text in probes.MISSING_TEXTS if text and column.missing]
    spec |= {"clip": True, "within": pieces if has_shares else None, "missing": markers}
    return Attribute.from_spec(column.name, {key: value for key, value in spec.items() if value})


@dataclasses.dataclass(frozen=True)
class DiscoveryRun:
    """The discovery of an open table's domain by a run that goes on with the rest of its budget.

    Attributes:
        table: the table, as its holder defined it if a ledger knows it.
        settings: what discovery may cost.
        look: the records as they were opened first.
        held: the table as it was found in the ledger, or None.
    """

    table: OpenTable
    settings: Discovery
    look: Dataset
    held: HeldTable | None = None

    @classmethod
    def of(cls, table: OpenTable, settings: Discovery, ledger: Ledger | None) -> DiscoveryRun:
        """Open the table for a run, and find its place in the ledger. Nothing is spent.

        Raises:
            ValueError: the ledger has no account for the table, or its holder defined it otherwise.
        """
        if ledger is None:
            return cls(table, settings, first_look(table))
        first = first_look(table)
        held = HeldTable.open(ledger, first)
        if held.account.open is not None:
            table = table.held_as(held.account.open)
        look = first_look(table).as_old_as(first)
        return cls(table, settings, look, dataclasses.replace(held, data=look))

    def budget(self, epsilon: Any, delta: Any) -> Budget:
        """Return the budget of discovery and run together: of delta, a share is kept for labels of text."""
        if delta == 0:
            return Budget(epsilon)
        risk = delta * self.settings.delta_share if self.table.draft.may_have_labels else 0
        return Budget(rho_for(epsilon, delta - risk), unit="rho", delta=risk or None)

    def describe(self) -> dict[str, Any]:
        """Return the public request for the ledger: it identifies what is discovered."""
        unit = self.table.unit
        return {
            "draft": self.table.draft.to_dict(),
            "discover": self.settings.to_dict(),
            "columns": self.look.layout,
            **({} if unit is None else {"unit": unit.to_dict()}),
        }

    def find(
        self,
        opened: PrivateTable,
        ledger: Ledger | None,
        show_progress: bool | None,
        kept: Fraction = Fraction(0),
    ) -> tuple[Found, PrivateTable]:
        """Find the domain, and return it with the table over it under the rest of the budget.

        Args:
            opened: the private table under the budget of discovery and run together.
            ledger: remembers the domain, if there is one.
            show_progress: None shows a bar in terminals only, False never.
            kept: what of the rest goes to something else than measuring over the domain.

        Raises:
            ValueError, BudgetExceeded, TableChangedError: as `discover`.
        """
        whole, spends = opened.budget, opened.budget.cap * self.settings.share
        columns = len(self.table.draft.columns)
        stddev = stddev_of_use(whole.unit, whole.cap - spends - kept, columns, opened.max_records)
        part = opened.over(self.look, whole.part(spends, delta=whole.delta or None))
        found = discover(part, self.table, stddev, show_progress, self.look)
        receipt = opened.receipt()
        if ledger is not None and receipt is not None:
            ledger.set_discovered(receipt["account"], receipt["charge"], found.domain)
        attributes = [found.domain.attribute(name) for name in found.domain]
        data = self.table.under(attributes, found.rows_outside, like=self.look)
        return found, opened.over(data, whole.part(whole.remaining))
