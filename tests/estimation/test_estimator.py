"""Estimation against closed forms (mechanisms of the literature) and its bad input."""

import numpy as np
import pytest

import pgmjax as pj
from tests.optimum import to_optimum


def simplex_projection(y, total):
    """Euclidean projection on {mu >= 0, sum mu = total} by sorting."""
    u = np.sort(y)[::-1]
    shift = (np.cumsum(u) - total) / np.arange(1, len(u) + 1)
    tau = shift[np.nonzero(u > shift)[0][-1]]
    return np.maximum(y - tau, 0)


def test_one_clique_is_projected_on_the_simplex():
    y = np.random.default_rng(0).normal(size=(4, 5)) * 30 + 10
    fit = to_optimum(dtype="float64", max_steps=20_000, tol=1e-9).fit(
        pj.Domain({"a": 4, "b": 5}), [pj.LinearMeasurement(("a", "b"), y, 2.0)], total=200
    )
    expected = simplex_projection(y.ravel(), 200).reshape(4, 5)
    np.testing.assert_allclose(fit.model.marginal(("a", "b")), expected, atol=1e-3)


def test_decomposable_and_consistent_marginals_give_the_maximum_entropy_model():
    """p(a, b, c) = mu(a, b) mu(b, c) / mu(b)."""
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(24)).reshape(2, 3, 4) * 100
    ab, bc = joint.sum(2), joint.sum(0)
    fit = to_optimum(dtype="float64", max_steps=5000, tol=1e-12).fit(
        pj.Domain({"a": 2, "b": 3, "c": 4}),
        [pj.LinearMeasurement(("a", "b"), ab, 1.0), pj.LinearMeasurement(("b", "c"), bc, 1.0)],
        total=100,
    )
    expected = ab[:, :, None] * bc[None] / ab.sum(0)[None, :, None]
    np.testing.assert_allclose(fit.model.marginal(("a", "b", "c")), expected, atol=1e-4)


def test_unequal_noise_is_weighted_by_its_inverse_variance():
    """Two measurements of one marginal: the weighted mean, where it is inside the simplex."""
    domain = pj.Domain({"a": 3})
    first, second = np.array([50.0, 30.0, 20.0]), np.array([56.0, 24.0, 20.0])
    fit = to_optimum(dtype="float64", tol=1e-12, max_steps=5000).fit(
        domain,
        [pj.LinearMeasurement(("a",), first, 1.0), pj.LinearMeasurement(("a",), second, 2.0)],
        total=100,
    )
    np.testing.assert_allclose(fit.model.marginal(("a",)), (4 * first + second) / 5, atol=1e-5)


def test_prefix_measurements_invert():
    domain = pj.Domain({"a": 5})
    truth = np.array([10.0, 20, 5, 40, 25])
    m = pj.LinearMeasurement(("a",), np.cumsum(truth), 1.0, query=pj.queries.prefix())
    fit = to_optimum(dtype="float64", tol=1e-12, max_steps=20_000).fit(domain, [m])
    assert fit.model.total == pytest.approx(100)
    np.testing.assert_allclose(fit.model.marginal(("a",)), truth, atol=1e-4)


def test_scaling_values_and_total_scales_the_answer():
    domain = pj.Domain({"a": 2, "b": 3})
    y = np.random.default_rng(0).normal(size=(2, 3)) * 5 + 20
    small, large = (
        to_optimum(dtype="float64", tol=1e-10, max_steps=3000)
        .fit(domain, [pj.LinearMeasurement(("a", "b"), c * y, 3.0 * c)], total=c * 120)
        .model.marginal(("a", "b"))
        for c in (1.0, 1000.0)
    )
    np.testing.assert_allclose(large, 1000 * small, rtol=1e-5)


def test_totals_above_what_float32_counts_stay_exact():
    domain = pj.Domain({"a": 2, "b": 2})
    y = np.array([[2**24 + 1, 3], [100_000, 7]], dtype=np.int64)
    fit = to_optimum().fit(domain, [pj.LinearMeasurement(("a", "b"), y, 1.0)])
    assert fit.model.total == 2**24 + 1 + 3 + 100_000 + 7
    assert fit.model.marginal(("b", "a")).sum() == pytest.approx(fit.model.total, rel=1e-15)


def test_float32_and_float64_agree_on_five_digits_of_loss():
    rng = np.random.default_rng(7)
    domain = pj.Domain({"a": 10, "b": 12, "c": 8, "d": 15})
    joint = rng.dirichlet(np.full(domain.size(), 0.05)).reshape(domain.shape) * 50_000
    measured = []
    for clique in (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")):
        axes = tuple(i for i, n in enumerate(domain.attributes) if n not in clique)
        mu = joint.sum(axis=axes)
        measured.append(
            pj.LinearMeasurement(clique, np.round(mu + rng.laplace(scale=50, size=mu.shape)), 70.0)
        )
    fits = [
        to_optimum(dtype=dtype, max_steps=4000).fit(domain, measured, total=50_000)
        for dtype in ("float32", "float64")
    ]
    assert fits[0].loss == pytest.approx(fits[1].loss, rel=1e-5)


def test_warm_start_continues_where_the_model_was():
    domain = pj.Domain({"a": 6, "b": 5, "c": 4})
    rng = np.random.default_rng(2)
    measured = [
        pj.LinearMeasurement(c, rng.normal(size=domain.shape_of(c)) * 10 + 30, 5.0)
        for c in (("a", "b"), ("b", "c"))
    ]
    estimator = to_optimum(dtype="float64", tol=1e-8, max_steps=5000)
    first = estimator.fit(domain, measured, total=600)
    again = estimator.fit(domain, measured, total=600, warm_start=first.model)
    assert again.steps <= 50 < first.steps
    assert again.loss == pytest.approx(first.loss, rel=1e-7)
    with pytest.raises(ValueError, match="warm_start"):
        estimator.fit(
            domain, measured, total=600, warm_start=pj.GraphicalModel.from_potentials(pj.Domain({"z": 2}), {})
        )


def test_structural_zeros_are_honoured():
    domain = pj.Domain({"age": 3, "driver": 2, "sex": 2})
    y = np.array([[40.0, 5.0], [20, 30], [10, 50]])
    zeros = pj.StructuralZeros(("driver", "age"), [[True, True, True], [False, True, True]])
    fit = to_optimum().fit(domain, [pj.LinearMeasurement(("age", "driver"), y, 4.0)], constraints=[zeros])
    table = fit.model.marginal(("age", "driver"))
    assert table[0, 1] == 0 and table.sum() == pytest.approx(fit.model.total)
    assert fit.model.sample(500, seed=1)["driver"][fit.model.sample(500, seed=1)["age"] == 0].sum() == 0
    assert np.isfinite(fit.gap) and np.isfinite(fit.loss)


def test_zeros_on_attributes_of_other_cliques():
    domain = pj.Domain({"a": 3, "b": 3, "c": 3})
    measured = [
        pj.LinearMeasurement(("a", "b"), np.full((3, 3), 10.0), 1.0),
        pj.LinearMeasurement(("b", "c"), np.full((3, 3), 10.0), 1.0),
    ]
    zeros = pj.StructuralZeros(("a", "c"), ~np.eye(3, dtype=bool))
    fit = to_optimum(dtype="float64").fit(domain, measured, total=90, constraints=[zeros])
    np.testing.assert_allclose(np.diag(fit.model.marginal(("a", "c"))), 0)
    assert fit.loss < 1e-3  # both marginals can be met without the forbidden pairs


def test_infeasible_constraints_are_named():
    domain = pj.Domain({"a": 2, "b": 2})
    left = pj.StructuralZeros(("a", "b"), [[True, False], [False, False]])
    right = pj.StructuralZeros(("b",), [False, True])
    harmless = pj.StructuralZeros(("a",), [True, True])
    m = pj.LinearMeasurement(("a",), [1.0, 1.0], 1.0)
    with pytest.raises(ValueError, match="infeasible") as error:
        to_optimum().fit(domain, [m], total=2, constraints=[harmless, left, right])
    assert "('a', 'b') and ('b',)" in str(error.value)


def test_a_model_that_does_not_fit_is_refused_with_figures():
    domain = pj.Domain({f"x{i}": 100 for i in range(9)})
    names = domain.attributes
    cliques = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    with pytest.raises(pj.ModelTooLargeError, match=r"42\.06 TiB.*1,000,000,000,000"):
        to_optimum(max_bytes=10**9).plan(domain, cliques)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"max_steps": 0}, "max_steps.*0"),
        ({"tol": float("nan")}, "tol.*nan"),
        ({"dtype": "float16"}, "dtype.*'float16'"),
        ({"oracle": "guess"}, "oracle.*'guess'"),
        ({"solver": "newton"}, "solver.*'auto'"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        to_optimum(**setting)


def test_nothing_measured():
    with pytest.raises(ValueError):
        to_optimum().fit(pj.Domain({"a": 2}), [], total=5)


def test_a_total_that_nothing_tells():
    m = pj.LinearMeasurement(("a",), [3.0], 1.0, query=pj.queries.point(0))
    with pytest.raises(ValueError, match="total"):
        to_optimum().fit(pj.Domain({"a": 3}), [m])


def test_importing_and_fitting_in_float64_changes_no_global_flag():
    import jax

    before = jax.config.jax_enable_x64
    to_optimum(dtype="float64").fit(pj.Domain({"a": 2}), [pj.LinearMeasurement(("a",), [3.0, 4.0], 1.0)])
    assert jax.config.jax_enable_x64 == before


@pytest.mark.parametrize("solver", ["accelerated", "dual_averaging", "mirror_descent"])
def test_a_float32_fit_reports_what_its_potentials_give(solver):
    """Loss, gap and marginals are those of the model, not of marginals rounded apart."""
    domain = pj.Domain({"a": 3, "b": 2, "c": 4, "u": 1})
    measured = [
        pj.LinearMeasurement(("a", "b"), np.arange(6) + 1.0, 1.0),
        pj.LinearMeasurement(("b", "c"), np.arange(8.0) * 3 - 3, 2.0),
    ]
    fit = to_optimum(solver=solver, tol=0, max_steps=3000).fit(domain, measured)
    bare = pj.GraphicalModel(domain, fit.model.potentials, fit.model.total)
    loss = 0.0
    for m in measured:
        np.testing.assert_allclose(fit.model.marginal(m.clique), bare.marginal(m.clique), rtol=1e-9)
        loss += 0.5 * float(np.sum(((bare.marginal(m.clique).ravel() - m.flat_values()) / m.stddev) ** 2))
    assert fit.loss == pytest.approx(loss, rel=1e-9)
    best = to_optimum(dtype="float64", tol=1e-9, max_steps=20_000).fit(domain, measured)
    assert fit.loss - fit.gap <= best.loss + 1e-9 <= fit.loss + 2e-9 + best.gap


@pytest.mark.parametrize("total", [1e5, 1e6, 2e7])
def test_float32_and_float64_agree_at_large_totals(total):
    rng = np.random.default_rng(0)
    domain = pj.Domain({"a": 10, "b": 12, "c": 8})
    joint = rng.dirichlet(np.ones(domain.size())).reshape(domain.shape) * total
    measured = [
        pj.LinearMeasurement(c, joint.sum(axis=axis) + 50 * rng.normal(size=domain.shape_of(c)), 50.0)
        for c, axis in ((("a", "b"), 2), (("b", "c"), 0))
    ]
    fits = [
        to_optimum(dtype=dtype, max_steps=5000, tol=1e-6).fit(domain, measured, total=total)
        for dtype in ("float32", "float64")
    ]
    assert fits[0].loss == pytest.approx(fits[1].loss, rel=1e-5)


@pytest.mark.parametrize("solver", ["accelerated", "mirror_descent", "dual_averaging", "lbfgs"])
def test_l1_that_can_be_met_exactly(solver):
    """The smoothing must not shrink into nothing, nor a finite end be thrown away."""
    m = pj.LinearMeasurement(("a",), [1.0, 2.0, 3.0], 1.0)
    fit = to_optimum(loss="l1", solver=solver, tol=0, max_steps=1500).fit(pj.Domain({"a": 3}), [m], total=6)
    assert fit.status is not pj.Status.NOT_FINITE
    assert 0 <= fit.loss <= fit.gap + 1e-9
    assert fit.loss < 1e-3


def test_l1_at_default_settings_certifies_an_ordinary_table():
    rng = np.random.default_rng(3)
    domain = pj.Domain({"a": 4, "b": 3, "c": 2})
    joint = rng.dirichlet(np.ones(24)).reshape(domain.shape) * 1e5
    measured = [
        pj.LinearMeasurement(c, joint.sum(axis=axis) + rng.laplace(scale=50, size=domain.shape_of(c)), 50.0)
        for c, axis in ((("a", "b"), 2), (("b", "c"), 0))
    ]
    fit = to_optimum(loss="l1", dtype="float64").fit(domain, measured, total=1e5)
    assert fit.gap <= 1e-2 * fit.loss


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e, d, m: e.fit({"a": 3}, [m]), "domain.*Domain.*dict"),
        (lambda e, d, m: e.fit(d, m), "LinearMeasurement"),
        (lambda e, d, m: e.fit(d, [("a", [1.0])]), "measurements.*LinearMeasurement.*tuple"),
        (
            lambda e, d, m: e.fit(d, [m], constraints=[("a",)]),
            "StructuralZeros.*AllowedSet.*tuple",
        ),
        (lambda e, d, m: e.fit(d, [m], warm_start=3), "warm_start must be a GraphicalModel, got int"),
        (lambda e, d, m: to_optimum(loss=None), "loss.*NoneType"),
        (lambda e, d, m: to_optimum(solver=pj.solvers.LBFGS), "must be a name or a solver such as"),
    ],
)
def test_wrong_types_are_named(call, message):
    domain = pj.Domain({"a": 3})
    with pytest.raises(TypeError, match=message):
        call(to_optimum(), domain, pj.LinearMeasurement(("a",), [1.0, 2, 3], 1.0))


def test_warm_start_takes_what_is_finite():
    domain = pj.Domain({"a": 3, "b": 3})
    zeros = pj.StructuralZeros(("a", "b"), ~np.eye(3, dtype=bool))
    m = pj.LinearMeasurement(("a", "b"), np.arange(9.0).reshape(3, 3) + 5, 3.0)
    estimator = to_optimum(dtype="float64", tol=1e-9, max_steps=3000)
    first = estimator.fit(domain, [m], constraints=[zeros])
    again = estimator.fit(domain, [m], constraints=[zeros], warm_start=first.model)
    assert again.steps <= first.steps
    assert again.loss == pytest.approx(first.loss, rel=1e-8)
