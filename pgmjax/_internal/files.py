"""Files and folders that this library writes and reads back.

`reserve` makes a new folder that exists in full or not at all: it is written next to its location and renamed
when complete. `read` reads a JSON file with a format name and version, and explains what is wrong with it.
`ArrayFolder` is a folder with such a file and arrays, used to save models, histories, tables and predictors.
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

# raised by code that uses damaged records or arrays
_DAMAGE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
_UNREADABLE = (*_DAMAGE, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def check_target(out: str | os.PathLike[str]) -> pathlib.Path:
    """Check that a folder can be created; call this before any budget is spent.

    Args:
        out: the folder to create. Missing parent folders are created when it is written.

    Raises:
        ValueError: the path exists, or its nearest existing parent is not a writable folder.
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
    """Yield an empty folder that becomes `out` on success and is removed on failure.

    Args:
        out: the folder to create; it must not exist.

    Raises:
        ValueError: the folder exists or cannot be created. This is checked before the block runs and again
            before the rename.
    """
    target = check_target(out)
    made = [parent for parent in target.parents if not parent.exists()]
    folder = target.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir()  # test whether the name itself is valid here: not too long, ...
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


def sync(folder: pathlib.Path) -> None:
    """Sync the entries of a folder to disk (POSIX only)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: pathlib.Path, what: str, name: str, version: int) -> dict[str, Any]:
    """Read a JSON file written by this library.

    Args:
        path: the file.
        what: expected content, for error messages, such as "a model of pgmjax".
        name: name of the format, under the key `format`.
        version: the only supported version, under the key `format_version`.

    Raises:
        ValueError: the file is not JSON, or has another format or version.
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
    """A folder format: a JSON record and array files, readable without this library; no pickle.

    Attributes:
        record: file name of the record, such as "model.json".
        what: description for error messages, such as "a model of pgmjax".
        format: name of the format, under the record's key `format`.
        version: the only version that is written and read, under the record's key `format_version`.
        missing: exception raised for missing files.
        indent: JSON indentation of the record; None writes it on one line.
        newline: whether the record ends with a newline.
    """

    record: str
    what: str
    format: str
    version: int = 1
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
        """Open a folder; errors raised while reading it in the block are reported as damage.

        Raises:
            missing: the record, or a file requested in the block, does not exist.
            ValueError: the record has another format or version, or the folder is damaged.
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
    """The record of a folder, and access to its array files.

    Attributes:
        folder: path.
        record: parsed content of the record.
    """

    folder: pathlib.Path
    record: dict[str, Any]

    def path(self, name: str) -> pathlib.Path:
        """The path of a file.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        if not (self.folder / name).is_file():
            raise FileNotFoundError(
                f"{self.folder} holds no {name}, which belongs to it: copy the whole folder."
            )
        return self.folder / name

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """All arrays of an .npz file, by name."""
        path = self.path(name)
        with _readable(name), np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    def mapped(self, name: str) -> np.ndarray:
        """The array of an .npy file, memory-mapped."""
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
    except _UNREADABLE as error:  # NumPy's message would suggest unpickling it
        raise ValueError(f"{name} is damaged, or not a file of plain arrays.") from error


def float_array(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the float64 array of the given name.

    Raises:
        KeyError: no such array exists.
        ValueError: the array has another shape or type.
    """
    array = arrays[name]
    if array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}, not {shape} and float64.")
    return array
