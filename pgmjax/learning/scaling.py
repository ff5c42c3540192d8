"""Standardisation of columns to mean 0 and standard deviation 1."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Scale:
    """Shift and scale that give columns mean 0 and standard deviation 1; constant columns become 0.

    Attributes:
        mean: float64 [columns].
        deviation: float64 [columns], > 0.
    """

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Scale:
        """Return the scale of columns [rows, columns]."""
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(deviation > 0, deviation, 1.0))

    @classmethod
    def none(cls, columns: int) -> Scale:
        """Return the identity scale."""
        return cls(np.zeros(columns), np.ones(columns))

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Return scaled rows [rows, columns]."""
        return (rows - self.mean) / self.deviation

    def undo(self, rows: np.ndarray) -> np.ndarray:
        """Return unscaled rows [rows, columns]."""
        return rows * self.deviation + self.mean
