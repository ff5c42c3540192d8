"""The likelihood of a game's draws: against the definition written out, its gradient, its convexity."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator
from pgmjax.estimation.losses.transcript import Draws
from pgmjax.estimation.solvers.batch import stacked
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.transcript import Transcript

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
QUERIES = (
    q.marginal(["b", "a"]),
    q.Product({"a": q.identity(), "b": q.prefix()}),
    q.Product({"c": q.prefix()}),
)
ROWS, ROUNDS, SAMPLES, STEP = 16, 5, 6, 1.75


def game(seed=0, samples=SAMPLES, drawn=None, rounds=ROUNDS):
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 2 * ROWS, (rounds, samples)) if drawn is None else drawn
    rng = np.random.default_rng(seed + 1000)
    records = np.stack([rng.integers(0, size, len(drawn)) for size in DOMAIN.shape], axis=1)
    return Transcript(DOMAIN, QUERIES, 100, Fraction(7, 4), drawn, records)


def joint(seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(24)).reshape(3, 2, 4)


def tables(bound, probabilities):
    axes = {"a": 0, "b": 1, "c": 2}
    found = []
    for clique in bound.cliques:
        summed = probabilities.sum(axis=tuple(axes[n] for n in "abc" if n not in clique))
        kept = [n for n in "abc" if n in clique]
        found.append(summed.transpose([kept.index(n) for n in clique]))
    return found


def matrix():
    """All queries and their negations over the joint cells, [queries, cells]."""
    rows = []
    cells = list(itertools.product(range(3), range(2), range(4)))
    for query in QUERIES:
        shape = DOMAIN.shape_of(query.clique)
        at = [
            np.ravel_multi_index([dict(zip("abc", c, strict=True))[n] for n in query.clique], shape)
            for c in cells
        ]
        rows.append(query.matrix(DOMAIN)[:, at])
    plain = np.concatenate(rows)
    return np.concatenate([plain, 1 - plain])


def log_probabilities(transcript, answers):
    """log Q^t of every query and negation, [rounds, queries], as the game defines it."""
    cells = np.ravel_multi_index(tuple(transcript.records.T), DOMAIN.shape)
    ours = matrix()[:, cells]
    result = []
    for t in range(transcript.rounds):
        exponent = -STEP * sum((answers - ours[:, past] for past in range(t)), np.zeros(len(answers)))
        result.append(exponent - np.log(np.sum(np.exp(exponent))))
    return np.array(result)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def bind(transcript, dtype="float64"):
    return Draws(transcript).bind(DOMAIN, (), 100.0, dtype)


def test_it_is_the_definition():
    transcript, probabilities = game(), joint()
    logs = log_probabilities(transcript, matrix() @ probabilities.ravel())
    wanted = -sum(logs[t, i] for t in range(ROUNDS) for i in transcript.drawn[t])
    bound = bind(transcript)
    assert bound.cliques == (("b", "a"), ("c",)) and bound.shapes == ((2, 3), (4,))
    assert bound.exact(tables(bound, probabilities)) == pytest.approx(wanted, rel=1e-13)
    assert float(bound(tables(bound, probabilities))) == pytest.approx(wanted, rel=1e-13)
    single = bind(transcript, "float32")
    assert float(single(tables(single, probabilities.astype("f4")))) == pytest.approx(wanted, rel=1e-5)
    assert float(single.cast("float64")(tables(bound, probabilities))) == pytest.approx(wanted, rel=1e-13)


def test_the_first_round_contributes_a_constant():
    bound = bind(game(rounds=1))
    for seed in range(3):
        assert bound.exact(tables(bound, joint(seed))) == pytest.approx(SAMPLES * np.log(2 * ROWS), rel=1e-14)


GRADIENT = jax.jit(jax.grad(lambda p, bound: bound(tables(bound, p))))


def gradient(transcript, probabilities):
    """The gradient over joint cells, by JAX."""
    return np.asarray(GRADIENT(jnp.asarray(probabilities), bind(transcript))).ravel()


def test_the_gradient_is_the_closed_form():
    """step * sum of (t - 1)(times drawn - samples * probability), over queries and negations."""
    transcript, probabilities = game(3), joint(4)
    logs = log_probabilities(transcript, matrix() @ probabilities.ravel())
    wanted = np.zeros(2 * ROWS)
    for t in range(ROUNDS):
        times = np.bincount(transcript.drawn[t], minlength=2 * ROWS)
        wanted += STEP * t * (times - SAMPLES * np.exp(logs[t]))
    # a negation's answer is 1 minus its query's, on which the cells' probabilities act
    plain, negated = wanted[:ROWS], wanted[ROWS:]
    cells = matrix()[:ROWS].T @ (plain - negated)
    assert np.allclose(gradient(transcript, probabilities), cells, rtol=0, atol=8e-9)


def test_at_the_truth_the_expected_gradient_is_zero():
    """Expected exactly, over all draws of one sample a round from the game's own distribution."""
    records = game(samples=1)
    probabilities = joint(7)
    distributions = np.exp(log_probabilities(records, matrix() @ probabilities.ravel()))
    expected, largest = 0.0, 0.0
    base = gradient(records, probabilities)
    for t in range(ROUNDS):
        for i in range(2 * ROWS):
            drawn = records.drawn.copy()
            drawn[t, 0] = i
            change = gradient(game(samples=1, drawn=drawn), probabilities) - base
            expected, largest = expected + distributions[t, i] * change, max(largest, np.abs(change).max())
    # the expectation over all rounds is that of the changes, each round's alone, added to the base
    assert largest > 1 and np.abs(base + expected).max() < 1e-12


def test_it_is_convex():
    bound = bind(game(5))
    for seed in range(20):
        first, second = tables(bound, joint(seed)), tables(bound, joint(seed + 100))
        middle = [(x + y) / 2 for x, y in zip(first, second, strict=True)]
        assert bound.exact(middle) <= (bound.exact(first) + bound.exact(second)) / 2
    hessian = jax.jit(jax.hessian(lambda p: bound(tables(bound, p))))(jnp.asarray(joint(1))).reshape(24, 24)
    assert np.linalg.eigvalsh(hessian).min() > -1e-9
    assert np.abs(hessian).max() <= STEP**2 * SAMPLES * sum(t**2 for t in range(ROUNDS))


@pytest.mark.parametrize("solver", ["mirror_descent", "auto"])
def test_the_engine_finds_the_optimum(solver):
    transcript = game(6)
    fit = Estimator(
        loss=Draws(transcript), solver=solver, dtype="float64", tol=1e-7, max_steps=3000, progress=False
    )
    fit = fit.fit(DOMAIN, [], total=100)
    assert fit.status is Status.CONVERGED and 0 <= fit.gap <= 1e-7 * fit.loss
    bound = bind(transcript)
    rng = np.random.default_rng(0)
    others = [
        bound.exact(tables(bound, rng.dirichlet(np.full(24, 0.3)).reshape(3, 2, 4))) for _ in range(200)
    ]
    assert fit.loss - fit.gap <= min(others) + 1e-9


def test_far_leans_stay_finite():
    transcript = Transcript(DOMAIN, QUERIES, 100, Fraction(10**4), game().drawn, game().records)
    bound = bind(transcript, "float32")
    found = float(bound(tables(bound, joint().astype("f4"))))
    assert np.isfinite(found) and found == pytest.approx(bound.exact(tables(bound, joint())), rel=1e-4)
    assert np.isfinite(gradient(transcript, joint())).all()


def test_losses_of_games_can_be_stacked():
    bound = [bind(game(seed)) for seed in (1, 2)]
    both = jax.vmap(lambda loss: loss(tables(loss, joint())))(stacked(bound))
    assert np.allclose(both, [loss.exact(tables(loss, joint())) for loss in bound])


def test_what_it_cannot_be_bound_to():
    with pytest.raises(TypeError, match=r"such as Release\.transcript, got int"):
        Draws(3)
    measured = [LinearMeasurement(("a",), [1.0, 2.0, 3.0], 1.0)]
    with pytest.raises(ValueError, match="takes no measurements"):
        Draws(game()).bind(DOMAIN, measured, 100.0, "float32")
    with pytest.raises(ValueError, match="the domain of the transcript"):
        Draws(game()).bind(Domain({"a": 3}), (), 100.0, "float32")
    leaves, tree = jax.tree_util.tree_flatten(bind(game()))
    with pytest.raises(ValueError, match="float64"):
        jax.tree_util.tree_unflatten(tree, leaves).exact([])
