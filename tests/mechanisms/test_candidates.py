"""What a cost buys: weights, grids."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.mechanisms import Marginals
from pgmjax.mechanisms.candidates import grid_for, on_grid, whole_weights
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 2, "b": 3, "one": 1})


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
    with pytest.raises(ValueError, match=r"2\^50"):
        grid_for(8, unit, Fraction(1, 10**40))


def test_numbers_off_the_grid_are_moved_to_its_end():
    assert on_grid(np.array([1e300, -3.0]), 8).tolist() == [2.0**44, -3.0]


def test_the_largest_sensitivity():
    cliques = [("one",), ("a", "b")]
    mechanism = Marginals(epsilon=1, relation=Relation.REPLACE_ONE)
    plain = mechanism._request(DOMAIN, Workload(cliques))
    weighted = mechanism._request(DOMAIN, Workload(cliques), max_weight=3)
    assert plain.sensitivity(cliques) == 2
    assert weighted.sensitivity(cliques, "rho") == 18
    assert plain.sensitivity(cliques[:1]) == 1
