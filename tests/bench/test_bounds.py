"""The lower bound against the exact errors of optimal estimators on small tables."""

import itertools
import math
import pathlib
import runpy
import types

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.privacy.response import KaryResponse

SCRIPT = pathlib.Path(__file__).parent.parent.parent / "bench" / "paper002" / "bounds.py"
bounds = types.SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def test_two_categories_have_the_closed_form():
    for epsilon in (0.1, 1.0, 5.0):
        expected = math.exp(epsilon) / (1 + math.exp(epsilon)) ** 2 / 7
        assert bounds.lower_bound(2, epsilon, 7) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5, 8, 1024])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 10.0])
def test_it_lies_below_what_randomised_response_reaches(size, epsilon):
    low = bounds.lower_bound(size, epsilon, 100)
    exact = co.Channel.at(size, epsilon).largest_variance() / 100
    assert 0 < low < exact <= bounds.upper_bound(size, epsilon, 100)
    assert low <= 0.25 / 100
    assert bounds.lower_bound(size + 1, epsilon, 100) >= low * (1 - 1e-12)


def test_both_bounds_fall_like_one_over_the_rows():
    for bound in (bounds.lower_bound, bounds.upper_bound):
        assert bound(4, 1.0, 10_000) == pytest.approx(bound(4, 1.0, 1) / 10_000)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_estimator_from_randomised_response_beats_it(size):
    """Posterior variances of three uniform rows, averaged over balanced indicators, by enumeration."""
    epsilon, rows = 1.0, 3
    distribution = KaryResponse(size, (size - 1) / (math.exp(epsilon) + size - 1))
    tables = np.array(list(itertools.product(range(size), repeat=rows)))
    chance = np.prod(distribution.channel()[tables[:, None], tables[None]], axis=-1)  # [table, release]
    posterior = chance / chance.sum(axis=0)
    subsets = [s for s in itertools.product([0.0, 1.0], repeat=size) if sum(s) == size // 2]
    risks = []
    for functions in itertools.product(subsets, repeat=rows):
        answers = np.mean([np.array(f)[tables[:, k]] for k, f in enumerate(functions)], axis=0)
        mean = answers @ posterior
        spread = (answers**2) @ posterior - mean**2
        risks.append(float(spread @ chance.mean(axis=0)))
    assert np.mean(risks) >= bounds.mean_posterior_variance(size, epsilon) / rows - 1e-12
    assert bounds.lower_bound(size, epsilon, rows) >= bounds.mean_posterior_variance(size, epsilon) / rows
    assert max(risks) <= bounds.upper_bound(size, epsilon, rows)
