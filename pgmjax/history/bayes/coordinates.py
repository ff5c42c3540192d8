"""Queries as vectors: over all cells if they are few, else over the span of a history's rows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmjax._internal.checks import Error
from pgmjax.data.domain import Domain
from pgmjax.history import rows
from pgmjax.history.kernel.inner_products import kernel, squared_norms
from pgmjax.history.kernel.pca import KernelSpectrum
from pgmjax.history.kernel.system import NoiseCovariance
from pgmjax.history.rows import Rows
from pgmjax.queries import Query

MAX_CELLS = 4096
"""The largest number of cells of a domain that is represented cell by cell."""
_FEW_CELLS = 512
_OUTSIDE = 1e-10  # of the squared length of a query: the kernel leaves no more digits, see `Span.spans`
_NAMED = 2
_MAX_ATTRIBUTES = 6


class NotEstimableError(Error, ValueError):
    """Raised for a target that is not estimable; the message names the missing direction.

    Attributes:
        direction: the missing part of the first such target, over cells [cells]; None if it was not
            computed.
    """

    def __init__(self, message: str, direction: np.ndarray | None = None) -> None:
        super().__init__(message)
        self.direction = direction


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """All cells, row-major; `domain` names them and may be None for a plain matrix."""

    number: int
    domain: Domain | None = None

    def of(self, targets: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return targets over the cells [targets, cells], and residuals [targets], which are zero.

        Raises:
            ValueError: the number of cells is wrong, or entries are not finite.
        """
        named = isinstance(targets, Query | Rows | str)
        if named:
            if self.domain is None:
                raise ValueError(f"this history is a plain matrix: give targets as arrays of {self.number}.")
            targets = Rows.of(targets, self.domain).matrix()
        array = np.atleast_2d(np.asarray(targets, np.float64))
        if array.ndim != 2 or array.shape[1] != self.number or not np.isfinite(array).all():
            raise ValueError(
                f"targets must be finite numbers [targets, {self.number} cells], got shape "
                f"{np.shape(targets)}."
            )
        return array, np.zeros(len(array))

    def spans(self, targets: Any, which: np.ndarray, combination: np.ndarray) -> np.ndarray:
        """Return zero residuals [which]: entries were compared directly."""
        return np.ones(len(which), bool)

    def appended(self, row: Any) -> tuple[Cells, np.ndarray]:
        """Return coordinates that include one more row, which are the same, and the row's own [cells]."""
        return self, self.of(row)[0][0]

    def unseen(self, targets: Any, which: int, answered: np.ndarray) -> str:
        """Return a sentence on the attributes of a target that no answer [answers, cells] is about."""
        if self.domain is None:
            return ""
        tables = (each.reshape(-1, *self.domain.shape) for each in (self.of(targets)[0][which], answered))
        asked, known = (
            [bool(np.ptp(each, axis=k + 1).any()) for k in range(len(self.domain))] for each in tables
        )
        return _unseen(self.domain, asked, known)

    def describe(self, targets: Any, which: int, missing: np.ndarray) -> tuple[str, np.ndarray]:
        """Describe the missing direction by its largest cells, and return it [cells]."""
        order = np.argsort(-np.abs(missing), kind="stable")[:_NAMED]
        shown = [f"{missing[cell]:+.3g} x {self._name(int(cell))}" for cell in order if missing[cell]]
        more = int((missing != 0).sum()) - len(shown)
        return " ".join(shown) + (f" and {more:,} more cells" if more > 0 else ""), missing

    def _name(self, cell: int) -> str:
        if self.domain is None:
            return f"cell {cell}"
        codes = zip(self.domain, np.unravel_index(cell, self.domain.shape), strict=True)
        named = (f"{name}={self.domain.attribute(name).code_names()[code]}" for name, code in codes)
        return f"({', '.join(named)})"


@dataclasses.dataclass(frozen=True, eq=False)
class Span:
    """Orthonormal coordinates of the span of some rows, through their kernel.

    Attributes:
        rows: the spanning rows.
        transform: matrix from inner products with the rows to coordinates [coordinates, rows].
    """

    rows: Rows
    transform: np.ndarray

    @classmethod
    def by(cls, rows: Rows) -> Span:
        """Return the span of a history's rows, all weighted equally, however few cells a row covers."""
        products = kernel(rows)
        lengths = np.sqrt(np.diagonal(products))
        weights = NoiseCovariance(np.where(lengths > 0, lengths, 1.0))
        return cls(rows, KernelSpectrum.of(products, weights).weights)

    def of(self, targets: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return targets in coordinates [targets, coordinates], their squared lengths outside [targets]."""
        asked = Rows.of(targets, self.rows.domain)
        inside = kernel(asked, self.rows) @ self.transform.T
        squares = squared_norms(asked)
        outside = squares - (inside**2).sum(axis=1)
        return inside, np.where(outside > _OUTSIDE * squares, outside, 0.0)

    def spans(self, targets: Any, which: np.ndarray, combination: np.ndarray) -> np.ndarray:
        """Return whether combinations of the rows [which, rows] equal the targets in every cell [which].

        The residual of a target may be below the precision of the kernel and still contain every record.
        """
        asked = Rows.of(targets, self.rows.domain).take(which)
        return rows.is_estimable(asked, self.rows, combination)

    def appended(self, row: Any) -> tuple[Span, np.ndarray]:
        """Return coordinates that include one more row, and the row's own."""
        asked = Rows.of(row, self.rows.domain)
        inside, outside = self.of(asked)
        rows = self.rows.concatenated(asked)
        height, width = self.transform.shape
        if outside[0] == 0:
            return Span(rows, np.pad(self.transform, ((0, 0), (0, 1)))), inside[0]
        length = float(np.sqrt(outside[0]))
        transform = np.zeros((height + 1, width + 1))
        transform[:-1, :-1] = self.transform
        transform[-1, :-1] = -(inside[0] @ self.transform) / length
        transform[-1, -1] = 1 / length
        return Span(rows, transform), np.append(inside[0], length)

    def unseen(self, targets: Any, which: int, answered: np.ndarray) -> str:
        """Return a sentence on the attributes of a target that no answer is about."""
        asked = Rows.of(targets, self.rows.domain).take([which])
        return _unseen(
            self.rows.domain, *((each.index != 0).any(axis=0).tolist() for each in (asked, self.rows))
        )

    def describe(self, targets: Any, which: int, missing: np.ndarray) -> tuple[str, None]:
        """Describe the missing direction by the attributes whose joint effect is not estimable."""
        asked = Rows.of(targets, self.rows.domain).take([which])
        weights = -(self.of(asked)[0][0] - missing) @ self.transform
        every = asked.concatenated(self.rows)
        signed = np.concatenate([[1.0], weights])
        names = list(self.rows.domain)
        named = [k for k in range(len(names)) if (asked.index[:, k] != 0).any()][:_MAX_ATTRIBUTES]
        parts = []
        for size in range(len(named) + 1):
            for some in itertools.combinations(named, size):
                part = _component(every, some)
                parts.append((float(signed @ kernel(part) @ signed), some))
        parts.sort(key=lambda part: -part[0])
        total = sum(max(square, 0.0) for square, _ in parts)
        shown = [
            " x ".join(names[k] for k in some) if some else "the number of records"
            for square, some in parts
            if square > 0.01 * total or some == parts[0][1]
        ][:_NAMED]
        return "the effect of " + ", and of ".join(shown), None


def _unseen(domain: Domain, asked: Iterable[bool], known: Iterable[bool]) -> str:
    """Return a sentence on the attributes that are asked about and not known, or ""."""
    strange = [name for name, *of in zip(domain, asked, known, strict=True) if of == [True, False]]
    seen = ", ".join(itertools.compress(domain, known)) or "none"
    return f"No answer is about {', '.join(strange)}: the history has {seen}. " if strange else ""


def coordinates_of(rows: Rows) -> Cells | Span:
    """Return coordinates for a history's rows: cells if they are few, or not many more than rows."""
    size = rows.domain.size()
    written = size <= MAX_CELLS and (size <= _FEW_CELLS or 2 * rows.num_rows >= size)
    return Cells(size, rows.domain) if written else Span.by(rows)


def _component(rows: Rows, attributes: tuple[int, ...]) -> Rows:
    """Return the part of rows that varies with each of the given attributes and with no other."""
    coefficients, index, vectors = rows.coefficients.copy(), rows.index.copy(), list(rows.vectors)
    for place, table in enumerate(rows.vectors):
        means = table.mean(axis=1)
        if place in attributes:
            coefficients = np.where(index[:, place] == 0, 0.0, coefficients)
            vectors[place] = table - means[:, None]
            vectors[place][0] = 1.0
        else:
            coefficients = coefficients * means[index[:, place]]
            index[:, place] = 0
    return Rows(rows.domain, rows.num_rows, rows.owner, coefficients, index, tuple(vectors))


Coordinates = Cells | Span
