"""`pgmjax domain`: begin a domain file from what is public by itself, and check a table against one."""

from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from pgmjax._internal import checks
from pgmjax.data import files
from pgmjax.data.attribute import Attribute
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain, write_file
from pgmjax.data.encoding import MISSING, UNREADABLE
from pgmjax.discovery.open_table import open_entry

_KINDS = """\
# A domain file: one entry a column. Values are never read off a private table; write what is known of them,
# or leave "discover" and have it found for a share of the budget: pgmjax release --discover 0.1
#   sex: {labels: [F, M], missing: true}                labels, and a bucket for missing values
#   job: {labels: {cook: [cook, chef]}, other: true}    spellings of one label, and one code for all others
#   age: {min: 0, max: 120, step: 5}                    whole numbers, in cells of five
#   income: {bins: [0, 1000.5, 5000], clip: true}       numbers; those beyond the ends count in the end cells
#   price: {bins: [0, 10, 100], grid: 0.01, decimal: ","}
#   born: {from: "1900-01-01", to: "2024-12-31", step: year, format: "%d.%m.%Y"}
#   region: 12                                          codes 0 to 11
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "domain",
        help="begin a domain file, or check a table against one",
        description="Begin a domain file from the names of a table's columns, or check a table against one.",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    draft = parts.add_parser(
        "draft",
        help="write a skeleton from the names and types of the columns",
        description="Write a skeleton of a domain file from what is public by itself: the names of the "
        "columns and, in Parquet, their types. No value is read.",
        epilog="Example: pgmjax domain draft people.csv --out people.yaml",
    )
    draft.add_argument("table", metavar="FILE", help=".csv, .csv.gz, .tsv, .parquet, ...")
    draft.add_argument(
        "--out", metavar="FILE", help="the domain file to make, .yaml or .json; else it is printed"
    )
    draft.add_argument("--unit", metavar="COLUMN", help="leave out the column that names whom to protect")
    draft.add_argument(
        "--public", action="store_true", help="read values too: only for a table that is public as it is"
    )
    draft.set_defaults(run=_draft)
    check = parts.add_parser(
        "check",
        help="count the rows of a table that a domain has no place for",
        description="Count, column by column, the rows that a domain has no place for. The counts are exact "
        "and for the table's holder alone. Exits with 1 if there are any.",
        epilog="Example: pgmjax domain check people.csv people.yaml --holder-log bad.csv",
    )
    check.add_argument("table", metavar="FILE", help="the table")
    check.add_argument("domain", metavar="DOMAIN", help="the domain file")
    check.add_argument(
        "--holder-log", metavar="FILE", help="write the offending values, for the holder alone"
    )
    check.set_defaults(run=_check)


def _draft(arguments: argparse.Namespace) -> None:
    types = files.column_types(arguments.table)
    types.pop(arguments.unit, None)
    if arguments.out is not None and os.path.lexists(arguments.out):
        raise ValueError(f"{arguments.out} exists already: name another file, or remove it.")
    if arguments.public:
        entries: dict[str, Any] = Domain.from_public_data(_frame(arguments.table, [*types])).to_dict()
    else:
        entries = {name: open_entry(kind) for name, kind in types.items()}
    if arguments.out is not None:
        write_file(arguments.out, entries)
        if pathlib.Path(arguments.out).suffix.lower() != ".json":
            path = pathlib.Path(arguments.out)
            path.write_text(_KINDS + path.read_text(encoding="utf-8"), encoding="utf-8")
        print(f"{arguments.out}: {len(entries)} columns, to be completed.")
        return
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
    print(_KINDS + "\n".join(lines))


def _frame(path: str, names: list[str]) -> dict[str, list[Any]]:
    """Return the columns of a public table, numbers as numbers."""
    place = pathlib.Path(path)
    if place.suffix.lower() == ".parquet" or place.is_dir():
        table = checks.optional("pyarrow.parquet", extra="tables").read_table(path, columns=names)
    else:
        table = checks.optional("pyarrow.csv", extra="tables").read_csv(path).select(names)
    return {name: table.column(name).to_pylist() for name in names}


def _check(arguments: argparse.Namespace) -> None:
    domain = Domain.read(arguments.domain)
    if arguments.holder_log is not None and os.path.lexists(arguments.holder_log):
        raise ValueError(f"{arguments.holder_log} exists already: name another file, or remove it.")
    present = files.column_names(arguments.table)
    left_out = [name for name in present if name not in domain]
    counts = dict(_problems(arguments.table, domain))
    bad = {name: found for name, found in counts.items() if sum(found.values())}
    print("These counts are exact: they are for the table's holder alone.")
    for name, found in bad.items():
        said = ", ".join(f"{number:,} {what}" for what, number in found.items() if number)
        print(f"  {name}: {said}")
    if left_out:
        print(f"  not in the domain: {', '.join(left_out)}")
    if arguments.holder_log is not None:
        _log(arguments.table, domain, list(bad), arguments.holder_log)
    if bad:
        raise RuntimeError(f"{len(bad)} of {len(domain)} columns have rows that the domain has no place for.")
    print(f"All rows have a place in all {len(domain)} columns.")


def _problems(path: str, domain: Domain) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the counts of rows without a code of every column."""
    for name in domain:
        attribute = domain.attribute(name)
        source = Dataset.read(path, domain.project((name,)))._source
        found: collections.Counter[str] = collections.Counter()
        for batch in source.unsettled([name]):
            encoded = batch.columns[name]
            what = "no date" if attribute.time else "no number"
            found.update(
                {what: encoded.unreadable, "out of range": encoded.outside, "missing": encoded.missing}
            )
        if attribute.labels is not None:
            found = collections.Counter({"no label": found["out of range"], "missing": found["missing"]})
        yield name, dict(found)


class _Recorder:
    """An encoder that keeps the values which an attribute has no code for."""

    def __init__(self, attribute: Attribute):
        self._coder = attribute.coder
        self.bad: collections.Counter[tuple[str, str]] = collections.Counter()

    def see(self, values: Any) -> None:
        """Count the values of an Arrow array that have no code."""
        found = collections.Counter(values.to_pylist())
        for value, count in found.items():
            code = int(self._coder.raw_code("" if value is None else value))
            why = {MISSING: "missing", UNREADABLE: "unreadable"}.get(code, "outside")
            if code < 0 and not (code == MISSING and self._coder._has_missing):
                self.bad["" if value is None else str(value), why] += count


def _log(path: str, domain: Domain, names: list[str], out: str) -> None:
    """Write the offending values of some columns with their counts, most frequent first."""
    handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["column", "value", "reason", "rows"])
        for name in names:
            recorder = _Recorder(domain.attribute(name))
            for array in files.raw_values(path, domain.project((name,)), name):
                recorder.see(array)
            for (value, why), count in recorder.bad.most_common():
                rows.writerow([name, value, why, count])
