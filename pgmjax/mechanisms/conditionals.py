"""Models multiplied from conditionals, as the papers of PrivBayes and DualQuery do without the engine.

PrivBayes divides the noisy marginals of its network: the first is a joint table, every other one the
conditional of its last attribute given the others. DualQuery's records are counted on a junction tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.losses.transcript import Draws
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference.oracles.host import USUAL
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.transcript import Transcript
from pgmjax.mechanisms.adaptive import l2_loss
from pgmjax.mechanisms.run import carry_measurements
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Product
from pgmjax.queries.blocks import Merge
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


def conditional_fit(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float, estimator: Estimator
) -> Fit:
    """Return the paper's model as the result of a fit without steps.

    Its loss is the squared loss, and its gap is the loss itself, since no loss is below 0. The estimator is
    used only to plan the cliques.

    Raises:
        FitError: the model failed. The error carries the measurements, whose cost is spent.
    """
    with carry_measurements(measurements):
        model = network_model(domain, measurements, total)
        answers = [model.answer(measured.query).reshape(-1) for measured in measurements]
        loss = l2_loss(answers, measurements)
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
        # a cell without a positive count is impossible, as in the paper
        with np.errstate(divide="ignore"):
            potentials[measured.clique] = _as_fine(np.log(table), measured.query)
    if known != set(domain):
        raise ValueError(
            f"the measurements name {len(known)} of {len(domain)} attributes: no network of all."
        )
    return GraphicalModel.from_potentials(domain, potentials, total)


def paper_model(release: Release) -> GraphicalModel:
    """Return the PrivBayes paper's model of a release's measurements, however it was fitted.

    Raises:
        ValueError: the release is of another mechanism.
    """
    checks.kind(release, Release, "release must be a Release")
    if release.mechanism != "privbayes":
        raise ValueError(
            f"expected a release of the mechanism 'privbayes', got one of {release.mechanism!r}."
        )
    return network_model(release.domain, release.measurements, release.model.total)


def _normalised(counts: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    sums = counts.sum(axis=axes, keepdims=True)
    cells = np.prod([counts.shape[axis] for axis in axes])
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1), 1 / cells)


def _as_fine(table: np.ndarray, query: Product) -> np.ndarray:
    """A table over merged values as one over the values themselves."""
    for axis, block in enumerate(query.blocks):
        if isinstance(block, Merge):
            table = np.take(table, block.groups.array, axis=axis)
    return table


def tree_of(domain: Domain, workload: Workload) -> tuple[junction_tree.JunctionTree, tuple[str, ...]]:
    """Return the junction tree of a workload's cliques, and the attribute of each variable.

    Raises:
        ValueError: the tables of the tree do not fit in memory.
    """
    structure, attributes = Structure.named(domain.sizes, list(workload.cliques))
    tree = junction_tree.build(structure)
    USUAL.require_cells(tree.cells, "the model of the synthetic records")
    return tree, attributes


def model_of_records(transcript: Transcript, workload: Workload) -> GraphicalModel:
    """Return the maximum-entropy model with the records' marginals on the workload's junction tree.

    Its answers to the workload are those of the records, scaled to the size of the table. Attributes in
    different cliques of the tree are independent given their separators.
    """
    tree, attributes = tree_of(transcript.domain, workload)
    cliques = [tuple(attributes[v] for v in clique) for clique in tree.cliques]
    potentials = []
    for clique, separator in zip(cliques, tree.separator, strict=True):
        shared = {attributes[v] for v in separator}
        marginal = transcript.marginal(clique)
        gone = tuple(axis for axis, name in enumerate(clique) if name not in shared)
        given = np.broadcast_to(marginal.sum(axis=gone, keepdims=True), marginal.shape)
        table = np.full(marginal.shape, -np.inf)
        met = marginal > 0
        table[met] = np.log(marginal[met] / given[met])
        potentials.append(table)
    known = tuple(transcript.marginal(clique) for clique in workload.cliques)
    return GraphicalModel(
        transcript.domain,
        CliqueVector(tuple(cliques), tuple(potentials)),
        float(transcript.count),
        CliqueVector(workload.cliques, known),
    )


def fit_of_records(transcript: Transcript, workload: Workload, estimator: Estimator) -> Fit:
    """Return the records' model as a fit without steps, with its loss and an infinite gap."""
    model = model_of_records(transcript, workload)
    bound = Draws(transcript).bind(transcript.domain, (), model.total)
    loss = bound.exact([transcript.marginal(clique) for clique in bound.cliques])
    plan = estimator.plan(transcript.domain, bound.cliques)
    return Fit(model, Status.MAX_STEPS, 0, loss, math.inf, plan)
