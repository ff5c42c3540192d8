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
from pgmjax.estimation.losses.linear import ARRAYS, BoundLinear, LinearLoss
from pgmjax.inference.ops.tables import join
from pgmjax.measurements.linear import LinearMeasurement


@dataclasses.dataclass(frozen=True)
class L2(LinearLoss):
    """``0.5 * sum(((Q mu - y) / stddev)**2)``, the negative log-likelihood under Gaussian noise.

    Example:
        >>> L2().name
        'l2'

    References:
        McKenna et al. 2019, Appendix C.1 and C.2.
    """

    name: ClassVar[str] = "l2"
    merges: ClassVar[bool] = True

    def _of_residuals(self, *linear: Any) -> BoundL2:
        """Return the loss of some residuals."""
        return BoundL2(*linear)

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


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=ARRAYS, meta_fields=["layout"], drop_fields=["host"]
)
@dataclasses.dataclass(frozen=True, eq=False)
class BoundL2(BoundLinear):
    """The L2 loss of given measurements."""

    def flat(self, marginals: Any) -> jax.Array:
        """Return the loss of all tables in one vector."""
        return half_squares(self.standardised(marginals)) + self.rest

    def value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, in NumPy."""
        residuals = self.standardised(marginals)
        squares = sum(float(dot(each, each)) for each in residuals)
        return 0.5 * squares + self.rest, self.transposed(residuals, marginals)

    def bends(self) -> tuple[float, float]:
        """Return `sharpness` and `largest` of the residuals: those of half a square."""
        return 1.0, np.inf

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss in float64, on the host."""
        return float(0.5 * np.sum(np.square(self.exact_residuals(marginals))))
