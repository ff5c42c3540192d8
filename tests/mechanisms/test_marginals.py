"""The plain mechanism measures what it says with the noise it says."""

import json
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from pgmjax import queries
from pgmjax._internal.device import DeviceError
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.estimation.solvers import loop
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.mechanisms import Marginals
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
RNG = np.random.default_rng(5)
COLUMNS = {name: RNG.integers(0, size, 500) for name, size in DOMAIN.sizes.items()}
DATA = Dataset.from_columns(DOMAIN, COLUMNS)
WORKLOAD = Workload.of_marginals([("a", "b"), ("b", "c"), ("c", "a")])


def weighted_workload(tmp_path):
    path = tmp_path / "w.json"
    prefix = {"clique": ["c"], "queries": {"c": "prefix"}, "weight": 0.5}
    path.write_text(json.dumps([{"clique": ["a", "b"], "weight": 2.0}, ["c"], prefix]))
    return Workload.read(path)


def make(**settings):
    settings = {
        "epsilon": 1,
        "relation": Relation.ADD_REMOVE,
        "backend": SeededBackend(0, insecure=True),
    } | settings
    return Marginals(**settings)


@pytest.mark.parametrize("relation, factor", [(Relation.ADD_REMOVE, 1), (Relation.REPLACE_ONE, 2)])
def test_equal_split_of_a_pure_budget(relation, factor):
    release = make(relation=relation).run(DATA, WORKLOAD)
    assert release.spent.to_dict() == {"epsilon": "1", "delta": "0"}
    for measurement in release.measurements:
        assert measurement.noise == "laplace"
        assert float(measurement.stddev) == pytest.approx(DiscreteLaplace(3.0 * factor).stddev, rel=1e-14)
    assert [m.clique for m in release.measurements] == [e.query.clique for e in WORKLOAD.entries]


@pytest.mark.parametrize("relation, factor", [(Relation.ADD_REMOVE, 1), (Relation.REPLACE_ONE, math.sqrt(2))])
def test_equal_split_of_an_approximate_budget(relation, factor):
    release = make(relation=relation, delta="1e-9").run(DATA, WORKLOAD)
    rho = zcdp.rho_for(1, "1e-9")
    assert release.spent.rho == rho and release.spent.delta == Fraction(1, 10**9)
    sigma = factor * math.sqrt(3 / (2 * rho))
    for measurement in release.measurements:
        assert measurement.noise == "gaussian"
        assert float(measurement.stddev) == pytest.approx(DiscreteGaussian(sigma).stddev, rel=1e-14)


def test_weighted_split_is_in_proportion_to_weights(tmp_path):
    release = make(split="weighted", epsilon=7).run(DATA, weighted_workload(tmp_path))
    # epsilons 4, 2 and 1; the prefix query of four rows has L1 sensitivity 4
    scales = [0.25, 0.5, 4.0]
    stddevs = [float(measurement.stddev) for measurement in release.measurements]
    assert stddevs == pytest.approx([DiscreteLaplace(scale).stddev for scale in scales], rel=1e-14)
    assert release.spent.epsilon == 7


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match=r"split.*'equal'.*'weighted'.*'optimal'"):
        make(split="optimal")


def test_little_noise_gives_the_truth():
    release = make(epsilon=60).run(DATA, WORKLOAD)
    truth = np.zeros(DOMAIN.shape_of(("a", "b")))
    np.add.at(truth, (COLUMNS["a"], COLUMNS["b"]), 1)
    np.testing.assert_allclose(release.model.marginal(("a", "b")), truth, atol=0.5)


def test_the_public_count_is_the_total_where_records_are_replaced():
    assert make(relation=Relation.REPLACE_ONE, epsilon="0.01").run(DATA, WORKLOAD).model.total == 500
    total = make(epsilon="0.01").run(DATA, WORKLOAD).model.total
    assert total != 500 and total > 0


def test_a_weighted_table_has_its_total_estimated():
    data = Dataset.from_columns(DOMAIN, COLUMNS, weights=np.ones(500, int), max_weight=3)
    release = make(relation=Relation.REPLACE_ONE, epsilon="0.1").run(data, WORKLOAD)
    assert release.model.total != 500
    assert float(release.measurements[0].stddev) == pytest.approx(DiscreteLaplace(180.0).stddev, rel=1e-14)


def test_a_workload_that_cannot_tell_the_total_spends_nothing(monkeypatch):
    """Differences of counts say nothing about how many records there are."""
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    difference = queries.DenseMatrix(("b",), np.array([[1, -1]]))
    with pytest.raises(ValueError, match=r"records.*\['a'\]"):
        make().run(DATA, Workload([difference]))


def test_a_total_weight_that_cannot_be_told_is_named(monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    data = Dataset.from_columns(DOMAIN, COLUMNS, weights=np.ones(500, int), max_weight=3)
    difference = queries.DenseMatrix(("b",), np.array([[1, -1]]))
    with pytest.raises(ValueError, match=r"weight.*\['a'\]"):
        make(relation=Relation.REPLACE_ONE).run(data, Workload([difference]))


def test_the_estimator_is_the_one_given():
    release = make(estimator=Estimator(max_steps=3)).run(DATA, WORKLOAD)
    assert release.fit.steps <= 3


def test_answers_that_were_paid_for_survive_a_failed_fit():
    """Dual averaging wants a constant that a custom loss does not know: found out after the spend."""
    estimator = Estimator(
        loss=lambda marginals: sum((m**2).sum() for m in marginals.values()), solver="dual_averaging"
    )
    with pytest.raises(FitError, match="after the budget was spent") as caught:
        make(estimator=estimator).run(DATA, WORKLOAD)
    assert [m.clique for m in caught.value.measurements] == [e.clique for e in WORKLOAD.entries]
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "UNAVAILABLE"])
def test_answers_that_were_paid_for_survive_a_device_that_fails(code, monkeypatch):
    """In the second block of steps."""
    block, calls = loop._block, []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise jax.errors.JaxRuntimeError(f"{code}: as XLA says it")
        return block(*arguments)

    monkeypatch.setattr(loop, "_block", failing)
    estimator = Estimator(oracle="contraction", regularisation="none", tol=1e-12)
    with pytest.raises(FitError, match="after the budget was spent: The device") as caught:
        make(estimator=estimator).run(DATA, WORKLOAD)
    assert len(calls) == 2 and isinstance(caught.value.__cause__, DeviceError)
    monkeypatch.setattr(loop, "_block", block)
    again = Estimator().fit(DOMAIN, caught.value.measurements)
    expected = make().run(DATA, WORKLOAD).fit
    np.testing.assert_array_equal(again.model.marginal(("a", "b")), expected.model.marginal(("a", "b")))
