"""A strategy: the queries that are measured for a workload, and what error that will bring."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import AttributeQuery, DenseMatrix, Product, Query, identity, quantise, total
from pgmjax.queries.quantise import MAX_BITS
from pgmjax.queries.workload import Workload
from pgmjax.strategies.grams import Term, block_gram, query_terms, trace
from pgmjax.strategies.weighted_marginals import Spectrum

_SMALLEST_VARIANCE = 1e-100
"""Noise at a large epsilon has a variance of 0 in floats; one over it must leave room for sums."""


@dataclasses.dataclass(frozen=True, eq=False)
class Strategy(abc.ABC):
    """Integral queries to be measured, each with its share of the budget.

    Attributes:
        name: which one it is.
        queries: what is measured, with integers as entries.
        shares: of the budget, one a query, > 0 with sum 1: of epsilon (Laplace) or rho (Gaussian).
    """

    name: str
    queries: tuple[Query, ...]
    shares: tuple[float, ...]

    @abc.abstractmethod
    def errors(self, variances: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return the expected squared error of each entry of the workload, all its queries together.

        Args:
            variances: of the noise of each query's answers, in its own units.

        Returns:
            [entries], by least squares; a fitted model, which knows more, mostly does better.
        """


@dataclasses.dataclass(frozen=True, eq=False)
class LocalStrategy(Strategy):
    """Each entry of the workload is answered from one of the queries.

    Attributes:
        serves: the number of the query that serves each entry.
        traces: error of each entry where that query's noise has variance 1.
    """

    serves: tuple[int, ...]
    traces: tuple[float, ...]

    def errors(self, variances: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return the expected squared error of each entry [entries], by least squares from its query."""
        return np.asarray(variances, float)[list(self.serves)] * np.array(self.traces)


@dataclasses.dataclass(frozen=True, eq=False)
class MarginalStrategy(Strategy):
    """Whole marginals, which all help to answer every entry.

    Attributes:
        places: the number of each query's marginal in the spectrum.
        spectrum: the workload as far as marginals can tell.
    """

    places: tuple[int, ...]
    spectrum: Spectrum

    def errors(self, variances: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return the expected squared error of each entry [entries], by least squares from all marginals."""
        precisions = np.zeros(len(self.spectrum.marginals))
        precisions[list(self.places)] = 1 / np.maximum(variances, _SMALLEST_VARIANCE)
        return self.spectrum.errors(precisions)


def sensitivity_squared(query: Query, norm: str, relation: Relation, domain: Domain) -> float:
    """Return the square of an integral query's L1 or L2 sensitivity; 1 for one that never moves.

    Under replace-one the total does not move; it gets noise all the same.
    """
    if norm == "l1":
        return float(query.l1_sensitivity(relation, domain) or 1) ** 2
    return float(query.l2_sensitivity_squared(relation, domain) or 1)


def unit_variances(strategy: Strategy, norm: str, relation: Relation, domain: Domain) -> np.ndarray:
    """Return the variance of each query's noise in units of ``2 / epsilon**2`` or ``1 / (2 rho)``."""
    parts = np.array(strategy.shares, dtype=float)
    squares = np.array([sensitivity_squared(query, norm, relation, domain) for query in strategy.queries])
    return squares / (parts**2 if norm == "l1" else parts)


def weighted_error(strategy: Strategy, variances: Sequence[float] | np.ndarray, workload: Workload) -> float:
    """Return the sum of the entries' errors, each times its weight squared: what strategies compete for."""
    weights = np.array([float(entry.weight) ** 2 for entry in workload.entries])
    return float(weights @ strategy.errors(variances))


def whole(query: Query, domain: Domain) -> Query:
    """Return a query with integers as entries, finely rounded where it has others.

    Its factors share up to 30 bits, 16 where only one is rounded.
    """
    if query.is_integral(domain):
        return query
    real = 1
    if isinstance(query, Product):
        real = sum(not block.is_integral(domain[name]) for name, block in query.factors(domain)[0][1].items())
    return quantise(query, domain, bits=min(MAX_BITS - 2, 6 + 10 * real)).query


def entry_terms(workload: Workload, domain: Domain) -> list[list[Term]]:
    """Return the Gram matrix of each entry as a sum of products.

    Raises:
        ValueError: an entry is one joint matrix over several attributes.
    """
    return [query_terms(entry.query, domain) for entry in workload.entries]


def entry_trace(asked: Query, measured: Query, domain: Domain) -> float:
    """Return the error of a query answered from another's answers with noise of variance 1.

    A query that is measured itself counts with its own rows, unless it is a product, where its answers
    help each other.

    Raises:
        ValueError: neither are both products, nor is every cell measured.
    """
    if not isinstance(measured, Product):
        return float(asked.num_rows(domain))
    blocks = measured.factors(domain)[0][1]
    if isinstance(asked, DenseMatrix) and len(asked.clique) > 1:
        if any(block != identity() for block in blocks.values()):
            raise ValueError(f"the joint matrix over {asked.clique} is answered from whole marginals only.")
        return float((asked.entries.array.astype(float) ** 2).sum())
    inverses = {name: block_inverse(block, domain[name]) for name, block in blocks.items()}
    return trace(query_terms(asked, domain), inverses)


def block_inverse(block: AttributeQuery, size: int) -> np.ndarray:
    """Return ``(A^T A)^+`` [size, size] of a block."""
    if block == identity():
        return np.eye(size)
    if block == total():
        return np.full((size, size), 1.0 / size**2)
    return np.linalg.pinv(block_gram(block, size), hermitian=True)


def to_spec(strategy: Strategy) -> list[dict[str, Any]]:
    """Return what is measured, for the records: each query with its share."""
    return [
        {"query": query.to_spec(), "share": share}
        for query, share in zip(strategy.queries, strategy.shares, strict=True)
    ]
