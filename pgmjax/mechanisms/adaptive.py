"""Select, measure, fit, repeat: the loop of AIM, batch AIM and MWEM, its estimate and its candidates."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.regularisation import is_known_for, weight_of
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.candidates import check_cells
from pgmjax.mechanisms.run import Request, Run, carry_measurements, numbered
from pgmjax.model.graphical import GraphicalModel, many_marginals
from pgmjax.queries import Query

KEPT_NOISE = {"epsilon": 0.5, "rho": 0.35}
"""The share of a measured marginal's expected noise that is taken to remain in a regularised fit, for Laplace
and for Gaussian noise. Chosen on Adult, Titanic and Stroke of McKenna et al. 2019 (bench/paper004)."""
CHOSEN_SHARE = 0.4
"""Share of the automatic weight of regularisation in the fit of a tree or network of chosen marginals. They
are the most dependent ones, and what a pull towards independence takes from each adds up between attributes
that are far apart (bench/paper004)."""


RoundPlan: TypeAlias = tuple[Sequence[Query], Sequence[Fraction], bool]
"""The queries measured before the next update of the estimate, each at its own cost, and whether they are the
last ones."""


class SelectMeasureFit:
    """The loop of the mechanisms that select, measure and fit in rounds.

    The rounds of a mechanism are a generator. It selects by the estimate, yields what is to be measured, and
    goes on when the estimate has been updated from the answers. Both see released values only.

    Args:
        run: the run.
        estimate: the estimate, still without measurements.
        counted: answers about the total alone, measured before; the estimate is scaled to it, not fitted.

    Attributes:
        run, estimate, counted: as given.
        measured: the answers that the estimate was updated from.
    """

    def __init__(self, run: Run, estimate: Estimate, counted: Sequence[LinearMeasurement] = ()):
        self.run = run
        self.estimate = estimate
        self.counted = list(counted)
        self.measured: list[LinearMeasurement] = []

    @property
    def answers(self) -> list[LinearMeasurement]:
        """All answers so far."""
        return [*self.counted, *self.measured]

    def follow(self, rounds: Iterable[RoundPlan]) -> Fit:
        """Make the rounds and return the last fit.

        Raises:
            FitError: an update failed. The error carries the answers so far, whose cost is spent.
        """
        for queries, costs, last in rounds:
            self.measured += self.run.measure(queries, costs)
            with carry_measurements(self.answers):
                self.estimate.update(self.measured, self._total(), last)
        return self.estimate.fit

    def estimates(self, queries: Sequence[Query]) -> list[np.ndarray]:
        """Return the estimate's answers to queries [rows of each] (counts); raises as `follow` does."""
        with carry_measurements(self.answers) if self.answers else contextlib.nullcontext():
            return self.estimate.answers(queries, self._total())

    def _total(self) -> float | None:
        """Return the number of records: public, estimated from all answers, or None for the fit to do so."""
        if self.run.total is not None or not self.counted:
            return self.run.total
        return estimate_total(self.run.request.domain, self.answers)[0]


class Estimate(abc.ABC):
    """A distribution that is updated after every round, from released values only."""

    fit: Fit
    """The estimate after the last update."""

    @abc.abstractmethod
    def cells(self, cliques: Sequence[Clique]) -> list[int]:
        """Return for each clique the number of cells of the estimate if it were measured next."""

    @abc.abstractmethod
    def check(self, smallest: Clique, most: int | None) -> None:
        """Check before spending that the estimate fits in memory.

        Args:
            smallest: the candidate that needs the fewest cells.
            most: the limit of cells for candidates; None without a limit.

        Raises:
            ModelTooLargeError: it does not fit. The message gives the sizes.
        """

    @abc.abstractmethod
    def update(
        self, measurements: Sequence[LinearMeasurement], total: float | None, last: bool = True
    ) -> None:
        """Update from all measurements so far, the newest last; `last` is true after the last round."""

    @abc.abstractmethod
    def marginals(self, cliques: Sequence[Clique], total: float | None) -> list[np.ndarray]:
        """Return the estimate's marginals [size of each attribute] (counts)."""

    def answers(self, queries: Sequence[Query], total: float | None) -> list[np.ndarray]:
        """Return the estimate's answers to each query [rows] (counts)."""
        cliques = list(dict.fromkeys(query.clique for query in queries))
        tables = dict(zip(cliques, self.marginals(cliques, total), strict=True))
        return [np.asarray(query.apply(tables[query.clique]), np.float64).reshape(-1) for query in queries]


def l2_loss(answers: Iterable[np.ndarray], measurements: Iterable[LinearMeasurement]) -> float:
    """Return the loss "l2" of an estimate's answers to what was measured [rows of each] (counts)."""
    pairs = zip(answers, measurements, strict=True)
    missed = (((answer - each.flat_values()) / each.row_stddevs()) ** 2 for answer, each in pairs)
    return 0.5 * sum(float(np.sum(squares)) for squares in missed)


class Engine(Estimate):
    """The engine: each update is a fit to all measurements, started from the previous one.

    Args:
        domain: the attributes.
        estimator: the estimator by which a run decides what to measure.
        steps: the largest number of steps of the fits before the last one; see `between_rounds`.
        last: the estimator of the last fit. Default: the same.
    """

    def __init__(
        self, domain: Domain, estimator: Estimator, steps: int | None, last: Estimator | None = None
    ):
        self._domain = domain
        self._between = between_rounds(estimator, steps)
        self._last = estimator if last is None else last
        self._start: GraphicalModel | None = None
        self.cliques: tuple[Clique, ...] = ()

    def cells(self, cliques: Sequence[Clique]) -> list[int]:
        """Return the cells of a junction tree of the model with each clique."""
        return [int(cells) for cells in candidate_cells(self._domain, self.cliques, cliques)]

    def check(self, smallest: Clique, most: int | None) -> None:
        """Plan the smallest candidate, and forecast the memory of a model at the limit."""
        self._last.plan(self._domain, [smallest])
        if most is not None:
            check_cells(min(most, self._domain.size(self._domain.attributes)), self._last)

    def update(
        self, measurements: Sequence[LinearMeasurement], total: float | None, last: bool = True
    ) -> None:
        """Fit all measurements, repeated ones as their averages if the loss is "l2"."""
        estimator = self._last if last else self._between
        used, apart = list(measurements), 0.0
        if estimator.loss == "l2":
            used, apart = averaged(self._domain, measurements)
        fit = estimator.fit(self._domain, used, total=total, warm_start=self._start)
        self.fit = dataclasses.replace(fit, loss=fit.loss + apart)
        self._start = fit.model
        self.cliques = tuple(dict.fromkeys(measurement.clique for measurement in measurements))

    def marginals(self, cliques: Sequence[Clique], total: float | None = None) -> list[np.ndarray]:
        """Return the model's marginals; those of the uniform model before the first fit."""
        model = self._start
        if model is None:
            assert total is not None
            model = GraphicalModel.from_potentials(self._domain, {}, total)
        return many_marginals(model, cliques)


def averaged(
    domain: Domain, measurements: Sequence[LinearMeasurement]
) -> tuple[list[LinearMeasurement], float]:
    """Return precision-weighted means of answers to the same query, and the decrease of the l2 loss.

    The loss of the result differs from that of all answers by this constant for every model. A repeated
    query therefore needs no new compiled program, and neither do the same cliques in another order: the
    means are in the order of the domain.
    """
    parts: dict[Query, list[LinearMeasurement]] = {}
    for measurement in measurements:
        parts.setdefault(measurement.query, []).append(measurement)
    result, apart = [], 0.0
    for query, same in parts.items():
        if len(same) == 1:
            result += same
            continue
        precisions = np.array([1 / part.row_stddevs() ** 2 for part in same])
        values = np.array([part.flat_values() for part in same])
        mean = (precisions * values).sum(axis=0) / precisions.sum(axis=0)
        apart += 0.5 * float((precisions * (values - mean) ** 2).sum())
        stddevs = precisions.sum(axis=0) ** -0.5
        stddev = float(stddevs[0]) if all(part.stddev.ndim == 0 for part in same) else stddevs
        result.append(LinearMeasurement(query.clique, mean, stddev, query, same[0].noise))
    places = numbered(domain, [each.clique for each in result])
    order = sorted(range(len(result)), key=lambda i: (len(places[i]), places[i]))
    return [result[i] for i in order], apart


def between_rounds(estimator: Estimator, steps: int | None) -> Estimator:
    """Return the estimator of the fits between two rounds, which has no progress bar.

    Args:
        estimator: that of the last fit.
        steps: the largest number of steps, with the estimator's own tolerance; None for a fit that ends where
            noise hides what is left to gain (`tol=None`), with the estimator's own limit of steps.
    """
    if steps is None:
        return dataclasses.replace(estimator, tol=None, progress=False)
    return dataclasses.replace(estimator, max_steps=min(steps, estimator.max_steps), progress=False)


def fit_of_chosen(run: Run, measured: Sequence[LinearMeasurement]) -> Fit:
    """Fit a tree or network of chosen marginals, pulled `CHOSEN_SHARE` times as much towards independence.

    Args:
        run: the run. An estimator that does not leave the weight of regularisation open is used as it is.
        measured: its noisy answers.

    Raises:
        FitError: the fit failed. The error carries the measurements, whose cost is spent.
    """
    estimator, domain = run.estimator, run.request.domain
    if estimator.regularisation == "auto" and is_known_for(estimator.loss):
        with carry_measurements(measured):
            records = estimate_total(domain, measured)[0] if run.total is None else run.total
            weight = CHOSEN_SHARE * weight_of("auto", domain, measured, records)
        estimator = dataclasses.replace(estimator, regularisation=weight)
    return run.fit(measured, estimator=estimator)


def kept_noise(request: Request, given: float | None) -> float:
    """Return the share of a measurement's expected noise that is taken to remain in a fit."""
    if given is not None:
        return given
    estimator = request.estimator
    pulled = estimator.regularisation != "none" and is_known_for(estimator.loss)
    return KEPT_NOISE[request.budget.unit] if pulled else 1.0


def part_of_noise(name: str, value: Any) -> float:
    """Return the given share of a measurement's noise.

    Raises:
        TypeError: no number.
        ValueError: not in (0, 1].
    """
    if checks.number(name, value, above=0) > 1:
        raise ValueError(f"{name} must be a share in (0, 1], got {value:g}.")
    return float(value)
