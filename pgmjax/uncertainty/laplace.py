"""Laplace approximation: the curvature of the loss at the fitted model, through products alone.

At potentials t with expected counts N mu(t), the matrix of second derivatives of the squared loss is, but for
a term that vanishes with the residuals, J^T J with J = W Q N F: F is the Fisher information of the
potentials (the derivative of the marginals), Q the measured queries, W one over the standard deviations.
The variance of an answer with gradient g is g^T (J^T J)^+ g. No matrix is formed: the product of F and a
vector is a derivative of the oracle's marginals, and conjugate gradients on the device do the rest, on
potentials with one more number for the total.

References:
    Tierney and Kadane 1986, "Accurate approximations for posterior moments"; Pearlmutter 1994, "Fast exact
    multiplication by the Hessian"; Wainwright and Jordan 2008, section 3.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from optax.tree import add_scale, vdot

from pgmjax._internal.jit import jit
from pgmjax.data.domain import Clique, first_holding, marginal_of, maximal
from pgmjax.estimation.losses.base import unique_cliques
from pgmjax.inference import ops, oracles
from pgmjax.inference.ops import host_join, split
from pgmjax.inference.oracles.base import Oracle
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.clique_vector import summed
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query
from pgmjax.uncertainty.queries import row_tables

_CONVERGED = 1e-4
_FLAT = 1e-9  # of the smallest standard deviation: a gradient that is taken for none
_CHUNK = 16
_NOTHING = 1e-3  # of the smallest standard deviation: an expected count that is taken for none

_MAX_STEPS = 500  # of conjugate gradients
_TOLERANCE = 1e-7  # of conjugate gradients: the share of the right side that may be left

Step = tuple[Any, Any]
"""Scaled potentials [length] and a scaled logarithm of the total."""


def stddevs(
    model: GraphicalModel,
    measurements: Sequence[LinearMeasurement],
    queries: Sequence[Query],
    total: float | None = None,
) -> np.ndarray:
    """Return the standard deviation of the model's answers [answers] (counts).

    NaN where the loss has no curvature along an answer's gradient. Cells that the fit has driven to
    nothing stay there in this approximation.

    Args:
        model: fitted to the measurements.
        measurements: with independent noise.
        queries: the answers.
        total: the number of records where it is public; None to let it vary with the noise.

    Raises:
        ModelTooLargeError: the cliques of model, measurements and queries together do not fit in memory.
    """
    with jax.enable_x64(True):
        curved, holders = curvature(model, measurements, queries, total is not None)
        found = []
        for chunk in _chunks(row_tables(model.domain, queries)):
            tables = np.zeros((_CHUNK, curved.point.shape[0]))
            for row, (clique, table) in enumerate(chunk):
                tables[row] = _spread(holders, clique, table, len(tables[row]))
            variances, sizes, rests = (
                np.asarray(array)[: len(chunk)] for array in _variances(curved, tables)
            )
            flat = sizes <= _FLAT * min(float(m.row_stddevs().min()) for m in measurements)
            known = np.where(rests <= _CONVERGED * sizes, np.sqrt(variances), np.nan)
            found.append(np.where(flat, 0.0, known))
    return np.concatenate(found)


def curvature(
    model: GraphicalModel,
    measurements: Sequence[LinearMeasurement],
    queries: Sequence[Query],
    total_known: bool,
) -> tuple[Curvature, list[tuple[Clique, tuple[int, ...]]]]:
    """Return the loss about a model, and the cliques with their tables' shapes; under float64."""
    domain, own = model.domain, summed(zip(model.potentials.cliques, model.potentials.tables, strict=True))
    others = maximal([*(m.clique for m in measurements), *(q.clique for q in queries)])
    outside = [clique for clique in others if first_holding(own.cliques, clique) is None]
    cliques = unique_cliques([*own.cliques, *outside])
    structure, names = Structure.named(domain.sizes, cliques)
    plan = oracles.plan(structure, names, itemsize=8, finite=False, compiled=True)
    shapes = tuple(domain.shape_of(clique) for clique in cliques)
    tables = [*own.tables, *map(np.zeros, shapes[len(own) :])]  # the model's own cliques come first
    free = [np.full(shape, float(place < len(own))) for place, shape in enumerate(shapes)]
    length = plan.oracle.length
    point = jnp.asarray(host_join(tables, np.float64, length))
    marginals = _marginals(plan.oracle, point)
    measured = tuple(Place.of(cliques, m.query) for m in measurements)
    weights = tuple(jnp.asarray(1 / m.row_stddevs()) for m in measurements)
    strength = np.zeros(len(cliques))
    for place, w in zip(measured, weights, strict=True):
        strength[place.at] += float(jnp.mean(w**2))
    # what nothing measures is scaled as the average of the others: any positive number would do
    strength = np.where(strength > 0, strength, strength[strength > 0].mean())
    least = _NOTHING * min(float(m.row_stddevs().min()) for m in measurements) / model.total
    spread = [np.full(shape, model.total * np.sqrt(s)) for shape, s in zip(shapes, strength, strict=True)]
    per_cell = host_join(spread, np.float64, length)
    per_cell[per_cell == 0] = 1.0  # padding
    there = np.asarray(marginals) > least
    scale = np.where(there, 1 / np.where(there, marginals * per_cell, 1), 0)
    squares = [np.sum((model.answer(m.query).reshape(-1) / m.row_stddevs()) ** 2) for m in measurements]
    total_scale = 0.0 if total_known else 1 / np.sqrt(max(float(np.sum(squares)), 1e-300))
    made = Curvature(
        plan.oracle,
        point,
        marginals,
        jnp.asarray(host_join(free, np.float64, length)),
        jnp.asarray(scale),
        jnp.asarray(model.total),
        jnp.asarray(total_scale),
        weights,
        shapes,
        measured,
    )
    return made, list(zip(cliques, shapes, strict=True))


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["oracle", "point", "marginals", "free", "scale", "total", "total_scale", "weights"],
    meta_fields=["shapes", "measured"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Curvature:
    """The loss linearised at a model: products with J and J^T.

    Attributes:
        oracle: of the cliques of the model, the measurements and the queries.
        point: log-potentials of all cliques in one vector [length].
        marginals: there, probabilities [length].
        free: 1 where a potential is the model's own, else 0 [length].
        scale: what preconditions: about one over the square root of the curvature [length].
        total: number of records (counts).
        total_scale: as `scale` for the logarithm of the total; 0 where it is public.
        weights: one over the standard deviations of each measurement's values.
        shapes: of the cliques' tables (static).
        measured: where each measurement is answered (static).
    """

    oracle: Oracle
    point: Any
    marginals: Any
    free: Any
    scale: Any
    total: Any
    total_scale: Any
    weights: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    measured: tuple[Place, ...]

    def fisher(self, vector: jax.Array) -> jax.Array:
        """Multiply the Fisher information, which is symmetric, with a vector [length]."""
        # in reverse mode, which is all that oracles have; the matrix is symmetric
        pull = jax.vjp(lambda point: self.oracle.infer_flat(point)[1], self.point)[1]
        return pull(vector)[0]

    def ahead(self, step: Step) -> jax.Array:
        """Return the derivative of expected counts [length] along scaled potentials and log-total."""
        change = self.fisher(self.free * self.scale * step[0])
        return self.total * (change + self.marginals * self.total_scale * step[1])

    def back(self, counts: jax.Array) -> Step:
        """Apply the transpose of `ahead`."""
        moved = self.total * self.free * self.scale * self.fisher(counts)
        return moved, self.total * self.total_scale * jnp.vdot(self.marginals, counts)

    def residuals(self, counts: jax.Array) -> tuple[jax.Array, ...]:
        """Return W Q of counts, measurement by measurement."""
        tables = split(counts, self.shapes)
        return tuple(p.apply(tables) * w for p, w in zip(self.measured, self.weights, strict=True))

    def __call__(self, step: Step) -> Step:
        """Multiply the curvature J^T J with a step."""
        answers, transpose = jax.vjp(self.residuals, self.ahead(step))
        return self.back(transpose(answers)[0])


@dataclasses.dataclass(frozen=True)
class Place:
    """The location of a query's answer among the cliques' tables (static).

    Attributes:
        at: number of the clique.
        names: the clique's attributes.
        query: over some of these attributes.
    """

    at: int
    names: Clique
    query: Query

    @classmethod
    def of(cls, cliques: Sequence[Clique], query: Query) -> Place:
        """Return the place of a query, all of whose attributes one of the cliques holds."""
        at = first_holding(cliques, query.clique)
        assert at is not None
        return cls(at, tuple(cliques[at]), query)

    def apply(self, tables: Sequence[Any]) -> jax.Array:
        """Return the answers of the cliques' tables [rows]."""
        table = marginal_of(self.names, tables[self.at], self.query.clique)
        return jnp.ravel(jnp.asarray(self.query.apply(table, jnp)))


@jit
def _marginals(oracle: Oracle, point: jax.Array) -> jax.Array:
    return oracle.infer_flat(point)[1]


@jit
def _variances(curved: Curvature, rows: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return variances of functions [rows, length], norms of their gradients, and residuals."""

    def one(row: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        gradient = curved.back(row)
        size = jnp.sqrt(vdot(gradient, gradient))
        solution, rest = conjugate_gradients(curved, gradient)
        return jnp.maximum(vdot(gradient, solution), 0), size, rest

    return jax.lax.map(one, rows)


def conjugate_gradients(
    apply: Callable[[Step], Step], right: Step, *, tolerance: float = _TOLERANCE, max_steps: int = _MAX_STEPS
) -> tuple[Step, jax.Array]:
    """Return x with A x = b for a symmetric matrix A >= 0 that only multiplies, and the size of b - A x.

    `jax.scipy.sparse.linalg.cg` returns no residual and goes on where a singular A has no curvature left, so
    that a gradient outside the range takes all its steps.

    Args:
        apply: multiplies A with a vector.
        right: b.
        tolerance: stop when the residual is no larger than this share of b.
        max_steps: stop after this many products.

    References:
        Hestenes and Stiefel 1952, "Methods of conjugate gradients for solving linear systems".
    """
    wanted = tolerance**2 * vdot(right, right)

    def going(state: Any) -> Any:
        return (state[3] > wanted) & (state[4] < max_steps)

    def step(state: Any) -> Any:
        solution, rest, along, square, number = state
        image = apply(along)
        bend = vdot(along, image)
        length = jnp.where(bend > 0, square / jnp.where(bend > 0, bend, 1), 0)
        solution, rest = add_scale(solution, length, along), add_scale(rest, -length, image)
        after = vdot(rest, rest)
        ended = jnp.where(bend > 0, number + 1, max_steps)  # no curvature is left along what is left
        return solution, rest, add_scale(rest, after / square, along), after, ended

    nothing = jax.tree.map(jnp.zeros_like, right)
    start = nothing, right, right, vdot(right, right), 0
    solution, _, _, square, _ = jax.lax.while_loop(going, step, start)
    return solution, jnp.sqrt(square)


def _spread(
    holders: Sequence[tuple[Clique, tuple[int, ...]]], clique: Clique, table: np.ndarray, length: int
) -> np.ndarray:
    """A function of some attributes as one of the cells of a clique that holds them [length]."""
    at = first_holding([held for held, _ in holders], clique)
    assert at is not None
    names, shape = holders[at]
    start = sum(math.prod(s) for _, s in holders[:at])
    vector = np.zeros(length)
    filled = np.broadcast_to(ops.align(table, clique, names), shape)
    vector[start : start + filled.size] = filled.reshape(-1)
    return vector


def _chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _CHUNK)):
        yield chunk
