"""Budgets are exact: nothing is lost, forgiven or spent twice by rounding."""

import sys
import threading
from fractions import Fraction

import pytest

from pgmjax.data.relation import Relation
from pgmjax.privacy import budget as b
from pgmjax.privacy import exact
from pgmjax.privacy.accounting import events
from pgmjax.privacy.accounting.renyi import ORDERS, epsilon_at


def test_a_budget_adds_up_to_its_cap_and_not_beyond():
    budget = b.Budget("0.3")
    for _ in range(3):
        budget.charge(exact.exact_epsilon(0.1))
    assert budget.remaining == 0
    with pytest.raises(
        b.BudgetExceeded, match=r"needs epsilon 1/10\^?|needs epsilon 0\.1, but of 0\.3 only 0 is left"
    ):
        budget.charge(Fraction(1, 10))
    assert budget.spent == Fraction(3, 10)


def test_a_refused_spend_does_not_poison():
    budget = b.Budget(1, unit="rho")
    with pytest.raises(b.BudgetExceeded, match="Nothing was spent"):
        budget.charge(Fraction(2))
    budget.charge(Fraction(1))
    assert budget.spent == budget.cap == 1 and repr(budget) == "Budget(rho: 1 of 1 spent)"


def test_tiny_spends_count():
    """A float budget of 1 would never notice them: 1.0 - 1e-17 == 1.0."""
    budget = b.Budget("1e-15")
    for _ in range(100):
        budget.charge(exact.exact_epsilon(1e-17))
    with pytest.raises(b.BudgetExceeded):
        budget.charge(exact.exact_epsilon(1e-17))


@pytest.mark.parametrize("cost", [Fraction(0), Fraction(-1)])
def test_budget_refuses_spends_that_are_not_positive(cost):
    with pytest.raises(ValueError, match="must be > 0"):
        b.Budget(1).charge(cost)


def test_budget_refuses_unknown_units_and_bad_caps():
    with pytest.raises(ValueError, match="unit"):
        b.Budget(1, unit="delta")
    with pytest.raises(ValueError, match=r"rho.*0"):
        b.Budget(0, unit="rho")


def test_threads_cannot_overspend():
    budget = b.Budget(1)
    granted = []

    def spend():
        for _ in range(40):
            try:
                budget.charge(Fraction(1, 100))
                granted.append(1)
            except b.BudgetExceeded:
                pass

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 100 and budget.remaining == 0


def test_a_budget_is_for_one_relation():
    budget = b.Budget(1)
    budget.bind(Relation.ADD_REMOVE)
    budget.bind(Relation.ADD_REMOVE)
    with pytest.raises(ValueError, match="counts spends under the relation add-remove, but"):
        budget.bind(Relation.REPLACE_ONE)
    assert budget.relation is Relation.ADD_REMOVE


def test_an_event_of_one_relation_is_refused_under_the_other():
    with pytest.raises(ValueError, match="replace-one"):
        b.Budget(1, relation="add-remove").charge(events.Response(Fraction(1, 2)))


def test_parts_sum_to_what_is_left():
    budget = b.Budget(1)
    budget.charge(Fraction(1, 10))
    parts = budget.split([1, 2, "0.3"])
    assert sum(parts) == Fraction(9, 10) and parts[1] == 2 * parts[0]
    budget.charge(Fraction(9, 10))
    with pytest.raises(ValueError, match="nothing left"):
        budget.split([1])


def test_events_are_counted_in_the_budgets_unit():
    gaussian, laplace = events.GaussianEvent(Fraction(1, 50)), events.LaplaceEvent(Fraction(1, 5))
    rho = b.Budget(1, "rho")
    rho.charge([gaussian, laplace])
    assert rho.spent == Fraction(1, 50) + Fraction(1, 50) and rho.events == (gaussian, laplace)
    with pytest.raises(ValueError, match="pure epsilon, in which gaussian has no price"):
        b.Budget(1).charge(gaussian)


def test_a_renyi_budget_stays_within_its_epsilon_and_delta():
    """Charged until it refuses, a mixture is within (1, 1e-9) by the account of all orders, and near it."""
    budget = b.Budget(1, "renyi", delta="1e-9", relation=Relation.ADD_REMOVE)
    spent = 0
    mixture = [
        events.GaussianEvent("0.0005"),
        events.LaplaceEvent("0.02"),
        events.Selection("0.03", "exponential"),
    ]
    with pytest.raises(b.BudgetExceeded, match=r"of epsilon 1 and delta 0\.000000001, but only"):
        for _ in range(1000):
            budget.charge(mixture)
            spent = spent + sum(event.renyi(ORDERS) for event in mixture)
    assert 0.9 < epsilon_at(spent, ORDERS, "1e-9") <= 1


def test_a_renyi_budget_splits_into_rhos():
    budget = b.Budget(1, "renyi", delta="1e-9")
    parts = budget.split([1, 1])
    budget.charge([events.GaussianEvent(part) for part in parts])
    assert budget.remaining >= 0 and float(budget.remaining / budget.cap) < 1e-9
    with pytest.raises(ValueError, match="charged with events"):
        b.Budget(1, "renyi", delta="1e-9").charge(Fraction(1, 2))


@pytest.mark.parametrize("given", [{"unit": "renyi"}, {"delta": "1e-9"}])
def test_delta_goes_with_renyi_or_rho(given):
    with pytest.raises(ValueError, match=r"delta goes with unit 'renyi'|unit 'renyi' needs a delta"):
        b.Budget(1, **given)


def test_what_a_part_spends_is_spent_by_the_whole():
    whole = b.Budget(1)
    part = whole.part("0.3")
    part.charge("0.2")
    assert (part.remaining, whole.remaining) == (Fraction(1, 10), Fraction(8, 10))
    with pytest.raises(b.BudgetExceeded):
        part.charge("0.2")
    whole.charge("0.75")
    with pytest.raises(b.BudgetExceeded):
        part.charge("0.1")  # the part has it, the whole does not
    with pytest.raises(b.BudgetExceeded):
        part.require("0.1")
    assert part.spent == Fraction(1, 5) and whole.whole is part.whole is whole
    with pytest.raises(ValueError, match="at most the rest"):
        whole.part("0.06")


def test_deltas_beside_rho_add_up_to_what_was_allowed():
    budget = b.Budget(1, "rho", delta="1e-6")
    budget.charge(events.KeysEvent("0.1", "6e-7"))
    with pytest.raises(b.BudgetExceeded, match=r"needs a delta of 0\.0000012 beside rho"):
        budget.charge(events.KeysEvent("0.1", "6e-7"))
    assert "but for a probability of 0.0000006" in budget.statement()
    with pytest.raises(b.BudgetExceeded, match="allows 0"):
        b.Budget(1, "rho").charge(events.KeysEvent("0.1", "6e-7"))
    with pytest.raises(ValueError, match="no price"):
        b.Budget(1).charge(events.KeysEvent("0.1", "6e-7"))


@pytest.mark.parametrize(
    "given, cost, words",
    [
        ({}, None, ["Of epsilon 1", "0 is spent, in no access", "Nothing has been promised"]),
        (
            {},
            [events.LaplaceEvent("0.25")],
            ["in 1 access (1 laplace)", "0.75 is left", "a factor of exp(0.25)"],
        ),
        ({"unit": "rho"}, [events.GaussianEvent("0.25")] * 2, ["2 accesses (2 gaussian)", "rho = 0.5"]),
        (
            {"unit": "renyi", "delta": "1e-9"},
            [events.GaussianEvent("0.001")],
            ["epsilon 1 and delta", "% is spent"],
        ),
    ],
)
def test_statements(given, cost, words):
    budget = b.Budget(1, relation=Relation.REPLACE_ONE, **given)
    if cost:
        budget.charge(cost)
    assert all(word in budget.statement() for word in words), budget.statement()
    assert ("the values of one record in the table are changed" in budget.statement()) == bool(cost)


def test_a_relation_that_an_event_does_not_hold_for_is_refused_late_too():
    budget = b.Budget(1)
    budget.charge(events.Response(Fraction(1, 2)))
    with pytest.raises(ValueError, match="replace-one"):
        budget.bind(Relation.ADD_REMOVE)
    budget.bind(Relation.REPLACE_ONE)


def test_numbers_are_read_exactly_and_other_things_refused():
    budget = b.Budget(1)
    for cost in (0.1, "0.1", Fraction(1, 10)):
        budget.charge(cost)
    assert budget.spent == Fraction(3, 10)

    class Paying:
        epsilon = Fraction(-5)

    for wrong in (None, Paying(), [Paying()], {}.keys, True):
        with pytest.raises((TypeError, ValueError), match=r"[aA] spend"):
            budget.charge(wrong)
    assert budget.spent == Fraction(3, 10)


def test_a_cost_beyond_floats_is_exceeded_and_no_crash():
    with pytest.raises(b.BudgetExceeded):
        b.Budget(1, "renyi", delta="1e-9").charge(events.Concentrated("1e290"))


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
@pytest.mark.parametrize("tiny", [1e-320, 5e-324, "1e-320", Fraction(1, 10**320)])
def test_a_subnormal_spend_of_nothing_left_is_refused(unit, tiny):
    """As floats, 1.0 + 1e-320 is 1.0."""
    budget = b.Budget(1, unit=unit)
    budget.charge(Fraction(1))
    with pytest.raises(ValueError, match=r"2\.2250738585072014e-308"):
        budget.charge(tiny)
    with pytest.raises(b.BudgetExceeded, match="only 0 is left"):
        budget.charge(sys.float_info.min)  # the least that a budget counts
    assert budget.spent == 1 and len(budget.events) == 1
