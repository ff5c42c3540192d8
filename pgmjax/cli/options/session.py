"""Options of `pgmjax session`."""

from __future__ import annotations

import argparse
from typing import Any

from pgmjax.cli.options.release import add_file_options, add_unit_options
from pgmjax.data.relation import Relation

NAME = "session"


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
    parser.set_defaults(run="session:_ask")


def _add_status(parts: Any) -> None:
    parser = _add(
        parts,
        "status",
        "show the queries of a session and what is left",
        "Show what a session has answered, what that cost in the cell with the highest cost, and the "
        "session's cap.",
        "pgmjax session status budgets.ledger",
    )
    parser.set_defaults(run="session:_status")


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
    parser.set_defaults(run="session:_export")


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
