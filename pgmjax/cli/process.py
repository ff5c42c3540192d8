"""The command as a process: signals as KeyboardInterrupt, and standard streams that may fail.

Ctrl-C and SIGTERM are remembered where an exception would get lost. A stream may be closed, full, or have a
reader who has left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_heard = False


class Interrupted(KeyboardInterrupt):
    """An interrupt with a message that says what became of the work."""


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Let both signals interrupt the block; they can be set in the main thread only.

    A signal that the caller ignores (as `nohup` does) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    global _heard
    _heard = False
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    mine = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in mine:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, before[number])


def check() -> None:
    """Raise if there was a signal: an exception raised inside a callback of a library may be dropped."""
    if _heard and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _heard
    _heard = True
    raise KeyboardInterrupt


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
