"""Secure noise from OpenDP and from the operating system's entropy; the only file that calls OpenDP.

OpenDP does not check that data lie in the declared domain, so all inputs are checked before it is called.
"""

from __future__ import annotations

import concurrent.futures
import functools
import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import scales, selection
from pgmjax.privacy.backend import NoiseBackend, PiecewiseBackend, checked_choice

# A tenth of a second each at most, so that Ctrl-C is heard and threads end together.
_NOISE_PIECE = 1 << 12
_BITS_PIECE = 1 << 17
_SCORES_PIECE = 1 << 18
_MOST_THREADS = 8


class OpenDPBackend(PiecewiseBackend):
    """OpenDP's exact samplers and operating-system entropy.

    There is no seed: noise cannot be repeated. Scales are the smallest floats for which OpenDP's own
    privacy map confirms the budget. Large draws use one thread per core, at most 8.

    Raises:
        ImportError: OpenDP is not installed.

    References:
        Canonne, Kamath and Steinke 2020, whose samplers OpenDP implements; McKenna and Sheldon 2020
        for permute-and-flip.
    """

    name = "opendp"
    secure = True
    seed: int | None = None
    _noise_piece, _coins_piece = _NOISE_PIECE, _BITS_PIECE

    def __init__(self) -> None:
        opendp()

    def restart(self) -> OpenDPBackend:
        """Return itself; there is no stream to restart."""
        return self

    def laplace(self, sensitivity: int, epsilon: Fraction) -> DiscreteLaplace:
        """Return the distribution for an L1 sensitivity and epsilon, its scale confirmed by OpenDP.

        Guarantees:
            OpenDP's map for answers that differ by `sensitivity` in L1 is at most epsilon.
        """
        found = super().laplace(sensitivity, epsilon)
        return _confirmed(found, laplace_sampler, max(sensitivity, 1), epsilon)

    def gaussian(self, sensitivity_squared: int, rho: Fraction) -> DiscreteGaussian:
        """Return the distribution for a squared L2 sensitivity and rho, its scale confirmed by OpenDP.

        Guarantees:
            OpenDP's map for answers that differ by the sensitivity in L2 is at most rho (zCDP).
        """
        found = super().gaussian(sensitivity_squared, rho)
        distance = scales.ceil_sqrt(Fraction(max(sensitivity_squared, 1)))
        return _confirmed(found, gaussian_sampler, distance, rho)

    def permute_and_flip(self, sensitivity: int, epsilon: Fraction) -> selection.PermuteAndFlip:
        """Return the distribution for scores of a sensitivity and epsilon, its scale confirmed by OpenDP.

        Guarantees:
            OpenDP's map for scores that differ by `sensitivity` at most is at most epsilon.
        """
        found = super().permute_and_flip(sensitivity, epsilon)
        return _confirmed(found, permute_and_flip_sampler, max(sensitivity, 1), epsilon)

    def exponential(self, sensitivity: int, epsilon: Fraction) -> selection.ExponentialMechanism:
        """Return the distribution for scores of a sensitivity and epsilon, its scale confirmed by OpenDP.

        Guarantees:
            OpenDP's map, which is in zCDP for this mechanism, is at most epsilon^2 / 8.
        """
        found = super().exponential(sensitivity, epsilon)
        return _confirmed(found, exponential_sampler, max(sensitivity, 1), epsilon**2 / 8)

    def choose(self, distribution: selection.SelectionDistribution, scores: np.ndarray) -> int:
        """Return the index of one candidate; scores are int64 [candidates], larger is better."""
        return int(self.choose_several(distribution, scores, 1)[0])

    def choose_several(
        self, distribution: selection.SelectionDistribution, scores: np.ndarray, draws: int
    ) -> np.ndarray:
        """Return the indices of independent choices from the same scores, int64 [draws]."""
        distribution, scores = checked_choice(distribution, scores)
        pure = isinstance(distribution, selection.PermuteAndFlip)
        chooser = (permute_and_flip_sampler if pure else exponential_sampler)(distribution.scale)
        chosen = np.empty(draws, dtype=np.int64)

        def fill(start: int, stop: int) -> None:
            chosen[start:stop] = [chooser(scores) for _ in range(start, stop)]

        _in_pieces(draws, max(1, _SCORES_PIECE // scores.size), fill)
        return chosen

    def _coins(self, probability: float | Fraction, size: int) -> np.ndarray:
        return coins(probability, size)

    def _uniform(self, bound: int, size: int) -> np.ndarray:
        return uniform(bound, size)

    def _in_pieces(self, size: int, piece: int, fill: Callable[[int, int], None]) -> None:
        _in_pieces(size, piece, fill)

    def _laplace(self, distribution: DiscreteLaplace, size: int) -> np.ndarray:
        return np.asarray(laplace_sampler(distribution.scale)(np.zeros(size, dtype=np.int64)))

    def _gaussian(self, distribution: DiscreteGaussian, size: int) -> np.ndarray:
        return np.asarray(gaussian_sampler(distribution.scale)(np.zeros(size, dtype=np.int64)))

    _samplers: ClassVar[dict[type, Any]] = {DiscreteLaplace: _laplace, DiscreteGaussian: _gaussian}

    def __repr__(self) -> str:
        return "OpenDPBackend()"


_WRAPPERS: set[type] = set()

_Wrapper = TypeVar("_Wrapper", bound=type)
_Scaled = TypeVar(
    "_Scaled", DiscreteLaplace, DiscreteGaussian, selection.PermuteAndFlip, selection.ExponentialMechanism
)


def passes_on(wrapper: _Wrapper) -> _Wrapper:
    """Mark a class of this library that draws nothing itself and hands over what its `_backend` draws."""
    _WRAPPERS.add(wrapper)
    return wrapper


def is_secure(backend: NoiseBackend) -> bool:
    """Return whether noise protects, which the backend's class decides and not its attribute `secure`.

    Guarantees:
        True only for an `OpenDPBackend`, not of a subclass and without methods put in its place, or for what
        this library itself wraps around one and that hands over its noise unchanged.

    Example:
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> backend = SeededBackend(1, insecure=True)
        >>> backend.secure = True
        >>> is_secure(backend), is_secure(default_backend())
        (False, True)
    """
    source: Any = backend
    while True:
        if any(callable(getattr(type(source), name, None)) for name in getattr(source, "__dict__", ())):
            return False
        if type(source) not in _WRAPPERS:
            return type(source) is OpenDPBackend
        source = source._backend


def default_backend() -> NoiseBackend:
    """Return the secure backend.

    Raises:
        ImportError: OpenDP is not installed; the message names the command that installs it.
    """
    return OpenDPBackend()


def _confirmed(
    distribution: _Scaled, sampler: Callable[[float], Any], distance: float, budget: Fraction
) -> _Scaled:
    """Return a distribution with the first scale, from its own upwards, that OpenDP's map confirms."""
    scale = distribution.scale
    for _ in range(64):
        # OpenDP's map rounds up in floats, so that the exact scale may be confirmed a few floats later only
        if Fraction(sampler(scale).map(distance)) <= budget:
            return type(distribution)(scale)
        scale = math.nextafter(scale, math.inf)
    raise RuntimeError(f"OpenDP does not confirm a noise scale near {scale!r} for the budget asked for.")


def _in_pieces(size: int, piece: int, fill: Callable[[int, int], None]) -> None:
    """Call fill(start, stop) for pieces of a range, in threads: OpenDP's calls let other threads run."""
    ends = [(start, min(start + piece, size)) for start in range(0, size, piece)]
    threads = min(len(ends), _cores(), _MOST_THREADS)
    if threads < 2:
        for start, stop in ends:
            fill(start, stop)
        return
    # made again each time: the threads of a lasting pool would be missing in a forked process
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    try:
        for done in [pool.submit(fill, start, stop) for start, stop in ends]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def opendp() -> Any:
    """Return OpenDP's prelude.

    Raises:
        ImportError: OpenDP is not installed.
    """
    prelude = checks.optional("opendp.prelude", extra="privacy")
    prelude.enable_features("contrib")
    return prelude


@functools.lru_cache(maxsize=64)
def laplace_sampler(scale: float) -> Any:
    """Discrete Laplace noise on int64 vectors; its privacy map takes an L1 distance and returns epsilon."""
    dp = opendp()
    # "i64" in words: T=int is 32 bits wide in OpenDP
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


@functools.lru_cache(maxsize=64)
def gaussian_sampler(scale: float) -> Any:
    """Discrete Gaussian noise on int64 vectors; its privacy map takes an L2 distance and returns rho."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=scale)


@functools.lru_cache(maxsize=64)
def permute_and_flip_sampler(scale: float) -> Any:
    """Noisy max with exponential noise; its privacy map takes an L-infinity distance and returns epsilon."""
    return opendp().m.make_noisy_max(*_scores(), opendp().max_divergence(), scale=scale)


@functools.lru_cache(maxsize=64)
def exponential_sampler(scale: float) -> Any:
    """Noisy max with Gumbel noise; its map takes an L-infinity distance and returns rho = epsilon^2 / 8.

    The privacy measure alone decides the noise: under zCDP the same OpenDP call uses Gumbel noise.
    """
    measure = opendp().zero_concentrated_divergence()
    return opendp().m.make_noisy_max(*_scores(), measure, scale=scale)


def _scores() -> tuple[Any, Any]:
    dp = opendp()
    return dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")


@functools.lru_cache(maxsize=64)
def flips(doubled: float) -> Any:
    """Bytes in, bytes out; flips every bit with probability doubled / 2, an exact division."""
    dp = opendp()
    # one bit is private at a time, and the map (2 ln((2 - f) / f) for weight 1) is not what is relied on
    space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    return dp.m.make_randomized_response_bitvec(*space, f=doubled)


def coins(probability: float | Fraction, size: int) -> np.ndarray:
    """Return independent bools [size], each True with exactly a probability.

    Args:
        probability: a float, or one minus a float as a fraction.
        size: number of coins.
    """
    likely = probability > 0.5
    rare = float(1 - Fraction(probability) if likely else probability)  # exact
    turned = flips(2 * rare)(bytes(-(-size // 8)))
    bits = np.unpackbits(np.frombuffer(turned, dtype=np.uint8), count=size).view(np.bool_)
    return ~bits if likely else bits


def uniform(bound: int, size: int) -> np.ndarray:
    """Return independent uniform integers in 0..bound-1, int64 [size], by rejection of system entropy."""
    # the fewest bits: of the words more than half are below the bound
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
