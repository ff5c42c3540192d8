"""A run in a ledger: charged before counts are read, resumed from stored answers, never paid twice."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import TableDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms import Marginals
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.gate import TableReadError
from pgmjax.privacy.ledger import IdempotencyConflict, Ledger
from pgmjax.privacy.ledger.charge import Charge
from pgmjax.privacy.ledger.journal import HeldTable, LedgerJournal
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Counts
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 3, "b": 2})
DATA = Dataset.from_columns(DOMAIN, {"a": [0, 1, 2, 2, 0], "b": [0, 1, 1, 0, 0]})
A, B = queries.marginal(["a"]), queries.marginal(["b"])
ADD = Relation.ADD_REMOVE
REQUEST = {"mechanism": "test", "rounds": 2}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "budgets.ledger") as made:
        made.register(
            "people", epsilon=3, relation="add-remove", digest=made.digest_of(DATA), domain=DATA.domain
        )
        yield made


@pytest.fixture
def reads(monkeypatch):
    """What was done to the table and the ledger, in order."""
    log = []
    for owner, name in (
        (Dataset, "marginals"),
        (Dataset, "validate"),
        (HeldTable, "reserve"),
        (OpenDPBackend, "draw"),
    ):
        true = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *given, true=true, name=name, **more: log.append(name) or true(*given, **more)
        )
    return log


def open_table(ledger, key="run", request=REQUEST, budget=1, backend=None):
    budget = budget if isinstance(budget, Budget) else Budget(budget)
    return PrivateTable(
        DATA, ADD, budget, backend, LedgerJournal(ledger, HeldTable.of(ledger, DATA), key, request)
    )


def values(measurements):
    return [each.values.tolist() for each in measurements]


def run(table, stop=False):
    """Two steps, the second chosen by the first's answer."""
    first = table.measure([A], epsilons=["0.25"], show_progress=False)
    if stop:
        raise KeyboardInterrupt
    chosen = table.select(Counts(A), epsilon="0.25")
    second = table.measure([B], epsilons=["0.5"], show_progress=False)
    return values(first), chosen, values(second)


def test_the_charge_comes_before_counts_and_answers_come_back_free(ledger, reads):
    first = run(open_table(ledger))
    assert reads[:4] == ["validate", "reserve", "draw", "marginals"]
    reads.clear()
    assert run(open_table(ledger)) == first
    assert "draw" not in reads and "marginals" not in reads
    account = ledger.account("people")
    assert account.spent == 1 and account.charges == 1
    assert ledger.charges("people")[0].answers == 3 and ledger.verify().ok


def test_an_interrupted_run_goes_on_where_it_stopped(ledger, reads):
    with pytest.raises(KeyboardInterrupt):
        run(open_table(ledger), stop=True)
    kept = open_table(ledger).measure([A], epsilons=["0.25"], show_progress=False)
    reads.clear()
    first, _, _ = run(open_table(ledger))
    assert first == values(kept) and reads.count("draw") == 1
    assert ledger.account("people").spent == 1


def test_another_key_is_another_run_with_its_own_noise(ledger):
    wide = Budget("0.001"), Budget("0.001")
    drawn = [
        values(open_table(ledger, f"run {k}", budget=wide[k]).measure([A, B], epsilons=["0.0005"] * 2))
        for k in range(2)
    ]
    assert drawn[0] != drawn[1]  # equal with a probability below 1e-12
    assert ledger.account("people").spent == Fraction(2, 1000)


def test_something_else_under_the_same_key_is_refused(ledger, reads):
    open_table(ledger).measure([A], epsilons=["0.25"], show_progress=False)
    reads.clear()
    with pytest.raises(IdempotencyConflict):
        open_table(ledger, request={**REQUEST, "rounds": 3}).measure([A], epsilons=["0.25"])
    with pytest.raises(IdempotencyConflict):
        open_table(ledger).measure([B], epsilons=["0.25"])
    assert "draw" not in reads and "marginals" not in reads
    assert ledger.account("people").spent == 1


def test_a_spent_account_refuses_before_counts_are_read(ledger, reads):
    open_table(ledger, "first", budget=2).measure([A], epsilons=[1], show_progress=False)
    reads.clear()
    with pytest.raises(BudgetExceeded, match="only 1"):
        open_table(ledger, "second", budget=2).measure([A], epsilons=[1])
    assert "marginals" not in reads and "draw" not in reads


def test_repeatable_noise_needs_an_account_for_research(ledger):
    seeded = SeededBackend(1, insecure=True)
    with pytest.raises(ValueError, match="'people'"):
        open_table(ledger, backend=seeded).measure([A], epsilons=[1])
    assert ledger.account("people").spent == 0


def test_a_table_that_is_not_registered_is_named(ledger):
    other = Dataset.from_columns(DOMAIN, {"a": [0], "b": [0]})
    with pytest.raises(ValueError, match="has no account for this table"):
        LedgerJournal(ledger, HeldTable.of(ledger, other), None, REQUEST)


def test_a_mixture_is_not_reserved_whole(ledger):
    budget = Budget(1, "renyi", delta="1e-9")
    with pytest.raises(ValueError, match="must be an epsilon or a rho"):
        open_table(ledger, budget=budget).measure([A], epsilons=["0.1"])


def test_a_failing_fit_is_made_again_from_the_stored_answers(ledger, monkeypatch):
    workload = Workload.of_marginals([("a", "b")])
    fit = Estimator(max_steps=20, progress=False)
    made = Marginals(epsilon=1, relation=ADD, estimator=fit)
    monkeypatch.setattr(Estimator, "fit", lambda *given, **more: 1 / 0)
    with pytest.raises(RuntimeError, match="division by zero") as failed:
        made.run(DATA, workload, ledger=ledger)
    monkeypatch.undo()
    release = made.run(DATA, workload, ledger=ledger)
    assert np.array_equal(release.measurements[0].values, failed.value.measurements[0].values)
    assert release.ledger["account"] == "people" and release.ledger["charge"] == 1
    assert release.ledger["head"] == ledger.head() and ledger.account("people").spent == 1
    named = made.run(DATA, workload, ledger=ledger, key="again")
    assert named.ledger["key"] == "again" and ledger.account("people").spent == 2


def test_a_key_without_a_ledger_is_refused():
    with pytest.raises(ValueError, match="give the ledger too"):
        Marginals(epsilon=1, relation=ADD).run(DATA, Workload.of_marginals([("a",)]), key="x")


def test_a_journal_is_for_one_run(ledger):
    journal = LedgerJournal(ledger, HeldTable.of(ledger, DATA), "run", REQUEST)
    PrivateTable(DATA, ADD, Budget("0.5"), None, journal).measure([A], epsilons=["0.5"], show_progress=False)
    with pytest.raises(ValueError, match="make a new LedgerJournal for each PrivateTable"):
        PrivateTable(DATA, ADD, Budget(2), None, journal).measure([A], epsilons=[2])
    assert ledger.account("people").spent == Fraction(1, 2)


def test_other_labels_are_another_question(tmp_path):
    """Stored answers never come back under other names of the codes, or for another column."""
    path = tmp_path / "t.csv"
    path.write_text("sex,w1,w2\n" + "f,1,2\nm,2,1\n" * 3)
    workload = Workload.of_marginals([("sex",)])
    made = Marginals(epsilon="0.1", relation=ADD, estimator=Estimator(max_steps=5, progress=False))
    with Ledger.create(tmp_path / "b.ledger") as ledger:
        held = TableDefinition(Domain({"sex": {"labels": ["f", "m"]}}), "w1", 2)
        ledger.register("t", epsilon=1, relation="add-remove", digest=ledger.digest_of(path), domain=held)
        for labels, weights in (
            (["f", "m"], "w1"),
            (["m", "f"], "w1"),
            (["f", "m"], None),
            (["f", "m"], "w1"),
        ):
            bound = None if weights is None else 2
            data = Dataset.read(path, Domain({"sex": {"labels": labels}}), weights=weights, max_weight=bound)
            made.run(data, workload, ledger=ledger)
        other = Dataset.read(path, Domain({"sex": {"labels": ["f", "m"]}}), weights="w2", max_weight=2)
        with pytest.raises(ValueError, match=r"'w1'.*max_weight"):
            made.run(other, workload, ledger=ledger)
        assert ledger.account("t").spent == Fraction(3, 10)


@pytest.mark.parametrize("fails", [(Dataset, "marginals"), (Charge, "_store")])
def test_a_step_that_failed_and_is_asked_again_is_the_same_step(ledger, monkeypatch, fails):
    """It was counted, so that the run, once interrupted, could not go on: its steps were others."""
    table = open_table(ledger, budget=2)
    owner, name = fails
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, lambda *given: 1 / 0)
        with pytest.raises((TableReadError, ZeroDivisionError)):
            table.measure([A], epsilons=["0.25"], show_progress=False)
    first = run(table)
    assert run(open_table(ledger, budget=2)) == first
