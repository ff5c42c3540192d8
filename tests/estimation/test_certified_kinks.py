"""Certified gaps of a loss with kinks, wherever the fit ends, against the optimum of a linear program."""

import numpy as np
import pytest
from scipy.optimize import linprog

import pgmjax as pj

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("a", "c")]


def case(seed):
    rng = np.random.default_rng(seed)
    joint = 400 * rng.dirichlet(np.full(24, 0.5)).reshape(3, 4, 2)
    sums = [joint.sum(2), joint.sum(0), joint.sum(1)]
    return [
        pj.LinearMeasurement(clique, exact + rng.laplace(0, 20, exact.shape), 20.0)
        for clique, exact in zip(CLIQUES, sums, strict=True)
    ]


def optimum(noisy):
    """The least sum of absolute residuals (standard deviations) over all tables of 400 records."""
    index = np.indices(DOMAIN.shape).reshape(3, -1)
    rows, values = [], []
    for one in noisy:
        axes = ["abc".index(name) for name in one.clique]
        code = np.ravel_multi_index([index[axis] for axis in axes], DOMAIN.shape_of(one.clique))
        rows.append((np.arange(one.values.size)[:, None] == code) / 20.0)
        values.append(one.flat_values() / 20.0)
    a, y = np.concatenate(rows), np.concatenate(values)
    n, m = a.shape[1], len(y)
    found = linprog(
        np.r_[np.zeros(n), np.ones(m)],
        A_ub=np.block([[a, -np.eye(m)], [-a, -np.eye(m)]]),
        b_ub=np.r_[y, -y],
        A_eq=np.r_[np.ones(n), np.zeros(m)][None],
        b_eq=[400.0],
        method="highs",
    )
    return found.fun


@pytest.mark.parametrize("oracle", ["host", "contraction"])
@pytest.mark.parametrize("steps", [20, 150, 600])
@pytest.mark.parametrize("solver", ["accelerated", "mirror_descent"])
def test_the_gap_of_a_smoothed_loss_is_above_its_excess(solver, steps, oracle):
    for seed in range(3):
        noisy = case(seed)
        fit = pj.Estimator(
            loss="l1", solver=solver, oracle=oracle, max_steps=steps, regularisation="none", progress=False,
            dtype="float64", tol=1e-6,
        ).fit(DOMAIN, noisy, total=400.0)  # fmt: skip
        excess = fit.loss - optimum(noisy)
        assert -1e-7 <= excess <= fit.gap + 1e-7 and fit.gap <= fit.loss
