"""A query in a few words, for people: what is asked of each attribute."""

from __future__ import annotations

from pgmjax.queries.product import Product
from pgmjax.queries.query import Query
from pgmjax.queries.sums import WeightedSum


def in_words(query: Query) -> str:
    """Say what a query asks.

    Example:
        >>> from pgmjax.queries import as_query
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
