"""Draws of single tables of two columns, with and without what keeps their dependence.

    PGMJAX_DATA=... python bench/emptied.py [--releases N]

The settings of `pgmjax.uncertainty.posterior.debiased` were chosen by these lines. Pairs of columns of the
populations of `analyses.py`, 5,000 records, Laplace noise of the standard deviations that a release of ten
pairs has at epsilon 1, 3.5 and 10, 20 draws. One table alone has its least squares on the simplex in closed
form, so that thousands of fits take seconds. A line has how often 95 % intervals from the draws' models hold
a slope and a mean, and how far these lie off on average, in standard deviations of the draws, for a number of
refits, with moments kept up to a degree (0: none are kept).
"""

from __future__ import annotations

import itertools

import analyses
import harness
import numpy as np
import scipy.stats

from pgmjax.uncertainty import posterior

RECORDS, DRAWS = 5_000, 20
PAIRS = (("adult", "ux"), ("adult", "xy"), ("titanic", "uv"), ("titanic", "ux"), ("made 2", "ux"))
NOISE = (28.3, 8.0, 2.83)
VARIANTS = (
    (0, 0),
    (1, 0),
    (2, 0),
    (4, 0),
    (2, 2),
    (3, 1),
    (3, 2),
    (4, 2),
)  # refits, and the degree of moments
KEYS = ("table", "pair", "stddev", "rounds", "degree")


def projected(values: np.ndarray) -> np.ndarray:
    """Return the nearest counts >= 0 that sum to the number of records, of each row."""
    falling = -np.sort(-values, axis=1)
    above = np.cumsum(falling, axis=1) - RECORDS
    number = np.arange(1, values.shape[1] + 1)
    last = (falling - above / number > 0).sum(axis=1) - 1
    level = above[np.arange(len(values)), last] / (last + 1)
    return np.maximum(values - level[:, None], 0)


def moments(shape: tuple[int, int], degree: int) -> np.ndarray:
    """Return orthonormal polynomials of cells [moments, cells], of degrees up to `degree` in each code."""
    powers = [np.vander(np.arange(size), min(degree + 1, size), increasing=True) for size in shape]
    one, two = (np.linalg.qr(each)[0].T for each in powers)
    return np.einsum("ai,bj->abij", one, two).reshape(-1, shape[0] * shape[1])[1:]


def fitted(values: np.ndarray, shape: tuple[int, int], stddev: float, rounds: int, degree: int) -> np.ndarray:
    """Return the counts of each row of noisy ones, as `posterior.debiased` has them."""
    share = np.minimum(1, posterior.EMPTY * (values < 0).mean(axis=1, keepdims=True))
    counts, kept, moved = projected(values), moments(shape, degree), np.zeros_like(values)
    for _ in range(rounds):
        less = values - share * stddev**2 / (counts + posterior.FLOOR * stddev)
        moved += (values - counts) @ kept.T @ kept
        counts = projected(np.maximum(less, np.minimum(values, -stddev)) + moved)
    return counts


def analysed(counts: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return the slope of the second column on the first and the second's mean, of each row."""
    tables = counts.reshape(-1, *shape) / RECORDS
    one, two = np.arange(shape[0]), np.arange(shape[1])
    first, second = tables.sum(2) @ one, tables.sum(1) @ two
    both = np.einsum("kij,i,j->k", tables, one, two)
    return np.stack([(both - first * second) / (tables.sum(2) @ one**2 - first**2), second], axis=1)


def covered(
    rows: analyses.Rows, pair: str, stddev: float, rounds: int, degree: int, releases: int
) -> dict[str, list[float]]:
    """Return how often intervals hold slope and mean, and how far off these are."""
    rng = np.random.default_rng(0)
    shape = tuple(int(rows[name].max()) + 1 for name in pair)
    cells = np.ravel_multi_index([rows[name] for name in pair], shape)
    shares = np.bincount(cells, minlength=shape[0] * shape[1]) / len(cells)
    truth = analysed(shares[None] * RECORDS, shape)[0]
    hits, off = np.zeros(2), np.zeros(2)
    quantile = scipy.stats.t.ppf(0.975, DRAWS - 1) * np.sqrt(1 + 1 / DRAWS)

    def noisy(of: np.ndarray, number: int) -> np.ndarray:
        return rng.multinomial(RECORDS, of, number) + rng.laplace(0, stddev / np.sqrt(2), (number, len(of)))

    for centre in fitted(noisy(shares, releases), shape, stddev, rounds, degree):
        answers = noisy(centre / centre.sum(), DRAWS)
        drawn = analysed(fitted(answers, shape, stddev, rounds, degree), shape)
        error, spread = drawn.mean(axis=0) - truth, drawn.std(axis=0, ddof=1)
        hits += np.abs(error) <= quantile * spread
        off += error / spread
    return {"held": (hits / releases).tolist(), "off": (off / releases).tolist()}


def main() -> None:
    """Make the lines that are not there yet."""
    options = harness.parser(__doc__)
    options.add_argument("--releases", type=int, default=400)
    given = options.parse_args()
    kept = harness.Results("emptied", KEYS)
    for (name, pair), stddev, variant in itertools.product(PAIRS, NOISE, VARIANTS):
        if (key := (name, pair, stddev, *variant)) not in kept:
            found = covered(analyses.populated(name), pair, stddev, *variant, given.releases)
            kept.add(dict(zip(KEYS, key, strict=True)) | found)


if __name__ == "__main__":
    main()
