"""The key beside a ledger, with which tables are recognised without being described.

The ledger holds a keyed digest of each table. Who reads the ledger without the key cannot test a
guess of a table against it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pathlib
import re

from pgmjax.privacy.ledger.errors import LedgerError, told

_BYTES = 32
_OTHERS = 0o077


def path_of(ledger: pathlib.Path) -> pathlib.Path:
    """Return where the key of a ledger lies: FILE.key."""
    return ledger.with_name(ledger.name + ".key")


def create(ledger: pathlib.Path) -> bytes:
    """Write a new key that only the owner may read, and return it.

    Raises:
        LedgerError: there is one already, or it cannot be written.
    """
    path = path_of(ledger)
    if os.path.lexists(path):
        raise LedgerError(f"{path} is the key of another ledger: move it away, or choose another name.")
    key = os.urandom(_BYTES)
    with told(path, "written", "No ledger was made."):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(key.hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
    return key


def read(ledger: pathlib.Path, check: str) -> bytes:
    """Return the key of a ledger.

    Args:
        ledger: the ledger's path.
        check: what `check_of` gave for its key.

    Raises:
        LedgerError: it is not there, not this ledger's, or others may read it.
    """
    path = path_of(ledger)
    if not path.is_file():
        raise LedgerError(
            f"The key {path} is missing: without it no table can be recognised. Restore it from a backup."
        )
    with told(path, "read", "No table was recognised."):
        if os.name == "posix" and path.stat().st_mode & _OTHERS:
            raise LedgerError(f"The key {path} may be read by others: run  chmod 600 {path}")
        text = path.read_text(encoding="ascii", errors="replace").strip()
    if re.fullmatch(r"[0-9a-f]{64}", text) is None:
        raise LedgerError(f"{path} holds no key of a ledger: restore it from a backup.")
    key = bytes.fromhex(text)
    if not hmac.compare_digest(check_of(key), check):
        raise LedgerError(f"{path} is the key of another ledger: restore the right one from a backup.")
    return key


def check_of(key: bytes) -> str:
    """Return what tells one key from another and does not tell the key."""
    return hmac.new(key, b"pgmjax ledger key check", hashlib.sha256).hexdigest()
