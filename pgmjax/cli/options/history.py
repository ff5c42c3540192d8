"""Options of `pgmjax history`."""

from __future__ import annotations

from typing import Any

from pgmjax.cli.options.free import LEVEL

METHODS = ("kernel-pca", "ridge", "maximum-entropy", "best-linear", "posterior")
LEARNERS = ("linear", "ridge", "gaussian-basis", "mlp", "engine")
ENCODINGS = ("cells", "factors", "corners")
UNIVERSES = ("auto", "joint", "cliques")
_HISTORY = (
    "a folder that pgmjax session export wrote, or a file of published answers: .csv, .parquet or .json, as "
    "pgmjax fit reads it"
)
TAKES = {
    "alpha": METHODS[:3],
    "prior": METHODS[:3],
    "total": METHODS[:3],
    "folds": METHODS[:2],
    "level": METHODS[3:],
    "at_least": METHODS[3:],
    "at_most": METHODS[3:],
    "continuous": METHODS[3:],
    "biased": METHODS[3:4],
}
"""The methods that an option is of."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "history",
        help="answer new queries from noisy answers that were given before",
        description="Answer queries, old or new, from a history of noisy answers. No table is read and no "
        "budget is spent.",
        epilog="Example: pgmjax history ask history 'sex=Male,age<30'",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_ask(parts)
    _add_train(parts)


def _add_train(parts: Any) -> None:
    parser = parts.add_parser(
        "train",
        help="train a model on noisy answers, which then answers any query",
        description="Train a regressor on the noisy answers of a history, and write it into a folder that "
        "pgmjax history ask reads and that you may publish like the answers.",
        epilog="Example: pgmjax history train answers.csv --domain people.yaml --learner ridge --out trained",
    )
    parser.add_argument("history", metavar="HISTORY", help=_HISTORY)
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to make; it must not exist")
    _add_file(parser.add_argument_group("a file of published answers"))
    group = parser.add_argument_group("how to learn")
    group.add_argument(
        "--learner",
        action="append",
        metavar="NAME",
        help=f"{', '.join(LEARNERS)} or sklearn.NAME, or settings such as "
        '\'{"name": "ridge", "penalty": 2}\' (default: linear). Can be repeated: the one of least error in '
        "cross-validation is taken",
    )
    group.add_argument(
        "--encoding",
        default=ENCODINGS[0],
        choices=ENCODINGS,
        help="how queries become vectors: by the weights of cells (default), of each attribute's values, or "
        "by the corners of ranges",
    )
    group.add_argument(
        "--universe",
        default=UNIVERSES[0],
        choices=UNIVERSES,
        help="whether one model learns all attributes together (joint) or each set that was asked about has "
        "its own (cliques); auto (default) is joint where that is small",
    )
    group.add_argument("--folds", type=int, metavar="K", help="the parts of the cross-validation (5)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the learner (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="history:train")


def _add_ask(parts: Any) -> None:
    parser = parts.add_parser(
        "ask",
        help="answer queries from all noisy answers together",
        description="Answer queries from all noisy answers of a history together. kernel-pca (the default) "
        "and ridge give the least expected error, maximum-entropy the answers of one table without negative "
        "counts, best-linear unbiased answers with intervals, posterior what all single answers tell "
        "together.",
        epilog="Example: pgmjax history ask history 'sex=Male,age<30' --method best-linear, or from a "
        "published file: pgmjax history ask answers.csv 'age<30' --domain people.yaml",
    )
    parser.add_argument(
        "history",
        metavar="HISTORY",
        help=f"{_HISTORY}; or a model that pgmjax history train wrote",
    )
    group = parser.add_argument_group("what to ask")
    group.add_argument(
        "condition", nargs="*", default=[], metavar="CONDITION", help="such as 'sex=Male,age<30'"
    )
    group.add_argument(
        "--query",
        action="append",
        default=[],
        metavar="CONDITION",
        help="another condition, as those without an option. Can be repeated",
    )
    group.add_argument("--marginal", action="once", metavar="NAMES", help="all cells, such as age,income")
    group.add_argument(
        "--workload", action="once", metavar="FILE", help="JSON file with any linear queries, as of a release"
    )
    _add_file(parser.add_argument_group("a file of published answers"))
    _add_method(parser.add_argument_group("how to answer"))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run="history:ask")


def _add_file(group: Any) -> None:
    group.add_argument("--domain", metavar="FILE", help="its domain file: .json or .yaml")
    group.add_argument(
        "--stddev",
        type=float,
        metavar="S",
        help="the standard deviation of its noise, if no column says",
    )
    group.add_argument(
        "--rounded-to", type=float, metavar="B", help="the number of which all its values are multiples"
    )


def _add_method(group: Any) -> None:
    group.add_argument("--method", choices=METHODS, help="kernel-pca (default), or another")
    group.add_argument(
        "--alpha",
        metavar="A",
        help="how much bias to allow for less noise: a number > 0, infinity for none, or auto (default: by "
        "cross-validation; maximum-entropy: by the noise)",
    )
    group.add_argument(
        "--prior",
        metavar="FILE",
        help='JSON file with the probabilities of each attribute\'s values, such as {"sex": [0.6, 0.4]}; '
        "or uniform. Default: uniform; with --alpha auto, the history's own one-way tables where "
        "cross-validation likes them better",
    )
    group.add_argument("--total", type=float, metavar="N", help="the number of records, if it is public")
    group.add_argument("--folds", type=int, metavar="K", help="the parts of the cross-validation (5)")
    group.add_argument(
        "--level",
        type=float,
        metavar="L",
        help=f"the probability with which an interval covers the exact answer ({LEVEL:g})",
    )
    group.add_argument(
        "--at-least", type=float, metavar="LOW", help="test whether exact answers are at least LOW"
    )
    group.add_argument("--at-most", type=float, metavar="HIGH", help="test whether they are at most HIGH")
    group.add_argument(
        "--biased", action="store_true", help="answer also what the history does not determine, with a bias"
    )
    group.add_argument(
        "--continuous",
        action="store_true",
        help="take the noise to be continuous, as the papers do; it is so taken where only its standard "
        "deviation is known",
    )
