"""Making a ledger: its file, its key, its tables and its first link."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3

from pgmjax.privacy.ledger import chain as ledger_chain
from pgmjax.privacy.ledger import database as ledger_connection
from pgmjax.privacy.ledger import digest as ledger_digest
from pgmjax.privacy.ledger import schema as ledger_schema
from pgmjax.privacy.ledger.charge import now
from pgmjax.privacy.ledger.errors import LedgerError, told


def make(path: pathlib.Path, timeout: float) -> None:
    """Make an empty ledger and its key; both are on disk when this returns.

    Args:
        path: as `ledger_place.resolve` returns it.
        timeout: seconds to wait for others.

    Raises:
        LedgerError: there is a file already, or one that belongs to an earlier ledger; or the disk
            failed, and neither file is left.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        found = path.with_name(path.name + suffix)
        if os.path.lexists(found):
            part = "" if not suffix else ", which belongs to an earlier ledger of that name"
            raise LedgerError(f"{found} exists{part}. A ledger is never written over: choose another name.")
    key = ledger_digest.create(path)
    made = [ledger_digest.path_of(path)]
    try:
        with told(path, "made", "Nothing is left of it."):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            made += [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
            connection = ledger_connection.connect(path, timeout, None, new=True)
            try:
                _fill(connection, key)
            finally:
                connection.close()
            _sync(path.parent)
    except BaseException:
        for file in made:
            with contextlib.suppress(OSError):
                file.unlink()
        raise


def _fill(connection: sqlite3.Connection, key: bytes) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in ledger_schema.statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {ledger_schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {ledger_schema.FORMAT}")
    row = {"format": ledger_schema.FORMAT, "name": os.urandom(16).hex()}
    ledger_chain.add(
        connection, "ledger", {**row, "key_check": ledger_digest.check_of(key), "created": now()}
    )
    connection.execute("COMMIT")


def _sync(folder: pathlib.Path) -> None:
    """Put the folder's entries on disk, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
