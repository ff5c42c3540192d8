"""DualQuery: synthetic records that answer drawn queries, and a model fitted to the draws.

The paper's own estimate is the synthetic records; `model_of_records` converts them to a model.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.losses.transcript import Draws
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.transcript import Transcript
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.dual_query_game import ACCOUNTS, Game, Player, agree, first_round, play
from pgmjax.mechanisms.run import FitError, Request, Run
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.exact import as_text, exact, shortened
from pgmjax.queries import Query, integers
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release, Spent


@dataclasses.dataclass(frozen=True)
class DualQuery(Mechanism):
    """Play queries against records. Nothing is measured; only the draws of queries depend on the table.

    Each round draws queries, preferring those whose value on the records so far most exceeds that on the
    table. The next record is the one counted by the fewest drawn queries. Queries are the workload's rows,
    with 0/1 entries, and their negations.

    Args:
        accounting: composition of costs: "pure" for delta 0; "zcdp", "tight" or "simple" for delta > 0, in
            order of decreasing number of rounds. Default: "zcdp" for delta > 0, otherwise "pure".
        step: eta, how sharply a round's draws react to earlier rounds. Default: 2, or less if the budget
            does not allow `rounds` rounds with it (4 if `rounds` is not given).
        samples: number of queries drawn in each round.
        rounds: number of rounds, at least 2. Default: the most that the budget allows.
        estimate: "engine" fits a model to all draws, "paper" uses the records themselves.
        seed: seed of the first round's draws, which are uniform and cost nothing.
        estimator: the estimator that fits the model. Default: mirror descent. Its loss is replaced by that
            of the draws, and it stops at the optimum.

    Guarantees:
        Each draw of round t uses the exponential mechanism with epsilon_t = 2 step (t - 1) / records.
        "pure": epsilon-DP by the sum. "zcdp": (epsilon, delta)-DP by the sum of epsilon_t^2 / 8.
        "tight", "simple": (epsilon, delta)-DP by advanced composition, with the cost of each draw or with
        that of the last round for all draws. The records and the model are post-processing.

    References:
        Gaboardi et al. 2014, "Dual Query"; McKenna et al. 2019, section 5 and Algorithms 4 and 5.

    Example:
        >>> DualQuery(epsilon=1, delta="1e-3", relation=Relation.REPLACE_ONE).accounting
        'zcdp'
    """

    accounting: str | None = None
    step: Any = None
    samples: int = 50
    rounds: int | None = None
    estimate: str = "engine"
    seed: int = 0

    discovers: ClassVar[bool] = False
    follows: ClassVar[bool] = False
    name: ClassVar[str] = "dual-query"
    summary: ClassVar[str] = "draw queries that synthetic records answer badly, and fit a model to the draws"
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "accounting": (None, *ACCOUNTS),
        "step": (None, "1/2"),
        "samples": (5, 20),
        "rounds": (None, 2, 3),
        "estimate": ("engine", "paper"),
        "seed": (0, 1),
    }
    audited_large: ClassVar[None] = None
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = (
        "every record counts once in its draws, which depend on the number of records: that must be public."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        account = checks.choice("accounting", self._account(), ACCOUNTS)
        if (account == "pure") != (self.delta == 0):
            wrong = "spends no delta: leave it out" if self.delta else "needs a delta above 0"
            raise ValueError(f"accounting {account!r} {wrong}.")
        self._set(accounting=account)
        if self.step is not None:
            self._set(step=exact("step", self.step))
            if self.step <= 0:
                raise ValueError(f"step must be > 0, got {shortened(self.step)}.")
        checks.set_integers(self, "samples", low=1, high=10**5)
        checks.set_integers(self, "rounds", low=2, high=10**5, optional=True)
        checks.set_choice(self, "estimate", ("engine", "paper"))
        checks.set_integers(self, "seed", low=0)
        if self.estimator is not None and self.estimator.loss != "l2":
            raise ValueError("DualQuery fits the loss of its own draws: leave the estimator's loss as it is.")

    def _fitted_by(self, show_progress: bool | None = None) -> Estimator:
        """Return the estimator. Default: mirror descent."""
        if self.estimator is None:
            return Estimator(solver="mirror_descent", progress=show_progress)
        return self.estimator

    def plan(self, request: Request) -> tuple[list[Query], Player, tuple[np.ndarray, np.ndarray]]:
        """Return the workload's queries, the player of records, and the first round's draws."""
        queries = request.measurable([entry.query for entry in request.workload.entries])
        for query in queries:
            integers.check_indicators(query, request.domain)
        if self.estimate == "paper":
            tree_of(request.domain, request.workload)
        player = Player(request.domain, queries)
        return queries, player, first_round(player, self.samples, self.seed)

    def describe(self, plan: Any) -> dict[str, Any]:
        """Return the settings of the game, without those of the estimate."""
        named = {name: getattr(self, name) for name in ("accounting", "samples", "rounds")}
        step = None if self.step is None else as_text(self.step)
        return {**named, "step": step, "first_round": self.seed}

    def execute(self, run: Run) -> Release:
        """Play the game. The release has the draws and records in `transcript`, and no measurements.

        Raises:
            FitError: the fit failed after the budget was spent. The error carries the `transcript`.
        """
        queries, player, first = run.plan
        limits = self._account(), self.epsilon, self.delta
        game, rounds = agree(run.table.public_count(), self.step, self.samples, self.rounds, *limits)
        transcript = play(run.table, queries, player, game, rounds, first, run.show_progress)
        fit = self._fit(run, transcript)
        return run.release((), fit, transcript=transcript, spent=self._spent(run, game, rounds))

    def _fit(self, run: Run, transcript: Transcript) -> Fit:
        if self.estimate == "paper":
            return fit_of_records(transcript, run.request.workload, run.estimator)
        own = dataclasses.replace(run.estimator, loss=Draws(transcript))
        try:
            return run.fit((), estimator=own)
        except FitError as error:
            error.transcript = transcript
            raise

    def _account(self) -> str:
        return self.accounting or ("zcdp" if self.delta else "pure")

    def _spent(self, run: Run, game: Game, rounds: int) -> Spent:
        if self._account() == "pure":
            return Spent(run.budget.spent, Fraction(0))
        epsilon = min(game.epsilon(rounds, self._account(), self.delta), self.epsilon)
        return Spent(epsilon, self.delta, run.budget.spent)


def tree_of(domain: Domain, workload: Workload) -> tuple[junction_tree.JunctionTree, tuple[str, ...]]:
    """Return the junction tree of a workload's cliques, and the attribute of each variable.

    Raises:
        ValueError: the tables of the tree do not fit in memory.
    """
    structure, attributes = Structure.named(domain.sizes, list(workload.cliques))
    tree = junction_tree.build(structure)
    require_cells(tree.cells, "the model of the synthetic records")
    return tree, attributes


def model_of_records(transcript: Transcript, workload: Workload) -> GraphicalModel:
    """Return the maximum-entropy model with the records' marginals on the workload's junction tree.

    Its answers to the workload are those of the records, scaled to the size of the table. Attributes in
    different cliques of the tree are independent given their separators.
    """
    tree, attributes = tree_of(transcript.domain, workload)
    cliques = [tuple(attributes[v] for v in clique) for clique in tree.cliques]
    potentials = []
    for clique, separator in zip(cliques, tree.separator, strict=True):
        shared = {attributes[v] for v in separator}
        marginal = transcript.marginal(clique)
        gone = tuple(axis for axis, name in enumerate(clique) if name not in shared)
        given = np.broadcast_to(marginal.sum(axis=gone, keepdims=True), marginal.shape)
        table = np.full(marginal.shape, -np.inf)
        met = marginal > 0
        table[met] = np.log(marginal[met] / given[met])
        potentials.append(table)
    known = tuple(transcript.marginal(clique) for clique in workload.cliques)
    return GraphicalModel(
        transcript.domain,
        CliqueVector(tuple(cliques), tuple(potentials)),
        float(transcript.count),
        CliqueVector(workload.cliques, known),
    )


def fit_of_records(transcript: Transcript, workload: Workload, estimator: Estimator) -> Fit:
    """Return the records' model as a fit without steps, with its loss and an infinite gap."""
    model = model_of_records(transcript, workload)
    bound = Draws(transcript).bind(transcript.domain, (), model.total)
    loss = bound.exact([transcript.marginal(clique) for clique in bound.cliques])
    plan = estimator.plan(transcript.domain, bound.cliques)
    return Fit(model, Status.MAX_STEPS, 0, loss, math.inf, plan)
