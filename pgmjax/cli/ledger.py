"""`pgmjax ledger`: create, show and verify the file that keeps the privacy budgets of tables."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from pgmjax.data import demo, files
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ledger import Account, ChargeRecord, Ledger
from pgmjax.privacy.ledger.account import budget_row

_TABLES = (".parquet", *files.SUFFIXES)


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "ledger",
        help="keep privacy budgets of tables across releases",
        description="A ledger is a file that keeps the privacy budgets of tables: what may be spent on each, "
        "what was spent on what, and the noisy answers, so that no release is forgotten.",
        epilog="Example: pgmjax ledger init budgets.ledger people.csv.gz --name people --epsilon 3 "
        "--relation add-remove",
    )
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_init(parts)
    _add_show(parts)
    _add_verify(parts)


def _add_init(parts: Any) -> None:
    parser = parts.add_parser(
        "init",
        help="give a table its budget",
        description="Give a table its budget, once and for all, in a ledger that is made if it is not there. "
        "The table is known again by a keyed digest of its bytes; FILE.key holds the key.",
        epilog="Example: pgmjax ledger init budgets.ledger --demo --name diamonds --epsilon 3 "
        "--relation add-remove",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger, on a disk of this machine")
    parser.add_argument("table", nargs="?", metavar="TABLE", help=".csv, .csv.gz, .tsv, .parquet, ...")
    parser.add_argument("--demo", action="store_true", help=f"instead of TABLE: {demo.NAME}, a real table")
    parser.add_argument("--name", required=True, metavar="NAME", help="what to call the table's account")
    # kept as text, so that 0.1 is exactly one tenth
    parser.add_argument("--epsilon", required=True, metavar="E", help="what all its releases may cost")
    parser.add_argument("--delta", default="0", metavar="D", help="0 (default) is pure differential privacy")
    parser.add_argument(
        "--relation",
        required=True,
        choices=[relation.value for relation in Relation],
        help="which tables are neighbours; there is no default",
    )
    parser.add_argument(
        "--measure",
        choices=["pure", "zcdp", "renyi"],
        help="what is added up: epsilons (without a delta), rhos (with one), or Renyi divergences",
    )
    parser.add_argument(
        "--research", action="store_true", help="let in repeatable noise, which protects nobody"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_init)


def _add_show(parts: Any) -> None:
    parser = parts.add_parser(
        "show",
        help="what was granted and what is left",
        description="Show the accounts of a ledger and the charges made to them.",
        epilog="Example: pgmjax ledger show budgets.ledger --name people",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("--name", metavar="NAME", help="this account only")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_show)


def _add_verify(parts: Any) -> None:
    parser = parts.add_parser(
        "verify",
        help="look for damage, changed rows and wrong sums",
        description="Verify a ledger: its pages, its rules, the chain that seals its rows, its sums. Note "
        "the head that is printed where nobody can change it, and give it next time: then an older copy that "
        "was put back is noticed too. Exits with 1 if anything is wrong.",
        epilog="Example: pgmjax ledger verify budgets.ledger --head 9f86d0...",
    )
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("--head", metavar="HASH", help="the head noted earlier")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_verify)


def _init(arguments: argparse.Namespace) -> None:
    if arguments.demo == (arguments.table is not None):
        raise ValueError("Name a TABLE, or give --demo for the table that comes with the extra 'demo'.")
    promise: dict[str, Any] = {
        name: getattr(arguments, name) for name in ("epsilon", "delta", "relation", "measure", "research")
    }
    budget_row(arguments.name, **promise)  # reject bad arguments before a file is created
    table = demo.load() if arguments.demo else _table(arguments.table)
    made = not os.path.lexists(arguments.file)
    with Ledger.create(arguments.file) if made else Ledger.open(arguments.file) as ledger:
        account = ledger.register(arguments.name, digest=ledger.digest_of(table), **promise)
        head, path = ledger.head(), ledger.path
    if arguments.json:
        print(json.dumps({"ledger": str(path), "head": head, "account": account.to_dict()}))
        return
    print(account.statement())
    print(f"  ledger   {path}")
    print(f"  key      {path}.key (secret; keep a copy of it apart)")
    print(f"  head     {head}")


def _show(arguments: argparse.Namespace) -> None:
    with _open(arguments.file) as ledger:
        accounts = ledger.accounts() if arguments.name is None else [ledger.account(arguments.name)]
        books = [(account, ledger.charges(account.name)) for account in accounts]
        head, path = ledger.head(), ledger.path
    if arguments.json:
        listed = [{**a.to_dict(), "charges": [one.to_dict() for one in charges]} for a, charges in books]
        print(json.dumps({"ledger": str(path), "head": head, "accounts": listed}))
        return
    if not books:
        print(f"{path} holds no account yet.")
    for account, charges in books:
        print(account.statement())
        for line in _lines(account, charges):
            print("\t".join(line))


def _lines(account: Account, charges: list[ChargeRecord]) -> Iterator[list[str]]:
    if charges:
        unit = {"pure": "epsilon", "zcdp": "rho", "renyi": "divergence"}[account.measure]
        yield ["time", "key", "events", unit, "total", "answers"]
    for charge in charges:
        kinds = [str(event.get("kind")) for event in charge.events]
        counted = {kind: kinds.count(kind) for kind in kinds}
        events = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in counted.items())
        noise = "" if charge.secure else " (insecure)"
        answers = str(charge.answers) if charge.answers else "none"
        amounts = [as_text(charge.cost), as_text(charge.total)]
        yield [charge.created[:19], charge.key, f"{events}{noise}", *amounts, answers]


def _verify(arguments: argparse.Namespace) -> None:
    with _open(arguments.file) as ledger:
        found = ledger.verify(arguments.head)
    if arguments.json:
        print(json.dumps(found.to_dict()))
    elif found.ok:
        noted = ", and the head noted earlier is in the chain" if arguments.head else ""
        print(f"{found.rows} rows, no fault found{noted}.\n  head     {found.head}")
    else:
        print("\n".join(found.faults))
    found.raise_if_bad()


def _open(file: str) -> Ledger:
    if not pathlib.Path(file).exists():
        raise ValueError(f"There is no ledger {file}: make one with `pgmjax ledger init`.")
    return Ledger.open(file)


def _table(text: str) -> pathlib.Path:
    """Return the path of a table after checking its file type; the table is not read."""
    path = pathlib.Path(text)
    if not path.exists():
        raise ValueError(f"There is no table {text}.")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    if not path.is_dir() and kind not in _TABLES:
        raise ValueError(
            f"{path.name} is no kind of table that can be released: expected .parquet (or a folder of them), "
            f"{', '.join(files.SUFFIXES)}, or one of these text kinds with .gz."
        )
    return path
