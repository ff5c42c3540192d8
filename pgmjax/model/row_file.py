"""Writing rows of a model to a file block by block; the file is either complete or absent."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import queue
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.extras import arrow, csv, parquet
from pgmjax._internal.progress import Progress
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import text_of
from pgmjax.data.value import decimal_places

SUFFIXES = (".parquet", ".csv")
VALUES = "values"
_FORMULA = tuple("=+-@")  # labels and names have no control characters
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]*)?([eE][+-]?[0-9]+)?")


def write(
    path: str | os.PathLike[str],
    domain: Domain,
    blocks: Iterable[Sequence[np.ndarray]],
    rows: int,
    *,
    decode: bool | str = False,
    seed: int = 0,
    overwrite: bool = False,
    show_progress: bool | None = None,
    metadata: Mapping[str, str] | None = None,
    escape_formulas: bool = False,
) -> pathlib.Path:
    """Write blocks of rows as they are generated.

    Args:
        path: of the file, .parquet or .csv. An interrupt leaves no file. If the process is killed (SIGTERM
            included), the rows written so far remain as a hidden file `.*.partial` in the same folder.
        domain: the attributes, which give the names of the columns.
        blocks: codes [rows of the block] of each attribute.
        rows: total number of rows, for the progress bar.
        decode: False writes codes; True names (labels, bins as text, null if missing); "values" what a table
            of the domain holds: labels as they are given, numbers drawn uniformly within their bin, integers
            and multiples of a grid as such, dates, null if missing.
        seed: of the draws within bins, which are the same for blocks of any size.
        overwrite: replace an existing file, once all rows are written.
        show_progress: None shows a bar in terminals and notebooks only, False never.
        metadata: of a .parquet file.
        escape_formulas: of a .csv file: put an apostrophe before labels and names of columns that begin with
            `=`, `+`, `-` or `@`, unless they are numbers.

    Returns:
        The path.

    Raises:
        ValueError: wrong extension, existing file, missing folder, another `decode`, or formulas to escape in
            a .parquet file; nothing is written.
    """
    check_decode(decode)
    target = check_target(path, overwrite=overwrite)
    check_escape(escape_formulas, target.suffix)
    columns = [
        _Column(domain.attribute(name), decode, target.suffix, generator, escape_formulas)
        for name, generator in zip(domain.attributes, random.generators(seed, len(domain)), strict=True)
    ]
    with (
        Progress("rows", rows, show_progress) as progress,
        _partial(target, overwrite) as partial,
        _writer(partial, target.suffix, columns, metadata or {}) as writer,
        WorkerThread(lambda block: _write_block(writer, columns, block)) as writing,
    ):
        pending = False
        for block in blocks:  # the next block is drawn while the previous one is written
            if pending:
                progress.advance(writing.finish())
            writing.start(block)
            pending = True
        if pending:
            progress.advance(writing.finish())
    return target


def check_target(path: str | os.PathLike[str], *, overwrite: bool = False) -> pathlib.Path:
    """Check that a file of rows can be created at a path; to be called before any work.

    Raises:
        ValueError: an extension other than .parquet or .csv, an existing file, or a missing folder.
    """
    target = pathlib.Path(path).absolute()
    if target.suffix not in SUFFIXES:
        raise ValueError(f"{os.fspath(path)} must end in .parquet or .csv.")
    if overwrite and target.is_file():
        return target
    return checks.new_file(path, "" if target.is_dir() else ", or overwrite=True")


def check_escape(escape_formulas: bool, kind: str) -> None:
    """Check that formulas are escaped in CSV only.

    Raises:
        TypeError: not a bool.
        ValueError: formulas are to be escaped in another kind of file.
    """
    checks.kind(escape_formulas, bool, "escape_formulas must be True or False")
    if escape_formulas and kind.removeprefix(".") != "csv":
        raise ValueError(
            f"Formulas are escaped in CSV files only, got {kind.removeprefix('.')}: write CSV, or "
            "leave out escape_formulas."
        )


def _escaped(text: str) -> str:
    """Return a text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


@contextlib.contextmanager
def _partial(target: pathlib.Path, overwrite: bool) -> Iterator[pathlib.Path]:
    """A temporary path next to the target, renamed to it on success and deleted on error.

    The rows are not put on disk first, see `files.settle`: a power cut may leave a file that is not whole.
    """
    partial = target.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    try:
        yield partial
        # again, as a file may have come there while the rows were drawn
        check_target(target, overwrite=overwrite)
        partial.replace(target)
    # Ctrl-C too: no part of a file stays behind
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _writer(path: pathlib.Path, suffix: str, columns: Sequence[_Column], metadata: Mapping[str, str]) -> Any:
    schema = arrow.schema([(c.name, c.array(np.zeros(0, np.int64)).type) for c in columns])
    if suffix == ".csv":
        # where commas are decimal points, tables and spreadsheets part fields by semicolons
        delimiter = ";" if any(column.has_decimal_commas for column in columns) else ","
        return csv.CSVWriter(path, schema, write_options=csv.WriteOptions(delimiter=delimiter))
    return parquet.ParquetWriter(path, schema.with_metadata(dict(metadata)), compression="zstd")


def _write_block(writer: Any, columns: Sequence[_Column], block: Sequence[np.ndarray]) -> int:
    arrays = [column.array(codes) for column, codes in zip(columns, block, strict=True)]
    writer.write_table(arrow.table(arrays, names=[column.name for column in columns]))
    return len(block[0])


def check_decode(decode: bool | str) -> None:
    """Check what rows are to be written as.

    Raises:
        ValueError: neither a bool nor "values".
    """
    if not isinstance(decode, bool) and decode != VALUES:
        raise ValueError(
            f"decode must be False (codes), True (labels and names of cells) or {VALUES!r} (labels, and "
            f"numbers within cells), got {decode!r}."
        )


def arrow_columns(
    domain: Domain, columns: Mapping[str, np.ndarray], decode: bool | str, seed: int
) -> dict[str, Any]:
    """Return codes [rows] of some attributes as Arrow arrays: of codes, names or values; see `write`."""
    generators = dict(zip(domain.attributes, random.generators(seed, len(domain)), strict=True))
    return {
        name: _Column(domain.attribute(name), decode, ".parquet", generators[name]).array(codes)
        for name, codes in columns.items()
    }


def decoded_rows(model: Any, rows: int, seed: int, method: str) -> dict[str, Any]:
    """Return rows drawn from a model as Arrow columns of values by name; see `GraphicalModel.sample`."""
    return arrow_columns(model.domain, model.sample(rows, seed, method=method), VALUES, seed)


class _Column:
    """The storage format of an attribute's codes."""

    def __init__(
        self,
        attribute: Attribute,
        decode: bool | str,
        suffix: str,
        generator: np.random.Generator,
        escape_formulas: bool = False,
    ):
        self.name = _escaped(attribute.name) if escape_formulas else attribute.name
        regular = attribute.size - attribute.missing
        self._regular = dataclasses.replace(attribute, size=regular, missing=False, missing_markers=())
        self._text = suffix == ".csv"
        self._generator: np.random.Generator | None = None  # of a draw in the cell of each row
        self._dictionary: Any = None  # without either, codes are stored
        self._missing = attribute.size - 1 if decode and attribute.missing else None
        self._plain = suffix == ".csv" or decode == VALUES
        self.has_decimal_commas = decode == VALUES and attribute.decimal == ","
        if decode == VALUES and attribute.bins is not None:
            self._generator = generator
        elif decode == VALUES:
            self._dictionary = _of_one_type(self._regular.values(np.arange(regular)).tolist())
        elif decode and (attribute.labels is not None or attribute.bins is not None):
            values: Sequence[Any] = () if attribute.other else attribute.labels or ()
            if len({type(value) for value in values}) != 1:
                values = attribute.code_names()[:regular]
            self._dictionary = arrow.array(list(values))
            self._plain |= not isinstance(values[0], str)
        self._escape = escape_formulas
        if escape_formulas and self._dictionary is not None:
            values = self._dictionary.to_pylist()
            if isinstance(values[0], str):
                self._dictionary = arrow.array([_escaped(value) for value in values])

    def array(self, codes: np.ndarray) -> Any:
        """The Arrow array of some codes."""
        mask = None if self._missing is None else codes == self._missing
        if self._generator is not None:
            known = codes if mask is None else np.where(mask, 0, codes)  # a draw a row, whatever is missing
            values = self._regular.values(known, self._generator)
            texts = _texts(self._regular, values) if self._text else None
            if texts is not None:
                texts = [_escaped(text) for text in texts] if self._escape else texts
                return arrow.array(np.array(texts, dtype=object), arrow.string(), mask=mask)
            return arrow.array(values, mask=mask)
        index = arrow.array(codes.astype(np.int32), mask=mask)
        if self._dictionary is None:
            return index
        if self._plain:
            return self._dictionary.take(index)
        return arrow.DictionaryArray.from_arrays(index, self._dictionary)


def _of_one_type(values: list[Any]) -> Any:
    """Values as an Arrow array of their one type; numbers of two types as doubles, other mixtures as text."""
    kinds = {type(value) for value in values}
    if kinds == {int, float} and all(float(value) == value for value in values):
        return arrow.array(values, arrow.float64())
    if len(kinds) > 1 or (kinds == {int} and not -(2**63) <= min(values) <= max(values) < 2**63):
        return arrow.array([text_of(value) for value in values])
    return arrow.array(values)


def _texts(attribute: Attribute, values: np.ndarray) -> list[str] | None:
    """Values [rows] as a text file of the same domain has them, where that is not the usual way."""
    if attribute.format is not None:
        return [value.strftime(attribute.format) for value in values.astype("M8[s]").tolist()]
    if attribute.decimal == ".":
        return None
    grid = attribute.grid
    places = None if grid is None else decimal_places(grid)
    texts = [repr(value) if places is None else f"{value:.{places}f}" for value in values.tolist()]
    return [text.replace(".", attribute.decimal) for text in texts]


# The thread that writes a block while the next one is drawn. An interrupt may arrive between any two
# instructions of the caller, even just after it has acquired a lock of Python's `threading` or
# `concurrent.futures`. The lock then stays held, the thread waits for it forever, and the caller for the
# thread (observed with a `ThreadPoolExecutor`). Therefore caller and thread share only two queues written in
# C, which hold no lock while Python code runs.

_END = object()


class WorkerThread:
    """One thread that runs a job while the caller prepares the next; use it in a `with` block.

    It cannot deadlock with its caller after an interrupt.

    Args:
        work: function applied to each job; `finish` returns its result.

    Example:
        >>> with WorkerThread(lambda number: 2 * number) as worker:
        ...     worker.start(3)
        ...     worker.finish()
        6
    """

    def __init__(self, work: Callable[[Any], Any]):
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # a daemon, so that the program does not wait for it at exit if an interrupt arrives while it starts
        threading.Thread(target=_serve, args=(work, self._jobs, self._done), daemon=True).start()

    def start(self, job: Any) -> None:
        """Submit a job and return at once."""
        self._jobs.put(job)

    def finish(self) -> Any:
        """Wait for the earliest unfinished job and return its result, or raise its error."""
        result, error = self._done.get()
        if error is not None:
            raise error
        return result

    def __enter__(self) -> WorkerThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._jobs.put(_END)
        while self._done.get() is not _END:  # submitted jobs are finished first
            pass

    def __del__(self) -> None:
        self._jobs.put(_END)  # if an interrupt came before the `with` was entered or left


def _serve(work: Callable[[Any], Any], jobs: queue.SimpleQueue[Any], done: queue.SimpleQueue[Any]) -> None:
    while (job := jobs.get()) is not _END:
        try:
            done.put((work(job), None))
        except BaseException as error:
            done.put((None, error))
        del job  # do not keep it alive until the next one
    done.put(_END)
