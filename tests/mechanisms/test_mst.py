"""MST finds the tree of strongest dependences, spends thirds exactly and goes on after an interruption."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.audit import replay, replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.mst import MST
from pgmjax.mechanisms.run import FitError
from pgmjax.model.compression import Compression
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 4, "b": 3, "c": 2, "d": 3, "e": 5})
WORKLOAD = Workload([["a", "b"], {"clique": ["d", "e"], "queries": {"e": "prefix"}}])
FEW = Estimator(max_steps=20, progress=False)
both = pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)


def planted(rows=20_000):
    """Each attribute copies an earlier one now and then: dependences of different strengths."""
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(0, size, rows) for name, size in DOMAIN.sizes.items()}
    for name, source, share in (("c", "a", 0.8), ("b", "c", 0.5), ("e", "b", 0.65), ("d", "a", 0.3)):
        copies = rng.random(rows) < share
        columns[name][copies] = columns[source][copies] % DOMAIN[name]
    return columns


COLUMNS = planted()
DATA = Dataset.from_columns(DOMAIN, COLUMNS)
SMALL = Dataset.from_columns(DOMAIN, {name: codes[:200] for name, codes in COLUMNS.items()})


def make(relation="add-remove", epsilon=1, delta=0, seed=0, estimator=FEW, **more):
    backend = SeededBackend(seed, insecure=True)
    return MST(epsilon, relation, delta, backend=backend, estimator=estimator, **more)


def true_distances():
    distances = {}
    for pair in itertools.combinations(DOMAIN.attributes, 2):
        exact = np.zeros(DOMAIN.shape_of(pair))
        np.add.at(exact, tuple(COLUMNS[name] for name in pair), 1)
        product = np.outer(exact.sum(axis=1), exact.sum(axis=0)) / exact.sum()
        distances[pair] = np.abs(exact - product).sum()
    return distances


def is_tree(edges):
    reached = {"a"}
    for _ in edges:
        reached |= {name for edge in edges if reached & set(edge) for name in edge}
    return len(reached) == len(DOMAIN)


@both
@pytest.mark.parametrize("epsilon, delta", [(60, 0), (40, "1e-9")], ids=["pure", "approximate"])
def test_with_a_large_budget_it_is_the_maximum_spanning_tree(relation, epsilon, delta):
    distances = true_distances()
    trees = [tree for tree in itertools.combinations(distances, len(DOMAIN) - 1) if is_tree(tree)]
    assert len(trees) == 5**3  # Cayley
    best = max(trees, key=lambda tree: sum(distances[edge] for edge in tree))
    release = make(relation, epsilon, delta).run(DATA, WORKLOAD)
    assert {m.clique for m in release.measurements[len(DOMAIN) :]} == set(best)


@both
def test_thirds_of_a_pure_budget(relation):
    release = make(relation, epsilon=3).run(SMALL, WORKLOAD)
    factor = 1 if relation is Relation.ADD_REMOVE else 2
    scales = [m.distribution.scale for m in release.measurements]
    assert scales[:5] == pytest.approx([5 * factor] * 5) and scales[5:] == pytest.approx([4 * factor] * 4)
    assert release.spent.epsilon == 3 and release.spent.delta == 0


def test_thirds_of_a_rho():
    release = make(delta="1e-6", epsilon="0.7").run(SMALL, WORKLOAD)
    rho = zcdp.rho_for("0.7", "1e-6")
    scales = [m.distribution.scale for m in release.measurements]
    assert scales[:5] == pytest.approx([float(15 / (2 * rho)) ** 0.5] * 5)
    assert scales[5:] == pytest.approx([float(12 / (2 * rho)) ** 0.5] * 4)
    assert release.spent.rho == rho


def test_public_cliques_are_measured_and_the_rest_is_joined():
    release = make(cliques=[("a", "b", "e")]).run(SMALL, WORKLOAD)
    cliques = [m.clique for m in release.measurements]
    assert cliques[:6] == [("a",), ("b",), ("c",), ("d",), ("e",), ("a", "b", "e")]
    assert len(cliques) == 8 and release.spent.epsilon == 1
    chosen = cliques[6:]
    assert is_tree([("a", "b"), ("b", "e"), *chosen])


def test_public_cliques_that_join_all_leave_nothing_to_choose(monkeypatch):
    monkeypatch.setattr(PrivateTable, "select", lambda *given, **more: pytest.fail("a choice was made"))
    release = make(cliques=(("a", "b", "c"), ("c", "d", "e"))).run(SMALL, WORKLOAD)
    assert (
        release.spent.epsilon == 1
        and [m.distribution.scale for m in release.measurements] == [10] * 5 + [4] * 2
    )


def test_a_single_attribute_takes_the_whole_budget():
    domain = Domain({"a": 3})
    data = Dataset.from_columns(domain, {"a": [0, 1, 2, 2]})
    release = make().run(data, Workload([["a"]]))
    assert [m.distribution.scale for m in release.measurements] == [1] and release.spent.epsilon == 1


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_replayed_with_public_cliques_and_weights(delta):
    for relation in Relation:
        options = {"domain": DOMAIN, "workload": WORKLOAD, "pairs": 4, "delta": delta, "max_weight": 3}
        assert replay_mechanism(MST, relation, cliques=(("a", "b"),), **options).calls > 4


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"cliques": [("a", "zip")]}, "zip"),
        ({"epsilon": "1e-30"}, r"2\^50"),
        ({"epsilon": 2000}, r"10\^27"),
        ({"cliques": [("a", "b", "c", "d", "e")], "estimator": Estimator(max_bytes=500)}, "available"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_read(settings, words, monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    with pytest.raises(ValueError, match=words):
        make(**settings).run(SMALL, WORKLOAD)


def test_a_lone_string_is_no_clique():
    with pytest.raises(TypeError, match=r"'ab'.*\('ab',\)"):
        make(cliques=["ab", "cd"])
    with pytest.raises(ValueError, match="twice"):
        make(cliques=[("a", "a")])


def test_a_failed_fit_keeps_the_answers(monkeypatch):
    monkeypatch.setattr(Estimator, "fit", lambda *given, **more: 1 / 0)
    with pytest.raises(FitError) as caught:
        make().run(SMALL, WORKLOAD)
    assert len(caught.value.measurements) == 5


def test_an_interrupted_run_goes_on_under_its_charge(tmp_path, monkeypatch):
    mechanism = MST(1, "add-remove", estimator=FEW)
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "people", epsilon=3, relation="add-remove", digest=ledger.digest_of(SMALL), domain=SMALL.domain
        )
        select, calls = PrivateTable.select, []

        def interrupted(table, score, **more):
            calls.append(score)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return select(table, score, **more)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(PrivateTable, "select", interrupted)
            mechanism.run(SMALL, WORKLOAD, ledger=ledger)
        assert ledger.account("people").spent == 1
        first, second = (mechanism.run(SMALL, WORKLOAD, ledger=ledger) for _ in range(2))
        account = ledger.account("people")
        assert account.spent == 1 and account.charges == 1
    assert replay.differences(first, second) == []
    assert first.spent.epsilon == Fraction(1)


RARE = Domain({"a": 6, "b": {"labels": ["x", "y", "z"]}, "c": 4})


def with_rare_values(rows=3000):
    """Values 2, 3 and 5 of `a` and two of `c` hardly ever occur; `b` has none to merge."""
    rng = np.random.default_rng(5)
    a = rng.choice([0, 1, 4], rows)
    columns = {"a": a, "b": (a + (rng.random(rows) < 0.3)) % 3, "c": rng.integers(0, 2, rows)}
    for row, (rare_a, rare_c) in enumerate([(2, 2), (3, 3), (5, 2)]):
        columns["a"][row], columns["c"][row] = rare_a, rare_c
    return Dataset.from_columns(RARE, columns)


@both
@pytest.mark.parametrize("delta", [0, "1e-9"], ids=["pure", "approximate"])
def test_rare_values_are_merged_after_they_are_measured(relation, delta):
    workload = Workload([["a", "b"]])
    release = make(relation, 6, delta, compress=True, estimator=None).run(with_rare_values(), workload)
    ones, pairs = release.measurements[:3], release.measurements[3:]
    assert [m.query for m in ones] == [queries.marginal([name]) for name in RARE]
    compression = Compression.from_measurements(RARE, ones)
    assert compression.merged == {"a": (2, 3, 5), "c": (2, 3)}
    assert len(pairs) == 2 and all(m.query == compression.query(m.clique) for m in pairs)
    for measurement in release.measurements:
        measurement.validate(release.domain)
    assert release.domain == release.model.domain == RARE
    assert release.spent.epsilon == 6
    # the pairs get a third of the budget whether or not values are merged
    assert (
        pairs[0].distribution
        == make(relation, 6, delta).run(with_rare_values(), workload).measurements[3].distribution
    )


def test_the_model_agrees_with_that_of_the_merged_table_and_tells_rare_values_apart():
    release = make(epsilon=6, compress=True, estimator=Estimator(progress=False)).run(
        with_rare_values(), Workload([["a", "b"]])
    )
    compression = Compression.from_measurements(RARE, release.measurements[:3])
    given = [compression.forward(m) for m in release.measurements]
    small = Estimator(progress=False).fit(compression.domain, given).model
    assert release.model.total == pytest.approx(small.total)
    for clique in itertools.combinations(RARE.attributes, 2):
        table = release.model.marginal(clique)
        np.testing.assert_allclose(compression.query(clique).apply(table), small.marginal(clique), atol=2)
    a = release.model.marginal(("a",))
    counted = release.measurements[0].values
    rare, others = [2, 3, 5], [0, 1, 4]
    assert a[rare].max() < 30 < a[others].min()
    assert np.argmax(a[rare]) == np.argmax(counted[rare])  # a pair's answer only knows their sum
    np.testing.assert_allclose(release.answers()[0], release.model.marginal(("a", "b")).reshape(-1))


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_replayed_with_rare_values_merged(delta):
    for relation in Relation:
        options = {"domain": RARE, "workload": Workload([["a", "b"]]), "pairs": 4, "delta": delta}
        assert replay_mechanism(MST, relation, compress=True, **options).calls > 4


def test_an_interrupted_run_merges_the_same_values_again(tmp_path, monkeypatch):
    mechanism = MST(6, "add-remove", estimator=FEW, compress=True)
    data, workload = with_rare_values(), Workload([["a", "b"]])
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "people", epsilon=9, relation="add-remove", digest=ledger.digest_of(data), domain=data.domain
        )
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(
                PrivateTable, "select", lambda *given, **more: (_ for _ in ()).throw(KeyboardInterrupt)
            )
            mechanism.run(data, workload, ledger=ledger)
        first, second = (mechanism.run(data, workload, ledger=ledger) for _ in range(2))
        assert ledger.account("people").spent == 6 and ledger.account("people").charges == 1
    assert replay.differences(first, second) == []
    assert any(m.query != queries.marginal(m.clique) for m in first.measurements)


def test_compress_is_yes_or_no():
    with pytest.raises(TypeError, match="compress"):
        make(compress=1)
