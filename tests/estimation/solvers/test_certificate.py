"""Final points of many fits evaluated in one program: those that each gets alone, on the host."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation import losses
from pgmjax.estimation.solvers import batch, loop
from pgmjax.estimation.solvers.loop import CertificateRequest
from pgmjax.estimation.solvers.objective import Objective
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.plan.structure import Structure

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"))
STRUCTURE = Structure((3, 4, 2), ((0, 1), (1, 2)))


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["path", "fast"])
@dataclasses.dataclass(frozen=True)
class Rough(Contraction):
    """An oracle that is wrong in its fast form, and says so, where one cell has most of the probability."""

    def infer_flat_with_error(self, potentials):
        log_partition, marginals, error_bound = Contraction(self.path).infer_flat_with_error(potentials)
        wrong = self.fast & (jnp.max(marginals) > 0.5)
        return log_partition, jnp.where(wrong, 1.0, marginals), jnp.where(wrong, 1.0, error_bound)


def requests(seeds, name="l2"):
    """Points with most of the probability on one cell for odd seeds."""
    oracle = Rough(Contraction.build(STRUCTURE).path, fast=True)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        measured = [pj.LinearMeasurement(c, rng.normal(50, 20, DOMAIN.shape_of(c)), 3.0) for c in CLIQUES]
        measured.append(pj.LinearMeasurement(("b", "a"), rng.normal(50, 9, (4, 3)), 2.0, {"b": "prefix"}))
        loss = losses.build(name, DOMAIN, measured, 500.0 + seed, "float64")
        potentials = rng.normal(size=20)
        potentials[1] += 9 * (seed % 2)
        yield CertificateRequest(Objective.build(oracle, loss, np.asarray(loss.lipschitz())), potentials)


@pytest.mark.parametrize("name", ["l1", "l2"])
@pytest.mark.parametrize("seeds", [(0, 2), (1, 3), (0, 1, 2, 3, 4)])
def test_rows_together_are_rows_alone(name, seeds):
    asked = list(requests(seeds, name))
    for request, (point, gap) in zip(asked, batch.evaluate_rows(asked, 5), strict=True):
        expected, bound = loop.evaluate(request)  # by NumPy
        assert gap == pytest.approx(bound, rel=1e-10)
        for found, wanted in zip(jax.tree.leaves(point), jax.tree.leaves(expected), strict=True):
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)
