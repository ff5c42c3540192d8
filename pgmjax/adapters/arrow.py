"""Arrow tables out and in: rows of a model, its marginals, and the noisy answers of a release.

Tables go out as `pyarrow.Table`, which has the Arrow C stream interface, so polars, pandas and DuckDB read
them without a copy; anything with that interface (`__arrow_c_stream__`) comes in. Private tables come in
through `Dataset.from_frame`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data import arrow as source_arrow
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import CONTINUOUS, DiscreteNoise, read_noise
from pgmjax.model import row_file
from pgmjax.model.graphical import GraphicalModel
from pgmjax.release.tables import measurements_table

_COLUMNS = ("clique", "row", "value", "stddev", "noise")


def rows_to_arrow(columns: Mapping[str, Any], domain: Domain, decode: bool = True) -> Any:
    """Return rows of codes, such as `model.sample` draws, as an Arrow table.

    Args:
        columns: for each attribute its codes [rows].
        domain: what the codes stand for.
        decode: labels, bins as text, and null where a value is missing; otherwise the codes.

    Raises:
        ValueError: an unknown attribute, or a code outside its size.

    Example:
        >>> domain = Domain({"sex": {"labels": ["F", "M"], "missing": True}})
        >>> rows_to_arrow({"sex": np.array([1, 2, 0])}, domain).to_pydict()
        {'sex': ['M', None, 'F']}
    """
    arrow = checks.optional("pyarrow", extra="tables")
    arrays = {}
    for name, given in columns.items():
        codes, size = np.asarray(given), domain[name]
        if codes.dtype.kind not in "iu" or (codes.size and not (codes.min() >= 0 and codes.max() < size)):
            raise ValueError(f"the codes of {name!r} must be integers in 0..{size - 1}.")
        arrays[name] = row_file.arrow_column(domain.attribute(name), codes, decode)
    return arrow.table(arrays)


def rows_from_arrow(table: Any, domain: Domain) -> dict[str, np.ndarray]:
    """Return the codes of rows that are no secret, such as synthetic ones of another library.

    Args:
        table: of labels, numbers or codes as the domain describes them; other columns are left out.
        domain: the attributes.

    Returns:
        For each attribute that has a column its codes [rows], as `model.check_rows` and `model.complete` take
        them.

    Raises:
        TypeError: no table, or a column of a type that its attribute does not take.
        ValueError: no column of the domain, or values outside it; they are counted and not shown.

    Example:
        >>> import pyarrow
        >>> table = pyarrow.table({"sex": ["M", "F"], "id": [7, 8]})
        >>> rows_from_arrow(table, Domain({"sex": {"labels": ["F", "M"]}}))["sex"].tolist()
        [1, 0]
    """
    frame = _table(table)
    found = {}
    for name in domain:
        if name not in frame.column_names:
            continue
        if frame.column_names.count(name) > 1:
            raise ValueError(
                f"the table has {frame.column_names.count(name)} columns named {name!r}, not one."
            )
        attribute = domain.attribute(name)
        encoded = source_arrow.encode_column(frame, name, attribute.coder)
        problem = attribute.problem(encoded)
        if problem:
            raise ValueError(problem)
        found[name] = encoded.codes
    if not found:
        raise ValueError("the table has no column of the domain: columns are found by their names.")
    return found


def marginal_to_arrow(model: GraphicalModel, clique: Clique, decode: bool = True) -> Any:
    """Return a model's marginal as an Arrow table: a column an attribute, then `count`; a row for each cell.

    Args:
        model: the model.
        clique: attribute names.
        decode: labels, bins as text, and null for the missing bucket; otherwise codes.

    Raises:
        ValueError: an unknown attribute, one called `count`, or a table larger than memory.

    Example:
        >>> model = GraphicalModel.from_potentials(Domain({"sex": {"labels": ["F", "M"]}}), {}, total=10)
        >>> marginal_to_arrow(model, ("sex",)).to_pydict()
        {'sex': ['F', 'M'], 'count': [5.0, 5.0]}
    """
    arrow = checks.optional("pyarrow", extra="tables")
    names = as_clique(model.domain, clique)
    if "count" in names:
        raise ValueError("an attribute is called 'count', as the column of counts: rename it first.")
    counts = model.marginal(names)
    codes = np.indices(counts.shape).reshape(len(names), -1)
    rows = rows_to_arrow(dict(zip(names, codes, strict=True)), model.domain, decode)
    return rows.append_column("count", arrow.array(counts.reshape(-1)))


def measurements_to_arrow(measurements: Sequence[LinearMeasurement]) -> Any:
    """Return noisy answers in the layout of a release's `measurements.parquet`.

    Columns: clique (list of names), row, value, stddev, noise and scale (of the discrete distribution, null
        where it
    is not known). What was asked is not among them: `measurements_from_arrow` needs the queries of all but
    whole marginals.
    """
    return measurements_table(list(measurements))


def measurements_from_arrow(table: Any, queries: Sequence[Any] | None = None) -> list[LinearMeasurement]:
    """Return the noisy answers of a table in the layout of `measurements.parquet`.

    Args:
        table: with the columns clique, row, value, stddev and noise, and scale where distributions are known.
            A measurement begins where `row` is 0.
        queries: what was asked, one a measurement: None for a whole marginal, or anything that
            `LinearMeasurement` takes; None alone where all are whole marginals.

    Raises:
        TypeError: no table.
        ValueError: columns that are missing, rows that are not numbered 0, 1, ..., or another number of
            queries.

    Example:
        >>> given = LinearMeasurement(("sex",), [10, 7], stddev=2.0)
        >>> measurements_from_arrow(measurements_to_arrow([given]))
        [LinearMeasurement(('sex',), 2 values, stddev=2, noise='gaussian')]
    """
    frame = _table(table)
    absent = [name for name in _COLUMNS if name not in frame.column_names]
    if absent:
        raise ValueError(
            f"a table of measurements must have the columns {list(_COLUMNS)}; {absent} are missing."
        )
    rows = frame.column("row").to_numpy()
    starts = np.flatnonzero(rows == 0)
    sizes = np.diff(np.append(starts, len(rows)))
    if not np.array_equal(rows, np.concatenate([np.zeros(0, int), *map(np.arange, sizes)])):
        raise ValueError("the rows of each measurement must stand together, numbered 0, 1, and so on.")
    asked = [None] * len(starts) if queries is None else list(queries)
    if len(asked) != len(starts):
        raise ValueError(f"there must be a query for each of {len(starts)} measurements, got {len(asked)}.")
    parts = (frame.slice(start, size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True))
    return [_measurement(part, query) for part, query in zip(parts, asked, strict=True)]


def _measurement(part: Any, query: Any) -> LinearMeasurement:
    cliques, distributions = part.column("clique").to_pylist(), part.column("noise").unique().to_pylist()
    if any(clique != cliques[0] for clique in cliques) or len(distributions) != 1:
        raise ValueError("the rows of one measurement must have one clique and one noise.")
    stddev = part.column("stddev").to_numpy()
    stddev = stddev[0] if (stddev == stddev[0]).all() else stddev
    distribution = _distribution(part, distributions[0])
    return LinearMeasurement(
        tuple(cliques[0]), part.column("value").to_numpy(), stddev, query, distributions[0], distribution
    )


def _distribution(part: Any, noise: str) -> DiscreteNoise | None:
    """The distribution of a measurement's noise, where its scale is there."""
    scale = part.column("scale")[0].as_py() if "scale" in part.column_names else None
    only_scale = noise in CONTINUOUS  # the columns hold no other parameter
    return None if scale is None or not only_scale else read_noise(noise, {"scale": scale})


def _table(table: Any) -> Any:
    """Anything with the Arrow C stream interface as an Arrow table."""
    arrow = checks.optional("pyarrow", extra="tables")
    if isinstance(table, arrow.Table):
        return table
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(
            "expected an Arrow table, or a frame with __arrow_c_stream__ (polars, pandas), got "
            f"{type(table).__name__}."
        )
    return arrow.table(table)
