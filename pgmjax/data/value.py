"""The canonical form of a value: which values are one, in whatever store and type they lie.

A whole number is one value as an integer, a decimal and a floating-point number, exactly and of any size;
-0.0 is 0. Any other number is its shortest decimal notation: the single-precision number next to 0.1 is 0.1.
A bool is `true` or `false`, a moment its ISO form in UTC, which is that of a day at midnight. A text is
itself in Unicode's composed form (NFC) without white space around it, but for what a program writes into all
rows of a column because of one: zeros after the point of whole numbers, where one is missing, and times of
day of dates, where one has some.

The form of a value depends on nothing but this value, so that one record never changes how another is read.
Labels, codes, missing markers, units of privacy and the keys that a discovery finds all go by it.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
import numbers
import re
import unicodedata
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

_DAY, _MINUTE = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}"
_FORMS = (
    (r"^(-?(?:0|[1-9][0-9]*))\.0+$", r"\1"),
    ("^-0$", "0"),
    (rf"^({_DAY}) ({_MINUTE}(?::[0-9]{{2}}(?:\.[0-9]+)?)?)$", r"\1T\2"),
    (rf"^({_DAY}T{_MINUTE})$", r"\1:00"),
    (rf"^({_DAY}T{_MINUTE}:[0-9]{{2}}(?:\.[0-9]*[1-9])?)\.?0*$", r"\1"),
    (rf"^({_DAY})T00:00:00$", r"\1"),
)
"""What a text is written as, and its canonical form, one after the other; Python and DuckDB read them."""
SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""White space, which texts are read without."""
_FIRST = frozenset("-0123456789")
NUMBER = re.compile("-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:e[+-][0-9]+)?|nan|-?inf", re.IGNORECASE)
"""How programs write numbers, with an exponent where these are large or small."""
_FURTHEST = 400  # decimal places from the point beyond which a number is infinite or zero


def key_of(value: Any) -> str | None:
    """Return the canonical form of a value as text; None if it is missing.

    Example:
        >>> [key_of(value) for value in (1.0, decimal.Decimal("1.00"), " 1.0 ", np.float32(0.1), True, "007")]
        ['1', '1', '1', '0.1', 'true', '007']
    """
    if isinstance(value, str):
        return _key_of_text(value)
    if is_missing(value):
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    number = number_of(value)
    if number is not None:
        return str(number) if isinstance(number, int) else _key_of_fraction(value, number)
    if isinstance(value, (datetime.date, np.datetime64)):
        return keys_of_moments(np.array([moment_of(value)]))[0]
    return _key_of_text(str(value))


def plain_text(text: str) -> str:
    """Return a text in Unicode's composed form, without white space around it."""
    text = text.strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def places_of(name: str, row: Sequence[Any]) -> list[int]:
    """Return where a name stands among those of columns: as it is, or else as one that looks the same.

    Example:
        >>> places_of("caf\u00e9", ["id", "cafe\u0301 "]), places_of("a", ["a ", "a"])
        ([1], [1])
    """
    exact = [k for k, field in enumerate(row) if field == name]
    return exact or [k for k, field in enumerate(row) if _seen(field) == _seen(name)]


def _seen(name: Any) -> str:
    return plain_text(" ".join(str(name).split()))


def _key_of_text(text: str) -> str | None:
    text = plain_text(text)
    if text.lower() in ("true", "false"):
        return text.lower()
    if text[:1] in _FIRST:
        for pattern, form in _FORMS:
            text = re.sub(pattern, form, text)
    return text or None


def _key_of_fraction(value: Any, number: float) -> str:
    exact = (
        isinstance(value, decimal.Decimal) and math.isfinite(number) and abs(value.adjusted()) <= _FURTHEST
    )
    if exact and decimal.Decimal(repr(number)) != value:
        return str(value.normalize(decimal.Context(prec=len(value.as_tuple().digits))))
    return repr(number)


def kind_of(value: Any) -> str:
    """Return how a value is stored: as text, number, bool, date or nothing; "" if it can be no value.

    Example:
        >>> [kind_of(value) for value in ("1", 1.5, None, b"a", datetime.timedelta(1))]
        ['text', 'number', 'nothing', '', '']
    """
    if isinstance(value, (str, uuid.UUID)):
        return "text"
    if is_missing(value):
        return "nothing"
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (datetime.date, np.datetime64)):
        return "date"
    return "" if number_of(value) is None else "number"


def is_missing(value: Any) -> bool:
    """Return whether a value is none: None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return isinstance(value, numbers.Number) and bool(value != value)


def number_of(value: Any) -> int | float | None:
    """Return a number as an int if it is whole, and otherwise as the nearest float; None if it is none.

    Example:
        >>> number_of(np.float32(0.7)), number_of(decimal.Decimal("9007199254740993.0")), number_of(True)
        (0.7, 9007199254740993, None)
    """
    if isinstance(value, (bool, np.bool_, np.timedelta64)):
        return None
    if isinstance(value, numbers.Rational) and value.denominator == 1:
        return int(value.numerator)
    if isinstance(value, decimal.Decimal):
        return _number_of_decimal(value)
    if isinstance(value, np.floating):
        value = float(shortest(np.array([value]))[0])
    elif isinstance(value, numbers.Real):
        value = as_float(value)
    else:
        return None
    return int(value) if value.is_integer() else value


def _number_of_decimal(value: decimal.Decimal) -> int | float:
    if value and value.is_finite() and abs(value.adjusted()) <= _FURTHEST and value == int(value):
        return int(value)
    return float(value) if value else 0


def as_float(value: Any) -> float:
    """Return a number as the nearest float, infinite if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number_of_text(text: str) -> int | float:
    """Return the number that a text in Python's notation stands for, whole numbers exactly.

    With an exponent it is the nearest float, as programs write these.
    """
    return number_of(float(text)) or 0 if "e" in text.lower() else _number_of_decimal(decimal.Decimal(text))


def key_of_written(text: str) -> str | None:
    """Return the canonical form of the number, or moment with a zone, that a program wrote as a text.

    Example:
        >>> [key_of_written(text) for text in ("1.50", "1e+07", "2024-05-01 02:00:00+02:00", "01", "1e7")]
        ['1.5', '10000000', '2024-05-01', None, None]
    """
    if NUMBER.fullmatch(text):
        return key_of(number_of_text(text))
    with contextlib.suppress(ValueError):
        if re.match(f"{_DAY}(?:[T ]{_MINUTE}|$)", text):
            return key_of(datetime.datetime.fromisoformat(text))
    return None


def shortest(values: np.ndarray) -> np.ndarray:
    """Return numbers [n] of any precision as float64 [n]: whole ones exactly, others by shortest notation.

    Example:
        >>> shortest(np.array([0.1, 16777216], np.float32)).tolist()
        [0.1, 16777216.0]
    """
    if values.dtype.kind != "f" or values.dtype.itemsize >= 8:
        return values.astype(np.float64, copy=False)
    distinct, places = np.unique(values, return_inverse=True)
    found = distinct.astype(np.float64)
    left = np.flatnonzero((distinct != np.trunc(distinct)) & np.isfinite(distinct))
    plain = (np.abs(found[left]) > 1e-9) & (np.abs(found[left]) < 1e9)  # by powers of 10 that are exact
    left, text = left[plain], left[~plain]
    found[text] = distinct[text].astype("U32").astype(np.float64)
    powers = np.floor(np.log10(np.abs(found[left]))).astype(np.int64)
    for digits in range(1, 10):
        scale = 10.0 ** (digits - 1 - powers)
        rounded = np.rint(found[left] * scale) / scale
        # back in the narrow type: the first number of digits that gives the same value there is the shortest
        same = rounded.astype(values.dtype) == distinct[left]
        found[left[same]] = rounded[same]
        left, powers = left[~same], powers[~same]
    return found[places]


def moment_of(value: Any) -> np.datetime64:
    """Return a date or a time of day, in UTC if it has a zone."""
    if isinstance(value, np.datetime64):
        return value
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        with contextlib.suppress(OverflowError):  # at an end of the calendar
            value = value.astimezone(datetime.UTC)
        value = value.replace(tzinfo=None)
    return value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)


def keys_of_moments(values: np.ndarray) -> list[str | None]:
    """Return the canonical forms of datetime64 [n]: ISO texts, without a time of day at midnight."""
    if np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D", "h", "m"):
        values = values.astype("M8[s]")
    return [None if text == "NaT" else _key_of_text(text) for text in np.datetime_as_string(values).tolist()]


def moment_text(value: float, time: str | None) -> str:
    """Return the ISO form of days or seconds since 1970-01-01."""
    return str(np.array([int(value)]).astype("M8[D]" if time == "day" else "M8[s]")[0])


def decimal_places(grid: float) -> int:
    """Return the decimal places that values on a grid have.

    Example:
        >>> decimal_places(1), decimal_places(0.25), decimal_places(10)
        (0, 2, 0)
    """
    text = f"{grid:.12f}".rstrip("0")
    return len(text.partition(".")[2])


def sql_key_of_text(stored: str) -> str:
    """Return the SQL expression that is for a text what `key_of` is; NULL if it is missing."""
    form = text = f"nfc_normalize(trim({stored}::VARCHAR, '{SPACES}'))"
    for pattern, replacement in _FORMS:
        form = f"regexp_replace({form}, '{pattern}', '{replacement}')"
    first = ", ".join(f"'{each}'" for each in sorted(_FIRST))
    return (
        f"CASE WHEN lower({text}) IN ('true', 'false') THEN lower({text}) "
        f"WHEN left({text}, 1) IN ({first}) THEN {form} ELSE nullif({text}, '') END"
    )
