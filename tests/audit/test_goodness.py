"""Chi-square tests of draws: right ones pass, wrong scales and copied noise do not, p-values are honest.

Everything is seeded, so nothing flakes. With fresh entropy each `accepts` assertion would fail with
its `ALPHA`, and each test of uniform p-values with `ALPHA_UNIFORM`.
"""

import numpy as np
import pytest
import scipy.stats

from pgmjax.audit import goodness
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.seeded import SeededBackend
from tests.audit import power

ALPHA = 1e-6
ALPHA_UNIFORM = 1e-3
FALSE_ALARMS = (
    0.0  # seeded; with fresh entropy 10 * ALPHA + 8e-3 (six tests of uniformity, two of a thin tail)
)

DRAWS = 100_000
DISTRIBUTIONS = [
    kind(scale) for kind in (DiscreteLaplace, DiscreteGaussian) for scale in (0.5, 1.0, 4.0, 50.0)
]
FOUR = DiscreteLaplace(4.0)


def draws(distribution, size=DRAWS, seed=11):
    return SeededBackend(seed, insecure=True).draw(distribution, size)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_the_distribution_is_accepted_and_a_tenth_off_is_rejected(distribution):
    noise = draws(distribution)
    assert goodness.goodness_of_fit(noise, distribution).p_value > ALPHA
    for factor in (1.1, 0.9):
        wrong = draws(type(distribution)(distribution.scale * factor), seed=12)
        assert goodness.goodness_of_fit(wrong, distribution).p_value < ALPHA


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
@pytest.mark.parametrize("copy", [np.repeat, np.tile], ids=["adjacent", "blocks"])
def test_noise_used_200_times_is_rejected(distribution, copy):
    copied = copy(draws(distribution, DRAWS // 200), 200)
    assert goodness.goodness_of_fit(copied, distribution).p_value < ALPHA
    shuffled = np.random.default_rng(0).permutation(copied)
    assert goodness.goodness_of_fit(shuffled, distribution) == goodness.goodness_of_fit(copied, distribution)


@pytest.mark.parametrize(
    "fault",
    [
        lambda x: x + 1,  # off by one
        lambda x: np.where(x == 0, 1, x),  # zeros are skipped
        lambda x: 2 * (x // 2),  # the last bit is lost
        lambda x: np.abs(x),  # the sign is lost
        lambda x: np.clip(x, -20, 20),  # tails are cut
        lambda x: np.where(np.abs(x) > 60, 0, x),  # a table that ends too early: 1e-4 of the draws at 50
    ],
)
def test_faults_of_a_sampler_are_rejected(fault):
    assert (
        goodness.goodness_of_fit(fault(draws(DiscreteLaplace(10.0))), DiscreteLaplace(10.0)).p_value < ALPHA
    )


def test_the_continuous_distribution_rounded_is_another_distribution():
    rounded = np.rint(np.random.default_rng(0).laplace(0, 1.0, DRAWS)).astype(np.int64)
    assert goodness.goodness_of_fit(rounded, DiscreteLaplace(1.0)).p_value < ALPHA


def test_a_thin_tail_does_not_cry_wolf():
    """Once a merged tail bin expected 0.03 draws, and one draw in it made p = 0."""
    distribution = DiscreteLaplace(1.0)
    noise = np.append(
        draws(distribution, 2_000), 40
    )  # probable once in 1e17 draws, but a bin must not see that
    assert goodness.goodness_of_fit(noise, distribution).p_value > 1e-3
    values = np.arange(-40, 41)  # the same test without folding: one draw where 1e-14 are expected
    expected, seen = distribution.probabilities(values) * noise.size, np.bincount(noise + 40, minlength=81)
    assert scipy.stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), 80) == 0
    far = np.append(noise, 10**9)  # beyond the window
    assert goodness.goodness_of_fit(far, distribution).p_value > 1e-3


@pytest.mark.parametrize(
    "distribution", [*DISTRIBUTIONS, DiscreteLaplace(0.1), DiscreteGaussian(2e3)], ids=repr
)
@pytest.mark.parametrize("size", [300, 3_000, DRAWS])
def test_every_bin_expects_ten_and_all_of_the_distribution_is_in_one(distribution, size):
    _, masses = goodness.window(distribution)
    try:
        edges = goodness.edges_of(masses * size, size)
    except ValueError:
        assert distribution.scale == 0.1  # at 0.1 all but 9e-5 is zero
        return
    expected = np.add.reduceat(masses, edges[:-1]) * size
    assert expected.min() >= 10 and expected.size <= 1001
    assert expected.sum() == pytest.approx(size, rel=1e-12)
    assert edges[0] == 0 and edges[-1] == masses.size and np.all(np.diff(edges) > 0)


@pytest.mark.parametrize(
    "distribution", [DiscreteLaplace(0.5), DiscreteLaplace(10.0), DiscreteGaussian(30.0)], ids=repr
)
def test_p_values_of_the_right_distribution_are_uniform(distribution):
    backend = SeededBackend(5, insecure=True)
    p_values = [
        goodness.goodness_of_fit(backend.draw(distribution, 3_000), distribution).p_value for _ in range(500)
    ]
    assert scipy.stats.kstest(p_values, "uniform").pvalue > ALPHA_UNIFORM


@pytest.mark.parametrize("distribution", [[0.5, 0.3, 0.2], [0.9, 0.05, 0.02, 0.02, 0.006, 0.004]])
def test_p_values_of_categories_are_uniform(distribution):
    """Counts are discrete, but of 5,000 draws finely enough for this many p-values."""
    counts = np.random.default_rng(7).multinomial(5_000, distribution, size=1_000)
    p_values = [goodness.categorical_fit(c, distribution).p_value for c in counts]
    assert scipy.stats.kstest(p_values, "uniform").pvalue > ALPHA_UNIFORM


def test_statistic_against_scipy():
    distribution, counts = np.array([0.1, 0.2, 0.3, 0.4]), np.array([120, 190, 310, 380])
    truth = scipy.stats.chisquare(counts, distribution * counts.sum())
    found = goodness.categorical_fit(counts, distribution)
    assert (found.statistic, found.p_value) == pytest.approx((truth.statistic, truth.pvalue), rel=1e-12)


def test_categories():
    distribution = [0.5, 0.3, 0.2, 0.0]
    counts = np.random.default_rng(0).multinomial(10_000, distribution)
    assert goodness.categorical_fit(counts, distribution).p_value > ALPHA
    assert goodness.categorical_fit(counts, [0.45, 0.35, 0.2, 0.0]).p_value < ALPHA
    assert (
        goodness.categorical_fit(counts + np.array([0, 0, 0, 1]), distribution).p_value == 0.0
    )  # impossible
    assert goodness.categorical_fit(counts, [0.5, 0.3, 0.199, 0.001]).bins == 4
    rare = [0.6, 0.3999, 0.00005, 0.00005]  # half a draw expected of each: together with the next
    assert goodness.categorical_fit([6000, 3998, 1, 1], rare).bins == 2


def test_draws_needed_for_99_percent_at_1e_6():
    """A table of another implementation: 240-310, 1.4-1.8k, 12-15k, 53-60k, 346k draws.

    It depends on scale and bins; at scale 10 these bins need up to a sixth less for large faults.
    """
    distribution = DiscreteLaplace(10.0)
    table = {2: (240, 310), 0.5: (240, 310), 1.3: (1400, 1800), 1.1: (12e3, 15e3), 1.05: (53e3, 60e3)}
    for off_by, (low, high) in table.items():
        assert 0.84 * low <= power.draws_needed(distribution, off_by) <= high
    assert power.draws_needed(distribution, 1.02) == pytest.approx(346e3, rel=0.05)
    assert power.draws_needed(DiscreteGaussian(10.0), 1.1) < power.draws_needed(distribution, 1.1)


@pytest.mark.parametrize(("off_by", "trials"), [(2, 400), (0.5, 400), (1.3, 400), (1.1, 200)])
def test_the_computed_number_of_draws_suffices(off_by, trials):
    """99 % are to be found; 97 % leaves room for the moments' approximation and these few trials."""
    distribution, real = DiscreteLaplace(10.0), DiscreteLaplace(10.0 * off_by)
    needed, backend = power.draws_needed(distribution, off_by), SeededBackend(8, insecure=True)
    found = [
        goodness.goodness_of_fit(backend.draw(real, needed), distribution).p_value < ALPHA
        for _ in range(trials)
    ]
    assert np.mean(found) >= 0.97
    half = [
        goodness.goodness_of_fit(backend.draw(real, needed // 3), distribution).p_value < ALPHA
        for _ in range(50)
    ]
    assert np.mean(half) < 0.7  # a third of them does not


def test_refused_samples():
    with pytest.raises(TypeError, match="samples must be integers, got an array of float64"):
        goodness.goodness_of_fit(np.zeros(100), FOUR)
    with pytest.raises(ValueError, match=r"one row of integers \[n\], got shape \(2, 2\)"):
        goodness.goodness_of_fit(np.zeros((2, 2), dtype=np.int64), FOUR)
    with pytest.raises(ValueError, match="With 15 draws fewer than two bins"):
        goodness.goodness_of_fit(draws(FOUR, 15), FOUR)
    with pytest.raises(ValueError, match="at most 500000 is tested"):
        goodness.goodness_of_fit(draws(FOUR, 100), DiscreteLaplace(1e9))


def test_refused_distributions():
    class Half:
        stddev = 1.0

        def probabilities(self, values):
            return DiscreteLaplace(1.0).probabilities(values) / 2

    with pytest.raises(ValueError, match="sum to one"):
        goodness.goodness_of_fit(draws(FOUR, 100), Half())
    with pytest.raises(ValueError, match="sum to one"):
        goodness.categorical_fit([50, 50], [0.5, np.nan])
    with pytest.raises(ValueError, match=r"one shape, got \(2,\) and \(3,\)"):
        goodness.categorical_fit([50, 50], [0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match="counts must be at least 0"):
        goodness.categorical_fit([50, -50], [0.5, 0.5])
    with pytest.raises(ValueError, match="fewer than two bins"):
        goodness.categorical_fit([5, 5], [0.5, 0.5])


def test_refused_powers():
    with pytest.raises(ValueError, match="off_by must differ from 1"):
        power.draws_needed(FOUR, 1)
    with pytest.raises(ValueError, match=r"alpha.*0"):
        power.draws_needed(FOUR, 2, alpha=0)
    with pytest.raises(ValueError, match="take a larger difference"):
        power.draws_needed(FOUR, 1 + 1e-9)
