"""The Parquet tables of a release: noisy answers and workload answers."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.data.cliques import Clique
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.release.release import Release

_VALUE_BYTES = 8


def write_measurements(
    measurements: Sequence[LinearMeasurement],
    path: pathlib.Path,
    *,
    secure: bool | None = None,
    seed: int | None = None,
) -> None:
    """Write noisy answers: clique (list of names), row, value, stddev, distribution and scale of the noise.

    `scale` is the scale of the discrete noise distribution, null if unknown. Integer values, as in a release,
    are stored as int64. If `secure` is given, the file's metadata holds `secure` ("true" or "false") and the
    `seed` of insecure noise.
    """
    _write_parquet(_marked(measurements_table(measurements), secure, seed), path)


def measurements_table(measurements: Sequence[LinearMeasurement]) -> Any:
    """Return noisy answers as an Arrow table with one row per value; see `write_measurements`."""
    arrow = checks.optional("pyarrow", extra="tables")
    integral = all(m.values.dtype.kind == "i" for m in measurements)
    sizes = [m.values.size for m in measurements]
    noise = arrow.array([m.noise for m in measurements], arrow.string())
    columns = {
        "clique": _cliques([m.clique for m in measurements], sizes),
        "row": _joined([np.arange(n) for n in sizes], np.int64),
        "value": _joined([m.values.reshape(-1) for m in measurements], np.int64 if integral else np.float64),
        "stddev": _joined([m.row_stddevs() for m in measurements]),
        "noise": arrow.DictionaryArray.from_arrays(_which(sizes), noise).cast(arrow.string()),
        "scale": arrow.array(_joined(_scales(measurements)), from_pandas=True),
    }
    return arrow.table(columns)


def write_answers(release: Release, path: pathlib.Path) -> None:
    """Write the answers to the workload: clique, cell, estimate, stddev of the noise of its measurement.

    One row for each answer of each workload entry, in workload order; `cell` counts from 0 within an entry,
    row-major in the order of the clique. `stddev` is that of the measurement of the same query, null if this
    exact query was not measured. The file's metadata holds `secure` ("true" or "false"), the `seed` of
    insecure noise and `answered_by`.
    """
    arrow = checks.optional("pyarrow", extra="tables")
    cliques, sizes, estimates, stddevs = [], [], [], []
    measured = {(m.clique, m.query): m for m in release.measurements}
    for entry, estimate in zip(release.workload.entries, release.answers(), strict=True):
        query = entry.query
        measurement = measured.get((query.clique, query))
        stddev = np.full(estimate.size, np.nan) if measurement is None else measurement.row_stddevs()
        cliques.append(query.clique)
        sizes.append(estimate.size)
        estimates.append(estimate)
        stddevs.append(stddev)
    columns = {
        "clique": _cliques(cliques, sizes),
        "cell": _joined([np.arange(n) for n in sizes], np.int64),
        "estimate": _joined(estimates),
        "stddev": arrow.array(_joined(stddevs), from_pandas=True),
    }
    marked = _marked(arrow.table(columns), release.secure, release.seed)
    metadata = {**(marked.schema.metadata or {}), "answered_by": release.answered_by}
    _write_parquet(marked.replace_schema_metadata(metadata), path)


def read(path: pathlib.Path) -> Any:
    """Read a Parquet file of a release as an Arrow table.

    Raises:
        ValueError: the file is missing or damaged, or holds more than fits in memory.
    """
    arrow = checks.optional("pyarrow", extra="tables")
    parquet = checks.optional("pyarrow.parquet", extra="tables")
    if not path.is_file():
        raise ValueError(f"There is no {path}: the release is not complete.")
    try:
        _require_memory(path, parquet.read_metadata(path))
        return parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged: it cannot be read as Parquet.") from error


def _require_memory(path: pathlib.Path, metadata: Any) -> None:
    """Refuse more values than fit in memory, however few bytes they are packed into."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    needed = sum(max(each.total_uncompressed_size, _VALUE_BYTES * each.num_values) for each in columns)
    if needed > (free := available_bytes()):
        raise ValueError(
            f"{path} holds {readable_bytes(needed)} or more, and {readable_bytes(free)} of memory are free."
        )


def _marked(table: Any, secure: bool | None, seed: int | None) -> Any:
    """The table with metadata on whether its noise was secure; unchanged if `secure` is None."""
    if secure is None:
        return table
    mark = {"secure": "true" if secure else "false"}
    return table.replace_schema_metadata(mark if seed is None else {**mark, "seed": str(seed)})


def _write_parquet(table: Any, path: pathlib.Path) -> None:
    checks.optional("pyarrow.parquet", extra="tables").write_table(table, path, compression="zstd")


def _joined(parts: Iterable[np.ndarray], dtype: Any = np.float64) -> np.ndarray:
    parts = list(parts)
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype=dtype)


def _scales(measurements: Sequence[LinearMeasurement]) -> list[np.ndarray]:
    """The noise scale of each row of each measurement, NaN if its distribution is unknown."""
    return [
        np.full(m.values.size, np.nan if m.distribution is None else m.distribution.scale)
        for m in measurements
    ]


def _which(sizes: Sequence[int]) -> np.ndarray:
    """The index of the entry of each table row."""
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def _cliques(cliques: Sequence[Clique], sizes: Sequence[int]) -> Any:
    """A column of attribute lists: `cliques[i]` repeated `sizes[i]` times."""
    arrow = checks.optional("pyarrow", extra="tables")
    return arrow.array([list(clique) for clique in cliques], arrow.list_(arrow.string())).take(_which(sizes))
