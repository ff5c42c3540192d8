"""Thirty random fits of `bench/statuses.py`: their statuses and gaps against an independent optimum."""

import dataclasses
import functools
import pathlib
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"


@pytest.mark.parametrize("seed", range(30))
def test_status_and_gap_tell_the_truth(seed, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    line = __import__("statuses").line_of(seed)
    told = {name: line[name] for name in ("false", "low", "high")}
    assert not any(told.values()), line


CONTRADICTING = {
    "an inverted mask": (
        [pj.LinearMeasurement(("a",), [500.0, 300.0, 200.0], 5.0)],
        [pj.StructuralZeros(("a",), [False, False, True])],
        "or with the constraints.*or a mask of possible cells inverted",
    ),
    "two answers to one question": (
        [pj.LinearMeasurement(("a",), v, 1.0) for v in ([100.0, 500.0, 400.0], [500.0, 100.0, 400.0])],
        [],
        r"do not go together: .*Is a stddev too small",
    ),
}


@pytest.mark.parametrize("loss", ["l2", "l1"])
@pytest.mark.parametrize("case", CONTRADICTING)
def test_answers_that_no_table_explains_are_warned_of(case, loss):
    noisy, constraints, said = CONTRADICTING[case]
    with pytest.warns(UserWarning, match=said):
        pj.Estimator(loss=loss).fit(pj.Domain({"a": 3}), noisy, constraints=constraints)


def test_noise_alone_is_not_warned_of():
    """45 tables of 2 to 30 cells, measured twice."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (2, 5, 30):
            for _ in range(15):
                truth = rng.integers(20, 200, size)
                noisy = [
                    pj.LinearMeasurement(("a",), truth + rng.laplace(0, 5, size), 5 * 2**0.5) for _ in "12"
                ]
                pj.Estimator(max_steps=100).fit(pj.Domain({"a": size}), noisy)


@pytest.mark.parametrize("oracle", ["host", "contraction"])
def test_a_function_whose_optimum_is_uniform_is_minimised(oracle):
    """There its gradient tells nothing of its curvature: a first step would be endless."""
    domain = pj.Domain({"a": 4, "b": 2, "c": 3})
    noisy = [
        pj.LinearMeasurement(("a", "b"), [[91, 80], [122, 131], [104, 99], [-3, 21]], 8.0),
        pj.LinearMeasurement(("b", "c"), [[160, 101, 52], [148, 110, 83]], 8.0),
    ]
    loss = pj.losses.Custom(lambda marginals: jnp.sum((marginals["a", "b"] - 100.0) ** 2) / 64)
    fit = pj.Estimator(loss=loss, oracle=oracle).fit(domain, noisy, total=700)
    assert fit.status is pj.Status.CONVERGED and fit.loss == pytest.approx(8 * 12.5**2 / 64)
    np.testing.assert_allclose(fit.model.marginal(("a", "b")), 87.5, rtol=1e-4)


@pytest.mark.parametrize("oracle", ["host", "contraction"])
@pytest.mark.parametrize("name", ["the function in float64", "the function past its range"])
def test_a_function_that_is_no_number_in_float64_ends_a_fit_and_breaks_none(name, oracle):
    """By rounding the shares sum to more than 1, or what is lost in float32 is below 0."""
    functions = {
        "the function in float64": lambda table: jnp.sqrt(jnp.asarray(1 - 1e-12, table.dtype) - 1) + 1,
        "the function past its range": lambda table: 1 + jnp.sqrt(1 - jnp.sum(table) / 1000),
    }
    domain, clique = pj.Domain({"a": 4, "b": 3}), ("a", "b")
    noisy = [pj.LinearMeasurement(clique, np.arange(12.0).reshape(4, 3) * 15, 1.0)]
    loss = pj.losses.Custom(lambda m: functions[name](m[clique]) * jnp.sum((m[clique] / 1000) ** 4))
    for dtype in ("float32", "float64"):
        estimator = pj.Estimator(loss=loss, oracle=oracle, dtype=dtype, max_steps=100)
        fit = estimator.fit(domain, noisy, total=1000)
        assert np.isfinite(fit.loss) == (fit.status is not pj.Status.NOT_FINITE)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["values", "smoothing"], meta_fields=["cliques", "shapes"]
)
@dataclasses.dataclass(frozen=True, eq=False)
class Rounded(pj.losses.BoundLoss):
    """Absolute residuals, smoothed by a hyperbolic cosine that overflows where the smoothing is small."""

    cliques: Any
    shapes: Any
    values: Any
    smoothing: Any = 1e-3

    def __call__(self, marginals):
        residuals = (1000 * marginals[0] - self.values) / self.smoothing
        return jnp.sum(self.smoothing * jnp.log(jnp.cosh(residuals)))

    def cast(self, dtype):
        return dataclasses.replace(self, values=self.values.astype(dtype))

    def exact(self, marginals):
        return float(np.abs(1000 * marginals[0] - self.values).sum())

    def with_smoothing(self, delta):
        return dataclasses.replace(self, smoothing=np.asarray(delta, self.values.dtype))

    def slack(self):
        return self.values.size * float(self.smoothing) * np.log(2)

    def least(self):
        return 0.0


@dataclasses.dataclass(frozen=True)
class Absolute(pj.losses.Loss):
    def bind(self, domain, measurements, total, dtype):
        one = measurements[0]
        return Rounded((one.clique,), (domain.shape_of(one.clique),), one.values.astype(dtype))


@pytest.mark.parametrize("oracle", ["host", "contraction"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_overflows_with_less_smoothing_ends_with_the_stage_before(dtype, oracle):
    domain = pj.Domain({"a": 4})
    noisy = [pj.LinearMeasurement(("a",), [700.0, 900.0, -500.0, 100.0], 1.0)]
    fit = pj.Estimator(loss=Absolute(), oracle=oracle, dtype=dtype).fit(domain, noisy, total=1000)
    assert fit.status is pj.Status.STALLED and 1200 < fit.loss < 1201 and fit.gap < 10


@dataclasses.dataclass(frozen=True)
class Mean(pj.losses.Loss):
    def bind(self, domain, measurements, total, dtype):
        bound = Absolute().bind(domain, measurements, total, dtype)
        return MeanSlope(bound.cliques, bound.shapes, bound.values, 1.0)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["values", "smoothing"], meta_fields=["cliques", "shapes"]
)
@dataclasses.dataclass(frozen=True, eq=False)
class MeanSlope(Rounded):
    def value_and_gradient(self, marginals):
        value, gradient = super().value_and_gradient(marginals)
        return value, gradient.mean()


def test_a_gradient_of_another_shape_is_refused_on_the_host():
    noisy = [pj.LinearMeasurement(("a",), [700.0, 900.0, -500.0, 100.0], 1.0)]
    with pytest.raises(ValueError, match=r"gradient of a loss must be float64 \[\d+\], .* got float64 \[\]"):
        pj.Estimator(loss=Mean(), oracle="host").fit(pj.Domain({"a": 4}), noisy, total=1000)
