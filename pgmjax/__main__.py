"""The start of the command: `pgmjax`, and `python -m pgmjax` alike."""

import os
import signal
import sys


def _interrupted(*_: object) -> None:
    """End at once: the command has not begun."""
    sys.stderr.write("pgmjax: interrupted; nothing was done\n")
    os._exit(128 + signal.SIGINT)  # as shells say of a program that an interrupt ended


def run() -> None:
    """Run the command; an interrupt while Python still loads it is told in one line."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _interrupted)
    from pgmjax.cli import run as command

    command()


if __name__ == "__main__":
    run()
