"""Multiplicative weights, the estimates of MWEM's paper: baselines of the engine.

Full vector (`FullVector`): the estimate A is a table of counts that sum to n, one for every cell. For an
answer m to a query q with entries from -1 to 1 every cell is multiplied,

    A(x) <- A(x) exp(q(x) (m - q(A)) / (2 n)),

and A is rescaled to n. For |m - q(A)| <= 2 n each update decreases the distance KL(B || A) to the truth B
by at least ((q(A) - q(B)) / 2n)^2 - ((m - q(B)) / 2n)^2; residuals beyond 2 n are clipped. Many rows are
updated at once with 2 n replaced by 2 n L, where L is the largest squared L2 norm of a column, which is 1
for the cells of a marginal.

Factored (`FactoredWeights`): the distribution is a product of tables over disjoint sets of attributes. An
answer on attributes of several tables first merges them into their product, on which the update is the same,
so that the estimate is the same. Memory depends on the overlaps of measurements only; with many overlaps the
tables soon grow to the whole domain.

References:
    Hardt, Ligett and McSherry 2012, "A simple and practical algorithm for differentially private data
    release", Algorithm 1, Lemma A.4, and section 3.1 ("Scalability").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgmjax.data.domain import Clique, Domain, marginal_of
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Fit
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference import ops
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import Estimate, l2_loss
from pgmjax.mechanisms.candidates import check_bytes
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query
from pgmjax.queries.sums import transposed

BYTES = 24
"""Bytes per cell: its log-weight, its probability and one more table during updates."""


_STILL = 1e-9  # nats: if no exponent of a sweep is larger, further sweeps change nothing


class Vector:
    """A distribution over some attributes, stored cell by cell.

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
            # from the largest downwards, so that exp cannot overflow
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


class FactoredWeights(Estimate):
    """An estimate that is improved by multiplicative updates, starting from the uniform one.

    It is the product of tables over disjoint sets of attributes; attributes that were not measured have none.

    Args:
        domain: the attributes.
        max_bytes: the memory limit. Default: the available memory.
        sweeps: number of passes over the measurements in an update.
        history: whether an update uses all of them, or the newest only.

    Example:
        >>> from pgmjax.measurements.linear import LinearMeasurement
        >>> estimate = FactoredWeights(Domain({"a": 2, "b": 2, "c": 5}))
        >>> asked = [LinearMeasurement((name,), [6, 2], stddev=1.0) for name in "ab"]
        >>> steps = estimate.sweep(asked, total=8, sweeps=100)
        >>> estimate.size, estimate.cells_with(("b", "c")), estimate.cells_with(("a", "b", "c"))
        (4, 12, 20)
        >>> estimate.model(total=8).marginal(("a", "b")).round(3).tolist()
        [[4.5, 1.5], [1.5, 0.5]]
    """

    def __init__(self, domain: Domain, max_bytes: int | None = None, sweeps: int = 20, history: bool = True):
        self.domain = domain
        self.max_bytes = max_bytes
        self.vectors: list[Vector] = []
        self._sweeps, self._history, self._steps = sweeps, history, 0

    @property
    def size(self) -> int:
        """The cells of all tables."""
        return sum(int(vector.log_weights.size) for vector in self.vectors)

    def cells(self, cliques: Sequence[Clique]) -> list[int]:
        """Return the cells of all tables, after merging those that overlap with each clique."""
        return [self.cells_with(clique) for clique in cliques]

    def check(self, smallest: Clique, most: int | None) -> None:
        """Forecast the memory of the tables at the limit."""
        cells = self.cells_with(smallest)
        self.require(cells if most is None else max(cells, min(most, self.domain.size())), "factors")

    def update(
        self, measurements: Sequence[LinearMeasurement], total: float | None, last: bool = True
    ) -> None:
        """Sweep over the measurements, then compute the loss of all of them."""
        assert total is not None
        done = self.sweep(measurements if self._history else measurements[-1:], total, self._sweeps)
        answers = self.answers([measurement.query for measurement in measurements], total)
        loss = l2_loss(answers, measurements)
        status = Status.MAX_STEPS if done == self._sweeps else Status.STALLED
        self._steps += done
        # Its steps are sweeps, it has no plan, and as no loss is below 0, the loss itself bounds the gap.
        self.fit = Fit(self.model(total), status, self._steps, loss, loss, None)

    def marginals(self, cliques: Sequence[Clique], total: float | None) -> list[np.ndarray]:
        """Return the marginals of the tables (counts)."""
        assert total is not None
        return [total * self.marginal(clique) for clique in cliques]

    def cells_with(self, clique: Clique) -> int:
        """Return how many cells there would be once answers about a clique have been used."""
        met, names = self._met(clique)
        return self.size - sum(int(vector.log_weights.size) for vector in met) + self.domain.size(names)

    def vector(self, clique: Clique) -> Vector:
        """Return the table that holds a clique's attributes, merged from those that hold some of them.

        Raises:
            ModelTooLargeError: it does not fit in the memory; nothing was changed.
        """
        met, names = self._met(clique)
        if len(met) == 1 and names == met[0].attributes:
            return met[0]
        self.require(self.cells_with(clique), f"the factor of {names}, merged for {clique},")
        merged = Vector(names, np.zeros(self.domain.shape_of(names)))
        for vector in met:
            merged.multiply(vector.attributes, vector.log_weights)
        self.vectors = [vector for vector in self.vectors if vector not in met] + [merged]
        return merged

    def _met(self, clique: Clique) -> tuple[list[Vector], Clique]:
        """The tables that hold some of a clique's attributes, and the attributes of their union with it."""
        met = [vector for vector in self.vectors if set(vector.attributes) & set(clique)]
        wanted = set(clique).union(*(vector.attributes for vector in met))
        return met, tuple(name for name in self.domain.attributes if name in wanted)

    def step(self, measurement: LinearMeasurement, total: float) -> float:
        """Use one noisy answer, or all the rows of one measurement at once.

        Args:
            measurement: the query and the noisy answers.
            total: number of records (counts), > 0.

        Returns:
            The largest absolute exponent (nats), which measures the change of the estimate.

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
        """Update from the measurements repeatedly; stop early if nothing changes.

        Returns:
            The number of sweeps done.
        """
        for done in range(1, sweeps + 1):
            moves = [self.step(measurement, total) for measurement in measurements]
            if max(moves, default=0.0) <= _STILL:
                return done
        return sweeps

    def marginal(self, clique: Clique) -> np.ndarray:
        """Return the probabilities of any attributes, axes in the order of `clique`."""
        names: Clique = ()
        table = np.ones(())
        for vector in self.vectors:
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
        tables = {vector.attributes: vector.log_weights for vector in self.vectors}
        return GraphicalModel.from_potentials(self.domain, tables, total)

    def require(self, cells: int, what: str) -> None:
        """Check that the tables fit in memory.

        Raises:
            ModelTooLargeError: they do not fit. The message gives the sizes and the remedy.
        """
        said = f"Multiplicative weights over {what} hold {cells:,} cells and"
        then = (
            "use the engine (estimate='engine'), which needs no such table, fewer attributes or coarser ones"
        )
        check_bytes(BYTES * cells, self.max_bytes, said, then)


class FullVector(FactoredWeights):
    """One table over the whole domain, with which all others are merged already.

    Raises:
        ModelTooLargeError: it does not fit in the memory.

    Example:
        >>> estimate = FullVector(Domain({"a": 2, "b": 2}))
        >>> steps = estimate.sweep([LinearMeasurement(("a",), [6, 2], stddev=1.0)], total=8, sweeps=100)
        >>> estimate.model(total=8).marginal(("a", "b")).round(3).tolist()
        [[3.0, 3.0], [1.0, 1.0]]
    """

    def __init__(self, domain: Domain, max_bytes: int | None = None, sweeps: int = 20, history: bool = True):
        super().__init__(domain, max_bytes, sweeps, history)
        self.require(domain.size(), f"the whole domain of {len(domain)} attributes")
        self.vectors = [Vector(domain.attributes, np.zeros(domain.shape))]


def exponents(query: Query, domain: Domain, residuals: np.ndarray, total: float) -> np.ndarray:
    """Return the change of the log-weights of a clique's cells in an update (nats).

    Args:
        query: the query.
        domain: the attributes.
        residuals: noisy answers minus the estimate's [rows] (counts).
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
