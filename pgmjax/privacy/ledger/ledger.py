"""The ledger: a durable account of what was spent on tables, across runs, processes and crashes.

A release reserves its budget, which is on disk before the table is read; computes the answer; stores it on
disk; and only then shows it. A crash at any point leaves at worst a charge without an answer, never an
answer without a charge.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from pgmjax._internal import checks, files
from pgmjax.data import fingerprint
from pgmjax.data.definition import OpenDefinition, TableDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit
from pgmjax.privacy.accounting.events import Event
from pgmjax.privacy.ledger import chain, database, verify
from pgmjax.privacy.ledger.account import (
    Account,
    ChargeRecord,
    accounts,
    budget_row,
    charges,
    completes,
    definition_row,
    flag,
    label_delta_of,
    last_definition,
    rests_on_definition,
    word,
)
from pgmjax.privacy.ledger.charge import Charge, answers_of, reserve
from pgmjax.privacy.ledger.errors import LedgerError, as_ledger_error
from pgmjax.privacy.ledger.verify import Verification


class Ledger:
    """An append-only file of budgets, charges and answers, for many threads and processes at once.

    Create one with `create` and open an existing one with `open`. Next to FILE is FILE.key, the secret used
    to recognise tables. Back up both, never restore an old copy, and note `head` elsewhere.

    Guarantees:
        All releases for the charges of one account together satisfy its privacy promise.
        Every charge is on disk before its answer is computed, every answer before it is returned.

    Example:
        >>> import tempfile, pathlib
        >>> from pgmjax.privacy.accounting.events import Pure
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.create(pathlib.Path(folder.name) / "budgets.ledger")
        >>> digest = ledger.digest_of({"age": [0, 1, 1]})
        >>> promise = {"epsilon": 1, "relation": "add-remove", "domain": Domain({"age": 3})}
        >>> account = ledger.register("survey", digest=digest, **promise)
        >>> events, asked = [Pure("0.3")], {"ask": "age"}
        >>> charge = ledger.reserve("survey", "run 1", asked, events, relation="add-remove", secure=True)
        >>> charge.answer(0, asked, lambda: b"1 3")
        b'1 3'
        >>> ledger.account("survey").remaining
        Fraction(7, 10)
        >>> ledger.verify().ok
        True
        >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, file: database.LedgerFile):
        if not isinstance(file, database.LedgerFile):
            raise TypeError("A ledger is opened by Ledger.open(path), or made by Ledger.create(path).")
        self._file = file

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, timeout: float = 30.0) -> Ledger:
        """Create a ledger and its key, and open it.

        Args:
            path: a file that does not exist, on a local disk.
            timeout: seconds to wait for other writers.

        Raises:
            LedgerError: the file exists, or a ledger cannot be kept there.
        """
        place = database.resolve(path)
        make_file(place, checks.number("timeout", timeout, above=0))
        return cls.open(place, timeout=timeout)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = 30.0) -> Ledger:
        """Open a ledger.

        Raises:
            LedgerError: the file is not a ledger, has another format, or cannot be written safely.
        """
        ledger = cls(database.LedgerFile(database.resolve(path), checks.number("timeout", timeout, above=0)))
        with ledger._file.reading() as connection:
            chain.head(connection)
        return ledger

    @property
    def path(self) -> pathlib.Path:
        """The path of the ledger."""
        return self._file.path

    def close(self) -> None:
        """Close the ledger; nothing is lost if this is never called."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def digest_of(self, table: Any) -> str:
        """Return the keyed digest of a table, by which it is registered and found.

        Args:
            table: path of a file or folder, a mapping from name to integer codes [rows], or a `Dataset`
                or other object with a `fingerprint` method.

        Raises:
            TypeError: the argument is not a table, a name is not a string, or codes are not integers.
            ValueError: a column is not one-dimensional.
            LedgerError: the key is missing, belongs to another ledger, or is readable by others.
        """
        key = self._key()
        if isinstance(table, Mapping):
            return fingerprint.of_columns(table, key)
        if isinstance(table, str | os.PathLike):
            return fingerprint.of_path(table, key)
        if hasattr(table, "identity"):
            return str(table.identity(key))
        if hasattr(table, "fingerprint"):
            return str(table.fingerprint(key))
        raise TypeError(
            f"A table must be a path, columns or a Dataset, got {type(table).__name__}: of a frame write "
            "Dataset.from_frame(domain, frame)."
        )

    def register(
        self,
        name: str,
        *,
        epsilon: Any,
        delta: Any = 0,
        relation: Relation | str,
        digest: str,
        measure: str | None = None,
        research: bool = False,
        max_attempts: int = 10,
        domain: Domain | TableDefinition | OpenDefinition | None = None,
        unit: str | Unit | None = None,
        other_people: bool = False,
    ) -> Account:
        """Register a table with a permanent budget, which can be neither raised nor registered again.

        This is an act of the table's holder, who has checked its records: `Dataset.validate`.

        Args:
            name: what to call the account.
            epsilon: what all releases together may cost, > 0.
            delta: the same, in [0, 1).
            relation: which tables are neighbours; there is no default.
            digest: the table's, from `digest_of`.
            measure: "pure" (delta 0, the default there), "zcdp" (the default with a delta) or "renyi",
                which wastes less where releases are of several kinds or few and large.
            research: let in noise that can be repeated and protects nobody.
            max_attempts: how often a charge may be tried without an answer.
            domain: the widest domain that may be asked about, or the whole definition of the table, with its
                weights and what happens to rows outside. Without one the account waits for `set_domain`.
                With an `OpenDefinition` the first run that discovers the open columns gives the account its
                domain; if labels may be among them, half of delta is kept for these.
            unit: the unit of privacy, with a domain: all releases together protect all records of one value
                of its column, and a table need not be opened with it. Or a word for what one record is of,
                such as "person", for the records.
            other_people: the holder's word that this table is of other people than those of all accounts in
                this ledger. A table of the same people is another version of theirs: see `add_version`.

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: numbers out of range, the name or the table has an account, or there are other
                accounts and nobody said that the people are others.
        """
        label_delta = label_delta_of(domain, delta)
        row = budget_row(
            name,
            label_delta=label_delta,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            measure=measure,
            research=research,
            max_attempts=max_attempts,
        )
        row["digest"] = word("digest", digest)
        if os.path.exists(digest):
            raise ValueError("digest must be that of the table, ledger.digest_of(path), and not its name.")
        defined = None
        if domain is None and isinstance(unit, Unit):
            raise ValueError("A unit of privacy is a part of the table's definition: give the domain too.")
        if domain is not None:
            defined = definition_row(row["account"], domain, unit, Relation.parse(relation), label_delta)
        with self._file.writing("given the account", "Nothing was registered.") as connection:
            if accounts(connection, "account", name):
                raise ValueError(
                    f"There is an account {name!r} already, and its budget stays as it is: choose "
                    "another name for another table."
                )
            for other in accounts(connection, "digest", digest):
                raise ValueError(
                    f"This table has the account {other.name!r} already: one table has one budget, "
                    "whatever it is called."
                )
            others = [account.name for account in accounts(connection)]
            if others and not flag("other_people", other_people):
                raise ValueError(
                    f"This ledger keeps {', '.join(map(repr, others))} already. If the table is of the same "
                    "people (an appended row, another file format, next month's export), add it to their "
                    "account: pgmjax ledger add-version FILE NAME TABLE, or Ledger.add_version. If it is of "
                    "other people, say so: --other-people, or other_people=True. Nothing was registered."
                )
            chain.add(connection, "budget", row)
            if defined is not None:
                chain.add(connection, "definition", defined)
        return self.account(name)

    def set_domain(
        self,
        name: str,
        domain: Domain | TableDefinition | OpenDefinition,
        *,
        unit: str | Unit | None = None,
    ) -> Account:
        """Complete an account that was registered without a domain, or correct one on which nothing rests.

        This is an act of the table's holder, who has checked all its versions: `Dataset.validate`. It costs
        nothing and gives nothing back: what was charged stays spent. An account whose domain turns out to be
        wrong is corrected this way as long as no answer was released by it; the answers by which a run found
        the domain are none. Columns that are still open may be described at any time. Every definition stays
        in the chain.

        Args:
            name: the account.
            domain: as in `register`.
            unit: as in `register`.

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: no such account, or one by whose domain an answer was released; another unit of
                privacy than that for which something was charged already; or open columns that may be text,
                for whose labels the account keeps no part of its delta.
        """
        known = self.account(name)  # of what is read here only what never changes is used
        if label_delta_of(domain, known.delta) and not known.label_delta:
            raise ValueError(
                f"The whole delta of account {name!r} is promised for its charges, and none is kept for "
                "labels of text: describe the open columns that may be text, or say {bins: discover}."
            )
        row = definition_row(name, domain, unit, known.relation, known.label_delta)
        asked = Unit.from_dict(json.loads(row["definition"]).get("unit"))
        with self._file.writing("given the domain", "Nothing was changed.") as connection:
            account = self._account(connection, name)
            whom = account.unit_of_privacy
            if account.charges and asked != whom:
                protects = (
                    "one record" if whom is None else f"{whom.max_records} records of one {whom.column}"
                )
                raise ValueError(
                    f"Account {name!r} has charges for releases that protect {protects}, and costs on two "
                    "units cannot be added up: give it a domain with that unit of privacy."
                )
            defined = account.definition is not None or account.open is not None
            if defined and rests_on_definition(connection, name) and not completes(account, row):
                hint = ""
                if account.open is not None and account.found_by is None:
                    hint = (
                        " Its open columns may be described, if all others stay as they are, with "
                        f"rows_outside {account.open.rows_outside!r}."
                    )
                raise ValueError(
                    f"Account {name!r} has a domain already, and it stays: what was released rests on "
                    f"it.{hint}"
                )
            chain.add(connection, "definition", row)
        return self.account(name)

    def set_discovered(self, name: str, charge: int, domain: Domain) -> Account:
        """Give an account the domain that a run found for the columns its holder left open.

        Args:
            name: the account.
            charge: number of the run's charge.
            domain: what was found, with the described columns as they are.

        Raises:
            ValueError: no such account or charge, no open columns, a domain that does not complete them, or
                another domain was found meanwhile.

        Guarantees:
            The domain must be computed from charged answers alone; then this is post-processing.
        """
        with self._file.writing("given the domain", "It has no domain yet.") as connection:
            account = self._account(connection, name)
            if account.open is None:
                raise ValueError(f"Account {name!r} has no open columns: its domain stays as it is.")
            if all(one.id != charge for one in charges(connection, account)):
                raise ValueError(f"Account {name!r} has no charge {charge}.")
            definition = account.open.closed_by(domain)
            if account.found_by is None:
                draft = last_definition(connection, name)
                row = {
                    "account": name,
                    "draft": None if draft is None else draft[0],
                    "charge": charge,
                    "answers": answers_of(connection, charge),
                    "definition": json.dumps(definition.to_dict()),
                }
                chain.add(connection, "discovery", row)
            elif (account.found_by, account.definition) != (charge, definition):
                raise ValueError(
                    f"Charge {account.found_by} has found a domain for account {name!r} meanwhile, and it "
                    "stays: ask by that domain. What this run cost is spent."
                )
        return self.account(name)

    def add_version(self, name: str, digest: str) -> Account:
        """Add a table of the same people to an account; what is asked of any version is charged to it.

        This is an act of the table's holder, who has checked it by the account's definition:
        `Dataset.validate`.

        Args:
            name: the account.
            digest: the table's, from `digest_of`.

        Raises:
            TypeError: a digest that is no string.
            ValueError: no such account, one without a domain, or the table has an account.
        """
        with self._file.writing("given the table", "Nothing was changed.") as connection:
            account = self._account(connection, name)
            if account.definition is None and account.open is None:
                raise ValueError(
                    f"Account {name!r} has no domain by which the table could be checked: give it one with "
                    "Ledger.set_domain, or pgmjax ledger set-domain."
                )
            for other in accounts(connection, "digest", word("digest", digest)):
                raise ValueError(f"This table belongs to the account {other.name!r} already.")
            chain.add(connection, "version", {"account": name, "digest": digest})
        return self.account(name)

    def note_exact(self, name: str, what: str) -> Account:
        """Note that an exact figure about the people of an account was published, now or at any time.

        It costs nothing, because no budget covers it: whoever adds up what is known of these people must see
        it beside the charges. A release that is made later lists it.

        Args:
            name: the account.
            what: what was published and where, without its value, such as "visits a ward, yearbook, page 12".

        Raises:
            TypeError: a note that is no string.
            ValueError: no such account, or a note that is empty or longer than a line of 200 characters.
        """
        row = {"account": name, "what": word("The note", what)}
        with self._file.writing("given the note", "Nothing was noted.") as connection:
            self._account(connection, name)
            if not database.keeps_figures(connection):
                for statement in database.statements(database.FIGURES):
                    connection.execute(statement)
            chain.add(connection, "exact_figure", row)
        return self.account(name)

    def account(self, name: str) -> Account:
        """Return the current state of an account.

        Raises:
            ValueError: no account has that name.
        """
        with self._file.reading() as connection:
            return self._account(connection, name)

    def accounts(self) -> list[Account]:
        """Return all accounts, in order of registration."""
        with self._file.reading() as connection:
            return accounts(connection)

    def find(self, digest: str) -> Account | None:
        """Return the account of the table with a digest, or None."""
        with self._file.reading() as connection:
            found = accounts(connection, "digest", word("digest", digest))
        return found[0] if found else None

    def find_table(self, table: Any) -> tuple[Account, str] | None:
        """Return the account of a table and its digest there, None if it has none."""
        digest = self.digest_of(table)
        account = self.find(digest)
        return None if account is None else (account, digest)

    def charges(self, name: str) -> list[ChargeRecord]:
        """Return the charges of an account, oldest first."""
        with self._file.reading() as connection:
            return charges(connection, self._account(connection, name))

    def reserve(
        self,
        account_name: str,
        key: str,
        request: Mapping[str, Any],
        events: Sequence[Event],
        *,
        relation: Relation | str,
        secure: bool,
    ) -> Charge:
        """Charge an account. When this returns, the charge is on disk and permanent.

        The ledger stores the answers of the charge's steps but does not check them against its events. It
        is the run's own budget that limits the run to what was charged, as in a `PrivateTable` with a
        `LedgerJournal`.

        Args:
            account_name: the account.
            key: name of the run. A run repeated under the same key, after a crash or to read its
                answers, is not charged again.
            request: what the run asks for; public, JSON-able, and the same in every repetition.
            events: everything the run does to the table, in all of its steps.
            relation: the neighbouring relation of these events; must be the account's.
            secure: whether the noise is secure.

        Returns:
            The charge; its answers come from `Charge.answer`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: no such account, another relation, insecure noise, or an event without a cost
                in the account's unit.
            BudgetExceeded: the cap would be exceeded; nothing was charged. Depends only on public costs.
            IdempotencyConflict: the key was used for another request.
            AttemptsExhausted: the charge was tried too often without an answer.
            LedgerError: the charge could not be recorded; nothing was granted.
        """
        # only what never changes is taken from here; the sums are read again in the writing transaction
        with self._file.reading() as connection:
            account = self._account(connection, account_name)
        return reserve(self._file, account, key, request, events, Relation.parse(relation), secure)

    def charge(self, account_name: str, key: str) -> Charge:
        """Return an earlier charge, to read its stored answers.

        Raises:
            ValueError: no such account, or no charge with that key.
        """
        with self._file.reading() as connection:
            account = self._account(connection, account_name)
            made = charges(connection, account, word("key", key))
        if made:
            return Charge(self._file, made[0], account, permitted=False)
        raise ValueError(f"There is no charge of key {key!r} to account {account_name!r} in {self.path}.")

    def head(self) -> str:
        """Return the last link of the chain, to be noted where writers of the ledger cannot change it."""
        with self._file.reading() as connection:
            return chain.head(connection)

    def verify(self, head: str | None = None) -> Verification:
        """Look for damage, changed or missing rows and sums that do not add up.

        Args:
            head: a head noted earlier. Without one, a restored older copy is not detected.

        Raises:
            TypeError: the head is not a string.
            ValueError: the head is not one that a ledger prints.
        """
        checks.kind(head, str | None, "head must be a string, as `head` gave it earlier, or None")
        if head is not None and not re.fullmatch(r"\s*[0-9a-fA-F]{64}\s*", head):
            raise ValueError(
                f"head must be the 64 hexadecimal digits that `pgmjax ledger show` prints, got {head[:70]!r}."
            )
        with self._file.reading() as connection:
            return verify.verify(connection, head)

    def _key(self) -> bytes:
        with self._file.reading() as connection:
            (check,) = connection.execute("SELECT key_check FROM ledger").fetchone()
        return chain.read_key(self.path, check)

    def _account(self, connection: sqlite3.Connection, name: str) -> Account:
        found = accounts(connection, "account", word("name", name))
        if found:
            return found[0]
        known = ", ".join(account.name for account in accounts(connection)) or "none"
        raise ValueError(
            f"There is no account {name!r} in {self.path}; accounts: {known}."
            + ("" if known != "none" else " Register one: pgmjax ledger init, or Ledger.register.")
        )


def make_file(path: pathlib.Path, timeout: float) -> None:
    """Create an empty ledger and its key; both are on disk when this returns.

    Args:
        path: as `database.resolve` returns it.
        timeout: seconds to wait for other writers.

    Raises:
        LedgerError: the file, or a file of an earlier ledger of that name, exists; or the disk failed,
            in which case neither file is left.
    """
    # a log that an earlier ledger left would be replayed into the new file
    for suffix in ("", "-wal", "-shm", "-journal"):
        found = path.with_name(path.name + suffix)
        if os.path.lexists(found):
            part = "" if not suffix else ", which belongs to an earlier ledger of that name"
            raise LedgerError(
                f"{found} exists{part}. A ledger is never written over: use it "
                "(--ledger, privacy.Ledger.open), or choose another name."
            )
    # the key comes first: an interruption leaves at most a key, which the next attempt refuses
    key = chain.create_key(path)
    made = [chain.key_path(path)]
    try:
        with as_ledger_error(path, "made", "Nothing is left of it."):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            made += [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
            connection = database.connect(path, timeout, None, new=True)
            try:
                _fill(connection, key)
            finally:
                connection.close()
            # the entries of the folder too: a power cut could take files away that are flushed themselves
            files.sync(path.parent)
    # Ctrl-C too: a ledger that is half made would be in the way of the next attempt
    except BaseException:
        for file in made:
            with contextlib.suppress(OSError):
                file.unlink()
        raise


def _fill(connection: database.Connection, key: bytes) -> None:
    connection.key = key
    # one transaction: the file is either no ledger yet, or complete with its first link
    connection.execute("BEGIN IMMEDIATE")
    for statement in database.statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {database.FORMAT}")
    row = {"format": database.FORMAT, "name": os.urandom(16).hex(), "key_check": chain.key_check(key)}
    chain.add(connection, "ledger", row)
    connection.execute("COMMIT")
