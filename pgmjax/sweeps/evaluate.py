"""Errors against the true table: for research only, NEVER part of a release.

Everything here reads the exact table without noise, and results are marked `private=False`. An error
against the true answers is itself information about the table: publishing it voids the guarantee.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pgmjax.data.dataset import Dataset
from pgmjax.model.graphical import many_marginals
from pgmjax.queries import marginal
from pgmjax.queries.workload import Workload
from pgmjax.release.look import total_variation
from pgmjax.release.release import Release


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
        answers = [
            np.asarray(entry.query.apply(tables[entry.clique]), np.float64).reshape(-1)
            for entry in workload.entries
        ]
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
