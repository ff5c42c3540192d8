"""Privacy loss distributions of pre-declared events, through dp-accounting, as upper bounds."""

from __future__ import annotations

import collections
import heapq
import itertools
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.errors import Error
from pgmjax.privacy.accounting.events import Event, GaussianEvent, LaplaceEvent
from pgmjax.privacy.exact import ceil_float, floor_float, shortened

Counted = Sequence[tuple[Event, int]]

_CELLS = 2**18
_FINENESS = 0.005  # of one access's typical loss; the error of "connect the dots" is its square
_LARGEST_SUPPORT = 300_000
_FFT = 1e-15  # what a Fourier transform may lose of delta for each convolution
_ROUNDING = 1e-9


class UnsupportedError(Error, ValueError):
    """The losses of these events have no distribution here; another account must be used."""


@np.errstate(over="ignore")  # dp-accounting's own cells, where losses are huge
def epsilon(events: Counted, delta: Fraction) -> float:
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
    reserve = _FFT * (number + len(parts))
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
        waiting.append((_size(pld), next(order), pld))
    heapq.heapify(waiting)
    while len(waiting) > 1:
        first, second = heapq.heappop(waiting)[2], heapq.heappop(waiting)[2]
        both = first.compose(second)
        heapq.heappush(waiting, (_size(both), next(order), both))
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
            parts["laplace", ceil_float(event.epsilon), 1] += count
        else:
            raise UnsupportedError(f"pld unsupported: of a {event.kind} event only rho is known.")
    return parts


def _rho(part: _Part) -> float:
    kind, number, shift = part
    move = shift / number if kind == "gaussian" else shift * number
    return move * move / 2


def _interval(parts: collections.Counter[_Part]) -> float:
    """Return the cell width: small compared with a typical loss, with a bounded number of cells."""
    rho = sum(count * _rho(part) for part, count in parts.items())
    width = 2 * (rho + 2 * math.sqrt(40 * rho))
    if not (sys.float_info.min <= rho and width <= sys.float_info.max):
        size = "small" if rho < 1 else "large"
        raise UnsupportedError(f"pld unsupported: losses this {size} cannot be listed in float64.")
    return max(_FINENESS * math.sqrt(2 * rho / sum(parts.values())), width / _CELLS)


def _distribution(library: Any, part: _Part, interval: float) -> Any:
    kind, number, shift = part
    make = (
        library.from_discrete_gaussian_mechanism
        if kind == "gaussian"
        else library.from_discrete_laplace_mechanism
    )
    return make(number, sensitivity=shift, value_discretization_interval=interval, use_connect_dots=True)


def _size(pld: Any) -> int:
    return int(pld._pmf_remove.size)
