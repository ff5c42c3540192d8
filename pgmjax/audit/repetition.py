"""Noise that was drawn once and used twice: forked workers, threads, a seed taken again.

The signs of independent symmetric noise are fair coins. At a distance (lag) at which draws are copies,
signs agree. The signs of all pairs at one lag form fair coins again, independent of each other (the
pairs are the edges of paths), so the agreements at each lag follow an exact binomial law. All lags
are looked at in one pass of Fourier transforms.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pgmjax._internal import checks


@dataclasses.dataclass(frozen=True)
class Repetition:
    """The outcome of a search for copies.

    Attributes:
        p_value: for independent noise at most alpha with probability alpha; covers all lags.
        lag: the distance in draws at which signs agree or disagree most.
        agreement: the share of pairs at that lag that agree; 1 where all are copies.
        pairs: how many pairs at that lag have two signs (zeros have none).
    """

    p_value: float
    lag: int
    agreement: float
    pairs: int


def repeated(noise: np.ndarray) -> Repetition:
    """Search noise for copies of itself at any distance: adjacent copies, repeated blocks, negated ones.

    Args:
        noise: independent draws of a law symmetrical about zero, in the order drawn, numbers [n].
            Put the draws of two workers, threads or calls one after the other to compare them.

    Returns:
        The outcome; reject at p_value < alpha. Shuffled copies are left to `goodness_of_fit`.

    Raises:
        ValueError: fewer than two draws, or not one row of finite numbers.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteGaussian
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> noise = SeededBackend(0, insecure=True).draw(DiscreteGaussian(9.0), 500)
        >>> repeated(noise).p_value > 0.01
        True
        >>> copied = repeated(np.concatenate([noise, noise]))
        >>> copied.p_value < 1e-100, copied.lag, copied.agreement
        (True, 500, 1.0)
    """
    signs = np.sign(np.asarray(noise)).astype(np.float64)
    if signs.ndim != 1 or signs.size < 2 or not np.all(np.isfinite(signs)):
        raise ValueError(f"noise must be one row of at least two finite numbers, got shape {signs.shape}.")
    pairs, sums = _over_lags(np.abs(signs)), _over_lags(signs)
    agreeing = (pairs + sums) // 2
    binom = checks.optional("scipy.stats", extra="privacy").binom
    tails = binom.cdf(np.minimum(agreeing, pairs - agreeing), pairs, 0.5)
    least = np.flatnonzero(tails == tails.min())  # many where they underflow: take the clearest
    worst = least[np.argmax(sums[least] ** 2 / np.maximum(pairs[least], 1))]
    # two-sided; the lags are not independent of each other, hence the union bound
    p_value = min(1.0, float(2 * tails.size * tails[worst]))
    share = agreeing[worst] / max(pairs[worst], 1)
    return Repetition(p_value, int(worst) + 1, float(share), int(pairs[worst]))


def _over_lags(values: np.ndarray) -> np.ndarray:
    """The sum over i of values[i] values[i + lag] for each lag 1..n - 1, exact for small integers [n - 1]."""
    spectrum = np.fft.rfft(values, 2 * values.size)
    sums = np.fft.irfft(spectrum * spectrum.conj(), 2 * values.size)
    return np.rint(sums[1 : values.size]).astype(np.int64)
