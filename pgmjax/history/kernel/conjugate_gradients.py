"""Conjugate gradients on a symmetric positive definite matrix that only multiplies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.linalg

Map = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Solved:
    """What conjugate gradients came to.

    Attributes:
        solution: [rows, columns].
        residual: the largest relative residual |b - A x| / |b| of a column, of the solution as it is.
        steps: products with the matrix before the one that tells the residual.
    """

    solution: np.ndarray
    residual: float
    steps: int


def solve(apply: Map, right: np.ndarray, precondition: Map, *, tolerance: float, max_steps: int) -> Solved:
    """Solve A x = b for several right-hand sides, each with its own steps but in common products.

    Args:
        apply: multiplies A with an array [rows, columns].
        right: b [rows, columns].
        precondition: multiplies an approximation of the inverse of A, symmetric and positive definite.
        tolerance: relative residual at which a column is done.
        max_steps: products at most.

    References:
        Hestenes and Stiefel 1952, "Methods of conjugate gradients for solving linear systems".
    """
    solution = np.zeros_like(right)
    rest = right.copy()
    size = np.maximum(np.linalg.norm(right, axis=0), np.finfo(float).tiny)
    conditioned = precondition(rest)
    direction = conditioned.copy()
    product = np.einsum("ij,ij->j", rest, conditioned)
    steps = 0
    while steps < max_steps and float(np.max(np.linalg.norm(rest, axis=0) / size)) > tolerance:
        image = apply(direction)
        curved = np.einsum("ij,ij->j", direction, image)
        length = np.divide(product, curved, out=np.zeros_like(product), where=curved > 0)
        solution += length * direction
        rest -= length * image
        conditioned = precondition(rest)
        before, product = product, np.einsum("ij,ij->j", rest, conditioned)
        turn = np.divide(product, before, out=np.zeros_like(product), where=before > 0)
        direction = conditioned + turn * direction
        steps += 1
    rest = right - apply(solution)  # what was kept up step by step drifts from it
    return Solved(solution, float(np.max(np.linalg.norm(rest, axis=0) / size)), steps)


def low_rank_inverse(columns: np.ndarray, corner: np.ndarray, shift: float) -> Map:
    """Return the inverse of an approximation of A: that by some of its columns, plus a multiple of I.

    Args:
        columns: some columns C of A [rows, chosen].
        corner: their own rows in A [chosen, chosen].
        shift: s > 0 in C corner^-1 C^T + s I.

    References:
        Williams and Seeger 2001, "Using the Nystroem method to speed up kernel machines".
    """
    values, vectors = scipy.linalg.eigh(corner, check_finite=False)
    kept = values > 1e-12 * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    factor = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
    inner = scipy.linalg.cho_factor(shift * np.eye(factor.shape[1]) + factor.T @ factor, check_finite=False)

    def inverse(array: np.ndarray) -> np.ndarray:
        solved = scipy.linalg.cho_solve(inner, factor.T @ array, check_finite=False)
        return (array - factor @ solved) / shift

    return inverse
