"""`pgmjax look`: a release beside its private table, for the holder of the table alone."""

from __future__ import annotations

import argparse
import pathlib

from pgmjax.cli import process
from pgmjax.cli.release import reading_of
from pgmjax.data.dataset import Dataset
from pgmjax.release import folder as release_folder
from pgmjax.release.look import check_page, of_the_release, reading


def run(arguments: argparse.Namespace) -> None:
    """Compare, write the page if one is asked for, and print what is to be said."""
    target = None if arguments.out is None else check_page(arguments.out)
    if pathlib.Path(arguments.folder).is_file():
        raise ValueError(
            f"{arguments.folder} is a file, and the folder of the release stands before its table: pgmjax "
            "look RELEASE TABLE."
        )
    saved = release_folder.opened(arguments.folder)
    if pathlib.Path(arguments.folder).resolve() in pathlib.Path(arguments.table).resolve().parents:
        raise ValueError(
            f"{arguments.table} is a part of the release: give the private table that the release was made "
            "of."
        )
    domain, population = saved.model.domain, saved.population
    known = reading(domain, population)
    weighted = population is not None and population.max_weight is not None
    if weighted != (arguments.weights is not None):
        raise ValueError(
            "The release counts weights: give their column with --weights."
            if weighted
            else "The release counts records without weights: leave --weights out."
        )
    with of_the_release(arguments.table):
        table = Dataset.read(arguments.table, domain, **{**known, **reading_of(arguments)})
    found = saved.look(table, target=arguments.target)
    if target is not None:
        found.save(target)
    compared = (
        f"Compared with {arguments.table}; nothing tells whether it is the table of {arguments.folder}."
    )
    page = [] if target is None else [f"Page for the holder alone: {target}"]
    process.tell(arguments.json, found.to_dict(), [*found.lines(), compared, *page])
