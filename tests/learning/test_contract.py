"""What every learner keeps: batches row by row, files, shapes, refusals."""

import json

import numpy as np
import pytest

from pgmjax.learning import MLP, NotDescribedError, SklearnLearner
from pgmjax.learning.base import restored
from pgmjax.learning.learners import LEARNERS, as_learner

SMALL = {
    "mlp": MLP(hidden=(8,), epochs=5, batch_size=7),
    "sklearn": "sklearn.DecisionTreeRegressor",
}
CHOSEN = [as_learner(SMALL.get(name, name)) for name in LEARNERS]
BY_NAME = pytest.mark.parametrize("learner", CHOSEN, ids=list(LEARNERS))

ROWS = np.tril(np.ones((12, 6), int))[np.arange(12) % 6] + 0.0
ROWS[6:, 0] = 0
ANSWERS = np.random.default_rng(0).normal(50, 20, (3, 12))
FRESH = np.eye(6)[:4]


@BY_NAME
def test_a_row_of_a_batch_learns_what_it_learns_alone(learner):
    together = learner.fit(ROWS, ANSWERS, seed=3).predict(FRESH)
    assert together.shape == (3, 4) and together.dtype == np.float64
    for row, answers in zip(together, ANSWERS, strict=True):
        alone = learner.fit(ROWS, answers, seed=3).predict(FRESH)
        assert alone.shape == (4,)
        # the engine's fits stop at a gap, and a network computes in float32
        assert np.allclose(row, alone, rtol=1e-4, atol=0.05)


@BY_NAME
def test_the_same_seed_learns_the_same(learner):
    first, second = (learner.fit(ROWS, ANSWERS[0], seed=5).predict(FRESH) for _ in range(2))
    assert np.array_equal(first, second)


@BY_NAME
def test_settings_go_through_json(learner):
    again = as_learner(json.loads(json.dumps(learner.to_dict())))
    assert type(again) is type(learner) and again.to_dict() == learner.to_dict()
    if not isinstance(learner, SklearnLearner):
        assert again == learner


@BY_NAME
@pytest.mark.parametrize("answers", [ANSWERS, ANSWERS[0]], ids=["batch", "single"])
def test_what_is_learned_comes_back_from_arrays(learner, answers):
    fitted = learner.fit(ROWS, answers)
    arrays = fitted.arrays()
    if arrays is None:
        with pytest.raises(NotDescribedError, match="fit it again"):
            restored(learner, {}, 6)
        return
    again = restored(learner, arrays, 6)
    assert np.array_equal(again.predict(FRESH), fitted.predict(FRESH))
    with pytest.raises(ValueError, match=learner.name):
        restored(learner, arrays, 5)
    with pytest.raises(ValueError, match=learner.name):
        restored(learner, {}, 6)
    spoiled = {name: np.full_like(np.asarray(array, float), np.nan) for name, array in arrays.items()}
    with pytest.raises(ValueError, match=learner.name):
        restored(learner, spoiled, 6)


@BY_NAME
def test_linear_learners_are_linear(learner):
    if learner.linear:
        answers, factors = ANSWERS[:2], np.array([2.0, -0.5])
        parts = learner.fit(ROWS, answers).predict(FRESH)
        whole = learner.fit(ROWS, factors @ answers).predict(FRESH)
        assert np.allclose(factors @ parts, whole)


BAD = [
    ({"encodings": ROWS[0]}, "dimensions"),
    ({"encodings": ROWS[:, :0]}, "at least one"),
    ({"encodings": np.where(ROWS > 0, np.inf, ROWS)}, "finite"),
    ({"answers": ANSWERS[0, :5]}, "12 numbers"),
    ({"answers": np.full(12, np.nan)}, "finite"),
    ({"answers": np.zeros((0, 12))}, "shape"),
    ({"weights": np.ones(3)}, "12 numbers > 0"),
    ({"weights": np.zeros(12)}, "not > 0"),
]


@BY_NAME
@pytest.mark.parametrize("change, message", BAD)
def test_bad_examples_are_refused(learner, change, message):
    given = {"encodings": ROWS, "answers": ANSWERS[0], "weights": None, **change}
    with pytest.raises(ValueError, match=message):
        learner.fit(given["encodings"], given["answers"], weights=given["weights"])


@BY_NAME
def test_words_and_other_lengths_are_refused(learner):
    with pytest.raises(TypeError, match="numbers"):
        learner.fit(ROWS, ["many"] * 12)
    with pytest.raises(ValueError, match="trained on encodings of length 6, got length 5"):
        learner.fit(ROWS, ANSWERS[0]).predict(np.ones((2, 5)))


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ("oracle", ValueError, "'linear'.*'ridge'.*'oracle'"),
        ("sklearn", ValueError, "a regressor's name"),
        ("sklearn.Oracle", ValueError, "'Oracle'"),
        (7, TypeError, "got int"),
        (MLP, TypeError, "got the class MLP: write MLP()"),
        ({"name": "ridge", "nonsense": 1}, TypeError, "nonsense"),
        ({"penalty": 1}, TypeError, "must be a name"),
    ],
)
def test_what_is_no_learner_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        as_learner(wrong)
