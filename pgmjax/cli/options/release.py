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
    "maximum-entropy",
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
        description="Count a table with noise, fit one model to the noisy counts, and write a folder: the "
        "report (report.html), the same for programs (release.json), the model, the noisy counts, the "
        "answers to the workload, and synthetic rows. Open report.html first: it says how good the release "
        "is.",
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
        help="what to do with values that are not in the domain: count a number in the first or last bin "
        "(clip), count a value as missing (missing), or leave the record out (drop). Without this option "
        "such a table is refused. With --ledger, the table's account says what to do",
    )
    group.add_argument(
        "--discover",
        metavar="SHARE",
        help="spend this share of the budget, such as 0.1, on finding the bins, labels and dates of the "
        "columns that the domain file leaves open, or of all columns without --domain. Columns of text need "
        "--delta",
        action="once",
    )
    group.add_argument(
        "--workload",
        metavar="FILE",
        help="JSON file of what to measure and answer, such as "
        '[["age", "sex"], ["job"]]; more in docs/start.md',
    )
    group.add_argument(
        "--all-kway",
        type=int,
        metavar="K",
        help="instead of --workload: all marginals of K attributes; 2 asks for every pair",
    )
    group.add_argument(
        "--max-cells",
        type=int,
        metavar="N",
        help="limit the model to N cells, and so its time and memory. A mechanism that chooses what to "
        "measure is offered every marginal of at most N cells. Another one measures the smallest marginals, "
        "as many as a model of N cells holds (default: as large as a minute allows, by the forecast)",
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
    group.add_argument(
        "table", nargs="?", metavar="TABLE", help="the table to read: .csv, .csv.gz, .tsv, .parquet, .xlsx"
    )
    group.add_argument(
        "--demo", action="store_true", help=f"use {demo.NAME}, a real public table, instead of TABLE"
    )
    group.add_argument(
        "--domain",
        metavar="FILE",
        help="the domain file, which says what values each column may have: .json or .yaml",
    )
    add_file_options(group, encoding)
    add_unit_options(group)


def add_file_options(group: Any, encoding: str = "--encoding") -> None:
    """Add the options that say how a text file is read; see `add_table_options`."""
    group.add_argument(
        "--no-header",
        action="store_true",
        help="the first line holds no names: the columns are in the order of the domain",
    )
    add_encoding_option(group, encoding)


def add_encoding_option(group: Any, name: str = "--encoding") -> None:
    """Add the option for a text file's encoding, by some name."""
    group.add_argument(
        name,
        dest="text_encoding",
        metavar="NAME",
        help="encoding of a text file, such as cp1252 (default: utf-8, or utf-16 if the file begins with a "
        "byte-order mark)",
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
        help="with --unit: at most K records of each unit count, chosen at random. More noise is added for a "
        "larger K",
    )


def _add_privacy(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("privacy")
    add_epsilon_options(group, required=False)  # not with --resume
    group.add_argument(
        "--delta",
        action="once",
        default="0",
        metavar="D",
        help="the delta of (epsilon, delta)-differential privacy, such as 1e-9 (default: 0)",
    )
    group.add_argument(
        "--mechanism",
        default="auto",
        choices=MECHANISMS,
        help="how to choose what to measure; pgmjax mechanisms describes each. auto (default) measures all "
        "marginals asked for, except those that noise would drown. If one model cannot hold them all, it "
        "spends a part of the budget on choosing among them",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option of the mechanism, such as rounds=10. Can be repeated; pgmjax mechanisms lists "
        "the options",
    )
    group.add_argument(
        "--count-left-out",
        action="once",
        metavar="SHARE",
        help="spend this share of the budget, such as 0.05, on counting what --max-records, --rows-outside "
        "drop or --discover leave out of the table, so that bounds for the whole table follow",
    )
    group.add_argument(
        "--largest-unit",
        type=int,
        metavar="M",
        help="with --count-left-out and --unit under add-remove: a number of records that no unit exceeds, "
        "known in public. The records beyond --max-records are counted too, with noise that grows with M",
    )
    add_ledger_options(group)


def add_epsilon_options(group: Any, *, required: bool) -> None:
    """Add the budget and the relation to a group of options."""
    # kept as text, so that 0.1 is exactly one tenth
    group.add_argument(
        "--epsilon",
        action="once",
        required=required,
        metavar="E",
        help="the privacy budget, such as 1, 0.1 or 1/3; a smaller one protects more, with more noise",
    )
    group.add_argument(
        "--relation",
        action="once",
        required=required,
        choices=[relation.value for relation in Relation],
        help="what an observer may not notice: that a record was added or removed (add-remove; the number of "
        "records is secret), or that it was replaced by another (replace-one; the number of records is "
        "public). There is no default",
    )


def add_ledger_options(group: Any) -> None:
    """Add the ledger, the run's key in it and the seed of insecure noise to a group of options."""
    group.add_argument(
        "--ledger",
        metavar="FILE",
        help="charge the cost to the table's account in this ledger, which pgmjax ledger init made",
    )
    group.add_argument(
        "--key",
        metavar="NAME",
        help="with --ledger: a name for this run. The same command with the same name returns the same "
        "answers and costs nothing more (default: a name made from the request)",
    )
    group.add_argument(
        "--holder-log",
        metavar="FILE",
        help="with --ledger, error messages show nothing of the table: write the details to FILE, which only "
        "people who may see the table should read",
    )
    group.add_argument(
        "--insecure-seed",
        type=int,
        metavar="N",
        help="make the noise from this seed, so that it can be repeated. Such a release protects nobody: for "
        "research only",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fit and output")
    add_prior_option(group)
    add_output_options(group)
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="only print what would be measured, with how much noise, and the time and memory needed. No "
        "record is read and nothing is spent",
    )
    group.add_argument(
        "--resume",
        metavar="DIR.partial",
        help="go on with an interrupted or failed release from the noisy answers that it left, at no "
        "further cost. Only options of fit and output can be given with it",
    )
    group.add_argument(
        "--add-rows",
        type=int,
        metavar="N",
        help="draw N more synthetic rows from a release, whose folder is given in place of TABLE, and write "
        "them to a new file there. This costs no privacy",
    )
    group.add_argument(
        "--tables",
        type=int,
        metavar="M",
        help="draw M tables to analyse from a release, whose folder is given in place of TABLE, and write "
        "them to a new folder there; pgmjax.uncertainty.combine combines what an analysis of each says. This "
        "costs no privacy",
    )


def add_prior_option(group: Any) -> None:
    """Add the option that names an earlier release."""
    group.add_argument(
        "--from",
        dest="prior",
        metavar="DIR",
        help="the folder of an earlier release over the same domain. Where nothing is measured now, the "
        "model stays close to that one. The costs of both are added up",
    )


def add_escape_option(group: Any) -> None:
    """Add the option to protect spreadsheets that read the rows."""
    group.add_argument(
        "--escape-formulas",
        action="store_true",
        help="in CSV files, put an apostrophe before labels that begin with = + - or @, so that no "
        "spreadsheet takes them for formulas. Numbers stay as they are",
    )


def add_output_options(group: Any) -> None:
    """Add the options of a fit and of the folder that is written."""
    _add_fit_options(group)
    _add_folder_options(group)


def _add_fit_options(group: Any) -> None:
    group.add_argument(
        "--steps", type=int, default=3000, metavar="N", help="the largest number of steps of the fit (3000)"
    )
    group.add_argument("--solver", default="auto", metavar="NAME", help="the solver of the fit (auto)")
    group.add_argument(
        "--loss",
        default="l2",
        choices=["l2", "l1"],
        help="what the fit makes small: squared deviations from the noisy counts (l2) or absolute ones (l1)",
    )
    group.add_argument(
        "--oracle",
        default="auto",
        metavar="NAME",
        help="what computes marginals: auto (default: the cheapest by forecast), host, contraction, levels, "
        "chain, sliced or message_passing",
    )
    group.add_argument(
        "--devices",
        type=int,
        default=1,
        metavar="N",
        help="how many devices of this machine share a fit that only fits in memory in slices, and the fits "
        "of error bars (1)",
    )
    group.add_argument(
        "--regularisation",
        default="auto",
        metavar="W",
        help="how strongly to pull the model towards independent attributes, so that it follows less of the "
        "noise: a number of records, auto (default: chosen by the noise) or none",
    )
    # a release is fitted only once: float64 costs little and certifies a smaller gap
    group.add_argument(
        "--dtype",
        default="float64",
        choices=["float32", "float64"],
        help="the precision of the fit (float64); float32 needs half the memory",
    )


def _add_folder_options(group: Any) -> None:
    group.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="the number of synthetic rows (default: the estimated number of records, at most 10 million)",
    )
    group.add_argument(
        "--method",
        default=ROW_METHODS[0],
        choices=ROW_METHODS,
        help="how synthetic rows are drawn. round (default): as close to the model as whole numbers of rows "
        "allow. multinomial: independently of one another, which adds sampling error",
    )
    group.add_argument(
        "--synthetic",
        default="parquet",
        choices=SYNTHETIC_FORMATS,
        help="format of the synthetic rows (parquet)",
    )
    group.add_argument(
        "--codes", action="store_true", help="write synthetic rows as codes of the domain instead of values"
    )
    add_escape_option(group)
    group.add_argument("--out", metavar="DIR", help="the folder to make; it must not exist yet")
    group.add_argument("--json", action="store_true", help="print the result as one JSON object")
    group.add_argument("--quiet", action="store_true", help="print nothing, and show no progress")
