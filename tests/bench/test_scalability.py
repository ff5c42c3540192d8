"""The script of Figure 2b: points in fresh processes, failures that end a method, table and plot."""

import importlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
FOLDER = ROOT / "bench" / "paper004"


@pytest.fixture
def paper(monkeypatch):
    """Import a module of bench/paper004."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.syspath_prepend(str(FOLDER))
    return __import__


def line(method, attributes, step=None, *, source="new", **more):
    timed = {} if step is None else {"step_s": step, "cold_s": 2.0}
    about = {"machine": {"cores": 2}, "source": source, "load_before": 1.5}
    return {"method": method, "attributes": attributes, **timed, **about, **more}


ENDED = {"status": "CONVERGED", "steps": 300, "loss": 1e3, "gap": 0.1, "relative_gap": 1e-4, "seconds": 3.0}
LINES = [
    line("engine", 3, 9.0, source="old"),
    line("engine", 3, 9.0),
    line("engine", 3, 0.001, step_cpu_s=0.002),
    line("mbi", 3, 0.0042, step_cpu_s=0.0042),
    line("engine", 1000, 0.02),
    line("lsmr", 3, 0.5),
    line("lsmr", 9, failed="out of memory under ulimit -v 12.0 GB: MemoryError", returncode=1),
    line("multiplicative-weights", 9, failed="refused: 24 GiB", returncode=1),
    line("certificate", 1000, float32=ENDED, float64=ENDED),
]


def test_the_table_has_the_last_line_of_each_point_and_every_failure(paper):
    text = importlib.import_module("blocks.paper004").scalability(LINES).splitlines()
    assert text[0].split(" | ")[2:6] == ["engine", "mbi", "multiplicative weights", "LSMR"]
    assert text[2] == "| 3 | 1,000 | 1 ms (2 s) | 4.2 ms (2 s) | - | 500 ms (2 s) | 4.2 |"
    assert text[3] == "| 9 | 10^9 | - | - | refused | out of memory | - |"
    assert text[4] == "| 1,000 | 10^1000 | 20 ms (2 s) | - | - | - | - |"


def test_the_plot_is_drawn_from_what_did_not_fail(paper, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    harness = paper("harness")
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    harness.figure("figure", lambda canvas: paper("scalability").draw(LINES, canvas), (5.5, 3.8))
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "words, message",
    [(["nothing"], "methods are engine, mbi"), (["--attributes", "2"], "3 attributes at least, got 2")],
)
def test_bad_options(paper, capsys, words, message):
    with pytest.raises(SystemExit):
        paper("scalability").parse(words)
    assert message in capsys.readouterr().err


def test_methods_take_turns(paper):
    order = paper("scalability").jobs(("certificate", "lsmr", "engine"), (3, 4))
    assert order == [("engine", 3), ("lsmr", 3), ("engine", 4), ("lsmr", 4), ("certificate", 4)]


@pytest.mark.parametrize("method", ["engine", "multiplicative-weights", "lsmr"])
def test_a_point_is_timed_a_step(paper, method):
    point = paper("scalability_point")
    found = point.measure(method, 4, steps=2, seconds=0.0)
    assert found["later_calls"] == 1 and 1 <= found["steps"] <= 2
    assert found["step_s"] == found["warm_s"] / found["steps"] and found["step_cpu_s"] > 0


def test_the_certificate_says_how_both_types_end(paper):
    found = paper("scalability_point").measure("certificate", 3, steps=1000)
    assert found["float64"]["status"] == "CONVERGED" and found["float64"]["relative_gap"] <= 1e-4
    assert found["float32"]["loss"] == pytest.approx(found["float64"]["loss"], rel=1e-3)


def test_few_steps_where_a_call_goes_over_many_cells(paper):
    point = paper("scalability_point")
    steps = [point.default_steps("lsmr", point.cases.make(f"fit-chain-{n}")) for n in (3, 6, 8)]
    assert steps == [200, 50, 3]


def test_lsmr_is_put_back(paper):
    import scipy.sparse.linalg

    before = scipy.sparse.linalg.lsmr
    paper("scalability_point").measure("lsmr", 3, seconds=0.0)
    assert scipy.sparse.linalg.lsmr is before


def test_points_are_recorded_and_not_run_twice(tmp_path):
    """The peer's interpreter has no peer here: its first point fails in words and ends it."""
    out, peer = tmp_path / "lines.jsonl", tmp_path / "python"
    (tmp_path / "mbi.py").write_text("raise ModuleNotFoundError(\"No module named 'mbi'\")\n")
    peer.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    peer.chmod(0o755)
    words = ["lsmr", "mbi", "--attributes", "3", "4", "--peer-python", str(peer), "--memory", "8"]
    command = [sys.executable, str(FOLDER / "scalability.py"), *words, "--out", str(out)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    points = [(x["method"], x["attributes"]) for x in lines]
    assert points[:3] == [("mbi", 3), ("lsmr", 3), ("lsmr", 4)]
    of_one_code = {(x["source"], *point) for x, point in zip(lines, points, strict=True)}
    assert len(of_one_code) == len(lines)  # the library may be edited between the two runs
    assert "No module named 'mbi'" in lines[0]["failed"]
    assert np.isfinite(lines[2]["step_s"]) and {"machine", "commit", "source", "command", "date"} <= set(
        lines[2]
    )
