"""The plain mechanism: measure every query of the workload once, then fit one model to the answers."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.base import Settings, Unfitted, check_request, read_settings
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.ledger import Ledger
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class Marginals:
    """Measure the workload's queries once with equal or weighted budget, and fit a model.

    Args:
        epsilon: all that may be spent: a number, or an exact string such as "1/3".
        relation: which tables are neighbours; there is no default.
        delta: 0 measures with discrete Laplace noise under pure differential privacy; more than 0
            with discrete Gaussian noise under zCDP.
        split: "equal" gives every entry of the workload the same budget, "weighted" gives it in
            proportion to the entries' weights.
        estimator: how the model is fitted; None is `Estimator()`.
        backend: source of noise; None is the secure one.

    Raises:
        TypeError: epsilon or delta is a bool or no number.
        ValueError: epsilon or delta outside its range, no such relation, no such split.

    Guarantees:
        delta = 0: epsilon-DP. Query i is answered with discrete Laplace noise of scale
        (its L1 sensitivity under `relation`) / epsilon_i, and the epsilon_i sum to epsilon exactly.
        delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that dp-accounting converts
        to at most epsilon; query i has discrete Gaussian noise of variance
        (its squared L2 sensitivity) / (2 rho_i), and the rho_i sum to rho exactly.
        The model is post-processing. The total is estimated from the noisy answers under
        ADD_REMOVE; under REPLACE_ONE the number of records is public and used, while the total weight
        of a weighted table is private and estimated.

    References:
        McKenna et al. 2019, section 3.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> Marginals(epsilon=1, relation=Relation.ADD_REMOVE).epsilon
        Fraction(1, 1)
    """

    epsilon: Any
    relation: Relation
    delta: Any = 0
    split: str = "equal"
    estimator: Estimator | None = None
    backend: NoiseBackend | None = None

    name: ClassVar[str] = "marginals"
    summary: ClassVar[str] = "measure every query of the workload once, with equal or weighted budget"

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, self.delta, self.relation)
        checks.choice("split", self.split, ("equal", "weighted"))
        for name in ("epsilon", "delta", "relation"):
            object.__setattr__(self, name, getattr(settings, name))

    def run(
        self,
        data: Dataset,
        workload: Workload,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
    ) -> Release:
        """Make a release.

        Args:
            data: the private table.
            workload: what to measure; all of it is.
            ledger: where the table's budget is kept; None keeps no account beyond this run.
            key: the run's name in the ledger; None names it by what is asked. Asked again under the same
                name it gives the same answers and costs nothing, also after an interruption.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: a bad workload, a model too large for memory or a bad table; nothing was spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            FitError: the fit failed after the spend; the error carries the measurements.
        """
        return self.measure(data, workload, ledger=ledger, key=key, show_progress=show_progress).release()

    def measure(
        self,
        data: Dataset,
        workload: Workload,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
    ) -> Unfitted:
        """Measure, as `run`, and leave the fit to the caller: see `base.release_together`."""
        settings = Settings(self.epsilon, self.delta, self.relation)
        estimator = Estimator(progress=show_progress) if self.estimator is None else self.estimator
        queries = check_request(data, workload, self.relation, estimator)
        request = {"mechanism": self.name, "split": self.split}
        table = settings.open(data, workload, self.backend, request, ledger, key)
        shares = table.budget.split(self._weights(workload))
        costs = {"epsilons" if table.budget.unit == "epsilon" else "rhos": shares}
        measurements = table.measure(queries, **costs, show_progress=show_progress)
        return Unfitted(self.name, settings, table, workload, tuple(measurements), estimator)

    def _weights(self, workload: Workload) -> list[Fraction]:
        if self.split == "equal":
            return [Fraction(1)] * len(workload.entries)
        return [Fraction(entry.weight) for entry in workload.entries]
