"""What may be estimated on domains whose single cells no length shows."""

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.history import History, KernelPCA, ProductPrior
from pgmjax.history.bayes.blue import BestLinearUnbiased, NotEstimableError
from pgmjax.history.rows import Rows, bounds, is_estimable
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import Product, WeightedSum, marginal, point, prefix
from pgmjax.queries import total as all_codes

NAMES = "abcdef"
HUGE = Domain(dict.fromkeys(NAMES, 100))
TOTAL = Product({"a": all_codes()})
CELL = Product({name: point(3) for name in NAMES})
BUT_ONE = WeightedSum([(1.0, Product({name: all_codes() for name in NAMES})), (-1.0, CELL)])


def history(*queries, value=1000):
    distribution = DiscreteLaplace(1.0)
    rows = [np.full(query.num_rows(HUGE), value) for query in queries]
    return History(
        HUGE, [LinearMeasurement.released(q, v, distribution) for q, v in zip(queries, rows, strict=True)]
    )


def test_a_query_without_one_cell_is_not_the_total():
    """Every record may sit in the cell that is left out: 1e-12 of the squared length."""
    blue = BestLinearUnbiased.of(history(TOTAL))
    assert not blue.is_estimable(BUT_ONE)[0] and blue.is_estimable(TOTAL)[0]
    with pytest.raises(NotEstimableError, match="No answer is about"):
        blue.answer(BUT_ONE)
    assert blue.answer(BUT_ONE, biased=True).biased
    both = BestLinearUnbiased.of(history(TOTAL, CELL))
    assert both.is_estimable(BUT_ONE)[0]
    np.testing.assert_allclose(both.combination(BUT_ONE), [[1, -1]], atol=1e-6)


@pytest.mark.parametrize("known", [None, 1000.0])
def test_kernel_pca_says_so_too(known):
    skewed = ProductPrior(HUGE, {name: [0.9] + [0.1 / 99] * 99 for name in NAMES})
    for prior in (None, skewed):
        pca = KernelPCA.of(history(TOTAL), prior, known)
        assert pca.answer([BUT_ONE, TOTAL]).estimable.tolist() == [False, True]
    wide = KernelPCA.of(history(marginal(["a"]), TOTAL), skewed, known)
    assert wide.answer([Product({"a": prefix()})]).estimable.all()


def test_wide_queries_that_follow_are_estimable():
    blue = BestLinearUnbiased.of(history(marginal(["a"]), Product({"b": prefix()}), value=7))
    assert blue.is_estimable(Product({"a": prefix()})).all()
    assert blue.is_estimable(Product({"b": prefix()})).all()
    assert not blue.is_estimable(Product({"a": point(1), "b": point(2)}))[0]
    with_a_cell = BestLinearUnbiased.of(history(TOTAL, CELL))
    assert with_a_cell.is_estimable([CELL, TOTAL]).all()


def test_bounds_are_no_less_than_the_largest_entry_and_zero_where_nothing_is_left():
    domain, rng = Domain({"a": 3, "b": 4, "c": 2}), np.random.default_rng(0)
    rows = Rows.of([marginal(["a", "b"]), Product({"c": prefix(), "b": prefix()})], domain)
    asked = Rows.of([marginal(["a"]), marginal(["c"])], domain)
    weights = rng.normal(size=(asked.num_rows, rows.num_rows))
    largest = np.abs(asked.matrix() - weights @ rows.matrix() - 0.5).max(axis=1)
    said = bounds(asked, rows, weights, constants=0.5)
    assert (said >= largest * (1 - 1e-12)).all() and (said <= 24 * largest).all()
    exact = np.linalg.lstsq(rows.matrix().T, asked.matrix().T, rcond=None)[0].T
    assert is_estimable(asked, rows, exact).all()
    prior = ProductPrior(domain, {"a": [0, 0.5, 0.5]})
    one = Rows.of([marginal(["a"])], domain).take([0])
    assert bounds(one, rows, np.zeros((1, rows.num_rows)), prior)[0] == 0
