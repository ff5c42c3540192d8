"""One attribute of a table: its possible values, and the integer code of each.

An `Attribute` is constructed in Python or from its entry in a domain file, which `fields_of_spec` checks.
`codes_of` returns the codes of values given by a user, such as those of a constraint.
"""

from __future__ import annotations

import functools
import itertools
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.encoding import Coder, Encoded, Label, text_of

_KEYS = ("size", "labels", "bins", "missing", "clip")


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

    Example:
        >>> sex = Attribute.from_spec("sex", {"labels": ["Female", "Male"], "missing": "?"})
        >>> sex.size, sex.encode(["Male", "?", "Female"]).tolist()
        (3, [1, 2, 0])
    """

    name: str
    size: int
    labels: tuple[Label, ...] | None = None
    bins: tuple[float, ...] | None = None
    missing: bool = False
    missing_markers: tuple[Label, ...] = ()
    clip: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"An attribute's name must be a string, got {type(self.name).__name__}.")
        if not self.name:
            raise ValueError("An attribute's name must not be empty.")
        checks.plain_text("An attribute's name", self.name)
        said = f"The size of attribute {self.name!r}"
        object.__setattr__(self, "size", checks.integer(said, self.size, low=1))
        if self.labels is not None and self.bins is not None:
            raise ValueError(f"Attribute {self.name!r} must have labels or bins, not both.")
        regular = self.size - bool(self.missing)
        if self.labels is not None:
            object.__setattr__(self, "labels", checked_labels(self.name, "labels", self.labels))
            expected = len(self.labels)
        elif self.bins is not None:
            object.__setattr__(self, "bins", checked_bins(self.name, self.bins))
            expected = len(self.bins) - 1
        else:
            expected = max(regular, 1)
        if regular != expected:
            raise ValueError(f"{said} must be {expected + bool(self.missing)}, got {self.size}.")
        self._check_missing(regular)

    def _check_missing(self, regular: int) -> None:
        markers = self.missing_markers
        if markers:
            markers = checked_labels(self.name, "missing markers", markers)
            object.__setattr__(self, "missing_markers", markers)
        if markers and not self.missing:
            raise ValueError(f"Attribute {self.name!r} has missing markers but no missing bucket.")
        if self.clip and self.bins is None:
            raise ValueError(f"Attribute {self.name!r} has no bins, so nothing to clip.")
        both = {text_of(label) for label in self.labels or ()} & {text_of(mark) for mark in markers}
        if self.labels is None and self.bins is None:
            both |= {text for text in map(text_of, markers) if text.isdecimal() and int(text) < regular}
        if both:
            raise ValueError(f"Attribute {self.name!r}: {sorted(both)} both a value and a missing marker.")

    @classmethod
    def from_spec(cls, name: str, spec: Any) -> Attribute:
        """Make an attribute from a size, or from a mapping as in a domain file.

        Args:
            name: the attribute's name.
            spec: the size n (codes 0..n-1), or {"size": n}, {"labels": [...]} or {"bins": [edges]}.
                A mapping may also have "missing": true, a marker or a list of markers, which adds one
                code at the end, and, with bins, "clip": true.

        Raises:
            TypeError: a size or another entry has the wrong type.
            ValueError: an unknown key, not exactly one of size, labels and bins, or invalid values.
        """
        if isinstance(spec, Attribute):
            if spec.name != name:
                raise ValueError(f"The attribute under the name {name!r} calls itself {spec.name!r}.")
            return spec
        return cls(name, **(fields_of_spec(name, spec) if isinstance(spec, Mapping) else {"size": spec}))

    def to_spec(self) -> dict[str, Any]:
        """Return the mapping of a domain file that `from_spec` reads back."""
        spec: dict[str, Any] = {}
        if self.labels is not None:
            spec["labels"] = list(self.labels)
        elif self.bins is not None:
            spec["bins"] = list(self.bins)
        else:
            spec["size"] = self.size - self.missing
        if self.missing:
            spec["missing"] = list(self.missing_markers) or True
        if self.clip:
            spec["clip"] = True
        return spec

    @functools.cached_property
    def coder(self) -> Coder:
        """The encoder behind `encode`, used by readers of tables batch by batch."""
        return Coder(self.size, self.labels, self.bins, self.missing, self.missing_markers, self.clip)

    def encode(self, values: Any) -> np.ndarray:
        """Return the codes [rows] of raw values [rows].

        Args:
            values: a one-dimensional array or list of labels, numbers or codes. Text is interpreted
                according to the attribute's kind.

        Returns:
            Codes, in the smallest unsigned integer type that holds all codes of the attribute.

        Raises:
            TypeError: float values for an attribute with integer codes.
            ValueError: values outside the domain, or missing values without a missing bucket. The
                message gives their number but no value.
        """
        if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
            raise TypeError(f"Attribute {self.name!r}: values must be a list or an array.")
        array = values if isinstance(values, np.ndarray) else np.array([*values, None], dtype=object)[:-1]
        if array.ndim != 1:
            raise ValueError(f"Attribute {self.name!r}: values must be one-dimensional, got {array.ndim}.")
        if array.dtype.kind in "biuf":
            try:
                encoded = self.coder.encode_numbers(array)
            except TypeError as error:
                raise TypeError(f"Attribute {self.name!r}: {error}.") from None
        else:
            encoded = self.coder.encode_objects(array.tolist())
        problem = self.problem(encoded)
        if problem:
            raise ValueError(problem)
        return encoded.codes

    def problem(self, encoded: Encoded) -> str:
        """Return a message on the number of rows without a code and the remedy; empty if all have one."""
        said = []
        if encoded.outside:
            remedy = " (clip: true counts them in the end cells)" if self.bins and not self.clip else ""
            said.append(f"{encoded.outside} rows lie outside its {self._what()}{remedy}")
        if encoded.missing:
            said.append(f"{encoded.missing} rows have no value and it has no missing bucket (missing: true)")
        return f"Attribute {self.name!r}: {' and '.join(said)}." if said else ""

    def _what(self) -> str:
        if self.labels is not None:
            return f"{len(self.labels)} labels"
        if self.bins is not None:
            return f"bins {self.code_names()[0]} to {self.code_names()[len(self.bins) - 2]}"
        return f"codes 0..{self.size - self.missing - 1}"

    def decode(self, codes: Any) -> np.ndarray:
        """Return the values [rows] of codes [rows]: labels, bin names or codes; None if missing.

        Raises:
            TypeError: the codes are not integers.
            ValueError: a code is not in 0..size-1.
        """
        index = np.asarray(codes)
        if index.dtype.kind not in "iu":
            raise TypeError(f"Codes of attribute {self.name!r} must be integers, got {index.dtype}.")
        if index.size and not (index.min() >= 0 and index.max() < self.size):
            raise ValueError(f"Codes of attribute {self.name!r} must lie in 0..{self.size - 1}.")
        if self.labels is None and self.bins is None and not self.missing:
            return index.astype(np.int64)
        values: list[Any] = list(self.labels or ())
        if self.labels is None:
            regular = self.size - self.missing
            values = self.code_names()[:regular] if self.bins else list(range(regular))
        mixed = self.missing or len({type(value) for value in values}) > 1
        table = np.array([*values, None], dtype=object)[: self.size]
        return table[index] if mixed else np.array(values)[index]

    def code_names(self) -> list[str]:
        """Return a name for every code, for tables and plots. The missing bucket is named `missing`.

        Example:
            >>> Attribute.from_spec("age", {"bins": [0, 20, 65.5], "missing": True}).code_names()
            ['[0, 20)', '[20, 65.5]', 'missing']
        """
        if self.labels is not None:
            names = [str(label) for label in self.labels]
        elif self.bins is not None:
            edges = [str(int(edge)) if edge.is_integer() else repr(edge) for edge in self.bins]
            names = [f"[{low}, {high})" for low, high in itertools.pairwise(edges)]
            names[-1] = names[-1][:-1] + "]"
        else:
            names = [str(code) for code in range(self.size - self.missing)]
        if self.missing:
            names.append("(missing)" if "missing" in names else "missing")
        return names


def fields_of_spec(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the attribute that a mapping describes; see `Attribute.from_spec`."""
    unknown = [key for key in spec if key not in _KEYS]
    if unknown:
        raise ValueError(f"Attribute {name!r} has unknown keys {unknown}: expected {list(_KEYS)}.")
    kinds = [key for key in ("size", "labels", "bins") if key in spec]
    if len(kinds) != 1:
        raise ValueError(f"Attribute {name!r} must have one of size, labels and bins, got {kinds}.")
    missing, markers = _missing(name, spec.get("missing", False))
    clip = spec.get("clip", False)
    if not isinstance(clip, bool):
        raise TypeError(f"'clip' of attribute {name!r} must be true or false, got {type(clip).__name__}.")
    common = {"missing": missing, "missing_markers": markers, "clip": clip}
    if "size" in spec:
        size = checks.integer(f"The size of attribute {name!r}", spec["size"], low=1)
        return {"size": size + missing, **common}
    values = spec[kinds[0]]
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"The {kinds[0]} of attribute {name!r} must be a list.")
    values = tuple(values)
    codes = len(values) if "labels" in spec else max(len(values) - 1, 1)
    return {"size": max(codes, 1) + missing, kinds[0]: values, **common}


def _missing(name: str, value: Any) -> tuple[bool, tuple[Label, ...]]:
    if isinstance(value, bool):
        return value, ()
    if isinstance(value, (list, tuple)):
        return bool(value), tuple(value)
    if isinstance(value, (str, int, float)):
        return True, (value,)
    raise TypeError(f"'missing' of attribute {name!r} must be true, a marker or a list of markers.")


def checked_labels(name: str, what: str, values: Iterable[Any]) -> tuple[Label, ...]:
    """Return labels or markers, after checking that they are distinct scalars."""
    values = tuple(values)
    if not values:
        raise ValueError(f"The {what} of attribute {name!r} must not be empty.")
    for value in values:
        if not isinstance(value, (str, bool, int, float)):
            raise TypeError(
                f"The {what} of attribute {name!r} must be text, numbers or bools, got "
                f"{type(value).__name__} (in YAML, put dates and the like in quotes)."
            )
        if isinstance(value, str):
            checks.plain_text(f"The {what} of attribute {name!r}", value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"The {what} of attribute {name!r} must be finite (missing: true reads NaN).")
    if len({text_of(value) for value in values}) < len(values) or len(set(values)) < len(values):
        raise ValueError(f"The {what} of attribute {name!r} must differ from one another, also as text.")
    return values


def checked_bins(name: str, edges: Iterable[Any]) -> tuple[float, ...]:
    """Return the edges of bins, after checking that they are finite and increasing."""
    edges = tuple(edges)
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, numbers.Real):
            raise TypeError(f"The bins of attribute {name!r} must be numbers, got {type(edge).__name__}.")
    values = tuple(float(edge) for edge in edges)
    increasing = all(low < high for low, high in itertools.pairwise(values))
    if len(values) < 2 or not increasing or not all(map(math.isfinite, values)):
        raise ValueError(f"The bins of attribute {name!r} must be two or more finite edges, increasing.")
    return values


def codes_of(attribute: Attribute, values: Iterable[Any], said: str) -> list[int]:
    """Return the code of each value.

    Args:
        attribute: the attribute.
        values: labels, or codes if none of the attribute's labels is a number.
        said: description of the values for the error message.

    Raises:
        ValueError: a value is neither a label nor an allowed code.

    Example:
        >>> sex = Attribute.from_spec("sex", {"labels": ["Female", "Male"]})
        >>> codes_of(sex, ["Male", 0], "evidence")
        [1, 0]
    """
    labels = attribute.labels or ()
    numbered = any(isinstance(label, int | float) for label in labels)
    known: dict[tuple[type, Any], int] = {}
    for number, label in enumerate(labels):
        known.setdefault((type(label), label), number)
    codes: list[int] = []
    for value in values:
        value = value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value
        code: int | None = known.get((type(value), value)) if value.__hash__ else None
        if code is None and type(value) is int and not numbered and 0 <= value < attribute.size:
            code = value
        if code is None:
            other = "" if numbered else f" or a code in 0..{attribute.size - 1}"
            raise ValueError(f"{said} on {attribute.name!r} must be one of its labels{other}.")
        codes.append(code)
    return codes
