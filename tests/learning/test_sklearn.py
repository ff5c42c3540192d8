"""scikit-learn's regressors as learners."""

import json

import numpy as np
import pytest

from pgmjax.learning import NotDescribedError, SklearnLearner
from pgmjax.learning.learners import as_learner

RNG = np.random.default_rng(0)
ROWS = RNG.random((60, 2))
ANSWERS = 1000 + 500 * ROWS[:, 0] + 20 * RNG.normal(size=60)


def regressors():
    from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.neural_network import MLPRegressor
    from sklearn.svm import SVR
    from sklearn.tree import DecisionTreeRegressor

    return [
        LinearRegression(),
        Ridge(alpha=0.01),
        SVR(C=10.0),
        MLPRegressor(hidden_layer_sizes=(8,), solver="lbfgs", max_iter=200),
        BaggingRegressor(DecisionTreeRegressor(max_depth=4), n_estimators=5),
        GradientBoostingRegressor(n_estimators=20),
    ]


@pytest.mark.parametrize("number", range(6))
def test_regressors_of_every_kind_learn_and_are_written_down(number):
    estimator = regressors()[number]
    learner = as_learner(estimator)
    found = learner.fit(ROWS, ANSWERS, seed=3).predict(ROWS)
    assert np.abs(found - ANSWERS).mean() < 0.5 * np.abs(ANSWERS - ANSWERS.mean()).mean()
    assert not hasattr(estimator, "n_features_in_"), "the one given was changed"
    again = as_learner(json.loads(json.dumps(learner.to_dict())))
    assert np.array_equal(again.fit(ROWS, ANSWERS, seed=3).predict(ROWS), found)


def test_it_is_the_regressor_itself_on_scaled_numbers():
    from sklearn.svm import SVR

    rows = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
    targets = (ANSWERS - ANSWERS.mean()) / ANSWERS.std()
    expected = SVR().fit(rows, targets).predict(rows) * ANSWERS.std() + ANSWERS.mean()
    assert np.allclose(SklearnLearner("SVR").fit(ROWS, ANSWERS).predict(ROWS), expected)
    plain = SVR().fit(ROWS, ANSWERS).predict(ROWS)
    assert np.array_equal(SklearnLearner(SVR(), scaled=False).fit(ROWS, ANSWERS).predict(ROWS), plain)


def test_weights_reach_the_regressor_or_are_refused():
    weights = np.where(np.arange(60) < 30, 1.0, 1e-12)
    found = SklearnLearner("LinearRegression").fit(ROWS, ANSWERS, weights=weights).predict(ROWS)
    alone = SklearnLearner("LinearRegression").fit(ROWS[:30], ANSWERS[:30]).predict(ROWS)
    assert np.allclose(found, alone, rtol=1e-6)
    with pytest.raises(ValueError, match="takes no weights"):
        SklearnLearner("KNeighborsRegressor").fit(ROWS, ANSWERS, weights=weights)


def test_the_seed_makes_it_repeatable_and_one_that_is_set_stays():
    learner = as_learner("sklearn.RandomForestRegressor")
    first, other = (learner.fit(ROWS, ANSWERS, seed=seed).predict(ROWS) for seed in (1, 2))
    assert not np.array_equal(first, other)
    from sklearn.ensemble import RandomForestRegressor

    fixed = as_learner(RandomForestRegressor(random_state=9))
    first, other = (fixed.fit(ROWS, ANSWERS, seed=seed).predict(ROWS) for seed in (1, 2))
    assert np.array_equal(first, other)


class Own:
    """A regressor from elsewhere."""

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, rows, answers):
        self.mean = answers.mean()
        return self

    def predict(self, rows):
        return np.full(len(rows), self.mean)


def test_a_regressor_from_elsewhere_works_but_is_not_written_down():
    learner = as_learner(Own())
    assert np.allclose(learner.fit(ROWS, ANSWERS).predict(ROWS[:2]), ANSWERS.mean())
    with pytest.raises(NotDescribedError, match="Own is no regressor"):
        learner.to_dict()


def test_parameters_that_json_does_not_hold_are_not_written_down():
    from sklearn.svm import SVR

    with pytest.raises(NotDescribedError, match="cannot be written down"):
        SklearnLearner(SVR(kernel=np.dot)).to_dict()


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (Own, TypeError, "regressor with fit"),
        (3, TypeError, "regressor with fit"),
        ({"regressor": "SVR"}, ValueError, "is written as"),
        ({"regressor": "SVR", "parameters": {"nonsense": 1}}, ValueError, "nonsense"),
        ({"regressor": "os.system", "parameters": {}}, ValueError, "no regressor"),
    ],
)
def test_what_is_no_regressor_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        SklearnLearner(wrong)
