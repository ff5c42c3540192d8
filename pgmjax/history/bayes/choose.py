"""The distribution of a sum of noises by one of three methods, or by the one that costs least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgmjax._internal import checks
from pgmjax.history.bayes import characteristic, convolution, monte_carlo
from pgmjax.history.bayes.characteristic import Inversion
from pgmjax.history.bayes.convolution import Convolution
from pgmjax.history.bayes.distribution import SumLaw, closed_form
from pgmjax.history.bayes.monte_carlo import Simulation
from pgmjax.history.bayes.noise_sum import NoiseSum

METHODS = ("auto", "characteristic", "convolution", "monte-carlo")


def law_of(law: NoiseSum, method: str = "auto", *, tolerance: float = 0.005, **options: Any) -> SumLaw:
    """Return the computed law of a sum of noises.

    Args:
        law: the sum.
        method: `characteristic` (inversion of the characteristic function), `convolution` (masses on a grid,
            each noise cut off), `monte-carlo` (draws on the device), or `auto`, the cheapest by forecast of
            those accurate enough.
        tolerance: for `auto`, how much probability, and how much of a standard deviation, may be wrong.
        options: of the method: `resolution`; `step`, `gamma`; `size`, `seed`.

    Raises:
        ValueError: another method.

    References:
        Xiao and Xiong 2012, Section 4.

    Example:
        >>> from pgmjax.history.bayes.noise_sum import NoiseSum
        >>> law_of(NoiseSum([1.0], 10.0)).half_width(0.95)
        30.0
    """
    chosen = checks.choice("method", method, METHODS)
    if chosen == "auto":
        chosen = cheapest(law, tolerance)
        options = {}
    runs: dict[str, Callable[..., SumLaw]] = {
        "characteristic": _invert,
        "convolution": convolution.convolve,
        "monte-carlo": monte_carlo.simulate,
    }
    return runs[chosen](law, **options)


def cheapest(law: NoiseSum, tolerance: float = 0.005) -> str:
    """Return the method of least forecast cost among those accurate enough, by name."""
    if not law.sizes.size or closed_form(law) is not None:
        return "characteristic"
    forecasts: dict[str, Inversion | Convolution | Simulation] = {
        "characteristic": characteristic.plan_inversion(law),
        "convolution": convolution.plan_convolution(law),
        "monte-carlo": monte_carlo.plan_simulation(law, tolerance),
    }
    fit = {
        name: plan.cost
        for name, plan in forecasts.items()
        if plan.accuracy.mass <= tolerance and plan.accuracy.shift <= tolerance * law.stddev
    }
    return min(fit, key=lambda name: fit[name]) if fit else "characteristic"


def _invert(law: NoiseSum, resolution: float = 1 / 128) -> SumLaw:
    return characteristic.invert(law, characteristic.plan_inversion(law, resolution))
