"""The two ways from a Bayesian network's noisy marginals to a model: the paper's, and the engine.

Both take the same measurements, in the network's order: of the first the whole table counts, of every
other one the last attribute given the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.solvers.loop import Status
from pgmjax.inference.plan.forecast import ModelTooLargeError, available_bytes, readable_bytes
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.base import paid_for
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Product, compression
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


def check_memory(domain: Domain, workload: Workload, estimator: Estimator, max_cells: int) -> None:
    """Refuse a workload or a model that would not fit in the estimator's memory; reads no table.

    Args:
        domain: the attributes.
        workload: what is asked of the model.
        estimator: how the model is fitted.
        max_cells: the most cells of its junction tree.

    Raises:
        ModelTooLargeError: with the figures (a ValueError).
    """
    limit = available_bytes() if estimator.max_bytes is None else estimator.max_bytes
    answers = workload.num_queries(domain)
    if 8 * answers > limit:
        raise ModelTooLargeError(
            f"The workload's {answers:,} answers need {readable_bytes(8 * answers)} and "
            f"{readable_bytes(limit)} is available: ask for smaller marginals."
        )
    cells = min(max_cells, domain.size())
    try:
        estimator.plan(Domain({"junction tree": cells}), [("junction tree",)])
    except ModelTooLargeError as error:
        raise ModelTooLargeError(f"max_cells allows models of {cells:,} cells. {error}") from error


def conditional_fit(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float, estimator: Estimator
) -> Fit:
    """Return the paper's model as the result of a fit without steps.

    Its loss is the squared one, and its gap the loss itself, since no loss is below 0. Of the estimator
    only the plan for the cliques is taken.

    Raises:
        FitError: no model could be made; it carries the measurements, which are paid for.
    """
    with paid_for(measurements):
        model = network_model(domain, measurements, total)
        loss = sum(_loss(model, measured) for measured in measurements)
        plan = estimator.plan(domain, [measured.clique for measured in measurements])
    return Fit(model, Status.MAX_STEPS, 0, loss, loss, plan)


def network_model(domain: Domain, measurements: Sequence[LinearMeasurement], total: float) -> GraphicalModel:
    """Return the Bayesian network whose conditionals are the clipped and normalised measurements.

    Negative counts are set to zero and every row normalised; a row without positive counts is uniform.
    Rows drawn from the model are the ancestral samples of the PrivBayes paper.

    Args:
        domain: the attributes.
        measurements: counts of parents (as they are or merged) against a child, the child last, in an order
            in which parents come before their children; of the first all attributes count as new.
        total: number of records (counts).

    Raises:
        ValueError: a measurement of something else, or not exactly one for each attribute.

    References:
        Zhang et al. 2017, "PrivBayes", Algorithms 1 and 3.
    """
    potentials: dict[tuple[str, ...], np.ndarray] = {}
    known: set[str] = set()
    for place, measured in enumerate(measurements):
        *parents, child = measured.clique
        if not isinstance(measured.query, Product) or child in known or (place and not known >= set(parents)):
            raise ValueError(
                f"measurement {place} on {measured.clique} is no part of a Bayesian network: parents come "
                "first and are known, the child comes last and is new."
            )
        known |= set(measured.clique)
        counts = np.maximum(measured.flat_values(), 0).reshape(measured.query.shape(domain))
        table = _normalised(counts, tuple(range(counts.ndim)) if place == 0 else (counts.ndim - 1,))
        with np.errstate(divide="ignore"):
            potentials[measured.clique] = _as_fine(np.log(table), measured.query)
    if known != set(domain):
        raise ValueError(
            f"the measurements name {len(known)} of {len(domain)} attributes: no network of all."
        )
    return GraphicalModel.from_potentials(domain, potentials, total)


def paper_model(release: Release) -> GraphicalModel:
    """Return what the PrivBayes paper makes of a release's measurements, whichever way it was fitted.

    Raises:
        ValueError: a release of another mechanism.
    """
    _check(release)
    return network_model(release.domain, release.measurements, release.model.total)


def engine_model(release: Release, estimator: Estimator | None = None) -> GraphicalModel:
    """Return what the engine makes of a PrivBayes release's measurements, whichever way it was fitted.

    Args:
        release: made by `PrivBayes`.
        estimator: how the model is fitted; None is `Estimator()`.

    Raises:
        ValueError: a release of another mechanism.
    """
    _check(release)
    estimator = Estimator() if estimator is None else estimator
    return estimator.fit(release.domain, release.measurements, total=release.model.total).model


def _loss(model: GraphicalModel, measured: LinearMeasurement) -> float:
    missed = model.answer(measured.query).reshape(-1) - measured.flat_values()
    return 0.5 * float(np.sum((missed / measured.row_stddevs()) ** 2))


def _check(release: Release) -> None:
    if not isinstance(release, Release):
        raise TypeError(f"release must be a Release, got {type(release).__name__}.")
    if release.mechanism != "privbayes":
        raise ValueError(
            f"expected a release of the mechanism 'privbayes', got one of {release.mechanism!r}."
        )


def _normalised(counts: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    sums = counts.sum(axis=axes, keepdims=True)
    cells = np.prod([counts.shape[axis] for axis in axes])
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1), 1 / cells)


def _as_fine(table: np.ndarray, query: Product) -> np.ndarray:
    """A table over merged values as one over the values themselves."""
    for axis, block in enumerate(query.blocks):
        if isinstance(block, compression):
            table = np.take(table, block.groups.array, axis=axis)
    return table
