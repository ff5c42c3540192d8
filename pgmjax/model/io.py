"""Models on disk: a folder with `model.json` and `model.npz`, readable without this library.

Each kind of model adds its own fields and arrays to the domain and the total, which all models have.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax._internal.files import ArrayFolder, float_array, parse_json, read_text
from pgmjax._internal.formats import Format
from pgmjax._version import __version__
from pgmjax.data.domain import Domain, as_clique
from pgmjax.measurements import inputs
from pgmjax.model.clique_vector import CliqueVector

RECORD, ARRAYS = "model.json", "model.npz"


def write(
    kind: Format,
    folder: Any,
    model: Any,
    fields: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a model to a new folder, as `model.json` and `model.npz`.

    Args:
        kind: the format of this kind of model.
        folder: path of a new folder.
        model: the model, of which attributes, total and inputs are written.
        fields: other fields of `model.json`.
        arrays: contents of `model.npz`.

    Raises:
        ValueError: the folder exists.
    """
    files.check_target(folder)
    common = {"pgmjax": __version__, "domain": model.domain.to_dict(), "total": model.total}
    common[inputs.KEY] = inputs.to_list(model.inputs)
    folder_of(kind).write(folder, {**common, **fields}, {ARRAYS: arrays})


def folder_of(kind: Format) -> ArrayFolder:
    """The folder of a kind of model, whose record is `RECORD`."""
    return ArrayFolder(RECORD, kind)


def format_of(folder: Any) -> str | None:
    """The format named in `model.json` of a folder; None if it cannot be read."""
    try:
        described = parse_json(read_text(pathlib.Path(folder) / RECORD))
    except (OSError, ValueError):
        return None
    named = described.get("format") if isinstance(described, dict) else None
    return named if isinstance(named, str) else None


def vector_arrays(vector: CliqueVector, name: str) -> dict[str, np.ndarray]:
    """Return tables over cliques under the names NAME_0, NAME_1 and so on."""
    return {f"{name}_{i}": table for i, table in enumerate(vector.tables)}


def read_vector(domain: Domain, cliques: list[list[str]], arrays: Any, name: str) -> CliqueVector:
    """Return tables over cliques from the arrays NAME_0, NAME_1 and so on.

    Raises:
        ValueError: a table that is not float64 or does not have the shape of its clique.
        KeyError: a table is missing.
    """
    shapes = [domain.shape_of(as_clique(domain, names)) for names in cliques]
    tables = tuple(float_array(arrays, f"{name}_{i}", shape) for i, shape in enumerate(shapes))
    return CliqueVector(tuple(map(tuple, cliques)), tables)


def require_probabilities(marginals: CliqueVector) -> None:
    """Check that tables are probability distributions.

    Raises:
        ValueError: a table has a negative value, or does not sum to 1.
    """
    if not all(np.all(t >= 0) and abs(t.sum() - 1) < 1e-6 for t in marginals.tables):
        raise ValueError("its marginals are not probabilities.")
