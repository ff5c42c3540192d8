"""When a fit ends: each way of ending by itself, and which comes first where several hold."""

import dataclasses
import math

import pytest

import pgmjax as pj
from pgmjax.estimation.solvers.stopping import PATIENCE, Status, StoppingRule, excess_of

RULE = StoppingRule(tol=0.01, max_steps=100)
NOISY = dataclasses.replace(RULE, noise_level=5.0)


def test_the_tolerance_is_relative_to_losses_above_one_and_absolute_below():
    assert RULE.converged(0.0, 0.01) and not RULE.converged(0.0, 0.011)
    assert RULE.converged(200.0, 2.0) and not RULE.converged(200.0, 2.1)
    assert not StoppingRule(tol=-1, max_steps=1).converged(0.0, 0.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((20.0, 1.0, 50, False), None),
        ((20.0, 0.2, 50, False), Status.CONVERGED),
        ((20.0, 1.0, 50, True), Status.STALLED),
        ((20.0, 1.0, 100, False), Status.MAX_STEPS),
        ((20.0, 1.0, 100, True), Status.STALLED),
        ((20.0, 0.2, 100, True), Status.CONVERGED),
        ((5.0, 0.0, 100, True), Status.WITHIN_NOISE),
        ((math.nan, 0.0, 100, True), Status.NOT_FINITE),
        ((math.inf, math.nan, 1, False), Status.NOT_FINITE),
    ],
)
def test_after_a_block_of_steps(given, expected):
    assert NOISY.status(*given) is expected


def test_a_smoothed_loss_must_be_within_the_tolerance_with_its_slack():
    assert RULE.status(20.0, 0.15, 50, False, slack=0.1) is None
    assert RULE.status(20.0, 0.1, 50, False, slack=0.1) is Status.CONVERGED
    assert RULE.status(20.0, 0.9, 50, False, slack=1.0) is Status.CONVERGED  # less smoothing promises more
    assert NOISY.status(4.5, 3.0, 50, False, slack=1.0) is None
    assert NOISY.status(4.0, 3.0, 50, False, slack=1.0) is Status.WITHIN_NOISE


def test_after_a_stage_the_fit_goes_on_with_less_smoothing_unless_it_is_done():
    done = Status.CONVERGED
    assert RULE.stage_status(20.0, 19.5, 50, done, slack=1.0) is None
    assert RULE.stage_status(20.0, 19.95, 50, done, slack=0.1) is Status.CONVERGED
    assert RULE.stage_status(20.0, 19.5, 100, done, slack=1.0) is Status.MAX_STEPS
    assert RULE.stage_status(20.0, 19.5, 50, Status.STALLED, slack=0.02) is Status.STALLED
    assert RULE.stage_status(20.0, 19.5, 50, Status.STALLED, slack=0.021) is None
    further = dataclasses.replace(RULE, sharp_enough=math.inf)
    assert further.stage_status(20.0, 19.5, 50, Status.STALLED, slack=0.02) is None
    assert further.stage_status(20.0, 19.5, 50, Status.STALLED, slack=1e-12) is Status.STALLED


@pytest.mark.parametrize("ended", list(Status))
def test_a_smooth_loss_has_one_stage(ended):
    assert RULE.stage_status(20.0, 0.0, 50, ended, slack=0.0) is ended


def test_digits_that_ran_out_go_on_in_float64_unless_the_gap_is_near():
    rule = StoppingRule(tol=1e-4, max_steps=100)
    assert rule.float64_status(20.0, 0.002, 50, Status.STALLED, 0.0) is Status.CONVERGED
    assert rule.float64_status(20.0, 0.2, 50, Status.STALLED, 0.0) is Status.STALLED
    assert rule.float64_status(20.0, 0.21, 50, Status.STALLED, 0.0) is None
    # a hundredth of the loss is the most that may be called near
    assert RULE.float64_status(20.0, 0.21, 50, Status.STALLED, 0.0) is None
    assert rule.float64_status(20.0, 0.2, 50, Status.MAX_STEPS, 0.0) is Status.MAX_STEPS
    assert rule.float64_status(20.0, 0.2, 100, Status.STALLED, 0.0) is Status.MAX_STEPS


def test_what_float32_calls_certified_or_estimates_goes_on_where_float64_contradicts_it():
    rule = StoppingRule.of(None, 100, visible=5.0)  # 50 values: a loss of 25, and 25 + 5 * 5 at most
    assert rule.float64_status(30.0, 0.05, 50, Status.CONVERGED, 0.0) is Status.CONVERGED
    assert rule.float64_status(30.0, 0.15, 50, Status.CONVERGED, 0.0) is None
    assert rule.float64_status(49.0, 30.0, 50, Status.WITHIN_NOISE, 0.0) is Status.WITHIN_NOISE
    assert rule.float64_status(51.0, 30.0, 50, Status.WITHIN_NOISE, 0.0) is None


@pytest.mark.parametrize("ended", list(Status))
def test_what_a_fit_is_called(ended):
    """One rule: certified to a hundredth or the tolerance, an estimate, or how it ended."""
    exact, usual = StoppingRule.of(1e-3, 100, 5.0), StoppingRule.of(None, 100, 5.0)
    if ended is Status.NOT_FINITE:
        assert exact.ending(ended, math.nan, math.nan) is ended
        return
    assert exact.ending(ended, 20.0, 0.02) is Status.CONVERGED
    assert usual.ending(ended, 20.0, 0.2) is Status.CONVERGED
    assert usual.ending(ended, 20.0, 0.2, is_estimate=True) is Status.WITHIN_NOISE
    assert StoppingRule.of(0.5, 100, 5.0).ending(ended, 20.0, 0.21) is not Status.CONVERGED
    otherwise = {Status.CONVERGED: Status.STALLED}.get(ended, ended)
    assert exact.ending(ended, 20.0, 0.021) is otherwise
    assert usual.ending(ended, 20.0, 0.21) is otherwise
    assert usual.ending(ended, 1.0, 0.1) is Status.WITHIN_NOISE  # 0.02 of 5
    assert exact.ending(ended, math.nan, 0.0) is Status.NOT_FINITE
    assert ended.text.endswith(".")


def test_rounds_end_by_their_best_feasible_model():
    assert RULE.round_status(20.0, 19.0, 50, 0) is None
    assert RULE.round_status(20.0, 19.9, 100, PATIENCE) is Status.CONVERGED
    assert RULE.round_status(20.0, 19.0, 100, PATIENCE) is Status.MAX_STEPS
    assert RULE.round_status(20.0, 19.0, 50, PATIENCE) is Status.STALLED
    assert RULE.round_status(math.inf, -math.inf, 50, 0) is None


def test_the_status_has_one_home():
    assert pj.Status is Status


def test_without_a_tolerance_an_excess_loss_may_be_what_noise_hides():
    rule = StoppingRule.of(None, 100, visible=50.0)
    assert rule.converged(1e3, 1.0) and not rule.converged(1e3, 1.01)  # 0.02 of 50
    assert rule.converged(1e9, 999.0) and not rule.converged(1e9, 1001.0)  # rounding: 1e-6 of the loss
    assert StoppingRule.of(1e-3, 100, visible=50.0) == StoppingRule(1e-3, 100)
    assert StoppingRule.of(0.5, 100, visible=50.0) == StoppingRule(0.01, 100)
    assert StoppingRule.of(None, 100, visible=0.0) == StoppingRule(1e-4, 100)


def test_an_estimate_of_the_excess_loss_ends_a_fit_only_without_a_tolerance():
    for rule, wanted in ((StoppingRule.of(None, 100, 50.0), Status.WITHIN_NOISE), (RULE, None)):
        assert rule.status(1e3, 500.0, 50, False, excess=0.9) is wanted
        assert rule.status(1e3, 500.0, 50, False, excess=30.0) is None


def test_an_estimate_is_believed_of_a_loss_that_the_noise_explains():
    """The true table's is 2,500 in the mean, with a standard deviation of 50, of which five are allowed."""
    rule = StoppingRule.of(None, 100, 50.0)
    assert rule.status(2749.0, 500.0, 50, False, excess=0.0) is Status.WITHIN_NOISE
    assert rule.status(2751.0, 500.0, 50, False, excess=0.0) is None
    assert rule.status(9e9, 500.0, 50, False, excess=0.0, alone=2749.0) is Status.WITHIN_NOISE


@pytest.mark.parametrize("steps", [100, 500, 1000])
def test_the_estimate_is_at_least_the_excess_of_each_rate(steps):
    # the excess itself for 1 / steps, and three times as much for 1 / steps**2
    for power, most in ((1, 1.1), (2, 3.1)):
        losses = [(k, 7.0 + 1e4 / k**power) for k in range(50, steps + 1, 50)]
        excess = losses[-1][1] - 7.0
        assert excess * 0.999 <= excess_of(losses) <= most * excess
    geometric = [(k, 7.0 + 1e4 * 0.99**k) for k in range(50, steps + 1, 50)]
    assert excess_of(geometric) >= 0.6 * 1e4 * 0.99**steps
    assert excess_of(losses[:1]) == float("inf")
