"""Arrow columns and tables (pandas and polars among them) as batches of codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.extras import arrow as pa
from pgmjax._internal.extras import compute
from pgmjax.data import fingerprint
from pgmjax.data.encoding import EXACT, MISSING, Coder, Encoded
from pgmjax.data.value import key_of, keys_of_moments, shortest


def storage_of(dtype: Any) -> str:
    """Return how a column of an Arrow type stores its values, one of `STORAGES`; "" if no entry reads them.

    Args:
        dtype: the type; text names one that a file has and its reader would round.
    """
    if isinstance(dtype, str):
        return ""
    if pa.types.is_dictionary(dtype):
        return storage_of(dtype.value_type)
    if _is_text(dtype) or _is_uuid(dtype):
        return "text"
    if pa.types.is_boolean(dtype):
        return "bool"
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return "number"
    if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
        return "date"
    return "nothing" if pa.types.is_null(dtype) else ""


def check_type(refusal_of: Callable[[str], str], dtype: Any) -> None:
    """Refuse a column by its type alone, before a value is read.

    Args:
        refusal_of: why a column of some storage has no place in an entry, "" if it has one: `Coder.refusal`,
            `Draft.refusal`.
        dtype: the Arrow type of the column.

    Raises:
        TypeError: no value of that type has a place.
    """
    storage = storage_of(dtype)
    refusal = refusal_of(storage)
    if not storage:
        cut = "interval" in str(dtype).lower()
        cure = "they are intervals, as pandas.cut makes them; give the numbers" if cut else _CAST
        refusal = f"{refusal or 'no entry reads them'}: {cure}"
    if refusal:
        raise TypeError(f"its values are of type {dtype}, and {refusal}")


def encode_array(coder: Coder, array: Any) -> Encoded:
    """Encode an Arrow array [rows] by the rules of one attribute.

    Raises:
        TypeError: it has values of a type that has no place in the entry.
    """
    if array.null_count < len(array):
        check_type(coder.refusal, array.type)
    storage = storage_of(array.type)
    if storage in ("nothing", ""):
        return coder.finish(np.full(len(array), MISSING, dtype=np.int64))
    array = _plain(array)
    if storage == "date":
        return coder.encode_times(array.to_numpy(zero_copy_only=False))
    if storage == "text" or pa.types.is_decimal(array.type):
        numbers = _as_numbers(coder, array) if _is_text(array.type) else None
        return _encode_distinct(coder, _coded(array)) if numbers is None else numbers
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    filled = array.fill_null(pa.scalar(0).cast(array.type))
    return coder.encode_numbers(filled.to_numpy(zero_copy_only=False), null)


def _plain(array: Any) -> Any:
    """Return the values of an array [rows] in a type that stores them plainly; texts may be in a dictionary.

    Dates and times have a type that NumPy has too, in UTC if they have a zone.
    """
    dtype = array.type
    if pa.types.is_dictionary(dtype):
        plain = storage_of(dtype) == "text" and not _is_uuid(dtype.value_type)
        return array if plain else _plain(array.dictionary_decode())
    if _is_uuid(dtype):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    if _is_text(dtype) and not pa.types.is_string(dtype):
        try:  # not every release of Arrow can dictionary-encode string views, and the oldest cannot cast them
            return array.cast(pa.large_string())
        except pa.ArrowNotImplementedError:
            return pa.array(array.to_pylist(), pa.large_string())
    if pa.types.is_timestamp(dtype):
        return array.cast(pa.timestamp(dtype.unit))
    if pa.types.is_decimal(dtype) and dtype.bit_width < 128:  # which Arrow cannot dictionary-encode
        return array.cast(pa.decimal128(dtype.precision, dtype.scale))
    return array.cast(pa.date32()) if pa.types.is_date(dtype) else array


def _coded(array: Any) -> Any:
    """Return a plain array [rows] by its distinct values."""
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _is_text(dtype: Any) -> bool:
    view = getattr(pa.types, "is_string_view", lambda _: False)
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or view(dtype)


def _is_uuid(dtype: Any) -> bool:
    return getattr(dtype, "extension_name", "") == "arrow.uuid"


def check_not_rounded(said: str, column: Any) -> None:
    """Refuse a column of an undeclared type whose whole numbers may have been rounded to floats.

    Args:
        said: the column, for the message.
        column: an Arrow array [rows]; nothing is said against a list, which has no type for all its values.

    Raises:
        ValueError: it has floats beyond which not every whole number is one.
    """
    if isinstance(column, list) or not pa.types.is_floating(column.type):
        return
    sizes = np.abs(
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    )
    if (sizes[np.isfinite(sizes)] >= 2.0 ** (np.finfo(sizes.dtype).nmant + 1)).any():
        raise ValueError(
            f"{said} holds {sizes.dtype} numbers that are too large to be told apart, as whole numbers "
            "become where one is missing: give it as integers or as text."
        )


def keys_of_array(array: Any) -> Any:
    """Return the canonical forms of an Arrow array [rows], as text; null where a value is missing."""
    if pa.types.is_integer(array.type):
        return array.cast(pa.large_string())
    coded = _coded(_plain(array))
    distinct = coded.dictionary
    if storage_of(distinct.type) == "date":
        keys = keys_of_moments(distinct.to_numpy(zero_copy_only=False))
    elif pa.types.is_floating(distinct.type):
        keys = list(map(key_of, shortest(distinct.to_numpy(zero_copy_only=False)).tolist()))
    else:
        keys = list(map(key_of, distinct.to_pylist()))
    return pa.array(keys, pa.large_string()).take(coded.indices)


def _as_numbers(coder: Coder, texts: Any) -> Encoded | None:
    """Encode texts in one step if they go into bins and each is a number or missing; None otherwise."""
    if coder.marks_of_bins is None:
        return None
    trimmed = compute.utf8_trim_whitespace(texts)
    marks = pa.array(["", *coder.marks_of_bins], type=trimmed.type)
    try:
        numbers = compute.if_else(compute.is_in(trimmed, marks), None, trimmed).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    if (compute.max(compute.abs(numbers)).as_py() or 0) > EXACT:  # one by one, as whole numbers
        return None
    return encode_array(coder, numbers)


def _encode_distinct(coder: Coder, array: Any) -> Encoded:
    # only the distinct values are encoded one by one; unused ones may be outside the domain
    table = np.append(coder.raw_codes(array.dictionary.to_pylist()), MISSING)
    return coder.finish(table[array.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)])


class RawColumns(dict[str, Any]):
    """A table as columns of raw values [rows] by name: Arrow or NumPy arrays, or lists of any values.

    Args:
        columns: the columns.
        declared: whether the types of Arrow arrays are those of a schema.
    """

    def __init__(self, columns: Mapping[str, Any], declared: bool = True):
        super().__init__(columns)
        self.declared = declared


def as_frame(frame: Any) -> Any:
    """Return a frame whose columns can be read one by one: of a relation of DuckDB, its table."""
    return frame.to_arrow_table() if type(frame).__name__ == "DuckDBPyRelation" else frame


_CAST = "cast them to numbers, dates or text"
_FRAME = "make one, such as by pandas.DataFrame(records), or collect a lazy one"
_FRAME_OF = {
    "str": "read the file first, by pandas.read_csv(path), or take Dataset.read(path, domain)",
    "Series": "if it has counts of records, as by groupby(...).size(), write frame = "
    "series.rename('n').reset_index(), and give it with weights='n' and max_weight, the most records of one "
    "row; else write series.to_frame()",
}
"""How to make a frame of an object of another type."""


def column_names(frame: Any) -> list[Any]:
    """Return the names of the columns of a pandas, polars or Arrow table.

    Raises:
        TypeError: `frame` is none of these.
    """
    library = _library(frame)
    known = library and type(frame).__name__ != "LazyFrame"
    if isinstance(frame, RawColumns):
        return list(frame)
    names = getattr(frame, "schema" if library == "pyarrow" else "columns", None) if known else None
    if names is None:
        kind = type(frame).__name__
        raise TypeError(
            "The frame must be a pandas or polars DataFrame or an Arrow table, got "
            f"{kind}: {_FRAME_OF.get(kind, _FRAME)}."
        )
    if getattr(names, "nlevels", 1) > 1:
        raise ValueError(
            "The columns of the frame have names of several levels: give each one, such as by "
            "frame.columns = ['_'.join(map(str, names)) for names in frame.columns]."
        )
    return list(names.names if library == "pyarrow" else names)


def content(frame: Any) -> bytes:
    """Return the digest of all columns of a table, see `fingerprint.content`."""
    names = list(map(str, column_names(frame)))
    places = {name if names.count(name) == 1 else f"{name} {k}": k for k, name in enumerate(names)}
    return fingerprint.content({name: [*_pieces(column_of(frame, place))] for name, place in places.items()})


def _pieces(column: Any) -> Iterator[bytes]:
    """Yield the bytes of a column: those of its values, whatever way they are stored in."""
    if isinstance(column, list):
        yield from fingerprint.pieces_of(np.array([*column, None], dtype=object)[:-1])
        return
    array = pa.concat_arrays(column.chunks) if getattr(column, "chunks", None) else column
    if hasattr(array, "chunks"):  # of no rows
        array = pa.array([], type=array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    plain = (
        pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)
    )
    if array.null_count:
        yield np.packbits(array.is_null().to_numpy(zero_copy_only=False)).tobytes()
    if plain:
        filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
        yield from fingerprint.pieces_of(filled.to_numpy(zero_copy_only=False))
        return
    try:
        texts = array.cast(pa.large_string()).fill_null("")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        yield from fingerprint.pieces_of(np.array([*array.to_pylist(), None], dtype=object)[:-1])
        return
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    yield from (b"texts", (ends - ends[0]).astype("<i8").tobytes())
    yield bytes(memoryview(data)[ends[0] : ends[-1]]) if data is not None else b""


def encode_column(frame: Any, which: str | int, coder: Coder) -> Encoded:
    """Encode the column of a name or a place.

    Raises:
        TypeError: the column has a type that no attribute accepts.
    """
    column = column_of(frame, which)
    if isinstance(column, list):
        return coder.encode_objects(column)
    if _library(frame) == "pyarrow":  # by its schema, as in a file
        check_type(coder.refusal, column.type)
    zone = getattr(column.type, "tz", None)
    if zone not in (None, "UTC", "Etc/UTC", "GMT", "+00:00"):
        name = which if isinstance(which, str) else column_names(frame)[which]
        checks.warn(
            f"Column {name!r} has the time zone {zone} and counts by its day and time in UTC: for local ones "
            f"write frame[{name!r}].dt.tz_localize(None) in pandas."
        )
    parts = [encode_array(coder, chunk) for chunk in getattr(column, "chunks", [column])]
    return Encoded.concatenated(parts, coder.dtype)


def _library(frame: Any) -> str:
    library = type(frame).__module__.split(".")[0]
    return library if library in ("pandas", "polars", "pyarrow") else ""


def column_of(frame: Any, which: str | int) -> Any:
    """Return the column of a name or a place: an Arrow array, or a list of values of any types.

    What Python objects are is read off each of them alone: a type for all would follow from the others.
    """
    library = _library(frame)
    if library == "pyarrow":
        return frame.column(which)
    if isinstance(frame, RawColumns):
        given = frame[which if isinstance(which, str) else list(frame)[which]]
        return given if isinstance(given, (pa.Array, pa.ChunkedArray)) else _as_texts(given)
    if isinstance(which, str):
        series = frame[which]
    else:
        series = frame.to_series(which) if library == "polars" else frame.iloc[:, which]
    if str(series.dtype).lower() == "object":
        return _as_texts(series.to_list())
    if str(series.dtype) in ("Int128", "UInt128"):  # of polars
        return pa.array(series.to_list(), pa.decimal256(39, 0))
    try:
        return series.to_arrow() if library == "polars" else pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # a type that Arrow has not
        return series.to_list()


def _as_texts(values: Any) -> Any:
    """Return values [rows] as an Arrow array if all of them are texts, for speed, and else as they are.

    NumPy arrays have a type that says something of their values, but for those of Python objects.
    """
    typed = isinstance(values, np.ndarray) and values.dtype != object
    values = values if typed else list(values)
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # of mixed types, or one Arrow has not
        return list(values)
    return array if typed or _is_text(array.type) else values


def declared_types(frame: Any) -> dict[str, Any]:
    """Return the Arrow type of each column of a table by name, None where nobody declared it.

    An Arrow table has a schema. The types of a frame follow from its values: one that is missing turns whole
    numbers into floats, one text turns them all into objects.
    """
    names = column_names(frame)
    if isinstance(frame, RawColumns):
        return {name: getattr(c, "type", None) if frame.declared else None for name, c in frame.items()}
    if _library(frame) != "pyarrow":
        return dict.fromkeys(names)
    return {name: frame.schema.field(place).type for place, name in enumerate(names)}
