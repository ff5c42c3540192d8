"""zCDP and (epsilon, delta): dp-accounting against OpenDP and against closed forms."""

import math
from fractions import Fraction

import pytest
from scipy import stats

from pgmjax.privacy.accounting import zcdp

GRID = [(epsilon, delta) for epsilon in (0.01, 0.1, 1, 10) for delta in (1e-12, 1e-9, 1e-5, 1e-2)]


@pytest.mark.parametrize("epsilon, delta", GRID)
def test_rho_is_the_largest_that_fits(epsilon, delta):
    rho = zcdp.rho_for(epsilon, delta)
    assert zcdp.epsilon_of(rho, delta) <= epsilon
    assert zcdp.epsilon_of(rho * Fraction(10**9 + 1, 10**9), delta) > epsilon


@pytest.mark.parametrize("epsilon, delta", GRID)
def test_rho_lies_between_the_simple_conversion_and_the_exact_gaussian(epsilon, delta):
    """Two closed forms: rho + 2 sqrt(rho log(1/delta)) is an upper bound for epsilon (Bun and Steinke 2016,
    Proposition 1.3); a Gaussian of the same rho has delta(epsilon) = Phi(m/2 - epsilon/m) -
    exp(epsilon) Phi(-m/2 - epsilon/m), m = sqrt(2 rho) (Balle and Wang 2018), so that must not exceed delta.
    """
    log = math.log(1 / delta)
    simple = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    rho = float(zcdp.rho_for(epsilon, delta))
    assert simple <= rho * (1 + 1e-9)
    m = math.sqrt(2 * rho)
    normal = stats.norm.cdf
    assert normal(m / 2 - epsilon / m) - math.exp(epsilon) * normal(-m / 2 - epsilon / m) <= delta


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.04, 1.0, 10.0])
def test_epsilon_against_opendp(rho):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    gaussian = dp.m.make_gaussian(*space, scale=math.sqrt(1 / (2 * rho)))
    theirs = dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(1e-9)
    assert zcdp.epsilon_of(rho, 1e-9) == pytest.approx(theirs, rel=1e-4)


def test_eight_gaussians_of_stddev_ten():
    """The published figure: eight Gaussians of noise multiplier 10 at delta 1e-9 cost 1.6731."""
    assert 1.673109 <= zcdp.epsilon_of(8 * Fraction(1, 200), 1e-9) <= 1.67311 * (1 + 1e-4)


def test_more_of_either_allows_more_noise_or_less():
    rhos = [zcdp.rho_for(epsilon, 1e-9) for epsilon in ("0.1", "0.2", "1", "5")]
    assert rhos == sorted(rhos)
    rhos = [zcdp.rho_for(1, delta) for delta in ("1e-12", "1e-9", "1e-6", "0.1")]
    assert rhos == sorted(rhos)


@pytest.mark.parametrize(
    "epsilon, delta", [("1e-6", "1e-12"), ("1e-6", "0.5"), ("1000", "1e-9"), ("0.5", "0.999")]
)
def test_extremes(epsilon, delta):
    rho = zcdp.rho_for(epsilon, delta)
    assert rho > 0 and zcdp.epsilon_of(rho, delta) <= float(epsilon)


@pytest.mark.parametrize("call", [zcdp.rho_for, zcdp.epsilon_of])
@pytest.mark.parametrize("delta, words", [(0, "delta"), (1, "delta"), (math.nan, "delta"), (-1, "delta")])
def test_delta_must_be_inside(call, delta, words):
    with pytest.raises(ValueError, match=words):
        call(1, delta)


@pytest.mark.parametrize(
    "value, error", [(0, ValueError), (-1, ValueError), (math.nan, ValueError), (True, TypeError)]
)
def test_bad_epsilon_and_rho(value, error):
    with pytest.raises(error, match="epsilon"):
        zcdp.rho_for(value, 1e-9)
    with pytest.raises(error, match="rho"):
        zcdp.epsilon_of(value, 1e-9)


def test_an_epsilon_below_what_floats_can_tell_is_refused():
    with pytest.raises(ValueError, match="No rho is small enough"):
        zcdp.rho_for("1e-300", "1e-300")
