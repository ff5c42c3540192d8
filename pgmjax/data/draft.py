"""Domains that nobody has written out: open in part (`Draft`), or inferred from a public table (`infer`).

In a draft some columns are described, and the others are to be discovered.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import itertools
import math
import numbers
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain_file import read_domain_file
from pgmjax.data.encoding import STORAGES
from pgmjax.data.entry import OPEN, at, open_kind, shown
from pgmjax.data.value import is_missing, moment_of

_STORAGES = {"bins": ("text", "number", "nothing"), "dates": ("text", "date", "nothing")}
"""The storage types of columns in which values of a shape may be found; any where nothing is said."""


class Draft:
    """A domain that is open in part.

    Args:
        entries: for each column an entry of a domain file, or `"discover"`, `{"bins": "discover"}`,
            `{"labels": "discover"}` or `{"dates": "discover"}`.

    Raises:
        TypeError: the entries are no mapping.
        ValueError: an entry is invalid, or there is none.

    Attributes:
        closed: the attributes that are described, by name.
        open: what is said of the others, by name: one of `entry.OPEN_KINDS`, or "any".
        columns: all names, in order.

    Example:
        >>> draft = Draft({"sex": {"labels": ["F", "M"]}, "age": {"bins": "discover"}, "job": "discover"})
        >>> [*draft.closed], draft.open
        (['sex'], {'age': 'bins', 'job': 'any'})
    """

    def __init__(self, entries: Mapping[str, Any]):
        if not isinstance(entries, Mapping):
            raise TypeError(
                "A domain must be a mapping from column to entry, such as {age: {min: 0, max: 99}}, got "
                f"{shown(entries)}."
            )
        if not entries:
            raise ValueError("A draft must name at least one column, got none.")
        self.closed: dict[str, Attribute] = {}
        self.open: dict[str, str] = {}
        for name, entry in entries.items():
            with at(name):
                shape = open_kind(name, entry)
            if shape is None:
                self.closed[name] = Attribute.from_spec(name, entry)
            else:
                self.open[name] = shape
        self.columns = tuple(entries)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Draft:
        """Read a domain file, .json, .yaml or .yml, that may say "discover" for columns.

        Raises:
            ValueError: as `Domain.read`.
        """
        return read_domain_file(path, cls)

    def refusal(self, name: str, storage: str) -> str:
        """Return why a column of some storage type has no place in its entry; empty if it has one.

        Args:
            name: the column.
            storage: one of `encoding.STORAGES`.
        """
        if name in self.closed:
            return self.closed[name].coder.refusal(storage)
        shape = self.open[name]
        return "" if storage in _STORAGES.get(shape, STORAGES) else f"{shape} are to be discovered in it"

    @property
    def may_have_labels(self) -> bool:
        """True if an open column may turn out to be text."""
        return bool(self.maybe_text)

    @property
    def maybe_text(self) -> list[str]:
        """The open columns that may turn out to be text, whose labels need a delta."""
        return [name for name, shape in self.open.items() if shape in ("any", "labels")]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Draft) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the domain file."""
        return {
            name: self.closed[name].to_spec()
            if name in self.closed
            else OPEN
            if self.open[name] == "any"
            else {self.open[name]: OPEN}
            for name in self.columns
        }


def infer(frame: Any, bins: int | Mapping[str, Any] | None, max_labels: int) -> dict[str, Attribute]:
    """Return an attribute for every column of a frame; see `Domain.from_public_data`."""
    names = _names(frame)
    if not (bins is None or isinstance(bins, Mapping)):
        first = repr(names[0]) if names else "'age'"
        said = "bins must be a number of cells for all columns, or a mapping from names to edges or numbers"
        checks.kind(bins, int, said, f"write bins={{{first}: [0, 18, 65]}}")
    chosen = bins if isinstance(bins, Mapping) else {}
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(f"bins names {unknown}, which are not columns of the table.")
    attributes = {}
    for name in names:
        counts, missing = _counts(name, frame[name])
        values = list(counts)
        if not values:
            raise ValueError(f"Column {name!r} holds no value: say its domain by hand.")
        numeric = all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in values)
        cells = chosen.get(name, bins if isinstance(bins, int) and numeric else None)
        if cells is not None and not numeric:
            raise ValueError(f"Column {name!r} does not hold numbers only, so it cannot have bins.")
        if cells is not None:
            edges = _equal_width(name, values, cells) if isinstance(cells, int) else list(cells)
            spec: dict[str, Any] = {"bins": edges}
        else:
            spec = _inferred(counts, numeric, checks.integer("max_labels", max_labels, low=1))
        attributes[name] = Attribute.from_spec(name, {**spec, "missing": missing})
    return attributes


def _inferred(counts: collections.Counter[Any], numeric: bool, most: int) -> dict[str, Any]:
    """Return the entry of a public column, with at most `most` cells besides other and missing."""
    values = list(counts)
    if all(isinstance(value, datetime.date) for value in values):
        return _dates(values, most)
    if len(values) > most and numeric and math.isfinite(float(max(values)) - float(min(values))):
        return _range(values, most)
    kept = [value for value, _ in counts.most_common(most)]
    same_type = len({type(value) for value in kept}) == 1
    labels = sorted(kept, key=None if same_type or numeric else str)
    return {"labels": labels, **({"other": True} if len(values) > most else {})}


def _dates(values: list[Any], most: int) -> dict[str, Any]:
    """Return dates from the first to the last, by days, months or years."""
    days = [moment_of(value).astype("M8[D]").item() for value in values]
    first, last = min(days), max(days)
    span = (last - first).days
    step = "day" if span < most else "month" if span < 30 * (most - 1) else "year"
    return {"from": first.isoformat(), "to": last.isoformat(), "step": step}


def _range(values: list[Any], most: int) -> dict[str, Any]:
    """Return at most `most` cells of a round width, on multiples of it: a range of whole numbers, or bins."""
    low, high, most = min(values), max(values), max(most, 2)  # around 0 no step is long enough for one cell
    whole = all(float(value).is_integer() for value in values)
    for power in itertools.count(0 if whole else math.floor(math.log10(max((high - low) / most, 1e-300)))):
        for digit in (1, 2, 5):
            step = fractions.Fraction(10) ** power * digit
            first, last = (math.floor(fractions.Fraction(end) / step) for end in (low, high))
            if last - first < most and whole:
                return {"min": int(first * step), "max": int((last + 1) * step) - 1, "step": int(step)}
            if last - first < most:
                return {"bins": [float(edge * step) for edge in range(first, last + 2)]}
    raise AssertionError  # a step as long as the range has two cells at most


def _equal_width(name: str, values: list[Any], cells: int) -> list[float]:
    cells = checks.integer(f"The number of bins of column {name!r}", cells, low=1)
    low, high = float(min(values)), float(max(values))
    return np.linspace(low, high if high > low else low + 1, cells + 1).tolist()


def _names(frame: Any) -> list[str]:
    if isinstance(frame, str | os.PathLike):
        raise TypeError(
            "The table must be a frame, got a path: read it first, or use `pgmjax domain draft --public`."
        )
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    names = list(frame) if names is None else list(names)
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise ValueError("The columns of the table must have names that are strings, each once.")
    return names


def _counts(name: str, column: Any) -> tuple[collections.Counter[Any], bool]:
    """Return how often each value occurs, and whether there are missing ones."""
    to_list = getattr(column, "to_pylist", None) or getattr(column, "tolist", None)
    to_list = to_list or getattr(column, "to_list", None)
    plain = (float(v) if isinstance(v, decimal.Decimal) else v for v in (to_list() if to_list else column))
    try:
        found = collections.Counter(plain)
    except TypeError:  # not hashable
        raise TypeError(f"Column {name!r} holds lists or the like: leave it out, or take it apart.") from None
    kept = {value: rows for value, rows in found.items() if not is_missing(value)}
    return collections.Counter(kept), len(kept) < len(found)
