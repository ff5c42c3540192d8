import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import AllowedSet

DOMAIN = Domain({"age": 3, "job": {"labels": ["none", "clerk"]}, "year": {"labels": [1999, 2000]}})


def test_labels_and_codes_mean_the_same():
    expected = np.zeros((3, 2), bool)
    expected[[0, 2, 1], [0, 1, 1]] = True
    for rows in (
        [(0, "none"), (2, "clerk"), (1, "clerk")],
        [(0, 0), (2, 1), (1, 1), (2, "clerk")],
        np.array([[0, 0], [2, 1], [1, 1]]),
    ):
        np.testing.assert_array_equal(AllowedSet(("age", "job"), rows).zeros(DOMAIN).allowed, expected)


def test_axes_follow_the_clique_as_it_was_named():
    mask = AllowedSet(("job", "age"), [("clerk", 2)]).zeros(DOMAIN)
    assert mask.clique == ("job", "age") and np.argwhere(mask.allowed).tolist() == [[1, 2]]


def test_one_attribute_takes_bare_values_and_numbers_may_be_labels():
    assert AllowedSet(("job",), ["clerk"]).zeros(DOMAIN).allowed.tolist() == [False, True]
    assert AllowedSet(("year",), [2000, 1999]).zeros(DOMAIN).allowed.tolist() == [True, True]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: AllowedSet("age", [0]), TypeError, r"'age'.*\('age',\)"),
        (lambda: AllowedSet(("age",), 3), TypeError, "'age'.*int"),
        (lambda: AllowedSet(("age",), []), ValueError, "allows no combination"),
        (lambda: AllowedSet(("age", "job"), [(0,)]), ValueError, "needs 2 values in each .* one of 1"),
        (lambda: AllowedSet(("age",), [3]).zeros(DOMAIN), ValueError, r"3.*'age'"),
        (
            lambda: AllowedSet(("year",), [0]).zeros(DOMAIN),
            ValueError,
            "0.*'year'.* 1999, 2000",
        ),
        (lambda: AllowedSet(("zip",), [0]).zeros(DOMAIN), ValueError, "zip"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
