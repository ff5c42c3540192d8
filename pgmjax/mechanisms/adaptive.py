"""What mechanisms share that measure, fit and choose again: checks beforehand, spending, fits on the way."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.estimation import solvers
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.inference.plan.forecast import ModelTooLargeError, available_bytes, readable_bytes
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.base import check_table_and_workload, paid_for
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Score
from pgmjax.queries import Query, marginal
from pgmjax.queries.workload import Workload


def check_adaptive(data: Dataset, workload: Workload, estimator: Estimator) -> None:
    """Refuse a table or a workload that cannot be worked with; reads nothing of the table.

    Unlike `settings.check_request` this asks for no model of all the workload's cliques together, but each
    of them must be answerable alone.

    Raises:
        TypeError: not a table or not a workload.
        ValueError: the workload does not fit the domain, or its largest clique not in memory.
    """
    check_table_and_workload(data, workload)
    estimator.plan(data.domain, [max(workload.cliques, key=data.domain.size)])


def check_cells(max_cells: int, estimator: Estimator) -> None:
    """Refuse a limit of model size that would not fit in memory.

    Raises:
        ModelTooLargeError: with the figures.
    """
    itemsize = np.dtype(estimator.dtype).itemsize
    need = itemsize * (2 + solvers.build(estimator.solver).copies) * max_cells
    limit = available_bytes() if estimator.max_bytes is None else estimator.max_bytes
    if need > limit:
        raise ModelTooLargeError(
            f"A model of max_cells = {max_cells:,} cells would need about {readable_bytes(need)}, and "
            f"{readable_bytes(limit)} is available: lower max_cells. Nothing was spent."
        )


def merged(domain: Domain, measurements: Sequence[LinearMeasurement]) -> list[LinearMeasurement]:
    """Return whole marginals with those of one clique averaged, weighted by precision, in a fixed order.

    The sum of squares of the result differs from that of the parts by a constant, and programs compiled for
    one order and number of measurements serve again.
    """
    parts: dict[Clique, list[LinearMeasurement]] = {}
    for measurement in measurements:
        parts.setdefault(measurement.clique, []).append(measurement)
    place = {name: i for i, name in enumerate(domain.attributes)}
    result = []
    for clique in sorted(parts, key=lambda clique: (len(clique), [place[name] for name in clique])):
        precisions = [1 / float(part.stddev) ** 2 for part in parts[clique]]
        precision = math.fsum(precisions)
        values = sum(p * part.flat_values() for p, part in zip(precisions, parts[clique], strict=True))
        first = parts[clique][0]
        result.append(
            LinearMeasurement(clique, values / precision, precision**-0.5, first.query, first.noise)
        )
    return result


@dataclasses.dataclass(frozen=True)
class Purse:
    """Spends a table's budget in its own unit.

    Attributes:
        table: the private table.
        estimator: how models are fitted.
        total: the public number of records, None where it must be estimated.
        show_progress: None shows bars in terminals only, False never.
    """

    table: PrivateTable
    estimator: Estimator
    total: int | None
    show_progress: bool | None = None

    @property
    def unit(self) -> str:
        """What is counted: "epsilon" or "rho"."""
        return self.table.budget.unit

    def measure(self, cliques: Sequence[Clique], costs: Sequence[Fraction]) -> list[LinearMeasurement]:
        """Measure whole marginals."""
        return self.ask(map(marginal, cliques), costs)

    def ask(self, queries: Iterable[Query], costs: Sequence[Fraction]) -> list[LinearMeasurement]:
        """Measure queries."""
        given = {f"{self.unit}s": list(costs)}
        return list(self.table.measure(list(queries), **given, show_progress=self.show_progress))

    def choose(self, score: Score, cost: Fraction) -> int:
        """Choose a candidate: permute-and-flip for an epsilon, the exponential mechanism for a rho."""
        if self.unit == "epsilon":
            return self.table.select(score, epsilon=cost)
        return self.table.select(score, rho=cost)

    def fit(
        self,
        measurements: Sequence[LinearMeasurement],
        steps: int | None = None,
        warm_start: GraphicalModel | None = None,
    ) -> Fit:
        """Fit a model, in at most so many steps where it is one on the way.

        Raises:
            FitError: the fit failed; it carries the measurements, which are paid for.
        """
        estimator = self.estimator
        if steps is not None:
            most = min(steps, estimator.max_steps)
            estimator = dataclasses.replace(estimator, max_steps=most, progress=False)
        given = merged(self.table.domain, measurements) if estimator.loss == "l2" else measurements
        with paid_for(measurements):
            return estimator.fit(self.table.domain, given, self.total, warm_start)
