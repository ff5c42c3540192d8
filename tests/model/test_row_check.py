"""The distance of rows from a model: its exact mean, its bound, and that wrong rows are seen."""

import math

import numpy as np
import pytest
import scipy.stats

from pgmjax.model import row_check


@pytest.mark.parametrize("rows", [1, 7, 500])
def test_the_expected_distance_is_the_sum_over_all_counts(rows):
    p = np.array([0.0, 0.03, 0.47, 0.5])
    columns = {"a": np.full(rows, 2)}
    found = row_check.check(("a",), p, columns)
    counts = np.arange(rows + 1)
    mean = [(scipy.stats.binom.pmf(counts, rows, q) * np.abs(counts / rows - q)).sum() for q in p]
    assert found.expected == pytest.approx(0.5 * sum(mean), rel=1e-9)
    assert found.total_variation == pytest.approx(0.53)
    assert found.stderr == 1 / math.sqrt(2 * rows)
    assert found.standard_errors == pytest.approx((0.53 - found.expected) / found.stderr)


def test_a_certain_cell_has_no_distance():
    found = row_check.check(("a",), np.array([0.0, 1.0]), {"a": np.ones(5, np.int64)})
    assert found.total_variation == found.expected == 0


def test_draws_are_as_far_as_said_and_spread_less_than_the_bound():
    """1,000 seeded sets of 200 rows: mean within 6 standard errors."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(12)).reshape(3, 4)
    found = []
    for _ in range(1000):
        cell = generator.choice(12, size=200, p=p.ravel())
        found.append(row_check.check(("a", "b"), p, {"a": cell // 4, "b": cell % 4}))
    distances = np.array([check.total_variation for check in found])
    assert abs(distances.mean() - found[0].expected) < 6 * distances.std() / math.sqrt(1000)
    assert distances.std() < found[0].stderr
    assert max(check.standard_errors for check in found) < 3
