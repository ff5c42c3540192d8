"""Log-space tables against closed forms."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference import ops
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp, logsumexp


def test_align_and_project():
    table = np.arange(6.0).reshape(2, 3)
    assert ops.align(table, (7, 2), (2, 5, 7)).shape == (3, 1, 2)
    assert ops.project(table, (7, 2), (2,), lambda t, axes: t.sum(axis=axes)).tolist() == [3.0, 5.0, 7.0]


def test_recentred_keeps_the_sum():
    for table in (np.array([1.0, 5.0]), jnp.array([1.0, 5.0])):
        rest, top = ops.recentred(table)
        assert float(np.max(rest)) == 0 and (np.asarray(rest + top) == [1.0, 5.0]).all()
    assert ops.recentred(np.array([-np.inf]))[1] == 0


@pytest.mark.parametrize("output", [(), (0,), (3, 1)])
def test_a_contraction_sums_the_product_of_all_tables(output):
    """On the host and on the device, against a loop over all joint states; no step's scale is lost."""
    sizes, cliques = (2, 3, 2, 4), ((0, 1), (1, 2), (2, 3), (3,))
    rng = np.random.default_rng(0)
    tables = [30 * rng.normal(size=[sizes[v] for v in clique]) + 100 for clique in cliques]
    expected = np.full([sizes[v] for v in output], -np.inf)
    for state in itertools.product(*map(range, sizes)):
        value = sum(t[tuple(state[v] for v in c)] for t, c in zip(tables, cliques, strict=True))
        place = tuple(state[v] for v in output)
        expected[place] = np.logaddexp(expected[place], value)
    path = contraction.plan(Structure(sizes, cliques), output)
    assert len(path.steps) > 1
    for given, reduce in ((tables, host_logsumexp), ([jnp.asarray(t) for t in tables], logsumexp)):
        found, scale = ops.contract(path, given, reduce)
        np.testing.assert_allclose(np.asarray(found) + np.asarray(scale), expected, rtol=1e-5)
