"""Beginning a session: everything is checked, the cap is charged, and what the session is is written down."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.history.history import History
from pgmjax.history.session.log import FORMAT, SessionLog, turn
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.privacy import tape
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger.chain import digest_of

NAME = "session"
_PREFIX = "session "
_LARGEST_CAP = 10**6  # sums of costs must fit 64 bits in units of 10^-12


def opened(
    ledger: Ledger,
    data: Any,
    cap: Fraction,
    relation: Relation,
    name: str,
    given: History | None,
    backend: NoiseBackend,
) -> SessionLog:
    """Return the records of a session, whose cap is charged now if it was not before.

    Raises:
        TypeError, ValueError: see `Session.open`; nothing was charged.
        BudgetExceeded: less than the cap is left.
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a pgmjax.Dataset, got {type(data).__name__}.")
    if data.weighted:
        raise ValueError("a session counts records, and this table has weights: leave the weights out.")
    if cap > _LARGEST_CAP:
        raise ValueError(f"cap must be at most {_LARGEST_CAP}, got {as_text(cap)}.")
    secure = backend.secure and tape.active() is None
    header = {
        "kind": "session",
        "format": FORMAT,
        "name": name,
        "domain": data.domain.to_dict(),
        "relation": relation.value,
        "cap": as_text(cap),
        "secure": secure,
        "seed": backend.seed,
        "given": _given(given, data, relation, secure),
    }
    data.validate()
    account = ledger.find(ledger.digest_of(data))
    if account is None:
        raise ValueError(
            f"The ledger {ledger.path} has no account for this table, or the table's file was changed. "
            "Nothing was spent. Register it first: pgmjax ledger init, or Ledger.register."
        )
    request = {"session": digest_of("session", header)}
    with turn(ledger.path):
        charge = ledger.reserve(
            account.name, _key(name), request, [Pure(cap)], relation=relation, secure=secure
        )
        log = SessionLog(charge)
        log.refresh()
        if not log.records and not log.append(header):
            log.refresh()
    return log


def granted(ledger: Ledger, name: str, wanted: str | None = None) -> SessionLog:
    """Return the records of a session that was begun.

    Args:
        ledger: where it is kept.
        name: the session's.
        wanted: the account it was charged to; None where only one has a session of that name.

    Raises:
        ValueError: no account has a session of that name, or several and none was named.
    """
    logs = []
    for account in ledger.accounts():
        if wanted not in (None, account.name):
            continue
        if any(charge.key == _key(name) for charge in ledger.charges(account.name)):
            log = SessionLog(ledger.charge(account.name, _key(name)))
            log.refresh()
            logs += [log] if log.records else []
    if not logs:
        of = "" if wanted is None else f" of account {wanted!r}"
        raise ValueError(f"There is no session {name!r}{of} in {ledger.path}: begin it with Session.open.")
    if len(logs) > 1:
        names = ", ".join(repr(log.charge.account) for log in logs)
        raise ValueError(
            f"Several accounts in {ledger.path} have a session {name!r}: {names}. Name one with account, or "
            "--account."
        )
    return logs[0]


def _key(name: str) -> str:
    return f"{_PREFIX}{name}"


def _given(given: History | None, data: Dataset, relation: Relation, secure: bool) -> list[dict[str, Any]]:
    """Return earlier answers for the records."""
    if given is None:
        return []
    if not isinstance(given, History):
        raise TypeError(f"given must be a History, got {type(given).__name__}.")
    if given.domain != data.domain:
        raise ValueError(f"the given history is over {given.domain!r}, the table over {data.domain!r}.")
    if given.relation is not relation:
        told = "none stated" if given.relation is None else given.relation.value
        raise ValueError(
            f"the given history was bought under {told}, the session is under {relation.value}: mixed "
            "relations do not add up. State it with History(..., relation=...)."
        )
    if secure and not given.secure:
        raise ValueError(
            "the given history holds noise that can be repeated and protects nobody, and this session's is "
            "secure: leave it out."
        )
    if given.covariance is not None or not all(isinstance(law, DiscreteLaplace) for law in given.laws):
        raise ValueError(
            "the given history must hold independent answers with known Laplace laws, as measured with "
            "an epsilon."
        )
    if not all((np.rint(values) == values).all() for values in (m.values for m in given.measurements)):
        raise ValueError(
            "the given history must hold whole answers, as noise with a discrete law leaves them: give the "
            "answers as they were measured, not rounded or processed ones."
        )
    return [
        {
            "query": measurement.query.to_spec(),
            "values": [int(value) for value in measurement.values.reshape(-1)],
            "scale": measurement.law.scale,  # type: ignore[union-attr]
        }
        for measurement in given.measurements
    ]
