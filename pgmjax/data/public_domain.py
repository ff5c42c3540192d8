"""Infer the attributes of a table that is public, for `Domain.from_public_data`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import Attribute


def infer(frame: Any, bins: int | Mapping[str, Any] | None, max_labels: int) -> dict[str, Attribute]:
    """Return an attribute for every column of a frame; see `Domain.from_public_data`."""
    names = _names(frame)
    chosen = bins if isinstance(bins, Mapping) else {}
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(f"bins names {unknown}, which are not columns of the table.")
    attributes = {}
    for name in names:
        values, missing = _distinct(frame[name])
        if not values:
            raise ValueError(f"Column {name!r} holds no value: say its domain by hand.")
        numeric = all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in values)
        cells = chosen.get(name, bins if isinstance(bins, int) and numeric else None)
        attributes[name] = _attribute(name, values, missing, cells, numeric, max_labels)
    return attributes


def _attribute(
    name: str, values: list[Any], missing: bool, cells: Any, numeric: bool, max_labels: int
) -> Attribute:
    spec: dict[str, Any] = {"missing": missing}
    if cells is not None:
        if not numeric:
            raise ValueError(f"Column {name!r} does not hold numbers only, so it cannot have bins.")
        spec["bins"] = _equal_width(name, values, cells) if isinstance(cells, int) else list(cells)
    elif len(values) > max_labels:
        raise ValueError(
            f"Column {name!r} has more than {max_labels} distinct values: give it bins or raise max_labels."
        )
    else:
        same_type = len({type(value) for value in values}) == 1
        spec["labels"] = sorted(values, key=None if same_type or numeric else str)
    return Attribute.from_spec(name, spec)


def _equal_width(name: str, values: list[Any], cells: int) -> list[float]:
    cells = checks.integer(f"The number of bins of column {name!r}", cells, low=1)
    low, high = float(min(values)), float(max(values))
    return np.linspace(low, high if high > low else low + 1, cells + 1).tolist()


def _names(frame: Any) -> list[str]:
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    names = list(frame) if names is None else list(names)
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise ValueError("The columns of the table must have names that are strings, each once.")
    return names


def _distinct(column: Any) -> tuple[list[Any], bool]:
    to_list = getattr(column, "to_pylist", None) or getattr(column, "tolist", None)
    to_list = to_list or getattr(column, "to_list", None)
    found = dict.fromkeys(to_list() if to_list else column)
    gone = [v for v in found if v is None or type(v).__name__ in ("NAType", "NaTType") or v != v]
    missing = bool(gone)
    return [v for v in found if not any(v is other for other in gone) and not _is_nan(v)], missing


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
