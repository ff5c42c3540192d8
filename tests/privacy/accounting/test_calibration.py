"""Calibrated noise: published scales, targets kept by the scales that are drawn with, relations once."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting.calibration import calibrate
from pgmjax.privacy.accounting.composition import Composition
from pgmjax.queries import DenseMatrix, Product, identity, marginal, prefix

da = pytest.importorskip("dp_accounting")

AR, RO = Relation.ADD_REMOVE, Relation.REPLACE_ONE
NAMES = "abcdefgh"
DOMAIN = Domain(dict.fromkeys(NAMES, 4))
EIGHT = [marginal([name]) for name in NAMES]


def test_eight_gaussians_at_epsilon_one():
    """Scales 15.543 by loss distributions and 16.345 by Renyi divergences, at delta 1e-9."""
    by_pld = calibrate(EIGHT, DOMAIN, AR, 1, "1e-9", noise="gaussian", accountant="pld")
    assert {round(distribution.scale, 3) for distribution in by_pld.distributions} == {15.543}
    for accountant in ("rdp", "zcdp"):
        found = calibrate(EIGHT, DOMAIN, AR, 1, "1e-9", noise="gaussian", accountant=accountant)
        assert {round(distribution.scale, 3) for distribution in found.distributions} == {16.345}
    # eight Gaussians are one of sqrt(8) times the sensitivity
    assert by_pld.distributions[0].scale == pytest.approx(
        da.get_sigma_gaussian(1.0, 1e-9) * math.sqrt(8), rel=1e-4
    )


def test_replacing_a_record_moves_two_answers_and_doubles_nothing_else():
    removed, replaced = (
        calibrate(EIGHT, DOMAIN, relation, 1, "1e-9", noise="gaussian", accountant="pld")
        for relation in (AR, RO)
    )
    assert replaced.distributions[0].scale == pytest.approx(
        math.sqrt(2) * removed.distributions[0].scale, rel=1e-4
    )
    assert [calibrate(EIGHT, DOMAIN, relation, 1).distributions[0].scale for relation in (AR, RO)] == [
        8.0,
        16.0,
    ]


def test_pure_budgets_are_divided_exactly():
    found = calibrate(EIGHT[:3], DOMAIN, AR, "0.1", weights=[1, 1, 2])
    assert found.costs == (Fraction(1, 40), Fraction(1, 40), Fraction(1, 20))
    assert found.loss.epsilon == found.plan.epsilon_pure() == Fraction(1, 10) and found.loss.method == "basic"
    assert [distribution.scale for distribution in found.distributions] == [40.0, 40.0, 20.0]
    weighted = calibrate(EIGHT[:2], DOMAIN, RO, 1, max_weight=5)
    assert [distribution.scale for distribution in weighted.distributions] == [20.0, 20.0]
    assert weighted.events[0].shifts == (5, 5)


def test_automatic_noise_is_that_of_the_smaller_variance():
    few = calibrate(EIGHT, DOMAIN, AR, 1, "1e-9")
    assert few.distributions[0].noise == "laplace" and few.loss.epsilon <= 1
    many = [Product({name: prefix(), "h": identity()}) for name in "abcdefg"]
    assert calibrate(many, DOMAIN, AR, 1, "1e-6").distributions[0].noise == "gaussian"
    assert calibrate(many, DOMAIN, AR, 1).distributions[0].noise == "laplace"


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.floats(0.05, 20),
    st.sampled_from(["0", "1e-10", "1e-6", "0.01"]),
    st.sampled_from(["zcdp", "rdp", "pld"]),
    st.sampled_from([AR, RO]),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
)
def test_targets_are_met_by_the_scales_that_are_drawn(epsilon, delta, accountant, relation, weights):
    queries = [marginal(["a", "b"]), Product({"c": prefix()}), DenseMatrix(("d",), [[3, -2, 0, 1]])]
    noise = "laplace" if accountant == "pld" else "auto"  # the last query has no shifts under RO
    found = calibrate(
        queries, DOMAIN, relation, epsilon, delta, noise=noise, weights=weights, accountant=accountant
    )
    assert found.loss.epsilon <= Fraction(str(epsilon))
    assert Composition(found.events, relation).epsilon(delta).epsilon <= found.loss.epsilon * (1 + 1e-9)
    for query, distribution, cost, event in zip(
        queries, found.distributions, found.costs, found.events, strict=True
    ):
        assert event.scale == distribution.scale
        if distribution.noise == "laplace":
            assert Fraction(distribution.scale) * cost >= query.l1_sensitivity(relation, DOMAIN)
        else:
            square = query.l2_sensitivity_squared(relation, DOMAIN)
            assert Fraction(distribution.scale) ** 2 * 2 * cost >= square
    # shares follow the weights
    total = sum(found.costs)
    for cost, weight in zip(found.costs, weights, strict=True):
        assert cost * sum(weights) == total * weight


def test_a_better_accountant_never_needs_more_noise_and_more_budget_never_more():
    scales = [
        calibrate(EIGHT * 10, DOMAIN, AR, 1, "1e-6", noise="laplace", accountant=a).distributions[0].scale
        for a in ("zcdp", "rdp", "pld")
    ]
    assert scales == sorted(scales, reverse=True) and scales[0] < 80
    scales = [
        calibrate(EIGHT, DOMAIN, RO, e, "1e-6", accountant="rdp").distributions[0].scale for e in (0.1, 1, 5)
    ]
    assert scales == sorted(scales, reverse=True)


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"epsilon": 0}, ValueError, "epsilon.*0"),
        ({"epsilon": math.nan}, ValueError, "epsilon.*nan"),
        ({"epsilon": True}, TypeError, "epsilon"),
        ({"delta": -1}, ValueError, "delta.*-1"),
        ({"delta": math.nan}, ValueError, "delta.*nan"),
        ({"noise": "gaussian"}, ValueError, "Gaussian noise needs delta > 0"),
        ({"noise": "normal"}, ValueError, "noise.*'normal'"),
        ({"accountant": "moments"}, ValueError, "accountant.*'moments'"),
        ({"relation": None}, ValueError, "replace-one"),
        ({"queries": []}, ValueError, "at least one query"),
        ({"queries": EIGHT[0]}, TypeError, "queries must be a list"),
        ({"queries": ["a"]}, TypeError, "A query must be"),
        ({"queries": [DenseMatrix(("a",), [[0.5, 0, 0, 1]])]}, ValueError, r"\('a',\).*queries\.quantise"),
        ({"queries": [marginal(["z"])]}, ValueError, "z"),
        ({"weights": 3}, TypeError, "weights.*int"),
        ({"weights": [1]}, ValueError, "one weight a query: expected 8, got 1"),
        ({"weights": [1] * 7 + [0]}, ValueError, "budget.*0"),
        ({"max_weight": 0}, ValueError, "max_weight.*0"),
        ({"epsilon": 10**4}, ValueError, r"10\^27"),
    ],
)
def test_refusals(change, error, words):
    arguments = {"queries": EIGHT, "domain": DOMAIN, "relation": AR, "epsilon": 1} | change
    with pytest.raises(error, match=words):
        calibrate(**arguments)


def test_loss_distributions_need_shifts_for_gaussians():
    uneven = DenseMatrix(("a",), [[3, 2, 0, 0], [0, 2, 1, 1]])
    with pytest.raises(ValueError, match=r"pld.*gaussian"):
        calibrate([uneven], DOMAIN, AR, 1, "1e-9", noise="gaussian", accountant="pld")


@pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)
@pytest.mark.parametrize(
    ("accountant", "noise"), [("rdp", "laplace"), ("rdp", "gaussian"), ("pld", "laplace")]
)
def test_a_unit_of_three_records_needs_three_times_the_noise(accountant, noise, relation):
    """All three may lie in one cell: the shift is three times as far, in units of three times the scale."""
    one, three = (
        calibrate(
            [marginal(["a"])], DOMAIN, relation, 1, "1e-6", noise=noise, max_records=k, accountant=accountant
        )
        for k in (1, 3)
    )
    assert three.distributions[0].scale >= 3 * one.distributions[0].scale * (1 - 1e-9)
