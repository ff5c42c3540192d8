"""The budget of rounds whose number is not known: small at first, larger once they teach nothing new."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np

from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.noise_sizes import expected_size
from pgmjax.privacy.budget import Budget


@dataclasses.dataclass(frozen=True)
class Round:
    """What a round may spend, in exact fractions of the budget's unit.

    Attributes:
        choose: for the choice.
        measure: for the measurement; in the last round all that is left after the choice.
        unit: "epsilon" or "rho".
        last: whether it is the last round.
    """

    choose: Fraction
    measure: Fraction
    unit: str
    last: bool = False

    @classmethod
    def of(cls, cost: Fraction, share: Fraction, unit: str, last: bool = False) -> Round:
        """Divide a round's cost; `share` is the measurement's.

        Example:
            >>> Round.of(Fraction(1), Fraction(9, 10), "rho").choose
            Fraction(1, 10)
        """
        return cls(cost * (1 - share), cost * share, unit, last)

    @classmethod
    def first(cls, budget: Budget, rounds: int | None, attributes: int, share: Fraction) -> Round:
        """Return the first round of a forecast number.

        Args:
            budget: of the run; nothing is spent.
            rounds: forecast; None is 16 an attribute.
            attributes: how many are measured beforehand, each with a round's part for measuring.
            share: of a round's cost for its measurement.

        Raises:
            ValueError: not even the attributes could be measured.
        """
        rounds = 16 * attributes if rounds is None else rounds
        if rounds < attributes:
            raise ValueError(
                f"rounds must be at least {attributes}, the number of the workload's attributes: each is "
                f"measured first with a round's budget; got {rounds}. Nothing was spent."
            )
        return cls.of(budget.cap / rounds, share, budget.unit)

    @property
    def cost(self) -> Fraction:
        """Both parts."""
        return self.choose + self.measure

    def next(self, remaining: Fraction, anneal: bool = False) -> Round:
        """Return the next round.

        Args:
            remaining: of the budget.
            anneal: halve the noise of measurements and choices: twice the epsilon, or four times the rho.

        Returns:
            The last round, of all that is left, where that would be less than two more rounds' cost
            (or just that).
        """
        factor = (2 if self.unit == "epsilon" else 4) if anneal else 1
        share = self.measure / self.cost
        if remaining <= 2 * factor * self.cost:
            return Round.of(remaining, share, self.unit, last=True)
        return Round.of(factor * self.cost, share, self.unit)


def is_noise(before: np.ndarray, after: np.ndarray, measurement: LinearMeasurement) -> bool:
    """Return whether a measurement moved the model's marginal by no more than its own expected noise.

    Args:
        before: the model's marginal without the measurement (counts).
        after: that with it (counts).
        measurement: with the law of its noise. All three are released numbers.
    """
    assert measurement.law is not None
    moved = float(np.abs(np.asarray(after) - np.asarray(before)).sum())
    return moved <= expected_size(measurement.law) * measurement.values.size
