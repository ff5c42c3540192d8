"""Fits of mixtures: what they reach, how they end, and what they refuse."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax import queries
from pgmjax._internal.jit import cache_size
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses, mixture_fit
from pgmjax.estimation.constraints import StructuralZeros
from pgmjax.estimation.estimator import Estimator
from pgmjax.estimation.mixture_fit import fit_mixture, forecast_bytes
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.mixture import MixtureModel

TOTAL, STDDEV = 10_000, 20.0


def truth(sizes, components, seed):
    rng = np.random.default_rng(seed)
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    rows = {name: 1.5 * rng.normal(size=(components, domain[name])) for name in domain}
    return MixtureModel.from_logits(domain, rng.normal(size=components), rows, total=TOTAL)


def measured(model, way=2, seed=None):
    """All marginals of some attributes, with Gaussian noise where there is a seed."""
    rng = np.random.default_rng(seed)
    found = []
    for clique in itertools.combinations(model.domain, way):
        table = model.marginal(clique)
        noise = 0 if seed is None else STDDEV * rng.normal(size=table.shape)
        found.append(LinearMeasurement(clique, table + noise, STDDEV))
    return found


def values(measurements):
    return sum(measurement.values.size for measurement in measurements)


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_marginals_of_a_mixture_are_reached(seed):
    model = truth((4, 3, 5, 2), 6, seed)
    exact = measured(model, 2)
    fit = fit_mixture(model.domain, exact, TOTAL, components=60, max_steps=400)
    assert fit.loss < 0.02 * values(exact) / 2  # of what noise of the stated size would give
    assert fit.components == fit.model.components == 60 and fit.gap == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_near_the_optimum_of_the_exact_fit(seed):
    model = truth((4, 3, 4, 3, 4), 8, seed)
    noisy = measured(model, 2, seed)
    exact = Estimator(regularisation="none", tol=1e-4, progress=False).fit(model.domain, noisy, TOTAL)
    fit = fit_mixture(model.domain, noisy, TOTAL, components=200)
    assert exact.loss - exact.gap <= fit.loss <= 1.05 * exact.loss


def test_a_lower_bound_makes_the_gap_finite_and_ends_the_fit():
    model = truth((4, 3, 4, 3), 8, 0)
    noisy = measured(model, 2, 0)
    exact = Estimator(regularisation="none", tol=1e-4, progress=False).fit(model.domain, noisy, TOTAL)
    below = exact.loss - exact.gap
    fit = fit_mixture(model.domain, noisy, TOTAL, components=100, lower_bound=below, tol=0.1)
    assert fit.status is Status.CONVERGED
    assert fit.gap == fit.loss - below <= 0.1 * max(1.0, fit.loss) * (1 + 1e-5)


def test_the_loss_is_that_of_the_model_in_counts():
    model = truth((3, 4, 2), 4, 0)
    noisy = measured(model, 2, 0)
    fit = fit_mixture(model.domain, noisy, TOTAL, components=50, max_steps=30)
    residuals = [
        (fit.model.marginal(m.clique).reshape(-1) - m.flat_values()) / m.row_stddevs() for m in noisy
    ]
    assert fit.loss == pytest.approx(0.5 * np.sum(np.square(np.concatenate(residuals))), rel=1e-9)
    assert fit.status is Status.MAX_STEPS and fit.steps == 30


def test_stationarity_is_the_norm_of_the_gradient():
    domain = Domain({"a": 4})
    y = np.array([5.0, 40.0, 25.0, 30.0])
    fit = fit_mixture(
        domain, [LinearMeasurement(("a",), y, 2.0)], 100, components=1, max_steps=7, dtype="float64"
    )
    p = fit.model.marginal(("a",)) / 100
    slope = 100 * (100 * p - y) / 4  # of the loss by the probabilities
    assert fit.stationarity == pytest.approx(np.linalg.norm(p * (slope - p @ slope)), rel=1e-6)


@pytest.mark.parametrize("loss", ["l1", losses.Custom(lambda mu: sum(jnp.sum(t**2) for t in mu.values()))])
def test_other_losses(loss):
    model = truth((3, 4, 2), 4, 1)
    noisy = measured(model, 2, 1)
    exact = Estimator(loss=loss, regularisation="none", tol=1e-4, progress=False).fit(
        model.domain, noisy, TOTAL
    )
    fit = fit_mixture(model.domain, noisy, TOTAL, loss=loss, components=60)
    assert exact.loss - exact.gap <= fit.loss * (1 + 1e-6) and fit.loss <= 1.05 * exact.loss


def test_factored_queries_are_measured():
    model = truth((6, 5, 3), 4, 2)
    query = queries.kronecker({"x1": queries.prefix(), "x0": queries.ranges([(0, 2), (1, 5), (3, 3)])})
    asked = [LinearMeasurement(("x1", "x0"), model.answer(query), STDDEV, query), *measured(model, 1)]
    fit = fit_mixture(model.domain, asked, components=100)
    assert fit.loss < 0.02 * values(asked) / 2
    np.testing.assert_allclose(fit.model.answer(query), model.answer(query), atol=0.5 * STDDEV)


def test_the_same_seed_gives_the_same_model():
    model = truth((3, 4, 2), 4, 3)
    noisy = measured(model, 2, 3)
    one, two, other = (
        fit_mixture(model.domain, noisy, TOTAL, components=20, max_steps=50, seed=s) for s in (1, 1, 2)
    )
    assert all(map(np.array_equal, one.model.log_probabilities, two.model.log_probabilities))
    assert one.loss == two.loss != other.loss


def test_the_best_of_restarts_is_kept():
    model = truth((4, 3, 4, 3), 8, 4)
    noisy = measured(model, 2, 4)
    settings = {"components": 3, "max_steps": 50}  # few components: starts end in different places
    pairs = [
        [fit_mixture(model.domain, noisy, TOTAL, seed=s, restarts=r, **settings).loss for r in (1, 3)]
        for s in range(4)
    ]
    assert all(best <= once for once, best in pairs) and any(best < once for once, best in pairs)


def test_new_numbers_and_new_cliques_of_the_same_shapes_compile_nothing():
    model = truth((3, 3, 3, 3), 4, 5)
    settings = {"components": 13, "max_steps": 20}
    first = measured(model, 2, 5)[:4]
    fit_mixture(model.domain, first, TOTAL, **settings)
    before = cache_size(mixture_fit._block)
    fit_mixture(model.domain, measured(model, 2, 6)[2:], TOTAL + 1, seed=3, **settings)
    assert cache_size(mixture_fit._block) == before


def test_a_warm_start_goes_on_from_a_mixture():
    model = truth((4, 3, 4, 3), 8, 6)
    noisy = measured(model, 2, 6)
    first = fit_mixture(model.domain, noisy, TOTAL, components=100, max_steps=200)
    again = fit_mixture(model.domain, noisy, TOTAL, warm_start=first.model, max_steps=1)
    assert again.components == 100 and again.loss < 1.01 * first.loss
    with pytest.raises(ValueError, match="components must be 100"):
        fit_mixture(model.domain, noisy, TOTAL, warm_start=first.model, components=99)
    with pytest.raises(ValueError, match="same domain"):
        fit_mixture(Domain({"x0": 4, "x1": 3}), noisy[:1], TOTAL, warm_start=first.model)
    with pytest.raises(TypeError, match="MixtureModel"):
        fit_mixture(model.domain, noisy, TOTAL, warm_start=3)


def test_a_loss_that_is_not_finite_is_a_status():
    fit = fit_mixture(
        Domain({"a": 2}), [LinearMeasurement(("a",), [1, 2], 1.0)], 3, loss=lambda mu: mu["a",][0] * jnp.nan
    )
    assert fit.status is Status.NOT_FINITE and np.isnan(fit.loss) and fit.steps == 0


def test_impossible_values_of_one_attribute():
    model = truth((4, 3, 2), 4, 8)
    zeros = [
        StructuralZeros(("x0",), [True, False, True, True]),
        StructuralZeros(("x0",), [True, True, True, False]),
    ]
    fit = fit_mixture(model.domain, measured(model, 2, 8), TOTAL, components=20, constraints=zeros)
    assert fit.model.marginal(("x0",))[[1, 3]].tolist() == [0.0, 0.0]
    assert set(fit.model.sample(500, seed=1)["x0"]) <= {0, 2}
    pair = StructuralZeros(("x1", "x2"), [[True, False], [True, True], [True, True]])
    with pytest.raises(ValueError, match="single attributes only"):
        fit_mixture(model.domain, measured(model), TOTAL, constraints=[pair])
    nothing = [StructuralZeros(("x2",), [True, False]), StructuralZeros(("x2",), [False, True])]
    with pytest.raises(ValueError, match="infeasible"):
        fit_mixture(model.domain, measured(model), TOTAL, constraints=nothing)
    with pytest.raises(TypeError, match="StructuralZeros"):
        fit_mixture(model.domain, measured(model), TOTAL, constraints=[3])


def test_memory_lowers_the_default_and_refuses_what_was_asked_for():
    model = truth((4, 3, 4), 4, 9)
    noisy = measured(model, 2, 9)
    cliques = tuple(m.clique for m in noisy)
    limit = forecast_bytes(model.domain, cliques, 300, "float32")
    fit = fit_mixture(model.domain, noisy, TOTAL, max_bytes=limit, max_steps=1)
    assert 100 <= fit.components <= 300
    with pytest.raises(ModelTooLargeError, match="the mixture of 400 components needs about"):
        fit_mixture(model.domain, noisy, TOTAL, components=400, max_bytes=limit)
    with pytest.raises(ModelTooLargeError, match="100 components"):
        fit_mixture(model.domain, noisy, TOTAL, max_bytes=1000)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"components": 0}, "components"),
        ({"restarts": 0}, "restarts"),
        ({"max_steps": 0}, "max_steps"),
        ({"dtype": "float16"}, "dtype"),
        ({"tol": -1}, "tol"),
        ({"seed": -1}, "seed"),
        ({"loss": "l3"}, "loss"),
        ({"total": 0}, "total"),
        ({"lower_bound": np.inf}, "lower_bound"),
    ],
)
def test_bad_settings(settings, said):
    with pytest.raises(ValueError, match=said):
        fit_mixture(Domain({"a": 2}), [LinearMeasurement(("a",), [1, 2], 1.0)], **settings)


def test_bad_measurements():
    domain = Domain({"a": 2})
    with pytest.raises(TypeError, match="LinearMeasurement"):
        fit_mixture(domain, LinearMeasurement(("a",), [1, 2], 1.0))
    with pytest.raises(TypeError, match=r"LinearMeasurement.*int"):
        fit_mixture(domain, [3])
    with pytest.raises(TypeError, match="Domain"):
        fit_mixture({"a": 2}, [LinearMeasurement(("a",), [1, 2], 1.0)])
    with pytest.raises(ValueError, match="measurement"):
        fit_mixture(domain, [])


@pytest.mark.slow
def test_a_structure_that_no_exact_plan_fits():
    """All pairs of 30 attributes of 5 values; triples were not measured."""
    model = truth((5,) * 30, 12, 10)
    noisy = measured(model, 2, 10)
    with pytest.raises(ModelTooLargeError):
        Estimator(progress=False).plan(model.domain, [m.clique for m in noisy])
    fit = fit_mixture(model.domain, noisy, components=200, max_steps=300)
    assert fit.loss < values(noisy) / 2  # within the noise
    rng = np.random.default_rng(0)
    names = list(model.domain)
    triples = [[names[i] for i in rng.choice(30, 3, replace=False)] for _ in range(40)]
    ones = {name: model.marginal((name,)) / TOTAL for name in names}

    def error(answer):
        return np.mean([np.abs(answer(t) - model.marginal(t)).sum() / 2 / TOTAL for t in triples])

    independent = error(lambda t: TOTAL * np.einsum("a,b,c->abc", *(ones[name] for name in t)))
    assert error(fit.model.marginal) < 0.6 * independent
