"""The law of a threshold test: noise on the threshold, once, and on each distance."""

from __future__ import annotations

import dataclasses

from pgmjax.measurements.noise import DiscreteLaplace


@dataclasses.dataclass(frozen=True)
class ThresholdLaw:
    """The noise of `thresholding.ThresholdTest`.

    Attributes:
        threshold: the noise of the threshold, drawn once.
        distance: the noise of each distance.
    """

    threshold: DiscreteLaplace
    distance: DiscreteLaplace

    def epsilon(self, sensitivity: int) -> float:
        """Return what a whole test costs, for distances that neighbours move by at most `sensitivity`.

        References:
            Dwork and Roth 2014, Theorem 3.23: the threshold is shifted once, the last distance twice.
        """
        return sensitivity / self.threshold.scale + 2 * sensitivity / self.distance.scale
