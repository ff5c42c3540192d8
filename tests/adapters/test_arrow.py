"""Arrow tables out and in agree with the arrays they are made of, in pyarrow, polars and pandas."""

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import pgmjax as pj
from pgmjax.adapters import arrow
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.release.tables import write_measurements

DOMAIN = pj.Domain(
    {
        "sex": {"labels": ["F", "M"], "missing": "?"},
        "age": {"bins": [0, 20, 65]},
        "n": 3,
        "mixed": {"labels": [1, "x"]},
    }
)
CODES = {
    "sex": np.array([0, 2, 1]),
    "age": np.array([1, 0, 0]),
    "n": np.array([2, 2, 0]),
    "mixed": np.array([1, 0, 1]),
}
LABELS = {
    "sex": ["F", None, "M"],
    "age": ["[20, 65]", "[0, 20)", "[0, 20)"],
    "n": [2, 2, 0],
    "mixed": ["x", "1", "x"],
}


def model():
    table = np.log(np.arange(1.0, 7).reshape(3, 2))
    return pj.GraphicalModel.from_potentials(DOMAIN, {("sex", "age"): table}, total=42)


def test_rows_with_labels_and_with_codes():
    assert arrow.rows_to_arrow(CODES, DOMAIN).to_pydict() == LABELS
    codes = arrow.rows_to_arrow(CODES, DOMAIN, decode=False)
    assert {name: codes.column(name).to_pylist() for name in CODES} == {
        n: c.tolist() for n, c in CODES.items()
    }
    with pytest.raises(ValueError, match=r"0\.\.2"):
        arrow.rows_to_arrow({"sex": [3]}, DOMAIN)


def test_other_libraries_read_what_comes_out():
    table = arrow.rows_to_arrow(CODES, DOMAIN)
    assert hasattr(table, "__arrow_c_stream__")
    assert polars.DataFrame(table)["sex"].cast(polars.String).to_list() == LABELS["sex"]
    assert table.to_pandas()["n"].tolist() == LABELS["n"]


@pytest.mark.parametrize(
    "make", [pyarrow.table, polars.DataFrame, pandas.DataFrame], ids=["arrow", "polars", "pandas"]
)
def test_rows_come_in_from_any_frame(make):
    given = {"sex": LABELS["sex"], "age": [30.0, 5.0, 0.0], "n": LABELS["n"], "id": ["x", "y", "z"]}
    found = arrow.rows_from_arrow(make(given), DOMAIN)
    assert {name: codes.tolist() for name, codes in found.items()} == {
        n: CODES[n].tolist() for n in ("sex", "age", "n")
    }


def test_rows_go_round(tmp_path):
    rows = pj.GraphicalModel.from_potentials(
        pj.Domain({"a": {"labels": ["x", "y"]}, "b": 3}), {}, 50
    ).sample()
    domain = pj.Domain({"a": {"labels": ["x", "y"]}, "b": 3})
    back = arrow.rows_from_arrow(arrow.rows_to_arrow(rows, domain), domain)
    assert all((back[name] == rows[name]).all() for name in domain)
    data = pj.Dataset.from_frame(domain, arrow.rows_to_arrow(rows, domain))
    assert data.marginals([("a",)])[0].tolist() == np.bincount(rows["a"], minlength=2).tolist()


def test_rows_that_do_not_fit_are_counted_and_not_shown():
    with pytest.raises(ValueError, match="2 rows lie outside") as caught:
        arrow.rows_from_arrow(pyarrow.table({"sex": ["F", "secret", "secret"]}), DOMAIN)
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="no column of the domain"):
        arrow.rows_from_arrow(pyarrow.table({"zip": [1]}), DOMAIN)
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        arrow.rows_from_arrow({"sex": ["F"]}, DOMAIN)


def test_a_marginal_is_a_row_a_cell():
    table = arrow.marginal_to_arrow(model(), ("age", "sex"))
    assert table.column_names == ["age", "sex", "count"]
    assert table.column("age").to_pylist() == ["[0, 20)"] * 3 + ["[20, 65]"] * 3
    assert table.column("sex").to_pylist() == ["F", "M", None] * 2
    np.testing.assert_allclose(table.column("count").to_numpy(), [2, 6, 10, 4, 8, 12])
    codes = arrow.marginal_to_arrow(model(), ("sex",), decode=False)
    assert codes.column("sex").to_pylist() == [0, 1, 2]
    np.testing.assert_allclose(codes.column("count").to_numpy(), [6, 14, 22])


def test_an_attribute_called_count():
    other = pj.GraphicalModel.from_potentials(pj.Domain({"count": 2}), {})
    with pytest.raises(ValueError, match="rename"):
        arrow.marginal_to_arrow(other, ("count",))


MEASURED = [
    pj.LinearMeasurement.released(pj.queries.marginal(("sex", "n")), np.arange(9), DiscreteGaussian(3.0)),
    pj.LinearMeasurement.released(
        pj.queries.kronecker({"n": pj.queries.prefix()}), [1, 2, 3], DiscreteLaplace(2.0)
    ),
    pj.LinearMeasurement(("n",), [5, 6, 7], stddev=[1.0, 2.0, 3.0]),
    pj.LinearMeasurement(("n",), [5, 6, 7], stddev=2.0, noise="laplace"),
]


def check(found):
    for one, other in zip(MEASURED, found, strict=True):
        assert (one.clique, one.query, one.noise, one.distribution) == (
            other.clique,
            other.query,
            other.noise,
            other.distribution,
        )
        assert one.flat_values().tolist() == other.flat_values().tolist()
        assert one.row_stddevs().tolist() == other.row_stddevs().tolist()
        assert other.values.dtype == np.int64
        other.validate(DOMAIN)


@pytest.mark.parametrize("through", [lambda table: table, polars.DataFrame], ids=["arrow", "polars"])
def test_measurements_go_round(through):
    table = through(arrow.measurements_to_arrow(MEASURED))
    check(arrow.measurements_from_arrow(table, [None, "prefix", None, None]))


def test_a_releases_file_is_read_back(tmp_path):
    import pyarrow.parquet

    write_measurements(MEASURED, tmp_path / "measurements.parquet", secure=True)
    table = pyarrow.parquet.read_table(tmp_path / "measurements.parquet")
    check(arrow.measurements_from_arrow(table, [m.query for m in MEASURED]))


def test_tables_without_scale_have_no_distributions():
    table = arrow.measurements_to_arrow(MEASURED[:1]).drop_columns(["scale"])
    (found,) = arrow.measurements_from_arrow(table)
    assert found.distribution is None and found.stddev == MEASURED[0].stddev


def test_bad_tables_of_measurements():
    table = arrow.measurements_to_arrow(MEASURED)
    with pytest.raises(ValueError, match="missing"):
        arrow.measurements_from_arrow(table.drop_columns(["row"]))
    with pytest.raises(ValueError, match="numbered"):
        arrow.measurements_from_arrow(table.take([0, 2, 1]))
    with pytest.raises(ValueError, match="numbered"):
        arrow.measurements_from_arrow(table.slice(1))
    with pytest.raises(ValueError, match="each of 4"):
        arrow.measurements_from_arrow(table, [None])
    mixed = pyarrow.table({"clique": [["n"], ["sex"]], "row": [0, 1], "value": [1, 2], "stddev": [1.0, 1.0]})
    with pytest.raises(ValueError, match="one clique"):
        arrow.measurements_from_arrow(mixed.append_column("noise", pyarrow.array(["gaussian"] * 2)))
    assert arrow.measurements_from_arrow(arrow.measurements_to_arrow([])) == []


def test_a_column_twice_is_refused():
    table = pyarrow.table([pyarrow.array([0]), pyarrow.array([1])], names=["n", "n"])
    with pytest.raises(ValueError, match="'n'"):
        arrow.rows_from_arrow(table, pj.Domain({"n": 3}))
