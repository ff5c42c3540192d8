"""Interface of losses: a setting on the host, and its form bound to measurements on the device."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.jit import jit, precision
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.inference.ops.tables import join, split
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


class BoundLoss(abc.ABC):
    """A convex function of the marginals of some cliques, a pytree with a static structure.

    Numbers (values, weights, smoothing) are leaves, so that `jit` traces once for all values of one
    structure and `vmap` runs over stacked losses (`estimation.losses.build.stack`). Host-only methods
    (`exact`, `lipschitz`) work on the object that `bind` returned, not after a JAX transformation.

    Attributes:
        cliques: the cliques of the marginals, in this order; each set of attributes once.
    """

    @property
    @abc.abstractmethod
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques whose marginals `__call__` takes, each set of attributes once."""

    @abc.abstractmethod
    def __call__(self, marginals: Sequence[Any]) -> Any:
        """Return the (smoothed) loss, a scalar.

        Args:
            marginals: for each clique a table [size of each attribute] of probabilities; JAX arrays.
        """

    @property
    @abc.abstractmethod
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""

    def flat(self, marginals: Any) -> Any:
        """Return the (smoothed) loss of all tables in one vector, each row-major, perhaps padded."""
        return self(split(marginals, self.shapes))

    def value_and_gradient(self, marginals: Any) -> tuple[Any, Any]:
        """Return `flat` and its gradient; without compilation for a NumPy vector, if the loss can."""
        if isinstance(marginals, np.ndarray):
            return self.on_host_value_and_gradient(marginals)
        return jax.value_and_grad(self.flat)(marginals)

    def on_host_value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient in float64, for a loss bound in float64; compiled by default."""
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

    def weights(self) -> tuple[float, float]:
        """Return the least and the largest weight of a residual, for a loss that can cap them."""
        return 1.0, 1.0

    def capped(self, largest: float) -> BoundLoss:
        """Return the loss with no weight above the largest: a lower bound on it, itself if it cannot."""
        return self


@jit
def _value_and_gradient(loss: BoundLoss, marginals: Any) -> Any:
    return jax.value_and_grad(loss.flat)(marginals)


@dataclasses.dataclass(frozen=True, eq=False)
class WrappedLoss(BoundLoss):
    """A loss of the measurements with other terms added to it in `flat`.

    Attributes:
        inner: the loss of the measurements.
    """

    inner: BoundLoss

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the measurements."""
        return self.inner.cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.inner.shapes

    def __call__(self, marginals: Sequence[Any]) -> Any:
        """Return the loss of marginals in probabilities with the other terms, a scalar."""
        return self.flat(join(marginals))

    @abc.abstractmethod
    def flat(self, marginals: Any) -> Any:
        """Return the loss of all tables in one vector with the other terms."""

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss of the measurements alone, in float64."""
        return self.inner.exact(marginals)

    @property
    def smoothing(self) -> Any:
        """Smoothing parameter of the measurements' loss."""
        return self.inner.smoothing

    def with_smoothing(self, delta: Any) -> Self:
        """Return the loss with another smoothing parameter."""
        return dataclasses.replace(self, inner=self.inner.with_smoothing(delta))

    def slack(self) -> Any:
        """Return a bound on the measurements' loss minus its smoothed form."""
        return self.inner.slack()

    def weights(self) -> tuple[float, float]:
        """Return the least and the largest weight of a residual of the measurements."""
        return self.inner.weights()

    def capped(self, largest: float) -> Self:
        """Return the loss with no weight of the measurements above the largest."""
        return dataclasses.replace(self, inner=self.inner.capped(largest))


def check_arguments(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any
) -> tuple[float, np.dtype]:
    """Check the arguments of `Loss.bind`; return the total and the dtype.

    Raises:
        TypeError: not measurements.
        ValueError: a measurement that does not fit the domain, or a total that is not positive.
    """
    for measurement in measurements:
        if not isinstance(measurement, LinearMeasurement):
            raise TypeError(f"measurements must be LinearMeasurement, got {type(measurement).__name__}.")
        measurement.validate(domain)
    return checks.total(total), np.dtype(checks.choice("dtype", np.dtype(dtype).name, DTYPES))


def unique_cliques(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Return each set of attributes once, in order of first occurrence."""
    first: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        first.setdefault(frozenset(clique), clique)
    return tuple(first.values())
