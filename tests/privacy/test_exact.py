"""Privacy parameters are exact: nothing is lost or gained by rounding."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.privacy import exact as b


@pytest.mark.parametrize(
    "value", [0.1, "0.1", " 1/10 ", "1e-1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1), np.float32(0.1)]
)
def test_a_tenth_is_a_tenth(value):
    assert b.exact_epsilon(value) == Fraction(1, 10)


def test_ten_tenths_are_one_although_floats_are_not():
    added = 0.0
    for _ in range(10):  # `sum` makes up for rounding from Python 3.12 on
        added += 0.1
    assert added != 1.0
    assert sum(b.exact_epsilon(0.1) for _ in range(10)) == 1


@pytest.mark.parametrize("value", [1, np.int64(1), "1", 1.0])
def test_whole_numbers(value):
    assert b.exact_epsilon(value) == 1


BAD = [
    (math.nan, ValueError, "finite"),
    (math.inf, ValueError, "finite"),
    (-math.inf, ValueError, "finite"),
    (np.float64("nan"), ValueError, "finite"),
    (Decimal("NaN"), ValueError, "finite"),
    ("nan", ValueError, "finite"),
    ("inf", ValueError, "finite"),
    ("1e999999999", ValueError, "between"),
    ("1e" + "9" * 30, ValueError, "between"),
    ("1e-" + "9" * 30, ValueError, "between"),
    (Decimal("1e999999"), ValueError, "between"),
    ("1" * 1001, ValueError, "at most 1000 characters, got 1001"),
    ("1_0", ValueError, "must be a number"),
    ("1e1_0", ValueError, "must be a number"),
    ("\uff11", ValueError, "must be a number"),
    ("\u0661/3", ValueError, "must be a number"),
    ("0x10", ValueError, "must be a number"),
    ("1 0", ValueError, "must be a number"),
    (".", ValueError, "must be a number"),
    ("e5", ValueError, "must be a number"),
    ("junk", ValueError, "must be a number"),
    ("10^-6", ValueError, "1e-6"),
    ("10**-9", ValueError, "1e-9"),
    ("5%", ValueError, "0.05"),
    ("", ValueError, "must be a number"),
    ("1/0", ValueError, "division by zero"),
    ("1/2/3", ValueError, "must be a number"),
    (True, TypeError, "bool"),
    (np.True_, TypeError, "bool"),
    (None, TypeError, "NoneType"),
    (1 + 0j, TypeError, "complex"),
    ([1], TypeError, "list"),
]


@pytest.mark.parametrize(
    "name, check", [("epsilon", b.exact_epsilon), ("rho", b.exact_rho), ("delta", b.exact_delta)]
)
@pytest.mark.parametrize("value, error, words", BAD)
def test_what_is_no_number_is_refused(name, check, value, error, words):
    with pytest.raises(error, match=words) as caught:
        check(value)
    assert name in str(caught.value)


@pytest.mark.parametrize("check", [b.exact_epsilon, b.exact_rho])
@pytest.mark.parametrize("value", [0, 0.0, -0.0, "0", -1, -0.1, "-1/3"])
def test_epsilon_and_rho_are_positive(check, value):
    with pytest.raises(ValueError, match="must be > 0"):
        check(value)


@pytest.mark.parametrize(
    "name, check", [("epsilon", b.exact_epsilon), ("rho", b.exact_rho), ("delta", b.exact_delta)]
)
@pytest.mark.parametrize(
    "value",
    ["1e-350", 5e-324, pytest.param(Fraction(1, 10**5000), id="huge"), "1e-300/1e300", Decimal("1e-308")],
)
def test_what_is_below_the_normal_floats_is_refused(name, check, value):
    with pytest.raises(
        ValueError, match=f"{name} must be .*at least 2.2250738585072014e-308, the least normal"
    ):
        check(value)


@pytest.mark.parametrize("check", [b.exact_epsilon, b.exact_rho])
@pytest.mark.parametrize(
    "value", ["1e309", pytest.param(10**5000, id="huge"), pytest.param(Fraction(10**400, 3), id="long")]
)
def test_what_is_above_the_floats_is_refused(check, value):
    with pytest.raises(ValueError, match=r"must be at most 1\.797.*, the largest 64-bit float"):
        check(value)


@pytest.mark.parametrize("check", [b.exact_epsilon, b.exact_rho, b.exact_delta])
def test_the_least_normal_float_is_taken(check):
    assert float(check(2.2250738585072014e-308)) == 2.2250738585072014e-308


@pytest.mark.parametrize("text, value", [("+1.", 1), (".5", Fraction(1, 2)), ("1E+2", 100), ("+1/+4", 0.25)])
def test_plain_text_is_taken(text, value):
    assert b.exact("x", text) == value


@pytest.mark.parametrize("text", ["0e999999999", "0e-999999999", "0.000", "-0", "0/5"])
def test_zero_is_zero_whatever_its_exponent(text):
    assert b.exact("x", text) == 0


@pytest.mark.parametrize("value", [-1e-9, 1, "1", 2])
def test_delta_is_below_one(value):
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
        b.exact_delta(value)


def test_delta_zero_is_pure():
    assert b.exact_delta(0) == b.exact_delta(0.0) == b.exact_delta("0") == 0


@given(st.fractions())
def test_text_is_exact(value):
    assert b.exact("x", b.as_text(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=9))
def test_text_of_decimals_is_decimal(value):
    text = b.as_text(Fraction(value))
    assert "/" not in text and Decimal(text) == value


@given(st.fractions(min_value=Fraction(1, 10**9)), st.lists(st.fractions(min_value="1/1000"), min_size=1))
def test_split_is_exact(total, weights):
    parts = b.split(total, weights)
    assert sum(parts) == total
    assert all(part * weights[0] == parts[0] * weight for part, weight in zip(parts, weights, strict=True))


def test_split_between_thousands():
    """Each part costs one multiplication: sums taken anew for each would take minutes here."""
    weights = [Fraction(k, 1000) for k in range(1, 6001)]
    parts = b.split(Fraction(1), weights)
    assert sum(parts) == 1 and parts[-1] == 6000 * parts[0] == Fraction(2, 6001)


@pytest.mark.parametrize("weights", [3, "12", {1: 2}, np.array(3)])
def test_weights_are_a_sequence(weights):
    with pytest.raises(TypeError, match="weights"):
        b.split(Fraction(1), weights)


@pytest.mark.parametrize(
    "value, text",
    [
        (Fraction(1, 3), "1/3"),
        (Fraction(1, 10**300), "about 1e-300"),
        (Fraction(-(10**80), 3), "about -3.33333e+79"),
        (Fraction(1, 10**5000), "a fraction of more than 60 digits"),
        (10**5000, "a fraction of more than 60 digits"),
        ("1" * 70, "1" * 60 + "..."),
    ],
    ids=range(6),
)
def test_numbers_in_messages_are_short(value, text):
    assert b.shortened(value) == text


@pytest.mark.parametrize("weights", [[], [0], [1, -1], [math.nan]])
def test_split_refuses(weights):
    with pytest.raises(ValueError, match="weight"):
        b.split(Fraction(1), weights)


@given(st.fractions(min_value=Fraction(1, 10**300), max_value=10**300))
def test_floats_around_a_fraction(value):
    above, below = b.ceil_float(value), b.floor_float(value)
    assert Fraction(below) <= value <= Fraction(above)
    assert above in (below, math.nextafter(below, math.inf))
