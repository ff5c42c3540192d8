"""Tables over cliques in orthogonal parts: the mean, the effect of each attribute, of each pair, and so on.

A linear function of a table's records that names few attributes is a sum of effects, one for each subset of
them; the effect of a subset sums to zero along each of its attributes. Functions on different cliques meet
in the effects of the subsets they share, so that a domain is never written out.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """Coordinates of functions on some cliques.

    Attributes:
        domain: the attributes.
        places: for each subset of a clique, in the domain's order, where its numbers stand.
        length: how many numbers there are.

    References:
        Darroch and Speed 1983, "Additive and multiplicative models and interactions".

    Example:
        >>> effects = Effects.of(Domain({"a": 2, "b": 2}), [("a", "b")])
        >>> [np.round(effects.coordinates(("a",), np.array([3.0, 1.0]))[part], 3).tolist()
        ...  for part in effects.places.values()]
        [[2.0], [0.707, -0.707], [0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """

    domain: Domain
    places: dict[Clique, slice]
    length: int

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Clique]) -> Effects:
        """Return coordinates for functions on these cliques and on their subsets."""
        places: dict[Clique, slice] = {}
        start = 0
        for clique in cliques:
            for subset in _subsets(_ordered(domain, clique)):
                if subset not in places:
                    places[subset] = slice(start, start + domain.size(subset))
                    start = places[subset].stop
        return cls(domain, places, start)

    def coordinates(self, clique: Clique, table: np.ndarray) -> np.ndarray:
        """Return a function's coordinates [length]; their squares sum to the mean square of the function.

        Args:
            clique: the attributes it names.
            table: its values [size of each attribute].
        """
        result = np.zeros(self.length)
        ordered = _ordered(self.domain, clique)
        parts: dict[Clique, np.ndarray] = {(): table.transpose([clique.index(name) for name in ordered])}
        for name in ordered:  # the axes that are left come after those of the key
            split: dict[Clique, np.ndarray] = {}
            for subset, part in parts.items():
                mean = part.mean(axis=len(subset))
                split[subset] = mean
                split[(*subset, name)] = part - np.expand_dims(mean, len(subset))
            parts = split
        for subset, part in parts.items():
            result[self.places[subset]] = part.reshape(-1) / math.sqrt(part.size)
        return result

    def table(self, clique: Clique, vector: np.ndarray) -> np.ndarray:
        """Apply the transpose of `coordinates`: [length] to a table of the clique."""
        ordered = _ordered(self.domain, clique)
        parts = {}
        for subset in _subsets(ordered):
            shape = self.domain.shape_of(subset)
            parts[subset] = vector[self.places[subset]].reshape(shape) / math.sqrt(math.prod(shape))
        for name in reversed(ordered):
            parts = {
                subset: _joined(part, parts[(*subset, name)], len(subset))
                for subset, part in parts.items()
                if name not in subset
            }
        return parts[()].transpose([ordered.index(name) for name in clique])

    def subsets(self, clique: Clique) -> list[Clique]:
        """Return the subsets of a clique, as they are named in `places`."""
        return _subsets(_ordered(self.domain, clique))


def _joined(mean: np.ndarray, effect: np.ndarray, axis: int) -> np.ndarray:
    """The transpose of taking the mean along an axis, and the rest."""
    spread = np.expand_dims(mean, axis) / effect.shape[axis]
    return spread + effect - effect.mean(axis=axis, keepdims=True)


def _ordered(domain: Domain, clique: Sequence[str]) -> Clique:
    return tuple(name for name in domain.attributes if name in clique)


def _subsets(clique: Clique) -> list[Clique]:
    return [some for size in range(len(clique) + 1) for some in itertools.combinations(clique, size)]
