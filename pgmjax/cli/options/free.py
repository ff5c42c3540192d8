"""Options of the commands that spend no budget: `query`, `mechanisms`, `domain`, `fit`, `audit`, `bench`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from pgmjax.cli.options import release
from pgmjax.cli.options.release import MECHANISMS

LEVEL = 0.95
"""Coverage of the intervals that `pgmjax query` prints."""
AUDITED = (
    *MECHANISMS,
    *("table-calls", "online-weights", "session", "private-ratings", "similarity-mldp", "discovery"),
)
_DESCRIPTION = (
    "Audit mechanisms on small made-up tables: by replay on neighbouring tables with frozen "
    "noise (L1) and by a black-box lower bound of epsilon from many runs (L3), under both neighbouring "
    "relations, with and without delta; in many settings and in refusals, as far as there is time (the "
    "matrix); on neighbours found by a search for the largest privacy loss; and check the noise as it is "
    "installed. This is testing and no proof."
)


def add_domain(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "domain",
        help="begin a domain file, or check a table against one",
        description="Begin a domain file from the names of a table's columns, check a table against one, or "
        "print the JSON Schema of all domain files.",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_draft(parts)
    _add_check(parts)
    schema = parts.add_parser(
        "schema",
        help="print the JSON Schema of a domain file",
        description="Print the JSON Schema (draft 2020-12) of a domain file, by which an editor completes "
        "and checks it.",
    )
    schema.set_defaults(run="domain:_print_schema")


def _add_draft(parts: Any) -> None:
    draft = parts.add_parser(
        "draft",
        help="write a skeleton from the names and types of the columns",
        description="Write a skeleton of a domain file from what is public by itself: the names of the "
        "columns and, in Parquet, their types. No value is read.",
        epilog="Example: pgmjax domain draft people.csv --out people.yaml",
    )
    draft.add_argument("table", metavar="FILE", help=".csv, .csv.gz, .tsv, .parquet, ...")
    draft.add_argument(
        "--out", metavar="FILE", help="the domain file to make, .yaml or .json; else it is printed"
    )
    _add_encoding(draft)
    draft.add_argument("--unit", metavar="COLUMN", help="leave out the column that names whom to protect")
    draft.add_argument(
        "--public", action="store_true", help="read values too: only for a table that is public as it is"
    )
    draft.add_argument(
        "--max-labels",
        type=int,
        default=100,
        metavar="N",
        help="with --public: the most labels, or cells, of a column (100)",
    )
    draft.set_defaults(run="domain:_draft")


def _add_check(parts: Any) -> None:
    check = parts.add_parser(
        "check",
        help="count the rows of a table that a domain has no place for",
        description="Count, column by column, the rows that a domain has no place for. The counts are exact "
        "and for the table's holder alone. Exits with 1 if there are any.",
        epilog="Example: pgmjax domain check people.csv people.yaml --holder-log bad.csv",
    )
    check.add_argument("table", metavar="FILE", help="the table")
    check.add_argument("domain", metavar="DOMAIN", help="the domain file")
    _add_encoding(check)
    check.add_argument("--no-header", action="store_true", help="columns are unnamed, in the domain's order")
    check.add_argument(
        "--holder-log", metavar="FILE", help="write the offending values, for the holder alone"
    )
    check.set_defaults(run="domain:_check")


def _add_encoding(parser: Any) -> None:
    parser.add_argument("--encoding", metavar="NAME", help="of a text file, such as cp1252 (UTF-8)")


def add_fit(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "fit",
        help="fit a model to noisy counts that were published elsewhere",
        description="Read noisy counts from a file, fit one model to them and write a folder: fit.json, "
        "model/, measurements.parquet, synthetic rows and report.html. The file has a column for each "
        "attribute (empty where a count is summed over it), value, and stddev, the standard deviation of the "
        "noise; cells that were not published are left out. No table is read and no budget spent.",
        epilog="Example: pgmjax fit counts.csv --domain people.yaml --stddev 5 --out people-model",
    )
    group = parser.add_argument_group("published numbers")
    group.add_argument(
        "measurements", metavar="FILE", help=".csv or .parquet; measurements.parquet of a release"
    )
    group.add_argument("--domain", required=True, metavar="FILE", help="the attributes: .json or .yaml")
    group.add_argument(
        "--stddev", type=float, metavar="S", help="of all noise, where FILE has no such column"
    )
    group.add_argument(
        "--rounded-to", type=float, metavar="B", help="all numbers were rounded to multiples of B, such as 5"
    )
    group.add_argument(
        "--total", type=float, metavar="N", help="number of records (estimated from the tables)"
    )
    release.add_prior_option(group)
    release.add_output_options(parser.add_argument_group("fit and output"))
    parser.set_defaults(run="fit:run", usage_error=parser.error)


def add_query(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "query",
        help="ask a release or a perturbed table: how many rows satisfy a condition, or a marginal",
        description="Ask a folder. A release answers from its model, each with a 95 % "
        "interval of the noisy counts where these determine the answer. A perturbed table answers by "
        f"unbiased estimates, each with its standard error and an interval that holds for every table with "
        f"at least {LEVEL:.0%} probability. Answers cost no privacy.",
        epilog="Conditions are joined by commas: NAME=VALUE, !=, <, <=, >, >=, or NAME in {VALUE|VALUE}. A "
        "bound on a binned attribute must be one of its edges. Example: pgmjax query DIR 'sex=Male,age<30'",
    )
    parser.add_argument(
        "folder", metavar="DIR", help="folder written by `pgmjax release`, `pgmjax fit` or `pgmjax perturb`"
    )
    parser.add_argument("condition", nargs="*", metavar="CONDITION", help="such as 'sex=Male,age<30'")
    parser.add_argument("--marginal", metavar="NAMES", help="all cells of attributes, such as age,income")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="query:run")


def add_mechanisms(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser("mechanisms", help="list the mechanisms", description="List the mechanisms.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="query:run_mechanisms")


def add_audit(commands: Any, main: Callable[[Sequence[str]], int]) -> None:
    """Add the command to the parser's subcommands.

    Args:
        commands: the subcommands.
        main: runs any command, for `--processes`.
    """
    parser = commands.add_parser(
        "audit",
        help="test that mechanisms keep what they claim",
        description=_DESCRIPTION,
        epilog="Example: pgmjax audit --mechanism all --json",
    )
    parser.add_argument(
        "--mechanism",
        type=_mechanisms,
        metavar="NAME",
        help=f"all (the default), {', '.join(AUDITED)}, or your own class as module:Class",
    )
    parser.add_argument("--epsilon", default="1", metavar="E", help="what is claimed (1)")
    parser.add_argument(
        "--pairs", type=int, default=60, metavar="N", help="neighbouring tables to replay (60)"
    )
    parser.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help="black-box runs a table (2000, none where each fits a model); 0 makes none",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=180,
        metavar="S",
        help="time for the matrix (two thirds of it) and the search (180); 0 leaves them out",
    )
    parser.add_argument(
        "--no-coverage",
        dest="coverage",
        action="store_false",
        help="do not watch which lines of the library the matrix reaches, which slows it down",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of tables, settings and noise (0)")
    parser.add_argument("--mutants", action="store_true", help="also apply every seeded bug and list them")
    parser.add_argument(
        "--processes",
        action="store_true",
        help="instead of mechanisms: replay whole commands on neighbouring tables in files, and compare "
        "files, output, exit codes and the ledger's rows (about a minute)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="audit:run", main=main)


def _mechanisms(text: str) -> Any:
    """Return the mechanism classes that the option names."""
    return importlib.import_module("pgmjax.cli.audit").mechanisms_named(text)


def add_bench(commands: Any) -> None:
    """Add the command and its subcommands to the parser's subcommands."""
    parser = commands.add_parser(
        "bench",
        help="sweep mechanisms over tables and show their errors; for research only",
        description="Sweep mechanisms over tables, workloads, budgets and trials, and make a page of "
        "their errors. Errors are taken against the exact tables and noise is seeded: nothing is private.",
        epilog="Example: pgmjax bench run bench/grids/standard.toml",
    )
    own = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_bench_run(own)
    _add_bench_report(own)


def _add_bench_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run what a sweep's file of results does not hold yet",
        description="Run a grid: tables x workloads x mechanisms x epsilons x trials. Each cell's result is "
        "one row of a DuckDB file, stored as soon as its trials are done; a run that was stopped or killed "
        "goes on where it was, and no cell is run twice.",
        epilog="Example: pgmjax bench run bench/grids/standard.toml --results standard.duckdb",
    )
    parser.add_argument("grid", metavar="GRID.toml", help="what to run, see docs/sweeps.md")
    parser.add_argument(
        "--results", metavar="FILE", help="file of results (the grid's name and .duckdb, here)"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the cells and their memory, and run nothing"
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="run cells again that failed or were refused"
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="run on a Ray cluster: its address, auto, or local to start one here"
    )
    parser.add_argument("--gpus", type=float, default=0.0, metavar="N", help="with --ray: GPUs of a task (0)")
    parser.add_argument(
        "--retries", type=int, default=3, metavar="N", help="with --ray: runs again whose worker was lost (3)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run="bench:run")


def _add_bench_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="write the results as one HTML page",
        description="Write the results of a sweep as one HTML file that needs no network.",
        epilog="Example: pgmjax bench report standard.duckdb --out standard.html",
    )
    parser.add_argument("results", metavar="FILE", help="file of results")
    parser.add_argument("--out", metavar="PAGE.html", help="the page (FILE's name and .html); it is replaced")
    parser.add_argument("--sweep", metavar="NAME", help="where the file holds several: which")
    parser.set_defaults(run="bench:report")
