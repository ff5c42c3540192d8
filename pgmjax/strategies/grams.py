"""Gram matrices of workloads, factored over attributes, for the expected error of strategies.

The error of a strategy A on a workload W depends on W only through ``W^T W``. The Gram matrix of a Kronecker
product is the product of its factors' Gram matrices, and for all ranges or prefixes it has a closed form, so
neither the queries nor the joint matrix are ever written out.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.queries import Query, identity, total
from pgmjax.queries.blocks import AllRanges, AttributeQuery, Prefix

_MAX_ENTRIES = 50_000_000


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """One product of a factored Gram matrix: a coefficient times a matrix for each attribute.

    Attributes:
        coefficient: the coefficient; may be negative for the mixed products of a weighted sum.
        factors: [size, size] by attribute; attributes left out are summed over (a matrix of ones).
    """

    coefficient: float
    factors: Mapping[str, np.ndarray]

    def factor(self, name: str, size: int) -> np.ndarray:
        """Return the matrix of an attribute [size, size]; all ones if it is summed over."""
        found = self.factors.get(name)
        return np.ones((size, size)) if found is None else found


def block_gram(block: AttributeQuery, size: int) -> np.ndarray:
    """Return ``W^T W`` of a block over `size` codes, float64 [size, size].

    Raises:
        ValueError: a block without a closed form whose matrix would be too large.

    Example:
        >>> from pgmjax.queries import all_ranges, prefix
        >>> block_gram(prefix(), 3).tolist(), block_gram(all_ranges(), 2).tolist()
        ([[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]])
    """
    codes = np.arange(size, dtype=np.float64)
    least, most = np.minimum.outer(codes, codes), np.maximum.outer(codes, codes)
    if isinstance(block, Prefix):
        return size - most
    if isinstance(block, AllRanges):
        return (least + 1) * (size - most)
    return _mixed(block, block, size)


def query_terms(query: Query, domain: Domain, weight: float = 1.0) -> list[Term]:
    """Return the Gram matrix of a query as a sum of products, times `weight`.

    A query that is a sum of t products gives t (t + 1) / 2 terms.

    Raises:
        ValueError: a joint matrix over several attributes, which has no such form.
    """
    query.check(domain)
    terms = []
    parts = query.factors(domain)
    for place, (first, blocks) in enumerate(parts):
        for second, others in parts[place:]:
            twice = 1.0 if others is blocks else 2.0
            factors = {
                name: block_gram(block, domain[name])
                if others is blocks
                else _mixed(block, others[name], domain[name])
                for name, block in blocks.items()
            }
            terms.append(Term(weight * twice * float(first) * float(second), factors))
    return terms


def trace(terms: Iterable[Term], inverses: Mapping[str, np.ndarray]) -> float:
    """Return the trace of a factored Gram matrix times a product of one matrix per attribute.

    Args:
        terms: the Gram matrix.
        inverses: attribute name to matrix [size, size], for all attributes of the terms.
    """
    result = 0.0
    for term in terms:
        value = term.coefficient
        for name, inverse in inverses.items():
            factor = term.factors.get(name)
            value *= float(inverse.sum() if factor is None else np.vdot(factor, inverse))
        result += value
    return result


@functools.lru_cache(maxsize=256)
def _mixed(first: AttributeQuery, second: AttributeQuery, size: int) -> np.ndarray:
    if first == second == identity():
        return np.eye(size)
    if first == second == total():
        return np.ones((size, size))
    if max(first.rows(size), second.rows(size)) * size > _MAX_ENTRIES:
        raise ValueError(
            f"the matrix of the {first.kind} query would have {first.rows(size):,} x {size:,} entries: too "
            "many for its expected error. Use all_ranges or prefix, or fewer rows."
        )
    left, right = (block.matrix(size).astype(np.float64) for block in (first, second))
    return left.T @ right
