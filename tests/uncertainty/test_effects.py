"""ResidualBasis of subsets: an isometry whose transpose is what it says, for cliques in any order."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.measurements.least_squares import ResidualBasis

DOMAIN = pj.Domain({"a": 3, "b": 2, "c": 4})


@pytest.mark.parametrize("clique", [(), ("b",), ("c", "a"), ("b", "c", "a")])
def test_squares_sum_to_the_mean_square(clique):
    effects = ResidualBasis.of(DOMAIN, [("a", "b", "c")])
    table = np.random.default_rng(0).normal(size=DOMAIN.shape_of(clique))
    assert np.sum(effects.coordinates(clique, table) ** 2) == pytest.approx(np.mean(table**2), rel=1e-12)


@pytest.mark.parametrize("clique", [("b",), ("c", "a"), ("b", "c", "a")])
def test_table_is_the_transpose_of_coordinates(clique):
    effects = ResidualBasis.of(DOMAIN, [("a", "b", "c")])
    generator = np.random.default_rng(1)
    table, vector = generator.normal(size=DOMAIN.shape_of(clique)), generator.normal(size=effects.length)
    left = effects.coordinates(clique, table) @ vector
    assert left == pytest.approx(np.sum(table * effects.table(clique, vector)), rel=1e-12)


def test_a_function_has_the_same_coordinates_on_every_clique_that_holds_it():
    effects = ResidualBasis.of(DOMAIN, [("a", "b"), ("c", "a")])
    table = np.array([3.0, 1.0, -2.0])
    one = effects.coordinates(("a",), table)
    for clique in (("a", "b"), ("b", "a"), ("c", "a")):
        shape = [3 if name == "a" else 1 for name in clique]
        wide = np.broadcast_to(table.reshape(shape), DOMAIN.shape_of(clique))
        assert np.allclose(effects.coordinates(clique, wide), one, atol=1e-14)
