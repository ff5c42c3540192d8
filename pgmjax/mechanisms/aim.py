"""AIM: round by round, measure the marginal that the model misses by most beyond what its noise would add."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.counting import check_memory
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.adaptive import (
    Purse,
    Round,
    affordable,
    check_adaptive,
    check_cells,
    downward_closure,
    is_noise,
)
from pgmjax.mechanisms.base import Settings, read_settings
from pgmjax.mechanisms.noise_sizes import (
    distances,
    expected_size,
    grid_for,
    law_for,
    most_moved,
    whole_weights,
)
from pgmjax.model.graphical import many_marginals
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import exact
from pgmjax.privacy.ledger import Ledger
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class AIM:
    """Adaptive and iterative: choose a marginal that matters and is far off, measure it, fit, repeat.

    Candidates are all subsets of the workload's cliques, worth more the more of the workload they share.
    After all attributes alone, each round chooses the candidate r of largest
    w_r (||exact marginal - model's||_1 - its expected noise) among those with which the model stays
    small, measures it, and fits again from the last model. Where a measurement changed the model by less
    than its own noise, later rounds get half the noise. The last round spends what is left.

    Args:
        epsilon: all that may be spent: a number, or an exact string such as "1/3".
        relation: which tables are neighbours; there is no default.
        delta: 0 spends epsilon by discrete Laplace noise and permute-and-flip; more than 0 spends the rho
            that fits both by discrete Gaussian noise and the exponential mechanism.
        rounds: forecast of their number, which sets the first round's budget; None is 16 an attribute of the
            workload. There are fewer where noise is halved on the way.
        share: of a round's budget for its measurement, the rest for its choice; in (0, 1).
        max_cells: of the model's junction tree, at most, once the whole budget is spent; in proportion to
            what is spent before.
        steps: solver steps at most of a fit between two rounds; the last fit is the estimator's.
        estimator: how models are fitted; None is `Estimator()`.
        backend: source of noise; None is the secure one.

    Raises:
        TypeError: a parameter of the wrong type.
        ValueError: a parameter outside its range.

    Guarantees:
        delta = 0: epsilon-DP. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that
        converts to at most epsilon. Costs are chosen on the way from released numbers only, and sum to the
        budget exactly. Candidates depend on the workload, the domain and what was measured.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, "AIM: An Adaptive and Iterative Mechanism for
        Differentially Private Synthetic Data", Algorithm 2 (delta > 0).
    """

    epsilon: Any
    relation: Relation
    delta: Any = 0
    rounds: int | None = None
    share: Any = "0.9"
    max_cells: int = 10_000_000
    steps: int = 100
    estimator: Estimator | None = None
    backend: NoiseBackend | None = None

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = (
        "measure, round by round, the marginals of the workload that the model knows worst"
    )

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, self.delta, self.relation)
        for name in ("epsilon", "delta", "relation"):
            object.__setattr__(self, name, getattr(settings, name))
        object.__setattr__(self, "share", exact("share", self.share))
        if not 0 < self.share < 1:
            raise ValueError(f"share must be above 0 and below 1, got {float(self.share):g}.")
        if self.rounds is not None:
            checks.integer("rounds", self.rounds, low=1)
        checks.integer("max_cells", self.max_cells, low=1)
        checks.integer("steps", self.steps, low=1)

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
            workload: what the release is to answer well: its cliques and weights, whatever queries are
                asked of them.
            ledger: where the table's budget is kept; None keeps no account beyond this run.
            key: the run's name in the ledger; None names it by what is asked. Asked again under the same
                name it gives the same answers and costs nothing, also after an interruption.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: a bad workload, a model too large for memory, too few rounds or a bad table; nothing
                was spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            FitError: a fit failed after the spend; the error carries the measurements.
        """
        settings = Settings(self.epsilon, self.delta, self.relation)
        estimator = Estimator(progress=show_progress) if self.estimator is None else self.estimator
        check_adaptive(data, workload, estimator)
        candidates = self._candidates(data, workload, settings, estimator)
        options = {name: getattr(self, name) for name in ("rounds", "max_cells", "steps")}
        request = {"mechanism": self.name, "share": str(self.share), **options}
        table = settings.open(data, workload, self.backend, request, ledger, key)
        purse = Purse(table, estimator, table.public_total(), show_progress)

        budget = table.budget
        attributes = [clique for clique in candidates if len(clique) == 1]
        first = Round.first(budget, self.rounds, len(attributes), self.share)
        measured = purse.measure(attributes, [first.measure] * len(attributes))
        model = purse.fit(measured, self.steps).model
        now = first.next(budget.remaining)
        while True:
            limit = int(self.max_cells * (budget.spent + now.cost) / budget.cap)
            held = [measurement.clique for measurement in measured]
            open_now = affordable(table.domain, held, list(candidates), limit)
            estimates = dict(zip(open_now, many_marginals(model, open_now), strict=True))
            clique = self._choose(purse, estimates, candidates, now)
            measured += purse.measure([clique], [budget.remaining if now.last else now.measure])
            if now.last:
                fit = purse.fit(measured, warm_start=model)
                return settings.release(self.name, table, workload, measured, estimator, fit)
            model = purse.fit(measured, self.steps, model).model
            quiet = is_noise(estimates[clique], model.marginal(clique), measured[-1])
            now = now.next(budget.remaining, anneal=quiet)

    def _candidates(
        self, data: Dataset, workload: Workload, settings: Settings, estimator: Estimator
    ) -> dict[Clique, int]:
        """The cliques that may ever be measured, with weights; refuses what could not be gone through."""
        domain, budget = data.domain, settings.budget()
        closure = downward_closure(domain, workload)
        check_cells(self.max_cells, estimator)
        kept = [c for c in closure if len(c) == 1 or domain.size(c) <= self.max_cells]
        check_memory(domain, kept)
        attributes = [clique for clique in kept if len(clique) == 1]
        estimator.plan(domain, attributes)
        candidates = dict(zip(kept, whole_weights([closure[c] for c in kept]), strict=True))
        first = Round.first(budget, self.rounds, len(attributes), self.share)
        weight = data.max_weight if data.weighted else None
        moves = most_moved(attributes, domain, self.relation, budget.unit, weight)
        for cost in (first.measure, budget.cap - first.cost):  # the least and the most a measurement may get
            law_for(moves, budget.unit, cost)
        self._grid(candidates, domain, weight, budget.unit, first.choose)
        return candidates

    def _grid(
        self, candidates: Mapping[Clique, int], domain: Domain, weight: int | None, unit: str, cost: Fraction
    ) -> int:
        moves = most_moved(candidates, domain, self.relation, "epsilon", weight)
        return grid_for(moves * max(candidates.values()), unit, cost)

    def _choose(
        self,
        purse: Purse,
        estimates: Mapping[Clique, np.ndarray],
        candidates: Mapping[Clique, int],
        now: Round,
    ) -> Clique:
        """Return the round's clique, given what the model says of all that may be measured now."""
        table = purse.table
        weight = table.max_weight if table.weighted else None
        moves = most_moved(estimates, table.domain, self.relation, purse.unit, weight)
        noise = expected_size(law_for(moves, purse.unit, now.measure))
        bits = self._grid(candidates, table.domain, weight, purse.unit, now.choose)
        score = distances(estimates, bits, candidates, noise)
        return list(estimates)[purse.choose(score, now.choose)]
