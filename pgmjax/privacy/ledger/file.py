"""A ledger's file: connections that are safe to use, and transactions that are on disk when they end.

Each thread of each process has a connection of its own. None is carried across a fork: SQLite counts
locks by process, so that a child which opens the file beside an inherited connection holds no lock at
all, and what it commits is lost when the parent closes. All are closed before a fork, and opened anew
when next used.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import threading
from collections.abc import Iterator

from pgmjax.privacy.ledger import database as ledger_connection
from pgmjax.privacy.ledger.database import Connection
from pgmjax.privacy.ledger.errors import LedgerError, told
from pgmjax.privacy.ledger.place import require_writable

_EVERY = 64  # commits of a connection, after which the write-ahead log is written back
_LOG_BYTES = 1 << 22  # or when it has grown by this
_PATIENCE = 1000  # milliseconds to wait for readers of what is written back


class LedgerFile:
    """The file of a ledger, for all threads of a process.

    Args:
        path: as `ledger_place.resolve` returns it.
        timeout: seconds to wait for other writers.
    """

    def __init__(self, path: pathlib.Path, timeout: float):
        self.path = path
        self.timeout = timeout
        self._local = threading.local()
        self._closed = False

    @contextlib.contextmanager
    def writing(self, doing: str, outcome: str) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction, alone among writers; it is on disk when the block has ended.

        Args:
            doing: what is done, in words: "charged".
            outcome: what a failure means for whoever asked.

        Raises:
            LedgerError: SQLite or the system failed.
        """
        with told(self.path, doing, outcome), self._using() as connection:
            with _transaction(connection, "BEGIN IMMEDIATE"):
                yield connection
            self._tidy(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Run the block on one state of the ledger, whatever others write meanwhile.

        Raises:
            LedgerError: SQLite or the system failed.
        """
        with (
            told(self.path, "read", "Nothing was granted or shown."),
            self._using() as connection,
            _transaction(connection, "BEGIN"),
        ):
            yield connection

    def close(self) -> None:
        """Close the connections of all threads of this process."""
        self._closed = True
        with told(self.path, "closed", "What was answered before stays recorded."):
            ledger_connection.close_all(self)

    @contextlib.contextmanager
    def _using(self) -> Iterator[Connection]:
        """Hold this thread's connection, so that no fork and no `close` comes between."""
        while True:
            connection = self._connection()
            with connection.busy:
                if connection.closed:  # by a fork, just now
                    continue
                self._check_identity(connection)
                yield connection
                return

    def _connection(self) -> Connection:
        if self._closed:
            raise LedgerError(f"The ledger {self.path} is closed: open it again with Ledger.open.")
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is not None and not connection.closed:
            if connection.process != os.getpid():
                raise LedgerError(
                    f"The ledger {self.path} was open when this process was forked other than by os.fork: "
                    "open it in the process that uses it. Nothing was granted."
                )
            return connection
        require_writable(self.path)
        self._local.connection = connection = ledger_connection.connect(self.path, self.timeout, self)
        return connection

    def _check_identity(self, connection: Connection) -> None:
        """Refuse to write into a file that is no longer the one at the path."""
        try:
            same = ledger_connection.identity(self.path) == connection.identity
        except FileNotFoundError:
            same = False
        if not same:
            raise LedgerError(
                f"The ledger {self.path} was removed or replaced while it was open: charges would be lost. "
                "Nothing was granted. Find out who did it, verify the file with the head you noted, and open "
                "it again."
            )

    def _tidy(self, connection: Connection) -> None:
        """Write the log back from time to time, with other writers held off.

        SQLite would do it by itself, but before 3.51.3 its way can lose commits if another process
        commits meanwhile ("WAL-reset bug"); FULL takes the writers' lock. The log's file keeps its size
        and is written over, since a commit that need not make a file longer is several times faster.
        """
        connection.commits += 1
        log = self.path.with_name(self.path.name + "-wal")
        size = log.stat().st_size if log.exists() else 0
        if connection.commits % _EVERY and size < connection.log_size + _LOG_BYTES:
            return
        with contextlib.suppress(sqlite3.Error):  # the commit stands; the log is written back later
            connection.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
            connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * self.timeout)}")
        connection.log_size = size


@contextlib.contextmanager
def _transaction(connection: Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the first fault is the one to tell
                connection.execute("ROLLBACK")
        raise
