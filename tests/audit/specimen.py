"""The specimen: a minimal mechanism with every step of an adaptive one, to audit and to break.

It is MWEM without its estimation: choose the marginal with the worst estimate, measure it, repeat. Seeded
faults change its steps one at a time. Another specimen publishes noisy scores instead of choosing.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Clique
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.parameters import PrivacyParameters
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Distances
from pgmjax.queries import marginal
from pgmjax.queries.workload import Workload


@dataclasses.dataclass(frozen=True, eq=False)
class SpecimenResult:
    """The result of the specimen.

    Attributes:
        estimates: table of counts for each clique, int64.
        chosen: the cliques in the order of measurement.
        total: the estimated number of records.
        measurements: the noisy answers.
        remarks: further public information about the run.
    """

    estimates: dict[Clique, np.ndarray]
    chosen: tuple[Clique, ...]
    total: int
    measurements: tuple[LinearMeasurement, ...]
    remarks: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class SelectAndMeasure(PrivacyParameters):
    """Choose the marginal that is farthest from its estimate, measure it, and repeat.

    Args:
        rounds: number of marginals to measure.

    Guarantees:
        As for `mechanisms.Marginals`; half of the budget goes to choices, half to measurements.

    References:
        Hardt, Ligett and McSherry 2012, Algorithm 1, without its update of the estimate.
    """

    rounds: int = 2

    name: ClassVar[str] = "select-and-measure"

    def run(self, data: Dataset, workload: Workload) -> SpecimenResult:
        """Measure some marginals of the workload's cliques."""
        table = PrivateTable(data, self.relation, self.budget(), self.backend)
        cliques = [entry.query.clique for entry in workload.entries]
        estimates = {c: np.zeros(table.domain.shape_of(c), dtype=np.int64) for c in cliques}
        measured: list[LinearMeasurement] = []
        parts = table.budget.split([1] * (2 * self.rounds))
        for first, second in zip(parts[::2], parts[1::2], strict=True):
            if self._finished(table, estimates):
                break
            clique = self._choose(table, estimates, first)
            measured.append(self._measure(table, clique, second))
            estimates[clique] = measured[-1].values.reshape(table.domain.shape_of(clique))
        chosen = tuple(each.clique for each in measured)
        total = self._total(table, estimates, chosen)
        return SpecimenResult(estimates, chosen, total, tuple(measured), self._remarks(table, estimates))

    def _finished(self, table: PrivateTable, estimates: dict[Clique, np.ndarray]) -> bool:
        return False

    def _choose(self, table: PrivateTable, estimates: dict[Clique, np.ndarray], cost: Any) -> Clique:
        cliques, score = list(estimates), _distances(estimates)
        unit = "epsilon" if self.delta == 0 else "rho"
        return cliques[table.select(score, **{unit: cost})]

    def _measure(self, table: PrivateTable, clique: Clique, cost: Any) -> LinearMeasurement:
        unit = "epsilons" if self.delta == 0 else "rhos"
        return table.measure([marginal(clique)], **{unit: [cost]}, show_progress=False)[0]

    def _total(
        self, table: PrivateTable, estimates: dict[Clique, np.ndarray], chosen: tuple[Clique, ...]
    ) -> int:
        public = table.public_total()
        if public is not None:
            return public
        return int(estimates[chosen[0]].sum()) if chosen else 0

    def _remarks(self, table: PrivateTable, estimates: dict[Clique, np.ndarray]) -> tuple[Any, ...]:
        return ()


@dataclasses.dataclass(frozen=True)
class ScoreAndMeasure(SelectAndMeasure):
    """Publish scores of all marginals with noise, measure the one of the largest, and repeat.

    Guarantees:
        As for `SelectAndMeasure`; half of the budget goes to scores, half to measurements.
    """

    name: ClassVar[str] = "score-and-measure"

    def _choose(self, table: PrivateTable, estimates: dict[Clique, np.ndarray], cost: Any) -> Clique:
        cliques, score = list(estimates), _distances(estimates)
        return cliques[int(np.argmax(table.measure_scores(score, **{table.budget.unit: cost})))]


def _distances(estimates: dict[Clique, np.ndarray]) -> Distances:
    """Return the distance of each exact marginal from its estimate, as a score."""
    return Distances([(marginal(clique), table, 1, 0) for clique, table in estimates.items()])
