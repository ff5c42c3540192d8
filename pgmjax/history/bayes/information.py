"""The information that weighted rows hold about coordinates: its pseudo-inverse, kept up row by row."""

from __future__ import annotations

import dataclasses

import numpy as np

TOLERANCE = 1e-8
"""A direction whose share outside the rows' span is below it counts as inside."""
_WELL_CONDITIONED = 1e-6
_RANK = 1e-10


@dataclasses.dataclass(frozen=True, eq=False)
class Information:
    """The pseudo-inverse of M = rows' rows and what is missing from their span.

    Attributes:
        inverse: the pseudo-inverse of M [coordinates, coordinates].
        null: the projector on the directions that no row sees [coordinates, coordinates]; None where there
            is none.
        updates: how many rows were added one by one since the last factorisation.
    """

    inverse: np.ndarray
    null: np.ndarray | None
    updates: int = 0

    @classmethod
    def of(cls, rows: np.ndarray) -> Information:
        """Factor weighted rows [rows, coordinates]: by Cholesky where all is well determined, else SVD."""
        number = rows.shape[1]
        inverse = _by_cholesky(rows) if len(rows) >= number else None
        if inverse is not None:
            return cls(inverse, None)
        _, values, vectors = np.linalg.svd(rows, full_matrices=False)
        kept = values > _RANK * values.max(initial=0)
        vectors = vectors[kept]
        inverse = (vectors.T / values[kept] ** 2) @ vectors
        null = None if kept.sum() == number else np.eye(number) - vectors.T @ vectors
        return cls(inverse, null)

    def missing(self, targets: np.ndarray) -> np.ndarray:
        """Return the parts of targets [targets, coordinates] that no row sees, exact zeros where none is."""
        if self.null is None:
            return np.zeros_like(targets)
        parts = targets @ self.null
        lengths = np.linalg.norm(targets, axis=1)
        small = np.linalg.norm(parts, axis=1) <= TOLERANCE * lengths
        return np.where(small[:, None], 0.0, parts)

    def widened(self, number: int) -> Information:
        """Return the same about so many coordinates, the new ones last, which no row has seen."""
        new = number - len(self.inverse)
        if not new:
            return self
        inverse = np.pad(self.inverse, (0, new))
        null = np.pad(np.zeros_like(self.inverse) if self.null is None else self.null, (0, new))
        null[-new:, -new:] = np.eye(new)
        return Information(inverse, null, self.updates)

    def append(self, row: np.ndarray) -> Information:
        """Return the information with one more weighted row [coordinates], in quadratic time.

        References:
            Sherman and Morrison 1950; Meyer 1973, "Generalized inversion of modified matrices".
        """
        seen = self.inverse @ row
        unseen = self.missing(row[None])[0]
        square = float(unseen @ unseen)
        if square == 0:
            inverse = self.inverse - np.multiply.outer(seen, seen / (1 + row @ seen))
            return Information(inverse, self.null, self.updates + 1)
        assert self.null is not None
        across = np.multiply.outer(seen, unseen / square)
        inner = (1 + row @ seen) / square**2
        inverse = self.inverse - across - across.T + inner * np.multiply.outer(unseen, unseen)
        null = self.null - np.multiply.outer(unseen, unseen / square)
        return Information(inverse, None if np.trace(null) < 0.5 else null, self.updates + 1)


def _by_cholesky(rows: np.ndarray) -> np.ndarray | None:
    """Return the inverse of the rows' Gram matrix, None where it is too close to a singular one."""
    from scipy.linalg.lapack import dpocon, dpotrf, dpotri

    gram = rows.T @ rows
    scale = np.sqrt(np.diagonal(gram))
    if not gram.size or scale.min() <= 0:
        return None
    gram /= np.multiply.outer(scale, scale)
    norm = float(np.abs(gram).sum(axis=0).max())
    factor, failed = dpotrf(gram, lower=1)
    if failed or dpocon(factor, norm, uplo="L")[0] < _WELL_CONDITIONED:
        return None
    lower, failed = dpotri(factor, lower=1)
    if failed:
        return None
    inverse = np.tril(lower) + np.tril(lower, -1).T
    return np.asarray(inverse / np.multiply.outer(scale, scale))
