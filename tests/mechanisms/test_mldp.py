"""MLDP: exact figures of the paper, what is measured, what is predicted, what is refused."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.audit import replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.learning import Linear
from pgmjax.learning.base import Learner
from pgmjax.learning.encodings import CellWeights, Encoding
from pgmjax.learning.predictor import Validation
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.mechanisms import MLDP
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import DenseMatrix, Product, all_ranges, marginal, prefix, range, ranges, total
from pgmjax.queries.random import distinct_ranges
from pgmjax.queries.workload import Workload
from pgmjax.release import folder

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
GRADES = Domain({"grade": 4})
COUNTS = [12, 24, 6, 7]  # Table I of the paper
TABLE = Dataset.from_columns(GRADES, {"grade": np.repeat(np.arange(4), COUNTS)})
ALL = Workload([{"clique": ["grade"], "queries": {"grade": "all_ranges"}}])
FAST = Estimator(max_steps=20, progress=False)


def make(seed=0, relation=ADD, epsilon=1, estimator=FAST, **more):
    return MLDP(
        epsilon=epsilon,
        relation=relation,
        estimator=estimator,
        backend=SeededBackend(seed, insecure=True),
        **more,
    )


def test_table_ii_of_the_paper():
    """All ten ranges together have sensitivity 6; the four cells alone 1."""
    release = make(training=Product({"grade": all_ranges()})).run(TABLE, ALL)
    (measured,) = release.measurements
    assert measured.values.size == 10 and measured.distribution == DiscreteLaplace(6.0)
    assert make(training="identity").run(TABLE, ALL).measurements[0].distribution == DiscreteLaplace(1.0)


def test_identity_and_linear_regression_are_the_noisy_histogram_summed():
    release = make(training="identity").run(TABLE, ALL)
    histogram = release.measurements[0].values
    expected = Product({"grade": all_ranges()}).apply(histogram)
    assert np.allclose(release.answers()[0], expected, rtol=0, atol=1e-9)
    fresh = Product({"grade": range(1, 3)})
    assert np.allclose(release.predict(fresh), histogram[1:4].sum(), atol=1e-9)


def test_fresh_queries_cost_nothing_and_do_not_depend_on_the_workload():
    release = make().run(TABLE, ALL)
    spent = release.spent
    other = make().run(TABLE, Workload([["grade"]]))
    query = Product({"grade": prefix()})
    assert np.array_equal(release.predict(query), other.predict(query)) and release.spent == spent


TRAININGS = ["identity", "tree", "hb", "opt_0", "random", "random_subsets", "workload"]


@pytest.mark.parametrize(
    ("training", "delta"), list(zip(TRAININGS, itertools.cycle([0, "1e-6"]), strict=False))
)
def test_every_training_costs_all_of_the_budget_once(training, delta):
    domain = Domain({"x": 24, "y": 2})
    rng = np.random.default_rng(0)
    data = Dataset.from_columns(domain, {"x": rng.integers(0, 24, 900), "y": rng.integers(0, 2, 900)})
    workload = Workload([{"clique": ["x", "y"], "queries": {"x": "prefix"}}])
    release = make(training=training, delta=delta, epsilon=2, expected_records=1000).run(data, workload)
    (measured,) = release.measurements
    query = measured.query
    if delta == 0:
        assert measured.distribution.scale == float(query.l1_sensitivity(ADD, domain)) / 2
        assert release.spent.epsilon == 2 and release.spent.rho is None
    else:
        rho = release.spent.rho
        assert measured.distribution.scale == pytest.approx(
            (query.l2_sensitivity_squared(ADD, domain) / 2 / rho) ** 0.5
        )
    assert release.answers()[0].shape == (48,) and np.isfinite(release.answers()[0]).all()
    assert release.answers("engine")[0].shape == (48,)


def test_predictions_are_unbiased_and_as_noisy_as_least_squares_says():
    """Mean of 400 runs within 5 standard errors; their variance within 5 of its own, about 7 % each."""
    query = Product({"grade": prefix()})
    runs = np.array([make(seed, training="tree").run(TABLE, ALL).predict(query) for seed in np.arange(400)])
    rows = make(training="tree").run(TABLE, ALL).measurements[0].query.matrix(GRADES)
    weights = query.matrix(GRADES) @ np.linalg.pinv(rows)
    variance = DiscreteLaplace(3.0).variance * (weights**2).sum(axis=1)
    assert (np.abs(runs.mean(axis=0) - np.cumsum(COUNTS)) < 5 * np.sqrt(variance / 400)).all()
    assert (np.abs(runs.var(axis=0) / variance - 1) < 5 * np.sqrt(5 / 400)).all()


@pytest.mark.filterwarnings("ignore:the noisy answers put the total")
def test_the_error_of_laplace_is_sensitivity_over_epsilon():
    """E|Lap(S)| = S: the queries trained on, answered with their noise; 4,000 draws, 5 standard errors."""
    domain = Domain({"x": 64})
    query = distinct_ranges(domain, ("x",), 100, seed=1)
    data = Dataset.from_columns(domain, {"x": np.arange(64)})
    sensitivity = float(query.l1_sensitivity(ADD, domain))
    truth = query.apply(np.ones(64, int))
    runs = [
        make(seed, training=query).run(data, Workload([query])).measurements[0].values
        for seed in np.arange(40)
    ]
    assert np.abs(np.array(runs) - truth).mean() == pytest.approx(sensitivity, rel=0.08)


def test_several_learners_are_compared_on_answers_that_are_bought():
    release = make(learner=["linear", Linear(intercept=True)], validation_share="1/4").run(TABLE, ALL)
    trained, bought = release.measurements
    assert [name for name, _ in release.selection] == ["linear", "linear"] and release.training == 1
    assert trained.distribution.scale == pytest.approx(1 / 0.75) and release.spent.epsilon == Fraction(1)
    assert bought.query.l1_sensitivity(ADD, GRADES) / Fraction(1, 4) == pytest.approx(
        bought.distribution.scale
    )


def test_public_validation_answers_cost_nothing():
    validation = Validation(Product({"grade": prefix()}), np.cumsum(COUNTS))
    release = make(learner=["linear", Linear(intercept=True)], validation=validation).run(TABLE, ALL)
    assert len(release.measurements) == 1 and len(release.selection) == 2
    assert release.measurements[0].distribution == DiscreteLaplace(1.0)


def test_learners_apart_answer_apart():
    domain = Domain({"a": 90, "b": 80, "c": 3})
    rng = np.random.default_rng(1)
    data = Dataset.from_columns(
        domain, {name: rng.integers(0, size, 500) for name, size in domain.sizes.items()}
    )
    workload = Workload([["a", "c"], ["b", "c"]])
    release = make(training="identity").run(data, workload)
    assert [part.clique for part in release.predictor.parts] == [("a", "c"), ("b", "c")]
    assert [m.distribution for m in release.measurements] == [DiscreteLaplace(2.0)] * 2
    assert np.allclose(release.answers()[1], release.measurements[1].values)
    with pytest.raises(ValueError, match=r"\('a', 'b'\)"):
        release.predict(marginal(("a", "b")))


def test_the_number_of_random_queries_is_balanced():
    domain = Domain({"x": 512})
    rng = np.random.default_rng(2)
    data = Dataset.from_columns(domain, {"x": rng.integers(0, 512, 3000)})
    workload = Workload([{"clique": ["x"], "queries": {"x": "prefix"}}])

    def count(epsilon, relation=REPLACE, **more):
        release = make(training="random", epsilon=epsilon, relation=relation, **more).run(data, workload)
        return release.measurements[0].values.size

    assert count("0.05") < count(1) <= 1024 and count(1, training_count=17) == 17
    with pytest.raises(ValueError, match="give training_count, or expected_records"):
        count(1, ADD)
    assert count(1, ADD, expected_records=3000) > 4


def test_accuracy_before_and_bounds_after():
    release = make(training="random", training_count=9, training_seed=4).run(TABLE, ALL)
    (known,) = release.accuracy(0.1)
    assert (
        known.count == 9
        and known.mean_noise > 0
        and known.model == pytest.approx(round(release.model.total) * np.sqrt(np.log(20) / 18))
    )
    assert make(training="identity").run(TABLE, ALL).accuracy()[0].model is None
    bounds, determined = (
        make(training="identity").run(TABLE, ALL).half_widths(Product({"grade": range(0, 1)}))
    )
    assert determined.all() and 0 < bounds[0] < 12


def test_a_total_that_answers_do_not_tell_comes_from_the_learner():
    query = DenseMatrix(("grade",), [[1, 1, 0, 0]])
    release = make(training=query, epsilon=20).run(TABLE, ALL)
    assert release.model.total == pytest.approx(36, abs=3)  # least norm puts the rest at zero
    assert make(training=query, relation=REPLACE, epsilon=20).run(TABLE, ALL).model.total == 49


def test_a_release_is_written_and_read(tmp_path):
    release = make().run(TABLE, ALL)
    folder.write(release, tmp_path / "out", show_progress=False)
    saved = folder.read(tmp_path / "out")
    query = Product({"grade": range(1, 2)})
    assert np.array_equal(saved.predictor().predict(query), release.predict(query))
    assert saved.record["answered_by"] == "learner"
    assert np.allclose(saved.answers()["estimate"].to_numpy(), release.answers()[0])


def test_another_learner_from_the_same_charge(tmp_path):
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "grades", epsilon=1, relation="add-remove", digest=ledger.digest_of(TABLE), domain=TABLE.domain
        )
        secure = {"epsilon": 1, "relation": ADD, "estimator": FAST}
        first = MLDP(**secure).run(TABLE, ALL, ledger=ledger)
        second = MLDP(**secure, learner=Linear(intercept=True)).run(TABLE, ALL, ledger=ledger)
        assert ledger.account("grades").charges == 1
    assert np.array_equal(first.measurements[0].values, second.measurements[0].values)


@pytest.mark.parametrize(
    "options", [{"training": "random"}, {"learner": ["linear", "linear"], "training": "tree"}]
)
@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_options_leak_nothing(options, delta):
    options = {**options, "training_count": 5}
    seen = replay_mechanism(MLDP, ADD, delta=delta, pairs=6, estimator=FAST, **options)
    assert seen.pairs == 6 and seen.calls > 0


def test_the_public_number_of_records_leaks_nothing():
    assert replay_mechanism(MLDP, REPLACE, pairs=6, estimator=FAST, training="random").pairs == 6


@dataclasses.dataclass(frozen=True)
class Failing(Learner):
    """Cannot learn."""

    name = "failing"

    def _learn(self, given, seed):
        raise ValueError("nothing learned")

    def _predict(self, learned, rows):
        raise NotImplementedError


def test_a_learner_that_fails_leaves_the_answers():
    with pytest.raises(FitError, match="nothing learned") as raised:
        make(learner=Failing()).run(TABLE, ALL)
    assert raised.value.measurements[0].values.size == 4


@dataclasses.dataclass(frozen=True)
class Blind(Encoding):
    """Sees nothing of a query."""

    name = "blind"

    def dimensions(self, domain, clique):
        return 1

    def _encode(self, query, domain, clique):
        return np.ones((query.num_rows(domain), 1))


OPTIONS = [
    ({"training": "all"}, ValueError, "training.*'all'"),
    ({"training": "random", "training_count": 0}, ValueError, "training_count"),
    ({"learner": []}, ValueError, "learner must be"),
    ({"learner": "oracle"}, ValueError, "oracle"),
    ({"encoding": "roots"}, ValueError, "encoding.*'roots'"),
    ({"universe": "all"}, ValueError, "universe.*'all'"),
    ({"validation": "public"}, ValueError, "validation.*'public'"),
    ({"validation_share": 1}, ValueError, "validation_share"),
    ({"validation_share": 0}, ValueError, "validation_share"),
    ({"training_seed": -1}, ValueError, "training_seed"),
]


@pytest.mark.parametrize("options, error, words", OPTIONS, ids=[str(option) for option, _, _ in OPTIONS])
def test_a_wrong_option_is_refused_when_it_is_given(options, error, words):
    with pytest.raises(error, match=words):
        make(**options)


def half(name):
    return Product({name: total()})


RUNS = [
    ({"encoding": Blind()}, "indistinguishable"),
    ({"encoding": "corners", "training": "random_subsets", "training_count": 8}, r"'corners'.*\('grade',\)"),
    ({"training": "random", "training_count": 11}, "10 different ranges"),
    ({"training": Product({"grade": ranges([(0, 9)])})}, "grade"),
    ({"training": DenseMatrix(("grade",), [[0.5, 0, 0, 0]])}, "integer|integral|whole"),
    ({"validation": Validation(half("grade"), [1, 2])}, "validation.*1.*2"),
    ({"validation": Validation(half("age"), [1])}, "age"),
]


@pytest.mark.parametrize("options, words", RUNS, ids=[words for _, words in RUNS])
def test_what_cannot_be_trained_spends_nothing(options, words, tmp_path, monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "grades", epsilon=9, relation="add-remove", digest=ledger.digest_of(TABLE), domain=TABLE.domain
        )
        mechanism = MLDP(epsilon=1, relation=ADD, estimator=FAST, **options)
        with pytest.raises((ValueError, TypeError), match=words):
            mechanism.run(TABLE, ALL, ledger=ledger)
        assert ledger.account("grades").charges == 0


def test_a_release_without_a_model_says_so():
    release = dataclasses.replace(make().run(TABLE, ALL), predictor=None)
    with pytest.raises(ValueError, match="holds no trained model"):
        release.predict(Product({"grade": prefix()}))
    assert isinstance(make().run(TABLE, ALL).predictor.encoding, CellWeights)
