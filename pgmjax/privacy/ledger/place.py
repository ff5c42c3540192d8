"""Where a ledger may lie: in a file of its own, on a disk of this machine.

A ledger in memory forgets, and SQLite's write-ahead log does not work across network mounts: two
machines would each see a budget of their own.
"""

from __future__ import annotations

import os
import pathlib
import re

from pgmjax.privacy.ledger.errors import LedgerError

MOUNTS = pathlib.Path("/proc/mounts")
_NETWORK = re.compile(
    "9p|afs|auristorfs|beegfs|ceph|cifs|coda|davfs|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs|nfs4|ocfs2|orangefs"
    "|pvfs2|smb2|smb3|smbfs|vboxsf|vmhgfs"
)
_LOCAL_FUSE = frozenset(("fuseblk", "fuse.ext2", "fuse.ext4", "fuse.ntfs-3g", "fuse.fuse-overlayfs"))


def resolve(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the absolute path of a ledger, its links followed.

    Raises:
        TypeError: no path.
        LedgerError: a place where budgets would not be kept.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"A ledger's path must be a string or a path, got {type(path).__name__}.")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("A ledger's path must be text, got bytes.")
    if not text.strip() or ":memory:" in text or text.startswith("file:"):
        raise LedgerError(
            f"A ledger cannot be kept at {text!r}: budgets must outlast the process. Name a file on a disk."
        )
    place = pathlib.Path(os.path.realpath(text))
    if place.is_dir():
        raise LedgerError(f"{place} is a folder: name a file in it for the ledger.")
    if not place.parent.is_dir():
        raise LedgerError(f"There is no folder {place.parent} for a ledger: make it first.")
    kind = file_system(place)
    if kind is not None and is_remote(kind):
        raise LedgerError(
            f"{place} is on a network file system ({kind}), where the locks of a ledger do not hold: put it "
            "on a disk of the machine that makes the releases."
        )
    return place


def require_writable(place: pathlib.Path) -> None:
    """Refuse a ledger that cannot be written, before anything is asked of it.

    Raises:
        LedgerError: no such file, no file of its own, or a read-only one.
    """
    if not place.exists():
        raise LedgerError(f"There is no ledger {place}: make one with `pgmjax ledger init` or Ledger.create.")
    if not place.is_file():
        raise LedgerError(f"{place} is not a plain file, and so no ledger.")
    if place.stat().st_nlink > 1:
        raise LedgerError(
            f"{place} has {place.stat().st_nlink} names (hard links): under each it would have another "
            "write-ahead log. Leave it one."
        )
    if not (os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)):
        raise LedgerError(
            f"{place} or its folder is read-only, and a charge could not be recorded: nothing was granted. "
            "Give both write permission, or look at a copy."
        )


def file_system(place: pathlib.Path) -> str | None:
    """Return the type of the file system that a path lies on, None where the system does not tell."""
    if str(place).startswith(("\\\\", "//")):
        return "smbfs"  # a UNC path
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = pathlib.PurePosixPath(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1]))
        if place.is_relative_to(mount) and len(mount.parts) >= best[0]:
            best = (len(mount.parts), fields[2])  # of mounts over one another the last one counts
    return best[1]


def is_remote(kind: str) -> bool:
    """Tell whether a type of file system is a network's, or a program's of which nothing is known."""
    return bool(_NETWORK.fullmatch(kind.lower())) or (kind.startswith("fuse") and kind not in _LOCAL_FUSE)
