"""The paper's own estimate of DualQuery: its synthetic records, as a model."""

from __future__ import annotations

import math

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.losses.transcript import Draws
from pgmjax.estimation.solvers.loop import Status
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.transcript import Transcript
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.workload import Workload


def tree_of(domain: Domain, workload: Workload) -> tuple[junction_tree.JunctionTree, tuple[str, ...]]:
    """Return the junction tree of a workload's cliques, and which attribute each variable is.

    Raises:
        ValueError: its tables do not fit in memory.
    """
    structure, attributes = Structure.named(domain.sizes, list(workload.cliques))
    tree = junction_tree.build(structure)
    require_cells(tree.cells, "the model of the synthetic records")
    return tree, attributes


def model_of_records(transcript: Transcript, workload: Workload) -> GraphicalModel:
    """Return the model of most entropy that has the records' marginals on the workload's junction tree.

    It gives the records' own answers, scaled to the table, to every query of the workload; what lies across
    the tree's cliques is independent given what they share.
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
    """Return the records' model as a fit of no steps, with its loss and no certificate."""
    model = model_of_records(transcript, workload)
    bound = Draws(transcript).bind(transcript.domain, (), model.total)
    loss = bound.exact([transcript.marginal(clique) for clique in bound.cliques])
    plan = estimator.plan(transcript.domain, bound.cliques)
    return Fit(model, Status.MAX_STEPS, 0, loss, math.inf, plan)
