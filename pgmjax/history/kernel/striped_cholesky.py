"""A Cholesky factor in stripes of rows: half the memory of the matrix, which is never whole."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import scipy.linalg

STRIPE = 2048


@dataclasses.dataclass(frozen=True, eq=False)
class StripedCholesky:
    """The lower factor L of a symmetric positive definite matrix L L^T.

    Attributes:
        starts: the first row of every stripe, and the number of rows [stripes + 1].
        stripes: L[start:stop, :stop] of every stripe, float64.
    """

    starts: tuple[int, ...]
    stripes: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, rows_of: Callable[[slice], np.ndarray], size: int, *, stripe: int = STRIPE
    ) -> StripedCholesky:
        """Factorise a matrix that is computed a stripe at a time.

        Args:
            rows_of: given the rows start..stop, returns matrix[start:stop, :stop], whose memory becomes L's.
            size: number of rows.
            stripe: number of rows at a time.

        Raises:
            numpy.linalg.LinAlgError: the matrix is not positive definite to float64.
        """
        starts = (*range(0, size, stripe), size)
        stripes: list[np.ndarray] = []
        for start, stop in itertools.pairwise(starts):
            rows = np.ascontiguousarray(rows_of(slice(start, stop)), np.float64)
            for number, earlier in enumerate(stripes):
                low, high = starts[number], starts[number + 1]
                part = rows[:, low:high] - rows[:, :low] @ earlier[:, :low].T
                rows[:, low:high] = _solve(earlier[:, low:], part.T).T
            corner = rows[:, start:] - rows[:, :start] @ rows[:, :start].T
            rows[:, start:] = scipy.linalg.cholesky(corner, lower=True, overwrite_a=True, check_finite=False)
            stripes.append(rows)
        return cls(starts, tuple(stripes))

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return (L L^T)^-1 times an array [rows] or [rows, columns]."""
        result = np.array(right, np.float64)
        ends = list(zip(self.starts[:-1], self.starts[1:], self.stripes, strict=True))
        for start, stop, rows in ends:
            result[start:stop] -= rows[:, :start] @ result[:start]
            result[start:stop] = _solve(rows[:, start:], result[start:stop])
        for start, stop, rows in reversed(ends):
            result[start:stop] = _solve(rows[:, start:], result[start:stop], trans=1)
            result[:start] -= rows[:, :start].T @ result[start:stop]
        return result


def _solve(triangle: np.ndarray, right: np.ndarray, trans: int = 0) -> np.ndarray:
    return scipy.linalg.solve_triangular(triangle, right, lower=True, trans=trans, check_finite=False)


def bytes_of(size: int, stripe: int = STRIPE) -> int:
    """Return the bytes that a factor of `size` rows needs at the most, temporary ones included."""
    return 4 * size**2 + 4 * size * stripe + 6 * 8 * stripe * max(stripe, size)
