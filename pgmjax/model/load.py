"""Load a saved model of any kind."""

from __future__ import annotations

import math
from typing import Any

from pgmjax.data.domain import Domain
from pgmjax.measurements import inputs
from pgmjax.model import io
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.mixture import MixtureModel
from pgmjax.model.regions import RegionModel

Saved = GraphicalModel | MixtureModel | RegionModel


def load_model(folder: Any) -> Saved:
    """Read a model written by the `save` method of any model class.

    Args:
        folder: path of the folder.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the files are corrupt, written by another program, or of a newer version.
    """
    kinds: tuple[type[Saved], ...] = (MixtureModel, RegionModel)
    named = io.format_of(folder)
    kind = next((kind for kind in kinds if kind._format.name == named), GraphicalModel)
    with io.folder_of(kind._format).reading(folder) as contents:
        arrays, record = contents.arrays(io.ARRAYS), contents.record
        total = float(record["total"])
        if not (total > 0 and math.isfinite(total)):
            raise ValueError("its total is not positive or not finite.")
        known = Domain(record["domain"]), total, inputs.from_list(record[inputs.KEY])
        return kind._restored(*known, record, arrays)
