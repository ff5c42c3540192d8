"""Raw values become codes by the same rules, one by one and by the column."""

import datetime
import decimal

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pgmjax.data.encoding import MISSING, OUTSIDE, UNREADABLE, Coder, code_dtype, text_of

KINDS = {
    "codes": {"size": 7},
    "codes, missing": {"size": 7, "missing": True},
    "codes, marker": {"size": 7, "missing": True, "markers": (99, -1)},
    "many codes": {"size": 1000},
    "labels": {"size": 4, "labels": (0, 3, -100, 1000)},
    "labels, missing": {"size": 5, "labels": (0, 3, -100, True), "missing": True, "markers": (7,)},
    "float labels": {"size": 3, "labels": (0.5, 3, 100.0)},
    "bins": {"size": 2, "bins": (0.0, 3.0, 100.0)},
    "bins, missing": {"size": 3, "bins": (-3.0, 3.0, 100.0), "missing": True, "markers": (99,)},
    "bins, clipped": {"size": 2, "bins": (0.0, 3.0, 100.0), "clip": True},
}
NAN = float("nan")
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


def expected(kind, values, nulls):
    """Value by value: codes, rows outside, rows without a value and without a bucket for it."""
    settings = {"labels": None, "bins": None, "missing": False, "markers": (), "clip": False, **KINDS[kind]}
    size, missing = settings["size"], settings["missing"]
    rules = Coder(**settings)
    raw = [MISSING if null else rules.raw_code(value) for value, null in zip(values, nulls, strict=True)]
    if missing:
        raw = [size - 1 if code == MISSING else code for code in raw]
    return [max(code, 0) for code in raw], raw.count(OUTSIDE), raw.count(MISSING)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_columns_follow_the_rules_of_values(kind, data):
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    near = st.sampled_from([0, 1, 2, 3, 6, 7, 50, 99, 100])
    elements = st.one_of(near.map(dtype.type), arrays.from_dtype(dtype))
    values = data.draw(arrays.arrays(dtype, st.integers(0, 12), elements=elements))
    nulls = data.draw(arrays.arrays(bool, len(values)))
    null = nulls if data.draw(st.booleans()) else None
    coder = Coder(**KINDS[kind])
    there = ~np.zeros(len(values), bool) if null is None else ~null
    if dtype.kind == "b" and kind == "float labels" and there.any():
        with pytest.raises(TypeError, match="none of them is a bool"):
            coder.encode_numbers(values, null)
        return
    encoded = coder.encode_numbers(values, null)
    codes, outside, missing = expected(kind, values, np.zeros(len(values), bool) if null is None else nulls)
    assert encoded.codes.tolist() == codes
    assert (encoded.outside, encoded.missing) == (outside, missing)
    assert encoded.codes.dtype == code_dtype(coder.size)


@pytest.mark.parametrize(
    ("value", "code"), [(0, 0), (2.5, 0), (3, 1), (99, 1), (100, 1), (100.5, OUTSIDE), (-0.5, OUTSIDE)]
)
def test_a_bin_has_its_lower_edge_and_the_last_one_both(value, code):
    coder = Coder(**KINDS["bins"])
    encoded = coder.encode_numbers(np.array([float(value)]), None)
    assert coder.raw_code(value) == code
    assert (encoded.outside, encoded.codes.tolist()) == (code == OUTSIDE, [max(code, 0)])


@pytest.mark.parametrize("kind", KINDS)
@given(
    values=st.lists(
        st.one_of(
            st.none(),
            st.integers(-101, 1001),
            st.floats(),
            st.booleans(),
            st.sampled_from(["3", "", "x", "0.5"]),
        )
    )
)
def test_objects_follow_the_rules_of_values(kind, values):
    if kind == "float labels" and {type(v) for v in values if v is not None and v == v} == {bool}:
        with pytest.raises(TypeError, match="of type bool, and it has labels, and none of them is a bool"):
            Coder(**KINDS[kind]).encode_objects(values)
        return
    encoded = Coder(**KINDS[kind]).encode_objects(values)
    codes, outside, missing = expected(kind, values, [False] * len(values))
    assert encoded.codes.tolist() == codes
    assert (encoded.outside, encoded.missing) == (outside, missing)


def test_objects_that_cannot_be_looked_up_are_outside():
    assert Coder(3).encode_objects([1, [1], {}]).outside == 2


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        ({"size": 3}, [[1], None, {}], r"dict and list.*0\.\.2"),
        ({"size": 3}, [datetime.timedelta(1)], r"timedelta.*0\.\.2"),
        ({"size": 3, "labels": ("a", "b"), "other": True}, [1, 2.5, None, NAN], "float and int"),
        ({"size": 3, "labels": ("a", "b"), "other": True}, [b"a", b"b"], "bytes"),
        ({"size": 3, "labels": (1, 2), "other": True}, [datetime.date(2020, 1, 1)], "none of them is a date"),
        ({"size": 2, "labels": ("01", "nan")}, [1, NAN], "none of them is a number"),
        (
            {"size": 2, "labels": ("2020-13-01", "2020")},
            [datetime.date(2020, 1, 1)],
            "none of them is a date",
        ),
        ({"size": 2, "bins": (0.0, 1.0, 2.0), "clip": True}, [1j], "complex"),
    ],
)
def test_objects_of_which_none_can_match_are_refused_before_other_applies(settings, values, message):
    with pytest.raises(TypeError, match=message):
        Coder(**settings).encode_objects(values)
    assert Coder(**settings).encode_objects([*values, "1"]).codes.size == len(values) + 1


def test_integers_beyond_64_bits_signed():
    top = np.array([2**64 - 1, 2**63, 5], dtype=np.uint64)
    assert Coder(6).encode_numbers(top).outside == 2
    assert Coder(2, labels=(5, 2**64 - 1)).encode_numbers(top).codes.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("size", "dtype"), [(1, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4"), (2**33, "u8")]
)
def test_smallest_type(size, dtype):
    assert code_dtype(size) == np.dtype(dtype)
    assert Coder(size).encode_numbers(np.array([size - 1])).codes.tolist() == [size - 1]


def test_wide_ranges_of_labels():
    values = np.array([0, 10**9, 5, -(2**62)])
    encoded = Coder(3, labels=(0, 10**9, -(2**62))).encode_numbers(values)
    assert encoded.codes.tolist() == [0, 1, 0, 2] and encoded.outside == 1


def test_wide_ranges_of_bins_keep_their_markers():
    coder = Coder(3, bins=(0.0, 3.0, 1e9), missing=True, markers=(999_999,))
    encoded = coder.encode_numbers(np.array([0, 10**9, 999_999, -1, 3]))
    assert encoded.codes.tolist() == [0, 1, 2, 0, 1] and encoded.outside == 1


CODES = Coder(12)
MARKED = Coder(12, markers=(99, "n/a"))
WORDS = Coder(3, ("a", "", "1"), markers=("?",))
WRITTEN = Coder(3, ("1.50", "2024-05-01", "cafe\u0301"))
NUMBERS = Coder(3, (1, 2.5, "x"), markers=(-9,))
FLAGS = Coder(2, (False, True))
BINS = Coder(2, bins=(0.0, 10.0, 20.0), markers=(99,))
CLIPPED = Coder(2, bins=(0.0, 10.0, 20.0), clip=True)


@pytest.mark.parametrize(
    ("rules", "value", "code"),
    [
        # integer codes: whole numbers of any type, and text that is one
        *[(CODES, value, 7) for value in (7, np.int8(7), np.uint64(7), "7", " 7\t", "+7", "07")],
        *[(CODES, value, 7) for value in (7.0, np.float32(7), "7.0", decimal.Decimal("7.00"))],
        *[(CODES, value, OUTSIDE) for value in (12, -1, 7.5, "7.5")],
        *[(CODES, value, UNREADABLE) for value in ("abc", "7e0", "1_1", "-", "7 7", "\u0667", "0x7")],
        *[(CODES, value, 7) for value in ("7e+00", "7.000000000000000000e+00")],  # as programs write floats
        *[(CODES, value, OUTSIDE) for value in ("inf", "9" * 30, b"7", [7], 7j)],
        *[(CODES, value, MISSING) for value in (None, "", "  ", NAN, np.nan, pandas.NA, pandas.NaT, "nan")],
        *[(MARKED, value, MISSING) for value in (99, "99", 99.0, "n/a", " n/a")],
        (MARKED, "N/A", UNREADABLE),
        (MARKED, 98, OUTSIDE),
        # labels that are text: text, and what has it as its canonical form
        (WORDS, "a", 0),
        (WORDS, " a ", 0),
        (WORDS, np.str_("a"), 0),
        (WORDS, "A", OUTSIDE),
        (WORDS, "", 1),
        (WORDS, None, MISSING),
        (WORDS, "?", MISSING),
        (WORDS, "1", 2),
        *[(WORDS, value, 2) for value in ("1.0", 1, 1.0, np.float32(1), decimal.Decimal("1.0"))],
        *[(WORDS, value, OUTSIDE) for value in ("01", "1e0", 2, True, "TRUE")],
        (WORDS, "nan", MISSING),  # one of its labels is a number
        (WORDS, "1e+00", 2),
        # texts that programs write: decimals with zeros, moments with a zone, letters in parts
        *[(WRITTEN, value, 0) for value in ("1.5", "1.50", "1.500", 1.5, decimal.Decimal("1.5"), "1.5e+00")],
        *[(WRITTEN, value, 1) for value in ("2024-05-01", "2024-05-01 02:00:00+02:00", "2024-05-01T00:00Z")],
        *[(WRITTEN, value, 2) for value in ("caf\u00e9", "cafe\u0301", " caf\u00e9\u00a0")],
        *[(WRITTEN, value, OUTSIDE) for value in ("01.5", "1.5e0", "2024-05-01 02:00:00", "cafe", "1.05")],
        # labels that are numbers: by equality, and text that reads so
        *[(NUMBERS, value, 0) for value in (1, 1.0, True, "1", "1.0", "01", "1e0", np.int64(1))],
        *[(NUMBERS, value, 1) for value in (2.5, "2.5", "2.50", np.float32(2.5))],
        (NUMBERS, "x", 2),
        *[(NUMBERS, value, MISSING) for value in (-9, "-9", "-9.0", "", NAN, "nan")],
        *[
            (NUMBERS, value, OUTSIDE)
            for value in (2, "y", "2,5", decimal.Decimal(7), datetime.date(2020, 1, 1))
        ],
        *[(FLAGS, value, 1) for value in (True, np.True_, 1, "true", "True", "TRUE", "1")],
        *[(FLAGS, value, 0) for value in (False, 0, "false", "0.0")],
        *[(FLAGS, value, OUTSIDE) for value in ("yes", "t", 2)],
        # bins: half-open, the last one closed
        *[(BINS, value, 0) for value in (0, -0.0, 9.999, "0", " .5", "5.", "1E0", np.float32(5))],
        *[(BINS, value, 1) for value in (10, 20, 20.0, "20", True + 14)],
        *[(BINS, value, OUTSIDE) for value in (-1e-9, 20.001, float("inf"), "inf", "-Infinity")],
        *[(BINS, value, UNREADABLE) for value in ("abc", "1_0", "5%", [1], datetime.date(2020, 1, 1))],
        *[(BINS, value, MISSING) for value in (None, NAN, "", "nan", "NaN", 99, "99", "99.0")],
        *[(CLIPPED, value, 0) for value in (-5, float("-inf"), "-1e400")],
        *[(CLIPPED, value, 1) for value in (99, 20, float("inf"), "inf", 10**400)],
        (CLIPPED, -(10**400), 0),
        *[(CLIPPED, value, MISSING) for value in (None, NAN, "")],
    ],
)
def test_raw_code(rules, value, code):
    assert rules.raw_code(value) == code


def test_text_of():
    assert [text_of(value) for value in (" a ", 1, 1.5, True)] == ["a", "1", "1.5", "true"]


TINY = decimal.Decimal("1e-20")


@pytest.mark.parametrize(
    ("rules", "value", "code"),
    [
        (CODES, 3 + TINY, OUTSIDE),
        (CODES, 3 - TINY, OUTSIDE),
        (CODES, str(3 + TINY), OUTSIDE),
        (Coder(4, clip=True), 3 + TINY, OUTSIDE),
        (Coder(3, clip=True), 3 + TINY, 2),
        (Coder(1, bins=(0.0, 1e18), markers=(10**16 - 1,)), 10**16 - 1, MISSING),
        (Coder(1, bins=(0.0, 1e18), markers=(10**16 - 1,)), 10**16, 0),
        (Coder(1, bins=(0.0, 1e18), markers=(10**16 - 1,)), str(10**16), 0),
        (Coder(1, bins=(0.0, 2.0**53)), 2**53, 0),
        (Coder(1, bins=(0.0, 2.0**53)), 2**53 + 1, OUTSIDE),
    ],
)
def test_numbers_between_floats_are_none_of_their_neighbours(rules, value, code):
    assert rules.raw_code(value) == code
    assert rules.raw_codes([value, None]).tolist() == [code, MISSING]
