"""Secure noise from OpenDP: the one file that knows its calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import _checks
from pgmjax.laws import DiscreteGaussian, DiscreteLaplace, Law
from pgmjax.privacy import scales

_CHUNK = 1 << 15  # a third of a second a call, so that Ctrl-C is heard


class OpenDPBackend:
    """Discrete Laplace and Gaussian noise by OpenDP's exact samplers and operating-system entropy.

    There is no seed: noise cannot be repeated. Scales are the smallest floats for which OpenDP's own
    privacy map confirms the budget.

    Raises:
        ImportError: OpenDP is not installed.

    References:
        Canonne, Kamath and Steinke 2020, whose samplers OpenDP implements.
    """

    name = "opendp"
    secure = True
    seed: int | None = None

    def __init__(self) -> None:
        _opendp()

    def restart(self) -> OpenDPBackend:
        """Return itself: there is no stream to start anew."""
        return self

    def laplace(self, sensitivity: int, epsilon: Fraction) -> DiscreteLaplace:
        """Return the law for an L1 sensitivity and epsilon, its scale confirmed by OpenDP.

        Guarantees:
            OpenDP's map for answers that differ by `sensitivity` in L1 is at most epsilon.
        """
        law = scales.laplace_for(sensitivity, epsilon)
        scale = _confirmed(law.scale, epsilon, lambda scale: _laplace(scale).map(max(sensitivity, 1)))
        return DiscreteLaplace(scale)

    def gaussian(self, sensitivity_squared: int, rho: Fraction) -> DiscreteGaussian:
        """Return the law for a squared L2 sensitivity and rho, its scale confirmed by OpenDP.

        Guarantees:
            OpenDP's map for answers that differ by the sensitivity in L2 is at most rho (zCDP).
        """
        law = scales.gaussian_for(sensitivity_squared, rho)
        distance = scales.ceil_sqrt(Fraction(max(sensitivity_squared, 1)))
        scale = _confirmed(law.scale, rho, lambda scale: _gaussian(scale).map(distance))
        return DiscreteGaussian(scale)

    def draw(self, law: Law, size: int) -> np.ndarray:
        """Return independent noise, int64 [size]."""
        sampler = _laplace(law.scale) if isinstance(law, DiscreteLaplace) else _gaussian(law.scale)
        noise = np.empty(size, dtype=np.int64)
        for start in range(0, size, _CHUNK):
            zeros = np.zeros(min(_CHUNK, size - start), dtype=np.int64)
            noise[start : start + zeros.size] = sampler(zeros)
        return noise

    def __repr__(self) -> str:
        return "OpenDPBackend()"


def _confirmed(scale: float, budget: Fraction, loss: Callable[[float], float]) -> float:
    """Return the next larger float until OpenDP's outward-rounded map stays within the budget."""
    for _ in range(64):
        if Fraction(loss(scale)) <= budget:
            return scale
        scale = math.nextafter(scale, math.inf)
    raise RuntimeError(f"OpenDP does not confirm a noise scale near {scale!r} for the budget asked for.")


@functools.cache
def _opendp() -> Any:
    prelude = _checks.optional("opendp.prelude", extra="privacy")
    prelude.enable_features("contrib")
    return prelude


@functools.lru_cache(maxsize=64)
def _laplace(scale: float) -> Any:
    dp = _opendp()
    # "i64" in words: T=int is 32 bits wide in OpenDP
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


@functools.lru_cache(maxsize=64)
def _gaussian(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=scale)
