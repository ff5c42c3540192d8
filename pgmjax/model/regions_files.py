"""Models of regions on disk: a folder with `model.json` and `model.npz`, readable without this library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax._version import __version__
from pgmjax.data.domain import Domain
from pgmjax.model import io
from pgmjax.model.clique_vector import CliqueVector

FORMAT, FORMAT_VERSION = "pgmjax.regions", 1

Parts = tuple[Domain, CliqueVector, float, float, float, float]


def save(folder: Any, parts: Parts) -> None:
    """Write a model of regions into a folder, which is made where it is missing.

    Args:
        folder: path; the files `model.json` and `model.npz` in it are replaced.
        parts: the fields of a `RegionModel`, in order.
    """
    domain, marginals, total, residual, loss, gap = parts
    arrays = {f"marginal_{i}": table for i, table in enumerate(marginals.tables)}
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "pgmjax": __version__,
        "domain": domain.to_dict(),
        "total": total,
        "marginals": [list(clique) for clique in marginals.cliques],
    }
    # JSON has no NaN, which stands for a loss that is not known
    io.write(folder, description, {**arrays, "residual_loss_gap": np.array([residual, loss, gap])})


def load(folder: Any) -> Parts:
    """Read what `save` wrote.

    Raises:
        FileNotFoundError: one of the folder's files is missing.
        ValueError: the files are corrupt or of another version.
    """
    folder = io.existing(folder)
    described = files.read(folder / "model.json", "a model of regions", FORMAT, FORMAT_VERSION)
    try:
        with np.load(folder / "model.npz", allow_pickle=False) as arrays:
            domain = Domain(described["domain"])
            marginals = io.read_vector(domain, described["marginals"], arrays, "marginal")
            total = float(described["total"])
            residual, loss, gap = (float(value) for value in arrays["residual_loss_gap"])
    except io.UNREADABLE as error:
        raise ValueError(f"{folder} is corrupt: {error}") from error
    if not (total > 0 and math.isfinite(total) and residual >= 0):
        raise ValueError(f"{folder} is corrupt: its total or its residual is no number that it can be.")
    io.require_probabilities(folder, marginals)
    return domain, marginals, total, residual, loss, gap
