"""Runs that are kept, a line of JSON each, so that a stopped experiment goes on."""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
from collections.abc import Iterable, Sequence

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

import harness  # noqa: E402
from harness import Line  # noqa: E402


class Kept:
    """The lines of one experiment in `bench/results`.

    Args:
        name: of the experiment.
        keys: what tells its runs apart.
        again: begin anew: what is in the file is not looked at.
        path: of the file; None is the experiment's own.
    """

    def __init__(
        self, name: str, keys: Sequence[str], *, again: bool = False, path: pathlib.Path | None = None
    ):
        self.path = harness.RESULTS / f"paper004-{name}.jsonl" if path is None else path
        self.keys = tuple(keys)
        self.about = harness.provenance()
        lines = [] if again else harness.read(self.path)
        self.lines = {self.key(line): line for line in lines}

    def key(self, line: Line) -> tuple:
        """What tells a line's run apart."""
        return tuple(line[name] for name in self.keys)

    def missing(self, name: str, values: Iterable[int], **others: object) -> list[int]:
        """Return those values of a key for which there is no line yet."""
        return [value for value in values if self.key({name: value, **others}) not in self.lines]

    def add(self, line: Line) -> None:
        """Keep a line, on disk at once."""
        line = {**line, **self.about, "load": harness.load_average(), "date": harness.now()}
        harness.append(self.path, line)
        self.lines[self.key(line)] = line

    def where(self, **named: object) -> list[Line]:
        """Return the lines with these values."""
        return [
            line for line in self.lines.values() if all(line[name] == value for name, value in named.items())
        ]


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of what there is, None of nothing."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def shown(value: float | None) -> str:
    """Return a figure for a table."""
    return "-" if value is None else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with what all experiments take."""
    result = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--again", action="store_true", help="run what is in the file of results once more")
    result.add_argument("--table", action="store_true", help="run nothing: print and draw what there is")
    result.add_argument("--trials", type=int, default=5, help="draws of the noise, seeds 0, 1, ...; 5")
    return result
