"""Noisy marginals gathered from measurements against sums and averages written out."""

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement, noisy_marginal, other_queries
from pgmjax.queries import DenseMatrix, Product, WeightedSum, all_ranges, identity, prefix, total

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})


def test_one_measurement_is_summed_and_its_noise_adds_up():
    values = np.arange(6)
    found = noisy_marginal(DOMAIN, [LinearMeasurement(("a", "b"), values, stddev=2.0)], ("b",))
    assert found.values.tolist() == [3, 5, 7] and found.sources == 1
    np.testing.assert_allclose(found.stddevs, np.sqrt(2 * 4.0))


def test_average_is_weighted_by_inverse_variance_cell_by_cell():
    spread = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 1.0])
    first = LinearMeasurement(("b", "a"), [10, 11, 12, 13, 14, 15], stddev=spread)
    second = LinearMeasurement(("a",), [30, 50], stddev=4.0)
    found = noisy_marginal(DOMAIN, [first, second], ("a",))
    sums, variances = [10 + 12 + 14, 11 + 13 + 15], [1 + 9 + 1, 4 + 1 + 1]
    for cell in range(2):
        weights = np.array([1 / variances[cell], 1 / 16])
        mean = np.dot(weights, [sums[cell], [30, 50][cell]]) / weights.sum()
        np.testing.assert_allclose(found.values[cell], mean)
        np.testing.assert_allclose(found.stddevs[cell], weights.sum() ** -0.5)
    assert found.sources == 2


def test_axes_stand_in_the_order_asked_for():
    values = np.arange(12).reshape(2, 3, 2)
    found = noisy_marginal(DOMAIN, [LinearMeasurement(("a", "b", "c"), values, stddev=1.0)], ("c", "a"))
    np.testing.assert_array_equal(found.values, values.sum(axis=1).T)


def test_other_queries_and_other_attributes_give_nothing():
    cumulative = LinearMeasurement(("b",), [1, 2, 3], stddev=1.0, query=prefix())
    assert not cumulative.query.is_identity
    assert noisy_marginal(DOMAIN, [cumulative], ("b",)) is None
    assert noisy_marginal(DOMAIN, [LinearMeasurement(("a",), [1, 2], stddev=1.0)], ("b",)) is None


def answers(query):
    size = query.num_rows(DOMAIN)
    return LinearMeasurement(query.clique, np.zeros(size), stddev=1.0, query=query)


def test_other_queries_are_named_by_kind():
    measured = [
        answers(Product({"b": prefix(), "a": identity()})),
        answers(Product({"b": all_ranges()})),
        answers(Product({"b": prefix()})),
        answers(DenseMatrix(("c", "b"), np.ones((1, 6)))),
    ]
    assert other_queries(measured, "b") == ["prefix", "all_ranges", "matrix"]
    assert other_queries(measured, "a") == ["prefix"]  # beside the prefixes of b
    assert other_queries(measured, "c") == ["matrix"]


def test_sums_are_named_by_their_terms():
    several = WeightedSum(
        [(1, Product({"a": total(), "b": prefix()})), (2, Product({"a": total(), "b": prefix()}))]
    )
    assert other_queries([answers(several)], "b") == ["prefix"]
    assert other_queries([answers(several)], "a") == ["total"]
    assert other_queries([answers(WeightedSum([(2, Product({"a": identity()}))]))], "a") == ["sum"]


def test_whole_marginals_are_no_other_queries():
    assert other_queries([LinearMeasurement(("a",), [1, 2], stddev=1.0)], "a") is None
    assert other_queries([answers(Product({"b": prefix()}))], "a") is None
