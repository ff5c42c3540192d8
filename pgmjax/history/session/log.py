"""A session's records: the steps of one charge in a ledger, in the same order for all processes.

Step 0 describes the session; it is written after all checks, when the cap is charged. Every later step is a
query answered from the history, a refusal, or a purchase. A purchase is recorded before its noise is drawn,
and its answer is the next step, whichever process computes it. Nothing is decided while an answer is missing,
and a crash leaves at most one missing answer, which the next process computes under the same record.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks, formats
from pgmjax._internal.files import parse_json
from pgmjax._internal.private_files import open_private
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.history.history import History
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.privacy import NoiseBackend, tape
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ledger import Charge, IdempotencyConflict, Ledger, LedgerError
from pgmjax.privacy.ledger.chain import digest_of, text_of
from pgmjax.privacy.ledger.journal import HeldTable
from pgmjax.privacy.opendp import is_secure

KINDS = ("session", "free", "refused", "bought", "noise", "void")

NAME = "session"
_PREFIX = "session "
_OTHERWISE = {
    "cap": "cap ({cap})",
    "domain": "domain",
    "relation": "relation ({relation})",
    "population": "unit or way of reading the table",
    "given": "history",
    "seed": "seed",
}
"""What may differ from how a session was begun, by its key in the first record."""
_LARGEST_CAP = 10**6  # sums of costs must fit 64 bits in units of 10^-12


class SessionLog:
    """The records of a session that have been read.

    Attributes:
        charge: the charge granted by the ledger.
        records: contents of the steps, in order.
    """

    def __init__(self, charge: Charge):
        self.charge = charge
        self.records: list[dict[str, Any]] = []

    def refresh(self) -> None:
        """Read the steps that other processes have added.

        Raises:
            LedgerError: a step is missing or cannot be read, or the session is of another format.
        """
        for step, payload in self.charge.stored(len(self.records)):
            record = _read(payload)
            if step != len(self.records) or record is None:
                raise LedgerError(
                    f"The session {self.charge.key!r} has no readable step {len(self.records)}: it is "
                    "damaged, or of a later pgmjax. Look at the file with `pgmjax ledger verify`."
                )
            if not self.records:
                try:
                    formats.SESSION.check(record, f"The session {self.charge.key.removeprefix(_PREFIX)!r}")
                except ValueError as error:
                    raise LedgerError(str(error)) from error
            self.records.append(record)

    def append(self, record: Mapping[str, Any]) -> bool:
        """Add a public record as the next step; return False if another process has already added one."""
        if not self.charge.record(len(self.records), text_of(dict(record)).encode()):
            return False
        self.records.append(_read(text_of(dict(record)).encode()) or {})
        return True

    @property
    def is_open(self) -> bool:
        """Return whether the last record is a purchase whose answer is missing."""
        return bool(self.records) and self.records[-1]["kind"] == "bought"

    def complete(self, measure: Callable[[], LinearMeasurement]) -> None:
        """Compute and store the missing answer, unless another process has already stored it.

        Each failure while measuring uses up one of the attempts that the account allows, so that the session
        eventually continues, with or without the answer.

        Args:
            measure: draws the noise and reads the table, in the same way in every process.

        Raises:
            Exception: as raised by `measure`; nothing was revealed.
            AttemptsExhausted: it failed too often.
            LedgerError: the answer could not be stored.
        """

        def record() -> bytes:
            measured = measure()
            distribution = measured.distribution
            assert distribution is not None
            values = [int(value) for value in measured.flat_values()]
            return text_of({"kind": "noise", "values": values, "scale": distribution.scale}).encode()

        # another process has stored something else there, such as that it is given up: to be read
        with contextlib.suppress(IdempotencyConflict):
            self.charge.answer(len(self.records), {"bought": self.records[-1]}, record)


def opened(
    ledger: Ledger,
    data: Any,
    cap: Fraction,
    relation: Relation,
    name: str,
    given: History | None,
    backend: NoiseBackend,
) -> tuple[SessionLog, Dataset, bytes]:
    """Return the records of a session, whose cap is charged now if it was not before, and its table.

    The table is as its holder defined it in the ledger. With it comes the secret by which the records of a
    unit are chosen, one for all answers: cell by cell, a cost adds up for the same records only.

    Raises:
        TypeError, ValueError: see `Session.open`; nothing was charged.
        BudgetExceeded: the remaining budget is below the cap.
    """
    checks.kind(data, Dataset, "data must be a pgmjax.Dataset", "write Dataset.from_frame(domain, frame)")
    checks.refuse(
        (data.weighted, "a session counts records, and this table has weights: leave the weights out."),
        (cap > _LARGEST_CAP, f"cap must be at most {_LARGEST_CAP}, got {as_text(cap)}."),
    )
    secure = is_secure(backend) and tape.active() is None
    held = HeldTable.of(ledger, data)
    assert isinstance(held.data, Dataset)
    header = {
        "kind": "session",
        **formats.SESSION.heading(),
        "name": name,
        "domain": data.domain.to_dict(),
        "relation": relation.value,
        "population": held.data.population.facts(),
        "cap": as_text(cap),
        "secure": secure,
        "seed": backend.seed,
        "given": _given(given, data, relation, secure),
    }
    held.admit(ledger, _key(name))
    # before the charge: a table with an invalid record costs nothing
    held.data.validate()
    account = held.account
    request = {"session": digest_of("session", header), **held.version}
    with turn(ledger.path):
        try:
            charge = held.reserve(ledger, _key(name), request, Pure(cap), relation, secure)
        except IdempotencyConflict:
            first = next((before.records[0] for before in begun(ledger, name, account.name)), header)
            others = [said for key, said in _OTHERWISE.items() if first.get(key) != header[key]]
            what = " and ".join(others).format(**first) or "version of the table"
            raise IdempotencyConflict(
                f"Session {name!r} of account {account.name!r} was begun with another {what}: give the same "
                "as then, or another name (--name) for another session. Nothing was charged."
            ) from None
        log = SessionLog(charge)
        log.refresh()
        # another process may have written the first step meanwhile
        if not log.records and not log.append(header):
            log.refresh()
    return log, held.data, held.choice_key(ledger)


def begun(ledger: Ledger, name: str, wanted: str | None = None) -> list[SessionLog]:
    """Return the records of the sessions of a name, one for each account that has it.

    Args:
        ledger: the ledger that keeps them.
        name: name of the session.
        wanted: the account; None for all.
    """
    logs = []
    for account in ledger.accounts():
        if wanted not in (None, account.name):
            continue
        if any(charge.key == _key(name) for charge in ledger.charges(account.name)):
            log = SessionLog(ledger.charge(account.name, _key(name)))
            log.refresh()
            logs += [log] if log.records else []
    return logs


def session_names(ledger: Ledger) -> list[str]:
    """Return the names of all sessions in a ledger."""
    keys = [charge.key for account in ledger.accounts() for charge in ledger.charges(account.name)]
    return sorted({key.removeprefix(_PREFIX) for key in keys if key.startswith(_PREFIX)})


def granted(ledger: Ledger, name: str, wanted: str | None = None) -> SessionLog:
    """Return the records of an existing session.

    Args:
        ledger: the ledger that keeps it.
        name: name of the session.
        wanted: account it was charged to; may be None if only one has a session of that name.

    Raises:
        ValueError: no account has a session of that name, or several do and `wanted` is None.
    """
    logs = begun(ledger, name, wanted)
    if not logs:
        of = "" if wanted is None else f" of account {wanted!r}"
        if name in {account.name for account in ledger.accounts()}:
            raise ValueError(
                f"There is no session {name!r}{of} in {ledger.path}, but an account: write --account "
                f"{name}, or account= in Python, and name its session, or leave the name out."
            )
        if there := session_names(ledger):
            raise ValueError(
                f"There is no session {name!r}{of} in {ledger.path}, which has "
                f"{', '.join(map(repr, there))}: give one of these names. To begin "
                "another, which charges another cap, give the table too, with domain, cap and relation."
            )
        raise ValueError(
            f"There is no session {name!r}{of} in {ledger.path}: begin it with its table, by "
            "`pgmjax session ask --table T --domain D --cap 1 --relation R`, or Session.open in Python."
        )
    if len(logs) > 1:
        names = ", ".join(repr(log.charge.account) for log in logs)
        raise ValueError(
            f"Several accounts in {ledger.path} have a session {name!r}: {names}. Name one with account, or "
            "--account."
        )
    return logs[0]


@contextlib.contextmanager
def turn(path: pathlib.Path) -> Iterator[None]:
    """Hold a lock among querying processes; it is released if the process dies.

    The lock only avoids wasted work; the guarantee that nothing is spent twice does not depend on it.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    with open_private(path.with_name(path.name + ".turn")) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(payload: bytes) -> dict[str, Any] | None:
    try:
        record = parse_json(payload)
        return record if record["kind"] in KINDS else None
    except (ValueError, TypeError, KeyError):
        return None


def _key(name: str) -> str:
    return f"{_PREFIX}{name}"


def _given(given: History | None, data: Dataset, relation: Relation, secure: bool) -> list[dict[str, Any]]:
    """Return earlier answers in the form of the records."""
    if given is None:
        return []
    checks.kind(given, History, "given must be a History")
    if given.domain != data.domain:
        raise ValueError(f"the given history is over {given.domain!r}, the table over {data.domain!r}.")
    if given.relation is not relation:
        stated = "none stated" if given.relation is None else given.relation.value
        raise ValueError(
            f"the given history was bought under {stated}, the session is under {relation.value}: mixed "
            "relations do not add up. State it with History(..., relation=...)."
        )
    checks.refuse(
        (
            secure and not given.secure,
            "the given history holds noise that can be repeated and protects nobody, and this session's is "
            "secure: leave it out.",
        ),
        (
            given.covariance is not None
            or not all(isinstance(distribution, DiscreteLaplace) for distribution in given.distributions),
            "the given history must hold independent answers with known Laplace distributions, as measured "
            "with an epsilon.",
        ),
        (
            not all((np.rint(values) == values).all() for values in (m.values for m in given.measurements)),
            "the given history must hold whole answers, as noise with a discrete distribution leaves them: "
            "give the answers as they were measured, not rounded or processed ones.",
        ),
    )
    return [
        {
            "query": measurement.query.to_spec(),
            "values": [int(value) for value in measurement.values.reshape(-1)],
            "scale": measurement.distribution.scale,  # type: ignore[union-attr]
        }
        for measurement in given.measurements
    ]
