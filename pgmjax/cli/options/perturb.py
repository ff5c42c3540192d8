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
        help="have every record answer for itself by randomised response, write a folder",
        description="Local differential privacy: every record answers for itself by randomised response, and "
        "the answers, one row a record, may be published. Writes a folder: release.json with the guarantee, "
        "table/ (pgmjax.local.load reads it) and responses.parquet, with the rows sorted. pgmjax query asks "
        "it. For marginals alone, pgmjax release has far less noise.",
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
        "--responses", default="parquet", choices=RESPONSES, help="plain file of the rows, if not too large"
    )
    group.add_argument("--out", required=True, metavar="DIR", help="folder to make; it must not exist")
    group.add_argument("--json", action="store_true", help="print one JSON object")
    group.add_argument("--quiet", action="store_true", help="print nothing and show no progress")
    parser.set_defaults(run="perturb:run", max_weight=None)


def _add_table(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("table and answers")
    release.add_table_options(group, encoding="--text-encoding")
    group.add_argument("--weights", help=argparse.SUPPRESS)  # refused with the reason
    group.add_argument(
        "--rows-outside",
        choices=("clip", "missing"),
        help="without --ledger, if records lie outside the domain: they answer as in the end bins (clip), or "
        "with their values missing (missing)",
    )
    group.add_argument(
        "--groups",
        action="append",
        default=[],
        metavar="NAMES",
        help="attributes to answer about together, such as age,sex; may be given again, for equal parts of "
        "epsilon",
    )
    group.add_argument("--each", action="store_true", help="instead: each attribute of the domain by itself")
    group.add_argument("--workload", metavar="FILE", help="instead: each attribute of a workload by itself")
    group.add_argument(
        "--encoding",
        default="direct",
        choices=ENCODINGS,
        help="direct (default): one category; the others: one bit per category, better for many categories",
    )
    group.add_argument(
        "--useless",
        default="refuse",
        choices=USELESS,
        help="where the noise would exceed what is estimated: refuse (default), or answer all the same",
    )
