"""`pgmjax release`: turn a table into a folder with everything that may be published.

Mechanism options are given on the command line as NAME=VALUE; see `read_options`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pgmjax import job as jobs
from pgmjax import mechanisms
from pgmjax._internal import checks, files
from pgmjax._internal.extras import arrow, parquet
from pgmjax.cli import process
from pgmjax.data import demo
from pgmjax.data import files as table_files
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.data.draft import Draft
from pgmjax.data.relation import Unit
from pgmjax.data.value import places_of
from pgmjax.discovery import Discovery
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.inputs import Input, are_secure
from pgmjax.privacy import CountLeftOut, Ledger
from pgmjax.privacy.gate import holder_log
from pgmjax.queries.workload import KWay, Workload
from pgmjax.release import accuracy, run_folder
from pgmjax.release import folder as release_folder
from pgmjax.release import statement as report_text

_OUTPUT = (
    *(
        "steps",
        "solver",
        "loss",
        "oracle",
        "dtype",
        "regularisation",
        "rows",
        "method",
        "synthetic",
        "codes",
        "escape_formulas",
        "out",
        "json",
        "quiet",
    ),
    *("resume", "prior", "add_rows", "tables"),
)
_OF_PARSER = ("run", "parser")


def unit_of(arguments: argparse.Namespace) -> Unit | None:
    """Return the unit of privacy that the options name, None for one record.

    Raises:
        ValueError: one option without the other, or an invalid one.
    """
    if (arguments.unit is None) != (arguments.max_records is None):
        raise ValueError(
            "Give --unit COLUMN and --max-records K together: the unit to protect, and how many of "
            "its records count."
        )
    return None if arguments.unit is None else Unit(arguments.unit, arguments.max_records)


def run(arguments: argparse.Namespace) -> None:
    """Make the release and print where it lies and what was spent."""
    if arguments.add_rows is not None:
        _add_rows(arguments)
        return
    if arguments.tables is not None:
        _tables(arguments)
        return
    if arguments.resume is not None:
        arguments = _resumed(arguments)
    required = ("epsilon", "relation") if arguments.dry_run else ("epsilon", "relation", "out")
    absent = [name for name in required if getattr(arguments, name) is None]
    if absent:
        arguments.parser.error(f"the following arguments are required: --{', --'.join(absent)}")
    _check_combination(arguments)
    if arguments.dry_run:
        _dry_run(arguments)
        return
    out = run_folder.check_out(arguments.out)
    release_folder.check_packages()
    begun = run_folder.command_in(run_folder.partial_of(out))
    if begun is not None:  # a run goes on with the limit that it began with, whatever is forecast now
        arguments.limit = begun["asked"].get("limit")
    job = _job(arguments)
    arguments.limit = job.recipe.max_cells
    lines = functools.partial(_lines, arguments, job)
    make(arguments, job, out, _OUTPUT, lines, rows=rows_of(arguments))


def make(
    arguments: argparse.Namespace,
    job: jobs.Job,
    out: pathlib.Path,
    output: Sequence[str],
    lines: Callable[[release_folder.SavedRelease], Iterator[str]],
    **given: Any,
) -> None:
    """Make what a command asks for, and print where it lies and what was spent.

    Args:
        arguments: of the command.
        job: what it asks for.
        out: the folder to make.
        output: the options that decide nothing of what is measured.
        lines: what is to be said of the result.
        given: for `Job.write`.
    """
    stored = {name: value for name, value in vars(arguments).items() if name not in _OF_PARSER}
    for name in {"table", "domain", "workload", "ledger", "holder_log", "out"} & {*stored}:
        if stored[name] is not None:
            stored[name] = str(pathlib.Path(stored[name]).absolute())
    try:
        with charged(arguments) as ledger, holder_log(arguments.holder_log):
            saved, missing = job.make(
                out,
                asked={name: value for name, value in stored.items() if name not in output},
                shown={name: value for name, value in stored.items() if name in output},
                ledger=ledger,
                key=arguments.key,
                show_progress=show_progress(arguments),
                source=demo.TERMS if arguments.demo else None,
                **given,
            )
        tell(arguments, out, saved.record, lines(saved))
    except KeyboardInterrupt:
        said = job.after_interrupt(out, charged=arguments.ledger is not None)
        raise KeyboardInterrupt(said) from None
    if missing:
        raise RuntimeError(job.lacking(out, missing))


def reading_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how the file of a table is to be read, as far as options say it: arguments of `Dataset.read`."""
    named = {each: getattr(arguments, each, None) for each in ("weights", "max_weight", "rows_outside")}
    given = {"header": False if arguments.no_header else None, "encoding": arguments.text_encoding, **named}
    return {name: value for name, value in given.items() if value is not None}


def job_of(
    arguments: argparse.Namespace, domain: Domain | Draft | None, kind: Any = jobs.Job, **more: Any
) -> Any:
    """Return the job on the table that the options name, to which other arguments are added."""
    return kind(
        records=demo.load if arguments.demo else arguments.table,
        domain=domain,
        reading=reading_of(arguments),
        unit=unit_of(arguments),
        epsilon=arguments.epsilon,
        relation=arguments.relation,
        insecure_seed=arguments.insecure_seed,
        check=process.check,
        **more,
    )


def _job(arguments: argparse.Namespace) -> jobs.Job:
    """Return the job that the options describe, with all that can be refused without the table checked."""
    domain: Domain | Draft | None
    if arguments.discover is None:
        domain = demo.domain() if arguments.demo else Domain.read(arguments.domain)
    else:
        domain = None if arguments.domain is None else _draft(arguments.domain)
    workload: Workload | KWay
    if arguments.workload is not None:
        workload = jobs.read_workload(arguments.workload, domain if isinstance(domain, Domain) else None)
    else:
        most = len(domain) if isinstance(domain, Domain) else None
        k = 2 if arguments.all_kway is None else arguments.all_kway
        checks.refuse(
            (
                most is not None and k > most,
                f"--all-kway {k} is more than the {most} attributes of the domain.",
            )
        )
        workload = KWay(checks.integer("--all-kway", k, low=1, high=most))
    if arguments.rows is not None:
        arguments.rows = checks.integer("--rows", arguments.rows, low=0)
    job: jobs.Job = job_of(
        arguments,
        domain,
        workload=workload,
        max_cells=getattr(arguments, "limit", None) if arguments.max_cells is None else arguments.max_cells,
        mechanism=arguments.mechanism,
        options=read_options(arguments.option),
        delta=arguments.delta,
        discovery=None if arguments.discover is None else Discovery(arguments.discover),
        estimator=estimator_of(arguments),
        prior=arguments.prior,
        count_left_out=_counting(arguments),
    )
    if isinstance(domain, Domain):
        _ = job.chosen, job.earlier
        if arguments.ledger is None:  # whose account may name a unit, and says what happens to rows outside
            job.forecast_left_out()
    return job


def _counting(arguments: argparse.Namespace) -> CountLeftOut | None:
    """Return what may be counted of what is left out, None for nothing."""
    if arguments.count_left_out is None:
        if arguments.largest_unit is not None:
            raise ValueError(
                "--largest-unit goes with --count-left-out: give the share that it may cost too."
            )
        return None
    return CountLeftOut(arguments.count_left_out, arguments.largest_unit)


def _draft(path: str) -> Draft:
    """Return the domain of a file that leaves columns open."""
    draft = Draft.read(path)
    if not draft.open:
        raise ValueError(
            "--discover finds the columns that a domain leaves open, and this domain describes "
            "every column: leave out --discover."
        )
    return draft


def _dry_run(arguments: argparse.Namespace) -> None:
    """Print the forecast of a release. No record is read; of the table only its path is looked at."""
    if arguments.discover is not None:
        raise ValueError(
            "--dry-run needs a complete domain, and --discover would find it in the table: describe "
            "the open columns instead."
        )
    if not arguments.demo and not pathlib.Path(arguments.table).exists():
        alone = " A dry run reads only the names of the columns: a file with that one line is enough."
        raise ValueError(files.absent("table", arguments.table) + alone)
    job = _job(arguments)
    if not arguments.demo:
        _check_columns(arguments)
    found = job.forecast(arguments.rows)
    left_out = [] if arguments.ledger else job.forecast_left_out()
    if job.count_left_out is not None and arguments.ledger:
        left_out = ["  whatever the table's account in the ledger may leave out"]
    population = None if arguments.ledger else job.population
    told = {"left_out": [list(clique) for clique in job.recipe.left_out], "reasons": [*job.recipe.reasons]}
    told |= {} if population is None else {"population": population.to_dict()}
    told |= {"count_left_out": left_out} if left_out else {}
    said = [*found.lines(arguments.rows), *(f"  {reason}" for reason in job.recipe.reasons)]
    said += ["Will be counted of what is left out of the table:", *left_out] if left_out else []
    said += [] if population is None else population.sentences()
    said.append("No record was read and no budget was spent.")
    process.tell(arguments.json, {**found.to_dict(), **told}, said)


def _check_columns(arguments: argparse.Namespace) -> None:
    """Refuse a table whose header lacks a column of the domain; codes alone, or no header, have no names."""
    if arguments.no_header or not pathlib.Path(arguments.table).is_file():
        return
    wanted = [*Draft.read(arguments.domain).columns]
    try:
        present = table_files.column_names(arguments.table, arguments.text_encoding, wanted)
    except ValueError:  # a file of codes; what else is wrong with it the release says
        return
    lacking = [name for name in wanted if not places_of(name, present)]
    if lacking:
        named = ", ".join(map(repr, lacking[:3])) + ", ..." * (len(lacking) > 3)
        meant = checks.did_you_mean(lacking[0], present) or " Capitals count."
        raise ValueError(
            f"{arguments.table} has no column named {named}: correct the name in the domain.{meant}"
        )


def _add_rows(arguments: argparse.Namespace) -> None:
    """Draw more rows from a release into a new file beside its first ones."""
    given = _of_release(arguments, "add_rows", ("codes", "escape_formulas", "method", "synthetic"))
    arguments.add_rows = checks.integer("--add-rows", arguments.add_rows, low=1)
    if pathlib.Path(arguments.table).is_file():
        raise ValueError(
            "--add-rows takes the folder of a release in place of the table: pgmjax release DIR --add-rows "
            f"{arguments.add_rows}. {arguments.table} is a file."
        )
    saved = release_folder.opened(arguments.table)
    record = saved.record
    folder, number = pathlib.Path(arguments.table), 2
    kind = next((k for k in release_folder.SYNTHETIC_FORMATS if (folder / f"synthetic.{k}").exists()), None)
    kind = arguments.synthetic if "synthetic" in given or kind is None else kind
    while any((folder / f"synthetic-{number}.{k}").exists() for k in release_folder.SYNTHETIC_FORMATS):
        number += 1
    codes = arguments.codes or record.get("synthetic") == "codes"
    place = folder / f"synthetic-{number}.{kind}"
    saved.model.sample_to(
        place,
        arguments.add_rows,
        number - 1,  # seeds of the rows that are there are 0, 1, ...
        method=arguments.method,
        decode=False if codes else "values",
        escape_formulas=escapes(arguments, kind),
        show_progress=show_progress(arguments),
    )
    told = {"out": str(place), "rows": arguments.add_rows, "seed": number - 1}
    _tell_drawn(
        arguments, record, told, [f"{checks.counted(arguments.add_rows, 'row', 'rows')} written to {place}"]
    )


def _of_release(arguments: argparse.Namespace, name: str, taken: Sequence[str]) -> set[str]:
    """Return the options that were given with one that draws from a release.

    Raises:
        ValueError: no folder is named, or an option that does not go with it.
    """
    option = f"--{name.replace('_', '-')}"
    if arguments.table is None:
        prior = arguments.prior
        named = f": write pgmjax release {prior} {option} ..." if prior else ": give its folder"
        raise ValueError(f"{option} draws rows from a release{named}.")
    given = {*_given(arguments)}
    other = sorted(given - {"table", name, *taken, "json", "quiet"})
    if other:
        where = "; they go into the folder of the release" if other[0] == "out" else ""
        raise ValueError(
            f"--{other[0].replace('_', '-')} cannot be used with {option}, which only draws rows{where}: "
            f"leave it out."
        )
    return given


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given a value of their own."""
    default = arguments.parser.get_default
    return {name: value for name, value in vars(arguments).items() if value != default(name)}


def _tables(arguments: argparse.Namespace) -> None:
    """Draw tables to analyse from a release into a new folder there."""
    _of_release(arguments, "tables", ("rows",))
    m = checks.integer("--tables", arguments.tables, low=2)
    rows = None if arguments.rows is None else checks.integer("--rows", arguments.rows, low=1)
    saved = release_folder.opened(arguments.table)
    place, number = pathlib.Path(arguments.table) / "tables", 2
    while place.exists():
        place, number = place.with_name(f"tables-{number}"), number + 1
    with files.reserve_folder(place) as folder:
        for number, (_, columns) in enumerate(saved.drawn_columns(m, rows=rows), start=1):
            parquet.write_table(arrow.table(columns), folder / f"{number}.parquet")
    said = [
        f"{m:,} tables written to {place}",
        "  Analyse each like a real table, and combine the estimates: pgmjax.uncertainty.combine",
    ]
    _tell_drawn(arguments, saved.record, {"out": str(place), "tables": m}, said)


def _tell_drawn(
    arguments: argparse.Namespace, record: Any, told: dict[str, Any], said: Sequence[str]
) -> None:
    """Print what was drawn from a release, which costs nothing, and what the release cost."""
    told |= {name: record[name] for name in ("secure", "spent", "inputs") if name in record}
    cost = report_text.cost(record) if "spent" in record else record["statement"]
    once = cost.replace("Spent:", "Nothing was spent by this. The release cost", 1)
    process.tell(arguments.json, told, [] if arguments.quiet else [*said, once])


def escapes(arguments: argparse.Namespace, kind: str) -> bool:
    """Return whether labels in the file of rows get an apostrophe.

    Raises:
        ValueError: they are to get one in another format than CSV.
    """
    if arguments.escape_formulas and kind != "csv":
        raise ValueError(
            f"--escape-formulas is for rows written as CSV, and these are to be {kind}: leave it out, or ask "
            "for csv."
        )
    return bool(arguments.escape_formulas)


def rows_of(arguments: argparse.Namespace) -> release_folder.SyntheticRows:
    """Return what the options say of the synthetic rows."""
    return release_folder.SyntheticRows(
        number=arguments.rows,
        format=arguments.synthetic,
        method=arguments.method,
        codes=arguments.codes,
        escape_formulas=escapes(arguments, arguments.synthetic),
    )


def open_ledger(file: str) -> Ledger:
    """Open the ledger of a file.

    Raises:
        ValueError: there is no such file.
        LedgerError: it cannot be used.
    """
    return Ledger.open(ledger_file(file))


def ledger_file(file: str) -> str:
    """Return the file of a ledger, if it is there; raises as `open_ledger` does."""
    if not pathlib.Path(file).exists():
        name = "" if pathlib.Path(file).suffix else " (the name of an account goes behind --name)"
        turned = " The ledger stands before the conditions." if "=" in file else ""
        raise ValueError(
            f"There is no ledger {file}: give the ledger's file{name}, or make one with "
            f"`pgmjax ledger init`.{turned}"
        )
    return file


def charged(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[Ledger | None]:
    """Return the ledger that --ledger names, to be opened and closed, if it does."""
    return contextlib.nullcontext() if arguments.ledger is None else open_ledger(arguments.ledger)


def _resumed(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments of the command that began a folder, with the options of output given now."""
    stored = run_folder.command_in(pathlib.Path(arguments.resume))
    if stored is None or "mechanism" not in stored["asked"]:
        whole = arguments.resume.rstrip("/").removesuffix(".partial")
        beside = sorted(map(str, pathlib.Path(arguments.resume).absolute().parent.glob("*.partial")))
        checks.refuse(
            (
                not os.path.exists(arguments.resume) and os.path.isfile(os.path.join(whole, "release.json")),
                f"There is no folder {arguments.resume}, for {whole} is complete: nothing of it is to be "
                "resumed.",
            ),
            (
                not os.path.exists(arguments.resume),
                f"There is no folder {arguments.resume}. Folders of interrupted runs that are there: "
                f"{', '.join(beside) or 'none'}.",
            ),
            (
                os.path.isfile(os.path.join(arguments.resume, "release.json")),
                f"{arguments.resume} is a complete release, and nothing of it is to be resumed. --add-rows N "
                "draws more rows from it.",
            ),
        )
        raise ValueError(
            f"{arguments.resume} is not a folder that an interrupted release left: give the folder "
            "OUT.partial of that run. What pgmjax perturb left goes on when that command is repeated."
        )
    given = _given(arguments)
    other = [name for name in given if name not in _OUTPUT]
    if other:
        fixed = "TABLE" if other[0] == "table" else f"--{other[0].replace('_', '-')}"
        raise ValueError(
            f"{fixed} was fixed when the run began: with --resume you can only give options of fit and "
            "output."
        )
    merged = {**vars(arguments), **stored["asked"], **stored["output"], **given}
    return argparse.Namespace(**{**merged, "resume": None})


def tell(arguments: argparse.Namespace, out: pathlib.Path, record: Any, lines: Iterable[str]) -> None:
    """Print the outcome; a failure to print does not affect what was written.

    Args:
        arguments: of the command.
        out: what was written.
        record: content of its `release.json`, which --json prints.
        lines: the same in words.
    """
    if sys.stdout is None or (arguments.quiet and not arguments.json):
        return
    try:
        process.tell(arguments.json, {"out": str(out), **record}, lines)
        process.flush()
    except BrokenPipeError:
        process.discard()
    except OSError as error:
        raise OSError(
            f"The release was written to {out}, but printing this summary failed: {error.strerror}."
        ) from error


def show_progress(arguments: argparse.Namespace) -> bool | None:
    """Return whether to show progress: False if quiet or without standard error, else None (automatic)."""
    return False if arguments.quiet or sys.stderr is None else None


def of_no_table(arguments: argparse.Namespace) -> tuple[tuple[bool, str], ...]:
    """Return the cases of two tables and of none, for `checks.refuse`."""
    return (
        (
            arguments.demo and arguments.table is not None,
            f"--demo has a table of its own: leave out --demo, or {arguments.table}.",
        ),
        (
            not arguments.demo and arguments.table is None,
            "The table is missing: give its file, or --demo to try the command on a public table.",
        ),
    )


def check_table(arguments: argparse.Namespace) -> None:
    """Reject incompatible options about the table and its ledger before anything is read.

    Raises:
        ValueError: options that do not go together, or one that is missing.
    """
    demo_has = arguments.domain or arguments.no_header or arguments.weights or arguments.unit
    discover, ledger = vars(arguments).get("discover"), arguments.ledger
    find = ", or find the domain for a share of the budget with --discover 0.1 --delta 1e-6" * (
        "discover" in arguments
    )
    unit_of(arguments)
    checks.refuse(
        *of_no_table(arguments),
        (
            os.path.isfile(os.path.join(arguments.table or "", "release.json")),
            f"{arguments.table} is a release: pgmjax release {arguments.table} --add-rows N draws more rows "
            "from it, at no further cost.",
        ),
        (
            arguments.demo and demo_has,
            "--demo has its own domain: leave out --domain, --no-header, --weights and --unit.",
        ),
        (
            not arguments.demo and arguments.domain is None and discover is None,
            "--domain is missing. The domain must be public and is never read off the table. Write a "
            f"domain file (pgmjax domain draft writes a first version){find}."
            + " That of an account is written by pgmjax ledger show LEDGER --domain FILE."
            * (ledger is not None),
        ),
        (
            arguments.key is not None and ledger is None,
            "--key names a run in a ledger: give --ledger FILE too.",
        ),
        (
            ledger is not None and arguments.rows_outside is not None,
            "--rows-outside cannot be used with --ledger: the table's holder fixed it with pgmjax ledger "
            "init.",
        ),
        (
            ledger is None and arguments.holder_log is not None,
            "--holder-log needs --ledger: without a ledger, error messages hold these details themselves.",
        ),
    )


def _check_discovery(arguments: argparse.Namespace) -> None:
    """Reject options that do not go with --discover."""
    if arguments.discover is None:
        return
    fixed = process.first_of(arguments, ("demo", "no_header", "weights", "rows_outside"))
    checks.refuse(
        (
            arguments.prior is not None,
            "--from does not go with --discover: an earlier release is over its own domain, which is not the "
            "one that is found. Give --domain the file that it was made with: domain.json in its folder, if "
            "it was discovered.",
        ),
        (
            fixed,
            f"--discover cannot be used with {fixed}: it needs a table with column names and "
            "without weights, and it fixes what happens to rows outside the domain.",
        ),
        (
            arguments.ledger is not None and arguments.domain is not None,
            "A ledger's account fixes which columns of the table are open: leave out --domain.",
        ),
    )


def _check_combination(arguments: argparse.Namespace) -> None:
    """Reject incompatible options before anything is read."""
    escapes(arguments, arguments.synthetic)
    check_table(arguments)
    _check_discovery(arguments)
    asked = arguments.workload is not None, arguments.all_kway is not None
    whole = arguments.max_cells is not None and arguments.workload is not None
    checks.refuse(
        (all(asked), "Give either --workload or --all-kway, not both."),
        (
            not any(asked) and not arguments.demo,
            "Nothing says what to measure: give --all-kway 2 for all pairs of columns, or --workload FILE.",
        ),
        (
            arguments.weights is not None and arguments.rows is None,
            "--rows is missing, the number of synthetic rows to draw: --weights does not tell how many "
            "records there are."
            + " --max-weight is missing too, the largest weight a record may have."
            * (arguments.max_weight is None),
        ),
        (
            whole and "max_cells" not in mechanisms.options(mechanisms.names()[arguments.mechanism]),
            f"--max-cells needs --all-kway: {arguments.mechanism} always measures a workload file whole.",
        ),
    )


def estimator_of(arguments: argparse.Namespace) -> Estimator:
    """Return the estimator that the options of the fit describe."""
    return Estimator(
        max_steps=arguments.steps,
        solver=arguments.solver,
        loss=arguments.loss,
        oracle=arguments.oracle,
        devices=arguments.devices,
        dtype=arguments.dtype,
        progress=show_progress(arguments),
        regularisation=_regularisation(arguments.regularisation),
    )


def _regularisation(text: str) -> float | str:
    """Return the setting that the option names; the estimator checks it."""
    try:
        return float(text)
    except ValueError:
        return text


def example(out: str | os.PathLike[str], domain: Domain, measured: Iterable[Iterable[str]] = ()) -> str:
    """A command to copy: a query of the first value of the first attribute, of those that were measured."""
    known = {name for clique in measured for name in clique}
    first = domain.attribute(next((name for name in domain if name in known), domain.attributes[0]))
    return f"pgmjax query {_quoted(os.fspath(out))} {_quoted(f'{first.name}={first.code_names()[0]}')}"


def _quoted(word: str) -> str:
    """Quote a word for a shell, in double quotes where that is easier to read."""
    plain = "'" in word and not re.search(r'["$`\\\\!]', word)
    return f'"{word}"' if plain else shlex.quote(word)


def of_columns(arguments: argparse.Namespace, domain: Any, record: Any) -> Iterator[str]:
    """Yield how many columns of the table's file were left out, if any, and whether persons are protected."""
    names: list[str] = []
    if isinstance(domain, Domain) and not (arguments.demo or arguments.no_header):
        with contextlib.suppress(ValueError, OSError):  # columns without names, or the file is gone
            names = table_files.column_names(arguments.table, arguments.text_encoding, [*domain])
    unit, weights = record.get("unit"), getattr(arguments, "weights", None)
    others = [weights] * (weights is not None) + ([] if unit is None else [unit["column"]])
    left = sum(not places_of(name, [*(domain or ()), *others]) for name in names)
    if left:
        yield f"Columns that the domain does not name were left out: {left} (pgmjax domain check names them)."
    if left and unit is None:
        yield (
            "Each record is protected by itself. If a column says whose it is, --unit COLUMN protects a "
            "person with all of their records."
        )


def of_cost(record: Any, drawn: bool, source: str | None) -> Iterator[str]:
    """Yield where a run's charge is, whose table it was, and what it cost.

    Args:
        record: what `release.json` holds.
        drawn: whether noise was drawn now, and not played back.
        source: a public word on which table it was, or None.
    """
    kept = record["ledger"]
    if kept:
        free = "" if drawn else "; the answers are those of an earlier run, at no further cost"
        yield f"  ledger   charge {kept['charge']} of account {kept['account']}{free}"
        yield f"  key      {kept['key']} (--key: the same answers again, at no cost)"
        yield f"  head     {kept['head']} (pgmjax ledger verify --head: is the ledger the newest?)"
    if source is not None:
        yield f"  table    {source}"
    if not kept:
        yield (
            "No ledger was used (--ledger): add up yourself what releases of this table cost. Error messages "
            "of this command may tell about its records, so they are for you alone."
        )
    yield report_text.cost(record)


def _lines(arguments: argparse.Namespace, job: jobs.Job, saved: release_folder.SavedRelease) -> Iterator[str]:
    record, out = saved.record, saved.folder
    yield f"Release written to {out}"
    if "report.html" not in saved.missing:
        yield f"  report   {out / 'report.html'}"
    if "model" not in saved.missing:
        columns = record.get("accuracy", {}).get("columns", ())
        measured = [each["attributes"] for each in columns if each["verdict"] != accuracy.NOT_DETERMINED]
        yield f"  query    {example(arguments.out, saved.model.domain, measured)}"
    yield f"  fit      {report_text.end_of_fit(record)}"
    yield from (f"  {reason}" for reason in job.recipe.reasons)
    if record["answered_by"] == "learner":
        yield "  answers  of the trained model in predictor/, not of the fitted model"
    elif record["answered_by"] != "engine":
        yield f"  answers  by {record['answered_by']} least squares, not of the model"
    left_out = record.get("discovery", {}).get("left_out", {})
    yield from (f"  left out the column {name}: {reason}" for name, reason in left_out.items())
    if left_out:
        yield "  (what is publicly known of such a column can stand in the --domain file, and costs nothing)"
    yield from accuracy.lines(record["accuracy"]) if "accuracy" in record else ()
    yield from record["population"]["sentences"]
    yield from of_columns(arguments, job.domain, record)
    yield from of_cost(record, job.drawn, demo.TERMS if arguments.demo else None)


def warn_if_insecure(inputs: Sequence[Input]) -> None:
    """Say on standard error that answers must not be published, if so."""
    if not are_secure(inputs):
        process.say(report_text.not_secure(inputs))


def read_names(text: str, domain: Domain) -> Clique:
    """Return the attributes that a text such as `sex,"age, group"`, `[age, sex]` or `age:sex` names.

    Raises:
        ValueError: none is named, one is unknown, or one is named twice.
    """
    names = next(csv.reader([text], skipinitialspace=True), [])
    parts = [part for part in re.split(r"[^\w.-]+", text) if part]
    if parts and all(checks.same_word(part, domain) for part in parts):
        names = parts  # nothing else in the text can be a name
    bare = [re.split("[=<>!]", name)[0].strip() for name in names]
    strange = next((k for k, name in enumerate(names) if name != bare[k] and name not in domain), None)
    if strange is not None and checks.same_word(bare[strange], domain):
        raise ValueError(
            f"{names[strange]} is a condition: give it without --marginal, or give --marginal "
            f"{bare[strange]}."
        )
    unknown = next((name for name in names if name and checks.same_word(name, domain) is None), None)
    if unknown is not None:
        meant = checks.did_you_mean(unknown, domain) or f" It has {', '.join([*domain][:12])}."
        raise ValueError(f"There is no attribute {unknown!r}.{meant}")
    return as_clique(domain, names)


def read_options(words: Sequence[str]) -> dict[str, Any]:
    """Parse mechanism options from arguments such as `rounds=10`.

    A value is a whole number (10, 1_000, 1e6), or parsed as JSON if possible (0.5, true, null, ["a"]), and is
    text otherwise.

    Raises:
        ValueError: an argument has no "=", or an option is given twice.
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        checks.refuse(
            (not equals or not name, f"--option needs NAME=VALUE, got {word!r}."),
            (name in found, f"--option {name} is given twice."),
        )
        try:
            found[name] = checks.integer_of_text(text)
        except ValueError:
            with contextlib.suppress(ValueError):
                text = files.parse_json(text)
            found[name] = text
    return found
