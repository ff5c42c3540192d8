"""What mechanisms share that measure, fit and choose again: checks beforehand, spending, fits on the way."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from pgmjax import solvers
from pgmjax.cliques import Clique
from pgmjax.dataset import Dataset
from pgmjax.domain import Domain
from pgmjax.estimate import Estimator, Fit
from pgmjax.laws import DiscreteLaplace, Law
from pgmjax.measurements import LinearMeasurement
from pgmjax.mechanisms.settings import FitError, check_table_and_workload
from pgmjax.model import GraphicalModel
from pgmjax.plan.forecast import ModelTooLargeError, available_bytes, readable_bytes
from pgmjax.privacy import scales
from pgmjax.privacy.noise import PrivateTable
from pgmjax.privacy.scores import Score
from pgmjax.privacy.scores.grid import DEFAULT_BITS
from pgmjax.privacy.selection import exponential_for
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import marginal
from pgmjax.relation import Relation
from pgmjax.workload import Workload

GAUSSIAN_FROM = 4.0
_GRID_LIMIT = 2.0**52
_SCALE_LIMIT = 2**49


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


def most_moved(
    cliques: Iterable[Clique], domain: Domain, relation: Relation, unit: str, max_weight: int | None
) -> int:
    """Return the largest sensitivity of some marginals, >= 1: L1 for an epsilon, squared L2 for a rho."""
    norm = "l1" if unit == "epsilon" else "l2_squared"
    return max(1, *(Sensitivity.of(marginal(c), domain, relation, norm, max_weight).value for c in cliques))


def law_for(sensitivity: int, unit: str, cost: Fraction) -> Law:
    """Return the law of noise that a cost buys.

    Raises:
        ValueError: noise too large to add or none at all.
    """
    if unit == "epsilon":
        return scales.laplace_for(sensitivity, cost)
    return scales.gaussian_for(sensitivity, cost)


def expected_size(law: Law) -> float:
    """Return the expected absolute value of noise (counts), of the discrete law that is really drawn.

    About sqrt(2 / pi) * scale for a Gaussian law and the scale for a Laplace law, but for small scales.

    Example:
        >>> round(expected_size(DiscreteLaplace(10.0)), 3), round(expected_size(DiscreteLaplace(0.5)), 3)
        (9.983, 0.276)
    """
    if isinstance(law, DiscreteLaplace):
        inverse = 1 / law.scale
        return 1 / math.sinh(inverse) if inverse < 700 else 0.0
    if law.scale >= GAUSSIAN_FROM:
        return math.sqrt(2 / math.pi) * (law.scale - 1 / (12 * law.scale))  # Euler-Maclaurin
    values = np.arange(1, math.ceil(40 * law.scale) + 2)
    return float(2 * (values * law.probabilities(values)).sum())


def whole_weights(weights: Sequence[Fraction], most: int = 4096) -> list[int]:
    """Return whole numbers from 1 to `most` in the proportion of positive weights.

    Exactly in proportion where whole numbers in that range are, otherwise rounded, to 1 at least.

    Example:
        >>> whole_weights([Fraction(1, 2), Fraction(3)]), whole_weights([Fraction(1), Fraction(10**6)])
        ([1, 6], [1, 4096])
    """
    common = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * common) for weight in weights]
    shared = math.gcd(*whole)
    if max(whole) // shared <= most:
        return [weight // shared for weight in whole]
    return [max(1, round(Fraction(weight * most, max(whole)))) for weight in whole]


def selection_epsilon(unit: str, cost: Fraction) -> float:
    """Return the epsilon of a choice for a cost, roughly."""
    return float(cost) if unit == "epsilon" else math.sqrt(8 * float(cost))


def grid_for(largest: int, unit: str, cost: Fraction) -> int:
    """Return how many bits a score's grid may have so that the noise of its choice can be drawn.

    Args:
        largest: the largest weight times sensitivity of a candidate.
        unit: of the cost.
        cost: of the choice.

    Raises:
        ValueError: not even whole numbers can be chosen from: the cost is too small or too large.
    """
    epsilon = selection_epsilon(unit, cost)
    room = math.floor(math.log2(_SCALE_LIMIT * epsilon / (2 * largest)))
    exponential_for(largest * 2 ** min(DEFAULT_BITS, max(room, 0)), Fraction(epsilon))  # refuses in words
    return min(DEFAULT_BITS, max(room, 0))


def on_grid(values: np.ndarray, bits: int) -> np.ndarray:
    """Return public numbers moved to where a score's grid ends; those beyond would be saturated anyway."""
    limit = math.ldexp(_GRID_LIMIT, -bits)
    return np.clip(values, -limit, limit)


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
        given = {f"{self.unit}s": list(costs)}
        queries = [marginal(clique) for clique in cliques]
        return list(self.table.measure(queries, **given, show_progress=self.show_progress))

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
        try:
            return estimator.fit(self.table.domain, given, self.total, warm_start)
        except Exception as error:
            raise FitError(str(error), tuple(measurements)) from error
