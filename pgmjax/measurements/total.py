"""The number of records, estimated from noisy answers if it is not public."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain, as_domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement, over_domain
from pgmjax.queries import Product
from pgmjax.queries.blocks import AttributeQuery, Grouping

_MAX_ENTRIES = 4_000_000
_TOLERANCE = 1e-8


def estimate_total(domain: Domain, measurements: Sequence[LinearMeasurement]) -> tuple[float, float]:
    """Return the minimum-variance unbiased estimate of the total, and its variance.

    Every measurement whose query rows Q span the total query gives an estimate a y, with a Q = 1 and
    minimal ``sum (a_i stddev_i)**2``. These are combined with inverse-variance weights. A product of blocks
    is handled block by block. Exception: for a large product with redundant rows and one stddev per row, a is
    optimal for equal stddevs; the returned variance is still exact.

    Args:
        domain: the attributes and their sizes.
        measurements: the noisy answers.

    Returns:
        The total (counts) and its variance (counts squared). An estimate below one record, which noise
        can cause, is replaced by 1 with a warning.

    Raises:
        ValueError: no measurement determines the total. The message states which would.

    References:
        McKenna et al. 2019, Appendix E.1; Li et al. 2015, Proposition 9.

    Example:
        >>> estimate_total(Domain({"a": 4}), [LinearMeasurement(("a",), [5, 4, 6, 5], stddev=1.0)])
        (20.0, 4.0)
    """
    domain = as_domain(domain, "estimate_total(domain, measurements)", measurements)
    measurements = over_domain(domain, measurements)
    if not measurements:
        raise ValueError("there is no measurement: give at least one.")
    estimates = [found for each in measurements if (found := _estimate(domain, each)) is not None]
    if not estimates:
        raise ValueError(
            f"the total (number of records) is unknown: none of the {len(measurements)} measurements has "
            "query rows that add up to every record counted once. Measure a whole marginal (no query, or "
            "blocks such as identity, prefix or total for every attribute), or pass total=."
        )
    weight = math.fsum(1 / variance for _, variance in estimates)
    total = math.fsum(value / variance for value, variance in estimates) / weight
    shares = all(np.abs(each.values).max() <= 1 and each.values.dtype.kind == "f" for each in measurements)
    small = all(np.max(each.stddev) <= 1 for each in measurements)
    if shares and (abs(total) < 2 if small else abs(total - 1) < 0.1):
        checks.warn(
            f"the noisy answers add up to about {total:.2g} records: if they are shares, multiply them, and "
            "their stddev, by the number of records."
        )
    elif total < 1:
        checks.warn(
            "the noisy answers put the total (number of records) below 1; 1 is used. The table is too small "
            "for this much noise: spend more, or give the number of records, if it is public."
        )
    return max(total, 1.0), 1 / weight


def check_counts(domain: Domain, measurement: LinearMeasurement, total: float) -> None:
    """Warn if a noisy marginal adds up to quite another number than the given total, as shares do.

    Args:
        domain: the attributes and their sizes.
        measurement: noisy answers.
        total: the number of records as it was given.
    """
    found = _estimate(domain, measurement)
    if found is None or math.sqrt(found[1]) > total:
        found = _of_known(domain, measurement)
        if found is None or found[0] < total:
            return
    if abs(found[0] - total) > max(10 * math.sqrt(found[1]), total / 2):
        checks.warn(
            f"the answers about {', '.join(measurement.clique)} add up to about {found[0]:.4g}, and the "
            f"total given, or that of a fixed marginal, is {total:.10g} records: if these are shares or "
            "percent, multiply them (and a stddev) to counts of records."
        )


def _of_known(domain: Domain, measurement: LinearMeasurement) -> tuple[float, float] | None:
    """Return the sum and the variance of the answers that are known, if no record is in two of them.

    Cells that were not published have a standard deviation as large as their table.
    """
    if measurement.query.l1_sensitivity(Relation.ADD_REMOVE, domain) > 1:
        return None
    stddevs = measurement.row_stddevs()
    known = stddevs <= 1000 * stddevs.min()
    return float(measurement.flat_values()[known].sum()), float((stddevs[known] ** 2).sum())


def _estimate(domain: Domain, measurement: LinearMeasurement) -> tuple[float, float] | None:
    """Return estimate and variance from one measurement, or None if it does not determine the total."""
    query, values = measurement.query, measurement.flat_values()
    stddevs = measurement.row_stddevs()
    if query.is_identity:  # each record is in one cell
        return float(np.ones(len(values)) @ values), float(np.sum(stddevs**2))
    if isinstance(query, Product):
        pairs = zip(query.clique, query.blocks, strict=True)
        parts = [total_combination(block, domain[name]) for name, block in pairs]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        explicit = query.num_rows(domain) * domain.size(query.clique) <= _MAX_ENTRIES
        # of equal noise, or where there is one combination only, the product of the shortest ones is the best
        if measurement.stddev.ndim == 0 or all(only for _, only in known) or not explicit:
            rows = functools.reduce(np.kron, [weights for weights, _ in known])
            return float(rows @ values), float(np.sum((rows * stddevs) ** 2))
    elif query.num_rows(domain) * domain.size(query.clique) > _MAX_ENTRIES:
        return None
    weighted = _combination(query.matrix(domain) / stddevs[:, None])
    if weighted is None:
        return None
    return float(weighted[0] @ (values / stddevs)), float(np.sum(weighted[0] ** 2))


def total_combination(block: AttributeQuery, size: int) -> tuple[np.ndarray, bool] | None:
    """Return the shortest u with u Q = 1, and whether it is unique; None if none exists.

    Args:
        block: the block with matrix Q [rows, size].
        size: the number of codes.
    """
    rows = block.rows(size)
    if block.kind == "prefix":
        return np.eye(1, rows, rows - 1)[0], True
    if isinstance(block, Grouping):
        used = np.zeros(rows)
        used[block.groups_of(size)] = 1
        return used, bool(used.all())
    if rows * size > _MAX_ENTRIES:
        return None
    return _combination(block.matrix(size).astype(np.float64))


def _combination(matrix: np.ndarray) -> tuple[np.ndarray, bool] | None:
    from pgmjax.measurements.least_squares import (
        shortest_combinations,  # of blocks without a form of their own
    )

    # to entries of size 1, as the tolerance is relative to those
    scale = float(np.abs(matrix).max())
    if scale == 0:
        return None
    wanted = np.full((1, matrix.shape[1]), 1 / scale)
    shortest, determined, rank = shortest_combinations(matrix / scale, wanted, tolerance=_TOLERANCE)
    return (shortest[0], rank == len(matrix)) if determined[0] else None
