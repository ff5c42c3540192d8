"""Composition: the cost of pre-declared accesses together, by the best account that applies.

Privacy loss distributions come from dp-accounting, as upper bounds.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.relation import AnyRelation, Relation
from pgmjax.privacy.accounting.events import Event, GaussianEvent, LaplaceEvent, check_relation
from pgmjax.privacy.accounting.renyi import epsilon_at
from pgmjax.privacy.accounting.zcdp import FINE_ORDERS, epsilon_of
from pgmjax.privacy.exact import LEAST, MOST, ceil_float, exact_delta, floor_float, shortened

Counted = Sequence[tuple[Event, int]]

_MOST_CELLS = 2**18
_FINENESS = 0.005  # of one access's typical loss; the error of "connect the dots" is its square
_LARGEST_SUPPORT = 300_000
_FFT_LOSS = 1e-15  # what a Fourier transform may lose of delta for each convolution
_ROUNDING = 1e-9

METHODS = ("best", "basic", "zcdp", "rdp", "pld")


class UnsupportedError(checks.Error, ValueError):
    """The losses of these events have no distribution here; another account must be used."""


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """The cost of accesses together: they are (epsilon, delta)-DP.

    Attributes:
        epsilon: an exact fraction for the plain sum, otherwise a float rounded up.
        delta: exact.
        method: the account used: "basic" (the sum), "zcdp", "rdp" or "pld".
        note: why another account did not apply, or "".
    """

    epsilon: Fraction | float
    delta: Fraction
    method: str
    note: str = ""

    def __str__(self) -> str:
        epsilon = shortened(self.epsilon) if isinstance(self.epsilon, Fraction) else f"{self.epsilon:.6g}"
        note = f" ({self.note})" if self.note else ""
        return f"epsilon {epsilon} at delta {_short(self.delta)} by {self.method}{note}"


@dataclasses.dataclass(frozen=True, init=False)
class Composition:
    """Accesses whose costs are all fixed before the first answer.

    Queries may depend on earlier answers; the number of accesses and their costs may not. For costs chosen
    adaptively use a `Budget`.

    Args:
        events: events, or pairs (event, count).
        relation: the neighbouring relation; all events must hold under it.

    Raises:
        TypeError: `events` is not a sequence, or an element is not an event.
        ValueError: there is no event, a count is below 1, or an event holds only under the other relation.

    Example:
        >>> from pgmjax.privacy.accounting.events import LaplaceEvent, Selection
        >>> events = [(Selection("0.05", "exponential"), 30), (LaplaceEvent("0.05"), 30)]
        >>> plan = Composition(events, Relation.ADD_REMOVE)
        >>> plan.epsilon_pure(), plan.rho()
        (Fraction(3, 1), Fraction(3, 64))
        >>> print(plan.epsilon(0))
        epsilon 3 at delta 0 by basic
    """

    events: tuple[tuple[Event, int], ...]
    relation: Relation

    def __init__(self, events: Iterable[Event | tuple[Event, int]], relation: AnyRelation):
        relation = Relation.parse(relation)
        counts: dict[Event, int] = {}
        for entry in checks.several("events", events, "events or pairs (event, count)"):
            event, count = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, 1)
            check_relation(event, relation)
            if event.delta:
                raise ValueError(
                    f"A plan has no event that holds only up to a delta, got {event.kind}: add its delta to "
                    "that of the other events' guarantee."
                )
            counts[event] = counts.get(event, 0) + checks.integer("count", count, low=1, high=10**9)
        if not counts:
            raise ValueError("A plan needs at least one event.")
        checks.set_fields(self, events=tuple(counts.items()), relation=relation)

    @property
    def accesses(self) -> int:
        """The number of accesses."""
        return sum(count for _, count in self.events)

    def epsilon_pure(self) -> Fraction | None:
        """Return the exact sum of the events' epsilons; None if an event has none."""
        parts = [(event.epsilon, count) for event, count in self.events]
        total = Fraction(0)
        for epsilon, count in parts:
            if epsilon is None:
                return None
            total += epsilon * count
        return total

    def rho(self) -> Fraction:
        """Return the exact sum of the events' rhos."""
        return sum((event.rho * count for event, count in self.events), Fraction(0))

    def epsilon(self, delta: Any = 0, method: str = "best") -> Guarantee:
        """Return the total cost of all accesses.

        Args:
            delta: in [0, 1); 0 for pure DP.
            method: "basic", the sum of epsilons; "zcdp", the converted sum of rhos; "rdp", Renyi
                divergences summed at each of 3401 orders; "pld", privacy loss distributions; "best",
                the smallest of those that apply. The last two may take seconds.

        Raises:
            ValueError: delta is invalid, or the requested account does not apply.

        Guarantees:
            All accesses together are (epsilon, delta)-DP under the plan's relation; every account
            rounds up.

        References:
            Dwork and Roth 2014, Theorem 3.16 (basic); see `epsilon_of`, `epsilon_at` and
            `pld_epsilon` for the others.
        """
        method = checks.choice("method", method, METHODS)
        return _loss(self, exact_delta(delta), method)

    def statement(self, delta: Any = 0) -> str:
        """Return the plan's cost as a sentence.

        Example:
            >>> from pgmjax.privacy.accounting.events import LaplaceEvent
            >>> Composition([(LaplaceEvent("0.1"), 10)], Relation.ADD_REMOVE).statement()
            '10 accesses under add-remove together cost epsilon 1 at delta 0 by basic; rho 0.05.'
        """
        noun = "1 access" if self.accesses == 1 else f"{self.accesses} accesses"
        return (
            f"{noun} under {self.relation.value} together cost {self.epsilon(delta)}; rho "
            f"{shortened(self.rho())}."
        )


@functools.lru_cache(maxsize=256)
def _loss(plan: Composition, delta: Fraction, method: str) -> Guarantee:
    if method == "basic" or delta == 0:
        total = plan.epsilon_pure()
        if method not in ("best", "basic"):
            raise ValueError(f"{method} needs delta > 0: ask for basic or best at delta 0.")
        if total is None:
            kinds = sorted({event.kind for event, _ in plan.events if event.epsilon is None})
            raise ValueError(
                f"The plan has {' and '.join(kinds)} events, which have no pure epsilon: give delta > 0"
                f"{' and another method' if delta else ''}."
            )
        return Guarantee(total, delta, "basic")
    if method == "pld":
        return Guarantee(pld_epsilon(plan.events, delta), delta, method)
    if method == "best":
        return _best(plan, delta)
    return _finite(Guarantee(_zcdp(plan, delta) if method == "zcdp" else _rdp(plan, delta), delta, method))


def _best(plan: Composition, delta: Fraction) -> Guarantee:
    losses = [Guarantee(_rdp(plan, delta), delta, "rdp")]
    if math.isinf(losses[0].epsilon):  # otherwise the rhos give nothing better
        losses.append(Guarantee(_zcdp(plan, delta), delta, "zcdp"))
    total = plan.epsilon_pure()
    if total is not None:
        losses.append(Guarantee(total, delta, "basic"))
    note = ""
    try:
        losses.append(_loss(plan, delta, "pld"))
    except UnsupportedError as reason:
        note = str(reason).rstrip(".")
    return dataclasses.replace(_finite(min(losses, key=lambda loss: loss.epsilon)), note=note)


def _finite(loss: Guarantee) -> Guarantee:
    if isinstance(loss.epsilon, float) and math.isinf(loss.epsilon):
        raise ValueError(
            f"The events cost more than any 64-bit float can say (by {loss.method}), which protects nothing: "
            "spend less."
        )
    return loss


def _zcdp(plan: Composition, delta: Fraction) -> float:
    rho = plan.rho()
    with np.errstate(over="ignore"):
        return math.inf if rho > MOST else epsilon_of(max(rho, LEAST), delta)


def _rdp(plan: Composition, delta: Fraction) -> float:
    divergences = np.zeros(FINE_ORDERS.size)
    with np.errstate(over="ignore"):
        for event, count in plan.events:
            divergences += count * event.renyi(FINE_ORDERS)
        return epsilon_at(divergences, FINE_ORDERS, delta)


def _short(delta: Fraction) -> str:
    return shortened(delta) if delta == 0 or delta >= Fraction(1, 1000) else f"{float(delta):g}"


@np.errstate(over="ignore")  # dp-accounting's own cells, where losses are huge
def pld_epsilon(events: Counted, delta: Fraction) -> float:
    """Return an epsilon for which events together are (epsilon, delta)-DP, from their losses' distributions.

    Args:
        events: pairs (event, count), all costs fixed in advance.
        delta: > 0.

    Raises:
        UnsupportedError: Gaussian noise without shifts, an event with only rho known, a noise scale too
            large to enumerate, losses beyond float64, or a delta below the precision of the transforms.

    Guarantees:
        An upper bound. Laplace and Gaussian events with shifts use the exact discrete distribution of each
        moved answer; other pure events use binary randomised response, which dominates them. Discretised
        outwards. Takes milliseconds for a few kinds of events, about 6 ms per further kind, one second for
        10^5 equal events, two for a Gaussian scale of 10^4.

    References:
        Doroshenko et al. 2022, "Connect the dots: tighter discrete approximations of privacy loss
        distributions"; Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via
        characteristic function" (dominating pairs compose, adaptively too).
    """
    parts = _parts(events)
    number = sum(parts.values())
    reserve = _FFT_LOSS * (number + len(parts))
    # a tenth of delta may go to rounding, and no more
    if reserve > float(delta) / 10:
        raise UnsupportedError(
            f"pld unsupported: delta {shortened(delta)} is too small for {number} convolutions in float64."
        )
    interval = _interval(parts)
    library = checks.optional("dp_accounting.pld.privacy_loss_distribution", extra="privacy")
    order = itertools.count()
    waiting = []
    for part, count in parts.items():
        single = _distribution(library, part, interval)
        pld = single if count == 1 else single.self_compose(count)
        waiting.append((_rho(part, count), next(order), pld))
    # the two narrowest first: a convolution takes the time of both widths, and its result is as wide
    heapq.heapify(waiting)
    while len(waiting) > 1:
        (rho, _, first), (more, _, second) = heapq.heappop(waiting), heapq.heappop(waiting)
        heapq.heappush(waiting, (rho + more, next(order), first.compose(second)))
    result = float(waiting[0][2].get_epsilon_for_delta(floor_float(delta) - reserve))
    if not math.isfinite(result):
        raise UnsupportedError(
            f"pld unsupported: delta {shortened(delta)} is below the mass cut off its tails."
        )
    return result * (1 + _ROUNDING)


_Part = tuple[str, float, int]
"""A kind of noise, 1 / scale for Laplace or the scale for Gaussian, and the shift of one answer."""


def _parts(events: Counted) -> collections.Counter[_Part]:
    parts: collections.Counter[_Part] = collections.Counter()
    for event, count in events:
        if isinstance(event, GaussianEvent):
            sigma = event.sigma
            if event.shifts is None or sigma is None:
                raise UnsupportedError("pld unsupported: a gaussian event does not know its shifts.")
            if sigma > _LARGEST_SUPPORT / 24:
                raise UnsupportedError(
                    f"pld unsupported: a gaussian scale of {sigma:g} has more than {_LARGEST_SUPPORT} values."
                )
            for shift in event.shifts:
                parts["gaussian", sigma, shift] += count
        elif isinstance(event, LaplaceEvent) and event.shifts is not None and event.step is not None:
            for shift in event.shifts:
                parts["laplace", event.step, shift] += count
        elif event.epsilon is not None:
            # of all that is epsilon-DP, noise of scale 1 / epsilon on a move of 1 has the largest losses
            parts["laplace", ceil_float(event.epsilon), 1] += count
        else:
            raise UnsupportedError(f"pld unsupported: of a {event.kind} event only rho is known.")
    return parts


def _interval(parts: collections.Counter[_Part]) -> float:
    """Return the cell width: small compared with a typical loss, with a bounded number of cells."""
    rho = sum(_rho(part, count) for part, count in parts.items())
    # losses are about N(rho, 2 rho): beyond rho + 2 sqrt(40 rho) lies less than e^-40 on a side
    width = 2 * (rho + 2 * math.sqrt(40 * rho))
    if not (sys.float_info.min <= rho and width <= sys.float_info.max):
        size = "small" if rho < 1 else "large"
        raise UnsupportedError(f"pld unsupported: losses this {size} cannot be listed in float64.")
    return max(_FINENESS * math.sqrt(2 * rho / sum(parts.values())), width / _MOST_CELLS)


def _rho(part: _Part, count: int) -> float:
    """Return about half the variance of the losses of a part's accesses, which tells how wide they spread."""
    kind, number, shift = part
    move = shift / number if kind == "gaussian" else shift * number
    return count * (move * move / 2)


def _distribution(library: Any, part: _Part, interval: float) -> Any:
    kind, number, shift = part
    make = (
        library.from_discrete_gaussian_mechanism
        if kind == "gaussian"
        else library.from_discrete_laplace_mechanism
    )
    return make(number, sensitivity=shift, value_discretization_interval=interval, use_connect_dots=True)
