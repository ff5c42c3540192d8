"""`pgmjax session`: query a table online, reusing earlier answers where they suffice."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

from pgmjax._internal import checks
from pgmjax.cli.release import add_file_options, add_unit_options, unit_of
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.history.session.log import NAME
from pgmjax.history.session.session import Session
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import text as query_text
from pgmjax.release import text as report_text


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "session",
        help="answer queries on a table one at a time, each as accurately as required",
        description="A session answers one count at a time. It answers free of charge if earlier answers are "
        "accurate enough. Otherwise it measures with the smallest sufficient budget, or refuses. "
        "When a session begins, its cap is charged to the table's account in a ledger.",
        epilog="Example: pgmjax session ask budgets.ledger 'sex=Male,age<30' --half-width 50 --table "
        "people.csv.gz --domain people.yaml --cap 1 --relation add-remove",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_ask(parts)
    _add_status(parts)
    _add_export(parts)


def _add_ask(parts: Any) -> None:
    parser = _add(
        parts,
        "ask",
        "count the rows that satisfy a condition",
        "Count the rows that satisfy a condition. Without --table, the session only answers from its "
        "history of noisy answers. Exits with 1 if the answer is refused.",
        "pgmjax session ask budgets.ledger 'sex=Male,age<30' --half-width 50 --delta 0.05",
    )
    parser.add_argument("condition", metavar="CONDITION", help="such as 'sex=Male,age<30'")
    parser.add_argument(
        "--half-width",
        type=float,
        required=True,
        metavar="W",
        help="largest half-width of the interval (rows)",
    )
    parser.add_argument(
        "--delta",
        type=float,
        default=0.05,
        metavar="D",
        help="largest probability that the interval misses the truth (0.05)",
    )
    parser.add_argument(
        "--table", metavar="TABLE", help="the table, to measure what the history does not answer"
    )
    parser.add_argument(
        "--domain", metavar="FILE", help="with --table: its public domain file, .json or .yaml"
    )
    add_file_options(parser)
    add_unit_options(parser)
    # kept as text, so that 0.1 is exactly one tenth
    parser.add_argument(
        "--cap", metavar="E", help="with --table: the session's epsilon, the same in every call"
    )
    parser.add_argument(
        "--relation",
        choices=[relation.value for relation in Relation],
        help="with --table: neighbouring relation",
    )
    parser.add_argument(
        "--insecure-seed",
        type=int,
        metavar="N",
        help="seed of repeatable noise, which protects nothing: research only",
    )
    parser.set_defaults(run=_ask)


def _add_status(parts: Any) -> None:
    parser = _add(
        parts,
        "status",
        "show the queries of a session and what is left",
        "Show what a session has answered, what that cost in the cell with the highest cost, and the "
        "session's cap.",
        "pgmjax session status budgets.ledger",
    )
    parser.set_defaults(run=_status)


def _add_export(parts: Any) -> None:
    parser = _add(
        parts,
        "export",
        "write the history of noisy answers into a folder",
        "Write all noisy answers of a session to a folder. History.load reads it for kernel PCA, "
        "maximum entropy, or another session.",
        "pgmjax session export budgets.ledger --out history",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write; it must not exist")
    parser.set_defaults(run=_export)


def _add(parts: Any, command: str, help: str, description: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parts.add_parser(
        command, help=help, description=description, epilog=f"Example: {example}"
    )
    parser.add_argument("file", metavar="FILE", help="the ledger that keeps the session")
    parser.add_argument("--name", default=NAME, metavar="NAME", help=f"the session's name ({NAME})")
    parser.add_argument(
        "--account",
        metavar="NAME",
        help="the table's account, if several accounts have a session of that name",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _read(arguments: argparse.Namespace) -> Session:
    return Session.read(_ledger(arguments.file), arguments.name, account=arguments.account)


def _ask(arguments: argparse.Namespace) -> None:
    with _session(arguments) as session:
        query = query_text.parse(arguments.condition, session.domain)
        answer = session.ask(query, arguments.half_width, arguments.delta)
        cost, cap, seed = as_text(session.cost), as_text(session.cap), session.seed
    if arguments.json:
        print(json.dumps({"query": arguments.condition, **answer.to_dict(), "cap": cap, "seed": seed}))
    elif answer.answered:
        print(f"{arguments.condition}: {answer}; {cost} of {cap} is spent")
    if not answer.answered:
        raise RuntimeError(f"refused: {answer.reason}")


def _session(arguments: argparse.Namespace) -> Session:
    """Open the session, with its table if one is named."""
    with_table = ("domain", "cap", "relation")
    if arguments.table is None:
        options = (*with_table, "unit", "max_records", "insecure_seed", "text_encoding")
        named = [name for name in options if getattr(arguments, name) is not None]
        if named:
            said = named[0].removeprefix("text_").replace("_", "-")
            raise ValueError(f"--{said} needs --table: give the table too.")
        return _read(arguments)
    if arguments.account is not None:
        raise ValueError("--account cannot be used with --table: the table determines the account.")
    missing = [name for name in with_table if getattr(arguments, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: --table needs --domain, --cap and --relation.")
    for path in (arguments.table, arguments.domain):
        if not pathlib.Path(path).exists():
            raise ValueError(f"There is no file {path}: check the path.")
    unit = unit_of(arguments)
    domain = Domain.read(arguments.domain)
    query_text.parse(arguments.condition, domain)  # reject a bad condition before the cap is charged
    checks.optional("duckdb", extra="tables")
    seed = arguments.insecure_seed
    return Session.open(
        _ledger(arguments.file),
        Dataset.read(
            arguments.table,
            domain,
            header=not arguments.no_header,
            unit=unit,
            encoding=arguments.text_encoding,
        ),
        cap=arguments.cap,
        relation=arguments.relation,
        name=arguments.name,
        backend=None if seed is None else SeededBackend(seed, insecure=True),
    )


def _status(arguments: argparse.Namespace) -> None:
    with _read(arguments) as session:
        answers = list(session.answers())
        cost, cap, relation = as_text(session.cost), as_text(session.cap), session.relation.value
        unit = None if session.unit is None else session.unit.to_dict()
        secure, seed = session.secure, session.seed
    counts = {
        source: sum(a.source == source for a in answers) for source in ("history", "measured", "refused")
    }
    if arguments.json:
        listed = [answer.to_dict() for answer in answers]
        told = {"name": arguments.name, "cap": cap, "cost": cost, "relation": relation, "unit": unit}
        print(json.dumps({**told, "secure": secure, "seed": seed, **counts, "answers": listed}))
        return
    kinds = f"{counts['history']} free, {counts['measured']} measured, {counts['refused']} refused"
    print(f"Session {arguments.name}: {len(answers)} queries, {kinds}.")
    whom = report_text.unit_name({"unit": unit})
    print(
        f"  cost     epsilon {cost} of {cap} in the cell with the highest cost, {relation}, protecting {whom}"
    )
    if not secure:
        print("  noise    repeatable: it protects nobody, use it for research only")


def _export(arguments: argparse.Namespace) -> None:
    out = pathlib.Path(arguments.out)
    if out.exists():
        raise ValueError(f"{out} already exists: give the name of a new folder.")
    with _read(arguments) as session:
        session.history.save(out)
        number, secure, seed = session.history.num_rows, session.secure, session.seed
    if arguments.json:
        print(json.dumps({"out": str(out), "answers": number, "secure": secure, "seed": seed}))
    else:
        warning = "" if secure else "; the noise is repeatable, use them for research only"
        print(f"{number} noisy answers written to {out}{warning}")


def _ledger(file: str) -> Ledger:
    if not pathlib.Path(file).exists():
        raise ValueError(f"There is no ledger {file}: make one with `pgmjax ledger init`.")
    return Ledger.open(file)
