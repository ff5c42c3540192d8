"""Ranges, tables, moments, transforms and marginals as queries."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history import builders
from pgmjax.history.rows import Rows

DOMAIN = pj.Domain({"a": 5, "b": 2, "c": 4, "e": 3, "one": 1})
A, B = np.meshgrid(np.arange(5), np.arange(2), indexing="ij")


def test_all_marginals():
    asked = builders.all_marginals(DOMAIN, 2)
    assert [query.clique for query in asked] == list(itertools.combinations(DOMAIN.attributes, 2))
    census = pj.Domain(dict(zip("abcdefghi", (79, 2, 17, 51, 9, 7, 6, 50, 50), strict=True)))
    assert sum(query.num_rows(census) for query in builders.all_marginals(census, 2)) == 29_570
    with pytest.raises(ValueError, match=r"k.*1\.\.5"):
        builders.all_marginals(DOMAIN, 6)


def test_random_ranges_are_boxes_and_repeat_by_seed():
    asked = builders.random_ranges(DOMAIN, 40, dimensions=3, seed=1)
    assert asked == builders.random_ranges(DOMAIN, 40, dimensions=3, seed=1)
    assert asked != builders.random_ranges(DOMAIN, 40, dimensions=3, seed=2)
    assert all(len(query.clique) == 3 and query.num_rows(DOMAIN) == 1 for query in asked)
    assert set().union(*(query.clique for query in asked)) == set(DOMAIN)
    matrix = Rows.of(asked, DOMAIN).matrix()
    assert set(np.unique(matrix)) == {0, 1} and matrix.any(axis=1).all()


def test_random_tables_are_half_ones():
    domain = pj.Domain({"x": 30, "y": 40})
    asked = builders.random_tables(domain, 20, seed=3)
    matrix = Rows.of(asked, domain).matrix()
    assert set(np.unique(matrix)) == {0, 1} and abs(matrix.mean() - 0.5) < 5 * 0.5 / np.sqrt(matrix.size)
    tiny = builders.random_tables(pj.Domain({"x": 1, "y": 1}), 10, seed=0)
    assert Rows.of(tiny, pj.Domain({"x": 1, "y": 1})).matrix().all()


@pytest.mark.parametrize("make", [builders.random_ranges, builders.random_tables])
def test_random_queries_refuse(make):
    with pytest.raises(ValueError, match=r"count.*0"):
        make(DOMAIN, 0, seed=0)
    with pytest.raises(ValueError, match=r"dimensions.*1\.\.5"):
        make(DOMAIN, 1, dimensions=6, seed=0)
    with pytest.raises(ValueError, match=r"seed.*-1"):
        make(DOMAIN, 1, seed=-1)


def test_moments_are_sums_of_powers():
    pair = DOMAIN.project(("a", "b"))
    asked = builders.moments(pair, ["a", "b"], 2)
    expected = [A, B, A**2, A * B, B**2]
    np.testing.assert_array_equal(Rows.of(asked, pair).matrix(), [table.reshape(-1) for table in expected])
    values = {"a": [0.5, 1, 2, 4, 8]}
    (given,) = Rows.of(builders.moment(pair, {"a": 3, "b": 0}, values), pair).matrix()
    np.testing.assert_allclose(given, np.repeat(np.array(values["a"]) ** 3, 2))


def test_covariances_from_their_answers():
    pair = DOMAIN.project(("a", "b"))
    counts = np.random.default_rng(0).integers(0, 9, size=10)
    n, x, y, xx, xy, yy = Rows.of(builders.covariances(pair, ["a", "b"]), pair).matrix() @ counts
    records = np.repeat(np.stack([A.reshape(-1), B.reshape(-1)]), counts, axis=1)
    expected = np.cov(records, bias=True)
    found = [[xx / n - (x / n) ** 2, xy / n - x * y / n**2], [xy / n - x * y / n**2, yy / n - (y / n) ** 2]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_moments_refuse():
    with pytest.raises(TypeError, match="powers must map attribute names to integers, got list"):
        builders.moment(DOMAIN, ["a"])
    with pytest.raises(ValueError, match=r"'a'.*-1"):
        builders.moment(DOMAIN, {"a": -1})
    with pytest.raises(ValueError, match="the values of 'a' must be one a code, 5, got 2"):
        builders.moment(DOMAIN, {"a": 1}, {"a": [1, 2]})
    with pytest.raises(ValueError, match="overflows"):
        builders.moment(DOMAIN, {"a": 600})
    with pytest.raises(ValueError, match=r"order.*0"):
        builders.moments(DOMAIN, ["a"], 0)


def test_fourier_coefficients_are_an_orthogonal_basis():
    asked = builders.fourier(DOMAIN, ["a", "b", "c", "one"])
    domain = DOMAIN.project(("a", "b", "c", "one"))
    matrix = Rows.of(asked, domain).matrix()
    assert matrix.shape == (40, 40)
    np.testing.assert_allclose(matrix @ matrix.T, 40 * np.eye(40), atol=1e-12)
    low = builders.fourier(DOMAIN, ["a", "b", "c"], order=1)
    assert [query.num_rows(DOMAIN) for query in low] == [1, 4, 1, 3]


def test_fourier_of_binary_attributes_are_signs_of_parities():
    domain = pj.Domain({"x": 2, "y": 2, "z": 2})
    matrix = Rows.of(builders.fourier(domain, ["x", "y", "z"]), domain).matrix()
    cells = np.indices((2, 2, 2)).reshape(3, -1)
    sets = [s for size in range(4) for s in itertools.combinations(range(3), size)]
    np.testing.assert_array_equal(matrix, [(-1.0) ** cells[list(s)].sum(axis=0) for s in sets])
    assert all(query.is_integral(domain) for query in builders.fourier(domain, ["x", "y", "z"]))


def test_wavelets_determine_the_marginal():
    asked = builders.wavelet(DOMAIN, ["a", "c"])
    matrix = asked.matrix(DOMAIN)
    assert set(np.unique(matrix)) == {-1, 0, 1}
    assert np.linalg.matrix_rank(matrix) == 20 and len(matrix) >= 20


def test_transforms_refuse():
    with pytest.raises(ValueError, match=r"order.*0\.\.2"):
        builders.fourier(DOMAIN, ["a", "b"], order=3)
    with pytest.raises(ValueError, match="'z'"):
        builders.wavelet(DOMAIN, ["z"])
