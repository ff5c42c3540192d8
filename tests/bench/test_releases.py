"""What tables say of releases follows the rules of the library."""

import importlib
import math
import pathlib

import numpy as np
import pytest

import pgmjax as pj

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the tests run apart from the source tree")


@pytest.mark.parametrize("between", [0.5, 1.9, 2.05, 2.2, 4.0, 30.0])
def test_kept_parts_of_intervals_are_judged_as_combine_does(monkeypatch, between):
    monkeypatch.syspath_prepend(str(BENCH))
    releases = importlib.import_module("blocks.releases")
    line = np.arange(20.0) - 9.5
    estimates = line * math.sqrt(between / line.var(ddof=1))
    low, high = pj.uncertainty.combine(estimates, np.ones(20)).interval
    for off in (0.999 * high, 1.001 * high):
        held, width = releases._by_the_rule({"parts": [between, 1.0], "off": off})
        assert held == (off < high)
        assert width == pytest.approx((high - low) / 2 / 1.959964, rel=1e-6)
