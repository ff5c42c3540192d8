"""Verification of a ledger: damage, changed and missing rows, sums that do not add up."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from pgmjax.privacy.ledger import chain, database
from pgmjax.privacy.ledger.account import accounts
from pgmjax.privacy.ledger.charge import label_delta_spent
from pgmjax.privacy.ledger.errors import LedgerError, reason

_NOT_DAMAGE = (5, 6, 7, 9)  # busy, locked, out of memory, interrupted
_MOST_FAULTS = 50


@dataclasses.dataclass(frozen=True)
class Verification:
    """The findings of `Ledger.verify`.

    Attributes:
        rows: number of rows checked against their links.
        head: the last link, to be noted where nobody who can write to the ledger can change it; "" if it
            cannot be read.
        faults: the faults found, as text; empty if none.
    """

    rows: int
    head: str
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if no fault was found."""
        return not self.faults

    def raise_if_bad(self) -> None:
        """Raise a `LedgerError` that lists the faults, if any."""
        if self.faults:
            raise LedgerError(f"The ledger is not to be trusted: {' '.join(self.faults)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as a JSON-able dict."""
        return {"ok": self.ok, "rows": self.rows, "head": self.head, "faults": list(self.faults)}


def verify(connection: sqlite3.Connection, head: str | None) -> Verification:
    """Check everything that can be checked, inside the caller's transaction.

    Args:
        connection: a connection in a read transaction.
        head: a head noted earlier, which must be in the chain.
    """
    faults: list[str] = []
    seen: dict[str, Any] = {"rows": 0, "head": ""}
    checks = (
        *(_pages(connection), _rules(connection), _chain(connection, seen), _unsealed(connection)),
        *(_sums(connection), _deltas(connection), _answers(connection), _pinned(connection, head)),
    )
    for check in checks:
        faults += _faults(check)
    listed = faults[:_MOST_FAULTS]
    if len(faults) > _MOST_FAULTS:
        listed.append(f"There are {len(faults) - _MOST_FAULTS} faults more.")
    return Verification(seen["rows"], seen["head"], tuple(listed))


def _faults(check: Iterator[str]) -> list[str]:
    """Run a check, which has not begun yet, and return its faults; a check that cannot run is a fault too."""
    found: list[str] = []
    try:
        found.extend(check)
    except sqlite3.Error as error:
        if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _NOT_DAMAGE:
            raise
        found.append(f"The file cannot be read: {reason(error)}.")
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        found.append(f"A row cannot be read: {type(error).__name__}.")
    return list(dict.fromkeys(found))


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield f"The file is damaged: {line}."
    for table, row, *_ in connection.execute("PRAGMA foreign_key_check"):
        yield f"The {table} {row} belongs to something that is not there."


def _rules(connection: sqlite3.Connection) -> Iterator[str]:
    present = database.present(connection)
    wanted = database.expected("exact_figure" in present)
    for name in dict.fromkeys([*wanted, *present]):
        if name not in present:
            yield f"The rule or table {name} was removed."
        elif name not in wanted and not name.startswith("sqlite_"):
            yield f"The rule or table {name} was added."
        elif name in wanted and present[name] != wanted[name]:
            yield f"The rule or table {name} was changed."


def _chain(connection: sqlite3.Connection, seen: dict[str, Any]) -> Iterator[str]:
    last, number = chain.BEGINNING, 0
    key, tables = _key(connection), database.present(connection)
    if isinstance(key, str):
        yield key
        return
    for seq, kind, row, previous, found in connection.execute(
        "SELECT seq, kind, row, previous, hash FROM chain ORDER BY seq"
    ):
        number += 1
        if seq != number or previous != last:
            yield f"The chain is broken before link {seq}: links were removed, added or put in another order."
            # go on from here, so that one gap is told once
            number = seq
        last = found
        seen["head"] = found
        if kind not in database.KINDS:
            yield f"Link {seq} is of an unknown kind."
            continue
        values = None
        if kind in tables:
            cursor = connection.execute(f"SELECT * FROM {kind} WHERE id = ?", (row,))
            values = cursor.fetchone()
        if values is None:
            yield f"The {kind} {row} is missing: it was removed after it was recorded."
            continue
        seen["rows"] += 1
        names = [column[0] for column in cursor.description]
        if chain.link(previous, kind, dict(zip(names, values, strict=True)), key) != found:
            yield f"The {kind} {row} was changed after it was recorded."
    if not number:
        yield "The chain is empty: its first link was removed."


def _key(connection: Any) -> bytes | str:
    """Return the key of the ledger, or what is wrong with it."""
    try:
        (check,) = connection.execute("SELECT key_check FROM ledger").fetchone()
        return chain.read_key(connection.owner.path, check)
    except LedgerError as error:
        return f"The chain cannot be verified. {error}"


def _unsealed(connection: sqlite3.Connection) -> Iterator[str]:
    tables = database.present(connection)
    for kind in filter(tables.__contains__, database.KINDS):
        for (row,) in connection.execute(
            f"SELECT id FROM {kind} WHERE id NOT IN (SELECT row FROM chain WHERE kind = ?)", (kind,)
        ):
            yield f"The {kind} {row} was added by something else than pgmjax: no link seals it."


def _sums(connection: sqlite3.Connection) -> Iterator[str]:
    """Recompute the sums of every account from its costs."""
    for account, caps_text, research in connection.execute("SELECT account, caps, research FROM budget"):
        caps = json.loads(caps_text)
        sums, number = [0] * len(caps), 0
        for row, counted, costs_text, totals, secure in connection.execute(
            "SELECT id, number, costs, totals, secure FROM charge WHERE account = ? ORDER BY number",
            (account,),
        ):
            number += 1
            costs = json.loads(costs_text)
            sums = [min(database.LIMIT, before + cost) for before, cost in zip(sums, costs, strict=True)]
            if counted != number or min(costs) < 1 or sums != json.loads(totals):
                yield f"The sums of account {account} are wrong at charge {row}."
            if not secure and not research:
                yield f"Charge {row} of account {account} let in noise that protects nobody."
        if number and not any(
            total <= cap and total < database.LIMIT for total, cap in zip(sums, caps, strict=True)
        ):
            yield f"Account {account} is charged beyond its cap."


def _deltas(connection: sqlite3.Connection) -> Iterator[str]:
    """Add up the deltas of the events that were charged, and compare what each account keeps for them."""
    for account in accounts(connection):
        if label_delta_spent(connection, account.name) > account.label_delta:
            yield f"Account {account.name} is charged beyond the delta that it keeps for labels."


def _answers(connection: sqlite3.Connection) -> Iterator[str]:
    for charge, step, count in connection.execute(
        "SELECT charge, step, COUNT(*) FROM answer GROUP BY charge, step HAVING COUNT(*) > 1"
    ):
        yield f"Charge {charge} has {count} answers for step {step}."
    for (row,) in connection.execute("SELECT id FROM answer WHERE charge NOT IN (SELECT id FROM charge)"):
        yield f"The answer {row} has no charge."


def _pinned(connection: sqlite3.Connection, head: str | None) -> Iterator[str]:
    if head is None:
        return
    if connection.execute("SELECT 1 FROM chain WHERE hash = ?", (head.strip().lower(),)).fetchone() is None:
        yield (
            "The head noted earlier is not in the chain: this is an older copy that was put back, or another "
            "ledger, and charges may be missing."
        )
