"""How far the similarity of two records' ratings moves when one rating or one record changes.

Two relations are counted, both with public records, items and scale. "record": all ratings of one record are
replaced by any others. "rating": the value of one rating is replaced by another of the scale; which items a
record rated is public.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgmjax._internal import checks

MEASURES = ("cosine", "pearson", "inner_product")
PROTECTS = ("rating", "record")


def value_range(measure: str, scale: tuple[float, float] | None, items: int) -> tuple[float, float]:
    """Return the least and largest value a similarity can have.

    Args:
        measure: "cosine", "pearson" or "inner_product".
        scale: least and largest rating; None where ratings are not bounded.
        items: the number of items.

    Raises:
        ValueError: an inner product of ratings without bound.
    """
    checks.choice("measure", measure, MEASURES)
    if measure == "inner_product":
        if scale is None:
            raise ValueError(
                "the inner product of ratings without a scale is unbounded, and so is its sensitivity: give "
                "the scale of the ratings, or ask for 'cosine' or 'pearson'."
            )
        most = items * max(abs(scale[0]), abs(scale[1])) ** 2
        return (0.0, most) if scale[0] >= 0 else (-most, most)
    if measure == "cosine" and scale is not None and scale[0] >= 0:
        return 0.0, 1.0
    return -1.0, 1.0


def pair_sensitivity(
    measure: str, protect: str, scale: tuple[float, float] | None, items: int, ratings: int | None = None
) -> float:
    """Return how far one similarity can move.

    Args:
        measure: "cosine" (an item that was not rated counts 0), "pearson" (over the items both rated) or
            "inner_product".
        protect: "rating" or "record".
        scale: least and largest rating; None where ratings are not bounded.
        items: the number of items.
        ratings: for "rating", how many ratings the record whose rating changes has, which is public there.

    Returns:
        "record": the range of the measure, which is attained: 1 for a cosine of ratings >= 0, 2 for a
        Pearson correlation. "rating": for an inner product h (h - l); for a Pearson correlation 2, its range:
        of two common items one changed rating turns -1 into 1; for a cosine of ratings in [l, h], l > 0, of
        a record whose other ratings have the Euclidean norm X, the larger of
        ``X / sqrt(X**2 + l**2) - X / sqrt(X**2 + h**2)`` and
        ``h / sqrt(X**2 + h**2) - l / sqrt(X**2 + l**2)`` at the worst X from l sqrt(ratings - 1) to
        h sqrt(ratings - 1): the unit vector moves by a difference with one sign on the changed item and the
        other on the rest, of which a vector without negative entries can meet only one. It falls with the
        number of ratings.

    Raises:
        ValueError: what is not bounded: an inner product without a scale, or a cosine under "rating" of
            ratings that may be 0 or less, which can leave a record without direction.

    Example:
        >>> round(pair_sensitivity("cosine", "rating", (0.5, 5.0), 1000, ratings=1), 4)
        0.0
        >>> [round(pair_sensitivity("cosine", "rating", (0.5, 5.0), 1000, n), 4) for n in (2, 20, 500)]
        [0.6984, 0.6984, 0.3639]
    """
    checks.choice("protect", protect, PROTECTS)
    low, high = value_range(measure, scale, items)
    if protect == "record" or measure == "pearson":
        return high - low
    if scale is None or (measure == "cosine" and scale[0] <= 0):
        raise ValueError(
            "how far one rating moves a cosine is bounded below its range only for ratings on a scale above "
            "0: give such a scale, or protect='record'."
        )
    if measure == "inner_product":
        return max(abs(scale[0]), abs(scale[1])) * (scale[1] - scale[0])
    others = checks.integer("ratings", ratings, low=1) - 1
    return _cosine_step(*scale, others)


def _cosine_step(low: float, high: float, others: int) -> float:
    """Return the worst move of a cosine where one of `others` + 1 ratings changes."""
    if others == 0:
        return 0.0  # a single rating has the same direction whatever its value
    ends = (low * math.sqrt(others), high * math.sqrt(others))
    peaks = []
    for power in (4 / 3, 2 / 3):  # of the fall of the other ratings' part, of the rise of the changed one's
        ratio = (high / low) ** power
        square = (high**2 - low**2 * ratio) / (ratio - 1)
        peaks.append(min(max(math.sqrt(max(square, 0.0)), ends[0]), ends[1]))
    norms = np.array([*ends, *peaks])
    fall = norms / np.hypot(norms, low) - norms / np.hypot(norms, high)
    rise = high / np.hypot(norms, high) - low / np.hypot(norms, low)
    return float(max(fall.max(), rise.max())) * (1 + 1e-12)


def joint_sensitivity(pairs: np.ndarray, steps: np.ndarray) -> Any:
    """Return how far all similarities of the pairs move together, in L1.

    Args:
        pairs: [pairs, 2], records.
        steps: [records], how far a change of that record moves one similarity.

    Returns:
        the most, over records, of the number of pairs it is in times its step; exact where steps are whole.
    """
    degrees = np.bincount(np.asarray(pairs).reshape(-1), minlength=len(steps))
    # Python's numbers: products of 64-bit ones would overflow unseen
    return max(degree * step for degree, step in zip(degrees.tolist(), steps.tolist(), strict=True))
