"""Shares: the ratio of a count to the total, with intervals, from the noisy answers alone.

Where the total is public, a share's interval is the count's divided by it. Otherwise count and total are both
estimates, whose errors depend on each other. Let x and t be unbiased estimates of count and total, with the
variances v and w and the covariance c. The share r of x in t is any with

    (x - r t)^2 <= z^2 (v - 2 r c + r^2 w),

which holds for the true share as often as |error| <= z standard errors does: x - r t is linear in the noise
and has mean 0. Nothing is linearised, as it would be by the delta method.

For best unbiased answers from marginals, c follows from the residual basis (`measurements.residual`): the
total is their part on the empty set, which is uncorrelated with all other parts. A query with the mean weight
m on a cell has the part m t on it, so that c = m w.

References:
    Fieller 1954, "Some problems in interval estimation".
"""

from __future__ import annotations

import functools

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.queries.product import Product
from pgmjax.queries.query import Query

_MOST_CELLS = 10_000_000


def fieller(
    count: np.ndarray, total: float, spread: np.ndarray, shared: np.ndarray, error: float, width: float
) -> np.ndarray:
    """Return the ends [rows, 2] of Fieller's intervals of count / total, infinite where there are none.

    Args:
        count: unbiased estimates [rows].
        total: an unbiased estimate.
        spread: the variances of the counts [rows].
        shared: their covariances with the total [rows].
        error: the variance of the total.
        width: half-width, in standard errors.

    Example:
        >>> fieller(np.array([300.0]), 400.0, np.array([100.0]), np.array([100.0]), 200.0, 1.96).round(3)
        array([[0.712, 0.79 ]])
    """
    square = width**2
    lead = total**2 - square * error
    if total <= 0 or lead <= 0:  # the noise of the total allows for 0
        return np.tile([-np.inf, np.inf], (len(count), 1))
    middle = count * total - square * shared
    # rounding alone makes it negative
    root = np.sqrt(np.maximum(middle**2 - lead * (count**2 - square * spread), 0.0))
    return np.stack([middle - root, middle + root], axis=-1) / lead


def divided(ends: np.ndarray, total: float, half: float) -> np.ndarray:
    """Return the ends [rows, 2] of shares from those of counts, however their errors depend on each other.

    The standard error of count - share * total is at most that of the count plus share times that of the
    total, so the ratios of opposite ends bound what the two do not contradict.

    Args:
        ends: of the counts' intervals [rows, 2].
        total: the total.
        half: half-width of its interval.
    """
    if total <= half:
        return np.tile([-np.inf, np.inf], (len(ends), 1))
    both = np.stack([ends / (total - half), ends / (total + half)])
    return np.stack([both[..., 0].min(axis=0), both[..., 1].max(axis=0)], axis=-1)


def mean_weights(query: Query, domain: Domain) -> np.ndarray | None:
    """Return the mean weight of a cell in each row of a query [rows]; None if it is too large.

    Example:
        >>> from pgmjax.queries import marginal
        >>> mean_weights(marginal(["a"]), Domain({"a": 4})).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    if isinstance(query, Product):
        means = [
            np.asarray(block.apply(np.full(domain[name], 1 / domain[name]), 0), float)
            for name, block in zip(query.clique, query.blocks, strict=True)
        ]
        return functools.reduce(np.multiply.outer, means, np.ones(())).reshape(-1)
    cells = domain.size(query.clique)
    if cells > _MOST_CELLS:
        return None
    return np.asarray(query.apply(np.full(domain.shape_of(query.clique), 1 / cells)), float).reshape(-1)
