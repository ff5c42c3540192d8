"""The audit kit on the secure backend with fresh entropy at every run, its own word for a level.

Chi-square tests at 1e-9 with bins that expect 50 draws or more: the real level is a few 1e-9 for
distributions with many bins, up to 2e-8 for those with few (see `pgmjax.audit.goodness`).
"""

import concurrent.futures
import functools
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from pgmjax.audit import blackbox, exact, goodness
from pgmjax.audit.primitives import repeated
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.seeded import SeededBackend

ALPHA = 1e-9
# 16 of noise against its distribution and against the seeded backend, 6 of choices and answers, at 2e-8 at
# most; 8 + 4 searches for copies and 3 lower bounds at 1e-9; misses of 1.2 at 1e-9 (two factors, 8
# distributions).
FALSE_ALARMS = 22 * 2e-8 + 31 * ALPHA

DISTRIBUTIONS = [
    kind(scale) for kind in (DiscreteLaplace, DiscreteGaussian) for scale in (0.5, 1.0, 4.0, 50.0)
]
DRAWS = 50_000
WORKER_DRAWS = 2_000
WIDE = DiscreteLaplace(50.0)
SCORES = np.array([4, 3, 1, 0])


@functools.cache
def draws(distribution):
    return OpenDPBackend().draw(distribution, DRAWS)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_noise_follows_its_distribution_and_no_other(distribution):
    noise = draws(distribution)
    assert goodness.goodness_of_fit(noise, distribution).p_value > ALPHA
    for factor in (1.2, 1 / 1.2):  # 16,800 draws find it with probability 1 - 1e-9
        assert (
            goodness.goodness_of_fit(noise, type(distribution)(distribution.scale * factor)).p_value < ALPHA
        )
    two = np.repeat(noise[:2], DRAWS // 2)  # looks like no distribution here, whatever the two are
    assert goodness.goodness_of_fit(two, distribution).p_value < ALPHA


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_draws_of_one_call_hold_no_copies(distribution):
    """One call draws in several threads."""
    assert repeated(draws(distribution)).p_value > ALPHA


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
def test_the_seeded_backend_draws_the_same_distribution(distribution):
    seeded = SeededBackend(31, insecure=True).draw(distribution, DRAWS)
    where = np.unique([draws(distribution), seeded], return_inverse=True)[1].reshape(2, -1)
    seen = np.stack([np.bincount(part, minlength=where.max() + 1) for part in where])
    edges = goodness.edges_of(seen.mean(axis=0), where.size)
    binned = np.add.reduceat(seen, edges[:-1], axis=1)
    assert scipy.stats.chi2_contingency(binned, correction=False).pvalue > ALPHA


def assert_independent(parts):
    assert len({part.tobytes() for part in parts}) == len(parts)
    assert repeated(np.concatenate(parts)).p_value > ALPHA


def test_calls_and_backends_share_nothing():
    backend = OpenDPBackend()
    sources = [backend, backend, backend.restart(), OpenDPBackend()]
    assert_independent([source.draw(WIDE, WORKER_DRAWS) for source in sources])


def test_threads_share_nothing():
    backend = OpenDPBackend()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert_independent(list(pool.map(lambda _: backend.draw(WIDE, WORKER_DRAWS), range(4))))


FORKING = """
import os, sys
import numpy as np
from pgmjax.measurements.noise import DiscreteLaplace
{make}
noise.draw(DiscreteLaplace(50.0), 10)  # whatever state there is exists before the fork
for _ in range(3):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, noise.draw(DiscreteLaplace(50.0), {size}).tobytes())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        print(pipe.read().hex())
    os.wait()
print(noise.draw(DiscreteLaplace(50.0), {size}).tobytes().hex())
"""
SECURE = "from pgmjax.privacy.opendp import OpenDPBackend\nnoise = OpenDPBackend()"
SEEDED = "from pgmjax.privacy.seeded import SeededBackend\nnoise = SeededBackend(1, insecure=True)"


def drawn_by_forks(make):
    """Noise of three forked workers and of their parent."""
    code = FORKING.format(make=make, size=WORKER_DRAWS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [np.frombuffer(bytes.fromhex(line), dtype=np.int64) for line in done.stdout.split()]


def test_forked_workers_share_nothing():
    parts = drawn_by_forks(SECURE)
    assert [part.size for part in parts] == [WORKER_DRAWS] * 4
    assert_independent(parts)


def test_forked_workers_that_inherit_a_generator_are_found():
    """What the test above must be able to see: with a seed every worker draws the same."""
    copied = repeated(np.concatenate(drawn_by_forks(SEEDED)))
    assert copied.p_value < ALPHA and copied.lag == WORKER_DRAWS and copied.agreement == 1.0


@pytest.mark.parametrize("name", ["permute_and_flip", "exponential"])
def test_selection_keeps_its_epsilon_and_follows_its_distribution(name):
    """L0 by enumeration of small scores, L2 by 3,000 choices."""
    backend = OpenDPBackend()
    distribution = getattr(backend, name)(1, Fraction(1))
    worst = exact.selection_epsilon(distribution.probabilities)
    assert 0.97 < worst <= 1 + 1e-12
    chosen = [backend.choose(distribution, SCORES) for _ in range(3_000)]
    counts = np.bincount(chosen, minlength=SCORES.size)
    assert goodness.categorical_fit(counts, distribution.probabilities(SCORES)).p_value > ALPHA


@pytest.mark.parametrize("size", [2, 3, 10])
def test_responses_keep_their_epsilon_and_follow_their_channel(size):
    backend = OpenDPBackend()
    distribution = backend.randomized_response(size, Fraction(1))
    channel = distribution.channel()
    assert exact.channel_epsilon(channel) == pytest.approx(1.0, rel=1e-12)
    codes = np.arange(20_000 * size) % size
    answers = backend.respond(distribution, codes)
    counts = np.bincount(codes * size + answers, minlength=size**2)
    assert goodness.categorical_fit(counts, channel.ravel() / size).p_value > ALPHA


def test_lower_bounds_stay_below_the_claims():
    backend = OpenDPBackend()
    distribution = backend.laplace(1, Fraction(1))
    noise = backend.draw(distribution, 40_000).reshape(2, -1)
    assert not blackbox.epsilon_lower_bound(noise[0], noise[1] + 1, alpha=ALPHA).exceeds(1.0)
    distribution = backend.gaussian(100, Fraction(1, 2))
    noise = backend.draw(distribution, 40_000).reshape(2, -1)
    # at scale 10 the discrete distribution has a mu of 1.0004
    assert not blackbox.mu_lower_bound(noise[0], noise[1] + 10, alpha=ALPHA).exceeds(1.0005)
    answers = backend.respond(backend.randomized_response(2, Fraction(1)), np.arange(40_000) % 2)
    assert not blackbox.epsilon_lower_bound(answers[::2], answers[1::2], alpha=ALPHA).exceeds(1.0)
