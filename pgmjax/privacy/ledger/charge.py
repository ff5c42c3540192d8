"""A charge that was granted, and its stored answers.

Each step of a charge has one answer, stored before it is returned. A step can therefore be computed again
after a crash, and a run of many steps resumed, at no further cost.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.privacy.ledger import chain
from pgmjax.privacy.ledger.chain import now
from pgmjax.privacy.ledger.database import LedgerFile
from pgmjax.privacy.ledger.errors import AttemptsExhausted, IdempotencyConflict

_LARGEST_STEP = 2**53
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

    def __init__(
        self,
        file: LedgerFile,
        *,
        identifier: int,
        account: str,
        key: str,
        cost: Fraction,
        total: Fraction,
        max_attempts: int,
        permitted: bool,
    ):
        self.id = identifier
        self.account = account
        self.key = key
        self.cost = cost
        self.total = total
        self._file = file
        self._max_attempts = max_attempts
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
            ValueError: the step is out of range, or the request contains a non-finite number.
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
        self._begin()
        payload = compute()
        checks.kind(payload, bytes, "compute must return bytes", "the charge stays, and nothing was stored")
        with self._file.writing("given the answer", _NOT_STORED) as connection:
            stored = self._stored(connection, step, asked)
            if stored is None:
                row = {"charge": self.id, "step": step, "request_hash": asked, "payload": payload}
                chain.add(connection, "answer", {**row, "created": now()})
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
            ValueError: the step is out of range.
            LedgerError: the data could not be stored.
        """
        step = checks.integer("step", step, low=0, high=_LARGEST_STEP)
        checks.kind(payload, bytes, "a record must be bytes")
        asked = hashlib.sha256(payload).hexdigest()
        with self._file.writing("given the record", "Nothing was shown.") as connection:
            query = "SELECT 1 FROM answer WHERE charge = ? AND step = ?"
            if connection.execute(query, (self.id, step)).fetchone() is not None:
                return False
            row = {"charge": self.id, "step": step, "request_hash": asked, "payload": payload}
            chain.add(connection, "answer", {**row, "created": now()})
        return True

    def stored(self, first: int = 0) -> list[tuple[int, bytes]]:
        """Return (step, contents) of each stored step from number `first` on, in order."""
        query = "SELECT step, payload FROM answer WHERE charge = ? AND step >= ? ORDER BY step"
        with self._file.reading() as connection:
            rows = connection.execute(query, (self.id, first)).fetchall()
        return [(int(step), bytes(payload)) for step, payload in rows]

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
                attempt(connection, self.id, self.key, self._max_attempts)


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
    chain.add(connection, "attempt", {"charge": charge, "answered": answered, "created": now()})


def answers_of(connection: sqlite3.Connection, charge: int) -> int:
    """Return the number of stored answers of a charge."""
    return int(connection.execute("SELECT COUNT(*) FROM answer WHERE charge = ?", (charge,)).fetchone()[0])
