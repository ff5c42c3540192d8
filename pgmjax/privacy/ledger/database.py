"""A ledger's SQLite file: its location, its tables and triggers, its connections and transactions.

Each thread of each process has its own connection. No connection survives a fork: SQLite's locks are per
process, so a child that opens the file while it has an inherited connection holds no lock at all, and its
commits are lost when the parent closes. All connections are closed before a fork and reopened on next use.
A transaction is on disk when it ends.

Rows are only ever added. Triggers refuse to change, delete or replace a row, and refuse a charge that does
not add up or exceeds the cap, even if written by another program; the code checks the same, and so does
`verify` afterwards. Amounts are integers in an account's unit, in JSON lists: one number for pure epsilon
and rho, one per order for a Renyi account.

An in-memory ledger would be lost with the process, and SQLite's write-ahead log does not work across network
mounts, where two machines would each see their own budget. A ledger is therefore a file on a local disk.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sqlite3
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from pgmjax._internal import checks, formats
from pgmjax.privacy.ledger.errors import LedgerError, NoLedgerError, as_ledger_error

_OLDEST_SQLITE = (3, 38, 0)  # STRICT tables, JSON functions
_OPEN: weakref.WeakSet[Connection] = weakref.WeakSet()
_OPEN_LOCK = threading.RLock()
_forking: list[Connection] = []

_COMMITS_A_CHECKPOINT = 64  # commits of a connection, after which the write-ahead log is written back
_LOG_BYTES = 1 << 22  # or when it has grown by this
_CHECKPOINT_WAIT = 1000  # milliseconds to wait for readers of what is written back

APPLICATION_ID = 0x50474A4C  # "PGJL"
_UNPUBLISHED = 0x50474D4C  # what versions before the first publication wrote
FORMAT = formats.LEDGER.version
LIMIT = 1 << 61  # caps stay below it; sums end at it, fit no cap, and two of them add up in 64 bits

_TABLES = """
CREATE TABLE ledger(
    id INTEGER PRIMARY KEY CHECK(id = 1), format INTEGER NOT NULL, name TEXT NOT NULL,
    key_check TEXT NOT NULL, created TEXT NOT NULL) STRICT;
CREATE TABLE budget(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL UNIQUE,
    measure TEXT NOT NULL CHECK(measure IN ('pure', 'zcdp', 'renyi')),
    relation TEXT NOT NULL CHECK(relation IN ('add-remove', 'replace-one')),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    places INTEGER NOT NULL CHECK(places >= 12), orders TEXT NOT NULL, caps TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE, research INTEGER NOT NULL CHECK(research IN (0, 1)),
    max_attempts INTEGER NOT NULL CHECK(max_attempts >= 1), created TEXT NOT NULL) STRICT;
CREATE TABLE charge(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES budget(account),
    number INTEGER NOT NULL, key TEXT NOT NULL, request_hash TEXT NOT NULL, events TEXT NOT NULL,
    secure INTEGER NOT NULL CHECK(secure IN (0, 1)), costs TEXT NOT NULL, totals TEXT NOT NULL,
    created TEXT NOT NULL, UNIQUE(account, key), UNIQUE(account, number)) STRICT;
CREATE TABLE attempt(
    id INTEGER PRIMARY KEY, charge INTEGER NOT NULL REFERENCES charge(id),
    answered INTEGER NOT NULL CHECK(answered >= 0), created TEXT NOT NULL) STRICT;
CREATE INDEX attempt_of ON attempt(charge, answered);
CREATE TABLE answer(
    id INTEGER PRIMARY KEY, charge INTEGER NOT NULL REFERENCES charge(id),
    step INTEGER NOT NULL CHECK(step >= 0), request_hash TEXT NOT NULL, payload BLOB NOT NULL,
    created TEXT NOT NULL, UNIQUE(charge, step)) STRICT;
CREATE TABLE chain(
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, row INTEGER NOT NULL, previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE, UNIQUE(kind, row)) STRICT;
CREATE TABLE definition(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES budget(account),
    definition TEXT NOT NULL, unit TEXT NOT NULL, created TEXT NOT NULL) STRICT;
CREATE TABLE version(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES budget(account),
    digest TEXT NOT NULL UNIQUE, created TEXT NOT NULL) STRICT;
CREATE TABLE discovery(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES budget(account),
    draft INTEGER NOT NULL UNIQUE REFERENCES definition(id),
    charge INTEGER NOT NULL REFERENCES charge(id), answers INTEGER NOT NULL CHECK(answers >= 0),
    definition TEXT NOT NULL, created TEXT NOT NULL) STRICT;
"""

_FIGURES = """
CREATE TABLE exact_figure(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES budget(account),
    what TEXT NOT NULL, created TEXT NOT NULL) STRICT;
"""

KINDS = (
    *("ledger", "budget", "charge", "attempt", "answer", "definition", "version", "discovery"),
    "exact_figure",
)

# INSERT OR REPLACE deletes without a DELETE trigger, so that what it would replace is looked for here
_WOULD_REPLACE = {
    "ledger": "1",
    "budget": "id = NEW.id OR account = NEW.account OR digest = NEW.digest",
    "charge": "id = NEW.id OR (account = NEW.account AND (key = NEW.key OR number = NEW.number))",
    "attempt": "id = NEW.id",
    "answer": "id = NEW.id OR (charge = NEW.charge AND step = NEW.step)",
    "chain": "seq = NEW.seq OR hash = NEW.hash OR (kind = NEW.kind AND row = NEW.row)",
    "definition": "id = NEW.id",
    "version": "id = NEW.id OR digest = NEW.digest",
    "discovery": "id = NEW.id OR draft = NEW.draft",
}

_APPEND_ONLY = """
CREATE TRIGGER {table}_is_not_changed BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
CREATE TRIGGER {table}_is_not_deleted BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
CREATE TRIGGER {table}_is_not_replaced BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {unique})
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
"""

_RULES = f"""
CREATE TRIGGER charge_adds_up BEFORE INSERT ON charge
WHEN NEW.number <> 1 + COALESCE((SELECT MAX(number) FROM charge WHERE account = NEW.account), 0)
  OR (SELECT COUNT(*) FROM json_each(NEW.costs))
    <> (SELECT COUNT(*) FROM budget, json_each(budget.caps) WHERE budget.account = NEW.account)
  OR (SELECT COUNT(*) FROM json_each(NEW.totals)) <> (SELECT COUNT(*) FROM json_each(NEW.costs))
  OR EXISTS (
    SELECT 1 FROM json_each(NEW.costs) AS cost JOIN json_each(NEW.totals) AS total ON total.key = cost.key
    WHERE cost.type <> 'integer' OR total.type <> 'integer' OR cost.value < 1 OR cost.value > {LIMIT}
      OR total.value <> MIN({LIMIT}, cost.value + COALESCE(
        (SELECT before.value FROM charge AS last, json_each(last.totals) AS before
         WHERE last.account = NEW.account AND last.number = NEW.number - 1 AND before.key = cost.key), 0)))
BEGIN SELECT RAISE(ABORT, 'the charge does not add up'); END;
CREATE TRIGGER charge_is_within_the_cap BEFORE INSERT ON charge
WHEN NOT EXISTS (
    SELECT 1 FROM budget, json_each(budget.caps) AS cap JOIN json_each(NEW.totals) AS total
        ON total.key = cap.key
    WHERE budget.account = NEW.account AND total.value <= cap.value AND total.value < {LIMIT})
BEGIN SELECT RAISE(ABORT, 'budget exceeded'); END;
CREATE TRIGGER charge_is_secure BEFORE INSERT ON charge
WHEN NEW.secure = 0 AND NOT EXISTS (SELECT 1 FROM budget WHERE account = NEW.account AND research = 1)
BEGIN SELECT RAISE(ABORT, 'noise that protects nobody'); END;
"""


FIGURES = _FIGURES + _APPEND_ONLY.format(table="exact_figure", unique="id = NEW.id")
"""What the first note of an exact figure adds, so that a ledger made before there were notes takes it."""
SCHEMA = (
    _TABLES
    + "".join(_APPEND_ONLY.format(table=table, unique=each) for table, each in _WOULD_REPLACE.items())
    + _RULES
)

MOUNTS = pathlib.Path("/proc/mounts")
_NETWORK = re.compile(
    "9p|afs|auristorfs|beegfs|ceph|cifs|coda|davfs|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs|nfs4|ocfs2|orangefs"
    "|pvfs2|smb2|smb3|smbfs|vboxsf|vmhgfs"
)
_LOCAL_FUSE = frozenset(("fuseblk", "fuse.ext2", "fuse.ext4", "fuse.ntfs-3g", "fuse.fuse-overlayfs"))


class LedgerFile:
    """The file of a ledger, for all threads of a process.

    Args:
        path: as `resolve` returns it.
        timeout: seconds to wait for other writers.
    """

    def __init__(self, path: pathlib.Path, timeout: float):
        self.path = path
        self.timeout = timeout
        self._local = threading.local()
        self._closed = False

    @contextlib.contextmanager
    def writing(self, doing: str, outcome: str) -> Iterator[sqlite3.Connection]:
        """Run the block as one exclusive write transaction, on disk when the block has ended.

        Args:
            doing: the operation as a participle for messages, such as "charged".
            outcome: the consequence of a failure for the caller, for messages.

        Raises:
            LedgerError: SQLite or the system failed.
        """
        with as_ledger_error(self.path, doing, outcome), self._using() as connection:
            with _transaction(connection, "BEGIN IMMEDIATE"):
                yield connection
            # the commit stands, whatever fails from here on; the log is written back later
            with contextlib.suppress(sqlite3.Error, OSError):
                self._tidy(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Run the block on a snapshot of the ledger, unaffected by concurrent writes.

        Raises:
            LedgerError: SQLite or the system failed.
        """
        with (
            as_ledger_error(self.path, "read", "Nothing was granted or shown."),
            self._using() as connection,
            _transaction(connection, "BEGIN"),
        ):
            yield connection

    def close(self) -> None:
        """Close the connections of all threads of this process."""
        self._closed = True
        with as_ledger_error(self.path, "closed", "What was answered before stays recorded."), _OPEN_LOCK:
            for connection in [each for each in _OPEN if each.owner is self]:
                with connection.busy:  # as soon as its thread is not using it
                    connection.close()

    @contextlib.contextmanager
    def _using(self) -> Iterator[Connection]:
        """Hold this thread's connection, so that neither a fork nor `close` interrupts its use."""
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
        self._local.connection = connection = connect(self.path, self.timeout, self)
        return connection

    def _check_identity(self, connection: Connection) -> None:
        """Refuse to write into a file that is no longer the one at the path."""
        try:
            same = identity(self.path) == connection.identity
        except FileNotFoundError:
            same = False
        if not same:
            raise LedgerError(
                f"The ledger {self.path} was removed or replaced while it was open: charges would be lost. "
                "Nothing was granted. Find out who did it, verify the file with the head you noted, and open "
                "it again."
            )

    def _tidy(self, connection: Connection) -> None:
        """Checkpoint the write-ahead log from time to time, with other writers blocked.

        SQLite's automatic checkpoints can, before 3.51.3, lose commits made meanwhile by another process
        ("WAL-reset bug"); FULL takes the write lock. The log file keeps its size and is overwritten,
        since a commit that does not extend a file is several times faster.
        """
        connection.commits += 1
        log = self.path.with_name(self.path.name + "-wal")
        size = log.stat().st_size
        if connection.commits % _COMMITS_A_CHECKPOINT and size < connection.log_size + _LOG_BYTES:
            return
        connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT}")
        try:
            connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * self.timeout)}")
        connection.log_size = size


@contextlib.contextmanager
def _transaction(connection: Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    # Ctrl-C too: a transaction that stays open would keep the write lock
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the first fault is the one to tell
                connection.execute("ROLLBACK")
        raise


class Connection(sqlite3.Connection):
    """A connection that records its owner and process.

    Attributes:
        owner: the `LedgerFile` it was made for.
        process: id of the process that made it.
        identity: device and inode of the file.
        busy: a lock held during use; re-entrant, so that a signal handler fails instead of hanging.
        closed: whether it was closed.
        key: the secret that seals the chain, once it was read.
        commits: how many transactions it has written.
        log_size: bytes of the write-ahead log when it last wrote that back.
    """

    owner: object
    process: int
    identity: tuple[int, int]
    busy: Any
    closed = False
    key: bytes | None = None
    commits = 0
    log_size = 0

    def close(self) -> None:
        """Close the connection and mark it closed."""
        self.closed = True
        super().close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def connect(path: pathlib.Path, timeout: float, owner: object, new: bool = False) -> Connection:
    """Return a connection to be used by the calling thread only.

    Args:
        path: an existing file.
        timeout: seconds to wait for other writers.
        owner: the `LedgerFile`, which closes its connections; None for no owner.
        new: whether the file is a still empty one that is to become a ledger.

    Raises:
        LedgerError: the file is not a ledger, has another format, or SQLite rejects a required setting.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise LedgerError(
            f"A ledger needs SQLite 3.38 or later, and this Python has {sqlite3.sqlite_version}: use a later "
            "Python."
        )
    # held until the connection is known: a fork in between would not close it
    with as_ledger_error(path, "opened", "Nothing was granted."), _OPEN_LOCK:
        # taken before SQLite opens the file and compared at the end: one put in its place is refused
        before = identity(path)
        connection = sqlite3.connect(
            # "rw" never creates a file: an empty new ledger would know nothing of what was spent
            f"{path.as_uri()}?mode=rw",
            uri=True,
            timeout=timeout,
            # Python begins no transaction of its own: BEGIN IMMEDIATE has to come before the first read
            isolation_level=None,
            check_same_thread=False,  # `LedgerFile.close` closes those of other threads
            factory=Connection,
        )
        connection.owner, connection.process, connection.busy = owner, os.getpid(), threading.RLock()
        connection.identity = before
        try:
            if not new:
                _check_format(connection, path)
            if os.name == "posix" and path.stat().st_mode & 0o077:  # SQLite's other files get the same mode
                raise LedgerError(
                    f"The ledger {path} may be read or written by others: run  chmod 600 {path}"
                )
            _configure(connection, path)
            if identity(path) != before:
                raise LedgerError(f"The ledger {path} was replaced while it was being opened. Open it again.")
        except BaseException:
            connection.close()
            raise
        _OPEN.add(connection)
        return connection


def identity(path: pathlib.Path) -> tuple[int, int]:
    """Return the device and inode of a file."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _check_format(connection: sqlite3.Connection, path: pathlib.Path) -> None:
    """Refuse a file that is not a ledger, or has another format, before anything is changed in it."""
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if found == _UNPUBLISHED:
        raise LedgerError(formats.unpublished(path))
    if found != APPLICATION_ID:
        raise NoLedgerError(f"{path} is not a ledger of pgmjax: name another file, or make one there.")
    try:
        formats.LEDGER.check({"format": formats.LEDGER.name, "format_version": version}, path)
    except ValueError as error:
        raise LedgerError(str(error)) from error


def _configure(connection: sqlite3.Connection, path: pathlib.Path) -> None:
    settings: list[tuple[str, str, Any]] = [
        ("journal_mode", "WAL", "wal"),
        # a commit is flushed before it returns, which NORMAL leaves out with a write-ahead log
        ("synchronous", "FULL", 2),
        ("foreign_keys", "ON", 1),
        ("wal_autocheckpoint", "0", 0),  # see LedgerFile
        ("trusted_schema", "OFF", 0),
        ("cell_size_check", "ON", 1),
        # so that a failing disk is an error of SQLite, and not a signal that ends the process
        ("mmap_size", "0", 0),
    ]
    if sys.platform == "darwin":  # fsync alone leaves data in the drive's cache there
        settings += [("fullfsync", "ON", 1), ("checkpoint_fullfsync", "ON", 1)]
    for name, value, wanted in settings:
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        # read back, as SQLite passes over a setting that it does not know or cannot make
        row = connection.execute(f"PRAGMA {name}").fetchone()
        taken = row[0] if row else wanted  # mmap_size is not there on systems without
        if taken != wanted:
            raise LedgerError(
                f"SQLite does not take {name} = {value} for {path} (it says {taken}): there a charge might "
                "not survive a power cut. Put the ledger on a local disk."
            )


def _before_fork() -> None:
    _OPEN_LOCK.acquire()
    for connection in list(_OPEN):
        connection.busy.acquire()
        _forking.append(connection)
        with contextlib.suppress(Exception):
            connection.close()


def _after_fork() -> None:
    while _forking:
        _forking.pop().busy.release()
    _OPEN.clear()
    _OPEN_LOCK.release()


def statements(schema: str = SCHEMA) -> list[str]:
    """Return a schema statement by statement, to be run in one transaction."""
    found, rest = [], ""
    for piece in schema.split(";"):
        rest += piece + ";"
        # the body of a trigger has semicolons of its own
        if sqlite3.complete_statement(rest):
            found.append(rest.strip())
            rest = ""
    return found


def expected(figures: bool = False) -> dict[str, str]:
    """Return what the schema of a ledger must hold: the SQL of every table, index and trigger by name.

    Args:
        figures: whether it keeps notes of exact figures.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA + FIGURES * figures)
        return present(connection)


def present(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the schema of a file: the SQL of every table, index and trigger by name."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return dict(rows.fetchall())


def keeps_figures(connection: sqlite3.Connection) -> bool:
    """Return whether an exact figure was ever noted in a ledger."""
    return "exact_figure" in present(connection)


def resolve(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the absolute path of a ledger, with symbolic links resolved.

    Raises:
        TypeError: the argument is not a path.
        LedgerError: a folder, a key, or no place for a file; a ledger cannot be kept at this location.
    """
    checks.kind(path, str | os.PathLike, "A ledger's path must be a string or a path")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("A ledger's path must be text, got bytes.")
    if not text.strip() or ":memory:" in text or text.startswith("file:"):
        raise NoLedgerError(
            f"A ledger cannot be kept at {text!r}: budgets must outlast the process. Name a file on a disk."
        )
    place = pathlib.Path(os.path.realpath(text))
    if place.is_dir():
        made = "a release, whose cost its report tells" if (place / "release.json").is_file() else "a folder"
        raise NoLedgerError(f"{place} is {made}: name a file for the ledger.")
    if place.suffix == ".key" and place.with_suffix("").is_file():
        raise NoLedgerError(
            f"{place} is the key of a ledger: name the ledger, such as {place.with_suffix('')}."
        )
    if not place.parent.is_dir():
        raise NoLedgerError(f"There is no folder {place.parent} for a ledger: make it first.")
    kind = file_system(place)
    if kind is not None and is_remote(kind):
        raise LedgerError(
            f"{place} is on a network file system ({kind}), where the locks of a ledger do not hold: put it "
            "on a disk of the machine that makes the releases."
        )
    return place


def require_writable(place: pathlib.Path) -> None:
    """Refuse a ledger that cannot be written.

    Raises:
        LedgerError: the file is missing, not a plain file, hard-linked or read-only.
    """
    if not place.exists():
        raise NoLedgerError(
            f"There is no ledger {place}: make one with `pgmjax ledger init` or Ledger.create."
        )
    if not place.is_file():
        raise NoLedgerError(f"{place} is not a plain file, and so no ledger.")
    if place.stat().st_nlink > 1:
        raise LedgerError(
            f"{place} has {place.stat().st_nlink} names (hard links): under each it would have another "
            "write-ahead log. Leave it one."
        )
    if not (os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)):
        raise LedgerError(
            f"{place} or its folder is read-only, and a charge could not be recorded: nothing was granted. "
            "Give both write permission, or look at a copy."
        )


def file_system(place: pathlib.Path) -> str | None:
    """Return the type of the file system of a path; None if unknown."""
    if str(place).startswith(("\\\\", "//")):
        return "smbfs"  # a UNC path
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        # /proc/mounts writes a space in a name as \040
        mount = pathlib.PurePosixPath(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1]))
        if place.is_relative_to(mount) and len(mount.parts) >= best[0]:
            best = (len(mount.parts), fields[2])  # of mounts over one another the last one counts
    return best[1]


def is_remote(kind: str) -> bool:
    """Return whether a file system type is a network's, or a FUSE type not known to be local."""
    return bool(_NETWORK.fullmatch(kind.lower())) or (kind.startswith("fuse") and kind not in _LOCAL_FUSE)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
