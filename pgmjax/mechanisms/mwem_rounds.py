"""The rounds of MWEM: select, measure, update the estimate.

Each round selects from `Candidates`: whole marginals, or single queries of the workload.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pgmjax import queries
from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.base import Request, Run, carry_measurements
from pgmjax.mechanisms.mwem_baselines import Estimate
from pgmjax.mechanisms.noise_sizes import distribution_for, whole_weights
from pgmjax.privacy import measuring
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.scores import Distances, Errors, Score, Stack
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import Query, marginal
from pgmjax.queries.rows import row
from pgmjax.queries.workload import Workload

PENALTIES = ("cells", "noise", "none")

_TABLES = 4  # of each candidate at once: exact counts, estimates, both on the grid
_MOST = 2.0**44  # counts: estimates and offsets stay within the scores' grid


@dataclasses.dataclass(frozen=True)
class Rounds:
    """The rounds of MWEM for one request.

    Attributes:
        request: the public request, whose whole budget is spent.
        candidates: the candidates of the selections.
        estimate: the estimate, initially without measurements; updated in place.
        rounds: number of rounds, independent of the answers.
        split: the measurement's share of a round's budget.
        total_share: the share of the budget for measuring the total, if it is private.
        max_cells: the largest number of cells of the estimate after the last round; None without a limit.
        penalty: the penalty subtracted from a whole marginal's error, one of `PENALTIES`.
        repeat: whether whole marginals may be measured again before others.
    """

    request: Request
    candidates: Candidates
    estimate: Estimate
    rounds: int
    split: Fraction
    total_share: Fraction
    max_cells: int | None
    penalty: str
    repeat: bool

    @functools.cached_property
    def costs(self) -> Costs:
        """The cost of each step."""
        share = None if self.request.total_is_public else self.total_share
        return Costs.of(self.request.budget, self.rounds, self.split, share)

    def check(self, backend: NoiseBackend) -> None:
        """Check before spending that the noise for every candidate can be drawn at its cost.

        Raises:
            ValueError: the noise would overflow or vanish. The message gives the sensitivity and the remedy.
        """
        domain, unit = self.request.domain, self.request.budget.unit
        each = [self.candidates.keep([place]).blank() for place in range(len(self.candidates.queries))]
        cost, bounds = self.costs.choices[0], (self.request.max_weight, backend, 1, self.request.max_records)
        epsilon, rho = (cost, None) if unit == "epsilon" else (None, cost)
        for score in (self.candidates.blank(), *each):
            measuring.plan_selection(score, epsilon, rho, None, unit, domain, self.request.relation, *bounds)
        for sensitivity in {self._sensitivity(query) for query in self.candidates.queries}:
            distribution_for(sensitivity, unit, self.costs.answers[0])
        if self.costs.total is not None:
            distribution_for(self._sensitivity(_total_query(domain)), unit, self.costs.total)

    def make(self, run: Run) -> list[LinearMeasurement]:
        """Run all rounds and return all measurements, starting with the total if it is private.

        Raises:
            FitError: the estimate failed. The error carries the measurements so far.
        """
        quiet = dataclasses.replace(run, show_progress=False)  # the rounds have the bar
        costs, found = self.costs, []
        if costs.total is not None:
            found += quiet.measure([_total_query(self.request.domain)], [costs.total])
        first = len(found)
        with Progress("MWEM rounds", self.rounds, run.show_progress) as bar:
            for number in range(self.rounds):
                chosen = self._choose(quiet, number, found)
                found += quiet.measure([chosen], [costs.answers[number]])
                with _carried(found):
                    last = number + 1 == self.rounds
                    self.estimate.update(found[first:], self._total(quiet, found), last)
                bar.advance()
        return found

    def _total(self, run: Run, found: list[LinearMeasurement]) -> float:
        return float(estimate_total(self.request.domain, found)[0] if run.total is None else run.total)

    def _choose(self, run: Run, number: int, found: list[LinearMeasurement]) -> Query:
        total = self._total(run, found)
        with _carried(found):
            kept = self._fresh(self._within(number), found)
            answers = self.estimate.answers(kept.queries, total)
            offsets = [self._penalty(query, self.costs.answers[number]) for query in kept.queries]
        score = kept.score(answers, offsets)
        return kept.chosen(score, run.select(score, self.costs.choices[number]))

    def _within(self, number: int) -> Candidates:
        """Return the candidates within the limit of cells in a round."""
        if self.max_cells is None:
            return self.candidates
        cells = self.estimate.cells(self.candidates.cliques)
        limit = max(self.max_cells * (number + 1) // self.rounds, min(cells))
        return self.candidates.keep([i for i, held in enumerate(cells) if held <= limit])

    def _fresh(self, kept: Candidates, found: list[LinearMeasurement]) -> Candidates:
        """Return the marginals measured least often, which depends on released values only."""
        if self.repeat or not kept.whole:
            return kept
        times = Counter(measurement.query for measurement in found)
        least = min(times[query] for query in kept.queries)
        return kept.keep([i for i, query in enumerate(kept.queries) if times[query] == least])

    def _penalty(self, query: Query, cost: Fraction) -> float:
        """Return the penalty that is subtracted from a query's error (counts)."""
        if self.penalty == "none" or not self.candidates.whole:
            return 0.0
        rows = query.num_rows(self.request.domain)
        if self.penalty == "cells":
            return float(rows)
        return rows * distribution_for(self._sensitivity(query), self.request.budget.unit, cost).mean_absolute

    def _sensitivity(self, query: Query) -> int:
        """Return the L1 or squared L2 sensitivity, of all rows for whole marginals, otherwise of one row."""
        request = self.request
        pure, whole = request.budget.unit == "epsilon", self.candidates.whole
        norm = ("l1" if pure else "l2_squared") if whole else "linf"
        unmultiplied = Sensitivity.of(query, request.domain, request.relation, norm, request.max_weight)
        moved = unmultiplied.of_unit(request.max_records).value
        return moved if pure or whole else moved**2


def _total_query(domain: Domain) -> Query:
    return queries.kronecker({domain.attributes[0]: queries.total()})


def _carried(found: list[LinearMeasurement]) -> contextlib.AbstractContextManager[None]:
    """Return a context in which a failure of the estimate carries the measurements, if any."""
    return carry_measurements(found) if found else contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Costs:
    """The cost of each step of a run. The costs sum exactly to the budget.

    Attributes:
        total: cost of measuring the total; None if it is public.
        choices: cost of each round's selection.
        answers: cost of each round's measurement.
    """

    total: Fraction | None
    choices: tuple[Fraction, ...]
    answers: tuple[Fraction, ...]

    @classmethod
    def of(cls, budget: Budget, rounds: int, split: Fraction, total_share: Fraction | None) -> Costs:
        """Divide the remaining budget. Nothing is spent.

        Args:
            budget: the budget.
            rounds: number of rounds, which have equal costs.
            split: the measurement's share of a round's cost.
            total_share: the share of the whole for measuring the total; None if it is public.
        """
        each = (1 - (total_share or Fraction(0))) / rounds
        weights = [each * (1 - split), each * split] * rounds
        if total_share is None:
            parts = budget.split(weights)
            return cls(None, parts[::2], parts[1::2])
        parts = budget.split([total_share, *weights])
        return cls(parts[0], parts[1::2], parts[2::2])


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Queries with weights, of which one, or one row, is selected.

    Attributes:
        domain: the attributes.
        queries: the queries; each is a candidate if `whole`, otherwise each of its rows is.
        weights: integer weights of the queries' errors.
        whole: whether all rows of a query are selected and measured together.
    """

    domain: Domain
    queries: tuple[Query, ...]
    weights: tuple[int, ...]
    whole: bool

    @classmethod
    def of(cls, domain: Domain, workload: Workload, select: str) -> Candidates:
        """Return the marginals of a workload's cliques ("marginals") or its own queries ("queries").

        A marginal has the sum of the weights of the workload's entries on its clique.
        """
        if select == "queries":
            whole = whole_weights([entry.weight for entry in workload.entries])
            return cls(domain, tuple(entry.query for entry in workload.entries), tuple(whole), False)
        weights = [
            sum((e.weight for e in workload.entries if set(e.clique) == set(clique)), Fraction(0))
            for clique in workload.cliques
        ]
        marginals = tuple(marginal(clique) for clique in workload.cliques)
        return cls(domain, marginals, tuple(whole_weights(weights)), True)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The clique of each query."""
        return tuple(query.clique for query in self.queries)

    def keep(self, kept: Sequence[int]) -> Candidates:
        """Return the candidates with the given indices."""
        return dataclasses.replace(
            self,
            queries=tuple(self.queries[i] for i in kept),
            weights=tuple(self.weights[i] for i in kept),
        )

    def score(self, answers: Sequence[np.ndarray], offsets: Sequence[float]) -> Score:
        """Return the score, which is the error of each candidate.

        Args:
            answers: the estimate's answers to each query [rows], public (counts).
            offsets: the penalty subtracted from the error of each whole query (counts).
        """
        estimates = [np.clip(answer, -_MOST, _MOST) for answer in answers]
        if not self.whole:
            parts = zip(self.queries, estimates, self.weights, strict=True)
            return Stack([Errors(*part) for part in parts])
        bounded = [min(offset, _MOST) for offset in offsets]
        return Distances(zip(self.queries, estimates, self.weights, bounded, strict=True))

    def check(self) -> None:
        """Check before spending that all candidates can be scored.

        Raises:
            ValueError: a query is not integral or has too large entries, or the tables and estimates do not
                fit in memory.
        """
        check_memory(self.domain, [query.clique for query in self.queries] * _TABLES)
        self.blank().check(self.domain)

    def blank(self) -> Score:
        """Return a score with zero estimates, which has the same sensitivity."""
        return self.score(
            [np.zeros(q.num_rows(self.domain)) for q in self.queries], [0.0] * len(self.queries)
        )

    def chosen(self, score: Score, number: int) -> Query:
        """Return the query to measure for the selected number."""
        if self.whole:
            return self.queries[number]
        assert isinstance(score, Stack)
        place, at = score.locate(self.domain, number)
        return row(self.queries[place], self.domain, at)
