"""A table of 24 cells with noisy answers, constraints on it, and convex programs over its joint (SciPy)."""

import numpy as np
from scipy.optimize import linprog, minimize

import pgmjax as pj

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
SHAPE, TOTAL = DOMAIN.shape, 1000.0
RNG = np.random.default_rng(0)
JOINT = RNG.dirichlet(np.full(24, 0.5)).reshape(SHAPE) * TOTAL
CLIQUES = (("a", "b"), ("b", "c"))
STATES = np.indices(SHAPE).reshape(3, -1)


def cells(clique):
    """The cell of a clique that each joint state lies in, as a matrix [cells, states]."""
    codes = tuple(STATES["abc".index(name)] for name in clique)
    number = np.ravel_multi_index(codes, DOMAIN.shape_of(clique))
    return (number == np.arange(DOMAIN.size(clique))[:, None]).astype(float)


NOISY = [
    pj.LinearMeasurement(c, (cells(c) @ JOINT.ravel() + RNG.normal(size=DOMAIN.size(c)) * 20), 20.0)
    for c in CLIQUES
]
B = pj.FixedMarginal(("b",), [300, 300, 250, 150])
A = pj.FixedMarginal(("a",), [500, 200, 300])
EMPTY = pj.FixedMarginal(("a", "c"), [[400, 0], [100, 200], [200, 100]])
ZEROS = pj.StructuralZeros(("a", "c"), [[True, False], [True, True], [True, True]])
CASES = {"one": [B], "two": [A, B], "zeros": [ZEROS, A, B], "pair": [EMPTY, B]}


def program(constraints):
    """Which states are possible, and the equations of the fixed marginals."""
    possible = np.ones(24, bool)
    rows, values = [np.ones(24)], [1.0]
    for constraint in constraints:
        if isinstance(constraint, pj.FixedMarginal):
            rows.extend(cells(constraint.clique))
            values.extend(constraint.probabilities.ravel())
        mask = constraint.zeros(DOMAIN)
        if mask is not None:
            possible &= (mask.allowed.ravel() @ cells(mask.clique)) > 0
    return possible, np.array(rows), np.array(values)


MATRIX = np.concatenate([cells(m.clique) * TOTAL / m.stddev for m in NOISY])
VALUES = np.concatenate([m.flat_values() / m.stddev for m in NOISY])


def least_squares(constraints, weight=0.0, prior=None):
    """The least loss (with weighted relative entropy) over the joint, and where it is."""
    possible, rows, values = program(constraints)
    # of the equations, which depend on one another, a basis
    basis, kept = np.zeros((0, possible.sum())), []
    for number, row in enumerate(rows[:, possible]):
        if np.linalg.matrix_rank(np.vstack([basis, row])) > len(basis):
            basis, kept = np.vstack([basis, row]), [*kept, number]
    wanted, matrix = values[kept], MATRIX[:, possible]
    base = np.full(24, 1 / 24)[possible] if prior is None else prior.ravel()[possible]

    def value(p):
        residual = matrix @ p - VALUES
        entropy = np.sum(p * np.log(np.maximum(p, 1e-300) / base)) if weight else 0.0
        return 0.5 * residual @ residual + weight * entropy

    def slope(p):
        entropy = np.log(np.maximum(p, 1e-300) / base) + 1 if weight else 0.0
        return matrix.T @ (matrix @ p - VALUES) + weight * entropy

    found = minimize(
        value,
        base / base.sum(),
        jac=slope,
        bounds=[(0, 1)] * len(base),
        constraints={"type": "eq", "fun": lambda p: basis @ p - wanted, "jac": lambda p: basis},
        method="SLSQP",
        options={"maxiter": 5000, "ftol": 1e-15},
    )
    joint = np.zeros(24)
    joint[possible] = found.x
    assert np.abs(basis @ found.x - wanted).max() < 1e-8
    return found.fun, joint.reshape(SHAPE) * TOTAL


def least_absolute(constraints):
    """The least L1 loss over the joint, by linear programming."""
    possible, rows, values = program(constraints)
    n, r = 24, len(VALUES)
    found = linprog(
        np.r_[np.zeros(n), np.ones(r)],
        A_ub=np.block([[MATRIX, -np.eye(r)], [-MATRIX, -np.eye(r)]]),
        b_ub=np.r_[VALUES, -VALUES],
        A_eq=np.c_[rows, np.zeros((len(rows), r))],
        b_eq=values,
        bounds=[(0, 1 if ok else 0) for ok in possible] + [(0, None)] * r,
    )
    return found.fun


def assert_honoured(model, constraints):
    for constraint in constraints:
        if isinstance(constraint, pj.FixedMarginal):
            np.testing.assert_allclose(model.marginal(constraint.clique), constraint.counts, rtol=1e-9)
        mask = constraint.zeros(DOMAIN)
        if mask is not None:
            assert (model.marginal(mask.clique)[~mask.allowed] == 0).all()
