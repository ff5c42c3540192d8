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
        help="randomise each record's answers locally, and write a folder",
        description="Local differential privacy: randomised response perturbs each record's own values. The "
        "perturbed rows may be published. The command writes a folder: release.json with the "
        "guarantee, table/ (read it with pgmjax.local.load) and responses.parquet, with the rows "
        "sorted. pgmjax query answers from the folder. If you only need marginals, pgmjax "
        "release has far less noise.",
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
        help="format of the plain file of the rows; not written if there are too many",
    )
    release.add_escape_option(group)
    group.add_argument("--out", required=True, metavar="DIR", help="folder to write; it must not exist")
    group.add_argument("--json", action="store_true", help="print one JSON object")
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
        help="without --ledger, if records lie outside the domain: count them in the end bins (clip), "
        "or count their values as missing (missing)",
    )
    group.add_argument(
        "--groups",
        action="append",
        default=[],
        metavar="NAMES",
        help="attributes to perturb together, such as age,sex; repeat the option for several groups, "
        "which share epsilon equally",
    )
    group.add_argument(
        "--each", action="store_true", help="instead: make each attribute of the domain a group"
    )
    group.add_argument(
        "--workload", metavar="FILE", help="instead: make each attribute of a workload a group"
    )
    group.add_argument(
        "--encoding",
        default="direct",
        choices=ENCODINGS,
        help="direct (default): one category as the answer; the others: one bit for each category, "
        "better for many categories",
    )
    group.add_argument(
        "--useless",
        default="refuse",
        choices=USELESS,
        help="if the noise would exceed what is estimated: refuse (default), or answer anyway",
    )
