"""What a private selection is made of: a priced score and its exact values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting.privacy_events import Selection
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import exact_epsilon, exact_rho
from pgmjax.privacy.scores import Score
from pgmjax.privacy.selection import SelectionLaw
from pgmjax.privacy.sensitivity import Sensitivity

METHODS = ("permute-and-flip", "exponential")
MOST_DRAWS = 10**6


@dataclasses.dataclass(frozen=True)
class Planned:
    """A score with the law of its selection and its cost, everything about it public.

    Attributes:
        score: what is chosen from.
        domain: of the tables it is asked of.
        law: with which probabilities, given the scores.
        sensitivity: how far a score moves between neighbours.
        event: what one draw costs.
        draws: how many independent choices are made from the same scores.
    """

    score: Score
    domain: Domain
    law: SelectionLaw
    sensitivity: Sensitivity
    event: Selection
    draws: int = 1

    @property
    def candidates(self) -> int:
        """The number of candidates."""
        return self.score.candidates(self.domain)

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the records."""
        several = {} if self.draws == 1 else {"draws": self.draws}
        return {
            "score": self.score.to_dict(),
            "method": self.law.name,
            "scale": self.law.scale,
            **several,
        }


def plan(
    score: Any,
    epsilon: Any,
    rho: Any,
    method: str | None,
    unit: str,
    domain: Domain,
    relation: Relation,
    max_weight: int | None,
    backend: NoiseBackend,
    draws: int = 1,
) -> Planned:
    """Return a score with the law that its cost buys.

    Raises:
        TypeError: not a score, or a cost or number of draws that is no number.
        ValueError: a score that does not fit the domain, no such method, or a number out of range.
    """
    if not isinstance(score, Score):
        raise TypeError(f"score must be a pgmjax.privacy.Score, got {type(score).__name__}.")
    if (epsilon is None) == (rho is None):
        raise ValueError("Give either epsilon or rho, what the selection may cost.")
    if method is None:
        method = "permute-and-flip" if unit == "epsilon" else "exponential"
    checks.choice("method", method, METHODS)
    if rho is not None and method != "exponential":
        raise ValueError(
            "Selection for a rho is by the exponential mechanism: permute-and-flip takes epsilon."
        )
    draws = checks.integer("draws", draws, low=1, high=MOST_DRAWS)
    cost = exact_epsilon(epsilon) if rho is None else _epsilon_for(exact_rho(rho))
    score.check(domain)
    sensitivity = score.sensitivity(domain, relation, max_weight)
    make = backend.permute_and_flip if method == "permute-and-flip" else backend.exponential
    return Planned(score, domain, make(sensitivity.value, cost), sensitivity, Selection(cost, method), draws)


def _epsilon_for(rho: Fraction) -> Fraction:
    """Return an epsilon, the largest to 12 digits, of which an eighth of the square is at most rho."""
    digits = 10 ** (12 + max(0, -math.floor(math.log10(rho)) // 2))
    return Fraction(math.isqrt(math.floor(8 * rho * digits**2)), digits)


def exact_scores(planned: Planned, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
    """Return the exact scores, int64 [candidates]."""
    return planned.score.values(planned.domain, tables)
