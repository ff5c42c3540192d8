"""The public description of a table: its attributes, in order, and the size of each.

A domain is always given, never inferred from private records, because the set of values in a private table
is itself private. It is written in Python, read from a file (JSON, or YAML with only `true` and `false` as
booleans; no name may occur twice), or inferred from a public table.
"""

from __future__ import annotations

import collections
import csv
import datetime
import decimal
import fractions
import functools
import itertools
import json
import math
import numbers
import os
import pathlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pgmjax._internal import checks, html
from pgmjax._internal.files import parse_json, read_text
from pgmjax._internal.migration import Named
from pgmjax.data.attribute import Attribute
from pgmjax.data.cliques import Clique, as_clique

_Made = TypeVar("_Made")
_DEEPEST = 32  # a domain file needs 4
_LONGEST_NUMBER = 400  # characters
_MOST_NODES = 1_000_000
# what YAML reads otherwise than a table's text would be, by the type that it reads
_TRAPS = {
    "int": re.compile(r"[-+]?(0[0-9xb].*|.*[_:].*)"),
    "float": re.compile(r".*[_:].*"),
}
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


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
            raise TypeError(
                f"A domain must be a mapping from attribute name to size, got {type(spec).__name__}."
            )
        if not spec:
            raise ValueError("A domain must have at least one attribute, got none.")
        attributes = tuple(Attribute.from_spec(name, entry) for name, entry in spec.items())
        object.__setattr__(self, "_attributes", attributes)

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
        return self.attribute(name).size

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def attribute(self, name: str) -> Attribute:
        """Return the attribute of that name.

        Raises:
            ValueError: no attribute has that name.
        """
        if name not in self._by_name:
            raise ValueError(f"{name!r} is not an attribute of the domain; there are {_some(self)}.")
        return self._by_name[name]

    def shape_of(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Return the sizes of the given attributes, in the order given."""
        return tuple(self[name] for name in clique)

    def size(self, clique: Iterable[str] | None = None) -> int:
        """Return the exact number of cells over the given attributes. Default: all attributes."""
        return math.prod(self.shape if clique is None else self.shape_of(clique))

    def project(self, clique: Clique) -> Domain:
        """Return the domain of the given attributes, in the order given."""
        return Domain({name: self._by_name[name] for name in as_clique(self, clique)})

    def decode(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return columns of values [rows] for columns of codes [rows]; see `Attribute.decode`."""
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
        return read_domain_file(path, cls)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a domain file that does not exist yet: .json, .yaml or .yml."""
        write_file(checks.new_path(path), self.to_dict())

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
        warnings.warn(
            "This domain shows which values occur in the table it was taken from: use it only where "
            "that table is public, and write the domain of a private table by hand.",
            UserWarning,
            stacklevel=2,
        )
        return cls(infer(frame, bins, max_labels))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in self.sizes.items())
        return f"Domain({{{sizes}}})"

    def _repr_html_(self) -> str:
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


def _some(domain: Domain, most: int = 12) -> str:
    names = ", ".join(domain.attributes[:most])
    return names if len(domain) <= most else f"{names} and {len(domain) - most} more"


def read_domain_file(path: str | os.PathLike[str], make: Callable[[Any], _Made]) -> _Made:
    """Return what is made of the content of a domain file, with the labels of its `labels_file`s.

    Args:
        path: the file: .json, .yaml or .yml.
        make: called with the content, such as `Domain`.

    Raises:
        TypeError, ValueError: as `Domain.read`; the message begins with the file.
    """
    try:
        return make(with_label_files(read_file(path), pathlib.Path(path).parent))
    except (RecursionError, TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        reason = "it is nested too deep." if isinstance(error, RecursionError) else f"{error!s:.1000}"
        if isinstance(error, json.JSONDecodeError):
            reason = f"it is not JSON: {reason}. Correct it there."
        raise kind(f"Domain file {os.fspath(path)}: {reason}") from error


def read_file(path: str | os.PathLike[str]) -> Any:
    """Return the content of a .json, .yaml or .yml file."""
    file = pathlib.Path(path)
    kind = _file_kind(file)
    text = read_text(file, "utf-8-sig")
    return parse_json(text, object_pairs_hook=_unique) if kind == "json" else _read_yaml(text)


def with_label_files(content: Any, folder: pathlib.Path) -> Any:
    """Return the content of a domain file with the labels of every `labels_file` in their places.

    Args:
        content: what was read; anything but a mapping is returned as it is.
        folder: relative to which files are named.

    Raises:
        ValueError: a file is missing or holds no label.
    """
    if not isinstance(content, Mapping):
        return content
    return {name: _with_labels(name, entry, folder) for name, entry in content.items()}


def _with_labels(name: str, entry: Any, folder: pathlib.Path) -> Any:
    if not isinstance(entry, Mapping) or "labels_file" not in entry:
        return entry
    rest = {key: value for key, value in entry.items() if key not in ("labels_file", "column")}
    column = entry.get("column")
    if not isinstance(entry["labels_file"], str) or "labels" in rest:
        raise ValueError(f"Attribute {name!r}: labels_file must name a file, and goes without labels.")
    file = folder / entry["labels_file"]
    if not file.is_file():
        raise ValueError(f"Attribute {name!r}: there is no file of labels {file}.")
    lines = read_text(file, "utf-8-sig").splitlines()
    if file.suffix.lower() == ".csv" or column is not None:
        lines = _column(name, file, lines, column)
    return {"labels": [line.strip() for line in lines if line.strip()], **rest}


def _column(name: str, file: pathlib.Path, lines: list[str], column: Any) -> list[str]:
    """Return a column of a CSV file: that of a name in its first line, or the first one without a header."""
    try:
        rows = [row for row in csv.reader(lines) if row]
    except csv.Error:
        raise ValueError(f"Attribute {name!r}: {file.name} is no CSV file.") from None
    place = 0
    if column is not None:
        header = [field.strip() for field in rows.pop(0)] if rows else []
        if header.count(column) != 1:
            raise ValueError(f"Attribute {name!r}: {file.name} must have one column named {column!r}.")
        place = header.index(column)
    return [row[place] for row in rows if len(row) > place]


def write_file(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a mapping as a .json, .yaml or .yml file."""
    file = pathlib.Path(path)
    if _file_kind(file) == "json":
        lines = (f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content.items())
        text = "{\n" + ",\n".join(lines) + "\n}\n"
    else:
        dump = checks.optional("yaml", extra="tables").safe_dump
        # an entry a line, also where no entry is more than a word
        how = {"sort_keys": False, "default_flow_style": None}
        if not any(isinstance(entry, list | Mapping) for entry in content.values()):
            how["default_flow_style"] = False
        text = dump(content, allow_unicode=True, **how)
        if _read_yaml(text) != content:  # some separators (U+0085) survive only as escapes
            text = dump(content, allow_unicode=False, **how)
    file.write_text(text, encoding="utf-8")


def _file_kind(file: pathlib.Path) -> str:
    suffix = file.suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        raise ValueError(f"a domain file must end in .json, .yaml or .yml, got {suffix or 'no ending'!r}")
    return "json" if suffix == ".json" else "yaml"


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise TypeError(f"names must be strings, got {type(key).__name__}: put them in quotes")
        if key in result:
            raise ValueError(f"{key!r} is given twice: give each name once")
        result[key] = value
    return result


def _read_yaml(text: str) -> Any:
    yaml = checks.optional("yaml", extra="tables")

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined]
        """YAML 1.2 bools, so that the labels `yes`, `No` and `off` stay text; little depth, short numbers."""

        def fetch_flow_collection_start(self, kind: Any) -> None:
            self._require_depth()  # before PyYAML takes time that grows with the square of the depth
            super().fetch_flow_collection_start(kind)

        def add_indent(self, column: int) -> bool:
            self._require_depth()
            return bool(super().add_indent(column))

        def _require_depth(self) -> None:
            if self.flow_level + len(self.indents) > _DEEPEST:
                raise ValueError(f"it is nested more than {_DEEPEST} deep.")

        def construct_scalar(self, node: Any) -> Any:
            if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
                raise ValueError(f"it holds a number of {len(node.value):,} characters.")
            return super().construct_scalar(node)

    bool_tag = "tag:yaml.org,2002:bool"
    Loader.yaml_implicit_resolvers = {
        first: [entry for entry in entries if entry[0] != bool_tag]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(bool_tag, re.compile("^(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$"), list("tTfF"))

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        return _unique(
            [tuple(loader.construct_object(part, deep=True) for part in pair) for pair in node.value]
        )

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        loader = Loader(text)
        try:
            root = loader.get_single_node()
            _require_few(root, len(text))
            _refuse_traps(root)
            return None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from error


def _refuse_traps(root: Any) -> None:
    """Refuse labels without quotes that YAML takes for something else than what is written.

    Raises:
        ValueError: a label such as 0123, which is an octal number, 1_000 or 12:30.
    """
    for _, entry in _pairs(root):
        for key, value in _pairs(entry):
            if key.value in ("labels", "missing"):
                groups = [group for pair in _pairs(value) for group in pair] or [value]
                for node in [leaf for group in groups for leaf in _leaves(group)]:
                    kind = node.tag.rpartition(":")[2]
                    if node.style is None and kind in _TRAPS and _TRAPS[kind].fullmatch(node.value):
                        raise ValueError(
                            f"line {node.start_mark.line + 1}: {node.value} without quotes is a number in "
                            f"another notation to YAML: write '{node.value}' in quotes."
                        )


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    found = getattr(node, "value", None) if getattr(node, "id", "") == "mapping" else None
    return found or []


def _leaves(node: Any) -> list[Any]:
    parts = node.value if node.id == "sequence" else [node]
    return [part for part in parts if part.id == "scalar"]


def _require_few(root: Any, length: int) -> None:
    """Refuse nodes of YAML that aliases multiply, such as lists of lists of one list.

    Raises:
        ValueError: there are a million and more than the text has characters, or a node holds itself.
    """
    sizes: dict[int, int] = {}
    most = length + _MOST_NODES

    def size(node: Any) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = most + 1  # what it counts for where it is met again within itself
            pairs = node.value if isinstance(node.value, list) else []
            parts = [part for pair in pairs for part in (pair if isinstance(pair, tuple) else (pair,))]
            sizes[id(node)] = 1 + sum(map(size, parts))
        if sizes[id(node)] > most:
            raise ValueError("its aliases stand for more than a million entries.")
        return sizes[id(node)]

    if root is not None:
        size(root)


def infer(frame: Any, bins: int | Mapping[str, Any] | None, max_labels: int) -> dict[str, Attribute]:
    """Return an attribute for every column of a frame; see `Domain.from_public_data`."""
    names = _names(frame)
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
    days = [_day(value) for value in values]
    first, last = min(days), max(days)
    span = (last - first).days
    step = "day" if span < most else "month" if span < 30 * (most - 1) else "year"
    return {"from": first.isoformat(), "to": last.isoformat(), "step": step}


def _day(value: datetime.date) -> datetime.date:
    """Return the day of a date, of a time in UTC if it has a zone."""
    if not isinstance(value, datetime.datetime):
        return value
    return value.date() if value.tzinfo is None else value.astimezone(datetime.UTC).date()


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
    gone = [v for v in found if v is None or type(v).__name__ in ("NAType", "NaTType") or v != v]
    kept = {v: n for v, n in found.items() if not any(v is other for other in gone) and not _is_nan(v)}
    return collections.Counter(kept), bool(gone)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
