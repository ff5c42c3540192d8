"""Sessions: free, measured or refused; what they cost; what they refuse before anything is spent."""

import re
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import Dataset, Domain, history
from pgmjax.history import History, Session
from pgmjax.history.rows import Rows
from pgmjax.history.session.costs import least_epsilon
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import BudgetExceeded
from pgmjax.privacy.gate import TableReadError
from pgmjax.privacy.ledger import IdempotencyConflict, Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import Tape
from pgmjax.queries import DenseMatrix, Product, marginal, point, prefix
from tests.history.session.sessions import COUNTS, DOMAIN, ages, begin, system_cost, table


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "b.ledger") as made:
        yield made


def test_measured_then_free_then_refused(ledger):
    session = begin(ledger, cap="0.1")
    first = session.ask(ages(0, 1), half_width=60, delta=0.2)
    assert first.source == "measured" and first.system_cost == first.epsilon == session.cost
    low, high = first.interval
    assert high - low <= 120.001 and low <= first.value <= high
    again = session.ask(ages(0, 1), half_width=60, delta=0.2)
    assert (again.source, again.epsilon, again.value) == ("history", 0, pytest.approx(first.value))
    before = session.cost
    refused = session.ask(ages(0), half_width=1, delta=0.2)
    assert not refused.answered and refused.interval is None and session.cost == before
    assert "does not tell it" in refused.reason and "than the cap" in refused.reason
    assert "(epsilon 0.0" in str(first) and str(refused).startswith("refused")
    least = int(re.search(r"A half-width of (\d+) records can be paid", refused.reason)[1])
    assert least > 1 and not session.ask(ages(0), half_width=least - 1, delta=0.2).answered
    assert session.ask(ages(0), half_width=least, delta=0.2).source == "measured"


def test_the_least_budget_meets_the_demand_and_no_less_would(ledger):
    session = begin(ledger, cap=6, epsilon=8)
    for width, delta in ((40, 0.2), (7.5, 0.05), (0.5, 0.1)):
        answer = session.ask(ages(2), half_width=width, delta=delta)
        distribution = session.history.distributions[-1]
        assert distribution.outside(int(width)) <= delta
        assert float(answer.epsilon) == pytest.approx(least_epsilon(1, width, delta), rel=1e-8)
        assert float(answer.epsilon) <= -np.log(delta) / width
        assert DiscreteLaplace(distribution.scale * (1 + 1e-6)).outside(int(width)) > delta


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_cost_is_the_largest_cell_s_of_the_theorem(ledger, relation):
    session = begin(ledger, relation=relation)
    session.buy(marginal(["sex"]), "0.05")
    for query in (
        ages(0),
        ages(1),
        ages(2, 3),
        Product({"age": prefix(), "sex": point(1)}).reorder(("age", "sex")),
    ):
        if query.num_rows(DOMAIN) == 1:
            session.ask(query, half_width=60, delta=0.2)
        else:
            session.buy(query, "0.1")
    rates = np.repeat(
        [r["rate"] * 1e-12 for r in session._log.records if r["kind"] == "bought"],
        [m.values.size for m in session.history.measurements],
    )
    rows = Rows.of(session.history.queries, DOMAIN).matrix()
    moves = np.abs(rows).max(axis=1)
    expected = system_cost(rows, rates * moves, moves, relation)
    assert float(session.cost) == pytest.approx(expected, rel=1e-12)
    plain = sum(Fraction(r["epsilon"]) for r in session._log.records if r["kind"] == "bought")
    assert session.cost <= plain
    assert not session._state.account.rest


def test_disjoint_cells_share_the_budget_and_the_ledger_is_charged_once(ledger):
    session = begin(ledger, cap="0.5")
    answers = [session.ask(ages(code), half_width=5, delta=0.2) for code in range(4)]
    assert [answer.source for answer in answers] == ["measured"] * 4
    assert sum(answer.epsilon for answer in answers) > session.cap > session.cost
    assert [charge.cost for charge in ledger.charges("t")] == [Fraction(1, 2)]


def test_it_goes_on_where_it_stopped_and_every_answer_is_in_the_file(ledger):
    session = begin(ledger)
    shown = [
        session.ask(ages(0, 1), 40, 0.2),
        session.ask(ages(1, 2), 30, 0.2),
        session.ask(ages(0, 1), 60, 0.2),
    ]
    session.buy(marginal(["age"]), "0.1")
    shown += [session.ask(ages(code), 50, 0.2) for code in range(4)]
    shown.append(session.ask(ages(3), 0.1, 0.01))
    assert {answer.source for answer in shown} == {"measured", "history", "refused"}
    other = begin(ledger)
    assert list(other.answers()) == shown
    assert list(Session.read(ledger).answers()) == shown
    assert ledger.charges("t")[0].total == 1 and len(ledger.charges("t")) == 1
    assert ledger.verify().ok


def test_the_estimator_is_the_same_by_updates_and_from_the_file(ledger, monkeypatch):
    from pgmjax.history.session import state

    monkeypatch.setattr(state, "REFACTOR", 3)
    session = begin(ledger)
    for k in range(8):
        session.ask(ages(k % 4, (k + 1 + k // 4) % 4), 60 - 5 * k, 0.2)
    fresh = Session.read(ledger)
    assert np.array_equal(session.blue.estimate, fresh.blue.estimate)
    whole = history.BestLinearUnbiased.of(session.history)
    np.testing.assert_allclose(session.blue.variances(ages(0, 1)), whole.variances(ages(0, 1)), rtol=1e-9)


def test_without_its_table_it_answers_from_the_history_only(ledger):
    first = begin(ledger).ask(ages(0), 40, 0.2)
    reader = Session.read(ledger)
    assert reader.ask(ages(0), 40, 0.2).value == pytest.approx(first.value)
    assert "without its table" in reader.ask(ages(1), 40, 0.2).reason
    with pytest.raises(ValueError, match="without its table"):
        reader.buy(ages(1), "0.1")


def test_answers_given_in_advance_cost_nothing_more(ledger):
    distribution = DiscreteLaplace(5.0)
    given = History(
        DOMAIN,
        [LinearMeasurement.released(marginal(["age"]), [310, 60, 560, 150], distribution)],
        relation="add-remove",
    )
    session = begin(ledger, given=given)
    assert session.ask(ages(0, 2), 40, 0.2).source == "history" and session.cost == 0
    assert Session.read(ledger).ask(ages(0, 2), 40, 0.2).value == pytest.approx(870)


def test_intervals_hold_the_truth_as_often_as_promised(ledger):
    """Free and measured answers over 25 sessions: a binomial bound at 4 standard deviations."""
    held = asked = 0
    truth = COUNTS.sum(axis=1)
    for seed in range(25):
        session = begin(ledger, cap="0.03", seed=seed, name=f"s{seed}", epsilon=4)
        for codes, width in (((0, 1), 150), ((1, 2), 150), ((0, 1, 2), 260), ((0, 2), 300), ((0, 1), 130)):
            answer = session.ask(ages(*codes), width, 0.2)
            if answer.answered:
                low, high = answer.interval
                held += low <= truth[list(codes)].sum() <= high
                asked += 1
    assert asked > 60
    assert held / asked >= 0.8 - 4 * np.sqrt(0.2 * 0.8 / (asked / 5))  # answers of one session hang together


def test_bad_demands_spend_nothing(ledger):
    session = begin(ledger)
    for query, width, delta, message in (
        (ages(0), 0, 0.1, "half_width"),
        (ages(0), float("nan"), 0.1, "half_width"),
        (ages(0), float("inf"), 0.1, "half_width"),
        (ages(0), 5, 0, "delta"),
        (ages(0), 5, 1, "delta"),
        (Product({"height": point(0)}), 5, 0.1, "height"),
        (marginal(["age"]), 5, 0.1, "4 rows"),
        (DenseMatrix(("age",), [[0, 0, 0, 0]]), 5, 0.1, "zeros"),
        (DenseMatrix(("age",), [[0.5, 0, 0, 0]]), 5, 0.1, "integral"),
    ):
        with pytest.raises(ValueError, match=message):
            session.ask(query, width, delta)
    with pytest.raises(TypeError, match=r"pgmjax\.queries.*list"):
        session.ask([1, 0], 5, 0.1)
    with pytest.raises(BudgetExceeded, match="beyond its cap"):
        session.buy(ages(0), "1.5")
    with pytest.raises(ValueError, match="10\\^-12"):
        session.buy(ages(0), "1e-13")
    assert session.cost == 0 and len(session._log.records) == 1


def test_bad_openings_charge_nothing(ledger):
    data = table()
    with pytest.raises(ValueError, match=r"b\.ledger"):
        Session.open(ledger, data, cap=1, relation="add-remove")
    ledger.register("t", epsilon=1, relation="add-remove", digest=ledger.digest_of(data), domain=data.domain)
    other = Domain({"age": 4})
    distribution = DiscreteLaplace(2.0)
    measured = LinearMeasurement.released(ages(0), [3], distribution)
    gaussian = LinearMeasurement.released(ages(0), [3], DiscreteGaussian(2.0))
    for change, message in (
        ({"cap": 0}, "> 0"),
        ({"cap": -1}, "> 0"),
        ({"cap": "nan"}, "finite"),
        ({"cap": 10**7}, "at most"),
        ({"relation": "replace-one"}, "'t'.*add-remove"),
        ({"given": History(other, [measured], relation="add-remove")}, "is over"),
        ({"given": History(DOMAIN, [measured], relation="replace-one")}, "mixed relations"),
        ({"given": History(DOMAIN, [measured])}, "add-remove.*relation="),
        ({"given": History(DOMAIN, [gaussian], relation="add-remove")}, "Laplace"),
    ):
        with pytest.raises(ValueError, match=message):
            Session.open(ledger, data, **{"cap": 1, "relation": "add-remove", **change})
    with pytest.raises(TypeError, match="Dataset"):
        Session.open(ledger, {"age": [0]}, cap=1, relation="add-remove")
    with pytest.raises(TypeError, match="History"):
        Session.open(ledger, data, cap=1, relation="add-remove", given=[measured])
    with pytest.raises(ValueError, match="'t'"):
        backend = SeededBackend(1, insecure=True)
        Session.open(ledger, data, cap=1, relation="add-remove", backend=backend)
    with pytest.raises(ValueError, match="no session 'x'"):
        Session.read(ledger, "x")
    assert ledger.account("t").spent == 0
    with pytest.raises(BudgetExceeded):
        Session.open(ledger, data, cap=2, relation="add-remove")
    Session.open(ledger, data, cap=1, relation="add-remove")
    with pytest.raises(IdempotencyConflict):
        Session.open(ledger, data, cap="0.5", relation="add-remove")
    with pytest.raises(BudgetExceeded):
        Session.open(ledger, data, cap="0.5", relation="add-remove", name="more")


def test_weighted_tables_are_refused(ledger):
    domain = Domain({"a": 2})
    data = Dataset.from_columns(domain, {"a": [0, 1]}, weights=np.array([1, 2]), max_weight=2)
    with pytest.raises(ValueError, match="weights"):
        Session.open(ledger, data, cap=1, relation="add-remove")


def test_an_answer_that_a_crash_left_missing_comes_under_the_same_charge(ledger, monkeypatch):
    session = begin(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "marginals", lambda *_: 1 / 0)
        with pytest.raises(TableReadError):
            session.ask(ages(0), 40, 0.2)
    assert session._log.is_open
    other = begin(ledger)
    answer = other.ask(ages(0), 40, 0.2)
    assert answer.source == "history" and other.cost == next(other.answers()).epsilon
    assert session.ask(ages(0), 40, 0.2).value == pytest.approx(answer.value)


def test_an_answer_that_cannot_be_computed_is_given_up_and_its_cost_stays(ledger, monkeypatch):
    session = begin(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "marginals", lambda *_: 1 / 0)
        for _ in range(11):
            with pytest.raises(TableReadError):
                session.ask(ages(0), 40, 0.2)
    for _ in range(2):
        answer = session.ask(ages(1), 40, 0.2)
    assert answer.answered
    first, *_ = session.answers()
    assert first.source == "refused" and "cost stays" in first.reason and first.epsilon > 0
    assert session._log.records[2]["kind"] == "void"


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_with_frozen_noise_nothing_but_the_noise_differs_between_neighbours(tmp_path, relation):
    """Demands that follow answers, on neighbouring tables: the same calls, decisions and answers."""
    near = COUNTS.copy()
    near[2, 1] += 1
    near[0, 0] -= relation == "replace-one"
    tape, results = Tape(), []
    for turn, counts in enumerate((COUNTS, near)):
        with (
            Ledger.create(tmp_path / f"{turn}.ledger") as ledger,
            tape.replaying() if turn else tape.recording(),
        ):
            session = begin(ledger, cap="0.2", relation=relation, counts=counts)
            first = session.ask(ages(2), 40, 0.2)
            asked = [ages(2, 3), ages(2), ages(0) if first.value > 560 else ages(1), ages(1, 2), ages(0, 2)]
            results.append([first, *(session.ask(query, 60, 0.2) for query in asked)])
            assert not session.secure
    assert results[0] == results[1] and len(tape.calls) >= 3
    assert {answer.source for answer in results[0]} >= {"measured", "history"}


def test_a_ledger_is_closed_by_who_opened_it(ledger):
    with begin(ledger, cap="0.1"):
        pass
    assert len(ledger.accounts()) == 1  # still open
    with Session.read(ledger.path) as own:
        assert own._ledger is not ledger
    assert len(ledger.accounts()) == 1
