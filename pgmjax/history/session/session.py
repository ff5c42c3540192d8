"""Online sessions: answer from the history for free, else with the least budget, else refuse."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pgmjax._internal.migration import Named
from pgmjax.data.counting import check_memory
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.population import Population
from pgmjax.data.relation import Relation, Unit
from pgmjax.history.bayes.blue import BestLinearUnbiased
from pgmjax.history.bayes.consistent import ConsistentAnswers, consistent_answers
from pgmjax.history.history import History
from pgmjax.history.session.costs import PLACES
from pgmjax.history.session.log import NAME, SessionLog, granted, opened, turn
from pgmjax.history.session.state import (
    AccuracyRequirement,
    SessionAnswer,
    SessionState,
    answer_at,
    query_of,
)
from pgmjax.privacy import AttemptsExhausted, Budget, BudgetExceeded, Ledger, NoiseBackend, SeededBackend
from pgmjax.privacy.exact import as_text, exact_epsilon
from pgmjax.privacy.opendp import default_backend
from pgmjax.privacy.private_table import PrivateTable, repeatable_choice
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query
from pgmjax.queries import text as query_text

_NO_TABLE = (
    "the session was opened without its table, so that nothing can be measured (on the command line give "
    "--table, --domain, --cap and --relation)"
)
_MOST_ROWS = 1 << 14  # the kernel of this many answers takes 2 GiB
_OPEN = (
    "An answer that was paid for is still to be computed, which needs the table: open the session with "
    "its table once (Session.open, or --table), and ask again. Nothing was recorded."
)


class Session(Named):
    """Analysts ask one number at a time, each with the accuracy it needs; all pay from one cap.

    A query is answered from the history for free if the interval is short enough; otherwise with the least
    budget whose noise meets the accuracy. It is refused if all answers together would then cost more than the
    cap, cell by cell. Decisions depend on queries, distributions and noisy answers only. The whole cap is
    charged to the table's account in the ledger when the session is first opened, as one run, and the session
    divides it.

    Several processes may have one session open at once. Every record is on disk before its noise is drawn,
    and every answer before it is returned.

    Guarantees:
        All answers together are cap-DP under the relation, for the unit of the account, not counting what
        `given` cost elsewhere. Their cost, that of the largest cell (or pair of cells, under replace-one)
        times the number of records that a unit may have, is counted in integer units and never exceeds the
        cap.

    References:
        Xiao and Xiong 2012, Section 5.

    Example:
        >>> import pathlib, tempfile
        >>> from pgmjax.queries import Product, point
        >>> data = Dataset.from_columns(Domain({"sex": 2}), {"sex": [0] * 300 + [1] * 500})
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.create(pathlib.Path(folder.name) / "budgets.ledger")
        >>> promise = {"epsilon": 1, "relation": "add-remove", "domain": data.domain}
        >>> account = ledger.register("t", digest=ledger.digest_of(data), **promise)
        >>> session = Session.open(ledger, data, cap=1, relation="add-remove")
        >>> women = Product({"sex": point(0)})
        >>> [session.ask(women, half_width=50, delta=0.1).source for _ in range(2)]
        ['measured', 'history']
        >>> float(session.cost) < 0.05
        True
        >>> ledger.close(); folder.cleanup()
    """

    def __init__(
        self,
        ledger: Ledger,
        log: SessionLog,
        data: Dataset | None,
        backend: NoiseBackend | None,
        choice: bytes | None = None,
        *,
        owns_ledger: bool = True,
    ) -> None:
        self._ledger = ledger
        self._owns_ledger = owns_ledger
        self._log = log
        self._data = data
        self._backend = backend
        self._choice = choice
        self._state = SessionState.of(log.records[:1])
        self._taken = 1
        self.refresh()

    @classmethod
    def open(
        cls,
        ledger: Ledger | str | os.PathLike[str],
        data: Dataset,
        *,
        cap: Any,
        relation: Relation | str,
        name: str = NAME,
        given: History | None = None,
        backend: NoiseBackend | None = None,
    ) -> Session:
        """Open a session with its table, or start it; starting charges the cap permanently.

        Args:
            ledger: the ledger that has the table's account, or its path.
            data: the table, without weights.
            cap: largest cost of all answers together, in epsilon, > 0, exact.
            relation: the neighbouring relation, which must be the account's.
            name: name of the session in the ledger; it is resumed with the same arguments.
            given: initial answers with known Laplace distributions that were paid for elsewhere. Their cost
                is not part of the cap and must be added to it.
            backend: source of noise. Default: the secure one. A seeded one is for research; each answer has
                its own stream.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: the table has no account or has weights, the relation differs, or the history does not
                fit.
            BudgetExceeded: the account's remaining budget is below the cap; nothing was charged.
            IdempotencyConflict: a session of that name with other arguments exists.
            LedgerError: the ledger cannot be read or written.
        """
        if isinstance(ledger, Dataset):
            raise TypeError(
                "The ledger is given in another place: write Session.open(ledger, data, cap=1, relation=...)."
            )
        source = default_backend() if backend is None else backend
        asked = (exact_epsilon(cap), Relation.parse(relation), name, given, source)
        with _held(ledger) as opened_ledger:
            log, held, choice = opened(opened_ledger, data, *asked)
            choice = choice if source.seed is None else repeatable_choice(source.seed)
            return cls(opened_ledger, log, held, source, choice, owns_ledger=opened_ledger is not ledger)

    @classmethod
    def read(
        cls, ledger: Ledger | str | os.PathLike[str], name: str = NAME, *, account: str | None = None
    ) -> Session:
        """Open a session without its table; it answers from the history and measures nothing.

        Args:
            ledger: the ledger that has the session, or its path.
            name: name of the session.
            account: account of the table; needed if several tables have a session of that name.

        Raises:
            ValueError: there is no session of that name, or several.
        """
        with _held(ledger) as opened_ledger:
            log = granted(opened_ledger, name, account)
            return cls(opened_ledger, log, None, None, owns_ledger=opened_ledger is not ledger)

    @property
    def domain(self) -> Domain:
        """The table's public domain."""
        return self._state.domain

    @property
    def relation(self) -> Relation:
        """The neighbouring relation."""
        return self._state.relation

    @property
    def unit(self) -> Unit | None:
        """The unit of privacy; None for one record."""
        return self.population.unit

    @property
    def population(self) -> Population:
        """The records that all answers are about."""
        return self._state.population

    @property
    def secure(self) -> bool:
        """Return whether its answers may be published."""
        return self._state.secure

    @property
    def seed(self) -> int | None:
        """The seed of reproducible noise, as recorded when the session was started; None otherwise."""
        seed = self._log.records[0]["seed"]
        return None if seed is None else int(seed)

    @property
    def cap(self) -> Fraction:
        """The budget of all answers together."""
        return self._state.cap

    @property
    def cost(self) -> Fraction:
        """The privacy loss of all answers this object has read: the largest cell's sum."""
        return self._state.account.cost

    @property
    def history(self) -> History:
        """All noisy answers so far, for use in kernel PCA, maximum entropy and so on."""
        return self._state.history

    @property
    def blue(self) -> BestLinearUnbiased | None:
        """The estimator of free answers; None before the first answer."""
        return self._state.blue

    def ask(self, query: Query, half_width: Any, delta: Any = 0.05) -> SessionAnswer:
        """Answer a query with the required accuracy, or refuse.

        Args:
            query: query of one row over the session's domain, with integer entries if it has to be measured.
            half_width: half the length of the longest acceptable interval (counts); epsilon in the paper.
            delta: the probability with which the interval may miss the true answer.

        Returns:
            The answer, which is on disk. After a crash, asking again costs nothing, since the purchase is
            recorded.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: the query is over another domain, has several rows or only zeros, or cannot be
                measured; the accuracy is not finite or out of range; or there is no table while a paid answer
                is still missing. Nothing was spent.
            LedgerError: something could not be recorded; it is not revealed.
            TableReadError: the table could not be read after the charge, which remains.
        """
        requirement = AccuracyRequirement.of(query, half_width, delta, self.domain)
        with turn(self._ledger.path):
            while True:
                self._refresh()
                if self._log.is_open:
                    raise ValueError(_OPEN)
                step = len(self._log.records)
                # false if another process went on meanwhile: this was decided for a state of the past
                if self._log.append(self._decided(requirement)):
                    return self._answer(step)

    def buy(self, query: Query, epsilon: Any) -> None:
        """Measure a query of any number of rows in advance, as a strategy to answer later queries from.

        Args:
            query: query over the session's domain, with integer entries.
            epsilon: cost of this query alone, exact.

        Raises:
            ValueError: the query cannot be measured, or has too many rows for the session's estimator (memory
                is quadratic and time cubic in their number); nothing was spent.
            BudgetExceeded: all answers together would cost more than the cap; nothing was spent.
        """
        if self._data is None or self._backend is None:
            raise ValueError(f"{_NO_TABLE}: use Session.open.")
        query = query_text.asked(self.domain, query)
        check_measurable(query, self.domain)
        check_memory(self.domain, [query.clique])
        records = self._state.account.records
        sensitivity = Sensitivity.of(query, self.domain, self.relation, "l1").of_unit(records).value
        rate = int(exact_epsilon(epsilon) * 10**PLACES / max(sensitivity, 1))
        if not rate or not sensitivity:
            raise ValueError("the query has a sensitivity of 0, or epsilon is below a unit of 10^-12.")
        spent = Fraction(rate * sensitivity, 10**PLACES)
        # for its refusal of a scale out of range, before anything is recorded
        self._backend.laplace(sensitivity, spent)
        with turn(self._ledger.path):
            while True:
                self._refresh()
                rows = self.history.num_rows + query.num_rows(self.domain)
                if rows > _MOST_ROWS:
                    raise ValueError(
                        f"with these a session would hold {rows:,} noisy answers, and its estimator takes at "
                        f"most {_MOST_ROWS:,}: buy a query of fewer rows. Nothing was spent."
                    )
                if not self._fits(query, rate, spent):
                    raise BudgetExceeded(
                        f"This would take the session's cost from {as_text(self.cost)} beyond its cap of "
                        f"{as_text(self.cap)}. Nothing was spent and no data was read."
                    )
                record = {"kind": "bought", "query": query.to_spec(), "rate": rate, "epsilon": as_text(spent)}
                if self._log.append(record):
                    self._refresh()
                    return

    def answers(self) -> Iterator[SessionAnswer]:
        """Yield all past answers again from the ledger, in order, as they were returned.

        Free answers and refusals are as recorded. Measured answers are recomputed from the noisy answers and
        are bitwise identical on the same kind of machine.
        """
        records = self._log.records
        state = SessionState.of(records[:1])
        for step in range(1, len(records)):
            state.add(records[step], records[step - 1])
            answer = answer_at(state, records, step)
            if answer is not None:
                yield answer

    def consistent(self, query: Query, *, total: float | None = None) -> ConsistentAnswers:
        """Return the engine's answers at no cost: no negative counts, error bars for the noise alone.

        Args:
            query: query of any number of rows.
            total: number of records, if public. Default: estimated.
        """
        return consistent_answers(self.history, query, total=total)

    def refresh(self) -> None:
        """Read the records of other processes, and compute an answer that a crash left missing."""
        # without the table nothing is computed, and the folder may be read-only
        with contextlib.nullcontext() if self._data is None else turn(self._ledger.path):
            self._refresh()

    def close(self) -> None:
        """Close the ledger, if it was given as a path. Nothing is lost if this is never called."""
        if self._owns_ledger:
            self._ledger.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"Session({self._log.charge.key!r}, {self._taken - 1:,} steps, epsilon {as_text(self.cost)} of "
            f"{as_text(self.cap)}, {self.relation.value})"
        )

    def _refresh(self) -> None:
        """Do the work of `refresh`; the caller holds the lock `turn` or has no table."""
        self._log.refresh()
        while self._log.is_open and self._data is not None:
            self._complete(self._log.records[-1])
            self._log.refresh()
        records = self._log.records
        for step in range(self._taken, len(records)):
            self._state.add(records[step], records[step - 1])
        self._taken = len(records)

    def _decided(self, requirement: AccuracyRequirement) -> dict[str, Any]:
        """Return the record of a free answer, of a purchase, or of a refusal."""
        asked = {
            "query": requirement.query.to_spec(),
            "half_width": requirement.half_width,
            "delta": requirement.delta,
        }
        found = self._state.free(requirement)
        if not isinstance(found, str):
            known, ends = found
            given = {"value": known.value, "interval": list(ends), "stddev": known.stddev, "reason": ""}
            return {**asked, "kind": "free", **given}
        if self._data is None or self._backend is None:
            reason = f"{found}; {_NO_TABLE}."
        else:
            records = self._state.account.records
            terms = self.domain, self.relation, self._backend.laplace, records
            rate, epsilon, _ = requirement.price(*terms)
            if self._fits(requirement.query, rate, epsilon):
                return {**asked, "kind": "bought", "rate": rate, "epsilon": as_text(epsilon)}
            advice = requirement.advice(lambda it: self._fits(it.query, *it.price(*terms)[:2]))
            reason = (
                f"{found}; measuring it needs epsilon {as_text(epsilon)}, and all answers together would "
                f"cost more than the cap: {as_text(self.cost)} of {as_text(self.cap)} is spent where "
                f"most was asked. {advice}"
            )
        return {**asked, "kind": "refused", "value": None, "interval": None, "stddev": None, "reason": reason}

    def _fits(self, query: Query, rate: int, epsilon: Fraction) -> bool:
        return epsilon <= self.cap and self._state.account.added(query, rate).cost <= self.cap

    def _complete(self, bought: dict[str, Any]) -> None:
        """Measure the purchase of the last record, with a private table of exactly that budget."""
        assert self._data is not None and self._backend is not None
        step, epsilon = len(self._log.records), bought["epsilon"]
        backend = self._backend
        if backend.seed is not None:
            backend = SeededBackend(_seed(backend.seed, step), insecure=True)
        table = PrivateTable(self._data, self.relation, Budget(epsilon), backend, choice=self._choice)
        if self.secure and not table.secure:
            raise ValueError(
                "This session's noise is secure, and noise that can be repeated protects nobody: leave out "
                "the seed and the tape. Nothing was drawn."
            )
        query = query_of(bought)
        try:
            self._log.complete(lambda: table.measure([query], epsilons=[epsilon], show_progress=False)[0])
        except AttemptsExhausted:
            self._log.append({"kind": "void"})  # its cost stays; the session goes on

    def _answer(self, step: int) -> SessionAnswer:
        """Return the answer at a step that was just recorded; that to a purchase comes with the next one."""
        if self._log.records[step]["kind"] == "bought":
            step += 1
            self._refresh()
        records, state = self._log.records, self._state
        if self._taken > step + 1:  # others went on
            state = SessionState.of(records[: step + 1])
        answer = answer_at(state, records, step)
        assert answer is not None
        return answer


def _seed(seed: int, step: int) -> int:
    """Return the seed of one step's noise, so that no two steps share a stream."""
    return int.from_bytes(hashlib.sha256(f"pgmjax session {seed} {step}".encode()).digest()[:8], "big")


@contextlib.contextmanager
def _held(ledger: Ledger | str | os.PathLike[str]) -> Iterator[Ledger]:
    """Yield a ledger, or that of a path, which is closed if the session is refused."""
    if isinstance(ledger, Ledger):
        yield ledger
        return
    found = Ledger.open(ledger)
    try:
        yield found
    except BaseException:
        found.close()
        raise
