"""`pgmjax domain`: begin a domain file from what is public, check a table against one, print its schema."""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import dataclasses
import datetime
import decimal
import difflib
import itertools
import json
import math
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.extras import arrow
from pgmjax._internal.private_files import open_private
from pgmjax.cli import process
from pgmjax.cli.release import unit_of
from pgmjax.data import files
from pgmjax.data.arrow import encode_array
from pgmjax.data.attribute import Attribute
from pgmjax.data.definition import LARGEST_WEIGHT
from pgmjax.data.domain import Domain
from pgmjax.data.domain_file import write_file, yaml_text
from pgmjax.data.draft import Draft, infer
from pgmjax.data.encoding import MISSING, OUTSIDE, UNREADABLE, Encoded, Notation, text_of
from pgmjax.data.entry import OPEN, json_schema
from pgmjax.data.relation import Unit, check_unit
from pgmjax.data.value import key_of_written, places_of
from pgmjax.discovery.open_table import open_entry
from pgmjax.discovery.probes import MISSING_TEXTS

_KINDS = """\
# One entry for each column. Never read values off a private table: write what is publicly known.
# If you leave "discover", pgmjax release --discover 0.1 finds the values for a tenth of the budget.
#   sex: {labels: [F, M], missing: true}                labels, and a bucket for missing values
#   job: {labels: {cook: [cook, chef]}, other: true}    two spellings of a label; a code for all others
#   code: {labels_file: codes.txt}                      a file with one label on each line
#   age: {min: 0, max: 120, step: 5}                    whole numbers, in cells of five
#   income: {bins: [0, 1000.5, 5000], clip: true}       numbers; clip counts outside ones in the end cells
#   city: {labels_file: cities.csv, column: region, spellings: city}   the region of each city
#   price: {bins: [0, 10, 100], grid: 0.01, decimal: ",", thousands: " "}
#   born: {from: "1900-01-01", to: "2024-12-31", step: year, format: "%d.%m.%Y"}
#   visit: {dates: ["2024-01-01", "2024-07-01", "2025-01-01"]}
#   region: 12                                          codes 0 to 11
"""
_MOST_TEXTS = 100_000
"""The most distinct values of a column that a log lists."""
_TRIED = 1000
"""How many values of a column, the most frequent, are tried with other forms of numbers and dates."""
_NUMBERS: list[dict[str, Any]] = [
    {"decimal": point, **({"thousands": thousands} if thousands else {})}
    for thousands in ("", ".", ",", " ", "'", "\u00a0", "\u202f")
    for point in (".", ",")
    if point != thousands
]
"""The ways of writing numbers, in the order in which they are tried."""
_DATES = [
    f"{date}{time}"
    for time in ("", " %H:%M", " %H:%M:%S")
    for date in (
        "%d.%m.%Y",
        "%d/%m/%Y",
        "%m/%d/%Y",
        "%Y/%m/%d",
        "%d-%m-%Y",
        "%d.%m.%y",
        "%m/%d/%y",
        "%d %b %Y",
    )
] + ["%b %d, %Y", "%Y%m", "%Y-%m", "%m/%Y", "%Y"]
"""The forms of dates that are no ISO dates, in the order in which they are tried."""


def _print_schema(arguments: argparse.Namespace) -> None:
    print(json.dumps(json_schema(), indent=2))


def _draft(arguments: argparse.Namespace) -> None:
    header = not arguments.no_header
    types = files.column_types(arguments.table, arguments.encoding, header)
    if any(map(key_of_written, types)):
        checks.warn(
            f"some names in the first line of {arguments.table} are numbers or dates: if it is a record, "
            "give --no-header, so that the draft does not show it."
        )
    hidden = {"--unit": arguments.unit, "--weights": arguments.weights}
    for option, column in hidden.items():
        if column is not None and types.pop(column, types) is types:
            raise ValueError(
                f"{option} names the column {column!r}, which {arguments.table} does not have"
                f"{_closest(column, types)}."
            )
    checks.refuse(
        (
            arguments.max_labels is not None and not arguments.public,
            "--max-labels is for --public, and without that no value is read: leave it out.",
        )
    )
    if not types:
        raise ValueError(f"{arguments.table} has no column besides the unit's and the weights.")
    if arguments.out is not None:
        checks.new_file(arguments.out)
    entries: dict[str, Any] = {name: open_entry(kind) for name, kind in types.items()}
    if arguments.public:
        checks.warn(
            "--public reads every value, and the domain shows which values occur. Use it only if the "
            "table is public."
        )
        entries = _public(arguments, list(types))
    if arguments.out is None:
        print(_KINDS + yaml_text(entries), end="")
        return
    try:
        write_file(arguments.out, entries, _KINDS)
    except ValueError as error:
        raise ValueError(f"{arguments.out} cannot be written: {error}") from None
    print(f"{arguments.out}: {_columns(len(entries))}{'' if arguments.public else ', to be completed'}.")
    given = ("encoding", "unit", "max_records", "weights", "max_weight")
    command = ["pgmjax", "domain", "check", arguments.table, arguments.out, *["--no-header"] * (not header)]
    for name in given:
        if getattr(arguments, name):
            command += [f"--{name.replace('_', '-')}", getattr(arguments, name)]
    bound = " --max-records K" if arguments.unit and not arguments.max_records else ""
    print(f"Then check the table: {shlex.join(map(str, command))}{bound}")


def _columns(number: int) -> str:
    return checks.counted(number, "column", "columns")


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    listed = f" (it has {', '.join(itertools.islice(known, 9))})" if isinstance(known, dict) else ""
    return f" (did you mean {close[0]}?)" if close else listed


def _public(arguments: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """Return the entries of a public table, of which every value is read."""
    domain, encoding = Domain(dict.fromkeys(names, 1)), arguments.encoding
    source = files.open_files(arguments.table, domain, not arguments.no_header, None, encoding=encoding)
    assert isinstance(source, files.FileSource)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for batch in source.values(names):
        for name, array in batch.items():
            columns[name] += array.to_pylist()
    most = 100 if arguments.max_labels is None else arguments.max_labels
    written: dict[str, dict[str, Any]] = {}
    for name, values in columns.items():
        written[name] = {}
        if all(isinstance(value, str | None) for value in values):
            texts = ["" if value is None else value.strip() for value in values]
            markers = sorted({*texts} & {*MISSING_TEXTS} - {""})
            known = [None if text in MISSING_TEXTS else text for text in texts]
            columns[name], form = _typed(known, most)
            written[name] = {**form, **({"missing": markers} if markers else {})}
    empty = [name for name, values in columns.items() if all(value is None for value in values)]
    if len(empty) == len(names):
        raise ValueError(f"{arguments.table} has no value in any column: nothing can be described.")
    if empty:
        process.say(f"warning: columns without any value are left out: {', '.join(empty)}.")
    found = infer({name: columns[name] for name in names if name not in empty}, None, most)
    return {name: {**attribute.to_spec(), **written[name]} for name, attribute in found.items()}


def _typed(texts: list[str | None], most: int) -> tuple[list[Any], dict[str, Any]]:
    """Return texts as whole numbers, numbers or dates if all of them are, and the keys of their form.

    Texts that may be read as different numbers or dates stay texts, and so do up to `most` different numbers
    that are not written as Python writes them: they are labels.
    """
    present = {text for text in texts if text is not None}
    for form, read in (
        (r"-?(0|[1-9][0-9]{0,14})", int),
        (r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", _finite),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?", datetime.datetime.fromisoformat),
    ):
        if all(re.fullmatch(form, text) for text in present):
            try:
                values = {text: read(text) for text in present}
            except ValueError:  # no day of the calendar, or too large a number
                continue
            return [None if text is None else values[text] for text in texts], {}
    read_as, keys = _in_one_form(present, most)
    return [None if text is None else read_as.get(text, text) for text in texts], keys


def _in_one_form(texts: Collection[str], most: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the numbers or dates that texts are in the only form that reads all of them, and its keys."""
    ways: list[tuple[dict[str, Any], Notation]]
    ways = [({"format": form}, Notation(None, "second", form)) for form in _DATES]
    if len(texts) > most and not any(re.match("-?0[0-9]", text) for text in texts):
        ways += [(form, Notation(**form)) for form in _NUMBERS]
    ways = [way for way in ways if all(way[1].number(text) is not None for text in texts)]
    meant = {tuple(map(form.number, texts)) for _, form in ways}
    if len(meant) != 1:
        return {}, {}
    keys, form = ways[0]
    numbers: Iterable[Any] = meant.pop()
    if form.time is not None:
        start = datetime.datetime(1970, 1, 1)
        numbers = [start + datetime.timedelta(seconds=seconds) for seconds in numbers]
    return dict(zip(texts, numbers, strict=True)), keys


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError("The number is too large.")
    return float(text)


_ALIKE = str.maketrans(
    "\u2019\u2018\u02bc\u00b4`\u2010\u2011\u2012\u2013\u2014\u2212\u201c\u201d\u201e",
    "'" * 5 + "-" * 6 + '"' * 3,
)
_SPREADSHEET_DATE = re.compile(r"\d{1,2}[-. ](?:[A-Z][a-z]{2}|[A-Z]{3})|(?:[A-Z][a-z]{2}|[A-Z]{3})[-. ]\d{2}")


@dataclass
class _Findings:
    """Rows of one column that a domain has no place for.

    Attributes:
        attribute: of the column.
        outside: the number of rows that are out of range, or no label.
        unreadable: the number of rows that are no number, or no date.
        missing: the number of rows without a value, where there is no bucket for them.
        failure: why the column cannot be read at all; empty if it can.
        texts: the offending values and why, with the numbers of their rows.
        unlisted: the number of rows whose values are too many to be kept.
        readable: the number of rows with a value that the column's form of numbers or dates reads.
        others: the number of rows whose value is none of the labels, where these have a code of their own.
        clipped: the number of rows that an end cell counts though their value lies beyond it.
    """

    attribute: Attribute
    outside: int = 0
    unreadable: int = 0
    missing: int = 0
    failure: str = ""
    texts: collections.Counter[tuple[str, int]] = field(default_factory=collections.Counter)
    unlisted: int = 0
    readable: int = 0
    others: int = 0
    clipped: int = 0

    @property
    def is_good(self) -> bool:
        """True if every row has a place."""
        return not (self.outside or self.unreadable or self.missing or self.failure)

    def count(self, encoded: Encoded, values: Any) -> None:
        """Add the rows of a batch: codes, and the Arrow array they come from or None."""
        self.outside += encoded.outside
        self.unreadable += encoded.unreadable
        self.missing += encoded.missing
        valid = np.ones(len(encoded.codes), bool) if encoded.invalid is None else ~encoded.invalid
        if self.attribute.missing:
            valid &= encoded.codes != self.attribute.size - 1
        self.readable += encoded.outside + int(valid.sum())
        if self.attribute.other:
            place = self.attribute.size - self.attribute.missing - 1
            self.others += int(np.count_nonzero(encoded.codes[valid] == place))
        if encoded.invalid is None or values is None:
            return
        for value, rows in collections.Counter(
            values.filter(arrow.array(encoded.invalid)).to_pylist()
        ).items():
            value = float(value) if isinstance(value, decimal.Decimal) else value
            key = (_shown(value), min(self.attribute.coder.raw_code(value), OUTSIDE))
            if key in self.texts or len(self.texts) < _MOST_TEXTS:
                self.texts[key] += rows
            else:
                self.unlisted += rows

    def of(self, kind: int) -> collections.Counter[str]:
        """Return the values of one kind with the numbers of their rows."""
        return collections.Counter({text: rows for (text, why), rows in self.texts.items() if why == kind})

    def said(self) -> str:
        """Return the counts as text."""
        attribute = self.attribute
        nothing = "no number" if attribute.time is None else "no date"
        counts = {
            nothing: self.unreadable,
            "not among the labels" if attribute.labels is not None else "without a cell": self.outside,
            "missing": self.missing,
        }
        parts = [f"{rows:,} {what}" for what, rows in counts.items() if rows]
        return ", ".join([*parts, *([self.failure] if self.failure else [])])


def _shown(value: Any) -> str:
    return "" if value is None else text_of(value) if isinstance(value, bool) else str(value)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.holder_log is not None:
        checks.new_file(arguments.holder_log)
    draft = Draft.read(arguments.domain)
    unit, weights = (
        check_unit(unit_of(arguments), draft.columns, arguments.weights),
        _weights(arguments, draft),
    )
    wanted = [*draft.columns, *([] if weights is None else [weights.name])]
    present, by_name = wanted, False
    if not arguments.no_header:
        with contextlib.suppress(ValueError):  # codes, or columns without a name beside those of the domain
            present = files.column_names(arguments.table, arguments.encoding, present)
            by_name = True
    lacking = [name for name in wanted if not places_of(name, present)]
    closed = {**draft.closed, **({} if weights is None else {weights.name: weights})}
    closed = {name: one for name, one in closed.items() if name not in lacking}
    # by position, columns that are open take a place too
    one = next((name for name in present if unit is None or name != unit.column), present[0])
    domain = Domain(closed or {one: 1}) if by_name else Domain({**dict.fromkeys(wanted, 1), **closed})
    header, encoding = not arguments.no_header, arguments.encoding
    source = files.open_files(arguments.table, domain, header, None, encoding=encoding)
    findings = _findings(source, closed)
    known = [*wanted, *([] if unit is None else [unit.column])]
    strange = [name for name in present if not places_of(name, known)]
    _tell(findings, [f"{name}{_closest(name, strange)}" for name in lacking], strange, draft)
    if unit is not None:
        _tell_unit(source, unit)
    if arguments.holder_log is not None:
        _log(findings, arguments.holder_log)
    bad = [name for name, found in findings.items() if not found.is_good]
    if bad:
        have = "has" if len(bad) == 1 else "have"
        raise RuntimeError(f"{len(bad)} of {_columns(len(findings))} {have} rows that do not fit the domain.")
    if lacking:
        are = checks.counted(len(lacking), "column of the domain is", "columns of the domain are")
        raise RuntimeError(f"{are} not in the table.")
    if not findings:
        still = f" Every column still says {OPEN}: replace that, or release with --discover 0.1." * bool(
            draft.open
        )
        raise RuntimeError(f"The domain describes no column of the table, so nothing was checked.{still}")
    print(f"All rows fit the domain in {'all ' * (len(findings) > 1)}{_columns(len(findings))}.")


def _weights(arguments: argparse.Namespace, draft: Draft) -> Attribute | None:
    """Return the column of weights as an attribute, whose codes they are; None without weights."""
    if (arguments.weights is None) != (arguments.max_weight is None):
        raise ValueError("Give --weights NAME and --max-weight N together: a column and its bound.")
    if arguments.weights is None:
        return None
    most = checks.integer("--max-weight", arguments.max_weight, low=1, high=LARGEST_WEIGHT)
    if arguments.weights in draft.columns or arguments.no_header:
        raise ValueError(
            f"--weights {arguments.weights} must name a column of the table's header, and none of the domain."
        )
    return Attribute(arguments.weights, most + 1)


def _tell_unit(source: files.FileSource | files.NpySource, unit: Unit) -> None:
    """Print how many units have more records than count."""
    if isinstance(source, files.NpySource):
        raise ValueError(f"A .npy file has codes only and no column {unit.column!r}: leave out --unit.")
    units = records = over = left_out = 0
    for part in source.unit_records(unit.column, 0):
        beyond = np.maximum(np.asarray(part.sizes) - unit.max_records, 0)
        units, records = units + beyond.size, records + int(np.sum(part.sizes))
        over, left_out = over + int((beyond > 0).sum()), left_out + int(beyond.sum())
    print(
        f"  {unit.column}, the unit: {over:,} of {units:,} have more than {unit.max_records} records; what "
        f"they have beyond that, {left_out:,} of {records:,} records, is left out at random"
    )


def _findings(
    source: files.FileSource | files.NpySource, closed: dict[str, Attribute]
) -> dict[str, _Findings]:
    """Read some columns of a table and return what their attributes have no place for."""
    findings = {name: _Findings(attribute) for name, attribute in closed.items()}
    if not closed:
        return {}
    if isinstance(source, files.NpySource):
        for batch in source.unsettled(list(closed)):
            for name in closed:
                findings[name].count(batch.columns[name], None)
        return findings
    for arrays in source.values(list(closed)):
        for name, array in arrays.items():
            if not findings[name].failure:
                _count(findings[name], array)
    return findings


def _count(found: _Findings, array: Any) -> None:
    try:
        found.count(encode_array(found.attribute.coder, array), array)
        if found.attribute.clip:
            closed = dataclasses.replace(found.attribute, clip=False)
            found.clipped += encode_array(closed.coder, array).outside
    except TypeError as error:  # of a type that the attribute does not take, for all its rows
        found.failure = str(error)


def _tell(findings: dict[str, _Findings], lacking: list[str], left_out: list[str], draft: Draft) -> None:
    """Print counts and remedies."""
    print("These counts are exact: show them only to people who may see the table.")
    for name, found in findings.items():
        if not found.is_good:
            print(f"  {name}: {found.said()}")
            for remedy in _remedies(found):
                print(f"    {remedy}")
        if found.clipped:
            rows = checks.counted(found.clipped, "row beyond the ends counts", "rows beyond the ends count")
            print(f"  {name}: {rows} in the end cells (clip), and a mean knows no value there")
        if found.others and found.others == found.readable:
            rows = checks.counted(found.others, "row with a value counts", "rows with a value count")
            print(f"  {name}: all {rows} as other: none is a label")
    once = [name for name, found in findings.items() if found.outside + found.unreadable == 1]
    if len(once) > 1 and 2 * len(once) >= len(findings):
        print(f"  a row in each of {', '.join(once)}: is a line of units or notes below the names?")
    if lacking:
        print(f"  not in the table: {', '.join(lacking)}")
    if left_out:
        if any(name[:1].isdigit() for name in left_out):
            print("  The first line may be a record: --no-header reads a file without a line of names.")
        else:
            print(f"  not in the domain: {', '.join(left_out)}")
    if draft.open:
        print(f"  not checked, because they are to be discovered: {', '.join(draft.open)}")


def _remedies(found: _Findings) -> list[str]:
    """Return what to write into the entry of a column, a line each; no value of the table."""
    said = []
    coded = found.attribute.labels is None and found.attribute.bins is None
    if found.unreadable and coded:
        said.append(
            "these are no codes: use `labels: [...]` if all values are such texts, or correct the table"
        )
    elif found.unreadable:
        said += _for_unreadable(found.attribute, found.of(UNREADABLE))
        whole = any("reads all of them" in each for each in said)
        if found.readable and found.attribute.format is not None and whole:
            said.append(
                "that form is the table's if all other rows fit it too, as where day and month are "
                "exchanged: try it"
            )
        elif found.readable and found.attribute.time is not None:
            said.append(
                "but the other rows have dates in the entry's own form, and an entry has one form: write all "
                "dates in one, or count these as missing (--rows-outside missing)"
            )
    if found.outside:
        outside = found.of(OUTSIDE)
        if found.attribute.labels is not None:
            said += _for_no_label(found.attribute, outside)
        elif found.attribute.bins is not None:
            said += _for_out_of_range(found.attribute, outside)
        else:
            said.append(
                "use `bins: [...]` if some are no whole numbers, a larger size if codes begin at 0, "
                f"`{{min: 1, max: {found.attribute.size}}}` if they "
                "begin at 1, and `labels: [...]` if these are no codes"
            )
    if found.missing:
        said.append("`missing: true` gives rows without a value a bucket of their own")
    return said


def _for_unreadable(attribute: Attribute, texts: collections.Counter[str]) -> list[str]:
    said = []
    marks = [text for text in MISSING_TEXTS if text in {text.strip() for text in texts}]
    if marks:
        said.append(
            f"`missing: {json.dumps([*attribute.missing_markers, *marks])}` reads these texts as "
            "missing values"
        )
    rest = [text.strip() for text, _ in texts.most_common(_TRIED + len(marks)) if text.strip() not in marks]
    if not rest:
        return said
    if attribute.time is not None and all(_is_serial(text) for text in rest):
        return [
            *said,
            "whole numbers near 45,000 are how a spreadsheet counts days: give the column the form of a date "
            "there, such as 2024-03-31, and save the table anew",
        ]
    if attribute.time is None:
        forms = [(_written(form), Notation(**form)) for form in _NUMBERS]
    else:
        forms = [(f"`format: {json.dumps(form)}`", Notation(None, attribute.time, form)) for form in _DATES]
        forms.insert(0, ("no `format`, for ISO dates,", Notation(None, attribute.time)))
    read = {how: tuple(map(form.number, rest)) for how, form in forms}
    best = max(len(rest) - values.count(None) for values in read.values())
    if best:
        # several forms are told if they read the same texts as different values
        firsts = {
            values: how for how, values in reversed(read.items()) if len(rest) - values.count(None) == best
        }
        hows = [how for how in read if how in firsts.values()]
        tried = f" (of the {len(rest):,} most frequent)" if len(texts) - len(marks) > len(rest) else ""
        said.append(f"{' or '.join(hows)} reads {_share(best, len(rest))}{tried}")
    if best < len(rest):
        what = "numbers" if attribute.time is None else "dates"
        dated = (Notation(None, "day", form) for form in (None, *_DATES))
        if attribute.time is None and any(
            all(form.number(text) is not None for text in rest) for form in dated
        ):
            return [
                *said,
                "these texts are dates: write `{from: ..., to: ..., step: month}`, or `{dates: [...]}`",
            ]
        said.append(
            f"the remaining texts are in no known form of {what}: correct the table, add texts that "
            "mean a missing value to `missing: [...]`, or describe the column by `labels` "
            "(--holder-log lists the values)"
        )
    return said


def _is_serial(text: str) -> bool:
    number = _number(text)
    return number is not None and 20_000 <= number < 60_000


def _written(form: dict[str, str]) -> str:
    """Return the entry for a way of writing numbers."""
    parts = [f"{key}: {json.dumps(value)}" for key, value in form.items() if (key, value) != ("decimal", ".")]
    return f"`{', '.join(parts)}`" if parts else "no `decimal` and no `thousands`, for numbers such as 1.5,"


def _share(part: int, whole: int) -> str:
    return "all of them" if part == whole else "most of them" if 2 * part > whole else "some of them"


def _plain(text: str) -> str:
    """Return a text without what is easily written another way: case, accents, dashes, quotes and spaces."""
    letters = unicodedata.normalize("NFKD", text.casefold().translate(_ALIKE))
    return " ".join("".join(each for each in letters if not unicodedata.combining(each)).split())


def _for_no_label(attribute: Attribute, texts: collections.Counter[str]) -> list[str]:
    said = []
    labels = attribute.labels or ()
    folded = {_plain(text_of(label)): text_of(label) for label in labels}
    alike = {text: rows for text, rows in texts.items() if _plain(text) in folded}
    if alike:
        share = _share(sum(alike.values()), texts.total())
        near = list(dict.fromkeys(repr(folded[_plain(text)]) for text in alike))
        said.append(
            f"{share} differ from a label only in capitals, spaces, accents, dashes or quotes, of "
            f"{', '.join([*near[:3], *['...'] * (len(near) > 3)])}: write these labels as the table has "
            "them, or name both, `labels: {LABEL: [SPELLING, ...]}`"
        )
    quoted = {_number(label) for label in labels if isinstance(label, str)} - {None}
    if any(_number(text) in quoted for text in texts):
        plain = ", ".join(
            f"{number:g}" for number in map(_number, map(text_of, labels[:4])) if number is not None
        )
        said.append(
            "some labels are quoted numbers, which only the same text matches. Numbers without quotes and "
            f"without zeros before them also read 1.0 and 01: `labels: [{plain}, ...]`"
        )
    elif len({isinstance(label, str) for label in labels}) > 1:
        said.append(
            "the labels mix text with numbers or true and false: in YAML, put quotes around the "
            "labels that are text"
        )
    marks = [text for text in MISSING_TEXTS if text in texts]
    if marks:
        said.append(
            f"`missing: {json.dumps([*attribute.missing_markers, *marks])}` reads these texts as "
            "missing values"
        )
    if any(_SPREADSHEET_DATE.fullmatch(text.strip()) for text in texts):
        said.append("some look like dates that a spreadsheet made of ranges such as 5-9: correct the table")
    if any(_in_utf8(text) in labels for text in texts):
        said.append("read as UTF-8, some are labels: leave out --encoding, or save the table in UTF-8")
    if len(labels) == 1 and " " in str(labels[0]):
        said.append(f"its only label is {labels[0]!r}: is a comma missing?")
    return [
        *said,
        "add the missing labels, if they are public; or `other: true` counts all others as one; or correct "
        "the table (--holder-log lists the values)",
    ]


def _in_utf8(text: str) -> str | None:
    """Return what a text that was read in a Western encoding says in UTF-8, None if it says nothing else."""
    for encoding in ("latin-1", "cp1252"):
        with contextlib.suppress(UnicodeError):
            read = text.strip().encode(encoding).decode("utf-8")
            return None if read == text else read
    return None


def _number(text: str) -> float | None:
    return Notation().number(text.strip())


def _for_out_of_range(attribute: Attribute, texts: Iterable[str]) -> list[str]:
    notation = Notation(None, attribute.time, attribute.format, attribute.decimal, attribute.thousands)
    assert attribute.bins is not None
    between = [number for number in map(notation.number, texts) if number is not None]
    said = []
    if attribute.time is None and any(attribute.bins[0] <= number < attribute.bins[-1] for number in between):
        grid = (
            "are no whole numbers"
            if attribute.grid in (None, 1)
            else f"lie between the steps of {attribute.grid:g}"
        )
        said.append(f"some {grid}: `bins: [0, 500, ...]`, with edges of your own, accepts them")
    if all(attribute.bins[0] <= number < attribute.bins[-1] for number in between):
        return said
    names = attribute.code_names()
    ends = f"its cells go from {names[0]!r} to {names[len(attribute.bins) - 2]!r}"
    return [
        *said,
        f"{ends}: use other ends if these are public; or `clip: true` counts them in the end cells",
    ]


def _log(findings: dict[str, _Findings], out: str) -> None:
    """Write the offending values with their counts, the most frequent of a column first."""
    reasons = {MISSING: "missing", UNREADABLE: "unreadable", OUTSIDE: "outside"}
    with open_private(out, "x") as file:
        rows = csv.writer(file)
        rows.writerow(["column", "value", "reason", "rows"])
        for name, found in findings.items():
            rows.writerows(
                [name, text, reasons[why], count] for (text, why), count in found.texts.most_common()
            )
            if found.unlisted:
                rows.writerow([name, "", "further values, which are not listed", found.unlisted])
