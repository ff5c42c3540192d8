"""From what a user writes to a query on a clique."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax.data.cliques import same_attributes
from pgmjax.queries.block import AttributeQuery
from pgmjax.queries.blocks import Identity
from pgmjax.queries.dense import DenseMatrix
from pgmjax.queries.numeric_blocks import Matrix
from pgmjax.queries.product import Product, marginal
from pgmjax.queries.query import Query, attribute_names
from pgmjax.queries.spec import from_spec


def as_query(clique: Any, query: Any = None) -> Query:
    """Return a query whose attributes stand in the order of `clique`.

    Args:
        clique: the attributes.
        query: None (every cell); a block, for one attribute; a mapping of names to blocks or their
            words, with identity for the attributes not named; a matrix [rows, cells]; or a query on
            the same attributes.

    Raises:
        TypeError: none of these.
        ValueError: other attributes than the clique's.

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
        return _from_mapping(clique, query)
    if isinstance(query, np.ndarray | list | tuple):
        return Product({clique[0]: Matrix(query)}) if len(clique) == 1 else DenseMatrix(clique, query)
    raise TypeError(
        f"a query must be a block, a mapping of attribute names to blocks, a matrix or a queries.Query, got "
        f"{type(query).__name__}."
    )


def _from_mapping(clique: tuple[str, ...], query: Mapping[Any, Any]) -> Product:
    unknown = [name for name in query if name not in clique]
    if unknown:
        raise ValueError(f"queries are given for {unknown}, which are not in the clique {clique}.")
    return Product({name: from_spec(query[name]) if name in query else Identity() for name in clique})
