"""A perturbed table: every record's own randomised answer, to be published as it is.

It has one column of answers per group of attributes, in the order of the table's rows or sorted, record by
record. `columns_of` reads a stream of answers into memory, or into files that may be larger than memory;
`sorted_columns_of` keeps nothing of the order of the table.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks, formats
from pgmjax._internal.files import ArrayFolder, reserve_folder
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax._internal.migration import Named
from pgmjax._version import __version__
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.encoding import code_dtype
from pgmjax.data.population import WHOLE, Population
from pgmjax.data.relation import Unit
from pgmjax.local.marginals import ResponseMarginal, marginals_of
from pgmjax.measurements.inputs import Input, digest_of, with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.exact import as_text, exact_epsilon
from pgmjax.privacy.responding import ENCODINGS, Block, PlannedResponse, Responses
from pgmjax.privacy.response import KaryResponse, ResponseDistribution, UnaryResponse

FOLDER = ArrayFolder(
    "perturbed.json",
    formats.TABLE,
    missing=ValueError,
    newline=True,
)
ROW_ORDERS = ("table", "sorted")
_BLOCK_ROWS = 1 << 17
_BLOCK_BITS = 1 << 26
_MOST_KEPT = 900_000_000  # bytes of one answer in a ledger, whose SQLite files take 10^9


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PerturbedTable(Named):
    """The answers of all records; made by `mechanisms.RandomizedResponse.perturb`.

    Attributes:
        domain: the public domain.
        columns: the answers about each group of attributes.
        rows: the number of records, public.
        secure: True only for noise from a vetted sampler that nobody can reproduce.
        seed: the seed of insecure noise; None for secure noise.
        ledger: receipt of the charge in the ledger; None without a ledger.
        row_order: "table": row i holds the answers of record i. "sorted": whole rows are sorted by their
            answers, so that nothing is left of the order of the records.
        unit: the unit of privacy; None for one record.
        population: the records that answered.
        run_mark: what tells these answers from equal ones of another run, whose costs add up.

    Guarantees:
        `epsilon`-differential privacy under replace-one, for all columns together, provided that `secure` is
        True and that the domain does not depend on private values; nor, if `row_order` is "table", may the
        order of the records. A row holds the answers of one record: epsilon counts them together, and those
        of all records of a unit, if there is one.
    """

    domain: Domain
    columns: tuple[ResponseColumn, ...]
    rows: int
    secure: bool
    seed: int | None
    ledger: Mapping[str, Any] | None = None
    row_order: str = "table"
    unit: Unit | None = None
    population: Population = WHOLE
    run_mark: str = ""

    @property
    def epsilon(self) -> Fraction:
        """The cost of all columns together."""
        return sum((column.epsilon for column in self.columns), Fraction(0))

    @property
    def groups(self) -> tuple[Clique, ...]:
        """The groups of attributes, one per column."""
        return tuple(column.attributes for column in self.columns)

    @property
    def distributions(self) -> tuple[ResponseDistribution, ...]:
        """The distribution of each column's answers."""
        return tuple(column.distribution for column in self.columns)

    @property
    def column(self) -> ResponseColumn:
        """The only column, if all attributes were perturbed together.

        Raises:
            ValueError: there are several columns.
        """
        if len(self.columns) != 1:
            raise ValueError(
                f"This table has {len(self.columns)} columns of answers, not one: choose one of its columns, "
                'or perturb the attributes together with universe="joint".'
            )
        return self.columns[0]

    @property
    def distribution(self) -> KaryResponse:
        """The distribution of the only column's answers, with direct encoding; see `ResponseColumn`."""
        column = self.column
        assert column.codes is not None  # refuses bits
        return column.distribution  # type: ignore[return-value]

    @property
    def codes(self) -> np.ndarray:
        """The categories of the only column, unsigned integers [rows]; see `ResponseColumn`."""
        return self.column.codes

    def blocks(self, rows: int = _BLOCK_ROWS) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield blocks of at most `rows` answers: for each column categories [rows] or bits [rows, size]."""
        bits = sum(column.distribution.size for column in self.columns if column.unary)
        step = max(1, min(rows, _BLOCK_BITS // max(1, bits)))
        for start in range(0, self.rows, step):
            stop = min(start + step, self.rows)
            yield tuple(column.part(start, stop) for column in self.columns)

    def marginals(
        self, cliques: Sequence[Any], *, show_progress: bool | None = None
    ) -> list[ResponseMarginal]:
        """Return estimated marginals of cliques; see `local.marginals_of`."""
        found = marginals_of(self, cliques, show_progress=show_progress)
        return [with_inputs(each, self.inputs) for each in found]

    def marginal(self, clique: Any) -> ResponseMarginal:
        """Return the estimated marginal of one clique; see `marginals`."""
        return self.marginals([clique])[0]

    def measurements(self, cliques: Sequence[Any]) -> tuple[LinearMeasurement, ...]:
        """Return counts of the answers as measurements for an `Estimator`; `rows` is the total."""
        return tuple(each.measurement() for each in self.marginals(cliques))

    @functools.cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The input of all estimates: cost and security of the answers, known by the answers themselves."""
        record = {**self._record(), "ledger": None}  # whose head follows from the table, under its key
        perturbed = Input(
            "a perturbed table",
            self.secure,
            {"epsilon": as_text(self.epsilon), "delta": "0"},
            relation="replace-one",
            unit=None if self.unit is None else self.unit.to_dict(),
            answers=digest_of((column.answers for column in self.columns), json.dumps(record, default=str)),
        )
        return (perturbed,)

    def save(self, folder: str | os.PathLike[str]) -> pathlib.Path:
        """Write the table to a new folder: `perturbed.json` and one .npy file per column.

        Raises:
            ValueError: the folder exists or cannot be created.
        """
        with reserve_folder(folder) as made:
            answers = {answers_name(i): column.answers for i, column in enumerate(self.columns)}
            FOLDER.write(made, self._record(), answers)
        return pathlib.Path(folder).absolute()

    def write_record(self, folder: pathlib.Path) -> None:
        """Write `perturbed.json` next to the columns' files."""
        FOLDER.write(folder, self._record(), {})

    def _record(self) -> dict[str, Any]:
        return {
            "pgmjax": __version__,
            "domain": self.domain.to_dict(),
            "rows": self.rows,
            "row_order": self.row_order,
            "relation": "replace-one",
            "unit": None if self.unit is None else self.unit.to_dict(),
            "population": self.population.to_dict(),
            "epsilon": as_text(self.epsilon),
            "secure": self.secure,
            "seed": self.seed,
            "ledger": None if self.ledger is None else dict(self.ledger),
            "run_mark": self.run_mark,
            "columns": [column.to_dict() for column in self.columns],
        }

    def __repr__(self) -> str:
        mark = "secure" if self.secure else "NOT SECURE"
        columns = ", ".join(map(repr, self.columns))
        return f"PerturbedTable({self.rows:,} records, {mark}; {columns})"


def load(folder: str | os.PathLike[str]) -> PerturbedTable:
    """Open a perturbed table; its answers are read from the files when used.

    Raises:
        ValueError: the table does not exist or is damaged.
    """
    with FOLDER.reading(folder) as contents:
        record = contents.record
        domain = Domain(record["domain"])
        columns = tuple(
            read_column(each, contents.mapped(answers_name(number)))
            for number, each in enumerate(record["columns"])
        )
        rows = checks.integer("rows", record["rows"], low=1)
        for column in columns:
            if domain.size(column.attributes) != column.distribution.size or len(column.answers) != rows:
                raise ValueError("its columns do not fit its domain or its number of rows.")
        order = checks.choice("row_order", record["row_order"], ROW_ORDERS)
        unit = Unit.from_dict(record["unit"])
        population = Population.from_dict(record["population"])
        marks = (record["secure"], record["seed"], record["ledger"])
        mark = checks.plain_text("run_mark", record["run_mark"])
        return PerturbedTable(domain, columns, rows, *marks, order, unit, population, mark)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ResponseColumn:
    """Released answers about a group of attributes.

    Attributes:
        attributes: the group; a record's category is its cell, row-major in this order.
        encoding: "direct", "optimal-unary" or "symmetric-unary".
        distribution: the distribution of an answer, with its size and lie.
        epsilon: the cost of the answers.
        answers: in memory or mapped from a file: categories of the smallest unsigned type [rows], or for
            unary encodings each record's bits packed into bytes, uint8 [rows, ceil(size / 8)].
    """

    attributes: Clique
    encoding: str
    distribution: ResponseDistribution
    epsilon: Fraction
    answers: np.ndarray

    @property
    def unary(self) -> bool:
        """True if each answer has one bit per category."""
        return isinstance(self.distribution, UnaryResponse)

    @property
    def codes(self) -> np.ndarray:
        """The answered categories, unsigned integers [rows], in the `row_order` of the table.

        Raises:
            ValueError: the answers are bits (unary encoding), not categories.
        """
        if self.unary:
            raise ValueError(
                f"The answers about {self.attributes} are bits of the encoding {self.encoding!r}, not "
                'categories: perturb the table with encoding="direct".'
            )
        return self.answers

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return the answers of some records: categories [rows], or bits, bool [rows, size].

        Raises:
            ValueError: a category out of range: the file is damaged.
        """
        some = self.answers[start:stop]
        if not self.unary:
            if some.size and some.max() >= self.distribution.size:
                raise ValueError(
                    f"the answers about {self.attributes} are damaged: expected categories from 0 to "
                    f"{self.distribution.size - 1:,}. Make or copy the table again."
                )
            return np.asarray(some)
        return np.unpackbits(some, axis=1, count=self.distribution.size).view(np.bool_)

    def to_dict(self) -> dict[str, Any]:
        """Return the record that `read_column` reads, without the answers."""
        return {
            "attributes": list(self.attributes),
            "encoding": self.encoding,
            "size": self.distribution.size,
            "lie": repr(self.distribution.lie),
            "epsilon": as_text(self.epsilon),
        }

    def __repr__(self) -> str:
        return (
            f"ResponseColumn({self.attributes}, {self.distribution.size:,} categories, {self.encoding}, "
            f"epsilon {as_text(self.epsilon)})"
        )


def read_column(record: dict[str, Any], answers: np.ndarray) -> ResponseColumn:
    """Return the column from its `ResponseColumn.to_dict` record and its answers.

    Raises:
        KeyError: a key is missing.
        ValueError: a number out of range, or answers of the wrong shape; categories are checked when used.
    """
    encoding, lie = checks.choice("encoding", record["encoding"], ENCODINGS), float(record["lie"])
    distribution: ResponseDistribution
    if encoding == "direct":
        distribution = KaryResponse(record["size"], lie)
    else:
        distribution = UnaryResponse(record["size"], lie, encoding == "symmetric-unary")
    epsilon = exact_epsilon(record["epsilon"])
    if distribution.epsilon_bound > epsilon:
        raise ValueError("the distribution of some answers costs more than their epsilon.")
    column = ResponseColumn(tuple(record["attributes"]), record["encoding"], distribution, epsilon, answers)
    expected = (len(answers), -(-distribution.size // 8)) if column.unary else (len(answers),)
    if answers.dtype.kind != "u" or answers.shape != expected:
        raise ValueError(f"the answers about {column.attributes} have another shape or type than written.")
    return column


def columns_of(responses: Responses, folder: pathlib.Path | None = None) -> tuple[ResponseColumn, ...]:
    """Return responses as columns, read block by block.

    Args:
        responses: the stream, which is consumed.
        folder: folder for the files. Default: keep the answers in memory.
    """
    planned = responses.planned
    arrays = [_array(each, responses.rows, folder, number) for number, each in enumerate(planned)]
    start = 0
    for block in responses.blocks():
        stop = start + len(block[0])
        for array, part in zip(arrays, block, strict=True):
            array[start:stop] = _packed(part)
        start = stop
    return _columns(planned, arrays)


def sorted_columns_of(responses: Responses, folder: pathlib.Path | None = None) -> tuple[ResponseColumn, ...]:
    """Return responses as columns whose rows are sorted, each with the answers of one record.

    The answers of all records are sorted in memory, also where they are written to a folder.

    Args:
        responses: the stream, which is consumed; a ledger stores only the sorted rows.
        folder: folder for the files. Default: keep the answers in memory.

    Guarantees:
        Sorted rows are the same for every order of the table: they are as private as the answers of the
        records, also where the order of the table depends on private values.
    """
    planned, rows = responses.planned, responses.rows
    kind = _record_type([each.distribution.size for each in planned], [each.encoding for each in planned])
    words = responses.counted({"rows": "sorted"}, lambda blocks: _sorted(blocks, kind, rows))
    arrays = [_array(each, rows, folder, number) for number, each in enumerate(planned)]
    for name, array in zip(_names(kind), arrays, strict=True):
        array[...] = words.view(kind)[name]
    return _columns(planned, arrays)


def check_sortable(sizes: Sequence[int], encodings: Sequence[str], rows: int, *, in_ledger: bool) -> None:
    """Check that `sorted_columns_of` can hold all answers; call this before any budget is spent.

    Args:
        sizes: the number of categories of each group.
        encodings: the encoding of each group.
        rows: the number of records, public.
        in_ledger: whether a ledger stores the rows.

    Raises:
        ValueError: they do not fit in memory or in the ledger.
    """
    size, free = rows * _record_type(sizes, encodings).itemsize, available_bytes()
    advice = 'Give fewer attributes, encoding="direct", or row_order="table" if that order is public'
    if in_ledger and size > _MOST_KEPT:
        raise ValueError(
            f"The sorted answers of {rows:,} records have {readable_bytes(size)}, and a ledger stores at "
            f"most {readable_bytes(_MOST_KEPT)} at once. {advice}; nothing was spent."
        )
    if 4 * size > free:  # the rows, their order, the sorted rows, and what the ledger packs
        raise ValueError(
            f"Sorting the answers of {rows:,} records needs {readable_bytes(4 * size)} and "
            f"{readable_bytes(free)} is available. {advice}; nothing was spent."
        )


def _sorted(blocks: Iterator[Block], kind: np.dtype, rows: int) -> np.ndarray:
    """Return the answers of all records, packed and sorted, int64 [rows * words]."""
    records, start = np.zeros(rows, kind), 0
    for block in blocks:
        stop = start + len(block[0])
        for name, part in zip(_names(kind), block, strict=True):
            records[name][start:stop] = _packed(part)
        start = stop
    if start != rows:
        raise ValueError(f"expected the answers of {rows:,} records, got {start:,}.")
    words = records.view(np.int64).reshape(rows, -1)
    if words.shape[1] == 1:
        words.sort(axis=0)
        return words.reshape(-1)
    return words[np.lexsort(words.T)].reshape(-1)


def _record_type(sizes: Sequence[int], encodings: Sequence[str]) -> np.dtype:
    """Return the type of a record's answers side by side, in whole words of 8 bytes, which sort fast."""
    stored = [_stored_type(size, name != "direct") for size, name in zip(sizes, encodings, strict=True)]
    words = -(-sum(each.itemsize for each in stored) // 8)
    fields = {"names": [f"answer{i}" for i in range(len(stored))], "formats": stored, "itemsize": 8 * words}
    return np.dtype(fields)  # type: ignore[call-overload]


def _names(kind: np.dtype) -> tuple[str, ...]:
    return kind.names or ()


def _stored_type(size: int, bits: bool) -> np.dtype:
    """Return the type of one answer: a category, or bits packed into bytes."""
    return np.dtype((np.uint8, (-(-size // 8),))) if bits else code_dtype(size)


def _packed(answers: np.ndarray) -> np.ndarray:
    return np.packbits(answers, axis=1) if answers.dtype == np.bool_ else answers


def _columns(planned: Sequence[PlannedResponse], arrays: Sequence[Any]) -> tuple[ResponseColumn, ...]:
    for array in arrays:
        if isinstance(array, np.memmap):
            array.flush()
    return tuple(
        ResponseColumn(each.attributes, each.encoding, each.distribution, each.event.epsilon, array)
        for each, array in zip(planned, arrays, strict=True)
    )


def _array(planned: PlannedResponse, rows: int, folder: pathlib.Path | None, number: int) -> Any:
    stored = _stored_type(planned.distribution.size, planned.bits)
    shape = (rows, *stored.shape)
    if folder is None:
        return np.zeros(shape, stored.base)
    path = folder / answers_name(number)
    return np.lib.format.open_memmap(path, mode="w+", dtype=stored.base, shape=shape)


def answers_name(number: int) -> str:
    """Return the name of a column's file."""
    return f"answers-{number}.npy"
