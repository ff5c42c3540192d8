"""MLDP: train a regressor on noisy answers to few queries, and publish it to answer any other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, cast

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.learning import Learner, as_learner
from pgmjax.learning.encodings import Encoding, as_encoding
from pgmjax.learning.predictor import Predictor
from pgmjax.learning.selection import Validation
from pgmjax.learning.training_set import COVERING, RANDOM, UNIVERSES, TrainingSet
from pgmjax.measurements.inputs import with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.mldp_training import Choice, train, validation_queries
from pgmjax.mechanisms.run import Request, Run, carry_measurements
from pgmjax.privacy.exact import exact_epsilon
from pgmjax.queries import Product, Query, total
from pgmjax.release.trained import TrainedRelease


@dataclasses.dataclass(frozen=True)
class MLDP(Mechanism):
    """Measure training queries once, learn their noisy answers, and answer any query by prediction.

    Args:
        training: the measured queries: "identity" (every cell), "tree" (binary trees), "hb" (trees with the
            best branching factor), "opt_0" (optimised for the workload), "random" (ranges), "random_subsets"
            (of cells), or the rows of an integral query.
        training_count: number of random queries. Default: balances the two error terms, see
            `learning.training_set.error_terms`.
        expected_records: public guess of the number of records, for that balance. Default: the exact number
            if it is public.
        learner: a name, a `learning.Learner`, or several of them, of which the one with the least error on
            validation queries is used.
        encoding: encoding of queries as vectors: "cells", "factors", "corners", or a
            `learning.encodings.Encoding`.
        universe: grouping of attributes for learning, see `learning.training_set.group_cliques`.
        validation: for several learners: "private" measures a few ranges, or a
            `learning.selection.Validation` with public answers.
        validation_share: the share of the budget for private validation; unused for a single learner.
        training_seed: seed of random queries, of the starts of "opt_0" and of learners; it does not affect
            the noise.

    Raises:
        TypeError: epsilon or delta is a bool or not a number, or a learner, query or encoding is invalid.
        ValueError: epsilon or delta is out of range, or a relation or option is unknown.

    Guarantees:
        Training queries depend on domain, workload and settings only, and under REPLACE_ONE on the public
        number of records. All training queries on one set of attributes are one measurement, whose
        sensitivity is computed from its matrix. delta = 0: epsilon-DP, with discrete Laplace noise of
        scale (L1 sensitivity) / epsilon_i. The epsilon_i, including those of validation, sum to epsilon
        exactly. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, with discrete Gaussian noise of variance
        (squared L2 sensitivity) / (2 rho_i). Learning, choosing among learners and predicting are
        post-processing, and so is the engine's model.

    References:
        Zhu et al. 2017, "Differentially private query learning: from data publishing to model
        publishing", Algorithm 1.

    Example:
        >>> import pgmjax as pj
        >>> from pgmjax.queries import range
        >>> data = pj.Dataset.from_columns(pj.Domain({"age": 50}), {"age": [20, 31, 42] * 100})
        >>> mechanism = MLDP(epsilon=20, relation=pj.Relation.ADD_REMOVE)
        >>> release = mechanism.run(data, pj.Workload([{"clique": ["age"], "queries": {"age": "prefix"}}]))
        >>> release.predict(Product({"age": range(30, 45)})).round(-1)
        array([200.])
    """

    training: Any = "hb"
    training_count: int | None = None
    expected_records: int | None = None
    learner: Any = "linear"
    encoding: Any = "cells"
    universe: str = "auto"
    validation: Any = "private"
    validation_share: Any = "1/5"
    training_seed: int = 0

    follows: ClassVar[bool] = False
    name: ClassVar[str] = "mldp"
    summary: ClassVar[str] = "train a regressor on noisy answers to few queries, which then answers any other"
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "training": (*COVERING, *RANDOM),
        "training_count": (None, 5),
        "expected_records": (None, 20),
        "learner": ("linear", "ridge", ("linear", "ridge")),
        "encoding": ("cells", "factors", "corners"),
        "universe": UNIVERSES,
        "validation": ("private",),
        "training_seed": (0, 1),
    }
    audited_large: ClassVar[dict[str, Any]] = {"training": "identity", "encoding": "factors"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.training, Query):
            checks.set_choice(self, "training", (*COVERING, *RANDOM))
        checks.set_integers(self, "training_count", "expected_records", low=1, optional=True)
        as_encoding(self.encoding)
        self._learners()
        checks.set_choice(self, "universe", UNIVERSES)
        if not isinstance(self.validation, Validation):
            checks.set_choice(self, "validation", ("private",))
        self._share()
        checks.set_integers(self, "training_seed", low=0)

    def plan(self, request: Request) -> TrainingPlan:
        """Return the attributes of each learner, with the cliques that it is trained on."""
        choice, encoding = self._choice(), as_encoding(self.encoding)
        cliques = choice.cliques(request.workload.cliques, request.domain, encoding)
        request.estimator.plan(request.domain, [each for trained in cliques.values() for each in trained])
        return TrainingPlan(choice, encoding, cliques)

    def describe(self, plan: TrainingPlan) -> dict[str, Any]:
        """Return everything that the training queries depend on."""
        return plan.choice.describe(plan.cliques)

    def execute(self, run: Run) -> TrainedRelease:
        """Measure the training queries, learn from the answers, and fit the engine's model to them."""
        choice, encoding, domain = run.plan.choice, run.plan.encoding, run.request.domain
        training_sets = choice.training_sets(run.plan.cliques, run.table, run.request.workload, encoding)
        self._rehearse(training_sets, encoding, run.request)
        trained = [query for training_set in training_sets for query in training_set.queries]
        bought = validation_queries(training_sets, domain) if choice.share else []
        weights = [(1 - choice.share) / len(trained)] * len(trained)
        weights += [choice.share / len(bought) for _ in bought]
        measured = run.measure([*trained, *bought], run.budget.split(weights))
        answers, validations = measured[: len(trained)], self._validations(measured[len(trained) :])
        with carry_measurements(measured):
            predictor, selection = train(
                domain, encoding, training_sets, answers, self._learners(), validations, self.training_seed
            )
            total = _total(predictor, measured) if run.total is None else run.total
            fit = run.estimator.fit(domain, measured, total=total)
        made = run.release(
            measured,
            fit,
            of=TrainedRelease,
            facts=["public answers, by which learners were chosen"] * isinstance(self.validation, Validation),
            answered_by="learner",
            predictor=predictor,
            training=len(trained),
            drawn=isinstance(self.training, str) and self.training in RANDOM,
            selection=selection,
            training_seed=self.training_seed,
        )
        return dataclasses.replace(cast(TrainedRelease, made), predictor=with_inputs(predictor, made.inputs))

    def _rehearse(self, training_sets: Sequence[TrainingSet], encoding: Encoding, request: Request) -> None:
        """Check before spending that the workload and the validation queries can be answered."""
        domain = request.domain
        asked = [entry.query for entry in request.workload.entries]
        if isinstance(self.validation, Validation):
            asked.append(self.validation.query)
            self.validation.check(domain)
        for query in asked:
            able = [
                training_set.clique
                for training_set in training_sets
                if set(query.clique) <= set(training_set.clique)
            ]
            if not able:
                raise ValueError(f"the validation asks for {query.clique}, which no learner learns together.")
            encoding.encode(query, domain, min(able, key=domain.size))

    def _choice(self) -> Choice:
        private = len(self._learners()) > 1 and not isinstance(self.validation, Validation)
        share = self._share() if private else Fraction(0)
        count, records = self.training_count, self.expected_records
        return Choice(self.training, count, records, self.universe, self.training_seed, share)

    def _learners(self) -> tuple[Learner, ...]:
        several = isinstance(self.learner, list | tuple)
        found = tuple(as_learner(each) for each in (self.learner if several else [self.learner]))
        if not found:
            raise ValueError("learner must be a name, a Learner or several of them, got none.")
        return found

    def _share(self) -> Fraction:
        try:
            share = exact_epsilon(self.validation_share)
        except ValueError:
            share = Fraction(1)
        if share >= 1:
            raise ValueError(
                'validation_share must be a share of the budget between 0 and 1, such as 0.2 or "1/5".'
            )
        return share

    def _validations(self, bought: Sequence[LinearMeasurement]) -> list[Validation]:
        if isinstance(self.validation, Validation):
            return [self.validation]
        return [Validation(each.query, each.values, each.row_stddevs()) for each in bought]


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """The public plan of a run of `MLDP`.

    Attributes:
        choice: how training queries are chosen.
        encoding: the encoding of queries as vectors.
        cliques: the cliques that each learner is trained on, by its attributes.
    """

    choice: Choice
    encoding: Encoding
    cliques: dict[Clique, tuple[Clique, ...]]


def _total(predictor: Predictor, measured: Sequence[LinearMeasurement]) -> float:
    """Return the number of records estimated from the answers or, if impossible, by the trained model."""
    try:
        return estimate_total(predictor.domain, measured)[0]
    except ValueError:
        everything = Product({name: total() for name in predictor.parts[0].clique})
        return max(1.0, float(predictor.predict(everything)[0]))
