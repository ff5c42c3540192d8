"""The hash chain of a ledger, and the key with which its tables are recognised.

Each added row is sealed together with all before it, under the ledger's key. Whoever changes a row needs the
key to seal it again, and then the last link, the head, differs from the one noted elsewhere.

The ledger stores a digest of each table, keyed by a secret in the file next to it. A reader of the ledger
without the key cannot test a guess of a table against its digest.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

from pgmjax.privacy.ledger.errors import LedgerError, as_ledger_error

BEGINNING = hashlib.sha256(b"pgmjax ledger 1").hexdigest()

_KEY_BYTES = 32
_GROUP_AND_OTHERS = 0o077


def text_of(value: Any) -> str:
    """Return canonical JSON: equal values give equal text; NaN and infinities are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(name: str, value: Any) -> str:
    """Return the SHA-256 of `text_of` a value.

    Raises:
        TypeError: the value, called `name` in the message, contains something JSON cannot represent.
        ValueError: the value contains a non-finite number or itself.
    """
    try:
        text = text_of(value)
    except TypeError:
        raise TypeError(
            f"{name} must be JSON-able, and holds something else: give text, numbers, bools, None, and lists "
            "and mappings of these with text as names."
        ) from None
    except (ValueError, RecursionError):
        raise ValueError(
            f"{name} must be JSON-able, and holds a number that is not finite, or itself: give finite ones."
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()


def link(previous: str, kind: str, row: Mapping[str, Any], key: bytes) -> str:
    """Return the hash that seals a row after `previous`; bytes count by their own hash.

    Args:
        previous: the link before.
        kind: the table.
        row: its columns.
        key: the ledger's key.
    """
    plain = {
        name: {"sha256": hashlib.sha256(value).hexdigest()} if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    text = f"{previous}\n{kind}\n{text_of(plain)}".encode()
    # a prefix for each use of the key, so that no digest of a table can pass for a link
    return hmac.new(key, b"pgmjax ledger link\n" + text, hashlib.sha256).hexdigest()


def head(connection: sqlite3.Connection) -> str:
    """Return the last link."""
    row = connection.execute("SELECT hash FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    return BEGINNING if row is None else row[0]


def add(connection: Any, kind: str, row: Mapping[str, Any]) -> int:
    """Insert a row and its link, inside the caller's transaction, and return the row's id.

    Args:
        connection: a `database.Connection`, in a transaction.
        kind: the table.
        row: its columns but `id` and `created`, the time; text, integers and bytes.

    Raises:
        LedgerError: the key cannot be read.
    """
    if connection.key is None:
        (check,) = connection.execute("SELECT key_check FROM ledger").fetchone()
        connection.key = read_key(connection.owner.path, check)
    row = {**row, "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")}
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    cursor = connection.execute(f"INSERT INTO {kind} ({names}) VALUES ({marks})", tuple(row.values()))
    identifier = int(cursor.lastrowid or 0)
    # the transaction holds the write lock: no other process adds a link between this and the insert
    previous = head(connection)
    connection.execute(
        "INSERT INTO chain (kind, row, previous, hash) VALUES (?, ?, ?, ?)",
        (kind, identifier, previous, link(previous, kind, {"id": identifier, **row}, connection.key)),
    )
    return identifier


def key_path(ledger: pathlib.Path) -> pathlib.Path:
    """Return the path of a ledger's key: FILE.key."""
    return ledger.with_name(ledger.name + ".key")


def create_key(ledger: pathlib.Path) -> bytes:
    """Write a new key that only the owner may read, and return it.

    Raises:
        LedgerError: the key file already exists or cannot be written.
    """
    path = key_path(ledger)
    if os.path.lexists(path):
        raise LedgerError(
            f"{path} is the key of a ledger {ledger.name} that is not there. If it was moved or deleted, "
            "bring it back: what it counted stays spent, and a new ledger knows nothing of it. Only if it "
            "never had a release, move the key away; or choose another name."
        )
    key = os.urandom(_KEY_BYTES)
    with as_ledger_error(path, "written", "No ledger was made."):
        # made with its mode and not narrowed afterwards: at no moment may others read it
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(key.hex() + "\n")
                file.flush()
                # on disk before the ledger that it seals, which nobody could use without it
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
    return key


def read_key(ledger: pathlib.Path, check: str) -> bytes:
    """Return the key of a ledger.

    Args:
        ledger: the ledger's path.
        check: the result of `key_check` for its key.

    Raises:
        LedgerError: the key is missing, belongs to another ledger, or is readable by others.
    """
    path = key_path(ledger)
    if not path.is_file():
        raise LedgerError(
            f"The key {path} is missing: without it no table can be recognised. Restore it from a backup."
        )
    with as_ledger_error(path, "read", "No table was recognised."):
        if os.name == "posix" and path.stat().st_mode & _GROUP_AND_OTHERS:
            raise LedgerError(f"The key {path} may be read by others: run  chmod 600 {path}")
        text = path.read_text(encoding="ascii", errors="replace").strip()
    if re.fullmatch(r"[0-9a-f]{64}", text) is None:
        raise LedgerError(f"{path} holds no key of a ledger: restore it from a backup.")
    key = bytes.fromhex(text)
    if not hmac.compare_digest(key_check(key), check):
        raise LedgerError(f"{path} is the key of another ledger: restore the right one from a backup.")
    return key


def key_check(key: bytes) -> str:
    """Return a value that identifies a key without revealing it."""
    return hmac.new(key, b"pgmjax ledger key check", hashlib.sha256).hexdigest()
