"""What accounts count in: nothing is gained by rounding, and Renyi accounts keep their promise."""

import math
import sqlite3
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.privacy.accounting import renyi
from pgmjax.privacy.accounting.events import Concentrated, GaussianEvent, Pure
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.budget import BudgetExceeded
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger import meter as ledger_renyi
from pgmjax.privacy.ledger.database import LIMIT
from pgmjax.privacy.ledger.meter import Meter

DELTA = Fraction(1, 10**9)
RULES = {"relation": "add-remove", "secure": True}


def test_a_release_of_the_whole_promise_fits():
    """rho has 12 digits, wherever they begin: the unit must be fine enough to hold the cap exactly."""
    for epsilon in ("0.01", "0.1", 1, 3, 20):
        meter = Meter.for_promise("zcdp", Fraction(epsilon), DELTA)
        rho = rho_for(epsilon, DELTA)
        assert meter.amount(meter.caps[0]) == rho
        assert meter.costs([Concentrated(rho)]) == meter.caps
        assert meter.costs([Concentrated(rho / 7)] * 7) == meter.caps


def test_rounding_is_against_the_analyst():
    meter = Meter.for_promise("pure", Fraction(2, 3), Fraction(0))
    assert meter.caps == (666666666666,) and meter.costs([Pure("1/3")]) == (333333333334,)
    assert meter.costs([Pure("1e-300")]) == (1,)
    assert meter.costs([Pure("1e200")]) == (LIMIT,) and not meter.fits((LIMIT,))


@pytest.mark.parametrize("cap", ["0.1234567890123456", "1e-15", "2", "1e6"])
def test_caps_with_an_end_are_exact(cap):
    meter = Meter.for_promise("pure", Fraction(cap), Fraction(0))
    assert meter.amount(meter.caps[0]) == Fraction(cap)


def test_gaussians_on_a_pure_account_are_refused(tmp_path):
    with Ledger.create(tmp_path / "budgets") as ledger:
        ledger.register("table", epsilon=1, relation="add-remove", digest="abc")
        with pytest.raises(
            ValueError, match=r"made without a delta: leave the delta out, for Laplace noise.*pure epsilon"
        ):
            ledger.reserve("table", "run", {}, [Concentrated("0.01")], **RULES)


def test_zcdp_account(tmp_path):
    with Ledger.create(tmp_path / "budgets") as ledger:
        account = ledger.register("table", epsilon=1, delta="1e-9", relation="add-remove", digest="abc")
        assert account.measure == "zcdp" and account.cap == rho_for(1, "1e-9")
        charge = ledger.reserve("table", "run", {}, [Concentrated(account.cap / 2), Pure("0.1")], **RULES)
        assert charge.cost == pytest.approx(account.cap / 2 + Fraction(1, 200), abs=1e-12)
        assert charge.cost >= account.cap / 2 + Fraction(1, 200)
        statement = ledger.account("table").statement()
        assert (
            "epsilon = 1 and delta = 0.000000001" in statement and "up to delta. Of rho 0.0149" in statement
        )
        with pytest.raises(BudgetExceeded, match="needs rho"):
            ledger.reserve("table", "run 2", {}, [Concentrated(account.cap / 2)], **RULES)


PROMISES = [(1, "1e-9"), (3, "1e-6"), (8, "1e-5"), ("0.1", "1e-9"), (30, "1e-3")]


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_the_parts_of_delta_sum_to_it(epsilon, delta):
    """Each cap, converted back at its order, gives epsilon at its part of delta; the parts sum to delta."""
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    orders = ledger_renyi.orders_of(epsilon, delta)
    caps = ledger_renyi.caps_of(orders, epsilon, delta)
    assert list(orders) == sorted(set(orders)) and set(orders) <= set(renyi.ORDERS)
    total = 0.0
    for order, cap in zip(orders, map(float, caps), strict=True):
        # Canonne, Kamath and Steinke 2020, Proposition 12, solved for delta
        log_delta = (
            (order - 1) * (cap - float(epsilon)) + (order - 1) * math.log1p(-1 / order) - math.log(order)
        )
        total += math.exp(log_delta)
    assert float(delta) * (1 - 1e-6) < total <= float(delta) * (1 + 1e-9)


EVENTS = {
    "many Gaussians": [Concentrated("0.0001")],
    "few large": [Pure("0.4")],
    "mixed": [Pure("0.05"), Concentrated("0.001"), GaussianEvent("0.0005", shifts=(1,))],
    "small and pure": [Pure("0.003")],
}


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_a_renyi_account_keeps_its_promise_and_wastes_little(tmp_path, events):
    """dp-accounting's own Renyi accountant, over all orders, agrees that the promise is kept."""
    meter = Meter.for_promise("renyi", Fraction(1), DELTA)
    costs = np.array(meter.costs(events), dtype=object)
    times = max(int(cap // cost) for cap, cost in zip(meter.caps, costs, strict=True))
    assert meter.fits(costs * times) and not meter.fits(costs * (times + 1))
    divergences = sum(event.renyi(renyi.ORDERS) for event in events)
    from dp_accounting.rdp import rdp_privacy_accountant

    spent, _ = rdp_privacy_accountant.compute_epsilon(list(renyi.ORDERS), divergences * times, float(DELTA))
    assert spent <= 1
    best = int(np.max(renyi.caps(1, DELTA) / divergences))  # one order with all of delta, in hindsight
    assert times <= best and times >= math.floor(0.94 * best)


def test_a_renyi_account_is_better_for_few_large_releases():
    count = {}
    for measure in ("zcdp", "renyi"):
        meter = Meter.for_promise(measure, Fraction(1), DELTA)
        costs = meter.costs([Pure("0.1")])
        count[measure] = max(cap // cost for cap, cost in zip(meter.caps, costs, strict=True))
    assert count["renyi"] > 2 * count["zcdp"]


def test_a_renyi_account_in_the_ledger(tmp_path):
    with Ledger.create(tmp_path / "budgets") as ledger:
        ledger.register("table", epsilon=1, delta="1e-9", relation="add-remove", digest="a", measure="renyi")
        granted, meter = 0, Meter.for_promise("renyi", Fraction(1), DELTA)
        with pytest.raises(BudgetExceeded, match=r"needs Renyi divergence 0\.\d+ at order \d+"):
            for _ in range(99):
                ledger.reserve("table", f"run {granted}", {}, [Pure("0.3")], **RULES)
                granted += 1
        costs = meter.costs([Pure("0.3")])
        assert granted == max(cap // cost for cap, cost in zip(meter.caps, costs, strict=True)) >= 3
        account = ledger.account("table")
        assert account.order in meter.orders and 0 <= account.spent <= account.cap
        assert (
            f"Of Renyi divergence at order {account.order:g} (the order with most left)"
            in account.statement()
        )
        ledger.verify().raise_if_bad()


class Endless:
    """Divergences that are infinite at high orders."""

    kind = "endless"

    def __init__(self, values):
        self.values = values

    def renyi(self, orders):
        return np.array(self.values[: len(orders)])


def test_an_order_that_is_infinite_is_closed():
    meter = Meter.for_promise("renyi", Fraction(1), DELTA)
    size = len(meter.orders)
    costs = meter.costs([Endless([0.01] + [math.inf] * (size - 1))] * 2)
    assert costs == (20000000001, *[LIMIT] * (size - 1)) or costs[1:] == (LIMIT,) * (size - 1)
    assert meter.fits(costs) and meter.telling(costs) == 0


@pytest.mark.parametrize("values", [[math.nan] * 9, [-1.0] * 9, [0.1]])
def test_divergences_that_are_none(values):
    meter = Meter.for_promise("renyi", Fraction(1), DELTA)
    with pytest.raises(ValueError, match=r"Event 1 \(endless\) has no Renyi divergence at some order"):
        meter.costs([Endless(values)])


def test_a_promise_that_leaves_nothing():
    with pytest.raises(ValueError, match="order"):
        Meter.for_promise("renyi", Fraction(1, 10**6), Fraction(1, 10**12))


@pytest.mark.parametrize("measure", ["pure", "zcdp", "renyi"])
@pytest.mark.parametrize(("epsilon", "about"), [("1e7", r"\d+\.?\d*"), ("1e300", r"about \S+e\+\d+")])
def test_promises_beyond_counting_are_refused(measure, epsilon, about):
    """A cap and a sum that both end at the limit would let in charge after charge."""
    delta = Fraction(0) if measure == "pure" else DELTA
    said = f"^A cap of .* {about} is out of range: an account holds at least 1e-12 and at most 2305843"
    with pytest.raises(ValueError, match=said):
        Meter.for_promise(measure, Fraction(epsilon), delta)


@pytest.mark.parametrize("epsilon", ["2305800", "2305844"])
def test_a_sum_beyond_counting_fits_no_renyi_cap(tmp_path, epsilon):
    with Ledger.create(tmp_path / "budgets") as ledger:
        ledger.register("t", epsilon=epsilon, delta=DELTA, measure="renyi", digest="a", relation="add-remove")
        for key in ("1", "2"):
            with pytest.raises(BudgetExceeded, match=r"(?i)nothing was charged"):
                ledger.reserve("t", key, {}, [Concentrated("1e290")], **RULES)
        assert ledger.reserve("t", "3", {}, [Pure("0.1")], **RULES).total > 0


def test_a_cap_at_the_limit_lets_nothing_in_that_ends_there(tmp_path):
    """Such a cap is never registered; one that was written by something else is no way around."""
    assert not Meter("renyi", 12, (2.0,), (LIMIT,)).fits((LIMIT,))
    with Ledger.create(tmp_path / "budgets") as ledger, ledger._file.writing("", "") as connection:
        budget = "'t', 'pure', 'add-remove', '1', '0', 12, '[]', ?, 'a', 0, 9, 'now'"
        connection.execute(f"INSERT INTO budget VALUES (1, {budget})", (f"[{LIMIT}]",))
        charge = "INSERT INTO charge VALUES (NULL, 't', 1, 'k', '', '[]', 1, ?, ?, 'now')"
        with pytest.raises(sqlite3.IntegrityError, match="budget exceeded"):
            connection.execute(charge, (f"[{LIMIT}]",) * 2)
        connection.execute(charge, (f"[{LIMIT - 1}]",) * 2)
