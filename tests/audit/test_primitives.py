"""Copies in noise are found at any distance; independent noise is left alone.

The checks of published scores and of records' responses pass with either backend, and see what is wrong.
"""

import numpy as np
import pytest
import scipy.stats

from pgmjax.audit import primitives
from pgmjax.audit.primitives import AuditFailure, repeated
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.seeded import SeededBackend
from tests.audit import mutations

ALPHA = 1e-6
FALSE_ALARMS = 0.0  # seeded; with fresh entropy 4 * ALPHA + 1e-3 for the test of validity

DISTRIBUTIONS = [DiscreteLaplace(0.5), DiscreteLaplace(10.0), DiscreteGaussian(0.5), DiscreteGaussian(50.0)]


def draws(distribution, size, seed=21):
    return SeededBackend(seed, insecure=True).draw(distribution, size)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_independent_noise_passes_and_copies_do_not(distribution):
    noise = draws(distribution, 60_000)
    assert repeated(noise).p_value > ALPHA
    for copied, lag in [
        (np.repeat(noise[:300], 200), 1),
        (np.tile(noise[:300], 200), 300),
        (np.tile(noise[:30_000], 2), 30_000),
        (np.concatenate([noise, noise[:4_000]]), 60_000),
        (np.concatenate([noise, -noise[:4_000]]), 60_000),
    ]:
        found = repeated(copied)
        assert found.p_value < ALPHA and found.lag == lag
        assert found.agreement in (0.0, 1.0) or found.lag == 1


def test_two_workers_that_inherit_one_generator():
    """What forked processes did with one generator: the same numbers, one after the other here."""
    first, second = draws(DISTRIBUTIONS[1], 1_000), draws(DISTRIBUTIONS[1], 1_000)
    assert repeated(np.concatenate([first, second])).p_value < ALPHA
    assert repeated(np.concatenate([first, draws(DISTRIBUTIONS[1], 1_000, seed=22)])).p_value > ALPHA


def test_level_and_sums_against_direct_counting():
    """Validity: at most a tenth of p-values lie below 0.1, tested with a level of 1e-3."""
    backend = SeededBackend(23, insecure=True)
    low = sum(repeated(backend.draw(DISTRIBUTIONS[0], 200)).p_value <= 0.1 for _ in range(500))
    assert scipy.stats.binomtest(low, 500, 0.1, alternative="greater").pvalue > 1e-3

    noise = draws(DISTRIBUTIONS[0], 300)
    found, signs = repeated(noise), np.sign(noise)
    products = signs[: -found.lag] * signs[found.lag :]
    assert found.pairs == np.count_nonzero(products)
    assert found.agreement == np.mean(products[products != 0] > 0)
    truth = 299 * scipy.stats.binomtest(int((products > 0).sum()), found.pairs).pvalue
    assert found.p_value == pytest.approx(min(1.0, truth), rel=1e-9)


def test_nothing_but_zeros_says_nothing():
    assert repeated(np.zeros(50, dtype=int)).p_value == 1.0


@pytest.mark.parametrize("noise", [[1], [[1, 2], [3, 4]], [1.0, np.nan]])
def test_refused(noise):
    with pytest.raises(ValueError, match="one row of at least two finite numbers"):
        repeated(np.array(noise))


def test_seeded_responses_pass():
    """It does not raise AuditFailure; that it can is shown by seeded faults of the responses."""
    primitives.responses_keep_their_epsilon(SeededBackend(1, insecure=True))


def test_seeded_scores_pass():
    """It does not raise AuditFailure; that it can is shown below."""
    primitives.scores_follow_their_distribution(SeededBackend(1, insecure=True))


def test_wrong_noise_of_scores_is_seen():
    """Other wrong scores are seeded faults."""
    source = SeededBackend(1, insecure=True)
    with (
        mutations.half_scale(),
        pytest.raises(AuditFailure, match="does not follow its laplace distribution"),
    ):
        primitives.scores_follow_their_distribution(source)
