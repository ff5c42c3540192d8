"""`pgmjax bench run` and `report`, from a grid to a page."""

import json
import signal
import subprocess
import sys

import pytest

from pgmjax.cli import main
from pgmjax.sweeps.store import ResultFile

pytest.importorskip("duckdb")
GRID = """
[grid]
name = "small"
trials = 2
epsilons = [0.5, 2]
relation = "replace-one"
[[tables]]
name = "people"
path = "people.csv"
domain = "domain.json"
[[workloads]]
name = "1-way"
all_kway = 1
[[mechanisms]]
name = "marginals"
"""


@pytest.fixture
def grid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("a,b\n" + "0,2\n1,1\n1,0\n" * 50)
    (tmp_path / "domain.json").write_text('{"a": 2, "b": 3}')
    path = tmp_path / "small.toml"
    path.write_text(GRID)
    return path


def test_run_again_and_report(grid, tmp_path, capsys):
    assert main(["bench", "run", str(grid)]) == 0
    said = capsys.readouterr()
    assert "4 cells in small.duckdb: 4 in this run" in said.out
    assert "4 of 4 cells" in said.err and "a second, 0:00:00 left" in said.err
    assert main(["bench", "run", str(grid), "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    record = json.loads(said.out)
    assert (record["total"], record["ran"], record["failed"]) == (4, 0, 0) and said.err == ""
    assert main(["bench", "report", "small.duckdb"]) == 0
    assert "Page written to small.html" in capsys.readouterr().out
    assert "Sweep small" in (tmp_path / "small.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "domain.json", "people.csv", "small.duckdb", "small.html", "small.toml"
    ]  # fmt: skip


def test_a_list_runs_nothing(grid, tmp_path, capsys):
    assert main(["bench", "run", str(grid), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("people, 1-way, marginals, epsilon 0.5") and "2 trials" in lines[0]
    assert lines[0].endswith("KiB") and lines[-1] == "4 cells in 2 groups"
    assert main(["bench", "run", str(grid), "--list", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert len(groups) == 2 and all(group["bytes"] > 0 and len(group["keys"]) == 2 for group in groups)
    assert not (tmp_path / "small.duckdb").exists()


def test_failures_are_told_and_not_fatal(grid, capsys):
    grid.write_text(GRID.replace("[0.5, 2]", '["0.001"]') + '[[mechanisms]]\nname = "randomized-response"\n')
    assert main(["bench", "run", str(grid)]) == 0
    said = capsys.readouterr()
    assert "2 cells of people, 1-way, randomized-response, epsilon 0.001 failed or refused" in said.err
    assert "2 cells failed or were refused" in said.out and "--retry-failed" in said.out
    assert main(["bench", "report", "small.duckdb"]) == 0


def test_bad_input_is_told_before_anything_runs(grid, tmp_path, capsys):
    grid.write_text(GRID.replace("trials", "trails"))
    assert main(["bench", "run", str(grid)]) == 2
    assert "'trials'" in capsys.readouterr().err
    assert not (tmp_path / "small.duckdb").exists()
    assert main(["bench", "run", "no.toml"]) == 2
    assert "no.toml" in capsys.readouterr().err
    assert main(["bench", "report", "no.duckdb"]) == 2
    assert "no.duckdb" in capsys.readouterr().err


def test_a_workload_of_more_answers_than_a_column_holds_is_a_refused_row(grid, tmp_path, capsys):
    names = [f"q{i}" for i in range(12)]  # one marginal of 100**12 cells
    (tmp_path / "people.csv").write_text(",".join(names) + "\n" + ",".join("0" * 12) + "\n")
    (tmp_path / "domain.json").write_text(json.dumps(dict.fromkeys(names, 100)))
    grid.write_text(GRID.replace("all_kway = 1", "all_kway = 12"))
    assert main(["bench", "run", str(grid), "--quiet"]) == 0
    with ResultFile("small.duckdb", read_only=True) as results:
        assert {tuple(row.values()) for row in results.rows(("status", "queries"))} == {
            ("refused", 2**63 - 1)
        }
    capsys.readouterr()


def test_a_page_never_replaces_the_results(grid, tmp_path, capsys):
    assert main(["bench", "run", str(grid), "--quiet"]) == 0
    before = (tmp_path / "small.duckdb").read_bytes()
    assert main(["bench", "report", "small.duckdb", "--out", str(tmp_path / "small.duckdb")]) == 2
    assert "would replace the file of results" in capsys.readouterr().err
    assert main(["bench", "report", "small.duckdb", "--out", "no/such/folder.html"]) == 2
    assert "an existing folder" in capsys.readouterr().err
    assert (tmp_path / "small.duckdb").read_bytes() == before


def test_an_interrupt_ends_with_130_and_the_run_goes_on(grid, tmp_path):
    grid.write_text(GRID.replace("[0.5, 2]", str([0.5 + n / 8 for n in range(12)])))
    command = [sys.executable, "-m", "pgmjax", "bench", "run", str(grid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        # the file of results is there once cells are about to run
        while child.poll() is None and not (tmp_path / "small.duckdb").exists():
            pass
        child.send_signal(signal.SIGINT)
        _, said = child.communicate()
    assert child.returncode == 130
    assert "interrupted; finished results are in small.duckdb" in said
    with ResultFile("small.duckdb") as results:  # it may have been interrupted before it was filled
        assert len(results.rows()) < 24
    assert main(["bench", "run", str(grid), "--quiet"]) == 0
    with ResultFile("small.duckdb", read_only=True) as results:
        assert len(results.rows()) == 24
