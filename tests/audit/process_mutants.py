"""Bugs of files, of processes, of a table's identity and of its snapshot, each of which must be caught.

They are out of sight of a replay of mechanisms: what a command writes, says and records, and which table it
reads. `Mutant.detect` is given the command, `pgmjax.cli.main`, in place of a mechanism.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from pgmjax._internal import checks
from pgmjax.audit.processes import CASES, replay_process
from pgmjax.data.dataset import Dataset
from pgmjax.mechanisms.base import Mechanism
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger.charge import Charge
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.release import folder as release_folder
from tests.audit import identity
from tests.audit.mutants import Mutant
from tests.audit.mutations import replaced

_PLAIN = next(case for case in CASES if case.name == "marginals")
_KEPT = next(case for case in CASES if case.name == "marginals in a ledger, asked twice")


def _filled(change: Callable[[pathlib.Path, int], Any]) -> Any:
    """A folder that is changed after it was written, given the exact number of records."""
    run, fill = Mechanism.run, release_folder.fill
    counts: list[int] = []

    def watched(self: Any, data: Any, *given: Any, **more: Any) -> Any:
        counts.append(data.count())
        return run(self, data, *given, **more)

    def filled(folder: pathlib.Path, *given: Any, **more: Any) -> Any:
        missing = fill(folder, *given, **more)
        change(folder, counts.pop())
        return missing

    return replaced((Mechanism, "run", watched), (release_folder, "fill", filled))


def count_in_record() -> Any:
    """The exact number of records in release.json."""

    def change(folder: pathlib.Path, count: int) -> None:
        path = folder / "release.json"
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "records": count}))

    return _filled(change)


def _table_changed(name: str, change: Callable[[Any, int], Any]) -> Any:
    def changed(folder: pathlib.Path, count: int) -> None:
        parquet = checks.optional("pyarrow.parquet", extra="tables")
        parquet.write_table(change(parquet.read_table(folder / name), count), folder / name)

    return _filled(changed)


def order_of_rows() -> Any:
    """The order of the synthetic rows tells whether the number of records is odd."""
    return _table_changed(
        "synthetic.parquet",
        lambda table, count: table.take(list(range(table.num_rows))[:: -1 if count % 2 else 1]),
    )


def exact_column() -> Any:
    """A column of exact numbers beside the noisy ones."""
    return _table_changed(
        "measurements.parquet", lambda table, count: table.append_column("exact", [[count] * table.num_rows])
    )


def count_on_stderr() -> Any:
    """A message with the number of records."""
    return _filled(lambda folder, count: sys.stderr.write(f"{count} records were read\n"))


def failure_by_count() -> Any:
    """The command fails if the number of records is odd."""

    def change(folder: pathlib.Path, count: int) -> None:
        if count % 2:
            raise OSError("The release could not be written.")

    return _filled(change)


def attempts_by_count() -> Any:
    """One more attempt is recorded if the number of records is odd."""
    marginals, answer = PrivateTable._marginals, Charge.answer
    odd: list[bool] = []

    def counting(self: Any, cliques: Any) -> Any:
        found = marginals(self, cliques)
        odd.append(bool(next(iter(found.values())).sum() % 2))
        return found

    def answered(self: Any, *given: Any) -> bytes:
        payload = answer(self, *given)
        if odd and odd.pop():
            self._permitted = False
            self._begin()
        return payload

    return replaced((PrivateTable, "_marginals", counting), (Charge, "answer", answered))


def columns_of_the_domain() -> Any:
    """A table that is known by the columns that are asked about."""
    return replaced((Dataset, "identity", Dataset.fingerprint))


def any_digest() -> Any:
    """A table that the ledger does not know is taken for the first one that it knows."""
    find = Ledger.find_table

    def found(self: Any, table: Any) -> Any:
        known = [(each, each.digest) for each in self.accounts()]
        return find(self, table) or (known[0] if known else None)

    return replaced((Ledger, "find_table", found))


def any_domain() -> Any:
    """The domain of whoever asks is not held to the account's."""
    return replaced((Dataset, "under", lambda self, definition: self))


def read_again() -> Any:
    """The files are read again for each answer."""
    return replaced((PrivateTable, "_records", lambda self: self._data))


def copied_again() -> Any:
    """A copy is made for each answer, after it was charged."""
    return replaced((PrivateTable, "_records", lambda self: self._data.snapshot()))


def any_stamp() -> Any:
    """No look at whether the files changed."""
    return replaced((Dataset, "_check_unchanged", lambda self, stamp: None))


def _plain(main: Any) -> None:
    replay_process(main, _PLAIN)


def _kept(main: Any) -> None:
    replay_process(main, _KEPT)


def _check(check: Callable[[], None]) -> Callable[[Any], None]:
    return lambda main: check()


def _mutant(name: str, apply: Any, detect: Callable[[Any], None]) -> Mutant:
    layer = "L1" if detect in (_plain, _kept) else "contract"
    return Mutant(name, layer, apply, "none", detect)


FILES: tuple[Mutant, ...] = (
    _mutant("an exact count in release.json", count_in_record, _plain),
    _mutant("the order of synthetic rows depends on the table", order_of_rows, _plain),
    _mutant("an exact column in measurements.parquet", exact_column, _plain),
)
PROCESSES: tuple[Mutant, ...] = (
    _mutant("the number of records on standard error", count_on_stderr, _plain),
    _mutant("an exit code that depends on the table", failure_by_count, _plain),
    _mutant("attempts whose number depends on the table", attempts_by_count, _kept),
)
IDENTITY: tuple[Mutant, ...] = (
    _mutant(
        "a table known by the domain's columns",
        columns_of_the_domain,
        _check(identity.tables_are_known_whole),
    ),
    _mutant("a second digest without add-version", any_digest, _check(identity.other_tables_are_refused)),
    _mutant(
        "a domain narrower than the account's", any_domain, _check(identity.narrower_domains_are_refused)
    ),
)
SNAPSHOT: tuple[Mutant, ...] = (
    _mutant("the table read again for each answer", read_again, _check(identity.answers_are_of_one_table)),
    _mutant("a copy for each answer", copied_again, _check(identity.answers_are_of_one_table)),
    _mutant("changed files that go unnoticed", any_stamp, _check(identity.changed_files_are_refused)),
)
ALL: tuple[Mutant, ...] = (*FILES, *PROCESSES, *IDENTITY, *SNAPSHOT)
"""Every mutant here; `mutants.caught(mutant, main)` tells by what it is caught."""
