"""What a law of noise must tell so that sums of noise have laws too: four laws, two of them continuous.

The discrete laws of `pgmjax.laws` are those really drawn. The continuous ones are the papers' own: they stand
for the discrete ones only where they are asked for by name.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace


@dataclasses.dataclass(frozen=True)
class Laplace:
    """The continuous Laplace law, with density exp(-abs(x) / scale) / (2 scale).

    Example:
        >>> Laplace(1.0).variance
        2.0
    """

    scale: float
    noise: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))

    @property
    def variance(self) -> float:
        """Twice the squared scale."""
        return 2 * self.scale * self.scale

    @property
    def stddev(self) -> float:
        """The standard deviation."""
        return math.sqrt(2) * self.scale


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """The continuous Gaussian law of mean 0; its scale is its standard deviation.

    Example:
        >>> Gaussian(3.0).variance
        9.0
    """

    scale: float
    noise: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))

    @property
    def variance(self) -> float:
        """The squared scale."""
        return self.scale * self.scale

    @property
    def stddev(self) -> float:
        """The standard deviation."""
        return self.scale


NoiseLaw = DiscreteLaplace | DiscreteGaussian | Laplace | Gaussian
DISCRETE = (DiscreteLaplace, DiscreteGaussian)
LARGEST_EXPONENT = 700.0


def as_law(said: str, value: Any, continuous: bool = False) -> NoiseLaw:
    """Return a law from itself or from a Laplace scale.

    Args:
        said: what it is the law of, for messages.
        value: a law, or a number: the scale of a discrete Laplace law, the one that is really drawn.
        continuous: take the continuous law of the same family and scale instead.

    Raises:
        TypeError: neither a law nor a number.
        ValueError: a scale that is not finite and positive.

    Example:
        >>> as_law("row 0", 2.0, continuous=True)
        Laplace(scale=2.0)
    """
    if not isinstance(value, NoiseLaw):
        try:
            value = DiscreteLaplace(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{said} needs a law of noise or a Laplace scale (counts): {error}") from error
    if not continuous:
        return value
    return Laplace(value.scale) if value.noise == "laplace" else Gaussian(value.scale)


def characteristic(law: NoiseLaw, angles: np.ndarray) -> np.ndarray:
    """Return E cos(t N) for every t in `angles` [n]: real, since every law is symmetric."""
    if isinstance(law, Laplace):
        return 1 / (1 + (law.scale * angles) ** 2)
    if isinstance(law, Gaussian):
        return np.exp(-0.5 * (law.scale * angles) ** 2)
    if isinstance(law, DiscreteLaplace):
        half = min(0.5 / law.scale, LARGEST_EXPONENT / 2)
        return 1 / (1 + (np.sin(0.5 * angles) / math.sinh(half)) ** 2)
    if law.scale < 1:
        values = np.arange(1, math.ceil(40 * law.scale) + 2)
        masses = law.probabilities(np.arange(-values[-1], values[-1] + 1))[values[-1] :]
        return (masses[0] + 2 * np.cos(np.multiply.outer(angles, values)) @ masses[1:]) / (
            masses[0] + 2 * masses[1:].sum()
        )
    turned = np.remainder(angles + math.pi, 2 * math.pi) - math.pi
    shifts = 2 * math.pi * np.arange(-2, 3)  # Poisson summation; the next terms are below 1e-50
    peaks = np.exp(-0.5 * (law.scale * (turned[..., None] + shifts)) ** 2).sum(axis=-1)
    return np.asarray(peaks / np.exp(-0.5 * (law.scale * shifts) ** 2).sum())


def log_moment(law: NoiseLaw, arguments: np.ndarray) -> np.ndarray:
    """Return log E exp(s N), or an upper bound of it, for every s >= 0 in `arguments` [n].

    Infinite for Laplace laws from s = 1 / scale on; for the discrete Gaussian it is the continuous one's,
    which is not smaller (Canonne, Kamath and Steinke 2020, Fact 19).
    """
    if law.noise == "gaussian":
        return 0.5 * (law.scale * arguments) ** 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if isinstance(law, Laplace):
            inside = (law.scale * arguments) ** 2
        else:
            half = min(0.5 / law.scale, LARGEST_EXPONENT / 2)
            inside = (np.sinh(np.minimum(0.5 * arguments, LARGEST_EXPONENT / 2)) / math.sinh(half)) ** 2
        return np.where(inside < 1, -np.log1p(-np.minimum(inside, 1)), np.inf)


def largest_argument(law: NoiseLaw) -> float:
    """Return the s from which on E exp(s N) is infinite."""
    return math.inf if law.noise == "gaussian" else 1 / law.scale


def above(law: NoiseLaw, values: np.ndarray) -> np.ndarray:
    """Return P(N > v) for every v >= 0 in `values` [n], accurate far into the tail."""
    if isinstance(law, Laplace):
        return 0.5 * np.exp(-np.asarray(values) / law.scale)
    if isinstance(law, Gaussian) or (isinstance(law, DiscreteGaussian) and law.scale > 2000):
        from scipy.special import ndtr

        steps = values if isinstance(law, Gaussian) else np.floor(values) + 0.5
        return np.asarray(ndtr(-np.asarray(steps) / law.scale))
    first = np.floor(values) + 1
    if isinstance(law, DiscreteLaplace):
        return np.exp(-first / law.scale) / (1 + math.exp(-1 / law.scale))
    ends = np.arange(0, math.ceil(40 * law.scale) + 2)
    tails = np.append(np.cumsum(law.probabilities(ends)[::-1])[::-1], 0.0)
    return tails[np.minimum(first, len(ends)).astype(np.int64)]
