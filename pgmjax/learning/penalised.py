"""Weighted least squares with a penalty on the coefficients, and the choice of that penalty."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_PENALTIES = np.logspace(-6, 6, 49)
_CONDITION = 1e-10
_SPARSE = 0.1


def least_squares(
    rows: np.ndarray, answers: np.ndarray, weights: np.ndarray, penalty: float = 0.0
) -> np.ndarray:
    """Return coefficients that minimise ``sum(weights * (rows c - answer)**2) + penalty |c|^2``.

    Args:
        rows: [queries, dimensions].
        answers: [batch, queries].
        weights: [queries], > 0.
        penalty: >= 0; at 0 of many solutions the one of least norm.

    Returns:
        float64 [batch, dimensions].
    """
    roots = np.sqrt(weights / weights.max())
    scaled, told = rows * roots[:, None], (answers * roots).T
    ridge = penalty / weights.max()
    if len(rows) < rows.shape[1]:
        return (scaled.T @ _solver(_gram(scaled), ridge)(told)).T
    solved = _solver(_gram(scaled.T), ridge)
    found = solved(scaled.T @ told)
    if ridge == 0:  # what rounding left of the normal equations
        found = found + solved(scaled.T @ (told - scaled @ found))
    return found.T


def chosen_penalty(rows: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return for each row of answers the penalty of least leave-one-out error, of a grid.

    Args:
        rows: [queries, dimensions].
        answers: [batch, queries].
        weights: [queries], > 0.

    Returns:
        float64 [batch]; the grid has 49 penalties from 1e-6 to 1e6 times the mean squared length of a row.

    References:
        Golub, Heath and Wahba 1979, "Generalized cross-validation", for the closed form.
    """
    roots = np.sqrt(weights)
    scaled, told = rows * roots[:, None], (answers * roots).T
    left, values, _ = np.linalg.svd(scaled, full_matrices=False)
    grid = _PENALTIES * max(float((scaled**2).sum()) / len(rows), np.finfo(float).tiny)
    shared = left.T @ told
    errors = []
    for penalty in grid:
        kept = values**2 / (values**2 + penalty)
        missed = told - left @ (kept[:, None] * shared)
        leverage = (left**2) @ kept
        errors.append(((missed / np.maximum(1 - leverage, 1e-12)[:, None]) ** 2).sum(axis=0))
    return grid[np.argmin(errors, axis=0)]


def _gram(rows: np.ndarray) -> np.ndarray:
    """Return rows times its transpose; trees over thousands of cells are nearly empty: minutes saved."""
    if np.count_nonzero(rows) < _SPARSE * rows.size:
        from scipy.sparse import csr_array

        few = csr_array(rows)
        return (few @ few.T).toarray()
    return rows @ rows.T


def _solver(gram: np.ndarray, ridge: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return what gives the solution of least norm of ``(gram + ridge I) x = told``."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    matrix = gram + ridge * np.eye(len(gram)) if ridge else gram
    try:
        factor = cho_factor(matrix)
        diagonal = np.diag(factor[0]) ** 2
        if diagonal.min() > _CONDITION * diagonal.max():
            return lambda told: cho_solve(factor, told)
    except LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > len(values) * np.finfo(float).eps * max(values.max(), 0.0) * 10
    return lambda told: vectors[:, kept] @ ((vectors[:, kept].T @ told) / values[kept, None])
