"""A history: what it holds, how it grows, what it refuses."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history import BestLinearUnbiased, History, KernelPCA
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.queries import Product, marginal, point, prefix
from tests.history import dense

DOMAIN = dense.DOMAIN
KNOWN = pj.LinearMeasurement.released(marginal(["a"]), [5, -1, 2], DiscreteLaplace(2.0))
SPREAD = pj.LinearMeasurement(("c", "a"), np.arange(6.0).reshape(2, 3), np.arange(1.0, 7.0))
HISTORY = History(DOMAIN, [KNOWN, SPREAD], relation="add-remove")


def test_rows_follow_the_measurements():
    assert HISTORY.num_rows == len(HISTORY) == 9
    np.testing.assert_array_equal(HISTORY.values, [5, -1, 2, 0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(HISTORY.stddevs, [DiscreteLaplace(2.0).stddev] * 3 + [1, 2, 3, 4, 5, 6])
    assert HISTORY.distributions == (DiscreteLaplace(2.0),) * 3 + (None,) * 6
    assert HISTORY.queries == (KNOWN.query, SPREAD.query)
    assert HISTORY.relation is pj.Relation.ADD_REMOVE
    np.testing.assert_array_equal(HISTORY.rows.matrix(), dense.matrix_of(HISTORY.queries))
    assert repr(HISTORY) == "History(9 answers by 2 measurements over 4 attributes)"


def test_answers_cannot_be_written_over():
    with pytest.raises(ValueError, match="read-only"):
        HISTORY.values[0] = 0


def test_plain_numbers():
    queries = [Product({"a": point(1)}), Product({"b": prefix()})]
    made = History.from_answers(DOMAIN, queries, np.arange(5), distribution=DiscreteGaussian(3.0))
    np.testing.assert_array_equal(made.values, np.arange(5))
    assert made.distributions == (DiscreteGaussian(3.0),) * 5
    made = History.from_answers(DOMAIN, queries, np.arange(5), stddev=[1, 2, 3, 4, 5])
    np.testing.assert_array_equal(made.stddevs, [1, 2, 3, 4, 5])
    covariance = np.eye(5) * 4 + 1
    made = History.from_answers(DOMAIN, queries, np.arange(5), covariance=covariance)
    np.testing.assert_array_equal(made.covariance, covariance)
    np.testing.assert_allclose(made.stddevs, np.sqrt(5))


@pytest.mark.parametrize("warm", [True, False], ids=["rows made before", "rows made after"])
def test_append_is_the_history_of_all(warm):
    first = History(DOMAIN, [SPREAD])
    if warm:
        assert len(first.rows) == 6
    both = first.append(KNOWN, History(DOMAIN, [SPREAD, KNOWN]))
    expected = History(DOMAIN, [SPREAD, KNOWN, SPREAD, KNOWN])
    np.testing.assert_array_equal(both.values, expected.values)
    np.testing.assert_array_equal(both.rows.matrix(), expected.rows.matrix())
    assert both.distributions == expected.distributions and first.num_rows == 6 and both.covariance is None


def test_append_keeps_covariances_apart():
    square = np.array([[4.0, 1.0], [1.0, 9.0]])
    asked = [Product({"a": point(code)}) for code in (0, 1)]
    first = History.from_answers(DOMAIN, asked, [3, 4], covariance=square)
    both = first.append(pj.LinearMeasurement(("c",), [1, 2], 5.0)).append(first)
    expected = np.zeros((6, 6))
    expected[:2, :2] = expected[4:, 4:] = square
    expected[2, 2] = expected[3, 3] = 25
    np.testing.assert_array_equal(both.covariance, expected)
    np.testing.assert_array_equal(
        History(DOMAIN, [SPREAD]).full_covariance(), np.diag(np.arange(1.0, 7) ** 2)
    )


def test_mixed_relations_are_refused():
    with pytest.raises(ValueError, match=r"mix relations, add-remove and replace-one"):
        HISTORY.append(History(DOMAIN, [KNOWN], relation="replace-one"))
    with pytest.raises(ValueError, match="add-remove"):
        HISTORY.append(History(DOMAIN, [KNOWN]))
    with pytest.raises(ValueError, match="replace-one"):
        History(DOMAIN, [KNOWN], relation="nearby")


def test_other_domains_and_what_does_not_fit():
    with pytest.raises(ValueError, match="expected a history over"):
        HISTORY.append(History(pj.Domain({"a": 3}), [KNOWN]))
    with pytest.raises(ValueError, match="'a'"):
        History(pj.Domain({"b": 3}), [KNOWN])
    with pytest.raises(ValueError, match=r"\('a',\).*\(4,\).*\(3,\)"):
        History(pj.Domain({"a": 4}), [KNOWN])
    with pytest.raises(TypeError, match=r"measurements.*LinearMeasurement.*int"):
        History(DOMAIN, [3])
    with pytest.raises(TypeError, match=r"domain.*dict.*History"):
        History({"a": 3}, [KNOWN])


def test_bad_answers_are_refused():
    asked = [Product({"a": point(0)})]
    with pytest.raises(ValueError, match=r"\('a',\).*1 of 1"):
        History.from_answers(DOMAIN, asked, [np.nan], stddev=1.0)
    with pytest.raises(ValueError, match=r"\('a',\).*1e-60"):
        History.from_answers(DOMAIN, asked, [1.0], stddev=0.0)
    with pytest.raises(ValueError, match=r"scale.*0"):
        History.from_answers(DOMAIN, asked, [1.0], distribution=DiscreteLaplace(0.0))
    with pytest.raises(ValueError, match="one value for each answer of the queries, 1 in all, got shape"):
        History.from_answers(DOMAIN, asked, [1.0, 2.0], stddev=1.0)
    with pytest.raises(ValueError, match="one value for each answer of the queries, 1 in all, got shape"):
        History.from_answers(DOMAIN, asked, 1.0, stddev=1.0)
    two = [Product({"a": point(0)}), pj.queries.marginal(["b"])]
    with pytest.raises(ValueError, match=r"expected lists of \[1, .*\] numbers, got \[2, "):
        History.from_answers(DOMAIN, two, [[1.0, 2.0], np.ones(DOMAIN["b"] - 1)], stddev=1.0)
    with pytest.raises(ValueError, match="for each query a list or an array of numbers"):
        History.from_answers(DOMAIN, two, [[1.0], [2.0, [3.0, 4.0]]], stddev=1.0)
    for given in ({}, {"stddev": 1.0, "distribution": DiscreteLaplace(1.0)}):
        with pytest.raises(ValueError, match="exactly one of stddev, distribution and covariance"):
            History.from_answers(DOMAIN, asked, [1.0], **given)


def test_answers_may_be_a_list_for_each_query():
    asked = [Product({"a": point(0)}), pj.queries.marginal(["b"])]
    numbers = list(range(1 + DOMAIN["b"]))
    nested = History.from_answers(DOMAIN, asked, [numbers[:1], numbers[1:]], stddev=1.0)
    arrays = History.from_answers(
        DOMAIN, asked, [jnp.array([0.0]), jnp.arange(1.0, len(numbers))], stddev=1.0
    )
    assert arrays.values.tolist() == numbers
    assert nested.values.tolist() == History.from_answers(DOMAIN, asked, numbers, stddev=1.0).values.tolist()


@pytest.mark.parametrize(("relation", "expected"), [("add-remove", [3, 1, 1]), ("replace-one", [4, 1, 0])])
def test_sensitivities_follow_from_the_queries(relation, expected):
    asked = [Product({"a": pj.queries.matrix([[-1, 3, 0]])}), Product({"c": prefix()})]
    made = History.from_answers(DOMAIN, asked, [1, 2, 3], stddev=1.0, relation=relation)
    np.testing.assert_array_equal(made.sensitivities, expected)


def test_sensitivities_need_a_relation():
    with pytest.raises(ValueError, match="sensitivities depend on the relation"):
        _ = History(DOMAIN, [KNOWN]).sensitivities


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (np.eye(3), r"must be of shape \(2, 2\)"),
        ([[4, np.nan], [np.nan, 9]], "must be finite"),
        ([[4, 1], [2, 9]], "must be symmetric"),
        ([[4, 6], [6, 9]], "must be positive definite"),
        ([[4, 0], [0, 10]], "state different noise"),
        ([[4, 0], [0, 0]], "noise of scale zero"),
    ],
)
def test_bad_covariances_are_refused(covariance, message):
    measured = pj.LinearMeasurement(("c",), [1, 2], [2.0, 3.0])
    with pytest.raises(ValueError, match=message):
        History(DOMAIN, [measured], covariance=covariance)


def test_answers_that_noise_cannot_explain_are_told_of():
    """Exact answers that contradict one another would be averaged, with tiny intervals."""
    domain = pj.Domain({"a": 2, "b": 3})
    first, second = (pj.LinearMeasurement(("a",), values, 0.001) for values in ([10.0, 7.0], [12.0, 7.0]))
    rough = pj.LinearMeasurement(("b",), [5.0, 6.0, 7.0], 3.0)
    with pytest.warns(UserWarning, match="answers contradict one another: answer"):
        KernelPCA.of(History(domain, [first, second, rough]))
    with pytest.warns(UserWarning, match="contradict one another or the total"):
        KernelPCA.of(History(domain, [first, rough]), total=30)
    with pytest.warns(UserWarning, match="standard deviations of its noise away"):
        _ = BestLinearUnbiased.from_matrix([[1, 0], [1, 0]], [3, 300], 1.0).estimate
    with warnings.catch_warnings(action="error"):  # 3 standard deviations apart
        KernelPCA.of(
            History(domain, [first, rough, pj.LinearMeasurement(("b",), [8.0, 6.0, 7.0], 1.0)]), total=17
        )
        near = BestLinearUnbiased.from_matrix([[1, 0], [1, 0]], [3, 9], 1.0).estimate
    np.testing.assert_allclose(near, [6, 0], atol=1e-9)
    # what rounding and a cut of the rank move is none
    with warnings.catch_warnings(action="error", category=UserWarning):
        exact = pj.LinearMeasurement(("a",), [600_000.0, 400_000.0], 1e-4)
        noisy = pj.LinearMeasurement(("a", "b"), np.outer([200_000.0, 133_333.0], np.ones(3)), 10.0)
        fitted = KernelPCA.of(History(domain, [exact, noisy]), total=1_000_000).fitted().values
        np.testing.assert_allclose(fitted, [600_000, 400_000, *[200_000] * 3, *[133_333] * 3], atol=1)
        KernelPCA.of(History(domain, [first, rough]), rank_cut=0.5)
        _ = BestLinearUnbiased.from_matrix(
            [[1, 0], [1, 1], [0, 1]], [3, 7, 90], [1e-6, 100, 100], continuous=True
        ).estimate
