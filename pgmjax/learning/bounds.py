"""How far noisy sums and learned answers can be from the truth, with stated confidence.

The noise bounds hold for the discrete laws that are drawn: a discrete Laplace variable has at every point
a moment generating function of at most ``1 / (1 - (t b)**2)``, that of the continuous law of scale b, and a
discrete Gaussian one of at most ``exp(t**2 sigma**2 / 2)``.
"""

from __future__ import annotations

import math

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import Law


def noise_bound(law: Law, coefficients: np.ndarray, beta: float = 0.05) -> float:
    """Return what the size of a weighted sum of independent noises exceeds with probability at most beta.

    Args:
        law: of each noise.
        coefficients: [noises], the weights.
        beta: in (0, 1).

    Returns:
        a bound in counts. Laplace of scale b: ``2 sqrt(2) b |c| sqrt(L)`` with ``L = log(2 / beta)`` and |c|
        the Euclidean norm while ``L <= (|c| / max|c|)**2``, beyond that ``sqrt(2) b (max|c| L +
        |c|**2 / max|c|)``. Gaussian: ``sigma |c| sqrt(2 L)``.

    References:
        Zhu et al. 2017, Lemma IV.3, whose right side lacks the square of the scale and one of two tails;
        for equal weights 1 this is P(|sum| > t) <= 2 exp(-t**2 / (8 m b**2)) for t <= 2 sqrt(2) m b. Chan,
        Shi and Song 2011, Lemma 2.8; Canonne, Kamath and Steinke 2020, for the Gaussian law.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> round(noise_bound(DiscreteLaplace(10.0), np.ones(100) / 100), 3)
        5.432
    """
    beta = _beta(beta)
    weights = np.abs(np.asarray(coefficients, float))
    largest, norm = float(weights.max(initial=0.0)), float(np.linalg.norm(weights))
    if largest == 0:
        return 0.0
    log = math.log(2 / beta)
    if law.noise == "gaussian":
        return float(law.scale) * norm * math.sqrt(2 * log)
    if log <= (norm / largest) ** 2:
        return math.sqrt(8 * log) * float(law.scale) * norm
    return math.sqrt(2) * float(law.scale) * (largest * log + norm**2 / largest)


def model_bound(records: int, count: int, beta: float = 0.05, hypotheses: float = 1) -> float:
    """Return a bound on how much worse a model does on all queries than on those it was trained on.

    It bounds the mean absolute error over the law that the training queries were drawn from, less the mean
    absolute error on the training queries without noise, for every one of finitely many hypotheses at once.
    It says nothing of covering training queries, which are not drawn, nor of a class without a finite size.

    Args:
        records: the number of records; errors lie between 0 and it.
        count: the number of training queries, drawn independently.
        beta: the bound fails with at most this probability over the draw.
        hypotheses: the size of the class that the model is chosen from.

    References:
        Zhu et al. 2017, Theorem IV.2.

    Example:
        >>> round(model_bound(1000, 100), 1)
        135.8
    """
    beta = _beta(beta)
    checks.integer("records", records, low=0)
    checks.integer("count", count, low=1)
    hypotheses = checks.number("hypotheses", hypotheses, at_least=1)
    return records * math.sqrt(math.log(2 * hypotheses / beta) / (2 * count))


def _beta(beta: float) -> float:
    return checks.number("beta", beta, above=0, below=1)
