"""The canonical form of a value: the same in every type and store, and in SQL."""

import datetime
import decimal
import fractions

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmjax as pj
from pgmjax.data.arrow import encode_array, keys_of_array
from pgmjax.data.attribute import Attribute
from pgmjax.data.bounding import records_of
from pgmjax.data.encoding import OUTSIDE
from pgmjax.data.value import SPACES, key_of, number_of, shortest, sql_key_of_text
from pgmjax.discovery.probes import KeyCoder
from pgmjax.privacy.partition import FIRST

D = decimal.Decimal
WHOLE = st.one_of(st.integers(-(2**70), 2**70), st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 0]))


@given(WHOLE)
def test_a_whole_number_is_one_value_in_every_type(number):
    forms = [number, fractions.Fraction(number), D(number), D(f"{number}.000"), f" {number}", f"{number}.00"]
    forms += [
        dtype(number)
        for dtype in (np.int64, np.uint64)
        if np.iinfo(dtype).min <= number <= np.iinfo(dtype).max
    ]
    forms += [dtype(number) for dtype in (float, np.float32) if int(dtype(number)) == number]
    assert {key_of(form) for form in forms} == {str(number)}


@given(st.integers(-(10**6), 10**6), st.integers(1, 4))
def test_a_decimal_fraction_is_one_value_in_every_precision(digits, places):
    exact = fractions.Fraction(digits, 10**places)
    value = D(digits).scaleb(-places)
    assert key_of(value) == key_of(float(exact))
    if abs(digits) < 10**6:  # six digits survive single precision
        assert key_of(np.float32(float(exact))) == key_of(value)
        assert shortest(np.array([float(exact)], np.float32)).tolist() == [float(exact)]


def test_single_precision_by_shortest_notation_of_numpy():
    drawn = np.random.default_rng(0).integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    for value in drawn[np.isfinite(drawn)]:
        number = number_of(value)
        assert np.float32(number) == value and (
            isinstance(number, int) or str(number) == str(float(str(value)))
        )


def test_no_two_values_are_merged():
    big = 2**53
    forms = [
        big,
        big + 1,
        big + 2,
        D(big) + D("0.5"),
        0.1,
        D("0.10000000000000000001"),
        "01",
        "1",
        True,
        "1.10",
    ]
    forms += ["1.1 ", 1e23, 10**23, datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5), "x", "X"]
    assert len({key_of(form) for form in forms}) == len(forms)


def test_moments_are_one_value_in_every_unit_and_zone():
    noon = datetime.datetime(2020, 1, 1, 12)
    zoned = pd.Timestamp("2020-01-01 13:00", tz="Europe/Paris")
    for form in (
        noon,
        zoned,
        np.datetime64("2020-01-01T12"),
        np.datetime64(noon, "ns"),
        "2020-01-01 12:00:00.0",
    ):
        assert key_of(form) == "2020-01-01T12:00:00"
    for form in (datetime.date(2020, 1, 1), pd.Timestamp("2020-01-01"), "2020-01-01T00:00", "2020-01-01"):
        assert key_of(form) == "2020-01-01"
    assert key_of(pd.NaT) is key_of(np.datetime64("NaT")) is key_of(pd.NA) is key_of(float("nan")) is None


TEXTS = st.one_of(
    st.text(st.sampled_from("-01.0 5T:trueTRUE\t\xa0é'"), max_size=9),
    st.from_regex(r"\s?-?[01]{1,3}(\.[0-9]{0,3})?\s?", fullmatch=True),
    st.from_regex(r"2020-01-0[12][ T](00|05):(00|30)(:(00|10)(\.[05]{1,3})?)?", fullmatch=True),
)


CONNECTION = duckdb.connect()


@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_duckdb_reads_texts_alike(texts):
    query = f"SELECT {sql_key_of_text('column0')} FROM texts"
    texts_table = pa.table({"column0": pa.array(texts, pa.string())})
    with CONNECTION.cursor() as connection:
        connection.register("texts", texts_table)
        assert [row[0] for row in connection.execute(query).fetchall()] == [key_of(text) for text in texts]
    assert keys_of_array(texts_table["column0"].combine_chunks()).to_pylist() == [
        key_of(text) for text in texts
    ]
    assert all(text.strip() == text.strip(SPACES) for text in texts)


VALUES = st.one_of(
    st.none(), st.integers(-3, 3), st.floats(), TEXTS, st.sampled_from([D("1.50"), D("2"), np.float32(0.1)]),
    st.dates(), st.datetimes(), st.sampled_from([2**53 + 1, "007", "a"]),
)  # fmt: skip


@given(st.lists(VALUES, max_size=30))
def test_found_labels_read_what_was_counted(values):
    """Whatever is found: each value has the label of its key, and a value whose key is none has none."""
    keys = KeyCoder(("NA",))
    codes = keys.raw_codes(values)
    labels = keys.keys[::2]
    if not labels:
        return
    found = Attribute.from_spec("x", {"labels": labels, "missing": ["NA"]}).coder
    for value, code in zip(values, codes.tolist(), strict=True):
        if code >= FIRST:
            wanted = (code - FIRST) // 2 if (code - FIRST) % 2 == 0 else OUTSIDE
            assert found.raw_code(value) == wanted


WIDE = [2**53, 2**53 + 1, None, 2**53 + 2, 2**53 + 1]


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars", "arrow", "object", "decimal"])
def test_units_beyond_53_bits_are_told_apart(tmp_path, kind):
    table = pa.table({"who": pa.array(WIDE, pa.int64()), "a": [0, 1, 0, 1, 0]})
    domain, unit = pj.Domain({"a": 2}), pj.Unit("who", 1)
    if kind == "decimal":
        table = table.set_column(0, "who", table["who"].cast(pa.decimal128(21, 0)).cast(pa.decimal128(23, 2)))
    if kind in ("csv", "parquet", "decimal"):
        path = tmp_path / f"t.{'parquet' if kind == 'decimal' else kind}"
        if kind == "csv":
            pd.DataFrame({"who": pd.Series(WIDE, dtype="Int64"), "a": [0, 1, 0, 1, 0]}).to_csv(
                path, index=False
            )
        else:
            pq.write_table(table, path)
        data = pj.Dataset.read(path, domain, unit=unit)
    else:
        frame = {
            "pandas": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
            "polars": lambda: pl.from_arrow(table),
            "arrow": lambda: table,
            "object": lambda: pd.DataFrame({"who": np.array(WIDE, dtype=object), "a": [0, 1, 0, 1, 0]}),
        }[kind]()
        data = pj.Dataset.from_frame(domain, frame, unit=unit)
    assert data.count() == 4  # three persons, one of them with two records, and a record of nobody known


def test_units_that_pandas_rounded_are_refused():
    frame = pd.DataFrame({"who": WIDE, "a": [0, 1, 0, 1, 0]})
    assert frame["who"].dtype == np.float64
    with pytest.raises(ValueError, match="too large to be told apart"):
        pj.Dataset.from_frame(pj.Domain({"a": 2}), frame, unit=pj.Unit("who", 1))
    assert records_of(pa.array([1.0, 2.0, None])).names == records_of(["1", 2, None]).names == [b"1", b"2"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "decimal128(5, 2)", "string"])
def test_cells_and_labels_are_alike_in_every_type(dtype):
    kinds = {"decimal128(5, 2)": pa.decimal128(5, 2), "string": pa.string(), "int64": pa.int64()}
    kind = kinds.get(dtype) or pa.from_numpy_dtype(dtype)
    numbers = [0, 1, 2] if dtype == "int64" else [D("0.1"), D("0.7"), D("1")]
    array = pa.array([str(n) for n in numbers]) if dtype == "string" else pa.array(
        np.array([float(n) for n in numbers], dtype) if dtype.startswith("float") else numbers, kind
    )  # fmt: skip
    for values, spec in (
        (numbers, {"labels": [float(n) for n in numbers]}),
        (numbers, {"labels": [str(n) for n in numbers]}),
        (numbers, {"bins": [float(n) for n in numbers] + [9]}),
    ):
        coder = Attribute.from_spec("x", spec).coder
        assert (
            encode_array(coder, array).codes.tolist()
            == [0, 1, 2]
            == coder.encode_objects(values).codes.tolist()
        )
