"""AIM picks what matters, keeps its model small, spends exactly and goes on after an interruption."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.audit import replay, replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.mechanisms import aim
from pgmjax.mechanisms.aim import AIM
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from tests.mechanisms.planted import COLUMNS, DATA, DOMAIN, PAIR, WORKLOAD

FEW = Estimator(max_steps=20, max_bytes=10**9, progress=False)
both = pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)
both_noises = pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "approximate"])


def make(relation="add-remove", epsilon=1, delta=0, seed=0, estimator=FEW, **more):
    backend = SeededBackend(seed, insecure=True)
    return AIM(epsilon, relation, delta, backend=backend, estimator=estimator, **more)


@both
@both_noises
def test_the_planted_triple_is_measured_first(relation, delta):
    release = make(relation, epsilon=30, delta=delta, rounds=8).run(DATA, WORKLOAD)
    cliques = [m.clique for m in release.measurements]
    assert cliques[:6] == [("a",), ("b",), ("c",), ("d",), ("e",), ("a", "b", "c")]
    truth = np.zeros((2, 2, 2))
    np.add.at(truth, tuple(COLUMNS[name] for name in "abc"), 1)
    np.testing.assert_allclose(release.model.marginal(("a", "b", "c")), truth, atol=60)


@both_noises
@pytest.mark.parametrize("rounds", [None, 3, 4])
def test_the_budget_is_spent_exactly(delta, rounds, monkeypatch):
    budgets = []
    measure = PrivateTable.measure
    monkeypatch.setattr(
        PrivateTable, "measure", lambda self, *g, **m: budgets.append(self.budget) or measure(self, *g, **m)
    )
    release = make(epsilon="0.7", delta=delta, rounds=rounds).run(DATA, PAIR)
    cap = zcdp.rho_for("0.7", delta) if delta else Fraction(7, 10)
    assert budgets[0].spent == budgets[0].cap == cap and budgets[0].remaining == 0
    assert release.spent.epsilon == Fraction(7, 10) and release.spent.rho == (cap if delta else None)
    kinds = [event.kind for event in budgets[0].events]
    assert kinds[3::2] == ["selection"] * len(kinds[3::2]) and len(kinds[3:]) % 2 == 0


def test_the_first_round_gets_its_part_of_the_forecast():
    release = make(epsilon=6, rounds=12, share="0.5").run(DATA, PAIR)
    assert [m.distribution.scale for m in release.measurements[:3]] == [4.0, 4.0, 4.0]


def test_a_model_stays_within_the_limit_at_every_time(monkeypatch):
    domain = Domain(dict.fromkeys("abcd", 3))
    rng = np.random.default_rng(2)
    same = rng.integers(0, 3, 3000)
    columns = {name: np.where(rng.random(3000) < 0.7, same, rng.integers(0, 3, 3000)) for name in "abcd"}
    most, seen = 30, []
    true = aim.affordable

    def watched(domain, cliques, candidates, limit):
        seen.append((list(cliques), limit))
        return true(domain, cliques, candidates, limit)

    monkeypatch.setattr(aim, "affordable", watched)
    workload = Workload.all_kway(domain, 2)
    release = make(epsilon=20, max_cells=most, rounds=12).run(Dataset.from_columns(domain, columns), workload)
    chosen = [m.clique for m in release.measurements]
    limits = [limit for _, limit in seen]
    assert limits == sorted(limits) and limits[-1] == most and len(limits) > 2
    for cliques, limit in seen:
        new = chosen[len(cliques)]
        assert chosen[: len(cliques)] == cliques
        cells = total_cells(domain.shape, [tuple("abcd".index(n) for n in c) for c in [*cliques, new]])
        assert cells <= limit or any(set(new) <= set(clique) for clique in cliques)
    assert total_cells(domain.shape, list(itertools.combinations(range(4), 2))) > most  # the limit mattered


def test_a_clique_larger_than_the_limit_is_no_candidate():
    release = make(epsilon=20, max_cells=7, rounds=6).run(DATA, WORKLOAD)
    assert {len(m.clique) for m in release.measurements} <= {1, 2}


@both
@both_noises
def test_replayed_with_weights_and_other_queries(relation, delta):
    seen = replay_mechanism(
        AIM, relation, delta=delta, pairs=4, max_weight=3, domain=DOMAIN, workload=PAIR, rounds=6
    )
    assert seen.calls > 2


BAD = [
    ({"rounds": 2}, "rounds must be at least 3, the number of the workload's attributes"),
    ({"epsilon": "1e-30"}, r"2\^50"),
    ({"epsilon": 2000}, r"10\^27"),
    ({"estimator": Estimator(max_bytes=100_000)}, "lower max_cells"),
]


@pytest.mark.parametrize("settings, words", BAD)
def test_what_cannot_work_is_refused_before_anything_is_read(settings, words, monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    with pytest.raises(ValueError, match=words):
        make(**settings).run(DATA, PAIR)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"share": 1}, "share.*1"),
        ({"share": 0}, "share.*0"),
        ({"rounds": 0}, "rounds.*0"),
        ({"max_cells": 0}, "max_cells.*0"),
        ({"steps": 0}, "steps.*0"),
    ],
)
def test_bad_options(settings, words):
    with pytest.raises(ValueError, match=words):
        make(**settings)


def test_a_failed_fit_keeps_the_answers(monkeypatch):
    monkeypatch.setattr(Estimator, "fit", lambda *given, **more: 1 / 0)
    with pytest.raises(FitError) as caught:
        make().run(DATA, PAIR)
    assert len(caught.value.measurements) == 3


@both_noises
def test_an_interrupted_run_goes_on_under_its_charge(delta, tmp_path, monkeypatch):
    # of the budget of 24 rounds less than four's are gone after the first one: there is a second
    mechanism = AIM(1, "add-remove", delta, rounds=24, estimator=FEW)
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        amount = {"epsilon": 1} if delta == 0 else {"epsilon": 1, "delta": delta}
        ledger.register(
            "people", relation="add-remove", digest=ledger.digest_of(DATA), domain=DATA.domain, **amount
        )
        select, shown = PrivateTable.select, []

        def interrupted(table, score, **more):
            if len(shown) == 1:
                raise KeyboardInterrupt
            shown.append(select(table, score, **more))
            return shown[-1]

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(PrivateTable, "select", interrupted)
            mechanism.run(DATA, PAIR, ledger=ledger)
        again = []
        with monkeypatch.context() as patch:
            patch.setattr(PrivateTable, "select", lambda *g, **m: again.append(select(*g, **m)) or again[-1])
            first = mechanism.run(DATA, PAIR, ledger=ledger)
        assert again[:1] == shown and len(again) > 1
        monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
        second = mechanism.run(DATA, PAIR, ledger=ledger)
        assert ledger.account("people").charges == 1
    assert replay.differences(first, second) == []
