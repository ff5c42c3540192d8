"""Noisy answers that were published elsewhere: what is read, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pgmjax as pj
from pgmjax.measurements.published import read_measurements, read_published
from pgmjax.release.tables import write_measurements

DOMAIN = pj.Domain(
    {"sex": {"labels": ["F", "M"]}, "age": {"min": 0, "max": 59, "step": 20}, "job": {"size": 2}}
)


def published(tmp_path, text, **given):
    (tmp_path / "p.csv").write_text(text)
    return read_published(tmp_path / "p.csv", DOMAIN, **given)


def test_tables_by_names_values_and_stars(tmp_path):
    text = "age,sex,value,stddev,noise\n,F,50,3,laplace\n,M,40,4,laplace\n*,*,88,2,\n"
    text += "".join(
        f"{age},{sex},{k},1,\n"
        for k, (age, sex) in enumerate(
            [("40 to 59", "M"), ("0 to 19", "F"), ("25", "F"), ("25", "M"), ("0 to 19", "M"), ("41", "F")]
        )
    )
    found = published(tmp_path, text)
    sexes, total, both = found.measurements
    assert (sexes.clique, sexes.noise, sexes.values.tolist()) == (("sex",), "laplace", [50, 40])
    assert sexes.row_stddevs().tolist() == [3, 4]
    assert float(total.query.apply(np.ones(DOMAIN.shape_of(total.clique), np.int64)).sum()) == 2  # all cells
    assert both.clique == ("age", "sex") and both.values.tolist() == [[1, 4], [2, 3], [5, 0]]
    assert found.absent == (0, 0, 0) and found.tells_total


def test_rounding_adds_its_variance(tmp_path):
    rng = np.random.default_rng(0)
    true = rng.integers(100, 10_000, 200_000)
    rounded = 7 * np.round((true + rng.normal(0, 3, true.size)) / 7)
    told = published(tmp_path, "sex,value\nF,7\nM,14\n", stddev=3, rounded_to=7).measurements[0]
    assert np.std(rounded - true) == pytest.approx(float(told.row_stddevs()[0]), rel=0.01)
    by_column = published(tmp_path, "sex,value,stddev,rounded_to\nF,7,3,7\nM,14,3,\n").measurements[0]
    assert by_column.row_stddevs().tolist() == [pytest.approx(np.sqrt(9 + 49 / 12)), 3]


@pytest.mark.parametrize("word", ["Total", "total", "ALL", "*", ""])
def test_totals_as_tables_write_them(tmp_path, word):
    found = published(tmp_path, f"sex,age,value,stddev\n{word},{word},100,2\nF,{word},60,2\nM,{word},40,2\n")
    assert [each.clique for each in found.measurements] == [("sex",), ("sex",)]
    assert [each.values.tolist() for each in found.measurements] == [[100], [60, 40]]
    (tmp_path / "p.csv").write_text("word,value\ntotal,5\nother,7\n")
    labelled = pj.Domain({"word": {"labels": ["total", "other"]}})
    assert read_published(tmp_path / "p.csv", labelled, stddev=1).measurements[0].values.tolist() == [5, 7]


def test_a_history_takes_the_published_cells_alone(tmp_path):
    text = (
        "sex,age,value,stddev,noise\nF,,60,2,laplace\nM,,40,2,laplace\nF,0,10,3,laplace\nM,40,15,4,laplace\n"
    )
    found = published(tmp_path, text)
    history = pj.history.History(DOMAIN, found.answered)
    assert history.values.tolist() == [60, 40, 10, 15] and history.stddevs.tolist() == [2, 2, 3, 4]
    assert [each.noise for each in history.measurements] == ["laplace"] * 3
    table = np.arange(2 * 3, dtype=float).reshape(2, 3)
    assert [float(each.query.apply(table).sum()) for each in found.answered[1:]] == [0, 5]


def test_a_cell_that_was_not_published_follows_from_the_others(tmp_path):
    text = "sex,age,value\nF,,60\nM,,40\nF,0,10\nF,20,20\nM,0,5\nM,20,\nM,40,15\n"
    found = published(tmp_path, text, stddev=0.1)
    assert found.absent == (0, 2)
    model = pj.Estimator(dtype="float64", progress=False).fit(DOMAIN, found.measurements, 100).model
    assert np.allclose(model.marginal(("sex", "age")), [[10, 20, 30], [5, 20, 15]], atol=0.05)


def test_the_file_of_a_release(tmp_path):
    rng = np.random.default_rng(1)
    given = [
        pj.LinearMeasurement(("sex",), [5, 6], 2.0),
        pj.LinearMeasurement(("age", "job"), rng.integers(0, 9, (3, 2)), 1.5, noise="laplace"),
        pj.LinearMeasurement(("age", "job"), rng.integers(0, 9, (3, 2)), 0.5),
    ]
    write_measurements(given, tmp_path / "m.parquet")
    found = read_published(tmp_path / "m.parquet", DOMAIN)
    for one, other in zip(given, found.measurements, strict=True):
        assert (one.clique, one.noise) == (other.clique, other.noise) and (one.values == other.values).all()
        assert (one.row_stddevs() == other.row_stddevs()).all()
    both = [pj.LinearMeasurement(("age",), [1, 2, 3], 1.0, "prefix"), given[0]]
    write_measurements(both, tmp_path / "b.parquet")
    read = [read_measurements, lambda *given: read_published(*given).measurements]
    for one, other in [
        pair for f in read for pair in zip(both, f(tmp_path / "b.parquet", DOMAIN), strict=True)
    ]:
        assert one.query == other.query and (one.values == other.values).all()
        assert (one.row_stddevs() == other.row_stddevs()).all()
    with pytest.raises(ValueError, match="has 2 cells by the domain, and the file has a row 2"):
        write_measurements([pj.LinearMeasurement(("sex",), [1, 2, 3], 1.0)], tmp_path / "l.parquet")
        read_published(tmp_path / "l.parquet", DOMAIN)


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        ("sex,value,stddev\nF,1,2\nX,2,2\n", {}, r"'X' is no value of 'sex' in the domain \(row 2\)"),
        ("sex,height,value,stddev\nF,1,2,1\n", {}, "a column for each attribute"),
        ("sex,stddev\nF,1\n", {}, "the column value, its count"),
        ("sex,count\nF,1\n", {"stddev": 1}, "value.*count"),
        ("sex,age\nF,1\n", {"stddev": 1}, "^This looks like a table of records, which pgmjax release"),
        ("sex,value,stddev\nF,33%,1\n", {}, "got '33%': a count of records, not a share"),
        (
            "condition,answer,sd\nsex=F,1,2\n",
            {},
            "columns query, value and stddev .* query for condition, value for answer, stddev for sd",
        ),
        ("sex,value,stddev\nF,nan,1\nM,2,1\n", {}, "Row 1: value must be a finite number, got nan"),
        ("sex,value,stddev\nF,many,1\n", {}, "Row 1: value must be a number"),
        ("sex,value,stddev\nF,1,-2\n", {}, "Row 1: stddev must be > 0, got -2"),
        ("sex,value,stddev\nF,1,2\nM,2,few\n", {}, "Row 2: stddev must be a number"),
        ("sex,age,value,stddev\nF,,1,2\n,0,2,few\n", {}, "Row 2: stddev must be a number"),
        ("query,value,stddev\nsex=F,1,2\nsex=M,many,2\n", {}, "^Row 2: value must be a number"),
        ("query,value,stddev\nsex=F,1,2\nsex=M,1,few\n", {}, "^Row 2: stddev must be a number"),
        ("sex,value,stddev\nF,1,0\n", {}, "Row 1: stddev must be > 0, got 0"),
        ("sex,value\nF,1\nM,3\n", {}, r"Row 1 .* has no standard deviation"),
        ("sex,value\nF,1\nM,3\nF,1\n", {"stddev": 1}, "Rows 1 and 3 are of the same cell"),
        ("sex,value,stddev\nF,1,2\n", {"stddev": 1}, "has a column stddev: leave stddev= .--stddev. out"),
        ("sex,value\nF,\nM,\n", {"stddev": 1}, "No value was published of the table over sex"),
        ("sex,value,noise\nF,1,laplace\nM,1,gaussian\n", {"stddev": 1}, "noise of several kinds"),
        ("sex,value,noise\nF,1,cauchy\nM,1,cauchy\n", {"stddev": 1}, "noise of the table over sex"),
        ("sex,value\n", {"stddev": 1}, "holds no number"),
        ("sex,value\nF,1\n", {"stddev": -1}, "stddev.*-1"),
    ],
)
def test_what_is_refused(tmp_path, text, given, said):
    with pytest.raises(ValueError, match=said):
        published(tmp_path, text, **given)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sex,age,value\nF,0,1\nF,Zaphod,4,2\n", "row 2.*4.*3"),
        ("query,value\nsex=F,job=Zaphod,4\n", "row 1.*3"),
        ("Zaphod,Trillian\nF,1\n", "first line names no such column: is it a record"),
        ("sex,value\nZaphod,1\n", r"What the file has is no value of 'sex' in the domain \(row 1\)"),
        ("sex,value\nF,Zaphod\n", "Row 1: value must be a number such as 1180 or 0.5: leave the row out"),
        (b"sex,value\nZaphod\xe9,1\n", "UTF-8"),
        (b"sex,Zaphod\xe9\nF,1\n", "UTF-8"),
    ],
)
def test_what_may_be_a_table_of_records_is_not_quoted(tmp_path, text, said):
    (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=said) as caught:
        read_published(tmp_path / "t.csv", DOMAIN, stddev=1)
    error = caught.value
    while error is not None:
        assert "Zaphod" not in str(error)
        error = error.__context__


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        read_published(tmp_path / "none.csv", DOMAIN)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match=r"a\.parquet"):
        read_published(tmp_path / "a.parquet", DOMAIN)
    pq.write_table(
        pa.table({"clique": [["height"]], "row": [0], "value": [1.0], "stddev": [1.0]}),
        tmp_path / "b.parquet",
    )
    with pytest.raises(ValueError, match="height"):
        read_published(tmp_path / "b.parquet", DOMAIN)


def test_what_may_be_a_record_is_not_quoted(tmp_path):
    with pytest.raises(
        ValueError, match=r"'F', 'M': these are values and no attributes. A cross table"
    ) as told:
        published(tmp_path, "job,F,M\n0,90,80\n1,40,30\n", stddev=5)
    with pytest.raises(ValueError, match="This looks like a table of records") as told:
        published(tmp_path, "M,34\nF,71\n", stddev=5)  # no line of names: the first is a record
    assert "'M'" not in str(told.value) and "34" not in str(told.value)
    with pytest.raises(ValueError, match="Row 2: value is no multiple of rounded_to, 5") as told:
        published(tmp_path, "sex,value\nF,70\nM,7177\n", rounded_to=5)
    assert "7177" not in str(told.value)
