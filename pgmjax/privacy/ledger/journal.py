"""A run's journal in a ledger: one charge for the whole run, one stored answer for each step."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal.files import array_of
from pgmjax.data.dataset import Dataset
from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting.events import Concentrated, Event, Pure
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger.account import Account
from pgmjax.privacy.ledger.charge import Charge
from pgmjax.privacy.ledger.ledger import Ledger


class LedgerJournal:
    """Keeps a run's charge and its answers in a ledger.

    A run that was interrupted goes on where it stopped: steps that are stored are played back, free of
    charge, and only the others are computed.

    Args:
        ledger: where the table's budget is kept.
        account: the table's account in it.
        key: the run's name: the same key and request are the same run.
        request: what the run is, in public terms; another request under the same key is refused.
    """

    def __init__(self, ledger: Ledger, account: Account, key: str, request: Mapping[str, Any]):
        self._ledger = ledger
        self._account = account
        self._key = key
        self._request = dict(request)
        self._run: object = None
        self._charge: Charge | None = None
        self._step = 0

    @classmethod
    def of_table(
        cls, ledger: Ledger, data: Dataset | Ratings, key: str | None, request: Mapping[str, Any]
    ) -> LedgerJournal:
        """Return the journal of a run on a table, which the ledger recognises by its fingerprint.

        Args:
            ledger: where the table's budget is kept.
            data: the private table, or ratings.
            key: the run's name; None names it by its request.
            request: what the run is, in public terms.

        Raises:
            ValueError: the ledger has no account for this table.
            LedgerError: the ledger or its key cannot be read.
        """
        account = ledger.find(ledger.digest_of(data))
        if account is None:
            raise ValueError(
                f"The ledger {ledger.path} has no account for this table, or the table's file was changed. "
                "Nothing was spent. Register it first: pgmjax ledger init, or Ledger.register."
            )
        if key is None:
            text = json.dumps(request, sort_keys=True)
            key = f"{request['mechanism']}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return cls(ledger, account, key, request)

    @property
    def charge(self) -> Charge | None:
        """The ledger's charge, once there is one."""
        return self._charge

    def receipt(self) -> dict[str, Any]:
        """Return what a release says of its ledger: account, key, number of the charge, head of the chain."""
        number = None if self._charge is None else self._charge.id
        return {
            "account": self._account.name,
            "key": self._key,
            "charge": number,
            "head": self._ledger.head(),
        }

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Reserve the whole budget in the ledger, durably.

        Args:
            run: whose journal this is: the first `PrivateTable` that begins, and no other.
            budget: what the run may spend.
            relation: which tables are neighbours.
            secure: whether its noise is.

        Raises:
            ValueError: another run's journal, or a budget that no single cost stands for.
            BudgetExceeded: the table's cap would be passed; nothing was charged.
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
            self._charge = self._ledger.reserve(
                self._account.name, self._key, self._request, [whole], relation=relation, secure=secure
            )

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the next step's answer, from the ledger if it is there, else computed and stored.

        Raises:
            LedgerError: the answer could not be stored; it is not shown.
        """
        assert self._charge is not None, "begin comes first"
        step, self._step = self._step, self._step + 1
        return _unpacked(self._charge.answer(step, request, lambda: _packed(compute())))

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return whether the next step's answer is in the ledger, and is one to this request."""
        return self._charge is not None and self._charge.holds(self._step, request)


def _packed(values: np.ndarray) -> bytes:
    if values.dtype != np.int64:
        raise TypeError(f"Answers must be int64, got {values.dtype}.")
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=False)
    return stream.getvalue()


def _unpacked(payload: bytes) -> np.ndarray:
    return array_of(payload)
