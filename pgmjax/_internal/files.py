"""Files and folders that this library writes and reads back.

`reserve` makes a new folder that is there in full or not at all: it is written beside its place and renamed
when complete. `read` opens a JSON file that names its format and version, and says what is wrong with it.
`ArrayFolder` is a folder with such a file and arrays, as models, histories, tables and predictors are saved.

Whoever wrote a file may mean harm: text is bounded before it becomes numbers (`parse_json`), and of arrays
the headers are read, and held against the record, before memory is taken for what they promise
(`StoredArrays`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import os
import pathlib
import shutil
import signal
import threading
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from pgmjax._internal.memory import available_bytes, readable_bytes

_LONGEST_NUMBER = 400  # digits; Python takes time that grows with their square
_LARGEST_HEADER = 10_000
_JSON_GROWTH = 24  # bytes of Python objects a byte of text, at worst
_FREE_TEXT = 1 << 20  # bytes of JSON that are read whatever memory is left
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# raised by whoever uses a record or arrays that are not what was written
_DAMAGE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
_UNREADABLE = (*_DAMAGE, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def check_target(out: str | os.PathLike[str]) -> pathlib.Path:
    """Check that a folder can be made here; to be called before anything is spent.

    Args:
        out: the folder to be made. Folders above it are made as needed when it is written.

    Raises:
        ValueError: something is there already, or the folder above cannot be written to.
    """
    target = pathlib.Path(out).absolute()
    if os.path.lexists(target):
        raise ValueError(f"{os.fspath(out)} exists already: name a new folder, none is ever overwritten.")
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"{os.fspath(out)} cannot be made: {above} is not a folder that can be written to.")
    return target


@contextlib.contextmanager
def reserve(out: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Give an empty folder that becomes `out` at the end, or vanishes with all that was made for it.

    Args:
        out: the folder to be made; it must not exist.

    Raises:
        ValueError: the folder exists, or cannot be made under this name; said before the block runs.
    """
    target = check_target(out)
    made = [parent for parent in target.parents if not parent.exists()]
    folder = target.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir()  # whether the name itself is possible: too long, not allowed here, ...
            target.rmdir()
            folder.mkdir()
        except OSError as error:
            raise ValueError(f"{os.fspath(out)} cannot be made: {error.strerror}.") from error
        yield folder
        check_target(target)
        folder.rename(target)
    except BaseException:
        with _undisturbed():
            shutil.rmtree(folder, ignore_errors=True)
            for parent in made:
                with contextlib.suppress(OSError):
                    parent.rmdir()
        raise


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM for a moment, so that an impatient second one leaves nothing behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def sync(folder: pathlib.Path) -> None:
    """Put a folder's entries on disk, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Parse JSON that anybody may have written.

    Args:
        text: the JSON; bytes are UTF-8.
        hooks: keywords of `json.loads`.

    Raises:
        ValueError: it is no JSON, is nested too deep, or holds a whole number of more than 400 digits.
    """
    try:
        return json.loads(text, **{"parse_int": _whole, **hooks})
    except RecursionError:
        pass
    raise ValueError("it is nested too deep.")


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"it holds a whole number of {len(text):,} digits.")
    return int(text)


def read_text(path: pathlib.Path, encoding: str = "utf-8") -> str:
    """Return a file's text, if what it may become fits in memory.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, or no text.
    """
    size, free = path.stat().st_size, available_bytes()
    if size > _FREE_TEXT and _JSON_GROWTH * size > free:
        raise ValueError(
            f"{path} has {readable_bytes(size)} of text, for which {readable_bytes(free)} of free memory are "
            "too few."
        )
    return path.read_text(encoding=encoding)


def read(path: pathlib.Path, what: str, name: str, version: int) -> dict[str, Any]:
    """Read a file that this library wrote, or say what is wrong with it.

    Args:
        path: the file.
        what: what it should be, in words, such as "a model of pgmjax".
        name: the format's name, under the key `format`.
        version: the only version that is read, under the key `format_version`.

    Raises:
        ValueError: it is no JSON, of another program, or of another version.
    """
    try:
        text = read_text(path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is damaged: it is not JSON. Make or copy it again.") from None
    try:
        record = parse_json(text)
    except ValueError as error:
        more = "." if isinstance(error, json.JSONDecodeError) else f" as pgmjax writes it: {error}"
        raise ValueError(f"{path} is damaged: it is not JSON{more} Make or copy it again.") from None
    if not isinstance(record, dict) or record.get("format") != name:
        raise ValueError(f"{path} was not written by pgmjax or is not {what}: its format is not {name!r}.")
    if record.get("format_version") != version:
        raise ValueError(
            f"{path} has format version {record.get('format_version')!r:.60}; expected {version}. Install "
            "the version of pgmjax it names."
        )
    return record


@dataclasses.dataclass(frozen=True)
class ArrayFolder:
    """A kind of folder with a JSON record and files of arrays, readable without this library; no pickle.

    Attributes:
        record: name of the record's file, such as "model.json".
        what: such a folder in words, such as "a model of pgmjax".
        format: the format's name, under the record's key `format`.
        version: the only version that is written and read, under the record's key `format_version`.
        missing: raised where a file is not there.
        indent: of the record's text; None writes it on one line.
        newline: whether that text ends with one.
    """

    record: str
    what: str
    format: str
    version: int = 1
    missing: type[Exception] = FileNotFoundError
    indent: int | None = 1
    newline: bool = False

    def write(self, folder: Any, fields: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Write a folder's files, each in full or not at all.

        All are on disk under other names before the first is renamed, and the record comes last. Inside
        `reserve` the folder is new.

        Args:
            folder: path, made where it is missing; files of these names in it are replaced.
            fields: what the record holds beside its format and version.
            arrays: for each file name the arrays of an .npz by their names, the one array of an .npy, or
                bytes.
        """
        heading = {"format": self.format, "format_version": self.version}
        text = json.dumps({**heading, **fields}, indent=self.indent) + "\n" * self.newline
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        contents = {**arrays, self.record: text.encode()}
        partial = {name: folder / f".{os.getpid()}.{name}" for name in contents}
        try:
            for name, content in contents.items():
                with partial[name].open("wb") as file:
                    if isinstance(content, bytes):
                        file.write(content)
                    elif isinstance(content, np.ndarray):
                        np.save(file, content, allow_pickle=False)
                    else:
                        np.savez_compressed(file, **content)
                    file.flush()
                    os.fsync(file.fileno())
            for name, path in partial.items():
                os.replace(path, folder / name)
            with contextlib.suppress(OSError):  # some file systems cannot
                sync(folder)
        finally:
            for path in partial.values():
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def reading(self, folder: Any) -> Iterator[Contents]:
        """Open a folder; what its reader raises in the block is told as damage of the folder.

        Raises:
            missing: the record is not there, or a file that the block asks for.
            ValueError: the record is of another program or version, or something in the folder is damaged.
        """
        folder = pathlib.Path(folder)
        path = folder / self.record
        if not path.is_file():
            raise self.missing(f"{folder} holds no {self.record}: it is not the folder of {self.what}.")
        record = read(path, self.what, self.format, self.version)
        try:
            with contextlib.ExitStack() as opened:
                yield Contents(folder, record, opened)
        except FileNotFoundError as error:
            raise self.missing(str(error)) from error
        except _DAMAGE as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).removesuffix(".")
            raise ValueError(f"{folder} is corrupt: {reason:.1000}. Make or copy it again.") from error


@dataclasses.dataclass(frozen=True)
class Contents:
    """A folder's record, and its arrays by the names of their files.

    Attributes:
        folder: path.
        record: what its JSON holds.
        opened: closes files when the folder was read.
    """

    folder: pathlib.Path
    record: dict[str, Any]
    opened: contextlib.ExitStack

    def path(self, name: str) -> pathlib.Path:
        """The path of a file.

        Raises:
            FileNotFoundError: it is not there.
            ValueError: the name leads out of the folder.
        """
        if name != pathlib.PurePath(name).name or "\0" in name:
            raise ValueError("it names a file outside the folder.")
        if not (self.folder / name).is_file():
            raise FileNotFoundError(
                f"{self.folder} holds no {name}, which belongs to it: copy the whole folder."
            )
        return self.folder / name

    def arrays(self, name: str) -> StoredArrays:
        """All arrays of an .npz by their names; each is read when it is asked for, inside the block."""
        path = self.path(name)
        with _readable(name):
            stored = StoredArrays(self.opened.enter_context(zipfile.ZipFile(path)), name)
        stored.require_memory()
        return stored

    def mapped(self, name: str) -> np.ndarray:
        """The array of an .npy, read from the file where it is used."""
        path = self.path(name)
        with _readable(name):
            return mapped(path)


class Header(NamedTuple):
    """The first bytes of an .npy: what its array is."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int

    @property
    def end(self) -> int:
        """The bytes of header and array together."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def header_of(file: IO[bytes]) -> Header:
    """Read the header of an .npy, and no more; no object, and no array that takes no bytes, is one.

    Raises:
        ValueError: there is none.
    """
    start = file.read(8)
    width = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}.get(start, 0)
    length = file.read(width)
    size = int.from_bytes(length, "little")
    if not width or not 0 < size <= _LARGEST_HEADER:
        raise ValueError("it has no header of an array.")
    parse = np.lib.format.read_array_header_1_0 if width == 2 else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = parse(io.BytesIO(length + file.read(size)))
    except (MemoryError, RecursionError, SyntaxError, TypeError):  # of text made to be hard to parse
        raise ValueError("it has no header of an array.") from None
    if dtype.hasobject or not dtype.itemsize or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("its header is of no plain array.")
    return Header(shape, dtype, len(start) + width + size)


def mapped(path: pathlib.Path) -> np.ndarray:
    """Return the array of an .npy, read from the file where it is used.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no plain array, or shorter than its header says.
    """
    with path.open("rb") as file:
        if header_of(file).end > path.stat().st_size:
            raise ValueError("it is shorter than its header says.")
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def array_of(content: bytes) -> np.ndarray:
    """Return the array of the bytes of an .npy.

    Raises:
        ValueError: it is no plain array, or not as long as its header says.
    """
    if header_of(io.BytesIO(content)).end != len(content):
        raise ValueError("it is not as long as its header says.")
    return np.asarray(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))


class StoredArrays(Mapping[str, np.ndarray]):
    """The arrays of an .npz by their names, each read when it is asked for.

    Args:
        file: open as long as arrays are read.
        name: of the file, for messages.

    Raises:
        ValueError: a member that is no plain array, is not as long as its header says, or stands there twice.
    """

    def __init__(self, file: zipfile.ZipFile, name: str):
        self._file, self._name = file, name
        self._members: dict[str, tuple[zipfile.ZipInfo, Header]] = {}
        for member in file.infolist():
            key = member.filename.removesuffix(".npy")
            if member.compress_type not in _PLAIN or key in self._members or key == member.filename:
                raise ValueError("it holds something else than plain arrays.")
            with file.open(member) as content:
                header = header_of(content)
            if header.end != member.file_size:
                raise ValueError("an array in it is not as long as its header says.")
            self._members[key] = member, header

    def require_memory(self) -> None:
        """Refuse arrays that do not fit in memory together.

        Raises:
            ValueError: with the figures.
        """
        needed, free = sum(member.file_size for member, _ in self._members.values()), available_bytes()
        if needed > free:
            raise ValueError(
                f"{self._name} holds arrays of {readable_bytes(needed)}, and {readable_bytes(free)} of "
                "memory are free."
            )

    def header(self, name: str) -> Header:
        """Return the shape and type of an array, which is not read for it.

        Raises:
            KeyError: there is none of that name.
        """
        return self._members[name][1]

    def __getitem__(self, name: str) -> np.ndarray:
        member = self._members[name][0]
        with _readable(self._name), self._file.open(member) as content:
            return np.asarray(np.lib.format.read_array(content, allow_pickle=False))

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:  # NumPy would advise to unpickle it
        raise ValueError(f"{name} is damaged, or not a file of plain arrays.") from error


def float_array(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the float64 array of a name; of a stored one nothing but its header is read before it fits.

    Raises:
        KeyError: there is none.
        ValueError: it has another shape or type.
    """
    found = arrays.header(name) if isinstance(arrays, StoredArrays) else arrays[name]
    if found.shape != shape or found.dtype != np.float64:
        raise ValueError(f"{name} has shape {found.shape} and type {found.dtype}, not {shape} and float64.")
    return arrays[name]
