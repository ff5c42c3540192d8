"""A run's folder: every noisy answer is on disk before it is used, so that no kind of end loses one.

Beside a ledger it makes a release resumable without its own cost; without a ledger it is the only record of
the answers that were paid for. A run that goes on from its folder plays the stored answers back and computes
the others, all within the one budget of the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, files, formats
from pgmjax.data.dataset import Dataset
from pgmjax.data.population import Population
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger import IdempotencyConflict
from pgmjax.privacy.ledger.chain import digest_of
from pgmjax.privacy.private_table import Journal
from pgmjax.release import tables

MEASUREMENTS = "measurements.parquet"
RUN, _ANSWERS = ".run.json", "answers"
EMPTY = (_ANSWERS,)
KEPT = (*EMPTY, MEASUREMENTS, RUN)
"""The names of what stays in the folder of a run that goes on, without and with answers."""


class RunFolder:
    """A folder in which a run keeps its noisy answers.

    In it are `measurements.parquet`, what was measured so far, and `answers/`, every answer of the run in
    order; `.run.json`, for the owner of the folder alone, tells one run and one table from another.

    Args:
        folder: path; made if it is missing. A run that was interrupted goes on from what is in it.

    Guarantees:
        An answer is on disk before the run gets it. At most one answer to each step of a run is ever used.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: another process is using the folder.

    Example:
        >>> import tempfile
        >>> import pgmjax as pj
        >>> data = pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0] * 60 + [1] * 40})
        >>> once = pj.mechanisms.Marginals(epsilon=1, relation=pj.Relation.REPLACE_ONE)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = RunFolder(place)
        ...     first = once.run(data, pj.Workload([["a"]]), folder=folder)
        ...     folder.close()
        ...     again = once.run(data, pj.Workload([["a"]]), folder=RunFolder(place))
        >>> (first.measurements[0].values == again.measurements[0].values).all()
        np.True_
    """

    def __init__(self, folder: str | os.PathLike[str]):
        checks.optional("pyarrow.parquet", extra="tables")
        self.folder = pathlib.Path(folder).absolute()
        (self.folder / _ANSWERS).mkdir(parents=True, exist_ok=True)
        try:
            self._lock = files.try_lock(self.folder)
        except BlockingIOError:
            raise ValueError(
                f"Another process is using {self.folder}: wait for it, or give another folder."
            ) from None
        self._measured: list[LinearMeasurement] = []

    @property
    def answers(self) -> int:
        """The number of stored answers."""
        return len(list((self.folder / _ANSWERS).glob("*.npy")))

    @property
    def is_complete(self) -> bool:
        """True if a release was written in full in it, and only `finish` was interrupted."""
        return (self.folder / "release.json").is_file() and not (self.folder / RUN).exists()

    def bind(self, request: Mapping[str, Any], data: Dataset) -> None:
        """Bind the folder to a run and its table, or check that they are the ones it is bound to.

        Args:
            request: what the run asks for, with all its parameters; public and JSON-able.
            data: the private table, of which a digest is kept under a random key.

        Raises:
            ValueError: the folder belongs to another run, or the table is another one or was changed.
        """
        path, asked = self.folder / RUN, digest_of("request", request)
        if not path.exists():
            key = os.urandom(32)
            record = {"request": asked, "key": key.hex(), "table": data.identity(key)}
            text = json.dumps({**formats.RUN.heading(), **record})
            _write(path, lambda file: file.write(text.encode()))
            return
        record = files.read(path, formats.RUN)
        if record["request"] != asked:
            raise ValueError(
                f"{self.folder} holds the answers of another run: give another folder, or repeat that "
                "run's request."
            )
        if data.identity(bytes.fromhex(record["key"])) != record["table"]:
            raise ValueError(
                f"The answers in {self.folder} are about another table, or the table was changed: use "
                "the original table. Nothing was spent."
            )

    def key(self) -> bytes:
        """Return the secret of the run, which `finish` removes."""
        return bytes.fromhex(files.read(self.folder / RUN, formats.RUN)["key"])

    def journal(self, inner: Journal | None) -> FolderJournal:
        """Return the journal of the run: this folder's, in front of a ledger's if there is one."""
        return FolderJournal(self, inner)

    def step(self, number: int, asked: str) -> np.ndarray | None:
        """Return the stored answer of a step, int64 [n], None if there is none.

        Raises:
            IdempotencyConflict: it is one to another request.
        """
        for path in (self.folder / _ANSWERS).glob(f"{number:06d}-*.npy"):
            if path.stem.partition("-")[2] != asked:
                raise IdempotencyConflict(
                    f"Step {number} in {self.folder} holds the answer to another request, so this is "
                    "not the run that was begun there. No answer was shown."
                )
            return np.asarray(np.load(path, allow_pickle=False))
        return None

    def store(self, number: int, asked: str, values: np.ndarray) -> None:
        """Put the answer of a step on disk."""
        path = self.folder / _ANSWERS / f"{number:06d}-{asked}.npy"
        _write(path, lambda file: np.save(file, values, allow_pickle=False))

    def record(
        self, measured: Sequence[LinearMeasurement], secure: bool, seed: int | None, population: Population
    ) -> None:
        """Add measurements to `measurements.parquet`, which is there in full at any time."""
        self._measured += measured
        partial = self.folder / f".{MEASUREMENTS}"
        tables.write_measurements(self._measured, partial, secure=secure, seed=seed, population=population)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, self.folder / MEASUREMENTS)
        files.sync(self.folder)

    def finish(self) -> None:
        """Remove what only a run needs; first the key of its table's digest, which marks it as complete."""
        (self.folder / RUN).unlink(missing_ok=True)
        shutil.rmtree(self.folder / _ANSWERS, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class FolderJournal:
    """A run's journal in its folder, in front of the ledger's.

    Args:
        folder: the run's folder.
        inner: the ledger's journal; None without a ledger.
    """

    def __init__(self, folder: RunFolder, inner: Journal | None):
        self._folder = folder
        self._inner = inner
        self._step = 0

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Reserve the budget in the ledger, if there is one."""
        if self._inner is not None:
            self._inner.begin(run, budget, relation, secure)

    def receipt(self) -> dict[str, Any] | None:
        """Return where the ledger keeps the run's charge; None without a ledger."""
        return None if self._inner is None else self._inner.receipt()

    def choice_key(self) -> bytes | None:
        """Return the secret by which the records of a unit are chosen: the ledger's, or the folder's."""
        return self._folder.key() if self._inner is None else self._inner.choice_key()

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return whether the next step's answer is stored, and is one to this request."""
        with contextlib.suppress(IdempotencyConflict):
            if self._folder.step(self._step, digest_of("request", request)) is not None:
                return True
        return self._inner is not None and self._inner.holds(request)

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the next step's answer: the stored one, or one computed and stored now.

        Raises:
            IdempotencyConflict: the stored answer is one to another request.
            LedgerError: the ledger could not store it; it is not shown.
            OSError: the folder could not; it is not shown.
        """
        asked = digest_of("request", request)
        stored = self._folder.step(self._step, asked)
        if self._inner is not None:  # the ledger's answer counts, and it has had every answer first
            # one that was restored from an older copy may lack it: it is not drawn a second time
            values = self._inner.answer(request, compute if stored is None else lambda: stored)
        else:
            values = compute() if stored is None else stored
        if stored is None:
            self._folder.store(self._step, asked, values)
        self._step += 1
        return values


def _write(path: pathlib.Path, write: Callable[[Any], Any]) -> None:
    """Write a file that only its owner may read, in full or not at all; it is on disk when this returns."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    files.sync(path.parent)
