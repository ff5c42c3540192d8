"""Multiplicative weights over a whole domain, cell by cell: the baseline of MWEM.

The estimate A is a table of counts that sum to n. For an answer m to a query q with entries from -1 to
1 every cell is multiplied,

    A(x) <- A(x) exp(q(x) (m - q(A)) / (2 n)),

and A is scaled to n again. For |m - q(A)| <= 2 n each update brings it nearer to the truth B, in
KL(B || A), by at least ((q(A) - q(B)) / 2n)^2 - ((m - q(B)) / 2n)^2; residuals beyond 2 n are cut
there. Many rows are updated at once with 2 n replaced by 2 n L, L the largest squared L2 norm of a
column, which is 1 for the cells of a marginal.

References:
    Hardt, Ligett and McSherry 2012, "A simple and practical algorithm for differentially private data
    release", Algorithm 1 and Lemma A.4.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique, marginal_of
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.inference import ops
from pgmjax.inference.plan.forecast import ModelTooLargeError, available_bytes, readable_bytes
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query
from pgmjax.queries.rows import transposed

BYTES = 24
"""Bytes a cell: its log-weight, its probability and one more table while they are updated."""

_STILL = 1e-9  # nats: where no exponent of a sweep is larger, the next sweep would do the same


class Vector:
    """A distribution over some attributes, every cell written out.

    Args:
        attributes: in the order of the axes.
        log_weights: log of the probabilities up to a constant [size of each attribute], nats.
    """

    def __init__(self, attributes: Clique, log_weights: np.ndarray):
        self.attributes = attributes
        self.log_weights = log_weights
        self._probabilities: np.ndarray | None = None

    def probabilities(self) -> np.ndarray:
        """Return the probability of every cell [size of each attribute]."""
        if self._probabilities is None:
            weights = np.exp(self.log_weights - self.log_weights.max())
            self._probabilities = weights / weights.sum()
        return self._probabilities

    def marginal(self, clique: Clique) -> np.ndarray:
        """Return the probabilities of some of the attributes, axes in the order of `clique`."""
        return np.asarray(marginal_of(self.attributes, self.probabilities(), clique))

    def multiply(self, clique: Clique, exponent: np.ndarray) -> None:
        """Multiply every cell by the exponential of a table over some of the attributes (nats)."""
        self.log_weights += ops.align(exponent, clique, self.attributes)
        self._probabilities = None


class MultiplicativeWeights(abc.ABC):
    """An estimate that is improved by multiplicative updates, starting from the uniform one.

    Args:
        domain: the attributes.
        max_bytes: memory that it may use; None asks the machine.
    """

    def __init__(self, domain: Domain, max_bytes: int | None = None):
        self.domain = domain
        self.max_bytes = max_bytes

    @abc.abstractmethod
    def cells_with(self, clique: Clique) -> int:
        """Return how many cells are held once answers about a clique have been used."""

    @abc.abstractmethod
    def vector(self, clique: Clique) -> Vector:
        """Return the table that holds a clique's attributes, made where there is none.

        Raises:
            ModelTooLargeError: it does not fit in the memory; nothing was changed.
        """

    @abc.abstractmethod
    def vectors(self) -> Sequence[Vector]:
        """Return the tables, of which the distribution is the product."""

    def update(self, measurement: LinearMeasurement, total: float) -> float:
        """Use one noisy answer, or all the rows of one measurement at once.

        Args:
            measurement: what was asked, and the noisy answers.
            total: number of records (counts), > 0.

        Returns:
            The largest exponent in size (nats): how far the estimate moved.

        Raises:
            ModelTooLargeError: the tables do not fit in the memory; nothing was changed.
        """
        query, clique = measurement.query, measurement.clique
        vector = self.vector(clique)
        answers = np.asarray(query.apply(total * vector.marginal(clique)), np.float64).reshape(-1)
        exponent = exponents(query, self.domain, measurement.flat_values() - answers, total)
        vector.multiply(clique, exponent)
        return float(np.abs(exponent).max())

    def sweep(self, measurements: Sequence[LinearMeasurement], total: float, sweeps: int) -> int:
        """Go through measurements again and again; stop early where nothing moves any more.

        Returns:
            The number of sweeps done.
        """
        for done in range(1, checks.integer("sweeps", sweeps, low=1) + 1):
            moves = [self.update(measurement, total) for measurement in measurements]
            if max(moves, default=0.0) <= _STILL:
                return done
        return sweeps

    def marginal(self, clique: Clique) -> np.ndarray:
        """Return the probabilities of any attributes, axes in the order of `clique`."""
        names: Clique = ()
        table = np.ones(())
        for vector in self.vectors():
            held = tuple(name for name in clique if name in vector.attributes)
            if held:
                names, table = names + held, np.multiply.outer(table, vector.marginal(held))
        for name in clique:
            if name not in names:
                size = self.domain[name]
                names, table = (*names, name), np.multiply.outer(table, np.full(size, 1 / size))
        return table.transpose([names.index(name) for name in clique])

    def model(self, total: float) -> GraphicalModel:
        """Return the estimate as a model, with one clique for each table."""
        tables = {vector.attributes: vector.log_weights for vector in self.vectors()}
        return GraphicalModel.from_potentials(self.domain, tables, total)

    def require(self, cells: int, what: str) -> None:
        """Refuse tables that do not fit in the memory.

        Raises:
            ModelTooLargeError: with the figures, and what can be done.
        """
        need = BYTES * cells
        limit = available_bytes() if self.max_bytes is None else self.max_bytes
        if need > limit:
            raise ModelTooLargeError(
                f"Multiplicative weights over {what} hold {cells:,} cells and need about "
                f"{readable_bytes(need)}; {readable_bytes(limit)} is available. Use the engine "
                "(estimate='engine'), which needs no such table, fewer attributes or coarser ones."
            )


class FullVector(MultiplicativeWeights):
    """One table over the whole domain.

    Raises:
        ModelTooLargeError: it does not fit in the memory.

    Example:
        >>> estimate = FullVector(Domain({"a": 2, "b": 2}))
        >>> steps = estimate.sweep([LinearMeasurement(("a",), [6, 2], stddev=1.0)], total=8, sweeps=100)
        >>> estimate.model(total=8).marginal(("a", "b")).round(3).tolist()
        [[3.0, 3.0], [1.0, 1.0]]
    """

    def __init__(self, domain: Domain, max_bytes: int | None = None):
        super().__init__(domain, max_bytes)
        cells = domain.size(domain.attributes)
        self.require(cells, f"the whole domain of {len(domain)} attributes")
        self._vector = Vector(domain.attributes, np.zeros(domain.shape))

    def cells_with(self, clique: Clique) -> int:
        """Return the cells of the domain, whatever is asked."""
        return int(self._vector.log_weights.size)

    def vector(self, clique: Clique) -> Vector:
        """Return the one table."""
        return self._vector

    def vectors(self) -> Sequence[Vector]:
        """Return the one table."""
        return [self._vector]


def exponents(query: Query, domain: Domain, residuals: np.ndarray, total: float) -> np.ndarray:
    """Return what an update adds to the log-weights of a clique's cells (nats).

    Args:
        query: what was asked.
        domain: the attributes.
        residuals: noisy answers less the estimate's [rows] (counts).
        total: number of records (counts), > 0.

    Returns:
        The exponents [size of each attribute of the query's clique].
    """
    largest = float(query.linf_sensitivity(Relation.ADD_REMOVE, domain))
    column = float(query.l2_sensitivity_squared(Relation.ADD_REMOVE, domain))
    if not (math.isfinite(column) and column > 0):
        return np.zeros(domain.shape_of(query.clique))
    cut = np.clip(residuals, -2 * total * largest, 2 * total * largest)
    return transposed(query, domain, cut) / (2 * total * column)
