"""Tables in files of any size, read as batches of codes: CSV and Parquet through DuckDB, and NumPy files.

Text files are read as text and encoded according to each attribute's kind. Their delimiter and columns are
found from the domain's names and the first line alone: the delimiter is the one for which that line fits
the domain. Nothing is inferred from records. Text in another encoding than UTF-8, and the first sheet of an
Excel file, are copied as UTF-8 text for the time of a scan, to a file without a name. Nothing else is written
to disk. The reader's own messages are not passed on, because they may quote a record. NumPy files already
contain codes and are memory-mapped.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import datetime
import gzip
import io
import itertools
import os
import pathlib
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from pgmjax._internal import checks, private_files
from pgmjax._internal.files import absent, mapped
from pgmjax.data import fingerprint
from pgmjax.data.arrow import check_type, encode_array
from pgmjax.data.bounding import UnitRecords, check_type_of_unit, units_of
from pgmjax.data.definition import TableDefinition, coder_of, known_encoding
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Coder, text_of
from pgmjax.data.population import Population
from pgmjax.data.sources import (
    BATCH_ROWS,
    Batch,
    RecodedSource,
    code_coder,
    weight_coder,
    without_rows_outside,
)
from pgmjax.data.value import sql_key_of_text

_Result = TypeVar("_Result")

SUFFIXES = (".csv", ".tsv", ".data", ".txt")
EXCEL = ".xlsx"
_DELIMITERS = {".tsv": "\t,;| ", "": ",;\t| "}  # by suffix, in the order in which they are tried
_LONGEST_LINE = 1 << 21
_MARK = b"\xef\xbb\xbf"  # the byte-order mark of UTF-8, at the start of a file
_PIECE = 1 << 16  # characters that are decoded at once
_MARKED = ("utf-16", "utf-32")  # encodings that Python takes only where a file begins with their mark
_COPY = "'a copy in UTF-8'"  # in SQL, in place of the path
_NOT_CP1252 = frozenset(b"\x81\x8d\x8f\x90\x9d")

# limits given to DuckDB
_MEMORY_LIMIT = "1GB"
_THREADS = 4
_MOST_PARTS = 1 << 10  # in which the names of units are grouped


@dataclass(frozen=True)
class FileSource:
    """A table in files, read again for each scan.

    Attributes:
        domain: the domain of the records.
        path: the path of the file or folder.
        table: the SQL table expression to select from.
        columns: the columns' names in SQL, by attribute.
        weights: the name of the weights' column in SQL and its encoder, or None.
        text: whether its fields are text.
        header: whether the first line of a text file names the columns.
        weight_bound: name and bound of the weights, or None.
        rows_outside: what happens to rows outside the domain, see `data.definition`.
        encoding: of a text file, None for UTF-8.
    """

    domain: Domain
    path: str
    table: str
    columns: dict[str, str]
    weights: tuple[str, Coder] | None
    text: bool
    header: bool = True
    weight_bound: tuple[str, int] | None = None
    rows_outside: str | None = None
    encoding: str | None = None

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, with the named attributes.

        Args:
            names: the attributes.
            ordered: whether to keep the order of records within files, and of files by name.

        Raises:
            TypeError: a column has a type that its attribute does not accept.
            ValueError: the file cannot be read.
        """
        for batch in self.unsettled(names, ordered):
            yield self.settled(batch, names)

    def settled(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return a batch of `unsettled` with what happens to rows outside the domain."""
        found = without_rows_outside(batch, self.domain, self.rows_outside)
        return Batch({name: found.columns[name] for name in names}, found.weights, found.rows)

    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield batches with every record as it lies there; of all attributes if rows are dropped."""
        # a record is dropped for any of its values, so that it is one table whatever is asked of it
        names = [*self.domain] if self.rows_outside == "drop" else names
        coders = self._coders(names)
        for arrays in self._arrays([column for _, column, _ in coders], ordered):
            encoded = [
                _named(said, encode_array, coder, array)
                for (said, _, coder), array in zip(coders, arrays, strict=True)
            ]
            weights = encoded.pop() if self.weights else None
            yield Batch(dict(zip(names, encoded, strict=True)), weights, len(arrays[0]))

    def _coders(self, names: Sequence[str]) -> list[tuple[str, str, Coder]]:
        """Return for messages, in the file, and by its encoder each attribute, the weights last."""
        found = [
            (f"Attribute {n!r}", self.columns[n], coder_of(self.domain.attribute(n), self.rows_outside))
            for n in names
        ]
        return [*found, *([("Weights", *self.weights)] if self.weights else [])]

    def check_types(self) -> None:
        """Refuse a Parquet table by its schema, if a column has a type that its attribute can match nowhere.

        Raises:
            TypeError: it has one.
        """
        types = {} if self.text else _types(pathlib.Path(self.path), self.table)
        for said, column, coder in self._coders([*self.domain]):
            if column in types:
                _named(said, check_type, coder.refusal, types[column])

    def values(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield all records in batches as they are stored: Arrow arrays [rows] by attribute. Private.

        Raises:
            ValueError: the file cannot be read.
        """
        for arrays in self._arrays([self.columns[name] for name in names], ordered=True):
            yield dict(zip(names, arrays, strict=True))

    def _arrays(self, columns: Sequence[str], ordered: bool) -> Iterator[list[Any]]:
        selected = ", ".join(f"{_identifier(column)} AS c{k}" for k, column in enumerate(columns))
        with self._readable() as table:
            for batch in _stream(f"SELECT {selected} FROM {table}", self.path, ordered):
                # DuckDB reads an empty field as null
                yield [array.fill_null("") if self.text else array for array in batch.columns]

    @contextlib.contextmanager
    def _readable(self) -> Iterator[str]:
        """Yield the SQL table expression of files that DuckDB can read."""
        if _COPY not in self.table:
            yield self.table
            return
        with private_files.copied(_pieces(pathlib.Path(self.path), self.encoding)) as copy:
            yield self.table.replace(_COPY, _literal(_no_glob(pathlib.Path(copy))))

    def unit_records(self, column: str, most: int) -> Iterator[UnitRecords]:
        """Yield the records of all units that have more than a number, in parts where memory is short.

        Args:
            column: the column that names the unit.
            most: the number.

        Raises:
            ValueError: the file has no such column, or cannot be read.
        """
        stored = _identifier(unit_column(self, column))
        dtype = None if self.text else str(_types(pathlib.Path(self.path), self.table)[column])
        # but for texts, values of one type are equal if their canonical forms are
        name = sql_key_of_text(stored) if dtype in (None, "string") else stored
        name = f"nullif({name}, 'nan')" if dtype in ("float", "double") else name
        with self._readable() as table:
            numbered = f"SELECT {name} AS name, row_number() OVER () - 1 AS place FROM {table}"
            parts = [(1, 0)]  # units whose hashed name leaves a remainder; names never go to the disk
            while parts:
                of, part = parts.pop()
                query = (
                    f"WITH chosen AS (SELECT name, place FROM ({numbered}) WHERE name IS NOT NULL "
                    f"AND hash(name) % {of} = {part}), "
                    f"large AS (SELECT name FROM chosen GROUP BY name HAVING count(*) > {most}) "
                    "SELECT name, place FROM chosen JOIN large USING (name) ORDER BY name, place"
                )
                try:
                    yield from units_of(_stream(query, self.path, True))
                except MemoryError:
                    if of == _MOST_PARTS:
                        raise
                    parts += [(2 * of, part), (2 * of, part + of)]

    @property
    def layout(self) -> dict[str, str]:
        """The files' columns by attribute, with key "" for the weights."""
        return {**self.columns, **({"": self.weights[0]} if self.weights else {})}

    @property
    def reading(self) -> dict[str, Any]:
        """The file by its path, and what is said of its form."""
        form = {"table": self.table, "text": self.text, "header": self.header, "encoding": self.encoding}
        return {"path": os.path.abspath(self.path), **form, "rows_outside": self.rows_outside}

    @property
    def population(self) -> Population:
        """The records that count."""
        bound = None if self.weight_bound is None else self.weight_bound[1]
        return Population.of_table(self.domain, self.rows_outside, bound)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the files' bytes."""
        return fingerprint.of_path(self.path, key)

    identity = fingerprint

    def stamp(self) -> tuple[Any, ...]:
        """Return inode, size and times of every file."""
        return stamp_of(pathlib.Path(self.path))

    def under(self, definition: TableDefinition) -> RecodedSource:
        """Return the same records, encoded as the table's holder defined it, in this source's codes.

        Raises:
            ValueError: codes or weights that do not follow from the definition's.
        """
        tables = definition.tables(self.domain)
        if self.weight_bound is not None:
            definition.check_weights(*self.weight_bound)
        bound = None if definition.weights is None else (definition.weights, definition.max_weight or 1)
        held = open_files(
            self.path,
            definition.domain,
            self.header,
            bound,
            definition.rows_outside,
            definition.encoding if self.text and not self.path.lower().endswith(EXCEL) else None,
        )
        if isinstance(held, FileSource):
            held.check_types()
        if self.encoding not in (None, getattr(held, "encoding", None)):
            told = "UTF-8" if definition.encoding is None else definition.encoding
            raise ValueError(
                f"This table was registered as {told} text: leave encoding (--encoding) out, or give that."
            )
        return RecodedSource(held, tables, weighted=self.weight_bound is not None)


def _named(said: str, act: Callable[..., _Result], *given: Any) -> _Result:
    """Return what `act` does, with the name of a column before its message on types."""
    try:
        return act(*given)
    except TypeError as error:
        raise TypeError(f"{said}: {error}.") from None


def open_files(
    path: str | os.PathLike[str],
    domain: Domain,
    header: bool,
    weight_bound: tuple[str, int] | None,
    rows_outside: str | None = None,
    encoding: str | None = None,
) -> FileSource | NpySource:
    """Find the columns of a table in files, without reading records.

    Args:
        path: a .parquet file or a folder of them; a .csv, .tsv, .data or .txt file, or one of these
            compressed as .gz; an .xlsx file; or a .npy file of codes.
        domain: the domain of the records.
        header: (text) whether the first line names the columns.
        weight_bound: name of the column of weights and the largest weight, or None.
        rows_outside: what happens to rows outside the domain, see `data.definition`.
        encoding: of a text file; None: UTF-8, or UTF-16 if it begins with a byte-order mark of that.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: an .xlsx file, and openpyxl is not installed.
        TypeError: a .npy file does not contain integers.
        ValueError: the kind of file is not supported, a column is missing or occurs twice, or there is no
            such encoding.
    """
    file, kind = _file_and_kind(path)
    encoding = _encoding_of(file, kind, encoding)
    weights, most = weight_bound if weight_bound is not None else (None, 1)
    names = list(domain) + ([weights] if weights is not None else [])
    if kind == ".npy" and file.is_file():
        return open_npy(file, domain, weights, rows_outside)
    if file.is_dir() or kind == ".parquet":
        table = f"read_parquet({_files(file)}, hive_types_autocast=false)"
        columns = _parquet_columns(file, _types(file, table), names)
    elif kind in (*SUFFIXES, EXCEL):
        if weights is not None and not header:
            raise ValueError("weights names a column of the header, so it needs header=True.")
        table, columns = _text_table(file, kind, names, header, encoding)
    else:
        raise ValueError(
            f"{file.name} is no kind of table that can be read{_sheet(kind)}: expected .parquet (or a "
            f"folder of them), .npy, .xlsx, {', '.join(SUFFIXES)}, or one of these text kinds with .gz."
        )
    found = None
    if weights is not None:
        found = (columns.pop(weights), weight_coder(most, clip=rows_outside == "clip"))
    text = not table.startswith("read_parquet")
    return FileSource(
        domain, str(file), table, columns, found, text, header, weight_bound, rows_outside, encoding
    )


def _file_and_kind(path: str | os.PathLike[str]) -> tuple[pathlib.Path, str]:
    """Return a file and its suffix, of a compressed one the suffix before .gz."""
    file = pathlib.Path(path).absolute()
    if not file.exists():
        raise FileNotFoundError(absent("table at", file))
    suffixes = [suffix.lower() for suffix in file.suffixes]
    return file, suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])


def column_names(path: str | os.PathLike[str], encoding: str | None = None) -> list[str]:
    """Return the names of a table's columns, from its header or schema. Reads no record.

    Args:
        path: as for `open_files`, but no .npy file.
        encoding: of a text file; None: UTF-8, or UTF-16 if it begins with a byte-order mark of that.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the kind of file names no columns, or a name is empty or occurs twice.
    """
    file, kind = _file_and_kind(path)
    encoding = _encoding_of(file, kind, encoding)
    if file.is_dir() or kind == ".parquet":
        names = [*_types(file, f"read_parquet({_files(file)}, hive_types_autocast=false)")]
    elif kind in (*SUFFIXES, EXCEL):
        line, _ = _first_line(file, encoding, strict=True)
        rows = [_split(line, delimiter) for delimiter in _DELIMITERS.get(kind, _DELIMITERS[""])]
        names = [name.strip() for name in max(rows, key=len)]
    else:
        raise ValueError(f"{file.name} does not name its columns{_sheet(kind)}: give a domain for it.")
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"{file.name} has columns without a name of their own: correct its first line.")
    return names


def column_types(path: str | os.PathLike[str], encoding: str | None = None) -> dict[str, Any]:
    """Return the Arrow type of each column by name; None in text files, which declare none. Reads no record.

    Raises:
        FileNotFoundError, ValueError: as `column_names`.
    """
    names = column_names(path, encoding)
    file, kind = _file_and_kind(path)
    if not file.is_dir() and kind != ".parquet":
        return dict.fromkeys(names)
    return _types(file, f"read_parquet({_files(file)}, hive_types_autocast=false)")


def _encoding_of(file: pathlib.Path, kind: str, encoding: str | None) -> str | None:
    """Return the encoding that a file is to be decoded from, None for UTF-8 and what is no text.

    Raises:
        TypeError: the encoding is no name.
        ValueError: there is no encoding of that name, or the file is no text.
    """
    known = known_encoding(encoding)
    if encoding is None:
        if kind not in SUFFIXES or file.is_dir():
            return None
        with contextlib.suppress(OSError, EOFError), _binary(file) as stream:
            return "utf-16" if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None
        return None
    if kind not in SUFFIXES or file.is_dir():
        raise ValueError(f"encoding is that of a text file, and {file.name} is none: leave it out.")
    return known


def _binary(file: pathlib.Path) -> IO[bytes]:
    return gzip.open(file, "rb") if file.suffix.lower() == ".gz" else file.open("rb")  # type: ignore[return-value]


def _pieces(file: pathlib.Path, encoding: str | None, errors: str = "strict") -> Iterator[str]:
    """Yield the text of a file that is not UTF-8 text, piece by piece; of a sheet, row by row.

    Raises:
        ValueError: it cannot be read in that encoding.
    """
    if file.suffix.lower() == EXCEL:
        yield from _rows_of_sheet(file)
        return
    failed = False
    try:
        with _binary(file) as stream, io.TextIOWrapper(stream, encoding, errors, newline="") as text:
            yield from iter(lambda: text.read(_PIECE), "")
    except UnicodeError:
        failed = True
    if failed:  # raised here, as the message of the decoder quotes the bytes
        raise ValueError(
            f"{file} holds bytes that are not {encoding} text: give the encoding that it was written in."
        )


def _rows_of_sheet(file: pathlib.Path) -> Iterator[str]:
    """Yield the rows of the first sheet of an Excel file as lines of CSV."""
    try:
        openpyxl = checks.optional("openpyxl", extra="excel")
    except ImportError as error:
        raise ImportError(f"{error}, or save the sheet as CSV (UTF-8) and name that file.") from None
    failed = False
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        try:
            sheet, width = book.worksheets[0], 0
            sheet.reset_dimensions()  # what a file says of them is often wrong
            for row in sheet.iter_rows(values_only=True):
                cells = [_cell_text(value) for value in row]
                used = max((place + 1 for place, text in enumerate(cells) if text), default=0)
                width = width or used
                line = io.StringIO()
                csv.writer(line, lineterminator="\n").writerow((cells + [""] * width)[: max(used, width)])
                if used:
                    yield line.getvalue()
        finally:
            book.close()
    except (OSError, LookupError, TypeError, ValueError, AttributeError, SyntaxError, zipfile.BadZipFile):
        failed = True
    if failed:
        raise ValueError(f"{file} cannot be read as an Excel file: save the sheet as CSV (UTF-8) instead.")


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return text_of(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return (value.date() if value.time() == datetime.time() else value).isoformat()
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _sheet(kind: str) -> str:
    """Return how to save a sheet, for a message."""
    sheets = (".xls", ".xlsb", ".ods")
    return " (save the sheet as CSV in UTF-8, or as Parquet)" if kind in sheets else ""


def _text_table(
    file: pathlib.Path, kind: str, names: Sequence[str], header: bool, encoding: str | None
) -> tuple[str, dict[str, str]]:
    layout = find_columns(file, kind, names, header, encoding)
    types = ", ".join(f"f{k}: 'VARCHAR'" for k in range(layout.columns))
    copied = encoding is not None or kind == EXCEL
    compression = "gzip" if file.suffix.lower() == ".gz" and not copied else "none"
    table = (
        f"read_csv({_COPY if copied else _literal(_no_glob(file))}, columns={{{types}}}, "
        f"auto_detect=false, header={header}, skip={layout.blank}, "
        f"delim={_literal(layout.delimiter)}, quote='\"', escape='\"', "
        f"compression='{compression}')"
    )
    if layout.columns == 1:
        # in a file of one column, a blank line would be a record without a value
        table += " WHERE f0 IS NOT NULL"
    return table, {name: f"f{k}" for name, k in layout.positions.items()}


def _files(file: pathlib.Path) -> str:
    files = [file]
    if file.is_dir():
        files = sorted(part for part in file.rglob("*.parquet") if _is_part(part))
        if not files:
            raise ValueError(
                f"The folder {file} holds no .parquet file, and only these are read from a folder: name a "
                "file."
            )
    return "[" + ", ".join(_literal(_no_glob(part)) for part in files) + "]"


def _is_part(file: pathlib.Path) -> bool:
    return not file.name.startswith((".", "_")) and file.is_file()


def _types(file: pathlib.Path, table: str) -> dict[str, Any]:
    """Return the Arrow types of the columns of a Parquet file or folder by name. Reads no record.

    They are those in which batches come; "TYPE, which is read as TYPE" where that rounds.
    """
    duckdb = checks.optional("duckdb", extra="tables")
    parquet = checks.optional("pyarrow.parquet", extra="tables")
    read = None
    with contextlib.suppress(duckdb.Error), _connect() as connection:
        relation = connection.sql(f"SELECT * FROM {table} LIMIT 0")
        read = (getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table)().schema
    if read is None:
        raise ValueError(f"{file} cannot be read as Parquet.")
    part = next(
        part for part in (sorted(file.rglob("*.parquet")) if file.is_dir() else [file]) if _is_part(part)
    )
    stored = {field.name: field.type for field in parquet.read_schema(part)}
    types = {name: read.field(name).type for name in read.names}
    for name in types.keys() & stored.keys():
        if str(stored[name]).startswith(("decimal256", "halffloat", "duration")):
            types[name] = f"{stored[name]}, which DuckDB reads as {types[name]}"
    return types


def _parquet_columns(file: pathlib.Path, types: dict[str, Any], names: Sequence[str]) -> dict[str, str]:
    for name in names:
        if name not in types:
            raise ValueError(f"{file} has no column named {name!r}: correct the name in the domain.")
    return {name: name for name in names}


def unit_column(source: FileSource, name: str) -> str:
    """Return the name in SQL of the column that names the unit.

    Raises:
        ValueError: the file has no such column, or several.
    """
    file, kind = _file_and_kind(source.path)
    if source.text and not source.header:
        raise ValueError(f"The unit names the column {name!r} of a header, so it needs header=True.")
    try:
        if not source.text:
            types = _types(file, source.table)
            column = _parquet_columns(file, types, [name])[name]
            check_type_of_unit(types[name])
            return column
        return f"f{find_columns(file, kind, [*source.domain, name], True, source.encoding).positions[name]}"
    except ValueError as error:
        found = re.split(", and needs one|: correct", str(error))[0]
    raise ValueError(f"{found}, and the unit of privacy (--unit) needs one: correct the unit's name.")


def _stream(query: str, path: str, ordered: bool) -> Iterator[Any]:
    """Yield the Arrow record batches of a query as they are read.

    Raises:
        MemoryError: the query needs more memory than it may have; nothing was yielded.
        ValueError: the file cannot be read.
    """
    duckdb = checks.optional("duckdb", extra="tables")
    pa = checks.optional("pyarrow", extra="tables")
    failure, begun, short = None, False, False
    with _connect(ordered) as connection:
        try:
            # a relation is streamed; the result of execute() would be read into memory first
            relation = connection.sql(query)
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            for batch in reader(BATCH_ROWS):
                begun = True
                yield batch
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            failure = str(error)
            short = not begun and re.search("out of memory", failure, re.IGNORECASE) is not None
    if short:
        raise MemoryError(f"{path} cannot be read: the names of its units need more than {_MEMORY_LIMIT}.")
    if failure is not None:
        # raised here so that the reader's message, which may quote a record, is not in the exception context
        line = re.search(r"CSV Error on Line: (\d+)", failure)
        if "unicode" in failure.lower():
            raise _not_utf8(pathlib.Path(path), f", line {line[1]}" if line else "")
        hint = ": is it UTF-8, are its quotes closed, has it as many fields as the first line?"
        place = f", line {line[1]}{hint}" if line else "."
        raise ValueError(f"{path} cannot be read{place}")


def _connect(ordered: bool = False) -> Any:
    duckdb = checks.optional("duckdb", extra="tables")
    return duckdb.connect(
        ":memory:",
        config={
            "memory_limit": _MEMORY_LIMIT,
            "temp_directory": "",  # no record is ever written to disk
            "threads": min(_THREADS, os.cpu_count() or 1),
            "preserve_insertion_order": ordered,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )


def _no_glob(file: pathlib.Path) -> str:
    return re.sub(r"([*?\[])", r"[\1]", str(file))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


class CsvLayout(NamedTuple):
    """The layout of a text file.

    Attributes:
        delimiter: the text between fields.
        columns: the number of columns.
        positions: the position of every required column, from 0.
        blank: the number of blank lines before the first line.
    """

    delimiter: str
    columns: int
    positions: dict[str, int]
    blank: int


def find_columns(
    path: pathlib.Path, suffix: str, names: Sequence[str], header: bool, encoding: str | None = None
) -> CsvLayout:
    """Return the layout of a text file, skipping blank lines at its start.

    Args:
        path: the file; gzip-compressed if it ends in .gz.
        suffix: .csv, .tsv, .data or .txt.
        names: the required columns; without a header, all columns in order.
        header: whether the first line names the columns.
        encoding: of the file, None for UTF-8.

    Raises:
        ValueError: the file is empty, cannot be read, or does not have these columns.
    """
    line, blank = _first_line(path, encoding, strict=header)
    delimiters = _DELIMITERS.get(suffix, _DELIMITERS[""])
    rows = [[field.strip() for field in _split(line, delimiter)] for delimiter in delimiters]
    if header:
        found = [sum(name.strip() in row for name in names) for row in rows]
        best = max(range(len(rows)), key=lambda k: (found[k], -k))
        _check_header(path, names, rows[best])
        return CsvLayout(delimiters[best], len(rows[best]), _positions(path, names, rows[best]), blank)
    for delimiter, row in zip(delimiters, rows, strict=True):
        if len(row) == len(names):
            return CsvLayout(delimiter, len(row), {name: k for k, name in enumerate(names)}, blank)
    count = max(map(len, rows))
    raise ValueError(
        f"{path} has {count} columns where the domain has {len(names)} attributes: without a header the "
        "columns stand in the domain's order, each an attribute."
    )


def _check_header(path: pathlib.Path, names: Sequence[str], row: Sequence[str]) -> None:
    """Refuse a first line that is one field where several columns are needed: nothing of it is shown.

    Raises:
        ValueError: it is.
    """
    if len(row) == 1 < len(names) and not any(name.strip() in row for name in names):
        raise ValueError(
            f"{path} has no column named {names[0]!r}: its first line is one field, and commas, semicolons, "
            "tabs, | or spaces were expected between columns. Save it with one of these."
        )


def _positions(path: pathlib.Path, names: Sequence[str], row: Sequence[str]) -> dict[str, int]:
    positions = {}
    for name in names:
        if row.count(name.strip()) != 1:
            if name.strip() in row:
                raise ValueError(
                    f"{path} has {row.count(name.strip())} columns named {name!r}, and needs one: rename the "
                    "others in the first line."
                )
            raise ValueError(
                f"{path} has no column named {name!r}, and needs one: correct the name in the domain or in "
                "the first line, or leave it out of the domain (or read it with header=False, if the first "
                "line is a record)."
            )
        positions[name] = row.index(name.strip())
    return positions


def _first_line(path: pathlib.Path, encoding: str | None, strict: bool) -> tuple[str, int]:
    """Return the first line that is not blank, and the number of blank lines before it.

    It ends where its bytes do, whatever encoding is given, so that no record becomes part of the names.

    Raises:
        ValueError: the file is empty or cannot be read, or, if `strict`, the line is not UTF-8.
    """
    blank = 0
    try:
        with _beginning(path, encoding) as stream:
            line = stream.readline(_LONGEST_LINE)
            while line and not line.strip(_MARK + b"\r\n"):
                blank += len(line.splitlines())
                line = stream.readline(_LONGEST_LINE)
    except (OSError, EOFError):
        line = None
    if line is None:
        packed = "gzip-compressed " * (path.suffix.lower() == ".gz")
        raise ValueError(f"{path} cannot be read: is it a {packed}text?")
    if not line:
        raise ValueError(f"{path} is empty: it must hold at least one record.")
    # a lone carriage return also ends a line
    lines = line.splitlines()
    first = next(k for k, part in enumerate(lines) if part.strip(_MARK))
    if encoding is not None and encoding not in _MARKED:
        return _decoded(path, lines[first], encoding), blank + first
    text = lines[first].decode("utf-8-sig", errors="replace")
    if strict and ("\ufffd" in text or "\0" in text) and len(line) < _LONGEST_LINE:
        raise _not_utf8(path, f", line {blank + first + 1}")
    return text, blank + first


def _beginning(path: pathlib.Path, encoding: str | None) -> IO[bytes]:
    """Return a stream of a file's bytes; as UTF-8 the beginning of a sheet, or of text that has a mark."""
    if encoding not in _MARKED and path.suffix.lower() != EXCEL:
        return _binary(path)
    # whether records can be decoded is for a scan to say
    most = 1 if encoding is None else _LONGEST_LINE // _PIECE
    pieces = itertools.islice(_pieces(path, encoding, "replace"), most)
    return io.BytesIO("".join(pieces).encode("utf-8", errors="replace"))


def _decoded(path: pathlib.Path, line: bytes, encoding: str) -> str:
    """Return the text of the first line of a file in another encoding than UTF-8."""
    text = None
    with contextlib.suppress(ValueError):  # an incomplete last character is the other half of the line's end
        text = line.decode(encoding, "ignore")
    if text is None:
        raise ValueError(f"{path} cannot be read: its first line is no {encoding} text.")
    return re.split("[\r\n]", text, maxsplit=1)[0]


def _not_utf8(path: pathlib.Path, place: str) -> ValueError:
    """Return the error of a file that is not UTF-8 text, with the encoding that it probably has."""
    likely = "cp1252"
    with contextlib.suppress(OSError, EOFError), _binary(path) as stream:
        for piece in itertools.islice(iter(lambda: stream.read(1 << 20), b""), 256):
            if b"\0" in piece:
                likely = "utf-16"
                break
            if not _NOT_CP1252.isdisjoint(piece):
                likely = "latin-1"
    return ValueError(
        f"{path} cannot be read{place}: it holds bytes that are not UTF-8. It looks like {likely}: give "
        f'encoding="{likely}" (--encoding {likely}), or save it as UTF-8.'
    )


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


@dataclass(frozen=True)
class NpySource:
    """A table of codes in a .npy file, read again for each scan.

    Attributes:
        domain: the domain of the records, in the order of the columns.
        path: the file.
        rows_outside: what happens to rows outside the domain, see `data.definition`.
    """

    domain: Domain
    path: pathlib.Path
    rows_outside: str | None = None

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, always in order, with the named attributes.

        Raises:
            ValueError: the file can no longer be read.
        """
        codes = _mapped(self.path, self.domain)
        places = {name: place for place, name in enumerate(self.domain)}
        read = [*self.domain] if self.rows_outside == "drop" else names
        coders = {name: code_coder(self.domain[name], clip=self.rows_outside == "clip") for name in read}
        for start in range(0, len(codes), BATCH_ROWS):
            part = np.asarray(codes[start : start + BATCH_ROWS]).reshape(-1, len(self.domain))
            columns = {
                name: coder.encode_numbers(np.ascontiguousarray(part[:, places[name]]))
                for name, coder in coders.items()
            }
            yield self.settled(Batch(columns, None, len(part)), names)

    unsettled = batches

    def settled(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return a batch with what happens to rows outside the domain."""
        batch = without_rows_outside(batch, self.domain, self.rows_outside)
        return Batch({name: batch.columns[name] for name in names}, None, batch.rows)

    @property
    def layout(self) -> dict[str, str]:
        """The column numbers by attribute, as text."""
        return {name: str(place) for place, name in enumerate(self.domain)}

    @property
    def reading(self) -> dict[str, Any]:
        """The file by its path."""
        return {"path": os.path.abspath(self.path), "rows_outside": self.rows_outside}

    @property
    def population(self) -> Population:
        """The records that count."""
        return Population.of_table(self.domain, self.rows_outside, coded=True)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the file's bytes."""
        return fingerprint.of_path(self.path, key)

    identity = fingerprint

    def stamp(self) -> tuple[Any, ...]:
        """Return inode, size and times of the file."""
        return stamp_of(self.path)

    def under(self, definition: TableDefinition) -> RecodedSource:
        """Return the same records, encoded as the table's holder defined it, in this source's codes.

        Raises:
            ValueError: codes that do not follow from the definition's.
        """
        tables = definition.tables(self.domain)
        return RecodedSource(NpySource(definition.domain, self.path, definition.rows_outside), tables)


def stamp_of(path: pathlib.Path) -> tuple[Any, ...]:
    """Return inode, size and times of a file, or of each .parquet file of a folder."""
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    marks = []
    for file in files:
        found = file.stat()
        marks.append((str(file), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return tuple(marks)


def open_npy(
    file: pathlib.Path, domain: Domain, weights: str | None, rows_outside: str | None = None
) -> NpySource:
    """Check the form of a .npy file: integer codes [rows, attributes], or [rows] of one attribute.

    Raises:
        TypeError: the file does not contain integers.
        ValueError: weights are given, or the file is damaged or has another shape.
    """
    if weights is not None:
        raise ValueError("A .npy file has codes only and no column of weights: leave out the weights.")
    _mapped(file, domain)
    return NpySource(domain, file, rows_outside)


def _mapped(file: pathlib.Path, domain: Domain) -> np.ndarray:
    try:
        codes = mapped(file)
    except (ValueError, OSError, EOFError):
        raise ValueError(f"{file} cannot be read as a .npy file.") from None
    if codes.ndim not in (1, 2) or (1 if codes.ndim == 1 else codes.shape[1]) != len(domain):
        raise ValueError(
            f"{file.name} must have a row a record and a column for each of the domain's {len(domain)} "
            f"attributes, got {f'{codes.shape[1]} columns' if codes.ndim == 2 else f'{codes.ndim} axes'}."
        )
    if codes.dtype.kind not in "iu":
        raise TypeError(f"{file.name} must hold integer codes, got {codes.dtype}.")
    return codes
