"""PrivBayes finds the tree, keeps its budget, and both of its ways of estimation take the same answers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.audit import replay, replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.estimation.regularisation import weight_of
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.mechanisms.conditionals import conditional_fit, network_model, paper_model
from pgmjax.mechanisms.measure_once import Marginals
from pgmjax.mechanisms.privbayes import PrivBayes
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy import Ledger
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores.bayes import BinaryF, MutualInformation, TotalVariation
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import Product, compression, identity, marginal
from pgmjax.queries.workload import Workload

REPLACE = Relation.REPLACE_ONE
EXACT = Estimator(max_steps=3000, tol=1e-12, dtype="float64", progress=False)
HUGE = 380  # choices are certain and the noise of every marginal is 0, but with odds below e^-80


def tree_data(seed, sizes, rows):
    """Records of a random tree over attributes a, b, ...: each is a noisy map of one before it."""
    rng = np.random.default_rng(seed)
    names = "abcdefgh"[: len(sizes)]
    columns = {names[0]: rng.integers(0, sizes[0], rows)}
    for i, (name, size) in enumerate(zip(names[1:], sizes[1:], strict=True), start=1):
        parent = columns[names[rng.integers(i)]]
        kept = rng.random(rows) < rng.uniform(0.5, 0.9)
        columns[name] = np.where(kept, rng.permutation(8)[parent] % size, rng.integers(0, size, rows))
    domain = Domain(dict(zip(names, sizes, strict=True)))
    return domain, columns


def make(**settings):
    given = {"epsilon": 1, "relation": REPLACE, "backend": SeededBackend(0, insecure=True)}
    return PrivBayes(**{**given, "estimator": Estimator(max_steps=20, progress=False), **settings})


def run(domain, columns, **settings):
    workload = Workload.of_marginals([(name,) for name in domain])
    return make(**settings).run(Dataset.from_columns(domain, columns), workload, show_progress=False)


def information(x, y):
    joint = np.zeros((x.max() + 1, y.max() + 1))
    np.add.at(joint, (x, y), 1 / len(x))
    product = np.outer(joint.sum(1), joint.sum(0))
    return float(np.sum(joint[joint > 0] * np.log2(joint[joint > 0] / product[joint > 0])))


def chow_liu(columns):
    """The spanning tree of the largest mutual information, by trying every tree."""
    names = list(columns)
    weight = {
        frozenset(pair): information(columns[pair[0]], columns[pair[1]])
        for pair in itertools.combinations(names, 2)
    }
    best = max(
        (edges for edges in itertools.combinations(weight, len(names) - 1) if spans(edges, names)),
        key=lambda edges: sum(weight[edge] for edge in edges),
    )
    return set(best)


def spans(edges, names):
    reached = {names[0]}
    for _ in names:
        reached |= {name for edge in edges if edge & reached for name in edge}
    return len(reached) == len(names)


@pytest.mark.parametrize("seed", [1, 5, 10, 11])  # whose best tree is no near tie
@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_without_noise_one_parent_each_gives_the_chow_liu_tree(seed, delta):
    domain, columns = tree_data(seed, [3, 2, 4, 3, 2], 10_000)
    release = run(domain, columns, epsilon=HUGE, delta=delta, degree=1, score="I", estimate="paper")
    assert {frozenset(m.clique) for m in release.measurements} == chow_liu(columns)
    other = run(domain, columns, epsilon=HUGE, degree=1, score="I", estimate="paper", first="d")
    assert {frozenset(m.clique) for m in other.measurements} == chow_liu(columns)
    assert other.measurements[0].clique[0] == "d"


@pytest.mark.parametrize("score", ["F", "R"])
def test_the_other_scores_find_a_clear_tree(score):
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(0, 2, 3000)}
    for name, parent in (("b", "a"), ("c", "b"), ("d", "b")):
        columns[name] = np.where(rng.random(3000) < 0.9, columns[parent], 1 - columns[parent])
    domain = Domain(dict.fromkeys("abcd", 2))
    release = run(domain, columns, epsilon=300, degree=1, score=score, estimate="paper")
    found = {"".join(sorted(m.clique)) for m in release.measurements}
    assert found == {"ab", "bc", "bd"}


def test_without_noise_both_ways_give_the_distribution_of_the_tree():
    domain, columns = tree_data(7, [3, 2, 4, 3], 5000)
    release = run(domain, columns, epsilon=HUGE, degree=1, score="I", estimator=EXACT)
    codes = tuple(columns[name] for name in domain)
    exact = np.zeros(domain.shape)
    np.add.at(exact, codes, 1)
    wanted = np.ones(domain.shape)
    seen = set()
    for measured in release.measurements:
        part = tuple(i for i, name in enumerate(domain) if name not in measured.clique)
        table = exact.sum(axis=part, keepdims=True)
        child = domain.attributes.index(measured.clique[-1])
        wanted = wanted * table if not seen else wanted * table / table.sum(axis=child, keepdims=True)
        seen |= set(measured.clique)
    names = tuple(domain)
    assert paper_model(release).marginal(names) == pytest.approx(wanted, abs=1e-8)
    assert release.model.marginal(names) == pytest.approx(wanted, abs=2e-2)


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_both_ways_take_the_same_measurements(delta):
    domain, columns = tree_data(1, [3, 2, 4], 3000)
    engine = run(domain, columns, delta=delta)
    paper = run(domain, columns, delta=delta, estimate="paper")
    assert replay.differences(engine.measurements, paper.measurements) == []
    assert replay.differences(paper_model(engine).potentials, paper.model.potentials) == []
    weight = weight_of("auto", domain, engine.measurements, 3000)
    assert engine.fit.regularisation.weight == pytest.approx(0.4 * weight)  # what was chosen is pulled less
    assert paper.model is paper.fit.model and paper.model.total == 3000 == engine.model.total
    assert (paper.fit.steps, paper.fit.status) == (0, Status.MAX_STEPS)
    assert paper.fit.loss == paper.fit.gap > engine.fit.loss - engine.fit.gap


@pytest.mark.parametrize("score", ["I", "R", "F"])
@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_the_parts_of_the_budget_sum_to_the_whole(score, delta, monkeypatch):
    budgets = []
    made = PrivateTable.__init__
    monkeypatch.setattr(
        PrivateTable, "__init__", lambda self, *given: made(self, *given) or budgets.append(self.budget)
    )
    domain, columns = tree_data(2, [2, 2, 2, 2, 2], 2000)
    release = run(domain, columns, delta=delta, epsilon="1/3", score=score, theta=8, estimate="paper")
    budget = budgets[0]
    assert budget.spent == budget.cap and release.spent.epsilon == Fraction(1, 3)
    choices = [event for event in budget.events if event.kind == "selection"]
    rest = [event for event in budget.events if event.kind != "selection"]
    costs = [event.epsilon if delta == 0 else event.rho for event in choices]
    share = Fraction(3, 10) * budget.cap / 4
    assert len(costs) == 4 and all(share * (1 - Fraction(1, 10**9)) <= cost <= share for cost in costs)
    if delta == 0:
        assert set(costs) == {share}
    assert len({event.epsilon if delta == 0 else event.rho for event in rest}) == 1


def scales(release):
    assert {type(m.distribution) for m in release.measurements} == {DiscreteLaplace}
    return list({m.distribution.scale for m in release.measurements})


def test_noise_of_binary_marginals_is_that_of_the_paper():
    """Of d = 5 marginals the first k = 2 are left out; the rest have noise of scale 2 (d - k) / eps2."""
    domain, columns = tree_data(2, [2] * 5, 1000)
    # n eps2 / ((d - k) 2^(k + 2)) for eps2 = 0.7: 29.2 (k = 1: 21.9, k = 2: 14.6, k = 3: 10.9)
    release = run(domain, columns, theta=14, estimate="paper")
    assert [len(m.clique) for m in release.measurements] == [3, 3, 3]
    assert scales(release) == pytest.approx([2 * 3 / 0.7], rel=1e-14)
    assert set(release.measurements[0].clique[:1]) == {"a"}


def test_noise_of_general_marginals_is_that_of_the_paper():
    domain, columns = tree_data(2, [3, 4, 2, 3], 3000)
    release = run(domain, columns, estimate="paper")
    assert len(release.measurements) == 4 and release.measurements[0].clique == ("a",)
    assert scales(release) == pytest.approx([2 * 4 / 0.7], rel=1e-14)
    cells = math.floor(3000 * 0.7 / (2 * 4 * 4))
    assert all(domain.size(m.clique) <= cells for m in release.measurements)
    assert any(len(m.clique) > 2 for m in release.measurements)


@pytest.mark.parametrize("sizes", [[2] * 5, [3, 2, 4]])
def test_without_useful_parents_all_of_the_budget_goes_to_single_attributes(sizes):
    domain, columns = tree_data(0, sizes, 60)
    release = run(domain, columns, epsilon="0.1", estimate="paper")
    assert [m.clique for m in release.measurements] == [(name,) for name in domain]
    assert scales(release) == pytest.approx([2 * len(sizes) / 0.1], rel=1e-14)
    assert release.spent.epsilon == Fraction(1, 10)


def test_one_attribute():
    release = run(Domain({"a": 3}), {"a": np.arange(30) % 3})
    assert [m.clique for m in release.measurements] == [("a",)]
    assert release.measurements[0].distribution == DiscreteLaplace(2.0)


def small_tables(records):
    cells = list(itertools.product((0, 1), repeat=3))
    return itertools.combinations_with_replacement(cells, records)


@pytest.mark.parametrize("kind", [MutualInformation, BinaryF, TotalVariation])
@pytest.mark.parametrize("records", [2, 3])
def test_neighbours_change_the_odds_of_a_choice_by_at_most_its_epsilon(kind, records):
    """Exact probabilities of every choice among three sets of parents, over all tables and neighbours."""
    domain = Domain({"a": 2, "b": 2, "c": 2})
    queries = [marginal(("a", "b")), marginal(("b", "c")), marginal(("a", "b", "c"))]
    score, epsilon = kind(queries, records), Fraction(3, 4)
    sensitivity = score.sensitivity(domain, REPLACE).value
    backend = SeededBackend(0, insecure=True)
    for distribution in (
        backend.permute_and_flip(sensitivity, epsilon),
        backend.exponential(sensitivity, epsilon),
    ):
        odds = {}
        for rows in small_tables(records):
            table = np.zeros((2, 2, 2), dtype=np.int64)
            np.add.at(table, tuple(np.array(rows).T), 1)
            at = {("a", "b"): table.sum(2), ("b", "c"): table.sum(0), ("a", "b", "c"): table}
            odds[rows] = np.log(distribution.probabilities(score.values(domain, at)))
        largest = 0.0
        for rows, here in odds.items():
            for place, cell in itertools.product(range(records), itertools.product((0, 1), repeat=3)):
                other = tuple(sorted((*rows[:place], cell, *rows[place + 1 :])))
                largest = max(largest, float(np.abs(odds[other] - here).max()))
        assert 0.1 * epsilon < largest <= float(epsilon) * (1 + 1e-12)


AUDITED = {
    "by cells": {},
    "paper": {"estimate": "paper", "score": "I"},
    "many parents": {"theta": "0.05", "estimate": "paper"},
    "degree": {"degree": 1, "score": "I", "estimate": "paper"},
    "merged values": {"taxonomies": {"c": [[0, 0, 1, 1]]}, "theta": "0.1", "estimate": "paper"},
    "few candidates": {"max_candidates": 1, "max_cells": 10, "estimate": "paper"},
    "binary": {"score": "F", "theta": "0.05", "domain": Domain(dict.fromkeys("abc", 2)), "estimate": "paper"},
}


@pytest.mark.parametrize("options", AUDITED.values(), ids=AUDITED)
@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_nothing_but_released_numbers_depends_on_the_table(options, delta):
    seen = replay_mechanism(
        PrivBayes,
        REPLACE,
        delta=delta,
        pairs=6,
        workload=Workload.of_marginals([("a", "b"), ("c",)]),
        **options,
    )
    assert seen.pairs == 6 and seen.calls >= 2


def test_merged_values_make_room_for_more_parents():
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(0, 8, 4000)}
    columns["b"] = np.where(rng.random(4000) < 0.9, columns["a"] // 4, 1 - columns["a"] // 4)
    columns["c"] = (columns["a"] // 4 + columns["b"]) % 2
    domain = Domain({"a": 8, "b": 2, "c": 3})
    halves = [[0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 1, 1, 1]]
    # a marginal may have 4000 * 266 / (2 * 3 * theta), that is 12 cells
    settings = {"epsilon": 380, "theta": 14_000, "estimate": "paper"}
    release = run(domain, columns, taxonomies={"a": halves}, **settings)
    asked = {m.clique: m.query for m in release.measurements}
    assert asked["a", "b", "c"] == Product({"a": compression(halves[1]), "b": identity(), "c": identity()})
    tables = {
        (a, b, c): count
        for (a, b, c), count in np.ndenumerate(release.model.marginal(("a", "b", "c")))
        if count > 1e-6
    }
    assert {(a // 4 + b) % 2 for a, b, c in tables} == {0, 1} and all(
        c == (a // 4 + b) % 2 for a, b, c in tables
    )
    plain = run(domain, columns, **settings)
    assert max(len(m.clique) for m in plain.measurements) == 2


def test_conditionals_clip_normalise_and_fall_back_to_uniform():
    domain = Domain({"a": 2, "b": 3})
    first = LinearMeasurement(("a",), [6, 2], 1.0)
    second = LinearMeasurement(("a", "b"), [[-3, 1, 3], [-1, -2, 0]], 1.0)
    model = network_model(domain, [first, second], 8.0)
    assert model.marginal(("a", "b")) == pytest.approx(np.array([[0, 1.5, 4.5], [2 / 3] * 3]), abs=1e-12)
    assert model.marginal(("a", "b"))[0, 0] == 0
    joint = network_model(domain, [second], 8.0)
    assert joint.marginal(("a", "b")) == pytest.approx(np.array([[0, 2, 6], [0, 0, 0]]), abs=1e-12)
    nothing = LinearMeasurement(("a",), [-1, -5], 1.0)
    assert network_model(domain, [nothing, second], 8.0).marginal(("a",)) == pytest.approx([4, 4], abs=1e-12)
    rows = model.sample(2000, seed=1)
    assert not np.any((rows["a"] == 0) & (rows["b"] == 0))


def test_measurements_that_are_no_network():
    domain = Domain({"a": 2, "b": 2, "c": 2})
    one, two = LinearMeasurement(("a",), [6, 2], 1.0), LinearMeasurement(("b", "c"), [1, 2, 3, 4], 1.0)
    with pytest.raises(ValueError, match=r"measurement 1 on \('b', 'c'\) is no part"):
        network_model(domain, [one, two], 8.0)
    with pytest.raises(ValueError, match=r"measurement 1 .* is no part"):
        network_model(domain, [one, one], 8.0)
    with pytest.raises(ValueError, match="name 1 of 3 attributes"):
        network_model(domain, [one], 8.0)
    with pytest.raises(FitError) as failed:
        conditional_fit(domain, [one], 8.0, Estimator())
    assert failed.value.measurements == (one,)


def test_models_of_other_releases_are_refused():
    data = Dataset.from_columns(Domain({"a": 2}), {"a": [0, 1, 1]})
    other = Marginals(epsilon=1, relation=REPLACE).run(data, Workload.of_marginals([("a",)]))
    with pytest.raises(ValueError, match="release of the mechanism 'privbayes', got one of 'marginals'"):
        paper_model(other)
    with pytest.raises(TypeError, match="must be a Release, got int"):
        paper_model(3)


BAD_SETTINGS = [
    ({"relation": Relation.ADD_REMOVE}, ValueError, "replace-one.*add-remove.*its scores divide"),
    ({"relation": None}, ValueError, "replace-one"),
    ({"structure_share": 1}, ValueError, "structure_share.*1"),
    ({"structure_share": 0}, ValueError, "structure_share.*0"),
    ({"structure_share": "much"}, ValueError, "structure_share.*'much'"),
    ({"theta": 0}, ValueError, "theta.*0"),
    ({"theta": math.inf}, ValueError, "theta.*inf"),
    ({"score": "X"}, ValueError, "score.*'I'.*'F'.*'R'"),
    ({"degree": -1}, ValueError, "degree.*-1"),
    ({"degree": True}, TypeError, "degree.*bool"),
    ({"degree": 1, "taxonomies": {"a": [[0, 0, 1]]}}, ValueError, "leave out the degree"),
    ({"taxonomies": [[0, 0, 1]]}, TypeError, "taxonomies must map attribute names"),
    ({"taxonomies": {"a": 3}}, TypeError, "'a'.*int"),
    ({"taxonomies": {"a": [[0, 0.5, 1]]}}, TypeError, "'a'.*float"),
    ({"estimate": "both"}, ValueError, "estimate.*'engine'.*'paper'"),
    ({"max_candidates": 0}, ValueError, "max_candidates.*0"),
    ({"max_cells": 0}, ValueError, "max_cells.*0"),
]


@pytest.mark.parametrize("settings, error, words", BAD_SETTINGS)
def test_bad_settings(settings, error, words):
    with pytest.raises(error, match=words):
        make(**settings)


@pytest.fixture
def untouched(monkeypatch):
    def fail(*given):
        pytest.fail("the table was read, or its budget charged")

    for name in ("count", "marginals", "validate"):
        monkeypatch.setattr(Dataset, name, fail)
    monkeypatch.setattr(Budget, "charge", fail)


DOMAIN = Domain({"a": 3, "b": 2})
COLUMNS = {"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]}
EXTREMES = [
    ({"epsilon": 2000}, r"epsilon.*10\^27"),
    ({"epsilon": "1e-14"}, "above 2\\^50"),
    ({"epsilon": 10**6, "delta": "1e-6"}, r"rho.*10\^27"),
]


@pytest.mark.parametrize("settings, words", EXTREMES)
def test_amounts_for_which_there_is_no_noise_are_refused_before_any_is_spent(settings, words, monkeypatch):
    monkeypatch.setattr(Budget, "charge", lambda *given: pytest.fail("the budget was charged"))
    domain, columns = tree_data(2, [3, 4, 2, 3], 300)
    with pytest.raises(ValueError, match=words):
        run(domain, columns, **settings)


MISFITS = [
    ({"first": "z"}, "first must be an attribute of the domain, got 'z'"),
    ({"degree": 2}, "degree must be below the number of attributes, 2, got 2"),
    ({"score": "F"}, "binary-f is for tables whose attributes all have two values"),
    ({"taxonomies": {"z": [[0, 1]]}}, "'z'"),
    ({"taxonomies": {"a": [[0, 1]]}}, "group of each of its 3 codes, got 2 groups"),
    ({"taxonomies": {"a": [[0, 2, 2]]}}, r"must be 0\.\.g-1, at least 2"),
    ({"taxonomies": {"a": [[0, 0, 0]]}}, r"must be 0\.\.g-1, at least 2"),
    ({"taxonomies": {"a": [[0, 1, 2]]}}, "must merge groups of the one before"),
    ({"taxonomies": {"a": [[0, 0, 1], [0, 1, 1]]}}, "must merge groups of the one before"),
    ({"estimator": Estimator(max_bytes=8)}, "5 answers would need about 40 bytes, and 8 bytes is available"),
    ({"estimator": Estimator(max_bytes=40)}, "max_cells.*6"),
]


@pytest.mark.parametrize("settings, words", MISFITS)
def test_settings_that_do_not_fit_the_table_are_refused_before_it_is_read(settings, words, untouched):
    data = Dataset.from_columns(DOMAIN, COLUMNS)
    with pytest.raises(ValueError, match=words):
        make(**settings).run(data, Workload.of_marginals([("a",), ("b",)]))


def test_weights_are_refused_before_the_table_is_read(untouched):
    data = Dataset.from_columns(DOMAIN, COLUMNS, weights=[1, 2, 1, 1], max_weight=2)
    with pytest.raises(ValueError, match="takes no weighted tables: its scores"):
        make().run(data, Workload.of_marginals([("a",)]))


def test_a_ledger_charges_once_for_both_ways(tmp_path):
    domain, columns = tree_data(1, [3, 2, 4], 500)
    data = Dataset.from_columns(domain, columns)
    workload = Workload.of_marginals([("a",)])
    path = tmp_path / "budgets.ledger"
    with Ledger.create(path) as ledger:
        ledger.register(
            "table", epsilon=1, relation=REPLACE, digest=ledger.digest_of(data), domain=data.domain
        )
        first = make(backend=None).run(data, workload, ledger=ledger)
        second = make(backend=None, estimate="paper").run(data, workload, ledger=ledger)
    assert replay.differences(first.measurements, second.measurements) == []
    assert first.ledger["charge"] == second.ledger["charge"]


def test_an_interrupted_run_keeps_its_choices(tmp_path, monkeypatch):
    domain, columns = tree_data(1, [3, 2, 4], 500)
    data, workload = Dataset.from_columns(domain, columns), Workload.of_marginals([("a",)])
    chosen, choose = [], OpenDPBackend.choose
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "table", epsilon=1, relation=REPLACE, digest=ledger.digest_of(data), domain=data.domain
        )
        with monkeypatch.context() as broken:
            broken.setattr(OpenDPBackend, "choose", lambda *given: chosen.append(1) or choose(*given))
            broken.setattr(OpenDPBackend, "draw", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                make(backend=None, theta=1).run(data, workload, ledger=ledger)
        monkeypatch.setattr(OpenDPBackend, "choose", lambda *given: pytest.fail("chosen anew"))
        release = make(backend=None, theta=1, estimate="paper").run(data, workload, ledger=ledger)
    assert chosen and release.spent.epsilon == 1 and len(release.measurements) == 3
