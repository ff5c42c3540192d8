"""Folders that are there in full or not at all.

Files of the library's own formats: what is read back, and what is refused with which words.
"""

import errno
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from pgmjax._internal import files
from pgmjax._internal.files import ArrayFolder, Contents, check_target, float_array, reserve_folder
from pgmjax._internal.formats import Format


def test_a_folder_appears_when_it_is_complete(tmp_path):
    out = tmp_path / "above" / "made"
    with reserve_folder(out) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()
    assert (out / "x").read_text() == "1" and os.listdir(out.parent) == ["made"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_nothing(tmp_path, error):
    with pytest.raises(error), reserve_folder(tmp_path / "above" / "made") as folder:
        (folder / "x").write_text("1")
        raise error
    assert os.listdir(tmp_path) == []


def test_nothing_stands_under_the_name_before_it_is_complete(tmp_path, monkeypatch):
    """A kill between any two steps leaves only what a sweep removes."""
    made, make = [], os.mkdir
    monkeypatch.setattr(os, "mkdir", lambda path, *mode: (made.append(pathlib.Path(path)), make(path, *mode)))
    with reserve_folder(tmp_path / "made"):
        assert made and tmp_path / "made" not in made
    with pytest.raises(OSError, match="too long"):
        files.check_name(tmp_path / ("x" * 300))
    assert os.listdir(tmp_path) == ["made"]


def test_a_sweep_at_the_same_time_takes_no_folder_away(tmp_path, monkeypatch):
    """Between making the folder and locking it, another process may take it for one that was left."""
    lock, swept = files.try_lock, []

    def late(path):
        if not swept:
            swept.append(path)
            files.sweep(tmp_path)
        return lock(path)

    monkeypatch.setattr(files, "try_lock", late)
    with reserve_folder(tmp_path / "made") as folder:
        assert folder.is_dir() and folder != swept[0]
    assert os.listdir(tmp_path) == ["made"]


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "made").mkdir()
    with pytest.raises(ValueError, match="exists"):
        check_target(tmp_path / "made")
    with pytest.raises(ValueError, match="exists"), reserve_folder(tmp_path / "made"):
        pytest.fail("the block ran")


FORMAT = Format("thing", "a thing", 3)
GOOD = {"format": "pgmjax:thing", "format_version": 3, "a": 1}


def test_a_good_file_comes_back(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(GOOD))
    assert files.read(tmp_path / "x.json", FORMAT) == GOOD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged: it is not JSON"),
        ("[" * 100_000, "is damaged: it is not JSON as pgmjax writes it: it is nested too deep"),
        ('{"a": ' * 100_000, "it is nested too deep"),
        ('{"a": 1' + "0" * 1_000_000 + "}", "it holds a whole number of 1,000,001 digits"),
        ("[1]", "thing"),
        (json.dumps({**GOOD, "format": "other"}), "'pgmjax:thing'"),
        (
            json.dumps({**GOOD, "format_version": 4}),
            "has format version 4 of a thing, and .* knows version 3",
        ),
    ],
)
def test_anything_else_is_refused(tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        files.read(tmp_path / "x.json", FORMAT)


THING = ArrayFolder("thing.json", FORMAT)
MANY = {"one": np.arange(3.0), "two": np.zeros((2, 2), np.int8)}


def written(folder):
    THING.write(folder, {"a": 1}, {"many.npz": MANY, "one.npy": np.arange(5), "raw.bin": b"xyz"})
    return folder


def test_records_and_arrays_come_back(tmp_path):
    written(tmp_path / "deep" / "t")
    with THING.reading(tmp_path / "deep" / "t") as found:
        assert found.record == {"format": "pgmjax:thing", "format_version": 3, "a": 1}
        many, one = found.arrays("many.npz"), found.mapped("one.npy")
        assert list(many) == list(MANY) and all(np.array_equal(many[name], MANY[name]) for name in MANY)
        assert isinstance(one, np.memmap) and one.tolist() == list(range(5))
        assert found.path("raw.bin").read_bytes() == b"xyz"
    with np.load(tmp_path / "deep" / "t" / "many.npz", allow_pickle=False) as plain:
        assert plain["two"].dtype == np.int8


@pytest.mark.parametrize("interrupted", ["fsync", "replace"])
def test_an_interrupt_leaves_the_old_folder(tmp_path, monkeypatch, interrupted):
    before = {path.name: path.read_bytes() for path in written(tmp_path).iterdir()}

    def never(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, interrupted, never)
    with pytest.raises(KeyboardInterrupt):
        THING.write(tmp_path, {"a": 2}, {"many.npz": {}, "new.npy": np.zeros(2)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_record_is_renamed_when_all_else_is_there(tmp_path, monkeypatch):
    replace, order = os.replace, []
    monkeypatch.setattr(os, "replace", lambda one, two: (order.append(two.name), replace(one, two)))
    written(tmp_path)
    assert order == ["many.npz", "one.npy", "raw.bin", "thing.json"]


def test_a_record_that_is_no_json_makes_no_folder(tmp_path):
    with pytest.raises(TypeError):
        THING.write(tmp_path / "t", {"a": object()}, {})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("missing", [FileNotFoundError, ValueError])
def test_missing_files_are_named(tmp_path, missing):
    kind = ArrayFolder("thing.json", FORMAT, missing=missing)
    said = r"holds no thing\.json: it is not the folder of a thing"
    with pytest.raises(missing, match=said), kind.reading(tmp_path):
        pytest.fail("the block ran")
    written(tmp_path)
    said = r"holds no other\.npz, which belongs to it: copy the whole folder"
    for read in (Contents.arrays, Contents.mapped, Contents.path):
        with pytest.raises(missing, match=said), kind.reading(tmp_path) as found:
            read(found, "other.npz")


@pytest.mark.parametrize("content", [b"PK junk", b"PK\x03\x04 junk", b"", b"junk", b"\x93NUMPY"])
def test_damaged_arrays_are_told(tmp_path, content):
    written(tmp_path)
    said = r"is corrupt: many\.npz is damaged, or not a file of plain arrays\. Make or copy it again\."
    (tmp_path / "many.npz").write_bytes(content)
    for read in (Contents.arrays, Contents.mapped):
        with pytest.raises(ValueError, match=said), THING.reading(tmp_path) as found:
            read(found, "many.npz")


def test_nothing_is_unpickled(tmp_path):
    written(tmp_path)
    np.savez(tmp_path / "many.npz", one=np.array([object()]))
    np.save(tmp_path / "one.npy", np.array([object()]))
    with pytest.raises(ValueError, match="is corrupt"), THING.reading(tmp_path) as found:
        found.arrays("many.npz")
    with pytest.raises(ValueError, match="is corrupt"), THING.reading(tmp_path) as found:
        found.mapped("one.npy")


def test_what_a_reader_finds_wrong_is_told_as_damage(tmp_path):
    written(tmp_path)
    for read, said in (
        (lambda found: found.record["b"], "is corrupt: it lacks 'b'. Make"),
        (lambda found: float_array(MANY, "none", (3,)), "is corrupt: it lacks 'none'"),
        (lambda found: float_array(MANY, "one", (2,)), r"one has shape \(3,\) .* not \(2,\) and float64"),
        (lambda found: float_array(MANY, "two", (2, 2)), "two has shape .* and type int8"),
    ):
        with pytest.raises(ValueError, match=said), THING.reading(tmp_path) as found:
            read(found)
    with pytest.raises(KeyboardInterrupt), THING.reading(tmp_path):
        raise KeyboardInterrupt


def test_what_a_killed_process_was_making_is_swept(tmp_path):
    """A folder that another process is still making is left alone."""
    code = (
        "import os, sys; from pgmjax._internal import files\nwith files.reserve_folder(sys.argv[1]) as f: {}"
    )
    kill = "print(f, flush=True); os.kill(os.getpid(), 9)"
    wait = "print(f, flush=True); sys.stdin.read()"
    dead, alive = (
        subprocess.Popen(
            [sys.executable, "-c", code.format(act), str(tmp_path / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for act, name in ((kill, "one"), (wait, "two"))
    )
    left, kept = (pathlib.Path(process.stdout.readline().strip()) for process in (dead, alive))
    dead.wait(timeout=60)
    with files.reserve_folder(tmp_path / "three") as folder:
        assert not left.exists() and kept.is_dir() and folder.is_dir()
    alive.communicate("")
    assert (tmp_path / "two").is_dir() and (tmp_path / "three").is_dir()


def test_a_folder_is_on_disk_when_it_has_its_name(tmp_path, on_disk):
    """A power cut after the rename left files without contents."""
    out = tmp_path / "new" / "above" / "made"
    with reserve_folder(out) as folder:
        (folder / "in").mkdir()
        (folder / "in" / "x").write_text("1")
        (folder / "y").write_text("1")
    assert all(map(on_disk, [*out.rglob("*"), out, *list(out.parents)[:3]]))


def test_what_was_not_put_on_disk_is_not_named(tmp_path, monkeypatch):
    """A file system that keeps names by itself is none of these."""

    def refused(handle, number=errno.EIO):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(OSError, match="Input/output"), reserve_folder(tmp_path / "made"):
        pass
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(os, "fsync", lambda handle: refused(handle, errno.EINVAL))
    with reserve_folder(tmp_path / "made"):
        pass
    with pytest.raises(OSError, match="Invalid"):
        files.write_private(tmp_path / "x", lambda file: file.write(b"1"))
    assert os.listdir(tmp_path) == ["made"]


def test_a_folder_that_may_be_written_and_not_read_takes_what_was_made(tmp_path, monkeypatch):
    """Its names cannot be put on disk, which is no reason to call what stands there a failure."""
    opened = os.open

    def unreadable(path, *given, **more):
        if pathlib.Path(path) == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *given, **more)

    monkeypatch.setattr(os, "open", unreadable)
    with reserve_folder(tmp_path / "made") as folder:
        (folder / "x").write_text("1")
    assert (tmp_path / "made" / "x").read_text() == "1"
    (tmp_path / "y").write_text("1")
    monkeypatch.setattr(os, "open", lambda *given, **more: unreadable(tmp_path))
    with pytest.raises(PermissionError):
        files.sync(tmp_path / "y")
