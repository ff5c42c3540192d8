"""What tables and arrays of other libraries consist of; none of them is imported for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pgmjax.audit.parts import Parts


def _jax(value: Any) -> Parts | None:
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(value, jax.Array):
        return None
    frame = ((" (dtype)", str(value.dtype)),)
    keys = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return Parts((("", np.asarray(jax.random.key_data(value) if keys else value)),), frame)


def _pandas(value: Any) -> Parts | None:
    pandas: Any = sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        columns = tuple((f"[{name!r}]", value.iloc[:, i].array) for i, name in enumerate(value.columns))
        frame = ((" (columns)", value.columns), (" (index)", value.index))
        return Parts((*columns, (".attrs", value.attrs)), frame)
    if isinstance(value, pandas.Series):
        frame = ((" (name)", value.name), (" (index)", value.index))
        return Parts((("", value.array), (".attrs", value.attrs)), frame)
    if isinstance(value, pandas.Index | pandas.api.extensions.ExtensionArray):
        names = list(value.names) if isinstance(value, pandas.Index) else None
        plain = np.asarray(value) if isinstance(value.dtype, np.dtype) else value.tolist()
        return Parts((("", plain),), ((" (names)", names), (" (dtype)", str(value.dtype))))
    if isinstance(value, pandas.Period | pandas.Interval):
        return Parts(mark=repr(value))
    return None


def _arrow(value: Any) -> Parts | None:
    arrow: Any = sys.modules["pyarrow"]
    if isinstance(value, arrow.Table | arrow.RecordBatch):
        columns = zip(value.schema.names, value.columns, strict=True)
        parts = tuple((f"[{name!r}]", column) for name, column in columns)
        return Parts(parts, ((" (schema)", value.schema),))
    if isinstance(value, arrow.Array | arrow.ChunkedArray):
        return Parts((("", value.to_pylist()),), ((" (type)", value.type),))
    if isinstance(value, arrow.Scalar):
        return Parts((("", value.as_py()),), ((" (type)", value.type),))
    if isinstance(value, arrow.Field | arrow.DataType):
        field = value if isinstance(value, arrow.Field) else arrow.field("", value)
        return Parts(mark=arrow.schema([field]).serialize().to_pybytes())
    if isinstance(value, arrow.Schema):
        return Parts(mark=value.serialize().to_pybytes())
    return None


def _polars(value: Any) -> Parts | None:
    if not hasattr(value, "to_arrow"):
        return None
    return Parts((("", value.to_arrow()),), ((" (name)", getattr(value, "name", None)),))


LIBRARIES: dict[str, Callable[[Any], Parts | None]] = {
    "jax": _jax,
    "jaxlib": _jax,
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _arrow,
}
"""By the first name of a module, how values of its classes fall into parts; None for those that do not."""
