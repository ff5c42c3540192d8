"""Covariances of noise that answers have in common: checked where they enter, put together on append."""

from __future__ import annotations

from typing import Any

import numpy as np

_ROUNDING = 1e-9


def checked(values: Any, stddevs: np.ndarray) -> np.ndarray | None:
    """Return a covariance as a read-only array, None for None.

    Args:
        values: covariance of the noise (counts squared) [rows, rows].
        stddevs: standard deviations that the measurements state (counts) [rows].

    Raises:
        ValueError: another shape, numbers that are not finite, not symmetric, not positive definite, or
            a diagonal that disagrees with the standard deviations.
    """
    if values is None:
        return None
    array = np.array(values, np.float64)
    rows = len(stddevs)
    if array.shape != (rows, rows):
        raise ValueError(
            f"the covariance must be of shape {(rows, rows)}, one row an answer, got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError("the covariance must be finite.")
    diagonal = np.diagonal(array)
    if (diagonal <= 0).any():
        raise ValueError("the covariance must have variances > 0: noise of scale zero cannot be weighed.")
    scale = np.sqrt(diagonal)
    if not np.allclose(scale, stddevs, rtol=1e-6, atol=0):
        raise ValueError(
            "the covariance and the measurements state different noise: its diagonal must hold the squares "
            "of their standard deviations."
        )
    correlations = array / np.multiply.outer(scale, scale)
    if np.abs(correlations - correlations.T).max(initial=0) > _ROUNDING:
        raise ValueError("the covariance must be symmetric.")
    try:
        np.linalg.cholesky((correlations + correlations.T) / 2)
    except np.linalg.LinAlgError:
        raise ValueError(
            "the covariance must be positive definite: an answer whose noise others determine cannot be "
            "weighed."
        ) from None
    array = (array + array.T) / 2
    array.flags.writeable = False
    return array


def block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    """Return the covariance of answers whose noise is independent between blocks."""
    size = sum(len(block) for block in blocks)
    result = np.zeros((size, size))
    start = 0
    for block in blocks:
        result[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return result
