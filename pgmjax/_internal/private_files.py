"""Files that hold what only their owner may read, and temporary ones that a killed process does not leave."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

LOCKS = os.name == "posix"
"""Whether the system has locks that end with a process."""
_OTHERS = 0o077
_TEMPORARY = "pgmjax-copy-"  # of the folders in `copied`, where a file cannot be without a name


def open_private(path: str | os.PathLike[str], mode: str = "a") -> IO[Any]:
    """Open a file for writing that only its owner may read; no link is followed, and nothing is blocked on.

    Args:
        path: the file. A new one gets mode 0600.
        mode: as of `open`, "a", "x" or "w", the last two with or without "b". "w" replaces the file by a new
            one, so that who has opened the old one sees nothing of it.

    Raises:
        FileExistsError: the mode is "x", and something has that name.
        OSError: it cannot be opened.
        ValueError: it is no regular file, has another name or owner, or others may read or write it.
    """
    if "w" in mode:
        pathlib.Path(path).unlink(missing_ok=True)
    made = os.O_APPEND if "a" in mode else os.O_EXCL
    quiet = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe without a reader would wait
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | made | quiet, 0o600)
    except OSError:
        if "a" in mode and os.path.islink(path):  # in words, where the system counts links
            raise ValueError(f"{os.fspath(path)} is a link: name the file itself.") from None
        raise
    try:
        refuse_shared(path, os.fstat(handle))
        binary = "b" in mode
        file: IO[Any] = os.fdopen(
            handle, "wb" if binary else "w", encoding=None if binary else "utf-8", newline=None
        )
    except BaseException:
        os.close(handle)
        raise
    return file


def refuse_shared(path: str | os.PathLike[str], found: os.stat_result) -> None:
    """Refuse a file that is not its owner's alone; some systems know no such modes.

    Raises:
        ValueError: it is no regular file, has another name or owner, or others may read or write it.
    """
    name = os.fspath(path)
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{name} is no regular file: name another one.")
    if os.name != "posix":
        return
    if found.st_uid != os.geteuid():
        raise ValueError(f"{name} belongs to another user: name a file of your own.")
    if found.st_nlink > 1:
        raise ValueError(f"{name} has a second name (a hard link): name another file.")
    if found.st_mode & _OTHERS:
        raise ValueError(f"{name} may be read or written by others: run  chmod 600 {name}")


@contextlib.contextmanager
def copied(pieces: Iterable[str]) -> Iterator[str]:
    """Yield a path at which this process can read pieces of text from the disk; a kill leaves none of them.

    The file has no name in any folder, and the system frees it with the process. Where a system cannot do
    that, the file is in a folder of its own, which the next call removes if its process has ended.

    Args:
        pieces: the text, written as UTF-8.
    """
    sweep()
    with tempfile.TemporaryFile() if _nameless() else _named() as file:
        for piece in pieces:
            file.write(piece.encode())
        file.flush()
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}" if _nameless() else str(file.name)


def _nameless() -> bool:
    return os.name == "posix" and os.path.isdir("/dev/fd")


@contextlib.contextmanager
def _named() -> Iterator[IO[bytes]]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    try:
        with open(folder / "table", "xb", opener=_opener) as file:
            lock(file.fileno())
            yield file
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sweep() -> None:
    """Remove the copies of tables that killed processes have left in the folder of temporary files."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or not folder.is_dir() or not _is_own(folder.stat()):
                continue
            if _is_abandoned(folder / "table"):
                shutil.rmtree(folder)


def _is_own(found: os.stat_result) -> bool:
    return os.name != "posix" or found.st_uid == os.geteuid()


def _is_abandoned(path: pathlib.Path) -> bool:
    """Return whether no process has a file open that `_named` made."""
    if os.name != "posix":
        path.unlink()  # which such a system refuses for a file that is open
        return True
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        lock(handle)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def lock(handle: int) -> None:
    """Lock an open file or folder for as long as it is open; nothing on a system without `LOCKS`.

    Raises:
        BlockingIOError: another process, or another part of this one, holds it.
    """
    if LOCKS:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
