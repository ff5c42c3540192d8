"""`pgmjax perturb`: every record of a table answers for itself, and the answers become a folder.

`pgmjax respond` and `pgmjax collect` are the same without a table, from both sides.

The folder has `release.json` with the guarantee, `table/` as `local.load` reads it and, for answers in the
direct encoding, a plain file of the rows. Rows are sorted, so that nothing is left of the table's order,
unless its holder says that the order is public.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import pathlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from pgmjax import job as jobs
from pgmjax._internal import checks, files, formats
from pgmjax.cli import process, release
from pgmjax.data import demo
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.local import PerturbedTable, load, predicted_stddev
from pgmjax.local.respondent import PerturbedRecord, collect, respond
from pgmjax.measurements import inputs
from pgmjax.mechanisms.randomized_response import RandomizedResponse
from pgmjax.model import row_file
from pgmjax.privacy.exact import as_text
from pgmjax.release import folder as release_folder
from pgmjax.release import run_folder
from pgmjax.release.statement import of_epsilon

_OUTPUT = ("responses", "escape_formulas", "out", "json", "quiet")
_MOST_VALUES = 50_000_000  # of a plain file
_GIVE = "Give the files that respondents sent."
_ORDERS = {
    "sorted": "The rows are sorted by their answers, so their order says nothing about that of the table.",
    "table": "The rows are in the order of the table: its holder promised that no private value decides it.",
}


def run(arguments: argparse.Namespace) -> None:
    """Perturb the table and print where it is and the budget spent."""
    out = run_folder.check_out(arguments.out)
    _check_combination(arguments)
    release_folder.check_packages()
    domain = demo.domain() if arguments.demo else Domain.read(arguments.domain)
    if any(":" in text for text in arguments.groups) and not any(":" in name for name in domain):
        raise ValueError(
            "--groups takes names alone, such as --groups age,sex for both together: every group is "
            "answered with the same part of the epsilon."
        )
    groups = [release.read_names(text, domain) for text in arguments.groups]
    mechanism = RandomizedResponse(
        epsilon=arguments.epsilon,
        relation=Relation.parse(arguments.relation),
        universe=groups or "attributes",
        encoding=arguments.encoding,
        useless=arguments.useless,
    )
    attributes = _attributes(arguments, domain)
    given = {"mechanism": mechanism, "attributes": attributes, "is_ordered": arguments.row_order == "public"}
    job = release.job_of(arguments, domain, PerturbJob, **given)
    _ = job.named
    lines = functools.partial(_lines, arguments, job)
    written = {"responses": arguments.responses, "escape_formulas": arguments.escape_formulas}
    release.make(arguments, job, out, _OUTPUT, lines, **written)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PerturbJob(jobs.Job):
    """A perturbed table that is to be made.

    Args:
        attributes: those that are answered about; None for all.
        is_ordered: whether rows keep the order of the table, which is public then.
    """

    attributes: list[str] | None = None
    is_ordered: bool = False

    again: ClassVar[str] = "Run the same command again"

    @property
    def chosen(self) -> Any:
        """The mechanism, which is the one that was named."""
        return self.named

    def run(self, **given: Any) -> Any:
        """Spend the budget and return the table; see `RandomizedResponse.perturb`."""
        if self.is_ordered:
            given |= {"row_order": "table", "row_order_is_public": True}
        else:
            given |= {"row_order": "sorted"}
        return self.chosen.perturb(self.table, self.attributes, **given)

    def write(self, place: pathlib.Path, release: Any, **output: Any) -> Mapping[str, Exception]:
        """Write the table, its rows as a plain file if that can be, and the record."""
        check, source = output.pop("check"), output.pop("source")
        missing: dict[str, Exception] = {}
        release.save(place / "table")
        record: dict[str, Any] = {**describe(release), "responses": None}
        name = f"responses.{output['responses']}"
        try:
            record["responses"] = _write_responses(release, place / name, **output)
        except Exception as error:  # the same answers are in table/
            (place / name).unlink(missing_ok=True)
            missing[name] = error
            record["missing"] = {name: release_folder.reason(error)}
        check()
        record |= {"source": source} if source else {}
        _write_record(place, record)
        return missing

    def read(self, place: pathlib.Path) -> release_folder.SavedRelease:
        """Return the record of the folder."""
        return release_folder.SavedRelease(place, files.read(place / "release.json", formats.PERTURBED))


def _write_record(folder: pathlib.Path, record: Mapping[str, Any]) -> None:
    (folder / "release.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _check_combination(arguments: argparse.Namespace) -> None:
    """Reject incompatible options before anything is read."""
    weighted = arguments.weights is not None or arguments.max_weight is not None
    only_once = "Randomised response cannot use weights, because each record counts once: leave out --weights"
    checks.refuse((weighted, f"{only_once} and --max-weight."))
    release.check_table(arguments)
    release.escapes(arguments, arguments.responses)
    given = [bool(arguments.groups), arguments.each, arguments.workload is not None]
    checks.refuse(
        (sum(given) > 1, "Give only one of --groups, --each and --workload."),
        (
            not any(given) and not arguments.demo,
            "Say which attributes to perturb: --groups NAMES, --each, or --workload FILE.",
        ),
    )


def _attributes(arguments: argparse.Namespace, domain: Domain) -> list[str] | None:
    """Return the attributes that a workload asks about, in the domain's order; None for all."""
    if arguments.workload is None:
        return None
    entries = jobs.read_workload(arguments.workload, domain).entries
    asked = {name for entry in entries for name in entry.clique}
    return [name for name in domain.attributes if name in asked]


def _write_responses(
    table: PerturbedTable,
    path: pathlib.Path,
    *,
    responses: str,
    escape_formulas: bool,
    show_progress: bool | None,
) -> str | None:
    """Write the rows as a plain file and return its name, unless they are bits or too many."""
    names = [name for group in table.groups for name in group]
    too_many = table.rows * len(names) > _MOST_VALUES
    if responses == "none" or too_many or any(column.unary for column in table.columns):
        return None
    row_file.write(
        path,
        table.domain.project(tuple(names)),
        _codes(table),
        table.rows,
        decode=True,
        show_progress=show_progress,
        metadata=inputs.marks(table.inputs),
        escape_formulas=escape_formulas,
    )
    return path.name


def _codes(table: PerturbedTable) -> Iterator[list[np.ndarray]]:
    """Yield blocks of answers as codes [rows] of each attribute, group by group."""
    shapes = [table.domain.shape_of(group) for group in table.groups]
    for block in table.blocks():
        parts = zip(block, shapes, strict=True)
        yield [codes for part, shape in parts for codes in np.unravel_index(part.astype(np.intp), shape)]


def describe(table: PerturbedTable) -> dict[str, Any]:
    """Return the content of `release.json`; budget numbers are exact strings."""
    return {
        **formats.PERTURBED.heading(),
        "mechanism": RandomizedResponse.name,
        "epsilon": as_text(table.epsilon),
        "delta": "0",
        "relation": Relation.REPLACE_ONE.value,
        "unit": None if table.unit is None else table.unit.to_dict(),
        "spent": {"epsilon": as_text(table.epsilon), "delta": "0"},
        "secure": table.secure,
        "seed": table.seed,
        inputs.KEY: inputs.to_list(table.inputs),
        "total": table.rows,
        "population": table.population.to_dict(),
        "row_order": table.row_order,
        "groups": [list(group) for group in table.groups],
        "encodings": [column.encoding for column in table.columns],
        "epsilons": [as_text(column.epsilon) for column in table.columns],
        "ledger": None if table.ledger is None else dict(table.ledger),
        "statement": statement(table),
        "versions": release_folder.versions(),
    }


def statement(table: PerturbedTable) -> str:
    """Return the guarantee in plain sentences, for the person responsible for the data.

    Guarantees:
        Local epsilon-DP under replace-one; the unit of protection is one record, or the unit of privacy.
    """
    epsilon = as_text(table.epsilon)
    whose = "its answers" if table.unit is None else f"the answers of all records of one {table.unit.column}"
    whole = "its values" if table.unit is None else "the values in them"
    count = "" if table.unit is None else f" (at most {table.unit.max_records} count)"
    counted = "" if table.unit is None else " that count"
    promise = (
        f"Every record was perturbed by itself by randomised response, in {len(table.groups):,} group(s) of "
        f"attributes. Taken together, {whose}{count} are differentially private with epsilon = {epsilon} "
        f"(local differential privacy): if {whole} are changed, the probability of any answers changes at "
        f"most by a factor of exp({epsilon}). {of_epsilon(table.epsilon)} The number of records{counted} is "
        f"public. All answers are of {table.population}. {_ORDERS[table.row_order]} "
    )
    if table.secure:
        return promise + "The noise came from a vetted sampler and cannot be repeated."
    return (
        "NOT FOR PUBLICATION: the noise of this run can be repeated, so it protects nothing. With "
        "secure noise the following would hold. " + promise.rstrip()
    )


def read(folder: str) -> PerturbedTable | None:
    """Open the table of a folder that `pgmjax perturb` wrote; None for any other folder.

    Raises:
        ValueError: the folder is damaged, or of a newer format.
    """
    path = pathlib.Path(folder) / "release.json"
    try:
        record = files.parse_json(files.read_text(path))
    except (ValueError, OSError):
        return None  # whoever reads it as a release says what is wrong
    if not isinstance(record, dict) or record.get("format") != formats.PERTURBED.name:
        return None
    formats.PERTURBED.check(record, path)
    return load(path.parent / "table")


def _lines(arguments: argparse.Namespace, job: jobs.Job, saved: release_folder.SavedRelease) -> Iterator[str]:
    assert isinstance(job.domain, Domain)
    record, out = saved.record, saved.folder
    first = job.domain.attribute(record["groups"][0][0])
    asked = shlex.quote(f"{first.name}={first.code_names()[0]}")
    yield f"Perturbed table written to {out}"
    yield f"  query    pgmjax query {shlex.quote(arguments.out)} {asked}"
    for group, encoding, epsilon in zip(
        record["groups"], record["encodings"], record["epsilons"], strict=True
    ):
        yield f"  group    {', '.join(group)}: {encoding}, epsilon {epsilon}"
    if record["responses"] is None and arguments.responses != "none":
        yield "  rows     in table/ only: a plain file needs the direct encoding and not too many rows"
    elif record["responses"] is not None:
        order = "sorted" if record["row_order"] == "sorted" else "in the order of the table"
        yield f"  rows     {out / record['responses']}, {order}"
    yield from record["population"]["sentences"]
    yield from release.of_columns(arguments, job.domain, record)
    yield from release.of_cost(record, job.drawn, demo.TERMS if arguments.demo else None)


def respond_once(arguments: argparse.Namespace) -> None:
    """Print the response of a record, or write it to a new file."""
    out = None if arguments.out is None else checks.new_file(arguments.out)
    domain = Domain.read(arguments.domain)
    if bool(arguments.groups) == arguments.each:
        raise ValueError("Say which attributes are answered together: give either --groups NAMES or --each.")
    mechanism = RandomizedResponse(
        epsilon=arguments.epsilon,
        relation="replace-one",
        universe=[release.read_names(text, domain) for text in arguments.groups] or "attributes",
        encoding=arguments.encoding,
        useless="answer",  # that of one record says nothing; the collector is told
    )
    record = {
        checks.same_word(name, domain) or name: value for name, value in _record(arguments.value).items()
    }

    def text() -> str:
        return json.dumps(respond(domain, record, mechanism).to_dict()) + "\n"

    if out is None:
        print(text(), end="")
    else:
        files.write_new(out, text)


def _record(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of texts such as sex=F; what cannot be read is not shown."""
    record: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            table = " A whole table is for pgmjax perturb." if pathlib.Path(text).suffix else ""
            raise ValueError(
                f"Value {number} must be NAME=VALUE without blanks, such as sex=F.{table} Nothing was "
                "answered."
            )
        checks.refuse(
            (
                re.search(r",\s*\w+=", value),
                "Put spaces between the values, as in age=34 sex=F. Nothing was answered.",
            ),
            (name.strip() in record, f"{name.strip()!r} is given twice: give each attribute once."),
        )
        record[name.strip()] = value.strip()
    return record


def collect_all(arguments: argparse.Namespace) -> None:
    """Join responses into the folder of a perturbed table."""
    out = files.check_target(arguments.out)
    table = collect(Domain.read(arguments.domain), _responses(arguments.file))
    record = {**describe(table), "responses": None}
    with files.reserve_folder(out) as folder:
        table.save(folder / "table")
        _write_record(folder, record)
    process.tell(arguments.json, {"out": str(out), **record}, _of_groups(table, out))
    release.warn_if_insecure(table.inputs)


def _of_groups(table: PerturbedTable, out: pathlib.Path) -> Iterator[str]:
    yield f"{checks.counted(table.rows, 'response', 'responses')} joined in {out}"
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
            raise ValueError(files.absent("file of responses", name, several=True))
        for place, entry in _entries(name):
            try:
                yield PerturbedRecord.from_dict(entry)
            except ValueError as error:
                why = str(error).rstrip(".")
                raise ValueError(
                    f"{name}, {place}, is no response of pgmjax respond: {why}. {_GIVE}"
                ) from error


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
