"""Errors against the true table: for research only, NEVER part of a release.

Everything here reads the exact table without noise, and its results say `private=False`. An error
against the truth is itself information about the table: publishing one voids the guarantee.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pgmjax.data.dataset import Dataset
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Errors against the true table. Not private: do not publish.

    Attributes:
        error: the mean over the workload's entries.
        per_entry: one number an entry, in the workload's order.
        private: always False.
    """

    error: float
    per_entry: tuple[float, ...]
    private: bool = dataclasses.field(default=False, init=False)


def workload_error(data: Dataset, released: Release | GraphicalModel, workload: Workload) -> Evaluation:
    """Return how far a model's answers are from the true ones. NOT private: for research only.

    A release that answers its own workload by least squares is judged by those answers on it.

    The error of an entry is the L1 distance of the answers divided by the L1 norm of the true ones
    (0 where both vanish, infinite where only the true ones do); weights of entries play no part.

    Args:
        data: the true table, read without noise.
        released: a release or a model.
        workload: the queries to compare.

    Raises:
        ValueError: the workload does not fit the table's domain.

    References:
        McKenna et al. 2019, section 5 (who print half of this number).
    """
    model = released.model if isinstance(released, Release) else released
    workload.validate(data.domain)
    queries = [entry.query for entry in workload.entries]
    if isinstance(released, Release) and released.workload == workload:
        estimates = released.answers()
    else:
        estimates = [np.asarray(model.answer(query), np.float64).reshape(-1) for query in queries]
    cliques = list(dict.fromkeys(query.clique for query in queries))
    tables = dict(zip(cliques, data.marginals(cliques), strict=True))
    errors = []
    for query, estimate in zip(queries, estimates, strict=True):
        truth = np.asarray(query.apply(tables[query.clique]), np.float64).reshape(-1)
        distance, norm = float(np.abs(truth - estimate).sum()), float(np.abs(truth).sum())
        errors.append(distance / norm if norm > 0 else 0.0 if distance == 0 else float("inf"))
    return Evaluation(float(np.mean(errors)), tuple(errors))
