"""Connections to a ledger: their settings, read back, and that none survives a fork."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import sys
import threading
import weakref
from typing import Any

from pgmjax.privacy.ledger import schema as ledger_schema
from pgmjax.privacy.ledger.errors import LedgerError, told

_OLDEST = (3, 38, 0)  # STRICT tables, JSON functions
_ALL: weakref.WeakSet[Connection] = weakref.WeakSet()
_ALL_LOCK = threading.RLock()
_forking: list[Connection] = []


class Connection(sqlite3.Connection):
    """A connection that knows whose it is.

    Attributes:
        owner: the `LedgerFile` it was made for.
        process: the process that made it.
        identity: device and inode of the file.
        busy: held while it is used; a re-entrant lock, so that a signal's handler fails and does not hang.
        closed: whether it was closed.
        commits: how many transactions it has written.
        log_size: bytes of the write-ahead log when it last wrote that back.
    """

    owner: object
    process: int
    identity: tuple[int, int]
    busy: Any
    closed = False
    commits = 0
    log_size = 0

    def close(self) -> None:
        """Close it, for good."""
        self.closed = True
        super().close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def identity(path: pathlib.Path) -> tuple[int, int]:
    """Return device and inode of a file."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def connect(path: pathlib.Path, timeout: float, owner: object, new: bool = False) -> Connection:
    """Return a connection for the calling thread; it must be used in it only.

    Args:
        path: an existing file.
        timeout: seconds to wait for other writers.
        owner: whose it is, for `close_all`.
        new: the file is to become a ledger and is still empty.

    Raises:
        LedgerError: not a ledger, one of a later format, or a setting that SQLite does not take here.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        raise LedgerError(
            f"A ledger needs SQLite 3.38 or later, and this Python has {sqlite3.sqlite_version}: use a later "
            "Python."
        )
    with told(path, "opened", "Nothing was granted."), _ALL_LOCK:
        before = identity(path)
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw",
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,  # `close_all` closes those of other threads
            factory=Connection,
        )
        connection.owner, connection.process, connection.busy = owner, os.getpid(), threading.RLock()
        connection.identity = before
        try:
            if not new:
                _check_format(connection, path)
            _configure(connection, path)
            if identity(path) != before:
                raise LedgerError(f"The ledger {path} was replaced while it was being opened. Open it again.")
        except BaseException:
            connection.close()
            raise
        _ALL.add(connection)
        return connection


def close_all(owner: object) -> None:
    """Close the connections of an owner, each when its thread has finished what it is doing."""
    with _ALL_LOCK:
        for connection in [each for each in _ALL if each.owner is owner]:
            with connection.busy:
                connection.close()


def _check_format(connection: sqlite3.Connection, path: pathlib.Path) -> None:
    """Refuse other files before anything is changed in them."""
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if found != ledger_schema.APPLICATION_ID:
        raise LedgerError(f"{path} is not a ledger of pgmjax: name another file, or make one there.")
    if version > ledger_schema.FORMAT:
        raise LedgerError(
            f"{path} is a ledger of format {version}, and this pgmjax knows formats up to "
            f"{ledger_schema.FORMAT}: use the pgmjax that wrote it, or a later one."
        )


def _configure(connection: sqlite3.Connection, path: pathlib.Path) -> None:
    settings: list[tuple[str, str, Any]] = [
        ("journal_mode", "WAL", "wal"),
        ("synchronous", "FULL", 2),
        ("foreign_keys", "ON", 1),
        ("wal_autocheckpoint", "0", 0),  # see LedgerFile
        ("trusted_schema", "OFF", 0),
        ("cell_size_check", "ON", 1),
        ("mmap_size", "0", 0),
    ]
    if sys.platform == "darwin":  # fsync alone leaves data in the drive's cache there
        settings += [("fullfsync", "ON", 1), ("checkpoint_fullfsync", "ON", 1)]
    for name, value, expected in settings:
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        row = connection.execute(f"PRAGMA {name}").fetchone()
        taken = row[0] if row else expected  # mmap_size is not there on systems without
        if taken != expected:
            raise LedgerError(
                f"SQLite does not take {name} = {value} for {path} (it says {taken}): there a charge might "
                "not survive a power cut. Put the ledger on a local disk."
            )


def _before_fork() -> None:
    _ALL_LOCK.acquire()
    for connection in list(_ALL):
        connection.busy.acquire()
        _forking.append(connection)
        with contextlib.suppress(Exception):
            connection.close()


def _after_fork() -> None:
    while _forking:
        _forking.pop().busy.release()
    _ALL.clear()
    _ALL_LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
