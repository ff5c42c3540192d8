"""Options of `pgmjax query`, `pgmjax look` and `pgmjax fit`: what was released, and what it says."""

from pgmjax.cli.options.command import Command, group, option
from pgmjax.cli.options.shared import CONDITIONS, FILE_FORM, FIT_AND_OUTPUT, JSON, LEVEL, PRIOR
from pgmjax.data.definition import ROWS_OUTSIDE

BARS = ("linear", "laplace", "bootstrap")
QUERY = Command(
    "query",
    help="query a release or a perturbed table: count rows that satisfy a condition, or print a marginal",
    description="Query the folder of a release, a fit or a perturbed table. Answers from a release "
    "come from its model, with a 95 % interval unless the noisy counts do not determine it. Answers from "
    "a perturbed table are unbiased estimates, each with its standard error and an interval that covers "
    f"the exact count with at least {LEVEL:.0%} probability. Queries cost no privacy.",
    notes="Join conditions by commas: NAME=VALUE, !=, <, <=, >, >=, or NAME in {VALUE|VALUE}. A "
    "bound between two edges of a binned attribute is interpolated, and the answer says so. Names and "
    "values may be in any case. ",
    example="pgmjax query DIR 'sex=Male,age<30'",
    options=(
        option(
            "folder",
            metavar="DIR",
            help="folder written by `pgmjax release`, `pgmjax fit` or `pgmjax perturb`",
        ),
        CONDITIONS,
        option(
            "--marginal",
            action="once",
            metavar="NAMES",
            help="print the counts of all cells of these attributes, such as age,income",
        ),
        option(
            "--mean",
            action="once",
            metavar="NAME",
            help="print the mean of this attribute, of all rows or of those that a condition counts, with an "
            "interval, and how far it may be off if values do not lie evenly in their bins",
        ),
        option(
            "--by",
            action="once",
            metavar="NAMES",
            help="with --mean, a mean for each value of these attributes, such as sex,region",
        ),
        option(
            "--workload",
            action="once",
            metavar="FILE",
            help="of a perturbed table: JSON file with any linear queries, such as sums and functions of a "
            "record with a number for each value; each is on attributes that were perturbed together",
        ),
        option(
            "--cut",
            action="append",
            default=[],
            metavar="VERTICES",
            help="of a perturbed graph: estimate how many edges join these vertices, such as 0,4,17, and all "
            "others. Its rows are the pairs of vertices in turn (0 and 1, 0 and 2, ...), perturbed with "
            "--row-order public. Can be repeated",
        ),
        option(
            "--proper",
            action="store_true",
            help="of a perturbed table: give in place of each unbiased estimate the nearest answer that a "
            "table of so many rows may have",
        ),
        option(
            "--error-bars",
            action="once",
            choices=BARS,
            help="give each answer with its standard error by this method: linear (least squares, without "
            "bias), laplace (the curvature of the loss) or bootstrap (fits to noise that is drawn anew, and "
            "their bias)",
        ),
        option(
            "--draws",
            action="once",
            type=int,
            metavar="N",
            help="give an interval also where the noisy counts do not determine the answer: of N draws of "
            "the model, such as 100, as if the model were right about what was not measured together. Takes "
            "seconds, of a large model minutes",
        ),
        JSON,
    ),
    run="query:run",
)
LOOK = Command(
    "look",
    help="compare a release with its private table; for the holder of the table alone",
    description="Compare the folder of a release with the table that it was made from: distances of "
    "columns, pairs and some triples, how many intervals hold the true answer, the worst cells, and what "
    "a classifier trained on synthetic rows gets right. NOT FOR PUBLICATION: everything is computed from "
    "the table without noise. The page is for its owner alone and in no release; neither the release nor "
    "a ledger changes.",
    example="pgmjax look people-release people.csv.gz --out look.html",
    options=(
        option("folder", metavar="DIR", help="folder written by `pgmjax release` or `pgmjax fit`"),
        option(
            "table",
            metavar="TABLE",
            help="the table that it was made from: .csv, .csv.gz, .tsv, .parquet, .xlsx",
        ),
        *FILE_FORM,
        option("--weights", metavar="NAME", help="column with the weights of records, if it has some"),
        option(
            "--rows-outside",
            choices=ROWS_OUTSIDE,
            help="what happens to values that are not in the domain (default: what the release says)",
        ),
        option(
            "--target",
            metavar="NAME",
            help="the column that a classifier of scikit-learn predicts from the others (default: the last "
            "one of 2 to 20 values)",
        ),
        option("--out", metavar="PAGE.html", help="the page to write; it must not exist yet"),
        JSON,
    ),
    run="look:run",
)
FIT = Command(
    "fit",
    help="fit a model to noisy counts that were published elsewhere",
    description="Read noisy counts from a file, fit one model to them, and write a folder with a report "
    "(report.html), the model and synthetic rows. The file has a column for each attribute, a column "
    "'value' for the counts, and a column 'stddev' for the standard deviation of their noise. Where a "
    "count is a sum over all values of an attribute, its column is empty. Cells that were not published "
    "are left out. Answers to other queries come in a file with a column 'query' for conditions, or in "
    "a .json file. No private table is read and no budget is spent.",
    example="pgmjax fit counts.csv --domain people.yaml --stddev 5 --out people-model",
    options=(
        group(
            "published counts",
            option(
                "measurements",
                metavar="FILE",
                help="the answers, .csv, .parquet or .json, such as the measurements.parquet of a release",
            ),
            option(
                "--domain",
                required=True,
                metavar="FILE",
                help="the domain file: .json or .yaml",
            ),
            option(
                "--stddev",
                type=float,
                metavar="S",
                help="the standard deviation of the noise of every count, if FILE has no such column",
            ),
            option(
                "--rounded-to",
                type=float,
                metavar="B",
                help="if all counts were rounded, the number of which they are multiples, such as 5",
            ),
            option(
                "--total",
                type=float,
                metavar="N",
                help="the number of records (default: estimated from the counts)",
            ),
            option(
                "--constraints",
                metavar="FILE",
                help="a JSON list of what is known exactly and is public, such as impossible combinations or "
                "a census of the same people (docs/constraints.md)",
            ),
            PRIOR,
        ),
        group(
            "fit and output",
            option(
                "--approximate",
                action="store_true",
                help="where no exact model fits in memory, or one takes more than an hour, fit an "
                "approximate one",
            ),
            *FIT_AND_OUTPUT,
        ),
    ),
    run="fit:run",
)
