"""Queries as a user writes them: `"prefix"`, `{"range": [2, 5]}`, matrices, mappings of attributes.

`from_spec` makes a block from its form in a workload file, and `as_query` makes a query on a clique.
`in_words` describes a query as text, `row_names` the rows of a block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import same_attributes
from pgmjax.queries.blocks import (
    AllRanges,
    AttributeQuery,
    Identity,
    Matrix,
    Mean,
    Merge,
    Moments,
    Point,
    Prefix,
    Range,
    Ranges,
    Subset,
    Total,
)
from pgmjax.queries.query import Product, Query, attribute_names, marginal
from pgmjax.queries.sums import DenseMatrix, WeightedSum

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
    "compression": Merge,
    "mean": Mean,
    "moments": _moments,
    "matrix": Matrix,
}

KINDS = tuple(dict.fromkeys([*_BARE, *_WITH_ARGUMENTS]))


def from_spec(spec: Any) -> AttributeQuery:
    """Return the block for a name or a one-entry mapping; `block.to_spec()` is the inverse.

    Raises:
        TypeError: neither a string nor a mapping.
        ValueError: an unknown name (the message lists the known ones), or invalid arguments.

    Example:
        >>> from_spec({"range": [2, 5]})
        Range(bounds=((2, 5),))
    """
    if isinstance(spec, AttributeQuery):
        return spec
    if isinstance(spec, str):
        if spec in _BARE:
            return _BARE[spec]()
        if spec in _WITH_ARGUMENTS:
            raise ValueError(f"the query {spec!r} needs arguments: write {{{spec!r}: ...}}.")
        known = "prefix" if "cumul" in spec.lower() or spec.lower() == "cdf" else spec
        meant = f" Did you mean {known}?" if known != spec else checks.did_you_mean(spec, KINDS)
        raise ValueError(f"unknown query {spec!r}; the known ones are {', '.join(KINDS)}.{meant}")
    checks.kind(spec, Mapping, "a query is a word or a mapping of one to its arguments")
    if len(spec) != 1:
        raise ValueError(f"a query mapping has one entry, its kind, got {len(spec)}.")
    ((kind, arguments),) = spec.items()
    if kind not in _WITH_ARGUMENTS:
        known = ", ".join(_WITH_ARGUMENTS)
        raise ValueError(f"unknown query with arguments {kind!r}; the known ones are {known}.")
    return _WITH_ARGUMENTS[kind](arguments)


def as_query(clique: Any, query: Any = None) -> Query:
    """Return a query with its attributes in the order of `clique`.

    Args:
        clique: the attributes.
        query: a block, for one attribute; a mapping of attribute names to blocks or their names, with
            identity for the attributes not named; a matrix [rows, cells]; or a query on the same
            attributes. Default: every cell.

    Raises:
        TypeError: none of these.
        ValueError: attributes that differ from the clique's.

    Example:
        >>> as_query(("age", "sex"), {"age": "prefix"}).blocks
        (Prefix(), Identity())
    """
    clique = attribute_names(clique)
    if query is None:
        return marginal(clique)
    if isinstance(query, Query):
        if not same_attributes(query.clique, clique):
            raise ValueError(f"the query is on {query.clique}, but the clique is {clique}.")
        return query.reorder(clique)
    if isinstance(query, AttributeQuery | str):
        if len(clique) > 1:
            raise ValueError(
                f"one query block fits one attribute, but the clique is {clique}: give a mapping of names to "
                "blocks."
            )
        return Product({clique[0]: from_spec(query)})
    if isinstance(query, Mapping):
        unknown = [name for name in query if name not in clique]
        if unknown:
            raise ValueError(f"queries are given for {unknown}, which are not in the clique {clique}.")
        return Product({name: from_spec(query[name]) if name in query else Identity() for name in clique})
    if isinstance(query, np.ndarray | list | tuple):
        return Product({clique[0]: Matrix(query)}) if len(clique) == 1 else DenseMatrix(clique, query)
    raise TypeError(
        f"a query must be a block, a mapping of attribute names to blocks, a matrix or a queries.Query, got "
        f"{type(query).__name__}."
    )


def in_words(query: Query) -> str:
    """Describe a query as text.

    Example:
        >>> from pgmjax.queries.spec import as_query
        >>> in_words(as_query(("age", "sex"), {"age": "prefix"})), in_words(as_query(("sex",), None))
        ('age: prefix', 'every cell')
    """
    if isinstance(query, WeightedSum):
        return f"sum of {len(query.products)} products"
    if not isinstance(query, Product):
        return "matrix"
    named = zip(query.clique, query.blocks, strict=True)
    return (
        ", ".join(f"{name}: {block.kind}" for name, block in named if block.kind != "identity")
        or "every cell"
    )


def row_names(block: AttributeQuery, names: Sequence[str]) -> list[str | None]:
    """Return a name for each row of a block: the codes that it counts. None if it counts all or has weights.

    Args:
        block: a query on one attribute.
        names: the name of each code.

    Example:
        >>> row_names(from_spec("prefix"), ["a", "b", "c"]), row_names(from_spec("total"), ["a", "b"])
        (['a', 'a to b', 'a to c'], [None])
    """
    size = len(names)
    match block:
        case Identity():
            return list(names)
        case Subset():
            return ["|".join(names[code] for code in block.codes)]
        case Merge():
            groups: list[list[str]] = [[] for _ in range(block.rows(size))]
            for group, name in zip(block.groups.array.tolist(), names, strict=True):
                groups[group].append(name)
            return ["|".join(group) or None for group in groups]
        case Ranges():
            bounds: Iterable[tuple[int, int]] = block.bounds
        case Prefix():
            bounds = ((0, high) for high in range(size))
        case AllRanges():
            bounds = itertools.combinations_with_replacement(range(size), 2)
        case _:
            return [None] * block.rows(size)
    return [names[low] if low == high else f"{names[low]} to {names[high]}" for low, high in bounds]
