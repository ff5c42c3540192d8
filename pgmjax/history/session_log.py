"""A session's records: the steps of one charge in a ledger, in an order that all processes agree on.

Step 0 says what the session is. Every later one is a demand that was answered from the history, one that was
refused, or what is bought; what is bought is recorded before its noise is drawn, and its answer is the next
step, whoever computes it. So nothing is decided while an answer is missing, and a crash leaves at most one
that is missing: the next process computes it, under the same record.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger.chain import text_of
from pgmjax.privacy.ledger.charge import Charge
from pgmjax.privacy.ledger.errors import LedgerError
from pgmjax.relation import Relation

FORMAT = 1
KINDS = ("session", "free", "refused", "bought", "noise", "void")


class SessionLog:
    """The records of a session as far as they were read.

    Attributes:
        charge: what the ledger granted.
        records: what the steps hold, in order.
    """

    def __init__(self, charge: Charge):
        self.charge = charge
        self.records: list[dict[str, Any]] = []

    def refresh(self) -> None:
        """Read the steps that others have added.

        Raises:
            LedgerError: a step is missing or cannot be read.
        """
        for step, payload in self.charge.stored(len(self.records)):
            record = _read(payload)
            if step != len(self.records) or record is None:
                raise LedgerError(
                    f"The session {self.charge.key!r} has no readable step {len(self.records)}: it is "
                    "damaged, or of a later pgmjax. Look at the file with `pgmjax ledger verify`."
                )
            self.records.append(record)

    def append(self, record: Mapping[str, Any]) -> bool:
        """Add a public record as the next step; False where another process has added one before."""
        if not self.charge.record(len(self.records), text_of(dict(record)).encode()):
            return False
        self.records.append(_read(text_of(dict(record)).encode()) or {})
        return True

    @property
    def is_open(self) -> bool:
        """Whether the last record is of something bought, whose answer is missing."""
        return bool(self.records) and self.records[-1]["kind"] == "bought"

    def journal(self, secure: bool) -> StepJournal:
        """Return where the missing answer is to be kept."""
        return StepJournal(self.charge, len(self.records), secure)


class StepJournal:
    """Keeps one answer of a `PrivateTable` as a step of a session, which has charged it already."""

    def __init__(self, charge: Charge, step: int, secure: bool):
        self._charge = charge
        self._step = step
        self._secure = secure
        self._used = False

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Check that the noise is as the session says; the charge was made when the session was opened.

        Raises:
            ValueError: noise that protects nobody, in a session that says it is secure.
        """
        if self._secure and not secure:
            raise ValueError(
                "This session's noise is secure, and noise that can be repeated protects nobody: leave out "
                "the seed and the tape. Nothing was drawn."
            )

    def receipt(self) -> dict[str, Any]:
        """Return account and key."""
        return {"account": self._charge.account, "key": self._charge.key, "charge": self._charge.id}

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the answer of the step, int64 [rows]: the stored one, or one computed and stored now."""
        assert not self._used, "one answer a step"
        self._used = True
        scale = request["measure"][0]["scale"]

        def record() -> bytes:
            values = [int(value) for value in compute()]
            return text_of({"kind": "noise", "values": values, "scale": scale}).encode()

        kept = json.loads(self._charge.answer(self._step, request, record))
        return np.array(kept["values"], np.int64)


@contextlib.contextmanager
def turn(path: pathlib.Path) -> Iterator[None]:
    """Wait for one's turn among the processes that ask; a process that dies gives its turn up.

    It saves work that would be thrown away; that nothing is spent twice does not rest on it.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    with path.with_name(path.name + ".turn").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(payload: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(payload)
        return record if record["kind"] in KINDS else None
    except (ValueError, TypeError, KeyError):
        return None
