"""The distribution of a sum of noises by one of three methods, or by the cheapest of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgmjax._internal import checks
from pgmjax.history.bayes import characteristic, convolution, monte_carlo
from pgmjax.history.bayes.characteristic import Inversion
from pgmjax.history.bayes.convolution import Convolution
from pgmjax.history.bayes.distribution import SumDistribution, closed_form
from pgmjax.history.bayes.monte_carlo import Simulation
from pgmjax.history.bayes.noise_sum import NoiseSum

METHODS = ("auto", "characteristic", "convolution", "monte-carlo")


def distribution_of(
    distribution: NoiseSum, method: str = "auto", *, tolerance: float = 0.005, **options: Any
) -> SumDistribution:
    """Return the computed distribution of a sum of noises.

    Args:
        distribution: the sum.
        method: `characteristic` (inversion of the characteristic function), `convolution` (masses on a grid,
            each noise truncated), `monte-carlo` (draws on the device), or `auto`, the one with the least
            forecast cost among those accurate enough.
        tolerance: for `auto`, the error allowed in probability and in standard deviations.
        options: options of the method: `resolution`; `step`, `gamma`; `size`, `seed`, respectively.

    Raises:
        ValueError: unknown method.

    References:
        Xiao and Xiong 2012, Section 4.

    Example:
        >>> from pgmjax.history.bayes.noise_sum import NoiseSum
        >>> distribution_of(NoiseSum([1.0], 10.0)).half_width(0.95)
        30.0
    """
    chosen = checks.choice("method", method, METHODS)
    if chosen == "auto":
        chosen = cheapest(distribution, tolerance)
        options = {}
    runs: dict[str, Callable[..., SumDistribution]] = {
        "characteristic": _invert,
        "convolution": convolution.convolve,
        "monte-carlo": monte_carlo.simulate,
    }
    return runs[chosen](distribution, **options)


def cheapest(distribution: NoiseSum, tolerance: float = 0.005) -> str:
    """Return the name of the method with the least forecast cost among those accurate enough."""
    if not distribution.sizes.size or closed_form(distribution) is not None:
        return "characteristic"
    forecasts: dict[str, Inversion | Convolution | Simulation] = {
        "characteristic": characteristic.plan_inversion(distribution),
        "convolution": convolution.plan_convolution(distribution),
        "monte-carlo": monte_carlo.plan_simulation(distribution, tolerance),
    }
    fit = {
        name: plan.cost
        for name, plan in forecasts.items()
        if plan.accuracy.mass <= tolerance and plan.accuracy.shift <= tolerance * distribution.stddev
    }
    return min(fit, key=lambda name: fit[name]) if fit else "characteristic"


def _invert(distribution: NoiseSum, resolution: float = 1 / 128) -> SumDistribution:
    return characteristic.invert(distribution, characteristic.plan_inversion(distribution, resolution))
