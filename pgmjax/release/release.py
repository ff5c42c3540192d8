"""A release of a mechanism: the model, the noisy answers behind it, and what was spent on them.

A `TrainedRelease` answers with a trained model, and has bounds on its errors.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks, html
from pgmjax.data.domain import Clique, Domain, differing
from pgmjax.data.population import WHOLE, Population
from pgmjax.data.relation import Relation, Unit
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.learning.predictor import Predictor, model_bound, noise_bound
from pgmjax.measurements.inputs import MEASURED, Input, are_secure, merged, with_inputs
from pgmjax.measurements.linear import LinearMeasurement, spread_of
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.measurements.transcript import Transcript
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.exact import as_text
from pgmjax.queries import Query
from pgmjax.queries.spec import in_words
from pgmjax.queries.workload import Workload
from pgmjax.release.accuracy import CountEstimates, NoisyDistance, ReleaseAccuracy, accuracy_of
from pgmjax.release.analysis import Analysed
from pgmjax.release.asked import AskedModel
from pgmjax.release.folder import SyntheticRows, write
from pgmjax.release.statement import Spent, check_addable, not_secure, of_epsilon, of_inputs
from pgmjax.strategies import global_least_squares, local_least_squares

ANSWERS = ("engine", "local", "global")


def distances_between(one: Any, other: Any, cliques: Sequence[Clique]) -> list[float]:
    """Return the L1 distances between the marginals of two models (counts)."""
    if not cliques:
        return []
    pairs = zip(AskedModel.of(one).marginals(cliques), AskedModel.of(other).marginals(cliques), strict=True)
    return [float(np.abs(np.asarray(a) - np.asarray(b)).sum()) for (_, a), (_, b) in pairs]


def check_prior(earlier: Any, domain: Domain) -> None:
    """Refuse an earlier model that is none, or is of another domain; see `Release.with_prior`."""
    own = "give its model" if hasattr(earlier, "model") else "give pgmjax.load(folder).model"
    checks.kind(earlier, GraphicalModel, "The prior must be a GraphicalModel", own)
    if earlier.domain != domain:
        raise ValueError(
            "The earlier release has another domain, so it cannot be the prior. They differ in "
            f"{differing(domain, earlier.domain)}. Use the domain of that release."
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Release(Analysed):
    """A private release; all of it may be published if `secure` is True.

    Attributes:
        mechanism: command-line name of the mechanism.
        domain: the public domain.
        workload: the requested workload.
        model: the fitted model.
        fit: the fit with its certificate (status, steps, loss, gap).
        measurements: the noisy answers as released, values int64.
        epsilon: the requested epsilon.
        delta: the requested delta.
        inputs: what all of it was computed from: the answers of this run, which cost no more than requested,
            a prior and public facts. Of them follow `spent`, `secure` and the statement.
        relation: the neighbouring relation.
        seed: the seed of insecure noise; None for secure noise.
        weighted: whether records had weights; the model's total is then their total weight.
        max_weight: public bound on a record's weight; 1 without weights.
        ledger: account, key and number of the charge in a ledger, and the head of its chain; None if the
            spend was not recorded in a ledger.
        transcript: draws and records of a game-based mechanism, which measures nothing; None otherwise.
        answered_by: how the workload is answered, one of `ANSWERS`. The model exists in every case.
        unit: the unit of privacy; None for one record.
        population: the records that all counts and shares are of.
        discovery: what was found of the domain, at what part of the cost; None if the domain was given.
        distances: noisy distances of marginals from models on the way, which an adaptive mechanism
            published to choose what to measure; the last one of each marginal.

    Guarantees:
        (spent.epsilon, spent.delta)-differential privacy under `relation` for all parts together,
        provided that `secure` is True and the domain was not derived from the table.
    """

    mechanism: str
    domain: Domain
    workload: Workload
    model: GraphicalModel
    fit: Fit
    measurements: tuple[LinearMeasurement, ...]
    epsilon: Fraction
    delta: Fraction
    inputs: tuple[Input, ...]
    relation: Relation
    seed: int | None
    weighted: bool = False
    max_weight: int = 1
    ledger: Mapping[str, Any] | None = None
    transcript: Transcript | None = None
    answered_by: str = "engine"
    discovery: Mapping[str, Any] | None = None
    unit: Unit | None = None
    distances: tuple[NoisyDistance, ...] = ()
    population: Population = WHOLE

    @property
    def spent(self) -> Spent:
        """The cost of all inputs together."""
        return Spent.of(self.inputs)

    @property
    def secure(self) -> bool:
        """True if the noise of each input is from a vetted sampler and cannot be reproduced."""
        return are_secure(self.inputs)

    @property
    def own(self) -> tuple[Input, ...]:
        """The answers of this run, of `inputs`."""
        return tuple(each for each in self.inputs if each.role == MEASURED)

    def with_prior(self, earlier: GraphicalModel, estimator: Estimator | None = None) -> Release:
        """Return this release with another model: of those that fit best, the nearest to an earlier one.

        Nearest is the one of least relative entropy to it, so that what was not measured this time follows
        the earlier release.

        Args:
            earlier: the model of an earlier release, over the same domain. What it was computed from becomes
                an input of this release; a model without inputs is taken to be public.
            estimator: how to fit. Default: `Estimator()`.

        Raises:
            TypeError: `earlier` is no graphical model.
            ValueError: another domain, another relation or unit, a release without measurements, or a model
                that does not fit in memory.

        Guarantees:
            This is post-processing of both releases: their costs add up, and it is secure if both are.
        """
        check_prior(earlier, self.domain)
        check_addable(earlier.inputs, self.relation, self.unit)
        if not self.measurements or type(self) is not Release:
            raise ValueError(
                f"A release of {self.mechanism} cannot have a prior, because it is not fitted to "
                "measurements."
            )
        estimator = Estimator() if estimator is None else estimator
        fit = estimator.fit(self.domain, self.measurements, self.model.total, prior=earlier)
        moved = distances_between(fit.model, self.model, [each.clique for each in self.distances])
        distances = tuple(
            dataclasses.replace(each, changed=each.changed + more)
            for each, more in zip(self.distances, moved, strict=True)
        )
        inputs = merged(self.inputs, fit.model.inputs)
        fit = dataclasses.replace(fit, model=with_inputs(fit.model, inputs))
        return dataclasses.replace(self, model=fit.model, fit=fit, inputs=inputs, distances=distances)

    def answers(self, answered_by: str | None = None) -> list[np.ndarray]:
        """Return the answers to the workload, computed from released numbers at no further cost.

        Args:
            answered_by: "engine" (the model), "local" (each entry by least squares from the measurement that
                answers it best) or "global" (all entries by least squares from one vector of cells).
                Default: the release's own `answered_by`.

        Returns:
            One float64 array [rows] per entry, row-major in the order of its clique (counts).

        Raises:
            ValueError: `answered_by` is unknown; for "local", no single measurement answers an entry; for
                "global", there are more cells than the limit.
        """
        chosen = (
            self.answered_by if answered_by is None else checks.choice("answered_by", answered_by, ANSWERS)
        )
        if chosen == "local":
            return local_least_squares(self.domain, self.workload, self.measurements)
        if chosen == "global":
            return global_least_squares(self.domain, self.workload, self.measurements)
        found = (self.asked.answer(entry.query) for entry in self.workload.entries)
        return [np.asarray(answer, np.float64).reshape(-1) for answer in found]

    @property
    def total_public(self) -> bool:
        """True if the model's total is the public number of records, False if it is an estimate."""
        return self.relation is Relation.REPLACE_ONE and not self.weighted

    @functools.cached_property
    def asked(self) -> AskedModel:
        """The model, whose marginals are computed once for all parts of the release."""
        return AskedModel.of(self.model)

    @functools.cached_property
    def estimates(self) -> CountEstimates:
        """Unbiased answers from the measurements, with intervals; whatever is factored is factored once."""
        return CountEstimates(
            self.domain, self.measurements, float(self.model.total) if self.total_public else None
        )

    @functools.cached_property
    def count_accuracy(self) -> ReleaseAccuracy:
        """The accuracy of every column, and of every measured or requested table, from released numbers."""
        cliques = self.workload.cliques
        return accuracy_of(self.asked, self.estimates, cliques, self.distances, self.population)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the release as a folder, as `pgmjax release` does; `pj.load` opens it.

        Args:
            folder: the folder to make; it must not exist.

        Raises:
            ValueError: it exists.
        """
        write(self, folder, rows=SyntheticRows(1 if self.weighted else None))

    def _neighbours(self) -> str:
        """Return the difference between neighbouring tables, as a clause that follows "if"."""
        if self.unit is not None:
            weight = f", each of weight at most {self.max_weight:,}," if self.weighted else ""
            return self.unit.change(self.relation).replace(" are ", f"{weight} are ", 1)
        if not self.weighted:
            return self.relation.change
        bound = f"{self.max_weight:,},"
        if self.relation is Relation.ADD_REMOVE:
            return f"one record, of weight at most {bound} is added to the table or removed from it"
        return f"the values of one record in the table (its weight, at most {bound} among them) are changed"

    def _public(self) -> str:
        """Return a sentence about what is published exactly."""
        if self.relation is Relation.ADD_REMOVE:
            return ""
        if self.weighted:
            return "The number of records is taken to be public; their weights and total weight are private. "
        return f"The number of records{' that count' * (self.unit is not None)} is public. "

    def statement(self) -> str:
        """Return the privacy guarantee in plain sentences, for the person responsible for the data."""
        degree = f"epsilon = {as_text(self.spent.epsilon)}"
        if self.spent.delta:
            degree += f" and delta = {as_text(self.spent.delta)}"
        promise = (
            f"This release is differentially private with {degree}: if {self._neighbours()}, "
            f"the probability of any result changes at most by a factor of exp({as_text(self.spent.epsilon)})"
        )
        apart = f", apart from a probability of {as_text(self.spent.delta)}" if self.spent.delta else ""
        promise += f"{apart}. "
        promise += f"{of_epsilon(self.spent.epsilon, self.spent.delta, self.model.total)} {self._public()}"
        made = f"It was made by the mechanism {self.mechanism!r} from {self._source()}. "
        made += f"All its counts and shares are of {self.population}. "
        made += "".join(f"{said} " for said in self.population.of_left_out())
        if named := of_inputs(self.inputs):
            made += f"{named} "
        if self.secure:
            return promise + made + "The noise came from a vetted sampler and cannot be repeated."
        warning = f"{not_secure(self.inputs)} With secure noise the following would hold. "
        return warning + promise + made.rstrip()

    def _source(self) -> str:
        """Return a short description of the data the release was made from."""
        if self.transcript is not None:
            return f"{self.transcript.drawn.size:,} random choices of queries, which it lists"
        rows = sum(measurement.values.size for measurement in self.measurements)
        distributions = sorted({measurement.noise for measurement in self.measurements})
        if distributions == ["response"]:
            return f"{rows:,} counts of what the records answered for themselves by randomised response"
        named = " or ".join(map(str.capitalize, distributions))
        return f"{rows:,} counts, each released with discrete {named} noise"

    def __repr__(self) -> str:
        mark = (
            "secure" if self.secure else "NOT SECURE" + ("" if self.seed is None else f", seed {self.seed}")
        )
        return (
            f"Release({self.mechanism}: {self.spent}, {self.relation.value}, {mark}; "
            f"{len(self.measurements)} measurements, {len(self.domain)} attributes)"
        )

    def _repr_html_(self) -> str:
        facts = {"mechanism": self.mechanism, **self.spent.to_dict(), "neighbours": self.relation.value}
        rows = (
            (", ".join(m.clique), in_words(m.query), m.values.size, m.noise, spread_of(m))
            for m in self.measurements
        )
        header = ("attributes", "query", "values", "noise", "standard deviation")
        listed = html.table(header, rows, len(self.measurements)) if self.measurements else ""
        return html.card("Release", facts, html.note(self.statement()), listed)


@dataclasses.dataclass(frozen=True)
class TrainingAccuracy:
    """A priori error bounds of a model trained on noisy answers.

    Attributes:
        clique: attributes of the training queries.
        count: number of training queries.
        distribution: distribution of their noise.
        mean_noise: bound that the absolute mean of their noise exceeds with probability at most beta (counts;
            for queries with integer weights, divided by the largest weight).
        model: bound that the mean absolute error on all queries, minus that on the noiseless training
            queries, exceeds with probability at most beta (counts); None if the training queries were not
            drawn at random.
    """

    clique: Clique
    count: int
    distribution: DiscreteNoise
    mean_noise: float
    model: float | None


@dataclasses.dataclass(frozen=True, repr=False)
class TrainedRelease(Release):
    """A release with a trained model in addition to the engine's model.

    Attributes:
        predictor: the trained model; None only before training.
        training: number of leading measurements that are of training queries; the others are of validation
            queries.
        drawn: whether the training queries were drawn at random.
        selection: names of the learners that were tried, and the root mean square error of each on the
            validation queries (counts).
        training_seed: the learner's seed, with which training can be repeated; no noise was drawn from it.
        answered_by: "learner", or one of `ANSWERS`.

    Guarantees:
        Same as `Release`: predictions are post-processing of the measurements.
    """

    answered_by: str = "learner"
    predictor: Predictor | None = None
    training: int = 0
    drawn: bool = False
    selection: tuple[tuple[str, float], ...] = ()
    training_seed: int = 0

    def answers(self, answered_by: str | None = None) -> list[np.ndarray]:
        """Return the answers to the workload, computed from released numbers at no further cost.

        Args:
            answered_by: "learner" (the trained model), or "engine", "local" or "global" as in
                `Release.answers`. Default: the release's own `answered_by`.

        Returns:
            One float64 array [rows] per entry, row-major in the order of its clique (counts).

        Raises:
            ValueError: `answered_by` is unknown, or see `Release.answers`.
        """
        chosen = self.answered_by if answered_by is None else answered_by
        return self.predict(self.workload) if chosen == "learner" else super().answers(chosen)

    @property
    def _learned(self) -> Predictor | None:
        return self._trained() if self.answered_by == "learner" else None

    def predict(self, queries: Any) -> Any:
        """Return the trained model's answers to new queries at no further cost; see `Predictor.predict`."""
        return self._trained().predict(queries)

    def half_widths(self, query: Query, beta: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds on the noise in predicted answers; see `Predictor.half_widths`."""
        return self._trained().half_widths(query, beta)

    def accuracy(self, beta: float = 0.05, hypotheses: float = 1) -> tuple[TrainingAccuracy, ...]:
        """Return a priori error bounds for each measurement used in training.

        The model term uses the model's total as the number of records, which is an estimate unless it is
        public. It holds for queries drawn like the training queries.

        Args:
            beta: each bound fails with at most this probability.
            hypotheses: size of the class of models. It is finite for the learners here only if their
                parameters are counted as rounded.

        References:
            Zhu et al. 2017, section IV-B, with the corrections listed in `learning.predictor`.
        """
        found = []
        records = max(1, round(self.model.total))
        for measurement in self.measurements[: self.training]:
            count = measurement.values.size
            assert measurement.distribution is not None
            largest = float(measurement.query.linf_sensitivity(Relation.ADD_REMOVE, self.domain))
            mean_noise = noise_bound(
                measurement.distribution, np.full(count, 1 / count / max(1.0, largest)), beta
            )
            model = model_bound(records, count, beta, hypotheses) if self.drawn else None
            found.append(
                TrainingAccuracy(measurement.clique, count, measurement.distribution, mean_noise, model)
            )
        return tuple(found)

    def _trained(self) -> Predictor:
        if self.predictor is None:
            raise ValueError(
                "This release holds no trained model: only MLDP's `run` returns a release with one."
            )
        return self.predictor
