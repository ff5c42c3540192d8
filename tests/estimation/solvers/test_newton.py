"""Newton's method on small models: against least squares on the simplex and a general method."""

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

import pgmjax as pj
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.solvers import newton
from pgmjax.estimation.solvers.objective import Objective
from pgmjax.estimation.solvers.stopping import Status, StoppingRule
from pgmjax.inference.oracles.contraction import HostContraction
from pgmjax.inference.plan.structure import Structure


def simplex_optimum(values, stddevs):
    """The least of half the sum of squares over tables of sum 1, by a bisection for the multiplier."""
    low, high = -1e12, 1e12
    for _ in range(300):
        middle = (low + high) / 2
        total = np.maximum(values - middle * stddevs**2, 0).sum()
        low, high = (middle, high) if total > 1 else (low, middle)
    best = np.maximum(values - middle * stddevs**2, 0)
    return 0.5 * float(np.sum(((best - values) / stddevs) ** 2))


@pytest.mark.parametrize("decades", [(0, 3), (-3, 4)])
@pytest.mark.parametrize("seed", range(8))
def test_one_table_of_differing_noise_reaches_the_optimum(seed, decades):
    """Standard deviations over three and seven decades; some measured counts are negative."""
    rng = np.random.default_rng(seed)
    total, shape = 1e6, (6, 5)
    stddevs = 10.0 ** rng.uniform(*decades, shape)
    values = total * rng.dirichlet(np.full(30, 0.3)).reshape(shape) + stddevs * rng.normal(size=shape)
    measured = pj.LinearMeasurement(("a", "b"), values, stddev=stddevs)
    fit = pj.Estimator(regularisation="none", tol=1e-4, progress=False).fit(
        pj.Domain({"a": 6, "b": 5}), [measured], total=total
    )
    expected = simplex_optimum(values.ravel() / total, stddevs.ravel() / total)
    assert expected - 1e-6 <= fit.loss <= 1.01 * expected and fit.steps <= 600


def least_squares_optimum(measurements, shape, total):
    """The least of half the sum of squares over joint tables of a sum, by non-negative least squares."""
    axes, cells = ("a", "b"), np.eye(np.prod(shape)).reshape(*shape, -1)
    rows, wanted = [], []
    for one in measurements:
        gone = tuple(axis for axis, name in enumerate(axes) if name not in one.clique)
        rows.append(cells.sum(gone).reshape(one.values.size, -1) / float(one.stddev))
        wanted.append(one.values.ravel() / float(one.stddev))
    system, wanted = np.concatenate(rows), np.concatenate(wanted)
    heavy = 1e3 * system.max()  # the sum holds to twelve digits
    found, _ = nnls(np.vstack([system, np.full(np.prod(shape), heavy)]), np.append(wanted, heavy * total))
    return 0.5 * float(np.sum((system @ found - wanted) ** 2))


@pytest.mark.parametrize("seed", range(24))
def test_ten_million_records_with_little_noise_reach_the_optimum(seed):
    """Sparse tables alone, with a marginal of the same noise, and with one of a thousandth of it."""
    rng, shape, total = np.random.default_rng(seed), (3, 5), 1e7
    table = total * rng.dirichlet(np.full(15, 0.5 if seed % 2 else 0.1)).reshape(shape)
    noisy = [pj.LinearMeasurement(("a", "b"), table + 10 * rng.normal(size=shape), stddev=10.0)]
    if seed % 3:
        noisy.append(pj.LinearMeasurement(("b",), table.sum(0) + 10 * rng.normal(size=5), stddev=10.0))
    if seed % 3 == 2:
        noisy.append(pj.LinearMeasurement(("a",), table.sum(1) + 0.01 * rng.normal(size=3), stddev=0.01))
    fit = pj.Estimator(regularisation="none", tol=1e-4, progress=False).fit(
        pj.Domain({"a": 3, "b": 5}), noisy, total=total
    )
    expected = least_squares_optimum(noisy, shape, total)
    assert (1 - 1e-6) * expected <= fit.loss <= 1.01 * expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("total", "stddev"), [(1e7, 10.0), (1e9, 10.0), (1e9, 1.0)], ids=str)
@pytest.mark.parametrize("oracle", ["auto", "contraction"])
def test_large_counts_with_little_noise_are_certified(total, stddev, dtype, oracle):
    """Steps of first order methods are in proportion to the ratio of curvatures, 1e12 to 1e18 here.

    The gap is that of predicted residuals z: what is lost by rounding is 16 digits of their products with
    counts, in all eps * sum |z| * total / stddev, some 1e-5 at most. That of residuals at the point would
    lose eps * (total / stddev)**2, some 100.
    """
    for seed in range(4):
        rng, shape = np.random.default_rng(seed), (3, 5)
        table = total * rng.dirichlet(np.full(15, 0.5 if seed % 2 else 0.1)).reshape(shape)
        noisy = [
            pj.LinearMeasurement(("a", "b"), table + stddev * rng.normal(size=shape), stddev),
            pj.LinearMeasurement(("b",), table.sum(axis=0) + stddev * rng.normal(size=5), stddev),
        ]
        fit = pj.Estimator(regularisation="none", tol=1e-3, dtype=dtype, oracle=oracle, progress=False).fit(
            pj.Domain({"a": 3, "b": 5}), noisy, total=total
        )
        rounding = np.finfo(float).eps * 20 * total / stddev * np.sqrt(2 * fit.loss)
        assert fit.status is Status.CONVERGED and fit.gap <= 1e-3 * max(1, fit.loss) and fit.steps <= 300
        excess = fit.loss - least_squares_optimum(noisy, shape, total)
        # the reference keeps the total to eight digits of the noise only
        assert -1e-4 <= excess <= fit.gap + rounding + 1e-4


@pytest.mark.parametrize("loss", ["l2", "l1"])
def test_a_loop_of_large_counts_is_certified(loss):
    """No closed form, and no start near the optimum: three pairs of three attributes."""
    rng, sizes = np.random.default_rng(5), {"a": 3, "b": 4, "c": 3}
    joint = 1e8 * rng.dirichlet(np.full(36, 0.3)).reshape(3, 4, 3)
    noisy = [
        pj.LinearMeasurement(pair, joint.sum(axis) + 3 * rng.normal(size=joint.sum(axis).shape), 3.0)
        for pair, axis in ((("a", "b"), 2), (("a", "c"), 1), (("b", "c"), 0))
    ]
    fit = pj.Estimator(loss=loss, regularisation="none", progress=False).fit(
        pj.Domain(sizes), noisy, total=1e8
    )
    assert fit.status is Status.CONVERGED and fit.gap <= 0.01 * max(1, fit.loss) and fit.loss < 40


def test_a_root_of_a_graded_covariance_keeps_the_digits_of_small_cells():
    """Cells over twelve decades: two large ones differ from one another by a small one only."""
    probabilities = np.array([0.7, 0.3 - 1e-12, 1e-12])
    root, pivots = newton._root(np.diag(probabilities) - np.outer(probabilities, probabilities))
    assert sorted(pivots) == [0, 2]  # the second is what the others leave
    variances = probabilities * (1 - probabilities)
    np.testing.assert_allclose((root**2).sum(axis=1), variances, rtol=1e-10)
    np.testing.assert_allclose(root[0] @ root[2], -0.7e-12, rtol=1e-10)


def test_it_minimises_with_a_prior_what_a_general_method_does():
    """Two tables that share an attribute, with the entropy as a term: against SciPy over the joint table."""
    sizes, weight, rng = {"a": 2, "b": 3, "c": 2}, 5.0, np.random.default_rng(3)
    domain = pj.Domain(sizes)
    noisy = [
        pj.LinearMeasurement(clique, rng.normal(20, 8, size=domain.size(clique)), stddev=4.0)
        for clique in (("a", "b"), ("b", "c"))
    ]
    bound = losses.build("l2", domain, noisy, 100.0, "float64")

    def objective(logits):
        p = np.exp(logits - logits.max()).reshape(2, 3, 2)
        p /= p.sum()
        entropy = np.sum(p * np.log(12 * p))
        return bound.exact([p.sum(axis=2), p.sum(axis=0)]) + weight * entropy

    expected = minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-9}).fun
    structure, _ = Structure.named(sizes, bound.cliques)
    prior = solvers.objective.Prior(np.float64(weight), np.float64(np.log(12)))
    problem = Objective.build(
        HostContraction.build(structure), bound, np.float64(bound.lipschitz()), (), prior
    )
    end = newton.minimise(problem, np.zeros(12), stop=StoppingRule.of(1e-10, 60, 0.0))
    assert end.status is Status.CONVERGED and end.steps <= 40
    assert float(end.point.loss) == pytest.approx(expected, rel=1e-8)
