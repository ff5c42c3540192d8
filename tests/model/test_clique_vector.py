"""Clique vectors are pytrees and mappings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.model.clique_vector import CliqueVector, summed


def test_mapping_transposes_and_names_what_is_missing():
    table = np.arange(6).reshape(2, 3)
    vector = CliqueVector((("a", "b"),), (table,))
    assert (vector["b", "a"] == table.T).all()
    assert list(vector) == [("a", "b")] and len(vector) == 1
    with pytest.raises(KeyError, match="no table over"):
        vector["a", "c"]


def test_transformations_go_through():
    vector = CliqueVector((("a",), ("b",)), (jnp.ones(2), jnp.ones(3)))
    doubled = jax.jit(lambda v: jax.tree.map(lambda t: 2 * t, v))(vector)
    assert doubled.cliques == vector.cliques and doubled["b",].tolist() == [2.0] * 3
    gradient = jax.grad(lambda v: jnp.sum(v["a",] ** 2))(vector)
    assert gradient["a",].tolist() == [2.0, 2.0] and gradient["b",].tolist() == [0.0] * 3


def test_lone_names_and_repeats_are_refused():
    vector = CliqueVector((("a", "b"),), (np.zeros((2, 3)),))
    for clique in ("ab", ("a", "b", "a")):
        with pytest.raises(KeyError):
            vector[clique]


def test_tables_over_the_same_attributes_add_up_in_the_axes_of_the_first():
    first, other, alone = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2) ** 2, np.ones(2)
    pairs = [(("a", "b"), first), (("a",), alone), (("b", "a"), other)]
    vector = summed(pairs)
    assert vector.cliques == (("a", "b"), ("a",))
    assert (vector["a", "b"] == first + other.T).all() and (vector["a",] == alone).all()


def test_tables_whose_three_axes_are_in_a_circle_add_up_cell_by_cell():
    """Of three axes, unlike of two, the order from one table to the other is not the way back."""
    first, other = np.arange(27.0).reshape(3, 3, 3), np.arange(27.0).reshape(3, 3, 3) ** 2
    vector = summed([(("a", "b", "c"), first), (("c", "a", "b"), other)])
    assert vector.cliques == (("a", "b", "c"),)
    for a, b, c in np.ndindex(3, 3, 3):
        assert vector["a", "b", "c"][a, b, c] == first[a, b, c] + other[c, a, b]
