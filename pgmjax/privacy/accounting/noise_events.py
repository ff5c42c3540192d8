"""Events of discrete noise on integer answers, which know the law that was really drawn."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.privacy.accounting import divergence
from pgmjax.privacy.accounting.events import Record, times_rho
from pgmjax.privacy.exact import ceil_float, exact_epsilon, exact_rho, shortened
from pgmjax.privacy.scales import ceil_sqrt


@dataclasses.dataclass(frozen=True)
class Laplace(Record):
    """Discrete Laplace noise of one scale on integer answers.

    Args:
        epsilon: > 0, at least (L1 sensitivity) / scale.
        shifts: the largest moves, whole numbers >= 1, of single answers that one neighbouring change
            makes: every change moves the answers by at most these, in some order. One 1 for a marginal
            under ADD_REMOVE, two under REPLACE_ONE. None where unknown; see `shifts_of`.
        scale: the float that was drawn with, None where unknown.

    Raises:
        TypeError: shifts that are no sequence, or a number of a wrong type.
        ValueError: a bad number, or an epsilon too small for the shifts at this scale.

    Guarantees:
        epsilon-DP. With shifts, divergences are the exact sums over the moved answers; without, of
        one answer that carries all of the move, which is the worst split (see `divergence`), and
        without a scale those of pure DP.

    Example:
        >>> Laplace(1, shifts=(1, 1)).rho, Laplace(1).rho
        (Fraction(1, 4), Fraction(1, 2))
    """

    epsilon: Fraction
    shifts: tuple[int, ...] | None = None
    scale: float | None = None
    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        _set_noise(self)
        if self.shifts and self.scale and sum(self.shifts) > self.epsilon * Fraction(self.scale):
            raise ValueError(
                f"epsilon {shortened(self.epsilon)} is too small for moves of {sum(self.shifts)} in all at "
                f"scale {self.scale!r}: it must be at least their ratio."
            )

    @property
    def rho(self) -> Fraction:
        """Half the sum of the squared epsilons of the moved answers; epsilon^2 / 2 for one."""
        if self.shifts is None:
            return self.epsilon**2 / 2
        squares = sum(shift**2 for shift in self.shifts)
        return self.epsilon**2 * Fraction(squares, sum(self.shifts) ** 2) / 2

    @property
    def step(self) -> float | None:
        """1 / scale, rounded up; None where neither scale nor shifts tell."""
        if self.scale is not None:
            return ceil_float(1 / Fraction(self.scale))
        return None if self.shifts is None else ceil_float(self.epsilon / sum(self.shifts))

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return upper bounds of the divergence of the law that was drawn."""
        bound = divergence.pure(ceil_float(self.epsilon), orders)
        if self.step is None:
            return bound
        if self.shifts is None:
            assert self.scale is not None
            shifts: tuple[int, ...] = (max(1, math.floor(self.epsilon * Fraction(self.scale))),)
        else:
            shifts = self.shifts
        kinds = {shift: shifts.count(shift) for shift in shifts}
        exact = sum(count * divergence.laplace(self.step, shift, orders) for shift, count in kinds.items())
        return np.minimum(exact, bound)


@dataclasses.dataclass(frozen=True)
class Gaussian(Record):
    """Discrete Gaussian noise of one scale on integer answers.

    Args:
        rho: > 0, at least (squared L2 sensitivity) / (2 scale^2).
        shifts: as for `Laplace`.
        scale: the float that was drawn with, None where unknown.

    Raises:
        TypeError: shifts that are no sequence, or a number of a wrong type.
        ValueError: a bad number, or a rho too small for the shifts at this scale.

    Guarantees:
        rho-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4).

    Example:
        >>> Gaussian("0.005", shifts=(1,), scale=10.0).to_dict()
        {'kind': 'gaussian', 'rho': '0.005', 'shifts': [1], 'scale': '10.0'}
    """

    rho: Fraction
    shifts: tuple[int, ...] | None = None
    scale: float | None = None
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact_rho(self.rho))
        _set_noise(self)
        if self.shifts and self.scale and self.squares > 2 * self.rho * Fraction(self.scale) ** 2:
            raise ValueError(
                f"rho {shortened(self.rho)} is too small for moves of {self.squares} in squares at scale "
                f"{self.scale!r}: it must be at least the squares over twice the scale's square."
            )

    @property
    def epsilon(self) -> None:
        """None: no pure guarantee."""
        return None

    @property
    def squares(self) -> int:
        """The sum of the squared shifts, 0 where unknown."""
        return sum(shift**2 for shift in self.shifts or ())

    @property
    def sigma(self) -> float | None:
        """A scale that is not above the one drawn with; None where neither scale nor shifts tell."""
        if self.scale is not None or self.shifts is None:
            return self.scale
        return math.nextafter(ceil_sqrt(Fraction(self.squares) / (2 * self.rho)), 0.0)

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return order * rho."""
        return times_rho(self.rho, orders)


def _set_noise(event: Any) -> None:
    if event.shifts is not None:
        given = checks.several("shifts", event.shifts, "whole numbers >= 1")
        if not given:
            raise ValueError("shifts must be whole numbers >= 1, at least one, or None where unknown.")
        shifts = [checks.integer("a shift", shift, low=1) for shift in given]
        object.__setattr__(event, "shifts", tuple(sorted(shifts, reverse=True)))
    if event.scale is not None:
        object.__setattr__(event, "scale", checks.number("scale", event.scale, above=0))
