"""Log-space tables against closed forms."""

import jax.numpy as jnp
import numpy as np

from pgmjax.inference import ops


def test_align_and_project():
    table = np.arange(6.0).reshape(2, 3)
    assert ops.align(table, (7, 2), (2, 5, 7)).shape == (3, 1, 2)
    assert ops.project(table, (7, 2), (2,), lambda t, axes: t.sum(axis=axes)).tolist() == [3.0, 5.0, 7.0]


def test_recentred_keeps_the_sum():
    for table in (np.array([1.0, 5.0]), jnp.array([1.0, 5.0])):
        rest, top = ops.recentred(table)
        assert float(np.max(rest)) == 0 and (np.asarray(rest + top) == [1.0, 5.0]).all()
    assert ops.recentred(np.array([-np.inf]))[1] == 0
