"""Noisy counts over any attributes, combined from the measured marginals that contain them.

They are meant for plots that show noisy counts next to fitted ones, also for marginals that were not measured
themselves, and not for estimation. They are computed from released values only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmjax.data.cliques import Clique, marginal_of
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import Product, Query, WeightedSum, marginal


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts of one marginal.

    Attributes:
        values: unbiased noisy counts, in the shape of the clique.
        stddevs: their standard deviations, same shape.
        sources: number of measurements used.
    """

    values: np.ndarray
    stddevs: np.ndarray
    sources: int


def is_marginal(measurement: LinearMeasurement) -> bool:
    """Return whether a measurement is of all cells of its clique, with one number per cell."""
    return measurement.query == marginal(measurement.clique)


def noisy_marginal(
    domain: Domain, measurements: Sequence[LinearMeasurement], clique: Clique
) -> NoisyMarginal | None:
    """Combine the noisy counts of a marginal from all measured marginals that contain it.

    Each of them is summed onto the clique, which adds up its variances. The sums are averaged cell by
    cell with weights 1/variance.

    Args:
        domain: the domain of the measurements.
        measurements: released answers; those that are not marginals are ignored.
        clique: the attributes, in the order of the axes.

    Returns:
        The noisy counts, or None if no measured marginal contains the clique.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> measured = LinearMeasurement(("a", "b"), [5.0, 7.0, 1.0, 3.0], stddev=2.0)
        >>> noisy_marginal(domain, [measured], ("b",)).values.tolist()
        [6.0, 10.0]
    """
    shape = domain.shape_of(clique)
    weighted, weight, sources = np.zeros(shape), np.zeros(shape), 0
    for measurement in measurements:
        if not (set(clique) <= set(measurement.clique) and is_marginal(measurement)):
            continue
        full = domain.shape_of(measurement.clique)
        values = measurement.flat_values().reshape(full)
        variance = np.square(measurement.row_stddevs()).reshape(full)
        precision = 1.0 / marginal_of(measurement.clique, variance, clique)
        weighted += marginal_of(measurement.clique, values, clique) * precision
        weight += precision
        sources += 1
    return NoisyMarginal(weighted / weight, np.sqrt(1.0 / weight), sources) if sources else None


def other_queries(measurements: Sequence[LinearMeasurement], attribute: str) -> list[str] | None:
    """Return the kinds of queries other than marginals through which an attribute was measured.

    Args:
        measurements: released answers.
        attribute: the attribute's name.

    Returns:
        The distinct kinds as in a workload file, in order of appearance: that of the attribute's own block
        unless it is the identity, otherwise those of the other blocks. None if the attribute occurs in no
        measurement other than marginals.

    Example:
        >>> from pgmjax.queries import prefix
        >>> other_queries([LinearMeasurement(("a",), [1, 3], 2.0, prefix())], "a")
        ['prefix']
    """
    found = [m for m in measurements if attribute in m.clique and not is_marginal(m)]
    kinds = [kind for measurement in found for kind in _kinds(measurement.query, attribute)]
    return list(dict.fromkeys(kinds)) if found else None


def _kinds(query: Query, attribute: str) -> list[str]:
    if isinstance(query, WeightedSum):
        kinds = [kind for product in query.products for kind in _kinds(product, attribute)]
        return kinds or ["sum"]
    if not isinstance(query, Product):
        return ["matrix"]
    kinds = [block.kind for block in query.blocks]
    own = kinds[query.clique.index(attribute)]
    return [own] if own != "identity" else [kind for kind in kinds if kind != "identity"]
