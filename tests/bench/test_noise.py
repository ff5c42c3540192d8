"""The script of noise: its workload has the cells it says, its lines have their keys."""

import json
import pathlib

import pytest

import pgmjax as pj

ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPT = ROOT / "bench" / "noise.py"


def test_a_workload_of_exactly_so_many_cells(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    domain = pj.Domain({f"a{i}": i + 2 for i in range(12)})
    chosen = __import__("noise").workload(domain, 20_000, largest=700)
    cells = [pj.queries.marginal(clique).num_rows(domain) for clique in chosen]
    assert sum(cells) == 20_000 and len(set(chosen)) == len(chosen) and {len(c) for c in chosen} <= {2, 3}


def test_lines_and_table(run_script, tmp_path, monkeypatch):
    monkeypatch.delenv("PGMJAX_DATA", raising=False)
    out = tmp_path / "noise.jsonl"
    printed = run_script(SCRIPT, "--sizes", 500, "--repeats", 1, "--out", out)
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    kinds = {"laplace", "gaussian", "permute-and-flip", "exponential", "response"}
    assert {(line["primitive"], line["backend"]) for line in lines} == {
        (kind, name) for kind in kinds for name in ("opendp", "seeded")
    }
    for line in lines:
        assert line["entries"] == 500 and 0 < line["seconds"] <= line["median_s"] < 10
        assert {"machine", "versions", "commit", "command", "load_before"} <= set(line)
    assert printed.count("opendp") == 5


def test_the_workload_needs_its_table(run_script, monkeypatch, capsys):
    monkeypatch.delenv("PGMJAX_DATA", raising=False)
    with pytest.raises(SystemExit, match="2"):
        run_script(SCRIPT, "--loans")
    assert "PGMJAX_DATA is not set" in capsys.readouterr().err


@pytest.mark.slow
def test_362201_queries_of_loans(run_script, data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("PGMJAX_DATA", str(data_dir))
    out = tmp_path / "noise.jsonl"
    run_script(SCRIPT, "--loans", "--repeats", 1, "--out", out)
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    assert [line["entries"] for line in lines] == [362_201, 362_201]
    assert all({"table_s", "noise_s", "marginals", "scale"} <= set(line) for line in lines)
