"""Where a ledger may lie, and that every fault of the disk is told and grants nothing."""

import os
import pathlib
import sqlite3
import sys
import threading

import pytest

from pgmjax.data.definition import OpenDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.draft import Draft
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.budget import BudgetExceeded
from pgmjax.privacy.ledger import Ledger, LedgerError
from pgmjax.privacy.ledger import database as ledger_connection
from pgmjax.privacy.ledger import database as ledger_place
from pgmjax.privacy.ledger import database as ledger_schema

RULES = {"relation": "add-remove", "secure": True}


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "budgets"
    with Ledger.create(place) as ledger:
        ledger.register("table", epsilon=1, relation="add-remove", digest="abc", domain=Domain({"a": 2}))
        ledger.add_version("table", "abcd")
        left_open = OpenDefinition(Draft({"a": {"bins": "discover"}}), "add-remove")
        ledger.register(
            "open", epsilon=1, relation="add-remove", digest="d", domain=left_open, other_people=True
        )
        charge = ledger.reserve("open", "first", {}, [Pure("0.01")], **RULES)
        ledger.set_discovered("open", charge.id, Domain({"a": {"bins": [0, 1]}}))
    return place


def reserve(ledger, key="run"):
    return ledger.reserve("table", key, {}, [Pure("0.01")], **RULES)


@pytest.mark.parametrize("place", [":memory:", "", "  ", "file::memory:?cache=shared", "file:budgets"])
@pytest.mark.parametrize("way", [Ledger.create, Ledger.open])
def test_a_ledger_is_never_in_memory(place, way):
    with pytest.raises(LedgerError, match="budgets must outlast the process"):
        way(place)


@pytest.mark.parametrize("place", [None, 3, b"budgets"])
def test_a_ledger_has_a_path(place):
    with pytest.raises(TypeError, match="path"):
        Ledger.open(place)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), True])
def test_a_timeout_is_positive(path, timeout):
    with pytest.raises((ValueError, TypeError), match="timeout"):
        Ledger.open(path, timeout=timeout)


def test_folders_and_missing_places(tmp_path):
    with pytest.raises(LedgerError, match="is a folder"):
        Ledger.create(tmp_path)
    with pytest.raises(LedgerError, match=r"folder .*none\b"):
        Ledger.create(tmp_path / "none" / "budgets")
    with pytest.raises(LedgerError, match=r"There is no ledger .*: make one"):
        Ledger.open(tmp_path / "none")


def test_a_file_is_never_written_over(path):
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="A ledger is never written over"):
        Ledger.create(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("left", ["-wal", "-shm", "-journal", ".key"])
def test_what_an_earlier_ledger_left_is_not_taken_over(tmp_path, left):
    (tmp_path / f"budgets{left}").write_text("x")
    with pytest.raises(LedgerError, match="ledger"):
        Ledger.create(tmp_path / "budgets")
    assert [file.name for file in tmp_path.iterdir()] == [f"budgets{left}"]


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/export /mnt/shared nfs4 rw 0 0
//server/share /mnt/with\\040space cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
/dev/sdb /mnt/shared/disk xfs rw 0 0
/dev/sdc /mnt/usb fuseblk rw 0 0
bucket /mnt/bucket fuse.something rw 0 0
short line
"""


@pytest.mark.parametrize(
    ("place", "kind", "remote"),
    [
        ("/home/x", "ext4", False),
        ("/mnt/shared/x", "nfs4", True),
        ("/mnt/sharedx", "ext4", False),
        ("/mnt/with space/x", "cifs", True),
        ("/mnt/ssh/x", "fuse.sshfs", True),
        ("/mnt/shared/disk/x", "xfs", False),
        ("/mnt/usb/x", "fuseblk", False),
        ("/mnt/bucket/x", "fuse.something", True),
    ],
)
def test_file_systems(monkeypatch, tmp_path, place, kind, remote):
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(ledger_place, "MOUNTS", tmp_path / "mounts")
    assert ledger_place.file_system(pathlib.Path(place)) == kind
    assert ledger_place.is_remote(kind) is remote


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "ceph", "afs", "9p"])
def test_network_file_systems_are_refused(monkeypatch, tmp_path, kind):
    (tmp_path / "mounts").write_text(f"somewhere / {kind} rw 0 0\n")
    monkeypatch.setattr(ledger_place, "MOUNTS", tmp_path / "mounts")
    with pytest.raises(LedgerError, match=rf"network file system \({kind}\)"):
        Ledger.create(tmp_path / "budgets")
    assert not (tmp_path / "budgets").exists()


def test_a_system_that_does_not_tell_its_mounts(monkeypatch, tmp_path):
    monkeypatch.setattr(ledger_place, "MOUNTS", tmp_path / "none")
    assert ledger_place.file_system(tmp_path) is None
    assert ledger_place.file_system(pathlib.Path("//server/share/x")) == "smbfs"


def test_settings_are_read_back(path):
    with Ledger.open(path) as ledger, ledger._file.reading() as connection:
        found = [
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
        assert found == ["wal", 2]
        assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_a_setting_that_does_not_take_is_refused(path, monkeypatch):
    class Deaf(ledger_connection.Connection):
        def execute(self, sql, *rest):
            return super().execute("SELECT 1" if sql == "PRAGMA synchronous = FULL" else sql, *rest)

    monkeypatch.setattr(ledger_connection, "Connection", Deaf)
    kept = sqlite3.connect

    def weak(*arguments, **options):
        made = kept(*arguments, **options)
        made.execute("PRAGMA synchronous = NORMAL")
        return made

    monkeypatch.setattr(ledger_connection.sqlite3, "connect", weak)
    with pytest.raises(LedgerError, match=r"does not take synchronous = FULL .*might not survive"):
        Ledger.open(path)


@pytest.mark.parametrize("content", [b"", b"age,sex\n1,2\n" * 100, b"SQLite format 3\0" + b"\1" * 2000])
def test_other_files_are_refused_and_not_touched(tmp_path, content):
    (tmp_path / "people.csv").write_bytes(content)
    with pytest.raises(LedgerError, match="ledger"):
        Ledger.open(tmp_path / "people.csv")
    assert (tmp_path / "people.csv").read_bytes() == content


def test_another_database_is_refused_and_not_touched(tmp_path):
    connection = sqlite3.connect(tmp_path / "other")
    connection.execute("CREATE TABLE t(x)")
    connection.close()
    before = (tmp_path / "other").read_bytes()
    with pytest.raises(LedgerError, match="ledger of pgmjax"):
        Ledger.open(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_an_old_sqlite_is_refused(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    with pytest.raises(LedgerError, match=r"needs SQLite 3\.38 or later"):
        Ledger.open(path)


def test_hard_links_are_refused(path):
    os.link(path, path.with_name("second"))
    with pytest.raises(LedgerError, match="has 2 names"):
        Ledger.open(path)


def test_symbolic_links_are_followed(path):
    path.with_name("link").symlink_to(path)
    with Ledger.open(path.with_name("link")) as ledger:
        assert ledger.path == path.resolve() and reserve(ledger).total > 0


def test_a_read_only_file_is_refused_at_once(path, monkeypatch):
    path.chmod(0o400)
    if os.geteuid() == 0:  # whom no permission stops
        monkeypatch.setattr(os, "access", lambda where, mode: mode != os.W_OK)
    with pytest.raises(LedgerError, match="read-only, and a charge could not be recorded"):
        Ledger.open(path)


def test_a_file_that_became_read_only_grants_nothing(path):
    with Ledger.open(path) as ledger:
        ledger._file._connection().execute("PRAGMA query_only = ON")
        with pytest.raises(LedgerError, match=r"charged: it is read-only\..* Nothing was granted"):
            reserve(ledger)
    with Ledger.open(path) as ledger:
        assert ledger.account("table").charges == 0


def test_a_full_disk_grants_nothing(path):
    with Ledger.open(path) as ledger:
        charge = reserve(ledger, "before")
        connection = ledger._file._connection()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerError, match=r"the disk is full\. .*same key\. The answer was not shown"):
            charge.answer(0, {}, lambda: bytes(100_000))
        with pytest.raises(LedgerError, match=r"charged: the disk is full\..* Nothing was granted"):
            for k in range(99):
                reserve(ledger, f"run {k}")
        before = ledger.account("table").charges
        connection.execute("PRAGMA max_page_count = 100000")
        assert charge.answer(0, {}, lambda: b"x") == b"x"
        reserve(ledger, "after")
        assert ledger.account("table").charges == before + 1
        ledger.verify().raise_if_bad()


def test_a_lock_held_too_long(path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Ledger.open(path, timeout=0.05) as ledger:
        with pytest.raises(LedgerError, match=r"locked by another process for too long\. Try again"):
            reserve(ledger)
        other.execute("ROLLBACK")
        reserve(ledger)
    other.close()


def test_a_removed_file_grants_nothing(path):
    with Ledger.open(path) as ledger:
        path.unlink()
        with pytest.raises(LedgerError, match="removed or replaced while it was open: charges would be lost"):
            reserve(ledger)


def test_a_replaced_file_grants_nothing(path):
    with Ledger.open(path) as ledger:
        reserve(ledger)
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        os.replace(copy, path)
        with pytest.raises(LedgerError, match="removed or replaced"):
            reserve(ledger, "next")


@pytest.mark.parametrize("statement", ["UPDATE {0} SET {1} = {1}", "DELETE FROM {}"])
@pytest.mark.parametrize("table", [*ledger_schema.KINDS, "chain"])
def test_rows_are_only_added(path, statement, table):
    with Ledger.open(path) as ledger:
        reserve(ledger).answer(0, {}, lambda: b"1")
        ledger.note_exact("table", "a count")
    connection = sqlite3.connect(path, isolation_level=None)
    first = "seq" if table == "chain" else "id"
    with pytest.raises(sqlite3.IntegrityError, match="a ledger is only added to"):
        connection.execute(statement.format(table, first))
    connection.close()


@pytest.mark.parametrize("table", ["budget", "charge", "attempt", "answer", "chain", "exact_figure"])
def test_rows_are_not_replaced(path, table):
    with Ledger.open(path) as ledger:
        reserve(ledger).answer(0, {}, lambda: b"1")
        ledger.note_exact("table", "a count")
    connection = sqlite3.connect(path, isolation_level=None)
    before = connection.execute(f"SELECT * FROM {table}").fetchall()
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
    assert connection.execute(f"SELECT * FROM {table}").fetchall() == before
    connection.close()


CHARGE = (
    "INSERT INTO charge VALUES "
    "(NULL, 'table', {number}, 'raw', 'h', '[]', {secure}, '{costs}', '{totals}', 't')"
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"costs": "[2000000000000]", "totals": "[2000000000000]"}, "budget exceeded"),
        ({"totals": "[1]"}, "does not add up"),
        ({"costs": "[0]", "totals": "[0]"}, "does not add up"),
        ({"costs": "[-5]", "totals": "[-5]"}, "does not add up"),
        ({"costs": "[1.5]", "totals": "[1.5]"}, "does not add up"),
        ({"costs": "[]", "totals": "[]"}, "budget exceeded"),
        ({"costs": "[5,5]", "totals": "[5,5]"}, "does not add up"),
        ({"number": 2}, "does not add up"),
        ({"secure": 0}, "protects nobody"),
    ],
)
def test_the_file_itself_refuses_bad_charges(path, changed, said):
    values = {"number": 1, "secure": 1, "costs": "[5]", "totals": "[5]", **changed}
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError, match=said):
        connection.execute(CHARGE.format(**values))
    connection.execute(CHARGE.format(number=1, secure=1, costs="[5]", totals="[5]"))
    connection.close()


def test_the_rule_on_the_cap_holds_without_the_code(path, monkeypatch):
    from pgmjax.privacy.ledger.meter import Meter

    monkeypatch.setattr(Meter, "fits", lambda self, totals: True)
    with (
        Ledger.open(path) as ledger,
        pytest.raises(LedgerError, match=r"budget exceeded\. Nothing"),
    ):
        ledger.reserve("table", "run", {}, [Pure(2)], **RULES)


def test_no_connection_is_shared_between_threads(path):
    with Ledger.open(path) as ledger:
        mine, found = ledger._file._connection(), []
        worker = threading.Thread(target=lambda: found.append(ledger._file._connection()))
        worker.start()
        worker.join()
        assert found[0] is not mine and ledger._file._connection() is mine
    assert found[0].closed and mine.closed


def test_a_nested_use_fails_and_does_not_hang(path):
    with (
        Ledger.open(path) as ledger,
        pytest.raises(LedgerError, match="within a transaction"),
        ledger._file.writing("tested", ""),
    ):
        ledger.accounts()


def test_a_fork_without_notice_is_refused(path):
    with Ledger.open(path) as ledger:
        ledger._file._connection().process += 1
        with pytest.raises(LedgerError, match=r"forked other than by os\.fork"):
            reserve(ledger)


def test_a_ledger_is_read_by_its_owner_alone(path):
    for mode in (0o640, 0o606, 0o610):
        path.chmod(mode)
        with pytest.raises(LedgerError, match="may be read or written by others: run  chmod 600"):
            Ledger.open(path).accounts()
    path.chmod(0o600)
    with Ledger.open(path) as ledger:
        assert ledger.accounts() is not None


def test_a_key_is_no_ledger_and_a_ledger_may_be_called_one(path, tmp_path):
    with pytest.raises(LedgerError, match="is the key of a ledger: name the ledger"):
        Ledger.open(path.with_name("budgets.key"))
    named = tmp_path / "own.key"
    Ledger.create(named).close()
    with Ledger.open(named) as ledger:
        assert not ledger.accounts()


def test_a_step_is_recorded_once(path):
    """What two processes write at one step is told apart by who was first."""
    with Ledger.open(path) as ledger:
        charge = reserve(ledger)
        assert charge.record(0, b"first") is True and charge.record(0, b"second") is False
        assert charge.record(1, b"next") is True and charge.stored() == [(0, b"first"), (1, b"next")]


def test_the_key_is_secret(path):
    key = path.with_name("budgets.key")
    assert key.stat().st_mode & 0o777 == 0o600 and path.stat().st_mode & 0o777 == 0o600
    with Ledger.open(path) as ledger:
        key.chmod(0o640)
        with pytest.raises(LedgerError, match="may be read by others: run  chmod 600"):
            ledger.digest_of({"age": [1]})
        key.chmod(0o600)
        kept = key.read_text()
        for text, said in [("f" * 64, "key of another ledger"), ("junk", "holds no key")]:
            key.write_text(text)
            with pytest.raises(LedgerError, match=said):
                ledger.digest_of({"age": [1]})
        key.unlink()
        with pytest.raises(LedgerError, match="is missing"):
            ledger.digest_of({"age": [1]})
        assert ledger.account("table").cap == 1, "what was spent can be read without the key"
        assert kept.strip() not in path.read_bytes().decode("latin-1")


def test_a_ledger_that_could_not_be_made_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_schema, "statements", lambda: ["CREATE TABLE broken("])
    with pytest.raises(LedgerError, match="could not be made"):
        Ledger.create(tmp_path / "budgets")
    assert list(tmp_path.iterdir()) == []


def test_the_log_is_written_back_while_others_read(path):
    with Ledger.open(path) as ledger:
        ledger.register("large", epsilon=1000, relation="add-remove", digest="large", other_people=True)
        log, sizes = path.with_name("budgets-wal"), []
        for k in range(40):
            charge = ledger.reserve("large", f"run {k}", {}, [Pure(1)], **RULES)
            charge.answer(0, {}, lambda: bytes(500_000))
            sizes.append(log.stat().st_size)
        assert max(sizes) < 12_000_000 < path.stat().st_size
        ledger.verify().raise_if_bad()


@pytest.mark.parametrize("failing", ["stat", "pragma"])
def test_a_fault_after_the_commit_is_no_fault_of_the_charge(path, monkeypatch, failing):
    """A caller was told that nothing was granted, although the charge was on disk."""
    stat, execute = pathlib.Path.stat, sqlite3.Connection.execute

    def no_stat(place, **given):
        if place.name.endswith("-wal"):
            raise PermissionError(13, "Permission denied")
        return stat(place, **given)

    def no_pragma(connection, statement, *given):
        if statement.startswith("PRAGMA busy_timeout"):
            raise sqlite3.OperationalError("disk I/O error")
        return execute(connection, statement, *given)

    with Ledger.open(path) as ledger:
        ledger.accounts()
        monkeypatch.setattr(ledger_connection, "_COMMITS_A_CHECKPOINT", 1)
        if failing == "stat":
            monkeypatch.setattr(pathlib.Path, "stat", no_stat)
        else:
            monkeypatch.setattr(ledger_connection.Connection, "execute", no_pragma)
        charge = reserve(ledger)
        assert charge.answer(0, {}, lambda: b"x") == b"x"


def test_the_ledger_does_not_need_jax():
    import subprocess

    worker = pathlib.Path(__file__).with_name("worker.py")
    code = f"import runpy, sys; runpy.run_path({str(worker)!r}); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_refusals_are_no_ledger_errors():
    assert not issubclass(BudgetExceeded, LedgerError) and issubclass(LedgerError, RuntimeError)


def test_a_key_without_its_ledger_says_what_a_new_ledger_would_forget(tmp_path):
    path = tmp_path / "b.ledger"
    Ledger.create(path).close()
    path.unlink()
    with pytest.raises(
        LedgerError, match="what it counted stays spent, and a new ledger knows nothing of it"
    ):
        Ledger.create(path)
    assert not path.exists()
