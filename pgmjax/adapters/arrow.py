"""Conversion to and from Arrow tables: rows of a model, its marginals, and the noisy answers of a release.

The output is a `pyarrow.Table`, which has the Arrow C stream interface, so polars, pandas and DuckDB read it
without a copy. Any object with that interface (`__arrow_c_stream__`) is accepted as input. Private tables are
read with `Dataset.from_frame` instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import migration
from pgmjax._internal.extras import arrow
from pgmjax.data import arrow as source_arrow
from pgmjax.data.domain import Clique, Domain, as_clique, as_domain
from pgmjax.data.encoding import checked_codes
from pgmjax.data.text_file import positions_of
from pgmjax.data.value import places_of
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import CONTINUOUS, DiscreteNoise, read_noise
from pgmjax.model import row_file
from pgmjax.model.graphical import GraphicalModel
from pgmjax.release.tables import measurements_table

_COLUMNS = ("clique", "row", "value", "stddev", "noise")


def rows_to_arrow(
    columns: Mapping[str, Any], domain: Domain, decode: bool | str = True, seed: int = 0
) -> Any:
    """Return rows of codes, such as those from `model.sample`, as an Arrow table.

    Args:
        columns: codes [rows] of each attribute.
        domain: the domain of the codes.
        decode: False returns codes; True labels, bins as text, and null for missing values; "values" what a
            table of the domain holds, as `sample_to` writes it.
        seed: of the numbers drawn within bins; those of `sample_to` with this seed.

    Raises:
        TypeError: codes are no integers.
        ValueError: an attribute is unknown, a code is out of range, or `decode` is none of these.

    Example:
        >>> domain = Domain({"sex": {"labels": ["F", "M"], "missing": True}})
        >>> rows_to_arrow({"sex": np.array([1, 2, 0])}, domain).to_pydict()
        {'sex': ['M', None, 'F']}
    """
    row_file.check_decode(decode)
    checked = {}
    for name, given in columns.items():
        checked[name] = checked_codes(f"the codes of {name!r}", given, domain[name])
    return arrow.table(row_file.arrow_columns(domain, checked, decode, seed))


def rows_from_arrow(table: Any, domain: Domain) -> dict[str, np.ndarray]:
    """Return the codes of public rows, such as synthetic rows of another library.

    Args:
        table: table of labels, numbers or codes, as described by the domain; other columns are ignored.
        domain: the domain.

    Returns:
        Codes [rows] of each attribute that has a column, in the form that `model.check_rows` and
        `model.complete` accept.

    Raises:
        TypeError: `table` is not a table, or a column has a type that its attribute does not accept.
        ValueError: no column is in the domain, or values are outside it; they are counted, not shown.

    Example:
        >>> import pyarrow
        >>> table = pyarrow.table({"sex": ["M", "F"], "id": [7, 8]})
        >>> rows_from_arrow(table, Domain({"sex": {"labels": ["F", "M"]}}))["sex"].tolist()
        [1, 0]
    """
    domain = as_domain(domain, "rows_from_arrow(table, domain)", table)
    frame = _table(table)
    names = [name for name in domain if places_of(name, frame.column_names)]
    if not names:
        raise ValueError("the table has no column of the domain: columns are found by their names.")
    found = {}
    for name, place in positions_of("The table", names, frame.column_names).items():
        attribute = domain.attribute(name)
        encoded = source_arrow.encode_column(frame, place, attribute.coder)
        problem = attribute.problem(encoded)
        if problem:
            raise ValueError(problem)
        found[name] = encoded.codes
    return found


def marginal_to_arrow(model: GraphicalModel, clique: Clique, decode: bool = True) -> Any:
    """Return a model's marginal as an Arrow table: one column per attribute, then `count`; one row per cell.

    Args:
        model: the model.
        clique: attribute names.
        decode: whether to return labels, bins as text, and null for the missing bucket, instead of codes.

    Raises:
        ValueError: an attribute is unknown or called `count`, or the marginal does not fit in memory.

    Example:
        >>> model = GraphicalModel.from_potentials(Domain({"sex": {"labels": ["F", "M"]}}), {}, total=10)
        >>> marginal_to_arrow(model, ("sex",)).to_pydict()
        {'sex': ['F', 'M'], 'count': [5.0, 5.0]}
    """
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
    if unknown). Queries are not included; `measurements_from_arrow` needs those other than whole marginals.
    """
    return measurements_table(list(measurements))


def measurements_from_arrow(table: Any, queries: Sequence[Any] | None = None) -> list[LinearMeasurement]:
    """Return the noisy answers of a table in the layout of `measurements.parquet`.

    Args:
        table: table with the columns clique, row, value, stddev and noise, and optionally scale. A new
            measurement starts wherever `row` is 0.
        queries: one query per measurement: None for a whole marginal, or anything that `LinearMeasurement`
            accepts. Default: all are whole marginals.

    Raises:
        TypeError: `table` is not a table.
        ValueError: columns are missing, rows are not numbered 0, 1, ..., or the number of queries is wrong.

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
    """The noise distribution of a measurement, or None unless its scale alone determines it."""
    scale = part.column("scale")[0].as_py() if "scale" in part.column_names else None
    return None if scale is None or noise not in CONTINUOUS else read_noise(noise, {"scale": scale})


def _table(table: Any) -> Any:
    """Any object with the Arrow C stream interface, as an Arrow table."""
    if isinstance(table, arrow.Table):
        return table
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(
            "expected an Arrow table, or a frame with __arrow_c_stream__ (polars, pandas), got "
            f"{type(table).__name__}."
        )
    return arrow.table(table)


migration.answer(globals())
