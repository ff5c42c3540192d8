"""Networks against a step by hand in NumPy, scikit-learn's loss, and themselves in batches."""

import numpy as np
import pytest

from pgmjax._internal.jit import cache_size
from pgmjax.learning import MLP
from pgmjax.learning.mlp import _trained, start, train

RNG = np.random.default_rng(0)
ROWS = RNG.random((50, 2))
ANSWERS = 100 * np.sin(5 * ROWS[:, 0]) + 20 * ROWS[:, 1]


def loss(layers, rows, targets, penalty):
    """Half the mean square and the penalty over the number of examples, for one network in float64."""
    (first, one), (second, two) = layers
    values = np.maximum(rows @ first + one, 0) @ second + two
    return 0.5 * ((values[:, 0] - targets) ** 2).mean() + 0.5 * penalty * (
        (first**2).sum() + (second**2).sum()
    ) / len(rows)


def test_a_step_is_adam_on_the_loss():
    layers = start((2, 3, 1), [7])
    single = [tuple(np.asarray(array[0], np.float64) for array in layer) for layer in layers]
    rows, targets = ROWS[:6], ANSWERS[:6] / 100
    settings = {"epochs": 1, "batch_size": 6, "learning_rate": 0.01, "penalty": 0.3}
    found = train(layers, rows, targets[None], np.ones(6), **settings)
    for depth in range(2):
        for kind in range(2):
            before = single[depth][kind]
            for place in np.ndindex(before.shape):
                ends = []
                for side in (1e-5, -1e-5):
                    moved = [[array.copy() for array in layer] for layer in single]
                    moved[depth][kind][place] += side
                    ends.append(loss(moved, rows, targets, 0.3))
                slope = (ends[0] - ends[1]) / 2e-5
                # Adam's first step is the learning rate times slope / (|slope| + 1e-8).
                expected = before[place] - 0.01 * slope / (abs(slope) + 1e-8)
                assert found[depth][kind][(0, *place)] == pytest.approx(expected, abs=1e-5)


def test_each_row_may_have_a_start_of_its_own():
    learner = MLP(hidden=(8,), epochs=3)
    both = learner.fit(ROWS, [ANSWERS, ANSWERS], seed=[4, 9]).predict(ROWS)
    for row, seed in zip(both, (4, 9), strict=True):
        assert np.allclose(row, learner.fit(ROWS, ANSWERS, seed=seed).predict(ROWS), rtol=1e-4, atol=1e-3)
    assert not np.allclose(both[0], both[1], atol=1)


def test_it_learns_a_curve():
    fitted = MLP(hidden=(32,), epochs=300, batch_size=10, learning_rate=0.01).fit(ROWS, ANSWERS)
    error = np.square(fitted.predict(ROWS) - ANSWERS).mean()
    assert error < 0.02 * ANSWERS.var()


def test_examples_of_no_weight_do_not_count():
    weights = np.where(np.arange(50) < 25, 1.0, 1e-9)
    spoiled = np.where(weights == 1, ANSWERS, ANSWERS[::-1])
    learner = MLP(hidden=(16,), epochs=200, batch_size=10, learning_rate=0.01)
    fitted = learner.fit(ROWS, spoiled, weights=weights)
    half = np.square(fitted.predict(ROWS) - spoiled)
    assert half[:25].mean() < 0.1 * half[25:].mean()


def test_one_program_serves_all_settings_and_seeds():
    before = cache_size(_trained)
    for rate in (0.1, 0.01):
        MLP(hidden=(5,), epochs=2, learning_rate=rate, penalty=rate).fit(ROWS, ANSWERS, seed=int(1 / rate))
    assert cache_size(_trained) == before + 1


def test_more_rows_than_are_trained_at_once(monkeypatch):
    monkeypatch.setattr("pgmjax.learning.mlp.CPU_NETWORKS", 4)
    learner, answers = MLP(hidden=(4,), epochs=2), ANSWERS * np.arange(1, 11)[:, None]
    found = learner.fit(ROWS, answers).predict(ROWS)
    assert found.shape == (10, 50)
    # answers are scaled, so that ten times the answers learn ten times the function
    assert np.allclose(found / np.arange(1, 11)[:, None], found[0], rtol=1e-3, atol=1e-2)


def test_the_training_loss_is_that_of_scikit_learn():
    from sklearn.neural_network import MLPRegressor

    targets = (ANSWERS - ANSWERS.mean()) / ANSWERS.std()
    rows = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
    settings = {"hidden": (16, 16), "epochs": 100, "batch_size": 8, "learning_rate": 3e-3}
    seeds = list(range(12))
    ours = MLP(**settings).fit(ROWS, [ANSWERS] * 12, seed=seeds).predict(ROWS)
    ours = np.square((ours - ANSWERS) / ANSWERS.std()).mean(axis=1)
    theirs = []
    for seed in seeds:
        peer = MLPRegressor(
            hidden_layer_sizes=(16, 16),
            batch_size=8,
            max_iter=100,
            learning_rate_init=3e-3,
            tol=0,
            n_iter_no_change=1000,
            random_state=seed,
        )
        theirs.append(np.square(peer.fit(rows, targets).predict(rows) - targets).mean())
    error = np.hypot(ours.std(), np.std(theirs)) / np.sqrt(len(seeds))
    assert abs(ours.mean() - np.mean(theirs)) < 5 * error


@pytest.mark.parametrize(
    "settings, error",
    [
        ({"hidden": ()}, ValueError),
        ({"hidden": 64}, TypeError),
        ({"hidden": (0,)}, ValueError),
        ({"epochs": 0}, ValueError),
        ({"batch_size": 0}, ValueError),
        ({"learning_rate": 0}, ValueError),
        ({"penalty": -1}, ValueError),
    ],
)
def test_bad_settings_are_refused(settings, error):
    with pytest.raises(error, match=next(iter(settings))):
        MLP(**settings)


def test_a_seed_for_each_row_or_one_for_all():
    with pytest.raises(ValueError, match="one for each of 2 rows"):
        MLP().fit(ROWS, [ANSWERS, ANSWERS], seed=[1, 2, 3])
