"""The command `pgmjax`: release a table under differential privacy, and ask the release.

Each file is a command; `query` also holds `mechanisms`. Two are not: `process` is signals and standard
streams, `spending` the record of what a run has paid.

Exit codes: 0 done, 1 failed (not for what was asked), 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from pgmjax._internal.moved import serve_old_names
from pgmjax._version import __version__
from pgmjax.cli import audit, bench, ledger, process, query, release, session

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_FILE_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def run() -> NoReturn:
    """Run the command as the process: `main`, then exit."""
    try:
        code = main()
    except KeyboardInterrupt:  # a second one, while the first was being dealt with
        code = INTERRUPTED
    if code == DONE:
        sys.exit(DONE)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or its reader has left
            stream.flush()
    # JAX's teardown can crash where an exception left a computation midway, and change the code
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        argv: the arguments; None takes those of the process.
    """
    with process.listening():
        try:
            arguments = _parser().parse_args(argv)
            arguments.run(arguments)
            process.flush()
            return DONE
        except SystemExit as stop:  # argparse: 0 after --help, 2 after a usage error
            return stop.code if isinstance(stop.code, int) else BAD_INPUT
        except KeyboardInterrupt as stop:
            return _say(str(stop) or "interrupted", INTERRUPTED)
        except BrokenPipeError:
            process.discard()
            return FAILED
        except (ValueError, TypeError, ArithmeticError, *_FILE_ERRORS) as error:
            return _say(str(error), BAD_INPUT)
        except (ImportError, OSError, RuntimeError, MemoryError) as error:
            return _say(str(error) or type(error).__name__, FAILED)


class _Parser(argparse.ArgumentParser):
    """A parser whose usage errors end with the example of its help."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        _, found, example = (self.epilog or "").partition("Example: ")
        hint = f"example: {example}\n" if found else ""
        self.exit(BAD_INPUT, f"{self.prog}: error: {message}\n{hint}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pgmjax",
        description="Release a table under differential privacy as one consistent model, and ask it.",
        epilog="Exit codes: 0 done, 1 failed, 2 bad input or usage, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"pgmjax {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    release.add_parser(commands)
    query.add_parser(commands)
    query.add_mechanisms_parser(commands)
    for command in (ledger, session, audit, bench):
        command.add_parser(commands)
    return parser


def _say(message: str, code: int) -> int:
    """Write one line on standard error and pass the exit code on."""
    process.say(message)
    return code


serve_old_names(__name__)
