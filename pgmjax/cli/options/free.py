"""Options of the commands that spend no budget: `query`, `mechanisms`, `domain`, `fit`, `audit`, `bench`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from pgmjax.cli.options import release
from pgmjax.cli.options.release import MECHANISMS
from pgmjax.data.definition import ROWS_OUTSIDE

LEVEL = 0.95
"""Coverage of the intervals that `pgmjax query` prints."""
BARS = ("linear", "laplace", "bootstrap")
_DESCRIPTION = (
    "Test whether mechanisms keep their privacy guarantee, on small synthetic tables. Each mechanism is run "
    "on pairs of neighbouring tables with the same noise, and its cost is recomputed from what it released. "
    "From many runs, a lower bound of its epsilon is estimated. Neighbouring tables of large privacy loss "
    "are searched for. The installed noise samplers are checked too. An audit is a test, not a proof."
)


def add_domain(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "domain",
        help="write a draft of a domain file, or check a table against one",
        description="Write a draft of a domain file from the names of a table's columns, check a table "
        "against a domain file, or print the JSON Schema of domain files.",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_draft(parts)
    _add_check(parts)
    schema = parts.add_parser(
        "schema",
        help="print the JSON Schema of a domain file",
        description="Print the JSON Schema (draft 2020-12) of a domain file. An editor can use it to "
        "complete and check the file.",
    )
    schema.set_defaults(run="domain:_print_schema")


def _add_draft(parts: Any) -> None:
    draft = parts.add_parser(
        "draft",
        help="write a draft from the names and types of the columns",
        description="Write a draft of a domain file from the names of the columns and, in Parquet, their "
        "types. The names and types are taken to be public. No value is read.",
        epilog="Example: pgmjax domain draft people.csv --out people.yaml",
    )
    draft.add_argument("table", metavar="FILE", help=".csv, .csv.gz, .tsv, .parquet, ...")
    draft.add_argument(
        "--out", metavar="FILE", help="domain file to write, .yaml or .json (default: print it)"
    )
    _add_form(draft)
    _add_hidden(draft)
    draft.add_argument(
        "--public", action="store_true", help="also read the values; only for a table that is already public"
    )
    draft.add_argument(
        "--max-labels",
        type=int,
        default=100,
        metavar="N",
        help="with --public: the largest number of labels or cells for a column (100)",
    )
    draft.set_defaults(run="domain:_draft")


def _add_check(parts: Any) -> None:
    check = parts.add_parser(
        "check",
        help="count the rows of a table that do not fit a domain",
        description="Count, column by column, the rows that do not fit the domain. The counts are exact: "
        "show them only to people who may see the table. Exits with 1 if there are any such rows.",
        epilog="Example: pgmjax domain check people.csv people.yaml --holder-log bad.csv",
    )
    check.add_argument("table", metavar="FILE", help="the table")
    check.add_argument("domain", metavar="DOMAIN", help="the domain file")
    _add_form(check)
    _add_hidden(check)
    check.add_argument(
        "--holder-log",
        metavar="FILE",
        help="write the values that do not fit to FILE, which only people who may see the table should read",
    )
    check.set_defaults(run="domain:_check")


def _add_hidden(parser: Any) -> None:
    """Add the options that name columns which have no entry in the domain file."""
    group = parser.add_argument_group("columns that are not in the domain file")
    release.add_unit_options(group)
    release.add_weight_options(group)


def _add_form(parser: Any) -> None:
    parser.add_argument("--encoding", metavar="NAME", help="encoding of a text file, such as cp1252 (UTF-8)")
    parser.add_argument(
        "--no-header",
        action="store_true",
        help="the first line holds no names: the columns are in the order of the domain (in a draft: "
        "column1, column2, ...)",
    )


def add_fit(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "fit",
        help="fit a model to noisy counts that were published elsewhere",
        description="Read noisy counts from a file, fit one model to them, and write a folder with a report "
        "(report.html), the model and synthetic rows. The file has a column for each attribute, a column "
        "'value' for the counts, and a column 'stddev' for the standard deviation of their noise. Where a "
        "count is a sum over all values of an attribute, its column is empty. Cells that were not published "
        "are left out. Answers to other queries come in a file with a column 'query' for conditions, or in "
        "a .json file. No private table is read and no budget is spent.",
        epilog="Example: pgmjax fit counts.csv --domain people.yaml --stddev 5 --out people-model",
    )
    group = parser.add_argument_group("published counts")
    group.add_argument(
        "measurements",
        metavar="FILE",
        help="the answers, .csv, .parquet or .json, such as the measurements.parquet of a release",
    )
    group.add_argument(
        "--domain", required=True, metavar="FILE", help="domain file of the attributes: .json or .yaml"
    )
    group.add_argument(
        "--stddev",
        type=float,
        metavar="S",
        help="the standard deviation of the noise of every count, if FILE has no such column",
    )
    group.add_argument(
        "--rounded-to",
        type=float,
        metavar="B",
        help="if all counts were rounded, the number of which they are multiples, such as 5",
    )
    group.add_argument(
        "--total", type=float, metavar="N", help="the number of records (default: estimated from the counts)"
    )
    _add_facts(group)
    release.add_prior_option(group)
    output = parser.add_argument_group("fit and output")
    _add_approximate(output)
    release.add_output_options(output)
    parser.set_defaults(run="fit:run", usage_error=parser.error)


def _add_facts(group: Any) -> None:
    group.add_argument(
        "--constraints",
        metavar="FILE",
        help="a JSON list of what is known exactly and is public, such as impossible combinations or a "
        "census of the same people (docs/constraints.md)",
    )


def _add_approximate(output: Any) -> None:
    output.add_argument(
        "--approximate",
        action="store_true",
        help="where no exact model fits in memory, or one takes more than an hour, fit an approximate one",
    )


def add_query(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "query",
        help="query a release or a perturbed table: count rows that satisfy a condition, or print a marginal",
        description="Query the folder of a release, a fit or a perturbed table. Answers from a release "
        "come from its model, with a 95 % interval unless the noisy counts do not determine it. Answers from "
        "a perturbed table are unbiased estimates, each with its standard error and an interval that covers "
        f"the exact count with at least {LEVEL:.0%} probability. Queries cost no privacy.",
        epilog="Join conditions by commas: NAME=VALUE, !=, <, <=, >, >=, or NAME in {VALUE|VALUE}. A "
        "bound between two edges of a binned attribute is interpolated, and the answer says so. Names and "
        "values may be in any case. Example: pgmjax query DIR "
        "'sex=Male,age<30'",
    )
    parser.add_argument(
        "folder", metavar="DIR", help="folder written by `pgmjax release`, `pgmjax fit` or `pgmjax perturb`"
    )
    parser.add_argument(
        "condition", nargs="*", default=[], metavar="CONDITION", help="such as 'sex=Male,age<30'"
    )
    parser.add_argument(
        "--marginal",
        action="once",
        metavar="NAMES",
        help="print the counts of all cells of these attributes, such as age,income",
    )
    parser.add_argument(
        "--error-bars",
        action="once",
        choices=BARS,
        help="give each answer with its standard error by this method: linear (least squares, without "
        "bias), laplace (the curvature of the loss) or bootstrap (fits to noise that is drawn anew, and "
        "their bias)",
    )
    parser.add_argument(
        "--draws",
        action="once",
        type=int,
        metavar="N",
        help="give an interval also where the noisy counts do not determine the answer: of N draws of the "
        "model, such as 100, as if the model were right about what was not measured together. Takes seconds, "
        "of a large model minutes",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="query:run")


def add_look(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "look",
        help="compare a release with its private table; for the holder of the table alone",
        description="Compare the folder of a release with the table that it was made from: distances of "
        "columns, pairs and some triples, how many intervals hold the true answer, the worst cells, and what "
        "a classifier trained on synthetic rows gets right. NOT FOR PUBLICATION: everything is computed from "
        "the table without noise. The page is for its owner alone and in no release; neither the release nor "
        "a ledger changes.",
        epilog="Example: pgmjax look people-release people.csv.gz --out look.html",
    )
    parser.add_argument("folder", metavar="DIR", help="folder written by `pgmjax release` or `pgmjax fit`")
    parser.add_argument(
        "table", metavar="TABLE", help="the table that it was made from: .csv, .csv.gz, .tsv, .parquet, .xlsx"
    )
    release.add_file_options(parser)
    parser.add_argument(
        "--weights", metavar="NAME", help="column with the weights of records, if it has some"
    )
    parser.add_argument(
        "--rows-outside",
        choices=ROWS_OUTSIDE,
        help="what happens to values that are not in the domain (default: what the release says)",
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the column that a classifier of scikit-learn predicts from the others (default: the last one "
        "of 2 to 20 values)",
    )
    parser.add_argument("--out", metavar="PAGE.html", help="the page to write; it must not exist yet")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="look:run")


def add_mechanisms(commands: Any) -> None:
    """Add the command and its subcommand to the parser's subcommands."""
    parser = commands.add_parser(
        "mechanisms",
        help="list the mechanisms, or recommend one",
        description="List the mechanisms and their options. `pgmjax mechanisms compare` recommends one.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="query:run_mechanisms")
    _add_compare(parser.add_subparsers(title="commands", metavar="[COMMAND]"))


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="recommend a mechanism, from its errors on simulated tables",
        description="Run mechanisms on simulated tables of your domain, with your workload, budget and "
        "number of records, and recommend the one with the least error. No table is read and no budget is "
        "spent. Your table is not like the simulated ones, so another mechanism may be the best for it.",
        epilog="Example: pgmjax mechanisms compare --domain people.yaml --all-kway 2 --epsilon 1 --relation "
        "add-remove --records 10000",
    )
    parser.add_argument("--domain", required=True, metavar="FILE", help="the domain file: .json or .yaml")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--workload", metavar="FILE", help="JSON file that lists the queries to answer")
    asked.add_argument(
        "--all-kway",
        type=int,
        metavar="K",
        help="instead of --workload: all marginals of K attributes; 2 asks for every pair",
    )
    release.add_epsilon_options(parser, required=True)
    parser.add_argument(
        "--delta",
        default="0",
        metavar="D",
        help="the delta of (epsilon, delta)-differential privacy, such as 1e-9 (default: 0)",
    )
    parser.add_argument(
        "--records",
        type=int,
        required=True,
        metavar="N",
        help="the number of records, or a guess if it is secret. A guess must not come from the table",
    )
    parser.add_argument(
        "--mechanisms",
        nargs="+",
        choices=MECHANISMS,
        metavar="NAME",
        help=f"the mechanisms to compare: {', '.join(MECHANISMS)} (default: all)",
    )
    parser.add_argument(
        "--seeds", type=int, default=2, metavar="S", help="number of simulated tables of each kind (2)"
    )
    parser.add_argument("--format", choices=["table", "json"], default="table", help="what to print (table)")
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run="compare:run")


def add_audit(commands: Any, main: Callable[[Sequence[str]], int]) -> None:
    """Add the command to the parser's subcommands.

    Args:
        commands: the subcommands.
        main: runs any command, for `--processes`.
    """
    parser = commands.add_parser(
        "audit",
        help="test that mechanisms keep their privacy guarantee",
        description=_DESCRIPTION,
        epilog="Example: pgmjax audit --mechanism all --json",
    )
    parser.add_argument(
        "--mechanism",
        type=_mechanisms,
        metavar="NAME",
        help=f"all (the default), {', '.join(MECHANISMS)}, or your own class as module:Class",
    )
    parser.add_argument("--epsilon", default="1", metavar="E", help="epsilon that the mechanism claims (1)")
    parser.add_argument(
        "--pairs", type=int, default=60, metavar="N", help="number of pairs of neighbouring tables (60)"
    )
    parser.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help="number of runs on each table, to estimate a lower bound of epsilon (default: 2000, or 0 if "
        "each run fits a model)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60,
        metavar="S",
        help="time for the search for the largest privacy loss (60); 0 leaves it out",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random choices (0)")
    parser.add_argument(
        "--processes",
        action="store_true",
        help="instead of mechanisms, audit whole commands: run them on neighbouring tables in files, and "
        "compare the files, output, exit codes and ledger rows (about a minute)",
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
        help="compare the errors of mechanisms over many tables; for research only",
        description="Run mechanisms on many tables, workloads and budgets, several times each, and show "
        "their errors on a page. Nothing here is private: errors are differences from the exact tables, and "
        "the noise can be repeated.",
        epilog="Example: pgmjax bench run bench/grids/standard.toml",
    )
    own = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_bench_run(own)
    _add_bench_report(own)


def _add_bench_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run what a grid file lists, as far as it has no result yet",
        description="Run a grid: every combination of its tables, workloads, mechanisms, epsilons and "
        "trials. Each is a cell, whose result is one row of a DuckDB file. If a run is interrupted, run the "
        "same command again: cells that are done are not repeated.",
        epilog="Example: pgmjax bench run bench/grids/standard.toml --results standard.duckdb",
    )
    parser.add_argument("grid", metavar="GRID.toml", help="the grid to run, see docs/sweeps.md")
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="file of results (default: the grid's name with .duckdb, in the current folder)",
    )
    parser.add_argument(
        "--list", action="store_true", help="list the cells and the memory they need, without running them"
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="run cells again that failed or were refused"
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run on a Ray cluster: its address, auto, or local to start one on this machine",
    )
    parser.add_argument(
        "--gpus",
        type=float,
        metavar="N",
        help="with --ray: GPUs for each task (default: one where the cluster has any, or the grid's devices)",
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=3,
        metavar="N",
        help="with --ray: how often to repeat a task whose worker was lost (3)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run="bench:run")


def _add_bench_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="write the results as one HTML page",
        description="Write the results of a sweep to one HTML file that works offline.",
        epilog="Example: pgmjax bench report standard.duckdb --out standard.html",
    )
    parser.add_argument("results", metavar="FILE", help="file of results")
    parser.add_argument(
        "--out",
        metavar="PAGE.html",
        help="the page to write (default: FILE's name with .html); an existing page is replaced",
    )
    parser.add_argument("--sweep", metavar="NAME", help="the sweep to show, if the file holds several")
    parser.set_defaults(run="bench:report")
