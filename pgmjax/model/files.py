"""Mixtures on disk: a folder with `model.json` and `model.npz`, readable without this library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax._version import __version__
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.model import io

FORMAT, FORMAT_VERSION = "pgmjax.mixture", 1

Parts = tuple[Domain, np.ndarray, tuple[np.ndarray, ...], float, tuple[Clique, ...]]


def save(folder: Any, parts: Parts) -> None:
    """Write a mixture into a folder, which is made where it is missing.

    Args:
        folder: path; the files `model.json` and `model.npz` in it are replaced.
        parts: the fields of a `MixtureModel`, in order.
    """
    domain, log_weights, log_probabilities, total, cliques = parts
    arrays = {f"log_probabilities_{i}": table for i, table in enumerate(log_probabilities)}
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "pgmjax": __version__,
        "domain": domain.to_dict(),
        "total": total,
        "components": len(log_weights),
        "cliques": [list(clique) for clique in cliques],
    }
    io.write(folder, description, {"log_weights": log_weights, **arrays})


def load(folder: Any) -> Parts:
    """Read what `save` wrote.

    Raises:
        FileNotFoundError: one of the folder's files is missing.
        ValueError: the files are corrupt or of another version.
    """
    folder = io.existing(folder)
    described = files.read(folder / "model.json", "a mixture of pgmjax", FORMAT, FORMAT_VERSION)
    try:
        with np.load(folder / "model.npz", allow_pickle=False) as arrays:
            domain = Domain(described["domain"])
            total, components = float(described["total"]), int(described["components"])
            cliques = tuple(as_clique(domain, names) for names in described["cliques"])
            weights = _table(arrays["log_weights"], (components,))
            tables = tuple(
                _table(arrays[f"log_probabilities_{i}"], (components, size))
                for i, size in enumerate(domain.shape)
            )
    except io.UNREADABLE as error:
        raise ValueError(f"{folder} is corrupt: {error}") from error
    if not total > 0 or not math.isfinite(total):
        raise ValueError(f"{folder} is corrupt: its total is no positive number.")
    return domain, weights, tables, total, cliques


def _table(logs: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if logs.shape != shape or logs.dtype != np.float64:
        raise ValueError(f"an array has shape {logs.shape} and type {logs.dtype}, not {shape} and float64")
    sums = np.exp(logs).sum(axis=-1)
    if not np.all(np.abs(sums - 1) < 1e-6):
        raise ValueError("log-probabilities do not sum to one")
    return logs
