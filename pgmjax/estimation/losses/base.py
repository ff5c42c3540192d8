"""Interface of losses: a setting on the host, and its form bound to measurements on the device."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax.data.domain import Clique, Domain
from pgmjax.inference.ops import split
from pgmjax.measurements.linear import LinearMeasurement

DTYPES = ("float32", "float64")


@dataclasses.dataclass(frozen=True)
class Loss(abc.ABC):
    """A convex loss of marginals, as a setting; `bind` returns it as a function of arrays."""

    name: ClassVar[str]

    @abc.abstractmethod
    def bind(
        self, domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any
    ) -> BoundLoss:
        """Return the loss of these measurements, checked against the domain.

        Args:
            domain: the attributes and their sizes.
            measurements: the noisy answers.
            total: the number of records (counts), known or estimated.
            dtype: type of the device arrays, `float32` or `float64`.
        """

    def bind_rows(
        self,
        domain: Domain,
        rows: Sequence[Sequence[LinearMeasurement]],
        totals: Sequence[float],
        dtype: Any,
    ) -> Sequence[BoundLoss]:
        """Return the loss of each row of a batch: those of `bind`, which a loss may make together.

        Args:
            domain: the attributes and their sizes.
            rows: noisy answers of each row, with the same cliques and queries, checked against the domain.
            totals: number of records of each row (counts).
            dtype: as in `bind`.
        """
        return [self.bind(domain, row, total, dtype) for row, total in zip(rows, totals, strict=True)]

    def noise_level(self, measurements: Sequence[LinearMeasurement]) -> float:
        """Return the expected loss of the true marginals, due to the noise alone; 0 where nobody knows it.

        A fit below it follows the noise; its root says how close to the optimum is close enough.
        """
        return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class BoundResiduals:
    """A loss as a sum of convex functions of residuals, at some marginals; NumPy arrays of float64.

    The function of a residual r is ``sharpness * r**2 / 2``, continued with the slope `largest` from where it
    has that: half the square, or a Huber function.

    Attributes:
        rows: what each residual changes by with each cell [residuals, cells].
        values: the residuals [residuals].
        sharpness: their second derivative near 0 [residuals].
        largest: the largest slope; infinity for a square [residuals].
        slope: of a linear term beside them [cells].
        is_exact: whether this is the loss itself; else it only bends as the loss does here.
    """

    rows: np.ndarray
    values: np.ndarray
    sharpness: np.ndarray
    largest: np.ndarray
    slope: np.ndarray
    is_exact: bool = True

    @functools.cached_property
    def slopes(self) -> np.ndarray:
        """Derivative by each residual."""
        return np.clip(self.sharpness * self.values, -self.largest, self.largest)

    def lacking(self, slopes: np.ndarray) -> float:
        """Return by how much a linear bound of other slopes lies below the loss at these residuals, >= 0.

        By Fenchel's inequality such slopes bound each function from below everywhere, as its tangents do.
        """
        middle = (self.slopes + slopes) / (2 * self.sharpness)
        return float(np.sum((self.slopes - slopes) * (self.values - middle)))


class BoundLoss(abc.ABC):
    """A convex function of the marginals of some cliques, a pytree with a static structure.

    A class must have `cliques`, `shapes`, `__call__`, `cast` and `exact`, and be registered as a pytree; the
    rest makes fits faster or better certified.

    Numbers (values, weights, smoothing) are leaves, so that `jit` traces once for all values of one
    structure and `vmap` runs over stacked losses (`estimation.solvers.batch.stacked`). Host-only methods
    (`exact`, `lipschitz`) work on the object that `bind` returned, not after a JAX transformation.

    Attributes:
        cliques: the cliques of the marginals, in this order; each set of attributes once.
        shapes: the shape of each clique's table.
    """

    cliques: Any
    shapes: Any

    @abc.abstractmethod
    def __call__(self, marginals: Sequence[Any]) -> Any:
        """Return the (smoothed) loss, a scalar.

        Args:
            marginals: for each clique a table [size of each attribute] of probabilities; JAX arrays.
        """

    def flat(self, marginals: Any) -> Any:
        """Return the (smoothed) loss of all tables in one vector, each row-major, perhaps padded."""
        return self(split(marginals, self.shapes))

    def value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient on the host, for a loss bound in float64; compiled by default."""
        with precision("float64"):
            value, gradient = _value_and_gradient(self, marginals)
            return np.asarray(value)[()], np.asarray(gradient)

    def padded(self, length: int) -> BoundLoss:
        """Return the loss for vectors padded to a given length."""
        return self

    @abc.abstractmethod
    def cast(self, dtype: Any) -> BoundLoss:
        """Return the same loss with device arrays of another type, made from the float64 part.

        Inputs are not checked again; callers set the smoothing afterwards.
        """

    @abc.abstractmethod
    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the unsmoothed loss in float64 on the host.

        Args:
            marginals: as for `__call__`, NumPy arrays in float64.
        """

    def lipschitz(self) -> float | None:
        """Return K with ``max |grad L(p) - grad L(q)| <= K sum |p - q|``, None if unknown.

        Here p and q are joint distributions; the constant sets the step size of entropic mirror
        descent.
        """
        return None

    @property
    def smoothing(self) -> Any:
        """Smoothing parameter in standard deviations; None for a smooth loss."""
        return None

    def with_smoothing(self, delta: Any) -> BoundLoss:
        """Return the loss with another smoothing parameter; a smooth loss returns itself."""
        return self

    def slack(self) -> Any:
        """Return a bound on the loss minus its smoothed form, which is a lower bound."""
        return 0.0

    def least(self) -> float:
        """Return a lower bound on the loss of any marginals that is known beforehand."""
        return -math.inf

    def residuals(self, marginals: np.ndarray) -> BoundResiduals | None:
        """Return the residuals at a vector of marginals without padding; None if the loss has none."""
        return None

    def squared(self) -> BoundLoss | None:
        """Return the l2 loss of the same residuals, for a loss with kinks that has some; else None."""
        return None


@jit
def _value_and_gradient(loss: BoundLoss, marginals: Any) -> Any:
    return jax.value_and_grad(loss.flat)(marginals)


def of_host(part: Any) -> Any:
    """Return the part of a loss that stays on the host; refuse after a JAX transformation, where it is None.

    Raises:
        ValueError: it is.
    """
    if part is None:
        raise ValueError(
            "this loss went through a JAX transformation and lost its float64 part: call exact, cast, "
            "cliques and lipschitz on the loss that losses.build returned."
        )
    return part


def check_arguments(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any
) -> tuple[float, np.dtype]:
    """Check the arguments of `Loss.bind`; return the total and the dtype.

    Raises:
        TypeError: not measurements.
        ValueError: a measurement that does not fit the domain, or a total that is not positive.
    """
    for measurement in measurements:
        checks.kind(measurement, LinearMeasurement, "measurements must be LinearMeasurement")
        measurement.validate(domain)
    return checks.total(total), np.dtype(checks.choice("dtype", np.dtype(dtype).name, DTYPES))


def unique_cliques(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Return each set of attributes once, in order of first occurrence."""
    first: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        first.setdefault(frozenset(clique), clique)
    return tuple(first.values())
