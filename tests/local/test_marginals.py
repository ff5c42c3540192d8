"""Unbiased marginals of responses against every possible answer of small tables, enumerated."""

import itertools
import math
import types
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.local.channel import Channel, predicted_error
from pgmjax.local.marginals import ResponseMarginal, factors_of, marginals_of
from pgmjax.privacy.response import UnaryResponse, response_for, unary_for

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
GROUPS = (("a", "c"), ("b",))
ONE, TWO = Fraction(1), Fraction(2)
DISTRIBUTIONS = {
    "direct and direct": (response_for(4, ONE), response_for(3, TWO)),
    "direct and unary": (response_for(4, ONE), unary_for(3, ONE)),
    "unary and direct": (unary_for(4, TWO, True), response_for(3, ONE)),
}
CLIQUES = [("b",), ("c",), ("c", "a"), ("b", "a"), ("c", "b", "a")]


def answers_of(distribution):
    """Every answer as a row of numbers, with its chance for each category [categories, answers]."""
    if isinstance(distribution, UnaryResponse):
        return np.array(
            list(itertools.product((0, 1), repeat=distribution.size)), dtype=bool
        ), distribution.channel()
    return np.arange(distribution.size), distribution.channel()


def moments_of_one_record(distributions, clique, cell):
    """Mean and covariance of the estimate from one record, by all pairs of answers."""
    (first, chance_one), (second, chance_two) = map(answers_of, distributions)
    a, b, c = cell
    chances = np.outer(chance_one[a * 2 + c], chance_two[b])
    values = []
    for i, j in itertools.product(range(len(first)), range(len(second))):
        block = (first[i : i + 1], second[j : j + 1])
        responses = types.SimpleNamespace(
            domain=DOMAIN, groups=GROUPS, distributions=distributions, rows=1, blocks=lambda b=block: [b]
        )
        values.append((*marginals_of(responses, [clique]), chances[i, j]))
    weights = np.array([weight for _, weight in values])
    estimates = np.array([marginal.estimate().reshape(-1) for marginal, _ in values])
    mean = weights @ estimates
    centred = estimates - mean
    return mean, (centred * weights[:, None]).T @ centred, values


@pytest.mark.parametrize("distributions", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
@pytest.mark.parametrize("clique", CLIQUES, ids="-".join)
def test_mean_variance_and_covariance_by_enumeration(distributions, clique):
    """Exactly unbiased; the covariance for a known table, its unbiased estimate, and the variances."""
    for cell in [(0, 0, 0), (1, 2, 0)]:
        mean, covariance, values = moments_of_one_record(distributions, clique, cell)
        truth = np.zeros(DOMAIN.shape_of(clique))
        truth[tuple(cell[DOMAIN.attributes.index(name)] for name in clique)] = 1
        assert np.abs(mean - truth.reshape(-1)).max() < 1e-12
        some = values[0][0]
        assert np.abs(some.covariance(truth) - covariance).max() < 1e-11
        estimated = sum(weight * marginal.covariance() for marginal, weight in values)
        assert np.abs(estimated - covariance).max() < 1e-11
        variances = sum(weight * marginal.variance() for marginal, weight in values)
        assert np.abs(variances.reshape(-1) - np.diag(covariance)).max() < 1e-11
        counts = sum(weight * marginal.counts() for marginal, weight in values)
        assert np.abs(some.query().apply(truth) - counts).max() < 1e-12


@pytest.mark.parametrize("distributions", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
def test_the_predicted_error_bounds_every_predicate(distributions):
    """All products of predicates on the two groups' cells, for every record."""
    clique = ("a", "c", "b")
    factors = factors_of(DOMAIN, GROUPS, distributions, clique)
    bound = predicted_error(factors, 1) ** 2
    worst = 0.0
    for cell in itertools.product(range(2), range(3), range(2)):
        _, covariance, _ = moments_of_one_record(distributions, clique, cell)
        for first in itertools.product((0, 1), repeat=4):
            for second in itertools.product((0, 1), repeat=3):
                predicate = np.outer(first, second).reshape(-1)
                worst = max(worst, predicate @ covariance @ predicate)
    assert bound / 6 < worst <= bound * (1 + 1e-12)


@pytest.mark.parametrize("size, expected", [(8, 0.0128), (1024, 1.35), (32768, 43.0)])
def test_known_predicted_errors(size, expected):
    """Normalised bounds for 48,842 records at epsilon 1."""
    distribution = response_for(size, ONE)
    found = predicted_error([Channel.of(distribution, Domain({"a": size}), ("a",))], 48842)
    assert found == pytest.approx(expected, rel=5e-3)
    exp = math.e
    assert found == pytest.approx((exp + size - 1) / (exp - 1) / 2 / math.sqrt(48842), rel=1e-9)


@pytest.mark.parametrize("size, epsilon", [(2, "1"), (8, "1"), (8, "0.1"), (32, "2")])
def test_direct_estimates_have_their_closed_form(size, epsilon):
    """x = a hist(y) - n / (e^eps - 1), with a = (e^eps + m - 1) / (e^eps - 1)."""
    distribution = response_for(size, Fraction(epsilon))
    counts = np.arange(1, size + 1)
    domain = Domain({"v": size})
    rows = int(counts.sum())
    marginal = ResponseMarginal(
        domain, ("v",), rows, (Channel.of(distribution, domain, ("v",)),), np.append(counts, rows)
    )
    exp = math.exp(float(epsilon))
    a = (exp + size - 1) / (exp - 1)
    assert marginal.estimate() == pytest.approx(a * counts - rows / (exp - 1), rel=1e-9)
    assert marginal.estimate().sum() == pytest.approx(rows, rel=1e-12)
    assert np.abs(marginal.covariance().sum(axis=0)).max() < 1e-9 * np.abs(marginal.covariance()).max()


def test_the_worst_mean_squared_error_of_a_predicate():
    """n MSE of mechanisms known by figure: 0.92067 for 2 categories, at epsilon 1, whatever the table."""
    distribution = response_for(2, ONE)
    domain = Domain({"v": 2})
    marginal = ResponseMarginal(
        domain, ("v",), 1, (Channel.of(distribution, domain, ("v",)),), np.array([1, 0, 1])
    )
    for table in ([1, 0], [0, 1]):
        assert marginal.covariance(np.array(table))[0, 0] == pytest.approx(0.92067, rel=1e-5)


def test_measurements_have_the_spread_of_their_distribution():
    """Where the estimate is the truth, the standard deviations are exact: sums of independent bits."""
    distribution = response_for(3, ONE)
    domain = Domain({"v": 3})
    factor = Channel.of(distribution, domain, ("v",))
    table = np.array([500.0, 300.0, 200.0])
    expected = factor.other * 1000 + factor.gap * table
    counts = np.rint(expected).astype(int)
    marginal = ResponseMarginal(domain, ("v",), 1000, (factor,), np.append(counts, 1000))
    chances = np.where(np.eye(3), factor.truth, factor.other)
    exact = np.sqrt((chances * (1 - chances)) @ table)
    measurement = marginal.measurement()
    assert measurement.row_stddevs() == pytest.approx(exact, rel=1e-3)  # rounded counts move it a little
    assert measurement.noise == "response" and measurement.values.dtype == np.int64
    assert measurement.query.apply(table) == pytest.approx(expected, rel=1e-12)


def test_no_counts_that_fit_still_give_a_spread():
    distribution = unary_for(3, ONE)
    domain = Domain({"v": 3})
    marginal = ResponseMarginal(
        domain, ("v",), 9, (Channel.of(distribution, domain, ("v",)),), np.array([0, 0, 0, 9])
    )
    assert (marginal.measurement().row_stddevs() > 0).all() and (marginal.estimate() < 0).all()


def test_refusals():
    distribution = response_for(5000, Fraction(5))
    domain = Domain({"v": 5000})
    marginal = ResponseMarginal(
        domain, ("v",), 1, (Channel.of(distribution, domain, ("v",)),), np.append(np.ones(5000, int), 5000)
    )
    with pytest.raises(ValueError, match="5,000 cells is too large"):
        marginal.covariance()
    small = ResponseMarginal(
        Domain({"v": 3}), ("v",), 1, (Channel.of(response_for(3, ONE), Domain({"v": 3}), ("v",)),), np.ones(4)
    )
    with pytest.raises(ValueError, match=r"shape of the clique, \(3,\), got \(2,\)"):
        small.covariance(np.ones(2))
