"""A run's journal in a folder: every noisy answer is on disk before it is used or shown.

The folder holds `run.json` (what the run is, public), `answers/` (one file for each step, public if the noise
is secure) and `.table.json` (a key and the table's digest under it, for the table's holder alone).
"""

from __future__ import annotations

import hmac
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.data.sources import TableChangedError
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger.chain import digest_of
from pgmjax.privacy.private_table import Journal

FORMAT = "pgmjax-run"
FORMAT_VERSION = 1
RUN = "run.json"
ANSWERS = "answers"
TABLE = ".table.json"
_RECORDS = "records"


class RunFolder:
    """Keeps the noisy answers of one run in a folder.

    A run that ended in any way goes on where it stopped: stored steps are played back, and only the others
    are computed. It is a context manager, which holds the folder against other processes.

    Args:
        path: the folder; it is made if there is none.

    Attributes:
        path: the folder.
        is_open: whether it is held against other processes; False after `close`.

    Raises:
        ValueError: another process works in the folder, it cannot be made, or it holds something else.

    Guarantees:
        Adds no cost and hides none: the run's budget is charged for a stored step as for a computed one, so
        that all answers in the folder together cost at most the run's budget. A step that is not stored was
        not used or shown.

    Example:
        >>> import tempfile
        >>> from pgmjax.privacy import PrivateTable
        >>> from pgmjax.queries import marginal
        >>> data = Dataset.from_columns(Domain({"sex": 2}), {"sex": [0, 1, 1]})
        >>> with tempfile.TemporaryDirectory() as path:
        ...     values = []
        ...     for _ in range(2):
        ...         with RunFolder(path) as folder:
        ...             folder.bind({"asked": "sex"}, data)
        ...             table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), journal=folder)
        ...             values.append(table.measure([marginal(["sex"])], epsilons=[1])[0].values.tolist())
        >>> values[0] == values[1]
        True
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)
        self._journal: Journal | None = None
        self._run: object = None
        self._bound = False
        self.is_open = True
        self._step = 0
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = files.lock(self.path)
        except BlockingIOError:
            raise ValueError(f"Another process works in {self.path}: wait until it has ended.") from None
        except OSError as error:
            raise ValueError(f"The folder {self.path} cannot be used: {error.strerror}.") from error

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let other processes use the folder."""
        handle, self._lock, self.is_open = self._lock, None, False
        files.unlock(handle)

    @property
    def stored(self) -> int:
        """The number of stored answers."""
        return stored_answers(self.path)

    def bind(self, request: Mapping[str, Any], data: Dataset, journal: Journal | None = None) -> None:
        """Begin the run in the folder, or go on with it. Nothing is spent and no count is read.

        Args:
            request: what the run is, public and JSON-able.
            data: the private table. A `DeferredTable` is compared with the run's table when it is opened.
            journal: the journal of a ledger, which is charged and has the answers too. Default: none.

        Raises:
            ValueError: the folder is that of another request, or holds something else.
            TableChangedError: the table is not the one that the run began with.
        """
        if self._bound:
            raise ValueError("A RunFolder keeps one run, and this one has another already: make a new one.")
        path, asked = self.path / RUN, digest_of("request", request)
        if path.is_file():
            if _read(self.path).get("request_hash") != asked:
                raise ValueError(
                    f"{self.path} holds the answers to another request (mechanism, settings, domain, "
                    "workload, privacy parameters or noise differ): name another folder. Nothing was spent."
                )
            if not isinstance(data, DeferredTable):
                check_table(self.path, data)
        else:
            others = [name for name in (ANSWERS, "measurements.parquet", "release.json") if self._has(name)]
            if others:
                raise ValueError(
                    f"{self.path} has {', '.join(others)} but no {RUN}: name a new folder. Nothing was spent."
                )
            key = os.urandom(32)
            _write(self.path / TABLE, {"key": key.hex(), "table": data.identity(key)}, 0o600)
            heading = {"format": FORMAT, "format_version": FORMAT_VERSION, "request_hash": asked}
            _write(path, {**heading, "request": dict(request)})
        self._bound, self._journal = True, journal

    def _has(self, name: str) -> bool:
        return os.path.lexists(self.path / name)

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Have the ledger's journal, if there is one, charge the run.

        Raises:
            ValueError: the folder is not bound, or has another run.
            BudgetExceeded, LedgerError: see `Ledger.reserve`; nothing was charged.
        """
        if not self._bound:
            raise ValueError("Bind the RunFolder to its request and table first: RunFolder.bind.")
        self._run = run if self._run is None else self._run
        if self._run is not run:
            raise ValueError("A RunFolder keeps one run, and this one has another already: make a new one.")
        if self._journal is not None:
            self._journal.begin(run, budget, relation, secure)

    def receipt(self) -> dict[str, Any] | None:
        """Return the ledger's record of the run's charge; None without a ledger."""
        return None if self._journal is None else self._journal.receipt()

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return whether the next step's answer is kept, and is one to this request."""
        found = self._stored(f"{self._step:05d}")
        if found is not None:
            return found[0] == digest_of("request", request)
        return self._journal is not None and self._journal.holds(request)

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the next step's answer, int64 [n]: the stored one, or one computed and stored now.

        Raises:
            ValueError: the stored answer is one to another request, or differs from the ledger's.
            OSError: the answer could not be stored; it is not shown.
        """
        step, self._step = self._step, self._step + 1
        asked, name = digest_of("request", request), f"{step:05d}"
        found = self._stored(name)
        if found is None:
            values = compute() if self._journal is None else self._journal.answer(request, compute)
            self._store(name, asked, values)
            return values
        if found[0] != asked:
            raise ValueError(
                f"Answer {step} in {self.path} is to another question than the run asks now. What an "
                "adaptive mechanism asks depends on its fits: go on with the solver, the steps, the version "
                "and the kind of machine that the run began with. Nothing was computed."
            )
        values = found[1]
        if self._journal is not None and not np.array_equal(
            self._journal.answer(request, lambda: values), values
        ):
            raise ValueError(f"Answer {step} in {self.path} is not the ledger's: use another folder.")
        return values

    def public_count(self, count: Callable[[], int]) -> int:
        """Return the number of records where it is public: the stored one, or one counted and stored now."""
        found = self._stored(_RECORDS)
        if found is None:
            found = "", np.array([count()], dtype=np.int64)
            self._store(_RECORDS, *found)
        return int(found[1][0])

    def _stored(self, name: str) -> tuple[str, np.ndarray] | None:
        path = self.path / ANSWERS / f"{name}.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as stored:
                return str(stored["request"]), stored["values"]
        except Exception as error:  # of many kinds, by what is damaged
            raise ValueError(f"{path} is damaged: copy the folder again.") from error

    def _store(self, name: str, asked: str, values: np.ndarray) -> None:
        if values.dtype != np.int64:
            raise TypeError(f"Answers must be int64, got {values.dtype}.")
        folder = self.path / ANSWERS
        if not folder.is_dir():
            folder.mkdir()
            files.sync(self.path)
        with files.replacing(folder / f"{name}.npz") as path, path.open("wb") as file:
            np.savez(file, request=np.array(asked), values=values)


class DeferredTable(Dataset):
    """The table of a run in a folder, opened when a record is needed and then compared with the run's table.

    Args:
        path: the run's folder.
        open_table: opens the table.
    """

    def __init__(self, path: str | os.PathLike[str], open_table: Callable[[], Dataset]):
        asked = _read(pathlib.Path(path))["request"]
        self._layout: dict[str, str] = asked["columns"]
        self._path, self._open = pathlib.Path(path), open_table
        no_source: Any = None
        super().__init__(
            Domain(asked["domain"]), no_source, asked["max_weight"], rows_outside=asked["rows_outside"]
        )
        self._found: Dataset | None = None

    def _table(self) -> Dataset:
        if self._found is None:
            opened = self._open()
            check_table(self._path, opened)
            self._found = opened.snapshot()
        return self._found

    @property
    def layout(self) -> dict[str, str]:
        """The file's columns by attribute, as the run began."""
        return self._layout

    def snapshot(self) -> Dataset:
        """Return the records, checked. Private."""
        return self._table()

    def validate(self) -> None:
        """Check every record against the domain."""
        self._table()

    def count(self) -> int:
        """Return the exact number of records, or their total weight. Private."""
        return self._table().count()

    def marginals(self, cliques: Any) -> list[np.ndarray]:
        """Return the exact counts over every clique. Private."""
        return self._table().marginals(cliques)

    def records(self, names: Sequence[str]) -> Iterator[dict[str, np.ndarray]]:
        """Yield codes [rows] by attribute, batch by batch. Private."""
        return self._table().records(names)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the table."""
        return self._table().fingerprint(key)

    def identity(self, key: bytes) -> str:
        """Return a keyed digest of the whole table."""
        return self._table().identity(key)


def check_table(path: str | os.PathLike[str], data: Dataset) -> None:
    """Compare a table with the one that the run in a folder began with.

    Raises:
        ValueError: the folder lacks the digest of its table, or it is damaged.
        TableChangedError: it is another table, or was changed.
    """
    file = pathlib.Path(path) / TABLE
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        same = hmac.compare_digest(data.identity(bytes.fromhex(record["key"])), record["table"])
    except (KeyError, TypeError, json.JSONDecodeError, FileNotFoundError) as error:
        raise ValueError(f"{file} is missing or damaged: the run's table cannot be recognised.") from error
    if not same:
        raise TableChangedError(
            f"The table is not the one that the run in {os.fspath(path)} began with, or was changed since. "
            "Put that table back, or begin a new run in a new folder, which costs its own budget. Nothing "
            "was computed."
        )


def stored_answers(path: str | os.PathLike[str]) -> int:
    """Return the number of noisy answers that are stored in a run's folder."""
    folder = pathlib.Path(path) / ANSWERS
    return sum(1 for file in folder.glob("[0-9]*.npz")) if folder.is_dir() else 0


def _read(path: pathlib.Path) -> dict[str, Any]:
    return files.read(path / RUN, "a run of pgmjax", FORMAT, FORMAT_VERSION)


def _write(path: pathlib.Path, record: Mapping[str, Any], mode: int | None = None) -> None:
    with files.replacing(path, mode) as partial:
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
