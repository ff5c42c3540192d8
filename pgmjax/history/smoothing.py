"""From noisy counts, some of them negative, to counts that a distribution may be made of."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from pgmjax.measurements.linear import LinearMeasurement

SMOOTHINGS = ("posterior-mean", "truncate")
_FAR = -50  # from here on down a series is the more accurate


def positive_counts(measurement: LinearMeasurement, smoothing: str, pseudocount: float) -> np.ndarray:
    """Return positive counts [rows] for noisy ones: by `posterior_mean`, or cut off at 0 and raised."""
    if smoothing == "truncate":
        return np.maximum(measurement.flat_values(), 0) + pseudocount
    return posterior_mean(measurement.flat_values(), measurement.row_stddevs(), measurement.noise)


def posterior_mean(values: np.ndarray, stddevs: np.ndarray, noise: str) -> np.ndarray:
    """Return the mean of counts given noisy answers, every count >= 0 being as likely before.

    The continuous law of the same standard deviation stands for the discrete one.

    Args:
        values: noisy answers (counts) [n].
        stddevs: standard deviations of their noise (counts) [n].
        noise: "laplace" or "gaussian".

    Returns:
        Positive counts [n]; where an answer is far above its noise, the answer.

    Example:
        >>> posterior_mean(np.array([100.0, -3.0]), np.array([1.0, 1.0]), "laplace").round(3).tolist()
        [100.0, 0.707]
    """
    if noise == "laplace":
        scale = stddevs / math.sqrt(2)
        fall = np.exp(-np.maximum(values, 0) / scale)
        return np.where(values > 0, (2 * values + scale * fall) / (2 - fall), scale)
    ratio = values / stddevs
    above = np.maximum(ratio, _FAR)
    mean = above + np.exp(-(above**2) / 2 - math.log(math.sqrt(2 * math.pi)) - special.log_ndtr(above))
    below = 1 / np.maximum(-ratio, -_FAR)
    return stddevs * np.where(ratio < _FAR, below * (1 - 2 * below**2 + 10 * below**4), mean)
