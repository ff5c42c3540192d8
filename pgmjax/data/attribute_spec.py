"""What a domain file says of one attribute, checked and turned into the fields of an `Attribute`."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.values import Label, text_of

_KEYS = ("size", "labels", "bins", "missing", "clip")


def fields(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the attribute that a mapping describes; see `Attribute.from_spec`."""
    unknown = [key for key in spec if key not in _KEYS]
    if unknown:
        raise ValueError(f"Attribute {name!r} has unknown keys {unknown}: expected {list(_KEYS)}.")
    kinds = [key for key in ("size", "labels", "bins") if key in spec]
    if len(kinds) != 1:
        raise ValueError(f"Attribute {name!r} must have one of size, labels and bins, got {kinds}.")
    missing, markers = _missing(name, spec.get("missing", False))
    clip = spec.get("clip", False)
    if not isinstance(clip, bool):
        raise TypeError(f"'clip' of attribute {name!r} must be true or false, got {type(clip).__name__}.")
    common = {"missing": missing, "missing_markers": markers, "clip": clip}
    if "size" in spec:
        size = checks.integer(f"The size of attribute {name!r}", spec["size"], low=1)
        return {"size": size + missing, **common}
    values = spec[kinds[0]]
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"The {kinds[0]} of attribute {name!r} must be a list.")
    values = tuple(values)
    codes = len(values) if "labels" in spec else max(len(values) - 1, 1)
    return {"size": max(codes, 1) + missing, kinds[0]: values, **common}


def _missing(name: str, value: Any) -> tuple[bool, tuple[Label, ...]]:
    if isinstance(value, bool):
        return value, ()
    if isinstance(value, (list, tuple)):
        return bool(value), tuple(value)
    if isinstance(value, (str, int, float)):
        return True, (value,)
    raise TypeError(f"'missing' of attribute {name!r} must be true, a marker or a list of markers.")


def labels(name: str, what: str, values: Iterable[Any]) -> tuple[Label, ...]:
    """Return labels or markers, if they are scalars that differ from one another."""
    values = tuple(values)
    if not values:
        raise ValueError(f"The {what} of attribute {name!r} must not be empty.")
    for value in values:
        if not isinstance(value, (str, bool, int, float)):
            raise TypeError(
                f"The {what} of attribute {name!r} must be text, numbers or bools, got "
                f"{type(value).__name__} (in YAML, put dates and the like in quotes)."
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"The {what} of attribute {name!r} must be finite (missing: true reads NaN).")
    if len({text_of(value) for value in values}) < len(values) or len(set(values)) < len(values):
        raise ValueError(f"The {what} of attribute {name!r} must differ from one another, also as text.")
    return values


def bins(name: str, edges: Iterable[Any]) -> tuple[float, ...]:
    """Return the edges of bins, if they are finite and increasing."""
    edges = tuple(edges)
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, numbers.Real):
            raise TypeError(f"The bins of attribute {name!r} must be numbers, got {type(edge).__name__}.")
    values = tuple(float(edge) for edge in edges)
    increasing = all(low < high for low, high in itertools.pairwise(values))
    if len(values) < 2 or not increasing or not all(map(math.isfinite, values)):
        raise ValueError(f"The bins of attribute {name!r} must be two or more finite edges, increasing.")
    return values
