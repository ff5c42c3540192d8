"""Options of `pgmjax similarities`."""

from __future__ import annotations

from typing import Any

from pgmjax.cli.options.history import LEARNERS
from pgmjax.cli.options.release import add_epsilon_options

MEASURES = ("cosine", "pearson", "inner_product")
PROTECTS = ("record", "rating")


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "similarities",
        help="learn how alike records are that rated items",
        description="Measure the similarities of some pairs of records with noise, learn them, and predict "
        "the similarity of any pair. The file has the columns record, item and rating; records and items are "
        "numbered from 0. Who and what is rated, and the scale, are public.",
        epilog="Example: pgmjax similarities ratings.csv 3,17 4,9 --records 671 --items 9066 --scale 0.5,5 "
        "--protect record --epsilon 1 --relation replace-one",
    )
    parser.add_argument("ratings", metavar="RATINGS", help="the private ratings, .csv")
    parser.add_argument("pair", nargs="*", metavar="RECORD,RECORD", help="a pair of records, such as 3,17")
    parser.add_argument("--records", type=int, required=True, metavar="N", help="the number of records")
    parser.add_argument("--items", type=int, required=True, metavar="N", help="the number of items")
    parser.add_argument("--scale", metavar="LOW,HIGH", help="the least and the largest rating, such as 1,5")
    add_epsilon_options(parser, required=True)
    parser.add_argument(
        "--protect",
        required=True,
        choices=PROTECTS,
        help="what an observer may not notice: that all ratings of a record were replaced, or one rating",
    )
    parser.add_argument(
        "--measure", default=MEASURES[0], choices=MEASURES, help="cosine (default), or another"
    )
    parser.add_argument(
        "--training-count", type=int, default=500, metavar="N", help="the number of measured pairs (500)"
    )
    parser.add_argument(
        "--learner", default="ridge", metavar="NAME", help=f"{', '.join(LEARNERS)} or sklearn.NAME (ridge)"
    )
    parser.add_argument(
        "--insecure-seed",
        type=int,
        metavar="N",
        help="make the noise from this seed, so that it can be repeated. Such similarities protect nobody: "
        "for research only",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write the similarities of all pairs to a new .csv file instead"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="similarities:run")
