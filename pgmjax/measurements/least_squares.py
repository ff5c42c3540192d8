"""Generalised least squares: the unbiased combinations of noisy answers with minimal variance.

It is in this package, the lowest one with noisy linear answers and their noise, because the total, the
strategies' baselines, error bars and the inference from a history all import it.

Answers are first whitened, i.e. divided by their standard deviations. `shortest_combinations` solves for
explicit rows and finds the estimable targets. `Information` keeps the covariance of the estimates and is
updated row by row. `WhitenedAnswers` only multiplies. A linear function of a table's records is a vector in
one of two coordinate systems: `JointCells` uses every cell, `ResidualBasis` uses orthogonal parts of cliques.
Exactly known values are not rows: they are first projected out of rows and targets, see
`uncertainty.linear.Noiseless`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pgmjax.data.domain import Clique, Domain, all_subsets, in_order, marginal_of
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries.sums import transposed

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

TOLERANCE = 1e-8
"""A direction whose relative distance from the rows' span is at most this counts as inside."""

_WELL_CONDITIONED = 1e-6
_RANK = 1e-10
_ESTIMABLE = 1e-6


def shortest_combinations(
    rows: np.ndarray,
    targets: np.ndarray,
    *,
    tolerance: float = _ESTIMABLE,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the minimum-norm least-squares combinations of whitened rows for the targets.

    The squared length of a combination is the variance of its estimate.

    Args:
        rows: [rows, coordinates].
        targets: [targets, coordinates].
        tolerance: a target is estimable if its combination misses no entry by more than this fraction of
            the target's largest entry.

    Returns:
        Combinations [targets, rows], whether each target is estimable, bool [targets], and the rank of rows.

    Example:
        >>> targets = np.array([[1.0, 1.0], [1.0, 0.0]])
        >>> found, estimable, rank = shortest_combinations(np.ones((2, 2)), targets)
        >>> found[0].round(6).tolist(), estimable.tolist(), rank
        ([0.5, 0.5], [True, False], 1)
    """
    solved, _, rank, _ = np.linalg.lstsq(rows.T, targets.T, rcond=None)
    found = np.asarray(solved.T)
    # there is a solution in any case: whether it gives the target is seen from what it misses
    missed = np.abs(found @ rows - targets).max(axis=1)
    return found, missed <= tolerance * np.abs(targets).max(axis=1), int(rank)


class WhitenedAnswers:
    """Measured answers divided by their standard deviations, as linear functions of a table in coordinates.

    Attributes:
        values: the measured values divided by their standard deviations [answers].
    """

    def __init__(
        self, measurements: Sequence[LinearMeasurement], coordinates: JointCells | ResidualBasis
    ) -> None:
        self.measurements, self.coordinates = tuple(measurements), coordinates
        self.values = np.concatenate([m.flat_values() / m.row_stddevs() for m in measurements])
        self._ends = np.cumsum([m.values.size for m in measurements])

    def ask(self, vector: np.ndarray) -> np.ndarray:
        """Return the whitened rows' inner products with a vector [length]: [answers]."""
        parts = [
            np.ravel(m.query.apply(self.coordinates.table(m.query.clique, vector))) / m.row_stddevs()
            for m in self.measurements
        ]
        return np.concatenate(parts)

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Apply the transpose of `ask`: a combination of the whitened rows [length]."""
        result = np.zeros(self.coordinates.length)
        for m, part in zip(self.measurements, np.split(weights.reshape(-1), self._ends[:-1]), strict=True):
            self._add(result, m, part / m.row_stddevs())
        return result

    def matrix(self) -> np.ndarray:
        """Return the whitened rows [answers, length]."""
        result = np.zeros((self.values.size, self.coordinates.length))
        starts = self._ends - [m.values.size for m in self.measurements]
        for m, start in zip(self.measurements, starts, strict=True):
            for k, unit in enumerate(np.eye(m.values.size)):
                self._add(result[start + k], m, unit)
            result[start : start + m.values.size] /= m.row_stddevs()[:, None]
        return result

    def operator(self) -> LinearOperator:
        """Return the whitened rows as a linear operator for SciPy's solvers."""
        from scipy.sparse.linalg import LinearOperator

        shape = self.values.size, self.coordinates.length
        return LinearOperator(shape, matvec=self.ask, rmatvec=self.combine, dtype=np.float64)

    def _add(self, result: np.ndarray, measurement: LinearMeasurement, weights: np.ndarray) -> None:
        query = measurement.query
        spread = transposed(query, self.coordinates.domain, weights)
        self.coordinates.add(result, query.clique, spread)


@dataclasses.dataclass(frozen=True, eq=False)
class Information:
    """The pseudo-inverse of M = rows' rows and the projector on its null space.

    Attributes:
        inverse: the pseudo-inverse of M [coordinates, coordinates].
        null: the projector on the null space of the rows [coordinates, coordinates]; None if it is trivial.
        updates: number of rows added one by one since the last factorisation.
    """

    inverse: np.ndarray
    null: np.ndarray | None
    updates: int = 0

    @classmethod
    def of(cls, rows: np.ndarray) -> Information:
        """Factor weighted rows [rows, coordinates], by Cholesky if well conditioned, otherwise by SVD."""
        number = rows.shape[1]
        # fewer rows than coordinates leave a null space, and Cholesky fails
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
        """Return the null-space parts of targets [targets, coordinates], exactly zero if negligible."""
        if self.null is None:
            return np.zeros_like(targets)
        parts = targets @ self.null
        lengths = np.linalg.norm(targets, axis=1)
        small = np.linalg.norm(parts, axis=1) <= TOLERANCE * lengths
        return np.where(small[:, None], 0.0, parts)

    def estimate(self, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the estimate of least norm [coordinates] from the rows' weighted values, refined once."""
        first = self.inverse @ (rows.T @ values)
        return np.asarray(first + self.inverse @ (rows.T @ (values - rows @ first)))

    def combinations(self, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return weights of the weighted rows [targets, rows] that give determined targets, refined once."""
        first = rows @ (self.inverse @ targets.T)
        first += rows @ (self.inverse @ (targets.T - rows.T @ first))
        return np.asarray(first.T)

    def variances(self, targets: np.ndarray) -> np.ndarray:
        """Return the variances of the estimates of targets [targets]."""
        return np.einsum("ij,ij->i", targets @ self.inverse, targets)

    def widened(self, number: int) -> Information:
        """Return the information extended to `number` coordinates; the new ones are last and unmeasured."""
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
        # the trace is the dimension of the null space, a whole number but for rounding
        return Information(inverse, None if np.trace(null) < 0.5 else null, self.updates + 1)


def _by_cholesky(rows: np.ndarray) -> np.ndarray | None:
    """Return the inverse of the rows' Gram matrix, or None if it is nearly singular."""
    from scipy.linalg.lapack import dpocon, dpotrf, dpotri

    gram = rows.T @ rows
    scale = np.sqrt(np.diagonal(gram))
    if not gram.size or scale.min() <= 0:
        return None
    # to a unit diagonal, so that different scales of the coordinates do not count as a bad condition
    gram /= np.multiply.outer(scale, scale)
    norm = float(np.abs(gram).sum(axis=0).max())
    factor, failed = dpotrf(gram, lower=1)
    if failed or dpocon(factor, norm, uplo="L")[0] < _WELL_CONDITIONED:
        return None
    lower, failed = dpotri(factor, lower=1)
    if failed:
        return None
    # the inverse comes in the lower triangle alone
    inverse = np.tril(lower) + np.tril(lower, -1).T
    return np.asarray(inverse / np.multiply.outer(scale, scale))


@dataclasses.dataclass(frozen=True, eq=False)
class JointCells:
    """Coordinates of functions on some attributes: their values on every cell, row-major.

    Attributes:
        domain: the domain, which includes the attributes of the functions.
        names: the attributes of the functions, in the domain's order.
    """

    domain: Domain
    names: Clique

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return self.domain.shape_of(self.names)

    @property
    def length(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    def add(self, vector: np.ndarray, clique: Clique, table: np.ndarray) -> None:
        """Add a function of a clique to a vector [length]."""
        turned = table.transpose([clique.index(name) for name in in_order(self.names, clique)])
        sides = [self.domain[name] if name in clique else 1 for name in self.names]
        vector.reshape(self.shape)[...] += turned.reshape(sides)

    def table(self, clique: Clique, vector: np.ndarray) -> np.ndarray:
        """Apply the transpose of `add`: [length] to a table of the clique."""
        return np.asarray(marginal_of(self.names, vector.reshape(self.shape), clique))


@dataclasses.dataclass(frozen=True, eq=False)
class ResidualBasis:
    """Coordinates of functions on some cliques in orthogonal parts, the residual basis.

    The parts are the mean, the effect of each attribute, of each pair, and so on. A linear function of a
    table's records on a clique is a sum of effects, one for each subset of the clique; the effect of a subset
    sums to zero along each of its attributes. Functions on different cliques share the effects of their
    common subsets, so the full domain is never materialised.

    Attributes:
        domain: the attributes.
        places: the slice of coordinates of each subset of a clique, in the domain's order.
        length: number of coordinates.

    References:
        Darroch and Speed 1983, "Additive and multiplicative models and interactions".

    Example:
        >>> effects = ResidualBasis.of(Domain({"a": 2, "b": 2}), [("a", "b")])
        >>> [np.round(effects.coordinates(("a",), np.array([3.0, 1.0]))[part], 3).tolist()
        ...  for part in effects.places.values()]
        [[2.0], [0.707, -0.707], [0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """

    domain: Domain
    places: dict[Clique, slice]
    length: int

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Clique]) -> ResidualBasis:
        """Return coordinates for functions on these cliques and on their subsets."""
        places: dict[Clique, slice] = {}
        start = 0
        for clique in cliques:
            for subset in all_subsets(in_order(domain.attributes, clique)):
                if subset not in places:
                    places[subset] = slice(start, start + domain.size(subset))
                    start = places[subset].stop
        return cls(domain, places, start)

    def coordinates(self, clique: Clique, table: np.ndarray) -> np.ndarray:
        """Return a function's coordinates [length]; their squares sum to the mean square of the function.

        Args:
            clique: the attributes of the function.
            table: the function's values [size of each attribute].
        """
        result = np.zeros(self.length)
        self.add(result, clique, table)
        return result

    def add(self, vector: np.ndarray, clique: Clique, table: np.ndarray) -> None:
        """Add a function's coordinates to a vector [length]."""
        ordered = in_order(self.domain.attributes, clique)
        turned = table.transpose([clique.index(name) for name in ordered])
        for subset, part in orthogonal_parts(ordered, turned[None]).items():
            vector[self.places[subset]] += part.reshape(-1) / math.sqrt(part.size)

    def table(self, clique: Clique, vector: np.ndarray) -> np.ndarray:
        """Apply the transpose of `coordinates`: [length] to a table of the clique."""
        ordered = in_order(self.domain.attributes, clique)
        parts = {}
        for subset in all_subsets(ordered):
            shape = self.domain.shape_of(subset)
            parts[subset] = vector[self.places[subset]].reshape(shape) / math.sqrt(math.prod(shape))
        for name in reversed(ordered):
            parts = {
                subset: _joined(part, parts[(*subset, name)], len(subset))
                for subset, part in parts.items()
                if name not in subset
            }
        return parts[()].transpose([ordered.index(name) for name in clique])

    def subsets(self, clique: Clique) -> list[Clique]:
        """Return the subsets of a clique, as they are named in `places`."""
        return all_subsets(in_order(self.domain.attributes, clique))


def _joined(mean: np.ndarray, effect: np.ndarray, axis: int) -> np.ndarray:
    """The transpose of taking the mean along an axis, and the rest."""
    spread = np.expand_dims(mean, axis) / effect.shape[axis]
    return spread + effect - effect.mean(axis=axis, keepdims=True)


def orthogonal_parts(clique: Clique, tables: np.ndarray) -> dict[Clique, np.ndarray]:
    """Return the orthogonal parts of several functions of a clique, on each of its subsets.

    Args:
        clique: the attributes.
        tables: the functions [functions, size of each attribute].

    Returns:
        For each subset the mean over the other attributes, less its own means along each attribute
        [functions, size of each attribute of the subset].
    """
    parts: dict[Clique, np.ndarray] = {(): tables}
    for name in clique:  # the remaining axes come after those of the key
        split: dict[Clique, np.ndarray] = {}
        for subset, part in parts.items():
            mean = part.mean(axis=len(subset) + 1)
            split[subset] = mean
            split[(*subset, name)] = part - np.expand_dims(mean, len(subset) + 1)
        parts = split
    return parts
