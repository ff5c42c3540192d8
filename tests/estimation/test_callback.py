"""What a fit tells its callback: the steps, losses and gaps of its trace, and the marginals there."""

import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from tests.optimum import to_optimum

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
CLIQUES = [("a", "b"), ("c", "b")]


def noisy(seed=0):
    rng = np.random.default_rng(seed)
    return [
        pj.LinearMeasurement(c, rng.integers(5, 40, DOMAIN.shape_of(c)).astype(float), stddev=2.0)
        for c in CLIQUES
    ]


def watched(estimator, **given):
    seen = []
    fit = estimator.fit(DOMAIN, noisy(), total=250.0, callback=seen.append, **given)
    return seen, fit


@pytest.mark.parametrize("settings", [{}, {"loss": "l1"}, {"solver": "mirror_descent"}])
def test_the_callback_sees_the_trace(settings):
    estimator = to_optimum(tol=1e-6, max_steps=400, **settings)
    seen, fit = watched(estimator)
    assert seen and [(p.step, p.loss, p.gap) for p in seen] == list(fit.trace)
    assert [p.step for p in seen] == sorted({p.step for p in seen}) and seen[-1].step == fit.steps


def test_marginals_are_those_of_that_step_in_counts():
    """Against the loss they must have: half the squared distance from the answers, in standard deviations."""
    seen, fit = watched(to_optimum(tol=1e-9, max_steps=200, dtype="float64"))
    for progress in (seen[0], seen[-1]):
        tables = progress.marginals
        assert list(tables) == CLIQUES and all(t.dtype == np.float64 for t in tables.values())
        np.testing.assert_allclose([t.sum() for t in tables.values()], 250.0)
        loss = sum(0.5 * np.sum(((tables[m.clique] - m.values) / 2.0) ** 2) for m in noisy())
        np.testing.assert_allclose(loss, progress.loss, rtol=1e-9)
    np.testing.assert_allclose(seen[-1].marginals["a", "b"], fit.model.marginal(("a", "b")), rtol=1e-6)
    np.testing.assert_allclose(  # both tables tell the same of b
        seen[-1].marginals["a", "b"].sum(0), seen[-1].marginals["c", "b"].sum(0), rtol=1e-9
    )


@pytest.mark.parametrize("clique", [("b", "a"), ("a",), ("b",), ("b", "c")])
def test_answers_are_those_of_the_marginals_there(clique):
    """In the query's order of attributes, whichever the measured clique has."""
    seen, fit = watched(to_optimum(tol=1e-9, max_steps=400, dtype="float64"))
    query = pj.queries.kronecker({name: pj.queries.prefix() for name in clique})
    np.testing.assert_allclose(seen[-1].answer(query), fit.model.answer(query), rtol=1e-6)
    with pytest.raises(ValueError, match=r"no measured clique holds \('a', 'c'\).*\('a', 'b'\)"):
        seen[0].answer(pj.queries.marginal(["a", "c"]))
    with pytest.raises(TypeError, match=r"query must be a query such as queries.marginal\(.*got str"):
        seen[0].answer("a=1")


def test_marginals_are_fetched_when_asked_for():
    class Never:
        def __init__(self):
            self.steps = 0

        def __call__(self, progress):
            self.steps = progress.step
            assert "marginals" not in vars(progress)

    never = Never()
    fit = to_optimum().fit(DOMAIN, noisy(), callback=never)
    assert never.steps == fit.steps
    seen, _ = watched(to_optimum())
    assert seen[0].marginals is seen[0].marginals


def test_a_callback_does_not_change_the_fit_and_under_fixed_marginals_it_is_called_too():
    fixed = [pj.FixedMarginal(("b",), [50.0, 50.0, 50.0, 100.0])]
    seen, fit = watched(to_optimum(dtype="float64"), constraints=fixed)
    alone = to_optimum(dtype="float64").fit(DOMAIN, noisy(), total=250.0, constraints=fixed)
    assert fit.steps == alone.steps and seen[-1].step == fit.steps
    np.testing.assert_array_equal(fit.model.marginal(("a",)), alone.model.marginal(("a",)))


@pytest.mark.parametrize("fixed", [[], [pj.FixedMarginal(("b",), [50.0, 50.0, 50.0, 100.0])]])
@pytest.mark.parametrize("settings", [{}, {"loss": "l1"}, {"dtype": "float64"}, {"regularisation": "auto"}])
def test_a_callback_that_returns_true_ends_the_fit_within_a_block(settings, fixed):
    """The model is that of its last report, as if the steps had run out there."""
    seen = []

    def enough(progress):
        seen.append(progress)
        return True

    given = {"tol": 1e-12, "max_steps": 3000, "oracle": "contraction"} | settings
    fit = to_optimum(**given).fit(DOMAIN, noisy(), total=250.0, callback=enough, constraints=fixed)
    assert fit.status in (pj.Status.MAX_STEPS, pj.Status.WITHIN_NOISE, pj.Status.CONVERGED)
    assert fit.steps == seen[-1].step <= seen[0].step + 100
    longer = to_optimum(**given).fit(DOMAIN, noisy(), total=250.0, callback=lambda _: 1, constraints=fixed)
    assert longer.steps >= fit.steps  # only True itself ends it


def test_a_comparison_of_numpy_or_jax_ends_the_fit_too():
    """They are of other types than True; a list's append, print and numbers end nothing."""
    estimator = to_optimum(tol=1e-12, max_steps=300, dtype="float64", solver="mirror_descent")
    steps = []
    for answer in (True, np.float64(1) < 2, jnp.float32(1) < 2, np.float64(1) > 2, None, 1, [True]):
        rule = {"callback": lambda progress, answer=answer: answer}
        steps.append(estimator.fit(DOMAIN, noisy(), total=250.0, **rule).steps)
    assert steps[0] == steps[1] == steps[2] < steps[3] and len(set(steps[3:])) == 1


def test_what_a_callback_raises_ends_the_fit():
    def stop(progress):
        raise StopAsyncIteration("enough")

    with pytest.raises(StopAsyncIteration, match="enough"):
        to_optimum().fit(DOMAIN, noisy(), callback=stop)


def test_what_is_refused():
    with pytest.raises(TypeError, match="callback must be a function of one argument, got list"):
        to_optimum().fit(DOMAIN, noisy(), callback=[])
    wide = pj.Domain(dict.fromkeys("abcdef", 50))
    pairs = [
        pj.LinearMeasurement((x, y), np.ones((50, 50)), 1.0) for x in "abcdef" for y in "abcdef" if x < y
    ]
    small = to_optimum(approximate=True, max_bytes=10**4)
    with pytest.raises(pj.ModelTooLargeError, match="leave the callback out"):
        small.fit(wide, pairs, callback=print)
