"""Both backends draw the laws they state: chi-square fit with power against scales 10 % off.

False alarms: 10 fits at alpha 1e-6 each; those of the seeded backend are deterministic.
"""

import concurrent.futures
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pgmjax import laws
from pgmjax.privacy import backend, scales
from pgmjax.privacy.backend_opendp import OpenDPBackend
from pgmjax.privacy.backend_seeded import SeededBackend

ALPHA = 1e-6
DRAWS = 100_000
LAWS = [
    laws.DiscreteLaplace(0.5),
    laws.DiscreteLaplace(4.0),
    laws.DiscreteLaplace(50.0),
    laws.DiscreteGaussian(0.7),
    laws.DiscreteGaussian(12.5),
]


def fit(draws, law):
    """P-value of a chi-square test; tails are folded inward until every bin expects at least 10."""
    width = int(60 * law.scale) + 60
    values = np.arange(-width, width + 1)
    expected = law.probabilities(values) * draws.size
    first = int(np.argmax(np.cumsum(expected) >= 10))
    last = values.size - 1 - int(np.argmax(np.cumsum(expected[::-1]) >= 10))
    bins = np.concatenate(
        [[expected[: first + 1].sum()], expected[first + 1 : last], [expected[last:].sum()]]
    )
    places = np.clip(draws, values[first], values[last]) - values[first]
    seen = np.bincount(places, minlength=bins.size)
    while bins.size > 2 and bins.min() < 10:
        thin = int(bins.argmin())
        other = thin + 1 if thin < bins.size // 2 else thin - 1
        bins[other] += bins[thin]
        seen[other] += seen[thin]
        bins, seen = np.delete(bins, thin), np.delete(seen, thin)
    return stats.chisquare(seen, bins * seen.sum() / bins.sum()).pvalue


@pytest.fixture(params=["opendp", "seeded"])
def source(request):
    return OpenDPBackend() if request.param == "opendp" else SeededBackend(1, insecure=True)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_goodness_of_fit_with_power(source, law):
    draws = source.draw(law, DRAWS)
    assert draws.dtype == np.int64 and draws.shape == (DRAWS,)
    assert fit(draws, law) > ALPHA
    for factor in (1.1, 0.9):
        assert fit(draws, type(law)(law.scale * factor)) < ALPHA


@pytest.mark.parametrize("law", [LAWS[1], LAWS[4]], ids=str)
def test_the_fit_rejects_replicated_noise(source, law):
    assert fit(np.tile(source.draw(law, DRAWS // 200), 200), law) < ALPHA


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_stated_stddev_is_that_of_the_draws(law):
    """Six standard errors of the sample variance, from the law's own fourth moment."""
    draws = SeededBackend(2, insecure=True).draw(law, DRAWS).astype(float)
    values = np.arange(-int(60 * law.scale) - 60, int(60 * law.scale) + 61)
    fourth = float((law.probabilities(values) * values.astype(float) ** 4).sum())
    error = math.sqrt((fourth - law.variance**2) / DRAWS)
    assert abs((draws**2).mean() - law.variance) < 6 * error


CASES = [
    (1, Fraction(1, 3)),
    (3, Fraction(7)),
    (1, Fraction(1, 10)),
    (2, Fraction(1, 15)),
    (12345, Fraction(1, 7)),
]


@pytest.mark.parametrize("sensitivity, cost", CASES)
def test_opendp_confirms_the_scale_it_is_given(sensitivity, cost):
    """Its own outward-rounded map never says more than the budget, and one float less would."""
    dp = pytest.importorskip("opendp.prelude")
    source = OpenDPBackend()
    lap, gau = source.laplace(sensitivity, cost), source.gaussian(sensitivity**2, cost)
    l1 = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    l2 = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    assert Fraction(dp.m.make_laplace(*l1, scale=lap.scale).map(sensitivity)) <= cost
    assert Fraction(dp.m.make_gaussian(*l2, scale=gau.scale).map(float(sensitivity))) <= cost
    assert lap.scale == pytest.approx(float(sensitivity / cost), rel=1e-15)
    assert gau.scale == pytest.approx(sensitivity / math.sqrt(2 * cost), rel=1e-15)


def test_float_scales_of_one_third_are_not_enough():
    """The trap the rounding rule is for: OpenDP charges 3.0000000000000004 for scale float(1/3)."""
    dp = pytest.importorskip("opendp.prelude")
    OpenDPBackend()
    l1 = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    assert dp.m.make_laplace(*l1, scale=float(Fraction(1, 3))).map(1) > 3
    assert OpenDPBackend().laplace(1, Fraction(3)).scale > 1 / 3


@pytest.mark.parametrize("sensitivity, cost", CASES)
def test_both_backends_draw_the_same_laws(sensitivity, cost):
    secure, seeded = OpenDPBackend(), SeededBackend(0, insecure=True)
    assert secure.laplace(sensitivity, cost).scale == pytest.approx(
        seeded.laplace(sensitivity, cost).scale, rel=1e-15
    )
    assert secure.gaussian(sensitivity, cost).scale == pytest.approx(
        seeded.gaussian(sensitivity, cost).scale, rel=1e-15
    )


def test_noise_of_any_size(source):
    for law in LAWS[::3]:
        for size in (0, 1, 3):
            assert source.draw(law, size).shape == (size,)


def test_huge_scales_stay_inside_int64(source):
    for law in (laws.DiscreteLaplace(scales.LARGEST_SCALE), laws.DiscreteGaussian(scales.LARGEST_SCALE)):
        draws = source.draw(law, 2000)
        assert np.abs(draws).max() < 2**62 and np.abs(draws).max() > 2**50


def test_the_seeded_backend_wants_a_signature():
    with pytest.raises(ValueError, match=r"insecure=True"):
        SeededBackend(0)
    with pytest.raises(ValueError, match=r"insecure=True"):
        SeededBackend(0, insecure=1)
    with pytest.raises(TypeError, match="seed must be an integer"):
        SeededBackend(0.5, insecure=True)
    with pytest.raises(ValueError, match="seed must be an integer >= 0"):
        SeededBackend(-1, insecure=True)


def test_the_seed_decides():
    law = laws.DiscreteLaplace(1e6)
    first = SeededBackend(3, insecure=True)
    draws = first.draw(law, 100)
    assert not np.array_equal(draws, first.draw(law, 100))
    assert np.array_equal(draws, first.restart().draw(law, 100))
    for other in (4, 3 + 2**32, 3 + 2**64):
        assert not np.array_equal(draws, SeededBackend(other, insecure=True).draw(law, 100))


def test_secure_noise_never_repeats():
    """Two calls, two backends, two threads: no user-space state to repeat (P < 1e-500 by chance)."""
    law = laws.DiscreteLaplace(1e6)
    sources = [OpenDPBackend(), OpenDPBackend()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        drawn = list(pool.map(lambda source: source.draw(law, 100).tobytes(), sources * 2))
    assert len(set(drawn)) == 4 and OpenDPBackend().seed is None


def test_the_default_is_secure():
    assert backend.default_backend().secure is True and backend.default_backend().name == "opendp"
    assert SeededBackend(0, insecure=True).secure is False
