"""The L2 loss: half the sum of squared residuals in standard deviations."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal.arrays import dot
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.losses.base import BoundLoss, BoundResiduals, Loss
from pgmjax.estimation.losses.linear import LinearResiduals, linear_residuals, residuals_of_rows
from pgmjax.inference.ops.tables import host_join, join
from pgmjax.measurements.linear import LinearMeasurement


@dataclasses.dataclass(frozen=True)
class L2(Loss):
    """``0.5 * sum(((Q mu - y) / stddev)**2)``, the negative log-likelihood under Gaussian noise.

    Example:
        >>> L2().name
        'l2'

    References:
        McKenna et al. 2019, Appendix C.1 and C.2.
    """

    name: ClassVar[str] = "l2"

    def bind(
        self, domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any = "float32"
    ) -> BoundL2:
        """Return the loss of these measurements (see `Loss.bind`)."""
        return BoundL2(linear_residuals(domain, measurements, total, dtype, merge=True))

    def bind_rows(
        self,
        domain: Domain,
        rows: Sequence[Sequence[LinearMeasurement]],
        totals: Sequence[float],
        dtype: Any = "float32",
    ) -> list[BoundL2]:
        """Return the loss of each row, all bound together (see `Loss.bind_rows`)."""
        return [BoundL2(each) for each in residuals_of_rows(domain, rows, totals, dtype, merge=True)]

    def noise_level(self, measurements: Sequence[LinearMeasurement]) -> float:
        """Return half the number of values, whatever the distribution of their noise."""
        return 0.5 * sum(measurement.values.size for measurement in measurements)


@jax.custom_jvp
def half_squares(residuals: tuple[jax.Array, ...]) -> jax.Array:
    """Return half the sum of squares of all entries, as one reduction over all arrays."""
    return 0.5 * jnp.sum(jnp.square(join(residuals)))


@half_squares.defjvp
def _half_squares_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[jax.Array, jax.Array]:
    # Per array, so that the gradient is elementwise, without a join and a split.
    (residuals,), (changes,) = primals, tangents
    return half_squares(residuals), functools.reduce(
        operator.add, [jnp.sum(each * change) for each, change in zip(residuals, changes, strict=True)]
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class BoundL2(BoundLoss):
    """The L2 loss of given measurements.

    Attributes:
        linear: the residuals; their arrays are the leaves.
    """

    linear: LinearResiduals

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques whose marginals `__call__` takes."""
        return self.linear.on_host().cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.linear.layout.shapes

    def __call__(self, marginals: Sequence[Any]) -> jax.Array:
        """Return the loss of marginals in probabilities, a scalar."""
        return self.flat(self.linear.joined(marginals))

    def flat(self, marginals: Any) -> jax.Array:
        """Return the loss of all tables in one vector."""
        return half_squares(self.linear(marginals)) + self.linear.rest

    def on_host_value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, in NumPy."""
        residuals = self.linear(marginals)
        squares = sum(float(dot(each, each)) for each in residuals)
        return 0.5 * squares + self.linear.rest, self.linear.transposed(residuals, marginals)

    def padded(self, length: int) -> BoundL2:
        """Return the loss for vectors of a given length."""
        return dataclasses.replace(self, linear=self.linear.padded(length))

    def residuals(self, marginals: np.ndarray) -> BoundResiduals:
        """Return the residuals at a vector of marginals."""
        linear = self.linear.unpadded(len(marginals))
        values, rows = host_join(linear(marginals), np.float64), linear.rows()
        ones = np.ones(len(values))
        return BoundResiduals(rows, values, ones, ones * np.inf, np.zeros(len(marginals)))

    def cast(self, dtype: Any) -> BoundL2:
        """Return the loss with device arrays of another type."""
        return BoundL2(self.linear.cast(dtype))

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss in float64, on the host."""
        return float(0.5 * np.sum(np.square(self.linear.exact(marginals))))

    def least(self) -> float:
        """Return a lower bound on the loss of any marginals: 0."""
        return 0.0

    def lipschitz(self) -> float:
        """Return the sum over measurements of ``max_j sum_i (Q_ij total / stddev_i)**2``."""
        return self.linear.on_host().curvature
