"""Files and folders that this library writes and reads back.

`reserve` makes a new folder that is there in full or not at all: it is written beside its place and renamed
when complete. `read` opens a JSON file that names its format and version, and says what is wrong with it.
`ArrayFolder` is a folder with such a file and arrays, as models, histories, tables and predictors are saved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import threading
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

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
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not JSON. Make or copy it again.") from None
    if not isinstance(record, dict) or record.get("format") != name:
        raise ValueError(f"{path} was not written by pgmjax or is not {what}: its format is not {name!r}.")
    if record.get("format_version") != version:
        raise ValueError(
            f"{path} has format version {record.get('format_version')!r}; expected {version}. Install the "
            "version of pgmjax it names."
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
        contents = Contents(folder, read(path, self.what, self.format, self.version))
        try:
            yield contents
        except FileNotFoundError as error:
            raise self.missing(str(error)) from error
        except _DAMAGE as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).removesuffix(".")
            raise ValueError(f"{folder} is corrupt: {reason}. Make or copy it again.") from error


@dataclasses.dataclass(frozen=True)
class Contents:
    """A folder's record, and its arrays by the names of their files.

    Attributes:
        folder: path.
        record: what its JSON holds.
    """

    folder: pathlib.Path
    record: dict[str, Any]

    def path(self, name: str) -> pathlib.Path:
        """The path of a file.

        Raises:
            FileNotFoundError: it is not there.
        """
        if not (self.folder / name).is_file():
            raise FileNotFoundError(
                f"{self.folder} holds no {name}, which belongs to it: copy the whole folder."
            )
        return self.folder / name

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """All arrays of an .npz by their names."""
        path = self.path(name)
        with _readable(name), np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    def mapped(self, name: str) -> np.ndarray:
        """The array of an .npy, read from the file where it is used."""
        path = self.path(name)
        with _readable(name):
            array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:  # NumPy would advise to unpickle it
        raise ValueError(f"{name} is damaged, or not a file of plain arrays.") from error


def float_array(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the float64 array of a name.

    Raises:
        KeyError: there is none.
        ValueError: it has another shape or type.
    """
    array = arrays[name]
    if array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}, not {shape} and float64.")
    return array
