"""`pgmjax bench`: sweeps of mechanisms over tables, and a page with results."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import sys
import time

from pgmjax import sweeps
from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.cli import process

_EVERY = 10.0  # seconds between progress lines if standard error is not a terminal


def run(arguments: argparse.Namespace) -> None:
    """Run the missing cells, or list all cells, and print the outcome."""
    grid = sweeps.SweepGrid.read(arguments.grid)
    if arguments.list:
        _list(grid, arguments.json)
        return
    path = pathlib.Path(arguments.results or f"{pathlib.Path(arguments.grid).stem}.duckdb")
    workers = None
    if arguments.ray is not None:
        workers = sweeps.on_ray(arguments.ray, gpus=arguments.gpus, retries=arguments.retries)
    with contextlib.ExitStack() as shown:
        try:
            outcome = sweeps.run(
                grid,
                path,
                retry_failed=arguments.retry_failed,
                workers=workers,
                watch=_Watch(arguments.quiet or sys.stderr is None, shown),
                check=process.check,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; finished results are in {path}. Run the same command again to continue."
            ) from None
    facts = {"total": outcome.total, "ran": outcome.ran, "failed": outcome.failed}
    said = [f"{outcome.total:,} cells in {path}: {outcome.ran:,} in this run, in {_time(outcome.seconds)}"]
    if outcome.failed:
        said.append(
            f"  {outcome.failed:,} cells failed or were refused: the page says why, --retry-failed "
            "runs them again"
        )
    said.append(f"  page     pgmjax bench report {path}")
    process.tell(arguments.json, {"results": str(path), **facts, "seconds": outcome.seconds}, said)


def report(arguments: argparse.Namespace) -> None:
    """Write the results page."""
    results = pathlib.Path(arguments.results)
    out = pathlib.Path(arguments.out) if arguments.out else results.with_suffix(".html")
    if out.resolve() == results.resolve():
        raise ValueError(f"The page would replace the file of results {results}: give another --out.")
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ValueError(f"--out must be a file in an existing folder, got {out}.")
    with sweeps.ResultFile(results, read_only=True) as opened:
        page = sweeps.render(opened, arguments.sweep)
    part = out.with_name(f".{out.name}.{os.getpid()}")
    part.write_text(page, encoding="utf-8")
    part.replace(out)
    print(f"Page written to {out}")


def _list(grid: sweeps.SweepGrid, as_json: bool) -> None:
    found = list(sweeps.listing(grid))
    if as_json:
        listed = [
            {"group": group.content, "bytes": expected.bytes, "keys": [cell.key for cell in group.cells]}
            for group, expected in found
        ]
        print(json.dumps({"sweep": grid.name, "groups": listed}, default=str))
        return
    rows = [(str(group), str(len(group.cells)), str(expected)) for group, expected in found]
    widths = [max(len(row[at]) for row in rows) for at in range(2)]
    for what, trials, expected in rows:
        print(f"{what:<{widths[0]}}  {trials:>{widths[1]}} trials  {expected}")
    cells = sum(len(group.cells) for group, _ in found)
    print(f"{checks.counted(cells, 'cell', 'cells')} in {checks.counted(len(found), 'group', 'groups')}")


class _Watch:
    """A progress bar in a terminal, otherwise occasional progress lines. Failures are printed at once.

    Args:
        quiet: show nothing.
        shown: closes the bar.
    """

    def __init__(self, quiet: bool, shown: contextlib.ExitStack):
        self._quiet, self._shown_in = quiet, shown
        self._terminal = not quiet and sys.stderr.isatty()
        self._bar: Progress | None = None
        self._shown = time.monotonic()
        self._ran = 0

    def __call__(self, progress: sweeps.SweepProgress) -> None:
        if self._quiet:
            return
        if progress.failures:
            error = (progress.failures[0]["error"] or "").strip().splitlines()[-1:] or [""]
            cells = checks.counted(len(progress.failures), "cell", "cells")
            process.say(f"{cells} of {progress.group} failed or refused: {error[0]}")
        if self._terminal:
            if self._bar is None:
                lacking = progress.total - progress.done + progress.ran
                self._bar = self._shown_in.enter_context(Progress("cells", lacking))
            self._bar.advance(progress.ran - self._ran, str(progress.group))
            self._ran = progress.ran
        elif progress.done == progress.total or time.monotonic() - self._shown >= _EVERY:
            self._shown = time.monotonic()
            process.say(
                f"{progress.done:,} of {progress.total:,} cells, {progress.rate:.2g} a second, "
                f"{_time(progress.left)} left"
            )


def _time(seconds: float) -> str:
    """Format seconds as h:mm:ss."""
    return str(datetime.timedelta(seconds=round(seconds)))
