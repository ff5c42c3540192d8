"""Exact similarities against NumPy, and ratings that are refused."""

import numpy as np
import pytest

from pgmjax.data.ratings import Ratings, check_pairs, check_scale


def table(rng, records=12, items=9, share=0.5):
    dense = rng.integers(1, 11, (records, items)) / 2 * (rng.random((records, items)) < share)
    return dense, of_dense(dense)


def of_dense(dense, scale=(0.5, 5)):
    records, items = np.nonzero(dense)
    return Ratings(records, items, dense[records, items], dense.shape, scale)


def test_similarities_are_those_of_dense_tables():
    dense, ratings = table(np.random.default_rng(0))
    pairs = np.array([(i, j) for i in range(12) for j in range(12) if i != j])
    inner, cosines, correlations = (
        ratings.similarities(pairs, measure) for measure in ("inner_product", "cosine", "pearson")
    )
    for place, (i, j) in enumerate(pairs):
        x, y = dense[i], dense[j]
        assert inner[place] == pytest.approx(x @ y)
        norms = np.linalg.norm(x) * np.linalg.norm(y)
        assert cosines[place] == pytest.approx(x @ y / norms if norms else 0)
        both = (x > 0) & (y > 0)
        known = both.sum() > 1 and np.ptp(x[both]) > 0 and np.ptp(y[both]) > 0
        assert correlations[place] == pytest.approx(np.corrcoef(x[both], y[both])[0, 1] if known else 0)


def test_a_record_without_ratings_is_like_none():
    ratings = Ratings([0, 0], [0, 1], [1.0, 5.0], (3, 2), (0.5, 5))
    for measure in ("cosine", "pearson", "inner_product"):
        assert ratings.similarities([(0, 1), (1, 2)], measure).tolist() == [0, 0]
    assert ratings.counts().tolist() == [2, 0, 0] and "1.0" not in repr(ratings)


WRONG = [
    (([0.0], [0], [1.0], (1, 1)), TypeError, "records.*float64"),
    (([1], [0], [1.0], (1, 1)), ValueError, r"0\.\.0"),
    (([0], [-1], [1.0], (1, 1)), ValueError, "items"),
    (([0, 0], [0], [1.0], (1, 1)), ValueError, "one length"),
    (([[0, 1]], [[0, 0]], [[1.0, 2.0]], (2, 1)), ValueError, "one-dimensional"),
    (([0], [0], [np.nan], (1, 1)), ValueError, "finite"),
    (([0, 0], [0, 0], [1.0, 2.0], (1, 1)), ValueError, "rated an item twice"),
    (([0], [0], [7.25], (1, 1), (0.5, 5)), ValueError, "outside the stated scale"),
    (([0], [0], [1.0], (1,)), ValueError, "pair"),
    (([0], [0], [1.0], (0, 1)), ValueError, "shape"),
]


@pytest.mark.parametrize("given, error, words", WRONG, ids=[words for _, _, words in WRONG])
def test_wrong_ratings_are_refused_without_a_value(given, error, words):
    with pytest.raises(error, match=words) as raised:
        Ratings(*given)
    assert "7.25" not in str(raised.value)


@pytest.mark.parametrize("pairs", [[], [(0, 1, 2)], [(0, 5)], [(-1, 0)], [(2, 2)]])
def test_wrong_pairs_are_refused(pairs):
    with pytest.raises(ValueError, match="pair"):
        check_pairs(pairs, 5)


def test_pairs_that_are_no_codes_are_refused():
    with pytest.raises(TypeError, match="pair"):
        check_pairs([(0.0, 1.0)], 5)


def test_scales_that_are_refused():
    for scale in (5, "ab", (1,), (5, 1), (1, float("inf")), (float("nan"), 2), (1e-200, 1), (0, 1e200)):
        with pytest.raises(ValueError):
            check_scale(scale)
        with pytest.raises(ValueError):
            Ratings([0], [0], [1.0], (1, 1), scale)


@pytest.mark.parametrize("measure", ["cosine", "pearson", "inner_product"])
def test_the_largest_ratings_have_finite_similarities(measure):
    huge = Ratings([0, 0, 1, 1], [0, 1, 0, 1], [1e60, 5e59, -1e60, 3e59], (2, 2))
    assert np.isfinite(huge.similarities([(0, 1)], measure)).all()
    with pytest.raises(ValueError, match="at most 1e"):
        Ratings([0], [0], [1e200], (1, 1))
