"""Conversions against dp-accounting on the same orders; caps invert them; the running account is a filter."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from pgmjax.privacy.accounting import events as divergence
from pgmjax.privacy.accounting import renyi
from pgmjax.privacy.accounting.events import (
    Concentrated,
    LaplaceEvent,
    Pure,
    Selection,
)
from pgmjax.privacy.accounting.zcdp import epsilon_of, rho_for

ORDERS = renyi.ORDERS
EVENTS = st.one_of(
    st.builds(Pure, st.fractions(min_value="1/1000", max_value=2, max_denominator=1000)),
    st.builds(Concentrated, st.fractions(min_value="1/100000", max_value=1, max_denominator=100000)),
    st.builds(lambda x: Selection(x, "exponential"), st.sampled_from(["0.01", "0.2", "1"])),
    st.builds(lambda x: LaplaceEvent(x, (1, 1)), st.sampled_from(["0.01", "0.2", "1"])),
)
DELTAS = st.sampled_from(["1e-12", "1e-9", "1e-5", "0.01"])


def test_the_grid_is_fixed():
    """Stored sums refer to it: it may not change."""
    assert ORDERS.size == 137 and ORDERS[0] == 1.1 and ORDERS[-1] == 1_000_001
    assert (np.diff(ORDERS) > 0).all() and not ORDERS.flags.writeable
    np.testing.assert_array_equal(np.round(ORDERS, 3), ORDERS)
    assert math.fsum(ORDERS) == pytest.approx(4870777.075, abs=1e-6)


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 20.0])
def test_epsilon_against_dp_accounting_on_the_same_orders(rho, delta):
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    values = np.array([Pure(1).renyi(ORDERS) / 7, rho * ORDERS]).sum(axis=0)
    theirs, _ = rdp.compute_epsilon(ORDERS, values, delta)
    ours = renyi.epsilon_at(values, ORDERS, delta)
    assert theirs <= ours <= theirs * (1 + 1e-10) + 1e-10


@pytest.mark.parametrize("delta", ["1e-12", "1e-9", "1e-5"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "10", "50"])
def test_the_grid_loses_little(epsilon, delta):
    rho = rho_for(epsilon, delta)
    coarse = renyi.epsilon_at(float(rho) * ORDERS, ORDERS, delta)
    assert coarse <= epsilon_of(rho, delta) * 1.003


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.floats(1e-3, 100), st.floats(1e-15, 0.5))
def test_caps_invert_the_conversion(epsilon, delta):
    found = renyi.caps(epsilon, delta)
    for cap, order in zip(found, ORDERS, strict=True):
        if cap > 0:
            assert renyi.epsilon_at([cap], [order], delta) <= epsilon
        assert renyi.epsilon_at([cap * (1 + 1e-8) + 1e-9 * epsilon], [order], delta) > epsilon * (1 - 1e-8)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(EVENTS, min_size=1, max_size=6), EVENTS, DELTAS)
def test_more_events_never_cost_less_and_larger_deltas_never_more(events, more, delta):
    summed = sum(event.renyi(ORDERS) for event in events)
    before = renyi.epsilon_at(summed, ORDERS, delta)
    assert renyi.epsilon_at(summed, ORDERS, 0.1) <= before
    assert renyi.epsilon_at(summed + more.renyi(ORDERS), ORDERS, delta) >= before


def _two_outcomes(order, x, loss):
    """Divergence, the larger direction, of (x, 1 - x) and (y, 1 - y), y = x exp(-loss)."""
    y = x * math.exp(-loss)

    def one(p, q, exponent):
        rest = math.exp(order * math.log1p(-p) + (1 - order) * math.log1p(-q))
        return math.log(p * math.exp((order - 1) * exponent) + rest) / (order - 1)

    return max(one(x, y, loss), one(y, x, -loss))


def _worst(order, room, epsilon):
    """The largest mass above exp(epsilon) times the neighbour's, of two outcomes within a divergence."""
    worst = 0.0
    for loss in np.linspace(epsilon, epsilon + 0.3, 60):
        if _two_outcomes(order, 1e-30, loss) < room < _two_outcomes(order, 1e-3, loss):
            x = 10 ** optimize.brentq(lambda t, loss=loss: _two_outcomes(order, 10**t, loss) - room, -30, -3)
            worst = max(worst, x * -math.expm1(epsilon - loss))
    return worst


def test_only_one_order_is_a_filter_where_costs_are_chosen_on_the_way():
    """A response of epsilon 0.01, then by its answer one of two accesses, each within the cap at its own
    order: the exact delta is a third above the cap's. At the same order it is below for both.
    """
    first, delta = 0.01, 1e-9
    heads = 1 / (1 + math.exp(-first))
    allowed = renyi.caps(1, delta)
    found = {}
    for wanted in (21.5, 155.0):
        place = int(np.argmin(np.abs(ORDERS - wanted)))
        order = ORDERS[place]
        room = allowed[place] - divergence.pure_divergence(first, ORDERS)[place]
        found[wanted] = _worst(order, room, 1 - first), _worst(order, room, 1 + first)
    for likelier, other in found.values():
        assert heads * likelier + (1 - heads) * other <= delta
    assert heads * found[155.0][0] + (1 - heads) * found[21.5][1] > 1.2 * delta


def test_the_order_of_a_filter_suits_gaussians():
    for epsilon, delta in [("0.1", "1e-9"), (1, "1e-6"), (8, "1e-12")]:
        place = renyi.filter_order(epsilon, delta)
        rho = renyi.caps(epsilon, delta)[place] / ORDERS[place]
        assert 0.995 * rho_for(epsilon, delta) <= rho <= rho_for(epsilon, delta) * (1 + 1e-5)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: renyi.epsilon_at([1.0], [2.0], 0), ValueError, "delta must be > 0"),
        (lambda: renyi.epsilon_at([1.0], [2.0], 1), ValueError, "delta"),
        (lambda: renyi.epsilon_at([1.0], [2.0], math.nan), ValueError, "delta.*nan"),
        (lambda: renyi.epsilon_at([1.0], [2.0, 3.0], 0.1), ValueError, "one divergence an order, 2"),
        (lambda: renyi.epsilon_at([math.nan], [2.0], 0.1), ValueError, "must be numbers >= 0"),
        (lambda: renyi.epsilon_at([-1.0], [2.0], 0.1), ValueError, "must be numbers >= 0"),
        (lambda: renyi.epsilon_at([1.0], [1.0], 0.1), ValueError, "finite numbers > 1"),
        (lambda: renyi.caps(math.nan, 0.1), ValueError, "epsilon.*nan"),
        (lambda: renyi.caps(1, -1), ValueError, "delta"),
        (lambda: renyi.filter_order("1e-9", "1e-15"), ValueError, "No order allows anything"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
