"""The entry of an attribute in a domain file, declared once: its kinds, their keys, and what a key may hold.

`KINDS` is the declaration. `fields_of_spec` reads an entry by it, `json_schema` gives it to editors, and the
table of keys in docs/domain.md is made of it. A kind is a number of codes, labels, bins, a range of whole
numbers, or dates. Ranges and dates are bins too: of whole numbers, and of numbers of days or seconds since
1970-01-01.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import itertools
import math
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.encoding import Label, text_of
from pgmjax.data.value import moment_text

OPEN = "discover"
OPEN_KINDS = ("bins", "labels", "dates")
"""The kinds of which an entry may be that is to be discovered."""
STEPS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MOST_CELLS = 1 << 20
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86400


@dataclass(frozen=True)
class Key:
    """A key of an entry.

    Attributes:
        said: what it means, for the page and the schema.
        words: what it may hold, behind "must be".
        example: such a value, as it is written in a domain file.
        schema: the JSON Schema of such values, by which they are checked too.
        needed: whether every entry of the kind has it.
    """

    said: str
    words: str
    example: str
    schema: Mapping[str, Any]
    needed: bool = False


_VALUE = {"type": ["string", "number", "boolean"]}
_VALUES = {"type": "array", "items": _VALUE, "minItems": 1}
_COUNT = {"type": "integer", "minimum": 1}
_BOOL = {"type": "boolean"}
_MOMENT = {
    "type": "string",
    "pattern": r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?\s*$",
}
_LABELS = {
    "anyOf": [
        _VALUES,
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [{"type": [*_VALUE["type"], "null"]}, {**_VALUES, "minItems": 0}]
            },
            "minProperties": 1,
        },
    ]
}
_LABELS_ALONE = {**_VALUES, "contains": {"type": ["string", "boolean"]}, "not": {"items": _MOMENT}}
"""A list that can only be one of labels: not of numbers, nor of dates."""
_SWITCHES = ["yes", "no", "on", "off", "y", "n", "Yes", "No", "On", "Off", "Y", "N", "YES", "NO", "ON", "OFF"]
_MARKERS = {
    "anyOf": [{"type": ["boolean", "number"]}, {"type": "string", "not": {"enum": _SWITCHES}}, _VALUES]
}
_DATE_WORDS = "a date such as 2024-12-31, or a time such as 2024-12-31T08:00, without a time zone"
_UNIT = "|".join(STEPS)

_MISSING = Key(
    "`true` adds a code for records without a value. A text or a list of texts is read as missing too.",
    "true, false, or texts or numbers that are read as missing",
    "true",
    _MARKERS,
)
_OTHER = Key("`true` adds a code for all values that are no label.", "true or false", "true", _BOOL)
_WITHIN = Key(
    "Where values lie inside the cells, for synthetic rows: pairs of a number and the share of the records "
    "from it to the next.",
    "a list of pairs of numbers, a value and the share of the records from it to the next",
    "[[0, 1], [18, 3]]",
    {
        "type": "array",
        "items": {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 2,
            "maxItems": 2,
        },
        "minItems": 1,
    },
)
_CELLS = {
    "missing": _MISSING,
    "clip": Key("`true` counts values beyond the ends in the end cells.", "true or false", "true", _BOOL),
    "within": _WITHIN,
}
_NUMBERS = {
    **_CELLS,
    "decimal": Key(
        "The decimal separator of numbers in text.",
        "a point or a comma in quotes",
        '","',
        {"enum": [".", ","]},
    ),
    "thousands": Key(
        "The separator of groups of three digits in text.",
        "a comma, a point, a space or an apostrophe in quotes",
        '"."',
        {"enum": ["", ",", ".", " ", "'", "\u00a0", "\u202f"]},
    ),
}
_DATES = {
    **_CELLS,
    "format": Key(
        "How text writes dates, as for Python's `strptime`. Without it: ISO 8601.",
        "a text for Python's strptime",
        '"%d.%m.%Y"',
        {"type": "string", "pattern": "%"},
    ),
}
_EDGE = Key("The first date.", _DATE_WORDS, "2024-01-01", _MOMENT, True)
KINDS: dict[str, dict[str, Key]] = {
    "size": {
        "size": Key(
            "The number of codes, if the table holds 0, 1, ...", "a whole number >= 1", "12", _COUNT, True
        ),
        "missing": _MISSING,
    },
    "labels": {
        "labels": Key(
            "The values, or a mapping from each label to its further spellings.",
            "a list of texts, numbers or true and false, or a mapping from each label to its spellings",
            "[F, M]",
            _LABELS,
            True,
        ),
        "missing": _MISSING,
        "other": _OTHER,
    },
    "labels_file": {
        "labels_file": Key(
            "A file beside the domain file with a label on each line, or a CSV file.",
            "the name of a file",
            "codes.txt",
            {"type": "string", "minLength": 1},
            True,
        ),
        "column": Key(
            "The column of a CSV file that holds the labels, by its name in the first line.",
            "the name of a column",
            "code",
            {"type": "string"},
        ),
        "spellings": Key(
            "The column with what the table holds, if that is finer than the labels: the region of a city.",
            "the name of a column",
            "city",
            {"type": "string"},
        ),
        "missing": _MISSING,
        "other": _OTHER,
    },
    "bins": {
        "bins": Key(
            "The edges of the cells.",
            "a list of two or more numbers",
            "[0, 18, 65.5]",
            {"type": "array", "items": {"type": "number"}, "minItems": 2},
            True,
        ),
        "grid": Key(
            "The spacing of the values. On a grid no cell contains its upper edge.",
            "a number > 0",
            "0.01",
            {"type": "number", "exclusiveMinimum": 0},
        ),
        **_NUMBERS,
    },
    "min": {
        "min": Key("The smallest number.", "a whole number", "0", {"type": "integer"}, True),
        "max": Key("The largest number.", "a whole number", "99", {"type": "integer"}, True),
        "step": Key("How many numbers share a cell. Without it: 1.", "a whole number >= 1", "5", _COUNT),
        **_NUMBERS,
    },
    "from": {
        "from": _EDGE,
        "to": Key("The last date.", _DATE_WORDS, "2024-12-31", _MOMENT, True),
        "step": Key(
            "The width of a cell: a unit, a number of units, or a number of days (seconds if the ends have a "
            "time of day). Without it: 1.",
            f'a whole number >= 1, one of {", ".join(STEPS)}, or a number of these, such as "6 hours"',
            "month",
            {"anyOf": [_COUNT, {"type": "string", "pattern": f"^([1-9][0-9]{{0,8}} *)?({_UNIT})s?$"}]},
        ),
        **_DATES,
    },
    "dates": {
        "dates": Key(
            "The edges of the cells.",
            f"a list of two or more dates, each {_DATE_WORDS}",
            "[2024-01-01, 2024-07-01, 2025-01-01]",
            {"type": "array", "items": _MOMENT, "minItems": 2},
            True,
        ),
        **_DATES,
    },
}
"""The keys of an entry by its kind. The key that a kind is called by is the first of it."""
ALL_KEYS = {key for keys in KINDS.values() for key in keys}
_ALSO = {
    "label values categories levels enum codes": "labels",
    "minimum low lower lowest": "min",
    "maximum high upper highest": "max",
    "start begin since": "from",
    "end until till": "to",
    "edges cuts breaks cells": "bins",
    "width by interval": "step",
    "range between bounds limits": "min and max",
    "na nan null nullable na_values none optional": "missing",
    "else rest default unknown": "other",
    "n count number cardinality": "size",
    "file": "labels_file",
    "dateformat strptime": "format",
    "precision resolution": "grid",
}
_MEANT = {word: key for words, key in _ALSO.items() for word in words.split()}
"""Words of other libraries, and the key that is meant."""
_FIRST_KEYS = "size, labels, labels_file, bins, dates, min and max, and from and to"
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NO_NULL = "Leave null out and write missing: true beside the labels; put quotes around it if it is a text. "
_NO_TYPES = ", for example: a domain file lists values and not types"
_MEANINGS = {
    rf"\??|({OPEN[:4]}.*|open|unknown|todo)": OPEN,
    "(-?[0-9]+) *(-|\u2013|to|[.][.]+|:) *(-?[0-9]+)": r"{min: \1, max: \3}",
    _NUMBER.pattern: r"\g<0> without quotes",
    r"\w*\(.*": "{min: 0, max: 99}, or {labels: [F, M]}, as no Python is read",
    "u?int(eger)?[0-9]*|num(ber|eric(al)?)": "{min: 0, max: 99}" + _NO_TYPES,
    "float[0-9]*|double|real|continuous|decimal": "{bins: [0, 10, 100]}" + _NO_TYPES,
    "bool(ean)?": "{labels: [false, true]}" + _NO_TYPES,
    "date(time)?([0-9]+.*)?|time(stamp)?": "{from: 2024-01-01, to: 2024-12-31, step: month}" + _NO_TYPES,
    "str(ing)?|text|categor(y|ical)|factor|object|enum|nominal|ordinal": "{labels: [F, M]}" + _NO_TYPES,
}
"""What an entry that is a text may mean, by the form of the text."""
FIELDS: dict[str, Any] = {
    "clip": False,
    "other": False,
    "decimal": ".",
    "thousands": "",
    "format": None,
    "within": [],
    "grid": None,
}
"""The fields of an attribute that are keys of its entry, and what they are without one."""
_HINTS = (
    ("bins within", "[0-9]{3}", "A comma separates numbers: write 10000, without a separator of thousands."),
    (
        "labels",
        "(-?[0-9]+)(?:-|\u2013|to|[.][.]+|:)(-?[0-9]+)",
        r"Write whole numbers in a row as {min: \1, max: \2}.",
    ),
    (
        "dates",
        "(?!.*[0-9]{4}).+",
        "Write {from: 2024-01-01, to: 2024-12-31, step: month}, or a list of dates.",
    ),
)
"""What to write behind a key instead of a text of some form."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a domain file."""
    entries: dict[str, Any] = {
        "codes": {"description": "The number of codes.", **_COUNT},
        "list": {"description": "Labels.", **_LABELS_ALONE},
        OPEN: {
            "description": "To be discovered for a share of the budget.",
            "anyOf": [
                {"const": OPEN},
                *(
                    {
                        "type": "object",
                        "properties": {kind: {"const": OPEN}},
                        "required": [kind],
                        "additionalProperties": False,
                    }
                    for kind in OPEN_KINDS
                ),
            ],
        },
    }
    for kind, keys in KINDS.items():
        entries[kind] = {
            "type": "object",
            "properties": {name: {"description": key.said, **key.schema} for name, key in keys.items()},
            "required": [name for name, key in keys.items() if key.needed],
            "additionalProperties": False,
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Domain file of pgmjax",
        "description": "The public domain of a table: for each column its possible values.",
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in entries]},
        "$defs": entries,
    }


def _is_number(value: Any) -> bool:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and (isinstance(value, int) or math.isfinite(value))


_IS = {
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
    "null": lambda value: value is None,
}
_HOLDS: dict[str, Any] = {
    "type": lambda value, types: any(_IS[each](value) for each in _listed(types)),
    "minimum": lambda value, least: value >= least,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "pattern": lambda value, form: re.search(form, value),
    "minLength": lambda value, least: len(value) >= least,
    "minItems": lambda value, least: len(value) >= least,
    "maxItems": lambda value, most: len(value) <= most,
    "minProperties": lambda value, least: len(value) >= least,
    "enum": lambda value, words: isinstance(value, str) and value in words,
    "not": lambda value, schema: misfit(schema, value) is not None,
    "contains": lambda value, schema: any(misfit(schema, each) is None for each in value),
}
"""What the rules of a schema of `KINDS` ask of a value; a type comes before the rules that need it."""


def misfit(schema: Mapping[str, Any], value: Any) -> tuple[Any, ...] | None:
    """Return where in a value a schema of `KINDS` does not hold, by keys and indices; None if it does.

    Example:
        >>> schema = {"type": "array", "items": {"type": "number"}}
        >>> misfit(schema, [0, 1]), misfit(schema, [0, "x"]), misfit(schema, "x")
        (None, (1,), ())
    """
    if "anyOf" in schema:
        found = [misfit(each, value) for each in schema["anyOf"]]
        return None if None in found else max(found, key=lambda place: len(place or ()))
    if not all(_HOLDS[rule](value, bound) for rule, bound in schema.items() if rule in _HOLDS):
        return ()
    member = schema.get("items", schema.get("additionalProperties"))
    parts = value.items() if isinstance(value, Mapping) else enumerate(value if member else ())
    inner = ((place, misfit(member, part)) for place, part in parts)
    return next(((place, *below) for place, below in inner if below is not None), None)


@contextlib.contextmanager
def at(*place: Any) -> Iterator[None]:
    """Let an error say in which part of a domain file it was found: `place` of the error, from outside in."""
    try:
        yield
    except (TypeError, ValueError) as error:
        error.place = (*place, *getattr(error, "place", ()))  # type: ignore[union-attr]
        raise


def shown(value: Any) -> str:
    """Return a value of a domain file, which is public, for a message."""
    if isinstance(value, str):
        return f"the text {value[:40]!r}" if value else "an empty text"
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    if isinstance(value, (list, Mapping)):
        what = "list" if isinstance(value, list) else "mapping"
        return f"a {what} of {len(value):,}" if value else f"an empty {what}"
    return f"{value!s:.40}" if isinstance(value, numbers.Real) else type(value).__name__


def check_key(name: str, kind: str, key: str, value: Any) -> None:
    """Refuse a value that a key of a kind may not hold.

    Args:
        name: of the attribute.
        kind: one of `KINDS`.
        key: a key of it.
        value: in the types of JSON.

    Raises:
        TypeError, ValueError: with what is expected, what came, and what to write.
    """
    with at(key):
        _check(f"{key!r} of attribute {name!r}", key, KINDS[kind][key], value)


def _check(said: str, name: str, key: Key, value: Any) -> None:
    place = misfit(key.schema, value)
    if place is None:
        return
    types = [
        each for one in key.schema.get("anyOf", [key.schema]) for each in _listed(one.get("type", "string"))
    ]
    kind = TypeError if place or misfit({"type": types}, value) == () else ValueError
    for step in place:
        value = value[step]
    if isinstance(value, float) and not math.isfinite(value):
        kind = ValueError
    where = f" in place {place[-1] + 1}" if place and isinstance(place[-1], int) else ""
    with at(*place):
        raise kind(f"{said} must be {key.words}, got {shown(value)}{where}. {_hint(name, key, types, value)}")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _hint(name: str, key: Key, types: list[str], value: Any) -> str:
    """Return what to write behind a key, as a sentence."""
    infinite = isinstance(value, float) and math.isinf(value)
    text = "inf" if infinite else re.sub("[_' ]", "", value) if isinstance(value, str) else ""
    if text in _SWITCHES or text.lower() in ("true", "false"):
        switch = "true" if text.lower() in ("yes", "on", "y", "true") else "false"
        marker = f', or {name}: ["{text}"] if the table writes missing values so' if key is _MISSING else ""
        return f"Write {name}: {switch}{marker}."
    for names, form, said in _HINTS:
        if name in names.split() and (found := re.fullmatch(form, text)):
            return found.expand(said)
    if _NUMBER.fullmatch(text) and ({*types} <= {"integer", "number"} or name in ("bins", "within")):
        return f"Write it as a number without quotes: {text.lstrip('0') or '0'}."
    if (day := re.fullmatch("([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4})", text)) and name in ("from", "to"):
        return (
            f"Domain files write dates year first, whatever the `format` of the table: {name}: "
            f"{day[3]}-{int(day[2]):02}-{int(day[1]):02}, if {value} begins with the day."
        )
    if text and name in ("labels", "dates"):
        return f"Write a list: {name}: [{', '.join(filter(None, re.split('[,;| ]+', value)))}]."
    if isinstance(value, Mapping) and name == "labels":
        return (
            "Put quotes around a label with a colon. Spellings are a mapping: labels: {F: [female, femme]}."
        )
    if text.lower().strip("+-.") in ("inf", "infinity"):
        return "Write an end that may occur, and clip: true for numbers beyond it."
    if name in ("min", "max", "step") and key == KINDS["min"][name] and _is_number(value) and value % 1:
        return "Numbers with decimals have bins, the edges of cells: bins: [1.4, 1.5, 1.6], grid: 0.01."
    example = f'"{_as_strptime(text)}"' if name == "format" and text else key.example
    quoted = _NO_NULL if value is None and name in ("labels", "missing") else ""
    return f"{quoted}Write, for example, {{{name}: {example}}}."


def fields_of_spec(name: str, spec: Any) -> dict[str, Any]:
    """Return the fields of the attribute that an entry describes; see `Attribute.from_spec`.

    Raises:
        TypeError: something in the entry has the wrong type.
        ValueError: it is to be discovered, or something in it is wrong.
    """
    if isinstance(spec, range) and spec.step == 1 and len(spec) > 1:
        spec = {"min": spec[0], "max": spec[-1]}
    spec = plain(spec)
    if open_kind(name, spec) is not None:
        raise ValueError(
            f"Attribute {name!r} is to be discovered: give a release a share of its budget for that (pgmjax "
            "release --discover 0.1 --delta 1e-6, or Mechanism.run(discover=...) on an OpenTable), or write "
            "what it holds in place of discover."
        )
    if not isinstance(spec, Mapping):
        spec = _written_out(name, spec)
    kind = _kind_of(name, spec)
    for key, value in spec.items():
        check_key(name, kind, key, value)
    missing = spec.get("missing", False)
    fields: dict[str, Any] = {
        "missing": missing is not False,
        "missing_markers": () if isinstance(missing, bool) else tuple(_listed(missing)),
        **{key: spec[key] for key in FIELDS if key in spec},
        "within": tuple(map(tuple, spec.get("within", ()))),
        **_of_kind(name, kind, spec),
    }
    fields["size"] += fields["missing"]
    return fields


def plain(value: Any) -> Any:
    """Return a value in the types of JSON: lists for arrays and tuples, ISO text for dates."""
    if isinstance(value, (datetime.date, np.datetime64)):
        return str(value) if isinstance(value, np.datetime64) else value.isoformat()
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (str, bytes, Set)) or not isinstance(value, Iterable):
        return value  # a set has no order, by which labels would get their codes
    return [plain(each) for each in value]


def open_kind(name: str, spec: Any) -> str | None:
    """Return the kind of an entry that is to be discovered, "any" if nothing is known; None if described.

    Raises:
        ValueError: it says more than that.
    """
    if isinstance(spec, str) and spec == OPEN:
        return "any"
    if not isinstance(spec, Mapping) or OPEN not in [each for each in spec.values() if isinstance(each, str)]:
        return None
    if len(spec) == 1 and next(iter(spec)) in OPEN_KINDS:
        return str(next(iter(spec)))
    forms = " or ".join(f"{{{kind}: {OPEN}}}" for kind in OPEN_KINDS)
    raise ValueError(
        f"Attribute {name!r} is to be discovered: its entry must be {OPEN} or {forms}, and nothing else."
    )


def _written_out(name: str, spec: Any) -> Mapping[str, Any]:
    """Return the mapping that a number of codes or a list of labels stands for.

    Raises:
        TypeError, ValueError: it may stand for several, or for none; the message has what to write.
    """
    if misfit(_LABELS_ALONE, spec) is None:
        return {"labels": spec}
    if _is_number(spec):
        return {"size": spec}
    if isinstance(spec, list) and spec and all(isinstance(each, Mapping) for each in spec):
        raise TypeError(
            f"The entry of attribute {name!r} is a list of mappings. A domain is one mapping from the name "
            "of each column to its entry: age: {min: 0, max: 99}, sex: {labels: [F, M]}."
        )
    choices = ["{min: 0, max: 99}", "{labels: [F, M]}", OPEN]
    if isinstance(spec, str) and len(spec) < 80:
        choices = [_meant_by(spec.strip())]
    elif misfit(_VALUES, spec) is None:
        listed = f"[{', '.join(map(str, spec[:6]))}{', ...' if len(spec) > 6 else ''}]"
        edges = "bins" if _is_number(spec[0]) else "dates"
        choices = [f"{{{edges}: {listed}}} for the edges of cells", f"{{labels: {listed}}} for these values"]
        if edges == "bins" and len(spec) == 2 and spec[0] < spec[1]:
            choices.insert(0, f"{{min: {spec[0]}, max: {spec[1]}}} for the whole numbers between them")
    raise TypeError(
        f"The entry of attribute {name!r} must be a number of codes, a list of labels, or a mapping, got "
        f"{shown(spec)}. Write {', or '.join(f'{name}: {choice}' for choice in choices)}."
    )


def _meant_by(text: str) -> str:
    """Return the entry that a text probably stands for."""
    found = ((re.fullmatch(form, text, re.IGNORECASE), entry) for form, entry in _MEANINGS.items())
    labels = f"{{labels: [{', '.join(filter(None, re.split('[,;|/ ]+', text)))}]}}"
    return next((match.expand(entry) for match, entry in found if match), labels)


def _kind_of(name: str, spec: Mapping[str, Any]) -> str:
    """Return the kind of an entry, all keys of which belong to it.

    Raises:
        ValueError: there is none; the message says which keys to write.
    """
    firsts = {key: kind for kind, keys in KINDS.items() for key, one in keys.items() if one.needed}
    kinds = list(dict.fromkeys(firsts[key] for key in spec if key in firsts))
    known = {key: one for kind in (kinds if len(kinds) == 1 else KINDS) for key, one in KINDS[kind].items()}
    needed = {key: one for key, one in known.items() if one.needed}
    for key in spec:
        if key not in known:
            if key not in ALL_KEYS and all(isinstance(each, Mapping) for each in spec.values()):
                raise ValueError(
                    f"Attribute {name!r} holds other entries: {', '.join(map(str, spec))}. Write the columns "
                    f"without {name!r} above them, at the beginning of the line."
                )
            with at(key):
                said = f"does not go with {' and '.join(needed)}" if key in ALL_KEYS else "is unknown"
                meant = _meant_key(key, known, spec)
                raise ValueError(f"Attribute {name!r} has the key {key!r}, which {said}. {meant}")
    if len(kinds) != 1:
        got = f"both {' and '.join(kinds)}: leave out one" if kinds else f"{', '.join(spec) or 'none'}"
        if kinds and {*kinds} == {"min", "bins"} and _is_number(spec["bins"]):
            got += ". Bins are edges; a number of equal cells of whole numbers is min, max and step"
        raise ValueError(f"Attribute {name!r} must have one of {_FIRST_KEYS}, got {got}.")
    for key in needed.keys() - spec.keys():
        written = ", ".join(f"{key}: {spec.get(key, one.example)}" for key, one in needed.items())
        raise ValueError(f"Attribute {name!r} lacks {key!r}. Write, for example, {name}: {{{written}}}.")
    return kinds[0]


def _meant_key(key: Any, known: Mapping[str, Key], spec: Mapping[str, Any]) -> str:
    """Return which key was probably meant, as a sentence."""
    words = {OPEN: f"the word {OPEN} alone"} | {each: each for each in known}
    words |= {word: each for word, each in _MEANT.items() if each.split()[0] in known}
    close = difflib.get_close_matches(str(key).strip().lower(), words, 1, 0.65)
    if key in ("type", "sdtype", "dtype"):
        entry = {*spec} & {*known} or spec[key] is None
        return "Leave it out." if entry else f"Write {_meant_by(str(spec[key]))}."
    if str(key).isdigit():
        return "A comma ends a value: write 1000 and not 1,000, and lists in brackets, such as [0, 10]."
    if spec[key] is None:
        return "Write a colon and a space behind a key, and lists in brackets, such as labels: [F, M]."
    if close:
        return f"Did you mean {words[close[0]]}?"
    if not {*spec} & {*known}:
        return f"Write labels: [{', '.join(map(str, spec))}], if these are labels, or one of {_FIRST_KEYS}."
    needed, others = ([each for each, one in known.items() if one.needed is it] for it in (True, False))
    return f"Beside {' and '.join(needed)} there may be {', '.join(others)}."


def _of_kind(name: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return size and labels, or bins, of an entry of some kind."""
    if kind == "size":
        return {"size": int(spec["size"])}
    if kind == "labels":
        return _labelled(spec)
    if kind == "labels_file":
        raise ValueError(
            f"'labels_file' of attribute {name!r} is for domain files, beside which the file stands: give "
            "labels, a list, or read the domain from a file."
        )
    if kind == "bins":
        return {"bins": tuple(spec["bins"]), "size": len(spec["bins"]) - 1}
    edges, time = (range_edges(name, spec), None) if kind == "min" else date_edges(name, spec)
    return {"bins": edges, "size": len(edges) - 1, "grid": 1, "time": time}


def _labelled(spec: Mapping[str, Any]) -> dict[str, Any]:
    groups = spec["labels"]
    labels = tuple(groups)
    spellings: tuple[Any, ...] = ()
    if isinstance(groups, Mapping):
        _check_direction(groups)
        lists = [[] if group is None else _listed(group) for group in groups.values()]
        spellings = tuple(
            tuple(each for each in group if text_of(each) != text_of(label))
            for label, group in zip(labels, lists, strict=True)
        )
    size = len(labels) + spec.get("other", False)
    return {"labels": labels, "size": size, "spellings": spellings if any(spellings) else ()}


def _check_direction(groups: Mapping[Any, Any]) -> None:
    """Refuse numbers with one text each: they may be labels with spellings, or codes with labels."""

    def number(value: Any) -> bool:
        return _is_number(value) or bool(isinstance(value, str) and _NUMBER.fullmatch(value.strip()))

    if all(number(key) and isinstance(each, str) and not number(each) for key, each in groups.items()):
        by_text: dict[str, list[Any]] = {}
        for key, text in groups.items():
            by_text.setdefault(text, []).append(key)
        turned = ", ".join(
            f"{text}: {keys[0] if len(keys) == 1 else keys}" for text, keys in [*by_text.items()][:2]
        )
        raise ValueError(
            "'labels' map each label to its spellings in the table, and a number with one text may be meant "
            f"either way. If the table holds the numbers, write {{{turned}}}; if it holds the texts, put "
            "each into a list."
        )


def range_edges(name: str, spec: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the edges of a range of whole numbers: min, min + step, ..., max + 1.

    Example:
        >>> range_edges("age", {"min": 0, "max": 11, "step": 5})
        (0, 5, 10, 12)
    """
    low, high, step = (int(spec.get(key, 1)) for key in ("min", "max", "step"))
    checks.refuse(
        (high < low, f"'max' of attribute {name!r} must be at least its min, {low}, got {high}."),
        (
            step > max(high - low, 1) + 1,
            f"'step' of attribute {name!r} is how many numbers share a cell: {step} is more than there are "
            f"from {low} to {high}.",
        ),
    )
    _check_cells(name, (high - low) // step + 1)
    return (*range(low, high + 1, step), high + 1)


def _check_cells(name: str, cells: int) -> None:
    if cells > _MOST_CELLS:
        raise ValueError(
            f"Attribute {name!r} would have {cells:,} cells, more than {_MOST_CELLS:,}: take a larger step."
        )


def date_edges(name: str, spec: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    """Return the edges of dates and their unit: days since 1970-01-01, or seconds if a time is given.

    Example:
        >>> date_edges("day", {"from": "1970-01-01", "to": "1970-03-31", "step": "month"})
        ((0, 31, 59, 90), 'day')
    """
    keys = ["dates"] * len(spec["dates"]) if "dates" in spec else ["from", "to"]
    texts = spec["dates"] if "dates" in spec else [spec["from"], spec["to"]]
    seconds = [_second(name, *pair) for pair in zip(keys, texts, strict=True)]
    timed = any(":" in text for text in texts)
    if "dates" in spec:
        with at("dates"):
            _check_increasing(f"'dates' of attribute {name!r}", seconds, texts)
        edges = seconds
    else:
        if seconds[1] < seconds[0]:
            raise ValueError(
                f"'to' of attribute {name!r} must not be before its from, {texts[0]}, got {texts[1]}."
            )
        found = re.fullmatch(rf"([0-9]*) *({_UNIT})s?", str(spec.get("step", 1)))
        unit = found[2] if found else "second" if timed else "day"
        count = int((found[1] or 1) if found else spec.get("step", 1))
        past = seconds[1] + (1 if timed else _DAY)  # the first moment beyond the end
        edges = _stepped(name, seconds[0], past, count, unit)
        timed = timed or unit in ("second", "minute", "hour")
    return (tuple(edges), "second") if timed else (tuple(edge // _DAY for edge in edges), "day")


def _stepped(name: str, first: int, past: int, count: int, unit: str) -> list[int]:
    """Return the edges, in seconds since 1970-01-01, of cells that are as wide as a number of units."""
    span = past - first
    if unit in _MONTHS:
        month = np.array([first, past]).astype("M8[s]").astype("M8[M]").astype(np.int64)
        step = min(count * _MONTHS[unit], span)
        _check_cells(name, int(month[1] - month[0]) // step + 1)
        starts = np.arange(month[0], month[1] + 1, step).astype("M8[M]").astype("M8[s]").astype(np.int64)
        return [first, *(edge for edge in starts.tolist() if first < edge < past), past]
    step = min(count * _SECONDS[unit], span)
    _check_cells(name, span // step + 1)
    return [*range(first, past, step), past]


def _second(name: str, key: str, text: str) -> int:
    """Return the seconds since 1970-01-01 of a date or a time of day."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{key!r} of attribute {name!r} must be dates of the calendar, got {text!r}."
        ) from None
    if key != "dates" and moment >= datetime.datetime(9999, 12, 31):  # a day is added to the last
        raise ValueError(f"{key!r} of attribute {name!r} must end before 9999-12-31, got {text!r}.")
    return round((moment - _EPOCH).total_seconds())


def checked_labels(name: str, what: str, values: Iterable[Any]) -> tuple[Label, ...]:
    """Return labels or markers, after checking that they are distinct scalars."""
    values = tuple(plain(values))
    said, known = f"The {what} of attribute {name!r}", set[Any]()
    with at("missing" if "marker" in what else "labels"):
        if not values or any(type(value) not in (str, int, bool) for value in values):
            _check(said, "labels", Key("", "text, numbers or true and false", "[F, M]", _VALUES), [*values])
        for index, value in enumerate(values):
            if isinstance(value, str) and not value.isprintable():
                with at(index):
                    checks.plain_text(said, value)
            same = {text_of(value), value}
            if same & known:
                with at(index):
                    raise ValueError(
                        f"{said} must differ from one another, also as text, got {shown(value)} again in "
                        f"place {index + 1}. Leave it out there."
                    )
            known |= same
    return values


def checked_bins(name: str, edges: Iterable[Any]) -> tuple[float, ...]:
    """Return the edges of bins, after checking that they are finite and increasing."""
    edges, said = plain(edges), f"'bins' of attribute {name!r}"
    with at("bins"):
        _check(said, "bins", KINDS["bins"]["bins"], edges)
        edges = [checks.number(said, edge) for edge in edges]
        _check_increasing(said, edges, [f"{edge:g}" for edge in edges])
    return tuple(edges)


def _check_increasing(said: str, values: Sequence[Any], texts: Sequence[str]) -> None:
    for index, (low, high) in enumerate(itertools.pairwise(values), 1):
        if not low < high:
            with at(index):
                then = "It stands twice: leave one out." if low == high else "Sort them."
                raise ValueError(f"{said} must increase, got {texts[index]} after {texts[index - 1]}. {then}")


def _as_strptime(form: str) -> str:
    """Return a form of dates such as dd/mm/yyyy as for `strptime`; %d.%m.%Y of what is none."""
    for letters, code in (("y{4}", "%Y"), ("m{1,2}", "%m"), ("d{1,2}", "%d")):
        form = re.sub(rf"(?<![%a-z]){letters}(?![a-z])", code, form, flags=re.IGNORECASE)
    return form if {"%Y", "%m", "%d"} <= {*re.findall("%.", form)} else "%d.%m.%Y"


def check_format(said: str, form: str) -> None:
    """Refuse a form of dates from which no date can be read."""
    try:
        known = datetime.datetime.strptime(datetime.datetime(2001, 2, 3, 4, 5, 6).strftime(form), form)
    except (ValueError, re.error):
        known = None
    if known is None or known.year != 2001:
        such = _as_strptime(form)
        raise ValueError(
            f"'format' {said} must be a form of datetime.strptime that names the year, such as {such}."
        )


def spec_of(attribute: Any) -> dict[str, Any]:
    """Return the entry of an attribute, which `fields_of_spec` reads back."""
    spec = _kind_of_attribute(attribute)
    if attribute.missing:
        spec["missing"] = list(attribute.missing_markers) or True
    written = {key: plain(getattr(attribute, key)) for key in FIELDS if key != "grid"}
    return spec | {key: value for key, value in written.items() if value != FIELDS[key]}


def _kind_of_attribute(attribute: Any) -> dict[str, Any]:
    """Return the keys of an entry that say of which kind an attribute is."""
    if attribute.labels is not None:
        if not attribute.spellings:
            return {"labels": list(attribute.labels)}
        groups = zip(attribute.labels, attribute.spellings, strict=True)
        return {"labels": {label: [label, *spellings] for label, spellings in groups}}
    if attribute.bins is None:
        return {"size": attribute.size - attribute.missing}
    if attribute.time is not None:
        return _dated(attribute)
    if attribute.grid is None:
        return {"bins": list(attribute.bins)}
    edges = [int(edge) if float(edge).is_integer() else edge for edge in attribute.bins]
    if attribute.grid == 1:
        spec = {"min": edges[0], "max": edges[-1] - 1, "step": edges[1] - edges[0]}
        if range_edges(attribute.name, spec) == tuple(edges):
            return spec if spec["step"] > 1 else {"min": edges[0], "max": edges[-1] - 1}
    return {"bins": edges, "grid": attribute.grid}


def _dated(attribute: Any) -> dict[str, Any]:
    """Return dates by their ends and step if they have one, otherwise by their edges."""
    edges = tuple(map(int, attribute.bins))
    texts = [moment_text(edge, attribute.time) for edge in edges]
    width, second = edges[1] - edges[0], 1 if attribute.time == "second" else _DAY
    named = {seconds: unit for unit, seconds in _SECONDS.items() if unit != "second"}
    for step in (named.get(width * second, width), *_MONTHS):
        spec = {"from": texts[0], "to": moment_text(edges[-1] - 1, attribute.time), "step": step}
        cells = (
            (edges[-1] - edges[0])
            * second
            / (27 * _DAY * _MONTHS[step] if step in _MONTHS else width * second)
        )
        if (
            len(edges) <= cells + 3
            and len(edges) >= cells / 2
            and date_edges(attribute.name, spec) == (edges, attribute.time)
        ):
            return spec
    return {"dates": texts}
