"""Laws of sums that have a closed form: one continuous noise, or any number of Gaussian ones."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from pgmjax.history.bayes.distribution import Accuracy, SumLaw
from pgmjax.history.bayes.noise_laws import Gaussian, Laplace, above
from pgmjax.history.bayes.noise_sum import NoiseSum


@dataclasses.dataclass(frozen=True)
class ExactLaw(SumLaw):
    """A continuous Laplace or Gaussian law as the law of a sum.

    Example:
        >>> round(ExactLaw(Laplace(10.0)).between(-10.0, 10.0), 6)
        0.632121
    """

    law: Laplace | Gaussian
    accuracy: Accuracy = dataclasses.field(default=Accuracy(0.0))

    def between(self, low: float, high: float) -> float:
        """Return P(low <= X <= high)."""
        if high <= low:
            return 0.0
        tails = [float(above(self.law, np.array(abs(end)))) for end in (low, high)]
        if low >= 0 or high <= 0:
            return abs(tails[0] - tails[1])
        return 1 - tails[0] - tails[1]

    def half_width(self, level: float) -> float:
        """Return the w with P(abs(X) <= w) = level."""
        from scipy.special import ndtri

        level = self.reach(level)
        if isinstance(self.law, Laplace):
            return -self.law.scale * math.log1p(-level)
        return float(self.law.scale * ndtri(0.5 + 0.5 * level))


def closed_form(law: NoiseSum) -> ExactLaw | None:
    """Return the law of a sum where it has a closed form, None otherwise."""
    if not law.sizes.size:
        return None
    if all(isinstance(noise, Gaussian) for noise in law.laws):
        return ExactLaw(Gaussian(law.stddev))
    if law.num_terms == 1 and isinstance(law.laws[0], Laplace):
        return ExactLaw(Laplace(float(law.sizes[0] * law.laws[0].scale)))
    return None
