"""Options of `pgmjax ledger`."""

from pgmjax.cli.options.command import Command, group, one_of, option
from pgmjax.cli.options.shared import (
    DELTA,
    DEMO,
    FILE_FORM,
    JSON,
    RELATIONS,
    UNIT,
    WEIGHTS,
    rows_outside,
    table,
)

_FILE = option("file", metavar="FILE", help="the ledger")
_ACCOUNT = option("name", metavar="NAME", help="name of the account")
_DEFINITION = group(
    "reading the table",
    option(
        "--domain",
        metavar="FILE",
        help="the domain file. No release may ask about other values than these. A column that it leaves "
        "open is found by the first release with --discover",
    ),
    *WEIGHTS,
    rows_outside(""),
    *UNIT,
    option("--record-is", metavar="WORD", help="a note on what one record is, such as visit"),
)
_INIT = Command(
    "init",
    help="give a table its budget",
    description="Open an account for a table and fix its budget, which cannot be changed later. The "
    "ledger is made if there is none. Run this command only if you may see the table: every record "
    "is checked against the domain. A table is known by a digest of its bytes, made with the key "
    "in FILE.key.",
    example="pgmjax ledger init budgets.ledger --demo --name diamonds --epsilon 3 --relation add-remove",
    options=(
        option("file", metavar="FILE", help="the ledger, on a disk of this machine"),
        table(),
        *FILE_FORM,
        DEMO,
        option("--name", metavar="NAME", help="what to call the table's account"),
        # kept as text: 0.1 is then one tenth and not its nearest float
        option(
            "--epsilon", action="once", metavar="E", help="what all releases of the table together may cost"
        ),
        DELTA,
        option(
            "--relation",
            action="once",
            choices=RELATIONS,
            help="what an observer may not notice: that a record was added or removed (add-remove), or that "
            "it was replaced by another (replace-one). There is no default",
        ),
        option(
            "--measure",
            choices=["pure", "zcdp", "renyi"],
            help="how costs are added up: as epsilons (pure; the default without a delta), as rhos (zcdp; "
            "the default with one), or as Renyi divergences (renyi)",
        ),
        option(
            "--research", action="store_true", help="accept runs with --insecure-seed, which protect nobody"
        ),
        _DEFINITION,
        one_of(
            option(
                "--same-people-as",
                metavar="NAME",
                help="if the ledger has accounts: the table is about the people of account NAME, and shares "
                "its budget",
            ),
            option(
                "--other-people",
                action="store_true",
                help="if the ledger has accounts: the table is about none of the people of these accounts, "
                "and gets a budget of its own",
            ),
        ),
        JSON,
    ),
    run="ledger:_init",
)
_ADD_VERSION = Command(
    "add-version",
    help="add a table about the same people to an account",
    description="Add another table about the same people to an account, such as one with new rows, "
    "another file format, or next month's export. Runs on it are charged to the same budget. "
    "Run this command only if you may see the table: every record is checked against the account's "
    "domain.",
    example="pgmjax ledger add-version budgets.ledger people people-2.csv.gz",
    options=(_FILE, _ACCOUNT, table(nargs=None), *FILE_FORM, JSON),
    run="ledger:_add_another",
)
_SET_DOMAIN = Command(
    "set-domain",
    help="give an account a domain, or correct it before the first release",
    description="Give a domain to an account that was made without one, or correct the domain of an "
    "account from which nothing was released yet. This costs nothing, gives back nothing that was spent, "
    "and is recorded. Run this command only if you may see the table: every record is checked.",
    example="pgmjax ledger set-domain budgets.ledger people people.csv.gz --domain people.yaml",
    options=(_FILE, _ACCOUNT, table(), *FILE_FORM, DEMO, _DEFINITION, JSON),
    run="ledger:_set_domain",
)
_NOTE_EXACT = Command(
    "note-exact",
    help="note that an exact figure about the same people was published",
    description="Note that an exact figure about the people of an account was published. It costs "
    "nothing, because no budget covers it. The note is sealed in the ledger, stands in ledger show, and "
    "is named by every release that is made later.",
    example="pgmjax ledger note-exact budgets.ledger people 'patients a ward, yearbook, page 12'",
    options=(
        _FILE,
        _ACCOUNT,
        option("what", metavar="WHAT", help="what was published and where, without its value; it is public"),
        JSON,
    ),
    run="ledger:_note_exact",
)
_SHOW = Command(
    "show",
    help="show budgets and what is left of them",
    description="Show the accounts of a ledger and their charges.",
    example="pgmjax ledger show budgets.ledger --name people",
    options=(
        _FILE,
        option("--name", metavar="NAME", help="show this account only"),
        option(
            "--domain", metavar="FILE", help="with --name: write the account's domain to this new .json file"
        ),
        JSON,
    ),
    run="ledger:_show",
)
_VERIFY = Command(
    "verify",
    help="check a ledger for damage, changed rows and wrong sums",
    description="Check a ledger for damaged pages, changed rows and wrong sums. Each row carries a hash "
    "of all rows before it. The last hash, the head, is printed: keep it where nobody can change it, "
    "and give it as --head next time. Then you also notice if somebody put back an older copy of the "
    "ledger. Exits with 1 if anything is wrong.",
    example="pgmjax ledger verify budgets.ledger --head 9f86d0...",
    options=(
        _FILE,
        option("--head", metavar="HASH", help="the head that you kept from an earlier check"),
        JSON,
    ),
    run="ledger:_verify",
)
LEDGER = Command(
    "ledger",
    help="keep the privacy budgets of tables across releases",
    description="A ledger is a file that keeps account of the privacy budgets of tables: what all "
    "releases of a table may cost together, what was spent so far, and the noisy answers that were paid "
    "for.",
    example="pgmjax ledger init budgets.ledger people.csv.gz --domain people.yaml "
    "--name people --epsilon 3 --relation add-remove",
    parts=(_INIT, _ADD_VERSION, _SET_DOMAIN, _NOTE_EXACT, _SHOW, _VERIFY),
)
