"""Bins of a chi-square test on the integers: tails folded inward until every bin expects enough."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

LEAST = 10.0  # draws that each bin expects at least
_MOST_BINS = 1000  # more bins see finer detail and need more draws to see a wrong scale
_WIDEST = 20_000_000


class IntegerLaw(Protocol):
    """What is tested against: a law on the integers, such as those of `pgmjax.laws`."""

    @property
    def stddev(self) -> float:
        """The standard deviation; the window of bins is 40 of them on both sides of zero."""
        ...

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of each integer in `values` [n]."""
        ...


def check_law(masses: np.ndarray) -> None:
    """Refuse what is no law: negative entries, NaN, or a sum that is not one."""
    if not (np.all(masses >= 0) and abs(masses.sum() - 1) <= 1e-9):
        raise ValueError("The law's probabilities must be at least 0 and sum to one.")


def window(law: IntegerLaw) -> tuple[int, np.ndarray]:
    """The first of the integers that hold all of the law but 1e-17 or so, and their probabilities."""
    half = math.ceil(40 * law.stddev) + 10
    if half > _WIDEST:
        raise ValueError(
            f"The law has a standard deviation of {law.stddev:g}, at most {_WIDEST // 40} is tested."
        )
    masses = np.asarray(law.probabilities(np.arange(-half, half + 1)), dtype=np.float64)
    check_law(masses)
    return -half, masses


def edges_of(expected: np.ndarray, draws: int) -> np.ndarray:
    """Edges of bins from 0 to the number of values: tails folded inward until every bin expects enough."""
    # a thousandth of the draws where that leaves bins: far p-values are then close to their word
    for least in (max(LEAST, expected.sum() / _MOST_BINS), LEAST):
        middle = int(np.argmax(expected))
        left = steps(expected[:middle], least)
        right = expected.size - steps(expected[:middle:-1], least)[::-1]
        if expected[left[-1] : right[0]].sum() < least:  # the bin in the middle takes in a neighbour
            left, right = (left[:-1], right) if left.size > 1 else (left, right[1:])
        if left.size and right.size and left.size + right.size >= 3:
            return np.concatenate([left, right])
    raise ValueError(too_few(draws))


def steps(expected: np.ndarray, least: float) -> np.ndarray:
    """Edges from the left, each bin expecting at least `least`; what follows the last edge is left over."""
    reached = np.concatenate([[0.0], np.cumsum(expected)])
    edges = [0]
    while reached[-1] - reached[edges[-1]] >= least:
        edges.append(min(int(np.searchsorted(reached, reached[edges[-1]] + least)), expected.size))
    return np.array(edges)


def too_few(draws: int) -> str:
    """Return the message for draws that fill fewer than two bins."""
    return f"With {draws} draws fewer than two bins expect {LEAST:g} of them: take more draws."
