"""Noise for a given cost, and the score that AIM chooses by, from public values: grids and weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import scales
from pgmjax.privacy.scores import Distances
from pgmjax.privacy.scores.base import DEFAULT_BITS
from pgmjax.privacy.selection import exponential_for, permute_and_flip_for
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import Query, marginal

_GRID_LIMIT = 2.0**52
_SCALE_LIMIT = 2**49


def largest_sensitivity(
    cliques: Iterable[Clique | Query],
    domain: Domain,
    relation: Relation,
    unit: str,
    max_weight: int | None,
    records: int = 1,
) -> int:
    """Return the largest sensitivity of some marginals, >= 1: L1 for an epsilon, squared L2 for a rho.

    Marginals may be given as queries, which remember their sensitivity. `records` is the largest number of
    records of a unit of privacy.
    """
    norm = "l1" if unit == "epsilon" else "l2_squared"
    queries = (each if isinstance(each, Query) else marginal(each) for each in cliques)
    moved = (Sensitivity.of(query, domain, relation, norm, max_weight) for query in queries)
    return max(1, *(each.of_unit(records).value for each in moved))


def distribution_for(sensitivity: int, unit: str, cost: Fraction) -> DiscreteNoise:
    """Return the distribution of noise for a cost.

    Raises:
        ValueError: the noise would be too large or zero.
    """
    if unit == "epsilon":
        return scales.laplace_for(sensitivity, cost)
    return scales.gaussian_for(sensitivity, cost)


def whole_weights(weights: Sequence[Fraction], most: int = 4096) -> list[int]:
    """Return integers from 1 to `most` in proportion to positive weights.

    The proportion is exact if such integers exist in that range; otherwise they are rounded, to at least 1.

    Example:
        >>> whole_weights([Fraction(1, 2), Fraction(3)]), whole_weights([Fraction(1), Fraction(10**6)])
        ([1, 6], [1, 4096])
    """
    common = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * common) for weight in weights]
    shared = math.gcd(*whole)
    if max(whole) // shared <= most:
        return [weight // shared for weight in whole]
    return [max(1, round(Fraction(weight * most, max(whole)))) for weight in whole]


def selection_epsilon(unit: str, cost: Fraction) -> float:
    """Return the approximate epsilon of a selection for a cost."""
    return float(cost) if unit == "epsilon" else math.sqrt(8 * float(cost))


def check_selection(sensitivity: Any, unit: str, cost: Fraction) -> None:
    """Check that a candidate can be selected at a cost.

    Raises:
        ValueError: the cost is too small or too large for the score's sensitivity.
    """
    if unit == "epsilon":
        permute_and_flip_for(sensitivity, cost)
    else:
        exponential_for(sensitivity, Fraction(math.sqrt(8 * cost)))


def grid_for(largest: int, unit: str, cost: Fraction) -> int:
    """Return the number of bits of a score's grid for which the noise of the selection can be drawn.

    Args:
        largest: the largest product of weight and sensitivity of a candidate.
        unit: the unit of the cost.
        cost: the cost of the selection.

    Raises:
        ValueError: the cost is too small or too large even for integer scores.
    """
    epsilon = selection_epsilon(unit, cost)
    room = math.floor(math.log2(_SCALE_LIMIT * epsilon / (2 * largest)))
    exponential_for(largest * 2 ** min(DEFAULT_BITS, max(room, 0)), Fraction(epsilon))  # refuses in words
    return min(DEFAULT_BITS, max(room, 0))


def grid_for_scores(number: int, largest: int, unit: str, cost: Fraction) -> int:
    """Return the number of bits of a grid for which the noise of all scores together can be drawn.

    Args:
        number: the number of candidates.
        largest: the largest sensitivity of a candidate.
        unit: the unit of the cost.
        cost: the cost of all scores.

    Raises:
        ValueError: the cost is too small or too large even for integer scores.
    """
    power = 1 if unit == "epsilon" else 2
    whole = number * largest**power  # the sensitivity of all of them, squared for a rho
    room = math.floor(math.log2(_SCALE_LIMIT / distribution_for(whole, unit, cost).scale))
    return min(DEFAULT_BITS, max(room, 0))


def on_grid(values: np.ndarray, bits: int) -> np.ndarray:
    """Return public values clipped to the range of a score's grid, which would saturate them anyway."""
    limit = math.ldexp(_GRID_LIMIT, -bits)
    return np.clip(values, -limit, limit)


def distances(
    estimates: Mapping[Clique, np.ndarray],
    bits: int,
    weights: Mapping[Clique, int],
    noise: float,
    queries: Mapping[Clique, Query] | None = None,
) -> Distances:
    """Return the score weight * (||exact marginal - estimate||_1 - its expected noise) of each clique.

    Args:
        estimates: public estimates (counts), by candidate.
        bits: bits of the score's grid.
        weights: weights of these and possibly other cliques.
        noise: expected absolute noise of one count.
        queries: marginals of these cliques, which remember what was checked about them. Default: new ones.
    """
    return Distances(
        [
            (
                marginal(clique) if queries is None else queries[clique],
                on_grid(estimate, bits),
                weights[clique],
                float(on_grid(np.array(noise * estimate.size), bits)),
            )
            for clique, estimate in estimates.items()
        ],
        bits,
    )
