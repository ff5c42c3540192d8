"""The results file: a DuckDB database with one row per cell, written by one process at a time."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from pgmjax._internal import checks, formats
from pgmjax._internal.extras import duckdb
from pgmjax._internal.files import parse_json

COLUMNS = {
    "key": "VARCHAR PRIMARY KEY",
    "group_key": "VARCHAR NOT NULL",
    "sweep": "VARCHAR NOT NULL",
    "table_name": "VARCHAR NOT NULL",
    "records": "BIGINT NOT NULL",
    "attributes": "INTEGER NOT NULL",
    "workload": "VARCHAR NOT NULL",
    "entries": "INTEGER NOT NULL",
    "queries": "BIGINT NOT NULL",
    "mechanism": "VARCHAR NOT NULL",
    "label": "VARCHAR NOT NULL",
    "options": "VARCHAR NOT NULL",
    "epsilon": "VARCHAR NOT NULL",
    "epsilon_value": "DOUBLE NOT NULL",
    "delta": "VARCHAR NOT NULL",
    "relation": "VARCHAR NOT NULL",
    "trial": "INTEGER NOT NULL",
    "seed": "BIGINT NOT NULL",
    "status": "VARCHAR NOT NULL",
    "error": "VARCHAR",
    "mean_absolute": "DOUBLE",
    "root_mean_square": "DOUBLE",
    "largest": "DOUBLE",
    "mean_absolute_share": "DOUBLE",
    "root_mean_square_share": "DOUBLE",
    "largest_share": "DOUBLE",
    "total_variation": "DOUBLE",
    "fit_status": "VARCHAR",
    "steps": "BIGINT",
    "loss": "DOUBLE",
    "gap": "DOUBLE",
    "seconds": "DOUBLE",
    "first_seconds": "DOUBLE",
    "group_seconds": "DOUBLE",
    "batch": "INTEGER",
    "forecast_bytes": "BIGINT",
    "peak_bytes": "BIGINT",
    "run": "VARCHAR NOT NULL",
    "host": "VARCHAR NOT NULL",
    "finished": "TIMESTAMP NOT NULL",
}


class ResultFile(contextlib.AbstractContextManager["ResultFile"]):
    """A results file, open for reading or writing; use it in a `with` block.

    Args:
        path: path of the file; created if missing, unless `read_only`.
        read_only: whether to open the file for reading only.

    Raises:
        ImportError: DuckDB is not installed.
        FileNotFoundError: the file to read, or the folder to create it in, does not exist.
        RuntimeError: another process has it open.
        ValueError: the file is not a results file.

    Example:
        >>> import tempfile
        >>> with ResultFile(tempfile.mkdtemp() + "/results.duckdb") as results:
        ...     results.statuses()
        {}
    """

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False):
        self.path = pathlib.Path(path)
        if read_only and not self.path.exists():
            raise FileNotFoundError(
                f"There is no file of results {self.path}: pgmjax bench run GRID writes one."
            )
        if not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path.absolute().parent} for the results.")
        try:
            self._connection = duckdb.connect(str(self.path), read_only=read_only)
        except duckdb.Error as error:
            if "lock" in str(error).lower():
                raise RuntimeError(
                    f"{self.path} is open in another process: a sweep writes it alone. Wait for that run or "
                    "stop it (it resumes), or give this one a file of its own."
                ) from error
            if not any(word in str(error) for word in ("not a valid DuckDB", "in-memory", "Is a directory")):
                raise ValueError(f"{self.path} cannot be opened as a file of results: {error}") from error
            raise ValueError(
                f"{self.path} cannot be opened as a file of results: give the .duckdb file that pgmjax bench "
                "run wrote."
            ) from error
        try:
            self._prepare(read_only)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, read_only: bool) -> None:
        named = "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        tables = {name for (name,) in self._connection.execute(named).fetchall()}
        if not tables and not read_only:
            heading = list(formats.SWEEP.heading().values())
            columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            self._connection.begin()
            self._connection.execute("CREATE TABLE about (format VARCHAR, version INTEGER)")
            self._connection.execute("INSERT INTO about VALUES (?, ?)", heading)
            self._connection.execute(f"CREATE TABLE results ({columns})")
            self._connection.execute("CREATE TABLE runs (run VARCHAR PRIMARY KEY, facts VARCHAR NOT NULL)")
            self._connection.commit()
        elif not tables:
            raise ValueError(f"{self.path} holds no result yet: run the sweep first.")
        elif not {"about", "results", "runs"} <= tables:
            raise ValueError(f"{self.path} is a database of something else: it holds no results of a sweep.")
        found = self._connection.execute("SELECT format, version FROM about LIMIT 2").fetchall()
        record = dict(zip(formats.SWEEP.heading(), found[0] if len(found) == 1 else (), strict=False))
        formats.SWEEP.check(record, self.path)

    def statuses(self) -> dict[str, str]:
        """Return the status of every stored cell, by key."""
        return dict(self._connection.execute("SELECT key, status FROM results").fetchall())

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Store rows in one transaction: either all of them are stored or none."""
        values = [[row.get(name) for name in COLUMNS] for row in rows]
        marks = ", ".join("?" * len(COLUMNS))
        self._connection.begin()
        try:
            self._connection.executemany(f"INSERT OR REPLACE INTO results VALUES ({marks})", values)
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise

    def add_run(self, run: str, facts: dict[str, Any]) -> None:
        """Store the facts of a run, such as its machine and software versions."""
        self._connection.execute("INSERT INTO runs VALUES (?, ?)", [run, json.dumps(facts)])

    def runs(self) -> list[dict[str, Any]]:
        """Return the facts of every run, by start time."""
        found = self._connection.execute("SELECT facts FROM runs").fetchall()
        return sorted((parse_json(facts) for (facts,) in found), key=lambda facts: facts["started"])

    def rows(self, columns: Sequence[str] = tuple(COLUMNS)) -> list[dict[str, Any]]:
        """Return the given columns of all rows, in an order that does not depend on the run."""
        if unknown := [name for name in columns if name not in COLUMNS]:
            meant = checks.did_you_mean(unknown[0], COLUMNS) or f" They have {', '.join(COLUMNS)}."
            raise ValueError(f"Results have no column {unknown[0]!r}.{meant}")
        order = "sweep, table_name, workload, label, epsilon_value, trial, key"
        asked = f"SELECT {', '.join(columns)} FROM results ORDER BY {order}"
        return [dict(zip(columns, row, strict=True)) for row in self._connection.execute(asked).fetchall()]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
