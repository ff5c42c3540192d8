"""Implicit mirror descent by Newton's method, for small models on the host.

A step of mirror descent takes the gradient at the point it leaves. An implicit one takes it at the point it
reaches, which is stable at any step size: the loss plus the relative entropy to the last point over the step
size is minimised, here by one step of Newton's method. With R a root of the marginals' covariance F = R R',
residuals r with first derivatives z and second derivatives D, and B their rows, the move d of the potentials
has R' d = u, where u minimises

    |D^(1/2) B R u + D^(-1/2) z|^2 / 2 + |u|^2 / (2 size).

The step size grows with every accepted step, so that the method ends as Newton's.

Where noise is small beside counts, digits are short: with counts of 1e9 and noise of 1 the loss bends by
1e18, which is beyond the 16 digits of float64. So the system is solved as least squares, which take the root
of that, and R is a Cholesky factor of which small cells keep their own digits. The certificate is not that of
the residuals at the point, whose rounding alone may be worth a loss of 100. It is that of the residuals
predicted, z' = z + D B R u, whose gradient B' z' is level over all likely cells to rounding. Any z' gives a
bound, by Fenchel's inequality: the gap is what z' lacks of being the derivative z, plus the most by which the
gradient of a joint cell lies below the mean.

References:
    Rockafellar (1976), the proximal point algorithm; Levenberg (1944), the damping; Higham (2002), Accuracy
        and Stability of Numerical Algorithms, chapters 10.3 and 20, for graded Cholesky factors and least
        squares.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np

from pgmjax._internal.device import one_thread, precision
from pgmjax.estimation.losses.base import BoundResiduals
from pgmjax.estimation.solvers.loop import Solution, Watch
from pgmjax.estimation.solvers.objective import Evaluation, Objective, Vector, rounding
from pgmjax.estimation.solvers.stopping import Status, StoppingRule
from pgmjax.inference.ops import split
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.oracles.contraction import HostContraction
from pgmjax.inference.plan.structure import Structure

# It goes on for the default solver after STEPS_BEFORE steps, for models of at most MOST_CELLS cells. It takes
# as many steps as the forecast says that take SECONDS, at least FEWEST_STEPS.
STEPS_BEFORE, MOST_CELLS, SECONDS, FEWEST_STEPS, MOST_STEPS = 200, 400, 2.0, 10, 300
JOINT = 2_000_000  # cells of the joint table, times cliques, up to which covariances are read off it
DEPENDENT = 1e-11  # of a cell's variance: what is left beside other cells is rounding
SLIGHT = 1e-7  # of the loss: a smaller fall does not count
PATIENCE = 12  # steps without a lower loss or a higher bound after which it has stalled
CORRECTIONS, KINKS = 6, 10
# Factors of the step size until a step is rejected, then, and where one is; the largest, in shares of the
# loss.
FIRST, GROW, SHRINK, LARGEST = 10.0, 3.0, 0.2, 1e6
FARTHEST = 50.0  # nats that a potential moves in one step


def has_time(oracle: Oracle, cells: int, tables: int) -> bool:
    """Return whether a model is small enough for it: `FEWEST_STEPS` steps take at most `SECONDS`.

    Args:
        oracle: of the model.
        cells: of all tables.
        tables: their number.
    """
    return cells <= MOST_CELLS and _step_seconds(oracle, cells, tables) * FEWEST_STEPS <= SECONDS


def minimise(
    problem: Objective,
    potentials: Vector,
    *,
    stop: StoppingRule,
    done: int = 0,
    slack: float = 0.0,
    lower_bound: float = -math.inf,
    watch: Watch | None = None,
) -> Solution:
    """Run Newton's method until the stopping rule ends it, on the host in float64.

    Args:
        problem: the problem to minimise.
        potentials: starting point.
        stop: stopping rule.
        done: steps of the fit already done.
        slack: bound on the unsmoothed minus the smoothed loss.
        lower_bound: a lower bound on the optimum that is certified in float64.
        watch: called after each step with (points evaluated in it, loss, gap, what returns the best point).

    Returns:
        The best point with status, steps and lower bound; NOT_FINITE only if the loss was not finite at the
        start, as a loss may be here that was finite on a device.
    """
    with _settings(), precision("float64"):
        problem = problem.on_host()
        best = problem.evaluate(np.asarray(potentials, np.float64))
        if not np.isfinite(best.loss):
            return Solution(best, Status.NOT_FINITE, done, lower_bound)
        size, grow, since, local = 1 / float(problem.smoothness), FIRST, 0, _Local.at(problem, best)
        most = min(stop.max_steps, done + _most_steps(problem))
        while True:
            candidate, bound = local.step(problem, size)
            higher = bound > lower_bound + SLIGHT * max(1.0, abs(float(best.loss)))
            lower_bound = max(lower_bound, bound)
            error = float(rounding(best))
            now, taken = _corrected(
                problem, local, problem.evaluate(candidate), size, float(best.loss) + error
            )
            done += taken
            fallen = bool(now.loss < best.loss - max(error, SLIGHT * float(abs(best.loss))))
            since = 0 if fallen or higher else since + 1
            if now.loss <= best.loss + error:
                best, local = now, _Local.at(problem, now)
                size = min(size * grow, LARGEST / max(1.0, abs(float(now.loss))))
            else:
                size, grow = size * SHRINK, GROW
            loss = float(best.loss)
            gap = max(loss - lower_bound, 0.0)
            if watch is not None:
                watch(taken, loss, gap, functools.partial(_itself, best))
            ended = stop.status(loss, gap, done, since > PATIENCE, slack, alone=problem.alone(best))
            if ended is None and done >= most:
                ended = Status.MAX_STEPS if done >= stop.max_steps else Status.STALLED
            if ended is not None:
                return Solution(best, ended, done, lower_bound)


def _corrected(
    problem: Objective, local: _Local, now: Evaluation, size: float, enough: float
) -> tuple[Evaluation, int]:
    """Step on from a point that is not low enough, with the same covariance as long as that lowers the loss.

    Sharp residuals confine a fit to a curved valley, which a linearised step leaves at once; corrections
    return.

    Returns:
        The lowest point, and the number of points evaluated so far.
    """
    for taken in range(1, CORRECTIONS + 1):
        if now.loss <= enough or not np.isfinite(now.loss):
            return now, taken
        further = problem.evaluate(local.moved(problem, now).step(problem, SHRINK**2 * size)[0])
        if not further.loss < now.loss:
            return now, taken + 1
        now = further
    return now, CORRECTIONS + 1


def lower_bound(problem: Objective, potentials: Vector) -> float:
    """Return a certified lower bound on the optimum, from predicted residuals near some potentials."""
    with _settings(), precision("float64"):
        problem = problem.on_host()
        point = problem.evaluate(np.asarray(potentials, np.float64))
        if not np.isfinite(point.loss):
            return -math.inf
        return _Local.at(problem, point).step(problem, LARGEST / max(1.0, abs(float(point.loss))))[1]


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Run NumPy with one thread of BLAS, as systems are of a few hundred rows, and without warnings."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        yield


def _itself(point: Evaluation) -> Evaluation:
    return point


@dataclasses.dataclass(frozen=True)
class _Local:
    """The problem near a point.

    Attributes:
        point: the point.
        parts: the loss's residuals there.
        root: R, a root of the covariance of the marginals' cells [cells, rank].
        pivots: the cells that its columns belong to, whose potentials move [rank].
    """

    point: Evaluation
    parts: BoundResiduals
    root: np.ndarray
    pivots: np.ndarray

    @classmethod
    def at(cls, problem: Objective, point: Evaluation) -> _Local:
        """Evaluate covariance and residuals at a point."""
        cells = sum(math.prod(shape) for shape in problem.shapes)
        parts = problem.residuals(point.marginals[:cells])
        if parts is None:
            parts = _by_differences(problem, point, cells)
        return cls(point, parts, *_root(_covariance(problem, point, cells)))

    def moved(self, problem: Objective, point: Evaluation) -> _Local:
        """Return the problem near another point, with the covariance of this one."""
        cells = len(self.root)
        parts = problem.residuals(point.marginals[:cells])
        if parts is None:
            _, slope = problem.value_and_gradient(point.marginals)
            parts = dataclasses.replace(self.parts, slope=slope[:cells])
        return dataclasses.replace(self, point=point, parts=parts)

    def step(self, problem: Objective, size: float) -> tuple[Vector, float]:
        """Return the potentials that an implicit step of a size reaches, and a lower bound on the optimum."""
        parts = self.parts
        weight = 0.0 if problem.prior is None else float(problem.prior.weight)
        ridge = 1 / size + weight
        level = parts.slope
        if weight:
            level = level + weight * self.point.potentials[: len(level)]
        u, slopes = self._predicted(self.root.T @ level, ridge)
        bound = self._bound(problem, slopes if parts.is_exact else parts.slopes)
        if np.isfinite(parts.largest).any():  # which residuals end beyond their kinks may be mistaken
            bound = max(bound, self._bound(problem, parts.slopes))
        return self._moved(problem, u, slopes, ridge), bound

    def _predicted(self, level: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Return u, and the derivatives by the residuals that it reaches.

        Squares take one solution. Functions with kinks take one for each set of residuals beyond them.
        """
        parts, moves = self.parts, self.parts.rows @ self.root
        u = np.zeros(moves.shape[1])
        for _ in range(KINKS):
            reached = parts.sharpness * (parts.values + moves @ u)
            slopes = np.clip(reached, -parts.largest, parts.largest)
            inside = np.abs(reached) < parts.largest
            scale = np.sqrt(parts.sharpness[inside])
            system = scale[:, None] * moves[inside]
            linear = level + slopes[~inside] @ moves[~inside] + ridge * u
            change = _ridged(system, slopes[inside] / scale, linear, ridge)
            u = u + change
            slopes[inside] += scale * (system @ change)
            if np.isinf(parts.largest).all():
                break
            if np.array_equal(inside, np.abs(parts.sharpness * (parts.values + moves @ u)) < parts.largest):
                break
        return u, np.clip(slopes, -parts.largest, parts.largest)

    def _moved(self, problem: Objective, u: np.ndarray, slopes: np.ndarray, ridge: float) -> Vector:
        """Return the potentials after a step; cells whose probability is lost move by the gradient alone."""
        move = np.zeros(len(self.point.potentials))
        if len(u):
            move[self.pivots] = np.linalg.solve(self.root[self.pivots].T, u)
        cells = len(self.root)
        lost = np.flatnonzero(self.point.marginals[:cells] < np.finfo(float).tiny)
        if len(lost):
            gradient = np.zeros(len(move))
            gradient[:cells] = self.parts.slope + slopes @ self.parts.rows
            centred = problem.gauge.centred(gradient, self.point.marginals)
            move[lost] = -centred[lost] / ridge
        centred = problem.gauge.centred(np.nan_to_num(move), self.point.marginals)
        moved = self.point.potentials + np.clip(_logarithmic(centred), -FARTHEST, FARTHEST)
        return moved - problem.gauge.tops(moved)

    def _bound(self, problem: Objective, slopes: np.ndarray) -> float:
        """Return the lower bound on the optimum that derivatives of the residuals give."""
        point, parts = self.point, self.parts
        gradient = np.zeros(len(point.potentials))
        gradient[: len(self.root)] = parts.slope + slopes @ parts.rows
        return float(point.loss) - parts.lacking(slopes) - float(problem.gap(point, gradient))


def _logarithmic(move: np.ndarray) -> np.ndarray:
    """Return the moves of potentials that change probabilities themselves by these shares.

    So a table's own residuals, which are linear in them, change as predicted. Beyond a half less, the
    tangent.
    """
    near = np.maximum(move, -0.5)
    return np.asarray(np.log1p(near) + 2 * (move - near))


def _ridged(system: np.ndarray, values: np.ndarray, level: np.ndarray, ridge: float) -> np.ndarray:
    """Return the u that minimises ``|system u + values|**2 / 2 + <level, u> + ridge |u|**2 / 2``."""
    rank = system.shape[1]
    if not rank:
        return np.zeros(0)
    root = math.sqrt(ridge)
    # columns differ by as much as the roots of counts do
    scales = np.sqrt(np.einsum("ij,ij->j", system, system) + ridge)
    upper = np.column_stack([system / scales, values])
    lower = np.column_stack([np.diag(root / scales), level / root])
    triangle = np.asarray(np.linalg.qr(np.vstack([upper, lower]), mode="r"))
    try:
        found = np.linalg.solve(triangle[:rank, :rank], -triangle[:rank, rank]) / scales
    except np.linalg.LinAlgError:
        return np.zeros(rank)
    return np.nan_to_num(found)


def _root(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a root of a covariance [cells, rank], and the cells that its columns begin at.

    Cells that the others determine have none, such as the last cell of a table. Among others the largest
    comes first, but for one of which little is left: that little has lost digits, which a small cell has
    kept.
    """
    rest = covariance.diagonal().copy()
    least, whole = np.maximum(DEPENDENT * rest, np.finfo(float).tiny), np.maximum(rest, np.finfo(float).tiny)
    root = np.zeros_like(covariance)
    pivots: list[int] = []
    while True:
        rest[rest <= least] = 0.0
        cell = int(np.argmax(rest * (rest / whole)))
        if not rest[cell] > 0:
            return root[:, : len(pivots)], np.array(pivots, np.intp)
        before = root[:, : len(pivots)]
        column = (covariance[:, cell] - before @ before[cell]) / math.sqrt(rest[cell])
        column[pivots] = 0.0
        root[:, len(pivots)] = column
        rest -= column**2
        rest[cell] = 0.0
        pivots.append(cell)


def _covariance(problem: Objective, point: Evaluation, cells: int) -> np.ndarray:
    """Return the covariance of the indicators of all measured cells [cells, cells]."""
    path = problem.oracle.contraction_path()
    marginals = point.marginals[:cells]
    if _by_joint_table(path.structure):
        held = sum(1 for _ in problem.shapes)
        codes = _codes(path.structure)
        tables = split(problem.all(point.potentials), path.structure.shapes)
        logs = np.sum([table.reshape(-1)[code] for table, code in zip(tables, codes, strict=True)], axis=0)
        joint = np.exp(logs - logs.max())
        joint /= joint.sum()
        found = np.empty((cells, cells))
        starts = np.cumsum([0, *(math.prod(shape) for shape in problem.shapes)])
        for one in range(held):
            for other in range(one, held):
                (a, b), (c, d) = starts[one : one + 2], starts[other : other + 2]
                pair = np.bincount(codes[one] * (d - c) + codes[other], joint, (b - a) * (d - c))
                found[a:b, c:d] = pair.reshape(b - a, d - c)
                found[c:d, a:b] = found[a:b, c:d].T
    else:
        found = np.empty((cells, cells))
        tables = problem.gauge.table[:cells]
        for cell in range(cells):
            known = np.where(tables == tables[cell], -np.inf, point.potentials[:cells])
            known[cell] = point.potentials[cell]
            padded = np.concatenate([known, point.potentials[cells:]])
            given = problem.oracle.infer_flat(problem.all(padded))[1][:cells]
            found[cell] = marginals[cell] * np.nan_to_num(given)
        found = (found + found.T) / 2
    # a product of two means is taken from each cell's own pair: no digits are lost where both are small
    return found - np.outer(marginals, marginals)


def _by_joint_table(structure: Structure) -> bool:
    return math.prod(structure.sizes) * len(structure.cliques) <= JOINT


@functools.lru_cache(maxsize=4)
def _codes(structure: Structure) -> tuple[np.ndarray, ...]:
    """Return for each clique the cell of its table that each joint cell belongs to."""
    found = []
    for clique, shape in zip(structure.cliques, structure.shapes, strict=True):
        axes = [np.arange(n).reshape([-1 if v == u else 1 for u in range(len(structure.sizes))])
                for v, n in zip(clique, shape, strict=True)]  # fmt: skip
        code = np.ravel_multi_index(np.broadcast_arrays(*axes), shape) if clique else np.zeros(1, np.intp)
        found.append(np.broadcast_to(code, structure.sizes).reshape(-1))
    return tuple(found)


def _most_steps(problem: Objective) -> int:
    """Return the number of steps that are forecast to take `SECONDS`."""
    shapes = problem.shapes
    seconds = _step_seconds(problem.oracle, sum(map(math.prod, shapes)), len(shapes))
    return min(max(int(SECONDS / seconds), FEWEST_STEPS), MOST_STEPS)


def _step_seconds(oracle: Oracle, cells: int, tables: int) -> float:
    """Return a forecast of the time of one step (s)."""
    path = oracle.contraction_path()
    if _by_joint_table(path.structure):
        pairs = tables**2 / 2
        one = pairs * 5e-9 * math.prod(path.structure.sizes)
    else:
        one = cells * HostContraction(path).forecast.seconds
    return one + 2e-9 * cells**3 + 1e-3


def _by_differences(problem: Objective, point: Evaluation, cells: int) -> BoundResiduals:
    """Return residuals with the Hessian of any loss, by differences of its gradient."""
    small = 1e-3
    _, slope = problem.value_and_gradient(point.marginals)
    hessian = np.empty((cells, cells))
    for cell in range(cells):
        moved = np.array(point.marginals)
        moved[cell] += small
        hessian[cell] = (problem.value_and_gradient(moved)[1][:cells] - slope[:cells]) / small
    found = np.linalg.eigh((hessian + hessian.T) / 2)
    values, vectors = np.asarray(found[0]), np.asarray(found[1])
    kept = values > np.finfo(float).eps * cells * max(values[-1], 0.0)
    rows = np.sqrt(values[kept]).reshape(-1, 1) * vectors[:, kept].T
    none = np.zeros(len(rows))
    return BoundResiduals(rows, none, np.ones(len(rows)), none + np.inf, slope[:cells], is_exact=False)
