"""The estimates behind MWEM's one switch: the engine, and multiplicative weights as its baselines."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.solvers.loop import Status
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import check_cells
from pgmjax.mechanisms.factored_weights import FactoredWeights
from pgmjax.mechanisms.multiplicative_weights import FullVector, MultiplicativeWeights
from pgmjax.model.graphical import GraphicalModel, many_marginals
from pgmjax.queries import Query

ARMS = ("engine", "multiplicative-weights", "factored-multiplicative-weights")


class Estimate(abc.ABC):
    """A distribution that is brought up to date after every round, from released numbers only."""

    @abc.abstractmethod
    def cells(self, cliques: Sequence[Clique]) -> list[int]:
        """Return how many cells the estimate would hold with each of some cliques measured too."""

    @abc.abstractmethod
    def check(self, smallest: Clique, most: int | None) -> None:
        """Refuse, before anything is spent, what does not fit in the memory.

        Args:
            smallest: the candidate that takes the fewest cells.
            most: the most cells that candidates are let grow to, None without a limit.

        Raises:
            ModelTooLargeError: with the figures.
        """

    @abc.abstractmethod
    def update(self, measurements: Sequence[LinearMeasurement], total: float, last: bool = True) -> None:
        """Use what was measured, all of it so far, the newest last; `last` after the last round."""

    @abc.abstractmethod
    def marginals(self, cliques: Sequence[Clique], total: float) -> list[np.ndarray]:
        """Return the estimate's marginals [size of each attribute] (counts)."""

    def answers(self, queries: Sequence[Query], total: float) -> list[np.ndarray]:
        """Return the estimate's answers to each query [rows] (counts)."""
        cliques = list(dict.fromkeys(query.clique for query in queries))
        tables = dict(zip(cliques, self.marginals(cliques, total), strict=True))
        return [np.asarray(query.apply(tables[query.clique]), np.float64).reshape(-1) for query in queries]

    @abc.abstractmethod
    def fit(self) -> Fit:
        """Return the estimate as it is after the last update."""


class Engine(Estimate):
    """The engine: each update is a fit of all measurements, started from the one before.

    Args:
        domain: the attributes.
        estimator: how the last fit is made.
        steps: the most steps of the fits before it.
    """

    def __init__(self, domain: Domain, estimator: Estimator, steps: int):
        self._domain = domain
        self._estimator = estimator
        self._shorter = dataclasses.replace(estimator, max_steps=min(steps, estimator.max_steps))
        self._fit: Fit | None = None
        self._cliques: tuple[Clique, ...] = ()

    def cells(self, cliques: Sequence[Clique]) -> list[int]:
        """Return the cells of a junction tree of the model with each clique."""
        return [int(cells) for cells in candidate_cells(self._domain, self._cliques, cliques)]

    def check(self, smallest: Clique, most: int | None) -> None:
        """Plan the smallest candidate, and forecast the memory of a model at the limit."""
        self._estimator.plan(self._domain, [smallest])
        if most is not None:
            check_cells(min(most, self._domain.size(self._domain.attributes)), self._estimator)

    def update(self, measurements: Sequence[LinearMeasurement], total: float, last: bool = True) -> None:
        """Fit all measurements."""
        start = None if self._fit is None else self._fit.model
        estimator = self._estimator if last else self._shorter
        used, apart = averaged(measurements) if estimator.loss == "l2" else (list(measurements), 0.0)
        fit = estimator.fit(self._domain, used, total=total, warm_start=start)
        self._fit = dataclasses.replace(fit, loss=fit.loss + apart)
        self._cliques = tuple(dict.fromkeys(measurement.clique for measurement in measurements))

    def marginals(self, cliques: Sequence[Clique], total: float) -> list[np.ndarray]:
        """Return the model's, before the first fit those of the uniform one."""
        if self._fit is None:
            return many_marginals(GraphicalModel.from_potentials(self._domain, {}, total), cliques)
        return many_marginals(self._fit.model, cliques)

    def fit(self) -> Fit:
        """Return the last fit."""
        assert self._fit is not None
        return self._fit


class Weights(Estimate):
    """Multiplicative weights, whole or factored.

    Args:
        domain: the attributes.
        weights: the tables.
        sweeps: how often an update goes through the measurements.
        history: whether it goes through all of them, or the newest only.
    """

    def __init__(self, domain: Domain, weights: MultiplicativeWeights, sweeps: int, history: bool):
        self._domain = domain
        self._weights = weights
        self._sweeps = sweeps
        self._history = history
        self._fit: Fit | None = None

    def cells(self, cliques: Sequence[Clique]) -> list[int]:
        """Return the cells of all tables, with those merged that a clique meets."""
        return [self._weights.cells_with(clique) for clique in cliques]

    def check(self, smallest: Clique, most: int | None) -> None:
        """Forecast the memory of the tables at the limit."""
        cells = self._weights.cells_with(smallest)
        whole = self._domain.size(self._domain.attributes)
        if not isinstance(self._weights, FullVector):
            self._weights.require(cells if most is None else max(cells, min(most, whole)), "factors")

    def update(self, measurements: Sequence[LinearMeasurement], total: float, last: bool = True) -> None:
        """Sweep over the measurements, then note how well all of them are met."""
        used = measurements if self._history else measurements[-1:]
        done = self._weights.sweep(used, total, self._sweeps)
        answers = self.answers([measurement.query for measurement in measurements], total)
        loss = 0.5 * sum(
            float(np.sum(((answer - measurement.flat_values()) / measurement.row_stddevs()) ** 2))
            for answer, measurement in zip(answers, measurements, strict=True)
        )
        status = Status.MAX_STEPS if done == self._sweeps else Status.STALLED
        steps = done + (0 if self._fit is None else self._fit.steps)
        # no loss is below 0, so that the loss itself bounds how far it is from the least one
        self._fit = Fit(self._weights.model(total), status, steps, loss, loss, None)

    def marginals(self, cliques: Sequence[Clique], total: float) -> list[np.ndarray]:
        """Return those of the tables."""
        return [total * self._weights.marginal(clique) for clique in cliques]

    def fit(self) -> Fit:
        """Return the tables as a model; steps are sweeps, and nothing was planned."""
        assert self._fit is not None
        return self._fit


def averaged(measurements: Sequence[LinearMeasurement]) -> tuple[list[LinearMeasurement], float]:
    """Return answers to the same query as one, weighted by precision, and what that takes off the l2 loss.

    The loss of the result differs from that of all answers by this constant, whatever the model. A query
    that is measured again so needs no new program.
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
    return result, apart


def make(arm: str, domain: Domain, estimator: Estimator, steps: int, sweeps: int, history: bool) -> Estimate:
    """Return an estimate by the name of its arm, for the rest see `Engine` and `Weights`.

    Raises:
        ModelTooLargeError: the whole domain is to be written out and does not fit in the memory.
    """
    if arm == "engine":
        return Engine(domain, dataclasses.replace(estimator, progress=False), steps)
    kind = FullVector if arm == "multiplicative-weights" else FactoredWeights
    return Weights(domain, kind(domain, estimator.max_bytes), sweeps, history)
