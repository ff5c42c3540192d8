"""The calibrated tree: its tables are the model's marginals, its conditionals multiply to the joint."""

import numpy as np
import pytest

from pgmjax.inference.oracles.calibration import calibrate, summed
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import forecast
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.models import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("spread", [1.0, 400.0])
def test_tables_and_log_partition_are_those_of_the_joint(name, spread):
    structure = STRUCTURES[name]
    tables = models.potentials(structure, seed=3, spread=spread, zeros=0.2)
    logits = models.joint(structure, tables)
    found = calibrate(HostModel(Structure(*structure), tuple(tables)))
    assert found.log_partition == pytest.approx(models.log_partition(logits), rel=1e-13, abs=1e-12)
    product = np.ones(structure[0])
    for given, clique, table in zip(found.given, found.tree.cliques, found.tables, strict=True):
        np.testing.assert_allclose(table, models.marginal(logits, clique), rtol=0, atol=1e-12)
        order = np.argsort(clique)
        shape = [structure[0][v] if v in clique else 1 for v in range(len(structure[0]))]
        product = product * given.transpose(order).reshape(shape)
    everything = tuple(range(len(structure[0])))
    np.testing.assert_allclose(product, models.marginal(logits, everything), rtol=0, atol=1e-12)


def test_a_tree_that_does_not_fit_is_refused_as_a_whole(monkeypatch):
    """Every table alone would fit."""
    sizes = (100,) * 40
    cliques = tuple((i, i + 1) for i in range(39))
    host = HostModel(Structure(sizes, cliques), tuple(np.zeros((100, 100)) for _ in cliques))
    monkeypatch.setattr(forecast, "available_bytes", lambda: 24 * 30 * 10_000)
    with pytest.raises(forecast.ModelTooLargeError, match="junction tree"):
        calibrate(host)


def test_summed_keeps_the_order_asked_for():
    table = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(summed(table, (5, 6, 7), (7, 5)), table.sum(axis=1).T)
