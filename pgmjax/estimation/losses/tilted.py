"""A loss with a linear term: what is left of the relative entropy to a prior beside the entropy itself."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax._internal.arrays import dot
from pgmjax.estimation.losses.base import BoundLoss, BoundResiduals, WrappedLoss


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["inner", "slope"], meta_fields=[], drop_fields=["host"]
)
@dataclasses.dataclass(frozen=True, eq=False)
class Tilted(WrappedLoss):
    """``L(mu) + <slope, mu>``; the loss of the measurements alone is L.

    Attributes:
        inner: the loss L.
        slope: in one vector of all tables (loss per unit of probability).
        host: the same in float64, absent after a JAX transformation.
    """

    slope: Any
    host: np.ndarray | None = None

    @classmethod
    def of(cls, inner: BoundLoss, slope: np.ndarray, dtype: Any) -> Tilted:
        """Tilt a loss, with device arrays of a type."""
        return cls(inner, slope.astype(dtype), slope)

    def flat(self, marginals: Any) -> Any:
        """Return the tilted loss of all tables in one vector."""
        return self.inner.flat(marginals) + dot(marginals[: len(self.slope)], self.slope)

    def on_host_value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, without compilation if the inner loss can."""
        value, gradient = self.inner.on_host_value_and_gradient(marginals)
        gradient = np.array(gradient)
        gradient[: len(self.slope)] += self.slope
        return value + dot(marginals[: len(self.slope)], self.slope), gradient

    def residuals(self, marginals: np.ndarray) -> BoundResiduals | None:
        """Return the residuals at a vector of marginals, with the linear term."""
        inner = self.inner.residuals(marginals)
        slope = np.asarray(self.slope, np.float64)[: len(marginals)]
        return inner and dataclasses.replace(inner, slope=inner.slope + slope)

    def padded(self, length: int) -> Tilted:
        """Return the loss for padded vectors."""
        return dataclasses.replace(self, inner=self.inner.padded(length))

    def cast(self, dtype: Any) -> Tilted:
        """Return the loss with device arrays of another type."""
        assert self.host is not None
        return Tilted.of(self.inner.cast(dtype), self.host, dtype)

    def term(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the linear term, in float64."""
        assert self.host is not None
        tables = np.concatenate([np.ravel(table) for table in marginals])
        return float(dot(tables[: len(self.host)], self.host))

    def lipschitz(self) -> float | None:
        """Return the constant of the inner loss: a linear term adds nothing."""
        return self.inner.lipschitz()
