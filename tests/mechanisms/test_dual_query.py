"""DualQuery: what it spends and says, both of its estimates, the audit, its ledger, its refusals."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import audit
from pgmjax import queries as q
from pgmjax.audit import replay, replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.estimation.losses.transcript import Draws
from pgmjax.mechanisms.conditionals import model_of_records
from pgmjax.mechanisms.dual_query import DualQuery
from pgmjax.mechanisms.dual_query_game import Game
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from pgmjax.release import folder

FALSE_ALARMS = 0.0  # the noise is seeded, or its values play no part

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload([["a", "b"], ["b", "c"], {"clique": ["c"], "queries": {"c": "prefix"}}])
REPLACE = Relation.REPLACE_ONE
FEW = Estimator(max_steps=5, max_bytes=10**9, progress=False)


def columns(rows=5000):
    """Records whose attributes depend on one another, so that a uniform table answers badly."""
    rng = np.random.default_rng(0)
    a = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    b = (a > 0) ^ (rng.random(rows) < 0.1)
    return {"a": a, "b": b.astype(int), "c": np.minimum(a + b, 3)}


DATA = Dataset.from_columns(DOMAIN, columns())


def make(**settings):
    common = {"epsilon": 1, "relation": REPLACE, "backend": SeededBackend(0, insecure=True)}
    return DualQuery(**(common | settings))


def error(answer):
    """The mean over the workload's queries of the error's L1 norm, of their answers'."""
    tables = DATA.marginals([entry.clique for entry in WORKLOAD.entries])
    parts = []
    for entry, table in zip(WORKLOAD.entries, tables, strict=True):
        exact = entry.query.apply(table)
        parts.append(np.abs(exact - answer(entry.query)).sum() / exact.sum())
    return np.mean(parts)


@pytest.fixture(scope="module")
def played():
    return make(delta="1e-3").run(DATA, WORKLOAD, show_progress=False)


def test_a_release_holds_its_transcript(played):
    transcript = played.transcript
    game = Game(5000, Fraction(2), 50)
    assert transcript.rounds == game.most_rounds("zcdp", Fraction(1), Fraction("1e-3"))
    assert (transcript.samples, transcript.count, transcript.step) == (50, 5000, 2)
    assert transcript.queries == tuple(entry.query for entry in WORKLOAD.entries)
    assert played.measurements == () and played.model.total == 5000
    assert played.spent.rho == game.rho(transcript.rounds) and played.spent.delta == Fraction("1e-3")
    assert 0.9 < played.spent.epsilon <= 1
    assert f"{transcript.drawn.size:,} random choices of queries" in played.statement()


def test_the_engine_sees_more_in_the_draws_than_the_records_say(played):
    assert error(played.model.answer) < 0.7 * error(played.transcript.answer)
    bound = Draws(played.transcript).bind(DOMAIN, (), 5000.0)
    truth = bound.exact([DATA.marginals([clique])[0] / 5000 for clique in bound.cliques])
    assert played.fit.loss < truth and played.fit.loss == pytest.approx(truth, rel=0.02)


def test_the_papers_estimate_is_the_records_themselves(played):
    release = make(delta="1e-3", estimate="paper").run(DATA, WORKLOAD)
    assert np.array_equal(release.transcript.drawn, played.transcript.drawn)
    for entry in WORKLOAD.entries:
        wanted = played.transcript.answer(entry.query)
        assert np.allclose(release.model.answer(entry.query), wanted, rtol=0, atol=1e-9)
    assert release.fit.steps == 0 and release.fit.gap == np.inf and release.fit.loss > played.fit.loss
    bare = dataclasses.replace(release.model, known_marginals=type(release.model.known_marginals)((), ()))
    for clique in WORKLOAD.cliques:  # the potentials say the same as the marginals beside them
        assert np.allclose(bare.marginal(clique), release.model.marginal(clique), rtol=0, atol=1e-9)


def test_the_model_of_records_on_a_loop_and_apart():
    domain = Domain({"a": 3, "b": 2, "c": 4, "d": 2, "e": 3})
    workload = Workload.of_marginals([("b", "a"), ("b", "c"), ("c", "a"), ("d",)])
    rng = np.random.default_rng(3)
    data = Dataset.from_columns(
        domain, {name: rng.integers(0, size, 900) for name, size in domain.sizes.items()}
    )
    transcript = make(rounds=9, step="0.1", delta="1e-3", estimate="paper").run(data, workload).transcript
    model = model_of_records(transcript, workload)
    bare = dataclasses.replace(model, known_marginals=type(model.known_marginals)((), ()))
    for clique in workload.cliques:
        assert np.allclose(bare.marginal(clique), 900 * transcript.marginal(clique), rtol=0, atol=1e-9)
    assert np.allclose(bare.marginal(("e",)), 300)


ACCOUNTS = [("0", "pure"), ("1e-3", "simple"), ("1e-3", "tight"), ("1e-3", "zcdp")]


@pytest.mark.parametrize("delta, account", ACCOUNTS)
def test_spends_what_its_account_says(delta, account):
    mechanism = make(delta=delta, accounting=account, estimate="paper")
    release = mechanism.run(DATA, WORKLOAD)
    game, rounds = Game(5000, Fraction(2), 50), release.transcript.rounds
    assert rounds == game.most_rounds(account, Fraction(1), Fraction(delta))
    assert release.spent.epsilon == game.epsilon(rounds, account, Fraction(delta)) <= 1
    assert release.spent.delta == Fraction(delta)
    assert release.spent.rho == (None if account == "pure" else game.rho(rounds))


def test_a_cost_above_the_budget_would_be_told(monkeypatch):
    """It was told as the budget, so that an error in the accounting of the rounds did not show."""
    monkeypatch.setattr(Game, "epsilon", lambda *given: Fraction(7))
    release = make(delta="1e-3", accounting="zcdp", estimate="paper").run(DATA, WORKLOAD)
    assert release.spent.epsilon == 7


def test_the_best_account_is_the_default():
    assert make().accounting == "pure" and make(delta="1e-9").accounting == "zcdp"


@pytest.mark.parametrize("delta, account", ACCOUNTS)
def test_nothing_but_the_draws_depends_on_the_table(delta, account):
    """L1 of the audit: record on one table, replay on its neighbour, compare every bit and the cost."""
    seen = replay_mechanism(
        DualQuery, REPLACE, delta=delta, pairs=12, accounting=account, step="0.05", samples=3, rounds=3,
        estimate="paper",
    )  # fmt: skip
    assert seen.pairs == 12 and seen.calls == 1 + 2 * 3
    if delta == "0":
        assert seen.epsilon <= 1
    else:
        assert seen.rho <= rho_for(1, delta)


def test_the_audit_counts_every_draw():
    def run(data):
        return make(step="0.01", samples=3, rounds=3, estimate="paper").run(data, WORKLOAD)

    other = columns(20)
    other["a"] = 2 - other["a"]
    pair = [Dataset.from_columns(DOMAIN, columns(20)) for _ in range(2)]
    tape = replay.check_pair(run, *pair)
    assert audit.cost(tape.calls)[0] == pytest.approx(float(Game(20, Fraction("0.01"), 3).pure(3)))


def test_a_smaller_step_where_the_budget_is_small():
    few = Dataset.from_columns(DOMAIN, columns(40))
    release = make(estimate="paper").run(few, WORKLOAD)
    assert release.transcript.rounds == 4 and release.transcript.step < Fraction(1, 15)
    assert Fraction(99, 100) < release.spent.epsilon <= 1
    named = make(estimate="paper", rounds=7).run(few, WORKLOAD)
    assert named.transcript.rounds == 7 and named.transcript.step < release.transcript.step


def test_seeds():
    first = make(rounds=3, estimate="paper").run(DATA, WORKLOAD).transcript
    again = make(rounds=3, estimate="paper").run(DATA, WORKLOAD).transcript
    other = make(rounds=3, estimate="paper", seed=1).run(DATA, WORKLOAD).transcript
    assert np.array_equal(first.drawn, again.drawn)
    assert not np.array_equal(first.drawn[0], other.drawn[0])
    secure = make(rounds=3, estimate="paper", backend=None).run(DATA, WORKLOAD)
    assert secure.secure and secure.seed is None
    assert np.array_equal(secure.transcript.drawn[0], first.drawn[0])  # the first round is public


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "budgets.ledger") as made:
        made.register(
            "people", epsilon=1, relation="replace-one", digest=made.digest_of(DATA), domain=DATA.domain
        )
        yield made


def test_both_estimates_cost_one_charge_of_a_ledger(ledger):
    settings = {"rounds": 3, "estimator": FEW, "backend": None}
    engine = make(**settings).run(DATA, WORKLOAD, ledger=ledger)
    paper = make(**settings, estimate="paper").run(DATA, WORKLOAD, ledger=ledger)
    assert engine.ledger["charge"] == paper.ledger["charge"]
    assert np.array_equal(engine.transcript.drawn, paper.transcript.drawn)


def test_an_interrupted_game_goes_on_where_it_stopped(ledger, monkeypatch):
    settings = {"rounds": 5, "estimate": "paper", "backend": None}
    scans, scan = [], Dataset.marginals

    def broken(self, cliques):
        scans.append(cliques)
        if len(scans) == 3:
            raise KeyboardInterrupt
        return scan(self, cliques)

    monkeypatch.setattr(Dataset, "marginals", broken)
    with pytest.raises(KeyboardInterrupt):
        make(**settings).run(DATA, WORKLOAD, ledger=ledger)
    release = make(**settings).run(DATA, WORKLOAD, ledger=ledger)
    assert len(scans) == 3 + 2 and release.transcript.rounds == 5
    again = make(**settings).run(DATA, WORKLOAD, ledger=ledger)
    assert len(scans) == 5 and np.array_equal(again.transcript.drawn, release.transcript.drawn)


def test_a_release_is_written_and_read(played, tmp_path):
    folder.write(played, tmp_path / "out", show_progress=False)
    saved = folder.read(tmp_path / "out")
    assert saved.transcript().to_dict() == played.transcript.to_dict()
    assert len(saved.measurements()) == 0 and len(saved.answers()) == WORKLOAD.num_queries(DOMAIN)
    assert '"secure": false' in (tmp_path / "out" / "transcript.json").read_text()
    (tmp_path / "out" / "transcript.json").write_text('{"format": "pgmjax:transcript", "format_version": 1}')
    with pytest.raises(ValueError, match=r"transcript\.json is damaged: the transcript lacks attributes"):
        saved.transcript()
    (tmp_path / "out" / "transcript.json").unlink()
    assert saved.transcript() is None


def test_a_failed_fit_keeps_the_transcript(monkeypatch):
    monkeypatch.setattr(Estimator, "fit", lambda *given, **more: 1 / 0)
    with pytest.raises(FitError, match="division by zero") as caught:
        make(rounds=2).run(DATA, WORKLOAD)
    assert caught.value.transcript.rounds == 2 and caught.value.measurements == ()


BAD_SETTINGS = [
    ({"relation": Relation.ADD_REMOVE}, ValueError, "replace-one.*add-remove"),
    ({"accounting": "best"}, ValueError, "accounting.*'best'"),
    ({"accounting": "zcdp"}, ValueError, "'zcdp' needs a delta above 0"),
    ({"accounting": "pure", "delta": "1e-3"}, ValueError, "'pure' spends no delta"),
    ({"step": 0}, ValueError, "step.*0"),
    ({"step": "x"}, ValueError, "step"),
    ({"step": True}, TypeError, "step"),
    ({"samples": 0}, ValueError, "samples"),
    ({"samples": 1.5}, TypeError, "samples"),
    ({"rounds": 1}, ValueError, "rounds"),
    ({"estimate": "mean"}, ValueError, "estimate.*'mean'"),
    ({"seed": -1}, ValueError, "seed"),
    ({"estimator": Estimator(loss="l1")}, ValueError, "the loss of its own draws"),
]


@pytest.mark.parametrize("change, error, words", BAD_SETTINGS)
def test_bad_settings(change, error, words):
    with pytest.raises(error, match=words):
        make(**change)


@pytest.fixture
def unspent(monkeypatch):
    monkeypatch.setattr(Budget, "charge", lambda *given: pytest.fail("something was charged"))
    monkeypatch.setattr(Dataset, "marginals", lambda *given: pytest.fail("counts were read"))


def test_other_queries_are_refused(unspent):
    for query in (q.DenseMatrix(("a",), [[1, -1, 0]]), q.Product({"c": q.mean()})):
        with pytest.raises(ValueError, match=r"\('[ac]',\)"):
            make().run(DATA, Workload([query, ["a", "b"]]))


def test_a_weighted_table_is_refused(unspent):
    data = Dataset.from_columns(DOMAIN, columns(40), weights=np.ones(40, int), max_weight=2)
    with pytest.raises(ValueError, match="DualQuery"):
        make().run(data, WORKLOAD)


def test_what_the_budget_does_not_allow_is_refused(unspent):
    with pytest.raises(ValueError, match=r"allows the first round only.*2, 50 samples and 5,000 records"):
        make(epsilon="1e-3", step=2).run(DATA, WORKLOAD)
    with pytest.raises(ValueError, match="allows 7 rounds"):
        make(step=2, rounds=8).run(DATA, WORKLOAD)


def test_an_estimator_that_stops_at_the_noise_goes_to_the_optimum():
    """The draws have no noise level; nothing may fail after they are paid for."""
    release = make(rounds=2, estimator=Estimator(max_steps=3, progress=False)).run(DATA, WORKLOAD)
    assert release.transcript.rounds == 2
