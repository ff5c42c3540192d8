import dataclasses

import numpy as np
import pandas
import pytest

import pgmjax as pj
from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement

DOMAIN = Domain({"age": 3, "sex": 2})


def test_integers_stay_integers_and_arrays_are_read_only_copies():
    values = np.array([2**53 + 1, -5, 0])
    measurement = LinearMeasurement(("age",), values, stddev=2)
    values[0] = 0
    assert measurement.values.tolist() == [2**53 + 1, -5, 0] and measurement.values.dtype == np.int64
    assert measurement.query == q.marginal(("age",)) and measurement.noise == "gaussian"
    with pytest.raises(ValueError, match="read-only"):
        measurement.values[0] = 1
    with pytest.raises(AttributeError):
        measurement.noise = "laplace"


@pytest.mark.parametrize(
    ("clique", "shape", "query"),
    [
        (("age", "sex"), (3, 2), None),
        (("age", "sex"), (6,), None),
        (("age", "sex"), (6, 2), {"age": "all_ranges"}),
        (("age", "sex"), (12,), {"age": "all_ranges"}),
        (("sex",), (1,), [[1, -1]]),
        (("sex",), (), [[1, -1]]),
        (("age", "sex"), (2,), np.ones((2, 6))),
        (("sex", "age"), (2, 3), q.marginal(("age", "sex"))),
    ],
)
def test_shapes_of_values(clique, shape, query):
    values = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    measurement = LinearMeasurement(clique, values, 1.0, query=query, noise="laplace")
    measurement.validate(DOMAIN)
    np.testing.assert_array_equal(measurement.flat_values(), values.reshape(-1))
    assert measurement.query.clique == clique


def test_what_fits_one_domain_is_checked_against_another():
    measurement, other = LinearMeasurement(("age",), [1, 2, 3], 2.5), pj.Domain({"age": 4})
    assert measurement.over(DOMAIN) is measurement.over(DOMAIN) is measurement
    for check in (measurement.over, measurement.validate):
        with pytest.raises(ValueError, match=r"expected shape \(4,\)"):
            check(other)
    measurement.over(DOMAIN)


def test_standard_deviations_one_or_one_a_row():
    one = LinearMeasurement(("age",), [1, 2, 3], 2.5)
    assert one.stddev.shape == () and one.row_stddevs().tolist() == [2.5] * 3
    each = LinearMeasurement(("age", "sex"), np.ones((3, 2)), np.arange(1, 7).reshape(3, 2))
    assert each.row_stddevs().tolist() == [1, 2, 3, 4, 5, 6]
    flat = LinearMeasurement(("age", "sex"), np.ones((3, 2)), [1, 2, 3, 4, 5, 6])
    assert flat.row_stddevs().tolist() == [1, 2, 3, 4, 5, 6]


def test_repr_shows_structure_not_values():
    assert repr(LinearMeasurement(("age",), [123456, 1, 2], 2.0)) == (
        "LinearMeasurement(('age',), 3 values, stddev=2, noise='gaussian')"
    )
    assert "query=DenseMatrix" in repr(LinearMeasurement(("age", "sex"), [1], [1], np.ones((1, 6))))
    assert "stddev=one a row" in repr(LinearMeasurement(("age",), [1, 2, 3], [1, 2, 3]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LinearMeasurement("age", [1], 1), TypeError, r"write \('age',\)"),
        (lambda: LinearMeasurement(("age", "age"), [1], 1), ValueError, "twice"),
        (lambda: LinearMeasurement((), [1], 1), ValueError, "clique"),
        (lambda: LinearMeasurement(("age",), [], 1), ValueError, r"\('age',\)"),
        (lambda: LinearMeasurement(("age",), [[1], [2, 3]], 1), ValueError, r"\('age',\)"),
        (lambda: LinearMeasurement(("age",), ["1"], 1), TypeError, r"\('age',\)"),
        (lambda: LinearMeasurement(("age",), [True], 1), TypeError, "true and false"),
        (lambda: LinearMeasurement(("age",), [1j], 1), TypeError, r"\('age',\)"),
        (lambda: LinearMeasurement(("age",), [1.5, np.nan], 1), ValueError, r"\('age',\).*1 of 2"),
        (lambda: LinearMeasurement(("age",), [np.inf], 1), ValueError, r"\('age',\).*1 of 1"),
        (lambda: LinearMeasurement(("age",), np.array([2**63], np.uint64), 1), ValueError, "64-bit"),
        (lambda: LinearMeasurement(("age",), [1, 2, 3], 0), ValueError, r"> 0, in .*; 1 of 1 are.*in counts"),
        (
            lambda: LinearMeasurement(("age",), [1, 2, 3], [1, -1, 1]),
            ValueError,
            "must be > 0, in .*; 1 of 3",
        ),
        (lambda: LinearMeasurement(("age",), [1, 2, 3], np.inf), ValueError, r"stddev .*\('age',\).*1 of 1"),
        (lambda: LinearMeasurement(("age",), [1, 2, 3], np.nan), ValueError, r"stddev .*\('age',\).*1 of 1"),
        (lambda: LinearMeasurement(("age",), [1, 2, 3], "2"), TypeError, r"stddev .*\('age',\)"),
        (lambda: LinearMeasurement(("age",), [1, 2, 3], None), TypeError, r"stddev .*\('age',\)"),
        (
            lambda: LinearMeasurement(("age",), [1, 2, 3], [1, 2]),
            ValueError,
            r"expected shape \(3,\), got \(2,\)",
        ),
        (lambda: LinearMeasurement(("age",), [1], 1, noise="cauchy"), ValueError, "'gaussian', 'laplace'"),
        (
            lambda: LinearMeasurement(("age",), [1], 1, query={"sex": "prefix"}),
            ValueError,
            r"'sex'.*\('age',\)",
        ),
        (
            lambda: LinearMeasurement(("age",), [1], 1).validate(DOMAIN),
            ValueError,
            r"expected shape \(3,\), got \(1,\)",
        ),
        (
            lambda: LinearMeasurement(("age", "sex"), np.ones((2, 3)), 1).validate(DOMAIN),
            ValueError,
            r"expected shape \(6,\) or \(3, 2\), got \(2, 3\)",
        ),
        (
            lambda: LinearMeasurement(("zip",), [1], 1).validate(DOMAIN),
            ValueError,
            "'zip'",
        ),
        (
            lambda: LinearMeasurement(("age",), [1], 1, query=q.point(3)).validate(DOMAIN),
            ValueError,
            r"'age'.*0\.\.2",
        ),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_messages_hold_no_value():
    for values in ([987654.5, np.nan], [987654, 2]):
        with pytest.raises(ValueError) as caught:
            LinearMeasurement(("age",), values, 1).validate(DOMAIN)
        assert "987654" not in str(caught.value)


def test_labels_of_pandas_are_refused_where_only_their_order_would_count():
    """value_counts sorts by count: taken as they come, men would be counted as women."""
    people = pandas.DataFrame({"sex": ["M"] * 3 + ["F"], "job": ["b", "a", "b", "b"]})
    for values in (people["sex"].value_counts(), pandas.crosstab(people["sex"], people["job"])):
        clique = ("sex", "job")[: values.ndim]
        for made in (
            lambda v=values, c=clique: pj.LinearMeasurement(c, v, 1.0),
            lambda v=values, c=clique: pj.FixedMarginal(c, v),
        ):
            with pytest.raises(ValueError, match="labels of pandas came with the numbers"):
                made()
    plain = people["sex"].value_counts().reindex(["F", "M"]).reset_index(drop=True)
    assert pj.LinearMeasurement(("sex",), plain, 1.0).values.tolist() == [1, 3]


def test_a_subclass_with_equality_of_its_own_is_checked_each_time():
    @dataclasses.dataclass(frozen=True, init=False, repr=False)
    class Equal(pj.LinearMeasurement):  # equal where the arrays are the same: it has no hash
        pass

    class Named(pj.LinearMeasurement):
        def __eq__(self, other):
            return self.clique == other.clique

        def __hash__(self):
            return hash(self.clique)

    domain = pj.Domain({"a": 2})
    for kind in (Equal, Named):
        good, bad = kind(("a",), [3.0, 4.0], 1.0), kind(("a",), [3.0, 4.0, 5.0], 1.0)
        assert pj.Estimator(progress=False).fit(domain, [good], 7.0).status is not None
        with pytest.raises(ValueError, match="a value for each answer"):
            pj.Estimator(progress=False).fit(domain, [bad], 7.0)
