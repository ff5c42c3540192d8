"""A charge: how it is checked and recorded, and its stored answers.

Each step of a charge has one answer, stored before it is returned. A step can therefore be computed again
after a crash, and a run of many steps resumed, at no further cost.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting.events import Event, check_relation
from pgmjax.privacy.accounting.zcdp import epsilon_of
from pgmjax.privacy.budget import BudgetExceeded
from pgmjax.privacy.exact import as_text, exact_delta
from pgmjax.privacy.ledger import chain
from pgmjax.privacy.ledger.account import Account, ChargeRecord, charges, flag, still_defined, word
from pgmjax.privacy.ledger.database import LIMIT, LedgerFile
from pgmjax.privacy.ledger.errors import AttemptsExhausted, IdempotencyConflict

_LARGEST_STEP = 2**53
_NOT_GRANTED = "Nothing was granted. If it was recorded all the same, the same key finds it, free of charge."
_NOT_STORED = "The answer was not shown; the charge stays, and under the same key the step can be repeated."


class Charge:
    """A charge that `Ledger.reserve` granted.

    Attributes:
        id: its number in the ledger.
        account: the account it is charged to.
        key: the idempotency key.
        cost: its cost, in the account's unit.
        total: the account's total including this charge, in the same unit.

    Guarantees:
        At most one answer is ever shown for each step, across all processes.
    """

    def __init__(self, file: LedgerFile, record: ChargeRecord, account: Account, permitted: bool):
        self.id = record.id
        self.account = record.account
        self.key = record.key
        self.cost = record.cost
        self.total = record.total
        self._file = file
        self._of = account  # as the run was planned for it
        self._permitted = permitted  # an attempt is recorded already that no computation has used
        self._lock = threading.Lock()

    @property
    def answers(self) -> int:
        """The number of stored answers."""
        with self._file.reading() as connection:
            return answers_of(connection, self.id)

    def answer(self, step: int, request: Mapping[str, Any], compute: Callable[[], bytes]) -> bytes:
        """Return the answer of a step: the stored one, or else the result of `compute`, once stored.

        Args:
            step: the number of the step, from 0.
            request: what the step asks for, public and JSON-able; a stored answer is returned only for
                the same request.
            compute: returns the answer, noise included. It runs outside any transaction; if it fails,
                nothing is stored or shown.

        Raises:
            TypeError: an argument has the wrong type, or the request is not JSON-able.
            ValueError: the step is out of range, the request contains a non-finite number, or the account has
                another definition by now; nothing is shown.
            IdempotencyConflict: the stored answer of the step is for another request.
            AttemptsExhausted: the charge was tried too often without a new answer.
            LedgerError: the answer could not be stored; it is not shown.
        """
        step = checks.integer("step", step, low=0, high=_LARGEST_STEP)
        asked = chain.digest_of("request", request)
        with self._file.reading() as connection:
            stored = self._stored(connection, step, asked)
        if stored is not None:
            return stored
        # an attempt is on disk before anything is computed, and the answer before it is shown: between the
        # two the process may die, and the next one computes the step again under the same charge
        self._begin()
        payload = compute()
        checks.kind(payload, bytes, "compute must return bytes", "the charge stays, and nothing was stored")
        with self._file.writing("given the answer", _NOT_STORED) as connection:
            stored = self._stored(connection, step, asked)  # another process may have been faster
            if stored is None:
                self._store(connection, step, asked, payload)
        with self._lock:
            self._permitted = True  # the next step is the same attempt
        return payload if stored is None else stored

    def holds(self, step: int, request: Mapping[str, Any]) -> bool:
        """Return whether a step has a stored answer to this request."""
        asked = chain.digest_of("request", request)
        with self._file.reading() as connection:
            try:
                return self._stored(connection, step, asked) is not None
            except IdempotencyConflict:
                return False

    def record(self, step: int, payload: bytes) -> bool:
        """Store public data as a step. No attempt is recorded, since no table is read for it.

        Args:
            step: the number of the step, from 0.
            payload: the data to store.

        Returns:
            True if it was stored; False if the step already has content, which is kept.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: the step is out of range, or the account has another definition by now.
            LedgerError: the data could not be stored.
        """
        step = checks.integer("step", step, low=0, high=_LARGEST_STEP)
        checks.kind(payload, bytes, "a record must be bytes")
        asked = hashlib.sha256(payload).hexdigest()
        with self._file.writing("given the record", "Nothing was shown.") as connection:
            query = "SELECT 1 FROM answer WHERE charge = ? AND step = ?"
            if connection.execute(query, (self.id, step)).fetchone() is not None:
                return False
            self._store(connection, step, asked, payload)
        return True

    def stored(self, first: int = 0) -> list[tuple[int, bytes]]:
        """Return (step, contents) of each stored step from number `first` on, in order."""
        query = "SELECT step, payload FROM answer WHERE charge = ? AND step >= ? ORDER BY step"
        with self._file.reading() as connection:
            rows = connection.execute(query, (self.id, first)).fetchall()
        return [(int(step), bytes(payload)) for step, payload in rows]

    def _store(self, connection: sqlite3.Connection, step: int, asked: str, payload: bytes) -> None:
        # inside the transaction that stores it: from then on the definition stays
        _check_definition(connection, self._of, "The charge stays, and nothing was shown.")
        row = {"charge": self.id, "step": step, "request_hash": asked, "payload": payload}
        chain.add(connection, "answer", row)

    def _stored(self, connection: sqlite3.Connection, step: int, asked: str) -> bytes | None:
        row = connection.execute(
            "SELECT request_hash, payload FROM answer WHERE charge = ? AND step = ?", (self.id, step)
        ).fetchone()
        if row is None:
            return None
        if row[0] != asked:
            raise IdempotencyConflict(
                f"Step {step} of key {self.key!r} was answered for another request: use another key for "
                "another run. Nothing was shown."
            )
        return bytes(row[1])

    def _begin(self) -> None:
        """Use up the recorded attempt, or record a new one, before anything is computed."""
        with self._lock:
            permitted, self._permitted = self._permitted, False
        if not permitted:
            with self._file.writing("tried again", "Nothing was computed or shown.") as connection:
                attempt(connection, self.id, self.key, self._of.max_attempts)


def attempt(connection: sqlite3.Connection, charge: int, key: str, most: int) -> None:
    """Record an attempt at a charge, inside the caller's transaction.

    Raises:
        AttemptsExhausted: there were already `most` attempts since its last answer.
    """
    answered = answers_of(connection, charge)
    (tried,) = connection.execute(
        "SELECT COUNT(*) FROM attempt WHERE charge = ? AND answered = ?", (charge, answered)
    ).fetchone()
    if tried >= most:
        raise AttemptsExhausted(
            f"Key {key!r} was tried {tried} times without a{' further' if answered else 'n'} answer, "
            "as often as its account allows: whether a try fails may tell about the table. The charge stays "
            "spent; find the cause, and use a new key."
        )
    chain.add(connection, "attempt", {"charge": charge, "answered": answered})


def answers_of(connection: sqlite3.Connection, charge: int) -> int:
    """Return the number of stored answers of a charge."""
    return int(connection.execute("SELECT COUNT(*) FROM answer WHERE charge = ?", (charge,)).fetchone()[0])


def _check_definition(connection: sqlite3.Connection, account: Account, outcome: str) -> None:
    """Refuse, inside the caller's transaction, a run that was planned by what its account no longer says."""
    if not still_defined(connection, account):
        raise ValueError(
            f"The holder of account {account.name!r} gave it another definition after this run was planned: "
            f"begin again, with the domain that the account has now. {outcome}"
        )


def reserve(
    file: LedgerFile,
    account: Account,
    key: str,
    request: Mapping[str, Any],
    events: Sequence[Event],
    relation: Relation,
    secure: bool,
) -> Charge:
    """Charge an account, or find the charge made earlier under the same key; see `Ledger.reserve`.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the relation is not the account's, the noise is insecure, the request contains a
            non-finite number, an event has no cost in the account's unit, or the account has another
            definition by now.
        BudgetExceeded: the charge would exceed the cap.
        IdempotencyConflict: the key was used for another request.
        AttemptsExhausted: the charge was tried too often without an answer.
        LedgerError: the charge could not be recorded.
    """
    checks.kind(request, Mapping, "request must be a mapping")
    events = checks.several("events", events, "events")
    asked = _asked(account, request, events, relation, secure)
    key = word("key", key)
    costs = account._meter.costs(events)  # before the transaction, for which others wait
    # one transaction: the key is looked up, the sums are read, and the charge and its first attempt are
    # written, before another process sees any of it
    with file.writing("charged", _NOT_GRANTED) as connection:
        query = "SELECT request_hash FROM charge WHERE account = ? AND key = ?"
        found = connection.execute(query, (account.name, key)).fetchone()
        if found is None:
            _check_definition(connection, account, "Nothing was charged.")
            _charge(connection, account, key, asked, events, secure, costs)
        elif found[0] != asked:
            raise IdempotencyConflict(
                f"Key {key!r} stands for another request to account {account.name!r}: choose "
                "another key for another run. Nothing was charged."
            )
        (made,) = charges(connection, account, key)
        # a charge with answers is being played back, and needs an attempt only once something is computed
        if not made.answers:
            attempt(connection, made.id, key, account.max_attempts)
    return Charge(file, made, account, permitted=not made.answers)


def _asked(
    account: Account, request: Mapping[str, Any], events: Sequence[Event], relation: Relation, secure: bool
) -> str:
    """Check what does not depend on what was spent; return the digest of what identifies a run."""
    for event in events:
        check_relation(event, relation)
    if relation is not account.relation:
        raise ValueError(
            f"Account {account.name!r} counts releases under {account.relation.value}, and this one is "
            f"under {relation.value}: costs of the two cannot be added up. Nothing was charged."
        )
    if not flag("secure", secure) and not account.research:
        raise ValueError(
            f"Account {account.name!r} takes secure noise only, and this noise has a seed, or comes from a "
            "source of your own: leave it out. Experiments have a ledger of their own, made for research "
            "(research=True). Nothing was charged."
        )
    done = {"events": [event.to_dict() for event in events], "relation": relation.value, "secure": secure}
    return chain.digest_of("request", {"request": dict(request), **done})


def _charge(
    connection: sqlite3.Connection,
    account: Account,
    key: str,
    asked: str,
    events: Sequence[Event],
    secure: bool,
    costs: tuple[int, ...],
) -> None:
    """Add a charge, inside the caller's transaction, if it fits.

    The sums are read here and not from `account`, which was read before: others may have charged since.
    """
    _check_delta(connection, account, events)
    query = "SELECT number, totals FROM charge WHERE account = ? ORDER BY number DESC LIMIT 1"
    last = connection.execute(query, (account.name,)).fetchone()
    number, before = (0, [0] * len(costs)) if last is None else (last[0], json.loads(last[1]))
    # cut at LIMIT as the trigger does it, so that sums stay in 64 bits and both agree
    totals = [min(LIMIT, spent + cost) for spent, cost in zip(before, costs, strict=True)]
    if not account._meter.fits(totals):
        _refuse(account, costs, before)
    row = {
        "account": account.name,
        "number": number + 1,
        "key": key,
        "request_hash": asked,
        "events": chain.text_of([event.to_dict() for event in events]),
        "secure": int(secure),
        "costs": json.dumps(costs),
        "totals": json.dumps(totals),
    }
    chain.add(connection, "charge", row)


def _check_delta(connection: sqlite3.Connection, account: Account, events: Sequence[Event]) -> None:
    """Refuse events whose delta exceeds what is left of the account's part for labels."""
    asked = sum((event.delta for event in events), Fraction(0))
    if not asked:
        return
    whole = account.label_delta
    spent = label_delta_spent(connection, account.name)
    if asked > whole - spent:
        raise BudgetExceeded(
            f"Labels of text would need a delta of {as_text(asked)}, and account {account.name!r} "
            f"has {as_text(whole - spent)} left for them, of {as_text(whole)}: ask with a smaller "
            "delta, or let the table's holder describe such columns. Nothing was charged and no data was "
            "read."
        )


def _refuse(account: Account, costs: Sequence[int], before: Sequence[int]) -> None:
    """Raise `BudgetExceeded` with the remaining amount; the message uses public amounts only."""
    meter = account._meter
    place = meter.telling(before)
    amounts = (costs[place], meter.caps[place], meter.caps[place] - before[place])
    asked, cap, left = (as_text(meter.amount(units)) for units in amounts)
    at = f" at order {meter.orders[place]:g}" if meter.orders else ""
    fits, delta = "", account.delta
    if meter.unit == "rho" and amounts[2] > 0 and delta:
        most = math.floor(1000 * epsilon_of(meter.amount(amounts[2]), delta)) / 1000
        enough = f" What is left suffices for a release with epsilon {most} and delta {as_text(delta)}."
        fits = enough if most else ""
    whole = "" if left == cap else f"of {cap} "
    raise BudgetExceeded(
        f"This needs {meter.unit} {asked}{at}, but {whole}only {left} is left in account "
        f"{account.name!r}. Nothing was charged and no data was read.{fits} Ask for less, or use "
        "the releases that there are: pgmjax ledger show lists them."
    )


def label_delta_spent(connection: sqlite3.Connection, account: str) -> Fraction:
    """Return the sum of the deltas of all events that were charged to an account; most events have none."""
    rows = connection.execute("SELECT events FROM charge WHERE account = ?", (account,))
    records = [record for (text,) in rows for record in json.loads(text)]
    return sum((exact_delta(record.get("delta", 0)) for record in records), Fraction(0))
