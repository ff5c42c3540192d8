"""Bounds for the whole table, from the counts of the records that count and the number that is left out.

Let x be a count of the records that count, and l the number of all records that are left out. Each of these
is in a cell or in none, so the count of the whole table lies between x and x + l, and its total is the total
of what counts plus l. With unbiased estimates of x and l, whose noise is independent, the interval

    from  x - z s(x)  to  x + l + z sqrt(s(x)^2 + s(l)^2)

holds the count of the whole table as often as one of z standard errors holds x: each end fails on one side of
the noise alone, and the two together as often as the two sides of one interval. A row whose largest weight
on a cell is w takes w l in place of l. A share of the whole table lies between x / (t + l) and
(x + l) / (t + l), where t is the total of what counts; the ends are those of Fieller's intervals of these two
ratios (`release.accuracy`), and hold by the same argument.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax.data.population import Population
from pgmjax.data.relation import Relation
from pgmjax.queries.query import Query
from pgmjax.release.accuracy import LAPLACE, CountEstimates, Reported, mean_weights
from pgmjax.uncertainty.ratios import divided, fieller


@dataclasses.dataclass(frozen=True)
class WholeTable(Named):
    """Intervals of counts and shares of the whole table, with those that its counts leave out.

    Attributes:
        counts: the ends of 95 % intervals [rows, 2], NaN where the noisy counts do not determine the answer.
        shares: the same of the shares in the number of all records [rows, 2].
    """

    counts: np.ndarray
    shares: np.ndarray


def of_query(
    estimates: CountEstimates, population: Population | None, query: Query, found: Reported
) -> WholeTable:
    """Return the intervals for the whole table of the answers to a query.

    Args:
        estimates: unbiased answers from the released ones.
        population: of the release, with what it counted of what is left out.
        query: of the domain, without negative weights.
        found: its answers among the records that count.

    Raises:
        ValueError: nothing bounds what is left out, or the query has negative weights.
    """
    omitted = _omitted(population)
    if omitted is None:
        raise ValueError(
            f"{unbounded(population)} Of the records that count, release.report(query) has the interval."
        )
    if not query.is_nonnegative(estimates.domain):
        raise ValueError(
            "The query has negative weights, so that more records may make its answer smaller or larger: ask "
            "for its parts."
        )
    number, variance, width = omitted
    width = max(width, estimates.width)
    most = float(query.linf_sensitivity(Relation.ADD_REMOVE, estimates.domain))
    above = found.noisy + most * number
    reach = width * np.sqrt(np.square(found.stddevs) + most**2 * variance)
    low, high = found.intervals.T
    counts = np.stack([low, np.maximum(high, above + reach)], axis=-1)
    return WholeTable(counts, _shares(estimates, query, found, counts, (most, *omitted)))


def records(estimates: CountEstimates, population: Population) -> tuple[float, float] | None:
    """Return the ends of a 95 % interval of the number of all records; None if nothing bounds it.

    Args:
        estimates: unbiased answers from the released ones.
        population: of the release.
    """
    omitted = _omitted(population)
    if omitted is None or estimates.records is None:
        return None
    number, variance, width = omitted
    total, error = estimates.records
    reach = max(width, estimates.width) * math.sqrt(variance + error)
    return max(total + number - reach, 0.0), max(total + number, 0.0) + reach


def to_dict(estimates: CountEstimates, population: Population) -> dict[str, Any]:
    """Return for JSON the interval of the number of all records, and in words why there is none."""
    found = records(estimates, population)
    return {"records": None, "why": unbounded(population)} if found is None else {"records": list(found)}


def in_words(counts: Sequence[float], shares: Sequence[float]) -> str:
    """Return the intervals of a count and a share of the whole table, in words.

    Args:
        counts: the ends of the count's interval.
        shares: the ends of the share's.

    Example:
        >>> in_words((310.0, 402.5), (0.25, 0.4))
        'Of the whole table: between 310.0 and 402.5 (95 %), as a share between 25.00% and 40.00%'
    """
    said = f"Of the whole table: between {counts[0]:,.1f} and {counts[1]:,.1f} (95 %)"
    return f"{said}, as a share between {shares[0]:.2%} and {shares[1]:.2%}"


def unbounded(population: Population | None) -> str:
    """Return why nothing bounds the counts of the whole table from above."""
    unit = None if population is None else population.unit
    return checks.first_said(
        (
            population is not None and population.is_whole,
            "Every record of the table counts, so that its counts are those of the whole table.",
        ),
        (
            population is None or not population.left_out,
            "How many records are left out was not counted: release with count_left_out.",
        ),
        (
            population is not None and population.omitted is None,
            f"How many records a {unit and unit.column} may have is not known, and so no number bounds "
            "those that are left out: release with largest_unit.",
        ),
        otherwise="The number of records that count is not determined by what was measured.",
    )


def _omitted(population: Population | None) -> tuple[float, float, float] | None:
    """Return the number of records that are left out, its variance, and half-widths in standard errors."""
    if population is None or population.omitted is None:
        return None
    number, variance, laplace = population.omitted
    return number, variance, LAPLACE if laplace else 0.0


def _shares(
    estimates: CountEstimates,
    query: Query,
    found: Reported,
    counts: np.ndarray,
    omitted: tuple[float, float, float, float],
) -> np.ndarray:
    """Return the ends of the intervals of shares in the number of all records [rows, 2]."""
    most, number, variance, width = omitted
    if estimates.records is None:
        return np.full(counts.shape, np.nan)
    width = max(width, estimates.width)
    total, error = estimates.records
    whole, spread = total + number, error + variance
    unbiased = estimates.unbiased(query)
    closed = unbiased is not None and (unbiased.closed_form or not error)
    means = mean_weights(query, estimates.domain) if closed else None
    if means is None:
        half = width * math.sqrt(spread)
        low, high = divided(found.intervals, whole, half)[:, 0], divided(counts, whole, half)[:, 1]
    else:
        squares, shared = np.square(found.stddevs), means * error
        low = fieller(found.noisy, whole, squares, shared, spread, width)[:, 0]
        more = squares + most**2 * variance, shared + most * variance
        high = fieller(found.noisy + most * number, whole, *more, spread, width)[:, 1]
    # as of other shares: noisy counts far below 0 leave more than 0
    high = np.maximum(high, width * found.stddevs / max(whole, 1.0))
    ends = np.clip(np.stack([low, high], axis=-1), 0.0, most)
    return np.where(np.isfinite(counts), ends, np.nan)
