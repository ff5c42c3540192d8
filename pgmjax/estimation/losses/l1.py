"""The L1 loss: the sum of absolute residuals in standard deviations, smoothed for gradients."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.arrays import dot
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.losses.base import BoundLoss, BoundResiduals, Loss
from pgmjax.estimation.losses.l2 import BoundL2
from pgmjax.estimation.losses.linear import LinearResiduals, linear_residuals, residuals_of_rows
from pgmjax.inference.ops.tables import host_join, join
from pgmjax.measurements.linear import LinearMeasurement


@dataclasses.dataclass(frozen=True)
class L1(Loss):
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

    def bind(
        self, domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any = "float32"
    ) -> BoundL1:
        """Return the loss of these measurements (see `Loss.bind`)."""
        linear = linear_residuals(domain, measurements, total, dtype)
        return BoundL1(linear, np.asarray(self.smoothing, linear.values[0].dtype))

    def bind_rows(
        self,
        domain: Domain,
        rows: Sequence[Sequence[LinearMeasurement]],
        totals: Sequence[float],
        dtype: Any = "float32",
    ) -> list[BoundL1]:
        """Return the loss of each row, all bound together (see `Loss.bind_rows`)."""
        delta = np.asarray(self.smoothing, dtype)
        return [BoundL1(each, delta) for each in residuals_of_rows(domain, rows, totals, dtype)]

    def noise_level(self, measurements: Sequence[LinearMeasurement]) -> float:
        """Return the mean absolute noise of all values, in standard deviations."""
        return sum(_mean_absolute(measurement) * measurement.values.size for measurement in measurements)


# E|x| of noise of variance 1.
_GAUSSIAN = math.sqrt(2 / math.pi)
_LAPLACE = math.sqrt(0.5)


def _mean_absolute(measurement: LinearMeasurement) -> float:
    """Return the mean absolute noise in standard deviations, by the continuous distribution of its family."""
    means = {"gaussian": _GAUSSIAN, "laplace": _LAPLACE, "response": _GAUSSIAN}
    if measurement.noise in means or measurement.distribution is None:
        return means[measurement.noise]
    return measurement.distribution.mean_absolute / measurement.distribution.stddev


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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class BoundL1(BoundLoss):
    """The L1 loss of given measurements.

    Attributes:
        linear: the residuals; their arrays are leaves.
        delta: Huber threshold in standard deviations, a scalar leaf.
    """

    linear: LinearResiduals
    delta: Any

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques whose marginals `__call__` takes."""
        return self.linear.on_host().cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.linear.layout.shapes

    def __call__(self, marginals: Sequence[Any]) -> jax.Array:
        """Return the smoothed loss of marginals in probabilities, a scalar.

        A residual r counts ``r**2 / (2 delta)`` up to delta and ``abs(r) - delta / 2`` beyond.
        """
        return self.flat(self.linear.joined(marginals))

    def flat(self, marginals: Any) -> jax.Array:
        """Return the smoothed loss of all tables in one vector."""
        return huber(self.linear(marginals), self.delta)

    def on_host_value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, in NumPy."""
        residuals = self.linear(marginals)
        slopes = tuple(np.clip(each / self.delta, -1, 1) for each in residuals)
        terms = (dot(s, r - 0.5 * self.delta * s) for s, r in zip(slopes, residuals, strict=True))
        return np.float64(sum(map(float, terms))), self.linear.transposed(slopes, marginals)

    def residuals(self, marginals: np.ndarray) -> BoundResiduals:
        """Return the residuals at a vector of marginals."""
        linear = self.linear.unpadded(len(marginals))
        values, rows = host_join(linear(marginals), np.float64), linear.rows()
        ones = np.ones(len(values))
        return BoundResiduals(rows, values, ones / float(self.delta), ones, np.zeros(len(marginals)))

    def squared(self) -> BoundL2:
        """Return the l2 loss of the same residuals."""
        return BoundL2(self.linear)

    def padded(self, length: int) -> BoundL1:
        """Return the loss for vectors of a given length."""
        return dataclasses.replace(self, linear=self.linear.padded(length))

    def cast(self, dtype: Any) -> BoundL1:
        """Return the loss with device arrays of another type."""
        return BoundL1(self.linear.cast(dtype), np.asarray(self.delta, dtype))

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the unsmoothed loss in float64, on the host."""
        return float(np.sum(np.abs(self.linear.exact(marginals))))

    def least(self) -> float:
        """Return a lower bound on the loss of any marginals: 0."""
        return 0.0

    def lipschitz(self) -> float:
        """Return the smoothed loss's constant: the L2 loss's divided by the smoothing."""
        return self.linear.on_host().curvature / float(self.delta)

    @property
    def smoothing(self) -> Any:
        """Huber threshold in standard deviations."""
        return self.delta

    def with_smoothing(self, delta: Any) -> BoundL1:
        """Return the loss with another threshold; same structure, so no retracing."""
        if not isinstance(delta, jax.Array):
            delta = np.asarray(checks.number("smoothing", delta, above=0), self.linear.values[0].dtype)
        return dataclasses.replace(self, delta=delta)

    def slack(self) -> Any:
        """Return ``rows * smoothing / 2``, the bound on the loss minus its smoothed form."""
        return self.linear.layout.rows * self.delta / 2
