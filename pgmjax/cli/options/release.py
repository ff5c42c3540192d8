"""Options of `pgmjax release`."""

from pgmjax.cli.options.command import Command, group, option
from pgmjax.cli.options.shared import (
    ALL_KWAY,
    DELTA,
    DEMO,
    FILE_FORM,
    FIT_AND_OUTPUT,
    LEDGER,
    PRIOR,
    UNIT,
    WEIGHTS,
    WORKLOAD,
    budget,
    rows_outside,
    table,
)

MECHANISMS = (
    "auto",
    "aim",
    "batch-aim",
    "hdmm",
    "mldp",
    "mst",
    "mwem",
    "dual-query",
    "marginals",
    "maximum-entropy",
    "privbayes",
    "randomized-response",
)
_DOMAIN = option(
    "--domain",
    action="once",
    metavar="FILE",
    help="the domain file, which says what values each column may have: .json or .yaml",
)
TABLE = (table(), DEMO, _DOMAIN, *FILE_FORM, *UNIT)

_TABLE = group(
    "table and workload",
    *TABLE,
    *WEIGHTS,
    rows_outside(". With --ledger, the table's account says what to do"),
    option(
        "--discover",
        metavar="SHARE",
        help="spend this share of the budget, such as 0.1, on finding the bins, labels and dates of the "
        "columns that the domain file leaves open, or of all columns without --domain. Columns of text need "
        "--delta",
        action="once",
    ),
    WORKLOAD,
    ALL_KWAY,
    option(
        "--max-cells",
        type=int,
        metavar="N",
        help="limit the model to N cells, and so its time and memory. A mechanism that chooses what to "
        "measure is offered every marginal of at most N cells. Another one measures the smallest marginals, "
        "as many as a model of N cells holds (default: as large as a minute allows, by the forecast)",
    ),
)
_PRIVACY = group(
    "privacy",
    *budget(required=False),  # not with --resume
    DELTA,
    option(
        "--mechanism",
        default="auto",
        choices=MECHANISMS,
        help="how to choose what to measure; pgmjax mechanisms describes each. auto (default) measures all "
        "marginals asked for, except those that noise would drown. If one model cannot hold them all, it "
        "spends a part of the budget on choosing among them",
    ),
    option(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option of the mechanism, such as rounds=10. Can be repeated; pgmjax mechanisms lists "
        "the options",
    ),
    option(
        "--count-left-out",
        action="once",
        metavar="SHARE",
        help="spend this share of the budget, such as 0.05, on counting what --max-records, --rows-outside "
        "drop or --discover leave out of the table, so that bounds for the whole table follow",
    ),
    option(
        "--largest-unit",
        type=int,
        metavar="M",
        help="with --count-left-out and --unit under add-remove: a number of records that no unit exceeds, "
        "known in public. The records beyond --max-records are counted too, with noise that grows with M",
    ),
    *LEDGER,
)
_OUTPUT = group(
    "fit and output",
    PRIOR,
    *FIT_AND_OUTPUT,
    option(
        "--dry-run",
        action="store_true",
        help="only print what would be measured, with how much noise, and the time and memory needed. No "
        "record is read and nothing is spent",
    ),
    option(
        "--resume",
        metavar="DIR.partial",
        help="go on with an interrupted or failed release from the noisy answers that it left, at no "
        "further cost. Only options of fit and output can be given with it",
    ),
    option(
        "--add-rows",
        type=int,
        metavar="N",
        help="draw N more synthetic rows from a release, whose folder is given in place of TABLE, and write "
        "them to a new file there. This costs no privacy",
    ),
    option(
        "--tables",
        type=int,
        metavar="M",
        help="draw M tables to analyse from a release, whose folder is given in place of TABLE, and write "
        "them to a new folder there; pgmjax.uncertainty.combine combines what an analysis of each says. This "
        "costs no privacy",
    ),
)

RELEASE = Command(
    "release",
    help="measure a table with noise, fit a model and write a folder",
    description="Count a table with noise, fit one model to the noisy counts, and write a folder: the "
    "report (report.html), the same for programs (release.json), the model, the noisy counts, the "
    "answers to the workload, and synthetic rows. Open report.html first: it says how good the release "
    "is.",
    example="pgmjax release --demo --epsilon 1 --relation add-remove --out demo-release, or with "
    "a table of your own: pgmjax release people.csv.gz --domain people.yaml --all-kway 2 "
    "--max-cells 1000000 --epsilon 1 --relation add-remove --out people-release",
    options=(_TABLE, _PRIVACY, _OUTPUT),
    run="release:run",
)
