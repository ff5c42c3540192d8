"""The script of noise: its workload has the cells it says, its lines have their keys."""

import json
import pathlib
import subprocess
import sys

import pytest

import pgmjax as pj

ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPT = str(ROOT / "bench" / "noise.py")


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, env=environment
    )


def test_a_workload_of_exactly_so_many_cells(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    domain = pj.Domain({f"a{i}": i + 2 for i in range(12)})
    chosen = __import__("noise").workload(domain, 20_000, largest=700)
    cells = [pj.queries.marginal(clique).num_rows(domain) for clique in chosen]
    assert sum(cells) == 20_000 and len(set(chosen)) == len(chosen) and {len(c) for c in chosen} <= {2, 3}


def test_lines_and_table(tmp_path):
    out = tmp_path / "noise.jsonl"
    done = run("--sizes", 500, "--repeats", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    kinds = {"laplace", "gaussian", "permute-and-flip", "exponential", "response"}
    assert {(line["primitive"], line["backend"]) for line in lines} == {
        (kind, name) for kind in kinds for name in ("opendp", "seeded")
    }
    for line in lines:
        assert line["entries"] == 500 and 0 < line["seconds"] <= line["median_s"] < 10
        assert {"machine", "versions", "commit", "command", "load_before"} <= set(line)
    assert done.stdout.count("opendp") == 5


def test_the_workload_needs_its_table():
    done = run("--loans")
    assert done.returncode == 2 and "PGMJAX_DATA is not set" in done.stderr


@pytest.mark.slow
def test_362201_queries_of_loans(data_dir, tmp_path):
    out = tmp_path / "noise.jsonl"
    done = run("--loans", "--repeats", 1, "--out", out, PGMJAX_DATA=str(data_dir))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    assert [line["entries"] for line in lines] == [362_201, 362_201]
    assert all({"table_s", "noise_s", "marginals", "scale"} <= set(line) for line in lines)
