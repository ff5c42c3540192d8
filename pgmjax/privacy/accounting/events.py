"""Privacy events: the cost of one access to a table, in every unit that an account may use.

An event describes an access in public terms, with upper bounds on its pure epsilon, its rho and its Renyi
divergence at any order. Accounts add these up; none is ever entered by hand. `Pure` and `Concentrated` have
one known parameter and nothing else; `LaplaceEvent` and `GaussianEvent` are discrete noise on integer
answers, `Selection` a choice by noisy scores, `Response` randomised response.

The Renyi divergences of discrete Laplace noise have a closed form. For noise P(k) proportional to
exp(-h abs(k)) and a shift by m, the sum of P(k)^a P(k - m)^(1 - a) over all integers, split at 0 and m and
summed as three geometric series, is

    S(m) = A exp((a - 1) h m) + B exp(-a h m),    A + B = 1,
    A = (1 - q r) / ((1 + q) (1 - r)),    q = exp(-h),    r = exp(-(2 a - 1) h),

and the divergence of order a is log S(m) / (a - 1). A and B are positive, so log S is convex in m with
S(0) = 1: a shift split over several answers costs at most as much as the whole shift of one answer.
With h = epsilon and m = 1 this is binary randomised response, the worst case of pure DP.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import MOST, as_text, ceil_float, exact_delta, exact_epsilon, exact_rho, shortened
from pgmjax.privacy.scales import ceil_sqrt

__all__ = [
    "Concentrated",
    "Event",
    "GaussianEvent",
    "KeysEvent",
    "LaplaceEvent",
    "Pure",
    "Response",
    "Selection",
    "TreeEvent",
    "check_relation",
]

_ROUNDING = 1e-12  # relative, outward: a thousand times what the closed forms lose
_EPSILON_OF_FLOATS = 2.0**-52


class Event(Protocol):
    """The interface of events, as every account uses it.

    Attributes:
        kind: a word for the records.
        only: the one relation under which the event holds; None for both.
    """

    kind: ClassVar[str]
    only: ClassVar[Relation | None]

    @property
    def delta(self) -> Fraction:
        """The probability with which `epsilon` and `rho` do not hold; 0 for all but the search of keys."""

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon; None if there is no pure guarantee."""

    @property
    def rho(self) -> Fraction:
        """The zCDP parameter."""

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return upper bounds [orders] of the Renyi divergence at orders > 1."""

    def to_dict(self) -> dict[str, Any]:
        """Return the event for the records: `kind` and its numbers as exact strings."""


class Record:
    """Serialisation of events: their fields, with fractions and floats as exact strings."""

    kind: ClassVar[str]
    only: ClassVar[Relation | None] = None
    delta: Any = Fraction(0)

    def to_dict(self) -> dict[str, Any]:
        """Return the event for the records: `kind` and its numbers as exact strings."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {
            "kind": self.kind,
            **{name: _text(value) for name, value in fields.items() if value is not None},
        }


class Unpriced(Record):
    """An event without a pure guarantee, of which only rho is known."""

    rho: Fraction

    @property
    def epsilon(self) -> None:
        """None: no pure guarantee."""
        return None

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return order * rho."""
        return times_rho(self.rho, orders)


@dataclasses.dataclass(frozen=True)
class Pure(Record):
    """Anything that is epsilon-DP, with nothing else known about it.

    Args:
        epsilon: > 0.

    Guarantees:
        epsilon-DP is epsilon^2/2-zCDP (Bun and Steinke 2016, Proposition 3.3), and has at most the
        divergences of binary randomised response.

    Example:
        >>> Pure(1).rho
        Fraction(1, 2)
    """

    epsilon: Fraction
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        checks.set_fields(self, epsilon=exact_epsilon(self.epsilon))

    @property
    def rho(self) -> Fraction:
        """epsilon^2 / 2."""
        return self.epsilon**2 / 2

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return the divergences of binary randomised response, the largest there are."""
        return pure_divergence(ceil_float(self.epsilon), orders)


@dataclasses.dataclass(frozen=True)
class Concentrated(Unpriced):
    """Anything that is rho-zCDP, with nothing else known about it.

    Args:
        rho: > 0.

    Example:
        >>> Concentrated("0.5").epsilon is None
        True
    """

    rho: Fraction
    kind: ClassVar[str] = "concentrated"

    def __post_init__(self) -> None:
        checks.set_fields(self, rho=exact_rho(self.rho))


@dataclasses.dataclass(frozen=True)
class LaplaceEvent(Record):
    """Discrete Laplace noise of one scale on integer answers.

    Args:
        epsilon: > 0, at least (L1 sensitivity) / scale.
        shifts: integers >= 1 that bound the changes of single answers between neighbours: every
            neighbouring change moves the answers by at most these, in some order. (1,) for a marginal
            under ADD_REMOVE, (1, 1) under REPLACE_ONE. None if unknown; see `shifts_of`.
        scale: the sampler's scale, a float; None if unknown.

    Raises:
        TypeError: shifts are not a sequence, or a number has the wrong type.
        ValueError: a number is invalid, or epsilon is too small for the shifts at this scale.

    Guarantees:
        epsilon-DP. With shifts, divergences are the exact sums over the moved answers. Without shifts,
        they are those of one answer with the whole shift, the most costly split (see the module
        docstring); without a scale either, those of pure DP.

    Example:
        >>> LaplaceEvent(1, shifts=(1, 1)).rho, LaplaceEvent(1).rho
        (Fraction(1, 4), Fraction(1, 2))
    """

    epsilon: Fraction
    shifts: tuple[int, ...] | None = None
    scale: float | None = None
    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        checks.set_fields(self, epsilon=exact_epsilon(self.epsilon))
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
        """1 / scale, rounded up; None if neither scale nor shifts are known."""
        if self.scale is not None:
            return ceil_float(1 / Fraction(self.scale))
        return None if self.shifts is None else ceil_float(self.epsilon / sum(self.shifts))

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return upper bounds on the divergence of the noise distribution."""
        bound = pure_divergence(ceil_float(self.epsilon), orders)
        if self.step is None:
            return bound
        if self.shifts is None:
            assert self.scale is not None
            shifts: tuple[int, ...] = (max(1, math.floor(self.epsilon * Fraction(self.scale))),)
        else:
            shifts = self.shifts
        # equal moves are computed once: a query may move thousands of answers alike
        kinds = {shift: shifts.count(shift) for shift in shifts}
        exact = sum(count * laplace_divergence(self.step, shift, orders) for shift, count in kinds.items())
        return np.minimum(exact, bound)


@dataclasses.dataclass(frozen=True)
class GaussianEvent(Unpriced):
    """Discrete Gaussian noise of one scale on integer answers.

    Args:
        rho: > 0, at least (squared L2 sensitivity) / (2 scale^2).
        shifts: as for `LaplaceEvent`.
        scale: the sampler's scale, a float; None if unknown.

    Raises:
        TypeError: shifts that are no sequence, or a number of a wrong type.
        ValueError: a bad number, or a rho too small for the shifts at this scale.

    Guarantees:
        rho-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4).

    Example:
        >>> GaussianEvent("0.005", shifts=(1,), scale=10.0).to_dict()
        {'kind': 'gaussian', 'rho': '0.005', 'shifts': [1], 'scale': '10.0'}
    """

    rho: Fraction
    shifts: tuple[int, ...] | None = None
    scale: float | None = None
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        checks.set_fields(self, rho=exact_rho(self.rho))
        _set_noise(self)
        if self.shifts and self.scale and self.squares > 2 * self.rho * Fraction(self.scale) ** 2:
            raise ValueError(
                f"rho {shortened(self.rho)} is too small for moves of {self.squares} in squares at scale "
                f"{self.scale!r}: it must be at least the squares over twice the scale's square."
            )

    @property
    def squares(self) -> int:
        """The sum of the squared shifts, 0 where unknown."""
        return sum(shift**2 for shift in self.shifts or ())

    @property
    def sigma(self) -> float | None:
        """A lower bound on the sampler's scale; None if neither scale nor shifts are known."""
        if self.scale is not None or self.shifts is None:
            return self.scale
        # one float lower: the root was rounded up, and a smaller sigma tells a larger loss
        return math.nextafter(ceil_sqrt(Fraction(self.squares) / (2 * self.rho)), 0.0)


@dataclasses.dataclass(frozen=True)
class Selection(Record):
    """The choice of one of several candidates by noisy scores.

    Args:
        epsilon: > 0.
        method: "exponential" (the exponential mechanism) or "permute-and-flip".

    Guarantees:
        The exponential mechanism with epsilon has bounded range epsilon, hence is epsilon^2/8-zCDP.
        For permute-and-flip only epsilon-DP is used.

    References:
        Cesar and Rogers 2021, "Bounding, concentrating, and truncating";
        McKenna and Sheldon 2020, "Permute-and-flip".

    Example:
        >>> Selection(1, "exponential").rho, Selection(1, "permute-and-flip").rho
        (Fraction(1, 8), Fraction(1, 2))
    """

    epsilon: Fraction
    method: str
    kind: ClassVar[str] = "selection"

    def __post_init__(self) -> None:
        checks.set_fields(self, epsilon=exact_epsilon(self.epsilon))
        checks.set_choice(self, "method", ("exponential", "permute-and-flip"))

    @property
    def rho(self) -> Fraction:
        """epsilon^2 / 8 for the exponential mechanism, otherwise epsilon^2 / 2."""
        return self.epsilon**2 / (8 if self.method == "exponential" else 2)

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return the smaller of order * rho and the divergences of binary randomised response."""
        return np.minimum(times_rho(self.rho, orders), pure_divergence(ceil_float(self.epsilon), orders))


@dataclasses.dataclass(frozen=True)
class Response(Pure):
    """Randomised response of each record, epsilon-DP for one record's values.

    Args:
        epsilon: > 0, the logarithm of the largest ratio of two probabilities of one answer.

    Guarantees:
        As for `Pure`, but only under REPLACE_ONE: adding a record adds an answer.

    Example:
        >>> check_relation(Response(1), Relation.REPLACE_ONE)
    """

    kind: ClassVar[str] = "response"
    only: ClassVar[Relation | None] = Relation.REPLACE_ONE


@dataclasses.dataclass(frozen=True)
class TreeEvent(Pure):
    """The shape of a private tree over one column, see `privacy.partition.find_cells`.

    Args:
        epsilon: > 0, for all decisions of the tree together.

    References:
        Zhang, Xiao and Xie 2016, "PrivTree", Theorem 3.1.
    """

    kind: ClassVar[str] = "tree"


@dataclasses.dataclass(frozen=True)
class KeysEvent(Unpriced):
    """The keys of a column whose noisy counts exceed a threshold, see `privacy.partition.find_keys`.

    A ledger charges a whole run that searches for keys by one such event.

    Args:
        rho: > 0, of the Gaussian noise on the counts of the keys that both neighbours have.
        delta: in (0, 1), a bound on the probability that a key shows which only one of the neighbours has.

    Guarantees:
        delta-approximate rho-zCDP (Bun and Steinke 2016, Definition 8.1): such costs add up, rhos and deltas
        apart, and rho-zCDP but for a delta is (epsilon_of(rho, delta'), delta' + delta)-DP.

    Example:
        >>> KeysEvent("0.1", "1e-9").epsilon is None
        True
    """

    rho: Fraction
    delta: Fraction = Fraction(0)
    kind: ClassVar[str] = "keys"

    def __post_init__(self) -> None:
        checks.set_fields(self, rho=exact_rho(self.rho), delta=exact_delta(self.delta))
        if self.delta == 0:
            raise ValueError("delta must be > 0: a key that only one record has shows with some probability.")

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return infinity: without the delta there is no bound."""
        return np.full(len(orders), math.inf)


def check_relation(event: Event, relation: Relation) -> None:
    """Refuse an event that does not hold under a neighbouring relation.

    Raises:
        TypeError: the argument is not an event.
        ValueError: the event holds only under the other relation.
    """
    checks.kind(event, Record, "An event must be one of pgmjax.privacy's, such as LaplaceEvent(1)")
    if event.only not in (None, relation):
        raise ValueError(
            f"A {event.kind} event holds under {event.only.value} only, and neighbours here are "
            f"{relation.value}: an answer a record shows how many records there are."
        )


def laplace_divergence(step: float, shift: int, orders: np.ndarray) -> np.ndarray:
    """Return upper bounds on the divergence of discrete Laplace noise from its shifted copy.

    Args:
        step: 1 / scale of the noise, > 0.
        shift: shift of one integer answer, >= 1; the divergence increases with it.
        orders: [orders], each > 1.

    Returns:
        [orders], rounded up by a relative 1e-12, never above those of pure DP with
        epsilon = step * shift.

    Example:
        >>> exact = math.log((math.e + math.e**-2) / (1 + 1 / math.e))
        >>> bool(0 <= laplace_divergence(1.0, 1, np.array([2.0]))[0] - exact < 1e-11)
        True
    """
    orders = np.asarray(orders, np.float64)
    above = orders - 1
    move = step * shift
    # expm1 throughout, as 1 - q r loses its digits where the step is small
    bottom = (1 + math.exp(-step)) * -np.expm1(-(above + orders) * step)
    first = -np.expm1(-2 * orders * step) / bottom
    second = -math.exp(-step) * np.expm1(-2 * above * step) / bottom
    with np.errstate(over="ignore"):
        near = np.minimum(above * move, 1.0)  # S - 1 loses digits only where epsilon is tiny
        up, down = first * np.expm1(near), second * np.expm1(-orders * move)
        # what the two terms may lose to rounding is added, so that the bound stays one
        small = np.log1p(up + down + 8 * _EPSILON_OF_FLOATS * (up - down))
        large = above * move + np.log(first + second * np.exp(-(above + orders) * move))
    # each form where it is accurate: log1p near 0, and the factored exponential where S overflows
    exact = np.where(above * move <= 1, small, large) / above
    return np.minimum(exact * (1 + _ROUNDING), pure_divergence(move, orders))


def pure_divergence(epsilon: float, orders: np.ndarray) -> np.ndarray:
    """Return the largest divergences that epsilon-DP allows, rounded up by a relative 1e-12.

    Args:
        epsilon: > 0.
        orders: [orders], each > 1.

    Guarantees:
        Binary randomised response attains these divergences, which bound every epsilon-DP release; they
        are below epsilon and below order * epsilon^2 / 2.

    References:
        Bun and Steinke 2016, "Concentrated differential privacy", Proposition 3.3 and its proof.

    Example:
        >>> bool(pure_divergence(1.0, np.array([2.0]))[0] < 1.0)
        True
    """
    orders = np.asarray(orders, np.float64)
    above = orders - 1
    bottom = 1 + math.exp(-epsilon)
    with np.errstate(over="ignore"):
        near = np.minimum(above * epsilon, 1.0)
        # 2 sinh(a e / 2) sinh((a - 1) e / 2) / cosh(e / 2), written without overflow
        small = np.log1p(np.expm1(near) * -np.expm1(-orders * epsilon) / bottom)
        large = above * epsilon + np.log1p(np.exp(-(above + orders) * epsilon)) - math.log(bottom)
        exact = np.where(above * epsilon <= 1, small, large) / above
        simple = np.minimum(orders * (epsilon * epsilon / 2), epsilon)
    return np.minimum(exact, simple) * (1 + _ROUNDING)


def times_rho(rho: Fraction, orders: np.ndarray) -> np.ndarray:
    """Return order * rho, rounded up."""
    bound = math.inf if rho > MOST else ceil_float(rho)
    # an overflow to infinity is an upper bound too
    with np.errstate(over="ignore"):
        return bound * np.asarray(orders, np.float64) * (1 + _ROUNDING)


def _set_noise(event: Any) -> None:
    if event.shifts is not None:
        given = checks.several("shifts", event.shifts, "whole numbers >= 1")
        if not given:
            raise ValueError("shifts must be whole numbers >= 1, at least one, or None where unknown.")
        shifts = [checks.integer("a shift", shift, low=1) for shift in given]
        checks.set_fields(event, shifts=tuple(sorted(shifts, reverse=True)))
    if event.scale is not None:
        checks.set_fields(event, scale=checks.number("scale", event.scale, above=0))


def _text(value: Any) -> Any:
    if isinstance(value, Fraction):
        return as_text(value)
    if isinstance(value, float):
        return repr(value)
    return list(value) if isinstance(value, tuple) else value
