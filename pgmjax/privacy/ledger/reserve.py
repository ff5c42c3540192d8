"""Reserving budget: a request is checked and charged, or its earlier charge is found."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting.events import Event, check_relation, read_event
from pgmjax.privacy.accounting.zcdp import epsilon_of
from pgmjax.privacy.budget import BudgetExceeded
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ledger import account as ledger_account
from pgmjax.privacy.ledger import chain
from pgmjax.privacy.ledger.account import Account, flag, word
from pgmjax.privacy.ledger.charge import Charge, answers_of, attempt, now
from pgmjax.privacy.ledger.database import LIMIT, LedgerFile
from pgmjax.privacy.ledger.errors import IdempotencyConflict
from pgmjax.privacy.ledger.meter import Meter

_OUTCOME = "Nothing was granted. If it was recorded all the same, the same key finds it, free of charge."


@dataclasses.dataclass(frozen=True)
class Reservation:
    """A checked request to charge an account.

    Attributes:
        account: the account.
        key: the idempotency key.
        events: the events to charge.
        secure: whether the noise is secure.
        hash: digest of what identifies a run: the request, the events, the relation and `secure`.
    """

    account: Account
    key: str
    events: tuple[Event, ...]
    secure: bool
    hash: str

    @classmethod
    def of(
        cls,
        account: Account,
        key: str,
        request: Mapping[str, Any],
        events: Sequence[Event],
        relation: Relation,
        secure: bool,
    ) -> Reservation:
        """Check everything that does not depend on what was spent.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: the relation is not the account's, the noise is insecure, or the request contains
                a non-finite number.
        """
        checks.kind(request, Mapping, "request must be a mapping")
        events = checks.several("events", events, "events")
        for event in events:
            check_relation(event, relation)
        if relation is not account.relation:
            raise ValueError(
                f"Account {account.name!r} counts releases under {account.relation.value}, and this one is "
                f"under {relation.value}: costs of the two cannot be added up. Nothing was charged."
            )
        if not flag("secure", secure) and not account.research:
            raise ValueError(
                f"Account {account.name!r} takes secure noise only, and this noise can be repeated or is "
                "of a source of your own, and protects nobody: leave out the seed or the source, or register "
                "the table for research. It may be the noise of answers that the run's folder holds already: "
                "begin in another folder then. Nothing was charged."
            )
        done = {"events": [event.to_dict() for event in events], "relation": relation.value, "secure": secure}
        asked = chain.digest_of("request", {"request": dict(request), **done})
        return cls(account, word("key", key), events, secure, asked)

    def make(self, file: LedgerFile, meter: Meter) -> Charge:
        """Charge the account, or find the charge made earlier under the same key.

        Raises:
            ValueError: an event has no cost in the account's unit.
            BudgetExceeded: the charge would exceed the cap.
            IdempotencyConflict: the key was used for another request.
            AttemptsExhausted: the charge was tried too often without an answer.
            LedgerError: the charge could not be recorded.
        """
        costs = meter.costs(self.events)  # before the transaction, for which others wait
        with file.writing("charged", _OUTCOME) as connection:
            found = self._find(connection) or self._charge(connection, meter, costs)
            charge, paid, totals = found
            permitted = not answers_of(connection, charge)
            if permitted:
                attempt(connection, charge, self.key, self.account.max_attempts)
        told = meter.telling(totals)
        return Charge(
            file,
            identifier=charge,
            account=self.account.name,
            key=self.key,
            cost=meter.amount(paid[told]),
            total=meter.amount(totals[told]),
            max_attempts=self.account.max_attempts,
            permitted=permitted,
        )

    def _find(self, connection: sqlite3.Connection) -> tuple[int, Sequence[int], Sequence[int]] | None:
        row = connection.execute(
            "SELECT id, request_hash, costs, totals FROM charge WHERE account = ? AND key = ?",
            (self.account.name, self.key),
        ).fetchone()
        if row is None:
            return None
        if row[1] != self.hash:
            raise IdempotencyConflict(
                f"Key {self.key!r} stands for another request to account {self.account.name!r}: choose "
                "another key for another run. Nothing was charged."
            )
        return row[0], json.loads(row[2]), json.loads(row[3])

    def _charge(
        self, connection: sqlite3.Connection, meter: Meter, costs: tuple[int, ...]
    ) -> tuple[int, Sequence[int], Sequence[int]]:
        self._check_delta(connection)
        number, before = ledger_account.totals_of(connection, self.account.name, meter)
        totals = tuple(min(LIMIT, spent + cost) for spent, cost in zip(before, costs, strict=True))
        if not meter.fits(totals):
            self._refuse(meter, costs, before)
        row = {
            "account": self.account.name,
            "number": number + 1,
            "key": self.key,
            "request_hash": self.hash,
            "events": chain.text_of([event.to_dict() for event in self.events]),
            "secure": int(self.secure),
            "costs": json.dumps(costs),
            "totals": json.dumps(totals),
            "created": now(),
        }
        return chain.add(connection, "charge", row), costs, totals

    def _check_delta(self, connection: sqlite3.Connection) -> None:
        """Refuse events whose delta exceeds what is left of the account's part for labels."""
        asked = delta_of(self.events)
        if not asked:
            return
        kept = self.account.label_delta
        spent = label_delta_spent(connection, self.account.name)
        if asked > kept - spent:
            raise BudgetExceeded(
                f"Labels of text would need a delta of {as_text(asked)}, and account {self.account.name!r} "
                f"has {as_text(kept - spent)} left for them, of {as_text(kept)}: ask with a smaller "
                f"delta, or "
                "let the table's holder describe such columns. Nothing was charged and no data was read."
            )

    def _refuse(self, meter: Meter, costs: Sequence[int], before: Sequence[int]) -> None:
        """Raise `BudgetExceeded` with the remaining amount; the message uses public amounts only."""
        told = meter.telling(before)
        amounts = (costs[told], meter.caps[told], meter.caps[told] - before[told])
        asked, cap, left = (as_text(meter.amount(units)) for units in amounts)
        at = f" at order {meter.orders[told]:g}" if meter.orders else ""
        fits, delta = "", self.account.delta
        if meter.unit == "rho" and amounts[2] > 0 and delta:
            most = math.floor(1000 * epsilon_of(meter.amount(amounts[2]), delta)) / 1000
            enough = f" What is left suffices for a release with epsilon {most} and delta {as_text(delta)}."
            fits = enough if most else ""
        raise BudgetExceeded(
            f"This needs {meter.unit} {asked}{at}, but of {cap} only {left} is left in account "
            f"{self.account.name!r}. Nothing was charged and no data was read.{fits} Ask for less, or use "
            "the releases that there are: pgmjax ledger show lists them."
        )


def delta_of(events: Sequence[Event]) -> Fraction:
    """Return the sum of the deltas of events that hold only up to one."""
    return sum((event.delta for event in events), Fraction(0))


def label_delta_spent(connection: sqlite3.Connection, account: str) -> Fraction:
    """Return the sum of the deltas of all events that were charged to an account."""
    rows = connection.execute("SELECT events FROM charge WHERE account = ?", (account,))
    return sum((delta_of([read_event(one) for one in json.loads(text)]) for (text,) in rows), Fraction(0))
