"""Squared errors of answers about perturbed rows: what none beats, and what randomised response reaches."""

import math

import numpy as np

import pgmjax as pj

_MOST_CATEGORIES = 4096  # the lower bound hardly grows beyond this


def upper_bound(size: int, epsilon: float, rows: int) -> float:
    """Return the bound on the mean squared error of randomised response, for functions with values in 0..1.

    Args:
        size: number of categories.
        epsilon: budget per record.
        rows: number of records.

    References:
        Wang, Ying and Zhang 2016, equation 20.
    """
    return float(pj.local.Channel.at(size, epsilon).bound(1.0)) / rows


def lower_bound(size: int, epsilon: float, rows: int) -> float:
    """Return a lower bound on the worst mean squared error of any epsilon-DP release, replace-one.

    It holds for every mechanism, including central ones, that makes one release from which any estimator
    answers every statistical query with row functions in 0..1. Let rows be uniform and row functions be
    independent indicators of s random categories out of m. Since functions of different rows are
    independent, the mean posterior variance over the functions is a sum over rows of
    ``s (m - s) / (m (m - 1)) * (1 - sum_v P(v | release)^2)``. Conditioning on the other rows only lowers
    the last factor, and epsilon-DP bounds the ratio of any two such posterior probabilities by e^epsilon:
    the sum of squares is largest with k categories at e^epsilon and m - k at 1. A bound for fewer
    categories holds for more, so the largest bound over m <= size is returned.

    Args:
        size: number of categories.
        epsilon: budget of the release.
        rows: number of records.

    References:
        Replaces Wang, Ying and Zhang 2016, Theorem 1, whose lower bound holds up to an unknown constant.
    """
    most = min(size, _MOST_CATEGORIES)
    sizes = {most, max(most - 1, 2), *(2**power for power in range(1, most.bit_length()))}
    return max(mean_posterior_variance(number, epsilon) for number in sizes) / rows


def mean_posterior_variance(size: int, epsilon: float) -> float:
    """Return the term of one row in the lower bound, for indicators of half the categories."""
    less = math.exp(-epsilon)
    number = np.arange(1, size)
    concentrated = (number + (size - number) * less**2) / (number + (size - number) * less) ** 2
    half = size // 2
    return half * (size - half) / (size * (size - 1)) * (1 - float(concentrated.max()))
