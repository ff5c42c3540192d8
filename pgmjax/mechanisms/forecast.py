"""The recipe of a release and the forecast of its noise, time and memory, from public values alone.

A recipe is what a mechanism is asked for where only a number of attributes is given. A mechanism that chooses
among the marginals of its workload is given every marginal whose own table is within the limit of cells,
whoever names it. Others measure the whole workload, so that they are given the marginals that fit one model
together. The limit means the same for all: cells of the model's junction tree.

A forecast tells the noise of what is measured, and the time and memory of every stage.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.relation import Unit
from pgmjax.inference.oracles import Plan
from pgmjax.inference.plan.forecast import HOST_RATES, HostRates
from pgmjax.mechanisms.base import Mechanism, options
from pgmjax.mechanisms.measure_once import MeasureOnce
from pgmjax.mechanisms.run import Request, Work, tree_cells
from pgmjax.privacy.left_out import CountLeftOut
from pgmjax.queries.workload import KWay, Workload

LIMITS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
"""Limits of cells, of which the largest is taken whose release is forecast to take a minute."""
SECONDS, BYTES = 60.0, 2_000_000_000
LIMIT_BEFORE_DISCOVERY = 10_000_000
"""The limit where nothing can be forecast, because the domain is yet to be found."""
_SHOWN = 12
RECORDS = 100_000
"""Number of records that a forecast is for, where nobody says one."""
# Rough times on two cores of an AMD EPYC, beside bench/shapes.py: a forecast tells minutes from hours.
START, START_BYTES = 2.5, 350_000_000
"""Seconds and memory of Python, JAX and the other libraries."""
READ, COUNT, CELL = 5e-8, 6e-9, 4e-9
"""Seconds to read a value, to count a record into a table, and to make a cell of one."""
NOISE = {"epsilon": 6e-6, "rho": 1e-5}
"""Seconds to draw the noise of a count with OpenDP."""
COMPARE = 3e-8
"""Seconds to compute a cell of a model and its distance from a count."""
SEARCH, SEARCH_ENTRY, SEARCH_ANSWER = 2.0, 1.1e-2, 6e-5
"""Seconds to search a strategy, for itself, each entry of the workload and each of its answers."""
QUESTION, PATH, LEAST = 0.6, 30, 1e-3
"""Steps of a fit that a marginal of its model takes, attributes on the way between two of a model (a marginal
needs that part of it alone), and its least time (s)."""
BETWEEN, LAST = 400, 800
"""Steps of a fit between two rounds, and of the last one, of which up to 1,000 were seen."""
CALLS = 1.5
"""Forecast steps whose time a step takes: some run in float64, which was seen to double it."""
BIND = 2e-8
"""Seconds to prepare a noisy count for a fit."""
REPORT, ANSWER, ROW = 1.5, 1.5e-6, 6e-8
"""Seconds for the report and the model, an answer with its interval, and a value of a synthetic row."""


@dataclasses.dataclass(frozen=True)
class PlannedTable:
    """A table that a release will measure.

    Attributes:
        clique: its attributes.
        cells: number of its answers.
        stddev: of the noise of each.
    """

    clique: Clique
    cells: int
    stddev: float


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a release.

    Attributes:
        name: what it does.
        seconds: forecast of its time.
        bytes: forecast of the memory that it needs.
    """

    name: str
    seconds: float
    bytes: int


@dataclasses.dataclass(frozen=True)
class ReleaseForecast:
    """The tables, noise, time and memory of a release, as far as they are known beforehand.

    Attributes:
        mechanism: its name.
        tables: what it will measure; empty if nobody knows that before it runs.
        stages: its stages in their order. Where a mechanism chooses, they are for the largest choice.
        records: the number of records that they are for.
        rates: where the rates of the forecast come from.
        sure: whether it measures these tables; else it leaves those out that noise drowns.
        least_noise: where no tables are known, the standard deviation of the noise of one that is measured
            alone, with the whole budget; None if nobody knows.
    """

    mechanism: str
    tables: tuple[PlannedTable, ...]
    stages: tuple[Stage, ...]
    records: int
    rates: str
    sure: bool = True
    least_noise: float | None = None

    @property
    def seconds(self) -> float:
        """Forecast of the time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def peak_bytes(self) -> int:
        """Forecast of the largest memory of a stage."""
        return max(stage.bytes for stage in self.stages)

    def lines(self, rows: int | None = None) -> Iterator[str]:
        """Yield what is to be said.

        Args:
            rows: number of records, if it is public.
        """
        if self.tables:
            yield from self._measured(rows)
        else:
            yield (
                f"{self.mechanism} chooses what to measure while it runs: its tables and their noise are "
                "known only afterwards."
            )
            if self.least_noise is not None:
                yield (
                    "Even one table alone, measured with the whole budget, would have noise of standard "
                    f"deviation {self.least_noise:,.4g} in each count."
                )
        asked = f"{self.records:,} records" + " (assumed: give the number with --rows if it is public)" * (
            rows is None
        )
        yield f"Time and memory for {asked}, on {self.rates}:"
        for stage in self.stages:
            yield f"  {stage.name:<9} {_seconds(stage.seconds):>8}, {readable_bytes(stage.bytes)}"
        yield f"  together  {_seconds(self.seconds):>8}, {readable_bytes(self.peak_bytes)} at most"

    def _measured(self, rows: int | None) -> Iterator[str]:
        counts = sum(table.cells for table in self.tables)
        number = f"{len(self.tables):,} table{'s' * (len(self.tables) != 1)}"
        drowned = "" if self.sure else ", without those in which the noise drowns the counts"
        yield f"Will be measured: {number} of {counts:,} counts{drowned}."
        for table in self.tables[:_SHOWN]:
            average = ""
            if rows is not None:
                each = rows / table.cells
                average = f", {each:,.4g} records a cell on average"
                average += ": less than the noise" * (each < table.stddev)
            yield (
                f"  {', '.join(table.clique)}: {table.cells:,} counts, noise of standard deviation "
                f"{table.stddev:,.4g} each{average}"
            )
        if len(self.tables) > _SHOWN:
            yield f"  and {len(self.tables) - _SHOWN:,} more"
        if rows is not None:
            below = sum(table.cells for table in self.tables if rows / table.cells < table.stddev)
            yield f"Smaller than their noise, on average: {below:,} of {counts:,} counts."
        else:
            yield (
                "How many counts would be smaller than their noise depends on the number of records: give it "
                "with --rows if it is public."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast for JSON."""
        return {**dataclasses.asdict(self), "seconds": self.seconds, "peak_bytes": self.peak_bytes}


def forecast(
    mechanism: Mechanism,
    domain: Domain,
    workload: Workload,
    *,
    unit: Unit | None = None,
    max_weight: int | None = None,
    counting: CountLeftOut | None = None,
    records: int = RECORDS,
) -> ReleaseForecast:
    """Return what a release will measure, with what noise, time and memory. Nothing is spent or read.

    Args:
        mechanism: with its settings.
        domain: of the table.
        workload: as for `Mechanism.run`.
        unit: the unit of privacy, None for one record.
        max_weight: bound on the records' weights, None without weights.
        counting: the part of the budget for counting what is left out of the table, or None.
        records: number of records, for the time of counting them and of writing rows.

    Raises:
        ValueError: the run would be refused.

    Example:
        >>> import pgmjax as pj
        >>> plain = pj.mechanisms.Marginals(epsilon=1, relation="add-remove")
        >>> found = forecast(plain, pj.Domain({"a": 3, "b": 2}), pj.Workload([["a"], ["b"]]))
        >>> [(table.clique, table.cells, round(table.stddev, 2)) for table in found.tables]
        [(('a',), 3, 2.8), (('b',), 2, 2.8)]
        >>> [stage.name for stage in found.stages]
        ['start', 'count', 'noise', 'fit', 'write']
    """
    workload = workload.over(domain)
    estimator = mechanism._fitted_by(False)
    _, budget = mechanism._parts(mechanism.budget(), counting)
    request = mechanism._request(
        domain, workload, unit=unit, max_weight=max_weight, budget=budget, estimator=estimator
    )
    plan = mechanism.plan(request)
    sure = isinstance(mechanism, MeasureOnce)
    planned = (
        request._planned(plan.queries, plan.weights, mechanism.backend)
        if sure
        else mechanism._likely(request, plan)
    )
    tables = tuple(
        PlannedTable(each.query.clique, each.rows, float(np.asarray(each.distribution.stddev)))
        for each in planned
    )
    work = mechanism._work(request, plan)
    inference = estimator.plan(domain, work.fitted)
    stages = _stages(request, work, inference, records)
    least = None
    if not tables:
        with contextlib.suppress(ValueError):
            least = float(request.noise(workload.cliques[:1], request.budget.cap).stddev)
    return ReleaseForecast(mechanism.name, tables, stages, records, inference.rates.source, sure, least)


def _stages(request: Request, work: Work, inference: Plan, records: int) -> tuple[Stage, ...]:
    """Return the stages of some work: numbers of operations, times what each was measured to take."""
    domain, host = request.domain, HOST_RATES
    slower = host.cell / HostRates().cell  # this machine beside the one that was measured
    counted = sum(map(domain.size, work.counted))
    held = sum(math.prod(domain[name] for name in clique) for clique in work.fitted)
    most = request.estimator.max_steps
    steps = CALLS * ((work.fits - 1) * min(BETWEEN, most) + min(LAST, most))
    answers = sum(entry.query.num_rows(domain) for entry in request.workload.entries)
    question = QUESTION * min(1, PATH / len(domain)) * inference.step_seconds
    question = max(LEAST * slower, question)
    asked = 2 * len(request.workload)  # for the answers, and for the pictures and maps of the report
    fits = work.fits * (inference.oracle.forecast.compile_seconds + slower * held * BIND)
    read = records * (len(domain) * READ + len(work.counted) * COUNT) + counted * CELL
    noise = NOISE[request.budget.unit]
    search = SEARCH + len(request.workload) * SEARCH_ENTRY + work.searched * SEARCH_ANSWER
    search *= work.searched > 0
    found = [
        Stage("start", slower * START, START_BYTES),
        Stage("count", slower * read, START_BYTES + records * len(domain) * 2 + 8 * counted),
        Stage("noise", slower * work.counts * noise, START_BYTES + 24 * work.counts),
        Stage(
            "choose",
            slower * (work.compared * COMPARE + search) + work.questions * question,
            START_BYTES + 32 * counted,
        ),
        Stage("fit", fits + steps * inference.step_seconds, START_BYTES + inference.peak_bytes),
        Stage(
            "write",
            slower * (REPORT + answers * ANSWER + records * len(domain) * ROW) + asked * question,
            START_BYTES + 200 * answers + 60 * records,
        ),
    ]
    return tuple(stage for stage in found if stage.name != "choose" or stage.seconds)


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A mechanism and its workload.

    Attributes:
        mechanism: the mechanism, with the limit in its settings if it has one.
        workload: what it is asked for; a `KWay` over a domain that is yet to be found.
        max_cells: the limit of cells; None if there is none.
        left_out: the marginals of so many attributes that are not asked for.
        crowded: whether a model of all that is asked for would have more cells, so that the mechanism
            measures only some.
    """

    mechanism: Mechanism
    workload: Workload | KWay
    max_cells: int | None = None
    left_out: tuple[Clique, ...] = ()
    crowded: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why marginals are left out, in sentences; none if none is."""
        if isinstance(self.workload, KWay):
            return ()
        reasons, asked, chooses = [], len(self.workload.entries), self.mechanism.chooses
        if self.left_out:
            named = "; ".join(", ".join(clique) for clique in self.left_out[:3])
            why = "its own table" if chooses else "the model with it"
            reasons.append(
                f"left out {len(self.left_out):,} of {len(self.left_out) + asked:,} marginals, because {why} "
                f"would have more than {self.max_cells:,} cells (--max-cells): "
                f"{named}{'; ...' * (len(self.left_out) > 3)}"
            )
        if self.left_out and not chooses:
            reasons.append("--mechanism auto would choose which to measure instead of the smallest ones")
        if self.crowded:
            reasons.append(
                f"a model of all {asked:,} marginals would have more than {self.max_cells:,} cells "
                f"(--max-cells): {self.mechanism.name} measures those that it chooses"
            )
        return tuple(reasons)


def choose(
    mechanism: Mechanism,
    domain: Domain,
    asked: KWay,
    *,
    unit: Unit | None = None,
    max_weight: int | None = None,
    counting: CountLeftOut | None = None,
) -> Recipe:
    """Return what a mechanism is asked for: marginals of k attributes. Nothing is read or spent.

    Args:
        mechanism: with its settings.
        domain: of the table.
        asked: the number of attributes, and the largest number of cells of the model's junction tree. Without
            a limit it is the largest of `LIMITS` with which the release is forecast to take at most a minute
            and two gigabytes.
        unit: the unit of privacy, None for one record.
        max_weight: bound on the records' weights, None without weights.
        counting: as for `forecast`.

    Raises:
        ValueError: no marginal is within the limit, or the run would be refused.

    Example:
        >>> import pgmjax as pj
        >>> domain = pj.Domain({"a": 30, "b": 40, "c": 50})
        >>> for kind in (pj.mechanisms.Marginals, pj.mechanisms.MST):
        ...     found = choose(kind(epsilon=1, relation="add-remove"), domain, KWay(2, 4000))
        ...     print(len(found.workload), found.left_out)
        2 (('b', 'c'),)
        3 ()
    """
    if asked.max_cells is not None:
        return _within(mechanism, domain, asked)
    most = min(BYTES, available_bytes() // 2)
    given: dict[str, Any] = {"unit": unit, "max_weight": max_weight, "counting": counting}
    kept: list[Recipe] = []
    refusal = None
    for limit in LIMITS:
        try:
            made = _within(mechanism, domain, KWay(asked.k, limit))
            assert isinstance(made.workload, Workload)
            if kept and made == dataclasses.replace(kept[-1], max_cells=limit):
                continue  # the mechanism has no limit, and the workload stays the same
            found = forecast(made.mechanism._rough(), domain, made.workload, **given)
        except ValueError as error:
            refusal = error
            continue
        if kept and (found.seconds > SECONDS or found.peak_bytes > most):
            break
        kept.append(made)
    for made in reversed(kept):
        try:
            if made.mechanism._rough() is not made.mechanism:
                forecast(made.mechanism, domain, made.workload.over(domain), **given)
            return made
        except ValueError as error:
            refusal = error
    assert refusal is not None
    raise refusal


def with_limit(mechanism: Mechanism, limit: int | None) -> Mechanism:
    """Return a mechanism whose model has at most so many cells, if it has such a setting."""
    if limit is None or "max_cells" not in options(type(mechanism)):
        return mechanism
    setting: dict[str, Any] = {"max_cells": limit}
    return dataclasses.replace(mechanism, **setting)


def _within(mechanism: Mechanism, domain: Domain, asked: KWay) -> Recipe:
    workload = mechanism._all_kway(domain, asked)
    every = itertools.combinations(domain.attributes, min(asked.k, len(domain)))
    sets = set(map(frozenset, workload.cliques))
    left_out = tuple(clique for clique in every if frozenset(clique) not in sets)
    limit = asked.max_cells if mechanism.chooses else None
    crowded = limit is not None and tree_cells(domain, workload.cliques) > limit
    return Recipe(with_limit(mechanism, asked.max_cells), workload, asked.max_cells, left_out, crowded)
