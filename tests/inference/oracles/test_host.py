"""The host's one-off inference against brute force."""

import numpy as np
import pytest

from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.models import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES)
def test_buckets_multiply_to_the_distribution(name):
    """The conditionals read backwards give the joint probability of every cell."""
    structure = STRUCTURES[name]
    tables = models.potentials(structure, zeros=0.2)
    host = HostModel(Structure(*structure), tuple(tables))
    logits = models.joint(structure, tables)
    cells = np.indices(structure[0]).reshape(len(structure[0]), -1)
    log_probability = np.zeros(cells.shape[1])
    with np.errstate(invalid="ignore"):
        for bucket in reversed(host.buckets()):
            weights = bucket.log_weights({v: cells[v] for v in bucket.parents})
            weights = np.broadcast_to(weights, (cells.shape[1], weights.shape[1]))
            norm = np.logaddexp.reduce(weights, axis=1)
            value = weights[np.arange(cells.shape[1]), cells[bucket.variable]] - norm
            log_probability += np.where(np.isnan(value), -np.inf, value)
    expected = models.marginal(logits, tuple(range(len(structure[0])))).ravel()
    np.testing.assert_allclose(np.exp(log_probability), expected, atol=1e-13)


def test_extra_tables_add_variables():
    structure = STRUCTURES["chain"]
    tables = models.potentials(structure)
    host = HostModel(Structure(*structure), tuple(tables))
    compress = np.array([[1, 1, 0], [0, 0, 1.0]])
    with np.errstate(divide="ignore"):
        found = host.log_sum((4, 3), [(np.log(compress), (4, 0))])
    expected = compress @ models.marginal(models.joint(structure, tables), (0, 3))
    np.testing.assert_allclose(np.exp(found - host.log_partition), expected, atol=1e-13)
