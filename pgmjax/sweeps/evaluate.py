"""Errors against the true table: for research only, NEVER part of a release.

Everything here reads the exact table without noise, and results are marked `private=False`. An error
against the true answers is itself information about the table: publishing it voids the guarantee.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.dataset import Dataset
from pgmjax.model.graphical import GraphicalModel, many_marginals
from pgmjax.queries import marginal
from pgmjax.queries.workload import Workload
from pgmjax.release.look import total_variation
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class WorkloadEvaluation:
    """Errors against the true table. Not private: do not publish.

    Attributes:
        error: mean error over the entries of the workload.
        per_entry: error of each entry, in workload order.
        private: always False.
    """

    error: float
    per_entry: tuple[float, ...]
    private: bool = dataclasses.field(default=False, init=False)


def workload_error(
    data: Dataset, released: Release | GraphicalModel, workload: Workload
) -> WorkloadEvaluation:
    """Return the error of a model's answers against the true ones. NOT private: for research only.

    If `workload` is the release's own, its `answers` are used, which may come from least squares.

    The error of an entry is the L1 distance between the answers, divided by the L1 norm of the true ones
    (0 if both vanish, infinite if only the norm does). Entry weights are ignored.

    Args:
        data: the true table, read without noise.
        released: a release or a model.
        workload: the queries to compare.

    Raises:
        ValueError: the workload does not fit the table's domain.

    References:
        McKenna et al. 2019, section 5 (they report half of this number).
    """
    model = released.model if isinstance(released, Release) else released
    workload = workload.over(data.domain)
    queries = [entry.query for entry in workload.entries]
    if isinstance(released, Release) and released.workload == workload:
        estimates = released.answers()
    else:
        estimates = [np.asarray(model.answer(query), np.float64).reshape(-1) for query in queries]
    cliques = list(dict.fromkeys(query.clique for query in queries))
    tables = dict(zip(cliques, data.marginals(cliques), strict=True))
    errors = []
    for truth, estimate in zip(_true_answers(workload, tables), estimates, strict=True):
        distance, norm = float(np.abs(truth - estimate).sum()), float(np.abs(truth).sum())
        errors.append(distance / norm if norm > 0 else 0.0 if distance == 0 else float("inf"))
    return WorkloadEvaluation(float(np.mean(errors)), tuple(errors))


def _true_answers(workload: Workload, tables: Mapping[Clique, np.ndarray]) -> list[np.ndarray]:
    """The exact answers of each entry [rows], computed from the exact clique tables."""
    return [
        np.asarray(entry.query.apply(tables[entry.clique]), np.float64).reshape(-1)
        for entry in workload.entries
    ]


@dataclasses.dataclass(frozen=True)
class ErrorSummary:
    """Errors against the true table. Not private: do not publish.

    Attributes:
        mean_absolute: mean absolute error over all answers of the workload (counts).
        root_mean_square: root mean square error over the same answers (counts).
        largest: largest absolute error (counts).
        total_variation: half the L1 distance between the model's marginal and the true one, both as
            distributions, averaged over the workload's cliques (0 to 1).
        private: always False.
    """

    mean_absolute: float
    root_mean_square: float
    largest: float
    total_variation: float
    private: bool = dataclasses.field(default=False, init=False)


@dataclasses.dataclass(frozen=True)
class Truth:
    """The exact answers to a workload. Private.

    Attributes:
        workload: the workload.
        tables: exact marginal of each of its cliques (counts).
        answers: exact answers of each of its entries (counts).
        records: number of records, or their total weight.
    """

    workload: Workload
    tables: tuple[np.ndarray, ...]
    answers: tuple[np.ndarray, ...]
    records: int

    @classmethod
    def of(cls, data: Dataset, workload: Workload) -> Truth:
        """Compute the exact answers of a table."""
        named = list(dict.fromkeys([*workload.cliques, *(entry.clique for entry in workload.entries)]))
        tables = dict(zip(named, data.marginals(named), strict=True))
        answers = _true_answers(workload, tables)
        return cls(workload, tuple(tables[c] for c in workload.cliques), tuple(answers), data.count())

    def errors(self, release: Release) -> ErrorSummary:
        """Return the errors of a release's answers and of its model's marginals."""
        answers = release.answers()
        distances = np.concatenate(
            [np.abs(ours - true) for ours, true in zip(answers, self.answers, strict=True)]
        )
        return ErrorSummary(
            float(distances.mean()),
            float(np.sqrt(np.mean(np.square(distances)))),
            float(distances.max()),
            float(np.mean(self._variations(release, answers))),
        )

    def _variations(self, release: Release, answers: list[np.ndarray]) -> list[float]:
        entries = self.workload.entries
        cliques = self.workload.cliques
        # the model's answers to whole marginals are its marginals: do not compute them twice
        if release.answered_by == "engine" and [entry.query for entry in entries] == list(
            map(marginal, cliques)
        ):
            ours = [answer.reshape(true.shape) for answer, true in zip(answers, self.tables, strict=True)]
        else:
            ours = many_marginals(release.model, cliques)
        return [total_variation(each, true) for each, true in zip(ours, self.tables, strict=True)]
