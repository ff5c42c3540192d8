"""What Gaussian differential privacy would save over zCDP, and what discrete Gaussian noise lacks for it.

    python bench/gdp.py [--delta 1e-9]

Prints the noise for (epsilon, delta) by mu-GDP in shares of that by rho-zCDP, and, for one answer that
moves by 1, by how much the delta of discrete noise exceeds that of continuous noise of the same scale, with
the variance that would have to be given away. Decision 47 says what is proven.
"""

from __future__ import annotations

import argparse

import harness
import mpmath as mp

from pgmjax.privacy.accounting.zcdp import rho_for

mp.mp.dps = 30


def continuous(epsilon: mp.mpf, mu: mp.mpf) -> mp.mpf:
    """Return the least delta of mu-GDP at an epsilon (Balle and Wang 2018)."""
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


def discrete(epsilon: mp.mpf, sigma: mp.mpf) -> mp.mpf:
    """Return that of discrete Gaussian noise on one answer that moves by 1: a sum over all integers."""
    far = int(40 * sigma)
    mass = [mp.exp(-(mp.mpf(k) ** 2) / (2 * sigma**2)) for k in range(far + 2)]
    total = mass[0] + 2 * mp.fsum(mass[1:])
    last = int(mp.floor(mp.mpf(1) / 2 - epsilon * sigma**2))
    return mp.fsum(mass[-k] - mp.exp(epsilon) * mass[1 - k] for k in range(-far, last + 1)) / total


def mu_for(epsilon: float, delta: float) -> mp.mpf:
    """Return the largest mu whose delta at an epsilon is at most `delta`, by bisection."""
    low, high = mp.mpf(0), mp.mpf(10)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if continuous(mp.mpf(epsilon), middle) <= delta else (low, middle)
    return low


def given_away(sigma: mp.mpf, epsilon: mp.mpf, delta: mp.mpf) -> mp.mpf:
    """Return by how much less variance continuous noise has that same delta at an epsilon, by bisection."""
    low, high = mp.mpf(0), mp.mpf(1)
    for _ in range(40):
        middle = (low + high) / 2
        enough = continuous(epsilon, 1 / mp.sqrt(sigma**2 - middle)) >= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--delta", default="1e-9")
    delta = parser.parse_args().delta
    for epsilon in (0.3, 1.0, 10.0):
        gain = mu_for(epsilon, float(delta)) ** 2 / 2 / mp.mpf(float(rho_for(epsilon, delta)))
        noise = mp.nstr(gain**-0.5, 3)
        harness.say(f"epsilon {epsilon:g}: rho {mp.nstr(gain, 4)} times, noise {noise} times")
    for sigma in map(mp.mpf, (2, 5, 10)):
        # losses are at (k - 1/2) / sigma^2 for whole k: four places between two of them, up to z = 6
        places = [k / (4 * sigma**2) for k in range(1, int(24 * sigma) + 1)]
        deltas = [discrete(epsilon, sigma) for epsilon in places]
        most = max(d / continuous(e, 1 / sigma) for e, d in zip(places, deltas, strict=True))
        away = max(given_away(sigma, e, d) for e, d in zip(places, deltas, strict=True))
        found = f"delta up to {mp.nstr(most, 4)} times, variance {mp.nstr(away, 4)}"
        harness.say(f"scale {mp.nstr(sigma)}: {found}")


if __name__ == "__main__":
    main()
