"""Alpha, how strongly maximum entropy follows the answers, from the answers and the laws of their noise.

Under a prior of weight W (records) that maximum entropy stands for, the answers would scatter around the
prior's by n**2 / W times the variance of a query under the prior, beside the noise. The scatter that is seen
gives W by its mean, and alpha is 1 / W. Where cells of tables were measured most of them are near empty and
few are far from the prior, so that a mean over all follows the noise. There the weight of `Estimator`'s
regularisation is larger, and the larger one is taken.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pgmjax.estimation import regularisation
from pgmjax.history.max_entropy.dual import Features
from pgmjax.history.prior import ProductPrior

if TYPE_CHECKING:
    from pgmjax.history.history import History

UNKNOWN = 1.0
"""Alpha if nothing tells: no prior, and no query about several attributes."""


def alpha_of(history: History, features: Features, prior: ProductPrior | None, total: float) -> float:
    """Return the alpha that the answers and their noise ask for.

    Args:
        history: the answers.
        features: of its rows.
        prior: the prior, or the product of the one-way marginals that were found; None if neither is known,
            for then the scatter tells nothing.
        total: the number of records (counts).

    References:
        Morris 1983, "Parametric empirical Bayes inference", for the prior's variance from the scatter.
    """
    weight = regularisation.weight_of("auto", history.domain, history.measurements, total)
    if prior is not None:
        weight = max(weight, _scatter_weight(history, features, prior, total))
    return 1 / min(weight, regularisation.LARGEST) if weight > 0 else UNKNOWN


def _scatter_weight(history: History, features: Features, prior: ProductPrior, total: float) -> float:
    """Return the prior's weight (records) at which the answers' mean scatter is what is seen.

    A scatter that noise explains would give any large weight: it counts as one standard deviation of that of
    noise.
    """
    variances = history.stddevs**2
    means = history.rows.mean(prior)
    spread = np.maximum(features.squares(prior) - means**2, 0.0)
    scatter = float(np.sum((history.values - total * means) ** 2 / variances)) - len(means)
    return total**2 * float(np.sum(spread / variances)) / max(scatter, math.sqrt(2 * len(means)))
