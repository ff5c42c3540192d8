"""Options of `pgmjax mechanisms`, `audit` and `bench`: how good mechanisms are, and how safe."""

from pgmjax.cli.options.command import Command, one_of, option
from pgmjax.cli.options.release import MECHANISMS as NAMES
from pgmjax.cli.options.shared import ALL_KWAY, DELTA, JSON, WORKLOAD, budget

_NO_PROGRESS = option("--quiet", action="store_true", help="show no progress")
MECHANISMS = Command(
    "mechanisms",
    help="list the mechanisms, or recommend one",
    description="List the mechanisms and their options. `pgmjax mechanisms compare` recommends one.",
    options=(JSON,),
    parts=(
        Command(
            "compare",
            help="recommend a mechanism, from its errors on simulated tables",
            description="Run mechanisms on simulated tables of your domain, with your workload, budget and "
            "number of records, and recommend the one with the least error. No table is read and no budget "
            "is spent. Your table is not like the simulated ones, so another mechanism may be the best "
            "for it.",
            example="pgmjax mechanisms compare --domain people.yaml --all-kway 2 --epsilon 1 --relation "
            "add-remove --records 10000",
            options=(
                option("--domain", required=True, metavar="FILE", help="the domain file: .json or .yaml"),
                one_of(WORKLOAD, ALL_KWAY, required=True),
                *budget(),
                DELTA,
                option(
                    "--records",
                    type=int,
                    required=True,
                    metavar="N",
                    help="the number of records, or a guess if it is secret. A guess must not come from the "
                    "table",
                ),
                option(
                    "--max-records",
                    type=int,
                    metavar="K",
                    help="how many records of a person or another unit count, if units are protected "
                    "(default: a record is)",
                ),
                option(
                    "--mechanisms",
                    nargs="+",
                    choices=NAMES,
                    metavar="NAME",
                    help=f"the mechanisms to compare: {', '.join(NAMES)} (default: all)",
                ),
                option(
                    "--seeds",
                    type=int,
                    default=2,
                    metavar="S",
                    help="number of simulated tables of each kind (2)",
                ),
                option("--format", choices=["table", "json"], default="table", help="what to print (table)"),
                option(
                    "--json",
                    dest="format",
                    action="store_const",
                    const="json",
                    help="the same as --format json",
                ),
                _NO_PROGRESS,
            ),
            run="mechanisms:compare",
        ),
    ),
    run="mechanisms:run",
)
AUDIT = Command(
    "audit",
    help="test that mechanisms keep their privacy guarantee",
    description="Test whether mechanisms keep their privacy guarantee, on small synthetic tables. Each "
    "mechanism is run on pairs of neighbouring tables with the same noise, and its cost is recomputed from "
    "what it released. From many runs, a lower bound of its epsilon is estimated. Neighbouring tables of "
    "large privacy loss are searched for. The installed noise samplers are checked too. An audit is a test, "
    "not a proof.",
    example="pgmjax audit --mechanism all --json",
    options=(
        option(
            "--mechanism",
            metavar="NAME",
            help=f"all (the default), {', '.join(NAMES)}, or your own class as module:Class",
        ),
        option("--epsilon", default="1", metavar="E", help="epsilon that the mechanism claims (1)"),
        option(
            "--pairs", type=int, default=60, metavar="N", help="number of pairs of neighbouring tables (60)"
        ),
        option(
            "--runs",
            type=int,
            metavar="N",
            help="number of runs on each table, to estimate a lower bound of epsilon (default: 2000, or 0 if "
            "each run fits a model)",
        ),
        option(
            "--seconds",
            type=float,
            default=60,
            metavar="S",
            help="time for the search for the largest privacy loss (60); 0 leaves it out",
        ),
        option("--seed", type=int, default=0, metavar="N", help="seed of all random choices (0)"),
        option(
            "--processes",
            action="store_true",
            help="instead of mechanisms, audit whole commands: run them on neighbouring tables in files, and "
            "compare the files, output, exit codes and ledger rows (about a minute)",
        ),
        JSON,
    ),
    run="audit:run",
)
BENCH = Command(
    "bench",
    help="compare the errors of mechanisms over many tables; for research only",
    description="Run mechanisms on many tables, workloads and budgets, several times each, and show "
    "their errors on a page. Nothing here is private: errors are differences from the exact tables, and "
    "the noise can be repeated.",
    example="pgmjax bench run bench/grids/standard.toml",
    parts=(
        Command(
            "run",
            help="run what a grid file lists, as far as it has no result yet",
            description="Run a grid: every combination of its tables, workloads, mechanisms, epsilons and "
            "trials. Each is a cell, whose result is one row of a DuckDB file. If a run is interrupted, run "
            "the same command again: cells that are done are not repeated.",
            example="pgmjax bench run bench/grids/standard.toml --results standard.duckdb",
            options=(
                option("grid", metavar="GRID.toml", help="the grid to run, see docs/sweeps.md"),
                option(
                    "--results",
                    metavar="FILE",
                    help="file of results (default: the grid's name with .duckdb, in the current folder)",
                ),
                option(
                    "--list",
                    action="store_true",
                    help="list the cells and the memory they need, without running them",
                ),
                option(
                    "--retry-failed",
                    action="store_true",
                    help="run cells again that failed or were refused",
                ),
                option(
                    "--ray",
                    metavar="ADDRESS",
                    help="run on a Ray cluster: its address, auto, or local to start one on this machine",
                ),
                option(
                    "--gpus",
                    type=float,
                    metavar="N",
                    help="with --ray: GPUs for each task (default: one where the cluster has any, or the "
                    "grid's devices)",
                ),
                option(
                    "--retries",
                    type=int,
                    default=3,
                    metavar="N",
                    help="with --ray: how often to repeat a task whose worker was lost (3)",
                ),
                JSON,
                _NO_PROGRESS,
            ),
            run="bench:run",
        ),
        Command(
            "report",
            help="write the results as one HTML page",
            description="Write the results of a sweep to one HTML file that works offline.",
            example="pgmjax bench report standard.duckdb --out standard.html",
            options=(
                option("results", metavar="FILE", help="file of results"),
                option(
                    "--out",
                    metavar="PAGE.html",
                    help="the page to write (default: FILE's name with .html); an existing page is replaced",
                ),
                option("--sweep", metavar="NAME", help="the sweep to show, if the file holds several"),
            ),
            run="bench:report",
        ),
    ),
)
