"""Histories on disk: `history.json` and one file of arrays, readable without this library.

The name of the array file contains a digest of its contents, so that damage is seen, and the file is written
first: an interrupted save leaves no history.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from pgmjax._internal import files, formats
from pgmjax._version import __version__
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import read_noise
from pgmjax.queries import DenseMatrix, Query
from pgmjax.queries.workload import as_entry

DESCRIPTION = "history.json"
FOLDER = files.ArrayFolder(DESCRIPTION, formats.HISTORY, indent=None)
_History = TypeVar("_History")


def save(folder: Any, history: Any) -> None:
    """Write a `History` into a new folder.

    Raises:
        ValueError: the folder exists.
    """
    files.check_target(folder)
    arrays: dict[str, np.ndarray] = {}
    if history.covariance is not None:
        arrays["covariance"] = history.covariance
    measurements = history.measurements
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
        "pgmjax": __version__,
        "domain": history.domain.to_dict(),
        "relation": None if history.relation is None else history.relation.value,
        "secure": history.secure,
        "arrays": name,
        "measurements": described,
    }
    FOLDER.write(folder, description, {name: content})


def load(folder: Any, make: Callable[..., _History]) -> _History:
    """Read the parts of a history written by `save`.

    Args:
        folder: path of the folder.
        make: the class `History`.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the files are corrupt, written by another program, or of a newer version.
    """
    with FOLDER.reading(folder) as contents:
        record = contents.record
        name = str(record.get("arrays"))
        with contents.path(name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest[:32] not in name:
            raise ValueError(f"{name} is not what was written under this name.")
        arrays = contents.arrays(name)
        entries = record["measurements"]
        parts = {name: _parts(arrays, name, shapes) for name, shapes in _shapes(entries).items()}
        count = sum(math.prod(entry["shape"]) for entry in entries)
        if "covariance" in arrays and arrays.header("covariance").shape != (count, count):
            raise ValueError("its covariance is not that of its answers.")
        measurements = [_measurement(entry, parts) for entry in entries]
        return make(
            Domain(record["domain"]),
            measurements,
            covariance=arrays.get("covariance"),
            relation=record["relation"],
            secure=record["secure"] is True,
        )


def _described(measurement: LinearMeasurement, dense: list[np.ndarray]) -> dict[str, Any]:
    """Return a description of query and noise; dense matrices are appended to `dense`."""
    query, distribution = measurement.query, measurement.distribution
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
        **({"scale": None} if distribution is None else distribution.parameters()),
    }


def _shapes(entries: list[dict[str, Any]]) -> dict[str, list[list[int]]]:
    """Return the shapes of what lies in each array, one after another, from the record."""
    names = "values_i", "values_f", "matrices_i", "matrices_f", "stddevs"
    result: dict[str, list[list[int]]] = {name: [] for name in names}
    for entry in entries:
        result["values_" + entry["values"]].append(entry["shape"])
        result["stddevs"].append(entry["stddev"])
        if "matrix" in entry["query"]:
            kind, *shape = entry["query"]["matrix"]
            result["matrices_" + kind].append(shape)
    return result


def _parts(arrays: files.StoredArrays, name: str, shapes: list[list[int]]) -> Iterator[np.ndarray]:
    """Return the parts of an array, which is read if it is as long as the record says."""
    sizes = [math.prod(shape) for shape in shapes]
    if (shapes or name in arrays) and arrays.header(name).shape != (sum(sizes),):
        raise ValueError(f"{name} is not as long as its record says.")
    parts = np.split(arrays[name], np.cumsum(sizes)[:-1]) if shapes else []
    return (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def _measurement(entry: dict[str, Any], parts: dict[str, Iterator[np.ndarray]]) -> LinearMeasurement:
    """Return a measurement from its description and the next parts of the arrays."""
    asked = entry["query"]
    if "matrix" in asked:
        kind = asked["matrix"][0]
        entries = next(parts["matrices_" + kind])
        query: Query = DenseMatrix(asked["clique"], entries.astype(np.int64 if kind == "i" else np.float64))
    else:
        query = as_entry(0, asked).query
    values, stddev = next(parts["values_" + entry["values"]]), next(parts["stddevs"])
    distribution = None if entry["scale"] is None else read_noise(entry["noise"], entry)
    return LinearMeasurement(query.clique, values, stddev, query, entry["noise"], distribution)


def _flat(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.zeros(0)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest type that holds them: most are 0 and 1."""
    if array.dtype.kind != "i":
        return array
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return array.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))
