"""Events: costs in each currency are consistent upper bounds; records are exact; bad input is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting import events as e

ORDERS = np.array([1.01, 1.5, 2.0, 8.0, 64.0, 1e4])
AMOUNTS = st.fractions(min_value=Fraction(1, 10**6), max_value=20, max_denominator=10**6)
SHIFTS = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def examples():
    yield e.Pure("1/3")
    yield e.Response("0.5")
    yield e.Concentrated("1e-9")
    yield e.Selection("0.1", "exponential")
    yield e.Selection("0.1", "permute-and-flip")
    yield e.LaplaceEvent("0.1")
    yield e.LaplaceEvent("0.1", (2, 1), 30.000000000000004)
    yield e.LaplaceEvent("0.3", None, 10.0)
    yield e.GaussianEvent("0.005", (1,), 10.0)
    yield e.GaussianEvent("1/7")


@pytest.mark.parametrize("event", list(examples()), ids=repr)
def test_records_hold_what_makes_the_event_again_exactly(event):
    record = event.to_dict()
    fields = {name: value for name, value in record.items() if name != "kind"}
    if "scale" in fields:
        fields["scale"] = float(fields["scale"])
    assert type(event)(**fields) == event and record["kind"] == event.kind
    assert ("delta" in record) == (event.delta > 0)  # by which a ledger adds them up
    assert all(isinstance(value, str | list) for value in record.values())


@pytest.mark.parametrize("event", list(examples()), ids=repr)
def test_currencies_agree(event):
    """Divergences are below order * rho, and below epsilon; they rise with the order."""
    renyi = event.renyi(ORDERS)
    assert (renyi > 0).all() and (np.diff(renyi) >= 0).all()
    assert (renyi <= ORDERS * float(event.rho) * (1 + 1e-11)).all()
    if event.epsilon is not None:
        assert (renyi <= float(event.epsilon) * (1 + 1e-11)).all()
        assert event.rho <= event.epsilon**2 / 2


@settings(max_examples=60, deadline=None, derandomize=True)
@given(AMOUNTS, SHIFTS)
def test_laplace_with_shifts_is_no_dearer_than_without_and_than_one_answer_for_all(epsilon, shifts):
    scale = math.nextafter(float(sum(shifts) / epsilon), math.inf)
    known = e.LaplaceEvent(epsilon, shifts, scale).renyi(ORDERS)
    unknown = e.LaplaceEvent(epsilon, None, scale).renyi(ORDERS)
    assert (known <= unknown * (1 + 1e-9)).all()
    assert (unknown <= e.Pure(epsilon).renyi(ORDERS)).all()


def test_rho_of_a_move_over_several_answers_is_the_sum_of_theirs():
    assert e.LaplaceEvent(1, (1, 1)).rho == Fraction(1, 4)
    assert e.LaplaceEvent(1, (3,)).rho == Fraction(1, 2)
    assert e.GaussianEvent("0.02", (1, 1), 10.0).squares == 2


@pytest.mark.parametrize("epsilon", ["0.01", "1", "3"])
def test_pure_against_the_randomised_response_of_dp_accounting(epsilon):
    rdp = pytest.importorskip("dp_accounting.rdp")
    da = pytest.importorskip("dp_accounting")
    noise = 2 / (1 + math.exp(float(epsilon)))  # theirs: probability of a uniform draw, the truth included
    accountant = rdp.RdpAccountant(list(ORDERS), da.NeighboringRelation.REPLACE_ONE)
    theirs = accountant.compose(da.RandomizedResponseDpEvent(noise, 2)).rdp
    np.testing.assert_allclose(e.Pure(epsilon).renyi(ORDERS), theirs, rtol=1e-8)


def test_selection_by_the_exponential_mechanism_uses_its_bounded_range():
    assert e.Selection(2, "exponential").rho == Fraction(1, 2)
    assert e.Selection(2, "permute-and-flip").rho == 2
    assert (e.Selection(2, "exponential").renyi(ORDERS) <= e.Pure(2).renyi(ORDERS)).all()


def test_the_exponential_mechanism_on_random_scores_stays_below_its_event():
    """Exact divergences of P(i) ~ exp(epsilon score_i / 2) whose scores move by at most 1 each."""
    generator = np.random.default_rng(5)
    bound = e.Selection("1.5", "exponential").renyi(ORDERS[:5])
    for _ in range(200):
        scores = generator.integers(0, 4, 6)
        moved = scores + generator.integers(-1, 2, 6)
        p, q = (np.exp(0.75 * s) / np.exp(0.75 * s).sum() for s in (scores, moved))
        exact = [math.log((p**a * q ** (1 - a)).sum()) / (a - 1) for a in ORDERS[:5]]
        assert (np.array(exact) <= bound + 1e-9).all()


def test_costs_beyond_floats_are_still_bounded():
    assert np.isfinite(e.Selection("1e200", "exponential").renyi(ORDERS)).all()
    assert np.isfinite(e.LaplaceEvent("1e200").renyi(ORDERS)).all()


def test_response_holds_where_records_are_replaced():
    e.check_relation(e.Response(1), Relation.REPLACE_ONE)
    e.check_relation(e.Pure(1), Relation.ADD_REMOVE)
    with pytest.raises(ValueError, match="response event holds under replace-one only"):
        e.check_relation(e.Response(1), Relation.ADD_REMOVE)
    with pytest.raises(TypeError, match=r"LaplaceEvent.*float"):
        e.check_relation(0.1, Relation.ADD_REMOVE)


@pytest.mark.parametrize(
    "kind", [e.Pure, e.LaplaceEvent, e.Response, lambda x: e.Selection(x, "exponential")]
)
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "junk"])
def test_bad_epsilons(kind, value):
    with pytest.raises(ValueError, match="epsilon"):
        kind(value)


@pytest.mark.parametrize("kind", [e.Concentrated, e.GaussianEvent])
@pytest.mark.parametrize("value, error", [(0, ValueError), (math.nan, ValueError), (True, TypeError)])
def test_bad_rhos(kind, value, error):
    with pytest.raises(error, match="rho"):
        kind(value)


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: e.Selection(1, "softmax"), ValueError, "method.*'softmax'"),
        (lambda: e.LaplaceEvent(1, ()), ValueError, "shifts must be whole numbers"),
        (lambda: e.LaplaceEvent(1, (0,)), ValueError, "shift.*0"),
        (lambda: e.LaplaceEvent(1, (0.5,)), TypeError, r"shift.*float 0\.5"),
        (lambda: e.LaplaceEvent(1, (1,), math.nan), ValueError, "scale.*nan"),
        (lambda: e.LaplaceEvent(1, (1,), 0.0), ValueError, "scale.*0"),
        (lambda: e.LaplaceEvent("0.1", (2,), 10.0), ValueError, "epsilon 0.1 is too small for moves of 2"),
        (lambda: e.GaussianEvent("0.004", (1,), 10.0), ValueError, "rho 0.004 is too small for moves of 1"),
        (lambda: e.LaplaceEvent(1, 3), TypeError, "shifts.*int"),
        (lambda: e.GaussianEvent(1, "12"), TypeError, "shifts.*str"),
        (
            lambda: e.LaplaceEvent("1e-100", (2,), 1.0),
            ValueError,
            "epsilon about 1e-100 is too small for moves",
        ),
        (lambda: e.GaussianEvent("1e-100", (2,), 1.0), ValueError, "rho about 1e-100 is too small for moves"),
    ],
)
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_shifts_may_be_an_array():
    assert e.LaplaceEvent(1, np.array([1, 2])).shifts == (2, 1)


@pytest.mark.filterwarnings("error")
def test_divergences_are_infinite_only_where_no_float_is_as_large():
    values = e.Concentrated("1e300").renyi(np.array([2.0, 1e10]))
    assert values[0] == pytest.approx(2e300) and values[1] == np.inf
