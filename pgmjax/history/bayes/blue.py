"""The best linear unbiased estimator of queries from a history of noisy answers.

Queries are vectors in one of two coordinate systems: over all cells if they are few (`Cells`), else over the
span of the history's rows (`Span`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.checks import Error
from pgmjax.data.domain import Domain
from pgmjax.history import rows
from pgmjax.history.bayes.distribution import NoiseSum, as_distribution, as_distributions
from pgmjax.history.bayes.inference import Inference, JointInference
from pgmjax.history.history import History, as_history, contradiction
from pgmjax.history.kernel.inner_products import kernel, squared_norms
from pgmjax.history.kernel.pca import KernelSpectrum, NoiseCovariance
from pgmjax.history.rows import Rows
from pgmjax.measurements.least_squares import Information
from pgmjax.measurements.noise import ContinuousNoise, Gaussian, Laplace, NoiseDistribution
from pgmjax.queries import Query

MAX_CELLS = 4096
"""The largest number of cells of a domain that is represented cell by cell."""
_FEW_CELLS = 512
_OUTSIDE = 1e-10  # of the squared length of a query: the kernel leaves no more digits, see `Span.spans`
_NAMED = 2
_MAX_ATTRIBUTES = 6
_FARTHEST = 1e6  # ratio of standard deviations up to which answers are compared with what all say


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
        # rows of one length: the rank cut would else drop those that cover few cells
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
        # a step of Gram and Schmidt: the new direction is what the row has outside the span, at length 1
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


REFACTOR = 64
"""The estimator is factorised anew after this many answers were appended."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BestLinearUnbiased:
    """Answers to any query from noisy answers y = H x + noise, by generalised least squares.

    Answers are weighted by the inverse covariance of their noise. Error distributions, interval widths and
    estimability depend only on H and the noise distributions, not on y.

    Attributes:
        coordinates: maps queries to vectors.
        rows: H in coordinates [answers, coordinates].
        values: y [answers] (counts).
        distributions: the distribution of every answer's noise [answers].
        noise: the covariance of the noise.
        information: the pseudo-inverse of H' Sigma^-1 H.

    References:
        Xiao and Xiong 2012, Section 3, Theorem 3.1.

    Example:
        >>> blue = BestLinearUnbiased.from_matrix([[1, 1], [1, 0], [0, 1]], [10, 4, 3], 2.0, continuous=True)
        >>> blue.estimate.round(6).tolist(), round(blue.answer([1, 1]).value, 6)
        ([5.0, 4.0], 9.0)
    """

    coordinates: Coordinates
    rows: np.ndarray
    values: np.ndarray
    distributions: tuple[NoiseDistribution, ...]
    noise: NoiseCovariance
    information: Information

    @classmethod
    def from_matrix(
        cls, matrix: Any, values: Any, distributions: Any, *, continuous: bool = False
    ) -> BestLinearUnbiased:
        """Return the estimator for explicit query rows over cells.

        Args:
            matrix: H [answers, cells].
            values: y [answers] (counts).
            distributions: the distribution of each answer's noise [answers], or one for all; a number is the
                scale of a discrete Laplace distribution (counts), sensitivity over epsilon.
            continuous: use the papers' continuous distributions of the same families and scales.

        Raises:
            ValueError: shapes do not match, or numbers are not finite.
        """
        rows = np.asarray(matrix, np.float64)
        if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
            raise ValueError(f"the matrix must hold finite numbers [answers, cells], got shape {rows.shape}.")
        answers = np.asarray(values, np.float64)
        if answers.shape != (len(rows),) or not np.isfinite(answers).all():
            raise ValueError(f"expected {len(rows)} finite answers, one a row, got shape {answers.shape}.")
        every = tuple(as_distributions("row", distributions, len(rows), continuous))
        return cls._of(Cells(rows.shape[1]), rows, answers, every)

    @classmethod
    def of(cls, history: History, *, continuous: bool = False) -> BestLinearUnbiased:
        """Return the estimator for a history.

        Args:
            history: queries, answers and noise.
            continuous: use continuous distributions: of the same scales if the distributions are known, else
                of the family and standard deviation stated by the measurements.

        Raises:
            ValueError: distributions are unknown, or the noise is correlated and not Gaussian, so that the
                distributions of its sums are unknown.
        """
        coordinates = coordinates_of(as_history(history).rows)
        distributions = _distributions(history, continuous)
        rows = coordinates.of(history.rows)[0]
        return cls._of(coordinates, rows, history.values, distributions, history.covariance)

    @classmethod
    def _of(
        cls,
        coordinates: Coordinates,
        rows: np.ndarray,
        values: np.ndarray,
        distributions: tuple[NoiseDistribution, ...],
        covariance: np.ndarray | None = None,
    ) -> BestLinearUnbiased:
        stddevs = [distribution.stddev for distribution in distributions]
        if 0 in stddevs:  # a discrete distribution of a tiny scale
            raise ValueError(
                f"answer {stddevs.index(0) + 1} of {len(stddevs):,} has noise that is 0: estimates need some "
                "on each answer, such as continuous=True has for a tiny scale."
            )
        noise = NoiseCovariance.of(stddevs, covariance)
        return cls(coordinates, rows, values, distributions, noise, Information.of(noise.whiten(rows)))

    def append(
        self, row: Any, value: float, distribution: Any, *, continuous: bool = False
    ) -> BestLinearUnbiased:
        """Return the estimator with one more answer, in time quadratic in the coordinates.

        Args:
            row: a query of one row, or its entries [cells].
            value: its noisy answer (counts).
            distribution: the distribution of its noise, independent of the others', as in `from_matrix`.
            continuous: use the continuous distribution of the same family and scale.

        Raises:
            ValueError: the query has several rows or the wrong number of cells, or existing noise is
                correlated.
        """
        if not self.noise.independent:
            raise ValueError(
                "rows are appended to independent noise only: append to the history, BestLinearUnbiased.of "
                "it."
            )
        distribution = as_distribution("the appended answer", distribution, continuous)
        coordinates, entries = self.coordinates.appended(row)
        rows = np.pad(self.rows, ((0, 1), (0, len(entries) - self.rows.shape[1])))
        rows[-1] = entries
        values, distributions = np.append(self.values, float(value)), (*self.distributions, distribution)
        if not np.isfinite(values[-1]):
            raise ValueError("the appended answer must be finite.")
        # every update adds to the rounding error
        if self.information.updates >= REFACTOR:
            return self._of(coordinates, rows, values, distributions)
        noise = NoiseCovariance.of(np.append(self.noise.stddevs, distribution.stddev))
        information = self.information.widened(len(entries)).append(entries / distribution.stddev)
        return BestLinearUnbiased(coordinates, rows, values, distributions, noise, information)

    @functools.cached_property
    def estimate(self) -> np.ndarray:
        """The estimate x_hat in coordinates [coordinates] (counts): the cells, if they are few.

        If the history does not determine it fully, the solution of minimum norm. A warning tells of answers
        that their noise cannot explain.
        """
        found = self.information.estimate(self.noise.whiten(self.rows), self.noise.whiten(self.values))
        stddevs = self.noise.stddevs
        # further apart, squares of them miss the more exact answers by rounding
        near = stddevs.max(initial=0.0) < _FARTHEST * stddevs.min(initial=np.inf)
        if near and (told := contradiction(self.values, self.rows @ found, stddevs)):
            checks.warn(told)
        return found

    def combination(self, targets: Any, *, biased: bool = False) -> np.ndarray:
        """Return A [targets, answers] so that A y are the unbiased estimates of least variance.

        Args:
            targets: a query, `Rows`, or entries [targets, cells].
            biased: for a target that is not estimable, use the minimum-norm estimate instead of raising.

        Raises:
            NotEstimableError: (a ValueError) the history does not determine a target; the message names the
                missing direction.
        """
        return self._combination(self._vectors(targets, biased))

    def is_estimable(self, targets: Any) -> np.ndarray:
        """Return whether each target is estimable from the history, bool [targets]."""
        return self._seen(targets)[2]

    def answer(self, target: Any, *, biased: bool = False, method: str = "auto", **options: Any) -> Inference:
        """Return the estimate of one query with the distribution of its error.

        Args:
            target: a query of one row, or its entries [cells].
            biased: as in `combination`; the distribution then covers the noise alone, without the bias.
            method: how the distribution is computed: `auto`, `characteristic`, `convolution` or
                `monte-carlo`, see `history.bayes.inference.distribution_of`.
            options: options of the method.

        Raises:
            NotEstimableError: as in `combination`.
            ValueError: the query has several rows.
        """
        combination = self.combination(target, biased=biased)
        if len(combination) != 1:
            raise ValueError(f"answer takes a query of one row, got {len(combination)}: use answers.")
        known = not biased or bool(self.is_estimable(target)[0])
        value = float(combination[0] @ self.values)
        return Inference(value, self._distribution(combination[0]), method, options, not known)

    def answers(self, targets: Any, *, biased: bool = False) -> JointInference:
        """Return the estimates of several queries with the joint distribution of their errors."""
        if not self.noise.independent:
            raise ValueError("joint distributions need independent noise: ask for one answer after another.")
        combination = self.combination(targets, biased=biased)
        unknown = ~self.is_estimable(targets) if biased else None
        return JointInference(combination @ self.values, combination, self.distributions, unknown)

    def variances(self, targets: Any, *, biased: bool = False) -> np.ndarray:
        """Return the variances of the estimates [targets] (counts squared), without their distributions."""
        vectors = self._vectors(targets, biased)
        return self.information.variances(vectors)

    def _combination(self, vectors: np.ndarray) -> np.ndarray:
        """Return A [targets, answers] for estimable vectors, with one step of refinement."""
        weights = self.information.combinations(self.noise.whiten(self.rows), vectors)
        return np.asarray(self.noise.whiten_transposed(weights.T).T)

    def _seen(self, targets: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return targets in coordinates, their unobserved parts, and the mask of estimable ones [targets]."""
        vectors, outside = self.coordinates.of(targets)
        missing = self.information.missing(vectors)
        seen = np.asarray((outside == 0) & ~missing.any(axis=1))
        which = np.flatnonzero(seen)
        if which.size:
            seen[which] = self.coordinates.spans(targets, which, self._combination(vectors[which]))
        return vectors, missing, seen

    def _distribution(self, combination: np.ndarray) -> NoiseSum:
        if self.noise.independent:
            return NoiseSum(combination, self.distributions)
        # all of it is Gaussian, see `_distributions`, and so is any combination, of variance c' S c
        return NoiseSum([1.0], [Gaussian(float(np.sqrt(combination @ self.noise.apply(combination))))])

    def _vectors(self, targets: Any, biased: bool) -> np.ndarray:
        vectors, missing, seen = self._seen(targets)
        wrong = np.flatnonzero(~seen)
        if biased or not wrong.size:
            return vectors - missing
        first = int(wrong[0])
        said, direction = self.coordinates.describe(targets, first, missing[first])
        unseen = self.coordinates.unseen(targets, first, self.rows)
        example = "" if unseen else f" Of target {first} they do not tell {said}."
        raise NotEstimableError(
            f"{unseen}{wrong.size} of {len(vectors)} targets cannot be estimated from these "
            f"{len(self.values)} answers. Ask for what is missing, or give biased=True for the estimate of "
            f"least norm.{example}",
            direction,
        )

    def __repr__(self) -> str:
        return f"BestLinearUnbiased({len(self.values):,} answers, {self.rows.shape[1]:,} coordinates)"


def _distributions(history: History, continuous: bool) -> tuple[NoiseDistribution, ...]:
    distributions: list[NoiseDistribution] = []
    for measurement in history.measurements:
        gaussian = measurement.noise == "gaussian"
        correlated = history.covariance is not None
        if correlated and not gaussian:
            raise ValueError(
                "the history has a covariance of its noise, and that of the measurement on "
                f"{measurement.clique} is not Gaussian: the distributions of sums of correlated noise are "
                "known where all of it is Gaussian. KernelPCA gives their variances."
            )
        if measurement.distribution is not None and not correlated:
            distributions += [
                as_distribution("a measurement", measurement.distribution, continuous)
            ] * measurement.values.size
        elif continuous or correlated:
            spreads = measurement.row_stddevs()
            kind: type[ContinuousNoise] = Gaussian if gaussian else Laplace
            distributions += [kind.of_stddev(float(s)) for s in spreads]
        else:
            raise ValueError(
                f"the distribution of the noise of the answers on {measurement.clique} is not known, and a "
                "standard deviation does not tell it: write LinearMeasurement.released(query, "
                "values, privacy.DiscreteLaplace(scale)), or History.from_answers(..., distribution=...), or "
                "BestLinearUnbiased.of(history, continuous=True)."
            )
    return tuple(distributions)
