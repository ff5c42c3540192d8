"""A perturbed table: every record's own randomised answer, to be published as it is."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks, files
from pgmjax._internal.files import reserve
from pgmjax._internal.progress import Progress
from pgmjax._version import __version__
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.local.column import ResponseColumn, read_column
from pgmjax.local.marginals import ResponseMarginal
from pgmjax.local.tally import Tally
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.response import RandomizedResponse

FORMAT, FORMAT_VERSION = "pgmjax-perturbed-table", 1
RECORD = "perturbed.json"
_BLOCK_ROWS = 1 << 17


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PerturbedTable:
    """The answers of all records, in the order of the table; made by `mechanisms.RandomizedResponse.perturb`.

    Attributes:
        domain: the public domain.
        columns: the answers about each group of attributes.
        rows: the number of records, public.
        secure: True only for noise from a vetted sampler that nobody can repeat.
        seed: the seed of insecure noise, None for secure noise.
        ledger: where the charge is kept, None where nowhere.

    Guarantees:
        `epsilon`-differential privacy where one record is replaced, for all columns together, provided that
        `secure` is True and that neither the domain nor the order of the rows depends on private values.
    """

    domain: Domain
    columns: tuple[ResponseColumn, ...]
    rows: int
    secure: bool
    seed: int | None
    ledger: Mapping[str, Any] | None = None

    @property
    def epsilon(self) -> Fraction:
        """What all columns together cost."""
        return sum((column.epsilon for column in self.columns), Fraction(0))

    @property
    def column(self) -> ResponseColumn:
        """The one column of a table whose attributes were answered for together.

        Raises:
            ValueError: there are several.
        """
        if len(self.columns) != 1:
            raise ValueError(
                f"This table has {len(self.columns)} columns of answers, not one: choose one of its columns, "
                'or perturb the attributes together with universe="joint".'
            )
        return self.columns[0]

    @property
    def law(self) -> RandomizedResponse:
        """The law of the one column's answers, of direct encoding; see `column`."""
        column = self.column
        assert column.codes is not None  # refuses bits
        return column.law  # type: ignore[return-value]

    @property
    def codes(self) -> np.ndarray:
        """The categories of the one column, unsigned integers [rows]; see `column`."""
        return self.column.codes

    def blocks(self, rows: int = _BLOCK_ROWS) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield answers of some records at a time: a column's categories [rows] or bits [rows, size]."""
        for start in range(0, self.rows, rows):
            stop = min(start + rows, self.rows)
            yield tuple(column.part(start, stop) for column in self.columns)

    def marginals(
        self, cliques: Sequence[Any], *, show_progress: bool | None = None
    ) -> list[ResponseMarginal]:
        """Return what the answers say of cliques: unbiased counts with their covariance, in one pass.

        Args:
            cliques: lists of attributes, all of them answered about.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: an attribute that no column has.
        """
        wanted: list[Clique] = [as_clique(self.domain, clique) for clique in cliques]
        groups, laws = [c.attributes for c in self.columns], [c.law for c in self.columns]
        tally = Tally(self.domain, groups, laws, wanted)
        with Progress("counting", self.rows, show_progress) as progress:
            for block in self.blocks():
                tally.add(block)
                progress.advance(len(block[0]))
        return tally.marginals()

    def marginal(self, clique: Any) -> ResponseMarginal:
        """Return what the answers say of one clique; see `marginals`."""
        return self.marginals([clique])[0]

    def measurements(self, cliques: Sequence[Any]) -> tuple[LinearMeasurement, ...]:
        """Return counts of the answers as measurements for an `Estimator`; `rows` is the total."""
        return tuple(marginal.measurement() for marginal in self.marginals(cliques))

    def save(self, folder: str | os.PathLike[str]) -> pathlib.Path:
        """Write the table into a new folder: `perturbed.json` and one .npy file a column.

        Raises:
            ValueError: the folder exists or cannot be made.
        """
        with reserve(folder) as made:
            for number, column in enumerate(self.columns):
                np.save(made / answers_name(number), column.answers, allow_pickle=False)
            self.write_record(made)
        return pathlib.Path(folder).absolute()

    def write_record(self, folder: pathlib.Path) -> None:
        """Write `perturbed.json` beside the columns' files."""
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "pgmjax": __version__,
            "domain": self.domain.to_dict(),
            "rows": self.rows,
            "relation": "replace-one",
            "epsilon": as_text(self.epsilon),
            "secure": self.secure,
            "seed": self.seed,
            "ledger": None if self.ledger is None else dict(self.ledger),
            "columns": [column.to_dict() for column in self.columns],
        }
        (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        mark = "secure" if self.secure else "NOT SECURE"
        columns = ", ".join(map(repr, self.columns))
        return f"PerturbedTable({self.rows:,} records, {mark}; {columns})"


def answers_name(number: int) -> str:
    """Return the name of a column's file."""
    return f"answers-{number}.npy"


def load(folder: str | os.PathLike[str]) -> PerturbedTable:
    """Open a perturbed table; its answers are read from the files when they are used.

    Raises:
        ValueError: there is no such table, or it is damaged.
    """
    where = pathlib.Path(folder)
    if not (where / RECORD).is_file():
        raise ValueError(f"{os.fspath(folder)} holds no {RECORD}: it is not the folder of a perturbed table.")
    record = files.read(where / RECORD, "a perturbed table of pgmjax", FORMAT, FORMAT_VERSION)
    try:
        domain = Domain(record["domain"])
        columns = tuple(
            read_column(each, np.load(where / answers_name(number), mmap_mode="r", allow_pickle=False))
            for number, each in enumerate(record["columns"])
        )
        rows = checks.integer("rows", record["rows"], low=1)
        for column in columns:
            if domain.size(column.attributes) != column.law.size or len(column.answers) != rows:
                raise ValueError("its columns do not fit its domain or its number of rows.")
        return PerturbedTable(domain, columns, rows, record["secure"], record["seed"], record["ledger"])
    except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
        raise ValueError(f"{os.fspath(folder)} is damaged: {error} Make or copy it again.") from error
