"""The population that counts are about: which records of a table count, and what a cell counts with its own.

It follows from what was said in public before any record was read: the unit of privacy and its bound, what
happens to values outside the domain, the bound on weights, the domain. Whether a record really was left out
is private, so nothing here depends on the records, but for noisy numbers of what is left out that a run has
measured (`left_out`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Unit

_SHOWN = 3  # cells named in a sentence; release.json lists all
OUTSIDE, UNITS, BEYOND = KINDS = ("records outside the domain", "units beyond the bound", "records beyond it")
"""What is counted: records dropped for a value, of those within the bound of their unit; units with more
records than their bound; and the records that they have beyond it."""

_BELOW = {"numbers": "all smaller values", "dates": "all earlier values", "codes": "all smaller codes"}
_ABOVE = {"numbers": "all larger values", "dates": "all later values", "codes": "all larger codes"}


@dataclasses.dataclass(frozen=True)
class MergedCell:
    """A cell that counts other values with its own.

    Attributes:
        attribute: the name of the attribute.
        code: the cell's code; None for all cells of the attribute.
        also: the other values, such as "all smaller values".
        cell: the cell's name; "" for all cells.
    """

    attribute: str
    code: int | None
    also: str
    cell: str = ""


@dataclasses.dataclass(frozen=True)
class LeftOutCount:
    """A number of records or units that are left out of all counts.

    Attributes:
        kind: one of `KINDS`.
        value: the number, with noise.
        stddev: of the noise; 0 if the number is public.
        half_width: of its 95 % interval.
        noise: the family of the noise; None if the number is public.
        cost: what it cost, as exact texts.
        largest_unit: of `BEYOND`, the number of records from which on those of a unit are not counted; None
            where all are.

    Example:
        >>> some = LeftOutCount(OUTSIDE, 37, 2.8, 6, "laplace", {"epsilon": "0.5"})
        >>> some.interval, some.sentence(None)
        ((31, 43), '37 records with a value outside the domain (95 % interval 31 to 43)')
    """

    kind: str
    value: int
    stddev: float = 0.0
    half_width: int = 0
    noise: str | None = None
    cost: Mapping[str, str] = dataclasses.field(default_factory=dict)
    largest_unit: int | None = None

    @property
    def interval(self) -> tuple[int, int]:
        """The ends of the 95 % interval, as of a count: from 0 on, to half a width above 0 at least."""
        return max(self.value - self.half_width, 0), max(self.value, 0) + self.half_width

    def sentence(self, unit: Unit | None) -> str:
        """Return the number in words, with its interval.

        Args:
            unit: the unit of privacy; None for one record.
        """
        number = max(self.value, 0)
        one, bound = ("", 0) if unit is None else (unit.column, unit.max_records)
        said = {
            OUTSIDE: f"{number:,} records with a value outside the domain",
            UNITS: f"{number:,} values of {one} with more than {_records(bound)}",
            BEYOND: f"{number:,} records beyond the {bound:,} of each {one} that count",
        }[self.kind]
        if self.largest_unit is not None:
            said += f", where no {one} has more than {_records(self.largest_unit)}"
        low, high = self.interval
        return f"{said} (95 % interval {low:,} to {high:,})" if self.noise else f"{said} (exactly)"

    def to_dict(self) -> dict[str, Any]:
        """Return the number for JSON, with the ends of its interval; `from_dict` reads it back."""
        return {**dataclasses.asdict(self), "cost": dict(self.cost), "interval": list(self.interval)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> LeftOutCount:
        """Return the number that `to_dict` wrote."""
        return cls(**{field.name: record[field.name] for field in dataclasses.fields(cls)})


@dataclasses.dataclass(frozen=True)
class Population:
    """The records that counts are about.

    Attributes:
        unit: the unit of privacy, of whose records a bounded number count; None: every record counts.
        drops: whether records with a value outside the domain are left out.
        discovered: whether the domain was found in the table, at a cost.
        max_weight: the bound on a record's weight; None if records have no weights.
        caps_weights: whether weights beyond the bound count as the bound; otherwise there is none such.
        merged: the cells that count other values with their own.
        left_out: how much is left out, as far as it was measured.

    Example:
        >>> some = Population(unit=Unit("person_id", 4), drops=True)
        >>> some.phrase, some.is_whole
        ('the records inside the domain, among at most 4 records of each person_id', False)
        >>> str(Population()), Population().is_whole
        ('all records of the table', True)
    """

    unit: Unit | None = None
    drops: bool = False
    discovered: bool = False
    max_weight: int | None = None
    caps_weights: bool = False
    merged: tuple[MergedCell, ...] = ()
    left_out: tuple[LeftOutCount, ...] = ()

    @classmethod
    def of_table(
        cls,
        domain: Domain,
        rows_outside: str | None,
        max_weight: int | None = None,
        *,
        coded: bool = False,
    ) -> Population:
        """Return the population of a table as it is read.

        Args:
            domain: the domain by which its values get their codes.
            rows_outside: what happens to values outside the domain; see `data.definition.TableDefinition`.
            max_weight: the bound on a record's weight; None without weights.
            coded: whether the table holds codes already.
        """
        merged = [cell for name in domain for cell in _merged(domain.attribute(name), rows_outside, coded)]
        caps = max_weight is not None and rows_outside == "clip"
        return cls(
            drops=rows_outside == "drop", max_weight=max_weight, caps_weights=caps, merged=tuple(merged)
        )

    def recoded(self, tables: Mapping[str, np.ndarray], weighted: bool = True) -> Population:
        """Return the population of the same records in other codes.

        Args:
            tables: the new code of each code [size], for some of the attributes.
            weighted: whether weights, if there are some, still count.
        """
        merged = tuple(
            cell
            if cell.code is None or cell.attribute not in tables
            else dataclasses.replace(cell, code=int(tables[cell.attribute][cell.code]))
            for cell in self.merged
        )
        most, caps = (self.max_weight, self.caps_weights) if weighted else (None, False)
        return dataclasses.replace(self, merged=merged, max_weight=most, caps_weights=caps)

    def over(self, domain: Domain) -> Population:
        """Return the population with the cells of a domain, by name, and those that its entries merge."""
        own = self.of_table(domain, None).merged
        cells = dict.fromkeys((*self.merged, *own))
        attributes = {cell.attribute for cell in cells} & {*domain}
        names = {name: domain.attribute(name).code_names() for name in attributes}
        named = [
            dataclasses.replace(cell, cell="" if cell.code is None else names[cell.attribute][cell.code])
            for cell in cells
            if cell.attribute in names
        ]
        return dataclasses.replace(self, merged=tuple(dict.fromkeys(named)))

    @property
    def is_whole(self) -> bool:
        """True if every record of the table counts, with its whole weight."""
        return not (self.unit is not None or self.drops or self.caps_weights)

    @property
    def omitted(self) -> tuple[float, float, bool] | None:
        """The number of records that are left out in all, its variance, whether its noise is Laplace.

        None if that was not measured, or not of all that may be left out: of the records beyond the bound of
        a unit it takes a public bound on those that a unit has (`CountLeftOut.largest_unit`).
        """
        wanted = {*([OUTSIDE] if self.drops else ()), *([BEYOND] if self.unit is not None else ())}
        parts = [each for each in self.left_out if each.kind in wanted]
        if not parts or self.caps_weights or {each.kind for each in parts} != wanted:
            return None
        laplace = any(each.noise == "laplace" for each in parts)
        return sum(each.value for each in parts), sum(each.stddev**2 for each in parts), laplace

    @property
    def phrase(self) -> str:
        """The population as a noun phrase."""
        bounded = ""
        if self.unit is not None:
            bounded = f"at most {_records(self.unit.max_records)} of each {self.unit.column}"
        if self.drops:
            found = " that was found" if self.discovered else ""
            records = f"the records inside the domain{found}{f', among {bounded}' if bounded else ''}"
        else:
            records = bounded or "all records of the table"
        if self.max_weight is None:
            return records
        capped = f", at most {self.max_weight:,} a record," if self.caps_weights else ""
        return f"the total weight{capped} of {records}"

    def sentences(self) -> Iterator[str]:
        """Yield what is to be said of the population: whose counts these are, and what may be left out."""
        yield f"All counts and shares are of {self.phrase}."
        if self.unit is not None:
            column, most = self.unit.column, self.unit.max_records
            one = f"{most} of them count" if most > 1 else "one of them counts"
            yield (
                f"Where one {column} has more than {_records(most)}, {one}, chosen at random. "
                f"Records whose {column} is missing all count."
            )
        if self.drops:
            rare = ", such as a rare label" if self.discovered else ""
            heavy = "" if self.max_weight is None else f", or with a weight above {self.max_weight:,},"
            heavy = heavy or "," * bool(rare)
            yield f"A record with a value that is not in the domain{rare}{heavy} is left out."
        if self.caps_weights:
            yield f"A weight above {self.max_weight:,} counts as {self.max_weight:,}, one below 0 as 0."
        if not self.is_whole:
            unknown = "" if self.left_out else ", and nothing here tells whether they are"
            yield (
                f"So counts may be smaller than those of the whole table{unknown}. Shares are shares of the "
                "records that count."
            )
        yield from self.of_left_out()
        yield from self._of_merged()

    def of_left_out(self) -> Iterator[str]:
        """Yield what was counted of what is left out, and what follows for the whole table."""
        if not self.left_out:
            return
        noisy = ", counted with noise" if any(each.noise for each in self.left_out) else ""
        yield f"Left out are{noisy}: {'; '.join(each.sentence(self.unit) for each in self.left_out)}."
        if self.omitted is not None:
            yield "A count of the whole table is at least the one here, and at most these records above it."
        elif self.unit is not None:
            one, bound = self.unit.column, _records(self.unit.max_records)
            yield (
                f"How many records these have beyond {bound} is not known, so that nothing here bounds a "
                f"count of the whole table from above: that takes a number of records that no {one} exceeds."
            )

    def _of_merged(self) -> Iterator[str]:
        groups: dict[str, list[MergedCell]] = {}
        for cell in self.merged:
            groups.setdefault(cell.also, []).append(cell)
        for also, cells in groups.items():
            named = [
                f"{cell.cell!r} of {cell.attribute}" if cell.cell else f"Every cell of {cell.attribute}"
                for cell in cells[:_SHOWN]
            ]
            more = f" and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else ""
            plural = "count" if len(cells) > 1 else "counts"
            yield f"{', '.join(named)}{more} {plural} {also} too."

    def of_cells(self, codes: Mapping[str, Iterable[int]]) -> Population:
        """Return the population with those merged cells alone that an answer is about.

        Args:
            codes: the codes that it counts, for each attribute of the question.
        """
        wanted = {name: set(map(int, counted)) for name, counted in codes.items()}
        kept = [
            cell
            for cell in self.merged
            if cell.attribute in wanted and (cell.code is None or cell.code in wanted[cell.attribute])
        ]
        return dataclasses.replace(self, merged=tuple(kept))

    def beyond(self, name: str, codes: Iterable[int]) -> str:
        """Return what is to be said of numbers beyond an attribute's ends, if some of its codes count them.

        Args:
            name: the attribute.
            codes: those of its codes that an answer is about.

        Returns:
            A sentence; "" if every number lies in the cell that counts it.
        """
        ends_of = dict.fromkeys(_BELOW.values(), "first") | dict.fromkeys(_ABOVE.values(), "last")
        also = (cell.also for cell in self.of_cells({name: codes}).merged)
        found = list(dict.fromkeys(each for each in also if each in ends_of))
        if not found:
            return ""
        ends = " and ".join(ends_of[each] for each in found)
        values, cells = " and ".join(found).capitalize(), "cells" if len(found) > 1 else "cell"
        return (
            f"{values} of {name} count as if they lay in its {ends} {cells}, and nothing bounds their mean."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the population for JSON, with its words; `from_dict` reads it back."""
        words = {"phrase": self.phrase, "whole_table": self.is_whole, "sentences": [*self.sentences()]}
        return {**words, **self.facts()}

    def facts(self) -> dict[str, Any]:
        """Return the population for JSON without its words; `from_dict` reads it back."""
        return {
            "unit": None if self.unit is None else self.unit.to_dict(),
            "drops": self.drops,
            "discovered": self.discovered,
            "max_weight": self.max_weight,
            "caps_weights": self.caps_weights,
            "merged": [dataclasses.asdict(cell) for cell in self.merged],
            **({"left_out": [each.to_dict() for each in self.left_out]} if self.left_out else {}),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Population:
        """Return the population that `to_dict` or `facts` wrote."""
        names = ("drops", "discovered", "max_weight", "caps_weights")
        merged = tuple(MergedCell(**cell) for cell in record["merged"])
        left_out = tuple(map(LeftOutCount.from_dict, record.get("left_out", ())))
        known = {name: record[name] for name in names}
        return cls(Unit.from_dict(record["unit"]), **known, merged=merged, left_out=left_out)

    def __str__(self) -> str:
        return self.phrase


WHOLE = Population()
"""All records of a table."""


def _records(number: int) -> str:
    return f"{number:,} record{'s' * (number != 1)}"


def _merged(attribute: Attribute, rows_outside: str | None, coded: bool) -> Iterator[MergedCell]:
    """Yield the cells of an attribute that count other values with their own, as its values are read."""
    name, clips = attribute.name, rows_outside == "clip"
    regular = attribute.size - attribute.missing
    ends: tuple[str, ...] = ()
    if attribute.bins is not None and not coded and (attribute.clip or clips):
        kind = "numbers" if attribute.time is None else "dates"
        ends = _BELOW[kind], _ABOVE[kind]
    elif clips and (coded or attribute.labels is None):
        ends = _BELOW["codes"], _ABOVE["codes"]
    for code, beyond in zip((0, (attribute.size if coded else regular) - 1), ends, strict=False):
        yield MergedCell(name, code, beyond)
    if ends and attribute.grid is not None and attribute.time is None and not coded:
        yield MergedCell(name, None, f"values between multiples of {attribute.grid:g}, at the nearest,")
    if attribute.other and not coded:
        yield MergedCell(name, regular - 1, "all values that are none of the labels")
    elif rows_outside == "missing" and attribute.missing:
        yield MergedCell(name, attribute.size - 1, "all values that have no place in the domain")
    for code, others in enumerate(() if coded else attribute.spellings):
        if others:
            yield MergedCell(name, code, "other spellings")


def sentences_of(population: Population | None) -> list[str]:
    """Return what answers are of: of no known population, the records that were counted."""
    if population is None:
        return ["All counts and shares are of the records that were counted for what was published."]
    return [*population.sentences()]
