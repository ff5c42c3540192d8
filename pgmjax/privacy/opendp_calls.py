"""The one file that knows OpenDP's calls, and what else is drawn from the operating system's entropy.

OpenDP does not check that data belong to the domain it was told: whatever goes in has been checked.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from pgmjax._internal import checks


@functools.cache
def opendp() -> Any:
    """Return OpenDP's prelude.

    Raises:
        ImportError: it is not installed.
    """
    prelude = checks.optional("opendp.prelude", extra="privacy")
    prelude.enable_features("contrib")
    return prelude


@functools.lru_cache(maxsize=64)
def laplace(scale: float) -> Any:
    """Discrete Laplace noise on int64 vectors; its map takes an L1 distance and gives epsilon."""
    dp = opendp()
    # "i64" in words: T=int is 32 bits wide in OpenDP
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


@functools.lru_cache(maxsize=64)
def gaussian(scale: float) -> Any:
    """Discrete Gaussian noise on int64 vectors; its map takes an L2 distance and gives rho."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=scale)


@functools.lru_cache(maxsize=64)
def permute_and_flip(scale: float, monotone: bool = False) -> Any:
    """Noisy max with exponential noise; its map takes an L-infinity distance and gives epsilon."""
    return opendp().m.make_noisy_max(*_scores(monotone), opendp().max_divergence(), scale=scale)


@functools.lru_cache(maxsize=64)
def exponential(scale: float, monotone: bool = False) -> Any:
    """Noisy max with Gumbel noise; its map takes an L-infinity distance and gives rho = epsilon^2 / 8.

    Which noise it is hangs on the measure alone: under zCDP the same call is another mechanism.
    """
    measure = opendp().zero_concentrated_divergence()
    return opendp().m.make_noisy_max(*_scores(monotone), measure, scale=scale)


def _scores(monotone: bool) -> tuple[Any, Any]:
    dp = opendp()
    return dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=monotone)


@functools.lru_cache(maxsize=64)
def flips(doubled: float) -> Any:
    """Bytes in, bytes out, every bit turned over with probability doubled / 2, which halves exactly."""
    dp = opendp()
    # one bit is private at a time, and the map (2 ln((2 - f) / f) for weight 1) is not what is relied on
    space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    return dp.m.make_randomized_response_bitvec(*space, f=doubled)


def coins(probability: float, size: int) -> np.ndarray:
    """Return independent bools [size], each True with exactly the probability that the float is."""
    likely = probability > 0.5
    rare = 1 - probability if likely else probability  # exact: floats in 1/2..1 are multiples of 2^-53
    turned = flips(2 * rare)(bytes(-(-size // 8)))
    bits = np.unpackbits(np.frombuffer(turned, dtype=np.uint8), count=size).view(np.bool_)
    return ~bits if likely else bits


def uniform(bound: int, size: int) -> np.ndarray:
    """Return independent uniform integers in 0..bound-1, int64 [size], by rejection of system entropy."""
    bits = (bound - 1).bit_length()
    result = np.zeros(size, dtype=np.int64)
    if bits == 0:
        return result
    width = next(width for width in (1, 2, 4, 8) if bits <= 8 * width)
    filled = 0
    while filled < size:
        asked = int((size - filled) * (2**bits / bound) * 1.02) + 16
        words = np.frombuffer(os.urandom(width * asked), dtype=f"u{width}") & ((1 << bits) - 1)
        kept = words[words < bound][: size - filled]
        result[filled : filled + kept.size] = kept
        filled += kept.size
    return result
