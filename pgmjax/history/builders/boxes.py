"""Truth tables as sums of few products of one vector an axis.

A table that is no product is sliced along an axis. Slices that are whole-number combinations of others
need no terms of their own: a table of two axes takes as many terms as its rank, and "a or b or c", whose
complement is a box, takes two. Coefficients and entries stay whole, so that what is built may be measured.
"""

from __future__ import annotations

import numpy as np

Term = tuple[int, tuple[np.ndarray, ...]]
"""A coefficient, and a vector of whole numbers for each axis."""

_ALL_AXES = 6
"""Tables of more axes are sliced along the axis with the fewest different slices only."""


class Decomposer:
    """Splits truth tables into products, and remembers those it has met."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bytes], list[Term]] = {}

    def terms(self, table: np.ndarray) -> list[Term]:
        """Return terms whose sum is a table of zeros and ones (int64); few, by no means always the fewest.

        Example:
            >>> either = np.array([[0, 1], [1, 1]])
            >>> [coefficient for coefficient, _ in Decomposer().terms(either)]
            [1, -1]
        """
        key = (table.shape, np.packbits(table.astype(bool)).tobytes())
        if key not in self._known:
            self._known[key] = self._split(table)
        return self._known[key]

    def _split(self, table: np.ndarray) -> list[Term]:
        if not table.any():
            return []
        box = _box(table)
        if box is not None:
            return [(1, box)]
        outside = _box(1 - table)
        if outside is not None:
            return [(1, _ones(table.shape)), (-1, outside)]
        best: list[Term] | None = None
        for axis in _axes(table):
            for constant in (False, True):
                found = self._sliced(table, axis, constant)
                best = found if best is None or len(found) < len(best) else best
                if len(best) == 2:
                    return best
        assert best is not None
        return best

    def _sliced(self, table: np.ndarray, axis: int, constant: bool) -> list[Term]:
        """Return the terms of a basis of the slices, with how often each slice holds each of them."""
        slices = np.moveaxis(table, axis, 0)
        flat = slices.reshape(len(slices), -1)
        candidates = sorted(np.unique(flat, axis=0), key=lambda row: _box(_shaped(row, slices)) is None)
        if constant:
            candidates.insert(0, np.ones(flat.shape[1], np.int64))
        basis, coefficients = _basis(np.stack(candidates), flat)
        result: list[Term] = []
        for row, weights in zip(basis, coefficients.T, strict=True):
            if weights.any():
                for number, vectors in self.terms(_shaped(row, slices)):
                    result.append((number, (*vectors[:axis], weights, *vectors[axis:])))
        return result


def _shaped(row: np.ndarray, slices: np.ndarray) -> np.ndarray:
    return row.reshape(slices.shape[1:])


def _ones(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.ones(size, np.int64) for size in shape)


def _box(table: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """Return the vectors whose product a table is, if it is one."""
    if not table.ndim:
        return () if table.all() else None
    sides = []
    for axis in range(table.ndim):
        others = tuple(k for k in range(table.ndim) if k != axis)
        sides.append(np.asarray(table.any(axis=others), np.int64))
    count = 1
    for side in sides:
        count *= int(side.sum())
    return tuple(sides) if count and count == int(table.sum()) else None


def _axes(table: np.ndarray) -> list[int]:
    axes = [axis for axis in range(table.ndim) if table.shape[axis] > 1]
    if len(axes) <= _ALL_AXES:
        return axes
    different = [len(np.unique(np.moveaxis(table, k, 0).reshape(table.shape[k], -1), axis=0)) for k in axes]
    return [axes[int(np.argmin(different))]]


def _basis(candidates: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return candidates of which all rows are whole-number combinations, and the numbers [rows, basis]."""
    kept: list[np.ndarray] = []
    for candidate in candidates:
        if candidate.any() and _combination(kept, candidate) is None:
            kept.append(candidate)
    numbers = np.zeros((len(rows), len(kept)), np.int64)
    for place, row in enumerate(rows):
        found = _combination(kept, row)
        numbers[place] = [np.array_equal(row, each) for each in kept] if found is None else found
    return np.stack(kept), numbers


def _combination(basis: list[np.ndarray], row: np.ndarray) -> np.ndarray | None:
    if not row.any():
        return np.zeros(len(basis), np.int64)
    if not basis:
        return None
    matrix = np.stack(basis)
    numbers = np.rint(np.linalg.lstsq(matrix.T.astype(float), row.astype(float), rcond=None)[0])
    whole = numbers.astype(np.int64)
    return whole if np.array_equal(whole @ matrix, row) else None
