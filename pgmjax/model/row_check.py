"""Whether rows follow a model: the distance of their marginals from the model's, and what to expect of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import scipy.special

from pgmjax.data.cliques import Clique


@dataclasses.dataclass(frozen=True)
class RowCheck:
    """A marginal of rows beside the model's.

    Attributes:
        clique: the attributes.
        total_variation: half the summed absolute difference of the two distributions.
        expected: its mean for as many independent rows of the model, exactly.
        stderr: a bound on its standard deviation for independent rows, 1 / sqrt(2 rows).
    """

    clique: Clique
    total_variation: float
    expected: float
    stderr: float

    @property
    def standard_errors(self) -> float:
        """How far above its mean the distance is, in standard errors; rows of the model stay below 3."""
        return (self.total_variation - self.expected) / self.stderr


def check(clique: Clique, probabilities: np.ndarray, columns: Mapping[str, np.ndarray]) -> RowCheck:
    """Compare the marginal of rows with a distribution.

    Args:
        clique: attribute names.
        probabilities: the model's distribution over them [size of each].
        columns: codes [rows] of these attributes and maybe others, at least one row.

    References:
        Mean absolute deviation of a binomial count: De Moivre (1730), see Diaconis and Zabell 1991,
        equation 1.1. Standard deviation: one row moves the distance by at most 1 / rows, so that its
        variance is at most 1 / (2 rows) by the Efron-Stein inequality; by McDiarmid's, independent
        rows lie more than 3 such standard errors above the mean less often than exp(-9) = 1.2e-4.
    """
    rows = len(columns[clique[0]])
    cell = np.ravel_multi_index([columns[name] for name in clique], probabilities.shape)
    share = np.bincount(cell, minlength=probabilities.size) / rows
    flat = probabilities.reshape(-1)
    distance = 0.5 * float(np.abs(share - flat).sum())
    return RowCheck(clique, distance, 0.5 * float(_deviation(flat, rows).sum()), 1 / math.sqrt(2 * rows))


def _deviation(p: np.ndarray, rows: int) -> np.ndarray:
    """Mean of |count / rows - p| for a binomial count of each probability."""
    p = np.clip(p, 0.0, 1.0)
    inside = (p > 0) & (p < 1)
    result = np.zeros_like(p)
    q = p[inside]
    above = np.minimum(np.floor(rows * q) + 1, rows)
    choose = scipy.special.gammaln(rows + 1) - scipy.special.gammaln(above + 1)
    choose -= scipy.special.gammaln(rows - above + 1)
    logs = np.log(2 * above) + choose + above * np.log(q) + (rows - above + 1) * np.log1p(-q)
    result[inside] = np.exp(logs) / rows
    return result
