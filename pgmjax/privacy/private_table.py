"""The choke point: the one place where exact counts of a private table meet noise.

Front-ends hold a `PrivateTable` and never exact marginals. Everything that could fail for public
reasons is checked first, then the budget, then the table; a spend is charged before the table's
counts are read, and noise is added in the call that reads them. A `Journal` keeps a run's charge and its
answers, so that none is paid for twice or shown uncharged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.counting import check_memory
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy import measuring, responding
from pgmjax.privacy import tape as tapes
from pgmjax.privacy.accounting.events import Event
from pgmjax.privacy.backend import NoiseBackend, default_backend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.measuring import PlannedMeasurement, TableReadError
from pgmjax.privacy.scores import Score
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import Query

__all__ = ["PrivateTable", "TableReadError"]


class PrivateTable:
    """A table that answers only with noise, under a budget.

    Args:
        data: the table; nothing else may touch it.
        relation: which tables are neighbours; no default.
        budget: what may be spent on it.
        backend: source of noise; None for the secure one.
        journal: where charges and answers are kept, such as a `LedgerJournal`; None keeps none.
        tape: for tests, see `privacy.tape`; None takes the enclosing block's, if any.

    Guarantees:
        All answers together are `budget.cap`-DP (unit epsilon) or `budget.cap`-zCDP (unit rho)
        under `relation`, whatever the answers were used for, one record being the unit protected.
        Domain, weights' bound and queries must not depend on the table. Time taken is not protected.

    Example:
        >>> from pgmjax.queries import marginal
        >>> data = Dataset.from_columns(Domain({"sex": 2}), {"sex": [0, 1, 1]})
        >>> table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1))
        >>> measured = table.measure([marginal(["sex"])], epsilons=["0.1"])
        >>> table
        PrivateTable(Domain({sex: 2}), add-remove, Budget(epsilon: 0.1 of 1 spent))
    """

    def __init__(
        self,
        data: Dataset,
        relation: Relation,
        budget: Budget,
        backend: NoiseBackend | None = None,
        journal: Journal | None = None,
        tape: tapes.Tape | None = None,
    ):
        if not isinstance(data, Dataset):
            raise TypeError(f"data must be a pgmjax.Dataset, got {type(data).__name__}.")
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, got {type(budget).__name__}.")
        self._data = data
        self._relation = Relation.parse(relation)
        budget.bind(self._relation)
        self._budget = budget
        self._backend = (default_backend() if backend is None else backend).restart()
        self._journal = journal
        self._tape = tapes.active() if tape is None else tape

    @property
    def domain(self) -> Domain:
        """The table's public domain."""
        return self._data.domain

    @property
    def relation(self) -> Relation:
        """The neighbouring relation."""
        return self._relation

    @property
    def weighted(self) -> bool:
        """True if its records have weights; public."""
        return self._data.weighted

    @property
    def max_weight(self) -> int:
        """The public bound on a record's weight, 1 without weights."""
        return self._data.max_weight

    @property
    def budget(self) -> Budget:
        """The budget, with the cost so far."""
        return self._budget

    @property
    def secure(self) -> bool:
        """True if what comes from here may be published: secure noise, and no tape running."""
        return self._backend.secure and self._tape is None

    def receipt(self) -> dict[str, Any] | None:
        """Return where the run's charge is kept, for the records; None where it is kept nowhere."""
        return None if self._journal is None else self._journal.receipt()

    @property
    def seed(self) -> int | None:
        """The seed of the noise, None where it cannot be repeated."""
        return self._backend.seed

    def measure(
        self,
        queries: Sequence[Query],
        *,
        epsilons: Sequence[Any] | None = None,
        rhos: Sequence[Any] | None = None,
        show_progress: bool | None = None,
    ) -> tuple[LinearMeasurement, ...]:
        """Answer integral queries with integer noise, each under its own part of the budget.

        Args:
            queries: what to ask; entries of their matrices must be integers (`queries.quantise`).
            epsilons: one exact epsilon a query (discrete Laplace).
            rhos: one exact rho a query (discrete Gaussian); not for a budget of unit epsilon.
            show_progress: None shows a bar in terminals only, False never.

        Returns:
            One measurement a query; values int64 [rows], with the discrete distribution that was drawn.

        Raises:
            ValueError: bad queries or parameters; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: the table could not be read; the spend stays.

        Guarantees:
            Query i is epsilon_i-DP by Laplace noise of scale (its L1 sensitivity) / epsilon_i, or
            rho_i-zCDP by Gaussian noise of variance (its squared L2 sensitivity) / (2 rho_i); all
            together cost the sum. Sensitivities are computed from the query objects.
        """
        unit, costs = measuring.costs(len(queries), epsilons, rhos)
        planned = [
            measuring.plan_measurements(
                query, unit, cost, self.domain, self._relation, self._weight_bound(), self._backend
            )
            for query, cost in zip(queries, costs, strict=True)
        ]
        cliques = [query.clique for query in queries]
        check_memory(self.domain, cliques)
        request = {"measure": [each.describe() for each in planned]}
        self._charge([each.event for each in planned])
        released = self._kept(request, lambda: np.concatenate(self._answer(planned, show_progress)))
        parts = np.split(released, np.cumsum([each.rows for each in planned])[:-1])
        return tuple(
            LinearMeasurement.released(each.query, part, each.distribution)
            for each, part in zip(planned, parts, strict=True)
        )

    def select(self, score: Score, *, epsilon: Any = None, rho: Any = None, method: str | None = None) -> int:
        """Choose a candidate of high score.

        Args:
            score: scores its candidates on exact counts; larger is better.
            epsilon: what it may cost, > 0, exact; give this or `rho`.
            rho: instead: what it may cost in zCDP, by the exponential mechanism.
            method: "permute-and-flip" (the default where pure epsilon is counted; never worse than the
                other) or "exponential" (the default elsewhere: an eighth of epsilon^2 in rho).

        Returns:
            The number of the chosen candidate.

        Raises:
            ValueError: a bad score or parameter; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: the table could not be read; the spend stays.

        Guarantees:
            epsilon-DP; by the exponential mechanism also epsilon^2/8-zCDP (bounded range), which is at
            most `rho` where that is given. The score's sensitivity is computed from the score object.

        References:
            McSherry and Talwar 2007; McKenna and Sheldon 2020, "Permute-and-flip"; Cesar and Rogers 2021,
            "Bounding, concentrating, and truncating", for the bounded range.
        """
        return int(self.select_several(score, 1, epsilon=epsilon, rho=rho, method=method)[0])

    def select_several(
        self, score: Score, draws: int, *, epsilon: Any = None, rho: Any = None, method: str | None = None
    ) -> np.ndarray:
        """Choose several times, independently, by the same scores, which are computed once.

        Args:
            score: as for `select`.
            draws: how many choices, >= 1; a candidate may be chosen more than once.
            epsilon: what each of them may cost; give this or `rho`.
            rho: instead: what each may cost in zCDP.
            method: as for `select`.

        Returns:
            The numbers of the chosen candidates, int64 [draws].

        Raises:
            ValueError: as `select`.

        Guarantees:
            Each choice is as one of `select`, and all are charged: together they cost `draws` times
            as much.
        """
        planned = measuring.plan_selection(
            score,
            epsilon,
            rho,
            method,
            self._budget.unit,
            self.domain,
            self._relation,
            self._weight_bound(),
            self._backend,
            draws,
        )
        check_memory(self.domain, list(score.cliques))
        self._charge([planned.event] * planned.draws)
        return self._kept({"select": planned.describe()}, lambda: self._chosen(planned))

    def respond(
        self,
        groups: Sequence[Any],
        *,
        epsilons: Sequence[Any],
        encodings: Sequence[str] | None = None,
        show_progress: bool | None = None,
    ) -> responding.Responses:
        """Have each record answer for itself, with randomised responses.

        Args:
            groups: lists of attributes; a record's category in a group is its cell, row-major.
            epsilons: one exact epsilon a group.
            encodings: for each group one of `privacy.responding.ENCODINGS`; None for "direct" for all.
            show_progress: None shows a bar in terminals only, False never.

        Returns:
            The responses, to be read once, block by block in the order of the table. All is charged
            before this returns.

        Raises:
            ValueError: another relation than REPLACE_ONE, weights, or bad groups or costs; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: while reading: the table could not be read; the spend stays.

        Guarantees:
            The responses of one record for group i are epsilon_i-DP; all together cost the sum. They stand
            in the order of the table, which must not depend on private values: if it does, only what
            is the same for every order of the responses, such as their histogram, may be released.
        """
        planned = responding.plan_responses(
            groups, epsilons, encodings, self.domain, self._relation, self._data.weighted, self._backend
        )
        self._charge([each.event for each in planned])
        gates = responding.Gates(
            self._withheld,
            None if self._journal is None else self._kept,
            None if self._tape is None else self._pass,
        )
        return responding.Responses(
            planned, self._data, self.public_count(), self._backend, gates, show_progress
        )

    def public_count(self) -> int:
        """Return the exact number of records, which is public where records are replaced.

        Raises:
            ValueError: records are added and removed, or weighted: then the number is private; or the table
                is not valid: then no number of records is told.

        Guarantees:
            Neighbours under REPLACE_ONE have the same number of records: nothing is spent.
        """
        if self._relation is not Relation.REPLACE_ONE:
            raise ValueError(
                "The number of records is private under Relation.ADD_REMOVE: leave the total to be estimated "
                "from the measurements, or measure it."
            )
        if self._data.weighted:
            raise ValueError(
                "The total weight of a weighted table is private: replacing a record may change its weight. "
                "Leave the total to be estimated from the measurements."
            )
        self._data.validate()
        exact = np.array([self._data.count()], dtype=np.int64)
        unmoved = Sensitivity(0, "l1", self._relation)
        return int(self._pass(tapes.Call("public count", (), None, unmoved, exact), lambda: exact)[0])

    def public_total(self) -> int | None:
        """Return the number of records where it is public, otherwise None: it must be estimated."""
        public = self._relation is Relation.REPLACE_ONE and not self._data.weighted
        return self.public_count() if public else None

    def _weight_bound(self) -> int | None:
        return self._data.max_weight if self._data.weighted else None

    def _charge(self, events: Sequence[Event]) -> None:
        """Charge for a use of the counts, which comes next; a table that is not valid costs nothing."""
        self._budget.require(events)
        self._data.validate()
        if self._journal is not None:
            self._journal.begin(self, self._budget, self._relation, self.secure)
        self._budget.charge(events)

    def _kept(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        return compute() if self._journal is None else self._journal.answer(request, compute)

    def _is_kept(self, request: Mapping[str, Any]) -> bool:
        """Return whether the journal holds the answer to what is asked next."""
        return self._journal is not None and self._journal.holds(request)

    def _answer(self, planned: Sequence[PlannedMeasurement], show_progress: bool | None) -> list[np.ndarray]:
        """Draw all noise, then read the table: the time of drawing tells nothing about the counts."""
        replays = self._tape is not None and self._tape.replays
        noise = None if replays else measuring.draw(planned, self._backend, show_progress)
        if noise is not None:
            measuring.check_one_draw_each(planned, noise)
        tables = self._marginals([each.query.clique for each in planned])
        released = []
        for place, each in enumerate(planned):
            exact = self._withheld(
                "Answering", measuring.exact_answers, each, self.domain, tables[each.query.clique]
            )
            noisy = exact if noise is None else measuring.noisy(exact, noise[place])
            call = tapes.Call(
                each.distribution.noise, (each.query,), each.distribution, each.sensitivity, exact
            )
            released.append(self._pass(call, functools.partial(np.asarray, noisy)))
        return released

    def _chosen(self, planned: measuring.PlannedSelection) -> np.ndarray:
        tables = self._marginals(planned.score.cliques)
        exact = self._withheld("Scoring", measuring.exact_scores, planned, tables)
        call = tapes.Call("selection", (planned.score,), planned.distribution, planned.sensitivity, exact)
        if planned.draws == 1:
            return self._pass(
                call, lambda: np.array([self._backend.choose(planned.distribution, exact)], dtype=np.int64)
            )
        drawn = functools.cache(
            lambda: self._backend.choose_several(planned.distribution, exact, planned.draws)
        )
        if self._tape is None:
            return drawn()
        # a passage each, so that whoever adds up what calls cost counts every draw
        return np.concatenate(
            [self._pass(call, lambda i=i: drawn()[i : i + 1]) for i in range(planned.draws)]  # type: ignore[misc]
        )

    def _marginals(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray]:
        wanted = list(dict.fromkeys(cliques))
        return dict(
            zip(wanted, self._withheld("Reading the table", self._data.marginals, wanted), strict=True)
        )

    def _withheld(self, doing: str, act: Callable[..., Any], *given: Any) -> Any:
        """Return what `act` makes of private numbers; of an error only its kind is passed on."""
        try:
            return act(*given)
        except Exception as error:  # its own message may quote a row or a count
            failure = type(error).__name__
        # raised out here, so that the error does not carry the other one along as its context
        raise TableReadError(
            f"{doing} failed with {failure} after the budget was charged. Details are withheld, since they "
            "may show private values; data.validate() is a safe place to look."
        )

    def _pass(self, call: tapes.Call, release: Callable[[], np.ndarray]) -> np.ndarray:
        return release() if self._tape is None else self._tape.passage(call, release)

    def __repr__(self) -> str:
        return f"PrivateTable({self.domain!r}, {self._relation.value}, {self._budget!r})"


class Journal(Protocol):
    """The interface of a journal, as `PrivateTable` uses it."""

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Have the whole budget of a run charged; called before counts are read, also repeatedly.

        Raises:
            ValueError: the journal is that of another run.
        """
        ...

    def receipt(self) -> dict[str, Any]:
        """Return where the run's charge is kept, for the records."""
        ...

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return whether the run's next answer is kept, and is one to this request."""
        ...

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the run's next answer, int64 [n]: the kept one, or one computed and kept now."""
        ...
