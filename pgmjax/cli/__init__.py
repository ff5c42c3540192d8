"""The command `pgmjax`: release a table under differential privacy, and ask the release.

Exit codes: 0 done, 1 failed (not for what was asked), 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from pgmjax._version import __version__
from pgmjax.cli import mechanisms, query, release

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        argv: the arguments; None takes those of the process.
    """
    before = _terminate_as_interrupt()
    try:
        arguments = _parser().parse_args(argv)
        arguments.run(arguments)
        sys.stdout.flush()
        return DONE
    except SystemExit as stop:  # argparse: 0 after --help, 2 after a usage error
        return stop.code if isinstance(stop.code, int) else BAD_INPUT
    except KeyboardInterrupt:
        return _say("interrupted; nothing was written", INTERRUPTED)
    except BrokenPipeError:
        # whoever read our output has left: say nothing more, also not when Python flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (ValueError, TypeError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        return _say(str(error), BAD_INPUT)
    except (ImportError, OSError, RuntimeError, MemoryError) as error:
        return _say(str(error) or type(error).__name__, FAILED)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pgmjax",
        description="Release a table under differential privacy as one consistent model, and ask it.",
        epilog="Exit codes: 0 done, 1 failed, 2 bad input or usage, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"pgmjax {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (release, query, mechanisms):
        command.add_parser(commands)
    return parser


def _terminate_as_interrupt() -> signal._HANDLER:
    """Let SIGTERM clean up as Ctrl-C does; signals can be set in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _raise_interrupt)


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(message: str, code: int) -> int:
    """Write one line on standard error and pass the exit code on."""
    print(f"pgmjax: {' '.join(message.split())}", file=sys.stderr)
    return code
