"""Product priors: given, bought, and made from noisy counts."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import pgmjax as pj
from pgmjax.history import ProductPrior
from pgmjax.history.prior import posterior_mean
from pgmjax.privacy import Budget, PrivateTable
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = pj.Domain({"a": 3, "b": 4})


def table(budget, relation="add-remove"):
    data = pj.Dataset.from_columns(DOMAIN, {"a": [0, 1, 1] * 40, "b": [3, 3, 2] * 40})
    return PrivateTable(data, relation, budget, SeededBackend(1, insecure=True))


def test_attributes_left_out_are_uniform():
    prior = ProductPrior(DOMAIN, {"a": [0.5, 0.25, 0.25]})
    np.testing.assert_array_equal(prior.marginal("b"), 0.25)
    np.testing.assert_array_equal(ProductPrior.uniform(DOMAIN).marginal("a"), 1 / 3)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("value", [-40.0, -3.0, 0.0, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("stddev", [0.5, 2.0])
def test_posterior_means_are_integrals(noise, value, stddev):
    distribution = (
        stats.laplace(scale=stddev / np.sqrt(2)) if noise == "laplace" else stats.norm(scale=stddev)
    )
    edge = max(value, 0.0)
    top = distribution.logpdf(edge - value)

    def weight(count):
        return np.exp(distribution.logpdf(count - value) - top)

    ends = sorted({0.0, edge, edge + 60 * stddev, max(edge - 60 * stddev, 0.0)})
    pieces = list(itertools.pairwise(ends))
    below = sum(integrate.quad(weight, *piece, limit=500)[0] for piece in pieces)
    above = sum(integrate.quad(lambda count: count * weight(count), *p, limit=500)[0] for p in pieces)
    found = posterior_mean(np.array([value]), np.array([stddev]), noise)[0]
    assert found == pytest.approx(above / below, rel=1e-6)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_posterior_means_stay_positive_and_grow(noise):
    values = np.concatenate([-np.logspace(12, -3, 300), np.logspace(-3, 12, 300)])
    means = posterior_mean(values, np.ones(600), noise)
    assert np.isfinite(means).all() and (means > 0).all() and (np.diff(means) >= 0).all()
    np.testing.assert_allclose(means[-50:], values[-50:])


def test_truncation_with_a_pseudocount():
    measured = [pj.LinearMeasurement(("a",), [-5, 3, 7], 2.0)]
    prior = ProductPrior.from_measurements(DOMAIN, measured, smoothing="truncate", pseudocount=0.5)
    np.testing.assert_allclose(prior.marginal("a"), np.array([0.5, 3.5, 7.5]) / 11.5)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_bought_prior_is_paid_in_equal_parts(relation):
    budget = Budget("0.4")
    prior, measured = ProductPrior.bought(table(budget, relation), epsilon="0.3")
    assert budget.spent == Fraction(3, 10)
    assert [m.clique for m in measured] == [("a",), ("b",)]
    moved = 1 if relation == "add-remove" else 2
    assert [m.distribution.scale for m in measured] == pytest.approx([moved / 0.15] * 2)
    assert all((p > 0).all() and p.sum() == pytest.approx(1) for p in prior.probabilities)


def test_a_prior_bought_in_rho():
    budget = Budget(1, "rho")
    _, measured = ProductPrior.bought(table(budget), rho="0.5")
    assert budget.spent == Fraction(1, 2) and measured[0].noise == "gaussian"


def test_nothing_is_spent_on_bad_input():
    budget = Budget(1)
    for given in ({}, {"epsilon": 1, "rho": 1}):
        with pytest.raises(ValueError, match="give epsilon or rho, one of them"):
            ProductPrior.bought(table(budget), **given)
    with pytest.raises(ValueError, match=r"smoothing.*'posterior-mean'.*'truncate'"):
        ProductPrior.bought(table(budget), epsilon=1, smoothing="none")
    with pytest.raises(ValueError, match=r"pseudocount.*0"):
        ProductPrior.bought(table(budget), epsilon=1, pseudocount=0)
    with pytest.raises(ValueError, match="epsilon"):
        ProductPrior.bought(table(budget), epsilon=0)
    assert budget.spent == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 0.5], r"must have 3 probabilities, .*, got shape \(2,\)"),
        ([0.5, 0.6, -0.1], "finite probabilities >= 0"),
        ([0.5, np.nan, 0.5], "finite probabilities >= 0"),
        ([3, 4, 5], "must sum to 1, got 12: divide counts by their sum"),
    ],
)
def test_what_is_no_distribution_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        ProductPrior(DOMAIN, {"a": values})


def test_what_is_no_prior_is_refused():
    with pytest.raises(TypeError, match="must map attribute names to probabilities, got list"):
        ProductPrior(DOMAIN, [[1, 0, 0]])
    with pytest.raises(ValueError, match="'z'"):
        ProductPrior(DOMAIN, {"z": [1]})
    measured = pj.LinearMeasurement(("a",), [1, 2, 3], 2.0)
    with pytest.raises(ValueError, match="two measurements of attribute 'a'"):
        ProductPrior.from_measurements(DOMAIN, [measured, measured])
    with pytest.raises(ValueError, match=r"counts of all codes of one attribute, got another"):
        ProductPrior.from_measurements(DOMAIN, [pj.LinearMeasurement(("a",), [1], 2.0, query="total")])
    with pytest.raises(TypeError, match="a prior is made from LinearMeasurements, got int"):
        ProductPrior.from_measurements(DOMAIN, [3])
