"""The library's own exceptions, and argument checks with uniform messages: expected, given, what to do.

Messages describe structure (names, shapes, counts) and never contain data values.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import math
import numbers
import os
import pathlib
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from decimal import Decimal
from types import ModuleType
from typing import Any


class Error(Exception):
    """Base class of the library's own exceptions.

    Each is also a `ValueError`, `RuntimeError`, `TypeError` or `AssertionError`. Invalid arguments raise one
    of these built-in classes directly.
    """


_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
LARGEST = 1e60
"""The largest size of a measured value, a standard deviation or a total (counts); the least that divides is
its inverse. The square of the quotient of two is at most 1e240: float64 has room for sums of squares."""
_PACKAGE = f"{pathlib.Path(__file__).parents[1]}{os.sep}"
_EXPONENT = re.compile(r"[eE][+-]?([0-9]+)")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line outside this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


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
    """Return a whole number as an int: of an integer type, or a float without a fraction, such as 1e6.

    Raises:
        TypeError: a bool, text, or a number that is not whole.
        ValueError: outside low..high.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        such = "4_000_000_000" if name.endswith("bytes") else "10"
        meant = f": give a whole number such as {such}" if isinstance(value, str) else ""
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}{meant}.")
    result: int | None = None
    # infinite, no number, or beyond a float, where a Decimal of ten characters has a billion digits
    with contextlib.suppress(ArithmeticError, ValueError):
        if isinstance(value, numbers.Integral) or math.isfinite(value):
            result = int(value)  # type: ignore[arg-type]
    if result is None or result != value:  # exact, also for a Fraction that no float can hold
        raise TypeError(f"{name} must be an integer, got {type(value).__name__} {str(value)[:20]}.")
    if (low is not None and result < low) or (high is not None and result > high):
        bounds = f">= {low}" if high is None else f"<= {high}" if low is None else f"in {low}..{high}"
        raise ValueError(f"{name} must be an integer {bounds}, got {result}.")
    return result


def integer_of_text(text: str) -> int:
    """Return the whole number that a text such as 1000, 1_000 or 1e3 stands for.

    Raises:
        ValueError: it stands for none.

    Example:
        >>> integer_of_text("1e6"), integer_of_text("1_000_000")
        (1000000, 1000000)
    """
    not_grouped(text)
    try:
        value = Decimal(short_number("a whole number", text.strip()))
        if value.is_finite() and value == value.to_integral_value():
            return int(value)
    except (ArithmeticError, ValueError):
        pass
    raise ValueError(f"expected a whole number such as 1000, 1_000 or 1e3, got {text[:40]!a}")


def not_grouped(text: str) -> None:
    """Refuse a number such as 10.000 or 10,000: ten thousand to some, and ten to others.

    Raises:
        ValueError: it is one.
    """
    text = text.strip()
    if re.fullmatch(r"[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*", text):
        whole, *groups = re.split("[.,]", text)
        plain = "".join([whole, *groups])
        other = f" or {whole}" if {*"".join(groups)} == {"0"} else ", without a separator"
        raise ValueError(f"{text[:40]!a} may be thousands or a fraction: write {plain}{other}")


def set_fields(of: Any, /, **values: Any) -> None:
    """Give fields of a frozen dataclass their checked values, while it is made."""
    for field, value in values.items():
        object.__setattr__(of, field, value)


def set_integers(
    of: Any, *fields: str, low: int | None = None, high: int | None = None, optional: bool = False
) -> None:
    """Make fields of a frozen dataclass the ints that they stand for, or leave None; see `integer`."""
    for field in fields:
        if not optional or getattr(of, field) is not None:
            object.__setattr__(of, field, integer(field, getattr(of, field), low, high))


def new_path(path: str | os.PathLike[str], unless: str = "") -> pathlib.Path:
    """Return the absolute path of what is to be written; nothing that exists is ever written over.

    Args:
        path: of the file or folder.
        unless: what else may be done, for the message, such as ", or overwrite=True".

    Raises:
        TypeError: no name.
        ValueError: it is empty, or something is there.
    """
    kind(path, str | os.PathLike, "path must be the name of a file or folder")
    if not os.fspath(path):
        raise ValueError("The name of what is to be written is empty: give one.")
    if pathlib.Path(path).parts[:1] == ("~",):
        raise ValueError(
            f"{os.fspath(path)} begins with ~, which a shell replaces only at the beginning of a word "
            "without quotes: write the name of the folder instead."
        )
    if os.sep == "/" and re.match(r"[A-Za-z]:\\", os.fspath(path)):
        raise ValueError(
            f"{os.fspath(path)} is a name as Windows writes it, and this is another system: write it "
            "with /, as in /home/me/people."
        )
    target = pathlib.Path(path).absolute()
    if os.path.lexists(target):
        also = unless or ", nothing is ever overwritten"
        raise ValueError(f"{os.fspath(path)} already exists: give a new name{also}.")
    return target


def new_file(path: str | os.PathLike[str], unless: str = "") -> pathlib.Path:
    """Return the absolute path of a file that is to be written into a folder that is there.

    Call this before any budget is spent: an answer that cannot be written down is lost.

    Args:
        path: of the file.
        unless: as `new_path`.

    Raises:
        TypeError: no name.
        ValueError: as `new_path`, or there is no such folder.
    """
    target = new_path(path, unless)
    if not target.parent.is_dir():
        raise ValueError(f"There is no folder {target.parent}: make it, or give another name.")
    return target


def several(name: str, value: Any, of: str, then: str = "give a list") -> tuple[Any, ...]:
    """Return the members of an iterable as a tuple; reject single objects, text and mappings."""
    if not isinstance(value, str | bytes | Mapping):
        try:
            members = iter(value)
        except TypeError:
            pass
        else:
            return tuple(members)
    raise TypeError(f"{name} must be a sequence of {of}, got {type(value).__name__}: {then}.")


def one_argument(name: str, value: Any, what: str) -> None:
    """Refuse what is no function, or one that cannot be called with one argument.

    Raises:
        TypeError: as said.
    """
    if not callable(value):
        raise TypeError(f"{name} must be a function of one argument, got {type(value).__name__}.")
    try:
        inspect.signature(value).bind(None)
    except TypeError:
        raise TypeError(
            f"{name} must be a function of one argument, {what}: write lambda progress: ..., for example."
        ) from None
    except ValueError:  # of a function without a signature nothing is known
        return


def counted(number: int, one: str, several: str) -> str:
    """Return a number with the words that go with it.

    Example:
        >>> counted(1, "row lies", "rows lie"), counted(1200, "row lies", "rows lie")
        ('1 row lies', '1,200 rows lie')
    """
    return f"{number:,} {one if number == 1 else several}"


def first_said(*cases: tuple[object, str], otherwise: str = "") -> str:
    """Return what is to be said in the first of some cases that is so, else the other words.

    Example:
        >>> first_said((2 > 3, "two is more"), (3 > 2, "three is more"), otherwise="both are alike")
        'three is more'
    """
    return next((said for case, said in cases if case), otherwise)


def refuse(*cases: tuple[object, str]) -> None:
    """Refuse the first of some cases that is so; conditions and messages of all are worked out before.

    Args:
        cases: what must not be, and the message that says why.

    Raises:
        ValueError: one of them is.

    Example:
        >>> refuse((2 > 3, "two is more"), (3 > 2, "three is more"))
        Traceback (most recent call last):
        ValueError: three is more
    """
    for case, message in cases:
        if case:
            raise ValueError(message)


def kind(value: Any, kinds: Any, said: str, then: str = "") -> None:
    """Refuse a value that is of none of some types.

    Args:
        value: the value.
        kinds: the type, or several joined by `|`.
        said: what it must be, as in "unit must be a Unit".
        then: what to do instead.

    Raises:
        TypeError: it is of another type, which the message names.

    Example:
        >>> kind("4", int, "rows must be a whole number", "leave out the quotation marks")
        Traceback (most recent call last):
        TypeError: rows must be a whole number, got str: leave out the quotation marks.
    """
    if not isinstance(value, kinds):
        came = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"{said}, got {came}{f': {then}' if then else ''}.")


def unlabelled(said: str, values: Any) -> None:
    """Refuse a pandas Series or frame with labels, whose order would be taken for that of the domain.

    Args:
        said: what it is for, as in "the values of the measurement".
        values: anything.

    Raises:
        ValueError: it has labels.
    """
    axes = [getattr(values, each, None) for each in ("index", "columns") if hasattr(values, "iloc")]
    if any(axis is not None and [*axis] != [*range(len(axis))] for axis in axes):
        raise ValueError(
            f"{said}: labels of pandas came with the numbers, and only their order would count. Put them "
            "into the order of the domain and give the numbers alone, such as "
            "counts.reindex(labels).to_numpy()."
        )


def mapping(name: str, value: Any, of: str) -> None:
    """Refuse what is no mapping."""
    if not isinstance(value, Mapping):
        meant = ": write {name: frame[name] for name in frame}" if hasattr(value, "columns") else ""
        raise TypeError(f"{name} must be a mapping of {of}, got {type(value).__name__}{meant}.")


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
        meant = ": leave out the quotation marks" if isinstance(value, str) else ""
        raise TypeError(f"{name} must be a number, got {type(value).__name__}{meant}.")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {result}: give a number such as 1.")
    if above is not None and not result > above:
        raise ValueError(f"{name} must be > {above:g}, got {result:g}.")
    if at_least is not None and not result >= at_least:
        raise ValueError(f"{name} must be >= {at_least:g}, got {result:g}.")
    if below is not None and not result < below:
        raise ValueError(f"{name} must be < {below:g}, got {result:g}.")
    return result


def finite(value: float | None) -> float | None:
    """Return a number as JSON has it: None if it is not finite, or there is none."""
    return float(value) if value is not None and math.isfinite(value) else None


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


def choice(name: str, value: Any, allowed: Iterable[str], others: str = "") -> str:
    """Return the allowed word that a value is, in any case and with `-` for `_`.

    Args:
        name: what it is, for the message.
        value: the value.
        allowed: the words.
        others: what else could have been given, for the message.

    Raises:
        ValueError: it is none; the message names all of them, and the one that was probably meant.

    Example:
        >>> choice("solver", "Mirror-Descent", ("lbfgs", "mirror_descent"))
        'mirror_descent'
    """
    allowed = tuple(allowed)
    found = value if isinstance(value, str) and value in allowed else same_word(value, allowed)
    if found is None:
        listed = ", ".join([*map(repr, allowed), *([others] if others else [])])
        got = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise ValueError(f"{name} must be one of {listed}, got {got}.{did_you_mean(value, allowed)}")
    return found


def set_choice(of: Any, field: str, allowed: Iterable[str], others: str = "") -> None:
    """Make a field of a frozen dataclass the allowed word that it is; see `choice`."""
    object.__setattr__(of, field, choice(field, getattr(of, field), allowed, others))


def same_word(value: Any, known: Iterable[str]) -> str | None:
    """Return the known word that a text is, or else the only one that it is in another case; None if none.

    Example:
        >>> same_word("AGE", ["age", "sex"]), same_word("AGE", ["age", "Age"])
        ('age', None)
    """
    if not isinstance(value, str):
        return None
    words = list(known)
    if value in words:
        return value
    folded = [word for word in words if _folded(word) == _folded(value)]
    return folded[0] if len(folded) == 1 else None


def did_you_mean(value: Any, known: Iterable[str]) -> str:
    """Return a question about the known word that a text is most like, to end a message with; "" if none.

    Example:
        >>> did_you_mean("agee", ["age", "sex"])
        " Did you mean 'age'?"
    """
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
        return ""  # no number is a misspelt one
    words = {_folded(word): word for word in known}
    close = difflib.get_close_matches(_folded(value), words, 1) if isinstance(value, str) else ()
    return f" Did you mean {words[close[0]]!r}?" if close else ""


def _folded(word: str) -> str:
    """Return a word without what few see in it: its case, and the form in which Unicode writes accents."""
    return unicodedata.normalize("NFC", word).casefold().replace("-", "_")
