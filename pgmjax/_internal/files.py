"""Files and folders that this library writes and reads back.

`reserve` makes a new folder that is there in full or not at all: it is written beside its place and renamed
when complete. `read` opens a JSON file that names its format and version, and says what is wrong with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator
from typing import Any


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
