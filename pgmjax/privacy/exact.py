"""Privacy parameters as exact fractions.

A float epsilon is read as the decimal it prints as, so 0.1 is one tenth and ten spends of 0.1 are exactly 1,
without rounding error. Only the sampler's scale is ever a float.
"""

from __future__ import annotations

import math
import numbers
import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks

_MOST_PLACES = 400  # decimal places on either side of the point: beyond it a short string is a huge integer
_MOST_CHARACTERS = 1000
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_NOT_FINITE = re.compile(r"[+-]?(?:s?nan[0-9]*|inf(?:inity)?)", re.IGNORECASE)
LARGEST_USUAL_DELTA = Fraction(1, 1000)
LEAST, MOST = Fraction(sys.float_info.min), Fraction(sys.float_info.max)
"""The least normal and the largest 64-bit float."""


def _no_number(name: str, value: str) -> ValueError:
    """Return the refusal of a text, with the number that it probably stands for."""
    meant = value.strip("\"'\u201c\u201d\u2018\u2019 ").replace(",", ".")
    meant = re.sub(r"10(\^|\*\*)(?=-?[0-9])", "1e", meant)
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?%", meant):
        meant = f"{Decimal(meant[:-1]) / 100:f}"
    write = f": write {meant}" if _NUMBER.fullmatch(meant) else ""
    return ValueError(f"{name} must be a number such as 1, 0.1, '1/3' or '1e-9', got {value[:40]!r}{write}.")


def _decimal(name: str, value: str) -> Fraction:
    if len(value) > _MOST_CHARACTERS:
        raise ValueError(
            f"{name} must be a number of at most {_MOST_CHARACTERS} characters, got {len(value)}."
        )
    if _NOT_FINITE.fullmatch(value):
        raise ValueError(f"{name} must be finite, got {value}: give a number such as 1.")
    form = _NUMBER.fullmatch(value)
    if form is None:
        raise _no_number(name, value)
    # a Decimal takes exponents of 18 digits, and turns none of them into a fraction before this check
    number = Decimal(value) if len(form[1] or "") < 18 else None
    if number is not None and number.is_zero():
        return Fraction(0)
    if number is None or not -_MOST_PLACES < number.adjusted() < _MOST_PLACES:
        raise ValueError(f"{name} must lie between 1e-{_MOST_PLACES} and 1e{_MOST_PLACES}, got {value}.")
    return Fraction(number)


def exact(name: str, value: Any) -> Fraction:
    """Return a number as a fraction: a float as the decimal it prints as, a string as it reads.

    Args:
        name: the parameter's name, for messages.
        value: an int, float, Decimal, Fraction, NumPy number, or a string such as "0.1", "1e-9" or
            "1/3", with only the characters 0-9 . e E + - /.

    Raises:
        TypeError: the value is a bool or not a real number.
        ValueError: the value is NaN, infinite, or a string that is not a number.

    Example:
        >>> sum([exact("epsilon", 0.1)] * 10) == 1
        True
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number, such as 1, got a bool.")
    if isinstance(value, str):
        top, slash, bottom = value.strip().partition("/")
        if slash and not (_NUMBER.fullmatch(top) and _NUMBER.fullmatch(bottom)):
            raise _no_number(name, value)
        if slash:
            divisor = _decimal(name, bottom)
            if divisor == 0:
                raise ValueError(f"{name} must be a number, got {value!r}, a division by zero.")
            return _decimal(name, top) / divisor
        return _decimal(name, top)
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float):  # np.float64 too, whose own repr is not a number
        return _decimal(name, float.__repr__(value))
    if isinstance(value, Decimal | np.floating):
        return _decimal(name, str(value))
    raise TypeError(f"{name} must be a number, got {type(value).__name__}: give one such as 1.")


def exact_positive(name: str, value: Any) -> Fraction:
    """Return a number > 0 as an exact fraction; see `exact`.

    Raises:
        ValueError: it is not above 0.
    """
    result = exact(name, value)
    if result <= 0:
        raise ValueError(f"{name} must be > 0, got {shortened(value)}: give a number such as 1 or 0.1.")
    return result


def shortened(value: Any) -> str:
    """Return a number for a message: exact if that is short, otherwise approximate.

    Example:
        >>> shortened(Fraction(1, 3)), shortened(Fraction(1, 10**300))
        ('1/3', 'about 1e-300')
    """
    if isinstance(value, numbers.Rational):
        fraction = Fraction(int(value.numerator), int(value.denominator))
        if max(abs(fraction.numerator), fraction.denominator) < 10**60:
            return as_text(fraction)
        if LEAST <= abs(fraction) <= MOST:
            return f"about {float(fraction):.6g}"
        return "a fraction of more than 60 digits"  # Python refuses to print those of thousands
    text = str(value).strip()
    return text if len(text) <= 60 else f"{text[:60]}..."


def _representable(name: str, value: Any, result: Fraction) -> Fraction:
    """Refuse a value outside the range of normal floats: noise scales and conversions are floats."""
    if result < LEAST:
        zero = "0 or " if name == "delta" else ""
        raise ValueError(
            f"{name} must be {zero}at least {sys.float_info.min}, the least normal 64-bit float, got "
            f"{shortened(value)}."
        )
    if result > MOST:
        raise ValueError(
            f"{name} must be at most {sys.float_info.max}, the largest 64-bit float, got {shortened(value)}."
        )
    return result


def exact_epsilon(value: Any) -> Fraction:
    """Return a pure-DP parameter epsilon as a fraction.

    Raises:
        TypeError: the value is a bool or not a number.
        ValueError: the value is NaN, infinite, zero, negative, or outside the range of normal floats.

    Example:
        >>> exact_epsilon("1/3") * 3
        Fraction(1, 1)
    """
    return _representable("epsilon", value, exact_positive("epsilon", value))


def exact_rho(value: Any) -> Fraction:
    """Return a zCDP parameter rho as a fraction; raises as `exact_epsilon` does."""
    return _representable("rho", value, exact_positive("rho", value))


def exact_share(name: str, value: Any, such: str = "0.05") -> Fraction:
    """Return a share of a budget, 0 < share < 1, as a fraction.

    Args:
        name: what it is, for messages.
        value: as for `exact`.
        such: a usual one, for messages.

    Raises:
        TypeError: the value is a bool or not a number.
        ValueError: it is not within (0, 1).
    """
    wanted = f"{name} must be a share between 0 and 1, such as {such}"
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{wanted}, got a bool.")
    share = exact(name, value)
    if not 0 < share < 1:
        raise ValueError(f"{wanted}, got {as_text(share)}.")
    return share


def exact_delta(value: Any) -> Fraction:
    """Return delta, 0 <= delta < 1, as a fraction; 0 is pure differential privacy.

    Raises:
        TypeError: the value is a bool or not a number.
        ValueError: the value is NaN, infinite, negative, at least 1, or positive and below the least
            normal float.
    """
    if value is None:
        raise TypeError("delta must be a number, got NoneType: leave it out, or write 0, for pure epsilon.")
    result = exact("delta", value)
    if not 0 <= result < 1:
        raise ValueError(
            f"delta must be in [0, 1), got {shortened(value)}: give a probability far below 1 / (number of "
            "records), such as 1e-9, or leave it out for pure epsilon."
        )
    return _representable("delta", value, result) if result else result


def chosen_delta(value: Any) -> Fraction:
    """Return the delta that somebody chose for a release, as `exact_delta` does; warn of a large one."""
    result = exact_delta(value)
    if result > LARGEST_USUAL_DELTA:
        checks.warn(
            f"a delta of {as_text(result)} is large: with that probability a mechanism may publish whole "
            "records. Choose it far below 1 / (number of records), such as 1e-9."
        )
    return result


def positive_delta(value: Any) -> float:
    """Return a delta above 0, rounded down to a float, to convert zCDP or Renyi divergences.

    Raises:
        TypeError: as `exact_delta`.
        ValueError: as `exact_delta`, or it is 0.
    """
    result = exact_delta(value)
    if result == 0:
        raise ValueError(
            "delta must be > 0 to convert zCDP or Renyi divergences: at delta 0 use pure differential "
            "privacy."
        )
    return floor_float(result)


def as_text(value: Fraction) -> str:
    """Return a fraction as an exact string: a plain decimal if a short one exists, otherwise "a/b".

    `exact` reads it back to the same fraction.

    Example:
        >>> as_text(Fraction(1, 10)), as_text(Fraction(1)), as_text(Fraction(1, 3))
        ('0.1', '1', '1/3')
    """
    if value.denominator == 1:
        return str(value.numerator)
    places = next((n for n in range(1, 31) if 10**n % value.denominator == 0), None)
    if places is None:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return ("-" if value < 0 else "") + f"{digits[:-places]}.{digits[-places:]}"


def split(total: Fraction, weights: Sequence[Any]) -> tuple[Fraction, ...]:
    """Divide a budget in proportion to weights; the parts sum to it exactly.

    Args:
        total: the budget to divide (epsilon or rho).
        weights: one positive number per part.

    Raises:
        TypeError: the weights are not a sequence of numbers.
        ValueError: there are no weights, or one is not positive and finite.

    Example:
        >>> split(Fraction(1), [1, 2])
        (Fraction(1, 3), Fraction(2, 3))
    """
    each = checks.several("weights", weights, "numbers", "give a list, such as [1, 1] for two equal parts")
    exact_weights = [exact_positive("a weight of the budget", weight) for weight in each]
    if not exact_weights:
        raise ValueError("There is nothing to divide the budget between: give at least one weight.")
    # fractions: floats would leave or exceed the total by their rounding
    unit = total / sum(exact_weights)
    return tuple(unit * weight for weight in exact_weights)


def ceil_float(value: Fraction) -> float:
    """Return the smallest float >= a fraction."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def floor_float(value: Fraction) -> float:
    """Return the largest float <= a fraction."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
