"""Errors of a ledger, with messages that say what was granted and what to do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator

from pgmjax._internal.checks import Error


class LedgerError(Error, RuntimeError):
    """The ledger could not be read or written, or cannot be trusted. Nothing was shown."""


class IdempotencyConflict(Error, ValueError):
    """A key was used again for a different request. Nothing was charged or shown."""


class AttemptsExhausted(Error, RuntimeError):
    """A charge was tried as often as its account allows without an answer. It stays spent."""


class NoLedgerError(LedgerError, ValueError):
    """A file that is no ledger, or a name with nothing behind it. Nothing was granted."""


_BUSY, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 8, 10, 11, 13, 14, 26
_REASONS = {
    _BUSY: "it was locked by another process for too long. Try again, with the same key",
    _READONLY: "it is read-only. Give it and its folder write permission, and try again",
    _IOERR: "the disk refused to read or write. Look at the disk, and try again with the same key",
    _CORRUPT: "its pages are damaged. Keep the file, look at it with `pgmjax ledger verify`, and restore a "
    "backup whose head you know",
    _FULL: "the disk is full. Free some space, and try again with the same key",
    _CANTOPEN: "it cannot be opened. Look at its permissions and those of its folder",
    _NOTADB: "it is not a ledger, or its first page is damaged. Make one with `pgmjax ledger init`",
}


def reason(error: BaseException) -> str:
    """Return why SQLite or the system failed, and what to do about it."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)  # only on errors of the library itself
        if code is not None and code & 0xFF in _REASONS:
            return _REASONS[code & 0xFF]
    if isinstance(error, OSError):
        return f"{error.strerror or type(error).__name__}"
    return str(error)


@contextlib.contextmanager
def as_ledger_error(path: str | os.PathLike[str], doing: str, outcome: str) -> Iterator[None]:
    """Turn every SQLite or system error raised in the block into a `LedgerError`.

    Args:
        path: the ledger, for the message.
        doing: the operation as a participle for the message, such as "charged".
        outcome: the consequence for the caller, for the message.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        other = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF == _NOTADB
        kind = NoLedgerError if other else LedgerError
        raise kind(f"The ledger {path} could not be {doing}: {reason(error)}. {outcome}") from error
