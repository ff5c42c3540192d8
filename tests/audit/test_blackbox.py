"""Lower bounds from outputs alone: never above the truth, and above a claim that is a factor off.

Expected rates are those of another implementation of the same test, over 200 trials; these trials are
fewer, and seeded.
"""

import math

import numpy as np
import pytest
import scipy.stats

from pgmjax.audit import blackbox
from pgmjax.audit.blackbox import Outputs
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.seeded import SeededBackend
from tests.audit import channels

ALPHA = 1e-6
FALSE_ALARMS = 0.0
"""Seeded. With fresh entropy 2e-4 (200 bounds at ALPHA) and 2e-6 for the two tests of validity; the
windows of rates in the tests of power are not made for fresh entropy."""

TRIALS = 40


def laplace(claimed, times, size, trials=TRIALS, seed=0):
    """Outputs on two neighbours of Laplace noise whose real epsilon is `times` the claimed one."""
    rng, scale = np.random.default_rng(seed), 1 / claimed / times
    return [(rng.laplace(0, scale, size), 1 + rng.laplace(0, scale, size)) for _ in range(trials)]


def rate(pairs, claimed):
    return np.mean([blackbox.epsilon_lower_bound(*pair, alpha=ALPHA).exceeds(claimed) for pair in pairs])


@pytest.mark.parametrize("claimed", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("size", [2_000, 10_000])
def test_correct_laplace_noise_never_alarms(claimed, size):
    assert rate(laplace(claimed, 1, size, trials=20), claimed) == 0


@pytest.mark.parametrize(
    ("claimed", "times", "size", "low", "high"),
    [
        (0.5, 1.25, 10_000, 0.0, 0.15),
        (0.5, 1.5, 10_000, 0.9, 1.0),
        (0.5, 2, 2_000, 0.7, 1.0),
        (0.5, 2, 10_000, 1.0, 1.0),
        (1.0, 1.25, 10_000, 0.6, 0.95),
        (1.0, 1.5, 2_000, 0.1, 0.55),
        (1.0, 2, 500, 0.0, 0.3),
        (1.0, 2, 2_000, 0.95, 1.0),
        (1.0, 2, 10_000, 1.0, 1.0),
        (2.0, 1.25, 10_000, 0.95, 1.0),
        (2.0, 1.5, 2_000, 0.6, 0.95),
        (2.0, 2, 2_000, 0.95, 1.0),
    ],
)
def test_power_against_wrong_scales(claimed, times, size, low, high):
    assert low <= rate(laplace(claimed, times, size), claimed) <= high


def test_power_of_the_mu_audit():
    rng = np.random.default_rng(1)

    def found(mu, size):
        half = 0.5 / mu  # the claim is mu, the noise half as wide
        pairs = [(rng.normal(0, half, size), rng.normal(1, half, size)) for _ in range(TRIALS)]
        return np.mean([blackbox.mu_lower_bound(*pair, alpha=ALPHA).exceeds(mu) for pair in pairs])

    assert found(1.0, 2_000) == 1.0
    assert 0.35 <= found(1.0, 500) <= 0.75
    assert found(0.25, 10_000) >= 0.9


@pytest.mark.parametrize("kind", ["response", "gaussian"])
def test_bounds_of_a_tight_mechanism_are_valid(kind):
    """Above the truth in at most 5 % of 1,000 runs, by a binomial test of level 1e-6.

    Binary response is the hardest case: its event is known and its probabilities attain epsilon.
    """
    rng, above, runs = np.random.default_rng(2), 0, 1_000
    for _ in range(runs):
        if kind == "response":
            pair = rng.random((2, 400)) < np.array([[0.75], [0.25]])
            above += blackbox.epsilon_lower_bound(*pair, alpha=0.05).exceeds(math.log(3))
        else:
            pair = np.round(rng.normal(0, 1, (2, 100)), 1) + np.array([[0], [1]])
            above += blackbox.mu_lower_bound(*pair, alpha=0.05).exceeds(1.0)
    assert scipy.stats.binomtest(above, runs, 0.05, alternative="greater").pvalue > 1e-6


def test_integer_noise_at_its_exact_scale():
    backend = SeededBackend(3, insecure=True)
    distribution = backend.laplace(1, 1)
    noise = backend.draw(distribution, 40_000).reshape(2, -1)
    found = blackbox.epsilon_lower_bound(noise[0], noise[1] + 1, alpha=ALPHA)
    assert 0.8 < found.value <= 1.0
    wrong = backend.draw(DiscreteLaplace(distribution.scale / 2), 40_000).reshape(2, -1)
    assert blackbox.epsilon_lower_bound(wrong[0], wrong[1] + 1, alpha=ALPHA).exceeds(1.0)


@pytest.mark.parametrize(("scale", "truth"), [(1.0, 1.0457601), (2.0, 0.5053254), (5.0, 0.2003345)])
def test_mu_of_the_discrete_gaussian_is_above_shift_over_scale(scale, truth):
    """Its truth by a sum over the distribution; 800,000 draws at scale 1 prove that mu is not 1."""
    distribution, values = DiscreteGaussian(scale), np.arange(-300, 301)
    reached = np.cumsum(distribution.probabilities(values))[300 - int(scale) : 301 + int(scale)]
    quantiles = scipy.stats.norm.ppf(reached)
    assert np.max(np.diff(quantiles)) == pytest.approx(truth, abs=1e-6)
    noise = SeededBackend(3, insecure=True).draw(distribution, 1_600_000).reshape(2, -1)
    found = blackbox.mu_lower_bound(noise[0], noise[1] + 1, alpha=ALPHA).value
    assert truth - 0.04 < found <= truth
    assert scale > 1 or found > 1


@pytest.mark.parametrize("size", [2, 5])
def test_labels_are_told_apart_by_likelihood_ratio(size):
    """The lie that may be the truth, and a response of double epsilon, as words."""
    rng, words = np.random.default_rng(4), np.array(["a", "b", "c", "d", "e"])[:size]
    for channel, low, high in [
        (channels.response(size, 1.0), 0.75, 1.0),
        (channels.response(size, 2.0), 1.5, 2.0),
    ]:
        pair = [rng.choice(words, p=channel[row], size=20_000).tolist() for row in (0, 1)]
        found = blackbox.epsilon_lower_bound(*pair, alpha=ALPHA)
        assert low < found.value <= high
        assert ("'a'" in found.event) == (found.likelier == "first")


def test_two_sided_events_of_few_values():
    """A distribution that differs in the middle only: no threshold finds it, likelihood ratios do."""
    rng = np.random.default_rng(5)
    first = rng.choice([-1, 0, 1], p=[0.45, 0.1, 0.45], size=20_000)
    second = rng.choice([-1, 0, 1], p=[0.2, 0.6, 0.2], size=20_000)
    found = blackbox.epsilon_lower_bound(first, second, alpha=ALPHA)
    assert 1.5 < found.value <= math.log(6)
    assert found.event == "output in {0}" and found.likelier == "second"


def test_delta_forgives_rare_events_and_nothing_else():
    rng = np.random.default_rng(6)
    first, second = np.zeros(20_000), np.zeros(20_000)
    first[rng.random(20_000) < 0.01] = 1  # a leak in one run of a hundred
    assert blackbox.epsilon_lower_bound(first, second, alpha=ALPHA).value > 1
    assert blackbox.epsilon_lower_bound(first, second, alpha=ALPHA, delta=0.02).value == 0
    assert blackbox.epsilon_lower_bound(first, second, alpha=ALPHA, delta=0.02).delta == 0.02


def test_outputs_that_name_their_input_give_a_large_bound():
    found = blackbox.epsilon_lower_bound(["x"] * 5_000, ["y"] * 5_000, alpha=ALPHA)
    assert 5 < found.value < math.inf
    rows = np.zeros((4_000, 3)), np.ones((4_000, 3))
    assert blackbox.epsilon_lower_bound(*rows, alpha=ALPHA).value > 4
    assert blackbox.mu_lower_bound(*rows, alpha=ALPHA).value > 4


def test_the_same_outputs_prove_nothing():
    same = np.arange(1_000)
    assert blackbox.epsilon_lower_bound(same, same).value == 0.0
    assert blackbox.epsilon_lower_bound([None, (1, 2)] * 50, [(1, 2), None] * 50).value == 0.0


def test_sorted_outputs_are_halved_as_if_they_were_not():
    (first, second), *_ = laplace(1.0, 1, 5_000, trials=1)
    assert blackbox.epsilon_lower_bound(np.sort(first), np.sort(second)).value <= 1.0
    assert blackbox.epsilon_lower_bound(np.sort(first), np.sort(second)).value > 0.5


def test_halves_are_disjoint_and_complete():
    first, second = np.arange(101), np.arange(200, 240)
    outputs = Outputs.split(first, second, seed=9)
    for i, whole in enumerate((first, second)):
        together = np.concatenate([outputs.choosing[i], outputs.testing[i]])
        assert np.array_equal(np.sort(together), whole)
    assert [half.size for half in outputs.choosing] == [50, 20]


def test_a_mechanism_is_run_with_a_trial_number_of_its_own():
    asked = []

    def size(table, trial, epsilon):
        asked.append(trial)
        backend = SeededBackend(trial, insecure=True)
        return len(table) + int(backend.draw(backend.laplace(1, epsilon), 1)[0])

    tables = [0] * 5, [0] * 6
    honest = blackbox.audit_blackbox(lambda t, trial: size(t, trial, 1), *tables, 1_000)
    assert sorted(asked) == list(range(2_000))
    assert not honest.exceeds(1.0) and honest.draws == 1_000
    careless = blackbox.audit_blackbox(lambda t, trial: size(t, trial, 3), *tables, 2_000)
    assert careless.exceeds(1.0)
    arrays = blackbox.audit_blackbox(lambda t, trial: np.array([len(t), 0]), *tables, 500)
    assert arrays.exceeds(1.0)


def test_refused():
    with pytest.raises(ValueError, match=r"alpha.*1"):
        blackbox.epsilon_lower_bound([1, 2], [1, 2], alpha=1)
    with pytest.raises(ValueError, match=r"delta.*-1"):
        blackbox.epsilon_lower_bound([1, 2], [1, 2], delta=-1)
    with pytest.raises(ValueError, match="second must hold at least two outputs, got 1"):
        blackbox.mu_lower_bound([1, 2], [1])
    with pytest.raises(ValueError, match="An output is NaN"):
        blackbox.epsilon_lower_bound([1.0, math.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"trials.*1"):
        blackbox.audit_blackbox(lambda table, trial: 0, [], [1], 1)
