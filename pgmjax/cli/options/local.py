"""Options of `pgmjax perturb`, `pgmjax respond` and `pgmjax collect`: local differential privacy."""

import argparse

from pgmjax.cli.options.command import Command, group, option
from pgmjax.cli.options.release import TABLE
from pgmjax.cli.options.shared import ESCAPE_FORMULAS, JSON, LEDGER, NEW_FOLDER, QUIET, budget, rows_outside

RESPONSES = ("parquet", "csv", "none")
ENCODINGS = ("direct", "optimal-unary", "symmetric-unary")
USELESS = ("refuse", "answer")
ROW_ORDERS = ("sorted", "public")
_TEXT_ENCODING = option(
    "--text-encoding",
    metavar="NAME",
    help="encoding of a text file, such as cp1252 (default: utf-8, or utf-16 if the file begins with a "
    "byte-order mark)",
)
_RESPONSE = (
    option(
        "--groups",
        action="append",
        default=[],
        metavar="NAMES",
        help="attributes to perturb together, such as age,sex. Can be repeated: the groups share epsilon "
        "equally",
    ),
    option("--each", action="store_true", help="instead of --groups: every attribute is a group of its own"),
    option(
        "--encoding",
        default="direct",
        choices=ENCODINGS,
        help="direct (default): the answer is one value. The others: the answer is one bit for each value, "
        "which is better if there are many values",
    ),
)
PERTURB = Command(
    "perturb",
    help="randomise each record by itself (local differential privacy), and write a folder",
    description="Replace the values of each record at random, by randomised response. This is local "
    "differential privacy: the perturbed rows themselves may be published. The command writes a folder "
    "with the guarantee (release.json), the rows for pgmjax.local.load (table/) and for other programs "
    "(responses.parquet). pgmjax query answers from it. If you need counts and not rows, pgmjax release "
    "has far less noise.",
    example="pgmjax perturb --demo --epsilon 2 --relation replace-one --out demo-perturbed, or "
    "with a table of your own: pgmjax perturb people.csv.gz --domain people.yaml --groups age,sex "
    "--groups region --epsilon 2 --relation replace-one --out people-perturbed",
    options=(
        group(
            "table and attributes",
            *(each for each in TABLE if each.names != ("--encoding",)),
            _TEXT_ENCODING,
            *(option(name, help=argparse.SUPPRESS) for name in ("--weights", "--max-weight")),  # refused
            rows_outside(". With --ledger, the table's account says what to do", ("clip", "missing")),
            *_RESPONSE,
            option(
                "--workload",
                metavar="FILE",
                help="instead of --groups: every attribute in this workload is a group",
            ),
            option(
                "--useless",
                default="refuse",
                choices=USELESS,
                help="what to do if the noise would be larger than what is estimated: refuse (default), or "
                "answer all the same",
            ),
            option(
                "--row-order",
                default="sorted",
                choices=ROW_ORDERS,
                help="sorted (default): by their answers. public: as in the table, whose order you promise "
                "to depend on no private value, such as all pairs of vertices of a graph in turn",
            ),
        ),
        group("privacy", *budget(), *LEDGER),
        group(
            "output",
            option(
                "--responses",
                default="parquet",
                choices=RESPONSES,
                help="format of the file of perturbed rows for other programs (parquet). It is left out if "
                "there are too many rows",
            ),
            ESCAPE_FORMULAS,
            NEW_FOLDER,
            JSON,
            QUIET,
        ),
    ),
    run="perturb:run",
)
RESPOND = Command(
    "respond",
    help="answer for one record by randomised response, with no table anywhere",
    description="Replace the values of one record at random (local differential privacy), and print the "
    "response as one line of JSON. Nothing else leaves this program: the response may be sent to anyone. "
    "pgmjax collect estimates from many. Each response costs its epsilon anew.",
    example="pgmjax respond sex=F age=34 --domain people.yaml --each --epsilon 2",
    options=(
        option("value", nargs="+", metavar="NAME=VALUE", help="a value of the record, such as sex=F"),
        option("--domain", required=True, metavar="FILE", help="domain file that the collector gave"),
        option("--epsilon", required=True, metavar="E", help="cost of the response, such as 2"),
        *_RESPONSE,
        option("--out", metavar="FILE", help="write the response to a new file instead"),
    ),
    run="perturb:respond_once",
)
COLLECT = Command(
    "collect",
    help="join responses of pgmjax respond that have arrived, and write a folder that pgmjax query reads",
    description="Join the responses that have arrived into a perturbed table, sorted by its answers. Run "
    "it again, into another folder, as more arrive. A response that arrives twice is refused.",
    example="pgmjax collect responses.jsonl --domain people.yaml --out people-perturbed",
    options=(
        option("file", nargs="+", metavar="FILE", help="responses: .json has one, .jsonl one in each line"),
        option("--domain", required=True, metavar="FILE", help="domain file that the respondents had"),
        NEW_FOLDER,
        JSON,
    ),
    run="perturb:collect_all",
)
