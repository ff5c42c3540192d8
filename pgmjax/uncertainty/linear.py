"""Least squares of answers on measurements: the closed form of the linear part, without a model.

Of all combinations of the measured values that are unbiased for an answer, the one of least variance is
found by a least-squares solver in the coordinates of effects. It exists if and only if the measurements
determine the answer; what is left over says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from pgmjax.cliques import Clique
from pgmjax.domain import Domain
from pgmjax.measurements import LinearMeasurement
from pgmjax.uncertainty.asked import row_tables, transposed
from pgmjax.uncertainty.effects import Effects

LEFT_OVER = 1e-6
"""An answer is determined where a combination of measurements gives it up to this share of its length."""
_MAX_STEPS = 2000
_STOP = 1e-13
_SINGULAR = 1e-10  # of the largest singular value: a smaller one is rounding
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
) -> LeastSquares:
    """Return the best linear unbiased estimate of every row.

    Args:
        domain: the attributes.
        measurements: noisy answers with independent noise of their stated standard deviations.
        rows: cliques with tables over them.
        total: the number of records, where it is public (counts).

    References:
        Xiao and Xiong 2012, Section 3; Fong and Saunders 2011, "LSMR".
    """
    listed = list(rows)
    effects = Effects.of(domain, [*(m.clique for m in measurements), *(clique for clique, _ in listed)])
    system = _System(effects, tuple(measurements), total is not None)
    noisy = _whitened(measurements)
    known = 0.0 if total is None else total
    if total is not None:
        means = [
            m.query.apply(np.full(domain.shape_of(m.clique), 1 / domain.size(m.clique))) for m in measurements
        ]
        flat = [np.ravel(mean) / m.row_stddevs() for mean, m in zip(means, measurements, strict=True)]
        noisy = noisy - total * np.concatenate(flat)
    targets = np.array([effects.coordinates(clique, np.asarray(table, float)) for clique, table in listed])
    combinations, seen = system.solve(targets)
    values = combinations @ noisy + known * np.array([float(np.mean(table)) for _, table in listed])
    stddevs = np.where(seen, np.linalg.norm(combinations, axis=1), np.nan)
    return LeastSquares(np.where(seen, values, np.nan), stddevs, seen, combinations)


class _System:
    """The measurements in coordinates of effects, scaled so that those of whole marginals are orthonormal."""

    def __init__(
        self, effects: Effects, measurements: tuple[LinearMeasurement, ...], total_known: bool
    ) -> None:
        from scipy.sparse.linalg import LinearOperator

        self.effects, self.measurements = effects, measurements
        self.ends = np.cumsum([m.values.size for m in measurements])
        # Each whole marginal tells each of its effects with the precision 1 / (cells stddev^2).
        precision = np.zeros(effects.length)
        for m in measurements:
            weight = float(np.mean(m.row_stddevs() ** -2.0)) / effects.domain.size(m.clique)
            for subset in effects.subsets(m.clique):
                precision[effects.places[subset]] += weight
        if total_known:
            precision[effects.places[()]] = 0.0
        self.seen = precision > 0
        self.known = np.zeros(effects.length, bool)
        self.known[effects.places[()]] = total_known
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
        return result * self.scale

    def ask(self, vector: np.ndarray) -> np.ndarray:
        """Apply the transpose of `combine`."""
        scaled = vector.reshape(-1) * self.scale
        parts = [
            np.ravel(m.query.apply(self.effects.table(m.query.clique, scaled))) / m.row_stddevs()
            for m in self.measurements
        ]
        return np.concatenate(parts)

    def solve(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the shortest combinations [rows, values] for functions, and whether one does [rows]."""
        targets = np.where(self.known, 0.0, targets)
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
        matrix *= self.scale / deviations[:, None]
        return np.asarray(lstsq(matrix.T, targets.T, cond=_SINGULAR)[0].T)

    def _iterated(self, targets: np.ndarray) -> np.ndarray:
        """Solve by products alone, one function after another."""
        from scipy.sparse.linalg import lsmr

        settings = {"atol": _STOP, "btol": _STOP, "conlim": 0, "maxiter": _MAX_STEPS}
        found = [lsmr(self.operator, target, **settings)[0] for target in targets]
        return np.array(found).reshape(len(targets), self.operator.shape[1])


def _whitened(measurements: Sequence[LinearMeasurement]) -> np.ndarray:
    return np.concatenate([m.flat_values() / m.row_stddevs() for m in measurements])
