"""Batch AIM measures what is worth its noise, divides a round optimally, and spends exactly."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

import pgmjax as pj
from pgmjax.audit import replay, replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.mechanisms.batch_aim import BatchAIM
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from tests.mechanisms.planted import COLUMNS, DATA, DOMAIN, PAIR, WORKLOAD

FEW = Estimator(max_steps=60, max_bytes=10**9, progress=False)
both = pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)
both_noises = pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "approximate"])


def make(relation="add-remove", epsilon=1, delta=0, seed=0, estimator=FEW, **more):
    backend = SeededBackend(seed, insecure=True)
    return BatchAIM(epsilon, relation, delta, backend=backend, estimator=estimator, **more)


@both
@both_noises
def test_the_planted_triple_is_measured_and_learned(relation, delta):
    release = make(relation, epsilon=30, delta=delta, rounds=1).run(DATA, WORKLOAD)
    cliques = [m.clique for m in release.measurements]
    assert cliques[:5] == [("a",), ("b",), ("c",), ("d",), ("e",)]
    assert ("a", "b", "c") in cliques[5:]
    truth = np.zeros((2, 2, 2))
    np.add.at(truth, tuple(COLUMNS[name] for name in "abc"), 1)
    np.testing.assert_allclose(release.model.marginal(("a", "b", "c")), truth, atol=60)


def test_a_round_without_anything_worthwhile_measures_the_attributes_again(monkeypatch):
    monkeypatch.setattr(PrivateTable, "measure_scores", lambda self, score, **cost: np.full(8, -1.0))
    release = make(epsilon=2, rounds=2).run(DATA, WORKLOAD)
    assert [m.clique for m in release.measurements] == 3 * [(name,) for name in DOMAIN]


@pytest.mark.parametrize("delta, power", [(0, 1), ("1e-6", 0.5)], ids=["pure", "approximate"])
def test_shares_minimise_the_weighted_noise(delta, power, monkeypatch):
    """Compared with a numerical minimum; marginals of other sizes and weights are all worth measuring."""
    domain = Domain({"a": 4, "b": 5, "c": 6, "d": 7})
    columns = {name: np.arange(5040) % size for name, size in domain.sizes.items()}
    columns["b"] = columns["a"] % 5
    workload = Workload([["a", "b"], {"clique": ["b", "c"], "weight": 4}, ["a", "d"]])
    seen = {}
    shares = BatchAIM._shares

    def watched(self, run, *given):
        found = shares(self, run, *given)
        seen["weights"], seen["shares"] = run.plan, found[0]
        return found

    monkeypatch.setattr(BatchAIM, "_shares", watched)
    monkeypatch.setattr(PrivateTable, "measure_scores", lambda self, score, **cost: np.full(3, 1e9))
    make(delta=delta, rounds=1).run(Dataset.from_columns(domain, columns), workload)
    cliques = list(seen["shares"])
    weighted = np.array([seen["weights"][clique] * domain.size(clique) for clique in cliques], float)
    assert len(cliques) == 3 and len(set(weighted)) == 3
    best = optimize.minimize(
        lambda logs: np.log(weighted @ (np.exp(logs).sum() / np.exp(logs)) ** power), np.zeros(3), tol=1e-12
    )
    expected = np.exp(best.x) / np.exp(best.x).sum()
    found = np.array(list(seen["shares"].values())) / sum(seen["shares"].values())
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@both_noises
def test_the_chosen_set_is_the_best_of_all(delta, monkeypatch):
    """With made-up scores: the greedy set against all 2^6 sets, by the rule that it optimises."""
    domain = Domain({"a": 2, "b": 3, "c": 5, "d": 7})
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(0, size, 2000) for name, size in domain.sizes.items()}
    data, workload = Dataset.from_columns(domain, columns), Workload.all_kway(domain, 2)
    pairs = list(itertools.combinations(domain.attributes, 2))
    cells = np.array([domain.size(pair) for pair in pairs], float)
    power, seen = 1 if delta == 0 else 0.5, {}
    noise, shares = BatchAIM._noise, BatchAIM._shares
    keep = {"_noise": ("noise", noise), "_shares": ("shares", shares)}
    for name, (key, true) in keep.items():
        monkeypatch.setattr(
            BatchAIM, name, lambda *given, k=key, t=true: seen.update({k: t(*given)}) or seen[k]
        )
    monkeypatch.setattr(PrivateTable, "measure_scores", lambda self, score, **cost: seen["scores"])
    for seed in range(8):
        scores = np.random.default_rng(seed).uniform(0, 900, 6)
        seen.update(scores=scores)
        make(delta=delta, rounds=1).run(data, workload)

        def value(kept, scores=scores, noise=seen["noise"]):
            parts = cells[list(kept)] ** (1 / (1 + power))
            return scores[list(kept)].sum() - noise * parts.sum() ** (1 + power)

        sets = [s for k in range(7) for s in itertools.combinations(range(6), k)]
        ours = tuple(i for i, pair in enumerate(pairs) if pair in seen["shares"][0])
        best = max(map(value, sets))
        assert len(ours) > 0 and value(ours) >= 0.9 * best


@both_noises
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize(
    "workload, max_cells",
    [(PAIR, 10**6), (PAIR, 7), (Workload([["a"], ["b"]]), 10**6)],
    ids=["pair", "no room at first", "one-way"],
)
def test_the_budget_is_spent_exactly(delta, rounds, workload, max_cells, monkeypatch):
    budgets = []
    measure = PrivateTable.measure
    monkeypatch.setattr(
        PrivateTable, "measure", lambda self, *g, **m: budgets.append(self.budget) or measure(self, *g, **m)
    )
    release = make(epsilon="0.7", delta=delta, rounds=rounds, max_cells=max_cells).run(DATA, workload)
    cap = zcdp.rho_for("0.7", delta) if delta else Fraction(7, 10)
    assert budgets[0].spent == budgets[0].cap == cap and budgets[0].remaining == 0
    assert release.spent.epsilon == Fraction(7, 10) and release.spent.rho == (cap if delta else None)


def test_a_model_stays_within_the_limit_after_every_round():
    domain = Domain(dict.fromkeys("abcd", 3))
    rng = np.random.default_rng(2)
    same = rng.integers(0, 3, 3000)
    columns = {name: np.where(rng.random(3000) < 0.7, same, rng.integers(0, 3, 3000)) for name in "abcd"}
    data, workload = Dataset.from_columns(domain, columns), Workload.all_kway(domain, 2)
    for most in (18, 30, 81):
        release = make(epsilon=200, delta="1e-6", max_cells=most).run(data, workload)
        held = [tuple("abcd".index(n) for n in m.clique) for m in release.measurements]
        assert total_cells(domain.shape, held) <= most
        assert max(map(len, held)) == 2  # something wider than an attribute was measured


def test_a_clique_larger_than_the_limit_is_no_candidate():
    release = make(epsilon=20, max_cells=7).run(DATA, WORKLOAD)
    assert {len(m.clique) for m in release.measurements} <= {1, 2}


@both
@both_noises
def test_replayed_with_weights_and_other_queries(relation, delta):
    seen = replay_mechanism(
        BatchAIM, relation, delta=delta, pairs=4, max_weight=3, domain=DOMAIN, workload=WORKLOAD
    )
    assert seen.calls > 2


def test_an_interrupted_run_goes_on_with_the_same_scores(tmp_path, monkeypatch):
    mechanism = BatchAIM(6, "add-remove", "1e-6", estimator=FEW)
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        given = {"delta": "1e-6", "relation": "add-remove", "digest": ledger.digest_of(DATA)}
        ledger.register("people", epsilon=9, domain=DOMAIN, **given)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(BatchAIM, "_noise", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
            mechanism.run(DATA, WORKLOAD, ledger=ledger)
        first, second = (mechanism.run(DATA, WORKLOAD, ledger=ledger) for _ in range(2))
        assert ledger.account("people").charges == 1
    assert replay.differences(first, second) == []


BAD = [
    ({"rounds": 0}, ValueError, "rounds.*0"),
    ({"rounds": 1.5}, TypeError, "rounds"),
    ({"start": 1}, ValueError, "start.*1"),
    ({"share": "0"}, ValueError, "share.*0"),
    ({"kept_noise": 0}, ValueError, "kept_noise.*0"),
    ({"kept_noise": 1.5}, ValueError, r"kept_noise must be a share in \(0, 1\]"),
    ({"kept_noise": "much"}, TypeError, "kept_noise"),
    ({"max_cells": 0}, ValueError, "max_cells"),
    ({"steps": 0}, ValueError, "steps"),
]


@pytest.mark.parametrize("given, error, words", BAD)
def test_bad_settings(given, error, words):
    with pytest.raises(error, match=words):
        make(**given)


@pytest.mark.parametrize("epsilon", ["1e-30", "1e30"])
def test_budgets_that_no_noise_serves_are_refused_before_anything_is_read(epsilon, monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", lambda *given: pytest.fail("counts were read"))
    with pytest.raises(ValueError, match=r"smaller epsilon|spend"):
        make(epsilon=epsilon).run(DATA, WORKLOAD)


def test_fits_that_are_not_regularised_keep_all_the_noise(monkeypatch):
    noises = []
    noise = BatchAIM._noise
    monkeypatch.setattr(BatchAIM, "_noise", lambda *given: noises.append(noise(*given)) or noises[-1])
    for regularisation in ("auto", "none"):
        estimator = Estimator(max_steps=60, progress=False, regularisation=regularisation)
        make(rounds=1, delta="1e-6", estimator=estimator).run(DATA, PAIR)
    assert noises[0] == pytest.approx(0.35 * noises[1])
    assert pj.mechanisms.names()["batch-aim"] is BatchAIM
