"""Domain files: from text in JSON or YAML to entries, and back; what is wrong is told by line and column.

In YAML, only `true` and `false` are booleans, only decimal numbers are numbers, and all else is text as it is
written: `no`, `0123`, `12:30` and `2024-12-31` are labels that need no quotes.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pgmjax._internal import checks
from pgmjax._internal.files import absent, parse_json, read_text
from pgmjax.data.entry import ALL_KEYS, at, check_key, checked_labels
from pgmjax.data.value import places_of

_Made = TypeVar("_Made")
_Place = tuple[Any, ...]
_DEEPEST = 32  # a domain file needs 4
_PLACED = 3  # a column, its key, a label
_MOST_NODES = 1_000_000
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]{0,399})(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = ("", "~", "null", "Null", "NULL")
_ABOVE = ("attributes", "columns", "domain", "features", "fields", "schema", "tables", "variables")
_FILE_KEYS = ("labels_file", "column", "spellings")
_TEXTS = ("labels", "missing")
"""The keys behind which a number is also a text."""


def read_domain_file(path: str | os.PathLike[str], make: Callable[[Any], _Made]) -> _Made:
    """Return what is made of the content of a domain file, with the labels of its `labels_file`s.

    Args:
        path: the file: .json, .yaml or .yml.
        make: called with the content, such as `Domain`.

    Raises:
        TypeError, ValueError: as `Domain.read`; the message begins with the file, line and column.
    """
    checks.kind(
        path, str | os.PathLike, "A domain file is named by its path", "Domain(mapping) takes content"
    )
    file, places, text = pathlib.Path(path), dict[_Place, tuple[int, int]](), ""
    try:
        kind, text = _file_kind(file), read_text(file, "utf-8-sig")
        content = (
            parse_json(text, object_pairs_hook=_unique) if kind == "json" else _Yaml(text, places).content
        )
        if isinstance(content, dict) and str(content.get("format", "")).startswith("pgmjax:"):
            what = str(content["format"]).removeprefix("pgmjax:")
            raise ValueError(f"This is the record of a {what}: give the domain file of its table.")
        _refuse_other_forms(content, " and indent less" * (file.suffix.lower() != ".json"))
        return make(_with_label_files(content, file.parent))
    except FileNotFoundError as error:
        raise error if file.exists() else FileNotFoundError(absent("domain file", path)) from None
    except (RecursionError, TypeError, ValueError) as error:
        place, reason = getattr(error, "place", None), f"{error!s:.1000}"
        if isinstance(error, json.JSONDecodeError):
            place, places[()] = (), (error.lineno, error.colno)
            comma = " Is there a comma before the bracket, or at the end of the line above?" * (
                "property name" in error.msg or "Expecting value" in error.msg
            )
            if "'" in error.doc and '"' not in error.doc:
                comma = " JSON takes double quotes."
            reason = f"This is not JSON: {error.msg}.{comma} Correct it there; a YAML file ends in .yaml."
        elif isinstance(error, UnicodeDecodeError):
            reason = "It is not text in UTF-8. Save it in that encoding."
        elif isinstance(error, RecursionError):
            reason = "It is nested too deep."
        elif not places and place is not None:
            place = _placed(text, places, place)
        above = [place[:length] for length in range(len(place), -1, -1)] if place is not None else []
        where = next((", line {}, column {}".format(*places[one]) for one in above if one in places), "")
        raise (TypeError if isinstance(error, TypeError) else ValueError)(
            f"Domain file {os.fspath(path)}{where}: {reason}"
        ) from None


def _placed(text: str, places: dict[_Place, tuple[int, int]], place: _Place) -> _Place:
    """Find where the parts of JSON stand; return the place given, or that of a name given twice."""
    try:
        _Yaml(text.replace("\t", " "), places)
    except (ImportError, RecursionError, TypeError, ValueError) as error:
        return place or getattr(error, "place", ())
    return place


def _file_kind(file: pathlib.Path) -> str:
    suffix = file.suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        came = "a folder" if file.is_dir() else repr(suffix) if suffix else "no ending"
        came = (
            "a domain as text: write it into such a file, or in Python give the dict"
            if "{" in str(file)
            else came
        )
        turned = ""
        if file.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".parquet", ".xlsx")):
            turned = " Is that the table? Dataset.read(path, domain) reads it."
        raise ValueError(f"A domain file must end in .json, .yaml or .yml, got {came}.{turned}")
    return "json" if suffix == ".json" else "yaml"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        with at():
            _require_new(name, result)
        result[name] = value
    return result


def _require_new(name: str, known: Mapping[str, Any]) -> None:
    if name in known:
        decimal = " Decimals have a point, as in 0.5." if name.isdigit() else ""
        raise ValueError(f"{name!r} is given twice: give each name once.{decimal}")


class _Yaml:
    """The content of a text in YAML.

    Attributes:
        content: mappings, lists, texts, numbers, booleans and None.
        places: line and column, from 1, of each column, key and label, by its path in the content.

    Raises:
        ValueError: it is not YAML, or nested too deep, or aliases stand for more than a million entries.
    """

    def __init__(self, text: str, places: dict[_Place, tuple[int, int]]):
        yaml = checks.optional("yaml", extra="tables")

        class Loader(yaml.SafeLoader):  # type: ignore[name-defined]
            def fetch_more_tokens(self) -> None:  # PyYAML takes time that grows with the square of the depth
                if self.flow_level + len(self.indents) > _DEEPEST:
                    raise ValueError(f"It is nested more than {_DEEPEST} deep.")
                super().fetch_more_tokens()

        self.places, self._sizes = places, dict[int, float]()
        try:
            root = yaml.compose(text, Loader=Loader)
        except yaml.YAMLError as error:
            mark, found = (
                getattr(error, "problem_mark", None),
                getattr(error, "problem", None) or str(error).split("\n")[0],
            )
            close = re.search(r"^\s*([^\s:{}\[\]]+):([{\[])", text, re.MULTILINE)
            equal = re.search(r"^\s*([\w.-]+)\s*=\s*(\S.*)$", text, re.MULTILINE)
            remedy = (
                f"A colon and no = stands behind a name: write {equal[1]}: {equal[2][:60]}"
                if equal
                else f"Put a space behind the colon, as in {close[1]}: {close[2]}"
                if close
                else "Indent with spaces"
                if "\\t" in found
                else "Two colons in one line need braces and a space behind each, as in sex: {labels: [F, M]}"
                if "mapping values" in found
                else "Check colons, commas, brackets and indentation, and put quotes around text such as >50K"
            )
            with self._at((), mark):
                raise ValueError(f"This is not YAML: {found}. {remedy}.") from None
        if root is not None and self._size(root) > len(text) + _MOST_NODES:
            raise ValueError("Its aliases stand for more than a million entries.")
        self.content = None if root is None else self._value(root, ())

    def _size(self, node: Any) -> float:
        """Return how many nodes a node stands for, which aliases multiply."""
        if id(node) not in self._sizes:
            self._sizes[id(node)] = math.inf  # if it is met again within itself
            pairs = node.value if node.id == "mapping" else [] if node.id == "scalar" else [node.value]
            self._sizes[id(node)] = 1 + sum(map(self._size, itertools.chain(*pairs)))
        return self._sizes[id(node)]

    @contextlib.contextmanager
    def _at(self, place: _Place, mark: Any) -> Any:
        """Let an error be at a mark in the text."""
        with at(*place):
            if mark is not None:
                self.places[place] = mark.line + 1, mark.column + 1
            yield

    def _value(self, node: Any, place: _Place) -> Any:
        if len(place) <= _PLACED:
            self.places.setdefault(place, (node.start_mark.line + 1, node.start_mark.column + 1))
        if node.id == "scalar":
            return node.value if node.style else self._scalar(node, place)
        if node.id == "sequence":
            return [self._value(each, (*place, index)) for index, each in enumerate(node.value)]
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for base in value.value if value.id == "sequence" else [value]:
                    if base.id != "mapping":
                        with self._at(place, key.start_mark):
                            raise ValueError("<< must stand before an alias of a mapping, such as <<: *base.")
                    merged = {**self._value(base, place), **merged}
                continue
            with self._at((*place, key.value) if key.id == "scalar" else place, key.start_mark):
                if key.id != "scalar":
                    raise TypeError(
                        "Names must be texts, got a list or a mapping: put quotes around the name."
                    )
                _require_new(key.value, own)
            own[key.value] = self._value(value, (*place, key.value))
        return {**merged, **own}

    def _scalar(self, node: Any, place: _Place) -> Any:
        """Return what a text without quotes stands for."""
        text = node.value
        if text in _WORDS or text in _NOTHING:
            return _WORDS.get(text)
        if not _NUMBER.fullmatch(text):
            return text
        number = float(text) if re.search("[.eE]", text) else int(text)
        as_text = place[1:2] and (place[1] in _TEXTS or isinstance(place[1], int))
        if as_text and text != repr(number):
            with self._at(place, node.start_mark):
                raise ValueError(
                    f"{text} without quotes is the number {number!r} in another notation: write '{text}' in "
                    f"quotes if the table has this text, or {number!r} for the number."
                )
        return number


def _tells_types(content: Any, depth: int = 5) -> bool:
    """Return whether there is metadata of SDV some levels below."""
    below = [*content.values()] if isinstance(content, Mapping) else []
    return (isinstance(content, Mapping) and "sdtype" in content) or (
        depth > 0 and any(_tells_types(each, depth - 1) for each in below)
    )


def _refuse_other_forms(content: Any, indent: str) -> None:
    """Refuse the metadata of other programs, and columns below a name of them all.

    Args:
        content: what was read.
        indent: what else to do about columns that stand too far to the right.

    Raises:
        ValueError: the content is one of these.
    """
    if not isinstance(content, Mapping):
        return
    checks.refuse(
        (
            {*map(str, content)} in ({"attributes", "shape"}, {"attrs", "shape"}),
            "This is a domain of mbi, which has names and sizes apart: write each name with its entry, as "
            "age: 100, sex: [F, M].",
        ),
        (
            _tells_types(content),
            "This is metadata of SDV, which tells types; a domain file lists values, as age: {min: 0, max: "
            "120}. "
            "pgmjax domain draft TABLE begins one.",
        ),
    )
    for name, entry in content.items() if len(content) == 1 else ():
        above = str(name).lower() in _ABOVE and isinstance(entry, Mapping)
        if above and not {*map(str, entry)} & ALL_KEYS:
            raise ValueError(
                "The names of the columns stand at the top: leave out what is around them, "
                f"{name!r}{f',{indent}' if indent else ''}."
            )


def _with_label_files(content: Any, folder: pathlib.Path) -> Any:
    """Return the content of a domain file with the labels of every `labels_file` in their places.

    Args:
        content: what was read; anything but a mapping is returned as it is.
        folder: relative to which files are named.

    Raises:
        ValueError: a file is missing or holds no label.
    """
    if not isinstance(content, Mapping):
        return content
    found = {}
    for name, entry in content.items():
        with at(name):
            found[name] = _with_labels(name, entry, folder)
    return found


def _with_labels(name: str, entry: Any, folder: pathlib.Path) -> Any:
    if not isinstance(entry, Mapping) or "labels_file" not in entry or "labels" in entry:
        return entry
    for key in {*entry} & {*_FILE_KEYS}:
        check_key(name, "labels_file", key, entry[key])
    file = folder / entry["labels_file"]
    columns = [entry[key] for key in _FILE_KEYS[1:] if key in entry]
    with at("labels_file"):
        checks.refuse(
            (not file.is_file(), f"Attribute {name!r}: there is no file of labels {file}."),
            (
                "spellings" in entry and "column" not in entry,
                f"Attribute {name!r}: 'spellings' goes with 'column', which names the labels.",
            ),
        )
        try:
            lines = read_text(file, "utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise ValueError(
                f"Attribute {name!r}: {file} is not text in UTF-8. Save that file as UTF-8."
            ) from None
        rows: Iterable[Sequence[str]] = ([line.strip()] for line in lines)
        if file.suffix.lower() == ".csv" or columns:
            rows = [*_columns(name, file, lines, columns)]
            if not columns and any(len(row) > 1 for row in csv.reader(lines)):
                raise ValueError(
                    f"Attribute {name!r}: {file.name} has lines of several columns: say which holds the "
                    "labels by its name in the first line, 'column: NAME', or put quotes around a label "
                    "that has a comma."
                )
        rows = [row for row in rows if row[0]]
        if "spellings" not in entry:
            labels: Any = checked_labels(name, f"labels in {file}", [row[0] for row in rows])
        else:
            labels = {label: [] for label, _ in rows}
            for label, spelling in rows:
                labels[label] += [spelling] if spelling not in ("", label) else []
    return {"labels": labels, **{key: value for key, value in entry.items() if key not in _FILE_KEYS}}


def _columns(
    name: str, file: pathlib.Path, lines: list[str], columns: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield columns of a CSV file: those of names in its first line, or the first one without a header.

    The names decide between commas, semicolons, tabs and bars, as those of a domain do in a table.
    """
    header: list[str] = []
    for delimiter in ",;\t|":
        try:
            rows = [[field.strip() for field in row] for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            raise ValueError(f"Attribute {name!r}: {file.name} is no CSV file.") from None
        places = [0]
        if columns:
            first = rows.pop(0) if rows else []
            header = max(header, first, key=len)
            places = [place for one in columns for place in places_of(one, first)]
        if len(places) == max(len(columns), 1) == len({*places}):
            return (tuple(row[place] for place in places) for row in rows if len(row) > max(places))
    asked = " and ".join(f"one column named {column!r}" for column in columns)
    raise ValueError(
        f"Attribute {name!r}: {file.name} must have {asked}, and has {', '.join(header) or 'none'}."
    )


def write_file(path: str | os.PathLike[str], content: Mapping[str, Any], heading: str = "") -> None:
    """Write a mapping as a .json, .yaml or .yml file.

    Args:
        path: the file.
        content: the entries.
        heading: a comment above, for YAML.
    """
    file = pathlib.Path(path)
    if _file_kind(file) == "json":
        lines = (f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content.items())
        text = "{\n" + ",\n".join(lines) + "\n}\n"
    else:
        text = heading + yaml_text(content)
    file.write_text(text, encoding="utf-8")


def yaml_text(content: Mapping[str, Any]) -> str:
    """Return entries in YAML, one on a line where it fits."""
    yaml = checks.optional("yaml", extra="tables")

    class Dumper(yaml.SafeDumper):  # type: ignore[name-defined]
        """Quotes around what `_Yaml` would take for a number."""

    def text_node(dumper: Any, text: str) -> Any:
        quoted = '"' if _NUMBER.fullmatch(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=quoted)

    Dumper.add_representer(str, text_node)
    # an entry a line, also where no entry is more than a word
    nested = any(isinstance(entry, list | Mapping) for entry in content.values())
    how = {"Dumper": Dumper, "sort_keys": False, "default_flow_style": None if nested else False}
    text: str = yaml.dump(dict(content), allow_unicode=True, **how)
    if _Yaml(text, {}).content != content:  # some separators (U+0085) survive only as escapes
        text = yaml.dump(dict(content), allow_unicode=False, **how)
    return text
