"""Options of `pgmjax history` and `pgmjax similarities`: learning from noisy answers."""

from pgmjax.cli.options.command import Command, group, option
from pgmjax.cli.options.shared import CONDITIONS, INSECURE_SEED, JSON, LEVEL, budget

METHODS = ("kernel-pca", "ridge", "maximum-entropy", "best-linear", "posterior")
LEARNERS = ("linear", "ridge", "gaussian-basis", "mlp", "engine")
ENCODINGS = ("cells", "factors", "corners")
UNIVERSES = ("auto", "joint", "cliques")
MEASURES = ("cosine", "pearson", "inner_product")
PROTECTS = ("record", "rating")
TAKES = {
    "alpha": METHODS[:3],
    "prior": METHODS[:3],
    "total": METHODS[:3],
    "folds": METHODS[:2],
    "level": METHODS[3:],
    "at_least": METHODS[3:],
    "at_most": METHODS[3:],
    "watch": METHODS[3:],
    "continuous": METHODS[3:],
    "biased": METHODS[3:4],
}
"""The methods that an option is of."""
_HISTORY = (
    "a folder that pgmjax session export wrote, or a file of published answers: .csv, .parquet or .json, as "
    "pgmjax fit reads it"
)
_FILE = group(
    "a file of published answers",
    option("--domain", metavar="FILE", help="its domain file: .json or .yaml"),
    option(
        "--stddev", type=float, metavar="S", help="the standard deviation of its noise, if no column says"
    ),
    option("--rounded-to", type=float, metavar="B", help="the number of which all its values are multiples"),
)
_FOLDS = option("--folds", type=int, metavar="K", help="the parts of the cross-validation (5)")
_ASK = Command(
    "ask",
    help="answer queries from all noisy answers together",
    description="Answer queries from all noisy answers of a history together. kernel-pca (the default) "
    "and ridge give the least expected error, maximum-entropy the answers of one table without negative "
    "counts, best-linear unbiased answers with intervals, posterior what all single answers tell "
    "together.",
    example="pgmjax history ask history 'sex=Male,age<30' --method best-linear, or from a "
    "published file: pgmjax history ask answers.csv 'age<30' --domain people.yaml",
    options=(
        option("history", metavar="HISTORY", help=f"{_HISTORY}; or a model that pgmjax history train wrote"),
        group(
            "what to ask",
            CONDITIONS,
            option(
                "--query",
                action="append",
                default=[],
                metavar="CONDITION",
                help="another condition, as those without an option. Can be repeated",
            ),
            option("--marginal", action="once", metavar="NAMES", help="all cells, such as age,income"),
            option(
                "--workload",
                action="once",
                metavar="FILE",
                help="JSON file with any linear queries, as of a release",
            ),
        ),
        _FILE,
        group(
            "how to answer",
            option("--method", choices=METHODS, help="kernel-pca (default), or another"),
            option(
                "--alpha",
                metavar="A",
                help="how much bias to allow for less noise: a number > 0, infinity for none, or auto "
                "(default: by cross-validation; maximum-entropy: by the noise)",
            ),
            option(
                "--prior",
                metavar="FILE",
                help="JSON file with the probabilities of each attribute's values, such as "
                '{"sex": [0.6, 0.4]}; or uniform. Default: uniform; with --alpha auto, the history\'s own '
                "one-way tables where cross-validation likes them better",
            ),
            option("--total", type=float, metavar="N", help="the number of records, if it is public"),
            _FOLDS,
            option(
                "--level",
                type=float,
                metavar="L",
                help=f"the probability with which an interval covers the exact answer ({LEVEL:g})",
            ),
            option(
                "--at-least", type=float, metavar="LOW", help="test whether exact answers are at least LOW"
            ),
            option("--at-most", type=float, metavar="HIGH", help="test whether they are at most HIGH"),
            option(
                "--watch",
                metavar="FILE",
                help='JSON list of what nobody may be sure of, such as [{"query": "age<20", "at_least": 5}]: '
                "nothing is answered if the answers make one of these as probable as --level",
            ),
            option(
                "--biased",
                action="store_true",
                help="answer also what the history does not determine, with a bias",
            ),
            option(
                "--continuous",
                action="store_true",
                help="take the noise to be continuous, as the papers do; it is so taken where only its "
                "standard deviation is known",
            ),
        ),
        JSON,
    ),
    run="history:ask",
)
_TRAIN = Command(
    "train",
    help="train a model on noisy answers, which then answers any query",
    description="Train a regressor on the noisy answers of a history, and write it into a folder that "
    "pgmjax history ask reads and that you may publish like the answers.",
    example="pgmjax history train answers.csv --domain people.yaml --learner ridge --out trained",
    options=(
        option("history", metavar="HISTORY", help=_HISTORY),
        option("--out", required=True, metavar="DIR", help="the folder to make; it must not exist"),
        _FILE,
        group(
            "how to learn",
            option(
                "--learner",
                action="append",
                metavar="NAME",
                help=f"{', '.join(LEARNERS)} or sklearn.NAME, or settings such as "
                '\'{"name": "ridge", "penalty": 2}\' (default: linear). Can be repeated: the one of least '
                "error in cross-validation is taken",
            ),
            option(
                "--encoding",
                default=ENCODINGS[0],
                choices=ENCODINGS,
                help="how queries become vectors: by the weights of cells (default), of each attribute's "
                "values, or by the corners of ranges",
            ),
            option(
                "--universe",
                default=UNIVERSES[0],
                choices=UNIVERSES,
                help="whether one model learns all attributes together (joint) or each set that was asked "
                "about has its own (cliques); auto (default) is joint where that is small",
            ),
            _FOLDS,
            option("--seed", type=int, default=0, metavar="N", help="seed of the learner (0)"),
        ),
        JSON,
    ),
    run="history:train",
)
HISTORY = Command(
    "history",
    help="answer new queries from noisy answers that were given before",
    description="Answer queries, old or new, from a history of noisy answers. No table is read and no "
    "budget is spent.",
    example="pgmjax history ask history 'sex=Male,age<30'",
    parts=(_ASK, _TRAIN),
)
SIMILARITIES = Command(
    "similarities",
    help="learn how alike records are that rated items",
    description="Measure the similarities of some pairs of records with noise, learn them, and predict "
    "the similarity of any pair. The file has the columns record, item and rating; records and items are "
    "numbered from 0. Who and what is rated, and the scale, are public.",
    example="pgmjax similarities ratings.csv 3,17 4,9 --records 671 --items 9066 --scale 0.5,5 "
    "--protect record --epsilon 1 --relation replace-one",
    options=(
        option("ratings", metavar="RATINGS", help="the private ratings, .csv"),
        option("pair", nargs="*", metavar="RECORD,RECORD", help="a pair of records, such as 3,17"),
        option("--records", type=int, required=True, metavar="N", help="the number of records"),
        option("--items", type=int, required=True, metavar="N", help="the number of items"),
        option("--scale", metavar="LOW,HIGH", help="the least and the largest rating, such as 1,5"),
        *budget(),
        option(
            "--protect",
            required=True,
            choices=PROTECTS,
            help="what an observer may not notice: that all ratings of a record were replaced, or one rating",
        ),
        option("--measure", default=MEASURES[0], choices=MEASURES, help="cosine (default), or another"),
        option(
            "--training-count", type=int, default=500, metavar="N", help="the number of measured pairs (500)"
        ),
        option(
            "--learner",
            default="ridge",
            metavar="NAME",
            help=f"{', '.join(LEARNERS)} or sklearn.NAME (ridge)",
        ),
        INSECURE_SEED,
        option(
            "--out", metavar="FILE", help="write the similarities of all pairs to a new .csv file instead"
        ),
        JSON,
    ),
    run="similarities:run",
)
