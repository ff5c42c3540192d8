"""What a cost buys: expected noise, weights, grids."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.mechanisms.noise_sizes import (
    expected_size,
    grid_for,
    most_moved,
    on_grid,
    whole_weights,
)

DOMAIN = Domain({"a": 2, "b": 3, "one": 1})


@pytest.mark.parametrize("scale", [1e-4, 0.2, 0.5, 1.0, 3.9, 4.0, 50.0])
@pytest.mark.parametrize("distribution", [DiscreteLaplace, DiscreteGaussian])
def test_expected_size_is_a_sum_over_the_law(distribution, scale):
    values = np.arange(-4000, 4001)
    true = math.fsum(np.abs(values) * distribution(scale).probabilities(values))
    # from scale 4 on by Euler-Maclaurin, whose next term is 1 / (240 scale^4)
    assert expected_size(distribution(scale)) == pytest.approx(true, rel=2e-5, abs=1e-300)


def test_expected_size_of_the_continuous_laws_at_large_scales():
    assert expected_size(DiscreteLaplace(1e6)) == pytest.approx(1e6, rel=1e-9)
    assert expected_size(DiscreteGaussian(1e6)) == pytest.approx(math.sqrt(2 / math.pi) * 1e6, rel=1e-12)


def test_whole_weights_keep_proportions():
    assert whole_weights([Fraction(6), Fraction(4)]) == [3, 2]
    assert whole_weights([Fraction(1, 3), Fraction(1, 7)]) == [7, 3]
    rng = np.random.default_rng(0)
    weights = [Fraction(float(w)) for w in rng.uniform(0.5, 1, 50)]
    whole = whole_weights(weights)
    assert max(whole) == 4096
    for weight, number in zip(weights, whole, strict=True):
        assert float(weight / max(weights)) == pytest.approx(number / 4096, abs=0.5 / 4096)


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_the_grid_gets_coarser_where_noise_is_huge(unit):
    costs = [Fraction(1, 10**k) for k in (0, 12)] if unit == "epsilon" else [Fraction(1), Fraction(1, 10**25)]
    bits = [grid_for(8, unit, cost) for cost in costs]
    assert bits[0] == 8 and 0 <= bits[1] < 8
    with pytest.raises(ValueError, match="spend more"):
        grid_for(8, unit, Fraction(1, 10**40))


def test_numbers_off_the_grid_are_moved_to_its_end():
    assert on_grid(np.array([1e300, -3.0]), 8).tolist() == [2.0**44, -3.0]


def test_the_largest_sensitivity():
    cliques = [("one",), ("a", "b")]
    assert most_moved(cliques, DOMAIN, Relation.REPLACE_ONE, "epsilon", None) == 2
    assert most_moved(cliques, DOMAIN, Relation.REPLACE_ONE, "rho", 3) == 18
    assert most_moved(cliques[:1], DOMAIN, Relation.REPLACE_ONE, "epsilon", None) == 1
