"""MLDP: train a regressor on noisy answers to few queries, and publish it to answer any other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, cast

from pgmjax._internal import checks
from pgmjax.data.domain import Clique
from pgmjax.data.relation import Relation
from pgmjax.learning.encodings import as_encoding
from pgmjax.learning.learners import as_learners
from pgmjax.learning.predictor import Predictor, Validation, train
from pgmjax.learning.training_set import (
    RANDOM,
    TRAININGS,
    UNIVERSES,
    TrainingSet,
    check_answerable,
    error_terms,
    group_cliques,
    training_query,
    validation_queries,
)
from pgmjax.measurements.inputs import with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.parameters import budget_share, one_of, whole
from pgmjax.mechanisms.run import Request, Run, carry_measurements
from pgmjax.privacy.exact import as_text
from pgmjax.queries import Product, Query, total
from pgmjax.release.release import TrainedRelease

Trained = Mapping[Clique, tuple[Clique, ...]]
"""The cliques that each learner is trained on, by its attributes: the public plan of a run."""


@dataclasses.dataclass(frozen=True)
class MLDP(Mechanism):
    """Measure training queries once, learn their noisy answers, and answer any query by prediction.

    Args:
        training: the measured queries: "identity" (every cell), "tree" (binary trees), "hb" (trees with the
            best branching factor), "opt_0" (optimised for the workload), "workload" (its queries), "random"
            (ranges), "random_subsets" (of cells), or the rows of an integral query.
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
            `learning.predictor.Validation` with public answers.
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
    training_count: int | None = whole(None, low=1)
    expected_records: int | None = whole(None, low=1)
    learner: Any = "linear"
    encoding: Any = "cells"
    universe: str = one_of("auto", UNIVERSES)
    validation: Any = "private"
    validation_share: Any = budget_share("1/5")
    training_seed: int = whole(0)

    follows: ClassVar[bool] = False
    name: ClassVar[str] = "mldp"
    summary: ClassVar[str] = "train a regressor on noisy answers to few queries, which then answers any other"
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "training": TRAININGS,
        "training_count": (None, 5),
        "expected_records": (None, 20),
        "learner": ("linear", "ridge", ("linear", "ridge")),
        "encoding": ("cells", "factors", "corners"),
        "universe": UNIVERSES,
        "validation": ("private",),
        "training_seed": (0, 1),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.training, Query):
            checks.set_choice(self, "training", TRAININGS)
        as_encoding(self.encoding)
        as_learners(self.learner)
        if not isinstance(self.validation, Validation):
            checks.set_choice(self, "validation", ("private",))

    def plan(self, request: Request) -> Trained:
        """Return the attributes of each learner, with the cliques that it is trained on."""
        asked, domain, encoding = request.workload.cliques, request.domain, as_encoding(self.encoding)
        if isinstance(self.training, Query):
            self.training.check(domain)
            own = self.training.clique
            cliques: Trained = dict.fromkeys(group_cliques([*asked, own], domain, encoding, "joint"), (own,))
        else:
            cliques = group_cliques(asked, domain, encoding, self.universe)
        request.estimator.plan(domain, [each for trained in cliques.values() for each in trained])
        return cliques

    def describe(self, plan: Trained) -> dict[str, Any]:
        """Return everything that the training queries depend on."""
        named = isinstance(self.training, str)
        drawn = named and self.training in RANDOM
        return {
            "training": self.training if named else self.training.to_spec(),
            "training_seed": self.training_seed if named else None,
            "training_count": self.training_count if drawn else None,
            "expected_records": self.expected_records if drawn and self.training_count is None else None,
            "cliques": [[list(each) for each in trained] for trained in plan.values()],
            "validation_share": as_text(self._private_share()),
        }

    def execute(self, run: Run) -> TrainedRelease:
        """Measure the training queries, learn from the answers, and fit the engine's model to them.

        The steps are those of Zhu et al. 2017, Algorithm 1.
        """
        domain, encoding, share = run.request.domain, as_encoding(self.encoding), self._private_share()
        public = isinstance(self.validation, Validation)
        training_sets = self._training_sets(run)
        asked = [entry.query for entry in run.request.workload.entries]
        if public:
            asked.append(self.validation.query)
            self.validation.check(domain)
        check_answerable(asked, training_sets, encoding, domain)

        # Steps 1 and 2: the sensitivity of the training queries, and their noisy answers.
        queries = [query for training_set in training_sets for query in training_set.queries]
        bought = validation_queries(training_sets, domain) if share else []
        weights = [(1 - share) / len(queries)] * len(queries) + [share / len(bought) for _ in bought]
        measured = run.measure([*queries, *bought], run.budget.split(weights))

        # Steps 3 and 4: the training set, and the model; of several learners the best one.
        answers, checked = measured[: len(queries)], measured[len(queries) :]
        validations = [Validation(each.query, each.values, each.row_stddevs()) for each in checked]
        with carry_measurements(measured):
            validations = [self.validation] if public else validations
            given = (as_learners(self.learner), validations, self.training_seed)
            predictor, selection = train(domain, encoding, training_sets, answers, *given)
            count = _total(predictor, measured) if run.total is None else run.total
            fit = run.estimator.fit(domain, measured, total=count)

        # Steps 5 and 6: the released model answers the workload, and any other query.
        made = run.release(
            measured,
            fit,
            of=TrainedRelease,
            facts=["public answers, by which learners were chosen"] * public,
            answered_by="learner",
            predictor=predictor,
            training=len(queries),
            drawn=isinstance(self.training, str) and self.training in RANDOM,
            selection=selection,
            training_seed=self.training_seed,
        )
        return dataclasses.replace(cast(TrainedRelease, made), predictor=with_inputs(predictor, made.inputs))

    def _training_sets(self, run: Run) -> list[TrainingSet]:
        """Return the training set of each learner.

        Raises:
            ValueError: training queries cannot be chosen or encoded, or the number of records is unknown.
        """
        request = run.request
        norm = "l1" if request.budget.unit == "epsilon" else "l2"

        def choose(clique: Clique) -> Query:
            if isinstance(self.training, Query):
                return self.training
            return training_query(
                self.training,
                clique,
                request.domain,
                count=self._count(run, clique),
                seed=self.training_seed,
                workload=request.workload,
                norm=norm,
                relation=request.relation,
            )

        return [
            TrainingSet.of(clique, list(map(choose, trained)), as_encoding(self.encoding), request.domain)
            for clique, trained in run.plan.items()
        ]

    def _count(self, run: Run, clique: Clique) -> int | None:
        """Return the number of random queries, balanced if it is not given."""
        if self.training_count is not None or self.training not in RANDOM:
            return self.training_count
        records = run.total if self.expected_records is None else self.expected_records
        if records is None:
            raise ValueError(
                "the number of records is private, and the number of random training queries is balanced by "
                "it: give training_count, or expected_records as a public guess."
            )
        request, sets = run.request, sum(map(len, run.plan.values()))
        cost = float(request.budget.cap * ((1 - self._private_share()) / sets))
        moved = 2 if request.relation is Relation.REPLACE_ONE else 1
        weight = (request.max_weight or 1) * request.max_records

        def variance(cover: int) -> float:
            """An upper bound on that of the noise, given the number of queries that count a record."""
            if request.budget.unit == "epsilon":
                return 2 * (moved * weight * cover / cost) ** 2
            return moved * weight**2 * cover / (2 * cost)

        return error_terms(
            str(self.training),
            clique,
            request.domain,
            records=max(1, records),
            noise_variance=variance,
            seed=self.training_seed,
        ).best

    def _private_share(self) -> Fraction:
        """Return the share of the budget for validation answers; 0 if there is nothing to choose."""
        private = len(as_learners(self.learner)) > 1 and not isinstance(self.validation, Validation)
        return self.validation_share if private else Fraction(0)


def _total(predictor: Predictor, measured: Sequence[LinearMeasurement]) -> float:
    """Return the number of records estimated from the answers or, if impossible, by the trained model."""
    try:
        return estimate_total(predictor.domain, measured)[0]
    except ValueError:
        everything = Product({name: total() for name in predictor.parts[0].clique})
        return max(1.0, float(predictor.predict(everything)[0]))
