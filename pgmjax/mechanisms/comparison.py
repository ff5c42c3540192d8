"""Which mechanism to take: every one is run on simulated tables, and their errors are compared.

Only public values are used: domain, workload, privacy parameters and a number of records. No table is taken.
The noise is seeded, and nothing here is a release.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import AnyRelation, Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.mechanisms.base import FitError, Mechanism
from pgmjax.mechanisms.marginals import Marginals
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.exact import as_text, exact_delta, exact_epsilon
from pgmjax.privacy.measuring import plan_measurements
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release

KINDS = {"independent": (0, 0.0), "tree": (1, 0.4), "dense": (3, 0.7)}
"""The kinds of simulated tables: parents of an attribute, and the share of records that copy one of them."""
ONE_WAY = "one-way only"
"""What stands beside the mechanisms: one-way marginals alone, measured with the whole budget."""
_CLOSE = 1.05
_BYTES = 32  # per record and attribute of a simulated table, while it is drawn


def simulated_table(domain: Domain, records: int, kind: str, seed: int) -> dict[str, np.ndarray]:
    """Return a simulated table, which knows nothing of any real one but the domain and the number of records.

    The shares of an attribute's values are proportional to 1, 1/2, 1/3, ..., in random order (Zipf's law).
    Attributes are drawn in random order. "independent": each by itself. "tree": four tenths of the records,
    chosen at random, copy their rank in one earlier attribute. "dense": seven tenths copy it from one of
    three earlier attributes, each record from its own. Copying ranks keeps the shares of the values.

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
    ranks: list[np.ndarray] = []
    columns = {}
    for name in generator.permutation(np.array(domain.attributes, dtype=object)):
        shares = 1 / (1 + generator.permutation(domain[name]))
        shares /= shares.sum()
        rank = generator.random(records)
        if parents and ranks:
            earlier = generator.permutation(len(ranks))[:parents]
            chosen = earlier[generator.integers(len(earlier), size=records)]
            copies = generator.random(records) < copied
            for parent in earlier:
                rank = np.where(copies & (chosen == parent), ranks[parent], rank)
        ends = np.cumsum(shares)
        codes = np.minimum(np.searchsorted(ends, rank, side="right"), len(shares) - 1)
        # drawn again within the value, so that what copies it depends on the value alone
        ranks.append(ends[codes] - shares[codes] * generator.random(records))
        columns[name] = codes
    return {name: columns[name] for name in domain}


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
        """Whether a mechanism is better than the product, for every seed, on a kind where it is not exact."""
        wrong = {kind: each for kind, each in self.product.items() if kind != "independent" and max(each) > 0}
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
        """What the recommendation rests on, in a sentence or two."""
        if not self.mechanisms:
            return "No mechanism runs with these settings."
        best, *others = self.mechanisms
        if not self.useful:
            return (
                "No budget of this size measures this candidate set usefully: on dependent tables no "
                "mechanism is better than the product of exact one-way marginals. Ask for fewer queries. "
                f"On average {best.name} has the error {best.average:.3g}, and one-way marginals alone "
                f"{self.one_way.average:.3g}."
            )
        near = [each for each in others if each.average <= _CLOSE * best.average]
        said = f"{best.name} has the least error, {best.average:.3g} on average over the kinds of tables."
        if near:
            named = ", ".join(f"{each.name} ({each.seconds:.2g} s)" for each in near)
            said += f" Within 5 % of it, at {best.seconds:.2g} s: {named}."
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
    mechanisms: Sequence[str] | None = None,
    seeds: int = 3,
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
        epsilon: as for the mechanisms, also the next two.
        relation: the neighbouring relation.
        records: number of records if it is public, else a guess that does not come from the table.
        delta: 0 for pure differential privacy.
        mechanisms: their names. Default: all.
        seeds: number of seeds, 0, 1, ...
        show_progress: None shows a progress bar in terminals only, False never.
        check: called between runs; what it raises ends the comparison.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an unknown mechanism or none, a workload that does not fit the domain, a parameter out of
            range, or too many records for memory.

    Example:
        >>> domain = Domain({"a": 3, "b": 4})
        >>> settings = {"epsilon": 1, "relation": "replace-one", "records": 1000}
        >>> found = compare(domain, Workload([["a", "b"]]), **settings, mechanisms=["marginals"], seeds=1)
        >>> found.recommended, [each.name for each in found.mechanisms]
        ('marginals', ['marginals'])
    """
    known = importlib.import_module("pgmjax.mechanisms").names()  # the list of them, which exports this
    chosen = tuple(known) if mechanisms is None else checks.several("mechanisms", mechanisms, "names")
    for name in chosen:
        checks.choice("mechanisms", name, tuple(known))
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError("mechanisms must be different names, at least one.")
    workload.validate(domain)
    checks.integer("seeds", seeds, low=1)
    checks.integer("records", records, low=1)
    given: dict[str, Any] = {
        "epsilon": exact_epsilon(epsilon),
        "delta": exact_delta(delta),
        "relation": Relation.parse(relation),
    }
    trials = _Trials(domain, workload, records, seeds, check)
    done, refused = [], {}
    with Progress("mechanisms", len(KINDS) * seeds * (len(chosen) + 1), show_progress) as bar:
        one_way = trials.run(ONE_WAY, Marginals, given, trials.one_way, bar)
        for name in chosen:
            try:
                done.append(trials.run(name, known[name], given, workload, bar))
            except (ValueError, RuntimeError, ArithmeticError, MemoryError) as error:
                trials.check()  # an interrupt may come out of a fit as another exception
                refused[name] = _in_one_line(error)
    done.sort(key=lambda each: each.average)
    settings = {
        "epsilon": as_text(given["epsilon"]),
        "delta": as_text(given["delta"]),
        "relation": given["relation"].value,
        "records": records,
        "seeds": seeds,
    }
    noisy = trials.noisy_counts(given)
    return MechanismComparison(settings, tuple(done), refused, one_way, trials.product(), noisy)


class _Trials:
    """Runs of mechanisms on simulated tables, which are drawn once."""

    def __init__(
        self,
        domain: Domain,
        workload: Workload,
        records: int,
        seeds: int,
        check: Callable[[], None] | None,
    ):
        self._domain, self._workload, self._records, self._seeds = domain, workload, records, seeds
        self.check = check or (lambda: None)
        self.one_way = Workload([[name] for name in dict.fromkeys(itertools.chain(*workload.cliques))])
        self._table = functools.cache(self._drawn)

    def run(
        self, name: str, mechanism: type[Mechanism], given: Mapping[str, Any], asked: Workload, bar: Progress
    ) -> MechanismErrors:
        """Return the errors of a mechanism that is asked for a workload, on all tables.

        Raises:
            ValueError: it refuses, or any other error of a run.
        """
        errors: dict[str, tuple[float, ...]] = {}
        seconds, cells = [], 0
        for kind in KINDS:
            found = []
            for seed in range(self._seeds):
                self.check()
                columns, truths = self._table(kind, seed)
                start = time.perf_counter()
                backend = SeededBackend(seed, insecure=True)
                ready = mechanism(**given, estimator=Estimator(progress=False), backend=backend)
                table = Dataset.from_columns(self._domain, columns)
                with warnings.catch_warnings(action="ignore"):  # of tables that are nobody's
                    release = ready.run(table, asked, show_progress=False)
                found.append(_relative(truths, self._answers(release)))
                seconds.append(time.perf_counter() - start)
                cells = max(cells, _cells(release.model))
                bar.advance(1, f"{name}, {kind}")
            errors[kind] = tuple(found)
        return MechanismErrors(name, errors, statistics.fmean(seconds), cells)

    def noisy_counts(self, given: Mapping[str, Any]) -> dict[str, float]:
        """Return the exact expected error of noisy counts, by kind of table; nothing if they are refused."""
        budget, backend = Marginals(**given).budget(), SeededBackend(0, insecure=True)
        queries = [entry.query for entry in self._workload.entries]
        costs = budget.split([1] * len(queries))
        settings = (self._domain, given["relation"], None, backend)
        found = {}
        with contextlib.suppress(ValueError):
            planned = [
                plan_measurements(query, budget.unit, cost, *settings)
                for query, cost in zip(queries, costs, strict=True)
            ]
            distances = [each.rows * each.distribution.mean_absolute for each in planned]
            for kind in KINDS:
                several = [self._table(kind, seed)[1] for seed in range(self._seeds)]
                norms = [list(map(_norm, truths)) for truths in several]
                found[kind] = float(np.mean(np.asarray(distances) / np.asarray(norms)))
        return found

    def product(self) -> dict[str, tuple[float, ...]]:
        """Return the errors of the product of the exact one-way marginals, by kind of table."""
        found = {}
        for kind in KINDS:
            tables = [self._table(kind, seed) for seed in range(self._seeds)]
            found[kind] = tuple(_relative(truths, self._independent(columns)) for columns, truths in tables)
        return found

    def _independent(self, columns: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
        shares = {name: self._counts(columns, (name,)) / self._records for name in self._domain}
        for entry in self._workload.entries:
            cells = functools.reduce(np.multiply.outer, (shares[name] for name in entry.clique))
            yield np.ravel(entry.query.apply(self._records * cells))

    def _drawn(self, kind: str, seed: int) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """Return a simulated table and its true answers."""
        columns = simulated_table(self._domain, self._records, kind, seed)
        entries = self._workload.entries
        exact = [each.query.apply(self._counts(columns, each.clique)) for each in entries]
        return columns, [np.ravel(each).astype(float) for each in exact]

    def _counts(self, columns: Mapping[str, np.ndarray], clique: Clique) -> np.ndarray:
        shape = self._domain.shape_of(clique)
        cells = np.ravel_multi_index([columns[name] for name in clique], shape)
        return np.bincount(cells, minlength=self._domain.size(clique)).reshape(shape)

    def _answers(self, release: Release) -> Iterator[np.ndarray]:
        """Yield the answers to the workload, in the release's own way if it was asked for it."""
        if release.workload == self._workload:
            yield from release.answers()
            return
        for entry in self._workload.entries:
            yield np.ravel(release.model.answer(entry.query))


def _relative(truths: Sequence[np.ndarray], answers: Iterator[np.ndarray]) -> float:
    """Return the mean over entries of the L1 distance relative to the L1 norm of the true answers."""
    pairs = zip(truths, answers, strict=True)
    return float(np.mean([np.abs(true - ours).sum() / _norm(true) for true, ours in pairs]))


def _norm(true: np.ndarray) -> float:
    return float(np.abs(true).sum()) or 1.0


def _cells(model: GraphicalModel) -> int:
    places = {name: number for number, name in enumerate(model.domain.attributes)}
    cliques = [tuple(places[name] for name in clique) for clique in model.potentials.cliques]
    return total_cells(model.domain.shape, cliques)


def _in_one_line(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, FitError) and error.__cause__ else error
    return " ".join(str(cause).split()) or type(cause).__name__
