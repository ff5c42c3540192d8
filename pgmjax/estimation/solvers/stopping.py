"""The stopping rule of single fits, batches and approximate fits.

Two exceptions: non-finite points are also handled where they occur, and `estimation.mixture_fit` itself
compares the loss of a mixture with its lower bound.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Self


class Status(enum.IntEnum):
    """Status of a finished fit.

    Attributes:
        CONVERGED: the certified gap is within the tolerance. With `tol=None` also if the loss left to gain,
            as its last fall tells, is less than noise makes visible.
        MAX_STEPS: the steps ran out before that.
        STALLED: the loss no longer falls at this precision; the gap bounds its suboptimality.
        NOT_FINITE: the loss was not finite at the starting point.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    STALLED = 2
    NOT_FINITE = 3


# A float32 fit whose precision runs out continues in float64, with another compilation, unless the certified
# gap is within this multiple of the tolerance: then the loss itself has long converged.
NEAR = 100
PATIENCE = 4  # rounds under fixed marginals without a gap that is a tenth less
FIRST_SMOOTHING = 8.0  # standard deviations: the first stage of a loss with kinks is as easy as L2
FINEST = 1e-12  # of the loss: smoothing that changes it by less is negligible
INVISIBLE = 0.02  # of the loss's standard deviation under the noise
USUAL, ROUNDING = 1e-4, 1e-6  # relative tolerances: where no noise level is known, and beside one


@dataclasses.dataclass(frozen=True)
class StoppingRule:
    """Stopping rule after a block of steps, a stage of smoothing, a round, or float32.

    The `*status` methods return the final status, or None to continue. Losses and gaps are in the loss's
    unit. A loss with kinks is minimised smoothed: `slack` bounds the loss minus its smoothed form, 0 for a
    smooth loss.

    Attributes:
        tol: relative tolerance: a gap converges at `tol * max(1, loss)`; below 0 never.
        max_steps: maximum number of steps of the whole fit.
        invisible: an absolute tolerance beside it: an excess loss that noise hides; minus infinity for none.
        estimated: whether an estimate of the excess loss may end a fit, instead of the certified gap.
        noise_level: loss at which a rough part of a fit ends; minus infinity for none.
        sharp_enough: a gap above the tolerance with a slack this many times below it is not due to
            smoothing: the fit has stalled; infinity continues with less smoothing.

    References:
        Morozov (1966), on the solution of functional equations by the method of regularization (the
        discrepancy principle, for `noise_level`).
    """

    tol: float
    max_steps: int
    noise_level: float = -math.inf
    sharp_enough: float = 10.0
    invisible: float = -math.inf
    estimated: bool = False

    @classmethod
    def of(cls, tol: float | None, max_steps: int, visible: float) -> Self:
        """Return the rule of a tolerance.

        Args:
            tol: relative tolerance of the certified gap; None for what noise makes invisible.
            max_steps: maximum number of steps of the whole fit.
            visible: standard deviation of the loss under the noise alone; 0 if unknown.
        """
        if tol is not None:
            return cls(tol, max_steps)
        if visible == 0:
            return cls(USUAL, max_steps)
        return cls(ROUNDING, max_steps, invisible=INVISIBLE * visible, estimated=True)

    def roughly(self, excess: float) -> Self:
        """Return the rule for a part of a fit that need not be precise: it ends at this excess loss.

        Args:
            excess: estimated or certified excess loss, in the loss's unit.
        """
        return dataclasses.replace(self, invisible=max(excess, self.invisible), estimated=True)

    def converged(self, loss: float, gap: float) -> bool:
        """Return whether a gap meets the tolerance."""
        return gap <= max(self.tol * max(1.0, loss), self.invisible)

    def status(
        self,
        loss: float,
        gap: float,
        steps: int,
        stalled: bool,
        slack: float = 0.0,
        excess: float = math.inf,
    ) -> Status | None:
        """Return the solver's status after a block of steps, or None to continue.

        Args:
            loss: the objective at the best point.
            gap: certified bound on `loss - optimum` of the objective, >= 0.
            steps: steps so far in the whole fit.
            stalled: whether the solver can make no further progress at this precision.
            slack: slack of the smoothing; if positive, CONVERGED may also mean that only this stage is
                done: its gap is below the slack.
            excess: estimate of `loss - optimum` (see `excess_of`).
        """
        if not math.isfinite(loss):
            return Status.NOT_FINITE
        if loss + slack <= self.noise_level:
            return Status.CONVERGED
        if self.converged(loss, gap + slack) or gap < slack:
            return Status.CONVERGED
        if self.estimated and self.converged(loss, excess + slack):
            return Status.CONVERGED
        if stalled:
            return Status.STALLED
        return None if steps < self.max_steps else Status.MAX_STEPS

    def stage_status(
        self, loss: float, lower_bound: float, steps: int, ended: Status, slack: float
    ) -> Status | None:
        """Return the status after a stage of smoothing, or None to continue with less of it.

        Args:
            loss: the smoothed loss.
            lower_bound: certified lower bound on the optimum.
            steps: steps so far.
            ended: the solver's status, from `status`.
            slack: slack of the smoothing.
        """
        if slack == 0 or ended is Status.NOT_FINITE:
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
        """Return the status of a float32 fit evaluated in float64, or None to continue there.

        Args:
            loss: the (smoothed) loss in float64.
            lower_bound: certified lower bound on the optimum.
            steps: steps so far.
            ended: status of the float32 fit.
            slack: slack of the smoothing.
        """
        gap = loss + slack - lower_bound
        if self.converged(loss, max(gap, 0.0)) or (self.estimated and ended is Status.CONVERGED):
            return Status.CONVERGED
        if ended is Status.MAX_STEPS or steps >= self.max_steps:
            return Status.MAX_STEPS
        return Status.STALLED if self.converged(loss, gap / NEAR) else None

    def round_status(self, least: float, lower_bound: float, steps: int, idle: int) -> Status | None:
        """Return the status after a round under fixed marginals, or None to continue.

        Args:
            least: least objective of any feasible model so far; infinity for none.
            lower_bound: certified lower bound on the optimum.
            steps: steps so far.
            idle: rounds since the gap last fell.
        """
        if math.isfinite(least) and self.converged(least, least - lower_bound):
            return Status.CONVERGED
        if steps >= self.max_steps:
            return Status.MAX_STEPS
        return Status.STALLED if idle >= PATIENCE else None


def excess_of(losses: Sequence[tuple[int, float]]) -> float:
    """Return an estimate of `loss - optimum`: how far the loss fell in the second half of the steps.

    A method whose excess loss falls as `1 / steps` still has as much to gain as it gained in that half, an
    accelerated one (`1 / steps**2`) a third of it.

    Args:
        losses: steps so far and the loss then, after each block.

    Returns:
        The fall; infinity where no block ended within the first half.
    """
    steps, last = losses[-1]
    before = [loss for done, loss in losses if 2 * done <= steps]
    return abs(before[-1] - last) if before else math.inf
