"""The standard streams, which may be closed, full, or have a reader who has left."""

from __future__ import annotations

import contextlib
import os
import sys


def say(message: str) -> None:
    """Write one line on standard error, if there is one."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"pgmjax: {' '.join(message.split())}", file=sys.stderr, flush=True)


def flush() -> None:
    """Send what was printed, so that a failure is seen here and not when Python exits."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard() -> None:
    """Say nothing more to a reader who has left, also not when Python flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
