"""The plain mechanism: measure every query of the workload once, then fit one model to the answers."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import ClassVar

from pgmjax._internal import checks
from pgmjax.mechanisms.base import MeasurementPlan, MeasureOnce
from pgmjax.mechanisms.run import Request


@dataclasses.dataclass(frozen=True)
class Marginals(MeasureOnce):
    """Measure the workload's queries once with equal or weighted budget, and fit a model.

    Args:
        split: "equal" gives every entry of the workload the same budget, "weighted" a budget in
            proportion to its weight.

    Guarantees:
        delta = 0: epsilon-DP. Query i is answered with discrete Laplace noise of scale
        (its L1 sensitivity under `relation`) / epsilon_i, and the epsilon_i sum to epsilon exactly.
        delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that dp-accounting converts
        to at most epsilon. Query i has discrete Gaussian noise of variance
        (its squared L2 sensitivity) / (2 rho_i), and the rho_i sum to rho exactly.
        The model is post-processing. Under ADD_REMOVE the total is estimated from the noisy answers. Under
        REPLACE_ONE the number of records is public and used, but the total weight of a weighted table is
        private and estimated.

    References:
        McKenna et al. 2019, section 3.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> Marginals(epsilon=1, relation=Relation.ADD_REMOVE).epsilon
        Fraction(1, 1)
    """

    split: str = "equal"

    name: ClassVar[str] = "marginals"
    summary: ClassVar[str] = "measure every query of the workload once, with equal or weighted budget"
    audited_values: ClassVar[dict[str, tuple[str, ...]]] = {"split": ("equal", "weighted")}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.set_choice(self, "split", ("equal", "weighted"))

    def plan(self, request: Request) -> MeasurementPlan:
        """Return the workload's queries with equal weights or their own."""
        entries = request.workload.entries
        weights = [Fraction(1) if self.split == "equal" else Fraction(entry.weight) for entry in entries]
        return MeasurementPlan(request.measurable([entry.query for entry in entries]), weights)
