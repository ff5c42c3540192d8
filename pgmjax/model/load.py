"""Load a saved model of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgmjax.model import graphical, io, mixture, regions
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.mixture import MixtureModel
from pgmjax.model.regions import RegionModel


def load_model(folder: Any) -> GraphicalModel | MixtureModel | RegionModel:
    """Read a model written by the `save` method of any model class.

    Args:
        folder: path of the folder.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the files are corrupt, written by another program, or of a newer version.
    """
    readers: dict[str | None, Callable[[Any], GraphicalModel | MixtureModel | RegionModel]]
    readers = {mixture.FOLDER.format.name: mixture.load, regions.FOLDER.format.name: regions.load}
    return readers.get(io.format_of(folder), graphical.load)(folder)
