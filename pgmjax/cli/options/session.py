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
        help="ask a table online, each answer as accurate as it has to be",
        description="A session answers one count at a time: free from what was answered before where that is "
        "accurate enough, else for the least budget, else not at all. Its cap is charged to the table's "
        "account in a ledger when it is begun.",
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
        "ask how many rows satisfy a condition",
        "Ask how many rows satisfy conditions. Without --table, only what the history tells is answered. "
        "Exits with 1 if the answer is refused.",
        "pgmjax session ask budgets.ledger 'sex=Male,age<30' --half-width 50 --delta 0.05",
    )
    parser.add_argument("condition", metavar="CONDITION", help="such as 'sex=Male,age<30'")
    parser.add_argument(
        "--half-width", type=float, required=True, metavar="W", help="half the longest interval (rows)"
    )
    parser.add_argument(
        "--delta", type=float, default=0.05, metavar="D", help="how often it may miss the truth (0.05)"
    )
    parser.add_argument(
        "--table", metavar="TABLE", help="the table, to measure what the history does not tell"
    )
    parser.add_argument("--domain", metavar="FILE", help="with --table: its public domain, .json or .yaml")
    add_file_options(parser)
    add_unit_options(parser)
    # kept as text, so that 0.1 is exactly one tenth
    parser.add_argument("--cap", metavar="E", help="with --table: the session's epsilon, the same every time")
    parser.add_argument("--relation", choices=[relation.value for relation in Relation], help="with --table")
    parser.add_argument(
        "--insecure-seed", type=int, metavar="N", help="repeatable noise that protects nothing: research only"
    )
    parser.set_defaults(run="session:_ask")


def _add_status(parts: Any) -> None:
    parser = _add(
        parts,
        "status",
        "what was asked and what is left",
        "Show what a session has answered, what that cost in the dearest cell, and its cap.",
        "pgmjax session status budgets.ledger",
    )
    parser.set_defaults(run="session:_status")


def _add_export(parts: Any) -> None:
    parser = _add(
        parts,
        "export",
        "write the history of noisy answers into a folder",
        "Write all noisy answers of a session into a folder, to be read with History.load, for "
        "kernel PCA, maximum entropy, or another session.",
        "pgmjax session export budgets.ledger --out history",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to make; it must not exist")
    parser.set_defaults(run="session:_export")


def _add(parts: Any, command: str, help: str, description: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parts.add_parser(
        command, help=help, description=description, epilog=f"Example: {example}"
    )
    parser.add_argument("file", metavar="FILE", help="the ledger that keeps the session")
    parser.add_argument("--name", default=NAME, metavar="NAME", help=f"the session's name ({NAME})")
    parser.add_argument(
        "--account", metavar="NAME", help="the table's account, where several have a session of that name"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser
