"""What a history of Laplace answers cost, cell by cell, and the least that an accuracy costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteLaplace

_BLOCK = 1 << 24


def sensitivities(matrix: Any, relation: Relation | str = Relation.ADD_REMOVE) -> np.ndarray:
    """Return how far each row's answer can move between neighbours [rows]: S of the paper.

    Args:
        matrix: H [rows, cells].
        relation: which tables are neighbours; the paper's is add-remove.

    Example:
        >>> sensitivities([[2.0, 1.0, 0.0], [0.0, -1.0, 1.0]]).tolist()
        [2.0, 1.0]
    """
    rows = _matrix(matrix)
    if Relation.parse(relation) is Relation.ADD_REMOVE:
        return np.abs(rows).max(axis=1)
    return np.asarray(rows.max(axis=1) - rows.min(axis=1))


def cell_costs(matrix: Any, epsilons: Any, moves: Any = None) -> np.ndarray:
    """Return how much epsilon each cell's records have lost [cells]: B = (alpha / S)' abs(H).

    Args:
        matrix: H [rows, cells].
        epsilons: what each answer cost [rows]: alpha.
        moves: the sensitivities S that set the noise's scales S / alpha [rows]; None are the rows' own under
            add-remove.

    Raises:
        ValueError: numbers that do not fit the rows or are not positive.

    References:
        Xiao and Xiong 2012, Theorem 5.4, equation 35.

    Example:
        >>> cell_costs([[2.0, 1.0], [0.0, 1.0]], [0.1, 0.2]).tolist()
        [0.1, 0.25]
    """
    rows = _matrix(matrix)
    return np.asarray(_rates(rows, epsilons, moves) @ np.abs(rows))


def system_cost(
    matrix: Any, epsilons: Any, moves: Any = None, relation: Relation | str = Relation.ADD_REMOVE
) -> float:
    """Return the epsilon of all answers together, which is at most their sum.

    Under add-remove the largest of the cells' costs; under replace-one the largest distance of two cells'
    columns, in the same weights.

    Args:
        matrix: H [rows, cells].
        epsilons: what each answer cost [rows].
        moves: as in `cell_costs`.
        relation: which tables are neighbours.

    References:
        Xiao and Xiong 2012, Theorem 5.4, equation 34.

    Example:
        >>> system_cost([[2.0, 1.0], [0.0, 1.0]], [0.1, 0.2])
        0.25
    """
    rows = _matrix(matrix)
    rates = _rates(rows, epsilons, moves)
    if Relation.parse(relation) is Relation.ADD_REMOVE:
        return float((rates @ np.abs(rows)).max())
    weighted = (rates[:, None] * rows).T
    block = max(1, _BLOCK // max(1, weighted.size))
    most = 0.0
    for low in range(0, len(weighted), block):
        distances = np.abs(weighted[low : low + block, None] - weighted[None]).sum(axis=2)
        most = max(most, float(distances.max()))
    return most


def least_epsilon(sensitivity: float, half_width: float, delta: float, *, continuous: bool = False) -> float:
    """Return the least epsilon whose Laplace noise is within a half-width with probability 1 - delta.

    For the continuous law it is S ln(1 / delta) / w. The discrete law that is really drawn has S / epsilon as
    its scale too. Its noise is whole: where w is whole it needs a little less; elsewhere it needs what the
    next whole number below w does, which just below a whole w is more.

    Args:
        sensitivity: S > 0 (counts).
        half_width: w (counts), 0 or more; above 0 for the continuous law.
        delta: the probability outside, in (0, 1).
        continuous: the paper's law instead of the released one.

    References:
        Xiao and Xiong 2012, Theorem 5.3; its equation 33 prints half the exponent.

    Example:
        >>> [round(least_epsilon(1.0, 100.0, 0.2, continuous=paper), 6) for paper in (True, False)]
        [0.016094, 0.016014]
    """
    sensitivity = checks.number("sensitivity", sensitivity, above=0)
    delta = checks.number("delta", delta, above=0, below=1)
    if continuous:
        return sensitivity * -math.log(delta) / checks.number("half_width", half_width, above=0)
    whole = math.floor(checks.number("half_width", half_width, at_least=0))
    # with x = exp(-1 / scale): 2 x^(whole + 1) = delta (1 + x), whose left side grows faster
    low, high = 1e-18, 1.0 - math.log(delta)  # the rate 1 / scale; the lower end has too much outside
    while high - low > 4e-16 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if _outside(whole, middle) <= delta else (middle, high)
    result = sensitivity * high
    while DiscreteLaplace(sensitivity / result).outside(whole) > delta:
        result = math.nextafter(result, math.inf)
    return result


def _outside(whole: int, rate: float) -> float:
    return 2 * math.exp(-(whole + 1) * rate) / (1 + math.exp(-rate))


def _matrix(matrix: Any) -> np.ndarray:
    rows = np.asarray(matrix, np.float64)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise ValueError(f"the matrix must hold finite numbers [rows, cells], got shape {rows.shape}.")
    return rows


def _rates(rows: np.ndarray, epsilons: Any, moves: Any) -> np.ndarray:
    moves = np.abs(rows).max(axis=1) if moves is None else np.asarray(moves, np.float64)
    spent = np.asarray(epsilons, np.float64)
    for name, array in (("epsilons", spent), ("moves", moves)):
        if array.shape != (len(rows),) or not (np.isfinite(array) & (array > 0)).all():
            raise ValueError(
                f"{name} must be {len(rows)} finite numbers > 0, one a row, got shape {array.shape}."
            )
    return np.asarray(spent / moves)
