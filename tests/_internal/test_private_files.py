"""Files that only their owner may read: whatever is there before them."""

import os
import pathlib

import pytest

import pgmjax as pj
from pgmjax._internal.private_files import open_private
from pgmjax.privacy.gate import holder_log
from pgmjax.privacy.ledger import Ledger, LedgerError
from pgmjax.release.run_folder import RunFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")


@pytest.fixture(autouse=True)
def open_to_all():
    before = os.umask(0)
    yield
    os.umask(before)


def prepared(folder, what):
    """Return a path at which something else is already."""
    path, other = folder / "private", folder / "other"
    other.touch(0o600)
    match what:
        case "wide":
            path.touch(0o644)
        case "link":
            path.symlink_to(other)
        case "dangling":
            path.symlink_to(folder / "new")
        case "hard link":
            path.hardlink_to(other)
        case "pipe":
            os.mkfifo(path, 0o600)
        case "folder":
            path.mkdir()
    return path


BEFORE = ["wide", "link", "dangling", "hard link", "pipe", "folder"]


@pytest.mark.parametrize("what", BEFORE)
def test_a_log_of_the_holder_is_not_written_to_what_others_see(tmp_path, what):
    path = prepared(tmp_path, what)
    with pytest.raises((ValueError, OSError)), holder_log(path):
        pytest.fail("the table would have been read")
    assert not (tmp_path / "new").exists() and not (tmp_path / "other").read_bytes()
    for mode in ("x", "w"):
        if mode == "w" and what != "folder":
            open_private(path, mode).close()
            assert path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o777 == 0o600
            assert path.stat().st_nlink == 1 and not (tmp_path / "new").exists()
        else:
            with pytest.raises(OSError):
                open_private(path, mode)


def test_a_log_of_the_holder_goes_on(tmp_path):
    for _ in range(2):
        with open_private(tmp_path / "log") as file:
            file.write("é\n")
    assert (tmp_path / "log").read_text(encoding="utf-8") == "é\né\n"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_ledger_that_others_may_read_is_not_opened(tmp_path):
    Ledger.create(tmp_path / "l.ledger").close()
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
    (tmp_path / "l.ledger").chmod(0o640)
    with pytest.raises(LedgerError, match="chmod 600"):
        Ledger.open(tmp_path / "l.ledger")


def test_nothing_of_a_run_can_be_read_by_others(tmp_path):
    data = pj.Dataset.from_columns(pj.Domain({"a": 2, "b": 2}), {"a": [0, 1, 1], "b": [1, 0, 1]})
    mechanism = pj.mechanisms.MST(epsilon=1, relation=pj.Relation.ADD_REMOVE)
    made = RunFolder(tmp_path / "run")
    mechanism.run(data, pj.Workload([["a", "b"]]), folder=made)
    files = [path for path in pathlib.Path(made.folder).rglob("*") if path.is_file()]
    assert len(files) > 3 and {path.stat().st_mode & 0o077 for path in files} == {0}
    assert made.folder.stat().st_mode & 0o077 == 0
