"""Expected squared error of the matrix mechanism, by formula: no noise is drawn.

Measured are the rows of a strategy A; the workload is answered by least squares. With Laplace noise
the total expected squared error is ``(2 / epsilon^2) |A|_1^2 tr(W^T W (A^T A)^+)``, with Gaussian
noise ``(1 / (2 rho)) |A|_2^2 tr(...)``, where ``|A|_p`` is the largest norm of a column. The
functions here return what stands behind the first factor, "in units": multiply by
``2 / epsilon**2`` or ``1 / (2 rho)``. They hold for the continuous laws of the papers and add/remove
neighbours; what a release will really have is said by `HDMM.expected_errors`.

References:
    Li et al. 2015, "The matrix mechanism"; McKenna et al. 2018, "Optimizing error of high-dimensional
    statistical queries under differential privacy"; McKenna et al. 2019, section 5.
"""

from __future__ import annotations

import numpy as np

from pgmjax._internal import checks

NORMS = ("l1", "l2")
_SUPPORT = 1e-8


def column_norm(strategy: np.ndarray, norm: str) -> float:
    """Return the largest L1 or L2 norm of a column of a strategy [rows, size]."""
    checks.choice("norm", norm, NORMS)
    strategy = np.abs(np.asarray(strategy, np.float64))
    sums = strategy.sum(axis=0) if norm == "l1" else np.sqrt((strategy**2).sum(axis=0))
    return float(sums.max())


def expected_error(gram: np.ndarray, strategy: np.ndarray, norm: str = "l1") -> float:
    """Return the total expected squared error of a strategy on a workload, in units.

    Args:
        gram: ``W^T W`` of the workload [size, size].
        strategy: [rows, size].
        norm: "l1" for Laplace, "l2" for Gaussian noise.

    Raises:
        ValueError: the strategy cannot answer the workload.

    Example:
        >>> expected_error(np.eye(3), np.eye(3))
        3.0
    """
    return column_norm(strategy, norm) ** 2 * float(np.vdot(gram, inverse_gram(strategy, gram)))


def inverse_gram(strategy: np.ndarray, gram: np.ndarray | None = None) -> np.ndarray:
    """Return ``(A^T A)^+`` [size, size].

    Args:
        strategy: [rows, size].
        gram: a workload that it must be able to answer; None does not check.

    Raises:
        ValueError: the workload is not in the span of the strategy's rows.
    """
    strategy = np.asarray(strategy, np.float64)
    inner = strategy.T @ strategy
    inverse = np.linalg.pinv(inner, hermitian=True)
    if gram is not None and not supports(inner @ inverse, gram):
        raise ValueError(
            f"the strategy of {len(strategy)} rows cannot answer this workload: some of its queries are no "
            "combination of the strategy's. Add rows such as the identity."
        )
    return inverse


def supports(projection: np.ndarray, gram: np.ndarray) -> bool:
    """Return whether a workload lies in the row space that `projection` [size, size] projects on."""
    missed = gram - projection @ gram
    return bool(np.abs(missed).max() <= _SUPPORT * max(1.0, np.abs(gram).max()))


def svd_bound(gram: np.ndarray) -> float:
    """Return a lower bound for any strategy with Gaussian noise (so with Laplace noise too), in units.

    It is the squared sum of the workload's singular values over the number of cells.

    References:
        Li and Miklau 2013, "Optimal error of query sets under the differentially-private matrix
        mechanism".

    Example:
        >>> round(svd_bound(np.eye(3)), 12)
        3.0
    """
    values = np.linalg.eigvalsh(gram)
    return float(np.sqrt(np.maximum(values, 0)).sum() ** 2 / len(gram))


def root_mean_square(error: float, queries: int) -> float:
    """Return the root mean squared error of one query, from the total squared error of all."""
    return float(np.sqrt(error / queries))
