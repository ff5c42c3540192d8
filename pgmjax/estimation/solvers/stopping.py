"""When a fit ends, decided for single fits, batches and approximate fits alike.

Two things are not decided here alone: points that are not finite are also dealt with where they come up, and
`estimation.mixture_fit` itself holds the loss of a mixture against its lower bound.
"""

from __future__ import annotations

import dataclasses
import enum
import math


class Status(enum.IntEnum):
    """How a fit ended.

    Attributes:
        CONVERGED: the certified gap is within the tolerance.
        MAX_STEPS: the steps ran out before that.
        STALLED: the loss no longer falls at this precision; the gap says how far it may be.
        NOT_FINITE: the loss was not a finite number at the starting point.
        NOISE_LEVEL: the loss is what the noise alone would give, where the fit was asked to stop there.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    STALLED = 2
    NOT_FINITE = 3
    NOISE_LEVEL = 4


# A float32 fit whose digits run out goes on in float64, which is compiled anew, unless the certified gap is
# within so many times the tolerance: then the loss itself has long settled.
NEAR = 100
PATIENCE = 4  # rounds under fixed marginals without a gap that is a tenth less
FIRST_SMOOTHING = 8.0  # standard deviations: the first stage of a loss with kinks is as easy as L2
FINEST = 1e-12  # of the loss: smoothing that moves it by less changes nothing


@dataclasses.dataclass(frozen=True)
class StoppingRule:
    """Decides whether a fit goes on after a block of steps, a stage of smoothing, a round, or float32.

    Every method gives the status to end with, or None to go on. Losses and gaps are in the loss's unit.
    A loss with kinks is minimised smoothed: `slack` is how far the smoothed loss may lie below the loss
    itself, 0 for a loss that is smooth.

    Attributes:
        tol: the tolerance: a gap is small enough at `tol * max(1, loss)`; below 0 none ever is.
        max_steps: steps of the whole fit.
        noise_level: the loss to stop at before the optimum; minus infinity for none.
        sharp_enough: a gap that stays open while the slack is this many times below the tolerance is not due
            to smoothing, so that the fit has stalled; infinity goes on with less smoothing.

    References:
        Morozov (1966), on the solution of functional equations by the method of regularization (the
        discrepancy principle, for `noise_level`).
    """

    tol: float
    max_steps: int
    noise_level: float = -math.inf
    sharp_enough: float = 10.0

    def converged(self, loss: float, gap: float) -> bool:
        """Whether a gap meets the tolerance."""
        return gap <= self.tol * max(1.0, loss)

    def status(self, loss: float, gap: float, steps: int, stalled: bool, slack: float = 0.0) -> Status | None:
        """How the solver ends after a block of steps.

        Args:
            loss: at the best point, of what is minimised.
            gap: certified bound on `loss - optimum` of what is minimised, >= 0.
            steps: done so far in the whole fit.
            stalled: whether the solver can make no further progress at this precision.
            slack: of the smoothing; where it is above 0, CONVERGED may also mean that only this stage is
                done: its gap is below the slack.
        """
        if not math.isfinite(loss):
            return Status.NOT_FINITE
        if loss + slack <= self.noise_level:
            return Status.NOISE_LEVEL
        if self.converged(loss, gap + slack) or gap < slack:
            return Status.CONVERGED
        if stalled:
            return Status.STALLED
        return None if steps < self.max_steps else Status.MAX_STEPS

    def stage_status(
        self, loss: float, lower_bound: float, steps: int, ended: Status, slack: float
    ) -> Status | None:
        """How the fit ends after a stage of smoothing; None goes on with less of it.

        Args:
            loss: the smoothed loss.
            lower_bound: certified, on the optimum.
            steps: done so far.
            ended: how the solver ended, from `status`.
            slack: of the smoothing.
        """
        if slack == 0 or ended in (Status.NOT_FINITE, Status.NOISE_LEVEL):
            return ended
        if self.converged(loss, loss + slack - lower_bound):
            return Status.CONVERGED
        if steps >= self.max_steps:
            return Status.MAX_STEPS
        sharp = self.converged(loss, self.sharp_enough * slack)
        if sharp and not self.converged(loss, loss - lower_bound):
            return Status.STALLED
        return Status.STALLED if slack < FINEST * max(1.0, loss) else None

    def float64_status(
        self, loss: float, lower_bound: float, steps: int, ended: Status, slack: float
    ) -> Status | None:
        """How a float32 fit ends once its end is evaluated in float64; None goes on in float64.

        Args:
            loss: the (smoothed) loss in float64.
            lower_bound: certified, on the optimum.
            steps: done so far.
            ended: how the fit ended in float32.
            slack: of the smoothing.
        """
        if ended is Status.NOISE_LEVEL:
            return ended
        gap = loss + slack - lower_bound
        if self.converged(loss, max(gap, 0.0)):
            return Status.CONVERGED
        if ended is Status.MAX_STEPS or steps >= self.max_steps:
            return Status.MAX_STEPS
        return Status.STALLED if self.converged(loss, gap / NEAR) else None

    def round_status(
        self, loss: float, least: float, lower_bound: float, steps: int, idle: int
    ) -> Status | None:
        """How a fit under fixed marginals ends after a round of it; None goes on with the next.

        Args:
            loss: of the measurements at the round's model; infinity where that lacks the fixed marginals.
            least: the least of what is minimised at any model so far that has them; infinity for none.
            lower_bound: certified, on the optimum.
            steps: done so far.
            idle: rounds since the gap last fell.
        """
        if loss <= self.noise_level:
            return Status.NOISE_LEVEL
        if math.isfinite(least) and self.converged(least, least - lower_bound):
            return Status.CONVERGED
        if steps >= self.max_steps:
            return Status.MAX_STEPS
        return Status.STALLED if idle >= PATIENCE else None
