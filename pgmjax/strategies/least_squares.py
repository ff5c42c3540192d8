"""Answers to a workload directly from noisy answers, without a model: the baselines.

Local least squares answers each query from one measurement that spans it. Global least squares fits one
vector of all cells to all measurements, if it fits in memory. Counts may be negative in both. Both use
released numbers only.

References:
    Li et al. 2015, "The matrix mechanism"; Fong and Saunders 2011, "LSMR"; McKenna et al. 2019, section 5.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain, in_order, marginal_of
from pgmjax.measurements.least_squares import JointCells, WhitenedAnswers, shortest_combinations
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import DenseMatrix, Product, Query, identity, total
from pgmjax.queries.blocks import AttributeQuery, contract
from pgmjax.queries.workload import Workload
from pgmjax.strategies.strategy import entry_trace

MAX_CELLS = 20_000_000
"""Default limit on the number of cells in global least squares."""

_SUPPORT = 1e-6
_MOST_ROWS = 1500  # of a strategy, or values of an attribute, whose pseudo-inverse is taken: a few seconds


def local_least_squares(
    domain: Domain, workload: Workload, measurements: Sequence[LinearMeasurement]
) -> list[np.ndarray]:
    """Answer each entry by least squares from the one measurement that answers it best.

    Args:
        domain: the domain.
        workload: the workload to be answered.
        measurements: noisy answers, each with one standard deviation for all its rows.

    Returns:
        float64 [rows] per entry, row-major in the order of its clique (counts).

    Raises:
        ValueError: an entry that no single measurement can answer.

    Example:
        >>> import pgmjax as pj
        >>> noisy = pj.LinearMeasurement(("a",), [3, 5], stddev=1.0)
        >>> workload = Workload([{"clique": ["a"], "queries": {"a": "prefix"}}])
        >>> local_least_squares(pj.Domain({"a": 2}), workload, [noisy])
        [array([3., 8.])]
    """
    variances = [float(each.row_stddevs().max()) ** 2 for each in measurements]
    serves, _ = serving(domain, workload, [each.query for each in measurements], variances)
    return [
        _answer(entry.query, measurements[place], domain)
        for entry, place in zip(workload.entries, serves, strict=True)
    ]


def from_one(
    domain: Domain, query: Query, measurement: LinearMeasurement
) -> tuple[np.ndarray, np.ndarray] | None:
    """Answer a product by least squares from one measured product, with the variances of the answers.

    The pseudo-inverse of a Kronecker product is that of its factors, so attributes are solved one by one.

    Args:
        domain: the domain.
        query: what is asked.
        measurement: noisy answers.

    Returns:
        Answers and variances, float64 [rows] each. None if either is no product, the noise differs between
        rows, or an attribute's rows are not determined or too many.

    Example:
        >>> import pgmjax as pj
        >>> noisy = pj.LinearMeasurement(("a",), [3, 8], stddev=1.0, query="prefix")
        >>> values, variances = from_one(pj.Domain({"a": 2}), pj.queries.marginal(["a"]), noisy)
        >>> values.round(6).tolist(), variances.round(6).tolist()
        ([3.0, 5.0], [1.0, 2.0])
    """
    measured, stddevs = measurement.query, measurement.stddev
    if not (isinstance(query, Product) and isinstance(measured, Product)):
        return None
    if not set(query.clique) <= set(measured.clique) or (stddevs != stddevs.reshape(-1)[0]).any():
        return None
    asked = dict(zip(query.clique, query.blocks, strict=True))
    values: Any = measurement.flat_values().reshape(measured.shape(domain))
    squares: Any = np.full((1,) * values.ndim, float(stddevs.reshape(-1)[0]) ** 2)
    for axis, (name, block) in enumerate(zip(measured.clique, measured.blocks, strict=True)):
        wanted, size = asked.get(name, total()), domain[name]
        if max(size, block.rows(size), wanted.rows(size)) > _MOST_ROWS:
            return None
        found, determined = _reconstruction(wanted, block, size)
        if not determined:
            return None
        combined = wanted.matrix(size) if block == identity() else found
        values = contract(combined, values, axis, np)
        lengths = np.square(np.asarray(combined, float)).sum(axis=1)
        squares = squares * lengths.reshape([-1 if k == axis else 1 for k in range(values.ndim)])
    turned = (marginal_of(measured.clique, table, query.clique) for table in (values, squares))
    first, second = (np.asarray(table, float).reshape(-1) for table in turned)
    return first, second


def serving(
    domain: Domain, workload: Workload, queries: Sequence[Query], variances: Sequence[float] | np.ndarray
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the single query that answers each entry best; no answers are used.

    Args:
        domain: the domain.
        workload: the workload to be answered.
        queries: the measured queries.
        variances: noise variance of each query's answers.

    Returns:
        for each entry, the index of its query and the entry's expected squared error if that query's noise
        has variance 1.

    Raises:
        ValueError: an entry that no single query can answer.
    """
    serves, traces = [], []
    for position, entry in enumerate(workload.entries):
        able = {
            place: entry_trace(entry.query, query, domain)
            for place, query in enumerate(queries)
            if _answers(entry.query, query, domain)
        }
        if not able:
            raise ValueError(
                f"workload entry {position} on {entry.clique} cannot be answered from any one of the "
                f"{len(queries)} measurements: use global least squares or the model."
            )
        best = min(able, key=lambda place: able[place] * variances[place])
        serves.append(best)
        traces.append(able[best])
    return tuple(serves), tuple(traces)


def global_least_squares(
    domain: Domain,
    workload: Workload,
    measurements: Sequence[LinearMeasurement],
    *,
    max_cells: int = MAX_CELLS,
    max_steps: int = 2000,
) -> list[np.ndarray]:
    """Answer all entries from one vector of cells, the minimum-norm least-squares solution (LSMR).

    Each answer is divided by its standard deviation.

    Args:
        domain: the domain; attributes that are neither measured nor asked for are left out.
        workload: the workload to be answered.
        measurements: noisy answers.
        max_cells: largest number of cells allowed.
        max_steps: maximum number of LSMR iterations.

    Returns:
        float64 [rows] per entry, row-major in the order of its clique (counts).

    Raises:
        ValueError: more cells than `max_cells`.
    """
    from scipy.sparse.linalg import lsmr

    names = check_cells(domain, [*(each.clique for each in measurements), *workload.cliques], max_cells)
    cells = JointCells(domain, names)
    answers = WhitenedAnswers(measurements, cells)
    found = lsmr(answers.operator(), answers.values, atol=1e-10, btol=1e-10, maxiter=max_steps)[0]
    solved = found.reshape(cells.shape)
    return [
        np.asarray(entry.query.apply(marginal_of(names, solved, entry.clique)), float).reshape(-1)
        for entry in workload.entries
    ]


def check_cells(domain: Domain, cliques: Iterable[Clique], max_cells: int = MAX_CELLS) -> Clique:
    """Return the attributes whose joint cells global least squares uses.

    Args:
        domain: the domain.
        cliques: cliques of the measured and the requested queries.
        max_cells: largest number of cells allowed.

    Raises:
        ValueError: more cells than `max_cells`.
    """
    names = in_order(domain.attributes, set().union(*cliques))
    cells = domain.size(names)
    if cells > checks.integer("max_cells", max_cells, low=1):
        raise ValueError(
            f"global least squares needs a vector of {cells:,} cells, above the limit of {max_cells:,}: use "
            "the model or local least squares."
        )
    return names


def _answers(target: Query, measured: Query, domain: Domain) -> bool:
    """Return whether a query is recognised as a linear combination of another's rows."""
    if target == measured:
        return True
    if not isinstance(measured, Product) or not set(target.clique) <= set(measured.clique):
        return False
    blocks = measured.factors(domain)[0][1]
    if isinstance(target, DenseMatrix) and len(target.clique) > 1:
        return all(block == identity() for block in blocks.values()) and len(blocks) == len(target.clique)
    return all(
        _reconstruction(term.get(name, total()), block, domain[name])[1]
        for _, term in target.factors(domain)
        for name, block in blocks.items()
    )


def _answer(target: Query, measurement: LinearMeasurement, domain: Domain) -> np.ndarray:
    measured = measurement.query
    if target == measured and not isinstance(measured, Product):
        return measurement.flat_values()
    values = measurement.flat_values().reshape(measured.shape(domain))
    if isinstance(target, DenseMatrix) and len(target.clique) > 1:
        table = marginal_of(measured.clique, values, target.clique)
        return np.asarray(target.apply(table), float).reshape(-1)
    blocks = measured.factors(domain)[0][1]
    result: Any = 0.0
    for coefficient, term in target.factors(domain):
        answered: Any = values
        for axis, (name, block) in enumerate(blocks.items()):
            wanted = term.get(name, total())
            if block == identity():
                answered = wanted.apply(answered, axis)
            else:
                answered = contract(_reconstruction(wanted, block, domain[name])[0], answered, axis, np)
        result = result + float(coefficient) * marginal_of(measured.clique, answered, target.clique)
    return np.asarray(result).reshape(-1)


@functools.lru_cache(maxsize=512)
def _reconstruction(wanted: AttributeQuery, measured: AttributeQuery, size: int) -> tuple[np.ndarray, bool]:
    """Return ``W A^+`` [rows, measured rows] (empty if A is the identity), and whether ``W A^+ A`` is W."""
    if measured == identity():
        return np.empty((0, 0)), True
    if measured == wanted == total():
        return np.ones((1, 1)), True
    strategy = measured.matrix(size).astype(np.float64)
    workload = wanted.matrix(size).astype(np.float64)
    found, determined, _ = shortest_combinations(strategy, workload, tolerance=_SUPPORT)
    return found, bool(determined.all())
