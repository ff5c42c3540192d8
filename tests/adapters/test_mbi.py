"""The adapters for mbi, on stand-ins with the fields of mbi 2.0.0, and on mbi itself where it is there."""

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.adapters import mbi
from pgmjax.adapters.mbi_objects import MbiCliqueVector, MbiDomain, MbiFactor

DOMAIN = MbiDomain(("a", "b", "c"), (3, 4, 2))
SIZES = DOMAIN.config
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
    names = DOMAIN.attributes
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


@pytest.mark.parametrize(
    "query, expected",
    [
        (lambda f: f.datavector()[1:], np.eye(12)[1:]),
        (lambda f: f.values.cumsum(axis=1).reshape(-1), np.kron(np.eye(3), np.tri(4))),
        (lambda f: 2 * f.project("b").datavector(), np.kron(np.full(3, 2.0), np.eye(4))),
        (lambda f: float(f.sum()), np.ones((1, 12))),
        (
            lambda f: f.transpose(("b", "a")).datavector(),
            np.eye(12).reshape(3, 4, 12).swapaxes(0, 1).reshape(12, 12),
        ),
    ],
    ids=["slice", "prefix", "project", "sum", "transpose"],
)
def test_other_queries_are_found_out_cell_by_cell(query, expected):
    values = expected @ marginal(("a", "b")).reshape(-1)
    _, (found,) = mbi.from_mbi(DOMAIN, [Measurement(values, ("a", "b"), 1.0, query)])
    found.validate(pj.Domain(SIZES))
    assert found.query.matrix(pj.Domain(SIZES)).tolist() == expected.tolist()


def test_a_function_that_is_the_identity_becomes_a_marginal():
    _, (found,) = mbi.from_mbi(DOMAIN, [Measurement(np.ones(4), ("b",), 1.0, lambda f: f.datavector() * 1)])
    assert found.query == pj.queries.marginal(("b",))


def test_weighted_cells_become_a_marginal_of_other_precisions():
    weights = np.array([1.0, 0.5, 2.0])
    given = Measurement(np.array([4.0, 3.0, 8.0]), ("a",), 2.0, WeightedQuery(weights))
    _, (found,) = mbi.from_mbi(DOMAIN, [given])
    assert found.query == pj.queries.marginal(("a",))
    assert found.flat_values().tolist() == [4, 6, 4] and found.row_stddevs().tolist() == [2, 4, 1]
    with_zero = Measurement(np.array([4.0, 0.0, 8.0]), ("a",), 2.0, WeightedQuery(np.array([1.0, 0.0, 2.0])))
    _, (found,) = mbi.from_mbi(DOMAIN, [with_zero])
    assert found.query.matrix(pj.Domain(SIZES)).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 2]]


def test_no_attributes_are_the_total():
    domain, found = mbi.from_mbi(
        DOMAIN, [Measurement([990.0], (), 5.0), Measurement([3.0], (), 1.0, lambda f: f.sum().values)]
    )
    assert pj.estimate_total(domain, found[:1]) == (990.0, 25.0)
    assert pj.estimate_total(domain, found[1:]) == (3.0, 1.0)


@pytest.mark.parametrize(
    "query, words",
    [
        (lambda f: f.datavector() + 1, "not linear"),
        (lambda f: f.datavector() ** 2, "not linear"),
        (lambda f: f.log().values, "cannot be asked"),
    ],
)
def test_queries_that_cannot_be_taken_over(query, words):
    with pytest.raises(ValueError, match=words):
        mbi.from_mbi(DOMAIN, [Measurement(np.ones(3), ("a",), 1.0, query)])


def test_a_function_over_too_many_cells_is_refused():
    wide = MbiDomain(("a",), (mbi.MOST_CELLS + 1,))
    with pytest.raises(ValueError, match="4,096"):
        mbi.from_mbi(wide, [Measurement(np.ones(2), ("a",), 1.0, lambda f: f.datavector()[:2])])


def test_objects_that_are_none_of_mbis():
    with pytest.raises(TypeError, match="stddev"):
        mbi.from_mbi(DOMAIN, [SimpleNamespace(noisy_measurement=[1.0], clique=("a",))])
    with pytest.raises(TypeError, match="attributes and shape"):
        mbi.from_mbi({"a": 2}, [])
    with pytest.raises(TypeError, match="give a list"):
        mbi.from_mbi(DOMAIN, Measurement(np.ones(3), ("a",)))
    with pytest.raises(TypeError, match="string"):
        mbi.from_mbi(MbiDomain((0, 1), (2, 2)), [])
    with pytest.raises(TypeError, match="clique vector"):
        mbi.model_from_mbi(object())
    with pytest.raises(TypeError, match="GraphicalModel"):
        mbi.to_mbi(object())
    with pytest.raises(TypeError, match="Constraint"):
        mbi.estimate(DOMAIN, [Measurement(np.ones(3), ("a",))], constraints=[object()])


def test_labels_of_a_domain():
    labels = ((np.int64(3), "x", True), (("y",), ("z", "w")))
    domain = mbi.domain_from_mbi(MbiDomain(("a", "b"), (3, 2), labels))
    assert domain.attribute("a").labels == (3, "x", True) and domain.attribute("b").labels is None


def test_an_estimate_is_the_estimators_fit():
    given = [Measurement(marginal(c), c, 2.0) for c in [("a", "b"), ("b", "c")]]
    fitted = mbi.estimate(DOMAIN, given, known_total=1000, estimator=EXACT)
    own = [pj.LinearMeasurement(m.clique, m.noisy_measurement, 2.0) for m in given]
    fit = EXACT.fit(pj.Domain(SIZES), own, 1000)
    assert fitted.domain is DOMAIN and fitted.total == 1000 and fitted.fit.status is fit.status
    for clique in itertools.chain.from_iterable(itertools.permutations("abc", size) for size in (1, 2, 3)):
        np.testing.assert_allclose(fitted.project(clique).values, fit.model.marginal(clique))
    np.testing.assert_allclose(fitted.project(("b", "a")).values, marginal(("b", "a")), atol=1e-3)
    estimated = mbi.estimate(DOMAIN, given, estimator=EXACT)
    assert estimated.total == pytest.approx(pj.estimate_total(pj.Domain(SIZES), own)[0])


def test_an_estimate_minimises_the_loss_alone_as_mbi_does():
    """Noisy one-way answers of much noise: the optimum has them, a model that is pulled has not."""
    given = [Measurement(np.array([3.0, 9.0]), ("a",), 50.0), Measurement(np.array([8.0, 4.0]), ("c",), 50.0)]
    given += [Measurement(np.array([[3.0, 0.0], [5.0, 4.0]]), ("a", "c"), 50.0)]
    shown = MbiDomain(("a", "c"), (2, 2))
    fitted = mbi.estimate(shown, given, 12)
    assert fitted.fit.regularisation is None
    np.testing.assert_allclose(fitted.project(("a", "c")).values, [[3, 0], [5, 4]], atol=0.1)


def test_a_warm_start_from_its_own_result_ends_at_once():
    given = [Measurement(marginal(c) + 3.0, c, 2.0) for c in [("a", "b"), ("b", "c")]]
    first = mbi.estimate(DOMAIN, given, 1000, iters=3000)
    for again in (
        mbi.estimate(DOMAIN, given, 1000, warm_start=first),
        mbi.estimate(DOMAIN, given, 1000, potentials=first.potentials),
    ):
        assert again.fit.steps <= first.fit.steps == 50  # the first starts in closed form, at the optimum
        np.testing.assert_allclose(
            again.project(tuple("abc")).values, first.project(tuple("abc")).values, atol=1
        )
    with pytest.raises(ValueError, match="not both"):
        mbi.estimate(DOMAIN, given, warm_start=first, potentials=first.potentials)


def test_constraints_are_impossible_cells():
    allowed = np.array([[0.0, -np.inf], [0.0, 0.0], [-np.inf, 0.0]])
    constraint = SimpleNamespace(potential=MbiFactor(DOMAIN.project(("a", "c")), allowed))
    given = [Measurement(marginal(c), c, 2.0) for c in [("a", "b"), ("b", "c")]]
    fitted = mbi.estimate(DOMAIN, given, 1000, [constraint])
    assert (fitted.project(("a", "c")).values == 0).tolist() == [[False, True], [False, False], [True, False]]
    assert fitted.constraints == (constraint,)


def test_a_model_answers_as_mbis_do():
    model = some_model()
    shown = mbi.to_mbi(model)
    truth = model.marginal(("a", "b", "c"))
    assert shown.total == 500 and set(shown.cliques) == {("a", "b"), ("c", "b")}
    assert shown.project("b").datavector().tolist() == pytest.approx(truth.sum((0, 2)))
    assert shown.project(("c", "a")).datavector().shape == (6,)
    assert shown.project(()).datavector(flatten=False) == 500 and float(shown.project(())) == 500
    assert shown.supports(("a", "c")) and not shown.supports("z")
    assert shown.domain.size() == 24 and shown.domain.labels[0] == (0, 1, 2)
    marginals, potentials = shown.marginals, shown.potentials
    np.testing.assert_allclose(marginals.project(("b", "a")).values, truth.sum(2).T)
    np.testing.assert_allclose(marginals["c", "b"].sum(("b",)).values, truth.sum((0, 1)))
    assert not marginals.supports(("a", "c")) and potentials.size() == 20
    with pytest.raises(ValueError, match="no clique"):
        marginals.project(("a", "c"))
    with pytest.raises(ValueError, match="sum it first"):
        float(shown.project("a"))


def test_potentials_lead_back_to_the_model():
    model = some_model()
    for back in (mbi.model_from_mbi(mbi.to_mbi(model).potentials), mbi.model_from_mbi(mbi.to_mbi(model))):
        np.testing.assert_allclose(
            back.marginal(tuple("abc")) / back.total, model.marginal(tuple("abc")) / 500
        )
    labelled = pj.Domain({**SIZES, "c": {"labels": ["x", "y"]}})
    assert mbi.model_from_mbi(model, labelled).condition({"c": "y"}).total == pytest.approx(
        model.marginal(("c",))[1]
    )


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_a_factor_may_have_its_axes_in_another_order_than_its_clique(order):
    weights = joint()  # a cell of a table over all attributes is the exponential of its potential
    logs = np.log(weights).transpose([DOMAIN.attributes.index(name) for name in order])
    factor = MbiFactor(DOMAIN.project(order), logs)
    found = mbi.model_from_mbi(MbiCliqueVector(DOMAIN, (("c", "a", "b"),), {("c", "a", "b"): factor}))
    np.testing.assert_allclose(found.marginal(("a", "b", "c")), weights / weights.sum())


@pytest.mark.parametrize("method", ["round", "sample"])
def test_synthetic_data(method):
    shown = mbi.to_mbi(some_model())
    rows = shown.synthetic_data(4000, method)
    assert rows.records == 4000 and set(rows.to_dict()) == set("abc")
    counts = rows.project(("a", "b")).values
    most = 2.0 if method == "round" else 5 * np.sqrt(shown.project(("a", "b")).values.max() * 8)
    assert np.abs(counts - 8 * shown.project(("a", "b")).values).max() < most
    frame = rows.df
    assert list(frame.columns) == ["a", "b", "c"] and len(frame) == 4000
    assert frame["b"].value_counts().sort_index().tolist() == rows.project("b").datavector().tolist()
    assert rows.datavector().sum() == 4000 == rows.weights.sum()
    assert shown.synthetic_data().records == 500


def test_a_domain_answers_as_mbis_does():
    assert MbiDomain.fromdict(SIZES) == DOMAIN and DOMAIN.config == SIZES
    assert DOMAIN.marginalize("b").attributes == ("a", "c") and DOMAIN.canonical(["c", "a"]) == ("a", "c")
    assert DOMAIN["b"] == 4 and "b" in DOMAIN and list(DOMAIN) == ["a", "b", "c"] and len(DOMAIN) == 3
    assert DOMAIN.contains(DOMAIN.project("c")) and DOMAIN.size(("b", "c")) == 8


# with mbi itself, wherever it is installed


@pytest.fixture
def real():
    return pytest.importorskip("mbi")


def test_with_mbi_itself_there_and_back(real):
    domain = real.Domain.fromdict(SIZES)
    rng = np.random.default_rng(2)
    cliques = [("a", "b"), ("c", "b")]
    given = [
        real.LinearMeasurement(marginal(c).reshape(-1) + rng.normal(size=DOMAIN.size(c)), c, 1.0)
        for c in cliques
    ]
    own = mbi.estimate(domain, given, 1000, estimator=EXACT)
    other = mbi.estimate(domain, given, 1000, estimator=EXACT, mbi_module=real)
    assert isinstance(other, real.MarkovRandomField)
    for clique in [("a",), ("b", "a"), ("c", "a"), ("a", "b", "c")]:
        table = np.asarray(other.project(clique).values)
        np.testing.assert_allclose(table, own.project(clique).values, atol=0.01)
    again = mbi.estimate(domain, given, 1000, warm_start=other)
    assert again.fit.steps < own.fit.steps
    np.testing.assert_allclose(
        mbi.model_from_mbi(other).marginal(tuple("abc")), own.model.marginal(tuple("abc")), atol=0.01
    )
    assert other.synthetic_data(300).project(("a",)).datavector().sum() == 300


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


def test_a_domain_of_two_fields_will_do_and_wrong_ones_are_named():
    domain = SimpleNamespace(attributes=("a", "b"), shape=(2, 3))
    given = SimpleNamespace(noisy_measurement=np.arange(6.0) + 1, clique=("b", "a"), stddev=1.0)
    table = mbi.estimate(domain, [given], 21, estimator=EXACT).project(("a", "b")).values
    np.testing.assert_allclose(table, (np.arange(6.0) + 1).reshape(3, 2).T, atol=0.05)
    with pytest.raises(ValueError, match="2 attributes, 1 sizes"):
        mbi.domain_from_mbi(SimpleNamespace(attributes=("a", "b"), shape=(2,)))
    for stddev in ([1.0, 2.0], None, "x"):
        given.stddev = stddev
        with pytest.raises(TypeError, match="stddev must be one number"):
            mbi.from_mbi(domain, [given])
