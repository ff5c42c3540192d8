"""The file of results: durable rows, one a key, one writer."""

import datetime
import subprocess
import sys

import pytest

from pgmjax.sweeps.store import COLUMNS, ResultFile

duckdb = pytest.importorskip("duckdb")
TIME = datetime.datetime(2026, 1, 2, 3, 4, 5)


def row(key, **changes):
    kinds = {"VARCHAR": "word", "BIGINT": 3, "INTEGER": 2, "DOUBLE": 0.25, "TIMESTAMP": TIME}
    made = {name: kinds[kind.split()[0]] for name, kind in COLUMNS.items()}
    return {**made, "key": key, **changes}


def test_rows_come_back_as_they_were_stored(tmp_path):
    with ResultFile(tmp_path / "r.duckdb") as results:
        results.add(
            [row("a", loss=0.1, error=None), row("b", status="failed", error='Traceback\n  it\'s "so"')]
        )
        results.add_run("x", {"run": "x", "started": "2"})
        results.add_run("y", {"run": "y", "started": "1"})
    with ResultFile(tmp_path / "r.duckdb", read_only=True) as results:
        assert results.rows() == [
            row("a", loss=0.1, error=None), row("b", status="failed", error="Traceback\n  it's \"so\"")
        ]  # fmt: skip
        assert results.statuses() == {"a": "word", "b": "failed"}
        assert [run["run"] for run in results.runs()] == ["y", "x"]


def test_a_key_has_one_row(tmp_path):
    with ResultFile(tmp_path / "r.duckdb") as results:
        results.add([row("a", status="failed")])
        results.add([row("a", status="done")])
        assert results.statuses() == {"a": "done"}


def test_rows_are_stored_together_or_not_at_all(tmp_path):
    with ResultFile(tmp_path / "r.duckdb") as results:
        with pytest.raises(duckdb.Error):
            results.add([row("a"), row("b", status=None)])
        assert results.statuses() == {}
        results.add([row("c")])
        assert results.statuses() == {"c": "word"}


HOLD = """
import sys
from pgmjax.sweeps.store import ResultFile
with ResultFile(sys.argv[1]) as results:
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_and_a_reader_are_refused(tmp_path):
    path = tmp_path / "r.duckdb"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "open\n"
        for read_only in (False, True):
            with pytest.raises(RuntimeError, match="is open in another process: a sweep writes it alone"):
                ResultFile(path, read_only=read_only)
        other.stdin.close()
    with ResultFile(path) as results:
        assert results.statuses() == {}


def test_files_of_something_else_are_refused_and_kept(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database")
    with pytest.raises(ValueError, match="cannot be opened as a file of results"):
        ResultFile(text)
    assert text.read_text() == "not a database"
    with duckdb.connect(str(tmp_path / "other.duckdb")) as other:
        other.execute("CREATE TABLE mine (x INTEGER)")
    with pytest.raises(ValueError, match="a database of something else"):
        ResultFile(tmp_path / "other.duckdb")
    with duckdb.connect(str(tmp_path / "other.duckdb")) as other:
        assert other.execute("SELECT table_name FROM information_schema.tables").fetchall() == [("mine",)]
    with duckdb.connect(str(tmp_path / "empty.duckdb")):
        pass
    with pytest.raises(ValueError, match="holds no result yet"):
        ResultFile(tmp_path / "empty.duckdb", read_only=True)
    with pytest.raises(FileNotFoundError, match="There is no file of results"):
        ResultFile(tmp_path / "no.duckdb", read_only=True)
    with pytest.raises(FileNotFoundError, match=r"folder .*no\b"):
        ResultFile(tmp_path / "no" / "r.duckdb")
