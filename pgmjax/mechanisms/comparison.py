"""A recommendation of a mechanism: runs of all of them on simulated tables, and their errors.

Only public values are used: domain, workload, privacy parameters and a number of records. No table is taken:
simulated ones are drawn by a rule that knows nothing of any real table, so their exact counts are nobody's.
The noise is seeded, and nothing here is a release.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax._internal.progress import Progress
from pgmjax.data.counting import check_memory
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Clique, Domain, as_domain
from pgmjax.data.relation import AnyRelation, Relation, Unit
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.aim import AIM
from pgmjax.mechanisms.auto import Auto
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.batch_aim import BatchAIM
from pgmjax.mechanisms.dual_query import DualQuery
from pgmjax.mechanisms.hdmm import HDMM
from pgmjax.mechanisms.measure_once import Marginals, MaximumEntropy
from pgmjax.mechanisms.mldp import MLDP
from pgmjax.mechanisms.mst import MST
from pgmjax.mechanisms.mwem import MWEM
from pgmjax.mechanisms.privbayes import PrivBayes
from pgmjax.mechanisms.randomized_response import RandomizedResponse
from pgmjax.mechanisms.run import FitError, tree_cells
from pgmjax.privacy.exact import as_text, exact_delta, exact_epsilon
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

RELEASING = (
    *(Auto, AIM, BatchAIM, HDMM, MLDP, MST, MWEM, DualQuery),
    *(Marginals, MaximumEntropy, PrivBayes, RandomizedResponse),
)
"""The mechanisms that turn a table and a workload into a release."""


def names() -> dict[str, type[Mechanism]]:
    """Return the mechanisms by their command-line names. The `summary` of each describes it in one line.

    Example:
        >>> names()["marginals"].summary
        'measure every query of the workload once, with equal or weighted budget'
    """
    return {mechanism.name: mechanism for mechanism in RELEASING}


KINDS = {"independent": (0, 0.0), "tree": (1, 0.4), "dense": (3, 0.7)}
"""The kinds of simulated tables: parents of an attribute, and the share of records that copy one of them."""
_BYTES = 32  # per record and attribute of a simulated table, while it is drawn
ONE_WAY = "one-way only"
"""What stands beside the mechanisms: one-way marginals alone, measured with the whole budget."""
_CLOSE = 1.05
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class MechanismErrors:
    """The errors of a mechanism on simulated tables.

    Attributes:
        name: of the mechanism.
        errors: by kind of table, the error of each seed: the mean over the workload's entries of the L1
            distance to the true answers, relative to their L1 norm (to 1 if they are all 0).
        seconds: of one run on average, with the compilation of its programs.
        cells: of the largest of its models: of the cliques of its junction tree.
    """

    name: str
    errors: Mapping[str, tuple[float, ...]]
    seconds: float
    cells: int

    @classmethod
    def of(cls, name: str, runs: Sequence[_SimulatedRun]) -> MechanismErrors:
        """Return the errors of all runs of a mechanism."""
        errors = {kind: tuple(each.error for each in runs if each.kind == kind) for kind in KINDS}
        seconds, cells = statistics.fmean(each.seconds for each in runs), max(each.cells for each in runs)
        return cls(name, errors, seconds, cells)

    def mean(self, kind: str) -> float:
        """Return the mean error over seeds."""
        return statistics.fmean(self.errors[kind])

    def spread(self, kind: str) -> float:
        """Return the standard deviation of the error over seeds; 0 for a single one."""
        return statistics.stdev(self.errors[kind]) if len(self.errors[kind]) > 1 else 0.0

    @property
    def average(self) -> float:
        """The mean error over all kinds of tables."""
        return statistics.fmean(map(self.mean, self.errors))

    def to_dict(self) -> dict[str, Any]:
        """Return the errors for JSON."""
        kinds = {
            kind: {"mean": self.mean(kind), "spread": self.spread(kind), "errors": list(each)}
            for kind, each in self.errors.items()
        }
        return {"average": self.average, "tables": kinds, "seconds": self.seconds, "cells": self.cells}


@dataclasses.dataclass(frozen=True)
class MechanismComparison:
    """Expected errors of mechanisms, from public values alone.

    Attributes:
        settings: epsilon, delta and relation as text, records, seeds.
        mechanisms: the errors of each mechanism, the least average first.
        refused: by mechanism, why it does not run with these settings.
        one_way: the errors of one-way marginals alone, measured with the whole budget.
        product: by kind, the error for each seed of the product of the exact one-way marginals.
        noisy_counts: by kind, the exact expected error of the workload's noisy counts without a model; empty
            if they are refused.
    """

    settings: Mapping[str, Any]
    mechanisms: tuple[MechanismErrors, ...]
    refused: Mapping[str, str]
    one_way: MechanismErrors
    product: Mapping[str, tuple[float, ...]]
    noisy_counts: Mapping[str, float]

    @property
    def useful(self) -> bool:
        """True if a mechanism is better than the product, for every seed, on a kind where it is not exact."""
        wrong = {k: each for k, each in self.product.items() if k != "independent" and max(each) > _ROUNDING}
        return not wrong or any(
            all(ours < theirs for ours, theirs in zip(each.errors[kind], product, strict=True))
            for each in self.mechanisms
            for kind, product in wrong.items()
        )

    @property
    def recommended(self) -> str | None:
        """The mechanism of least average error; None if none ran, or none is better than the product."""
        return self.mechanisms[0].name if self.mechanisms and self.useful else None

    @property
    def winners(self) -> dict[str, str]:
        """The mechanism of least mean error on each kind of tables; none if no mechanism ran."""
        if not self.mechanisms:
            return {}
        return {kind: min(self.mechanisms, key=lambda each: each.mean(kind)).name for kind in KINDS}

    @property
    def reason(self) -> str:
        """The basis of the recommendation, in a sentence or two."""
        if not self.mechanisms:
            return "No mechanism runs with these settings."
        best, *others = self.mechanisms
        if not self.useful:
            return (
                "No budget of this size measures this candidate set usefully: on dependent tables no "
                "mechanism is better than the product of exact one-way marginals. Ask for less or spend more."
                f" On average {best.name} has the error {best.average:.3g}, and one-way marginals alone "
                f"{self.one_way.average:.3g}."
            )
        near = [each for each in others if each.average <= _CLOSE * best.average]
        said = f"{best.name} has the least error, {best.average:.3g} on average over the kinds of tables."
        if near:
            said += f" Within 5 % of it: {', '.join(each.name for each in near)}; the fastest of them may do."
        if set(self.winners.values()) != {best.name}:
            said += " Least by kind: " + ", ".join(f"{k} {name}" for k, name in self.winners.items()) + "."
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            **self.settings,
            "recommended": self.recommended,
            "reason": self.reason,
            "winners": self.winners,
            "mechanisms": {each.name: each.to_dict() for each in self.mechanisms},
            "one_way": self.one_way.to_dict(),
            "product": {kind: list(errors) for kind, errors in self.product.items()},
            "noisy_counts": dict(self.noisy_counts),
            "refused": dict(self.refused),
        }


def compare(
    domain: Domain,
    workload: Workload,
    *,
    epsilon: Any,
    relation: AnyRelation,
    records: int,
    delta: Any = 0,
    max_records: int | None = None,
    mechanisms: Sequence[str | type[Mechanism]] | None = None,
    seeds: int = 2,
    show_progress: bool | None = None,
    check: Callable[[], None] | None = None,
) -> MechanismComparison:
    """Return the expected errors of mechanisms, from runs on simulated tables. No table is taken or read.

    Each mechanism runs with its default settings on every kind of `simulated_table`, once for each seed, the
    seed of the table and of the noise. Nothing is spent. A real table is not one of these: the order of the
    mechanisms may be another one there.

    Args:
        domain: of the table.
        workload: the queries that the release should answer.
        epsilon: the whole budget: a number, or an exact string such as "1/3".
        relation: the neighbouring relation.
        records: number of records if it is public, else a guess that does not come from the table.
        delta: 0 for pure differential privacy.
        max_records: how many records of one unit count, each unit having so many; None to protect a record.
        mechanisms: their names, or classes of your own. Default: all of pgmjax.
        seeds: number of seeds, 0, 1, ...
        show_progress: None shows a progress bar in terminals only, False never.
        check: called before each run; what it raises ends the comparison.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an unknown mechanism or none, a workload that does not fit the domain, a parameter out of
            range, or too many records or cells for memory.

    Example:
        >>> domain = Domain({"a": 3, "b": 4})
        >>> settings = {"epsilon": 1, "relation": "replace-one", "records": 1000}
        >>> found = compare(domain, Workload([["a", "b"]]), **settings, mechanisms=["marginals"], seeds=1)
        >>> found.recommended, [each.name for each in found.mechanisms]
        ('marginals', ['marginals'])
    """
    chosen = _chosen(mechanisms)
    if not isinstance(workload, Workload) and not isinstance(domain, Workload):
        raise TypeError(f"workload must be a pgmjax.Workload, got {type(workload).__name__}.")
    domain = as_domain(domain, "compare(domain, workload)", workload)
    workload = workload.over(domain)
    check_memory(domain, workload.cliques)
    records = checks.integer("records", records, low=1)
    seeds = checks.integer("seeds", seeds, low=1)
    most = None if max_records is None else checks.integer("max_records", max_records, low=1, high=records)
    given: dict[str, Any] = {"epsilon": exact_epsilon(epsilon), "delta": exact_delta(delta)}
    settings: dict[str, Any] = {name: as_text(value) for name, value in given.items()}
    given["relation"] = Relation.parse(relation)
    settings |= {"relation": given["relation"].value, "records": records, "seeds": seeds}
    settings |= {} if most is None else {"max_records": most}
    noise = _expected_noise(domain, workload, given, most)
    alone = Workload([[name] for name in dict.fromkeys(itertools.chain(*workload.cliques))])
    asked: dict[str, tuple[type[Mechanism], Workload]] = {ONE_WAY: (Marginals, alone)}
    asked |= {name: (mechanism, workload) for name, mechanism in chosen.items()}
    runs: dict[str, list[_SimulatedRun]] = {name: [] for name in asked}
    product: dict[str, tuple[float, ...]] = dict.fromkeys(KINDS, ())
    noisy = dict.fromkeys(KINDS if noise else (), 0.0)
    refused: dict[str, str] = {}
    check = check or (lambda: None)
    with Progress("mechanisms", len(KINDS) * seeds * len(runs), show_progress) as bar:
        for kind, seed in itertools.product(KINDS, range(seeds)):
            table = SimulatedTable(domain, workload, simulated_table(domain, records, kind, seed))
            product[kind] += (table.error(table.product()),)
            if noise:
                noisy[kind] += table.error(map(np.add, table.exact, noise)) / seeds
            for name in runs:
                check()
                try:
                    if name not in refused:
                        runs[name].append(_simulated_run(*asked[name], kind, seed, table, given, most))
                except (ValueError, RuntimeError, ArithmeticError, MemoryError) as error:
                    check()  # an interrupt may come out of a fit as another exception
                    if name == ONE_WAY:
                        raise
                    refused[name] = _in_one_line(error)
                bar.advance(1, f"{name}, {kind}")
    one_way, *found = (MechanismErrors.of(name, each) for name, each in runs.items() if name not in refused)
    found.sort(key=lambda each: each.average)
    return MechanismComparison(settings, tuple(found), refused, one_way, product, noisy)


def _chosen(listed: Sequence[str | type[Mechanism]] | None) -> dict[str, type[Mechanism]]:
    """Return the mechanisms to compare by their names.

    Raises:
        ValueError: an unknown one, a class without a name, two of one name, or none.
    """
    known = names()
    if listed is None:
        return known
    found: list[tuple[str, type[Mechanism]]] = []
    for each in checks.several("mechanisms", listed, "names"):
        if isinstance(each, type) and issubclass(each, Mechanism):
            if not isinstance(getattr(each, "name", None), str):
                raise ValueError(f"The class {each.__name__} has no name: write one, such as name = 'own'.")
            found.append((each.name, each))
        else:
            name = checks.choice("mechanisms", each, known, "a class of Mechanism")
            found.append((name, known[name]))
    if not found or len(dict(found)) < len(found):
        raise ValueError("mechanisms must be different names, at least one.")
    return dict(found)


class _SimulatedRun(NamedTuple):
    """A run of a mechanism on a simulated table: its kind, the error, the time and the size of the model."""

    kind: str
    error: float
    seconds: float
    cells: int


def _simulated_run(
    mechanism: type[Mechanism],
    asked: Workload,
    kind: str,
    seed: int,
    table: SimulatedTable,
    given: Mapping[str, Any],
    max_records: int | None,
) -> _SimulatedRun:
    """Run a mechanism that is asked for a workload on a table, with the noise of a seed.

    Raises:
        ValueError: the mechanism refuses, or any other error of a run.
    """
    start = time.perf_counter()
    backend = SeededBackend(seed, insecure=True)
    ready = mechanism(**given, estimator=Estimator(progress=False), backend=backend)
    columns, unit = dict(table.columns), None
    if max_records is not None:
        column = "".join(table.domain) + " unit"  # no attribute is called so
        columns[column] = np.arange(len(next(iter(columns.values())))) // max_records
        unit = Unit(column, max_records)
    data = Dataset.from_columns(table.domain, columns, unit=unit)
    with warnings.catch_warnings(action="ignore"):  # of tables that are nobody's
        release = ready.run(data, asked, show_progress=False)
    own = asked is table.workload
    error = table.error(release.answers() if own else map(release.model.answer, table.queries))
    cells = tree_cells(table.domain, release.model.potentials.cliques)
    return _SimulatedRun(kind, error, time.perf_counter() - start, cells)


def _expected_noise(
    domain: Domain, workload: Workload, given: Mapping[str, Any], max_records: int | None
) -> list[float]:
    """Return the exact mean absolute noise of an answer of each entry, or nothing if it is refused."""
    unit = None if max_records is None else Unit("unit", max_records)
    request = Marginals(**given)._request(domain, workload, unit=unit)
    queries = [entry.query for entry in workload.entries]
    with contextlib.suppress(ValueError):
        planned = request._planned(queries, [1] * len(queries), SeededBackend(0, insecure=True))
        return [float(each.distribution.mean_absolute) for each in planned]
    return []


def _in_one_line(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, FitError) and error.__cause__ else error
    return " ".join(str(cause).split()) or type(cause).__name__


def simulated_table(domain: Domain, records: int, kind: str, seed: int) -> dict[str, np.ndarray]:
    """Return a simulated table, which knows nothing of any real one but the domain and the number of records.

    The shares of an attribute's values are proportional to 1, 1/2, 1/3, ..., in random order (Zipf's law).
    Attributes are drawn in random order. "independent": each by itself. "tree": four tenths of the records,
    chosen at random, copy their rank in one earlier attribute. "dense": seven tenths copy it from one of
    three earlier attributes, each record from its own. A rank is a uniform number within the share of the
    record's value, counted from the first value, so copying it keeps the shares of the values.

    Args:
        domain: the attributes and their sizes.
        records: number of records.
        kind: "independent", "tree" or "dense".
        seed: seed of all random choices.

    Returns:
        Codes, int64 [records], by attribute.

    Raises:
        ValueError: an unknown kind, no records, or more than fit in memory.

    Example:
        >>> table = simulated_table(Domain({"a": 3, "b": 2}), 1000, "tree", seed=0)
        >>> sorted(np.bincount(table["a"]).tolist(), reverse=True)[0] > 400
        True
    """
    records = checks.integer("records", records, low=1)
    parents, copied = KINDS[checks.choice("kind", kind, tuple(KINDS))]
    if (need := records * len(domain) * _BYTES) > (limit := available_bytes()):
        raise ValueError(
            f"A simulated table of {records:,} records needs {readable_bytes(need)}, and "
            f"{readable_bytes(limit)} is available: give fewer records."
        )
    (generator,) = random.generators(seed, 1)  # not the stream of the noise of this seed
    drawn: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    columns = {}
    for name in generator.permutation(np.array(domain.attributes, dtype=object)):
        shares = 1 / (1 + generator.permutation(domain[name]))
        shares /= shares.sum()
        rank = generator.random(records)
        if parents and drawn:
            earlier = generator.permutation(len(drawn))[:parents]
            chosen = earlier[generator.integers(len(earlier), size=records)]
            copies = generator.random(records) < copied
            for parent in earlier:
                tops, widths, values = drawn[parent]
                # anywhere within the value, so that a copy depends on the value alone
                copy = tops[values] - widths[values] * generator.random(records)
                rank = np.where(copies & (chosen == parent), copy, rank)
        ends = np.cumsum(shares)
        codes = np.minimum(np.searchsorted(ends, rank, side="right"), len(shares) - 1)
        drawn.append((ends, shares, codes))
        columns[name] = codes
    return {name: columns[name] for name in domain}


@dataclasses.dataclass
class SimulatedTable:
    """A simulated table with its exact answers to a workload.

    Attributes:
        domain: its domain.
        workload: the queries.
        columns: codes, int64 [records], by attribute.
        queries: of the workload's entries.
        exact: their exact answers (counts), float64 [rows of each].
    """

    domain: Domain
    workload: Workload
    columns: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        self.queries = [entry.query for entry in self.workload.entries]
        self.exact = [query.apply(self._counts(query.clique)).ravel().astype(float) for query in self.queries]

    def error(self, answers: Iterable[np.ndarray]) -> float:
        """Return the mean over entries of the L1 distance relative to the L1 norm of the exact answers."""
        pairs = zip(self.exact, answers, strict=True)
        return float(
            np.mean([np.abs(true - np.ravel(a)).sum() / (np.abs(true).sum() or 1.0) for true, a in pairs])
        )

    def product(self) -> Iterator[np.ndarray]:
        """Yield the answers of the product of the exact one-way marginals."""
        for query in self.queries:
            one_way = [self._counts((name,)) for name in query.clique]
            total = one_way[0].sum()
            yield query.apply(functools.reduce(np.multiply.outer, (each / total for each in one_way)) * total)

    def _counts(self, clique: Clique) -> np.ndarray:
        shape = self.domain.shape_of(clique)
        cells = np.ravel_multi_index([self.columns[name] for name in clique], shape)
        return np.bincount(cells, minlength=self.domain.size(clique)).reshape(shape)
