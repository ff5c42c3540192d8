"""Long fits under tame and wild noise and totals: no NaN, no rising loss, whatever the solver."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.solvers import loop
from pgmjax.estimation.solvers.objective import Objective
from pgmjax.estimation.solvers.stopping import StoppingRule
from tests import models
from tests.optimum import to_optimum

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 5})
CLIQUES = [("a", "b"), ("b", "c"), ("c", "a"), ("d",)]
EXTREMES = [(sigma, total) for sigma in (1e-3, 20.0, 1e3) for total in (1e2, 1e4, 1e9)]


def noisy(total, sigma, domain=DOMAIN, cliques=CLIQUES, seed=0, sparse=0.3):
    """Answers about a random table of which many cells are empty."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(domain.size(), sparse)).reshape(domain.shape) * total
    result = []
    for clique in cliques:
        axes = tuple(i for i, name in enumerate(domain.attributes) if name not in clique)
        kept = [name for name in domain.attributes if name in clique]
        exact = joint.sum(axis=axes).transpose([kept.index(name) for name in clique])
        result.append(pj.LinearMeasurement(clique, exact + rng.laplace(scale=sigma, size=exact.shape), sigma))
    return result


def marginals_of(potentials, measured, total):
    """Counts of each measured clique by brute force, which shares no code with a fit."""
    numbers = tuple(tuple(DOMAIN.attributes.index(name) for name in m.clique) for m in measured)
    shapes = [DOMAIN.shape_of(m.clique) for m in measured]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(np.asarray(potentials, np.float64), ends)
    tables = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]
    logits = models.joint((DOMAIN.shape, numbers), tables)
    return [total * models.marginal(logits, clique) for clique in numbers]


def loss_and_rounding(marginals, measured):
    """The loss in float64, and how far float32 may move it: marginals wrong by 16 eps of themselves."""
    loss = first = second = 0.0
    for mu, m in zip(marginals, measured, strict=True):
        loss += 0.5 * float(np.sum(((mu - m.values) / m.stddev) ** 2))
        first += float(np.sum(abs(mu - m.values) * mu / m.stddev**2))
        second += float(np.sum((mu / m.stddev) ** 2))
    wrong = 16 * float(np.finfo(np.float32).eps)
    return loss, wrong * (first + loss) + 0.5 * wrong**2 * second


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Watched(solvers.Solver):
    """A solver that hands the potentials at the end of each block to the host."""

    inner: solvers.Solver
    seen: Any = dataclasses.field(metadata={"static": True})

    @property
    def copies(self):
        return self.inner.copies

    def start(self, problem, potentials):
        return self.inner.start(problem, potentials)

    def step(self, problem, state):
        return self.inner.step(problem, state)

    def recentred(self, gauge, state):
        return self.inner.recentred(gauge, state)

    def stalled(self, state):
        return self.inner.stalled(state)

    def result(self, problem, state):
        point = self.inner.result(problem, state)
        jax.debug.callback(self.seen, point.potentials, ordered=True)
        return point


def watched_losses(solver, measured, total, steps):
    """Loss and rounding of a float32 fit, computed in float64, at the end of every block of 50 steps."""
    kept: list[np.ndarray] = []
    bound = losses.build("l2", DOMAIN, measured, total, "float32")
    oracle = to_optimum().plan(DOMAIN, bound.cliques).oracle
    problem = Objective.build(oracle, bound, np.asarray(bound.lipschitz()))
    watched = Watched(solvers.build(solver), lambda vector: kept.append(np.array(vector)))
    loop.run_single(
        loop.solve_steps(
            problem, watched, np.zeros(oracle.length, np.float32), stop=StoppingRule(tol=-1, max_steps=steps)
        )
    )
    jax.effects_barrier()
    assert all(np.isfinite(vector).all() for vector in kept)
    assert [m.clique for m in measured] == list(bound.cliques)
    return np.array([loss_and_rounding(marginals_of(vector, measured, total), measured) for vector in kept])


@pytest.mark.parametrize("solver", ["accelerated", "mirror_descent"])
@pytest.mark.parametrize(("sigma", "total"), EXTREMES, ids=str)
def test_the_loss_never_rises_in_float32(solver, sigma, total):
    measured = noisy(total, sigma)
    seen, rounding = watched_losses(solver, measured, total, steps=500).T
    assert np.isfinite(seen).all()
    lowest = np.minimum.accumulate(seen)[:-1]
    assert (seen[1:] <= lowest + np.minimum.accumulate(rounding)[:-1]).all()
    assert seen[-1] < seen[0] or len(seen) < 10


def rounding_of(fit, measured):
    """How far float32 may have moved the loss of a fit."""
    return loss_and_rounding([fit.model.marginal(m.clique) for m in measured], measured)[1]


@pytest.mark.slow
@pytest.mark.parametrize("solver", solvers.names())
@pytest.mark.parametrize(("sigma", "total"), EXTREMES, ids=str)
def test_ten_thousand_steps(solver, sigma, total):
    """Estimator.fit at default settings but for the steps: ever longer fits end ever lower."""
    measured, ends = noisy(total, sigma), []
    for steps in (100, 1000, 10_000):
        fit = to_optimum(solver=solver, max_steps=steps, tol=0.0).fit(DOMAIN, measured, total=total)
        assert fit.status is not pj.Status.NOT_FINITE
        assert np.isfinite(fit.loss) and np.isfinite(fit.gap)
        assert all(np.isfinite(table).all() for table in fit.model.potentials.tables)
        ends.append(fit.loss)
    slack = rounding_of(fit, measured)
    assert ends[1] <= ends[0] + slack
    assert ends[2] <= ends[1] + slack


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "total"), EXTREMES, ids=str)
def test_ten_thousand_steps_on_a_wider_structure(sigma, total):
    """All pairs of six attributes of up to nine values, most of whose cells are empty."""
    domain = pj.Domain({"u": 2, "v": 9, "w": 5, "x": 4, "y": 7, "z": 3})
    names = domain.attributes
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    measured = noisy(total, sigma, domain, pairs, seed=1, sparse=0.02)
    ends = []
    for steps in (300, 10_000):
        fit = to_optimum(max_steps=steps, tol=0.0).fit(domain, measured, total=total)
        assert fit.status is not pj.Status.NOT_FINITE and np.isfinite(fit.gap)
        ends.append(fit.loss)
    assert ends[1] <= ends[0] + rounding_of(fit, measured)


def test_the_step_survives_rounding():
    """Where the loss has no digits left, refusals may not shrink the step to nothing."""
    measured = noisy(5000.0, 20.0)
    with jax.enable_x64(True):
        bound = losses.build("l2", DOMAIN, measured, 5000.0, "float64")
        oracle = to_optimum().plan(DOMAIN, bound.cliques).oracle
        problem = Objective.build(oracle, bound, np.asarray(bound.lipschitz()))
        solver = solvers.Accelerated()
        state = loop._start(problem, solver, np.zeros(oracle.length))
        for _ in range(20):
            state = loop._block(problem, solver, state, np.int32(200))[0]
        assert float(state.step_size) * bound.lipschitz() >= 0.5


def test_a_finished_fit_ends_where_it_starts():
    """A warm start at the optimum takes one block, not a search for the step size in rounding errors."""
    measured = noisy(5000.0, 20.0)
    estimator = to_optimum(dtype="float64", tol=1e-5, max_steps=5000)
    first = estimator.fit(DOMAIN, measured, total=5000)
    again = estimator.fit(DOMAIN, measured, total=5000, warm_start=first.model)
    assert first.status is again.status is pj.Status.CONVERGED
    assert again.steps <= 50
