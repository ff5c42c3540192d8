"""Proper answers against all tables."""

import itertools

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.privacy.response import KaryResponse


def all_sums(values, rows):
    each = [group for group, count in zip(values, rows, strict=True) for _ in range(count)]
    return sorted({round(sum(choice), 9) for choice in itertools.product(*each)})


CASES = [
    ([[0, 1]], [5], 1.0),
    ([[0, 2, 5]], [4], 1.0),
    ([[0, 2, 5], [1, 4], [3]], [3, 2, 2], 1.0),
    ([[-1.5, 0.0, 2.5]], [4], 0.5),
    ([[0, 0.2, 1.0], [0, 0.5]], [2, 3], 0.1),
    ([[0, 4], [2, 10]], [3, 3], 1.0),
    ([[7]], [3], 1.0),
]


@pytest.mark.parametrize(("values", "rows", "step"), CASES)
def test_sums_are_those_of_all_tables(values, rows, step):
    found = co.ProperEstimator(values, rows, step).sums()
    assert found == pytest.approx(all_sums(values, rows), abs=1e-9)


@pytest.mark.parametrize(("values", "rows", "step"), CASES)
def test_the_nearest_mean_is_found(values, rows, step):
    sums = np.array(all_sums(values, rows)) / sum(rows)
    asked = np.linspace(sums.min() - 1, sums.max() + 1, 201)
    found = co.ProperEstimator(values, rows, step).nearest(asked)
    assert np.abs(found[:, None] - sums).min(axis=1).max() < 1e-9
    assert np.abs(found - asked) == pytest.approx(np.abs(asked[:, None] - sums).min(axis=1), abs=1e-9)


def test_one_group_may_be_given_plainly():
    assert co.ProperEstimator([0, 1], 3).sums().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_predicates_of_many_rows_need_no_search():
    many = co.ProperEstimator([[0, 1], [0, 1]], [3 * 10**9, 10**9])
    assert many.nearest([0.3, -2.0, 7.0]).tolist() == pytest.approx([0.3, 0.0, 1.0])


def test_the_squared_error_is_at_most_four_times_as_large():
    """Exactly, over all tables and releases of 4 rows."""
    distribution, f = KaryResponse(3, 0.5), np.array([0.0, 2.0, 5.0])
    outcomes = np.array(list(itertools.product(range(3), repeat=4)))
    seen = [co.group_histograms(co.PerturbedCodes(distribution, codes)) for codes in outcomes]
    values = np.array([each.answer(f[None], useless="answer").value[0] for each in seen])
    proper = co.ProperEstimator(f, 4).nearest(values)
    chance = np.prod(distribution.channel()[outcomes[:, None], outcomes[None]], axis=-1)
    truth = f[outcomes].mean(axis=1)
    errors, plain = [(chance * (v - truth[:, None]) ** 2).sum(axis=1) for v in (proper, values)]
    assert np.all(errors <= 4 * plain) and np.all(np.isin(proper.round(9), truth.round(9)))
    assert np.all((proper - truth[:, None]) ** 2 <= 4 * (values - truth[:, None]) ** 2 + 1e-12)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: co.ProperEstimator([0, 0.3], 3), ValueError, "multiples of step = 1"),
        (lambda: co.ProperEstimator([0, 1], 0), ValueError, "at least one row"),
        (lambda: co.ProperEstimator([[0, 1]], [1, 2]), ValueError, "1 groups of values and 2 numbers"),
        (lambda: co.ProperEstimator([0, 2, 5], 10**9), ValueError, "above the limit"),
        (lambda: co.ProperEstimator([0, 1], 10**9).sums(), ValueError, "not listed"),
        (lambda: co.ProperEstimator([0, 1], 2, step=0), ValueError, "step.*0"),
        (lambda: co.ProperEstimator("ab", 2), TypeError, "sequence"),
    ],
)
def test_wrong_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
