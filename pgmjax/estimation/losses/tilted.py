"""A loss with a linear term: what is left of the relative entropy to a prior beside the entropy itself."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.estimation.losses.base import BoundLoss


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["inner", "slope"], meta_fields=[], drop_fields=["host"]
)
@dataclasses.dataclass(frozen=True, eq=False)
class Tilted(BoundLoss):
    """``L(mu) + <slope, mu>``; the loss of the measurements alone is L.

    Attributes:
        inner: the loss L.
        slope: in one vector of all tables (loss per unit of probability).
        host: the same in float64, absent after a JAX transformation.
    """

    inner: BoundLoss
    slope: Any
    host: np.ndarray | None = None

    @classmethod
    def of(cls, inner: BoundLoss, slope: np.ndarray, dtype: Any) -> Tilted:
        """Tilt a loss, with device arrays of a type."""
        return cls(inner, slope.astype(dtype), slope)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the measurements."""
        return self.inner.cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.inner.shapes

    def __call__(self, marginals: Sequence[Any]) -> Any:
        """Return the tilted loss of marginals in probabilities, a scalar."""
        return self.flat(jax.numpy.concatenate([jax.numpy.ravel(table) for table in marginals]))

    def flat(self, marginals: Any) -> Any:
        """Return the tilted loss of all tables in one vector."""
        return self.inner.flat(marginals) + marginals[: len(self.slope)] @ self.slope

    def padded(self, length: int) -> Tilted:
        """Return the loss for padded vectors."""
        return dataclasses.replace(self, inner=self.inner.padded(length))

    def cast(self, dtype: Any) -> Tilted:
        """Return the loss with device arrays of another type."""
        assert self.host is not None
        return Tilted.of(self.inner.cast(dtype), self.host, dtype)

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss of the measurements alone, in float64."""
        return self.inner.exact(marginals)

    def term(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the linear term, in float64."""
        assert self.host is not None
        tables = np.concatenate([np.ravel(table) for table in marginals])
        return float(tables[: len(self.host)] @ self.host)

    def lipschitz(self) -> float | None:
        """Return the constant of the inner loss: a linear term adds nothing."""
        return self.inner.lipschitz()

    @property
    def smoothing(self) -> Any:
        """Smoothing parameter of the inner loss."""
        return self.inner.smoothing

    def with_smoothing(self, delta: Any) -> Tilted:
        """Return the loss with another smoothing parameter."""
        return dataclasses.replace(self, inner=self.inner.with_smoothing(delta))

    def slack(self) -> Any:
        """Return the slack of the inner loss."""
        return self.inner.slack()
