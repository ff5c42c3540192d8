"""A run's journal in a ledger: one charge for the whole run, one stored answer for each step."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import io
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal.files import array_of
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import OpenDefinition, TableDefinition
from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import Relation
from pgmjax.privacy import tape
from pgmjax.privacy.accounting.events import Concentrated, Event, KeysEvent, Pure
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger.account import Account
from pgmjax.privacy.ledger.charge import Charge, reserve
from pgmjax.privacy.ledger.ledger import Ledger


@dataclasses.dataclass(frozen=True)
class HeldTable:
    """A table that a ledger knows, as its holder defined it.

    Attributes:
        account: the table's.
        data: the table, to be read by its definition.
        version: what a request says of it: nothing of the table that was registered first.
        discovers: whether the run is to find the domain of the account's open columns.
    """

    account: Account
    data: Dataset | Ratings
    version: dict[str, int]
    discovers: bool = False

    @classmethod
    def of(cls, ledger: Ledger, data: Dataset | Ratings) -> HeldTable:
        """Find a table's account, and check what is asked against the table's definition.

        Args:
            ledger: where the table's budget is kept.
            data: the private table, or ratings.

        Raises:
            ValueError: the ledger has no account for this table, or the domain or the weights do not follow
                from its definition. No message depends on the records.
            LedgerError: the ledger or its key cannot be read.
        """
        held = cls.open(ledger, data)
        definition = held.account.definition
        if definition is None and held.account.open is not None:
            definition = held._described(held.account.open)
        if isinstance(data, Dataset) and definition is not None:
            data = data.under(definition)
        return cls(held.account, data, held.version)

    @classmethod
    def open(cls, ledger: Ledger, data: Dataset | Ratings) -> HeldTable:
        """Find a table's account for a run that discovers its open columns, whatever `data` is encoded by.

        Args:
            ledger: where the table's budget is kept.
            data: the private table.

        Raises:
            ValueError: the ledger has no account for this table.
            LedgerError: the ledger or its key cannot be read.
        """
        found = ledger.find_table(data)
        if found is None:
            raise ValueError(
                f"The ledger {ledger.path} has no account for this table, or the table's file was changed. "
                "Nothing was spent. The table's holder adds it to the account of the same people (pgmjax "
                "ledger add-version, Ledger.add_version) or registers it (pgmjax ledger init, "
                "Ledger.register)."
            )
        account, digest = found
        known = account.versions.index(digest) + 2 if digest in account.versions else 1
        return cls(account, data, {} if known == 1 else {"version": known}, discovers=True)

    def _described(self, held: OpenDefinition) -> TableDefinition | None:
        """Return the definition of the columns that the holder described, if nothing else is asked for."""
        asked = self.data.domain if isinstance(self.data, Dataset) else ()
        names = [name for name in asked if name in held.draft.open]
        if names:
            raise ValueError(
                f"The domain of {', '.join(names)} is open in account {self.account.name!r}: find it for a "
                "share of the budget (--discover 0.1, Mechanism.run(OpenTable, discover=Discovery())), or "
                "ask for the other columns only. Nothing was spent."
            )
        return held.described

    def reserve(
        self,
        ledger: Ledger,
        key: str,
        request: Mapping[str, Any],
        event: Event,
        relation: Relation,
        secure: bool,
    ) -> Charge:
        """Charge the account, if it still has the definition by which the run was planned.

        Raises:
            ValueError: it has another one; nothing was charged.
            Exception: as `Ledger.reserve`.
        """
        return reserve(ledger._file, self.account, key, request, [event], relation, secure)

    def choice_key(self, ledger: Ledger) -> bytes:
        """Return the secret by which the records of a unit are chosen: one for all runs on a table."""
        if tape.active() is not None:  # neighbours in two ledgers are compared, and nothing is secure
            return b"pgmjax records of a unit, for a tape"
        table = f"{self.account.digest} {self.version.get('version', 1)}".encode()
        return hmac.new(ledger._key(), b"pgmjax records of a unit\n" + table, hashlib.sha256).digest()

    def admit(self, ledger: Ledger, key: str) -> None:
        """Refuse a run on an account without a definition, unless it was begun before there were any.

        Args:
            ledger: where the table's budget is kept.
            key: the run's name.

        Raises:
            ValueError: a new run.
        """
        account = self.account
        if self.discovers:
            self._admit_discovery(ledger, key)
            return
        if account.definition is not None or account.open is not None or not isinstance(self.data, Dataset):
            return
        if all(charge.key != key for charge in ledger.charges(self.account.name)):
            raise ValueError(
                f"Account {self.account.name!r} has no domain yet, and takes no new run. Nothing was spent. "
                f"The holder of the table completes it: pgmjax ledger set-domain {ledger.path} "
                f"{self.account.name} TABLE --domain FILE, or Ledger.set_domain."
            )

    def _admit_discovery(self, ledger: Ledger, key: str) -> None:
        """Refuse a discovery on an account that leaves nothing open, but for the run that found it."""
        account = self.account
        if account.open is None:
            raise ValueError(
                f"The holder of account {account.name!r} left no column open: leave --discover out, and ask "
                "by the account's domain or by one that merges its cells. Nothing was spent."
            )
        finder = [one.key for one in ledger.charges(account.name) if one.id == account.found_by]
        if finder and finder != [key]:
            raise ValueError(
                f"Charge {account.found_by} has found the domain of account {account.name!r} already: leave "
                "--discover out, and ask by that domain, domain.json in its release, or as pgmjax ledger "
                f"show {ledger.path} --name {account.name} --domain FILE writes it. Nothing was spent."
            )


class LedgerJournal:
    """Keeps a run's charge and its answers in a ledger.

    An interrupted run resumes where it stopped: stored steps are played back at no cost, and only the
    others are computed.

    Args:
        ledger: the ledger with the table's budget.
        held: the table as the ledger knows it, see `HeldTable.of`.
        key: the run's name: the same key and request are the same run. Default: the mechanism and a hash of
            the request.
        request: what the run is, in public terms; another request under the same key is refused. It needs an
            entry "mechanism" if `key` is None.

    Raises:
        ValueError: the account takes no new run, see `HeldTable.admit`.
        LedgerError: the ledger cannot be read.
    """

    def __init__(self, ledger: Ledger, held: HeldTable, key: str | None, request: Mapping[str, Any]):
        self.data = held.data
        self._request = {**request, **held.version}
        if key is None:
            text = json.dumps(self._request, sort_keys=True)
            key = f"{request['mechanism']}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        held.admit(ledger, key)
        self._ledger = ledger
        self._held = held
        self._key = key
        self._run: object = None
        self._charge: Charge | None = None
        self._secure: bool | None = None
        self._step, self._counting = 0, threading.Lock()

    @property
    def secure(self) -> bool | None:
        """True if the charge is for secure noise, which is part of its request; None before `begin`."""
        return self._secure

    def receipt(self) -> dict[str, Any]:
        """Return the ledger's part of a release: account, key, number of the charge, head of the chain.

        `exact` are the notes of exact figures about the same people that were published.
        """
        number = None if self._charge is None else self._charge.id
        figures = self._ledger.account(self._held.account.name).exact
        return {
            "account": self._held.account.name,
            "key": self._key,
            "charge": number,
            "head": self._ledger.head(),
            "exact": [dataclasses.asdict(each) for each in figures],
        }

    def choice_key(self) -> bytes:
        """Return the secret by which the records of a unit are chosen: the table's, from the ledger's key."""
        return self._held.choice_key(self._ledger)

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Reserve the whole budget in the ledger, durably.

        Args:
            run: the owner of the journal: the first object to call `begin`, and no other afterwards.
            budget: the run's budget.
            relation: the neighbouring relation.
            secure: whether its noise is secure.

        Raises:
            ValueError: the journal belongs to another run, or the budget has unit "renyi".
            BudgetExceeded: the table's cap would be exceeded; nothing was charged.
            LedgerError: the ledger refuses or cannot be written; nothing was charged.
        """
        if self._run is None:
            self._run = run
        if self._run is not run:
            raise ValueError(
                "A journal keeps one run, and this one has another already: make a new LedgerJournal for "
                "each PrivateTable."
            )
        if budget.unit == "renyi":
            raise ValueError(
                "A run in a ledger is charged its whole budget beforehand, which must be an epsilon or "
                "a rho. Charge single events of a mixture with Ledger.reserve."
            )
        if self._charge is None:
            whole: Event = Pure(budget.cap) if budget.unit == "epsilon" else Concentrated(budget.cap)
            if budget.delta:
                whole = KeysEvent(budget.cap, budget.delta)
            self._charge = self._held.reserve(self._ledger, self._key, self._request, whole, relation, secure)
            self._secure = secure
        if self._secure and not secure:
            raise ValueError(
                "This run was charged for secure noise, and its source of noise has become another: use the "
                "source that it began with."
            )

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the next step's answer, from the ledger if stored there, otherwise computed and stored.

        Raises:
            LedgerError: the answer could not be stored; it is not shown.
        """
        assert self._charge is not None, "begin comes first"
        with self._counting:
            # steps have the numbers in which they are answered: a run that goes on asks in the same order,
            # and one that failed and is asked again is the same step
            values = array_of(self._charge.answer(self._step, request, lambda: _packed(compute())))
            self._step += 1
        return values

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return whether the ledger has the next step's answer to this request."""
        return self._charge is not None and self._charge.holds(self._step, request)


def _packed(values: np.ndarray) -> bytes:
    if values.dtype != np.int64:
        raise TypeError(f"Answers must be int64, got {values.dtype}.")
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=False)
    return stream.getvalue()
