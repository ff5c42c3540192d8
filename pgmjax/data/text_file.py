"""Files of text and Excel sheets: what a file is by its first bytes, encodings, line ends, the layout.

Messages never hold what a file holds.

The layout is the delimiter and the place of each column that is asked for. Both are found from public names
and from the form of the first lines. What a record holds decides nothing: the names asked for are looked for
in one line only, and which one follows from the numbers of fields.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import datetime
import functools
import gzip
import io
import itertools
import os
import pathlib
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.checks import did_you_mean
from pgmjax._internal.files import absent
from pgmjax.data import fingerprint
from pgmjax.data.definition import known_encoding
from pgmjax.data.encoding import text_of
from pgmjax.data.value import places_of
from pgmjax.data.withheld import held_back

SUFFIXES = (".csv", ".tsv", ".data", ".txt")
EXCEL = ".xlsx"
KINDS = (".parquet", ".npy", EXCEL, *SUFFIXES)
LONGEST_LINE = 1 << 21
FIRST_LINES = 256  # of a file, among which its first records are
_PIECE = 1 << 16  # characters that are decoded at once
_MARKED = ("utf-16", "utf-32")  # encodings that Python takes only where a file begins with their mark
_MARKS = (
    ("utf-32", codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    ("utf-16", codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
)
_NOT_CP1252 = frozenset(b"\x81\x8d\x8f\x90\x9d")
_LINE = r"[^\r\n]*(?:\r*\n|\r|$)"  # CR CR LF, which a doubled conversion leaves, is one end
_SIGNATURES = (  # how files begin, what they are, the suffix of those that are read, what to do else
    (rb"\x1f\x8b", "gzip-compressed", ".gz", "end its name in .csv.gz"),
    (
        rb"PK\x03\x04(?s:.{0,26})mimetypeapplication/vnd\.oasis",
        "a LibreOffice file (.ods)",
        "",
        "save the sheet as CSV in UTF-8, or as .xlsx",
    ),
    (rb"PK\x03\x04", "a zip archive", EXCEL, "unpack it, or, if it is an Excel file, end its name in .xlsx"),
    (rb"PAR1[^ -~\t\r\n]", "a Parquet file", ".parquet", "end its name in .parquet"),
    (rb"\x93NUMPY", "a NumPy file", ".npy", "end its name in .npy"),
    (rb"BZh[1-9]1AY&SY", "compressed by bzip2", "", "unpack it, or compress it by gzip (.csv.gz)"),
    (rb"\xfd7zXZ\x00", "compressed by xz", "", "unpack it, or compress it by gzip (.csv.gz)"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd", "", "unpack it, or compress it by gzip (.csv.gz)"),
    (rb"ARROW1\x00|FEA1[^ -~\t\r\n]", "a Feather or Arrow file", "", "write it as Parquet"),
    (
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "an old Excel file (.xls), or has a password",
        "",
        "save the sheet as CSV in UTF-8",
    ),
    (rb"(?s:.{257})ustar", "a tar archive", "", "unpack it"),
    (rb"(?i)\s*<(?:!doctype html|html)", "an HTML page", "", "download the table itself"),
    (rb"SQLite format 3\x00", "an SQLite database", "", "export the table as CSV in UTF-8"),
)
_SAVED = {
    ".xls .xlsb .xlsm .ods": "save the sheet as CSV in UTF-8, or as Parquet",
    ".sas7bdat .xpt": "in Python: pandas.read_sas(FILE).to_parquet('table.parquet')",
    ".sav .zsav": "in Python: pandas.read_spss(FILE).to_parquet('table.parquet')",
    ".dta": "in Python: pandas.read_stata(FILE).to_parquet('table.parquet')",
    ".rds .rda .rdata": "in R: arrow::write_parquet(readRDS(FILE), 'table.parquet')",
    ".feather .arrow .orc .json .jsonl .pkl .pickle .h5": "write it as Parquet, in pandas by to_parquet",
    ".zip .7z .rar": "unpack it",
    ".db .sqlite .mdb .accdb .sql": "export the table as CSV in UTF-8",
}
"""How tables of other kinds become one that can be read."""
_UNREADABLE_SHEETS = (
    OSError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    SyntaxError,
    zipfile.BadZipFile,
)
"""The errors of openpyxl for files that are none of Excel, or damaged ones."""
_OWN = {EXCEL: "an Excel file", ".parquet": "Parquet", ".npy": "a .npy file"}


def table_file(path: str | os.PathLike[str], encoding: str | None = None) -> tuple[pathlib.Path, str]:
    """Return a table's file and its kind, one of `KINDS`; ".parquet" of a folder. Reads no record.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: the encoding is no name.
        ValueError: it is no regular file, of no kind of table that can be read, or of another one than its
            name says; or there is no such encoding, or the file is no text.
    """
    known_encoding(encoding)
    file = pathlib.Path(path).absolute()
    if not file.exists():
        raise FileNotFoundError(absent("table", path))
    if not (file.is_dir() or file.is_file()):
        raise ValueError(
            f"{file} is a pipe or a device, and a table is read several times: save it to a file first."
        )
    kind = ".parquet" if file.is_dir() else _kind_of(file)
    if kind not in KINDS:
        saved = next((f" ({way})" for kinds, way in _SAVED.items() if kind in kinds.split()), "")
        raise ValueError(
            f"{file.name} is no kind of table that can be read{saved}: expected .parquet (or a folder of "
            f"them), .npy, .xlsx, {', '.join(SUFFIXES)}, or one of these text kinds with .gz."
        )
    if encoding is not None and kind not in SUFFIXES:
        raise ValueError(f"encoding is that of a text file, and {file.name} is none: leave it out.")
    return file, kind


def _kind_of(file: pathlib.Path) -> str:
    """Return a file's suffix, of a compressed one that before .gz; its first bytes must agree with it."""
    if (file / "release.json").is_file():
        raise ValueError(f"{file} is a release and no table: give the table that it was made from.")
    suffixes = [suffix.lower() for suffix in file.suffixes]
    packed = suffixes[-1:] == [".gz"]
    kind = suffixes[-2] if packed and len(suffixes) > 1 else "".join(suffixes[-1:])
    with contextlib.suppress(OSError), file.open("rb") as stream:
        _check_signature(file, ".gz" if packed else kind, stream.read(512))
    if packed:
        with contextlib.suppress(OSError, EOFError, zlib.error), binary(file) as stream:
            _check_signature(file, kind, stream.read(512))
    return kind


def _check_signature(file: pathlib.Path, kind: str, first: bytes) -> None:
    """Refuse a file that begins as one of another kind does.

    Raises:
        ValueError: it does.
    """
    for signature, what, own, remedy in _SIGNATURES:
        if re.match(signature, first):
            if kind == own:
                return
            raise ValueError(f"{file} is {what}: {remedy}.")
    if kind in _OWN and len(first) > 4 and first.isascii() and b"\0" not in first and first[:2] != b"PK":
        raise ValueError(
            f"{file} cannot be read as {_OWN[kind]}: it begins as text does. End its name in .csv."
        )


def _line_of_bytes(encoding: str) -> bytes:
    """Return the pattern of a line and its end, as `_LINE`, in the bytes of an encoding.

    Characters of several bytes have zeros behind a line's end or before it, which belong to that character.
    """
    wide = re.fullmatch("utf-(16|32)-(le|be)", encoding)
    zeros = rb"\0{0,%d}" % (int(wide[1]) // 8 - 1) if wide else b""
    behind = zeros if wide and wide[2] == "le" else b""
    return rb"[^\r\n]*(?:(?:\r%b)*\n%b|\r%b|$)" % (zeros, behind, behind)


def binary(file: pathlib.Path) -> IO[bytes]:
    """Return a stream of a file's bytes, decompressed if its name ends in .gz."""
    return gzip.open(file, "rb") if file.suffix.lower() == ".gz" else file.open("rb")  # type: ignore[return-value]


@dataclass(frozen=True)
class TextFile:
    """A file of text, or the first sheet of an Excel file, which is given as lines of CSV.

    Attributes:
        path: the file; gzip-compressed if it ends in .gz.
        kind: its suffix, without .gz.
        encoding: Python's name of its encoding, None for UTF-8 and a sheet.
    """

    path: pathlib.Path
    kind: str
    encoding: str | None = None

    @classmethod
    def of(cls, path: pathlib.Path, kind: str, encoding: str | None) -> TextFile:
        """Return a file with the encoding that was given, or else that of its byte-order mark."""
        found = known_encoding(encoding)
        if encoding is None and kind != EXCEL:
            with contextlib.suppress(OSError, EOFError, zlib.error), binary(path) as stream:
                first = stream.read(4)
                found = next((name for name, *marks in _MARKS if first.startswith(tuple(marks))), None)
        return cls(path, kind, found)

    @property
    def plain(self) -> bool:
        """True if it is UTF-8, which needs no copy."""
        return self.encoding is None and self.kind != EXCEL

    @property
    def packed(self) -> bool:
        """True if it is compressed."""
        return self.path.suffix.lower() == ".gz"

    def pieces(self, errors: str = "strict") -> Iterator[str]:
        """Yield the text piece by piece; of a sheet, row by row.

        Args:
            errors: what happens to bytes that are no text, as of `open`.

        Raises:
            ValueError: it cannot be read in that encoding.
        """
        if self.kind == EXCEL:
            yield from _rows_of_sheet(self.path)
            return
        with (
            held_back(UnicodeError) as failure,
            binary(self.path) as stream,
            io.TextIOWrapper(stream, self.encoding or "utf-8-sig", errors, newline="") as text,
        ):
            yield from iter(lambda: text.read(_PIECE), "")
        if failure and self.encoding is None:
            with binary(self.path) as stream:
                bad = (k for k, line in enumerate(stream, 1) if "\ufffd" in line.decode("utf-8", "replace"))
                raise self.not_utf8(f", line {next(bad)}")
        if failure:
            raise ValueError(
                f"{self.path} holds bytes that are not {self.encoding} text: leave the encoding out, and it "
                "is found, or said which it looks like."
            )

    def first_lines(self) -> list[str]:
        """Return the first lines with their ends, of which an undecodable byte is U+FFFD.

        In an encoding that is given they end where bytes of the file do, so that it lets no record become
        part of the names.

        Raises:
            ValueError: the file cannot be read, or its first lines are no such text.
        """
        with contextlib.suppress(OSError, EOFError, zlib.error):
            return self._first_lines()
        packed = "gzip-compressed " * self.packed
        rename = " If it is plain text, leave .gz out of its name." * self.packed
        with open(self.path, "rb") as file:
            if self.packed and file.read(2) == b"\x1f\x8b":
                raise ValueError(
                    f"{self.path} cannot be read: it is damaged or ends too early. Copy it again."
                )
        raise ValueError(f"{self.path} cannot be read: is it a {packed}text?{rename}")

    def _first_lines(self) -> list[str]:
        if self.kind == EXCEL or self.encoding in _MARKED:
            # whether records can be decoded is for a scan to say
            most = FIRST_LINES if self.kind == EXCEL else LONGEST_LINE // _PIECE
            return _lines("".join(itertools.islice(self.pieces("replace"), most)))
        with binary(self.path) as stream:
            data = stream.read(LONGEST_LINE)
        if len(data) == LONGEST_LINE and not re.search(rb"[\r\n]", data):
            raise ValueError(f"{self.path} cannot be read: its first line is longer than 2 MB.")
        if self.encoding is None:
            return _lines(data.decode("utf-8-sig", "replace"))
        # a character may hold the byte of a line's end, which then ends the line amid it
        lines = itertools.islice(re.finditer(_line_of_bytes(self.encoding), data), FIRST_LINES)
        with held_back(UnicodeError):  # some encodings cannot leave out what they do not read
            return [part for line in lines for part in _lines(line[0].decode(self.encoding, "ignore"))]
        raise ValueError(f"{self.path} cannot be read: its first lines are no {self.encoding} text.")

    def not_utf8(self, place: str) -> ValueError:
        """Return the error of a file that is not UTF-8 text, with the encoding that it probably has."""
        likely = "cp1252"
        with contextlib.suppress(OSError, EOFError), binary(self.path) as stream:
            for piece in itertools.islice(iter(lambda: stream.read(1 << 20), b""), 256):
                if b"\0" in piece:
                    likely = "utf-16"
                    break
                if not _NOT_CP1252.isdisjoint(piece):
                    likely = "latin-1"
        return ValueError(
            f"{self.path} cannot be read{place}: it holds bytes that are not UTF-8. It looks like {likely}: "
            f'give encoding="{likely}", or save it as UTF-8.'
        )

    def has_one_line_end(self) -> bool:
        """Return whether all lines of its bytes end in LF, or all in CR LF, and quotes enclose no other.

        Raises:
            ValueError: there is no such file any more; or it is compressed and damaged: the reader of records
                does not look at its checksum.
        """
        if not self.path.is_file():
            raise ValueError(f"{self.path} cannot be read: there is no such file any more.")
        return _has_one_line_end(self.path, fingerprint.stamp_of(self.path))


@functools.lru_cache(maxsize=64)  # a table is read several times
def _has_one_line_end(path: pathlib.Path, stamp: tuple[Any, ...]) -> bool:
    pairs, feeds, returns, last = False, False, False, b" "
    try:
        with binary(path) as stream:
            while piece := stream.read(1 << 20):
                # with the last byte of the piece before, as CR and LF may be parted between two pieces
                data = np.frombuffer(last + piece, np.uint8)
                cr, lf = data[:-1] == ord("\r"), data[1:] == ord("\n")
                pairs |= bool((cr & lf).any())
                feeds |= bool((lf & ~cr).any())
                returns |= bool((cr & ~lf).any())
                last = piece[-1:]
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: it is damaged ({type(error).__name__}).") from None
    return not (returns or last == b"\r" or (pairs and feeds))


def _lines(text: str) -> list[str]:
    lines = [line[0] for line in itertools.islice(re.finditer(_LINE, text.lstrip("\ufeff")), FIRST_LINES)]
    return [line for line in lines if line]


def without_lines(pieces: Iterable[str], lines: int) -> Iterator[str]:
    """Yield pieces of text without a number of lines at their beginning."""
    held, pieces = "", iter(pieces)
    while lines:
        piece = next(pieces, None)
        held += piece or ""
        # more of the text may belong to carriage returns at its end
        line = re.compile(_LINE if piece is None else r"[^\r\n]*(?:\r*\n|\r(?!\r*(?:\n|$)))")
        while lines and held and (end := line.match(held)):
            held, lines = held[end.end() :], lines - 1
        if piece is None:
            break
    yield held
    yield from pieces


def with_one_line_end(pieces: Iterable[str], delimiter: str) -> Iterator[str]:
    """Yield pieces of CSV with a line feed at the end of each line; what quotes enclose stays as it is."""
    held, last, quoted, blank = "", "\n", False, "" if delimiter == " " else " "
    for piece in itertools.chain(pieces, [None]):
        text = held + (piece or "")
        # whether a CR at the end is a line end of its own shows in the next piece only
        held = "" if piece is None else text[len(text.rstrip("\r")) :]
        parts = text[: len(text) - len(held)].split('"')
        for k, part in enumerate(parts):
            if k:  # a quote stands before it: it opens a field only where one begins
                quoted = not quoted and last in ("\n", delimiter, '"')
                last = '"'
                yield '"'
            last = part.rstrip(blank)[-1:].replace("\r", "\n") or last
            yield part if quoted else re.sub(r"\r*\n|\r", "\n", part)


def _rows_of_sheet(file: pathlib.Path) -> Iterator[str]:
    """Yield the rows of the first sheet of an Excel file as lines of CSV, as wide as its first rows are.

    Empty rows below the last one with a value, which a sheet has where cells are formatted, are left out.
    """
    try:
        openpyxl = checks.optional("openpyxl", extra="excel")
    except ImportError as error:
        raise ImportError(f"{error}, or save the sheet as CSV (UTF-8) and name that file.") from None
    with held_back(*_UNREADABLE_SHEETS) as failure:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        with contextlib.closing(book):
            sheet, *others = book.worksheets
            if others:
                _tell_of_sheets(file.name, 1 + len(others), sheet.title)
            sheet.reset_dimensions()  # what a file says of them is often wrong
            rows = ([_cell_text(value) for value in row] for row in sheet.iter_rows(values_only=True))
            first = list(itertools.islice(rows, FIRST_LINES))
            width = max(map(_used, first), default=0)
            empty = 0
            for row in itertools.dropwhile(lambda row: not _used(row), itertools.chain(first, rows)):
                empty += 1
                if _used(row):
                    line = io.StringIO()
                    records: list[list[str]] = [[]] * (empty - 1) + [row]
                    csv.writer(line, lineterminator="\n").writerows(
                        (r + [""] * width)[:width] for r in records
                    )
                    empty = 0
                    yield line.getvalue()
    if failure:
        raise ValueError(f"{file} cannot be read as an Excel file: save the sheet as CSV (UTF-8) instead.")


@functools.cache  # a table is read several times
def _tell_of_sheets(file: str, number: int, first: str) -> None:
    checks.warn(f"{file} has {number} sheets: the first, {first!r}, is read alone.")


def _used(row: list[str]) -> int:
    return max((place + 1 for place, text in enumerate(row) if text), default=0)


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


_DELIMITERS = {".tsv": "\t,;| ", EXCEL: ",", "": ",;\t| "}  # in the order in which they are tried
_REMEDY = (
    ", and needs one: correct the name in the domain or in the first line (capitals count), or leave it out "
    "of the domain (or read it with header=False, if the first line is a record; remove what stands above "
    "the names)"
)
_NONE = "\x1f"  # between columns where there is one only, so that its values may hold any other


class CsvLayout(NamedTuple):
    """The layout of a text file.

    Attributes:
        delimiter: the text between fields.
        columns: the number of columns.
        positions: the position of every required column, from 0.
        above: the number of lines above the first record.
    """

    delimiter: str
    columns: int
    positions: dict[str, int]
    above: int


def find_columns(text: TextFile, names: Sequence[str], header: bool) -> CsvLayout:
    """Return the layout of a text file.

    Blank lines, `sep=` and a title above the header are passed over. A title is a line with one field, or
    with another number of fields than the next line.

    Args:
        text: the file.
        names: the required columns; without a header, all columns in order.
        header: whether a line names the columns.

    Raises:
        ValueError: the file is empty, cannot be read, or does not have these columns.
    """
    if header:
        delimiter, row, above = _header(text, names)
        if len(row) == 1 < len(names) and not any(places_of(name, row) for name in names):
            if str(text.path).lower().endswith(EXCEL):
                raise ValueError(
                    f"The first sheet of {text.path} has no column named {names[0]!r}, and no other is read: "
                    "move the table to the first sheet, or save it as CSV."
                )
            raise ValueError(
                f"{text.path} has no column named {names[0]!r}: its first line is one field, and commas, "
                "semicolons, tabs, | or single spaces were expected between columns. Save it with one."
            )
        plain = {str(each).casefold() for each in row}
        if not any(places_of(name, row) or name.casefold() in plain for name in names):
            raise ValueError(
                f"{text.path} has no column named "
                f"{', '.join(map(repr, names[:3]))}{', ...' * (len(names) > 3)}: none of the domain's names "
                "is in its first line. If that is a record already, read the table with header=False; else "
                "correct the names in the domain (capitals count)."
            )
        positions = positions_of(text.path, names, row, _REMEDY)
        return CsvLayout(_NONE if len(row) == 1 else delimiter, len(row), positions, above)
    lines, start, delimiters = _beginning(text)
    if len(names) == 1 and not "".join(lines[:start]).strip("\r\n"):
        start = 0  # a blank line is a record of one column without a value
    rows = [(delimiter, _row(lines, start, delimiter)[0]) for delimiter in delimiters]
    for delimiter, row in rows:
        if len(row) == len(names):
            return CsvLayout(delimiter, len(row), {name: k for k, name in enumerate(names)}, start)
    raise ValueError(
        f"{text.path} has {max(len(row) for _, row in rows)} columns where the domain has {len(names)} "
        "attributes: without a header the columns stand in the domain's order, each an attribute. "
        "If the first line holds names, read the file with a header (leave out --no-header)."
    )


def names_of(text: TextFile, names: Sequence[str] = (), header: bool = True) -> list[str]:
    """Return the names in the header of a text file, with a space for all white space in them.

    Without a header they are column1, column2 and so on.

    Args:
        text: the file.
        names: some that the header should have.
        header: whether there is one.

    Raises:
        ValueError: the file is empty or cannot be read.
    """
    row = _header(text, names)[1]
    return [" ".join(name.split()) if header else f"column{k}" for k, name in enumerate(row, 1)]


def _header(text: TextFile, names: Sequence[str]) -> tuple[str, list[str], int]:
    """Return the delimiter, the fields of the header, and the number of lines above the records."""
    lines, start, delimiters = _beginning(text)
    start = _line_of_header(lines, start, delimiters, names)
    line = lines[start]
    if not text.encoding and ("\ufffd" in line or "\0" in line) and len(line) < LONGEST_LINE:
        raise text.not_utf8(f", line {start + 1}")
    rows = {delimiter: _row(lines, start, delimiter) for delimiter in delimiters}
    following = {d: _row(lines, end, d)[0] for d, (_, end) in rows.items()}
    fitting = {d for d, (row, _) in rows.items() if _fits(row, following[d])}
    # a space stands in names too; R leaves out the name of row names, which a scan says
    spaced = " " in fitting or (" " in rows and len(following[" "]) == len(rows[" "][0]) + 1)
    likely = [d for d in delimiters if d != " " or spaced] or [*delimiters]
    if names:
        found = {d: sum(bool(places_of(name, rows[d][0])) for name in names) for d in likely}
        # white space around a name does not count: a tab before an unnamed column may look like part of it
        delimiter = max(likely, key=lambda d: (found[d], d in fitting and len(rows[d][0]) > 1))
    else:
        likely = [d for d in likely if d != " " or text.kind in (".txt", ".data")] or likely
        delimiter = max(
            likely, key=lambda d: (min(len(rows[d][0]), 2), d != " ", d in fitting, len(rows[d][0]))
        )
    row, end = rows[delimiter]
    return delimiter, row, end


def _beginning(text: TextFile) -> tuple[list[str], int, str]:
    """Return the first lines, the place of the first that is not blank, and the possible delimiters."""
    lines = text.first_lines()
    start, delimiters = _next(lines, 0), _DELIMITERS.get(text.kind, _DELIMITERS[""])
    said = re.match('"?sep=(.)"?[\r\n]', "".join(lines[start : start + 1]), re.IGNORECASE)
    if said is not None:
        start, delimiters = _next(lines, start + 1), said[1]
    if start == len(lines):
        raise ValueError(f"{text.path} is empty: it must hold at least one record.")
    return lines, start, delimiters


def _next(lines: Sequence[str], start: int) -> int:
    """Return which line is the first from one on that is not blank."""
    return next((k for k in range(start, len(lines)) if lines[k].strip("\r\n")), len(lines))


def _row(lines: Sequence[str], start: int, delimiter: str) -> tuple[list[str], int]:
    """Return the fields of the record at a line, or behind blank ones there, and the line behind it."""
    start = _next(lines, start)
    reader = csv.reader(lines[start:], delimiter=delimiter, skipinitialspace=delimiter != " ")
    try:
        row = next(reader, [])
    except csv.Error:
        return [], start + 1
    end = start + reader.line_num
    if end == len(lines) and reader.line_num > 1 and "".join(lines[start:]).count('"') % 2:
        return [], start + 1  # a quote that is not closed
    return row, end


def _fits(row: Sequence[str], following: Sequence[str]) -> bool:
    """Return whether the next record, if there is one, has as many fields; empty ones behind do not count."""
    return not following or (len(following) >= len(row) and not any(following[len(row) :]))


def _line_of_header(lines: Sequence[str], start: int, delimiters: str, names: Sequence[str]) -> int:
    """Return which line the header begins at.

    That is the first one if it has all names, and else the first that is no title by its form, whatever it
    holds: a search for the names would tell whoever chooses them what is in the first records.
    """
    if names and any(all(places_of(name, _row(lines, start, d)[0]) for name in names) for d in delimiters):
        return start
    line = start
    while line < len(lines):
        rows = {d: _row(lines, line, d) for d in delimiters if d != " "}
        if any(_is_header(row, _row(lines, end, d)[0]) for d, (row, end) in rows.items()):
            return line
        line = _next(lines, min((end for _, end in rows.values()), default=len(lines)))
    return start


def _is_header(row: Sequence[str], following: Sequence[str]) -> bool:
    filled, unnamed = sum(bool(field.strip()) for field in row), bool(row) and not row[0].strip()
    return len(row) > 1 and filled >= min(2, len(row) - unnamed) and _fits(row, following)


def positions_of(
    path: pathlib.Path | str,
    names: Sequence[str],
    row: Sequence[Any],
    remedy: str = "",
) -> dict[str, int]:
    """Return the place of each name among those of a table's columns.

    Args:
        path: the table, for messages.
        names: the names that are asked for.
        row: the names of the columns.
        remedy: what to do about a name that is not there. Default: the one that was probably meant, which is
            nothing to say of a first line that may be a record.

    Raises:
        ValueError: a name is that of no column, of several, or of the same one as another name.
    """
    positions: dict[str, int] = {}
    for name in names:
        places = places_of(name, row)
        if len(places) > 1:
            raise ValueError(
                f"{path} has {len(places)} columns named {name!r}, and needs one: rename the others."
            )
        if not places:
            other = next((each for each in map(str, row) if each.casefold() == name.casefold()), None)
            if other is not None:  # the name itself but for capitals, so that no value is shown
                raise ValueError(
                    f"{path} has no column named {name!r}, but {other!r}: capitals count, correct the name."
                )
            meant = f": correct the name in the domain.{did_you_mean(name, map(str, row))}"
            raise ValueError(f"{path} has no column named {name!r}{f'{remedy}.' if remedy else meant}")
        same = next((other for other, place in positions.items() if place == places[0]), None)
        if same is not None:
            raise ValueError(
                f"{same!r} and {name!r} are one column of {path}, as white space and the Unicode "
                "form of a name do not count: keep one of them in the domain."
            )
        positions[name] = places[0]
    return positions
