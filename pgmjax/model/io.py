"""Models on disk: a folder with `model.json` and `model.npz`, readable without this library."""

from __future__ import annotations

import json
import os
import pathlib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax._version import __version__
from pgmjax.data.cliques import as_clique
from pgmjax.data.domain import Domain
from pgmjax.model.clique_vector import CliqueVector

FORMAT, FORMAT_VERSION = "pgmjax.model", 1
FILES = ("model.json", "model.npz")
UNREADABLE = (
    *(KeyError, TypeError, ValueError, OverflowError, RecursionError, NotImplementedError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, OSError, EOFError),
)


Parts = tuple[Domain, CliqueVector, float, CliqueVector]


def save(
    folder: Any, domain: Domain, potentials: CliqueVector, total: float, marginals: CliqueVector
) -> None:
    """Write the parts of a model into a folder, which is made where it is missing.

    Args:
        folder: path; the files `model.json` and `model.npz` in it are replaced.
        domain: the attributes.
        potentials: log-potentials.
        total: number of records (counts).
        marginals: known marginals (probabilities).
    """
    arrays = {f"potential_{i}": table for i, table in enumerate(potentials.tables)}
    arrays |= {f"marginal_{i}": table for i, table in enumerate(marginals.tables)}
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "pgmjax": __version__,
        "domain": domain.to_dict(),
        "total": total,
        "potentials": [list(clique) for clique in potentials.cliques],
        "marginals": [list(clique) for clique in marginals.cliques],
    }
    write(folder, description, arrays)


def write(folder: Any, description: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write the two files of a model, each in full or not at all.

    Args:
        folder: path, made where it is missing; the files in it are replaced.
        description: what `model.json` holds.
        arrays: what `model.npz` holds.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    partial = [folder / f".{os.getpid()}.{name}" for name in FILES]
    try:
        partial[0].write_text(json.dumps(description, indent=1), encoding="utf-8")
        with partial[1].open("wb") as file:
            np.savez_compressed(file, **arrays)
        for path, name in zip(partial, FILES, strict=True):
            os.replace(path, folder / name)
    finally:
        for path in partial:
            path.unlink(missing_ok=True)


def load(folder: Any) -> Parts:
    """Read what `save` wrote.

    Args:
        folder: path of the folder.

    Returns:
        Domain, potentials, total and known marginals.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the files are corrupt, of another program, or of a newer version.
    """
    folder = existing(folder)
    description = files.read(folder / "model.json", "a model of pgmjax", FORMAT, FORMAT_VERSION)
    try:
        with np.load(folder / "model.npz", allow_pickle=False) as arrays:
            domain = Domain(description["domain"])
            potentials = read_vector(domain, description["potentials"], arrays, "potential")
            marginals = read_vector(domain, description["marginals"], arrays, "marginal")
            total = float(description["total"])
    except UNREADABLE as error:
        raise ValueError(f"{folder} is corrupt: {error}") from error
    bad = any(np.isnan(t).any() or np.isposinf(t).any() for t in potentials.tables)
    if bad or not (total > 0) or not np.isfinite(total):
        raise ValueError(f"{folder} is corrupt: its potentials or total are not finite.")
    require_probabilities(folder, marginals)
    return domain, potentials, total, marginals


def require_probabilities(folder: Any, marginals: CliqueVector) -> None:
    """Refuse tables that are no distributions.

    Raises:
        ValueError: one has a negative value, or a sum that is not 1.
    """
    if not all(np.all(t >= 0) and abs(t.sum() - 1) < 1e-6 for t in marginals.tables):
        raise ValueError(f"{folder} is corrupt: its marginals are not probabilities.")


def format_of(folder: Any) -> str | None:
    """The format that `model.json` of a folder names; None where there is none to be read."""
    try:
        described = json.loads((pathlib.Path(folder) / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    named = described.get("format") if isinstance(described, dict) else None
    return named if isinstance(named, str) else None


def existing(folder: Any) -> pathlib.Path:
    """The path of a folder that holds both files.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
    """
    folder = pathlib.Path(folder)
    for name in FILES:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} holds no {name}: it is not the folder of a saved model.")
    return folder


def read_vector(domain: Domain, cliques: list[list[str]], arrays: Any, kind: str) -> CliqueVector:
    """Return tables over cliques from the arrays KIND_0, KIND_1 and so on.

    Raises:
        ValueError: a table of another shape or type than its clique's in float64.
        KeyError: one that is missing.
    """
    tables = []
    for i, names in enumerate(cliques):
        clique, table = as_clique(domain, names), arrays[f"{kind}_{i}"]
        if table.shape != domain.shape_of(clique) or table.dtype != np.float64:
            raise ValueError(f"the {kind} of {clique} has shape {table.shape} and type {table.dtype}.")
        tables.append(table)
    return CliqueVector(tuple(tuple(names) for names in cliques), tuple(tables))
