import datetime
import decimal

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.data.arrow import column_names, encode_array, encode_column
from pgmjax.data.encoding import Coder

WORDS = Coder(3, labels=("a", "b"), missing=True, markers=("?",))
FLAGS = Coder(2, labels=(False, True))
CODES = Coder(4, missing=True)
BINS = Coder(3, bins=(0.0, 10.0, 20.0), missing=True, markers=("?", 99))


@pytest.mark.parametrize(
    ("coder", "array", "codes"),
    [
        (WORDS, pa.array(["a", None, "b", "?"]), [0, 2, 1, 2]),
        (WORDS, pa.array(["a", None, "b"], pa.large_string()), [0, 2, 1]),
        (WORDS, pa.array(["a", None, "b"], pa.string_view()), [0, 2, 1]),
        (WORDS, pa.array(["b", None, "a"]).dictionary_encode(), [1, 2, 0]),
        (
            WORDS,
            pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array(["unused", "b"]).take([1, 1])),
            [1, 1, 2],
        ),
        (
            WORDS,
            pa.DictionaryArray.from_arrays(pa.array([1, 2]), pa.array(["outside, unused", "b", None])),
            [1, 2],
        ),
        (WORDS, pa.nulls(2), [2, 2]),
        (FLAGS, pa.array([True, False]), [1, 0]),
        (FLAGS, pa.array([1, 0], pa.int8()), [1, 0]),
        (FLAGS, pa.array(["TRUE", "false"]), [1, 0]),
        (CODES, pa.array([2, None, 0], pa.int64()), [2, 3, 0]),
        (CODES, pa.array([2, None, 0], pa.uint8())[1:], [3, 0]),
        (CODES, pa.array([2.0, None, -0.0, float("nan")]), [2, 3, 0, 3]),
        (CODES, pa.array([decimal.Decimal("2.00"), None]), [2, 3]),
        (CODES, pa.array(["2", "", " 0"]), [2, 3, 0]),
        (CODES, pa.array([2, None, 0]).dictionary_encode(), [2, 3, 0]),
        (BINS, pa.array([0.5, None, float("nan"), 20.0, 99.0]), [0, 2, 2, 1, 2]),
        (BINS, pa.array(np.array([5, 15], np.float16)), [0, 1]),
        (BINS, pa.array([decimal.Decimal("9.99"), None, decimal.Decimal("10.00")]), [0, 2, 1]),
        (BINS, pa.array([" 9.5", "1e1", "?", "", "nan", None, "99"]), [0, 1, 2, 2, 2, 2, 2]),
        (BINS, pa.array(["9.5", "10"], pa.string_view()), [0, 1]),
        (BINS, pa.array(["9.5", "10", "9.5"]).dictionary_encode(), [0, 1, 0]),
    ],
)
def test_arrays(coder, array, codes):
    encoded = encode_array(coder, array)
    assert encoded.codes.tolist() == codes
    assert (encoded.outside, encoded.missing) == (0, 0)


@pytest.mark.parametrize(
    ("coder", "array", "outside", "missing"),
    [
        (FLAGS, pa.array([True, None, None]), 0, 2),
        (FLAGS, pa.array(["yes", "True", ""]), 1, 1),
        (WORDS, pa.array(["c", "A", "a", "c"]).dictionary_encode(), 3, 0),
        (CODES, pa.array([3, -1, 2]), 2, 0),
        (CODES, pa.array(["1.5", "x", "1.0"]), 2, 0),
        (CODES, pa.array([1.5, 1.0, 3.0, None]), 2, 0),
        (BINS, pa.array(["9.5", "abc", "21"]), 2, 0),
        (BINS, pa.array(["+9.5", "0x1p3", "1_0"]), 2, 0),
        (Coder(1, bins=(0.0, 1.0)), pa.array(["0.5", "", None, "nan"]), 0, 3),
        (Coder(1, bins=(0.0, 1.0)), pa.nulls(2), 0, 2),
    ],
)
def test_rows_without_a_code_are_counted(coder, array, outside, missing):
    encoded = encode_array(coder, array)
    assert (encoded.outside + encoded.unreadable, encoded.missing) == (outside, missing)


@pytest.mark.parametrize(
    ("coder", "array", "message"),
    [
        (CODES, pa.array([datetime.date(2020, 1, 1)]), r"date32\[day\].*0\.\.2"),
        (BINS, pa.array([datetime.date(2020, 1, 1)]), r"date32\[day\]"),
        (WORDS, pa.array([1, 2]), "int64.*labels"),
        (WORDS, pa.array([decimal.Decimal("1.5")]), r"decimal128\(2, 1\)"),
        (WORDS, pa.array([b"a"]), "binary"),
        (WORDS, pa.array([["a"]]), "list"),
    ],
)
def test_types_that_no_attribute_takes(coder, array, message):
    with pytest.raises(TypeError, match=message) as caught:
        encode_array(coder, array)
    assert "2020" not in str(caught.value)


@given(
    st.lists(st.one_of(st.floats(), st.integers(-30, 30)).map(str) | st.text("0123.eE+-_ nafi?x", max_size=6))
)
def test_numbers_in_text_read_the_same_at_once_and_one_by_one(texts):
    at_once, one_by_one = encode_array(BINS, pa.array(texts, pa.string())), BINS.encode_objects(texts)
    assert at_once.codes.tolist() == one_by_one.codes.tolist()
    assert (at_once.outside, at_once.missing) == (one_by_one.outside, one_by_one.missing)


def frames():
    words, numbers = ["a", None, "b", "a"], [0.5, 10.0, None, 20.0]
    pandas_frame = pandas.DataFrame({"w": words, "x": numbers})
    polars_frame = polars.DataFrame({"w": words, "x": numbers})
    table = pa.table({"w": words, "x": numbers})
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    enum = polars_frame.with_columns(polars.col("w").cast(polars.Enum(["other", "b", "a"])))
    return {
        "pandas": pandas_frame,
        "pandas object": pandas_frame.astype({"w": object}),
        "pandas category": pandas_frame.astype({"w": "category"}),
        "pandas arrow": pandas_frame.astype({"w": "string[pyarrow]", "x": "float64[pyarrow]"}),
        "pandas mixed": pandas.DataFrame({"w": words, "x": np.array([0.5, "10", "?", 20], dtype=object)}),
        "polars": polars_frame,
        "polars categorical": polars_frame.with_columns(polars.col("w").cast(polars.Categorical)),
        "polars enum": enum,
        "polars object": polars_frame.with_columns(polars.Series("w", words, dtype=polars.Object)),
        "polars decimal": polars_frame.with_columns(polars.col("x").cast(polars.Decimal(10, 2))),
        "arrow": table,
        "arrow chunks": chunked,
        "arrow dictionaries": chunked.set_column(0, "w", chunked["w"].dictionary_encode()),
        "arrow batch": pa.RecordBatch.from_pydict({"w": words, "x": numbers}),
    }


@pytest.mark.parametrize("kind", frames())
def test_frames(kind):
    frame = frames()[kind]
    assert column_names(frame) == ["w", "x"]
    assert encode_column(frame, "w", WORDS).codes.tolist() == [0, 2, 1, 0]
    assert encode_column(frame, "x", BINS).codes.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize(
    "frame", [{"w": [1]}, [1], polars.LazyFrame({"w": [1]}), polars.Series([1]), pandas.Series([1])]
)
def test_what_is_no_frame(frame):
    with pytest.raises(TypeError, match="must be a pandas or polars DataFrame or an Arrow table, got"):
        column_names(frame)


def test_empty_frames():
    for frame in (
        pa.table({"w": pa.array([], pa.string())}),
        polars.DataFrame({"w": []}),
        pandas.DataFrame({"w": []}),
    ):
        assert len(encode_column(frame, "w", WORDS).codes) == 0
    assert len(encode_column(pa.table({"w": pa.chunked_array([], pa.string())}), "w", WORDS).codes) == 0
