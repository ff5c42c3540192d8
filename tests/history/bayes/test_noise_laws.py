"""What laws of noise tell, against sums and integrals of their probabilities."""

import numpy as np
import pytest
from scipy import integrate, stats

from pgmjax.history.bayes import noise_laws
from pgmjax.history.bayes.noise_laws import Gaussian, Laplace, as_law
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace

DISCRETE = [
    kind(scale) for kind in (DiscreteLaplace, DiscreteGaussian) for scale in (0.2, 0.7, 1.0, 3.7, 25.0)
]
CONTINUOUS = [(Laplace(1.7), stats.laplace(scale=1.7)), (Gaussian(1.7), stats.norm(scale=1.7))]
ANGLES = np.array([0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, np.pi, 6.0, 20.0])


def masses(law):
    values = np.arange(-4000, 4001)
    return values, law.probabilities(values)


@pytest.mark.parametrize("law", DISCRETE, ids=str)
def test_discrete_laws_against_sums(law):
    values, probabilities = masses(law)
    expected = np.cos(np.multiply.outer(ANGLES, values)) @ probabilities
    np.testing.assert_allclose(noise_laws.characteristic(law, ANGLES), expected, atol=1e-12)
    for edge in (0, 0.5, 1, 3, 3.2, 40):
        np.testing.assert_allclose(
            noise_laws.above(law, np.array([float(edge)])),
            probabilities[values > edge].sum(),
            rtol=1e-9,
            atol=1e-300,
        )
    arguments = np.array([0.1, 0.5, 0.9]) * min(noise_laws.largest_argument(law), 1.0)
    near = probabilities > 1e-280
    terms = np.multiply.outer(arguments, values[near]) + np.log(probabilities[near])
    moments = np.log(np.exp(terms).sum(axis=1))
    bound = noise_laws.log_moment(law, arguments)
    assert (bound >= moments - 1e-9).all()
    if law.noise == "laplace":
        np.testing.assert_allclose(bound, moments, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("law", "known"), CONTINUOUS, ids=["laplace", "gaussian"])
def test_continuous_laws_against_integrals(law, known):
    assert law.variance == pytest.approx(known.var()) and law.stddev == pytest.approx(known.std())
    for angle in (0.0, 0.3, 2.0):
        value = integrate.quad(lambda x, t=angle: np.cos(t * x) * known.pdf(x), -60, 60, limit=400)[0]
        assert noise_laws.characteristic(law, np.array([angle]))[0] == pytest.approx(value, abs=1e-8)
    value = integrate.quad(lambda x: np.exp(0.2 * x) * known.pdf(x), -150, 150, limit=400)[0]
    assert noise_laws.log_moment(law, np.array([0.2]))[0] == pytest.approx(np.log(value))
    np.testing.assert_allclose(
        noise_laws.above(law, np.array([0.0, 1.0, 30.0])), known.sf([0, 1, 30]), rtol=1e-9
    )


def test_a_number_is_the_scale_of_the_law_really_drawn():
    assert as_law("x", 2.0) == DiscreteLaplace(2.0)
    assert as_law("x", 2.0, continuous=True) == Laplace(2.0)
    assert as_law("x", DiscreteGaussian(2.0), continuous=True) == Gaussian(2.0)


@pytest.mark.parametrize(("bad", "kind"), [(0.0, ValueError), (np.nan, ValueError), ("wide", TypeError)])
def test_bad_laws(bad, kind):
    with pytest.raises(kind, match="row 3 needs a law of noise or a Laplace scale"):
        as_law("row 3", bad)
