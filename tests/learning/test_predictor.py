"""Predictions from released answers: sums of cells, weights by noise, bounds that hold."""

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning import Learner, Linear
from pgmjax.learning.encodings import CellWeights, Corners
from pgmjax.learning.predictor import Part, Predictor
from pgmjax.learning.training_set import TrainingSet, training_query
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.queries import Product, marginal, matrix, prefix, range, total

DOMAIN = Domain({"a": 6, "b": 3})
AB = ("a", "b")
COUNTS = np.random.default_rng(0).integers(0, 90, (6, 3))


def taught(queries, encoding=None, noise=0, distribution=None, clique=AB, learner=None):
    """A predictor trained on these queries' answers with the same noise on every one."""
    encoding = CellWeights() if encoding is None else encoding
    distribution = DiscreteLaplace(2.0) if distribution is None else distribution
    measured = []
    for query in queries:
        kept = [axis for axis, name in enumerate(AB) if name in query.clique]
        table = COUNTS.sum(axis=tuple({0, 1} - set(kept)))
        measured.append(
            LinearMeasurement.released(query, query.apply(table).reshape(-1) + noise, distribution)
        )
    training_set = TrainingSet.of(clique, queries, encoding, DOMAIN)
    part = Part.fit(training_set, measured, Linear() if learner is None else learner)
    return Predictor(DOMAIN, encoding, (part,))


def test_cells_add_up_to_any_query():
    predictor = taught([marginal(AB)])
    query = Product({"a": prefix(), "b": range(1, 2)})
    assert np.allclose(predictor.predict(query), query.apply(COUNTS).reshape(-1), atol=1e-8)
    two = predictor.predict([["b"], {"clique": ["b", "a"], "queries": {"a": "total"}}])
    assert [np.allclose(each, COUNTS.sum(axis=0), atol=1e-8) for each in two] == [True, True]


class OwnFit(Learner):
    name = "own"

    def fit(self, encodings, answers, *, weights=None, seed=0):
        return Linear().fit(encodings, answers, weights=weights)


def test_a_learner_may_have_only_a_fit_of_its_own():
    predictor = taught([marginal(AB)], learner=OwnFit())
    assert np.allclose(predictor.predict(marginal(("a",))), COUNTS.sum(axis=1), atol=1e-8)
    with pytest.raises(NotImplementedError, match="_learn"):
        Learner().fit([[1.0]], [1.0])


def test_overlapping_answers_are_least_squares():
    query = training_query("tree", AB, DOMAIN)
    noise = np.random.default_rng(1).integers(-9, 10, query.num_rows(DOMAIN))
    found = taught([query], noise=noise).predict(marginal(AB))
    rows = query.matrix(DOMAIN).astype(float)
    assert np.allclose(
        found, np.linalg.lstsq(rows, rows @ COUNTS.reshape(-1) + noise, rcond=None)[0], atol=1e-7
    )


def test_less_noise_weighs_more():
    training_set = TrainingSet.of(("b",), [marginal(("b",)), marginal(("b",))], CellWeights(), DOMAIN)
    distributions = [DiscreteGaussian(1.0), DiscreteGaussian(3.0)]
    measured = [
        LinearMeasurement.released(marginal(("b",)), [answer] * 3, distribution)
        for answer, distribution in zip((10, 20), distributions, strict=True)
    ]
    part = Part.fit(training_set, measured, Linear())
    precisions = np.array([1 / distribution.stddev**2 for distribution in distributions])
    found = Predictor(DOMAIN, CellWeights(), (part,)).predict(marginal(("b",)))
    assert np.allclose(found, precisions @ [10, 20] / precisions.sum())
    with pytest.raises(ValueError, match="different distributions"):
        Predictor(DOMAIN, CellWeights(), (part,)).half_widths(marginal(("b",)))


def test_scaled_queries_predict_the_same_and_are_bounded_the_same():
    one = taught([marginal(AB)], distribution=DiscreteLaplace(2.0))
    block = Product({"a": matrix(5 * np.eye(6, dtype=int)), "b": matrix(np.eye(3, dtype=int))})
    five = taught([block], distribution=DiscreteLaplace(10.0))
    query = Product({"a": range(0, 3), "b": total()})
    assert np.allclose(one.predict(query), five.predict(query))
    assert np.allclose(one.half_widths(query)[0], five.half_widths(query)[0])


def test_answers_of_scaled_queries_weigh_by_the_noise_of_one_unit():
    """Three counts x answered as x + e, and as 5 x + f with noise of one kind: least squares of both."""
    distribution, once, fivefold = DiscreteGaussian(3.0), np.array([10, 40, 25]), np.array([80, 190, 135])
    asked = [marginal(("b",)), Product({"b": matrix(5 * np.eye(3, dtype=int))})]
    training_set = TrainingSet.of(("b",), asked, CellWeights(), DOMAIN)
    answers = zip(asked, (once, fivefold), strict=True)
    part = Part.fit(
        training_set, [LinearMeasurement.released(*each, distribution) for each in answers], Linear()
    )
    found = Predictor(DOMAIN, CellWeights(), (part,)).predict(marginal(("b",)))
    rows = np.vstack([np.eye(3), 5 * np.eye(3)])
    assert np.allclose(found, np.linalg.lstsq(rows, np.concatenate([once, fivefold]), rcond=None)[0])


@pytest.mark.parametrize("distribution", [DiscreteLaplace(4.0), DiscreteGaussian(4.0)], ids=str)
def test_bounds_hold_for_noise_that_is_drawn(distribution):
    """20,000 draws; a bound that holds with 0.95 is broken in at most 5.7 % of them, 4.5 standard errors."""
    query, asked = training_query("tree", ("b",), DOMAIN), Product({"b": prefix()})
    predictor = taught([query], distribution=distribution, clique=("b",))
    bounds, determined = predictor.half_widths(asked, 0.05)
    assert determined.all()
    values = np.arange(-200, 201)
    chances = distribution.probabilities(values)
    rng = np.random.default_rng(3)
    noise = rng.choice(values, (20_000, query.num_rows(DOMAIN)), p=chances / chances.sum())
    influence = predictor.parts[0].influence(CellWeights().encode(asked, DOMAIN, ("b",)))
    assert ((np.abs(noise @ influence.T) > bounds).mean(axis=0) < 0.057).all()
    assert (bounds < 12 * distribution.stddev).all()


def test_what_the_training_leaves_open_is_said():
    predictor = taught([Product({"b": range(0, 1)})], clique=("b",))
    bounds, determined = predictor.half_widths(Product({"b": prefix()}))
    assert determined.tolist() == [False, True, False] and (bounds > 0).all()
    other = taught([Product({"b": prefix()})], encoding=Corners(), clique=("b",))
    assert not other.half_widths(Product({"b": prefix()}))[1].any()


def test_a_constant_is_no_influence():
    predictor = taught(
        [marginal(("b",)), Product({"b": prefix()})], clique=("b",), learner=Linear(intercept=True)
    )
    influence = predictor.parts[0].influence(CellWeights().encode(marginal(("b",)), DOMAIN, ("b",)))
    assert np.isfinite(influence).all() and influence.shape == (3, 6)


def test_the_smallest_learner_answers():
    parts = tuple(taught([marginal(clique)], clique=clique).parts[0] for clique in (AB, ("b",)))
    predictor = Predictor(DOMAIN, CellWeights(), parts)
    assert predictor._serving(marginal(("b",))) is parts[1]
    assert predictor._serving(marginal(("a",))) is parts[0]
    with pytest.raises(ValueError, match="no learner learned"):
        Predictor(DOMAIN, CellWeights(), parts[1:]).predict(marginal(("a",)))
    with pytest.raises(ValueError, match="'zip'"):
        predictor.predict(marginal(("zip",)))
    with pytest.raises(TypeError, match="expected a query"):
        predictor._serving("b")


def test_answers_of_another_number_are_refused():
    training_set = TrainingSet.of(("b",), [marginal(("b",))], CellWeights(), DOMAIN)
    with pytest.raises(ValueError, match="has 3 training queries, got 2 answers"):
        Part.fit(training_set, [LinearMeasurement(("d",), [1, 2], 1.0)], Linear())
