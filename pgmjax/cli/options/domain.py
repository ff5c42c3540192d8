"""Options of `pgmjax domain`."""

from pgmjax.cli.options.command import Command, group, option
from pgmjax.cli.options.shared import UNIT, WEIGHTS

_FORM = (
    option("--encoding", metavar="NAME", help="encoding of a text file, such as cp1252 (UTF-8)"),
    option(
        "--no-header",
        action="store_true",
        help="the first line holds no names: the columns are in the order of the domain (in a draft: "
        "column1, column2, ...)",
    ),
)
_HIDDEN = group("columns that are not in the domain file", *UNIT, *WEIGHTS)
DOMAIN = Command(
    "domain",
    help="write a draft of a domain file, or check a table against one",
    description="Write a draft of a domain file from the names of a table's columns, check a table "
    "against a domain file, or print the JSON Schema of domain files.",
    parts=(
        Command(
            "draft",
            help="write a draft from the names and types of the columns",
            description="Write a draft of a domain file from the names of the columns and, in Parquet, their "
            "types. The names and types are taken to be public. No value is read.",
            example="pgmjax domain draft people.csv --out people.yaml",
            options=(
                option("table", metavar="TABLE", help=".csv, .csv.gz, .tsv, .parquet, ..."),
                option(
                    "--out", metavar="FILE", help="domain file to write, .yaml or .json (default: print it)"
                ),
                *_FORM,
                _HIDDEN,
                option(
                    "--public",
                    action="store_true",
                    help="also read the values; only for a table that is already public",
                ),
                option(
                    "--max-labels",
                    type=int,
                    metavar="N",
                    help="with --public: the largest number of labels or cells for a column (100)",
                ),
            ),
            run="domain:_draft",
        ),
        Command(
            "check",
            help="count the rows of a table that do not fit a domain",
            description="Count, column by column, the rows that do not fit the domain. The counts are exact: "
            "show them only to people who may see the table. Exits with 1 if there are any such rows.",
            example="pgmjax domain check people.csv people.yaml --holder-log bad.csv",
            options=(
                option("table", metavar="TABLE", help="the table"),
                option("domain", metavar="DOMAIN", help="the domain file"),
                *_FORM,
                _HIDDEN,
                option(
                    "--holder-log",
                    metavar="FILE",
                    help="write the values that do not fit to FILE, which only people who may see the table "
                    "should read",
                ),
            ),
            run="domain:_check",
        ),
        Command(
            "schema",
            help="print the JSON Schema of a domain file",
            description="Print the JSON Schema (draft 2020-12) of a domain file. An editor can use it to "
            "complete and check the file.",
            run="domain:_print_schema",
        ),
    ),
)
