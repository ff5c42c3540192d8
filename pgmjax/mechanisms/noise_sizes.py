"""Noise that a cost buys, in public numbers: distributions, grids and weights of scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import scales
from pgmjax.privacy.scores import Distances
from pgmjax.privacy.scores.base import DEFAULT_BITS
from pgmjax.privacy.selection import exponential_for
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import marginal

_GRID_LIMIT = 2.0**52
_SCALE_LIMIT = 2**49


def largest_sensitivity(
    cliques: Iterable[Clique], domain: Domain, relation: Relation, unit: str, max_weight: int | None
) -> int:
    """Return the largest sensitivity of some marginals, >= 1: L1 for an epsilon, squared L2 for a rho."""
    norm = "l1" if unit == "epsilon" else "l2_squared"
    return max(1, *(Sensitivity.of(marginal(c), domain, relation, norm, max_weight).value for c in cliques))


def distribution_for(sensitivity: int, unit: str, cost: Fraction) -> DiscreteNoise:
    """Return the distribution of noise that a cost buys.

    Raises:
        ValueError: noise too large to add or none at all.
    """
    if unit == "epsilon":
        return scales.laplace_for(sensitivity, cost)
    return scales.gaussian_for(sensitivity, cost)


def whole_weights(weights: Sequence[Fraction], most: int = 4096) -> list[int]:
    """Return whole numbers from 1 to `most` in the proportion of positive weights.

    Exactly in proportion where whole numbers in that range are, otherwise rounded, to 1 at least.

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
    """Return the epsilon of a choice for a cost, roughly."""
    return float(cost) if unit == "epsilon" else math.sqrt(8 * float(cost))


def grid_for(largest: int, unit: str, cost: Fraction) -> int:
    """Return how many bits a score's grid may have so that the noise of its choice can be drawn.

    Args:
        largest: the largest weight times sensitivity of a candidate.
        unit: of the cost.
        cost: of the choice.

    Raises:
        ValueError: not even whole numbers can be chosen from: the cost is too small or too large.
    """
    epsilon = selection_epsilon(unit, cost)
    room = math.floor(math.log2(_SCALE_LIMIT * epsilon / (2 * largest)))
    exponential_for(largest * 2 ** min(DEFAULT_BITS, max(room, 0)), Fraction(epsilon))  # refuses in words
    return min(DEFAULT_BITS, max(room, 0))


def on_grid(values: np.ndarray, bits: int) -> np.ndarray:
    """Return public numbers moved to where a score's grid ends; those beyond would be saturated anyway."""
    limit = math.ldexp(_GRID_LIMIT, -bits)
    return np.clip(values, -limit, limit)


def distances(
    estimates: Mapping[Clique, np.ndarray], bits: int, weights: Mapping[Clique, int], noise: float
) -> Distances:
    """Return the score weight * (||exact marginal - estimate||_1 - its expected noise) of each clique.

    Args:
        estimates: the candidates, with what is publicly expected of them (counts).
        bits: of the score's grid.
        weights: of these and maybe other cliques.
        noise: expected absolute noise of one count.
    """
    return Distances(
        [
            (
                marginal(clique),
                on_grid(estimate, bits),
                weights[clique],
                float(on_grid(np.array(noise * estimate.size), bits)),
            )
            for clique, estimate in estimates.items()
        ],
        bits,
    )
