"""Load a saved model of any kind, or a release."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgmjax.model import graphical, io, mixture, regions
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.mixture import MixtureModel
from pgmjax.model.regions import RegionModel

if TYPE_CHECKING:
    from pgmjax.release.folder import SavedRelease


def load(folder: Any) -> GraphicalModel | MixtureModel | RegionModel | SavedRelease:
    """Read a model written by the `save` method of any model class, or a release.

    Args:
        folder: path of the folder, of a model or as `pgmjax release` and `Release.save` write it.

    Returns:
        The model, or the `SavedRelease` with its `model`, `record`, `noisy_counts()` and `answers()`.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the files are corrupt, written by another program, or of a newer version.
    """
    from pgmjax.release import folder as releases  # which needs this module

    if (pathlib.Path(folder) / "release.json").is_file():
        return releases.read(folder)
    return load_model(folder)


def load_model(folder: Any) -> GraphicalModel | MixtureModel | RegionModel:
    """Read a model; see `load`."""
    readers: dict[str | None, Callable[[Any], GraphicalModel | MixtureModel | RegionModel]]
    readers = {mixture.FOLDER.format: mixture.load, regions.FOLDER.format: regions.load}
    return readers.get(io.format_of(folder), graphical.load)(folder)
