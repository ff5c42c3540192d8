"""The public description of a table: its attributes, in order, and the size of each.

A domain is always given, never inferred from private records, because the set of values in a private table
is itself private. It is written in Python, read from a file (JSON, or YAML with only `true` and `false` as
booleans; no name may occur twice), or inferred from a public table.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import functools
import itertools
import math
import numbers
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named, instead
from pgmjax.data.attribute import Attribute
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.entry import shown
from pgmjax.data.value import is_missing, moment_of, plain_text

_BRACES = re.compile(r"(?:\b[A-Za-z_]\w*: )?(?:\{(?:[^{}]|\{[^{}]*\})*\}|(?<=: )\[[^\[\]]*\])")
_WORD = re.compile(r"(?<![\w'\".])([A-Za-z_][\w.]*|\d{4}-\d\d-\d\d)(?=[,:\]}])")
_OPEN = re.compile(r"(?<=, or )([^:,]+): discover(?=\.)")
_DRAFTED = re.compile(r', or "[^"]+": "discover"')  # which a draft may say, and no domain
_SWITCH = re.compile(r"`?\b([a-z]+): (true|false)\b`?")


@dataclass(frozen=True, init=False, repr=False)
class Domain(Named):
    """The attributes of a table with their sizes. Hashable and compared by value.

    Args:
        spec: a mapping from name to a size (codes 0..size-1), a mapping as in a domain file (see
            `Attribute.from_spec`), or an `Attribute`.

    Raises:
        TypeError: `spec` is not a mapping, or a name or size has the wrong type.
        ValueError: `spec` is empty, a name is empty, or a size is below 1.

    Example:
        >>> domain = Domain({"age": 85, "sex": {"labels": ["Female", "Male"]}})
        >>> domain.shape, domain["sex"], domain.size()
        ((85, 2), 2, 170)
    """

    _attributes: tuple[Attribute, ...]

    def __init__(self, spec: Mapping[str, Any]):
        if not isinstance(spec, Mapping):
            read = isinstance(spec, str | os.PathLike)
            remedy = (
                "read a domain file with Domain.read"
                if read
                else 'write Domain({"age": 100, "sex": ["F", "M"]})'
            )
            raise TypeError(
                f"A domain must be a mapping from attribute name to entry, got {shown(spec)}: {remedy}."
            )
        if not spec:
            raise ValueError("A domain must have at least one attribute, got none.")
        try:
            self._describe(spec)
        except (TypeError, ValueError) as error:
            raise type(error)(_DRAFTED.sub("", in_python(str(error)))) from None

    def _describe(self, spec: Mapping[str, Any]) -> None:
        attributes = tuple(Attribute.from_spec(name, entry) for name, entry in spec.items())
        _check_names([attribute.name for attribute in attributes])
        object.__setattr__(self, "_attributes", attributes)

    @classmethod
    def _of_file(cls, spec: Any) -> Domain:
        """Return the domain of a file's content, whose faults are told as the file is written."""
        if not isinstance(spec, Mapping) or not spec:
            form = "a name and what it holds on each line, such as age: {min: 0, max: 99} or sex: [F, M]"
            if isinstance(spec, str) and (wrong := re.search(r"^\s*[\w-]+\s*(=|:(?=\S))", spec)):
                form = f"write a colon and a space where this has {wrong[1]!r}, as in age: 12"
            came = "nothing" if spec is None or spec == {} else shown(spec)
            raise ValueError(f"A domain file must describe each attribute, got {came}: {form}.")
        found = object.__new__(cls)
        found._describe(spec)
        return found

    @functools.cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self._attributes}

    @functools.cached_property
    def attributes(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._by_name)

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes, in order."""
        return tuple(attribute.size for attribute in self._attributes)

    @property
    def sizes(self) -> dict[str, int]:
        """A new dict from name to size."""
        return dict(zip(self.attributes, self.shape, strict=True))

    def __getitem__(self, name: str) -> int:
        known = self._by_name.get(name)
        return (self.attribute(name) if known is None else known).size

    __setitem__ = instead(
        "A domain does not change: make another, such as Domain({**domain.to_dict(), 'age': 100})."
    )

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def attribute(self, name: str) -> Attribute:
        """Return the attribute of that name, in whichever form Unicode writes it.

        Raises:
            ValueError: no attribute has that name.
        """
        if name in self._by_name:
            return self._by_name[name]
        found = checks.same_word(name, self._by_name)
        if found is None or plain_text(found) != plain_text(name):
            meant = checks.did_you_mean(name, self._by_name)
            raise ValueError(f"{name!r} is not an attribute of the domain; there are {_some(self)}.{meant}")
        return self._by_name[found]

    def shape_of(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Return the sizes of the given attributes, in the order given."""
        return tuple(map(self.__getitem__, checks.several("clique", clique, "attribute names")))

    def size(self, clique: Iterable[str] | None = None) -> int:
        """Return the exact number of cells over the given attributes. Default: all attributes."""
        return math.prod(self.shape if clique is None else self.shape_of(clique))

    def project(self, clique: Clique) -> Domain:
        """Return the domain of the given attributes, in the order given."""
        return Domain({name: self._by_name[name] for name in as_clique(self, clique)})

    def decode(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return columns of values [rows] for columns of codes [rows]; see `Attribute.decode`."""
        if hasattr(columns, "columns"):
            raise TypeError(
                "columns must be a mapping from names to codes, as model.sample returns, got "
                f"{type(columns).__name__}: what is read from a file has values already, and needs no "
                "decoding."
            )
        checks.mapping("columns", columns, "attribute to codes")
        return {name: self.attribute(name).decode(codes) for name, codes in columns.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a domain file: a plain size per attribute, or a mapping if needed."""
        specs = {name: attribute.to_spec() for name, attribute in self._by_name.items()}
        return {name: spec["size"] if list(spec) == ["size"] else spec for name, spec in specs.items()}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Domain:
        """Read a domain file: .json, .yaml or .yml.

        Raises:
            ValueError: the kind of file is not supported, a name is given twice, or the text is not valid
                JSON or YAML, nested too deep, with numbers of more than 400 digits, or with aliases that
                stand for more than a million entries.
        """
        from pgmjax.data.domain_file import read_domain_file  # which a fit does without

        return read_domain_file(path, cls._of_file)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a domain file that does not exist yet: .json, .yaml or .yml."""
        from pgmjax.data.domain_file import write_file

        write_file(checks.new_file(path), self.to_dict())

    @classmethod
    def from_public_data(
        cls, frame: Any, *, bins: int | Mapping[str, Any] | None = None, max_labels: int = 100
    ) -> Domain:
        """Infer a domain from public data. Never use it on the table to be protected.

        Args:
            frame: a pandas, polars or Arrow table, or a mapping from name to list of values.
            bins: number of equal-width cells for every numeric attribute, or a mapping from attribute to
                edges or to a number of equal-width cells.
            max_labels: the largest number of labels of an attribute. Whole numbers with more distinct values
                get a range, other numbers bins of equal and round width, and texts the label "other" for all
                but the most frequent. It is also the largest number of cells of all these.

        Dates get cells of a day, a month or a year.

        Raises:
            ValueError: an attribute has no values, or bins but values that are not numbers.

        Warns:
            UserWarning: always, because a domain inferred from private data reveals its values.
        """
        found = cls(infer(frame, bins, max_labels))
        checks.warn(
            "This domain shows which values occur in the table it was taken from: use it only where "
            "that table is public, and write the domain of a private table by hand."
        )
        return found

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in self.sizes.items())
        return f"Domain({{{sizes}}})"

    def _repr_html_(self) -> str:
        from pgmjax._internal import html  # of notebooks

        rows = ((a.name, a.size, _kind(a)) for a in self._attributes)
        facts = {"attributes": len(self), "cells": self.size()}
        return html.card("Domain", facts, html.table(("attribute", "size", "codes"), rows, len(self)))


def _kind(attribute: Attribute, most: int = 6) -> str:
    """Return a short text on the meaning of an attribute's codes."""
    if attribute.labels is None and attribute.bins is None:
        said = "numbers from 0"
    else:
        names = attribute.code_names()[: attribute.size - attribute.missing]
        ends = names if len(names) <= most else (*names[: most - 1], "…", names[-1])
        said = ("bins " if attribute.bins is not None else "") + ", ".join(ends)
    return f"{said}; the last: missing" if attribute.missing else said


def _check_names(names: list[str]) -> None:
    """Refuse two names that look the same: stores would read one column for both."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(plain_text(name), name)) != name:
            places = f"attributes {names.index(other) + 1} and {names.index(name) + 1}"
            raise ValueError(
                f"The names {other!r} and {name!r} ({places}) differ only in white space or in how Unicode "
                "writes them: rename one."
            )


def _some(domain: Domain, most: int = 12) -> str:
    names = ", ".join(domain.attributes[:most])
    return names if len(domain) <= most else f"{names} and {len(domain) - most} more"


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


def differing(one: Domain, other: Domain) -> str:
    """Return in which attributes two domains differ, in words.

    Example:
        >>> differing(Domain({"a": 2, "b": 3}), Domain({"a": 2, "b": 4, "c": 2}))
        'b, c'
    """
    names = [*one, *(name for name in other if name not in one)]
    found = [
        name
        for name in names
        if name not in one or name not in other or one.attribute(name) != other.attribute(name)
    ]
    return ", ".join(found) or "the order of their attributes"


def as_domain(domain: Any, call: str, *others: Any) -> Domain:
    """Return the argument that is to be a domain.

    Args:
        domain: the argument.
        call: how the function is called, for the message.
        others: arguments that stand beside it.

    Raises:
        TypeError: it is none; the message has the call, and says whether the domain stands elsewhere.

    Example:
        >>> as_domain([1, 2], "Dataset.from_frame(domain, frame)", Domain({"a": 2}))
        Traceback (most recent call last):
        TypeError: the domain is given in another place: write Dataset.from_frame(domain, frame).
    """
    if isinstance(domain, Domain):
        return domain
    if any(isinstance(other, Domain) for other in others):
        raise TypeError(f"the domain is given in another place: write {call}.")
    made = ", with pgmjax.Domain(mapping) for the domain" if isinstance(domain, Mapping) else ""
    made = ", with pgmjax.Domain.read(file) for the domain" if isinstance(domain, str | os.PathLike) else made
    raise TypeError(f"domain must be a pgmjax.Domain, got {type(domain).__name__}: write {call}{made}.")


def in_python(message: str) -> str:
    """Return a message with what it says to write as Python has it, and not YAML.

    Example:
        >>> print(in_python("Write age: {min: 0, max: 99}, or sex: {labels: [F, M], missing: true}."))
        Write "age": {"min": 0, "max": 99}, or "sex": {"labels": ["F", "M"], "missing": True}.
    """
    values = {"true": "True", "false": "False", "null": "None"}

    def quoted(found: re.Match[str]) -> str:
        return values.get(found[1], f'"{found[1]}"')

    def switched(found: re.Match[str]) -> str:
        return f'"{found[1]}": {values[found[2]]}'

    message = _OPEN.sub(r'"\1": "discover"', message)
    return _SWITCH.sub(switched, _BRACES.sub(lambda found: _WORD.sub(quoted, found[0]), message))
