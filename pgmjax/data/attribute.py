"""One attribute of a table: its possible values, and the integer code of each.

An `Attribute` is constructed in Python or from its entry in a domain file, which `data.entry` checks.
`code_of` returns the code of a value that a user names, such as in a query, a constraint or evidence.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data import entry
from pgmjax.data.encoding import (
    EXACT,
    MISSING,
    OUTSIDE,
    Coder,
    Encoded,
    Label,
    Notation,
    checked_codes,
    steps_of,
    text_of,
)
from pgmjax.data.value import decimal_places, moment_text
from pgmjax.data.withheld import held_back

OTHER = "other"
"""The name of the code of all values that are no label."""
_MOST_KNOWN = 10_000  # numbers whose codes an attribute remembers


class Code(int):
    """A code that is told from a value: `Code(1)` is the second value of an attribute, whatever that is.

    It equals no plain number, as that may be a value: a query of one is not that of the other.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Code) and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Code, int(self)))


@dataclass(frozen=True)
class Attribute:
    """An attribute: integer codes, labels, or public bins of a number; optionally a missing bucket.

    Attributes:
        name: the name of the column.
        size: the number of codes, including the missing code.
        labels: the values in the order of their codes, or None.
        bins: edges e_0 < ... < e_k of the cells [e_i, e_i+1), the last one closed, or None.
        missing: whether the last code, size - 1, means "no value".
        missing_markers: values read as "no value" in addition to null, NaN and empty text, such as "?".
        clip: (bins) whether numbers beyond the edges count in the end cells; otherwise they are an error.
        grid: (bins) the spacing of the values, such as 1 for whole numbers; None for real numbers. On a grid
            all cells are [e_i, e_i+1), the last one too.
        time: (bins) "day" or "second" if the values are dates, and the edges are counted in these since
            1970-01-01; None for numbers.
        format: (dates) their form in text, as for `datetime.strptime`; None for ISO 8601.
        other: (labels) whether one more code, after the labels, is that of all values that are no label.
        spellings: (labels) further spellings of each label; () for none.
        decimal: (bins) the decimal separator of numbers in text.
        thousands: (bins) the separator of groups of three digits in text; "" for none.
        within: (bins) where values lie within the cells, for drawing them: pairs of a number and the share of
            records from it to the next; () draws uniformly.

    Example:
        >>> sex = Attribute.from_spec("sex", {"labels": ["Female", "Male"], "missing": "?"})
        >>> sex.size, sex.encode(["Male", "?", "Female"]).tolist()
        (3, [1, 2, 0])
        >>> price = Attribute.from_spec("price", {"min": 0, "max": 99, "step": 50, "decimal": ","})
        >>> price.code_names(), price.encode(["49", "50,0"]).tolist()
        (['0 to 49', '50 to 99'], [0, 1])
    """

    name: str
    size: int
    labels: tuple[Label, ...] | None = None
    bins: tuple[float, ...] | None = None
    missing: bool = False
    missing_markers: tuple[Label, ...] = ()
    clip: bool = False
    grid: float | None = None
    time: str | None = None
    format: str | None = None
    other: bool = False
    spellings: tuple[tuple[Label, ...], ...] = ()
    decimal: str = "."
    thousands: str = ""
    within: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        checks.kind(self.name, str, "An attribute's name must be a string")
        if not self.name:
            raise ValueError("An attribute's name must not be empty.")
        checks.plain_text("An attribute's name", self.name)
        said = f"The size of attribute {self.name!r}"
        if isinstance(self.size, Mapping | list | tuple):
            raise TypeError(
                f"{said} must be an integer: write Attribute.from_spec(name, entry) for an entry."
            )
        object.__setattr__(self, "size", checks.integer(said, self.size, low=1))
        if self.labels is not None and self.bins is not None:
            raise ValueError(f"Attribute {self.name!r} must have labels or bins, not both.")
        regular = self.size - bool(self.missing)
        if self.labels is not None:
            object.__setattr__(self, "labels", entry.checked_labels(self.name, "labels", self.labels))
            expected = len(self.labels) + bool(self.other)
        elif self.bins is not None:
            object.__setattr__(self, "bins", entry.checked_bins(self.name, self.bins))
            expected = len(self.bins) - 1
        else:
            expected = max(regular, 1)
        if regular != expected:
            raise ValueError(f"{said} must be {expected + bool(self.missing)}, got {self.size}.")
        self._check_missing(regular)
        self._check_notation()

    def _check_missing(self, regular: int) -> None:
        markers = self.missing_markers
        if markers:
            markers = entry.checked_labels(self.name, "missing markers", markers)
            object.__setattr__(self, "missing_markers", markers)
        if markers and not self.missing:
            raise ValueError(f"Attribute {self.name!r} has missing markers but no missing bucket.")
        both = {text_of(label) for label in self.labels or ()} & {text_of(mark) for mark in markers}
        if self.labels is None and self.bins is None:
            both |= {text for text in map(text_of, markers) if text.isdecimal() and int(text) < regular}
        if both:
            both_said = f"{', '.join(sorted(both))}, which is both a value and a missing marker"
            raise ValueError(f"'missing' of attribute {self.name!r} must name no value, got {both_said}.")

    def _check_notation(self) -> None:
        """Check how values are written, and on which grid bins lie."""
        kind = "labels" if self.labels is not None else "size" if self.bins is None else "bins"
        if self.time is not None:
            time = checks.choice(f"time of attribute {self.name!r}", self.time, ("day", "second"))
            object.__setattr__(self, "time", time)
            kind = "dates" if kind == "bins" else kind
        for key, none in entry.FIELDS.items():
            value = entry.plain(getattr(self, key))
            if value != none and key not in entry.KINDS[kind] and (key != "grid" or kind != "dates"):
                homes = ", ".join(each for each, keys in entry.KINDS.items() if key in keys)
                raise ValueError(f"{key!r} of attribute {self.name!r} goes with {homes}, and it has {kind}.")
            if value != none and key in entry.KINDS[kind]:
                entry.check_key(self.name, kind, key, value)
        if len(self.spellings) not in (0, len(self.labels or ())):
            raise ValueError(f"Attribute {self.name!r} must have spellings for each of its labels.")
        if self.spellings:
            everything = [*(self.labels or ()), *itertools.chain(*self.spellings)]
            entry.checked_labels(self.name, "labels and their spellings", everything)
        if self.format is not None:
            entry.check_format(f"of attribute {self.name!r}", self.format)
        if self.decimal == self.thousands:
            raise ValueError(f"'decimal' and 'thousands' of attribute {self.name!r} must differ.")
        if self.bins is not None:
            self._check_places(self.bins)

    def _check_places(self, bins: tuple[float, ...]) -> None:
        """Check that bins lie on their grid, and where values lie within them."""
        if self.grid is not None:
            said = f"The bins of attribute {self.name!r} must"
            steps, off = steps_of(np.asarray(bins), self.grid)
            checks.refuse(
                (
                    np.abs(steps).max() > EXACT,
                    f"{said} have at most 2**53 steps of its grid of {self.grid:g}.",
                ),
                (off.any(), f"{said} lie on its grid of {self.grid:g}."),
            )
        if self.within:
            said = f"'within' of attribute {self.name!r} must have"
            starts, shares = zip(*self.within, strict=True)
            if any(a >= b for a, b in itertools.pairwise(starts)) or min(shares) < 0 or sum(shares) <= 0:
                raise ValueError(f"{said} increasing numbers and shares that are not all 0.")
            if not set(bins[:-1]) <= set(starts) or starts[-1] >= bins[-1]:
                raise ValueError(f"{said} a number at every lower edge of the bins and none beyond them.")

    @classmethod
    def from_spec(cls, name: str, spec: Any) -> Attribute:
        """Make an attribute from a size, or from a mapping as in a domain file.

        Args:
            name: the attribute's name.
            spec: the size n (codes 0..n-1), or {"size": n}, {"labels": [...]}, {"bins": [edges]}, a range of
                whole numbers {"min": a, "max": b, "step": s}, dates {"from": a, "to": b, "step": "month"} or
                {"dates": [edges]}. A mapping may also have "missing": true, a marker or a list of markers,
                which adds one code at the end. Labels may be a mapping from label to a list of its spellings,
                and have "other": true. Bins may have "clip": true, "grid", "decimal" and "thousands",
                and dates a "format".

        Raises:
            TypeError: a size or another entry has the wrong type.
            ValueError: an unknown key, not exactly one of size, labels and bins, or invalid values.
        """
        if not isinstance(name, str):
            raise TypeError(
                f"The name of an attribute comes first, a text, got {type(name).__name__}: write "
                'Attribute.from_spec("age", {"min": 0, "max": 99}).'
            )
        if isinstance(spec, Attribute):
            if spec.name != name:
                raise ValueError(f"The attribute under the name {name!r} calls itself {spec.name!r}.")
            return spec
        with entry.at(name):
            return cls(name, **entry.fields_of_spec(name, spec))

    def to_spec(self) -> dict[str, Any]:
        """Return the mapping of a domain file that `from_spec` reads back."""
        return entry.spec_of(self)

    @property
    def other_name(self) -> str:
        """The text that stands for all values that are no label."""
        read = {text_of(label) for label in itertools.chain(self.labels or (), *self.spellings)}
        return "(other)" if OTHER in read else OTHER

    @functools.cached_property
    def numbers(self) -> tuple[float, ...] | None:
        """The numbers that codes stand for, where values are numbers by themselves; None otherwise.

        A label that is no number, such as the last one of (1, 2, "many"), is left out.
        """
        if self.labels is not None:
            found = (each for each in self.labels if isinstance(each, int | float))
            return tuple(each for each in found if not isinstance(each, bool)) or None
        if self.bins is None or not self.grid or self.time is not None:
            return None
        return self.bins[:-1] if np.allclose(np.diff(self.bins), self.grid) else None

    @functools.cached_property
    def _codes_of_numbers(self) -> dict[float, int]:
        """The codes of numbers that were asked for, as queries name the same again and again."""
        return {}

    @functools.cached_property
    def coder(self) -> Coder:
        """The encoder behind `encode`, used by readers of tables batch by batch."""
        return self.coder_with(clip=self.clip)

    def coder_with(self, *, clip: bool) -> Coder:
        """Return the encoder with values beyond the ends clipped, or not, whatever the attribute says."""
        notation = Notation(self.grid, self.time, self.format, self.decimal, self.thousands)
        return Coder(
            self.size,
            self.labels,
            self.bins,
            self.missing,
            self.missing_markers,
            clip,
            notation,
            self.spellings,
            self.other,
        )

    def encode(self, values: Any) -> np.ndarray:
        """Return the codes [rows] of raw values [rows].

        Args:
            values: a one-dimensional array or list of labels, numbers or codes. Text is interpreted
                according to the attribute's kind.

        Returns:
            Codes, in the smallest unsigned integer type that holds all codes of the attribute.

        Raises:
            TypeError: values of a type that can match nothing.
            ValueError: values outside the domain, or missing values without a missing bucket. The
                message gives their number but no value.
        """
        if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
            raise TypeError(f"Attribute {self.name!r}: values must be a list or an array.")
        # with None at the end NumPy makes no second axis of values that are lists
        array = values if isinstance(values, np.ndarray) else np.array([*values, None], dtype=object)[:-1]
        if array.ndim != 1:
            raise ValueError(f"Attribute {self.name!r}: values must be one-dimensional, got {array.ndim}.")
        with held_back(TypeError) as refusal:
            if array.dtype.kind in "biufM":
                times = array.dtype.kind == "M"
                encoded = self.coder.encode_times(array) if times else self.coder.encode_numbers(array)
            else:
                values = array.tolist() if array.dtype.kind in "OU" else [*array]  # of others, NumPy's own
                encoded = self.coder.encode_objects(values)
        if refusal:
            raise TypeError(f"Attribute {self.name!r}: {refusal[0]}.")
        problem = self.problem(encoded)
        if problem:
            raise ValueError(problem)
        return encoded.codes

    def problem(self, encoded: Encoded) -> str:
        """Return a message on the number of rows without a code and the remedy; empty if all have one."""
        said = []
        if encoded.outside:
            remedy = " (clip: true counts them in the nearest cell)" if self.bins and not self.clip else ""
            if self.labels is not None:
                remedy = (
                    ' (missing: ["?"] names a mark for no answer; spellings, also in other capitals, are '
                    "named in labels: {LABEL: [SPELLING, ...]}; other: true counts them as one more label)"
                )
            elif self.bins is None:
                remedy = f" (from 1 they are min: 1, max: {self.size}; other values are labels: [...])"
            whole = " or is no whole number" if encoded.outside == 1 else " or are no whole numbers"
            whole = f"{whole}, which bins: [...] would take" if self.grid == 1 and self.time is None else ""
            lie = checks.counted(encoded.outside, "row lies", "rows lie")
            said.append(f"{lie} outside its {self._what()}{whole}{remedy}")
        if encoded.unreadable and self.labels is None and self.bins is None:
            hold = checks.counted(encoded.unreadable, "row holds", "rows hold")
            regular = self.size - self.missing
            codes = ", ".join(map(str, range(regular))) if regular <= 5 else f"0 to {regular - 1}"
            said.append(f"{hold} text ({regular} means the codes {codes}: write {self.name}: [its labels])")
        elif encoded.unreadable:
            what = (
                'number (decimal: "," reads 1,5; thousands: "," reads 1,234.5; missing: ["NA"] names a mark; '
                "35 % is none with its sign)"
            )
            if self.time is not None:
                what = f"date in the form {self.format or '2024-12-31'}"
            if self.time is not None and self.format is None:
                what += ' (another one is named by its format, such as format: "%m/%d/%Y")'
            said.append(
                f"{checks.counted(encoded.unreadable, 'row has', 'rows have')} a value that is no {what}; "
                "pgmjax domain check --holder-log FILE lists them for the holder"
            )
        if encoded.missing:
            have = checks.counted(encoded.missing, "row has", "rows have")
            said.append(f"{have} no value and it has no missing bucket (missing: true)")
        return f"Attribute {self.name!r}: {' and '.join(said)}." if said else ""

    def _what(self) -> str:
        if self.labels is not None:
            more = f" and {len(self.labels) - 12} more" if len(self.labels) > 12 else ""
            return f"{len(self.labels)} labels {', '.join(map(str, self.labels[:12]))}{more}"
        if self.bins is not None:
            return f"bins {self.code_names()[0]}, ..., {self.code_names()[len(self.bins) - 2]}"
        return f"codes 0..{self.size - self.missing - 1}"

    def decode(self, codes: Any) -> np.ndarray:
        """Return the values [rows] of codes [rows]: labels, bin names or codes; None if missing.

        Raises:
            TypeError: the codes are not integers.
            ValueError: a code is not in 0..size-1.
        """
        index, regular = self._codes(codes), self.size - self.missing
        if self.labels is None and self.bins is None and not self.missing:
            return index.astype(np.int64)
        values: list[Any]
        if self.bins is not None:
            values = self.code_names()[:regular]
        else:
            values = [*(self.labels or range(regular)), *([self.other_name] if self.other else [])]
        mixed = self.missing or len({type(value) for value in values}) > 1
        table = np.array([*values, None], dtype=object)[: self.size]
        return table[index] if mixed else np.array(values)[index]

    def values(self, codes: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return values [rows] as they would be in a table: labels, numbers, dates; None if missing.

        Args:
            codes: integer codes [rows].
            rng: where in its cell a number or date lies; needed if a cell has more than one value. It must
                not be the stream that the codes were drawn with: values would follow from the codes.

        Returns:
            Labels (and the text "other") as they are given; whole numbers as int64, other numbers as float64,
            dates as datetime64. Where there may be missing ones, an array of objects with None. Numbers are
            uniform in their cell, or as `within` says; on a grid they are one of its points.

        Raises:
            TypeError: the codes are not integers.
            ValueError: a code is not in 0..size-1, or a draw is needed and there is no `rng`.

        Example:
            >>> age = Attribute.from_spec("age", {"min": 0, "max": 19, "step": 10})
            >>> drawn = age.values([0, 1], np.random.default_rng(0))
            >>> bool(0 <= drawn[0] < 10 <= drawn[1] < 20)
            True
        """
        return self.decode(codes) if self.bins is None else _drawn(self, self.bins, self._codes(codes), rng)

    def spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each code's least number, their mean as `values` draws them, and the largest [size each].

        NaN for a code that stands for no number: a missing value, others, a label that is a word.

        Raises:
            ValueError: no code stands for a number, or they are dates.

        Example:
            >>> age = Attribute.from_spec("age", {"min": 0, "max": 19, "step": 10})
            >>> [ends.tolist() for ends in age.spans()]
            [[0.0, 10.0], [4.5, 14.5], [9.0, 19.0]]
        """
        found = np.full((3, self.size), np.nan)
        if self.bins is not None and self.time is None:
            starts, ends, cell, shares = self.pieces()
            grid = self.grid or 0.0  # the upper edge of a cell is no point of its grid
            edges = np.array(self.bins, np.float64)
            mean = np.bincount(cell, shares * (starts + ends - grid) / 2) / np.bincount(cell, shares)
            found[:, : len(mean)] = edges[:-1], mean, edges[1:] - grid
        elif self.bins is None and self.labels is None:
            found[:, : self.size - self.missing] = np.arange(self.size - self.missing)
        for code, label in enumerate(self.labels or ()):
            if isinstance(label, int | float) and not isinstance(label, bool):
                found[:, code] = label
        if np.isnan(found).all():
            kind = "dates" if self.time is not None else "words"
            raise ValueError(f"{self.name!r} has no mean: its values are {kind}, and a mean is of numbers.")
        return found[0], found[1], found[2]

    def pieces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return where values lie evenly within the cells of bins: start, end, cell and weight of each piece.

        Weights are in proportion within a cell; without `within` each cell is one piece.
        """
        edges = np.array(self.bins, np.float64)
        starts = np.array([start for start, _ in self.within] or edges[:-1], np.float64)
        weights = np.array([share for _, share in self.within] or np.ones(len(starts)), np.float64)
        cell = np.searchsorted(edges, starts, side="right") - 1
        # a cell whose shares are all 0 is drawn from evenly
        even = np.bincount(cell, weights)[cell] <= 0
        return starts, np.append(starts[1:], edges[-1]), cell, np.where(even, 1.0, weights)

    def _codes(self, codes: Any) -> np.ndarray:
        """Return codes [rows] as an array, checked."""
        then = ": if these are values, attribute.encode turns them into codes"
        return checked_codes(f"Codes of attribute {self.name!r}", codes, self.size, then)

    def code_names(self) -> list[str]:
        """Return a name for every code, for tables and plots. The missing bucket is named `missing`.

        Example:
            >>> Attribute.from_spec("age", {"bins": [0, 20, 65.5], "missing": True}).code_names()
            ['[0, 20)', '[20, 65.5]', 'missing']
        """
        if self.bins is not None:
            names = _names_of_cells(self, self.bins)
        else:
            values = self.labels or range(self.size - self.missing)
            names = [*map(str, values), *([self.other_name] if self.other else [])]
        if self.missing:
            names.append("(missing)" if "missing" in names else "missing")
        return names


def named_code(attribute: Attribute, code: int) -> int:
    """Return a code as a query names it: a `Code` where a number would be a value."""
    return Code(code) if attribute.numbers is not None or _has_ranges(attribute) else int(code)


def _has_ranges(attribute: Attribute) -> bool:
    """Return whether the codes are ranges of numbers: a number is a value in one of them, and no code."""
    return attribute.bins is not None and attribute.time is None and attribute.numbers is None


def code_of(attribute: Attribute, value: Any, said: str = "") -> int:
    """Return the code of a value.

    Args:
        attribute: the attribute.
        value: a label, a bin, or "missing", as in `Attribute.code_names`. A number is a value where values
            are numbers (labels that are, one number of a grid for each code, and bins, which have names), and
            a code otherwise. A `Code` is a code.
        said: description of the value for the error message.

    Raises:
        ValueError: the attribute has no such value.

    Example:
        >>> sex = Attribute.from_spec("sex", {"labels": ["Female", "Male"]})
        >>> [code_of(sex, each) for each in ("male", 0)]
        [1, 0]
        >>> stars = Attribute.from_spec("stars", {"min": 1, "max": 5})
        >>> [int(code_of(stars, each)) for each in (5, "5", Code(0))]
        [4, 4, 0]
    """
    value = value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value
    if isinstance(value, Code):
        code = int(value) if 0 <= value < attribute.size else OUTSIDE
    elif isinstance(value, str):
        code = _code_of_text(attribute, value)
    elif attribute.numbers or isinstance(value, bool) or (attribute.labels and not isinstance(value, int)):
        code = _raw_code(attribute, value)
    else:
        number = isinstance(value, int) and not _has_ranges(attribute)
        code = value if number and 0 <= value < attribute.size else OUTSIDE
    if code < 0:
        raise ValueError(f"{said + ': ' if said else ''}{_no_value(attribute, value)}")
    return named_code(attribute, code)


def _raw_code(attribute: Attribute, value: Any) -> int:
    """Return the code of a value, `OUTSIDE` if it would count among the others, whose name is another."""
    known, is_number = attribute._codes_of_numbers, type(value) in (int, float)
    code = known[value] if is_number and value in known else attribute.coder.raw_code(value)
    if is_number and len(known) < _MOST_KNOWN:
        known[value] = code
    return OUTSIDE if attribute.other and code == len(attribute.labels or ()) else code


def _code_of_text(attribute: Attribute, value: str) -> int:
    names = attribute.code_names()
    if value in names:
        return names.index(value)
    raw = _raw_code(attribute, value)
    if raw == MISSING and attribute.missing:
        return attribute.size - 1
    if raw < 0 or attribute.bins is not None:
        found = checks.same_word(value, names)
        if found is not None:
            return names.index(found)
    # a number inside a bin does not name it
    return raw if attribute.bins is None or attribute.numbers else OUTSIDE


def _no_value(attribute: Attribute, value: Any) -> str:
    """Return what to say of a value that an attribute does not have; the domain is public."""
    if isinstance(value, Code):
        return f"Code({value:d}) is not a code of {attribute.name!r}: its codes are 0..{attribute.size - 1}."
    names = attribute.code_names()
    some = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    if attribute.labels and not attribute.numbers and not isinstance(value, str):
        some += f", or a code in 0..{attribute.size - 1}"
    shown = f"{value!r:.40}" if isinstance(value, str | int | float) else f"a {type(value).__name__}"
    if attribute.bins is not None and attribute.numbers is None:
        raw = _raw_code(attribute, value) if isinstance(value, str | int | float) else OUTSIDE
        if 0 <= raw < len(names):
            name, here = attribute.name, names[raw]
            text = f"{name}={here}, or both bounds, as in {_between(attribute, raw)}"
            written = (
                text if isinstance(value, str) else f"{here!r}, or pgmjax.queries.Code({raw}) for its code"
            )
            return f"{shown} is in {here}, a bin of {name!r}: write {written}."
        return (
            f"{attribute.name!r} is binned and {shown} is not one of its bins: write one of {some}; bounds "
            f"stand in a condition in text, as in {_between(attribute, 0)}, which every "
            "model, history and session takes as a query."
        )
    meant = checks.did_you_mean(value, names) if isinstance(value, str) else ""
    return f"{shown} is not a value of {attribute.name!r}: it has {some}.{meant}"


def edge_text(attribute: Attribute, edge: float) -> str:
    """Return an edge of a bin as it is written in a condition, with all its digits."""
    if attribute.time is not None:
        return moment_text(edge, attribute.time)
    if attribute.grid is not None:  # whose multiples have other digits in binary
        return f"{edge:.{decimal_places(attribute.grid)}f}"
    return str(int(edge)) if float(edge).is_integer() else repr(float(edge))


def _between(attribute: Attribute, code: int) -> str:
    """Return the condition that a value lies in a bin."""
    low, high = (edge_text(attribute, each) for each in (attribute.bins or ())[code : code + 2])
    closed = attribute.grid is None and code == len(attribute.bins or ()) - 2
    return f"{attribute.name}>={low},{attribute.name}<{'=' * closed}{high}"


def _names_of_cells(attribute: Attribute, bins: tuple[float, ...]) -> list[str]:
    """Return the name of each cell of bins."""
    pairs = list(itertools.pairwise(bins))
    if attribute.time is not None:
        return [_date_name(int(low), int(high), attribute.time) for low, high in pairs]
    if attribute.grid is not None:
        return [_grid_name(low, high, attribute.grid) for low, high in pairs]
    edges = [edge_text(attribute, edge) for edge in bins]
    names = [f"[{low}, {high})" for low, high in itertools.pairwise(edges)]
    names[-1] = names[-1][:-1] + "]"
    return names


def _grid_name(low: float, high: float, grid: float) -> str:
    places = decimal_places(grid)
    last = high - grid
    first, last_text = f"{low:.{places}f}", f"{last:.{places}f}"
    return first if first == last_text else f"{first} to {last_text}"


def _date_name(low: int, high: int, time: str) -> str:
    unit = "D" if time == "day" else "s"
    first, past, before = np.array([low, high, high - 1]).astype(f"M8[{unit}]")
    for coarse in ("Y", "M", "D"):
        whole = first.astype(f"M8[{coarse}]")
        if whole.astype(f"M8[{unit}]") == first and (whole + 1).astype(f"M8[{unit}]") == past:
            return str(whole)
    return str(first) if first == before else f"{first} to {before}"


def _drawn(
    attribute: Attribute, bins: tuple[float, ...], codes: np.ndarray, rng: np.random.Generator | None
) -> np.ndarray:
    """Return values [rows] in the cells of codes [rows]; see `Attribute.values`."""
    cells = len(bins) - 1
    regular = np.minimum(codes, cells - 1).astype(np.int64)
    starts, ends, _, _ = attribute.pieces()
    # the draws of a row depend on no other row: values are the same in blocks of any size
    grid = attribute.grid
    single = grid is not None and bool((np.rint((ends - starts) / grid) <= 1).all())
    # no draw where every piece has one value, so that no generator is needed
    uniform = np.zeros((len(codes), 1))
    if attribute.within or not single:
        if rng is None:
            raise ValueError(
                f"Attribute {attribute.name!r} has cells of several values: give values() a generator of "
                "random numbers, such as numpy.random.default_rng(0)."
            )
        uniform = rng.random((len(codes), 2 if attribute.within else 1))
    piece = _pieces(attribute, regular, uniform[:, 0]) if attribute.within else regular
    low, high, offset = starts[piece], ends[piece], uniform[:, -1]
    if grid is None:
        # rounding may reach the upper edge, which is of the next cell
        values = np.minimum(low + offset * (high - low), np.nextafter(high, low))
    else:
        first, last = np.rint(low / grid).astype(np.int64), np.rint(high / grid).astype(np.int64)
        steps = first + np.minimum((offset * (last - first)).astype(np.int64), last - first - 1)
        values = steps if grid == 1 else np.round(steps * grid, decimal_places(grid))
        values = values.astype(np.int64) if float(grid).is_integer() else values
    if attribute.time is not None:
        values = values.astype("M8[D]" if attribute.time == "day" else "M8[s]")
    return values if not attribute.missing else _with_missing(values, codes == cells)


def _pieces(attribute: Attribute, codes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return for each row the piece of its cell, among all pieces, that a uniform number [rows] picks."""
    _, _, cell, shares = attribute.pieces()
    first = np.append(np.searchsorted(cell, np.arange(cell[-1] + 1)), len(cell))
    below = np.append(0.0, np.cumsum(shares))
    low, high = below[first[codes]], below[first[codes + 1]]
    at = low + uniform * (high - low)
    piece = np.searchsorted(below, at, side="right") - 1
    # rounding may lead to a piece of the next cell
    return np.clip(piece, first[codes], first[codes + 1] - 1)


def _with_missing(values: np.ndarray, missing: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "M":
        return np.where(missing, np.datetime64("NaT"), values)
    found = values.astype(object)
    found[missing] = None
    return found
