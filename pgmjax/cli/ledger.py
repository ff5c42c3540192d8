"""`pgmjax ledger`: create, show and verify the file that keeps the privacy budgets of tables."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from pgmjax._internal import checks
from pgmjax.cli import process
from pgmjax.cli.release import of_no_table, open_ledger, unit_of
from pgmjax.data import demo, text_file
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import (
    OpenDefinition,
    TableDefinition,
    known_encoding,
    outside_of_found,
)
from pgmjax.data.domain import Domain
from pgmjax.data.draft import Draft
from pgmjax.data.relation import Relation
from pgmjax.discovery import OpenTable
from pgmjax.discovery.discover import first_look
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ledger import Account, ChargeRecord, Ledger, LedgerError
from pgmjax.privacy.ledger.account import budget_row, definition_row, label_delta_of


def _init(arguments: argparse.Namespace) -> None:
    _check_table(arguments)
    if arguments.same_people_as is not None:
        given = process.first_of(arguments, ("name", "epsilon"))
        checks.refuse(
            (
                given,
                f"{given} cannot be chosen with --same-people-as: the table shares account "
                f"{arguments.same_people_as!r} and its budget. Leave it out. Nothing was written.",
            )
        )
        arguments.name = arguments.same_people_as
        _add_another(arguments)
        return
    missing = process.first_of(arguments, ("name", "epsilon", "relation"), given=False)
    checks.refuse((missing, f"{missing} is missing: a new account needs --name, --epsilon and --relation."))
    promise: dict[str, Any] = {
        name: getattr(arguments, name) for name in ("epsilon", "delta", "relation", "measure", "research")
    }
    budget_row(arguments.name, **promise)  # refused, if it must be, before a file is made
    relation = Relation.parse(arguments.relation)
    definition = _definition(arguments, relation)
    if definition is not None:
        definition_row(arguments.name, definition, arguments.record_is, relation)
        budget_row(arguments.name, **promise, label_delta=label_delta_of(definition, arguments.delta))
        promise |= {"domain": definition, "unit": arguments.record_is}
    table = _checked(arguments, definition)
    made = not os.path.lexists(arguments.file)
    with Ledger.create(arguments.file) if made else Ledger.open(arguments.file) as ledger:
        digest = ledger.digest_of(table)
        account = ledger.register(
            arguments.name, digest=digest, other_people=arguments.other_people, **promise
        )
        _print_account(arguments, ledger, account)


def _set_domain(arguments: argparse.Namespace) -> None:
    _check_table(arguments)
    with open_ledger(arguments.file) as ledger:
        account = _account(arguments, ledger)
        definition = _definition(arguments, account.relation)
        if definition is None:
            raise ValueError("--domain is missing: give the widest domain that runs may ask about.")
        definition_row(account.name, definition, arguments.record_is, account.relation)
        if account.definition is not None:
            raise ValueError(
                f"Account {account.name!r} has a domain, which stays as it is, as answers may be about it: "
                f"pgmjax ledger show {arguments.file} --name {account.name} --domain FILE.json writes it. "
                "Nothing was set."
            )
        table = _checked(arguments, definition)
        if ledger.digest_of(table) not in (account.digest, *account.versions):
            raise ValueError(
                f"This is not the table of account {account.name!r}, or its file was changed. Nothing "
                "was set."
            )
        account = ledger.set_domain(account.name, definition, unit=arguments.record_is)
        _print_account(arguments, ledger, account)


def _add_another(arguments: argparse.Namespace) -> None:
    with open_ledger(arguments.file) as ledger:
        account = _account(arguments, ledger)
        definition = account.definition or account.open
        if definition is None:
            raise ValueError(
                f"Account {account.name!r} has no domain, so no table can be checked. Give it one "
                f"with pgmjax ledger set-domain {arguments.file} {account.name} TABLE --domain FILE."
            )
        try:
            table = _checked(arguments, definition)
        except ValueError as error:
            outside = re.findall(r"Attribute ('[^']*'): ([\d,]+ rows?)", str(error))
            listed = "; ".join(f"{name}, {rows}" for name, rows in outside)
            told = f"Values outside: {listed}. Correct these in the table." if outside else error
            raise ValueError(
                f"An account keeps its domain, and a new version of its table must fit that. {told}"
            ) from None
        account = ledger.add_version(account.name, ledger.digest_of(table))
        _print_account(arguments, ledger, account)


def _account(arguments: argparse.Namespace, ledger: Ledger) -> Account:
    """Return the account that stands before a table; exchanged, they are told apart."""
    names = [each.name for each in ledger.accounts()]
    checks.refuse(
        (
            arguments.name not in names and arguments.table in names,
            f"The account stands before the table, got {arguments.name}: exchange the two.",
        )
    )
    return ledger.account(arguments.name)


def _note_exact(arguments: argparse.Namespace) -> None:
    with open_ledger(arguments.file) as ledger:
        _print_account(arguments, ledger, ledger.note_exact(arguments.name, arguments.what))


def _other(arguments: argparse.Namespace) -> str:
    """Return the ledger that was meant: what stands in the place of the table, or a name for one."""
    other = arguments.table
    return "budgets.ledger" if other in (None, arguments.file) else str(other)


def _check_table(arguments: argparse.Namespace) -> None:
    kind = pathlib.Path(arguments.file.removesuffix(".gz")).suffix.lower()
    checks.refuse(
        (
            kind in text_file.KINDS,
            f"{arguments.file} is a table, and a ledger stands before it, as in pgmjax ledger init "
            f"{_other(arguments)} {arguments.file}.",
        ),
        *of_no_table(arguments),
    )


def _definition(arguments: argparse.Namespace, relation: Relation) -> TableDefinition | OpenDefinition | None:
    """Return the definition that the arguments give, None without a domain."""
    if arguments.domain is None and not arguments.demo:
        options = ("weights", "max_weight", "rows_outside", "unit", "max_records", "record_is")
        given = process.first_of(arguments, (*options, "text_encoding"))
        checks.refuse((given, f"{given} needs --domain: give the domain file too."))
        return None
    if arguments.demo and arguments.unit is not None:
        raise ValueError("The demo table has no column for a unit: leave out --unit and --max-records.")
    unit = unit_of(arguments)
    draft = None if arguments.domain is None else Draft.read(arguments.domain)
    if draft is not None and draft.open:
        _check_open(arguments, draft, relation)
        return OpenDefinition(draft, relation, unit, arguments.text_encoding)
    domain = demo.domain() if arguments.domain is None else Domain.read(arguments.domain)
    weights = (arguments.weights, arguments.max_weight)
    return TableDefinition(domain, *weights, arguments.rows_outside, unit, arguments.text_encoding)


def _check_open(arguments: argparse.Namespace, draft: Draft, relation: Relation) -> None:
    """Refuse options of which discovery decides."""
    if arguments.weights is not None or arguments.no_header:
        given = "--weights" if arguments.weights is not None else "--no-header"
        raise ValueError(
            f"{given} cannot be used with columns to be discovered: their table must name its "
            f"columns, and its records cannot have weights. Describe {', '.join(draft.open)} in the "
            f"domain, or leave {given} out."
        )
    wanted = outside_of_found(relation)
    if arguments.rows_outside not in (None, wanted):
        raise ValueError(
            f"--rows-outside must be {wanted} or left out under {relation.value} if columns are to be "
            f"discovered, got {arguments.rows_outside}."
        )


def _checked(arguments: argparse.Namespace, definition: TableDefinition | OpenDefinition | None) -> Any:
    """Return the table, all of whose records the definition settles; its path if there is none yet."""
    if definition is None:
        return text_file.table_file(arguments.table)[0]
    if getattr(arguments, "demo", False):
        return demo.load()
    path, encoding = arguments.table, _encoding(arguments, definition)
    try:
        if isinstance(definition, OpenDefinition):
            # of open columns only the names are checked: whatever they hold has a place in what is found
            data = first_look(OpenTable.read(path, definition.draft, unit=definition.unit, encoding=encoding))
            if definition.described is None:
                return data
            definition = definition.described
        data = Dataset.read(
            path,
            definition.domain,
            header=not arguments.no_header,
            encoding=encoding,
            weights=definition.weights,
            max_weight=definition.max_weight,
            rows_outside=definition.rows_outside,
            unit=definition.unit,
        )
        data.validate()
    except ValueError as error:  # in the words of this command
        said = str(error).replace("header=False", "--no-header").replace("rows_outside ", "--rows-outside ")
        raise ValueError(f"{said} Nothing was registered.") from error
    return data


def _encoding(arguments: argparse.Namespace, definition: TableDefinition | OpenDefinition) -> str | None:
    """Return the encoding that a table is read in: the definition's, if it is a text file."""
    if known_encoding(arguments.text_encoding) not in (None, definition.encoding):
        raise ValueError(
            f"The account's text files have the encoding {definition.encoding or 'UTF-8'}: save this "
            "file in it, or as Parquet."
        )
    text = any(suffix.lower() in text_file.SUFFIXES for suffix in pathlib.Path(arguments.table).suffixes[-2:])
    return definition.encoding if text else None


def _print_account(arguments: argparse.Namespace, ledger: Ledger, account: Account) -> None:
    head, path = ledger.head(), ledger.path
    said = [account.statement()]
    if account.definition is None and account.open is None:
        said.append(
            "  domain   none yet: no run is possible until  pgmjax ledger set-domain "
            f"{arguments.file} {account.name} TABLE --domain FILE"
        )
    if account.versions:
        said.append(f"  tables   {1 + len(account.versions)}, about the same people")
    said += [
        f"  ledger   {path}",
        f"  key      {path}.key (secret; keep a separate copy)",
        f"  head     {head}",
    ]
    told = {"ledger": str(path), "head": head, "account": account.to_dict()}
    process.tell(arguments.json, told, said)


def _show(arguments: argparse.Namespace) -> None:
    with open_ledger(arguments.file) as ledger:
        accounts = ledger.accounts() if arguments.name is None else [ledger.account(arguments.name)]
        books = [(account, ledger.charges(account.name)) for account in accounts]
        head, path = ledger.head(), ledger.path
    if arguments.domain is not None:
        _write_domain(arguments, accounts)
    listed = [{**a.to_dict(), "charges": [one.to_dict() for one in charges]} for a, charges in books]
    said = [f"{path} holds no account yet: pgmjax ledger init opens one."] * (not books)
    for account, charges in books:
        said += [account.statement(), *map("\t".join, _lines(account, charges))]
        said += [f"  exact    {figure.noted[:19]}  {figure.what}" for figure in account.exact]
    said.append(f"  head     {head}")
    process.tell(arguments.json, {"ledger": str(path), "head": head, "accounts": listed}, said)


def _write_domain(arguments: argparse.Namespace, accounts: list[Account]) -> None:
    """Write the domain of the one account that was named to a new file."""
    if arguments.name is None:
        raise ValueError("--domain writes the domain of one account: choose it with --name NAME.")
    (account,) = accounts
    held = account.definition or account.open
    if held is None:
        raise ValueError(
            f"Account {account.name!r} has no domain yet: give it one with pgmjax ledger set-domain."
        )
    content = (held.draft if isinstance(held, OpenDefinition) else held.domain).to_dict()
    place = pathlib.Path(arguments.domain)
    if place.suffix != ".json" or place.exists():
        raise ValueError(f"--domain must name a .json file that does not exist yet, got {place}.")
    place.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


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
    with open_ledger(arguments.file) as ledger:
        found = ledger.verify(arguments.head)
    noted = ", and the chain contains the given head" if arguments.head else ""
    good = [
        f"{checks.counted(found.rows, 'row', 'rows')} checked, no fault found{noted}.",
        f"  head     {found.head}",
    ]
    process.tell(arguments.json, found.to_dict(), good if found.ok else found.faults)
    if not found.ok:
        faults = checks.counted(len(found.faults), "fault that was", "faults that were")
        raise LedgerError(f"The ledger is not to be trusted: see the {faults} found.")
