"""Cliques chosen in turn while a model stays within a number of cells, on a triangulation that grows.

A `Triangulation` is a chordal graph with its junction forest. The common neighbours of two variables that
are not neighbours are a clique of it. If they separate the two, the pair adds one clique: these neighbours
and both variables. The number of cells that this adds is known without a look at the forest, and it is never
more than a pair adds that needs further edges, so that most pairs that do not fit are left out at once. For
the others, the forest is cut at a separator on the path between the variables, and a new clique joins the
parts. Where a part of the separator is not next to a variable, the variable is carried there from clique to
clique, as in `inference.plan.growth`.

References:
    Ibarra, Fully dynamic algorithms for chordal graphs and split graphs, ACM Transactions on Algorithms 4
    (2008). Blair and Peyton, An introduction to chordal graphs and clique trees (1993).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgmjax._internal.progress import Progress
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.inference.plan.structure import MOST_CELLS, members

_AT_ONCE = 10_000  # cliques between two advances of the progress bar


def fitting(sizes: Sequence[int], cliques: np.ndarray, limit: int) -> np.ndarray:
    """Choose cliques, smallest table first, while their junction tree has at most `limit` cells.

    At the end, every given clique whose variables share a clique of the tree is taken too: it costs nothing.

    Args:
        sizes: size of each variable.
        cliques: variables of each candidate [candidates, k]; ties are tried in this order.
        limit: most cells of the tree's cliques together.

    Returns:
        Indices of the chosen cliques, smallest table first.

    Example:
        >>> fitting((2, 3, 4), np.array([(0, 1), (0, 2), (1, 2)]), 20).tolist()
        [0, 1]
    """
    cells = np.prod(np.asarray(sizes, float)[cliques], axis=1)
    order = np.argsort(cells, kind="stable")
    order = order[cells[order] <= min(limit, MOST_CELLS)]
    graph = Triangulation(sizes)
    with Progress("choosing marginals", len(order)) as progress:
        for part in _parts(order):
            for clique in cliques[part].tolist():
                graph.add(clique, limit)
            progress.advance(len(part))
    kept = order[graph.complete(cliques[order])]
    while len(kept) and total_cells(sizes, cliques[kept].tolist()) > limit:
        kept = kept[:-1]  # possible if some edge of the triangulation is in no clique that was chosen
    return kept


def _parts(order: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(order), _AT_ONCE):
        yield order[start : start + _AT_ONCE]


@dataclasses.dataclass(frozen=True)
class _Splice:
    """The change by a pair: the forest is cut at one edge of a path, and new cliques join the parts.

    Attributes:
        path: nodes from the last one with the first variable to the first one with the second.
        cut: the edge (between `path[cut - 1]` and `path[cut]`) that is replaced; 0 between two trees.
        left: number of nodes after the first one past which the first variable is carried.
        right: the node of the path up to which the second variable is carried back.
        chain: new cliques from the first node of the path to the last one, as bits.
    """

    path: list[int]
    cut: int
    left: int
    right: int
    chain: list[int]

    @property
    def partners(self) -> list[int]:
        """For each new clique, the node of the path that hangs on it, or -1."""
        return [*self.path[1 : self.left + 1], -1, *self.path[self.right : -1]]

    @property
    def edges(self) -> list[int]:
        """Edges of the path that are removed."""
        last = len(self.path)
        return [] if not self.cut else [*range(1, self.left + 1), self.cut, *range(self.right + 1, last)]


class Triangulation:
    """A chordal graph and its junction forest, to which edges can be added.

    Attributes:
        sizes: size of each variable.
        near: each variable with its neighbours, as bits.
        cells: number of cells of the cliques together; a variable in no clique has none.

    Example:
        >>> graph = Triangulation((2, 3, 4, 5))
        >>> graph.add((0, 1), 100), graph.add((1, 2), 100), graph.add((2, 3), 100), graph.cells
        (True, True, True, 38)
        >>> graph.add((0, 3), 50), graph.cells  # two tables of three variables do not fit
        (False, 38)
    """

    def __init__(self, sizes: Sequence[int]):
        self.sizes = tuple(sizes)
        count = len(self.sizes)
        self.near = [1 << v for v in range(count)]
        self.cells = 0
        # nodes of the forest: the first are those of the variables alone
        self._masks = [1 << v for v in range(count)]
        self._parent = [-1] * count
        self._into = list(range(count))  # the node that a node was merged into
        self._held = dict.fromkeys(self._masks, 0)  # cells of each clique
        self._known: dict[int, int] = {0: 1}

    def add(self, clique: Sequence[int], limit: int) -> bool:
        """Connect the variables of a clique if there are then at most `limit` cells; return whether it is so.

        Nothing changes if they do not fit.
        """
        missing = [(u, v) for u, v in itertools.combinations(clique, 2) if not self.near[u] >> v & 1]
        if len(missing) == 1:
            return self._join(*missing[0], limit)
        if not missing:
            return len(clique) != 1 or self._use(clique[0], limit)
        trial = self._copy()
        if not all(trial.near[u] >> v & 1 or trial._join(u, v, limit) for u, v in missing):
            return False
        self.__dict__.update(trial.__dict__)
        return True

    def complete(self, cliques: np.ndarray) -> np.ndarray:
        """Return whether the variables of each clique [cliques, k] share a clique of the forest [cliques]."""
        count = len(self.sizes)
        rows = [np.frombuffer(near.to_bytes(count // 8 + 1, "little"), np.uint8) for near in self.near]
        graph = np.unpackbits(np.array(rows), axis=1, count=count, bitorder="little").astype(bool)
        if cliques.shape[1] == 1:
            used = [near != 1 << v or self._held[near] > 0 for v, near in enumerate(self.near)]
            return np.array(used)[cliques[:, 0]]
        found = np.ones(len(cliques), bool)
        for i, j in itertools.combinations(range(cliques.shape[1]), 2):
            found &= graph[cliques[:, i], cliques[:, j]]
        return found

    def cliques(self) -> list[tuple[int, ...]]:
        """The maximal cliques; a variable in no clique is left out."""
        return [members(mask) for mask, cells in self._held.items() if cells]

    def _copy(self) -> Triangulation:
        other = Triangulation(())
        for name, value in self.__dict__.items():
            setattr(other, name, value if name == "_known" or not hasattr(value, "copy") else value.copy())
        return other

    def _use(self, v: int, limit: int) -> bool:
        """Put a variable into a clique of its own."""
        alone = 1 << v
        if self.near[v] == alone and not self._held[alone]:
            if self.cells + self.sizes[v] > limit:
                return False
            self._held[alone] = self.sizes[v]
            self.cells += self.sizes[v]
        return True

    def _join(self, u: int, v: int, limit: int) -> bool:
        common = self.near[u] & self.near[v]
        held = self._held
        least = self._size(common) * self.sizes[u] * self.sizes[v]
        least -= held.get(common | 1 << u, 0) + held.get(common | 1 << v, 0)
        if self.cells + least > limit:
            return False
        splice = self._splice(u, v, common)
        if self.cells + self._price(splice) > limit:
            return False
        self._apply(splice)
        return True

    def _size(self, mask: int) -> int:
        """Cells of a table over some variables."""
        found = self._known.get(mask)
        if found is None:
            found = self._known[mask] = math.prod(self.sizes[v] for v in members(mask))
        return found

    def _splice(self, u: int, v: int, common: int) -> _Splice:
        """The cheapest of some ways to add a pair."""
        path = self._path(u, v)
        if not path:
            return _Splice([self._find(u), self._find(v)], 0, 0, 1, [1 << u | 1 << v])
        between = [self._masks[x] & self._masks[y] for x, y in itertools.pairwise(path)]
        if common in between:
            return self._cut(u, v, path, between, between.index(common) + 1)
        narrow = min(range(len(between)), key=lambda i: self._size(between[i]))
        places = dict.fromkeys((narrow + 1, 1, len(between)))
        return min((self._cut(u, v, path, between, i) for i in places), key=self._price)

    def _cut(self, u: int, v: int, path: list[int], between: list[int], place: int) -> _Splice:
        """Cut a path at one edge, and carry both variables to the nearest nodes with its separator."""
        separator, last = between[place - 1], len(path) - 1
        left, right = place - 1, place
        while left and separator & ~between[left - 1] == 0:
            left -= 1
        while right < last and separator & ~between[right] == 0:
            right += 1
        leaving = [*between[1:left], separator][:left]
        arriving = [separator, *between[right : last - 1]][: last - right]
        carried = [a | b | 1 << u for a, b in zip(between[:left], leaving, strict=True)]
        back = [a | b | 1 << v for a, b in zip(arriving, between[right:], strict=True)]
        return _Splice(path, place, left, right, [*carried, separator | 1 << u | 1 << v, *back])

    def _price(self, splice: _Splice) -> int:
        """Cells that are added less those of cliques that become part of others."""
        masks, chain = self._masks, splice.chain
        # new cliques count unless a neighbour in the row contains them; the ends go if a new one does
        first, last = masks[splice.path[0]], masks[splice.path[-1]]
        row = [first, *(mask for mask, _ in itertools.groupby(chain) if mask not in (first, last)), last]
        cells = 0
        for i, mask in enumerate(row):
            inside = (i and mask & ~row[i - 1] == 0) or (i < len(row) - 1 and mask & ~row[i + 1] == 0)
            if 0 < i < len(row) - 1:
                cells += 0 if inside else self._size(mask)
            elif inside:
                cells -= self._held[mask]
        for mask, x in zip(chain, splice.partners, strict=True):
            if x >= 0 and masks[x] & ~mask == 0:
                cells -= self._held[masks[x]]
        return cells

    def _apply(self, splice: _Splice) -> None:
        parent, path = self._parent, splice.path
        for i in splice.edges:
            x, y = path[i - 1], path[i]
            parent[x if self._up(x) == y else y] = -1
        before, touched = path[0], []
        for mask, x in zip(splice.chain, splice.partners, strict=True):
            node = len(parent)
            self._masks.append(mask)
            self._into.append(node)
            parent.append(before)
            if mask not in self._held:
                self._held[mask] = self._size(mask)
                self.cells += self._held[mask]
            touched.append(node)
            if x >= 0:
                self._hang(x, node)
                touched.append(x)
            for v in members(mask):
                self.near[v] |= mask
            before = node
        self._hang(path[-1], before)
        for x in (*touched, path[-1]):
            self._merge(x)

    def _merge(self, x: int) -> None:
        """Merge a node and its parent if one contains the other."""
        up, masks = self._up(x), self._masks
        both = masks[x] | masks[up]
        if both not in (masks[x], masks[up]):
            return
        if masks[x] != masks[up]:
            self.cells -= self._held.pop(masks[x] & masks[up], 0)  # counted once if two nodes had it
        masks[up] = both
        self._into[x] = up

    def _find(self, x: int) -> int:
        """The node that a node was merged into, in the end."""
        into = self._into
        while into[x] != x:
            into[x] = into[into[x]]
            x = into[x]
        return x

    def _up(self, x: int) -> int:
        """The parent of a node, -1 for roots."""
        up = self._parent[x]
        return up if up < 0 else self._find(up)

    def _hang(self, x: int, above: int) -> None:
        """Make a node the root of its tree, and another node its parent."""
        while x >= 0:
            up = self._up(x)
            self._parent[x] = above
            above, x = x, up

    def _path(self, u: int, v: int) -> list[int]:
        """Nodes from the last one that contains `u` to the first one that contains `v`; none if apart."""
        above: dict[int, None] = {}
        x = self._find(u)
        while x >= 0:
            above[x] = None
            x = self._up(x)
        down, y = [], self._find(v)
        while y >= 0 and y not in above:
            down.append(y)
            y = self._up(y)
        if y < 0:
            return []
        path = [*itertools.takewhile(lambda node: node != y, above), y, *reversed(down)]
        masks = self._masks
        first = max(i for i, node in enumerate(path) if masks[node] >> u & 1)
        last = min(i for i, node in enumerate(path) if masks[node] >> v & 1)
        return path[first : last + 1]
