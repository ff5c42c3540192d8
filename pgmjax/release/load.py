"""Load a release, or a model of any kind."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from pgmjax._internal import checks
from pgmjax.learning import predictor
from pgmjax.learning.predictor import Predictor
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.load import load_model
from pgmjax.model.mixture import MixtureModel
from pgmjax.model.regions import RegionModel
from pgmjax.release import folder as release_folder
from pgmjax.release.folder import SavedRelease


def load(folder: Any) -> GraphicalModel | MixtureModel | RegionModel | SavedRelease | Predictor:
    """Read a release or a fit, or a model or trained model written by the `save` method of any of them.

    Args:
        folder: path of the folder, of a model, or as `pgmjax release`, `fit` and `Release.save` write it.

    Returns:
        The model, the trained model (`learning.Predictor`), or the `SavedRelease` with its `model`, `record`,
        `estimates` and `answers()`.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        TypeError: no name.
        ValueError: it is no folder, or the files are corrupt, written by another program, or of a newer
            version.
    """
    checks.kind(folder, str | os.PathLike, "folder must be the name of a folder")
    place = pathlib.Path(folder)
    if not place.exists():
        raise FileNotFoundError(f"There is no folder {place}: give one that was saved.")
    if place.is_file():
        raise ValueError(f"{place} is a file: give the folder of a release or a model.")
    if (place / "history.json").is_file():
        raise ValueError(f"{place} is a history of answers: write history.History.load(folder).")
    if any((place / name).is_file() for name in ("release.json", release_folder.FIT_RECORD)):
        return release_folder.opened(folder)
    if (place / predictor.FOLDER.record).is_file():
        return predictor.read(folder)
    return load_model(folder)
