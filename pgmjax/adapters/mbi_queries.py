"""From the function that an mbi measurement calls its query to a query of this library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pgmjax.adapters.mbi_objects import MbiDomain, MbiFactor
from pgmjax.measurements.linear import LinearMeasurement

MOST_CELLS = 4096
"""The most cells of a marginal whose query is found out cell by cell."""
_TOLERANCE = 1e-5  # queries may compute in float32


def measurement(
    domain: MbiDomain, clique: tuple[str, ...], values: np.ndarray, stddev: Any, query: Any, noise: str
) -> LinearMeasurement:
    """Return one measurement.

    Args:
        domain: all attributes.
        clique: those of the marginal; none of them for a total.
        values: the noisy answers [rows].
        stddev: of their noise.
        query: None or mbi's identity for every cell, its weighted cells, or any linear function of a factor.
        noise: the family of the noise's law.

    Raises:
        ValueError: a query that is not linear, or one of an unknown kind over too many cells.
    """
    if not clique:
        total = values.reshape(-1) / _scale_of_total(query)
        return LinearMeasurement((domain.attributes[0],), total, stddev, "total", noise)
    if _is_identity(query):
        return LinearMeasurement(clique, values.reshape(-1), stddev, None, noise)
    weights = getattr(query, "weights", None)
    if type(query).__name__ == "WeightedQuery" and weights is not None:
        weights = np.asarray(weights, np.float64).reshape(-1)
        if (weights > 0).all():
            return LinearMeasurement(clique, values.reshape(-1) / weights, stddev / weights, None, noise)
    matrix = _matrix(domain.project(clique), query)
    if matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all():
        return LinearMeasurement(clique, values.reshape(-1), stddev, None, noise)
    return LinearMeasurement(clique, values.reshape(-1), stddev, matrix, noise)


def _is_identity(query: Any) -> bool:
    """Whether it is what mbi calls a marginal: `DatavectorQuery()` in 2.0.0, `Factor.datavector` in 1.1.0."""
    if query is None or query is MbiFactor.datavector:
        return True
    own = getattr(query, "__module__", type(query).__module__) or ""
    name = getattr(query, "__qualname__", type(query).__name__)
    return own.split(".")[0] == "mbi" and name in ("DatavectorQuery", "Factor.datavector")


def _scale_of_total(query: Any) -> float:
    """What a query makes of a table over no attributes that holds 1."""
    if _is_identity(query):
        return 1.0
    answer = _asked(query, MbiFactor(MbiDomain((), ()), np.array(1.0)), ())
    if answer.shape != (1,) or answer[0] == 0:
        raise ValueError("the query of a measurement on no attributes must give one number, the total.")
    return float(answer[0])


def _matrix(domain: MbiDomain, query: Callable[[Any], Any]) -> np.ndarray:
    """The matrix [rows, cells] of a linear function, asked of one cell after the other."""
    clique, cells = domain.attributes, domain.size()
    if cells > MOST_CELLS:
        raise ValueError(
            f"the query of the measurement on {clique} is a function whose matrix would be found out cell by "
            f"cell: {cells:,} cells are more than {MOST_CELLS:,}. Leave the query out where it is the whole "
            "marginal, or make a pgmjax.LinearMeasurement with a query of pgmjax.queries."
        )

    def ask(vector: np.ndarray) -> np.ndarray:
        return _asked(query, MbiFactor(domain, vector.reshape(domain.shape)), clique)

    if np.any(ask(np.zeros(cells))):
        raise ValueError(
            f"the query of the measurement on {clique} is not linear: it is not 0 of a table of zeros."
        )
    matrix = np.stack([ask(cell) for cell in np.eye(cells)], axis=1)
    probe = 1.0 + np.arange(cells) % 7
    most = _TOLERANCE * np.abs(matrix).max(initial=0)
    if not np.allclose(ask(probe), matrix @ probe, rtol=_TOLERANCE, atol=most):
        raise ValueError(
            f"the query of the measurement on {clique} is not linear: its answer to a sum of tables is not "
            "the sum of its answers."
        )
    return matrix


def _asked(query: Callable[[Any], Any], factor: MbiFactor, clique: tuple[str, ...]) -> np.ndarray:
    try:
        return np.asarray(query(factor), np.float64).reshape(-1)
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"the query of the measurement on {clique} cannot be asked of a table: it must be a function of "
            f"a factor that uses its datavector(), values, domain, project or sum ({error})."
        ) from error
