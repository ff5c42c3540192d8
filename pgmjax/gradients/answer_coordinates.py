"""The fit as a function of its parameters: model, residuals and objective, in answer coordinates.

With Q the measured queries, D^(1/2) = sqrt(weight) / stddev and N the total, a model is

    p = prior * exp(<t, cells>) / Z,    t = Q^T D^(1/2) k,

with one coordinate of k per measured answer. The model of least loss + prior_weight * KL(p || prior), and
among several with equal loss the one nearest to the prior, has this form. The derivative of the marginals mu
by the potentials is C, the Fisher information. That of the objective by the marginals is Q^T D^(1/2) g, with
the residuals

    g(k) = N D^(1/2) (N Q mu - y) + prior_weight * k,

and at an interior optimum S g = 0, with S = D^(1/2) Q C Q^T D^(1/2). The null space of S changes no
marginal.

C is symmetric. Oracles provide products with it in reverse mode only (by custom rules); by symmetry the same
product serves forward mode, and only the potentials are stored between the two passes.

References:
    Wainwright and Jordan 2008, proposition 3.1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.data.domain import Clique, first_holding
from pgmjax.inference import ops
from pgmjax.inference.ops import join, split
from pgmjax.inference.oracles.base import Oracle
from pgmjax.uncertainty.laplace import Place


@dataclasses.dataclass(frozen=True, eq=False)
class DifferentiableProblem:
    """Static structure of a differentiable fit.

    Attributes:
        oracle: inference for the cliques.
        cliques: cliques of the model.
        shapes: shapes of their tables.
        measured: clique and query of each measurement.
        targets: clique and query of each requested answer.
        asked_shapes: shapes of those answers.
        prior: clique of each table of the prior.
        bends: for each measurement a bound on the largest squared column norm of its query matrix.
    """

    oracle: Oracle
    cliques: tuple[Clique, ...]
    shapes: tuple[tuple[int, ...], ...]
    measured: tuple[Place, ...]
    targets: tuple[Place, ...]
    asked_shapes: tuple[tuple[int, ...], ...]
    prior: tuple[Clique, ...]
    bends: tuple[float, ...]

    def rows(self, cells: jax.Array) -> jax.Array:
        """Return the measured answers [rows]: Q times a vector of cells [length]."""
        tables = split(cells, self.shapes)
        return join([place.apply(tables) for place in self.measured])

    def cells(self, rows: jax.Array) -> jax.Array:
        """Return Q^T times a vector of answers [rows], a vector of cells [length]."""
        example = jax.ShapeDtypeStruct((self.oracle.length,), rows.dtype)
        return jax.linear_transpose(self.rows, example)(rows)[0]

    def base(self, prior: Sequence[jax.Array], dtype: Any) -> jax.Array:
        """Return the prior's potentials [length]."""
        tables = [jnp.zeros(shape, dtype) for shape in self.shapes]
        for clique, table in zip(self.prior, prior, strict=True):
            at = first_holding(self.cliques, clique)
            assert at is not None
            tables[at] = tables[at] + ops.align(table, clique, self.cliques[at])
        return join(tables, self.oracle.length)

    def roots(self, numbers: FitParameters) -> jax.Array:
        """Return sqrt(weight) / stddev of every measured answer [rows]."""
        return join(
            [
                jnp.broadcast_to(jnp.sqrt(numbers.weights[at]) / stddev, values.shape)
                for at, (values, stddev) in enumerate(zip(numbers.values, numbers.stddevs, strict=True))
            ]
        )

    def curvature(self, numbers: FitParameters) -> jax.Array:
        """Return a bound on the loss's curvature relative to the Kullback-Leibler divergence."""
        strongest = [jnp.max(1 / stddev**2) for stddev in numbers.stddevs]
        return numbers.total**2 * sum(
            numbers.weights[at] * bend * each
            for at, (bend, each) in enumerate(zip(self.bends, strongest, strict=True))
        )

    def marginals(self, numbers: FitParameters, point: jax.Array) -> jax.Array:
        """Return the marginals [length] of the model at k [rows]."""
        potentials = self.base(numbers.prior, point.dtype) + self.cells(self.roots(numbers) * point)
        return infer(self.oracle, potentials)

    def residuals(self, numbers: FitParameters, point: jax.Array) -> jax.Array:
        """Return g(k) [rows]."""
        marginals = self.marginals(numbers, point)
        missed = numbers.total * self.rows(marginals) - join(numbers.values)
        return numbers.total * self.roots(numbers) * missed + numbers.prior_weight * point

    def slopes(self, numbers: FitParameters, point: jax.Array) -> jax.Array:
        """Return D^(1/2) g(k) [rows]; Q^T times it is the objective's gradient by the marginals."""
        return self.roots(numbers) * self.residuals(numbers, point)

    def answered(self, numbers: FitParameters, point: jax.Array) -> tuple[jax.Array, ...]:
        """Return the requested answers (counts) of the model at k [rows]."""
        marginals = self.marginals(numbers, point)
        tables = split(numbers.total * marginals, self.shapes)
        found = [place.apply(tables) for place in self.targets]
        return tuple(rows.reshape(shape) for rows, shape in zip(found, self.asked_shapes, strict=True))

    def diagnostics(self, numbers: FitParameters, point: jax.Array, steps: Any) -> Diagnostics:
        """Return the diagnostics of the model at k [rows]."""
        numbers, point = jax.lax.stop_gradient((numbers, point))
        slope = self.cells(self.slopes(numbers, point))
        # the range of the derivative over all joint states: its largest value, and that of its negative
        span = self.oracle.maximum_flat(slope) + self.oracle.maximum_flat(-slope)
        slope = span / (numbers.total * jnp.max(self.roots(numbers)))
        cells = sum(map(math.prod, self.shapes))
        marginals = self.marginals(numbers, point)[:cells]
        interior = slope <= 64 * jnp.sqrt(jnp.finfo(slope.dtype).eps)
        return Diagnostics(steps, slope, numbers.total * jnp.min(marginals), interior)

    def start(self, numbers: FitParameters) -> jax.Array:
        """Return the prior's k [rows]: zeros."""
        return jnp.zeros_like(join(numbers.values))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class FitParameters:
    """Parameters of a fit, a pytree of arrays; gradients have the same structure.

    Attributes:
        values: for each measurement its noisy answers [rows] (counts), flat in the order of its query's rows.
        stddevs: for each measurement one standard deviation, or one per row [rows] (counts), > 0.
        weights: weight of each measurement in the loss [measurements], > 0.
        prior: log-potentials of the prior, one table per clique [sizes] (nats), finite; without tables the
            prior is uniform.
        prior_weight: weight of the prior in records, >= 0.
        total: number of records (counts), > 0.
    """

    values: tuple[Any, ...]
    stddevs: tuple[Any, ...]
    weights: Any
    prior: tuple[Any, ...]
    prior_weight: Any
    total: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of a fit, including the conditions of the implicit gradient.

    At an interior optimum the objective's derivative is the same at every joint state of the table, since
    moving a record from any state to any other changes nothing to first order. It is not if the optimum has
    cells of probability zero, or is not reached.

    Attributes:
        steps: number of steps done.
        slope: largest difference of that derivative between two joint states, in units of the contribution
            of one standard deviation of residual in the most precise answer; 0 at an interior optimum.
        smallest: least expected count of a cell of the fitted cliques.
        interior: whether `slope` is 0 up to rounding.
    """

    steps: Any
    slope: Any
    smallest: Any
    interior: Any


def infer(oracle: Oracle, potentials: jax.Array) -> jax.Array:
    """Return the marginals [length] (probabilities), differentiable once.

    Args:
        oracle: inference.
        potentials: finite log-potentials in one vector [length].
    """

    @jax.custom_jvp
    def marginals(point: jax.Array) -> jax.Array:
        return oracle.infer_flat(point)[1]

    @marginals.defjvp
    def _along(primals: Any, tangents: Any) -> Any:
        (point,), (change,) = primals, tangents
        # linearised inside, so that only the potentials are stored between the passes
        moved = symmetric(lambda vector: curved(oracle, point)[2](vector), change)
        return oracle.infer_flat(once(point))[1], moved

    return marginals(potentials)


def curved(oracle: Oracle, potentials: jax.Array) -> tuple[jax.Array, jax.Array, Callable[[jax.Array], Any]]:
    """Return log-partition function, marginals, and the Fisher information as a linear map [length]."""
    (log_partition, marginals), pull = jax.vjp(oracle.infer_flat, once(potentials))
    nothing = jnp.zeros_like(log_partition)
    return log_partition, marginals, lambda vector: pull((nothing, vector))[0]


def symmetric(apply: Callable[[Any], Any], vector: jax.Array) -> jax.Array:
    """Return `apply(vector)` for a symmetric linear map, with itself as its transpose."""
    # A linear system with the identity and a custom solve: JAX has no other linear map with a custom
    # transpose rule that also supports vmap.
    return jax.lax.custom_linear_solve(lambda x: x, vector, lambda _, b: apply(b), symmetric=True)


@jax.custom_jvp
def once(value: Any) -> Any:
    """Return the value; refuse differentiation."""
    return value


@once.defjvp
def _refused(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(
        "a fit can be differentiated once: second derivatives through it are not implemented. Take "
        "differences of first ones."
    )
