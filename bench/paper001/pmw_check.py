"""What the tests of on-line PMW reveal, worked out by quadrature: `python bench/paper001/pmw_check.py`.

For a table of two cells, queries ask for one cell or the other, and neighbours differ by one record.
The probability of each pattern of tests (below, above) is an integral over the noise of the threshold of a
product of Laplace tails, so that the largest log-ratio over all patterns is known up to the quadrature; it
must stay below e_1 + e_2. The answers behind it have Laplace noise and are not looked at. A mutant whose
tests have the noise of a single one (scale 2 / e_2 in place of 2 c / e_2) breaks the bound for c > 1.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pmw


def above(distance: np.ndarray, scale: float) -> np.ndarray:
    """Return P(Laplace noise of a scale >= distance)."""
    half = 0.5 * np.exp(-np.abs(distance) / scale)
    return np.where(distance >= 0, half, 1 - half)


def probability(
    gaps: np.ndarray, pattern: tuple[bool, ...], threshold: float, scales: dict[str, float]
) -> float:
    """Return the probability of a pattern of tests on given gaps (counts)."""
    width = scales["threshold"]
    kinks = [0.0, *(gaps - threshold)]  # where an exponential of the integrand turns
    ends = np.unique([-60 * width, *kinks, *np.linspace(-40, 40, 161) * width, 60 * width])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    noise = (middle[:, None] + half[:, None] * nodes).reshape(-1)
    density = np.exp(-np.abs(noise) / width) / (2 * width) * (half[:, None] * weights).reshape(-1)
    for gap, found in zip(gaps, pattern, strict=True):
        tail = above(threshold + noise - gap, scales["test"])
        density = density * (tail if found else 1 - tail)
    return float(density.sum())


def patterns(number: int, most: int) -> list[tuple[bool, ...]]:
    """Return what a run of tests can show: it stops behind the last test above that is paid for."""
    full = itertools.product((False, True), repeat=number)
    return [each for each in full if sum(each) < most or (sum(each) == most and each[-1])]


def worst(settings: pmw.PMW, epsilon: float, mutant: bool = False) -> float:
    """Return the largest log-ratio over tables, directions of change and patterns."""
    scales = settings.scales(epsilon)
    if mutant:
        scales["test"] /= settings.updates
    threshold, largest = 3.0, 0.0
    for counts in ((0, 0), (3, 0), (3, 4), (6, 2)):
        for number in range(1, 7):
            asked = np.arange(number) % 2
            near = np.abs(np.array(counts)[asked] - 2.0)  # the public histogram holds 2 and 2
            for moves in itertools.product((-1.0, 0.0, 1.0), repeat=2):  # gaps of one cell move together
                far = near + np.array(moves)[asked]
                for pattern in patterns(number, settings.updates):
                    both = [probability(gaps, pattern, threshold, scales) for gaps in (near, far)]
                    largest = max(largest, abs(math.log(both[0] / both[1])))
    return largest


def main() -> None:
    """Print the bound and what was found, for the mechanism and the mutant."""
    for updates in (1, 2, 3):
        settings, epsilon = pmw.PMW(updates, 0.0), 2.0
        bound = epsilon * settings.test_share
        found, mutant = worst(settings, epsilon), worst(settings, epsilon, mutant=True)
        print(f"c = {updates}: e_1 + e_2 = {bound:.4f}, largest log-ratio {found:.4f}, mutant {mutant:.4f}")
        assert found <= bound + 1e-9, "the tests reveal more than they are charged for"


if __name__ == "__main__":
    main()
