"""Differentiable fits: planned once, then a function of their parameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax.data.domain import Clique, Domain, as_domain, maximal
from pgmjax.data.relation import Relation
from pgmjax.gradients.answer_coordinates import Diagnostics, DifferentiableProblem, FitParameters
from pgmjax.gradients.solve import descend, optimum
from pgmjax.inference import oracles
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query
from pgmjax.uncertainty.laplace import Place
from pgmjax.uncertainty.queries import measurements_of, queries_of

METHODS = ("implicit", "unrolled")
_STEPS = {"implicit": 100, "unrolled": 1000}
_COPIES = 20


@dataclasses.dataclass(frozen=True, init=False, eq=False)
class DifferentiableFit:
    """The answers of a fitted model as a differentiable function of its parameters.

    The model minimises

        sum_m weights[m] / 2 * sum(((Q_m mu - values[m]) / stddevs[m])**2) + prior_weight * KL(p || prior);

    among several minimisers, the one nearest to the prior. There is no other pull: the `regularisation` of
    `Estimator` is not part of it. Called with `FitParameters` it is a pure function for `jax.grad`,
    `jax.jacobian`, `jax.jvp`, `jax.vmap` and `jax.jit`, differentiable once. In float64 the whole call,
    including `jax.grad`, must be under `jax.enable_x64(True)`; `answers`,
    `value_and_gradient`, `jacobian` and `diagnostics` do so themselves.

    `implicit` solves to full precision and differentiates the optimality conditions: correct at an interior
    optimum only, so elsewhere, and if the steps run out first, the gradient is NaN. `unrolled` is the
    derivative of a fixed number of accelerated mirror descent steps, converged or not.

    Args:
        domain: the attributes.
        measurements: the measurements, with the values and standard deviations of `parameters`.
        answers: queries on the fitted model, or attribute names for all cells of a marginal.
        total: number of records (counts), one of the parameters. Default: estimated once from the
            measurements.
        prior: reference model with finite potentials; None for the uniform distribution.
        prior_weight: weight of the prior in records.
        method: `implicit` or `unrolled`.
        max_steps: maximum number of Newton steps of `implicit` (default 100), number of mirror descent
            steps of `unrolled` (default 1000).
        oracle: `auto` or one of `oracles.names()`.
        dtype: `float64`, or `float32` for about three digits.
        max_bytes: memory limit; None for that of the device.

    Attributes:
        parameters: the parameters given at planning, NumPy arrays; vary them with `dataclasses.replace`.

    Raises:
        TypeError: arguments that are not measurements, queries or a model.
        ValueError: measurements or queries that do not fit the domain, a prior with impossible cells, or a
            model that does not fit in memory.

    References:
        Blondel et al. 2022, "Efficient and modular implicit differentiation".

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> noisy = [LinearMeasurement(("a", "b"), [[30, 10], [20, 40]], stddev=2.0)]
        >>> fit = DifferentiableFit(domain, noisy, [("b",)], total=100)
        >>> [answer.round(3).tolist() for answer in fit.answers()]
        [[50.0, 50.0]]
        >>> count, gradient = fit.value_and_gradient(lambda answers: answers[0][0])
        >>> gradient.values[0].round(3).tolist()
        [0.5, -0.5, 0.5, -0.5]
    """

    domain: Domain
    method: str
    max_steps: int
    dtype: str
    parameters: FitParameters
    problem: DifferentiableProblem

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        answers: Sequence[Query | Clique],
        total: float | None = None,
        prior: GraphicalModel | None = None,
        prior_weight: float = 0.0,
        *,
        method: str = "implicit",
        max_steps: int | None = None,
        oracle: str = "auto",
        dtype: str = "float64",
        max_bytes: int | None = None,
    ) -> None:
        domain = as_domain(domain, "DifferentiableFit(domain, measurements, answers)", measurements, answers)
        method = checks.choice("method", method, METHODS)
        dtype = checks.choice("dtype", dtype, ("float32", "float64"))
        steps = _STEPS[method] if max_steps is None else checks.integer("max_steps", max_steps, low=1)
        noisy, queries = measurements_of(domain, measurements), queries_of(domain, answers)
        tables = _tables(domain, prior)
        settings = {"oracle": oracle, "itemsize": np.dtype(dtype).itemsize, "max_bytes": max_bytes}
        problem = _planned(domain, noisy, queries, tuple(tables), settings)
        count = estimate_total(domain, noisy)[0] if total is None else checks.total(total)
        start = FitParameters(
            tuple(m.flat_values() for m in noisy),
            tuple(m.stddev.reshape(-1) if m.stddev.ndim else m.stddev for m in noisy),
            np.ones(len(noisy)),
            tuple(tables.values()),
            np.float64(checks.number("prior_weight", prior_weight, at_least=0)),
            np.float64(count),
        )
        made = {"domain": domain, "method": method, "max_steps": steps, "dtype": dtype}
        for name, value in {**made, "parameters": start, "problem": problem}.items():
            object.__setattr__(self, name, value)

    def __call__(self, parameters: FitParameters) -> tuple[jax.Array, ...]:
        """Return the answers (counts), each in the shape of its query: a pure function.

        Args:
            parameters: arrays with the shapes of `self.parameters`.

        Raises:
            ValueError: float64 is not enabled, or shapes that differ.
        """
        numbers = self._arrays(parameters)
        return self.problem.answered(numbers, self._point(numbers)[0])

    def with_diagnostics(self, parameters: FitParameters) -> tuple[tuple[jax.Array, ...], Diagnostics]:
        """Return the answers and the fit's diagnostics: a pure function."""
        numbers = self._arrays(parameters)
        point, steps = self._point(numbers)
        return self.problem.answered(numbers, point), self.problem.diagnostics(numbers, point, steps)

    def answers(self, parameters: FitParameters | None = None) -> tuple[np.ndarray, ...]:
        """Return the answers (counts) as NumPy arrays, each in the shape of its query.

        Args:
            parameters: the parameters. Default: `self.parameters`.

        Raises:
            TypeError: not `FitParameters`.
            ValueError: shapes that differ, non-finite parameters, or ones with the wrong sign.
        """
        return self._run(self._compiled, parameters)[0]

    def diagnostics(self, parameters: FitParameters | None = None) -> Diagnostics:
        """Return the fit's diagnostics as Python numbers."""
        found = self._run(self._compiled, parameters)[1]
        return jax.tree.map(lambda leaf: leaf.item(), found)

    def value_and_gradient(
        self, objective: Callable[[tuple[jax.Array, ...]], Any], parameters: FitParameters | None = None
    ) -> tuple[float, FitParameters]:
        """Return an objective's value and its gradient by every parameter (NumPy arrays).

        Args:
            objective: maps the answers (JAX arrays) to a scalar; compiled once per function object.
            parameters: the parameters. Default: `self.parameters`.
        """
        try:
            value, gradient = self._run(_differentiated(self, objective), parameters)
        except jax.errors.TracerArrayConversionError as error:
            raise TypeError(
                "the objective must be written in jax.numpy, which can be differentiated, and uses NumPy or "
                "a function that needs plain arrays: import jax.numpy as jnp and use its functions."
            ) from error
        except TypeError as error:
            if "scalar-output" not in str(error):
                raise
            wrong = "the objective must return one number, such as answers[0].sum(): it returns an array."
            raise TypeError(wrong) from None
        return float(value), gradient

    def jacobian(self, parameters: FitParameters | None = None) -> tuple[FitParameters, ...]:
        """Return for each query the Jacobian of its answers by every parameter.

        Args:
            parameters: the parameters. Default: `self.parameters`.

        Returns:
            For each query the parameters, every array [shape of the answers, shape of the parameter].
        """
        return self._run(self._derivative, parameters)

    @functools.cached_property
    def _compiled(self) -> Callable[..., Any]:
        return jit(self.with_diagnostics)

    @functools.cached_property
    def _derivative(self) -> Callable[..., Any]:
        return jit(jax.jacrev(self.__call__))

    def _run(self, function: Callable[..., Any], parameters: FitParameters | None) -> Any:
        with precision(self.dtype):
            given = self.parameters if parameters is None else parameters
            numbers = self._arrays(given)
            _check(given)
            return jax.tree.map(np.asarray, function(numbers))

    def _point(self, numbers: FitParameters) -> tuple[jax.Array, Any]:
        if self.method == "implicit":
            return optimum(self.problem, numbers, self.max_steps)
        return descend(self.problem, numbers, self.max_steps), jnp.int32(self.max_steps)

    def _arrays(self, parameters: FitParameters) -> FitParameters:
        checks.kind(parameters, FitParameters, "parameters must be FitParameters")
        if self.dtype == "float64" and jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
            raise ValueError(
                "this fit is one of float64, which JAX has not switched on: put the call, jax.grad and all, "
                "under `with jax.enable_x64(True):`, use the fit's own methods, or plan it with "
                "dtype='float32'."
            )
        if _form(parameters) != _form(self.parameters):
            raise ValueError(
                "the arrays of the parameters must have the shapes of fit.parameters: change its numbers "
                "with dataclasses.replace, and plan another fit for another structure."
            )
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, self.dtype), parameters)


def _check(parameters: FitParameters) -> None:
    """Refuse invalid parameters; traced ones cannot be checked here."""
    above = {"stddevs": parameters.stddevs, "weights": parameters.weights, "total": parameters.total}
    finite = {"values": parameters.values, "prior": parameters.prior, "prior_weight": parameters.prior_weight}
    for name, numbers in (above | finite).items():
        arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(numbers)]
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError(f"the {name} of the parameters must be finite numbers.")
        if name in above and not all((array > 0).all() for array in arrays):
            raise ValueError(f"the {name} of the parameters must be > 0.")
    if np.any(np.asarray(parameters.prior_weight) < 0):
        raise ValueError("the prior_weight of the parameters must be >= 0.")


def _form(parameters: FitParameters) -> tuple[list[tuple[int, ...]], Any]:
    leaves, structure = jax.tree.flatten(parameters)
    return [np.shape(leaf) for leaf in leaves], structure


# by the objective itself: a lambda that is made anew is compiled anew, and the oldest is let go
@functools.lru_cache(maxsize=8)
def _differentiated(fit: DifferentiableFit, objective: Callable[..., Any]) -> Callable[..., Any]:
    return jit(jax.value_and_grad(lambda numbers: objective(fit(numbers))))


def _tables(domain: Domain, prior: Any) -> dict[Clique, np.ndarray]:
    """Return the prior's potentials by clique, checked to be finite."""
    if prior is None:
        return {}
    checks.kind(prior, GraphicalModel, "prior must be a GraphicalModel")
    if prior.domain != domain:
        raise ValueError("the prior must be over the domain of the fit, got a model over another one.")
    tables = {clique: np.asarray(table, np.float64) for clique, table in prior.potentials.items()}
    for clique, table in tables.items():
        if not np.isfinite(table).all():
            raise ValueError(
                f"the prior has impossible cells over {clique}: a fit can only be differentiated where every "
                "cell is possible. Give them a small probability."
            )
    return tables


def _planned(
    domain: Domain,
    noisy: Sequence[LinearMeasurement],
    queries: Sequence[Query],
    prior: tuple[Clique, ...],
    settings: dict[str, Any],
) -> DifferentiableProblem:
    """Plan a fit: return its static structure."""
    measured = [m.query for m in noisy]
    cliques = tuple(maximal([*(q.clique for q in (*measured, *queries)), *prior]))
    structure, names = Structure.named(domain.sizes, cliques)
    plan = oracles.plan(structure, names, copies=_COPIES, finite=False, compiled=True, **settings)

    return DifferentiableProblem(
        plan.oracle,
        cliques,
        tuple(domain.shape_of(clique) for clique in cliques),
        tuple(Place.of(cliques, query) for query in measured),
        tuple(Place.of(cliques, query) for query in queries),
        tuple(query.shape(domain) for query in queries),
        prior,
        tuple(float(q.l2_sensitivity_squared(Relation.ADD_REMOVE, domain)) for q in measured),
    )
