"""The interface of losses: a setting on the host, and the same bound to measurements for the device."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.inference.ops.tables import split
from pgmjax.measurements.linear import LinearMeasurement

DTYPES = ("float32", "float64")


@dataclasses.dataclass(frozen=True)
class Loss(abc.ABC):
    """A convex function of marginals, as a setting; `bind` makes it a function of arrays."""

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
            dtype: of the device arrays, `float32` or `float64`.
        """


class BoundLoss(abc.ABC):
    """A convex function of the marginals of some cliques, a pytree with a static structure.

    Numbers (values, weights, smoothing) are leaves, so that `jit` traces once for all values of one
    structure and `vmap` runs over stacked losses (`estimation.losses.build.stack`). What only the host
    needs (`exact`, `lipschitz`) is there on the object that was bound and is gone after a transformation.

    Attributes:
        cliques: over which attributes the marginals must be given, in this order; each set of
            attributes once.
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
        """Return the (smoothed) loss of all tables in one vector, each row-major; its end may be padding."""
        return self(split(marginals, self.shapes))

    def padded(self, length: int) -> BoundLoss:
        """Return the loss for vectors of a given length, of which it may keep some itself."""
        return self

    @abc.abstractmethod
    def cast(self, dtype: Any) -> BoundLoss:
        """Return the same loss with device arrays of another type, made from the float64 part.

        Nothing is checked again; smoothing is that of the setting.
        """

    @abc.abstractmethod
    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss, not smoothed, in float64 on the host.

        Args:
            marginals: as for `__call__`, NumPy arrays in float64.
        """

    def lipschitz(self) -> float | None:
        """Return K with ``max |grad L(p) - grad L(q)| <= K sum |p - q|``, None where unknown.

        Here p and q are joint distributions; the constant is what steps of entropic mirror descent
        need.
        """
        return None

    @property
    def smoothing(self) -> Any:
        """How far the loss is smoothed, in standard deviations; None for a smooth one."""
        return None

    def with_smoothing(self, delta: Any) -> BoundLoss:
        """Return the loss smoothed otherwise; the loss itself where there is nothing to smooth."""
        return self

    def slack(self) -> Any:
        """Return how much the loss may lie above its smoothed form, which is never above it."""
        return 0.0


def check_arguments(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any
) -> tuple[float, np.dtype]:
    """Check what every loss is bound to; return the total and the dtype.

    Raises:
        TypeError: something else than measurements.
        ValueError: no measurement, one that does not fit the domain, or a total that is not positive.
    """
    for measurement in measurements:
        if not isinstance(measurement, LinearMeasurement):
            raise TypeError(f"measurements must be LinearMeasurement, got {type(measurement).__name__}.")
        measurement.validate(domain)
    return checks.number("total", total, above=0), np.dtype(
        checks.choice("dtype", np.dtype(dtype).name, DTYPES)
    )


def unique_cliques(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Return each set of attributes once, in the order in which it came first."""
    first: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        first.setdefault(frozenset(clique), clique)
    return tuple(first.values())
