"""`pgmjax release`: turn a table into a folder with everything that may be published.

Mechanism options are given on the command line as NAME=VALUE; see `read_options`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from pgmjax import mechanisms
from pgmjax._internal import checks, files
from pgmjax.cli import process, spending
from pgmjax.cli.options.release import DEFAULTS
from pgmjax.data import demo
from pgmjax.data.cliques import Clique
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.data.unit import Unit
from pgmjax.discovery import Discovery, Draft, OpenTable
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.base import FitError
from pgmjax.mechanisms.forecast import forecast
from pgmjax.privacy.backend import default_backend
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.private_table import holder_log
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import KWay, Workload
from pgmjax.release import accuracy, run_folder
from pgmjax.release import folder as release_folder
from pgmjax.release import text as report_text
from pgmjax.release.release import check_prior

_COMMAND = "command.json"
_OUTPUT = (
    *("steps", "solver", "dtype", "regularisation", "rows", "synthetic", "codes", "out", "json", "quiet"),
    *("resume", "prior", "add_rows"),
)
_SHOWN = 3
_NEEDED = {
    "epsilon": "(the privacy budget, such as 1)",
    "relation": "(add-remove if the number of records is secret, replace-one if it is public)",
    "out": "(the folder to make)",
}


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
    if arguments.resume is not None:
        arguments = _resumed(arguments)
    required = ("epsilon", "relation") if arguments.dry_run else ("epsilon", "relation", "out")
    missing = [name for name in required if getattr(arguments, name) is None]
    if missing:
        needed = ", ".join(f"--{name} {_NEEDED[name]}" for name in missing)
        arguments.usage_error(f"the following arguments are required: {needed}")
    if arguments.dry_run:
        _dry_run(arguments)
        return
    out = files.check_target(arguments.out)
    _check_combination(arguments)
    release_folder.check_packages()
    discovery = None if arguments.discover is None else Discovery(arguments.discover)
    if discovery is None:
        domain = demo.domain() if arguments.demo else read_domain(arguments.domain)
        workload: Workload | KWay
        workload, name = _workload(arguments, domain)
    else:
        workload, name = _open_workload(arguments)
    mechanism = _mechanism(arguments, name)
    if arguments.rows is not None and arguments.rows < 0:
        raise ValueError(f"--rows must be >= 0, got {arguments.rows}.")
    prior = (None, None) if arguments.prior is None else read_prior(arguments.prior, domain)
    try:
        with open_ledger(arguments) as ledger, holder_log(arguments.holder_log):
            table = open_table(arguments, domain) if discovery is None else open_undescribed(arguments)
            _release(arguments, mechanism, table, workload, out, ledger, discovery, prior)
        saved = release_folder.read(out)
        _tell(arguments, saved.model.domain, out, saved.record, mechanism.backend.drawn)
    except KeyboardInterrupt:
        said = spending.after_interrupt(out, resumable=arguments.ledger is not None)
        raise process.Interrupted(said) from None


def _dry_run(arguments: argparse.Namespace) -> None:
    """Print the forecast of a release. No record is read; of the table only its path is looked at."""
    _check_combination(arguments)
    if arguments.discover is not None:
        raise ValueError(
            "--dry-run needs a complete domain, and --discover would find it in the table: describe "
            "the open columns instead."
        )
    if not arguments.demo and not pathlib.Path(arguments.table).exists():
        raise ValueError(files.absent("table", arguments.table))
    domain = demo.domain() if arguments.demo else read_domain(arguments.domain)
    workload, name = _workload(arguments, domain)
    mechanism = _mechanism(arguments, name)
    read_prior(arguments.prior, domain)
    bound = arguments.max_weight if arguments.weights is not None else None
    found = forecast(mechanism, domain, workload, unit=unit_of(arguments), max_weight=bound)
    gone = _left_out(arguments, domain, {entry.clique for entry in workload.entries})
    if arguments.json:
        print(json.dumps({**found.to_dict(), "left_out": [list(clique) for clique in gone]}))
        return
    for line in found.lines(arguments.steps, arguments.rows):
        print(line)
    _say_left_out(arguments, domain, gone, name)
    print("No record was read and no budget was spent.")


def read_prior(folder: str | None, domain: Domain) -> tuple[Any, dict[str, Any] | None]:
    """Return the model of an earlier release and what is to be said of it; two None without one.

    Raises:
        ValueError: no release is there, or it is over another domain.
    """
    if folder is None:
        return None, None
    model, record = release_folder.model_in(folder)
    try:
        check_prior(model, domain)
    except ValueError as error:
        place = pathlib.Path(folder) / "domain.json"
        file = str(place) if place.is_file() else "the file that it was made with"
        raise ValueError(f"--from {folder}: {error} Give {file} as --domain, or leave --from out.") from error
    names = ("mechanism", "spent", "relation", "unit")
    return model, {name: record[name] for name in names if record.get(name) is not None}


def _add_rows(arguments: argparse.Namespace) -> None:
    """Draw more rows from a release into a new file beside its first ones."""
    if arguments.table is None:
        raise ValueError("--add-rows draws rows from a release: give its folder.")
    given = {name for name, value in vars(arguments).items() if value != DEFAULTS.get(name)}
    other = sorted(given - {"table", "add_rows", "codes", "synthetic", "json", "quiet", "run", "usage_error"})
    if other:
        raise ValueError(
            f"--{other[0].replace('_', '-')} cannot be used with --add-rows, which only draws rows."
        )
    if arguments.add_rows < 1:
        raise ValueError(f"--add-rows must be at least 1, got {arguments.add_rows}.")
    model, record = release_folder.model_in(arguments.table)
    folder, number = pathlib.Path(arguments.table), 2
    kind = next((k for k in release_folder.SYNTHETIC_FORMATS if (folder / f"synthetic.{k}").exists()), None)
    kind = arguments.synthetic if "synthetic" in given or kind is None else kind
    while any((folder / f"synthetic-{number}.{k}").exists() for k in release_folder.SYNTHETIC_FORMATS):
        number += 1
    codes = arguments.codes or record.get("synthetic") == "codes"
    place = folder / f"synthetic-{number}.{kind}"
    model.sample_to(
        place,
        arguments.add_rows,
        number - 1,  # seeds of the rows that are there are 0, 1, ...
        decode=False if codes else "values",
        show_progress=show_progress(arguments),
    )
    if arguments.json:
        print(json.dumps({"out": str(place), "rows": arguments.add_rows, "seed": number - 1}))
    elif not arguments.quiet:
        print(f"{arguments.add_rows:,} rows written to {place}")


def open_ledger(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[Ledger | None]:
    """Open the ledger that the options name.

    Raises:
        ValueError: there is no such file.
        LedgerError: it cannot be used.
    """
    if arguments.ledger is None:
        return contextlib.nullcontext()
    if not pathlib.Path(arguments.ledger).exists():
        raise ValueError(f"There is no ledger {arguments.ledger}: make one with `pgmjax ledger init`.")
    return Ledger.open(arguments.ledger)


def _release(
    arguments: argparse.Namespace,
    mechanism: Any,
    data: Dataset | OpenTable,
    workload: Workload | KWay,
    out: pathlib.Path,
    ledger: Ledger | None,
    discovery: Discovery | None = None,
    prior: tuple[Any, Any] = (None, None),
) -> None:
    """Measure, fit and write; everything that could fail for other reasons was checked before."""
    show = show_progress(arguments)
    folder = _begun(arguments, out)
    if folder.is_complete:
        _finish(folder, out)
        return
    release = None
    try:
        process.check()
        shared: dict[str, Any] = {"ledger": ledger, "key": arguments.key, "show_progress": show}
        shared.update({} if discovery is None else {"discover": discovery})
        release = mechanism.run(data, workload, folder=folder, **shared)
        if prior[0] is not None:
            release = release.with_prior(prior[0], mechanism.estimator, known=prior[1])
        process.check()
        release_folder.fill(
            folder.folder,
            release,
            synthetic_rows=arguments.rows,
            synthetic_format=arguments.synthetic,
            codes=arguments.codes,
            source=demo.TERMS if arguments.demo else None,
            show_progress=show,
        )
        process.check()
        _finish(folder, out)
    except BaseException as error:
        _left(folder)
        if not isinstance(error, Exception):
            raise
        process.check()  # a library may have turned an interrupt into another error
        if not (mechanism.backend.drawn or release is not None or isinstance(error, FitError)):
            _in_options(error)
            raise
        said = spending.after_failure(error, mechanism, out)
        if ledger is not None and not folder.folder.exists():
            said += f" {spending.AGAIN}"
        raise RuntimeError(said) from error


def _in_options(error: Exception) -> None:
    """Name this command's options in an error of the library, in place of its arguments."""
    words = {
        'rows_outside "clip", "missing" or "drop"': "--rows-outside clip, missing or drop",
        "or set max_bytes": "or give --max-cells N, or --all-kway a smaller K",
    }
    if isinstance(error, ValueError) and len(error.args) == 1:
        said = str(error)
        for ours, option in words.items():
            said = said.replace(ours, option)
        error.args = (said,)


def _begun(arguments: argparse.Namespace, out: pathlib.Path) -> run_folder.RunFolder:
    """Return the folder in which the release is made, OUT.partial; that of the same command is taken up."""
    partial = spending.partial_of(out)
    _check_ours(partial)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.mkdir()  # whether the name itself is possible: too long, not allowed here, ...
        out.rmdir()
        folder = run_folder.RunFolder(partial)
    except OSError as error:
        raise ValueError(f"{out} cannot be written: {error.strerror}.") from error
    stored = {name: value for name, value in vars(arguments).items() if name not in ("run", "usage_error")}
    for name in ("table", "domain", "workload", "ledger", "holder_log", "out"):
        if stored[name] is not None:
            stored[name] = str(pathlib.Path(stored[name]).absolute())
    found = _command(partial)
    if (
        (folder.answers or folder.is_complete)
        and found is not None
        and _measuring(found) != _measuring(stored)
    ):
        folder.close()
        raise ValueError(
            f"{partial} holds the noisy answers of another run that was interrupted. Continue that "
            f"run (pgmjax release --resume {shlex.quote(str(partial))}), give another --out, or "
            "remove the folder. Nothing was spent."
        )
    if folder.is_complete:
        return folder
    kept = run_folder.KEPT if folder.answers else run_folder.EMPTY
    for leftover in partial.iterdir():  # of a release that was being written
        if leftover.name not in kept:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    begun = partial / f".{_COMMAND}"  # renamed, so that a kill leaves none that cannot be read
    begun.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    begun.replace(partial / _COMMAND)
    return folder


def _check_ours(partial: pathlib.Path) -> None:
    """Refuse a folder in the place of OUT.partial that no release of this command was making.

    Raises:
        ValueError: it is another one, whose contents would be lost.
    """
    if not os.path.lexists(partial) or _command(partial) is not None:
        return
    begun = partial.is_dir() and all(
        path.name in (run_folder.RUN, f".{_COMMAND}")
        or (path.name in run_folder.EMPTY and not any(path.iterdir()))
        for path in partial.iterdir()
    )
    if not begun:
        raise ValueError(
            f"{partial} was not left by an interrupted release, but this run would keep its noisy "
            "answers there. Rename that folder, or give another --out. Nothing was spent."
        )


def _finish(folder: run_folder.RunFolder, out: pathlib.Path) -> None:
    """Turn a run's folder, in which the release is complete, into the release."""
    folder.finish()
    files.check_target(out)
    folder.folder.rename(out)
    (out / _COMMAND).unlink(missing_ok=True)  # until then it tells whose release it is


def _left(folder: run_folder.RunFolder) -> None:
    """Leave a folder that keeps answers to `--resume`; remove one in which nothing was paid for."""
    paid = folder.answers or (folder.folder / "release.json").is_file()
    folder.close()
    if not paid:
        shutil.rmtree(folder.folder, ignore_errors=True)


def _resumed(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments of the command that began a folder, with the options of output given now."""
    partial = pathlib.Path(arguments.resume)
    stored = _command(partial)
    if stored is None:
        raise ValueError(
            f"{arguments.resume} is not a folder that an interrupted release left: give the folder "
            "OUT.partial of that run."
        )
    given = {name: value for name, value in vars(arguments).items() if value != DEFAULTS.get(name)}
    other = [name for name in given if name not in (*_OUTPUT, "resume", "run", "usage_error")]
    if other:
        raise ValueError(
            f"--{other[0].replace('_', '-')} was fixed when the run began: with --resume you can only "
            "give options of fit and output."
        )
    # an option that a version before did not have is not in its file
    return argparse.Namespace(**{**vars(arguments), **stored, **given, "resume": None})


def _command(partial: pathlib.Path) -> dict[str, Any] | None:
    """Return the arguments that a folder was begun with, None if it has none."""
    try:
        found = json.loads((partial / _COMMAND).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _measuring(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that decide what is measured."""
    return {name: value for name, value in stored.items() if name not in _OUTPUT}


def _tell(arguments: argparse.Namespace, domain: Domain, out: pathlib.Path, record: Any, drawn: bool) -> None:
    """Print the outcome; a failure to print does not affect the release."""
    if sys.stdout is None or (arguments.quiet and not arguments.json):
        return
    try:
        if arguments.json:
            print(json.dumps({"out": str(out), **record}))
        else:
            _print(arguments, domain, out, record, drawn)
        sys.stdout.flush()
    except BrokenPipeError:
        process.discard()
    except OSError as error:
        raise OSError(
            f"The release was written to {out}, but printing this summary failed: {error.strerror}."
        ) from error


def show_progress(arguments: argparse.Namespace) -> bool | None:
    """Return whether to show progress: False if quiet or without standard error, else None (automatic)."""
    return False if arguments.quiet or sys.stderr is None else None


def read_domain(path: str) -> Domain:
    """Return the domain of a file.

    Raises:
        ValueError: there is no such file, or no domain in it.
    """
    if not pathlib.Path(path).exists():
        raise ValueError(files.absent("domain file", path))
    return Domain.read(path)


def check_table(arguments: argparse.Namespace) -> None:
    """Reject incompatible options about the table and its ledger before anything is read.

    Raises:
        ValueError: options that do not go together, or one that is missing.
    """
    if arguments.demo == (arguments.table is not None):
        raise ValueError("Give a TABLE, or --demo to use the table of the extra 'demo'.")
    unit_of(arguments)
    if arguments.demo and (arguments.domain or arguments.no_header or arguments.weights or arguments.unit):
        raise ValueError("--demo has its own domain: leave out --domain, --no-header, --weights and --unit.")
    discover = getattr(arguments, "discover", None)
    if not arguments.demo and arguments.domain is None and discover is None:
        raise ValueError(
            "--domain is missing. The domain must be public and is never read off the table. Write a "
            "domain file (pgmjax domain draft writes a first version), or find the domain for a "
            "share of the budget with --discover 0.1."
        )
    if discover is not None and getattr(arguments, "prior", None) is not None:
        raise ValueError(
            "--from does not go with --discover: an earlier release is over its own domain, which is not the "
            "one that is found. Give --domain the file that it was made with: domain.json in its folder, if "
            "it was discovered."
        )
    if discover is not None:
        others = {name: getattr(arguments, name) for name in ("demo", "no_header", "weights", "rows_outside")}
        named = [f"--{name.replace('_', '-')}" for name, value in others.items() if value]
        if named:
            raise ValueError(
                f"--discover cannot be used with {named[0]}: it needs a table with column names and "
                "without weights, and it fixes what happens to rows outside the domain."
            )
        if arguments.ledger is not None and arguments.domain is not None:
            raise ValueError(
                "A ledger's account fixes which columns of the table are open: leave out --domain."
            )
    if arguments.key is not None and arguments.ledger is None:
        raise ValueError("--key names a run in a ledger: give --ledger FILE too.")
    if arguments.ledger is not None and arguments.rows_outside is not None:
        raise ValueError(
            "--rows-outside cannot be used with --ledger: the table's holder fixed it with pgmjax "
            "ledger init."
        )
    if arguments.ledger is None and arguments.holder_log is not None:
        raise ValueError("--holder-log needs --ledger: without a ledger, you are the table's holder.")


def _check_combination(arguments: argparse.Namespace) -> None:
    """Reject incompatible options before anything is read."""
    check_table(arguments)
    if arguments.workload is not None and arguments.all_kway is not None:
        raise ValueError("Give either --workload or --all-kway, not both.")
    if arguments.workload is None and arguments.all_kway is None and not arguments.demo:
        raise ValueError(
            "Nothing says what to measure: give --all-kway 2 for all pairs of columns, or --workload FILE."
        )
    if arguments.weights is not None and arguments.rows is None:
        raise ValueError(
            "--rows is missing. With --weights the estimated total is not a number of rows, and the "
            "number of records is private. Give the number of synthetic rows to draw."
        )
    if arguments.max_cells is not None and arguments.workload is not None:
        raise ValueError("--max-cells needs --all-kway: a workload file is always measured whole.")


def read_workload(path: str, domain: Domain) -> Workload:
    """Return the workload of a file.

    Raises:
        ValueError: there is no such file, or no workload over the domain in it.
    """
    if not pathlib.Path(path).exists():
        raise ValueError(files.absent("workload file", path))
    workload = Workload.read(path)
    workload.validate(domain)
    return workload


def _workload(arguments: argparse.Namespace, domain: Domain) -> tuple[Workload, str]:
    """Return the workload and the mechanism's name.

    Of "auto" it is one that chooses among all pairs, if the model of all pairs has more than --max-cells.
    """
    name = "marginals" if arguments.mechanism == "auto" else arguments.mechanism
    if arguments.workload is not None:
        return read_workload(arguments.workload, domain), name
    k, limit = 2 if arguments.all_kway is None else arguments.all_kway, _limit(arguments)
    if k < 1:
        raise ValueError(f"--all-kway must be >= 1, got {k}.")
    workload = Workload.all_kway(domain, k, limit)
    all_fit = limit is None or len(workload.entries) == math.comb(len(domain), k)
    if arguments.mechanism != "auto" or k != 2 or limit is None or all_fit:
        return workload, name
    pairs = [pair for pair in itertools.combinations(domain, k) if domain.size(pair) <= limit]
    return Workload(pairs), mechanisms.for_many_pairs(arguments.delta, len(domain))


def _limit(arguments: argparse.Namespace) -> int | None:
    """Return the largest number of cells of the model of --all-kway."""
    return demo.MAX_CELLS if arguments.demo and arguments.max_cells is None else arguments.max_cells


def _open_workload(arguments: argparse.Namespace) -> tuple[Workload | KWay, str]:
    """Return the workload over a domain that is not known yet, and the mechanism's name."""
    name = "marginals" if arguments.mechanism == "auto" else arguments.mechanism
    if arguments.workload is not None:
        if not pathlib.Path(arguments.workload).exists():
            raise ValueError(files.absent("workload file", arguments.workload))
        return Workload.read(arguments.workload), name
    return KWay(arguments.all_kway, arguments.max_cells), name


def open_undescribed(arguments: argparse.Namespace) -> OpenTable:
    """Return the table that the options name, some or all of whose columns are open; nothing is read.

    Raises:
        ImportError: DuckDB is not installed.
        ValueError: there is no such file, or its columns have no names.
    """
    if not pathlib.Path(arguments.table).exists():
        raise ValueError(files.absent("table", arguments.table))
    checks.optional("duckdb", extra="tables")
    draft = None
    if arguments.domain is not None:
        if not pathlib.Path(arguments.domain).exists():
            raise ValueError(files.absent("domain file", arguments.domain))
        draft = Draft.read(arguments.domain)
        if not draft.open:
            raise ValueError(
                "--discover finds the columns that a domain leaves open, and this domain describes "
                "every column: leave out --discover."
            )
    return OpenTable.read(arguments.table, draft, unit=unit_of(arguments), encoding=arguments.text_encoding)


def _mechanism(arguments: argparse.Namespace, name: str) -> Any:
    seed = arguments.insecure_seed
    backend = default_backend() if seed is None else SeededBackend(seed, insecure=True)
    mechanism = mechanisms.names()[name]
    given = read_options(mechanism, arguments.option)
    if name != arguments.mechanism and "max_cells" in mechanisms.options(mechanism):
        given = {"max_cells": _limit(arguments), **given}
    return mechanism(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        relation=Relation.parse(arguments.relation),
        **given,
        estimator=estimator_of(arguments),
        backend=spending.WatchedBackend(backend),
    )


def estimator_of(arguments: argparse.Namespace) -> Estimator:
    """Return the estimator that the options of the fit describe."""
    return Estimator(
        max_steps=arguments.steps,
        solver=arguments.solver,
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


def open_table(arguments: argparse.Namespace, domain: Domain) -> Dataset:
    """Return the table that the options name; no record of it is read.

    Raises:
        ImportError: DuckDB is not installed.
        ValueError: there is no such file, or an option does not fit it.
    """
    if arguments.demo:
        return demo.load()
    if not pathlib.Path(arguments.table).exists():
        raise ValueError(files.absent("table", arguments.table))
    checks.optional("duckdb", extra="tables")  # the file is read late, when the budget is about to be charged
    try:
        return Dataset.read(
            arguments.table,
            domain,
            header=not arguments.no_header,
            weights=arguments.weights,
            max_weight=arguments.max_weight,
            rows_outside=arguments.rows_outside,
            unit=unit_of(arguments),
            encoding=arguments.text_encoding,
        )
    except ValueError as error:  # name this command's option instead
        raise ValueError(str(error).replace("header=False", "--no-header")) from error


def _example(domain: Domain) -> str:
    """A valid example condition: the first value of the first attribute."""
    first = domain.attribute(domain.attributes[0])
    return f"{first.name}={first.code_names()[0]}"


def print_cost(record: Any, drawn: bool, source: str | None) -> None:
    """Print where a run's charge is, whose table it was, and what it cost.

    Args:
        record: what `release.json` holds.
        drawn: whether noise was drawn now, and not played back.
        source: a public word on which table it was, or None.
    """
    kept = record["ledger"]
    if kept:
        free = "" if drawn else ", answers kept from an earlier run: no further cost"
        print(f"  ledger   {kept['account']}, charge {kept['charge']}{free}")
        print(f"  key      {kept['key']}\n  head     {kept['head']}")
    if source is not None:
        print(f"  table    {source}")
    if not kept:
        print(
            "  holder   you: without --ledger, whoever runs this command holds the table and may see "
            "its errors"
        )
    print(report_text.cost(record))


def _print(
    arguments: argparse.Namespace, domain: Domain, out: pathlib.Path, record: Any, drawn: bool
) -> None:
    fit = record["fit"]
    print(f"Release written to {out}")
    print(f"  report   {out / 'report.html'}")
    print(f"  query    pgmjax query {shlex.quote(arguments.out)} {shlex.quote(_example(domain))}")
    numbers = f"loss {report_text.number(fit['loss'])}, gap {report_text.number(fit['gap'])}"
    print(f"  fit      {fit['status']} after {fit['steps']} steps, {numbers}")
    if ended := report_text.ending(record):
        print(f"           {ended}")
    _print_left_out(arguments, domain, record)
    if record["answered_by"] == "learner":
        print("  answers  from the trained model in predictor/, not from the fitted model")
    elif record["answered_by"] != "engine":
        print(f"  answers  from {record['answered_by']} least squares, not from the model")
    for name, reason in record.get("discovery", {}).get("left_out", {}).items():
        print(f"  left out column {name}: {reason}")
    for name, reason in record["missing"].items():
        print(f"  missing  {name} could not be written: {reason}")
    for line in (*accuracy.lines(record["accuracy"]), *record["population"]["sentences"]):
        print(line)
    print_cost(record, drawn, demo.TERMS if arguments.demo else None)


def _print_left_out(arguments: argparse.Namespace, domain: Domain, record: Any) -> None:
    """Print the marginals of --all-kway that --max-cells left out."""
    asked = {entry.clique for entry in Workload(record["workload"]).entries}
    _say_left_out(arguments, domain, _left_out(arguments, domain, asked), record["mechanism"])


def _left_out(arguments: argparse.Namespace, domain: Domain, asked: set[Clique]) -> list[Clique]:
    """Return the marginals of --all-kway that are not asked for; none with a workload file."""
    if arguments.workload is not None:
        return []
    k = 2 if arguments.all_kway is None else arguments.all_kway
    sets = set(map(frozenset, asked))
    return [clique for clique in itertools.combinations(domain, k) if frozenset(clique) not in sets]


def _say_left_out(arguments: argparse.Namespace, domain: Domain, gone: list[Clique], mechanism: str) -> None:
    k = 2 if arguments.all_kway is None else arguments.all_kway
    if gone:
        most = _limit(arguments)
        named = "; ".join(", ".join(clique) for clique in gone[:_SHOWN])
        print(
            f"  left out {len(gone):,} of {math.comb(len(domain), k):,} marginals, because the model "
            f"would have more than {most or 0:,} cells with them (--max-cells): "
            f"{named}{'; ...' * (len(gone) > _SHOWN)}"
        )
        if mechanism == "marginals" and k == 2:
            other = mechanisms.for_many_pairs(arguments.delta, len(domain))
            print(f"  --mechanism {other} would spend a part of the budget to choose which pairs to measure")
    if arguments.mechanism == "auto" and mechanism != "marginals":
        print(
            f"  pairs    a model of all pairs has more than --max-cells, so {mechanism} spends a part of "
            "the budget on choosing which to measure"
        )


def read_options(mechanism: type[Any], words: Sequence[str]) -> dict[str, Any]:
    """Parse mechanism options from arguments such as `rounds=10`.

    A value is parsed as JSON if possible (10, 0.5, true, null, ["a"]), and is text otherwise.

    Raises:
        ValueError: an argument has no "=", an option is given twice, or the mechanism does not have it.
    """
    known = mechanisms.options(mechanism)
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ValueError(f"--option needs NAME=VALUE, got {word!r}.")
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"The mechanism {mechanism.name} has no option {name!r}; it has: {listed}.")
        if name in found:
            raise ValueError(f"--option {name} is given twice.")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return files.parse_json(text)
    except ValueError:
        return text
