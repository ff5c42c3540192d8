"""Checks that a table in a ledger is known whole, held to its definition, and read as it was at one time.

Each makes a ledger and a small table in a folder of its own, raises `primitives.AuditFailure` on a fault, and
otherwise returns None.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from pgmjax.audit.primitives import AuditFailure
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import TableDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.data.sources import TableChangedError
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger.journal import HeldTable
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import Tape
from pgmjax.queries import marginal
from tests.audit.contracts import must_refuse

_HELD = Domain({"a": {"labels": ["x", "y", "z"]}, "b": 2})
_RELATION = Relation.ADD_REMOVE


@contextlib.contextmanager
def _ledger() -> Iterator[tuple[Ledger, pathlib.Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Ledger.create(folder / "ledger") as ledger:
            yield ledger, folder


def _register(ledger: Ledger, data: Dataset) -> None:
    definition = TableDefinition(data.domain)
    digest = ledger.digest_of(data)
    ledger.register("people", epsilon=1, relation=_RELATION, digest=digest, domain=definition)


def _file(folder: pathlib.Path, letters: str = "xxyyz") -> pathlib.Path:
    """Write a table, in place of the one that was there."""
    path, new = folder / "table.csv", folder / "new.csv"
    new.write_text("a,b\n" + "".join(f"{letter},{k % 2}\n" for k, letter in enumerate(letters)))
    os.replace(new, path)
    return path


def tables_are_known_whole() -> None:
    """A table in memory that differs in a column outside the domain is another table.

    Raises:
        AuditFailure: the ledger takes it for the registered one, so that its records would be answered about
            under a budget that is not theirs.
    """
    domain = Domain({"a": 2})
    first = Dataset.from_columns(domain, {"a": [0, 1], "income": [1, 2]})
    other = Dataset.from_columns(domain, {"a": [0, 1], "income": [1, 3]})
    with _ledger() as (ledger, _):
        _register(ledger, first)
        act = functools.partial(HeldTable.of, ledger, other)
        must_refuse(act, "a table that differs outside of the domain", ValueError)


def other_tables_are_refused() -> None:
    """A file with one more record has no account until its holder adds it as a version.

    Raises:
        AuditFailure: it was accepted.
    """
    with _ledger() as (ledger, folder):
        _register(ledger, Dataset.read(_file(folder), _HELD))
        changed = Dataset.read(_file(folder, "xxyyzz"), _HELD)
        act = functools.partial(HeldTable.of, ledger, changed)
        must_refuse(act, "a table that nobody registered", ValueError)


def narrower_domains_are_refused() -> None:
    """A domain without a place for each of the account's cells is refused, whatever the records are.

    Raises:
        AuditFailure: it was accepted: then an error, or none, tells whether a record lies outside.
    """
    with _ledger() as (ledger, folder):
        path = _file(folder)
        _register(ledger, Dataset.read(path, _HELD))
        narrow = Dataset.read(path, Domain({"a": {"labels": ["x", "y"]}}))
        act = functools.partial(HeldTable.of, ledger, narrow)
        must_refuse(act, "a domain narrower than the account's", ValueError)


def answers_are_of_one_table() -> None:
    """All answers of a run are of the table as it was at the first one, or the run ends.

    Raises:
        AuditFailure: after the file was replaced, the run went on with the new one.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, tape = pathlib.Path(name), Tape()
        data = Dataset.read(_file(folder), _HELD)
        with tape.recording():
            table = PrivateTable(data, _RELATION, Budget(1), SeededBackend(0, insecure=True))
        ask = functools.partial(table.measure, [marginal(["a"])], epsilons=["1/2"], show_progress=False)
        with contextlib.suppress(TableChangedError):
            ask()
            _file(folder, "zzzzyx")
            ask()
        exact = [call.exact for call in tape.calls]
        if len(exact) > 1 and not np.array_equal(exact[0], exact[1]):
            raise AuditFailure("A run read its table again after it was replaced: its answers are of two.")


def changed_files_are_refused() -> None:
    """A file that is replaced after the ledger has recognised it is not read any more.

    Raises:
        AuditFailure: the new file was read and charged to the account of the old one.
    """
    with _ledger() as (ledger, folder):
        data = Dataset.read(_file(folder), _HELD)
        _register(ledger, data)
        held = HeldTable.of(ledger, data).data
        assert isinstance(held, Dataset)
        _file(folder, "zzzzyx")
        must_refuse(held.snapshot, "a file replaced after it was recognised", TableChangedError)


CHECKS: dict[str, Callable[[], None]] = {
    "tables are known whole": tables_are_known_whole,
    "other tables are refused": other_tables_are_refused,
    "narrower domains are refused": narrower_domains_are_refused,
    "answers are of one table": answers_are_of_one_table,
    "changed files are refused": changed_files_are_refused,
}
