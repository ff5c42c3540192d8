"""The hash chain: each row that is added is sealed together with all before it.

Whoever changes a row must recompute every later link, and then the last one, the head, is another
than the one noted elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

BEGINNING = hashlib.sha256(b"pgmjax ledger 1").hexdigest()


def text_of(value: Any) -> str:
    """Return JSON of which equal values have equal text; NaN and infinities are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(name: str, value: Any) -> str:
    """Return the SHA-256 of `text_of` a value.

    Raises:
        TypeError: the value, called `name`, holds something that JSON has no form for.
        ValueError: it holds a number that is not finite, or itself.
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


def link(previous: str, kind: str, row: Mapping[str, Any]) -> str:
    """Return the hash that seals a row after `previous`; bytes count by their own hash."""
    plain = {
        name: {"sha256": hashlib.sha256(value).hexdigest()} if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    return hashlib.sha256(f"{previous}\n{kind}\n{text_of(plain)}".encode()).hexdigest()


def head(connection: sqlite3.Connection) -> str:
    """Return the last link."""
    row = connection.execute("SELECT hash FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    return BEGINNING if row is None else row[0]


def add(connection: sqlite3.Connection, kind: str, row: Mapping[str, Any]) -> int:
    """Insert a row and its link, inside the caller's transaction, and return the row's id.

    Args:
        connection: in a transaction.
        kind: the table.
        row: its columns but `id`; text, integers and bytes.
    """
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    cursor = connection.execute(f"INSERT INTO {kind} ({names}) VALUES ({marks})", tuple(row.values()))
    identifier = int(cursor.lastrowid or 0)
    previous = head(connection)
    connection.execute(
        "INSERT INTO chain (kind, row, previous, hash) VALUES (?, ?, ?, ?)",
        (kind, identifier, previous, link(previous, kind, {"id": identifier, **row})),
    )
    return identifier
