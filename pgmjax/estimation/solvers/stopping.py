"""The stopping rule of single fits, batches and approximate fits.

One exception: non-finite points are also handled where they occur.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Sequence
from typing import Self


class Status(enum.IntEnum):
    """Status of a finished fit; `text` says it in a sentence.

    Attributes:
        CONVERGED: the optimum, certified: the gap, evaluated in float64, is at most the tolerance, and never
            above a hundredth of max(1, loss).
        MAX_STEPS: the steps ran out before that, or the callback ended them.
        STALLED: the loss no longer falls at this precision; the gap bounds its suboptimality.
        NOT_FINITE: the loss was not finite at the starting point.
        WITHIN_NOISE: a statistical estimate, not the certified optimum: what is left to gain, as the gap or
            the last fall of the loss tells, is less than the noise makes visible, or the fit was pulled by a
            weight that was chosen from the noise.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    STALLED = 2
    NOT_FINITE = 3
    WITHIN_NOISE = 4

    def __eq__(self, other: object) -> bool:
        """Compare with another status or its number; with a text it would be False without a word."""
        if isinstance(other, str):
            raise TypeError("A status is no text: compare with pgmjax.Status.CONVERGED, or take its name.")
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        """Compare, as `==` does."""
        return not self == other

    __hash__ = enum.IntEnum.__hash__

    @property
    def text(self) -> str:
        """The meaning of the status, as a sentence."""
        return _TEXTS[self.name]


_TEXTS = {
    "CONVERGED": "The fit is the optimum: that is certified to within a hundredth of its loss, or closer.",
    "MAX_STEPS": (
        "The steps ran out, or the callback ended them, before the optimum was certified; the gap bounds "
        "what is missing."
    ),
    "STALLED": "The loss no longer falls at this precision; the gap bounds what is missing.",
    "NOT_FINITE": "The loss was not a finite number at the start: no model was fitted.",
    "WITHIN_NOISE": (
        "The fit is an estimate: the noise of the answers hides what more steps would change. "
        "The gap bounds how far it is from the optimum."
    ),
}


CERTIFIED = 0.01  # of max(1, loss): the largest gap of a fit that is called CONVERGED
# A float32 fit whose precision runs out continues in float64, with another compilation, unless the certified
# gap is within this multiple of the tolerance and within CERTIFIED: then the loss itself has long converged.
NEAR = 100
BELIEVABLE = 5.0  # standard deviations of the loss under the noise: an optimum lies no further above its mean
PATIENCE = 4  # rounds under fixed marginals without a gap that is a tenth less
FIRST_SMOOTHING = 8.0  # standard deviations: the first stage of a loss with kinks is as easy as L2
FINEST = 1e-12  # of the loss: smoothing that changes it by less is negligible
INVISIBLE = 0.02  # of the loss's standard deviation under the noise
USUAL, ROUNDING = 1e-4, 1e-6  # relative tolerances: where no noise level is known, and beside one


@dataclasses.dataclass(frozen=True)
class StoppingRule:
    """Stopping rule after a block of steps, a stage of smoothing, a round, or float32.

    The `*status` methods return how a part of a fit ended, or None to continue; `ending` returns the status
    of the whole. Losses and gaps are in the loss's unit. A loss with kinks is minimised smoothed: `slack`
    bounds the loss minus its smoothed form, 0 for a smooth loss.

    Attributes:
        tol: relative tolerance: a gap converges at `tol * max(1, loss)`; below 0 never.
        max_steps: maximum number of steps of the whole fit.
        invisible: an absolute tolerance beside it: an excess loss that noise hides; minus infinity for none.
        estimated: whether an estimate of the excess loss may end a fit, instead of the certified gap.
        believable: the largest loss of the measurements at which an estimate is believed: the loss of the
            true table is lower, so that a fit above it has much to gain, however slowly its loss falls.
        noise_level: loss at which a rough part of a fit ends; minus infinity for none.
        sharp_enough: a gap above the tolerance with a slack this many times below it is not due to
            smoothing: the fit has stalled; infinity continues with less smoothing.
        halted: whether the caller wants no more steps, as if these had run out; None for never.

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
    believable: float = math.inf
    halted: Callable[[], bool] | None = None

    def ran_out(self, steps: int) -> bool:
        """Return whether no more steps are to be made after this many."""
        return steps >= self.max_steps or (self.halted is not None and self.halted())

    @classmethod
    def of(cls, tol: float | None, max_steps: int, visible: float) -> Self:
        """Return the rule of a tolerance.

        Args:
            tol: relative tolerance of the certified gap, of which `CERTIFIED` is the largest that counts;
                None for what noise makes invisible.
            max_steps: maximum number of steps of the whole fit.
            visible: standard deviation of the loss under the noise alone; 0 if unknown. Its square is the
                mean.
        """
        if tol is not None:
            return cls(min(tol, CERTIFIED), max_steps)
        if visible == 0:
            return cls(USUAL, max_steps)
        believable = visible**2 + BELIEVABLE * visible
        return cls(ROUNDING, max_steps, invisible=INVISIBLE * visible, estimated=True, believable=believable)

    def roughly(self, excess: float) -> Self:
        """Return the rule for a part of a fit that need not be precise: it ends at this excess loss.

        Args:
            excess: estimated or certified excess loss, in the loss's unit.
        """
        return dataclasses.replace(self, invisible=max(excess, self.invisible), estimated=True)

    def ending(self, ended: Status, loss: float, gap: float, *, is_estimate: bool = False) -> Status:
        """Return the status of a whole fit: the one rule that says what it is called.

        Args:
            ended: how its last part ended.
            loss: the loss that is reported.
            gap: the gap that is reported, certified in float64; infinity if there is none.
            is_estimate: whether the objective itself was chosen from the noise.
        """
        if ended is Status.NOT_FINITE or not math.isfinite(loss):
            return Status.NOT_FINITE
        tol = CERTIFIED if self.estimated else min(self.tol * (1 + ROUNDING), CERTIFIED)
        certified = gap <= tol * max(1.0, loss)
        if certified and not is_estimate:
            return Status.CONVERGED
        if certified or gap <= self.invisible or ended is Status.WITHIN_NOISE:
            return Status.WITHIN_NOISE
        return Status.STALLED if ended is Status.CONVERGED else ended

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
        alone: float | None = None,
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
            alone: the loss of the measurements there, by which gaps are judged. Default: the objective.
        """
        if not math.isfinite(loss):
            return Status.NOT_FINITE
        if loss + slack <= self.noise_level:
            return Status.WITHIN_NOISE
        alone = loss if alone is None else alone
        if self.converged(alone, gap + slack) or gap < slack:
            return Status.CONVERGED
        if self.estimated and self.converged(alone, excess + slack) and alone + slack <= self.believable:
            return Status.WITHIN_NOISE
        if stalled:
            return Status.STALLED
        return Status.MAX_STEPS if self.ran_out(steps) else None

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
        if slack == 0 or ended is Status.NOT_FINITE or ended is Status.WITHIN_NOISE:
            return ended
        if self.converged(loss, loss + slack - lower_bound):
            return Status.CONVERGED
        if self.ran_out(steps):
            return Status.MAX_STEPS
        sharp = self.converged(loss, self.sharp_enough * slack)
        if sharp and not self.converged(loss, loss - lower_bound):
            return Status.STALLED
        return Status.STALLED if slack < FINEST * max(1.0, loss) else None

    def float64_status(
        self, alone: float, gap: float, steps: int, ended: Status, slack: float
    ) -> Status | None:
        """Return the status of a float32 fit evaluated in float64, or None to continue there.

        What float32 calls certified counts only if float64 certifies it too, and what it estimates only if
        the loss in float64 is one that an estimate is believed at.

        Args:
            alone: the (smoothed) loss of the measurements in float64.
            gap: certified bound on `loss - optimum` of the (smoothed) objective there.
            steps: steps so far.
            ended: status of the float32 fit.
            slack: slack of the smoothing.
        """
        if self.converged(alone, gap + slack):
            return Status.CONVERGED
        if ended is Status.WITHIN_NOISE and alone + slack <= max(self.believable, self.noise_level):
            return ended
        if ended is Status.MAX_STEPS or self.ran_out(steps):
            return Status.MAX_STEPS
        near = self.converged(alone, (gap + slack) / NEAR) and gap + slack <= CERTIFIED * max(1.0, alone)
        return Status.STALLED if near and ended is Status.STALLED else None

    def round_status(
        self, least: float, lower_bound: float, steps: int, idle: int, alone: float | None = None
    ) -> Status | None:
        """Return the status after a round under fixed marginals, or None to continue.

        Args:
            least: least objective of any feasible model so far; infinity for none.
            lower_bound: certified lower bound on the optimum.
            steps: steps so far.
            idle: rounds since the gap last fell.
            alone: loss of the measurements at that model. Default: the objective.
        """
        alone = least if alone is None else alone
        if math.isfinite(least) and self.converged(alone, least - lower_bound):
            return Status.CONVERGED
        if self.ran_out(steps):
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
