"""Options that several commands have."""

from __future__ import annotations

from typing import Any

from pgmjax.cli.options.command import Option, option
from pgmjax.data import demo
from pgmjax.data.definition import ROWS_OUTSIDE
from pgmjax.data.relation import Relation

LEVEL = 0.95
"""Coverage of the intervals that `pgmjax query` prints."""
SYNTHETIC_FORMATS = ("parquet", "csv")
ROW_METHODS = ("round", "multinomial")
RELATIONS = [relation.value for relation in Relation]

JSON = option("--json", action="store_true", help="print the result as one JSON object")
QUIET = option("--quiet", action="store_true", help="print nothing, and show no progress")
NEW_FOLDER = option("--out", required=True, metavar="DIR", help="the folder to make; it must not exist yet")
CONDITIONS = option("condition", nargs="*", default=[], metavar="CONDITION", help="such as 'sex=Male,age<30'")
DEMO = option("--demo", action="store_true", help=f"use {demo.NAME}, a real public table, instead of TABLE")
WORKLOAD = option(
    "--workload",
    metavar="FILE",
    help='JSON file of what to measure and answer, such as [["age", "sex"], ["job"]]; more in docs/start.md',
)
ALL_KWAY = option(
    "--all-kway",
    type=int,
    metavar="K",
    help="instead of --workload: all marginals of K attributes; 2 asks for every pair",
)
ENCODING = option(
    "--encoding",
    dest="text_encoding",
    metavar="NAME",
    help="encoding of a text file, such as cp1252 (default: utf-8, or utf-16 if the file begins with a "
    "byte-order mark)",
)
NO_HEADER = option(
    "--no-header",
    action="store_true",
    help="the first line holds no names: the columns are in the order of the domain",
)
FILE_FORM = (NO_HEADER, ENCODING)
"""How a text file is read."""
WEIGHTS = (
    option("--weights", metavar="NAME", help="column with the weights of records (whole numbers)"),
    option("--max-weight", type=int, metavar="N", help="public upper bound on a record's weight"),
)
UNIT = (
    option(
        "--unit",
        metavar="COLUMN",
        help="protect all records that share a value of this column, such as all records of one person "
        "(default: protect one record)",
    ),
    option(
        "--max-records",
        type=int,
        metavar="K",
        help="with --unit: at most K records of each unit count, chosen at random. More noise is added for a "
        "larger K",
    ),
)
INSECURE_SEED = option(
    "--insecure-seed",
    type=int,
    metavar="N",
    help="make the noise from this seed, so that it can be repeated. Such noise protects nobody: for "
    "research only",
)
LEDGER = (
    option(
        "--ledger",
        metavar="FILE",
        help="charge the cost to the table's account in this ledger, which pgmjax ledger init made",
    ),
    option(
        "--key",
        metavar="NAME",
        help="with --ledger: a name for this run. The same command with the same name returns the same "
        "answers and costs nothing more (default: a name made from the request)",
    ),
    option(
        "--holder-log",
        metavar="FILE",
        help="with --ledger, error messages show nothing of the table: write the details to FILE, which only "
        "people who may see the table should read",
    ),
    INSECURE_SEED,
)
DELTA = option(
    "--delta",
    action="once",
    default="0",
    metavar="D",
    help="the delta of (epsilon, delta)-differential privacy, such as 1e-9 (default: 0)",
)
ESCAPE_FORMULAS = option(
    "--escape-formulas",
    action="store_true",
    help="in CSV files, put an apostrophe before labels that begin with = + - or @, so that no "
    "spreadsheet takes them for formulas. Numbers stay as they are",
)
PRIOR = option(
    "--from",
    dest="prior",
    metavar="DIR",
    help="the folder of an earlier release over the same domain. Where nothing is measured now, the "
    "model stays close to that one. The costs of both are added up",
)
FIT_AND_OUTPUT = (
    option(
        "--steps", type=int, default=3000, metavar="N", help="the largest number of steps of the fit (3000)"
    ),
    option("--solver", default="auto", metavar="NAME", help="the solver of the fit (auto)"),
    option(
        "--loss",
        default="l2",
        choices=["l2", "l1"],
        help="what the fit makes small: squared deviations from the noisy counts (l2) or absolute ones (l1)",
    ),
    option(
        "--oracle",
        default="auto",
        metavar="NAME",
        help="what computes marginals: auto (default: the cheapest by forecast), host, contraction, levels, "
        "chain, sliced or message_passing",
    ),
    option(
        "--devices",
        type=int,
        default=1,
        metavar="N",
        help="how many devices of this machine share a fit that only fits in memory in slices, and the fits "
        "of error bars (1)",
    ),
    option(
        "--regularisation",
        default="auto",
        metavar="W",
        help="how strongly to pull the model towards independent attributes, so that it follows less of the "
        "noise: a number of records, auto (default: chosen by the noise) or none",
    ),
    # a release is fitted only once: float64 costs little and certifies a smaller gap
    option(
        "--dtype",
        default="float64",
        choices=["float32", "float64"],
        help="the precision of the fit (float64); float32 needs half the memory",
    ),
    option(
        "--rows",
        type=int,
        metavar="N",
        help="the number of synthetic rows (default: the estimated number of records, at most 10 million)",
    ),
    option(
        "--method",
        default=ROW_METHODS[0],
        choices=ROW_METHODS,
        help="how synthetic rows are drawn. round (default): as close to the model as whole numbers of rows "
        "allow. multinomial: independently of one another, which adds sampling error",
    ),
    option(
        "--synthetic",
        default="parquet",
        choices=SYNTHETIC_FORMATS,
        help="format of the synthetic rows (parquet)",
    ),
    option(
        "--codes", action="store_true", help="write synthetic rows as codes of the domain instead of values"
    ),
    ESCAPE_FORMULAS,
    option("--out", metavar="DIR", help="the folder to make; it must not exist yet"),
    JSON,
    QUIET,
)


def table(nargs: str | None = "?") -> Option:
    """Return the name of a table, which may be left out where there is another way to name one."""
    return option(
        "table", nargs=nargs, metavar="TABLE", help="the table to read: .csv, .csv.gz, .tsv, .parquet, .xlsx"
    )


def budget(required: bool = True) -> tuple[Option, ...]:
    """Return the budget and the relation, which is kept as text, so that 0.1 is exactly one tenth."""
    return (
        option(
            "--epsilon",
            action="once",
            required=required,
            metavar="E",
            help="the privacy budget, such as 1, 0.1 or 1/3; a smaller one protects more, with more noise",
        ),
        option(
            "--relation",
            action="once",
            required=required,
            choices=RELATIONS,
            help="what an observer may not notice: that a record was added or removed (add-remove; the "
            "number of records is secret), or that it was replaced by another (replace-one; the number of "
            "records is public). There is no default",
        ),
    )


def rows_outside(otherwise: str, ways: Any = ROWS_OUTSIDE) -> Option:
    """Return what becomes of values outside the domain, and what happens without this option."""
    missing = "count a value as missing (missing)"
    others = f"{missing}, or leave the record out (drop)" if "drop" in ways else f"or {missing}"
    return option(
        "--rows-outside",
        choices=ways,
        help="what to do with values that are not in the domain: count a number in the first or last bin "
        f"(clip), {others}. Without this option such a table is "
        f"refused{otherwise}",
    )
