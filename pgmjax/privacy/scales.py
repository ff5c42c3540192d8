"""Scales of noise for an exact sensitivity and budget, rounded up to a float."""

from __future__ import annotations

import math
from fractions import Fraction

from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.exact import ceil_float, shortened

# Within these limits noise of counts below 2**53 stays far inside int64, and is not zero for good.
LARGEST_SCALE = 2.0**50
STRONGEST = 64


def laplace_for(sensitivity: int, epsilon: Fraction) -> DiscreteLaplace:
    """Return the distribution that makes a query epsilon-DP, its scale rounded up to a float.

    Args:
        sensitivity: exact L1 sensitivity of integer answers; 0 is taken as 1.
        epsilon: exact budget of the query.

    Raises:
        ValueError: the scale would overflow, or the noise would practically always be zero.

    Guarantees:
        scale >= sensitivity / epsilon, so that the release is epsilon-DP under the relation for
        which the sensitivity holds.
    """
    scale = Fraction(max(sensitivity, 1)) / epsilon
    if scale > LARGEST_SCALE:
        raise ValueError(
            f"epsilon {shortened(epsilon)} for a sensitivity of {sensitivity} asks for a noise scale above "
            "2^50, which would overflow 64-bit counts: spend more, or measure less."
        )
    if scale * STRONGEST < 1:
        raise ValueError(
            f"epsilon {shortened(epsilon)} for one query of sensitivity {sensitivity} means no noise at all "
            "(zero but once in 10^27 draws) and protects nothing: give a smaller epsilon, such as 1 for all "
            "queries together."
        )
    return DiscreteLaplace(ceil_float(scale))


def gaussian_for(sensitivity_squared: int, rho: Fraction) -> DiscreteGaussian:
    """Return the distribution that makes a query rho-zCDP, its scale rounded up to a float.

    Args:
        sensitivity_squared: exact square of the L2 sensitivity of integer answers; 0 is taken as 1.
        rho: exact budget of the query.

    Raises:
        ValueError: the scale would overflow, or the noise would practically always be zero.

    Guarantees:
        scale^2 >= sensitivity_squared / (2 rho), so that the release is rho-zCDP under the relation
        for which the sensitivity holds.

    References:
        Canonne, Kamath and Steinke 2020, Theorem 4 (the discrete Gaussian's zCDP).
    """
    variance = Fraction(max(sensitivity_squared, 1)) / (2 * rho)
    if variance > Fraction(LARGEST_SCALE) ** 2:
        raise ValueError(
            f"rho {shortened(rho)} for a squared sensitivity of {sensitivity_squared} asks for a noise scale "
            "above 2^50, which would overflow 64-bit counts: spend more, or measure less."
        )
    if 2 * variance * STRONGEST < 1:
        raise ValueError(
            f"rho {shortened(rho)} for a squared sensitivity of {sensitivity_squared} means no noise at all "
            f"(zero but once in 10^27 draws): spend at most {STRONGEST} times that square."
        )
    return DiscreteGaussian(ceil_sqrt(variance))


def ceil_sqrt(square: Fraction) -> float:
    """Return the smallest float >= the square root of a fraction."""
    root = math.sqrt(ceil_float(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(lower := math.nextafter(root, 0.0)) ** 2 >= square:
        root = lower
    return root
