"""Files and folders that this library writes and reads back.

`reserve_folder` makes a new folder that exists in full or not at all: it is written beside it and moved
when complete. `read` reads a JSON file with a format name and version, and explains what is wrong with it.
`ArrayFolder` is a folder with such a file and arrays, used to save models, histories, tables and predictors.

Files may be hostile: JSON is limited in depth and length of numbers (`parse_json`), and headers of arrays are
checked against the record and available memory before anything is allocated (`StoredArrays`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import errno
import io
import json
import math
import os
import pathlib
import re
import shutil
import signal
import threading
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.formats import Format
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax._internal.private_files import LOCKS, lock, open_private

_LONGEST_NUMBER = 400  # digits; Python takes time that grows with their square
_LARGEST_HEADER = 10_000
_JSON_GROWTH = 24  # bytes of Python objects per byte of text, at worst
_FREE_TEXT = 1 << 20  # bytes of JSON that are always read
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# raised by code that uses damaged records or arrays
_DAMAGE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
_PATTERN = "* and ? stand for no names here: give the name of one."
_UNREAD = (".zip", ".pkl", ".pickle", ".7z", ".rar")
_PARTIAL = re.compile(r"\.[0-9a-f]{12}\.partial")
_UNREADABLE = (*_DAMAGE, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def absent(what: str, path: str | os.PathLike[str], *, several: bool = False) -> str:
    """Return a message that a file is not there, with the name beside it that is most like it.

    Args:
        what: the kind of file, such as "table".
        path: as it was given.
        several: whether several files may stand here, whose names a shell would list.
    """
    name, file = os.fspath(path), pathlib.Path(path)
    beside: list[str] = []
    with contextlib.suppress(OSError):
        beside = [each for each in os.listdir(file.parent) if not each.endswith(_UNREAD)]
    close = difflib.get_close_matches(file.name, beside, 1, 0.7)
    meant = f"Did you mean {file.with_name(close[0])}?" if close else "Check its name and its folder."
    listed = "A shell replaces * and ? by names only without quotes: leave them off, or list the names."
    return checks.first_said(
        ("://" in name, f"{name} is an address: download the {what}, and give the name of the file."),
        (
            name == "-",
            f"Standard input cannot be the {what}, which is read more than once: save it to a file.",
        ),
        (file.is_dir(), f"{name} is a folder: give a {what}."),
        (
            file.parts[:1] == ("~",),
            f"There is no {what} {name}. A shell replaces ~ only without quotes.",
        ),
        (
            re.search(r"[*?]", file.name),
            f"There is no {what} {name}. {listed if several else _PATTERN}",
        ),
        otherwise=f"There is no {what} {name}. {meant}",
    )


def is_ledger(path: str | os.PathLike[str]) -> bool:
    """Return whether a file looks like a ledger."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(16) == b"SQLite format 3\0"
    return False


def check_target(out: str | os.PathLike[str]) -> pathlib.Path:
    """Check that a folder can be created; call this before any budget is spent.

    Args:
        out: the folder to create. Missing parent folders are created when it is written.

    Raises:
        ValueError: the path exists, or its nearest existing parent is not a writable folder.
    """
    target = checks.new_path(out)
    if target.suffix.lower() in (".csv", ".parquet", ".xlsx", ".tsv", ".html", ".json", ".npz", ".pkl"):
        raise ValueError(
            f"{os.fspath(out)} is the name of a file, and a folder is made, with the files in it: write "
            f"{os.fspath(out).removesuffix(target.suffix)}."
        )
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(
            f"{os.fspath(out)} cannot be written: {above} is not a folder that can be written to."
        )
    return target


@contextlib.contextmanager
def reserve_folder(out: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yield an empty folder that becomes `out` on success, on disk, and is removed on failure.

    Args:
        out: the folder to create; it must not exist.

    Raises:
        ValueError: the folder exists or cannot be created. This is checked before the block runs and again
            before the rename.
    """
    target = check_target(out)
    made = [parent for parent in target.parents if not parent.exists()]
    sweep(target.parent)
    try:
        with contextlib.ExitStack() as stack:
            try:
                make_folder(target.parent)
                check_name(target)
                folder = stack.enter_context(_partial(target))
            except OSError as error:
                raise ValueError(f"{os.fspath(out)} cannot be written: {error.strerror}.") from error
            yield folder
            check_target(target)
            settle(folder, target)
    except BaseException:
        with _undisturbed():
            for parent in made:
                with contextlib.suppress(OSError):
                    parent.rmdir()
        raise


def check_name(target: pathlib.Path) -> None:
    """Check that a file system can have a name; a kill leaves nothing that has it.

    Raises:
        OSError: it cannot: the name is too long, not allowed there, ...
    """
    with _partial(target) as folder:
        (folder / target.name).mkdir()


@contextlib.contextmanager
def _partial(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a new folder beside a target, locked while the block runs; what is left of it then is removed."""
    while True:
        folder = target.with_name(f".{uuid.uuid4().hex[:12]}.partial")
        folder.mkdir()
        with contextlib.ExitStack() as stack:
            stack.callback(_remove, folder)
            try:
                handle = try_lock(folder)
            except (BlockingIOError, FileNotFoundError):
                continue  # a sweep came before the lock
            if handle is not None:
                stack.callback(os.close, handle)
            if folder.is_dir():
                yield folder
                return


def _remove(folder: pathlib.Path) -> None:
    with _undisturbed():
        shutil.rmtree(folder, ignore_errors=True)


def drop(folder: pathlib.Path) -> None:
    """Remove a folder so that at no moment a part of it stands under its name."""
    gone = folder.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def sweep(parent: pathlib.Path) -> None:
    """Remove the folders in which a killed process was making something; `reserve_folder` locks its own."""
    for folder in parent.glob(".????????????.partial") if parent.is_dir() else ():
        if _PARTIAL.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            with contextlib.suppress(OSError):
                handle = try_lock(folder)
                if handle is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(handle)


def try_lock(path: pathlib.Path) -> int | None:
    """Return an open file or folder that this process has locked, None if the system has no such locks.

    The lock ends with the process, or when the number is closed.

    Raises:
        BlockingIOError: another process, or another part of this one, holds it.
    """
    if not LOCKS:
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        lock(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM during cleanup, so that a second one leaves nothing behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def sync(path: pathlib.Path) -> None:
    """Put the contents of a file, or the names in a folder, on disk; names on POSIX only."""
    if os.name != "posix" and path.is_dir():
        return
    try:
        handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    except PermissionError:
        if path.is_dir():  # others may write into it without reading it, and its names are then beyond reach
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        # some file systems keep names without being asked, and know no such request
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def settle(made: pathlib.Path, target: pathlib.Path) -> None:
    """Give a finished file or folder its name. It is on disk in full before it has it, and has it on disk.

    For what was paid for, and what says that it is complete. Rows drawn from a model do without when they are
    written to a file of their own: they can be drawn again, and a large file is quickly written but slowly
    put on disk.
    """
    for path in [*made.rglob("*"), made] if made.is_dir() else [made]:
        sync(path)
    made.replace(target)
    sync(target.parent)


def make_folder(folder: pathlib.Path, mode: int = 0o777) -> None:
    """Make a folder, and those above that are missing, if it is not there; their names are then on disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)


def write_private(path: pathlib.Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file that only its owner may read, in full or not at all; it is on disk when this returns."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open_private(partial, "wb") as file:
            write(file)
        settle(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_new(path: pathlib.Path, text: Callable[[], str]) -> None:
    """Write a text into a new file, which is claimed before the text is made: two of a name never are.

    The file is on disk when this returns, and is gone if the text could not be made or written.

    Raises:
        FileExistsError: the file is there.
    """
    with open(path, "xb") as file:
        try:
            file.write(text().encode())
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    sync(path.parent)


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


def read(path: pathlib.Path, format: Format) -> dict[str, Any]:
    """Read a JSON file written by this library.

    Args:
        path: the file.
        format: its format and version.

    Raises:
        ValueError: the file is not JSON, or has another format or version.
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
    format.check(record, path)
    return dict(record)


@dataclasses.dataclass(frozen=True)
class ArrayFolder:
    """A folder format: a JSON record and array files, readable without this library; no pickle.

    Attributes:
        record: file name of the record, such as "model.json".
        format: the format and version that the record carries.
        missing: exception raised for missing files.
        indent: JSON indentation of the record; None writes it on one line.
        newline: whether the record ends with a newline.
    """

    record: str
    format: Format
    missing: type[Exception] = FileNotFoundError
    indent: int | None = 1
    newline: bool = False

    def write(self, folder: Any, fields: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Write the files of a folder, each in full or not at all.

        All are on disk under temporary names before the first is renamed; the record is renamed last.

        Args:
            folder: path, created if missing; existing files of these names are replaced.
            fields: content of the record in addition to its format and version.
            arrays: content of each file: a mapping of named arrays (.npz), one array (.npy), or bytes.
        """
        text = json.dumps({**self.format.heading(), **fields}, indent=self.indent) + "\n" * self.newline
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
        """Open a folder; errors raised while reading it in the block are reported as damage.

        Raises:
            missing: the record, or a file requested in the block, does not exist.
            ValueError: the record has another format or version, or the folder is damaged.
        """
        folder = pathlib.Path(folder)
        path = folder / self.record
        if not path.is_file():
            what = self.format.what
            if not folder.exists():
                raise self.missing(f"There is no folder {folder}: give one that was saved.")
            raise self.missing(f"{folder} holds no {self.record}: it is not the folder of {what}.")
        record = read(path, self.format)
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
    """The record of a folder, and access to its array files.

    Attributes:
        folder: path.
        record: parsed content of the record.
        opened: closes files after the folder was read.
    """

    folder: pathlib.Path
    record: dict[str, Any]
    opened: contextlib.ExitStack

    def path(self, name: str) -> pathlib.Path:
        """The path of a file.

        Raises:
            FileNotFoundError: the file does not exist.
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
        """All arrays of an .npz file, by name; each is read on access, inside the `reading` block."""
        path = self.path(name)
        with _readable(name):
            stored = StoredArrays(self.opened.enter_context(zipfile.ZipFile(path)), name)
        stored.require_memory()
        return stored

    def mapped(self, name: str) -> np.ndarray:
        """The array of an .npy file, memory-mapped."""
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
    except _UNREADABLE as error:  # NumPy's message would suggest unpickling it
        raise ValueError(f"{name} is damaged, or not a file of plain arrays.") from error


def float_array(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the float64 array of the given name; a stored one is read only if its header fits.

    Raises:
        KeyError: no such array exists.
        ValueError: the array has another shape or type.
    """
    found = arrays.header(name) if isinstance(arrays, StoredArrays) else arrays[name]
    if found.shape != shape or found.dtype != np.float64:
        raise ValueError(f"{name} has shape {found.shape} and type {found.dtype}, not {shape} and float64.")
    return arrays[name]
