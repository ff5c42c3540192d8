"""Models from disk, whatever kind was saved."""

from __future__ import annotations

import math
from typing import Any

from pgmjax.model import io, mixture, regions
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.mixture import MixtureModel
from pgmjax.model.regions import RegionModel


def load(folder: Any) -> GraphicalModel | MixtureModel | RegionModel:
    """Read a model that the method `save` of any model wrote.

    Args:
        folder: path of the folder.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the files are corrupt, of another program, or of a newer version.
    """
    named = io.format_of(folder)
    if named == mixture.FORMAT:
        return MixtureModel(*mixture.load(folder))
    if named == regions.FORMAT:
        return RegionModel(*regions.load(folder))
    model = GraphicalModel(*io.load(folder))
    if not math.isfinite(model.log_partition()):
        raise ValueError(f"{folder} is corrupt: its potentials leave no possible cell.")
    return model
