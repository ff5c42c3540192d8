"""Options of `pgmjax ledger`."""

from __future__ import annotations

import argparse
from typing import Any

from pgmjax.cli.options.release import add_file_options, add_unit_options, add_weight_options
from pgmjax.data import demo
from pgmjax.data.definition import ROWS_OUTSIDE
from pgmjax.data.relation import Relation


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "ledger",
        help="keep the privacy budgets of tables across releases",
        description="A ledger is a file that keeps account of the privacy budgets of tables: what all "
        "releases of a table may cost together, what was spent so far, and the noisy answers that were paid "
        "for.",
        epilog="Example: pgmjax ledger init budgets.ledger people.csv.gz --domain people.yaml "
        "--name people --epsilon 3 --relation add-remove",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_init(parts)
    _add_version(parts)
    _add_set_domain(parts)
    _add_note_exact(parts)
    _add_show(parts)
    _add_verify(parts)


def _add_init(parts: Any) -> None:
    parser = parts.add_parser(
        "init",
        help="give a table its budget",
        description="Open an account for a table and fix its budget, which cannot be changed later. The "
        "ledger is made if there is none. Run this command only if you may see the table: every record "
        "is checked against the domain. A table is known by a digest of its bytes, made with the key "
        "in FILE.key.",
        epilog="Example: pgmjax ledger init budgets.ledger --demo --name diamonds --epsilon 3 "
        "--relation add-remove",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger, on a disk of this machine")
    _add_table(parser)
    parser.add_argument(
        "--demo", action="store_true", help=f"use {demo.NAME}, a real public table, instead of TABLE"
    )
    parser.add_argument("--name", metavar="NAME", help="what to call the table's account")
    # kept as text: 0.1 is then one tenth and not its nearest float
    parser.add_argument("--epsilon", metavar="E", help="what all releases of the table together may cost")
    parser.add_argument(
        "--delta",
        default="0",
        metavar="D",
        help="the delta of (epsilon, delta)-differential privacy, such as 1e-9 (default: 0)",
    )
    parser.add_argument(
        "--relation",
        choices=[relation.value for relation in Relation],
        help="what an observer may not notice: that a record was added or removed (add-remove), or that it "
        "was replaced by another (replace-one). There is no default",
    )
    parser.add_argument(
        "--measure",
        choices=["pure", "zcdp", "renyi"],
        help="how costs are added up: as epsilons (pure; the default without a delta), as rhos (zcdp; the "
        "default with one), or as Renyi divergences (renyi)",
    )
    parser.add_argument(
        "--research", action="store_true", help="accept runs with --insecure-seed, which protect nobody"
    )
    _add_definition(parser)
    _add_people(parser)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run="ledger:_init")


def _add_people(parser: argparse.ArgumentParser) -> None:
    people = parser.add_mutually_exclusive_group()
    people.add_argument(
        "--same-people-as",
        metavar="NAME",
        help="if the ledger has accounts: the table is about the people of account NAME, and shares its "
        "budget",
    )
    people.add_argument(
        "--other-people",
        action="store_true",
        help="if the ledger has accounts: the table is about none of the people of these accounts, and gets "
        "a budget of its own",
    )


def _add_set_domain(parts: Any) -> None:
    parser = parts.add_parser(
        "set-domain",
        help="give an account a domain, or correct it before the first release",
        description="Give a domain to an account that was made without one, or correct the domain of an "
        "account from which nothing was released yet. This costs nothing, gives back nothing that was spent, "
        "and is recorded. Run this command only if you may see the table: every record is checked.",
        epilog="Example: pgmjax ledger set-domain budgets.ledger people people.csv.gz --domain people.yaml",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("name", metavar="NAME", help="name of the account")
    _add_table(parser)
    parser.add_argument(
        "--demo", action="store_true", help=f"use {demo.NAME}, a real public table, instead of TABLE"
    )
    _add_definition(parser)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run="ledger:_set_domain")


def _add_version(parts: Any) -> None:
    parser = parts.add_parser(
        "add-version",
        help="add a table about the same people to an account",
        description="Add another table about the same people to an account, such as one with new rows, "
        "another file format, or next month's export. Runs on it are charged to the same budget. "
        "Run this command only if you may see the table: every record is checked against the account's "
        "domain.",
        epilog="Example: pgmjax ledger add-version budgets.ledger people people-2.csv.gz",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("name", metavar="NAME", help="name of the account")
    _add_table(parser, needed=True)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run="ledger:_add_another")


def _add_note_exact(parts: Any) -> None:
    parser = parts.add_parser(
        "note-exact",
        help="note that an exact figure about the same people was published",
        description="Note that an exact figure about the people of an account was published. It costs "
        "nothing, because no budget covers it. The note is sealed in the ledger, stands in ledger show, and "
        "is named by every release that is made later.",
        epilog="Example: pgmjax ledger note-exact budgets.ledger people 'patients a ward, yearbook, page 12'",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("name", metavar="NAME", help="name of the account")
    parser.add_argument(
        "what", metavar="WHAT", help="what was published and where, without its value; it is public"
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run="ledger:_note_exact")


def _add_table(parser: argparse.ArgumentParser, needed: bool = False) -> None:
    parser.add_argument(
        "table",
        nargs=None if needed else "?",
        metavar="TABLE",
        help="the table: .csv, .csv.gz, .tsv, .parquet, .xlsx",
    )
    add_file_options(parser)


def _add_definition(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading the table")
    group.add_argument(
        "--domain",
        metavar="FILE",
        help="the domain file. No release may ask about other values than these. A column that it leaves "
        "open is found by the first release with --discover",
    )
    add_weight_options(group)
    group.add_argument(
        "--rows-outside",
        choices=ROWS_OUTSIDE,
        help="what to do with values that are not in the domain: count a number in the first or last bin "
        "(clip), count a value as missing (missing), or leave the record out (drop). Without this option "
        "such a table is refused",
    )
    add_unit_options(group)
    group.add_argument(
        "--record-is",
        metavar="WORD",
        help="a note on what one record is, such as visit",
    )


def _add_show(parts: Any) -> None:
    parser = parts.add_parser(
        "show",
        help="show budgets and what is left of them",
        description="Show the accounts of a ledger and their charges.",
        epilog="Example: pgmjax ledger show budgets.ledger --name people",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("--name", metavar="NAME", help="show this account only")
    parser.add_argument(
        "--domain", metavar="FILE", help="with --name: write the account's domain to this new .json file"
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run="ledger:_show")


def _add_verify(parts: Any) -> None:
    parser = parts.add_parser(
        "verify",
        help="check a ledger for damage, changed rows and wrong sums",
        description="Check a ledger for damaged pages, changed rows and wrong sums. Each row carries a hash "
        "of all rows before it. The last hash, the head, is printed: keep it where nobody can change it, "
        "and give it as --head next time. Then you also notice if somebody put back an older copy of the "
        "ledger. Exits with 1 if anything is wrong.",
        epilog="Example: pgmjax ledger verify budgets.ledger --head 9f86d0...",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("--head", metavar="HASH", help="the head that you kept from an earlier check")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run="ledger:_verify")
