"""Options of `pgmjax session`."""

from __future__ import annotations

import argparse
from typing import Any

from pgmjax.cli.options.release import add_epsilon_options, add_file_options, add_unit_options
from pgmjax.data.relation import Relation

NAME = "session"


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "session",
        help="answer queries on a table one at a time, each as accurately as required",
        description="Answer one count at a time. If earlier answers are accurate enough, a session answers "
        "from them and spends nothing. Otherwise it measures with the least budget that suffices, or "
        "refuses. The most that a session may spend, its cap, is charged to the table's account in a ledger "
        "when it begins.",
        epilog="Example: pgmjax session ask budgets.ledger 'sex=Male,age<30' --half-width 50 --table "
        "people.csv.gz --domain people.yaml --cap 1 --relation add-remove",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_ask(parts)
    _add_status(parts)
    _add_export(parts)
    _add_online_weights(parts)


def _add_ask(parts: Any) -> None:
    parser = _add(
        parts,
        "ask",
        "count the rows that satisfy a condition",
        "Count the rows that satisfy a condition. Without --table, the session answers from its earlier "
        "noisy answers alone. Exits with 1 if the answer is refused.",
        "pgmjax session ask budgets.ledger 'sex=Male,age<30' --half-width 50 --delta 0.05",
    )
    parser.add_argument("condition", metavar="CONDITION", help="such as 'sex=Male,age<30'")
    parser.add_argument(
        "--half-width",
        type=float,
        required=True,
        metavar="W",
        help="how accurate the answer must be: within W rows of the exact count",
    )
    parser.add_argument(
        "--delta",
        type=float,
        default=0.05,
        metavar="D",
        help="the probability with which the exact count may be further away (0.05)",
    )
    parser.add_argument(
        "--table", metavar="TABLE", help="the table, to measure where earlier answers are not accurate enough"
    )
    parser.add_argument("--domain", metavar="FILE", help="with --table: its domain file, .json or .yaml")
    add_file_options(parser)
    add_unit_options(parser)
    # kept as text, so that 0.1 is exactly one tenth
    parser.add_argument(
        "--cap",
        metavar="E",
        help="with --table: the most that the session may spend, the same in each call",
    )
    parser.add_argument(
        "--relation",
        choices=[relation.value for relation in Relation],
        help="with --table: the relation of the table's account",
    )
    _add_seed(parser)
    parser.set_defaults(run="session:_ask")


def _add_status(parts: Any) -> None:
    parser = _add(
        parts,
        "status",
        "show the queries of a session and what is left",
        "Show how many queries a session has answered, and what it has spent of its cap.",
        "pgmjax session status budgets.ledger",
    )
    parser.set_defaults(run="session:_status")


def _add_export(parts: Any) -> None:
    parser = _add(
        parts,
        "export",
        "write the history of noisy answers into a folder",
        "Write all noisy answers of a session to a folder, which pgmjax.history.History.load reads.",
        "pgmjax session export budgets.ledger --out history",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to make; it must not exist")
    parser.set_defaults(run="session:_export")


def _add_online_weights(parts: Any) -> None:
    parser = parts.add_parser(
        "online-weights",
        help="answer counts as they come from an estimate of the whole table",
        description="Answer counts as they come, from an estimate of the whole table that starts even. A "
        "count is measured only if a noisy test finds the estimate far off, and corrects it then. All "
        "answers together cost at most epsilon. If no conditions are given they are read from standard "
        "input, one a line, and answered at once. The same conditions under the same name are answered again "
        "for free, and new ones behind them go on.",
        epilog="Example: pgmjax session online-weights budgets.ledger 'age<30' 'sex=Male' --table "
        "people.csv.gz --domain people.yaml --epsilon 1 --relation replace-one",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger that the answers are charged to")
    parser.add_argument("condition", nargs="*", metavar="CONDITION", help="such as 'sex=Male,age<30'")
    parser.add_argument(
        "--name", metavar="NAME", help="the run's name in the ledger (default: made from its settings)"
    )
    parser.add_argument("--table", required=True, metavar="TABLE", help="the table")
    parser.add_argument("--domain", required=True, metavar="FILE", help="its domain file: .json or .yaml")
    add_file_options(parser)
    add_unit_options(parser)
    add_epsilon_options(parser, required=True)
    group = parser.add_argument_group("how to answer")
    group.add_argument("--updates", type=int, default=10, metavar="N", help="the most measurements (10)")
    group.add_argument(
        "--threshold",
        type=int,
        metavar="N",
        help="how far off the estimate may be, in records (default: so that noise seldom finds it far off)",
    )
    group.add_argument(
        "--expected-queries",
        type=int,
        default=100,
        metavar="N",
        help="a guess of their number, for that (100)",
    )
    group.add_argument(
        "--sweeps",
        type=int,
        metavar="N",
        help="correct by all measurements so far, N times each (default: by the newest, once)",
    )
    _add_seed(parser)
    parser.add_argument("--json", action="store_true", help="print each answer as one line of JSON")
    parser.set_defaults(run="session:_online_weights")


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--insecure-seed",
        type=int,
        metavar="N",
        help="make the noise from this seed, so that it can be repeated. Such answers protect nobody: for "
        "research only",
    )


def _add(parts: Any, command: str, help: str, description: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parts.add_parser(
        command, help=help, description=description, epilog=f"Example: {example}"
    )
    parser.add_argument("file", metavar="FILE", help="the ledger that keeps the session")
    parser.add_argument("--name", default=NAME, metavar="NAME", help=f"the session's name ({NAME})")
    parser.add_argument(
        "--account",
        metavar="NAME",
        help="the account of the table, if more than one has a session of this name",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return parser
