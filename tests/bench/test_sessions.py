"""The experiments with sessions on a small table: what they count, and that they go on where they stopped."""

import importlib.util
import json
import pathlib
import sys

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "bench" / "paper003" / "sessions.py"


@pytest.fixture
def sessions(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("paper003_sessions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "dpbench").mkdir()
    np.save(tmp_path / "dpbench" / "SMALL.n4096.npy", np.arange(4096) % 7)
    monkeypatch.setenv("PGMJAX_DATA", str(tmp_path))
    return module


def test_queries_and_tree(sessions):
    asked = list(sessions.requirements(200, 1, 0))
    sums = [entries.sum() for entries, _ in asked]
    assert min(sums) == 1 and max(sums) == 10 and all(0.5 <= width <= 500 for _, width in asked)
    assert sum(entries[:10].sum() for entries, _ in asked) / sum(sums) == pytest.approx(0.9, abs=0.03)
    rows = sessions.tree().matrix(sessions.DOMAIN)
    assert rows.shape == (79, 40) and rows.sum(axis=0).max() == 7 and rows.sum(axis=0).min() == 6


def test_all_methods_and_going_on(sessions, tmp_path, monkeypatch):
    out = tmp_path / "paper003-sessions.jsonl"
    monkeypatch.setattr(sessions.harness, "RESULTS", tmp_path)
    words = ["x", "--queries", "12", "--tables", "SMALL", "--settings", "bounded", "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", words)
    sessions.main()
    first = out.read_text()
    last = [line for line in map(json.loads, first.splitlines()) if line["queries"] == 12]
    assert [line["method"] for line in last] == ["baseline", "session", "ols"]
    for line in last:
        assert 0 < line["cost"] <= 1 and 0 < line["answering_ratio"] <= 1
        assert 0 <= line["coverage"] <= line["reliability"] <= 1 and line["relative_error"] < 2
    sessions.main()
    assert out.read_text() == first
