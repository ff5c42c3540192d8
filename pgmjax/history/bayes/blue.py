"""The best linear unbiased estimator of queries from a history of noisy answers."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from pgmjax.history.bayes.coordinates import Cells, Coordinates, NotEstimableError, coordinates_of
from pgmjax.history.bayes.inference import Inference, JointInference
from pgmjax.history.bayes.noise_sum import NoiseSum, as_distribution, as_distributions
from pgmjax.history.history import History, as_history
from pgmjax.history.kernel.system import NoiseCovariance
from pgmjax.measurements.least_squares import Information
from pgmjax.measurements.noise import ContinuousNoise, Gaussian, Laplace, NoiseDistribution

_REFACTOR = 64


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
        noise = NoiseCovariance.of([distribution.stddev for distribution in every])
        return cls._of(Cells(rows.shape[1]), rows, answers, every, noise)

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
        if history.covariance is None:
            noise = NoiseCovariance.of([distribution.stddev for distribution in distributions])
        else:
            noise = NoiseCovariance.of(None, history.covariance)
        rows = coordinates.of(history.rows)[0]
        return cls._of(coordinates, rows, history.values, distributions, noise)

    @classmethod
    def _of(
        cls,
        coordinates: Coordinates,
        rows: np.ndarray,
        values: np.ndarray,
        distributions: tuple[NoiseDistribution, ...],
        noise: NoiseCovariance,
    ) -> BestLinearUnbiased:
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
        noise = NoiseCovariance.of(np.append(self.noise.stddevs, distribution.stddev))
        values, distributions = np.append(self.values, float(value)), (*self.distributions, distribution)
        if not np.isfinite(values[-1]):
            raise ValueError("the appended answer must be finite.")
        if self.information.updates >= _REFACTOR:
            return self._of(coordinates, rows, values, distributions, noise)
        information = self.information.widened(len(entries)).append(entries / distribution.stddev)
        return BestLinearUnbiased(coordinates, rows, values, distributions, noise, information)

    @functools.cached_property
    def estimate(self) -> np.ndarray:
        """The estimate x_hat in coordinates [coordinates] (counts): the cells, if they are few.

        If the history does not determine it fully, the solution of minimum norm.
        """
        return self.information.estimate(self.noise.whiten(self.rows), self.noise.whiten(self.values))

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
            method: how the distribution is computed, see `history.distribution_of`.
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
