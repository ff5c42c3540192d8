"""Trees that join all attributes, a pair at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain


class Forest:
    """Which attributes are joined already.

    Example:
        >>> forest = Forest(["a", "b", "c"])
        >>> forest.join(("a", "b"))
        >>> forest.parts, forest.joined(("b", "a")), forest.joined(("a", "c"))
        (2, True, False)
    """

    def __init__(self, attributes: Sequence[str]):
        self._part = dict.fromkeys(attributes, 0)
        for number, name in enumerate(attributes):
            self._part[name] = number

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(set(self._part.values()))

    def joined(self, clique: Clique) -> bool:
        """Whether all attributes of a clique lie in one part."""
        return len({self._part[name] for name in clique}) == 1

    def join(self, clique: Clique) -> None:
        """Join the parts of a clique's attributes."""
        old = {self._part[name] for name in clique}
        for name, part in self._part.items():
            if part in old:
                self._part[name] = min(old)


def largest_tree(domain: Domain, given: Sequence[Clique]) -> list[Clique]:
    """Return the pairs that join what some cliques leave apart, of the most cells in all."""
    forest = Forest(domain.attributes)
    for clique in given:
        forest.join(clique)
    tree: list[Clique] = []
    for pair in sorted(itertools.combinations(domain.attributes, 2), key=domain.size, reverse=True):
        if not forest.joined(pair):
            forest.join(pair)
            tree.append(pair)
    return tree
