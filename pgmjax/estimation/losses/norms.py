"""The L2 and the L1 loss: half the squares, and the sizes, of residuals in standard deviations.

The L1 loss is smoothed for gradients.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.arrays import dot
from pgmjax.estimation.losses.linear import ARRAYS, BoundLinear, LinearLoss
from pgmjax.inference.ops.tables import join
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import CONTINUOUS, Gaussian, NoiseDistribution


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


@dataclasses.dataclass(frozen=True)
class L1(LinearLoss):
    """``sum(abs(Q mu - y) / stddev)``, up to a factor the negative log-likelihood under Laplace noise.

    Gradients are those of a Huber function, at most ``rows * smoothing / 2`` below the loss.

    Attributes:
        smoothing: Huber threshold in standard deviations.

    References:
        McKenna et al. 2019, Appendix C.1 and C.2.
    """

    name: ClassVar[str] = "l1"
    smoothing: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "smoothing", checks.number("smoothing", self.smoothing, above=0))

    def _of_residuals(self, *linear: Any) -> BoundL1:
        """Return the loss of some residuals."""
        bound = BoundL1(*linear)
        return dataclasses.replace(bound, delta=np.asarray(self.smoothing, bound.values.dtype))

    def noise_level(self, measurements: Sequence[LinearMeasurement]) -> float:
        """Return the mean absolute noise of all values, in standard deviations."""
        return sum(_mean_absolute(measurement) * measurement.values.size for measurement in measurements)


def _mean_absolute(measurement: LinearMeasurement) -> float:
    """Return the mean absolute noise in standard deviations, by the continuous distribution of its family."""
    law: NoiseDistribution = CONTINUOUS.get(measurement.noise, Gaussian).of_stddev(1.0)
    if measurement.noise not in (*CONTINUOUS, "response") and measurement.distribution is not None:
        law = measurement.distribution
    return law.mean_absolute / law.stddev


@jax.custom_jvp
def huber(residuals: tuple[jax.Array, ...], delta: Any) -> jax.Array:
    """Return the sum over all entries r of ``r**2 / (2 delta)`` up to delta, ``abs(r) - delta / 2`` beyond.

    Branch-free, so that no unused branch can overflow.
    """
    every = join(residuals)
    near = jnp.clip(every, -delta, delta)
    return jnp.sum((near / delta) * (every - 0.5 * near))


@huber.defjvp
def _huber_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[jax.Array, jax.Array]:
    (residuals, delta), (changes, change_of_delta) = primals, tangents
    slopes = [jnp.clip(each / delta, -1, 1) for each in residuals]
    of_residuals = [jnp.sum(slope * change) for slope, change in zip(slopes, changes, strict=True)]
    of_delta = [jnp.sum(-0.5 * slope**2) * change_of_delta for slope in slopes]
    return huber(residuals, delta), functools.reduce(operator.add, of_residuals + of_delta)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[*ARRAYS, "delta"],
    meta_fields=["layout"],
    drop_fields=["host"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class BoundL1(BoundLinear):
    """The L1 loss of given measurements.

    A residual r counts ``r**2 / (2 delta)`` up to delta and ``abs(r) - delta / 2`` beyond.

    Attributes:
        delta: Huber threshold in standard deviations, a scalar leaf.
    """

    delta: Any = None

    def flat(self, marginals: Any) -> jax.Array:
        """Return the smoothed loss of all tables in one vector."""
        return huber(self.standardised(marginals), self.delta)

    def value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, in NumPy."""
        residuals = self.standardised(marginals)
        slopes = tuple(np.clip(each / self.delta, -1, 1) for each in residuals)
        terms = (dot(s, r - 0.5 * self.delta * s) for s, r in zip(slopes, residuals, strict=True))
        return np.float64(sum(map(float, terms))), self.transposed(slopes, marginals)

    def bends(self) -> tuple[float, float]:
        """Return `sharpness` and `largest` of the residuals: those of a Huber function."""
        return 1 / float(self.delta), 1.0

    def squared(self) -> BoundL2:
        """Return the l2 loss of the same residuals."""
        return BoundL2(*(getattr(self, field.name) for field in dataclasses.fields(BoundL2)))

    def cast(self, dtype: Any) -> BoundL1:
        """Return the loss with device arrays of another type."""
        return dataclasses.replace(super().cast(dtype), delta=np.asarray(self.delta, dtype))

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the unsmoothed loss in float64, on the host."""
        return float(np.sum(np.abs(self.exact_residuals(marginals))))

    def lipschitz(self) -> float:
        """Return the smoothed loss's constant: the L2 loss's divided by the smoothing."""
        return super().lipschitz() / float(self.delta)

    @property
    def smoothing(self) -> Any:
        """Huber threshold in standard deviations."""
        return self.delta

    def with_smoothing(self, delta: Any) -> BoundL1:
        """Return the loss with another threshold; same structure, so no retracing."""
        if not isinstance(delta, jax.Array):
            delta = np.asarray(checks.number("smoothing", delta, above=0), self.values.dtype)
        return dataclasses.replace(self, delta=delta)

    def slack(self) -> Any:
        """Return ``rows * smoothing / 2``, the bound on the loss minus its smoothed form."""
        return self.layout.rows * self.delta / 2
