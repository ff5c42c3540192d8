"""Options of `pgmjax session`."""

from pgmjax.cli.options.command import Command, group, option
from pgmjax.cli.options.shared import CONDITIONS, FILE_FORM, INSECURE_SEED, JSON, RELATIONS, UNIT, budget

NAME = "session"
_SESSION = (
    option("file", metavar="FILE", help="the ledger that keeps the session"),
    option("--name", default=NAME, metavar="NAME", help=f"the session's name ({NAME})"),
    option(
        "--account",
        metavar="NAME",
        help="the account of the table, if more than one has a session of this name",
    ),
    JSON,
)
_ASK = Command(
    "ask",
    help="count the rows that satisfy a condition",
    description="Count the rows that satisfy a condition. Without --table, the session answers from its "
    "earlier noisy answers alone. Exits with 1 if the answer is refused.",
    example="pgmjax session ask budgets.ledger 'sex=Male,age<30' --half-width 50 --beta 0.05",
    options=(
        *_SESSION,
        option("condition", metavar="CONDITION", help="such as 'sex=Male,age<30'"),
        option(
            "--half-width",
            type=float,
            required=True,
            metavar="W",
            help="how accurate the answer must be: within W rows of the exact count",
        ),
        option(
            "--beta",
            type=float,
            default=0.05,
            metavar="B",
            help="the probability with which the exact count may be further away (0.05)",
        ),
        option(
            "--table",
            metavar="TABLE",
            help="the table, to measure where earlier answers are not accurate enough",
        ),
        option("--domain", metavar="FILE", help="with --table: its domain file, .json or .yaml"),
        *FILE_FORM,
        *UNIT,
        # kept as text, so that 0.1 is exactly one tenth
        option(
            "--cap",
            action="once",
            metavar="E",
            help="with --table: the most that the session may spend, the same in each call",
        ),
        option("--relation", choices=RELATIONS, help="with --table: the relation of the table's account"),
        INSECURE_SEED,
    ),
    run="session:_ask",
)
_STATUS = Command(
    "status",
    help="show the queries of a session and what is left",
    description="Show how many queries a session has answered, and what it has spent of its cap.",
    example="pgmjax session status budgets.ledger",
    options=_SESSION,
    run="session:_status",
)
_EXPORT = Command(
    "export",
    help="write the history of noisy answers into a folder",
    description="Write all noisy answers of a session to a folder, which pgmjax.history.History.load reads.",
    example="pgmjax session export budgets.ledger --out history",
    options=(
        *_SESSION,
        option("--out", required=True, metavar="DIR", help="the folder to make; it must not exist"),
    ),
    run="session:_export",
)
_ONLINE_WEIGHTS = Command(
    "online-weights",
    help="answer counts as they come from an estimate of the whole table",
    description="Answer counts as they come, from an estimate of the whole table that starts even. A "
    "count is measured only if a noisy test finds the estimate far off, and corrects it then. All "
    "answers together cost at most epsilon. If no conditions are given they are read from standard "
    "input, one a line, and answered at once. The same conditions under the same name are answered again "
    "for free, and new ones behind them go on.",
    example="pgmjax session online-weights budgets.ledger 'age<30' 'sex=Male' --table "
    "people.csv.gz --domain people.yaml --epsilon 1 --relation replace-one",
    options=(
        option("file", metavar="FILE", help="the ledger that the answers are charged to"),
        CONDITIONS,
        option(
            "--name", metavar="NAME", help="the run's name in the ledger (default: made from its settings)"
        ),
        option("--table", required=True, metavar="TABLE", help="the table"),
        option("--domain", required=True, metavar="FILE", help="its domain file: .json or .yaml"),
        *FILE_FORM,
        *UNIT,
        *budget(),
        group(
            "how to answer",
            option("--updates", type=int, default=10, metavar="N", help="the most measurements (10)"),
            option(
                "--threshold",
                type=int,
                metavar="N",
                help="how far off the estimate may be, in records (default: so that noise seldom finds it "
                "far off)",
            ),
            option(
                "--expected-queries",
                type=int,
                default=100,
                metavar="N",
                help="a guess of their number, for that (100)",
            ),
            option(
                "--sweeps",
                type=int,
                metavar="N",
                help="correct by all measurements so far, N times each (default: by the newest, once)",
            ),
        ),
        INSECURE_SEED,
        option("--json", action="store_true", help="print each answer as one line of JSON"),
    ),
    run="session:_online_weights",
)
SESSION = Command(
    "session",
    help="answer queries on a table one at a time, each as accurately as required",
    description="Answer one count at a time. If earlier answers are accurate enough, a session answers "
    "from them and spends nothing. Otherwise it measures with the least budget that suffices, or "
    "refuses. The most that a session may spend, its cap, is charged to the table's account in a ledger "
    "when it begins.",
    example="pgmjax session ask budgets.ledger 'sex=Male,age<30' --half-width 50 --table "
    "people.csv.gz --domain people.yaml --cap 1 --relation add-remove",
    parts=(_ASK, _STATUS, _EXPORT, _ONLINE_WEIGHTS),
)
