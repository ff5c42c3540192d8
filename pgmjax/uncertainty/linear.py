"""Least squares of answers on measurements: the closed form of the linear part, without a model.

Of all combinations of the measured values that are unbiased for an answer, the one of least variance is
found by a least-squares solver in the coordinates of effects. It exists if and only if the measurements
determine the answer; what is left over says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import FixedMarginal, StructuralZeros
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries.rows import transposed
from pgmjax.uncertainty.effects import Effects
from pgmjax.uncertainty.noiseless import Noiseless
from pgmjax.uncertainty.queries import row_tables

LEFT_OVER = 1e-6
"""An answer is determined where a combination of measurements gives it up to this share of its length."""
_MAX_STEPS = 2000
_STOP = 1e-13
_SINGULAR = 1e-10  # of the largest singular value: a smaller one is rounding
_ROUNDING = 1e-8  # of a function's length: so much is left of one that is known
_DENSE, _DENSE_ENTRIES = 2500, 20_000_000


@dataclasses.dataclass(frozen=True, eq=False)
class LeastSquares:
    """Best linear unbiased estimates of rows.

    Attributes:
        values: the estimates [rows]; NaN where there is none.
        stddevs: their standard deviations [rows]; NaN where there is none.
        determined: whether the measurements determine the row, bool [rows].
        combinations: each row's weights of the measured values over their standard deviations [rows, values].
    """

    values: np.ndarray
    stddevs: np.ndarray
    determined: np.ndarray
    combinations: np.ndarray


def least_squares(
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    rows: Iterable[tuple[Clique, np.ndarray]],
    total: float | None = None,
    zeros: Sequence[StructuralZeros] = (),
    fixed: Sequence[FixedMarginal] = (),
) -> LeastSquares:
    """Return the best linear unbiased estimate of every row.

    Unbiased for every table that meets the constraints: what they tell is known without noise.

    Args:
        domain: the attributes.
        measurements: noisy answers with independent noise of their stated standard deviations.
        rows: cliques with tables over them.
        total: the number of records, where it is public (counts).
        zeros: impossible cells.
        fixed: marginals that are public and exact.

    Raises:
        ValueError: no cell is possible.

    References:
        Xiao and Xiong 2012, Section 3; Fong and Saunders 2011, "LSMR".
    """
    listed = list(rows)
    cliques = (*(m.clique for m in measurements), *(clique for clique, _ in listed))
    effects = Effects.of(domain, [*cliques, *(one.clique for one in fixed)])
    known = Noiseless.of(effects, zeros, fixed, total)
    system = _System(effects, tuple(measurements), known)
    targets = np.array([effects.coordinates(clique, np.asarray(table, float)) for clique, table in listed])
    combinations, seen = system.solve(targets)
    # A row less its combination is known: its answer is added to the combination's.
    values = combinations @ (_whitened(measurements) - system.answers(known.worth)) + targets @ known.worth
    stddevs = np.where(seen, np.linalg.norm(combinations, axis=1), np.nan)
    return LeastSquares(np.where(seen, values, np.nan), stddevs, seen, combinations)


class _System:
    """The measurements in coordinates of effects, scaled so that those of whole marginals are orthonormal."""

    def __init__(
        self, effects: Effects, measurements: tuple[LinearMeasurement, ...], known: Noiseless
    ) -> None:
        from scipy.sparse.linalg import LinearOperator

        self.effects, self.measurements, self.known = effects, measurements, known
        self.ends = np.cumsum([m.values.size for m in measurements])
        # Each whole marginal tells each of its effects with the precision 1 / (cells stddev^2).
        precision = np.zeros(effects.length)
        for m in measurements:
            weight = float(np.mean(m.row_stddevs() ** -2.0)) / effects.domain.size(m.clique)
            for subset in effects.subsets(m.clique):
                precision[effects.places[subset]] += weight
        # Less what is known, an effect that no marginal holds may equal one that some marginal does.
        precision[known.touched(effects.length) & (precision == 0)] = np.mean(precision)
        self.seen = precision > 0
        self.scale = np.divide(1.0, np.sqrt(precision), out=np.zeros_like(precision), where=self.seen)
        shape = effects.length, int(self.ends[-1])
        self.operator = LinearOperator(shape, matvec=self.combine, rmatvec=self.ask, dtype=np.float64)

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Return the scaled coordinates of a combination of the measurements over their deviations."""
        result = np.zeros(self.effects.length)
        domain = self.effects.domain
        for m, part in zip(self.measurements, np.split(weights.reshape(-1), self.ends[:-1]), strict=True):
            spread = transposed(m.query, domain, part / m.row_stddevs())
            result += self.effects.coordinates(m.query.clique, spread)
        return self.known.without(result) * self.scale

    def ask(self, vector: np.ndarray) -> np.ndarray:
        """Apply the transpose of `combine`."""
        return self.answers(self.known.without(vector.reshape(-1) * self.scale))

    def answers(self, vector: np.ndarray) -> np.ndarray:
        """Return the inner products of the measurements over their deviations with coordinates [values]."""
        parts = [
            np.ravel(m.query.apply(self.effects.table(m.query.clique, vector))) / m.row_stddevs()
            for m in self.measurements
        ]
        return np.concatenate(parts)

    def solve(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the shortest combinations [rows, values] for functions, and whether one does [rows]."""
        whole, targets = np.linalg.norm(targets, axis=1), self.known.without(targets)
        targets[np.linalg.norm(targets, axis=1) <= _ROUNDING * whole] = 0.0  # known
        lengths = np.linalg.norm(targets, axis=1)
        able = np.linalg.norm(targets[:, ~self.seen], axis=1) <= LEFT_OVER * lengths
        scaled = targets[able] * self.scale
        found = self._dense(scaled) if self._is_small else self._iterated(scaled)
        rest = np.array([np.linalg.norm(self.combine(a) - t) for a, t in zip(found, scaled, strict=True)])
        combinations, seen = np.zeros((len(targets), self.operator.shape[1])), able.copy()
        combinations[able] = found
        seen[able] = rest <= LEFT_OVER * np.linalg.norm(scaled, axis=1)
        return combinations, seen

    @property
    def _is_small(self) -> bool:
        rows, columns = self.operator.shape
        return min(rows, columns) <= _DENSE and rows * columns <= _DENSE_ENTRIES

    def _dense(self, targets: np.ndarray) -> np.ndarray:
        """Solve by the singular values of the matrix, written out."""
        from scipy.linalg import lstsq

        columns = row_tables(self.effects.domain, [m.query for m in self.measurements])
        matrix = np.array([self.effects.coordinates(clique, table) for clique, table in columns])
        deviations = np.concatenate([m.row_stddevs() for m in self.measurements])
        matrix = self.known.without(matrix) * (self.scale / deviations[:, None])
        return np.asarray(lstsq(matrix.T, targets.T, cond=_SINGULAR)[0].T)

    def _iterated(self, targets: np.ndarray) -> np.ndarray:
        """Solve by products alone, one function after another."""
        from scipy.sparse.linalg import lsmr

        settings = {"atol": _STOP, "btol": _STOP, "conlim": 0, "maxiter": _MAX_STEPS}
        found = [lsmr(self.operator, target, **settings)[0] for target in targets]
        return np.array(found).reshape(len(targets), self.operator.shape[1])


def _whitened(measurements: Sequence[LinearMeasurement]) -> np.ndarray:
    return np.concatenate([m.flat_values() / m.row_stddevs() for m in measurements])
