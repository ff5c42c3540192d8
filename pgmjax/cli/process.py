"""Signals and standard streams of the command.

Ctrl-C and SIGTERM raise KeyboardInterrupt and are recorded, in case a library swallows the exception. They
wait while Python imports a module, which may be of compiled code that an exception would crash, and while it
collects garbage, where an exception is lost.
Streams may be closed or full, or their reader may be gone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_heard = False
_waiting = False  # for the signal that is given again
_AGAIN = 0.05  # seconds until a signal that has to wait is given again


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGINT and SIGTERM within the block (main thread only).

    A signal that the caller ignores (as with `nohup`) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    global _heard, _waiting
    _heard = _waiting = False
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
    """Raise KeyboardInterrupt if a signal arrived; a library callback may have dropped the exception."""
    global _waiting
    if _heard and threading.current_thread() is threading.main_thread():
        _waiting = False
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _heard, _waiting
    _heard = True
    _waiting = _must_wait(frame)
    if not _waiting:
        raise KeyboardInterrupt
    again = threading.Timer(_AGAIN, _give_again, (number,))
    again.daemon = True
    again.start()


def _give_again(number: int) -> None:
    """Give a signal again, unless `check` has raised it by now."""
    if _waiting:
        signal.pthread_kill(threading.main_thread().ident or 0, number)


def _must_wait(frame: FrameType | None) -> bool:
    """Return whether an exception would do harm, or be lost, in what Python was doing in a frame."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib") or code.co_name in (
            "__del__",
            "_xla_gc_callback",
        ):
            return True
        frame = frame.f_back
    return False


def say(message: str) -> None:
    """Write one line to standard error, if the stream exists."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"pgmjax: {' '.join(message.split())}", file=sys.stderr, flush=True)


_WARNED: set[str] = set()


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: Any = None,
) -> None:
    """Write a warning as one line and once, without the line of code that gave it."""
    if str(message) not in _WARNED:
        _WARNED.add(str(message))
        say(f"warning: {message}")


def first_of(arguments: argparse.Namespace, names: Iterable[str], given: bool = True) -> str:
    """Return the first of some options that was given, or was not, as it is typed; "" if there is none."""
    for name in names:
        value = getattr(arguments, name)
        if (value is not None and value is not False) is given:
            return f"--{name.removeprefix('text_').replace('_', '-')}"
    return ""


def tell(as_json: bool, record: Any, lines: Iterable[str]) -> None:
    """Print an outcome: as one JSON object, or in words, line by line."""
    for line in [json.dumps(record)] if as_json else lines:
        print(line)


def flush() -> None:
    """Flush standard output, so that a failure shows here and not when Python exits."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard() -> None:
    """Redirect standard output to the null device, so that flushing at exit cannot fail either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
