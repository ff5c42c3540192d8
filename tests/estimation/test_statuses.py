"""Thirty random fits of `bench/statuses.py`: their statuses and gaps against an independent optimum."""

import pathlib

import pytest

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"


@pytest.mark.parametrize("seed", range(30))
def test_status_and_gap_tell_the_truth(seed, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    line = __import__("statuses").line_of(seed)
    told = {name: line[name] for name in ("false", "low", "high")}
    assert not any(told.values()), line
