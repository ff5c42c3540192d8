"""Budgets are exact: nothing is lost, forgiven or spent twice by rounding."""

import threading
from fractions import Fraction

import pytest

from pgmjax.privacy import amounts
from pgmjax.privacy import budget as b


def test_a_budget_adds_up_to_its_cap_and_not_beyond():
    budget = b.Budget("0.3")
    for _ in range(3):
        budget.charge(amounts.exact_epsilon(0.1))
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
        budget.charge(amounts.exact_epsilon(1e-17))
    with pytest.raises(b.BudgetExceeded):
        budget.charge(amounts.exact_epsilon(1e-17))


@pytest.mark.parametrize("cost", [Fraction(0), Fraction(-1)])
def test_budget_refuses_spends_that_are_not_positive(cost):
    with pytest.raises(ValueError, match="must be > 0"):
        b.Budget(1).charge(cost)


def test_budget_refuses_unknown_units_and_bad_caps():
    with pytest.raises(ValueError, match="unit"):
        b.Budget(1, unit="delta")
    with pytest.raises(ValueError, match="rho must be > 0"):
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
