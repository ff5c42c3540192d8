"""Which attributes are answered for together, in which encoding, at which cost, and with what error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.local.channel import predicted_error
from pgmjax.local.marginals import factors_of
from pgmjax.privacy.exact import as_text, exact, shortened, split
from pgmjax.privacy.responding import ENCODINGS, check_size
from pgmjax.privacy.response import LARGEST_UNARY_SIZE, response_for, unary_for

USELESS = ("refuse", "answer")


@dataclasses.dataclass(frozen=True)
class Universes:
    """Groups of attributes, each answered for as one category.

    Attributes:
        groups: the groups, none with an attribute of another.
        encodings: one a group.
        epsilons: one exact cost a group; their sum is the whole budget.
    """

    groups: tuple[Clique, ...]
    encodings: tuple[str, ...]
    epsilons: tuple[Fraction, ...]

    def describe(self) -> dict[str, Any]:
        """Return them for a ledger."""
        return {
            "groups": [list(group) for group in self.groups],
            "encodings": list(self.encodings),
            "shares": [as_text(epsilon) for epsilon in self.epsilons],
        }

    def predicted_errors(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> dict[Clique, float]:
        """Return for each clique a bound of the standard deviation of an estimated fraction."""
        laws = [
            response_for(domain.size(group), epsilon)
            if encoding == "direct"
            else unary_for(domain.size(group), epsilon, encoding == "symmetric-unary")
            for group, encoding, epsilon in zip(self.groups, self.encodings, self.epsilons, strict=True)
        ]
        return {
            clique: predicted_error(factors_of(domain, self.groups, laws, clique), rows) for clique in cliques
        }


def universes(
    domain: Domain,
    attributes: Sequence[str],
    universe: str,
    encoding: str | None,
    share: Mapping[str, Any] | None,
    epsilon: Fraction,
) -> Universes:
    """Return how attributes are answered for.

    Args:
        domain: with the attributes' sizes.
        attributes: those to answer for.
        universe: "joint" or "attributes".
        encoding: one of `ENCODINGS`, or None for the one of least variance.
        share: weights of the attributes' parts of the budget, 1 where not named; None is 1 for all.
        epsilon: the whole budget.

    Raises:
        ValueError: weights of attributes that are not there or of a joint universe, or a universe that is
            too large.
    """
    named = tuple(name for name in domain if name in attributes)
    weights = _weights(share, named, universe)
    whole = universe == "joint"
    told = [name for name in named if domain[name] > 1]
    if not told:
        raise ValueError("Every attribute asked about has one category: there is nothing to answer for.")
    # an attribute of one category has nothing to hide: it goes with another one, as it would alone
    groups: list[Clique] = [named] if whole else [(name,) for name in told]
    groups[0] = tuple(name for name in named if name in groups[0] or domain[name] == 1)
    parts = split(epsilon, [1] if whole else [weights[name] for name in told])
    encodings = [
        encoding or least_variance(domain.size(group), part)
        for group, part in zip(groups, parts, strict=True)
    ]
    for group, chosen in zip(groups, encodings, strict=True):
        check_size(group, domain.size(group), chosen)
    return Universes(tuple(groups), tuple(encodings), parts)


def least_variance(size: int, epsilon: Fraction) -> str:
    """Return the encoding whose estimated counts of rare categories vary least.

    Direct encoding has (size - 2 + e^epsilon) / (e^epsilon - 1)^2 a record, the optimal unary one
    4 e^epsilon / (e^epsilon - 1)^2. Above 2^16 categories only the direct one is made.

    References:
        Wang, Blocki, Li and Jha 2017, section 4 (direct below 3 e^epsilon + 2 categories).

    Example:
        >>> [least_variance(size, Fraction(1)) for size in (10, 11)]
        ['direct', 'optimal-unary']
    """
    few = size - 2 < 3 * math.exp(min(epsilon, Fraction(700)))
    return "direct" if few or size > LARGEST_UNARY_SIZE else "optimal-unary"


def check_useful(predicted: Mapping[Clique, float], rows: int, epsilon: Fraction, useless: str) -> None:
    """Refuse responses whose noise is larger than any fraction can be.

    Raises:
        ValueError: the predicted error and what to do.
    """
    clique, worst = max(predicted.items(), key=lambda item: item[1])
    if worst > 1 and useless == "refuse":
        raise ValueError(
            f"The universe is too large for {rows:,} records at epsilon {shortened(epsilon)}: the predicted "
            f"standard deviation of an estimated fraction on {clique} is up to {worst:.3g}, where fractions "
            "lie in 0..1. Ask about fewer or coarser attributes, spend more, or say "
            'useless="answer" to have it all the same; nothing was spent.'
        )


def _weights(share: Mapping[str, Any] | None, named: Clique, universe: str) -> dict[str, Any]:
    if share is not None and universe == "joint":
        raise ValueError('share divides the budget among attributes: leave it out for universe="joint".')
    for name in share or ():
        if name not in named:
            raise ValueError(f"share names {name!r}, which is not asked about.")
    return {name: (share or {}).get(name, Fraction(1)) for name in named}


def read_share(share: Any) -> dict[str, Fraction] | None:
    """Return weights as exact numbers.

    Raises:
        TypeError: not a mapping from names to numbers.
        ValueError: a weight that is not > 0.
    """
    if share is None:
        return None
    if not isinstance(share, Mapping):
        raise TypeError(f"share must map attributes to weights, got {type(share).__name__}.")
    weights = {str(name): exact(f"the share of {name!r}", value) for name, value in share.items()}
    for name, weight in weights.items():
        if weight <= 0:
            raise ValueError(f"the share of {name!r} must be > 0, got {shortened(weight)}.")
    return weights


def check_encoding(encoding: Any) -> None:
    """Refuse what is no encoding; None leaves the choice."""
    if encoding is not None:
        checks.choice("encoding", encoding, ENCODINGS)
