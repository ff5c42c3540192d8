"""The loss that the noise of measurements alone would give: where a fit begins to follow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pgmjax.estimation import losses
from pgmjax.measurements.linear import LinearMeasurement

_GAUSSIAN = math.sqrt(2 / math.pi)  # E|x| of a law of variance 1
_LAPLACE = math.sqrt(0.5)


def noise_level(loss: Any, measurements: Sequence[LinearMeasurement]) -> float:
    """Return the expected loss of the true marginals, which differ from the measurements by noise alone.

    Args:
        loss: `l2` (half the number of values, whatever the law) or `l1` (the mean absolute noise in
            standard deviations), by name or as an object.
        measurements: noisy answers with the standard deviations of their noise.

    Raises:
        ValueError: another loss, of which the level is not known.

    Example:
        >>> noise_level("l2", [LinearMeasurement(("a",), [30, 10], stddev=1.0)])
        1.0
    """
    if loss == "l2" or isinstance(loss, losses.L2):
        return 0.5 * sum(measurement.values.size for measurement in measurements)
    if loss == "l1" or isinstance(loss, losses.L1):
        means = {"gaussian": _GAUSSIAN, "laplace": _LAPLACE, "response": _GAUSSIAN}
        return sum(means[measurement.noise] * measurement.values.size for measurement in measurements)
    raise ValueError(
        f"stop='noise' needs a loss whose noise level is known, l2 or l1, got {type(loss).__name__}: use "
        "stop='optimum'."
    )
