"""Histories on disk: `history.json` and one file of arrays, readable without this library.

The arrays' file bears a digest of its contents in its name and is written first: whoever is interrupted
leaves the old history, and whoever reads finds the arrays that the description belongs to.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import zipfile
import zlib
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax._version import __version__
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Law
from pgmjax.queries import DenseMatrix, Query
from pgmjax.queries.workload import as_entry

FORMAT, FORMAT_VERSION = "pgmjax.history", 1
DESCRIPTION = "history.json"
_LAWS: dict[str, type[DiscreteLaplace] | type[DiscreteGaussian]] = {
    "laplace": DiscreteLaplace,
    "gaussian": DiscreteGaussian,
}
_UNREADABLE = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError),
    *(zipfile.BadZipFile, zlib.error, OSError, EOFError),
)

Parts = tuple[Domain, list[LinearMeasurement], np.ndarray | None, str | None, bool]


def save(
    folder: Any,
    domain: Domain,
    measurements: tuple[LinearMeasurement, ...],
    covariance: np.ndarray | None,
    relation: str | None,
    secure: bool = True,
) -> None:
    """Write the parts of a history into a folder, which is made where it is missing.

    Args:
        folder: path; a history in it is replaced, in one step.
        domain: the attributes.
        measurements: the noisy answers.
        covariance: covariance of the noise [rows, rows], None where answers are independent.
        relation: the neighbouring relation's name, or None.
        secure: whether the noise protects.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {} if covariance is None else {"covariance": covariance}
    dense: list[np.ndarray] = []
    described = [_described(measurement, dense) for measurement in measurements]
    for kind in "if":
        arrays["values_" + kind] = _flat([m.values for m in measurements if m.values.dtype.kind == kind])
        arrays["matrices_" + kind] = _narrowed(_flat([each for each in dense if each.dtype.kind == kind]))
    arrays["stddevs"] = _flat([m.stddev for m in measurements]).astype(np.float64)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    content = packed.getvalue()
    name = f"history-{hashlib.sha256(content).hexdigest()[:32]}.npz"
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "pgmjax": __version__,
        "domain": domain.to_dict(),
        "relation": relation,
        "secure": secure,
        "arrays": name,
        "measurements": described,
    }
    _put(folder / name, content)
    _put(folder / DESCRIPTION, json.dumps(description).encode())
    for old in folder.glob("history-*.npz"):
        if old.name != name:
            old.unlink(missing_ok=True)


def load(folder: Any) -> Parts:
    """Read what `save` wrote.

    Args:
        folder: path of the folder.

    Returns:
        Domain, measurements, covariance or None, the relation's name or None, and whether the noise protects.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the files are corrupt, of another program, or of a newer version.
    """
    folder = pathlib.Path(folder)
    if not (folder / DESCRIPTION).is_file():
        raise FileNotFoundError(f"{folder} holds no {DESCRIPTION}: it is not the folder of a saved history.")
    try:
        description, path, content = _read(folder)
    except FileNotFoundError:
        description, path, content = _read(folder)  # a new history was saved between the two files
    if hashlib.sha256(content).hexdigest()[:32] not in path.name:
        raise ValueError(f"{folder} is corrupt: {path.name} is not what was written under this name.")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            kept = {name: arrays[name] for name in arrays.files}
        domain = Domain(description["domain"])
        reader = _Reader(kept)
        measurements = [reader.measurement(entry) for entry in description["measurements"]]
        secure = description.get("secure", True) is True  # earlier files do not say
        return domain, measurements, kept.get("covariance"), description["relation"], secure
    except _UNREADABLE as error:
        raise ValueError(f"{folder} is corrupt: {error}") from error


def _read(folder: pathlib.Path) -> tuple[dict[str, Any], pathlib.Path, bytes]:
    """Return the description, and where the arrays are with what stands there."""
    description = files.read(folder / DESCRIPTION, "a history of pgmjax", FORMAT, FORMAT_VERSION)
    path = folder / str(description.get("arrays"))
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no {path.name}, which {DESCRIPTION} names: copy both files.")
    return description, path, path.read_bytes()


def _put(path: pathlib.Path, content: bytes) -> None:
    """Write a file beside its place, have the disk store it, and rename it."""
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _described(measurement: LinearMeasurement, dense: list[np.ndarray]) -> dict[str, Any]:
    """Return what is asked and how it was answered; numbers of rows go to the arrays."""
    query, law = measurement.query, measurement.law
    if isinstance(query, DenseMatrix):
        entries = query.entries.array
        dense.append(entries)
        asked: Any = {"clique": list(query.clique), "matrix": [entries.dtype.kind, *entries.shape]}
    else:
        asked = query.to_spec()
    return {
        "query": asked,
        "shape": list(measurement.values.shape),
        "values": measurement.values.dtype.kind,
        "stddev": list(measurement.stddev.shape),
        "noise": measurement.noise,
        "scale": None if law is None else law.scale,
    }


class _Reader:
    """Hands out arrays in the order in which they were written."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._read: dict[str, int] = {}

    def measurement(self, entry: dict[str, Any]) -> LinearMeasurement:
        query = self._query(entry["query"])
        values = self._next("values_" + entry["values"], entry["shape"])
        stddev = self._next("stddevs", entry["stddev"])
        law: Law | None = None if entry["scale"] is None else _LAWS[entry["noise"]](entry["scale"])
        return LinearMeasurement(query.clique, values, stddev, query, entry["noise"], law)

    def _query(self, asked: dict[str, Any]) -> Query:
        if "matrix" in asked:
            kind, *shape = asked["matrix"]
            entries = self._next("matrices_" + kind, shape)
            return DenseMatrix(asked["clique"], entries.astype(np.int64 if kind == "i" else np.float64))
        return as_entry(0, asked).query

    def _next(self, name: str, shape: list[int]) -> np.ndarray:
        start = self._read.get(name, 0)
        self._read[name] = start + int(np.prod(shape, dtype=np.int64))
        return self._arrays[name][start : self._read[name]].reshape(shape)


def _flat(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.zeros(0)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest type that holds them: most are 0 and 1."""
    if array.dtype.kind != "i":
        return array
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return array.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))
