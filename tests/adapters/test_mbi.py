"""The adapters for mbi: with objects of the same fields, and with mbi itself where it is installed."""

import dataclasses
import itertools
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.adapters import mbi

SIZES = {"a": 3, "b": 4, "c": 2}
DOMAIN = SimpleNamespace(attributes=tuple(SIZES), shape=tuple(SIZES.values()))
EXACT = pj.Estimator(regularisation="none", max_steps=5000, tol=1e-9, dtype="float64", progress=False)


@dataclasses.dataclass
class Measurement:
    """As mbi 2.0.0's, but for the default query."""

    noisy_measurement: Any
    clique: tuple[str, ...]
    stddev: float = 1.0
    query: Any = None


@dataclasses.dataclass
class WeightedQuery:
    weights: np.ndarray

    def __call__(self, factor):
        return factor.datavector() * self.weights


def joint():
    return np.random.default_rng(0).dirichlet(np.ones(24)).reshape(3, 4, 2) * 1000


def marginal(clique):
    names = tuple(SIZES)
    summed = joint().sum(axis=tuple(i for i, name in enumerate(names) if name not in clique))
    kept = [name for name in names if name in clique]
    return summed.transpose([kept.index(name) for name in clique])


def some_model(domain=None):
    rng = np.random.default_rng(1)
    domain = pj.Domain(SIZES) if domain is None else domain
    potentials = {c: rng.normal(size=domain.shape_of(c)) for c in [("a", "b"), ("c", "b")]}
    return pj.GraphicalModel.from_potentials(domain, potentials, 500)


def test_marginals_are_taken_over_as_they_are():
    given = [Measurement(marginal(c), c, 2.5) for c in [("b", "a"), ("c",)]]
    domain, found = mbi.from_mbi(DOMAIN, given)
    assert domain == pj.Domain(SIZES)
    for each, own in zip(given, found, strict=True):
        own.validate(domain)
        assert own.clique == each.clique and own.query == pj.queries.marginal(each.clique)
        assert own.flat_values().tolist() == each.noisy_measurement.reshape(-1).tolist()
        assert own.stddev == 2.5 and own.noise == "gaussian"
    assert mbi.from_mbi(DOMAIN, given, noise="laplace")[1][0].noise == "laplace"


def test_weighted_cells_become_a_marginal_of_other_precisions():
    given = Measurement(np.array([4.0, 3.0, 8.0]), ("a",), 2.0, WeightedQuery(np.array([1.0, 0.5, 2.0])))
    _, (found,) = mbi.from_mbi(DOMAIN, [given])
    assert found.query == pj.queries.marginal(("a",))
    assert found.flat_values().tolist() == [4, 6, 4] and found.row_stddevs().tolist() == [2, 4, 1]


def test_no_attributes_are_the_total():
    domain, found = mbi.from_mbi(DOMAIN, [Measurement([990.0], (), 5.0)])
    assert pj.estimate_total(domain, found) == (990.0, 25.0)


def test_a_function_over_too_many_cells_is_refused():
    wide = SimpleNamespace(attributes=("a",), shape=(mbi.MOST_CELLS + 1,))
    with pytest.raises(ValueError, match="4,096"):
        mbi.from_mbi(wide, [Measurement(np.ones(2), ("a",), 1.0, lambda f: f.datavector()[:2])])


def test_objects_that_are_none_of_mbis():
    with pytest.raises(TypeError, match="stddev"):
        mbi.from_mbi(DOMAIN, [SimpleNamespace(noisy_measurement=[1.0], clique=("a",))])
    with pytest.raises(TypeError, match="attributes and shape"):
        mbi.from_mbi(SimpleNamespace(), [])
    with pytest.raises(TypeError, match=r"name.*int"):
        mbi.from_mbi(SimpleNamespace(attributes=(0, 1), shape=(2, 2)), [])
    with pytest.raises(TypeError, match="clique vector"):
        mbi.model_from_mbi(object())
    with pytest.raises(TypeError, match="GraphicalModel"):
        mbi.to_mbi(object())
    with pytest.raises(ValueError, match="2 attributes, 1 sizes"):
        mbi.domain_from_mbi(SimpleNamespace(attributes=("a", "b"), shape=(2,)))
    for stddev in ([1.0, 2.0], None, "x"):
        with pytest.raises(TypeError, match="stddev must be one number"):
            mbi.from_mbi(DOMAIN, [SimpleNamespace(noisy_measurement=[1.0], clique=("a",), stddev=stddev)])


def test_labels_of_a_domain():
    labels = ((np.int64(3), "x", True), (("y",), ("z", "w")))
    domain = mbi.domain_from_mbi(SimpleNamespace(attributes=("a", "b"), shape=(3, 2), labels=labels))
    assert domain.attribute("a").labels == (3, "x", True) and domain.attribute("b").labels is None


def test_without_mbi_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    for act in (
        lambda: mbi.to_mbi(some_model()),
        lambda: mbi.from_mbi(DOMAIN, [Measurement([1.0], ("a",), 1.0, lambda f: f.datavector()[:1])]),
    ):
        with pytest.raises(ImportError, match="pip install mbi"):
            act()


# with mbi itself, wherever it is installed


@pytest.fixture
def real():
    return pytest.importorskip("mbi")


def asked(real, query, values, clique=("a", "b")):
    """The query, found out, of a measurement of mbi."""
    _, (found,) = mbi.from_mbi(real.Domain.fromdict(SIZES), [Measurement(values, clique, 1.0, query)])
    found.validate(pj.Domain(SIZES))
    return found.query


@pytest.mark.parametrize(
    "query, expected",
    [
        (lambda f: f.datavector()[1:], np.eye(12)[1:]),
        (lambda f: f.values.cumsum(axis=1).reshape(-1), np.kron(np.eye(3), np.tri(4))),
        (lambda f: 2 * f.project("b").datavector(), np.kron(np.full(3, 2.0), np.eye(4))),
        (lambda f: float(f.sum().values), np.ones((1, 12))),
        (
            lambda f: f.transpose(("b", "a")).datavector(),
            np.eye(12).reshape(3, 4, 12).swapaxes(0, 1).reshape(12, 12),
        ),
    ],
    ids=["slice", "prefix", "project", "sum", "transpose"],
)
def test_other_queries_are_found_out_cell_by_cell(real, query, expected):
    found = asked(real, query, expected @ marginal(("a", "b")).reshape(-1))
    assert found.matrix(pj.Domain(SIZES)).tolist() == expected.tolist()


def test_queries_that_are_or_hold_the_identity(real):
    assert asked(real, lambda f: f.datavector() * 1, np.ones(4), ("b",)) == pj.queries.marginal(("b",))
    with_zero = asked(real, WeightedQuery(np.array([1.0, 0.0, 2.0])), np.ones(3), ("a",))
    assert with_zero.matrix(pj.Domain(SIZES)).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 2]]
    domain = real.Domain.fromdict(SIZES)
    own, found = mbi.from_mbi(domain, [Measurement([3.0], (), 1.0, lambda f: 2 * f.datavector())])
    assert pj.estimate_total(own, found)[0] == 1.5


@pytest.mark.parametrize(
    "query, words",
    [
        (lambda f: f.datavector() + 1, "not linear"),
        (lambda f: f.datavector() ** 2, "not linear"),
        (lambda f: f.nothing().values, "cannot be asked"),
    ],
)
def test_queries_that_cannot_be_taken_over(real, query, words):
    with pytest.raises(ValueError, match=words):
        asked(real, query, np.ones(3), ("a",))


def test_an_estimate_is_the_estimators_fit(real):
    domain = real.Domain.fromdict(SIZES)
    given = [real.LinearMeasurement(marginal(c).reshape(-1), c, 2.0) for c in [("a", "b"), ("b", "c")]]
    fitted = mbi.estimate(domain, given, known_total=1000, estimator=EXACT)
    assert isinstance(fitted, real.MarkovRandomField) and fitted.total == 1000
    own = [pj.LinearMeasurement(m.clique, m.noisy_measurement, 2.0) for m in given]
    fit = EXACT.fit(pj.Domain(SIZES), own, 1000)
    for clique in itertools.chain.from_iterable(itertools.permutations("abc", size) for size in (1, 2, 3)):
        table = np.asarray(fitted.project(clique).values)
        np.testing.assert_allclose(table, fit.model.marginal(clique), atol=0.01)
    estimated = mbi.estimate(domain, given, estimator=EXACT)
    assert estimated.total == pytest.approx(pj.estimate_total(pj.Domain(SIZES), own)[0])
    assert fitted.synthetic_data(300).project(("a",)).datavector().sum() == 300


def test_an_estimate_minimises_the_loss_alone_as_mbi_does(real):
    """Noisy one-way answers of much noise: the optimum has them, a model that is pulled has not."""
    given = [Measurement(np.array([3.0, 9.0]), ("a",), 50.0), Measurement(np.array([8.0, 4.0]), ("c",), 50.0)]
    given += [Measurement(np.array([[3.0, 0.0], [5.0, 4.0]]), ("a", "c"), 50.0)]
    fitted = mbi.estimate(real.Domain(("a", "c"), (2, 2)), given, 12)
    np.testing.assert_allclose(np.asarray(fitted.project(("a", "c")).values), [[3, 0], [5, 4]], atol=0.1)


def test_warm_starts_and_constraints(real):
    domain = real.Domain.fromdict(SIZES)
    given = [Measurement(marginal(c) + 3.0, c, 2.0) for c in [("a", "b"), ("b", "c")]]
    first = mbi.estimate(domain, given, 1000, iters=3000)
    whole = np.asarray(first.project(tuple("abc")).values)
    for start in ({"warm_start": first}, {"potentials": first.potentials}):
        again = mbi.estimate(domain, given, 1000, iters=50, **start)
        np.testing.assert_allclose(np.asarray(again.project(tuple("abc")).values), whole, atol=1)
    with pytest.raises(ValueError, match="not both"):
        mbi.estimate(domain, given, warm_start=first, potentials=first.potentials)
    with pytest.raises(TypeError, match="Constraint"):
        mbi.estimate(domain, given, constraints=[object()])
    allowed = np.array([[0.0, -np.inf], [0.0, 0.0], [-np.inf, 0.0]])
    constraint = SimpleNamespace(potential=real.Factor(domain.project(("a", "c")), allowed))
    held = mbi.estimate(domain, given, 1000, [constraint])
    assert held.constraints == (constraint,)
    table = np.asarray(held.project(("a", "c")).values)
    assert (table < 1e-6).tolist() == [[False, True], [False, False], [True, False]]


def test_a_model_there_and_back(real):
    model = some_model()
    other = mbi.to_mbi(model)
    assert other.total == 500 and set(other.potentials.cliques) == {("a", "b"), ("c", "b")}
    for clique in [("a",), ("b", "a"), ("c", "a"), ("a", "b", "c")]:
        table = np.asarray(other.project(clique).values)
        np.testing.assert_allclose(table, model.marginal(clique), rtol=1e-4)
    back = mbi.model_from_mbi(other)
    np.testing.assert_allclose(back.marginal(tuple("abc")), model.marginal(tuple("abc")), rtol=1e-4)
    unit = mbi.model_from_mbi(other.potentials)
    np.testing.assert_allclose(unit.marginal(("a",)), model.marginal(("a",)) / 500, rtol=1e-4)
    labelled = pj.Domain({**SIZES, "c": {"labels": ["x", "y"]}})
    assert mbi.model_from_mbi(model, labelled).condition({"c": "y"}).total == pytest.approx(
        model.marginal(("c",))[1]
    )


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_a_factor_may_have_its_axes_in_another_order_than_its_clique(real, order):
    weights = joint()  # a cell of a table over all attributes is the exponential of its potential
    domain = real.Domain.fromdict(SIZES)
    factor = real.Factor(domain.project(order), np.log(weights).transpose(["abc".index(n) for n in order]))
    clique = ("c", "a", "b")
    given = type("Vector", (), {"cliques": (clique,), "domain": domain, "__getitem__": lambda s, c: factor})()
    found = mbi.model_from_mbi(given)
    np.testing.assert_allclose(found.marginal(("a", "b", "c")), weights / weights.sum(), rtol=1e-5)


def test_with_mbis_own_queries(real):
    if not hasattr(real, "SlicedQuery"):
        pytest.skip("mbi before 2.0")
    domain = real.Domain.fromdict(SIZES)
    values = marginal(("a", "b")).reshape(-1)
    plain = real.LinearMeasurement(values, ("a", "b"), 2.0)
    merged = plain.compress({"b": np.array([0, 1, 1, 2])}, domain)
    small = real.Domain.fromdict({**SIZES, "b": 3})
    _, (found,) = mbi.from_mbi(small, [merged])
    assert found.query == pj.queries.marginal(("a", "b"))
    summed = marginal(("a", "b")) @ np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(found.flat_values(), summed.reshape(-1), rtol=1e-6)
    np.testing.assert_allclose(
        found.row_stddevs().reshape(3, 3), np.full((3, 3), 2.0) * np.sqrt([1, 2, 1]), rtol=1e-6
    )
    sliced = real.LinearMeasurement(values[1:], ("a", "b"), 2.0, query=real.SlicedQuery(1))
    _, (kept, cut) = mbi.from_mbi(domain, [plain, sliced])
    assert kept.query == pj.queries.marginal(("a", "b"))
    assert cut.query.matrix(pj.Domain(SIZES)).tolist() == np.eye(12)[1:].tolist()
