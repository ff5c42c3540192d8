"""The smallest mechanism that does everything an adaptive one does, to audit and to break.

It is the skeleton of MWEM without its estimation: choose the marginal that is known worst, measure it,
repeat. Mutants change its steps one at a time.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.base import Settings, read_settings
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Distances
from pgmjax.queries import marginal
from pgmjax.queries.workload import Workload


@dataclasses.dataclass(frozen=True, eq=False)
class SpecimenResult:
    """What the specimen returns.

    Attributes:
        estimates: by clique a table of counts, int64.
        chosen: the cliques in the order in which they were measured.
        total: the estimated number of records.
        measurements: the noisy answers.
        remarks: more about the run, all of it public.
    """

    estimates: dict[Clique, np.ndarray]
    chosen: tuple[Clique, ...]
    total: int
    measurements: tuple[LinearMeasurement, ...]
    remarks: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class SelectAndMeasure:
    """Choose the marginal that is farthest from its estimate, measure it, and repeat.

    Args:
        epsilon: all that may be spent.
        relation: which tables are neighbours.
        delta: 0 for Laplace noise and permute-and-flip, more for Gaussian noise and the exponential
            mechanism.
        backend: source of noise; None is the secure one.
        rounds: how many marginals are measured.

    Guarantees:
        As `mechanisms.Marginals`: half of the budget goes to choices, half to measurements.

    References:
        Hardt, Ligett and McSherry 2012, Algorithm 1, without its update of the estimate.
    """

    epsilon: Any
    relation: Relation
    delta: Any = 0
    backend: NoiseBackend | None = None
    rounds: int = 2

    name: ClassVar[str] = "select-and-measure"

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, self.delta, self.relation)
        for name in ("epsilon", "delta", "relation"):
            object.__setattr__(self, name, getattr(settings, name))

    def run(self, data: Dataset, workload: Workload) -> SpecimenResult:
        """Measure some marginals of the workload's cliques."""
        settings = Settings(self.epsilon, self.delta, self.relation)
        table = PrivateTable(data, settings.relation, settings.budget(), self.backend)
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
        cliques = list(estimates)
        score = Distances([(marginal(clique), estimates[clique], 1, 0) for clique in cliques])
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
