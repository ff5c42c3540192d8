"""Costs of plans: published figures, exact losses, dp-accounting's own optimistic answers as a floor."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting import composition
from pgmjax.privacy.accounting.composition import METHODS, Composition, pld_epsilon
from pgmjax.privacy.accounting.events import (
    Concentrated,
    GaussianEvent,
    LaplaceEvent,
    Pure,
    Response,
    Selection,
)

da = pytest.importorskip("dp_accounting")
from dp_accounting import pld, rdp  # noqa: E402
from dp_accounting.pld import privacy_loss_distribution as distributions  # noqa: E402

AR = Relation.ADD_REMOVE
EIGHT = Composition([(GaussianEvent("0.005", (1,), 10.0), 8)], AR)
MWEM = Composition([(Selection("0.05", "exponential"), 30), (LaplaceEvent("0.05", (1,), 20.0), 30)], AR)
EVENTS = st.one_of(
    st.builds(
        lambda x, s: LaplaceEvent(x, s),
        st.sampled_from(["0.1", "0.02"]),
        st.sampled_from([None, (1, 1), (2,)]),
    ),
    st.builds(lambda s: GaussianEvent("0.01", s), st.sampled_from([(1,), (1, 1)])),
    st.builds(Selection, st.just("0.1"), st.sampled_from(["exponential", "permute-and-flip"])),
    st.just(Response("0.2")),
)


def test_eight_gaussians():
    """PLD 1.58927 by the discrete distribution, RDP 1.6731."""
    assert 1.58927 - 1e-5 <= EIGHT.epsilon("1e-9", "pld").epsilon <= 1.5894
    assert EIGHT.epsilon("1e-9", "rdp").epsilon == pytest.approx(1.673110, rel=2e-5)
    assert EIGHT.epsilon("1e-9", "zcdp").epsilon == pytest.approx(1.673110, rel=2e-5)
    best = EIGHT.epsilon("1e-9")
    assert best.method == "pld" and best.note == ""
    theirs = pld.PLDAccountant().compose(da.GaussianDpEvent(10.0), 8).get_epsilon(1e-9)
    assert best.epsilon == pytest.approx(theirs, rel=3e-4)


def test_ten_laplaces_of_scale_ten():
    plan = Composition([(LaplaceEvent("0.1", (1,), 10.0), 10)], AR)
    assert plan.epsilon().epsilon == plan.epsilon_pure() == 1
    for method in ("rdp", "pld"):
        assert 0.9999 < plan.epsilon("1e-9", method).epsilon < 1.0001


def test_thirty_rounds_of_selection_and_measurement():
    """Basic 3.0; worst-case pure PLD 2.09; Renyi with bounded range 1.68 for the continuous distribution, by
    dp-accounting, and 1.69 for the discrete distribution, which loses a little more at the same scale."""
    assert MWEM.epsilon("1e-9", "basic").epsilon == 3
    assert 2.09 < MWEM.epsilon("1e-9", "pld").epsilon < 2.10
    selected = [da.ZCDpEvent(0.05**2 / 8), da.LaplaceDpEvent(20.0)]
    continuous = rdp.RdpAccountant()
    for event in selected:
        continuous.compose(event, 30)
    assert continuous.get_epsilon(1e-9) == pytest.approx(1.68, abs=0.01)
    ours = MWEM.epsilon("1e-9", "rdp").epsilon
    assert continuous.get_epsilon(1e-9) * 0.999 <= ours <= 1.695
    assert MWEM.epsilon("1e-9").method == "rdp"


def exact_delta(step, count, epsilon):
    """The delta of `count` binary randomised responses, a sum of binomials in logarithms."""
    result = 0.0
    for ups in range(count + 1):
        loss = (2 * ups - count) * step
        if loss > epsilon:
            log = math.lgamma(count + 1) - math.lgamma(ups + 1) - math.lgamma(count - ups + 1)
            log -= ups * math.log1p(math.exp(-step)) + (count - ups) * math.log1p(math.exp(step))
            result += math.exp(log) * -math.expm1(epsilon - loss)
    return result


@pytest.mark.parametrize("delta", [1e-10, 1e-9, 1e-5])
@pytest.mark.parametrize("step, count", [(0.05, 60), (0.1, 10), (0.013, 2000), (1.0, 3)])
@pytest.mark.parametrize("make", [Pure, lambda x: LaplaceEvent(x, (1,))])
def test_pld_is_an_upper_bound_and_close_where_the_distribution_is_a_binomial(step, count, delta, make):
    found = Composition([(make(step), count)], AR).epsilon(delta, "pld").epsilon
    assert exact_delta(step, count, found) <= delta
    assert exact_delta(step, count, 0.998 * found) > delta


@pytest.mark.parametrize("shifts, scale", [((3,), 7.5), ((2, 1), 11.0), ((5, 5), 200.0)])
def test_pld_of_shifts_is_not_below_the_optimistic_one(shifts, scale):
    laplace = LaplaceEvent(Fraction(sum(shifts)) / Fraction(scale), shifts, scale)
    gaussian = GaussianEvent(Fraction(sum(s**2 for s in shifts)) / (2 * Fraction(scale) ** 2), shifts, scale)
    floor = distributions.identity(1e-3)
    for event, make in (
        (laplace, lambda s: distributions.from_discrete_laplace_mechanism(1 / scale, s, False, 1e-3)),
        (gaussian, lambda s: distributions.from_discrete_gaussian_mechanism(scale, s, None, False, 1e-3)),
    ):
        floor = make(shifts[0])
        for shift in shifts[1:]:
            floor = floor.compose(make(shift))
        for _ in range(2):
            floor = floor.compose(floor)
        theirs = floor.get_epsilon_for_delta(1e-6)
        ours = Composition([(event, 4)], AR).epsilon("1e-6", "pld").epsilon
        assert theirs <= ours <= theirs * 1.02 + 0.01


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.tuples(EVENTS, st.integers(1, 20)), min_size=1, max_size=3), EVENTS)
def test_more_events_never_cost_less_and_larger_deltas_never_more(events, more):
    plan = Composition(events, Relation.REPLACE_ONE)
    longer = Composition([*events, more], Relation.REPLACE_ONE)
    for method in ("zcdp", "rdp", "best"):
        costs = [float(plan.epsilon(delta, method).epsilon) for delta in ("1e-10", "1e-6", "0.01")]
        assert costs == sorted(costs, reverse=True)
        # the cells of a longer plan's distribution are other ones
        assert float(longer.epsilon("1e-6", method).epsilon) >= costs[1] * 0.9999
    best = plan.epsilon("1e-6")
    assert best.epsilon <= min(plan.epsilon("1e-6", m).epsilon for m in ("zcdp", "rdp")) * (1 + 1e-9)
    if plan.epsilon_pure() is not None:
        assert best.epsilon <= plan.epsilon_pure() == plan.epsilon(0).epsilon
    assert longer.rho() == plan.rho() + more.rho


def test_equal_events_are_counted_together_in_any_order():
    one = Composition([Pure(1), (Pure("0.5"), 2), Pure(1)], AR)
    assert one.events == ((Pure(1), 2), (Pure("0.5"), 2)) and one.accesses == 4
    assert one.epsilon_pure() == 3 and one.rho() == Fraction(5, 4)
    assert EIGHT.epsilon_pure() is None


@pytest.mark.parametrize(
    "event, words",
    [
        (GaussianEvent("0.01"), "a gaussian event does not know its shifts"),
        (Concentrated("0.01"), "of a concentrated event only rho is known"),
        (GaussianEvent("1e-10", (1,), 1e5), "a gaussian scale of 100000 has more than"),
    ],
)
def test_what_pld_cannot_do_is_said_and_the_best_falls_back(event, words):
    plan = Composition([event, Pure("0.1")], AR)
    with pytest.raises(ValueError, match=f"pld unsupported: {words}"):
        plan.epsilon("1e-9", "pld")
    best = plan.epsilon("1e-9")
    assert best.method == "rdp" and words in best.note
    assert best.epsilon == plan.epsilon("1e-9", "rdp").epsilon


def test_deltas_below_what_transforms_tell_are_left_to_other_accounts():
    with pytest.raises(ValueError, match="too small for 8 convolutions"):
        EIGHT.epsilon("1e-15", "pld")
    assert EIGHT.epsilon("1e-15").method == "rdp"


def test_statements():
    assert MWEM.statement() == (
        "60 accesses under add-remove together cost epsilon 3 at delta 0 by basic; rho 0.046875."
    )
    assert "by pld; rho 0.04." in EIGHT.statement("1e-9") and "delta 1e-09" in EIGHT.statement("1e-9")
    unknown = Composition([GaussianEvent("0.04")], AR).statement("1e-9")
    assert unknown.startswith("1 access under") and "(pld unsupported: a gaussian event" in unknown


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: Composition([], AR), ValueError, "at least one event"),
        (lambda: Composition([Pure(1)], None), ValueError, "replace-one"),
        (lambda: Composition([0.1], AR), TypeError, "An event must be"),
        (lambda: Composition(Pure(1), AR), TypeError, "events.*Pure"),
        (lambda: Composition({Pure(1): 2}, AR), TypeError, "events.*dict"),
        (lambda: Composition([(Pure(1), 0)], AR), ValueError, "count"),
        (lambda: Composition([(Pure(1), 1.5)], AR), TypeError, "count"),
        (lambda: Composition([Response(1)], AR), ValueError, "replace-one"),
        (lambda: EIGHT.epsilon("1e-9", "advanced"), ValueError, "method.*'advanced'"),
        (lambda: EIGHT.epsilon(0), ValueError, "gaussian events, which have no pure epsilon: give delta > 0"),
        (lambda: EIGHT.epsilon("1e-9", "basic"), ValueError, "give delta > 0 and another method"),
        (lambda: MWEM.epsilon(0, "pld"), ValueError, "pld needs delta > 0"),
        (lambda: MWEM.epsilon(0, "rdp"), ValueError, "rdp needs delta > 0"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [-1, 1, math.nan, math.inf])
def test_bad_deltas(method, delta):
    with pytest.raises(ValueError, match="delta"):
        MWEM.epsilon(delta, method)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "event, low, high",
    [
        (Pure("1e200"), 0.99e200, 1.01e200),
        (Pure("1e-200"), 0, 1e-199),
        (Pure("1e3"), 999, 1001),
        (Concentrated("1e290"), 1e290, 1.002e290),
        (Concentrated("1.7e308"), 1.7e308, 1.702e308),
        (Concentrated("1e-307"), 0, 1e-150),
        (GaussianEvent("1e300", (1,)), 1e300, 1.001e300),
    ],
)
def test_losses_beyond_floats_have_finite_costs(event, low, high):
    """epsilon-DP costs at most epsilon, and rho-zCDP about rho where that is large."""
    assert low <= Composition([event], AR).epsilon("1e-9").epsilon <= high


@pytest.mark.parametrize("epsilon, size", [("1e200", "large"), ("1e-200", "small")])
@pytest.mark.parametrize("make", [Pure, lambda x: LaplaceEvent(x, (1,))])
def test_losses_that_no_distribution_holds(epsilon, size, make):
    with pytest.raises(ValueError, match=f"pld unsupported: losses this {size} cannot be listed in float64"):
        Composition([make(epsilon)], AR).epsilon("1e-9", "pld")


def test_zcdp_of_extremes():
    assert Composition([Concentrated("1e290")], AR).epsilon("1e-9", "zcdp").epsilon == pytest.approx(
        1e290, rel=0.02
    )
    assert Composition([Pure("1e-200")], AR).epsilon("1e-9", "zcdp").epsilon < 1e-100


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["best", "rdp", "zcdp"])
def test_an_infinite_cost_is_refused(method):
    plan = Composition([(Concentrated("1e308"), 100)], AR)
    with pytest.raises(ValueError, match=r"cost more than any 64-bit float can say .*: spend less"):
        plan.epsilon("1e-9", method)


def test_long_fractions_are_not_written_out():
    said = Composition([Pure("1e-100")], AR).statement()
    assert "cost epsilon about 1e-100 at delta 0 by basic; rho about 5e-201." in said


def test_only_what_dp_accounting_publishes_of_a_distribution_is_used(monkeypatch):
    class Published:
        def __init__(self, pld):
            self.of = pld
            self.self_compose = lambda count: Published(pld.self_compose(count))
            self.compose = lambda other: Published(pld.compose(other.of))
            self.get_epsilon_for_delta = pld.get_epsilon_for_delta

    events = [(Pure("0.1"), 3), (Pure("0.2"), 1), (LaplaceEvent("0.3"), 1)]
    expected = pld_epsilon(events, Fraction(1, 10**6))
    true = composition._distribution
    monkeypatch.setattr(composition, "_distribution", lambda *given: Published(true(*given)))
    assert pld_epsilon(events, Fraction(1, 10**6)) == expected
