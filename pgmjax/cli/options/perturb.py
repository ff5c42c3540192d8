"""Options of `pgmjax perturb`."""

from __future__ import annotations

import argparse
from typing import Any

from pgmjax.cli.options import release

RESPONSES = ("parquet", "csv", "none")
ENCODINGS = ("direct", "optimal-unary", "symmetric-unary")
USELESS = ("refuse", "answer")


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "perturb",
        help="randomise each record by itself (local differential privacy), and write a folder",
        description="Replace the values of each record at random, by randomised response. This is local "
        "differential privacy: the perturbed rows themselves may be published. The command writes a folder "
        "with the guarantee (release.json), the rows for pgmjax.local.load (table/) and for other programs "
        "(responses.parquet). pgmjax query answers from it. If you need counts and not rows, pgmjax release "
        "has far less noise.",
        epilog="Example: pgmjax perturb --demo --epsilon 2 --relation replace-one --out demo-perturbed, or "
        "with a table of your own: pgmjax perturb people.csv.gz --domain people.yaml --groups age,sex "
        "--groups region --epsilon 2 --relation replace-one --out people-perturbed",
    )
    _add_table(parser)
    group = parser.add_argument_group("privacy")
    release.add_epsilon_options(group, required=True)
    release.add_ledger_options(group)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--responses",
        default="parquet",
        choices=RESPONSES,
        help="format of the file of perturbed rows for other programs (parquet). It is left out if there are "
        "too many rows",
    )
    release.add_escape_option(group)
    group.add_argument("--out", required=True, metavar="DIR", help="the folder to make; it must not exist")
    group.add_argument("--json", action="store_true", help="print the result as one JSON object")
    group.add_argument("--quiet", action="store_true", help="print nothing, and show no progress")
    parser.set_defaults(run="perturb:run")


def _add_table(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("table and attributes")
    release.add_table_options(group, encoding="--text-encoding")
    for name in ("--weights", "--max-weight"):
        group.add_argument(name, help=argparse.SUPPRESS)  # refused with the reason
    group.add_argument(
        "--rows-outside",
        choices=("clip", "missing"),
        help="what to do with values that are not in the domain: count a number in the first or last bin "
        "(clip), or count a value as missing (missing). Without this option such a table is refused. With "
        "--ledger, the table's account says what to do",
    )
    add_response_options(group)
    group.add_argument(
        "--workload", metavar="FILE", help="instead of --groups: every attribute in this workload is a group"
    )
    group.add_argument(
        "--useless",
        default="refuse",
        choices=USELESS,
        help="what to do if the noise would be larger than what is estimated: refuse (default), or answer "
        "all the same",
    )


def add_response_options(group: Any) -> None:
    """Add what a record answers about, and in which encoding."""
    group.add_argument(
        "--groups",
        action="append",
        default=[],
        metavar="NAMES",
        help="attributes to perturb together, such as age,sex. Can be repeated: the groups share epsilon "
        "equally",
    )
    group.add_argument(
        "--each", action="store_true", help="instead of --groups: every attribute is a group of its own"
    )
    group.add_argument(
        "--encoding",
        default="direct",
        choices=ENCODINGS,
        help="direct (default): the answer is one value. The others: the answer is one bit for each value, "
        "which is better if there are many values",
    )
