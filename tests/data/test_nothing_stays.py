"""A process killed while it reads a table leaves none of its bytes in the folder of temporary files."""

import gzip
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from pgmjax._internal import private_files
from pgmjax.data import files
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Unit

MARKS = ["Quetzalcoatlus", "Xiphosuran"]
TEXT = "who,kind\n" + "".join(f"{MARKS[0]}{k},{MARKS[1]}\n" for k in range(20_000))

# ends the process when the first records have been read, or, for the names of units, while they are grouped
CHILD = """
import os, pathlib, signal, sys
from pgmjax.data import files
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Unit

def end(*found):
    held = [pathlib.Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    print(sum(b"Xiphosuran" in path.read_bytes() for path in held if path.is_file()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

unit = Unit("who", 2) if sys.argv[2] == "unit" else None

def grouping(found):
    next(iter(found), None)
    end()

setattr(files, "units_of" if unit else "encode_array", grouping if unit else end)
Dataset.read(sys.argv[1], Domain({"kind": {"labels": ["Xiphosuran"]}}), unit=unit).count()
"""


def written(folder, kind):
    path = folder / {"gzip": "t.csv.gz", "excel": "t.xlsx"}.get(kind, "t.csv")
    if kind == "excel":
        book = pytest.importorskip("openpyxl").Workbook()
        for line in TEXT.splitlines():
            book.active.append(line.split(","))
        book.save(path)
    else:
        text = TEXT.encode("utf-16" if kind in ("utf-16", "unit") else "utf-8")
        path.write_bytes(gzip.compress(text) if kind == "gzip" else text)
    return path


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the copy is looked for in /proc")
@pytest.mark.parametrize("kind", ["utf-16", "excel", "unit", "gzip", "plain"])
def test_a_killed_reader_leaves_nothing(tmp_path, kind):
    path, place = written(tmp_path, kind), tmp_path / "temporary"
    place.mkdir()
    child = subprocess.run(
        [sys.executable, "-c", CHILD, path, kind],
        env={**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert not list(place.iterdir())
    assert int(child.stdout) >= (kind in ("utf-16", "excel", "unit")), "there was no copy when it was killed"


def test_names_of_units_that_memory_does_not_hold_are_grouped_in_parts(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(45_000), 2))
    path = tmp_path / "t.csv"
    path.write_text("who,n\n" + "".join(f"{MARKS[0] * 16}{k},{k % 3}\n" for k in rows))
    data = Dataset.read(path, Domain({"n": 3}), unit=Unit("who", 1))
    asked, stream = [], files._stream
    monkeypatch.setattr(files, "_stream", lambda query, *rest: (asked.append(query), stream(query, *rest))[1])
    roomy = data.chosen_by(b"1" * 16).marginals([("n",)])[0]
    assert roomy.tolist() == [15_000, 15_000, 15_000] and len(asked) == 2
    monkeypatch.setattr(files, "_MEMORY_LIMIT", "60MB")
    again = Dataset.read(path, Domain({"n": 3}), unit=Unit("who", 1)).chosen_by(b"1" * 16)
    assert np.array_equal(again.marginals([("n",)])[0], roomy) and len(asked) > 5


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_where_a_file_needs_a_name_a_later_call_sweeps_what_the_dead_left(tmp_path, monkeypatch):
    monkeypatch.setattr(private_files.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(private_files, "_nameless", lambda: False)
    code = (
        "import os, signal\nfrom pgmjax._internal import private_files as files\n"
        "files._nameless = lambda: False\n"
        "with files.copied(['secret']) as path:\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    place = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=place, check=False).returncode == -signal.SIGKILL
    (dead,) = tmp_path.iterdir()
    assert (dead / "table").read_text() == "secret" and (dead / "table").stat().st_mode & 0o777 == 0o600
    others = tmp_path / "others"
    others.mkdir()
    (others / "table").write_text("kept")
    (tmp_path / "pgmjax-copy-link").symlink_to(others)
    with private_files.copied(["mine"]) as mine, private_files.copied(["another"]):
        assert not dead.exists() and pathlib.Path(mine).read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others", "pgmjax-copy-link"]
    assert (others / "table").read_text() == "kept"
