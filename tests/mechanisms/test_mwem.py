"""MWEM: what it chooses by, what it measures with, what it spends, and what its estimates are."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.audit import replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms import MWEM
from pgmjax.mechanisms.adaptive import Engine, averaged
from pgmjax.mechanisms.candidates import Candidates
from pgmjax.mechanisms.multiplicative_weights import FactoredWeights
from pgmjax.mechanisms.mwem import ARMS, PENALTIES, Rounds
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from tests import pairwise

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
RNG = np.random.default_rng(5)
CODES = {"a": RNG.integers(0, 3, 600)}
CODES["b"] = (CODES["a"] + (RNG.random(600) < 0.2)) % 2
CODES["c"] = (CODES["a"] + 2 * CODES["b"] * (RNG.random(600) < 0.8)) % 4
DATA = Dataset.from_columns(DOMAIN, CODES)
WORKLOAD = Workload.of_marginals([("a", "b"), ("b", "c"), ("c", "a")])
MIXED = Workload([["a", "b"], ["b", "c"], {"clique": ["c"], "queries": {"c": "prefix"}, "weight": 2}])
SHORT = Estimator(max_steps=20, max_bytes=10**9, progress=False)
FINE = Estimator(max_steps=3000, tol=1e-9, dtype="float64", regularisation="none", progress=False)

pytestmark = pytest.mark.filterwarnings("ignore:the noisy answers put the total")


def make(epsilon=1, relation=REPLACE, seed=0, **settings):
    settings = {"backend": SeededBackend(seed, insecure=True), "estimator": SHORT} | settings
    return MWEM(epsilon, relation, **settings)


def table_of(clique):
    found = np.zeros(DOMAIN.shape_of(clique), np.int64)
    np.add.at(found, tuple(CODES[name] for name in clique), 1)
    return found


@pytest.fixture
def scores(monkeypatch):
    """The scores that were selected by, in order."""
    seen, select = [], PrivateTable.select

    def spy(self, score, **given):
        seen.append(score)
        return select(self, score, **given)

    monkeypatch.setattr(PrivateTable, "select", spy)
    return seen


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("relation, moves", [(ADD, 1), (REPLACE, 2)])
def test_a_whole_marginal_is_scored_by_its_error_less_a_penalty(relation, moves, penalty, scores):
    """First round: ||M x - uniform||_1 less a count a cell, E||noise||_1 or nothing; sensitivity 1, or 2."""
    release = make(relation=relation, rounds=2, split="1/2", penalty=penalty, seed=2).run(DATA, WORKLOAD)
    score = scores[0]
    unit = 2**score.bits
    assert score.sensitivity(DOMAIN, relation).value == moves * unit
    share = Fraction(1, 4) if relation is REPLACE else Fraction(19, 80)
    noise = 1 / np.sinh(float(share) / moves)  # E|discrete Laplace of scale moves / share|
    total = 600.0 if relation is REPLACE else float(release.measurements[0].values[0])
    found = score.values(DOMAIN, {clique: table_of(clique) for clique in WORKLOAD.cliques}) / unit
    for value, clique in zip(found, WORKLOAD.cliques, strict=True):
        cells = DOMAIN.size(clique)
        each = {"cells": 1, "noise": noise, "none": 0}[penalty]
        expected = np.abs(table_of(clique) - total / cells).sum() - cells * each
        assert value == pytest.approx(expected, abs=0.01 * cells)
    measured = release.measurements[-1]
    assert measured.distribution.scale == pytest.approx(moves / float(share))
    assert measured.query == queries.marginal(measured.clique)


@pytest.mark.parametrize("relation", list(Relation))
def test_single_queries_are_scored_by_their_own_errors(relation, scores):
    """Sensitivity 1 under both relations, times the largest weight."""
    release = make(relation=relation, rounds=2, split="1/2", select="queries").run(DATA, MIXED)
    score = scores[0]
    unit = 2**score.bits
    assert score.candidates(DOMAIN) == 6 + 8 + 4
    assert score.sensitivity(DOMAIN, relation).value == 2 * unit
    total = 600.0 if relation is REPLACE else float(release.measurements[0].values[0])
    found = score.values(DOMAIN, {c: table_of(c) for c in MIXED.cliques}) / unit
    exact = np.concatenate([e.query.apply(table_of(e.clique)).reshape(-1) for e in MIXED.entries])
    uniform = np.concatenate([np.full(6, total / 6), np.full(8, total / 8), total * np.arange(1, 5) / 4])
    weights = np.repeat([1, 1, 2], [6, 8, 4])
    np.testing.assert_allclose(found, weights * np.abs(exact - uniform), atol=0.01)
    asked = release.measurements[-1].query
    assert asked.num_rows(DOMAIN) == 1 and set(np.unique(asked.matrix(DOMAIN))) <= {0, 1}
    share = Fraction(1, 4) if relation is REPLACE else Fraction(19, 80)
    assert release.measurements[-1].distribution.scale == pytest.approx(1 / float(share))


@pytest.mark.parametrize("estimate", [ARMS[0], ARMS[2]])
def test_a_marginal_is_measured_again_only_after_the_others(estimate):
    """Three candidates in seven rounds: each twice before one of them for the third time."""
    for seed in range(3):
        found = make(rounds=7, seed=seed, estimate=estimate).run(DATA, WORKLOAD).measurements
        asked = [measurement.clique for measurement in found]
        assert len(set(asked[:3])) == len(set(asked[3:6])) == 3


def test_with_repeats_all_compete_in_every_round(scores):
    """An answer that is mostly noise leaves an estimate that is wrong where it was measured."""
    found = make(epsilon="0.01", rounds=6, repeat=True, estimate=ARMS[2], seed=1).run(DATA, WORKLOAD)
    assert [score.candidates(DOMAIN) for score in scores] == [3] * 6
    scores.clear()
    make(rounds=4).run(DATA, WORKLOAD)
    assert [score.candidates(DOMAIN) for score in scores] == [3, 2, 1, 3]
    assert len(found.measurements) == 6


def test_marginals_beyond_the_limits_do_not_hold_up_those_within():
    """Only a and b fit: they take turns, though others were never measured."""
    workload = Workload.of_marginals([("a",), ("b",), ("a", "b", "c")])
    release = make(rounds=4, max_cells=20, estimate=ARMS[2]).run(DATA, workload)
    assert sorted(m.clique for m in release.measurements) == [("a",), ("a",), ("b",), ("b",)]


def test_candidates_are_marginals_or_the_workloads_queries():
    double = Workload([["a", "b"], {"clique": ["b", "a"], "queries": {"a": "prefix"}, "weight": 3}, ["c"]])
    whole = Candidates.of(DOMAIN, double, "marginals")
    assert whole.queries == (queries.marginal(("a", "b")), queries.marginal(("c",)))
    assert whole.weights == (4, 1)
    single = Candidates.of(DOMAIN, double, "queries")
    assert single.queries == tuple(entry.query for entry in double.entries) and single.weights == (1, 3, 1)


def replayed_here(relation, arm, select, max_weight):
    """The contract tests have more of the engine, the baselines weights of the single queries."""
    return arm != "engine" or (select == "queries" and max_weight is None)


@pytest.mark.parametrize(
    ("relation", "arm", "select", "max_weight"),
    pairwise.rows(list(Relation), ARMS, ["marginals", "queries"], [None, 3], possible=replayed_here),
)
def test_replay_on_neighbours(relation, arm, select, max_weight):
    """Sensitivities, costs and everything between: bit for bit the same but for released numbers."""
    delta = "1e-6" if max_weight is None else 0
    pairs, options = (1, {"rounds": 2}) if arm == "engine" else (3, {})
    seen = replay_mechanism(
        MWEM,
        relation,
        delta=delta,
        pairs=pairs,
        max_weight=max_weight,
        select=select,
        estimate=arm,
        **options,
    )
    assert seen.pairs == pairs and seen.calls > 0


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
@pytest.mark.parametrize("total_share", [Fraction(0), Fraction(1, 20), Fraction(1, 3)])
def test_budgets_sum_exactly(unit, total_share):
    for cap in ("1", "0.1", "1/3", "0.7"):
        for rounds in (1, 2, 3, 7, 10, 31, 100):
            for split in ("1/2", "0.9", "1/3", "0.123456789"):
                costs = Rounds.of(None, Budget(cap, unit), rounds, Fraction(split), total_share)
                assert len(costs.choices) == len(costs.answers) == rounds
                parts = [*costs.choices, *costs.answers, *costs.total]
                assert sum(parts) == Fraction(cap) and min(parts) > 0
                assert sum(costs.total) == total_share * Fraction(cap)
                rest = Fraction(cap) - sum(costs.total)
                assert sum(costs.answers) == rest * Fraction(split)


@pytest.mark.parametrize("rounds, split", [(1, "1/2"), (3, "0.9"), (7, "1/3")])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0, "1e-9"])
def test_all_is_spent_and_no_more(rounds, split, relation, delta):
    made = make("0.7", relation, delta=delta, rounds=rounds, split=split, estimate=ARMS[2])
    release = made.run(DATA, WORKLOAD)
    if delta == 0:
        assert release.spent.epsilon == Fraction(7, 10)
    else:
        cap = rho_for(Fraction(7, 10), Fraction(delta))
        assert cap * Fraction(1 - 10**-9 * rounds) < release.spent.rho <= cap
    assert len(release.measurements) == rounds + (relation is ADD)


def test_rounds_are_one_an_attribute_by_default_and_never_fewer():
    """No early end, also where every answer is met already."""
    empty = Dataset.from_columns(
        DOMAIN, {name: np.arange(24) // step for name, step in zip("abc", (8, 12, 6), strict=True)}
    )
    for arm in ARMS:
        assert len(make(estimate=arm, epsilon=300).run(empty, WORKLOAD).measurements) == 3
    assert len(make(estimate=ARMS[1], rounds=5).run(DATA, WORKLOAD).measurements) == 5


def test_the_engine_reproduces_all_answers_without_noise():
    """Epsilon huge, T = all candidates: every marginal of the workload is met."""
    release = make(epsilon=300, rounds=3, estimator=FINE).run(DATA, WORKLOAD)
    assert {m.clique for m in release.measurements} == set(WORKLOAD.cliques)
    for measurement in release.measurements:
        answers = release.model.answer(measurement.query).reshape(-1)
        np.testing.assert_allclose(answers, measurement.flat_values(), atol=0.01)
        np.testing.assert_allclose(answers, table_of(measurement.clique).reshape(-1), atol=0.5)


@pytest.mark.parametrize("arm", ARMS[1:])
def test_the_baselines_near_all_answers_without_noise(arm):
    """A cell of no records falls as x' = -x^2 / 2n a sweep, so to 2n / sweeps."""
    release = make(epsilon=300, rounds=3, estimate=arm, sweeps=1500).run(DATA, WORKLOAD)
    for measurement in release.measurements:
        answers = release.model.answer(measurement.query).reshape(-1)
        np.testing.assert_allclose(answers, measurement.flat_values(), atol=2 * 600 / 1500)
    assert release.fit.gap == release.fit.loss


def simplex_projection(values, total):
    """The nearest table that is not negative and sums to the total, by bisection of the threshold."""
    low, high = values.min() - total, values.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(values - middle, 0).sum() > total else (low, middle)
    return np.maximum(values - low, 0)


@pytest.mark.parametrize("epsilon", [0.05, 1])
def test_one_full_dimensional_marginal_is_projected_onto_the_simplex(epsilon):
    workload = Workload.of_marginals([("a", "b", "c")])
    release = make(epsilon, rounds=1, estimator=FINE).run(DATA, workload)
    measured = release.measurements[0].flat_values()
    expected = simplex_projection(measured, 600.0)
    assert measured.min() < 0
    np.testing.assert_allclose(release.model.marginal(("a", "b", "c")).reshape(-1), expected, atol=0.05)


def test_full_and_factored_weights_make_the_same_release():
    made = [make(estimate=arm, rounds=4).run(DATA, WORKLOAD) for arm in ARMS[1:]]
    for first, second in zip(*(release.measurements for release in made), strict=True):
        assert first.query == second.query and first.values.tolist() == second.values.tolist()
    tables = [release.model.marginal(("a", "b", "c")) for release in made]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-9)


def test_without_history_only_the_newest_answer_is_used(monkeypatch):
    seen, sweep = [], FactoredWeights.sweep
    monkeypatch.setattr(
        FactoredWeights,
        "sweep",
        lambda self, asked, *more: seen.append(len(asked)) or sweep(self, asked, *more),
    )
    for history, lengths in ((True, [1, 2, 3]), (False, [1, 1, 1])):
        seen.clear()
        make(estimate=ARMS[1], rounds=3, history=history).run(DATA, WORKLOAD)
        assert seen == lengths


def test_fits_between_rounds_are_short_and_start_from_the_last(monkeypatch):
    seen, fit = [], Estimator.fit
    monkeypatch.setattr(
        Estimator,
        "fit",
        lambda self, *given, **more: (
            seen.append((self.max_steps, self.tol, len(given[1]), more["warm_start"] is None))
            or fit(self, *given, **more)
        ),
    )
    exact = Estimator(max_steps=20, tol=1e-4, progress=False)
    make(rounds=3, steps=7, estimator=exact).run(DATA, Workload.of_marginals([("a", "b")]))
    assert seen == [(7, 1e-4, 1, True), (7, 1e-4, 1, False), (20, 1e-4, 1, False)]
    seen.clear()
    make(rounds=2, estimator=exact).run(DATA, Workload.of_marginals([("a", "b")]))
    assert seen == [(20, None, 1, True), (20, 1e-4, 1, False)]


def test_answers_to_one_query_count_as_their_average():
    """The l2 loss of all answers is that of the averages and a constant, for any estimate."""
    rng = np.random.default_rng(4)
    point = queries.Product({"a": queries.point(1)})
    asked = [
        LinearMeasurement(("a",), rng.integers(0, 9, 3), 2.0),
        LinearMeasurement(("a",), [4], 1.5, point),
        LinearMeasurement(("a",), rng.integers(0, 9, 3), [0.5, 1.0, 3.0]),
        LinearMeasurement(("c",), rng.integers(0, 9, 4), 1.0),
        LinearMeasurement(("a",), rng.integers(0, 9, 3), 1.0),
        LinearMeasurement(("a",), [9], 0.5, point),
    ]
    used, apart = averaged(DOMAIN, asked)
    assert [m.query for m in used] == [asked[0].query, point, asked[3].query] and used[2] is asked[3]

    def loss(measurements, tables):
        parts = [
            ((m.query.apply(tables[m.clique]).reshape(-1) - m.flat_values()) / m.row_stddevs()) ** 2
            for m in measurements
        ]
        return 0.5 * np.concatenate(parts).sum()

    for _ in range(3):
        tables = {("a",): 9 * rng.random(3), ("c",): 9 * rng.random(4)}
        assert loss(used, tables) + apart == pytest.approx(loss(asked, tables), rel=1e-12)


def test_the_loss_of_a_release_is_that_of_all_its_answers():
    release = make(rounds=5, estimator=FINE).run(DATA, Workload.of_marginals([("a", "b"), ("c",)]))
    assert len({m.clique for m in release.measurements}) < 5
    parts = [
        ((release.model.answer(m.query).reshape(-1) - m.flat_values()) / m.row_stddevs()) ** 2
        for m in release.measurements
    ]
    assert release.fit.loss == pytest.approx(0.5 * np.concatenate(parts).sum(), rel=1e-6)


WIDE = Domain(dict.fromkeys("abcdefgh", 10))
WIDE_DATA = Dataset.from_columns(WIDE, {name: np.arange(500) % (3 + i) for i, name in enumerate("abcdefgh")})
PAIRS = Workload.all_kway(WIDE, 2)


def test_candidates_stay_within_the_cells_of_each_round():
    """By a model's junction tree for the engine, by merged factors for the baseline."""
    asked = make(rounds=4, max_cells=900, seed=3).run(WIDE_DATA, PAIRS).measurements
    for number in range(4):
        before = [m.clique for m in asked[:number]]
        cells = candidate_cells(WIDE, before, [asked[number].clique])[0]
        least = min(candidate_cells(WIDE, before, PAIRS.cliques))
        assert cells <= max(900 * (number + 1) // 4, least)
    for max_cells in (900, 2000):
        release = make(rounds=6, max_cells=max_cells, estimate=ARMS[2]).run(WIDE_DATA, PAIRS)
        assert sum(table.size for table in release.model.potentials.tables) <= max_cells


def test_the_whole_domain_is_refused_before_anything_is_spent(spending):
    with pytest.raises(ValueError, match=r"100,000,000.*2\.24 GiB.*954 MiB"):
        make(estimate=ARMS[1]).run(WIDE_DATA, PAIRS)
    with pytest.raises(
        ValueError, match=r"No candidate is within max_cells = 99: the smallest, on .* needs 100"
    ):
        make(max_cells=99).run(WIDE_DATA, PAIRS)
    with pytest.raises(ValueError, match=r"over factors hold 100,000,000 cells"):
        make(max_cells=10**9, estimate=ARMS[2]).run(WIDE_DATA, PAIRS)
    with pytest.raises(ValueError, match=r"A model of max_cells = 100,000,000 cells would .* lower"):
        make(max_cells=10**9).run(WIDE_DATA, PAIRS)
    quarter = Workload([{"clique": ["a"], "matrix": [[0.25] * 10]}])
    with pytest.raises(ValueError, match="integral"):
        make(select="queries").run(WIDE_DATA, quarter)
    assert spending == []


@pytest.mark.parametrize("select", ["marginals", "queries"])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "settings, words",
    [
        ({"epsilon": 1e9}, r"10\^27"),
        ({"epsilon": 1e9, "delta": "1e-9"}, r"10\^27"),
        ({"epsilon": "1e-15"}, "above 2\\^50"),
        ({"epsilon": 150, "rounds": 1, "split": "0.999"}, r"10\^27"),
        ({"epsilon": 1, "split": "1e-15"}, "above 2\\^50"),
        ({"epsilon": 1, "split": "0.999999999999999"}, "above 2\\^50"),
        ({"epsilon": 1, "rounds": 1, "total_share": "1e-18"}, "above 2\\^50"),
    ],
)
def test_parts_that_no_noise_can_be_drawn_for_spend_nothing(select, relation, settings, words, spending):
    if "total_share" in settings and relation is REPLACE:
        return  # the total is public
    with pytest.raises(ValueError, match=words):
        make(relation=relation, select=select, **settings).run(DATA, MIXED)
    assert spending == []


def test_a_failure_on_the_way_keeps_what_was_paid_for():
    """Without a limit the factors grow until the guard stops them."""
    little = Estimator(max_bytes=24 * 1500)
    with pytest.raises(FitError, match=r"35\.2 KiB") as caught:
        make(rounds=10, max_cells=None, estimate=ARMS[2], estimator=little).run(WIDE_DATA, PAIRS)
    assert 2 <= len(caught.value.measurements) < 10


@pytest.fixture
def spending(monkeypatch):
    """What was charged, read or counted."""
    log = []
    for owner, name in ((Budget, "charge"), (Dataset, "marginals"), (Dataset, "count")):
        monkeypatch.setattr(owner, name, lambda *given, name=name: log.append(name))
    return log


@pytest.mark.parametrize(
    "relation, select, arm, kind",
    [
        (ADD, "marginals", ARMS[0], Engine),
        (REPLACE, "queries", ARMS[0], Engine),
        (ADD, "queries", ARMS[2], FactoredWeights),
    ],
)
def test_an_interrupted_run_goes_on_in_the_ledger(relation, select, arm, kind, tmp_path, monkeypatch):
    """Stopped in the third round: the same answers come back, the rest follows, one charge in all."""
    # secure noise, which no seed repeats
    made = MWEM(1, relation, rounds=4, select=select, estimate=arm, estimator=SHORT)
    with Ledger.create(tmp_path / "b.ledger") as ledger:
        ledger.register(
            "people", epsilon=1, relation=relation.value, digest=ledger.digest_of(DATA), domain=DATA.domain
        )
        update, before = kind.update, []

        def stop(self, measurements, total, last):
            before[:] = measurements
            if len(measurements) == 3:
                raise KeyboardInterrupt
            update(self, measurements, total, last)

        monkeypatch.setattr(kind, "update", stop)
        with pytest.raises(KeyboardInterrupt):
            made.run(DATA, MIXED, ledger=ledger)
        monkeypatch.setattr(kind, "update", update)
        releases = [made.run(DATA, MIXED, ledger=ledger) for _ in range(2)]
        account = ledger.account("people")
        assert account.spent == 1 and account.charges == 1
    asked = [[(m.query, m.values.tolist()) for m in release.measurements] for release in releases]
    first = len(asked[0]) - 4
    assert asked[0][first : first + 3] == [(m.query, m.values.tolist()) for m in before]
    assert asked[0] == asked[1] and releases[0].spent.epsilon == 1 and releases[0].secure
    for clique in MIXED.cliques:
        tables = [release.model.marginal(clique) for release in releases]
        np.testing.assert_array_equal(tables[0], tables[1])


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"rounds": 0}, "rounds.*0"),
        ({"split": 0}, "split.*0"),
        ({"penalty": "much"}, "penalty.*'cells', 'noise', 'none'"),
        ({"split": "1"}, "split.*1"),
        ({"total_share": "1.5"}, r"total_share.*1\.5"),
        ({"select": "rows"}, "select.*'marginals', 'queries'.*'rows'"),
        ({"estimate": "mw"}, "estimate must be one of 'engine', 'multiplicative-weights', 'factored"),
        ({"max_cells": 0}, "max_cells.*0"),
        ({"steps": 0}, "steps.*0"),
        ({"sweeps": 0}, "sweeps.*0"),
        ({"history": False}, "history=False is for the multiplicative weights"),
    ],
)
def test_settings_that_do_not_add_up(settings, words):
    with pytest.raises(ValueError, match=words):
        make(**settings)


@pytest.mark.parametrize(
    "settings", [{"rounds": 2.5}, {"split": True}, {"history": 1}, {"repeat": 1}, {"max_cells": "9"}]
)
def test_settings_of_a_wrong_type(settings):
    with pytest.raises(TypeError):
        make(**settings)
