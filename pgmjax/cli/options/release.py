"""Options of `pgmjax release`, some of which other commands have too."""

from __future__ import annotations

import argparse
from typing import Any

from pgmjax.data import demo
from pgmjax.data.definition import ROWS_OUTSIDE
from pgmjax.data.relation import Relation

MECHANISMS = (
    "auto",
    "aim",
    "batch-aim",
    "hdmm",
    "mldp",
    "mst",
    "mwem",
    "dual-query",
    "marginals",
    "privbayes",
    "randomized-response",
)
SYNTHETIC_FORMATS = ("parquet", "csv")
ROW_METHODS = ("round", "multinomial")
DEFAULTS: dict[str, Any] = {}
"""The default of every option, once the parser is made."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "release",
        help="measure a table with noise, fit a model and write a folder",
        description="Measure a table with noise, fit one model to the noisy answers and write a folder: "
        "release.json, model/, measurements.parquet, answers.parquet, synthetic rows and report.html.",
        epilog="Example: pgmjax release --demo --epsilon 1 --relation add-remove --out demo-release, or with "
        "a table of your own: pgmjax release people.csv.gz --domain people.yaml --all-kway 2 "
        "--max-cells 1000000 --epsilon 1 --relation add-remove --out people-release",
    )
    _add_table(parser)
    _add_privacy(parser)
    _add_output(parser)
    parser.set_defaults(run="release:run", usage_error=parser.error)
    DEFAULTS.update({action.dest: action.default for action in parser._actions})


def _add_table(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("table and workload")
    add_table_options(group)
    add_weight_options(group)
    group.add_argument(
        "--rows-outside",
        choices=ROWS_OUTSIDE,
        help="without --ledger, if records lie outside the domain: count them in the end bins (clip), count "
        "their values as missing (missing), or leave them out (drop)",
    )
    group.add_argument(
        "--discover",
        metavar="SHARE",
        help="find the bins, labels and dates of columns that the domain leaves open (of all columns "
        "without --domain); SHARE is a share of the budget, such as 0.1; text columns need "
        "--delta",
    )
    group.add_argument("--workload", metavar="FILE", help="JSON list of the queries to measure and answer")
    group.add_argument("--all-kway", type=int, metavar="K", help="instead: all marginals of K attributes")
    group.add_argument(
        "--max-cells",
        type=int,
        metavar="N",
        help="the largest number of cells of the model. A mechanism that chooses what to measure gets every "
        "marginal whose own table has at most N cells, others the smallest marginals that fit a model of N "
        "cells together (default: what is forecast to take a minute)",
    )


def add_weight_options(group: Any) -> None:
    """Add the options that name the weights of records."""
    group.add_argument("--weights", metavar="NAME", help="column with the weights of records (whole numbers)")
    group.add_argument("--max-weight", type=int, metavar="N", help="public upper bound on a record's weight")


def add_table_options(group: Any, encoding: str = "--encoding") -> None:
    """Add what names a table and its domain to a group of options.

    Args:
        group: of options.
        encoding: the name of the option for a text file's encoding.
    """
    group.add_argument("table", nargs="?", metavar="TABLE", help=".csv, .csv.gz, .tsv, .parquet, .xlsx, ...")
    group.add_argument(
        "--demo", action="store_true", help=f"use {demo.NAME}, a real public table, instead of TABLE"
    )
    group.add_argument("--domain", metavar="FILE", help="the table's public domain file: .json or .yaml")
    add_file_options(group, encoding)
    add_unit_options(group)


def add_file_options(group: Any, encoding: str = "--encoding") -> None:
    """Add the options that say how a text file is read; see `add_table_options`."""
    group.add_argument(
        "--no-header", action="store_true", help="the columns have no names and stand in the domain's order"
    )
    add_encoding_option(group, encoding)


def add_encoding_option(group: Any, name: str = "--encoding") -> None:
    """Add the option for a text file's encoding, by some name."""
    group.add_argument(
        name,
        dest="text_encoding",
        metavar="NAME",
        help="encoding of a text file, such as cp1252 (default: utf-8, or utf-16 if the file begins "
        "with its mark)",
    )


def add_unit_options(group: Any) -> None:
    """Add the options that name the unit of privacy."""
    group.add_argument(
        "--unit",
        metavar="COLUMN",
        help="protect all records that share a value of this column, such as all records of one "
        "person (default: protect one record)",
    )
    group.add_argument(
        "--max-records",
        type=int,
        metavar="K",
        help="with --unit: the most records of one unit that count; further ones are left out at random",
    )


def _add_privacy(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("privacy")
    add_epsilon_options(group, required=False)  # not with --resume
    group.add_argument(
        "--delta", default="0", metavar="D", help="0 (default) means pure differential privacy"
    )
    group.add_argument(
        "--mechanism",
        default="auto",
        choices=MECHANISMS,
        help="auto (default) measures all marginals asked for, but for those that noise would drown; if a "
        "model of all has more cells than the limit, it spends a part of the budget on choosing which to "
        "measure, by batch-aim, or without a delta and for more than 100 marginals by mst",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the mechanism, such as rounds=10; repeat for more; pgmjax mechanisms lists them",
    )
    add_ledger_options(group)


def add_epsilon_options(group: Any, *, required: bool) -> None:
    """Add the budget and the relation to a group of options."""
    # kept as text, so that 0.1 is exactly one tenth
    group.add_argument(
        "--epsilon", required=required, metavar="E", help="privacy budget, such as 1, 0.1 or 1/3"
    )
    group.add_argument(
        "--relation",
        required=required,
        choices=[relation.value for relation in Relation],
        help="neighbouring relation; has no default",
    )


def add_ledger_options(group: Any) -> None:
    """Add the ledger, the run's key in it and the seed of insecure noise to a group of options."""
    group.add_argument(
        "--ledger",
        metavar="FILE",
        help="charge the table's budget in this ledger, made by pgmjax ledger init",
    )
    group.add_argument(
        "--key",
        metavar="NAME",
        help="with --ledger: name of the run; the same request under the same name returns the same "
        "answers free of charge (default: derived from the request)",
    )
    group.add_argument(
        "--holder-log",
        metavar="FILE",
        help="with --ledger: write details that errors withhold to FILE, for the table's holder alone",
    )
    group.add_argument(
        "--insecure-seed",
        type=int,
        metavar="N",
        help="seed of repeatable noise, which protects nothing: research only",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fit and output")
    add_prior_option(group)
    add_output_options(group)
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be measured, its noise, and the time and memory of the fit; read and "
        "spend nothing",
    )
    group.add_argument(
        "--resume",
        metavar="DIR.partial",
        help="instead of all else: continue from the noisy answers that an interrupted or failed "
        "release left, at no further cost; you can change the options of fit and output",
    )
    group.add_argument(
        "--add-rows",
        type=int,
        metavar="N",
        help="instead of all else: draw N more rows from the release in folder TABLE and write them "
        "to a new file there",
    )


def add_prior_option(group: Any) -> None:
    """Add the option that names an earlier release."""
    group.add_argument(
        "--from",
        dest="prior",
        metavar="DIR",
        help="an earlier release over the same domain; the model follows it where nothing is measured now. "
        "Its cost is added to that of this release, which is secure only if both are",
    )


def add_escape_option(group: Any) -> None:
    """Add the option to protect spreadsheets that read the rows."""
    group.add_argument(
        "--escape-formulas",
        action="store_true",
        help="with csv, put an apostrophe before labels that begin with = + - or @, so that no "
        "spreadsheet takes them for formulas; numbers stay as they are",
    )


def add_output_options(group: Any) -> None:
    """Add the options of a fit and of the folder that is written."""
    group.add_argument(
        "--steps", type=int, default=3000, metavar="N", help="maximum number of steps of the fit (3000)"
    )
    group.add_argument("--solver", default="auto", metavar="NAME", help="solver for the fit")
    group.add_argument(
        "--regularisation",
        default="auto",
        metavar="W",
        help="pull the model towards independence, so that it follows less of the noise: auto chooses the "
        "weight from the noise, a number is the weight in records, none switches it off (auto)",
    )
    # a release is fitted only once: float64 costs little and certifies a smaller gap
    group.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    group.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="number of synthetic rows (default: the estimated total, at most 10 million)",
    )
    group.add_argument(
        "--method",
        default=ROW_METHODS[0],
        choices=ROW_METHODS,
        help="how synthetic rows are drawn: round deals them to the cells of the model as evenly as whole "
        "numbers allow, multinomial draws them independently of one another, with more error (round)",
    )
    group.add_argument("--synthetic", default="parquet", choices=SYNTHETIC_FORMATS)
    group.add_argument(
        "--codes", action="store_true", help="write synthetic rows as codes of the domain instead of values"
    )
    add_escape_option(group)
    group.add_argument("--out", metavar="DIR", help="folder to write; it must not exist")
    group.add_argument("--json", action="store_true", help="print one JSON object")
    group.add_argument("--quiet", action="store_true", help="print nothing, and show no progress")
