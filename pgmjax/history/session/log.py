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

from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.ledger.chain import text_of
from pgmjax.privacy.ledger.charge import Charge
from pgmjax.privacy.ledger.errors import IdempotencyConflict, LedgerError

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

    def complete(self, measure: Callable[[], LinearMeasurement]) -> None:
        """Have the missing answer computed and stored, unless another process has stored it before.

        Whatever fails while measuring uses up one of the attempts that the account allows, so that the
        session goes on after so many: with the noise, or without.

        Args:
            measure: draws the noise and reads the table, in the same way in every process.

        Raises:
            Exception: what `measure` raised; nothing was shown.
            AttemptsExhausted: it failed too often.
            LedgerError: it could not be stored.
        """

        def record() -> bytes:
            measured = measure()
            law = measured.law
            assert law is not None
            values = [int(value) for value in measured.flat_values()]
            return text_of({"kind": "noise", "values": values, "scale": law.scale}).encode()

        # another process has stored something else there, such as that it is given up: to be read
        with contextlib.suppress(IdempotencyConflict):
            self.charge.answer(len(self.records), {"bought": self.records[-1]}, record)


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
