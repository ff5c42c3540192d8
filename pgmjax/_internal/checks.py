"""Argument checks with uniform messages: what was expected, what was given, what to do.

Messages describe structure (names, shapes, counts) and never contain data values.
"""

from __future__ import annotations

import importlib
import math
import numbers
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from types import ModuleType
from typing import Any

_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
LARGEST = 1e60
"""The largest size of a measured value, a standard deviation or a total (counts); the least that divides is
its inverse. The square of the quotient of two is at most 1e240: float64 has room for sums of squares."""
_EXPONENT = re.compile(r"[eE][+-]?([0-9]+)")


def optional(module: str, extra: str) -> ModuleType:
    """Import an optional dependency.

    Raises:
        ImportError: the module is not installed; the message names the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"{package} is needed for this and is not installed: run  pip install 'pgmjax[{extra}]'"
        ) from error


def plain_text(name: str, value: str) -> str:
    """Return text that shows as what it is; refuse what hides, breaks or turns round what stands beside it.

    Refused are control characters, NUL and line breaks among them, lone surrogates, and the marks that set
    the direction of text. The message has the code point and not the character.

    Raises:
        ValueError: there is one.

    Example:
        >>> plain_text("a label", "naïve")
        'naïve'
    """
    if not value.isprintable():
        for place, character in enumerate(value):
            if unicodedata.category(character) in ("Cc", "Cs") or character in _DIRECTIONS:
                raise ValueError(
                    f"{name} must be text without control characters, lone surrogates and marks of "
                    f"direction, got U+{ord(character):04X} at character {place + 1}: leave it out."
                )
    return value


def short_number(name: str, value: Any) -> Any:
    """Return a value; refuse text and decimals of which an exact fraction would have too many digits.

    Raises:
        ValueError: more than 1000 characters, or an exponent beyond 400.
    """
    if isinstance(value, str | Decimal):
        text = str(value).replace("_", "")
        exponent = _EXPONENT.search(text)
        if not text.isascii() or len(text) > 1000 or (exponent and int(exponent[1]) > 400):
            raise ValueError(f"{name} must be a number of at most 400 digits, got {text[:40]!a}.")
    return value


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return `value` as an int; reject bools, floats and values outside low..high."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}.")
    result = int(value)
    if (low is not None and result < low) or (high is not None and result > high):
        bounds = f">= {low}" if high is None else f"<= {high}" if low is None else f"in {low}..{high}"
        raise ValueError(f"{name} must be an integer {bounds}, got {result}.")
    return result


def several(name: str, value: Any, of: str) -> tuple[Any, ...]:
    """Return the members of an iterable as a tuple; reject single objects, text and mappings."""
    if not isinstance(value, str | bytes | Mapping):
        try:
            members = iter(value)
        except TypeError:
            pass
        else:
            return tuple(members)
    raise TypeError(f"{name} must be a sequence of {of}, got {type(value).__name__}: give a list.")


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
) -> float:
    """Return `value` as a finite float within the given bounds; reject bools, NaN and infinities."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}.")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {result}.")
    if above is not None and not result > above:
        raise ValueError(f"{name} must be > {above:g}, got {result:g}.")
    if at_least is not None and not result >= at_least:
        raise ValueError(f"{name} must be >= {at_least:g}, got {result:g}.")
    if below is not None and not result < below:
        raise ValueError(f"{name} must be < {below:g}, got {result:g}.")
    return result


def total(value: Any, name: str = "total", least: float = 1 / LARGEST) -> float:
    """Return a number of records (counts) above 0, which need not be whole, with squares that fit float64.

    Args:
        value: the number.
        name: what it is, for the message.
        least: the least allowed.

    Raises:
        TypeError: not a number.
        ValueError: not finite and above 0, or outside `least` to `LARGEST`.
    """
    result = number(name, value, above=0)
    if not least <= result <= LARGEST:
        raise ValueError(f"{name} must lie in {least:g}..{LARGEST:g}, got {result:g}: give it in records.")
    return result


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value
