"""The ledger: what is granted, what is refused, and that an answer is given once."""

import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting.events import Concentrated, Pure
from pgmjax.privacy.budget import BudgetExceeded
from pgmjax.privacy.ledger import AttemptsExhausted, IdempotencyConflict, Ledger, LedgerError

RULES = {"relation": Relation.ADD_REMOVE, "secure": True}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "budgets") as made:
        yield made


@pytest.fixture
def table(ledger):
    ledger.register("table", epsilon=1, relation="add-remove", digest="abc", max_attempts=3)
    return ledger


def reserve(ledger, key="run", epsilon="0.01", request=None, **rules):
    return ledger.reserve("table", key, request or {"ask": 1}, [Pure(epsilon)], **{**RULES, **rules})


def test_what_is_registered_is_told(ledger):
    account = ledger.register("survey", epsilon=0.1, relation="replace-one", digest="abc")
    assert account == ledger.account("survey") == ledger.find("abc") == ledger.accounts()[0]
    assert (account.measure, account.relation) == ("pure", Relation.REPLACE_ONE)
    assert (account.cap, account.spent, account.remaining) == (Fraction(1, 10), 0, Fraction(1, 10))
    assert (account.delta, account.research, account.charges, account.order) == (0, False, 0, None)
    assert ledger.find("another") is None


def test_a_hundred_hundredths_are_one(table):
    for k in range(100):
        charge = reserve(table, f"run {k}", 0.01)
        assert charge.cost == Fraction(1, 100) and charge.total == Fraction(k + 1, 100)
    with pytest.raises(BudgetExceeded, match=r"0\.01.*only 0"):
        reserve(table, "one more")
    assert table.account("table").charges == 100


def test_a_subnormal_spend_of_nothing_left_is_refused(table):
    reserve(table, "all", 1)
    for epsilon in (1e-320, "1e-320", 5e-324):
        with pytest.raises(ValueError, match=r"2\.2250738585072014e-308"):
            reserve(table, "more", epsilon)
    with pytest.raises(BudgetExceeded, match="only 0"):
        reserve(table, "more", sys.float_info.min)
    account = table.account("table")
    assert (account.spent, account.charges) == (1, 1)


@pytest.mark.parametrize("epsilon", ["1e-17", "1e-300", Fraction(1, 10**15)])
def test_a_tiny_epsilon_costs_one_unit(table, epsilon):
    charges = [reserve(table, f"run {k}", epsilon) for k in range(3)]
    assert [charge.total for charge in charges] == [Fraction(k, 10**12) for k in (1, 2, 3)]


def test_caps_are_rounded_down_and_costs_up(ledger):
    account = ledger.register("table", epsilon="1/3", relation="add-remove", digest="abc")
    assert account.cap == Fraction(333333333333, 10**12)
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.333333333334"):
        reserve(ledger, epsilon="1/3")


def test_several_events_are_rounded_once(table):
    charge = table.reserve("table", "run", {}, [Pure("1/3")] * 3, **RULES)
    assert charge.cost == 1 and table.account("table").remaining == 0


def test_the_refusal_tells_public_amounts_only(table):
    reserve(table, "first", "0.75")
    with pytest.raises(BudgetExceeded) as refused:
        reserve(table, "second", "0.5")
    said = str(refused.value)
    assert sorted(re.findall(r"\d+(?:\.\d+)?", said)) == ["0.25", "0.5", "1"]
    assert "'table'" in said and "second" not in said
    assert reserve(table, "third", "0.25").total == 1  # a refusal changed nothing


def test_the_same_key_is_the_same_charge(table):
    first = reserve(table)
    answer = first.answer(0, {"ask": 1}, lambda: b"17")
    again = reserve(table)
    assert (again.id, again.cost, again.total) == (first.id, first.cost, first.total)
    assert again.answer(0, {"ask": 1}, lambda: pytest.fail("computed again")) == answer == b"17"
    assert again.answers == 1 and table.account("table").charges == 1


def test_a_paid_run_is_found_also_when_nothing_is_left(table):
    reserve(table, epsilon=1).answer(0, {}, lambda: b"1")
    assert reserve(table, epsilon=1).answer(0, {}, lambda: b"2") == b"1"


@pytest.mark.parametrize(
    "changed",
    [{"request": {"ask": 2}}, {"epsilon": "0.02"}, {"epsilon": "0.001"}],
    ids=["request", "dearer", "cheaper"],
)
def test_a_key_stands_for_one_request(table, changed):
    reserve(table)
    with pytest.raises(IdempotencyConflict, match="Key 'run' stands for another request to account 'table'"):
        reserve(table, **changed)
    assert table.account("table").charges == 1


def test_noise_of_another_kind_is_another_request(ledger):
    ledger.register("table", epsilon=1, relation="add-remove", digest="abc", research=True)
    reserve(ledger, secure=False)
    with pytest.raises(IdempotencyConflict):
        reserve(ledger, secure=True)


def test_a_step_stands_for_one_request(table):
    charge = reserve(table)
    charge.answer(0, {"step": "a"}, lambda: b"1")
    with pytest.raises(IdempotencyConflict, match="Step 0 of key 'run' was answered for another request"):
        charge.answer(0, {"step": "b"}, lambda: b"2")


def test_a_run_of_steps_is_resumed(table):
    charge = reserve(table)
    for step in range(3):
        charge.answer(step, {"step": step}, lambda step=step: bytes([step]))
    with pytest.raises(ZeroDivisionError):
        charge.answer(3, {"step": 3}, lambda: 1 // 0)
    resumed = reserve(table)
    computed = []
    for step in range(5):
        resumed.answer(step, {"step": step}, lambda step=step: computed.append(step) or bytes([step]))
    assert computed == [3, 4] and resumed.answers == 5 and table.account("table").charges == 1


def test_a_failure_keeps_the_charge_and_stores_nothing(table):
    with pytest.raises(ZeroDivisionError):
        reserve(table).answer(0, {}, lambda: 1 // 0)
    assert table.account("table").spent == Fraction(1, 100)
    charge = reserve(table)
    assert charge.answers == 0 and charge.answer(0, {}, lambda: b"x") == b"x"


def fail():
    raise OSError("of the caller's own")


def test_the_callers_own_errors_pass_unchanged(table):
    with pytest.raises(OSError, match=r"^of the caller's own$"):
        reserve(table).answer(0, {}, fail)


def test_attempts_are_counted_and_end(table):
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            reserve(table).answer(0, {}, lambda: 1 // 0)
    with pytest.raises(AttemptsExhausted, match="Key 'run' was tried 3 times without an answer"):
        reserve(table)
    assert table.account("table").charges == 1 and table.charges("table")[0].attempts == 3


def test_one_charge_object_cannot_be_tried_for_ever(table):
    charge = reserve(table)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            charge.answer(0, {}, lambda: 1 // 0)
    with pytest.raises(AttemptsExhausted):
        charge.answer(0, {}, lambda: 1 // 0)


def test_attempts_at_a_later_step_end_too(table):
    reserve(table).answer(0, {}, lambda: b"first")
    for _ in range(3):
        resumed = reserve(table)
        assert resumed.answer(0, {}, lambda: b"no") == b"first"
        with pytest.raises(ZeroDivisionError):
            resumed.answer(1, {}, lambda: 1 // 0)
    with pytest.raises(AttemptsExhausted, match="without a further answer"):
        reserve(table).answer(1, {}, lambda: b"too late")


def test_replays_are_free_however_many(table):
    reserve(table).answer(0, {}, lambda: b"1")
    for _ in range(20):
        assert reserve(table).answer(0, {}, lambda: b"2") == b"1"
    assert table.charges("table")[0].attempts == 1


def test_the_answer_stored_first_is_the_one_shown(table):
    first, second = reserve(table), reserve(table)
    raced = first.answer(0, {}, lambda: second.answer(0, {}, lambda: b"inner") and b"outer")
    assert raced == b"inner" and first.answers == 1


def test_threads_at_once(table):
    def work(k):
        try:
            return reserve(table, f"run {k}").answer(0, {}, lambda: b"%d" % k)
        except BudgetExceeded:
            return None

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(work, range(130)))
    assert sum(answer is not None for answer in answers) == 100
    assert all(answer in (None, b"%d" % k) for k, answer in enumerate(answers))
    table.verify().raise_if_bad()


def test_threads_with_one_key(table):
    charges = [reserve(table) for _ in range(3)]
    gate = threading.Barrier(3)

    def work(k):
        return charges[k].answer(0, {}, lambda: (gate.wait(10) * 0 + k and b"%d" % k) or b"0")

    with ThreadPoolExecutor(3) as pool:
        answers = set(pool.map(work, range(3)))
    assert len(answers) == 1 and charges[0].answers == 1


def test_one_name_and_one_table_have_one_budget(table):
    with pytest.raises(ValueError, match="There is an account 'table' already"):
        table.register("table", epsilon=9, relation="add-remove", digest="other")
    with pytest.raises(ValueError, match="has the account 'table' already: one table has one budget"):
        table.register("again", epsilon=9, relation="add-remove", digest="abc")
    assert [account.cap for account in table.accounts()] == [1]


NUMBERS = [float("nan"), float("inf"), -1, 0, "many", "1e999"]


@pytest.mark.parametrize("bad", NUMBERS)
def test_bad_numbers_are_not_registered(ledger, bad):
    with pytest.raises(ValueError, match="epsilon"):
        ledger.register("table", epsilon=bad, relation="add-remove", digest="abc")
    assert ledger.accounts() == []


BAD_REGISTERS = [
    ({"epsilon": True}, TypeError, "got a bool"),
    ({"delta": True}, TypeError, "got a bool"),
    ({"delta": 1}, ValueError, "delta.*1"),
    ({"delta": -1e-9}, ValueError, "delta.*1"),
    ({"relation": "either"}, ValueError, "replace-one"),
    ({"relation": None}, ValueError, "replace-one"),
    ({"measure": "renyi"}, ValueError, "'renyi' needs delta > 0"),
    ({"measure": "zcdp"}, ValueError, "'zcdp' needs delta > 0"),
    ({"measure": "pure", "delta": 1e-9}, ValueError, "'pure' needs delta 0"),
    ({"measure": "gdp"}, ValueError, "measure must be one of 'pure', 'zcdp', 'renyi'"),
    ({"epsilon": "1e-41"}, ValueError, "epsilon.*1e-12"),
    ({"epsilon": "1e7"}, ValueError, "epsilon.*1e-12"),
    ({"epsilon": "1e7", "delta": 1e-9}, ValueError, "rho.*1e-12"),
    ({"epsilon": "1e7", "delta": 1e-9, "measure": "renyi"}, ValueError, "Renyi"),
    ({"epsilon": "1e-300"}, ValueError, "1e-300"),
    ({"epsilon": 1, "delta": "1e-300", "measure": "pure"}, ValueError, "got delta about 1e-300"),
    ({"name": "a\nb"}, ValueError, "name must be 1 to 200 printable characters"),
    ({"name": 3}, TypeError, "name must be a string, got int"),
    ({"digest": ""}, ValueError, "digest must be"),
    ({"research": 1}, TypeError, "research.*int"),
    ({"max_attempts": 0}, ValueError, "max_attempts"),
    ({"max_attempts": True}, TypeError, "max_attempts"),
]


@pytest.mark.parametrize(("changed", "error", "said"), BAD_REGISTERS)
def test_bad_registrations(ledger, changed, error, said):
    settings = {"name": "table", "epsilon": 1, "relation": "add-remove", "digest": "abc", **changed}
    with pytest.raises(error, match=said):
        ledger.register(settings.pop("name"), **settings)
    assert ledger.accounts() == [] and ledger.verify().rows == 1


def odd(epsilon):
    event = Pure(1)
    object.__setattr__(event, "epsilon", epsilon)
    return event


def endless():
    request = {}
    request["ask"] = request
    return request


BAD_RESERVES = [
    ({"account_name": "other"}, ValueError, "There is no account 'other' in .*; accounts: table"),
    ({"account_name": None}, TypeError, "must be a string"),
    ({"relation": "replace-one"}, ValueError, "under add-remove, and this one is under replace-one"),
    ({"relation": None}, ValueError, "replace-one"),
    ({"secure": False}, ValueError, "takes secure noise only"),
    ({"secure": 1}, TypeError, "secure.*int"),
    ({"events": []}, ValueError, "at least one event"),
    ({"events": [0.5]}, TypeError, "event.*float"),
    ({"events": [Pure(1), Concentrated(1)]}, ValueError, "event 2"),
    ({"events": [odd(float("nan"))]}, ValueError, "finite"),
    ({"events": [odd(Fraction(-1))]}, ValueError, "epsilon"),
    ({"events": [odd(0)]}, ValueError, "epsilon"),
    ({"events": [odd(True)]}, TypeError, "bool"),
    ({"key": ""}, ValueError, "key must be 1 to 200"),
    ({"key": "a\x00"}, ValueError, "key must be"),
    ({"request": [1]}, TypeError, "request must be a mapping, got list"),
    ({"request": {"ask": float("nan")}}, ValueError, "request must be JSON-able, .*: give finite ones"),
    ({"request": {"ask": np.zeros(2)}}, TypeError, "request must be JSON-able, and holds something else"),
    ({"request": {"ask": object()}}, TypeError, "request must be JSON-able, and holds something else"),
    ({"request": {"ask": {1: 1, "1": 2}}}, TypeError, "with text as names"),
    ({"request": endless()}, ValueError, "request must be JSON-able, and holds .* itself"),
    ({"events": Pure(1)}, TypeError, "events.*Pure"),
    ({"events": None}, TypeError, "events.*NoneType"),
]


@pytest.mark.parametrize(("changed", "error", "said"), BAD_RESERVES)
def test_bad_reservations_charge_nothing(table, changed, error, said):
    settings = {
        "account_name": "table",
        "key": "run",
        "request": {},
        "events": [Pure("0.1")],
        **RULES,
        **changed,
    }
    with pytest.raises(error, match=said):
        table.reserve(**settings)
    assert table.account("table").spent == 0


@pytest.mark.parametrize(
    ("step", "payload", "error", "said"),
    [
        (-1, b"", ValueError, "step.*-1"),
        (True, b"", TypeError, "step.*bool"),
        (0, "text", TypeError, "compute must return bytes, got str"),
        (0, None, TypeError, "compute must return bytes, got NoneType"),
    ],
)
def test_bad_answers_store_nothing(table, step, payload, error, said):
    charge = reserve(table)
    with pytest.raises(error, match=said):
        charge.answer(step, {}, lambda: payload)
    assert charge.answers == 0


def test_a_step_whose_request_is_none(table):
    charge = reserve(table)
    with pytest.raises(TypeError, match="request must be JSON-able"):
        charge.answer(0, {"ask": object()}, lambda: b"")
    with pytest.raises(ValueError, match="request must be JSON-able"):
        charge.answer(0, {"ask": float("inf")}, lambda: b"")
    assert charge.answers == 0


def test_research_lets_in_what_protects_nobody(ledger):
    ledger.register("table", epsilon=1, relation="add-remove", digest="abc", research=True)
    reserve(ledger, secure=False)
    assert not ledger.charges("table")[0].secure
    assert "protect nobody" in ledger.account("table").statement()


def test_charges_are_told(table):
    reserve(table, "first", "0.1").answer(0, {}, lambda: b"")
    reserve(table, "second", "0.2")
    first, second = table.charges("table")
    assert [first.key, first.number, first.answers, first.attempts] == ["first", 1, 1, 1]
    assert [second.cost, second.total, second.answers] == [Fraction(1, 5), Fraction(3, 10), 0]
    assert first.events == (Pure("0.1").to_dict(),) and second.to_dict()["total"] == "0.3"


def test_statement_of_a_pure_account(table):
    reserve(table, epsilon="0.25")
    assert table.account("table").statement() == (
        "Account table: all releases of this table together are differentially private with epsilon = 1. If "
        "one record is added to the table or removed from it, the probability of anything made from them "
        "changes at most by a factor of exp(1). Of epsilon 1, 0.25 is spent, in 1 charge, and 0.75 is left."
    )


def test_digests_of_tables(ledger, tmp_path):
    (tmp_path / "a.csv").write_text("age\n1\n")
    columns = {"age": np.array([0, 1])}
    assert ledger.digest_of(tmp_path / "a.csv") == ledger.digest_of(str(tmp_path / "a.csv"))
    assert ledger.digest_of(columns) == ledger.digest_of({"age": [0, 1]}) != ledger.digest_of({"age": [1, 0]})
    with pytest.raises(TypeError, match="got int"):
        ledger.digest_of(3)
    with pytest.raises(TypeError, match=r"column.*int"):
        ledger.digest_of({1: [1]})
    with pytest.raises(ValueError, match="'a'"):
        ledger.digest_of({"a": [[1], [1, 2]]})
    with Ledger.create(tmp_path / "other") as other:
        assert other.digest_of(columns) != ledger.digest_of(columns), "each ledger has a key of its own"


def test_a_dataset_is_known_again(ledger, small_domain, small_columns):
    import pandas

    from pgmjax.data.dataset import Dataset

    datasets = [Dataset.from_frame(small_domain, pandas.DataFrame(small_columns)) for _ in range(2)]
    first, second = map(ledger.digest_of, datasets)
    assert first == second


def test_reopening_finds_everything(table):
    reserve(table).answer(0, {}, lambda: b"1")
    head = table.head()
    table.close()
    with pytest.raises(LedgerError, match="is closed"):
        table.accounts()
    with Ledger.open(table.path) as again:
        assert again.head() == head and again.account("table").charges == 1
        assert reserve(again).answer(0, {}, lambda: b"2") == b"1"
