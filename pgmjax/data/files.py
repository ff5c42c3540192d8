"""Tables in files of any size, read as batches of codes: CSV and Parquet through DuckDB, and NumPy files.

Text files are read as text and encoded according to each attribute's kind. Where their columns stand is found
by `text_file` from the domain's names and the form of the first lines. Text that DuckDB does not read as it
is (in another encoding than UTF-8, below a title, with line ends of several kinds), and the first sheet of an
Excel file, are copied as UTF-8 text for the time of a scan, to a file without a name. Nothing else is written
to disk. Of the reader's messages the reason and the line are passed on, as the rest may quote a record. NumPy
files already contain codes and are memory-mapped.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from pgmjax._internal import checks, private_files
from pgmjax._internal.extras import arrow as pa
from pgmjax._internal.extras import duckdb, parquet
from pgmjax._internal.files import mapped
from pgmjax.data import fingerprint
from pgmjax.data.arrow import check_type, encode_array
from pgmjax.data.bounding import UnitRecords, check_type_of_unit, units_of
from pgmjax.data.definition import TableDefinition, coder_of
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Coder
from pgmjax.data.population import Population
from pgmjax.data.sources import (
    BATCH_ROWS,
    WEIGHTS,
    Batch,
    RecodedSource,
    Source,
    weight_coder,
    without_rows_outside,
)
from pgmjax.data.text_file import (
    EXCEL,
    CsvLayout,
    TextFile,
    find_columns,
    names_of,
    positions_of,
    table_file,
    with_one_line_end,
    without_lines,
)
from pgmjax.data.value import sql_key_of_text
from pgmjax.data.withheld import NOT_UTF8, held_back, place_and_reason

_Result = TypeVar("_Result")

# limits given to DuckDB
_MEMORY_LIMIT = "1GB"
_THREADS = 4
_MOST_PARTS = 1 << 10  # in which the names of units are grouped

_PARQUET = "hive_types_autocast=false, union_by_name=true"  # the type of a column is one for all files
_ROUNDED = ("decimal256", "halffloat")
"""Types that DuckDB reads as others, so that Arrow reads the records of such a column."""


@dataclass(frozen=True)
class StoredSource(Source):
    """A table in files, read again for each scan.

    Attributes:
        domain: the domain of the records.
        path: the path of the file or folder.
        rows_outside: what happens to rows outside the domain, see `data.definition`.
    """

    domain: Domain
    path: str
    rows_outside: str | None

    def settled(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return a batch of `unsettled` with what happens to rows outside the domain."""
        found = without_rows_outside(batch, self.domain, self.rows_outside)
        wanted = [*names, *({WEIGHTS} & found.columns.keys())]
        return replace(found, columns={name: found.columns[name] for name in wanted})

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the files' bytes."""
        return fingerprint.of_path(self.path, key)

    def stamp(self) -> tuple[Any, ...]:
        """Return inode, size and times of a file, or of each .parquet file of a folder."""
        return tuple(map(fingerprint.stamp_of, fingerprint.parts_of(pathlib.Path(self.path))))

    @property
    def reading(self) -> dict[str, Any]:
        """The file by its path, and what happens to rows outside."""
        return {"path": os.path.abspath(self.path), "rows_outside": self.rows_outside}


@dataclass(frozen=True)
class FileSource(StoredSource):
    """A table in text or Parquet files, through DuckDB.

    Attributes:
        columns: the columns' names in SQL, by attribute; of the weights by "".
        text: the file with its layout if its fields are text, None for Parquet.
        header: whether a line of a text file names the columns.
        weight_bound: name and bound of the weights, or None.
        types: of the columns of Parquet as Arrow types, by their names; {} of text.
    """

    columns: dict[str, str]
    text: tuple[TextFile, CsvLayout] | None
    header: bool = True
    weight_bound: tuple[str, int] | None = None
    types: dict[str, Any] = field(default_factory=dict)

    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield batches with every record as it lies there; of all attributes if rows are dropped."""
        # a record is dropped for any of its values, so that it is one table whatever is asked of it
        names = [*self.domain] if self.rows_outside == "drop" else names
        coders = self._coders(names)
        for arrays in self.values(list(coders), ordered):
            encoded = {name: _named(name, encode_array, coders[name], arrays[name]) for name in coders}
            yield Batch(encoded, len(next(iter(arrays.values()))))

    def _coders(self, names: Sequence[str]) -> dict[str, Coder]:
        """Return the encoder of each attribute, and of the weights."""
        coders = {name: coder_of(self.domain.attribute(name), self.rows_outside) for name in names}
        if self.weight_bound is not None:
            coders[WEIGHTS] = weight_coder(self.weight_bound[1], clip=self.rows_outside == "clip")
        return coders

    def check_types(self) -> None:
        """Refuse a Parquet table by its schema, if a column has a type that its attribute can match nowhere.

        Raises:
            TypeError: it has one.
        """
        for name, coder in self._coders([*self.domain]).items():
            if self.columns[name] in self.types:
                _named(name, check_type, coder.refusal, self.types[self.columns[name]])

    def values(self, names: Sequence[str], ordered: bool = True) -> Iterator[dict[str, Any]]:
        """Yield all records in batches as they are stored: Arrow arrays [rows] by attribute. Private.

        Args:
            names: the attributes; `WEIGHTS` for the weights.
            ordered: whether in the order of the table.

        Raises:
            ValueError: the file cannot be read.
        """
        for batch in self._stored([self.columns[name] for name in names], ordered):
            # DuckDB reads an empty field as null
            arrays = (array.fill_null("") if self.text else array for array in batch.columns)
            yield dict(zip(names, arrays, strict=True))

    def _stored(self, columns: Sequence[str], ordered: bool) -> Iterator[Any]:
        if any(str(self.types.get(column)).startswith(_ROUNDED) for column in columns):
            yield from _stream_by_arrow(pathlib.Path(self.path), columns)
            return
        selected = ", ".join(f"{_identifier(column)} AS c{k}" for k, column in enumerate(columns))
        with self._readable() as (table, above):
            query = f"SELECT {selected} FROM {table}"
            yield from _stream(query, self.path, ordered or self.text is not None, above)

    @contextlib.contextmanager
    def _readable(self) -> Iterator[tuple[str, int]]:
        """Yield an SQL table expression that DuckDB can read, and how many lines above are not in it."""
        if self.text is None:
            yield f"read_parquet({_files(pathlib.Path(self.path))}, {_PARQUET})", 0
            return
        text, layout = self.text
        # DuckDB takes the line ends of a file to be those of its first line, where ends in quotes count too
        direct = text.plain and self.header and layout.above == 1 and layout.columns > 1
        if (direct or text.packed) and text.has_one_line_end() and direct:  # a packed file must be whole too
            packed = "gzip" if text.packed else "none"
            yield _read_csv(_no_glob(text.path), layout, f"header=true, compression='{packed}'"), 0
            return
        pieces = without_lines(text.pieces(), layout.above)
        with private_files.copied(with_one_line_end(pieces, layout.delimiter)) as copy:
            yield _read_csv(copy, layout, "header=false, compression='none', new_line='\\n'"), layout.above

    def unit_records(self, column: str, most: int) -> Iterator[UnitRecords]:
        """Yield the records of all units that have more than a number, in parts where memory is short.

        Args:
            column: the column that names the unit.
            most: the number.

        Raises:
            ValueError: the file has no such column, or cannot be read.
        """
        stored = _identifier(unit_column(self, column))
        dtype = None if self.text else str(self.types[column])
        # but for texts, values of one type are equal if their canonical forms are
        name = sql_key_of_text(stored) if dtype in (None, "string") else stored
        name = f"nullif({name}, 'nan')" if dtype in ("float", "double") else name
        with self._readable() as (table, above):
            numbered = f"SELECT {name} AS name, row_number() OVER () - 1 AS place FROM {table}"
            yield from self._units(numbered, most, above)

    def _units(self, numbered: str, most: int, above: int) -> Iterator[UnitRecords]:
        parts = [(1, 0)]  # units whose hashed name leaves a remainder; names never go to the disk
        while parts:
            of, part = parts.pop()
            query = (
                f"WITH chosen AS (SELECT name, place FROM ({numbered}) WHERE name IS NOT NULL AND hash(name) "
                f"% {of} = {part}), large AS (SELECT name FROM chosen GROUP BY name HAVING count(*) > "
                f"{most}) SELECT name, place FROM chosen JOIN large USING (name) ORDER BY name, place"
            )
            try:
                yield from units_of(_stream(query, self.path, True, above))
            # raised before the first record only, so that no unit comes twice
            except MemoryError:
                if of == _MOST_PARTS:
                    raise
                # modulo twice as many, so that these two parts are together the part that was too large
                parts += [(2 * of, part), (2 * of, part + of)]

    @property
    def layout(self) -> dict[str, str]:
        """The files' columns by attribute, with key "" for the weights."""
        return self.columns

    @property
    def reading(self) -> dict[str, Any]:
        """The file by its path, and what is said of its form."""
        form: dict[str, Any] = {"header": self.header, "encoding": self.encoding}
        if self.text is not None:
            form["layout"] = self.text[1]._asdict()
        return {**super().reading, **form}

    @property
    def encoding(self) -> str | None:
        """The encoding of a text file, None for UTF-8."""
        return None if self.text is None else self.text[0].encoding

    @property
    def population(self) -> Population:
        """The records that count."""
        bound = None if self.weight_bound is None else self.weight_bound[1]
        return Population.of_table(self.domain, self.rows_outside, bound)

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
            definition.encoding if self.text is not None and self.text[0].kind != EXCEL else None,
        )
        if isinstance(held, FileSource):
            held.check_types()
        if self.encoding not in (None, getattr(held, "encoding", None)):
            raise ValueError(
                f"This table was registered as {definition.encoding or 'UTF-8'} text: leave encoding "
                "(--encoding) out, or give that."
            )
        return RecodedSource(held, tables, weighted=self.weight_bound is not None)


def _named(name: str, act: Callable[..., _Result], *given: Any) -> _Result:
    """Return what `act` does, with the name of a column before its message on types."""
    try:
        return act(*given)
    except TypeError as error:
        said = "Weights" if name == WEIGHTS else f"Attribute {name!r}"
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
    file, kind = table_file(path, encoding)
    _tell_depths(file)
    weights = None if weight_bound is None else weight_bound[0]
    names = list(domain) + ([weights] if weights is not None else [])
    if kind == ".npy":
        if weights is not None:
            raise ValueError("A .npy file has codes only and no column of weights: leave out the weights.")
        _mapped(file, domain)
        return NpySource(domain, str(file), rows_outside)
    checks.optional("duckdb", extra="tables")  # records are read late, when a budget is charged
    text, types = None, {}
    if kind == ".parquet":
        types = _types(file)
        columns = _parquet_columns(file, types, names)
    else:
        if weights is not None and not header:
            raise ValueError("weights names a column of the header, so it needs header=True.")
        found = TextFile.of(file, kind, encoding)
        layout = find_columns(found, names, header)
        text, columns = (found, layout), {name: f"f{k}" for name, k in layout.positions.items()}
    if weights is not None:
        columns[WEIGHTS] = columns.pop(weights)
    return FileSource(domain, str(file), rows_outside, columns, text, header, weight_bound, types)


def column_names(
    path: str | os.PathLike[str],
    encoding: str | None = None,
    names: Sequence[str] = (),
    header: bool = True,
) -> list[str]:
    """Return the names of a table's columns, from its header or schema. Reads no record.

    Columns without a name of their own are left out, as nobody can ask for them; one without a name, in which
    row numbers stand, without a word.

    Args:
        path: as for `open_files`, but no .npy file.
        encoding: of a text file; None: UTF-8, or UTF-16 if it begins with a byte-order mark of that.
        names: some that it should have, by which the delimiter of a text file is found. Default: the
            delimiter is the one for which the first record has as many fields as the header.
        header: whether a line of a text file names the columns.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the kind of file names no columns, or no column has a name of its own.
    """
    file, kind = table_file(path, encoding)
    if kind == ".npy":
        raise ValueError(f"{file.name} does not name its columns: give a domain for it.")
    stored = kind == ".parquet"
    found = [*_types(file)] if stored else names_of(TextFile.of(file, kind, encoding), names, header)
    if not stored and len(found) == 1 and " " in found[0]:
        checks.warn(
            f"{file.name} has one column, named {found[0]!r}: if spaces stand between columns, save it with "
            "commas between them."
        )
    own = [name for name in found if name and (found.count(name) == 1 or name in names)]
    left = len(found) - len(own) - ("" in found)
    if not own:
        raise ValueError(f"{file.name} has columns without a name of their own: correct its first line.")
    if left:
        columns = checks.counted(
            left, "column without a name of its own", "columns without names of their own"
        )
        checks.warn(f"{file.name} has {columns}: left out.")
    return own


def column_types(
    path: str | os.PathLike[str], encoding: str | None = None, header: bool = True
) -> dict[str, Any]:
    """Return the Arrow type of each column by name; None in text files, which declare none. Reads no record.

    Without a header the columns of a text file are column1, column2 and so on.

    Raises:
        FileNotFoundError, ValueError: as `column_names`.
    """
    names = column_names(path, encoding, header=header)
    file, kind = table_file(path)
    return _types(file) if kind == ".parquet" else dict.fromkeys(names)


def _read_csv(path: str, layout: CsvLayout, form: str) -> str:
    """Return the SQL table expression of a text file, in which an empty line is a record of one column."""
    types = ", ".join(f"f{k}: 'VARCHAR'" for k in range(layout.columns))
    return (
        f"read_csv({_literal(path)}, columns={{{types}}}, auto_detect=false, "
        f"delim={_literal(layout.delimiter)}, quote='\"', escape='\"', {form})"
    )


def _tell_depths(file: pathlib.Path) -> None:
    """Warn of a folder whose files lie at several depths: some may be of other tables."""
    parts = fingerprint.parts_of(file)
    deep = max(parts, key=lambda part: len(part.parts))
    if len({len(part.parts) for part in parts}) > 1:
        checks.warn(
            f"The folder {file} is read as one table of {len(parts):,} files, some of them in folders within "
            f"it, such as {deep}: name the file, or the folder, if that is another table."
        )


def _files(file: pathlib.Path) -> str:
    return "[" + ", ".join(_literal(_no_glob(part)) for part in fingerprint.parts_of(file)) + "]"


def _types(file: pathlib.Path) -> dict[str, Any]:
    """Return the Arrow types of the columns of a Parquet file or folder by name. Reads no record.

    They are those in which batches come; "TYPE, which is read as TYPE" where that rounds, in a folder whose
    files differ. A column that some files of a folder lack has none.
    """
    parts = fingerprint.parts_of(file)
    with held_back(duckdb.Error) as failure, _connect() as connection:
        relation = connection.sql(f"SELECT * FROM read_parquet({_files(file)}, {_PARQUET}) LIMIT 0")
        read = (getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table)().schema
    if failure:
        raise ValueError(f"{file} cannot be read as Parquet.")
    types = {name: read.field(name).type for name in read.names}
    schemas = [parquet.read_schema(part) for part in parts]
    alike = schemas[0].names == read.names and all(schema.equals(schemas[0]) for schema in schemas)
    for name in {name for schema in schemas for name in schema.names} & types.keys():
        stored = [schema.field(name).type for schema in schemas if name in schema.names]
        rounded = [t for t in stored if str(t).startswith((*_ROUNDED, "duration"))]
        if rounded:
            types[name] = rounded[0] if alike else f"{rounded[0]}, which DuckDB reads as {types[name]}"
        if len(stored) < len(parts):
            del types[name]
    return types


def _parquet_columns(file: pathlib.Path, types: dict[str, Any], names: Sequence[str]) -> dict[str, str]:
    columns = [*types]
    return {name: columns[place] for name, place in positions_of(file, names, columns).items()}


def unit_column(source: FileSource, name: str) -> str:
    """Return the name in SQL of the column that names the unit.

    Raises:
        ValueError: the file has no such column, or several.
    """
    if source.text is not None and not source.header:
        raise ValueError(f"The unit names the column {name!r} of a header, so it needs header=True.")
    try:
        if source.text is None:
            column = _parquet_columns(pathlib.Path(source.path), source.types, [name])[name]
            dtype = str(source.types[column])  # units are grouped by DuckDB
            check_type_of_unit(dtype if dtype.startswith(_ROUNDED) else source.types[column])
            return column
        found = find_columns(source.text[0], [*source.domain, name], True)
        if found.delimiter == source.text[1].delimiter:
            return f"f{found.positions[name]}"
        said = f"{source.path} has no column named {name!r}"
    except ValueError as error:
        said = re.split(", and needs one|: correct|: keep one", str(error))[0]
    one = " A unit is one column: make one that joins several." if "," in name else ""
    raise ValueError(f"{said}, and the unit of privacy (--unit) needs one: correct the unit's name.{one}")


def _stream(query: str, path: str, ordered: bool, above: int = 0) -> Iterator[Any]:
    """Yield the Arrow record batches of a query as they are read.

    Args:
        query: in SQL.
        path: the file, for messages.
        ordered: whether to keep the order of records.
        above: how many lines of the file are not in what is read.

    Raises:
        MemoryError: the query needs more memory than it may have; nothing was yielded.
        ValueError: the file cannot be read.
    """
    begun = False
    with _connect(ordered) as connection, held_back(duckdb.Error, pa.ArrowException, OSError) as failure:
        # a relation is streamed; the result of execute() would be read into memory first
        relation = connection.sql(query)
        reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        for batch in reader(BATCH_ROWS):
            begun = True
            yield batch
    if failure and not begun and re.search("out of memory", failure[0], re.IGNORECASE):
        raise MemoryError(f"{path} cannot be read: the names of its units need more than {_MEMORY_LIMIT}.")
    if failure:
        raise _unreadable(path, failure[0], above)


def _stream_by_arrow(file: pathlib.Path, columns: Sequence[str]) -> Iterator[Any]:
    """Yield columns of a Parquet file, or a folder of files of one schema, in batches of the stored types.

    Raises:
        ValueError: the file cannot be read.
    """
    with held_back(pa.ArrowException, OSError) as failure:
        for part in fingerprint.parts_of(file):
            for batch in parquet.ParquetFile(part).iter_batches(BATCH_ROWS, columns=list(columns)):
                yield batch.select(list(columns))
    if failure:
        raise ValueError(f"{file} cannot be read.")


def _unreadable(path: str, failure: str, above: int) -> ValueError:
    """Return the error of a file with the reader's reason and line, but nothing that the reader quotes."""
    place, reason = place_and_reason(failure, above)
    if reason == NOT_UTF8:
        return TextFile(pathlib.Path(path), "").not_utf8(place)
    return ValueError(f"{path} cannot be read{place}{f': {reason}' if reason else ''}.")


def _connect(ordered: bool = False) -> Any:
    return duckdb.connect(
        ":memory:",
        config={
            "memory_limit": _MEMORY_LIMIT,
            "temp_directory": "",  # no record is ever written to disk
            "threads": min(_THREADS, os.cpu_count() or 1),
            # counts need no order, and DuckDB reads faster and in less memory without it
            "preserve_insertion_order": ordered,
            # no code is fetched to read a private table
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )


def _no_glob(file: pathlib.Path) -> str:
    # in brackets these characters stand for themselves
    return re.sub(r"([*?\[])", r"[\1]", str(file))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@dataclass(frozen=True)
class NpySource(StoredSource):
    """A table of codes in a .npy file, with columns in the order of the domain."""

    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield batches, always in order, with every record as it lies there.

        Raises:
            ValueError: the file can no longer be read.
        """
        codes = _mapped(pathlib.Path(self.path), self.domain)
        read = [*self.domain] if self.rows_outside == "drop" else names
        coders = {name: Coder(self.domain[name], clip=self.rows_outside == "clip") for name in read}
        for start in range(0, len(codes), BATCH_ROWS):
            part = np.asarray(codes[start : start + BATCH_ROWS]).reshape(-1, len(self.domain))
            table = dict(zip(self.domain, np.ascontiguousarray(part.T), strict=True))
            columns = {name: coder.encode_numbers(table[name]) for name, coder in coders.items()}
            yield Batch(columns, len(part))

    @property
    def layout(self) -> dict[str, str]:
        """The column numbers by attribute, as text."""
        return {name: str(place) for place, name in enumerate(self.domain)}

    @property
    def population(self) -> Population:
        """The records that count."""
        return Population.of_table(self.domain, self.rows_outside, coded=True)

    def under(self, definition: TableDefinition) -> RecodedSource:
        """Return the same records, encoded as the table's holder defined it, in this source's codes.

        Raises:
            ValueError: codes that do not follow from the definition's.
        """
        tables = definition.tables(self.domain)
        return RecodedSource(NpySource(definition.domain, self.path, definition.rows_outside), tables)


def _mapped(file: pathlib.Path, domain: Domain) -> np.ndarray:
    """Return the integer codes of a .npy file [rows, attributes], or [rows] of one attribute.

    Raises:
        TypeError: the file does not contain integers.
        ValueError: it is damaged or has another shape.
    """
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
