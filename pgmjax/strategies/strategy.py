"""Strategies of the matrix mechanism: the queries measured for a workload, and their expected error.

The rows of a strategy A are measured; the workload is answered by least squares. With Laplace noise the total
expected squared error is ``(2 / epsilon^2) |A|_1^2 tr(W^T W (A^T A)^+)``, with Gaussian noise
``(1 / (2 rho)) |A|_2^2 tr(...)``, where ``|A|_p`` is the largest norm of a column. The functions here
evaluate these formulas without drawing noise and leave out the first factor: an error "in units" must be
multiplied by ``2 / epsilon**2`` or ``1 / (2 rho)``. The formulas hold for the continuous distributions of the
papers and add/remove neighbours; `HDMM.expected_errors` gives the errors of an actual release.

References:
    Li et al. 2015, "The matrix mechanism"; McKenna et al. 2018, "Optimizing error of high-dimensional
    statistical queries under differential privacy"; McKenna et al. 2019, section 5.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import DenseMatrix, Product, Query, identity, total
from pgmjax.queries.blocks import AttributeQuery
from pgmjax.queries.rounding import MAX_BITS, quantise
from pgmjax.queries.workload import Workload
from pgmjax.strategies.grams import block_gram, query_terms, trace
from pgmjax.strategies.weighted_marginals import Spectrum

_SMALLEST_VARIANCE = 1e-100
"""Floor of noise variances, which may be 0 in floats at a large epsilon; keeps sums of inverses finite."""


@dataclasses.dataclass(frozen=True, eq=False)
class Strategy(abc.ABC):
    """Integral queries to be measured, each with its share of the budget.

    Attributes:
        name: name of the strategy.
        queries: the measured queries, with integer entries.
        shares: share of the budget of each query, > 0 with sum 1; of epsilon (Laplace) or rho (Gaussian).
    """

    name: str
    queries: tuple[Query, ...]
    shares: tuple[float, ...]

    @abc.abstractmethod
    def errors(self, variances: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return the expected squared error of each entry, summed over its queries.

        Args:
            variances: noise variance of each query's answers, in the query's own units.

        Returns:
            [entries], by least squares; a fitted model uses more information and is usually better.
        """


@dataclasses.dataclass(frozen=True, eq=False)
class LocalStrategy(Strategy):
    """Strategy that answers each entry of the workload from one of its queries.

    Attributes:
        serves: the index of the query that answers each entry.
        traces: error of each entry if that query's noise has variance 1.
    """

    serves: tuple[int, ...]
    traces: tuple[float, ...]

    def errors(self, variances: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return the expected squared error of each entry [entries], by least squares from its query."""
        return np.asarray(variances, float)[list(self.serves)] * np.array(self.traces)


@dataclasses.dataclass(frozen=True, eq=False)
class MarginalStrategy(Strategy):
    """Strategy of whole marginals, all of which contribute to every entry.

    Attributes:
        places: index of each query's marginal in the spectrum.
        spectrum: the workload's spectrum.
    """

    places: tuple[int, ...]
    spectrum: Spectrum

    def errors(self, variances: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return the expected squared error of each entry [entries], by least squares from all marginals."""
        precisions = np.zeros(len(self.spectrum.marginals))
        precisions[list(self.places)] = 1 / np.maximum(variances, _SMALLEST_VARIANCE)
        return self.spectrum.errors(precisions)


def sensitivity_squared(query: Query, norm: str, relation: Relation, domain: Domain) -> float:
    """Return the square of an integral query's L1 or L2 sensitivity; 1 if it is zero.

    Under replace-one the total has sensitivity 0, but noise is added to it anyway.
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
    """Return the objective: the sum of the entries' errors, each times its squared weight."""
    weights = np.array([float(entry.weight) ** 2 for entry in workload.entries])
    return float(weights @ strategy.errors(variances))


def whole(query: Query, domain: Domain) -> Query:
    """Return a query with integer entries, finely rounded if necessary.

    Its factors share up to 30 bits; 16 if only one factor is rounded.
    """
    if query.is_integral(domain):
        return query
    real = 1
    if isinstance(query, Product):
        real = sum(not block.is_integral(domain[name]) for name, block in query.factors(domain)[0][1].items())
    return quantise(query, domain, bits=min(MAX_BITS - 2, 6 + 10 * real)).query


def entry_trace(target: Query, measured: Query, domain: Domain) -> float:
    """Return the error of a query answered from another's answers with noise of variance 1.

    If the measured query is not a product, the error is the number of rows asked for. Otherwise the answers
    are combined by least squares.

    Raises:
        ValueError: a joint matrix is asked for, but the measured product is not a whole marginal.
    """
    if not isinstance(measured, Product):
        return float(target.num_rows(domain))
    blocks = measured.factors(domain)[0][1]
    if isinstance(target, DenseMatrix) and len(target.clique) > 1:
        if any(block != identity() for block in blocks.values()):
            raise ValueError(f"the joint matrix over {target.clique} is answered from whole marginals only.")
        return float((target.entries.array.astype(float) ** 2).sum())
    inverses = {name: block_inverse(block, domain[name]) for name, block in blocks.items()}
    return trace(query_terms(target, domain), inverses)


def block_inverse(block: AttributeQuery, size: int) -> np.ndarray:
    """Return ``(A^T A)^+`` [size, size] of a block."""
    if block == identity():
        return np.eye(size)
    if block == total():
        return np.full((size, size), 1.0 / size**2)
    return np.linalg.pinv(block_gram(block, size), hermitian=True)


def column_norm(strategy: np.ndarray, norm: str) -> float:
    """Return the largest L1 or L2 norm of a column of a strategy [rows, size]."""
    strategy = np.abs(np.asarray(strategy, np.float64))
    sums = strategy.sum(axis=0) if norm == "l1" else np.sqrt((strategy**2).sum(axis=0))
    return float(sums.max())


def inverse_gram(strategy: np.ndarray) -> np.ndarray:
    """Return ``(A^T A)^+`` [size, size] of a strategy [rows, size]."""
    strategy = np.asarray(strategy, np.float64)
    return np.linalg.pinv(strategy.T @ strategy, hermitian=True)
