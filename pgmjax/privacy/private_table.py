"""The choke point: the one place where exact counts of a private table meet noise.

Front-ends hold a `PrivateTable` and never exact marginals. Everything that could fail for public
reasons is checked first, then the budget, then the table. A spend is charged before the table's counts
are read, and noise is added in the call that reads them; `gate` is what all accesses pass.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.counting import check_memory
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import instead_of_drop
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.population import Population
from pgmjax.data.relation import AnyRelation, Relation, Unit
from pgmjax.measurements.inputs import Input, digest_of, with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy import measuring, responding
from pgmjax.privacy import tape as tapes
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.gate import Gate, Journal
from pgmjax.privacy.opendp import default_backend
from pgmjax.privacy.scores import Score
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import Query

_CACHE_BYTES = 2**28  # of exact tables that are kept between two questions


class PrivateTable(Gate):
    """A table that answers only with noise, under a budget.

    Args:
        data: the table; nothing else may use it.
        relation: the neighbouring relation; required.
        budget: the budget for the table.
        backend: source of noise. Default: the secure backend.
        journal: stores charges and answers, such as a `LedgerJournal`; None for no journal.
        tape: for tests, see `privacy.tape`. Default: the tape of the enclosing block, if any.
        choice: secret by which the records of a unit are chosen. Default: the journal's, or a fresh one.

    Guarantees:
        All answers together are `budget.cap`-DP (unit epsilon) or `budget.cap`-zCDP (unit rho)
        under `relation`, however the answers are used. The unit of protection is one record, or the table's
        `unit`: of its records a bounded number count, and every sensitivity is that of so many records.
        Domain, weight bound and queries must not depend on the table. Running time is not protected.

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
        relation: AnyRelation,
        budget: Budget,
        backend: NoiseBackend | None = None,
        journal: Journal | None = None,
        tape: tapes.Tape | None = None,
        *,
        choice: bytes | None = None,
    ):
        checks.kind(
            data,
            Dataset,
            "data must be a pgmjax.Dataset",
            "write PrivateTable(data, relation, budget), with Dataset.from_frame(domain, frame) for data",
        )
        checks.kind(
            budget,
            Budget,
            "budget must be a Budget, such as Budget(1)",
            "write PrivateTable(data, relation, budget)",
        )
        relation = Relation.parse(relation)
        if data.rows_outside == "drop" and relation is Relation.REPLACE_ONE:
            raise ValueError(
                'rows_outside "drop" makes the number of records private, and replace-one makes it public: '
                f"{instead_of_drop(data.domain)}."
            )
        budget.bind(relation, data.unit)
        source = (default_backend() if backend is None else backend).restart()
        super().__init__(relation, budget, source, journal, tape)
        self._data = data
        self._is_snapshot = False
        self._counted: tuple[Dataset | None, dict[Clique, np.ndarray]] = None, {}  # exact tables of records
        self._distances: dict[Any, Any] = {}  # exact scores of the last selection's candidates
        self._choice = self._choice_key() if choice is None else choice
        self._steps = itertools.count()

    def over(self, data: Dataset, budget: Budget) -> PrivateTable:
        """Return the same table with its records in other codes, under a part of the budget.

        Noise, journal and tape are those of this table, so that the answers of both are one run.

        Args:
            data: the same records; the caller warrants it.
            budget: a `Budget.part` of this table's budget, or the budget itself.

        Raises:
            TypeError: `data` is not a dataset.
            ValueError: the budget is no part of this table's.
        """
        if budget.whole is not self._budget.whole:
            raise ValueError("The budget must be a part of the table's: see Budget.part.")
        given = (self._relation, budget, self._backend, self._journal, self._tape)
        table = PrivateTable(data, *given, choice=self._choice)
        # as it stands: the constructor restarted the stream, which would give the same noise twice
        table._backend, table._run, table._steps = self._backend, self._run, self._steps
        return table

    def within(self, budget: Budget) -> PrivateTable:
        """Return the same table under a part of the budget; see `over`."""
        table = self.over(self._data, budget)
        # one reading of the table for both, so that no answer is about another version of it
        table._is_snapshot, table._counted = self._is_snapshot, self._counted
        return table

    @property
    def domain(self) -> Domain:
        """The table's public domain."""
        return self._data.domain

    @property
    def weighted(self) -> bool:
        """True if its records have weights, which is public."""
        return self._data.weighted

    @property
    def max_weight(self) -> int:
        """The public bound on a record's weight; 1 without weights."""
        return self._data.max_weight

    @property
    def unit(self) -> Unit | None:
        """The unit of privacy, None for one record."""
        return self._data.unit

    @property
    def population(self) -> Population:
        """The records that its answers are about, by what is public alone."""
        return self._data.population

    @property
    def max_records(self) -> int:
        """The largest number of records in which neighbours differ: 1, or the bound of the unit."""
        return 1 if self.unit is None else self.unit.max_records

    @property
    def seed(self) -> int | None:
        """The seed of the noise; None if it cannot be repeated."""
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
            queries: the queries; their matrices must have integer entries (see `queries.quantise`).
            epsilons: one exact epsilon per query (discrete Laplace).
            rhos: one exact rho per query (discrete Gaussian); not for a budget of unit epsilon.
            show_progress: None shows a bar in terminals only, False never.

        Returns:
            One measurement per query, with values int64 [rows] and the discrete noise distribution.

        Raises:
            ValueError: a query or parameter is invalid; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: the table could not be read; the spend stays.

        Guarantees:
            Query i is epsilon_i-DP by Laplace noise of scale (its L1 sensitivity) / epsilon_i, or
            rho_i-zCDP by Gaussian noise of variance (its squared L2 sensitivity) / (2 rho_i). The total
            cost is the sum. Sensitivities are computed from the query objects.
        """
        then = "give a list, as in measure([queries.marginal(['age'])], epsilons=[0.1])"
        queries = checks.several("queries", queries, "queries", then)
        unit, costs = measuring.costs(len(queries), epsilons, rhos)
        planned = [
            measuring.plan_measurements(
                query,
                unit,
                cost,
                self.domain,
                self._relation,
                self._weight_bound(),
                self._backend,
                self.max_records,
            )
            for query, cost in zip(queries, costs, strict=True)
        ]
        cliques = [each.query.clique for each in planned]
        # before the charge: a count that does not fit in memory must not cost anything
        check_memory(self.domain, cliques)
        request = {"measure": [each.describe() for each in planned]}
        events = [each.event for each in planned]
        released = self._buy(events, request, lambda: np.concatenate(self._answer(planned, show_progress)))
        parts = np.split(released, np.cumsum([each.rows for each in planned])[:-1])
        inputs = (self._input({unit: as_text(sum(costs, Fraction(0)))}, released),)
        return tuple(
            with_inputs(LinearMeasurement.released(each.query, part, each.distribution), inputs)
            for each, part in zip(planned, parts, strict=True)
        )

    def select(self, score: Score, *, epsilon: Any = None, rho: Any = None, method: str | None = None) -> int:
        """Choose a candidate of high score.

        Args:
            score: scores its candidates on exact counts; larger is better.
            epsilon: cost of the choice, > 0, exact; give either this or `rho`.
            rho: cost of the choice in zCDP; uses the exponential mechanism.
            method: "permute-and-flip" (the default for a budget in epsilon; never worse than the other)
                or "exponential" (the default otherwise; costs epsilon^2 / 8 in rho).

        Returns:
            The index of the chosen candidate.

        Raises:
            ValueError: the score or a parameter is invalid; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: the table could not be read; the spend stays.

        Guarantees:
            epsilon-DP; with the exponential mechanism also epsilon^2/8-zCDP (bounded range), which is at
            most `rho` if that is given. The score's sensitivity is computed from the score object.

        References:
            McSherry and Talwar 2007; McKenna and Sheldon 2020, "Permute-and-flip"; Cesar and Rogers 2021,
            "Bounding, concentrating, and truncating", for the bounded range.
        """
        return int(self.select_several(score, 1, epsilon=epsilon, rho=rho, method=method)[0])

    def select_several(
        self, score: Score, draws: int, *, epsilon: Any = None, rho: Any = None, method: str | None = None
    ) -> np.ndarray:
        """Choose several times independently from the same scores, which are computed once.

        Args:
            score: as for `select`.
            draws: number of choices, >= 1; a candidate may be chosen more than once.
            epsilon: cost of each choice; give either this or `rho`.
            rho: cost of each choice in zCDP.
            method: as for `select`.

        Returns:
            The indices of the chosen candidates, int64 [draws].

        Raises:
            ValueError: as for `select`.

        Guarantees:
            Each choice has the guarantee of `select`, and all are charged: together they cost `draws`
            times as much.
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
            self.max_records,
        )
        check_memory(self.domain, list(score.cliques))
        request = {"select": planned.describe()}
        return self._buy([planned.event] * planned.draws, request, lambda: self._chosen(planned))

    def measure_scores(self, score: Score, *, epsilon: Any = None, rho: Any = None) -> np.ndarray:
        """Publish the score of every candidate with noise.

        One choice is cheaper by `select`. Noisy scores say beside the order of all candidates how far apart
        they are, and how far from 0. A journal gives back what it holds for the same candidates, even if
        their estimates have changed.

        Args:
            score: as for `select`.
            epsilon: cost of all scores together (discrete Laplace); give either this or `rho`.
            rho: the same in zCDP (discrete Gaussian); not for a budget of unit epsilon.

        Returns:
            The noisy scores in the score's own unit, float64 [candidates].

        Raises:
            ValueError: the score or a parameter is invalid; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: the table could not be read; the spend stays.

        Guarantees:
            epsilon-DP by Laplace noise of scale n s / epsilon, or rho-zCDP by Gaussian noise of variance
            n s^2 / (2 rho), for n candidates whose scores change by at most s each between neighbours. The
            sensitivity s is computed from the score object.
        """
        planned = measuring.plan_scores(
            score,
            epsilon,
            rho,
            self.domain,
            self._relation,
            self._weight_bound(),
            self._backend,
            self.max_records,
        )
        check_memory(self.domain, list(score.cliques))
        request = {"scores": planned.describe()}
        released = self._buy([planned.event], request, lambda: self._scored(planned))
        # exact, as only the exponent changes
        return np.ldexp(released.astype(np.float64), -score.bits)

    def respond(
        self,
        groups: Sequence[Any],
        *,
        epsilons: Sequence[Any],
        encodings: Sequence[str] | None = None,
        row_order_is_public: bool = False,
        show_progress: bool | None = None,
    ) -> responding.Responses:
        """Have each record answer for itself, with randomised responses.

        Args:
            groups: lists of attributes; a record's category in a group is its cell index, row-major.
            epsilons: one exact epsilon per group.
            encodings: one of `privacy.responding.ENCODINGS` per group. Default: "direct" for all.
            row_order_is_public: whether the order of the rows does not depend on private values. Only then
                does a journal store the responses; otherwise responses can only be counted under a journal
                (`Responses.counted`, `local.marginals_of`), and the counts are stored.
            show_progress: None shows a bar in terminals only, False never.

        Returns:
            The responses, to be read once, block by block in the order of the table. Everything is
            charged before this returns.

        Raises:
            ValueError: the relation is not REPLACE_ONE, the table is weighted, or groups or costs are
                invalid; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: while iterating, the table could not be read; the spend stays.

        Guarantees:
            The responses of one record for group i are epsilon_i-DP; the total cost is the sum. Responses
            are in the order of the table, which must not depend on private values. If it does, release
            only functions of the responses that do not depend on their order, such as the histogram. A
            journal stores nothing else unless `row_order_is_public` is True.
        """
        planned = responding.plan_responses(
            groups,
            epsilons,
            encodings,
            self.domain,
            self._relation,
            self._data.weighted,
            self._backend,
            self.max_records,
        )
        # before a record is read; what they answer is drawn when the blocks are
        self._charge([each.event for each in planned])
        count = self.public_count()
        ordered = row_order_is_public is True
        return responding.Responses(self, planned, self._data, count, show_progress, ordered)

    def public_count(self) -> int:
        """Return the exact number of records, which is public under REPLACE_ONE.

        Raises:
            ValueError: the relation is ADD_REMOVE or records are weighted, so that the number is private;
                or the table is not valid.

        Guarantees:
            Neighbours under REPLACE_ONE have the same number of records, so nothing is spent.
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
        exact = np.array([self._records().count()], dtype=np.int64)
        unmoved = Sensitivity(0, "l1", self._relation)
        return int(self._through_tape(tapes.Call("public count", (), None, unmoved, exact), lambda: exact)[0])

    def public_total(self) -> int | None:
        """Return the number of records if it is public, otherwise None."""
        public = self._relation is Relation.REPLACE_ONE and not self._data.weighted
        return self.public_count() if public else None

    def _choice_key(self) -> bytes:
        """Return the secret by which records of a unit are chosen: the journal's, or a fresh one."""
        if self._backend.seed is not None:
            return repeatable_choice(self._backend.seed)
        secret = None if self._journal is None else self._journal.choice_key()
        return os.urandom(32) if secret is None else secret

    def _input(self, cost: Mapping[str, str], released: np.ndarray) -> Input:
        """Return what is to be said of released answers wherever they go."""
        return Input(
            "answers of a private table",
            self.secure,
            cost,
            relation=self._relation.value,
            unit=None if self.unit is None else self.unit.to_dict(),
            answers=digest_of([released], self.run_mark, str(next(self._steps))),
        )

    @property
    def run_mark(self) -> str:
        """A mark that tells the answers of this run from equal numbers of another, whose costs add up.

        Repeatable noise has none: the same seed gives the same answers, and they protect nobody.
        """
        if not self.secure:
            return ""
        receipt = self.receipt() or {}
        charge = (receipt.get("account"), receipt.get("charge"))
        return hashlib.sha256(b"run" + self._choice + repr(charge).encode()).hexdigest()[:16]

    def _weight_bound(self) -> int | None:
        return self._data.max_weight if self._data.weighted else None

    def _check_before_charge(self, request: Mapping[str, Any] | None) -> None:
        """Look whether the table is valid, unless the journal keeps the answer or the table is registered.

        A table that is not valid costs nothing if nobody has registered it: then whoever asks holds it.
        """
        if not self._data.registered and (request is None or not self._is_journaled(request)):
            self._records()

    def _answer(
        self, planned: Sequence[measuring.PlannedMeasurement], show_progress: bool | None
    ) -> list[np.ndarray]:
        """Draw all noise before reading the table, so that drawing time does not depend on the counts."""
        noise = None if self._replays else measuring.draw(planned, self._backend, show_progress)
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
            released.append(self._through_tape(call, functools.partial(np.asarray, noisy)))
        return released

    def _chosen(self, planned: measuring.PlannedSelection) -> np.ndarray:
        tables = self._marginals(planned.score.cliques)
        exact = self._withheld("Scoring", planned.score.values, self.domain, tables, self._distances)
        call = tapes.Call("selection", (planned.score,), planned.distribution, planned.sensitivity, exact)
        if planned.draws == 1:
            return self._through_tape(
                call, lambda: np.array([self._backend.choose(planned.distribution, exact)], dtype=np.int64)
            )
        # drawn at most once, and not at all where a tape plays back
        drawn = functools.cache(
            lambda: self._backend.choose_several(planned.distribution, exact, planned.draws)
        )
        if self._tape is None:
            return drawn()
        # a passage each, so that whoever adds up what calls cost counts every draw
        return np.concatenate(
            [self._through_tape(call, lambda i=i: drawn()[i : i + 1]) for i in range(planned.draws)]  # type: ignore[misc]
        )

    def _scored(self, planned: measuring.PlannedScores) -> np.ndarray:
        """Draw all noise before reading the table, as `_answer` does."""
        noise = None if self._replays else measuring.draw([planned], self._backend, False)
        if noise is not None:
            measuring.check_one_draw_each([planned], noise)
        tables = self._marginals(planned.score.cliques)
        exact = self._withheld("Scoring", planned.score.values, self.domain, tables)
        noisy = exact if noise is None else measuring.noisy(exact, noise[0])
        call = tapes.Call(
            planned.distribution.noise, (planned.score,), planned.distribution, planned.sensitivity, exact
        )
        return self._through_tape(call, functools.partial(np.asarray, noisy))

    def _marginals(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray]:
        """Return exact tables. Those of records in memory are kept, as mechanisms ask for the same again.

        Records in files are read for every answer, so that a change of the files is noticed.
        """
        wanted = list(dict.fromkeys(cliques))
        records = self._records()
        cached = self._counted[1] if self._counted[0] is records and records.in_memory else {}
        missing = [clique for clique in wanted if clique not in cached]
        found = self._withheld("Reading the table", records.marginals, missing)
        counted = cached | dict(zip(missing, found, strict=True))
        if sum(table.nbytes for table in counted.values()) <= _CACHE_BYTES:
            self._counted = records, counted
        # copies: whoever changes a table must not change the next answer
        return {clique: counted[clique].copy() for clique in wanted}

    def _records(self) -> Dataset:
        """Return the table as it was when it was first read, checked; of one snapshot are all answers."""
        if not self._is_snapshot:
            chosen = self._data.chosen_by(self._choice)
            # who asks about a registered table need not hold it, and an error could show its records
            if self._data.registered:
                self._data = self._withheld("Reading the table", chosen.snapshot)
            else:
                self._data = chosen.snapshot()
            self._is_snapshot = True
        return self._data

    def __repr__(self) -> str:
        return f"PrivateTable({self.domain!r}, {self._relation.value}, {self._budget!r})"


def repeatable_choice(seed: int) -> bytes:
    """Return the key of the choice among a unit's records for noise of a seed; it is no secret."""
    return f"pgmjax records of a unit {seed}".encode()
