import datetime
import decimal

import numpy as np
import pandas
import pytest

from pgmjax.data.values import MISSING, OUTSIDE, ValueRules, text_of

CODES = ValueRules(12, None, None, (), False)
MARKED = ValueRules(12, None, None, (99, "n/a"), False)
WORDS = ValueRules(3, ("a", "", "1"), None, ("?",), False)
NUMBERS = ValueRules(3, (1, 2.5, "x"), None, (-9,), False)
FLAGS = ValueRules(2, (False, True), None, (), False)
BINS = ValueRules(2, None, (0.0, 10.0, 20.0), (99,), False)
CLIPPED = ValueRules(2, None, (0.0, 10.0, 20.0), (), True)
NAN = float("nan")


@pytest.mark.parametrize(
    ("rules", "value", "code"),
    [
        # integer codes: integers, and text that is one to the letter
        *[(CODES, value, 7) for value in (7, np.int8(7), np.uint64(7), "7", " 7\t", "+7", "07")],
        *[
            (CODES, value, OUTSIDE)
            for value in (12, -1, 7.0, np.float32(7), "7.0", "7.5", "abc", "7e0", "1_1")
        ],
        *[(CODES, value, OUTSIDE) for value in ("nan", "-", "7 7", "\u0667", "0x7", "9" * 30, b"7", [7], 7j)],
        *[(CODES, value, MISSING) for value in (None, "", "  ", NAN, np.nan, pandas.NA, pandas.NaT)],
        *[(MARKED, value, MISSING) for value in (99, "99", 99.0, "n/a", " n/a")],
        (MARKED, "N/A", OUTSIDE),
        (MARKED, 98, OUTSIDE),
        # labels that are text: text only
        (WORDS, "a", 0),
        (WORDS, " a ", 0),
        (WORDS, np.str_("a"), 0),
        (WORDS, "A", OUTSIDE),
        (WORDS, "", 1),
        (WORDS, None, MISSING),
        (WORDS, "?", MISSING),
        (WORDS, "1", 2),
        (WORDS, "1.0", OUTSIDE),
        (WORDS, "nan", OUTSIDE),
        (WORDS, 1, OUTSIDE),
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
        *[
            (BINS, value, OUTSIDE)
            for value in (-1e-9, 20.001, float("inf"), "inf", "-Infinity", "abc", "1_0", "5%")
        ],
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
