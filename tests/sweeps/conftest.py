"""A small sweep: one table of 300 records, two attributes of 2 and 3 values and one of 4."""

import numpy as np
import pytest

TABLES = """
[[tables]]
name = "people"
path = "people.csv"
domain = "domain.json"
"""
HEAD = """
[grid]
name = "small"
trials = 2
epsilons = [0.5, "1/3"]
relation = "replace-one"
"""
WORKLOADS = """
[[workloads]]
name = "1-way"
all_kway = 1
"""
MECHANISMS = """
[[mechanisms]]
name = "marginals"
"""
CIRCUMSTANCES = (
    *("seconds", "first_seconds", "group_seconds", "batch", "forecast_bytes", "peak_bytes", "run", "host"),
    "finished",
)
"""Columns on when, where and how fast a cell ran, which differ between runs of the same cell."""
SMALL = HEAD + TABLES + WORKLOADS + MECHANISMS


@pytest.fixture
def write_grid(tmp_path):
    """A function that writes a grid file beside its table, and returns its path."""
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(2, size=300), rng.binomial(2, 0.3, size=300), rng.integers(4, size=300)
    lines = [f"{x},{y},{z}" for x, y, z in zip(a, b, (c + a) % 4, strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    (tmp_path / "domain.json").write_text('{"a": 2, "b": 3, "c": 4}')

    def write(text=SMALL):
        path = tmp_path / "grid.toml"
        path.write_text(text)
        return path

    return write
