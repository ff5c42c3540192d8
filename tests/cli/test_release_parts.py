"""Parts of a release that cannot be written: the others are, the record lists them, and they are added."""

import errno
import json
import os
import pathlib

import numpy as np
import pandas
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax._internal import files
from pgmjax.cli import main
from pgmjax.model import io as model_io
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.release import figures, release, report, tables
from pgmjax.release import folder as release_folder

FULL = OSError(errno.ENOSPC, "No space left on device", "/home/someone/out")
LACKING_DISK = "No space left on device"
PARTS = {
    "measurements.parquet": (tables, "write_measurements"),
    "model": (GraphicalModel, "save"),
    "synthetic.parquet": (GraphicalModel, "sample_to"),
    "answers.parquet": (tables, "write_answers"),
    "assurance.json": (release_folder, "_write_assurance"),
    "report.html": (release_folder, "render"),
    "report.html: answers to an evaluator": (report, "_assurance"),
    "report.html: explorer": (figures, "explorer"),
    "report.html: attributes": (figures, "one_way"),
    "report.html: pairs": (figures, "two_way"),
    "report.html: measured tables": (figures, "measured"),
    "accuracy": (release, "accuracy_of"),
}
FILES = {
    "measurements.parquet",
    "model",
    "synthetic.parquet",
    "answers.parquet",
    "report.html",
    "release.json",
    "assurance.json",
}


class Killed(BaseException):
    """The end of a process at a line; nothing catches it."""


@pytest.fixture
def table(small_domain, small_columns, tmp_path):
    """Files of a table and its domain, in an empty folder."""
    pandas.DataFrame(small_columns).to_csv(tmp_path / "t.csv", index=False)
    small_domain.write(tmp_path / "d.json")
    return tmp_path


def words(folder, *more, epsilon="1"):
    given = [
        "release",
        folder / "t.csv",
        "--domain",
        folder / "d.json",
        "--all-kway",
        "2",
        "--epsilon",
        epsilon,
    ]
    given += ["--relation", "add-remove", "--out", folder / "out", "--steps", "50", "--rows", "10", *more]
    return [str(word) for word in given]


def half_written(error, place):
    """A writer that writes something in its place and then fails, or, of the run, works."""

    def fail(*given, **more):
        paths = [each for each in given if isinstance(each, os.PathLike)]
        if place == "measurements.parquet" and paths[0].name.startswith("."):
            return write(*given, **more)  # the run's own, which is no output
        for path in paths if place else ():
            path.mkdir() if place == "model" else path.write_bytes(b"half")
        raise error

    write = tables.write_measurements
    return fail


def drawn(monkeypatch):
    """The list that grows with every draw of secure noise."""
    found, draw = [], OpenDPBackend.draw
    monkeypatch.setattr(OpenDPBackend, "draw", lambda self, *given: found.append(1) or draw(self, *given))
    return found


@pytest.mark.parametrize("error", [FULL, MemoryError()], ids=["disk", "memory"])
@pytest.mark.parametrize("part", PARTS)
def test_the_others_are_written_and_it_is_added_for_free(part, error, table, capsys, monkeypatch):
    owner, name = PARTS[part]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, half_written(error, part))
        for _ in range(2):  # the second turn fails as the first did
            assert main(words(table)) == 1
            said = capsys.readouterr()
            assert part in said.err and said.err.count("\n") == 1
            assert f"pgmjax release --resume {table / 'out.partial'}" in said.err
            assert said.out.splitlines()[0].endswith(str(table / "out"))
    record = json.loads((table / "out" / "release.json").read_text())
    why = LACKING_DISK if error is FULL else "not enough memory"
    assert record["missing"] == {part: why} and "someone" not in json.dumps(record)
    assert set(os.listdir(table / "out")) == FILES - {part}
    saved = pj.load(table / "out")
    if part == "model":
        with pytest.raises(ValueError, match="lacks its model"):
            _ = saved.model
    else:
        assert saved.model.total == record["total"]
        assert main(["query", str(table / "out"), "sex=Male"]) == 0
    noisy = parquet.read_table(table / "out.partial" / "measurements.parquet")
    draws = drawn(monkeypatch)
    assert main(words(table)) == 0 and not draws
    assert sorted(os.listdir(table)) == ["d.json", "out", "t.csv"]
    assert set(os.listdir(table / "out")) == FILES and not pj.load(table / "out").missing
    assert parquet.read_table(table / "out" / "measurements.parquet").equals(noisy)
    assert main(words(table)) == 2 and "exists" in capsys.readouterr().err


@pytest.mark.parametrize("part", PARTS)
def test_an_interrupt_in_any_part_goes_on(part, table, capsys, monkeypatch):
    owner, name = PARTS[part]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, half_written(KeyboardInterrupt(), part))
        assert main(words(table)) == 130
    assert "out.partial" in capsys.readouterr().err and not (table / "out").exists()
    draws = drawn(monkeypatch)
    assert main(["release", "--resume", str(table / "out.partial"), "--rows", "7"]) == 0 and not draws
    assert sorted(os.listdir(table)) == ["d.json", "out", "t.csv"]
    assert set(os.listdir(table / "out")) == FILES
    assert parquet.read_metadata(table / "out" / "synthetic.parquet").num_rows == 7


def test_several_parts_and_another_command_in_the_same_place(table, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tables, "write_answers", half_written(FULL, "answers.parquet"))
        patch.setattr(model_io, "write", half_written(ValueError("Sekret 5"), "model"))
        assert main(words(table, "--json")) == 1
    said = capsys.readouterr()
    printed = json.loads(said.out)
    assert printed["missing"] == {"model": "ValueError", "answers.parquet": LACKING_DISK}
    assert main(words(table, epsilon="2")) == 2
    assert "pgmjax release --resume" in capsys.readouterr().err
    (table / "out" / "release.json").write_text("{}")  # no longer what was published
    assert main(words(table)) == 2 and "exists" in capsys.readouterr().err


def test_killed_while_answers_are_written(table, monkeypatch):
    """What cannot be caught, such as the end for want of memory, leaves a release that can be asked."""
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(tables, "write_answers", half_written(Killed(), "answers.parquet"))
        main(words(table))
    left = pj.load(table / "out.partial" / "release")
    assert left.missing == {"answers.parquet": "not yet written"} and left.model.total > 0
    assert main(words(table)) == 0 and not (table / "out.partial").exists()


def test_killed_between_the_release_and_the_end(table, capsys, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(files, "drop", half_written(Killed(), ""))
        main(words(table))
    before = (table / "out" / "release.json").read_bytes()
    assert (table / "out.partial").exists() and capsys.readouterr().out == ""
    assert main(words(table)) == 0 and str(table / "out") in capsys.readouterr().out
    assert sorted(os.listdir(table)) == ["d.json", "out", "t.csv"]
    assert (table / "out" / "release.json").read_bytes() == before


def test_a_release_that_is_saved_says_what_it_lacks(small_release, tmp_path, monkeypatch):
    with (
        monkeypatch.context() as patch,
        pytest.raises(RuntimeError, match=r"answers\.parquet.*Errno"),
    ):
        patch.setattr(tables, "write_answers", half_written(FULL, "answers.parquet"))
        small_release.save(tmp_path / "r")
    saved = pj.load(tmp_path / "r")
    assert saved.missing == {"answers.parquet": LACKING_DISK}
    assert np.allclose(saved.model.marginal(("sex",)), small_release.model.marginal(("sex",)))


def test_tables_to_analyse_are_drawn_from_a_finished_release(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'xyz'[i % 3]},{i % 2}\n" for i in range(90))
    pathlib.Path("t.csv").write_text("a,b\n" + rows)
    pathlib.Path("d.json").write_text(json.dumps({"a": ["x", "y", "z"], "b": 2}))
    words = ["--domain", "d.json", "--epsilon", "1", "--relation", "replace-one", "--insecure-seed", "1"]
    assert main(["release", "t.csv", *words, "--all-kway", "2", "--out", "made", "--quiet"]) == 0
    assert main(["release", "made", "--tables", "1"]) == 2 and not pathlib.Path("made/tables").exists()
    assert "--tables" in capsys.readouterr().err
    assert main(["release", "made", "--tables", "3", "--epsilon", "1"]) == 2
    assert "--epsilon" in capsys.readouterr().err
    assert main(["release", "made", "--tables", "3", "--rows", "40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == 3
    found = [parquet.read_table(f"made/tables/{number}.parquet").to_pylist() for number in (1, 2, 3)]
    assert [len(table) for table in found] == [40] * 3 and found[0] != found[1]
    assert {row["a"] for row in found[0]} <= {"x", "y", "z"}
    assert main(["release", "made", "--tables", "2", "--rows", "5"]) == 0  # beside the first ones
    said = capsys.readouterr().out
    assert "made/tables-2" in said and "Nothing was spent by this" in said
    assert len([*pathlib.Path("made/tables").iterdir()]) == 3
    assert main(["query", "made", "a=x"]) == 0  # a release stays one with tables in it
