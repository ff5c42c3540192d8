"""Query blocks in the form of a workload file: `"prefix"`, `{"range": [2, 5]}`, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pgmjax.queries.block import AttributeQuery
from pgmjax.queries.blocks import Identity, Point, Subset, Total
from pgmjax.queries.numeric_blocks import Compression, Matrix, Mean, Moments
from pgmjax.queries.range_blocks import AllRanges, Prefix, Range, Ranges

_BARE: dict[str, Callable[[], AttributeQuery]] = {
    "identity": Identity,
    "total": Total,
    "prefix": Prefix,
    "all_ranges": AllRanges,
    "mean": Mean,
}


def _range(bounds: Any) -> Range:
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise ValueError('a range is written {"range": [low, high]}, both ends included.')
    return Range(*bounds)


def _moments(arguments: Any) -> Moments:
    if not isinstance(arguments, Mapping):
        return Moments(arguments)
    unknown = sorted(map(str, set(arguments) - {"order", "values"}))
    if unknown or "order" not in arguments:
        raise ValueError(f"moments take the keys 'order' and 'values', got {sorted(map(str, arguments))}.")
    return Moments(arguments["order"], arguments.get("values"))


_WITH_ARGUMENTS: dict[str, Callable[[Any], AttributeQuery]] = {
    "point": Point,
    "subset": Subset,
    "range": _range,
    "ranges": Ranges,
    "compression": Compression,
    "mean": Mean,
    "moments": _moments,
    "matrix": Matrix,
}

KINDS = tuple(dict.fromkeys([*_BARE, *_WITH_ARGUMENTS]))


def from_spec(spec: Any) -> AttributeQuery:
    """Return the block that a word or a one-entry mapping names; `block.to_spec()` is its inverse.

    Raises:
        TypeError: neither a word nor a mapping.
        ValueError: an unknown word (the known ones are named), or arguments that do not fit.

    Example:
        >>> from_spec({"range": [2, 5]})
        Range(low=2, high=5)
    """
    if isinstance(spec, AttributeQuery):
        return spec
    if isinstance(spec, str):
        if spec in _BARE:
            return _BARE[spec]()
        if spec in _WITH_ARGUMENTS:
            raise ValueError(f"the query {spec!r} needs arguments: write {{{spec!r}: ...}}.")
        raise ValueError(f"unknown query {spec!r}; the known ones are {', '.join(KINDS)}.")
    if not isinstance(spec, Mapping):
        raise TypeError(f"a query is a word or a mapping of one to its arguments, got {type(spec).__name__}.")
    if len(spec) != 1:
        raise ValueError(f"a query mapping has one entry, its kind, got {len(spec)}.")
    ((kind, arguments),) = spec.items()
    if kind not in _WITH_ARGUMENTS:
        known = ", ".join(_WITH_ARGUMENTS)
        raise ValueError(f"unknown query with arguments {kind!r}; the known ones are {known}.")
    return _WITH_ARGUMENTS[kind](arguments)
