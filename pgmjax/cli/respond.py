"""`pgmjax respond` and `pgmjax collect`: randomised response without a table, from both sides."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pgmjax._internal import checks, files
from pgmjax.cli import perturb, process
from pgmjax.cli.query import warn_if_insecure
from pgmjax.cli.release import read_names
from pgmjax.data.domain import Domain
from pgmjax.local.channel import predicted_stddev
from pgmjax.local.respondent import PerturbedRecord, collect, respond
from pgmjax.local.table import PerturbedTable
from pgmjax.mechanisms.randomized_response import RandomizedResponse


def respond_once(arguments: argparse.Namespace) -> None:
    """Print the response of a record, or write it to a new file."""
    out = None if arguments.out is None else checks.new_file(arguments.out)
    domain = Domain.read(arguments.domain)
    if bool(arguments.groups) == arguments.each:
        raise ValueError("Say which attributes are answered together: give either --groups NAMES or --each.")
    mechanism = RandomizedResponse(
        epsilon=arguments.epsilon,
        relation="replace-one",
        universe=[read_names(text, domain) for text in arguments.groups] or "attributes",
        encoding=arguments.encoding,
        useless="answer",  # that of one record says nothing; the collector is told
    )
    text = json.dumps(respond(domain, _record(arguments.value), mechanism).to_dict()) + "\n"
    if out is None:
        print(text, end="")
    else:
        with open(out, "x", encoding="utf-8") as file:
            file.write(text)


def _record(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of texts such as sex=F; what cannot be read is not shown."""
    record: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"Value {number} must be NAME=VALUE, such as sex=F. Nothing was answered.")
        if re.search(r",\s*\w+=", value):
            raise ValueError("Put spaces between the values, as in age=34 sex=F. Nothing was answered.")
        if name.strip() in record:
            raise ValueError(f"{name.strip()!r} is given twice: give each attribute once.")
        record[name.strip()] = value.strip()
    return record


def collect_all(arguments: argparse.Namespace) -> None:
    """Join responses into the folder of a perturbed table."""
    out = files.check_target(arguments.out)
    table = collect(Domain.read(arguments.domain), _responses(arguments.file))
    record = {**perturb.describe(table), "responses": None}
    with files.reserve(out) as folder:
        table.save(folder / "table")
        (folder / "release.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    process.tell(arguments.json, {"out": str(out), **record}, _lines(table, out))
    warn_if_insecure(table.inputs)


def _lines(table: PerturbedTable, out: pathlib.Path) -> Iterator[str]:
    yield f"{table.rows:,} responses joined in {out}"
    for column in table.columns:
        error = predicted_stddev(column.distribution, table.rows)
        yield f"  group    {', '.join(column.attributes)}: standard error of a share at most {error:.2g}"


def _responses(names: Sequence[str]) -> Iterator[PerturbedRecord]:
    """Yield the responses of files.

    Raises:
        ValueError: a file is absent or empty, or an entry is no response; the message has its number.
    """
    for name in names:
        if not pathlib.Path(name).is_file():
            raise ValueError(files.absent("file of responses", name))
        for place, entry in _entries(name):
            try:
                yield PerturbedRecord.from_dict(entry)
            except ValueError as error:
                why = str(error).rstrip(".")
                raise ValueError(
                    f"{name}, {place}, is no response of pgmjax respond: {why}. {_GIVE}"
                ) from error


_GIVE = "Give the files that respondents sent."


def _entries(name: str) -> Iterator[tuple[str, Any]]:
    """Yield what a file holds: JSON of one response or a list of them, or a response on each line."""
    text, whole = files.read_text(pathlib.Path(name)), None
    if pathlib.Path(name).suffix == ".json":
        with contextlib.suppress(ValueError):  # or one on each line, whatever its name says
            whole = files.parse_json(text)
    if whole is not None:
        listed = isinstance(whole, list)
        yield from (
            ((f"entry {n}", each) for n, each in enumerate(whole, 1)) if listed else [("line 1", whole)]
        )
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield f"line {number}", files.parse_json(line)
            except ValueError as error:
                raise ValueError(f"{name}, line {number}, is not JSON. {_GIVE}") from error
