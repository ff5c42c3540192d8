"""A trained model that answers fresh queries: its training, the choice among learners, bounds on its error.

All of it is post-processing of released answers. A model is saved as JSON settings and NumPy arrays, never
pickle.

Bounds hold with stated confidence. `noise_bound` holds for the discrete distributions actually used: the
moment generating function is at most ``1 / (1 - (t b)**2)`` for the discrete Laplace distribution (that of
the continuous distribution of scale b) and at most ``exp(t**2 sigma**2 / 2)`` for the discrete Gaussian.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax._internal import checks, files, formats
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.learning.base import FittedLearner, Learner, restored
from pgmjax.learning.encodings import ENCODINGS, CellWeights, Encoding, as_encoding
from pgmjax.learning.learners import as_learner, as_learners
from pgmjax.learning.training_set import TrainingSet, group_cliques
from pgmjax.measurements import inputs
from pgmjax.measurements.inputs import Input
from pgmjax.measurements.linear import LinearMeasurement, over_domain
from pgmjax.measurements.noise import DiscreteNoise, read_noise
from pgmjax.queries import Query
from pgmjax.queries import text as query_text
from pgmjax.queries.workload import Workload


@dataclasses.dataclass(frozen=True, eq=False)
class Validation:
    """A query with answers that no learner is trained on.

    Args:
        query: the query.
        answers: [rows], released noisy answers or public ones (counts).
        stddevs: standard deviations of their noise, one for all or one per row; 0 for public answers.

    Raises:
        TypeError: not a query.
        ValueError: answers or standard deviations that are not finite, negative standard deviations, or a
            wrong number of them.
    """

    query: Query
    answers: np.ndarray
    stddevs: Any = 0.0

    def __post_init__(self) -> None:
        checks.kind(self.query, Query, "validation needs a query")
        answers = np.asarray(self.answers, np.float64).reshape(-1)
        stddevs = np.asarray(self.stddevs, np.float64).reshape(-1)
        checks.refuse(
            (
                stddevs.size not in (1, answers.size),
                f"a validation needs one stddev or {answers.size}, one an answer, got {stddevs.size}.",
            ),
            (
                not (np.isfinite(answers).all() and np.isfinite(stddevs).all() and (stddevs >= 0).all()),
                "the answers of a validation must be finite, their stddevs finite and >= 0.",
            ),
        )
        checks.set_fields(self, answers=answers, stddevs=np.broadcast_to(stddevs, answers.shape))

    def check(self, domain: Domain) -> None:
        """Refuse a number of answers other than the query's number of rows.

        Raises:
            ValueError: wrong number of answers, or a query that does not fit the domain.
        """
        self.query.check(domain)
        rows = self.query.num_rows(domain)
        if self.answers.size != rows:
            raise ValueError(f"a validation needs an answer a row, {rows:,}, got {self.answers.size:,}.")

    def error(self, predicted: np.ndarray) -> float:
        """Return an estimate of the mean squared error of predictions [rows] (counts squared).

        It is the mean squared difference from the noisy answers minus the variance of their noise. It is
        unbiased if the noise is independent of the predictions, and may be negative.
        """
        return float(((predicted - self.answers) ** 2 - self.stddevs**2).mean())


def best_of(predictors: Sequence[Any], validations: Sequence[Validation]) -> tuple[int, tuple[float, ...]]:
    """Return the index of the predictor with the smallest error, and all errors (root mean square, counts).

    A negative estimate of a mean squared error has root 0; ties go to the first.

    Args:
        predictors: objects with `predict(query)`, such as `Predictor`.
        validations: at least one; each is weighted by its number of rows.
    """
    rows = np.array([each.answers.size for each in validations], float)
    errors = []
    for predictor in predictors:
        found = [each.error(predictor.predict(each.query)) for each in validations]
        errors.append(float(np.dot(found, rows) / rows.sum()))
    roots = tuple(float(np.sqrt(max(0.0, error))) for error in errors)
    return int(np.argmin(errors)), roots


def noise_bound(distribution: DiscreteNoise, coefficients: np.ndarray, beta: float = 0.05) -> float:
    """Return a bound that a weighted sum of independent noises exceeds with probability at most beta.

    Args:
        distribution: distribution of each noise term.
        coefficients: [noises], the weights.
        beta: probability in (0, 1).

    Returns:
        a bound on the absolute value, in counts. With ``L = log(2 / beta)`` and |c| the Euclidean norm: for
        Laplace noise of scale b ``2 sqrt(2) b |c| sqrt(L)`` if ``L <= (|c| / max|c|)**2``, else
        ``sqrt(2) b (max|c| L + |c|**2 / max|c|)``; for Gaussian noise ``sigma |c| sqrt(2 L)``.

    References:
        Zhu et al. 2017, Lemma IV.3, whose right side lacks the square of the scale and one of two tails;
        for equal weights 1 this is P(|sum| > t) <= 2 exp(-t**2 / (8 m b**2)) for t <= 2 sqrt(2) m b. Chan,
        Shi and Song 2011, Lemma 2.8; Canonne, Kamath and Steinke 2020, for the Gaussian distribution.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> round(noise_bound(DiscreteLaplace(10.0), np.ones(100) / 100), 3)
        5.432
    """
    beta = checks.number("beta", beta, above=0, below=1)
    weights = np.abs(np.asarray(coefficients, float))
    largest, norm = float(weights.max(initial=0.0)), float(np.linalg.norm(weights))
    if largest == 0:
        return 0.0
    log = math.log(2 / beta)
    spread, limit = distribution.sub_exponential
    if 2 * log * (limit * largest) ** 2 <= spread * norm**2:
        return norm * math.sqrt(2 * spread * log)
    return limit * largest * log + spread * norm**2 / (2 * limit * largest)


def model_bound(records: int, count: int, beta: float = 0.05, hypotheses: float = 1) -> float:
    """Return a bound on the generalisation error of a model, from training queries to all queries.

    It bounds the mean absolute error over the distribution of the training queries, minus the mean absolute
    error on the training queries without noise, simultaneously for finitely many hypotheses. It does not
    apply to covering training queries, which are not random, nor to an infinite class.

    Args:
        records: the number of records; errors are between 0 and this number.
        count: the number of training queries, drawn independently.
        beta: the bound fails with at most this probability over the draw.
        hypotheses: the size of the class that the model is chosen from.

    References:
        Zhu et al. 2017, Theorem IV.2.

    Example:
        >>> round(model_bound(1000, 100), 1)
        135.8
    """
    beta = checks.number("beta", beta, above=0, below=1)
    records = checks.integer("records", records, low=0)
    count = checks.integer("count", count, low=1)
    hypotheses = checks.number("hypotheses", hypotheses, at_least=1)
    return records * math.sqrt(math.log(2 * hypotheses / beta) / (2 * count))


MAX_TRACED = 5000
"""Largest number of training answers for which error bounds of single answers are computed."""

FOLDER = files.ArrayFolder("predictor.json", formats.PREDICTOR, missing=ValueError, indent=2, newline=True)
_LEARNED = "learned."
_TAUGHT = ("encodings", "answers", "stddevs", "scales")


@dataclasses.dataclass(frozen=True, eq=False)
class Predictor:
    """Fitted learners that answer queries from released noisy answers, at no further cost.

    Attributes:
        domain: the public domain.
        encoding: the encoding of queries.
        parts: the fitted learners; a query is answered by the one with the fewest cells that covers it.
        inputs: what it was trained on, with cost and security; () if nobody stated that.
    """

    domain: Domain
    encoding: Encoding
    parts: tuple[Part, ...]
    inputs: tuple[Input, ...] = ()

    def predict(self, queries: Any) -> Any:
        """Return predicted answers.

        Args:
            queries: a query, a workload, or a list as in a workload file.

        Returns:
            float64 [rows], row-major in the order of the query's clique (counts); for a workload or a list,
            one such array per entry.

        Raises:
            ValueError: a query on attributes that no learner covers together, or that cannot be encoded.
        """
        if isinstance(queries, Query | str):
            return self._predict(query_text.asked(self.domain, queries))
        workload = queries if isinstance(queries, Workload) else Workload(queries)
        return [self._predict(entry.query) for entry in workload.entries]

    def half_widths(self, query: Query, beta: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
        """Return a bound on the noise error of each answer, and whether noise is the only error.

        Args:
            query: the query.
            beta: each bound fails with at most this probability, over the noise.

        Returns:
            bounds [rows] (counts) on the difference from the learner's prediction without noise; and [rows]
            whether that prediction is exact for any table, which holds if the learner's weights of the
            training queries add up to the encoded query. The latter is tested only for the encoding "cells"
            and is False for others.

        Raises:
            ValueError: a learner that is not linear in the training answers, training answers with different
                noise distributions, or more than `MAX_TRACED` of them.
        """
        part = self._serving(query)
        if part.distribution is None:
            raise ValueError(
                "the training answers have noise of different distributions: no bound is worked out."
            )
        encodings = self.encoding.encode(query, self.domain, part.clique)
        influence = part.influence(encodings)
        bounds = np.array([noise_bound(part.distribution, row / part.scales, beta) for row in influence])
        if not isinstance(self.encoding, CellWeights):
            return bounds, np.zeros(len(bounds), bool)
        missed = np.abs(influence @ part.encodings - encodings).max(axis=1)
        return bounds, missed <= 1e-6 * np.maximum(1.0, np.abs(encodings).max(axis=1))

    def _serving(self, query: Query) -> Part:
        """Return the part that answers a query.

        Raises:
            TypeError: not a query.
            ValueError: no learner covers the query's attributes together.
        """
        checks.kind(query, Query, "expected a query", "see pgmjax.queries")
        query.check(self.domain)
        able = [part for part in self.parts if set(query.clique) <= set(part.clique)]
        if not able:
            learned = ", ".join(str(part.clique) for part in self.parts)
            raise ValueError(
                f"no learner learned the attributes {query.clique} together; learned were {learned}. Name "
                "them in the workload of a new release."
            )
        return min(able, key=lambda part: self.domain.size(part.clique))

    def save(self, folder: str | os.PathLike[str], *, seed: int = 0) -> None:
        """Write the predictor into a folder, which `pgmjax.load` reads and which is created if necessary.

        Args:
            folder: the folder for `predictor.json` and a `part-N.npz` for each learner.
            seed: the learners' seed, for those that store no arrays and are fitted again when read.

        Raises:
            ValueError: settings that cannot be saved; nothing is written.
        """
        for part in self.parts:
            check_writable(part.fitted.learner, self.encoding)
        described: list[dict[str, Any]] = []
        stored: dict[str, dict[str, np.ndarray]] = {}
        for number, part in enumerate(self.parts):
            learned = part.fitted.arrays()
            arrays = {f"{_LEARNED}{name}": array for name, array in (learned or {}).items()}
            stored[f"part-{number}.npz"] = {name: getattr(part, name) for name in _TAUGHT} | arrays
            described.append(
                {
                    "clique": list(part.clique),
                    "learner": part.fitted.learner.to_dict(),
                    "learned": learned is not None,
                    "distribution": None
                    if part.distribution is None
                    else {"noise": part.distribution.noise, **part.distribution.parameters()},
                }
            )
        record = {
            "domain": self.domain.to_dict(),
            "encoding": self.encoding.name,
            "seed": seed,
            inputs.KEY: inputs.to_list(self.inputs),
            "parts": described,
        }
        FOLDER.write(folder, record, stored)

    def _predict(self, query: Query) -> np.ndarray:
        part = self._serving(query)
        return part.fitted.predict(self.encoding.encode(query, self.domain, part.clique))


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """One fitted learner with its training data.

    Attributes:
        clique: the attributes it answers for.
        encodings: float64 [training queries, dimensions].
        answers: the noisy training answers, divided by `scales`, float64 [training queries].
        stddevs: standard deviations of their noise, divided by `scales` [training queries].
        scales: divisors of the released answers and their noise [training queries].
        fitted: the fitted learner.
        distribution: distribution of the noise as released, if the same for all answers; else None.
    """

    clique: Clique
    encodings: np.ndarray
    answers: np.ndarray
    stddevs: np.ndarray
    scales: np.ndarray
    fitted: FittedLearner
    distribution: DiscreteNoise | None = None

    @classmethod
    def fit(
        cls,
        training_set: TrainingSet,
        measurements: Sequence[LinearMeasurement],
        learner: Learner,
        seed: int = 0,
    ) -> Part:
        """Fit a learner to the noisy answers to a training set's queries, in their order.

        Answers are weighted by one over the variance of their noise.

        Raises:
            ValueError: the number of answers differs from the number of training queries.
        """
        answers, stddevs = _scaled(training_set, measurements)
        distributions = {each.distribution for each in measurements}
        distribution = distributions.pop() if len(distributions) == 1 else None
        fitted = learner.fit(training_set.encodings, answers, weights=weights_of(stddevs), seed=seed)
        return cls(
            training_set.clique,
            training_set.encodings,
            answers,
            stddevs,
            training_set.scales,
            fitted,
            distribution,
        )

    def influence(self, encodings: np.ndarray) -> np.ndarray:
        """Return the coefficients of the training answers in each prediction [queries, training queries].

        Raises:
            ValueError: predictions that are not linear in the training answers, or too many answers.
        """
        learner = self.fitted.learner
        checks.refuse(
            (
                not learner.linear,
                f"predictions of the learner {learner.name!r} are not linear in the training answers: no "
                "bound of its noise is known; validate it.",
            ),
            (
                self.answers.size > MAX_TRACED,
                f"bounds are worked out up to {MAX_TRACED:,} training answers, there are "
                f"{self.answers.size:,}.",
            ),
        )
        # subtract the prediction for zero answers, such as a constant, which no answer influences
        weights = weights_of(self.stddevs)
        units = np.vstack([np.zeros(self.answers.size), np.eye(self.answers.size)])
        said = learner.fit(self.encodings, units, weights=weights).predict(encodings)
        return (said[1:] - said[0]).T


def _scaled(
    training_set: TrainingSet, measurements: Sequence[LinearMeasurement]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the answers to a training set's queries and the standard deviations of their noise."""
    answers = np.concatenate([each.flat_values() for each in measurements])
    stddevs = np.concatenate([each.row_stddevs() for each in measurements])
    if answers.size != len(training_set.encodings):
        raise ValueError(
            f"the training set on {training_set.clique} has {len(training_set.encodings)} training "
            f"queries, got {answers.size} answers."
        )
    return answers / training_set.scales, stddevs / training_set.scales


def learn(
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    learner: Any = "linear",
    *,
    encoding: Any = "cells",
    universe: str = "auto",
    folds: int = 5,
    seed: int = 0,
) -> tuple[Predictor, tuple[tuple[str, float], ...]]:
    """Train on noisy answers that are there already, such as those of a history: post-processing.

    Args:
        domain: the attributes.
        measurements: the noisy answers; each is weighted by one over the variance of its noise.
        learner: a name, a `learning.Learner`, or several of them, of which the one of least error in
            cross-validation is trained.
        encoding: encoding of queries as vectors, as in `mechanisms.MLDP`.
        universe: grouping of attributes for learning, see `training_set.group_cliques`.
        folds: parts of the cross-validation, >= 2.
        seed: of the learners' starts and orders, and of the parts.

    Returns:
        The trained model, and the error of each learner if there are several: the root mean square error in
        cross-validation, weighted as the answers are, of answers without noise (counts).

    Raises:
        TypeError: a learner, encoding or measurement is invalid.
        ValueError: there are no answers, fewer than folds, a query that cannot be encoded, or a number out of
            range.

    Example:
        >>> from pgmjax.queries import Product, range
        >>> noisy = [LinearMeasurement(("a",), [5.0, 7.0, 1.0, 3.0], stddev=2.0)]
        >>> predictor, _ = learn(Domain({"a": 4}), noisy)
        >>> predictor.predict(Product({"a": range(1, 2)})).round(6).tolist()
        [8.0]
    """
    learners, encoding, noisy = as_learners(learner), as_encoding(encoding), over_domain(domain, measurements)
    folds, seed = checks.integer("folds", folds, low=2), checks.integer("seed", seed, low=0)
    if not noisy:
        raise ValueError("there are no answers to learn from: give at least one.")
    groups = group_cliques([each.clique for each in noisy], domain, encoding, universe)
    taught = [[each for each in noisy if set(each.clique) <= set(clique)] for clique in groups]
    sets = [
        TrainingSet.of(clique, [each.query for each in own], encoding, domain)
        for clique, own in zip(groups, taught, strict=True)
    ]
    errors: tuple[float, ...] = ()
    if len(learners) > 1:
        parts = [(each, *_scaled(each, own)) for each, own in zip(sets, taught, strict=True)]
        errors = tuple(_cross_validated(parts, each, folds, seed) for each in learners)
    best = learners[int(np.argmin(errors)) if errors else 0]
    fitted = [Part.fit(each, own, best, seed) for each, own in zip(sets, taught, strict=True)]
    predictor = Predictor(domain, encoding, tuple(fitted), inputs.of_measurements(noisy))
    roots = [math.sqrt(max(0.0, error)) for error in errors]
    return predictor, tuple(zip([each.name for each in learners], roots, strict=True)) if errors else ()


def _cross_validated(
    parts: Sequence[tuple[TrainingSet, np.ndarray, np.ndarray]], learner: Learner, folds: int, seed: int
) -> float:
    """Return the mean squared error of predictions of answers that were held out, without their noise."""
    found, weights = [], []
    for training_set, answers, stddevs in parts:
        if len(answers) < folds:
            raise ValueError(
                f"cross-validation in {folds} parts needs as many answers about {training_set.clique}, got "
                f"{len(answers)}: name one learner, or fewer folds."
            )
        place = random.generator(seed).permutation(len(answers)) % folds
        for fold in range(folds):
            kept, held = place != fold, place == fold
            given = training_set.encodings[kept], answers[kept]
            fitted = learner.fit(*given, weights=weights_of(stddevs[kept]), seed=seed)
            missed = fitted.predict(training_set.encodings[held]) - answers[held]
            found.append((missed**2 - stddevs[held] ** 2) * training_set.scales[held] ** 2)
            weights.append((stddevs[held] * training_set.scales[held]) ** -2.0)
    return float(np.average(np.concatenate(found), weights=np.concatenate(weights)))


def train(
    domain: Domain,
    encoding: Encoding,
    training_sets: Sequence[TrainingSet],
    measurements: Sequence[LinearMeasurement],
    learners: Sequence[Learner],
    validations: Sequence[Validation],
    seed: int,
) -> tuple[Predictor, tuple[tuple[str, float], ...]]:
    """Return the trained model of the learner with the least error, and the error of each learner.

    Args:
        domain: the attributes.
        encoding: the encoding of queries.
        training_sets: the training sets.
        measurements: the noisy answers to their queries, in the same order.
        learners: the candidate learners; a single one is used without comparison.
        validations: the answers on which several learners are compared.
        seed: seed of the learners' starts and orders, which does not affect the noise.
    """
    parts, start = [], 0
    for training_set in training_sets:
        parts.append(measurements[start : start + len(training_set.queries)])
        start += len(training_set.queries)
    predictors = []
    for learner in learners:
        fitted = (
            Part.fit(training_set, part, learner, seed)
            for training_set, part in zip(training_sets, parts, strict=True)
        )
        predictors.append(Predictor(domain, encoding, tuple(fitted)))
    if len(predictors) == 1:
        return predictors[0], ()
    best, errors = best_of(predictors, validations)
    return predictors[best], tuple(zip([learner.name for learner in learners], errors, strict=True))


def weights_of(stddevs: np.ndarray) -> np.ndarray | None:
    """Return one over the variances, relative to the largest weight; None if all are equal."""
    if np.ptp(stddevs) == 0:
        return None
    return (stddevs.min() / stddevs) ** 2


def read(folder: str | os.PathLike[str]) -> Predictor:
    """Read a predictor; learners that store no arrays are fitted again to the stored answers at no cost.

    Raises:
        ValueError: no predictor, or one that is damaged or of another version.
    """
    with FOLDER.reading(folder) as contents:
        record, domain = contents.record, Domain(contents.record["domain"])
        encoding, parts = as_encoding(record["encoding"]), []
        for number, about in enumerate(record["parts"]):
            stored = contents.arrays(f"part-{number}.npz")
            width = encoding.dimensions(domain, as_clique(domain, about["clique"]))
            rows, *others = (stored.header(name).shape for name in _TAUGHT)
            if rows[1:] != (width,) or any(shape != rows[:1] for shape in others):
                raise ValueError(f"the arrays of part-{number}.npz do not fit its record, or one another.")
            parts.append(_part(dict(stored), about, record["seed"]))
        return Predictor(domain, encoding, tuple(parts), inputs.from_list(record[inputs.KEY]))


def check_writable(learner: Learner, encoding: Encoding) -> None:
    """Refuse a predictor that could not be read back.

    Raises:
        ValueError: the learner's settings cannot be saved, or the encoding is not one of this library.
    """
    learner.to_dict()
    if ENCODINGS.get(encoding.name) is not type(encoding):
        raise ValueError(
            f"the encoding {encoding.name!r} is not one of {', '.join(ENCODINGS)}: a predictor with it "
            "cannot be saved, since it could not be read back."
        )


def _part(arrays: dict[str, np.ndarray], about: dict[str, Any], seed: int) -> Part:
    learner = as_learner(about["learner"])
    encodings, answers, stddevs, scales = (arrays.pop(name) for name in _TAUGHT)
    fitted: FittedLearner
    if about["learned"]:
        learned = {name.removeprefix(_LEARNED): array for name, array in arrays.items()}
        fitted = restored(learner, learned, encodings.shape[1])
    else:
        fitted = learner.fit(encodings, answers, weights=weights_of(stddevs), seed=seed)
    noise = about["distribution"]
    distribution = None if noise is None else read_noise(noise["noise"], noise)
    return Part(tuple(about["clique"]), encodings, answers, stddevs, scales, fitted, distribution)
