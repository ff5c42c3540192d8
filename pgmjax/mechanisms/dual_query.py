"""DualQuery: synthetic records that answer drawn queries, and a model fitted to the draws.

The game's rounds are played here; their cost and the player of records stand in `dual_query_game`. The
paper's own estimate is the synthetic records, see `conditionals.fit_of_records`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.losses.transcript import Draws
from pgmjax.measurements.transcript import Transcript
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.conditionals import fit_of_records, tree_of
from pgmjax.mechanisms.dual_query_game import ACCOUNTS, Game, Player, agree
from pgmjax.mechanisms.parameters import declared, one_of, whole
from pgmjax.mechanisms.run import FitError, Request, Run
from pgmjax.privacy.exact import as_text, exact_positive
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Overshoots
from pgmjax.queries import Query, integers
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

    accounting: Any = None
    step: Any = declared(None, exact_positive)
    samples: int = whole(50, low=1, high=10**5)
    rounds: int | None = whole(None, low=2, high=10**5)
    estimate: str = one_of("engine", ("engine", "paper"))
    seed: int = whole(0)

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
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = (
        "every record counts once in its draws, which depend on the number of records: that must be public."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        default = "zcdp" if self.delta else "pure"
        account = checks.choice("accounting", self.accounting or default, ACCOUNTS)
        if (account == "pure") != (self.delta == 0):
            wrong = "spends no delta: leave it out" if self.delta else "needs a delta above 0"
            raise ValueError(f"accounting {account!r} {wrong}.")
        checks.set_fields(self, accounting=account)
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
        limits = self.accounting, self.epsilon, self.delta
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

    def _spent(self, run: Run, game: Game, rounds: int) -> Spent:
        if self.accounting == "pure":
            return Spent(run.budget.spent, Fraction(0))
        return Spent(game.epsilon(rounds, self.accounting, self.delta), self.delta, run.budget.spent)


def first_round(player: Player, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws and the record of the first round, which are the same for all tables.

    Raises:
        ValueError: the largest table needed for an answer does not fit in memory.
    """
    drawn = random.generator(seed).integers(player.candidates, size=samples)
    return drawn, player.record(drawn)


def play(
    table: PrivateTable,
    queries: Sequence[Query],
    player: Player,
    game: Game,
    rounds: int,
    first: tuple[np.ndarray, np.ndarray],
    show_progress: bool | None,
) -> Transcript:
    """Play the rounds after the first. Only the draws are charged to the table's budget.

    References:
        Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014, Algorithm 1; McKenna et al. 2019, Algorithm 4, whose
        lines are counted from the first after its inputs and outputs.
    """
    # Lines 1 to 5 for t = 1: the draws are uniform, so that they and their record need no table.
    drawn, records = [first[0]], [first[1]]
    with Progress("playing", rounds - 1, show_progress) as progress:
        for number in range(2, rounds + 1):
            # Lines 6 and 7: Q^t grows where the records so far have less of a query than the table.
            score = Overshoots(queries, np.stack(records), game.count)
            cost: Fraction = game.draw_epsilon(number)
            # Line 4: draw from Q^t, each draw by the exponential mechanism.
            drawn.append(table.select_several(score, game.samples, epsilon=cost, method="exponential"))
            # Line 5: the record that the fewest of the drawn queries count.
            records.append(player.record(drawn[-1]))
            progress.advance()
    step = game.step / table.max_records  # draws are as private as many records of a unit need
    return Transcript(table.domain, tuple(queries), game.count, step, np.stack(drawn), np.stack(records))
