"""DualQuery: synthetic records that answer drawn queries, and a model fitted to the draws.

The paper's own estimate is the synthetic records, see `fit_of_records`.

The cost is computed by one of four accounting methods, and `agree` finds the rounds that a budget allows.
Round t draws each query by the exponential mechanism with e_t = 2 step (t - 1) / count. A query's exponent is
step times the sum of t - 1 differences of fractions, so it changes by at most step (t - 1) / count when one
of `count` records is replaced. The first round is free.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.losses.transcript import Draws
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import USUAL
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.transcript import Transcript
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.run import FitError, Request, Run
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.accounting.zcdp import epsilon_of, rho_for
from pgmjax.privacy.exact import as_text, exact, shortened
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Overshoots
from pgmjax.queries import Query, integers
from pgmjax.queries.rows import transposed
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release, Spent

STEP = Fraction(2)
LEAST_ROUNDS = 4
ACCOUNTS = ("pure", "simple", "tight", "zcdp")
_ROUNDING = 1 + 1e-12
_MOST_ROUNDS = 10**6
_DIGITS = 12


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
        epsilon = min(game.epsilon(rounds, self.accounting, self.delta), self.epsilon)
        return Spent(epsilon, self.delta, run.budget.spent)


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


@dataclasses.dataclass(frozen=True)
class Game:
    """The public numbers of a game.

    Attributes:
        count: the number of records.
        step: eta, exact.
        samples: number of queries drawn in each round.
    """

    count: int
    step: Fraction
    samples: int

    def draw_epsilon(self, number: int) -> Fraction:
        """Return the epsilon of one draw in a round; rounds are numbered from 1."""
        return 2 * self.step * (number - 1) / self.count

    def pure(self, rounds: int) -> Fraction:
        """Return the sum of epsilon over all draws."""
        return self.step * rounds * (rounds - 1) * self.samples / self.count

    def rho(self, rounds: int) -> Fraction:
        """Return the sum of rho over all draws, each epsilon^2 / 8 by the bounded range."""
        return self._squares(rounds) / 8

    def simple(self, rounds: int, delta: Any) -> float:
        """Return the epsilon at delta > 0 by advanced composition, with the largest cost for all draws."""
        epsilon, draws = float(self.draw_epsilon(rounds)), self.samples * (rounds - 1)
        with np.errstate(over="ignore"):
            rest = draws * epsilon * float(np.expm1(epsilon))
        return (epsilon * math.sqrt(-2 * draws * math.log(delta)) + rest) * _ROUNDING

    def tight(self, rounds: int, delta: Any) -> float:
        """Return the epsilon at delta > 0 by advanced composition, with the actual cost of each draw."""
        each = float(2 * self.step / self.count) * np.arange(rounds)
        with np.errstate(over="ignore"):
            rest = self.samples * float(np.sum(each * np.expm1(each)))
        return (math.sqrt(-2 * math.log(delta) * float(self._squares(rounds))) + rest) * _ROUNDING

    def epsilon(self, rounds: int, account: str, delta: Any) -> Fraction:
        """Return the epsilon of a game by an accounting method, at delta (0 for "pure"), rounded up.

        References:
            Dwork, Rothblum and Vadhan 2010, "Boosting and differential privacy" (advanced composition);
            Cesar and Rogers 2021 (bounded range); see `privacy.epsilon_of` for the conversion.
        """
        if account == "pure" or rounds == 1:
            return self.pure(rounds)
        if account == "zcdp":
            return exact("epsilon", epsilon_of(self.rho(rounds), delta))
        found = (self.simple if account == "simple" else self.tight)(rounds, delta)
        return exact("epsilon", found)

    def fits(self, rounds: int, account: str, epsilon: Fraction, delta: Any) -> bool:
        """Return whether a game costs at most (epsilon, delta) by an accounting method."""
        if account == "pure" or rounds == 1:
            return self.pure(rounds) <= epsilon
        if account == "zcdp":
            return self.rho(rounds) <= rho_for(epsilon, delta)
        found = (self.simple if account == "simple" else self.tight)(rounds, delta)
        return math.isfinite(found) and Fraction(found) <= epsilon

    def most_rounds(self, account: str, epsilon: Fraction, delta: Any = 0) -> int:
        """Return the largest number of rounds that costs at most (epsilon, delta), at least 1.

        Example:
            >>> game = Game(48842, Fraction(2), 50)
            >>> [game.most_rounds(each, Fraction(1), Fraction(1, 1000)) for each in ACCOUNTS]
            [22, 58, 83, 162]
        """

        def costs_more(rounds: int) -> bool:
            return not self.fits(rounds, account, epsilon, delta)

        return max(1, bisect.bisect_left(range(1, _MOST_ROUNDS + 1), True, key=costs_more))

    def largest_step(self, rounds: int, account: str, epsilon: Fraction, delta: Any = 0) -> Fraction:
        """Return the largest step, to 12 digits, for which `rounds` rounds cost at most (epsilon, delta).

        The result is at most the game's own `step`.
        """
        if self.fits(rounds, account, epsilon, delta):
            return self.step
        low, high = Fraction(0), self.step
        while not low or high - low > high / 10**_DIGITS:
            middle = (low + high) / 2
            # halve until a step fits, then round to few digits
            middle = middle if not low else Fraction(f"{float(middle):.{_DIGITS}e}")
            if not low < middle < high:
                break
            if dataclasses.replace(self, step=middle).fits(rounds, account, epsilon, delta):
                low = middle
            else:
                high = middle
        return low

    def _squares(self, rounds: int) -> Fraction:
        terms = Fraction((rounds - 1) * rounds * (2 * rounds - 1), 6)
        return self.samples * (2 * self.step / self.count) ** 2 * terms


def agree(
    count: int,
    step: Fraction | None,
    samples: int,
    rounds: int | None,
    account: str,
    epsilon: Fraction,
    delta: Any,
) -> tuple[Game, int]:
    """Return a game and its rounds that cost at most (epsilon, delta).

    Args:
        count: the number of records.
        step: eta. Default: 2, or less if necessary for `rounds` rounds (4 if not given).
        samples: number of queries drawn in each round.
        rounds: number of rounds. Default: the most that the budget allows.
        account: one of `ACCOUNTS`.
        epsilon: the epsilon of the budget.
        delta: the delta of the budget.

    Raises:
        ValueError: the budget does not allow the rounds, or allows only the first.
    """
    game = Game(count, STEP if step is None else step, samples)
    if step is None:
        smaller = game.largest_step(rounds or LEAST_ROUNDS, account, epsilon, delta)
        game = dataclasses.replace(game, step=smaller)
    most = game.most_rounds(account, epsilon, delta)
    if most < (rounds or 2):
        allowed = "the first round only, which asks nothing of the table" if most == 1 else f"{most} rounds"
        raise ValueError(
            f"The budget allows {allowed}, with a step of {shortened(game.step)}, {samples} samples and "
            f"{count:,} records: take a smaller step, fewer samples or fewer rounds, or spend more. Nothing "
            "was spent."
        )
    return game, rounds or most


class Player:
    """The data-independent player, which answers draws by the record counted by the fewest of them.

    Args:
        domain: the attributes.
        queries: the queries of the game, with entries 0 or 1. Draws are numbered as in a `Transcript`.

    Its largest table is the same for all draws, so if one answer fits in memory, all do.
    """

    def __init__(self, domain: Domain, queries: Sequence[Query]):
        self._domain = domain
        self._queries = tuple(queries)
        self._ends = np.cumsum([query.num_rows(domain) for query in queries])
        self.candidates = 2 * int(self._ends[-1])

    def record(self, drawn: np.ndarray) -> np.ndarray:
        """Return the codes of the record that the fewest of the drawn queries count, int64 [attributes].

        It is the mode of a model whose log-potentials are minus the drawn queries' indicators. The result is
        exact; ties go to the first record.
        """
        rows = self.candidates // 2
        places = np.searchsorted(self._ends, drawn % rows, side="right")
        tables: dict[frozenset[str], tuple[tuple[str, ...], np.ndarray]] = {}
        for place, query in enumerate(self._queries):
            mine = drawn[places == place]
            start = self._ends[place] - query.num_rows(self._domain)
            plain, negated = mine[mine < rows] - start, mine[mine >= rows] - rows - start
            number = query.num_rows(self._domain)
            weights = np.bincount(negated, minlength=number) - np.bincount(plain, minlength=number)
            table = transposed(query, self._domain, weights)
            clique, before = tables.setdefault(frozenset(query.clique), (query.clique, np.zeros(table.shape)))
            before += table.transpose([query.clique.index(name) for name in clique])
        cliques, potentials = zip(*tables.values(), strict=True)
        best = GraphicalModel(self._domain, CliqueVector(cliques, potentials), 1.0).mode()
        return np.array([best[name] for name in self._domain.attributes], dtype=np.int64)


def tree_of(domain: Domain, workload: Workload) -> tuple[junction_tree.JunctionTree, tuple[str, ...]]:
    """Return the junction tree of a workload's cliques, and the attribute of each variable.

    Raises:
        ValueError: the tables of the tree do not fit in memory.
    """
    structure, attributes = Structure.named(domain.sizes, list(workload.cliques))
    tree = junction_tree.build(structure)
    USUAL.require_cells(tree.cells, "the model of the synthetic records")
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
