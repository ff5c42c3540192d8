"""User-defined convex functions of marginals as losses."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.estimation.losses.base import BoundLoss, Loss, check_arguments, of_host, unique_cliques
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.clique_vector import CliqueVector

LossFunction = Callable[[Mapping[Clique, Any]], Any]


@dataclasses.dataclass(frozen=True)
class Custom(Loss):
    """A convex function of marginals in counts, written with `jax.numpy`.

    Each function is compiled anew. Of linear residuals, a `LinearLoss` is faster (docs/own.md).

    Convexity is not checked: without it the certificate of a fit is void. A fit evaluates it in float32 and
    in float64: numbers that it holds are converted in it, to the type of a table.

    Attributes:
        function: takes a mapping of clique to table [size of each attribute] (counts) and returns
            a scalar.
        cliques: the cliques of that mapping, each set of attributes once. Default: those of the
            measurements.

    Example:
        >>> loss = Custom(lambda marginals: jnp.sum(marginals["a",] ** 2), cliques=(("a",),))
        >>> bound = loss.bind(Domain({"a": 2}), [], total=10.0, dtype="float32")
        >>> bound.exact([np.array([0.5, 0.5])])
        50.0
    """

    name: ClassVar[str] = "custom"
    function: LossFunction
    cliques: tuple[Clique, ...] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a custom loss needs a function, got {type(self.function).__name__}.")
        if self.cliques is not None:
            object.__setattr__(self, "cliques", tuple(map(tuple, self.cliques)))

    def bind(
        self, domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any = "float32"
    ) -> BoundCustom:
        """Return the loss as a function of probabilities, after an abstract evaluation.

        Raises:
            TypeError: the function does not return a real array.
            ValueError: no cliques, a set of attributes twice, or a result that is not a scalar.
        """
        total, dtype = check_arguments(domain, measurements, total, dtype)
        cliques = self.cliques
        if cliques is None:
            cliques = unique_cliques([measurement.clique for measurement in measurements])
        if not cliques:
            raise ValueError("a custom loss needs cliques, or measurements to take them from; got neither.")
        cliques = tuple(as_clique(domain, clique) for clique in cliques)
        if len(unique_cliques(cliques)) != len(cliques):
            raise ValueError(f"the cliques of a loss must name each set of attributes once, got {cliques}.")
        shapes = tuple(domain.shape_of(clique) for clique in cliques)
        _check_result(self.function, cliques, shapes, dtype)
        return BoundCustom(cliques, shapes, self.function, np.asarray(total, dtype), total)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["total"],
    meta_fields=["cliques", "shapes", "function"],
    drop_fields=["exact_total"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class BoundCustom(BoundLoss):
    """A function of marginals in counts as a loss of probabilities.

    Attributes:
        cliques: the cliques (static).
        shapes: the shape of each clique's table (static).
        function: the function (static, compared by identity: a new one is traced again).
        total: number of records in the device's dtype (a leaf).
        exact_total: the same in float64, absent after a JAX transformation.
    """

    cliques: tuple[Clique, ...]
    shapes: tuple[tuple[int, ...], ...]
    function: LossFunction
    total: Any
    exact_total: float | None = None

    def __call__(self, marginals: Sequence[Any]) -> jax.Array:
        """Return the function's value at total times the marginals."""
        counts = tuple(table * self.total for table in marginals)
        return _called(self.function, CliqueVector(self.cliques, counts))

    def cast(self, dtype: Any) -> BoundCustom:
        """Return the loss with the total in another dtype, in which the function is tried first."""
        total = np.asarray(of_host(self.exact_total), dtype)
        if total.dtype != self.total.dtype:
            _check_result(self.function, self.cliques, self.shapes, total.dtype)
        return dataclasses.replace(self, total=total)

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the function's value in float64."""
        total = of_host(self.exact_total)
        with jax.enable_x64(True):
            tables = [jnp.asarray(np.asarray(table, np.float64) * total) for table in marginals]
            return float(_called(self.function, CliqueVector(self.cliques, tuple(tables))))


def _check_result(
    function: LossFunction, cliques: tuple[Clique, ...], shapes: tuple[tuple[int, ...], ...], dtype: np.dtype
) -> None:
    with jax.enable_x64(dtype == np.float64):
        tables = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)
        try:
            result = jax.eval_shape(function, CliqueVector(cliques, tables))
        except Exception as error:
            raise _unusable(error, *_broken(error, function)) from error
    if not hasattr(result, "shape") or not jnp.issubdtype(result.dtype, jnp.floating):
        kind = getattr(result, "dtype", type(result).__name__)
        raise TypeError(
            f"a loss function must return one real number computed from the marginals, got {kind}."
        )
    if result.shape != ():
        raise ValueError(
            f"a loss function must return a scalar, got shape {result.shape}: sum it, for example."
        )


def _called(function: LossFunction, tables: CliqueVector) -> Any:
    """Return a function's value; one that fails by NumPy arrays of float64 says so."""
    try:
        return function(tables)
    except (TypeError, jax.errors.JaxRuntimeError) as error:
        held = inspect.getclosurevars(function) if inspect.isfunction(function) else None
        names = [] if held is None else [*held.nonlocals.items(), *held.globals.items()]
        doubles = [n for n, v in names if any(each.dtype == np.float64 for each in _arrays(v))]
        if not doubles:
            raise
        said = f"It uses the NumPy array {doubles[0]} of float64"
        then = f"convert it in the function, to the type of a table: jnp.asarray({doubles[0]}, table.dtype)"
        raise _unusable(error, said, then) from error


def _arrays(held: Any) -> list[np.ndarray]:
    """Return the NumPy arrays that a value is, or that are in its lists and tuples."""
    if isinstance(held, list | tuple):
        return [array for each in held for array in _arrays(each)]
    return [held] if isinstance(held, np.ndarray) else []


def _unusable(error: Exception, wrong: str, then: str) -> Exception:
    """Return the error for a function that cannot be a loss, of the kind of its own error."""
    return (TypeError if isinstance(error, TypeError) else ValueError)(
        "A loss is a function of the marginals (a mapping of cliques such as ('age', 'sex') to counts) "
        f"written with jax.numpy, that returns one number. {wrong}: {then}."
    )


def _broken(error: Exception, function: LossFunction) -> tuple[str, str]:
    """Return what is wrong with a function that fails on abstract marginals, and what to do."""
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return "This one decides by a value, as if and while do", "use jnp.where(condition, this, that)"
    if isinstance(error, jax.errors.JAXTypeError):
        other = "NumPy, math, float() or item()"
        return (
            f"This one needs values by {other}",
            "use the functions of jax.numpy, and return what they give",
        )
    if isinstance(error, KeyError) and error.args:
        then = "a clique that was not measured is named by losses.Custom(function, cliques=[...])"
        return f"This one fails: {str(error.args[0]).rstrip('.')}", then
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        return "This one cannot be called with one argument", "write def loss(marginals)"
    return f"This one fails: {str(error)[:200]}", "see the error above, and marginals.items() for its tables"
