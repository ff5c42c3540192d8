"""A search for elimination orders: greedy orders with random ties, then local changes of the best one.

Variables whose neighbours are all joined are eliminated first, which is optimal. What remains is ordered
greedily a few times, with ties and near ties broken at random. Then parts of the best order are made again,
which finds orders that no greedy rule finds: either everything after a random position, or a connected set of
variables, which is taken out and eliminated greedily at the place of one of them. A change is kept unless it
is worse. The search ends when it has taken a share of the time that calls with the best order are forecast to
take, but not before a fiftieth of a second where calls take more than a millisecond; or when nothing helps
any more. Time is counted in operations, so that equal structures give equal orders.

References:
    Kask, Gelfand, Otten and Dechter, Pushing the power of stochastic greedy ordering schemes for inference
    in graphical models, AAAI 2011, for random ties and near ties. Pisinger and Ropke, Large neighborhood
    search, in: Handbook of Metaheuristics (2010), for the local changes.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math
from collections.abc import Iterable, Sequence

import numpy as np

from pgmjax import random
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import readable_cells
from pgmjax.inference.plan.junction_tree import Elimination
from pgmjax.inference.plan.structure import Structure, Variables, members

SEARCH_SHARE = 0.15  # of the forecast time of the calls, which the search may take
CELL_SECONDS = 2e-8  # of a call per cell of an eliminated table
MOST_SECONDS = 10.0  # of a search, however long the calls may take
LEAST_SECONDS = 0.02  # about half the time of the greedy rules, where calls take more than SHORT_SECONDS
SHORT_SECONDS = 1e-3  # of all calls
PATIENCE = 20  # changes per variable without a better order, after which the search ends
OPERATION_SECONDS = 1.5e-7  # of an operation of the search
RESTARTS = 8  # whole orders, before the best one is changed
RULES = (
    ("fill", 0.0),
    ("fill", 0.3),
    ("weight", 0.1),
    ("weight", 0.0),
)  # and by how much near ties may differ
MOST_PAIRS = 10**5  # pairs of neighbours, up to which a lower bound takes milliseconds
MOST_BITS = 500  # of a table, which stands for more
MOST_MOVED = 60  # most variables that are taken out of an order
REST_EVERY = 4  # one change in so many makes everything after a position again


def best(
    structure: Structure, last: Variables = (), calls: float = 1, longest: float = MOST_SECONDS
) -> Elimination:
    """The best order found; never one with more cells than those of the greedy rules.

    Args:
        structure: the model.
        last: variables eliminated last (those of a requested marginal).
        calls: number of calls that will use the order: the more, the longer it is searched.
        longest: most seconds of search, counted in operations.

    Example:
        >>> ring = Structure((2,) * 4, ((0, 1), (1, 2), (2, 3), (3, 0)))
        >>> len(best(ring).order)
        4
    """
    return min(found(structure, last, calls, longest), key=lambda order: _cells(structure, order))


@functools.lru_cache(maxsize=256)
def found(
    structure: Structure, last: Variables = (), calls: float = 1, longest: float = MOST_SECONDS
) -> tuple[Elimination, ...]:
    """The orders of the greedy rules, and the one that the search found, if it differs."""
    greedy = tuple(junction_tree.eliminate(structure, rule, last) for rule in junction_tree.RULES)
    first = _simplicial(structure, greedy[0])
    if len(first) >= len(structure.sizes) - len(last):
        return greedy[:1]
    core, variables = _core(structure, first, last)
    number = {v: i for i, v in enumerate(variables)}
    known = tuple(tuple(number[v] for v in each.order if v in number) for each in greedy)
    numbers, seconds = _searched(core, known, calls, longest)
    order = (*first, *(variables[i] for i in numbers))
    orders = greedy if order in [each.order for each in greedy] else (*greedy, _elimination(structure, order))
    return tuple(dataclasses.replace(each, searched=seconds) for each in orders)


@functools.lru_cache(maxsize=256)
def _searched(
    core: _Core, known: tuple[Variables, ...], calls: float, longest: float
) -> tuple[Variables, float]:
    """The order found from known ones, the same for all structures with this core, and the seconds."""
    search = _Search(core, calls, longest)
    for order in known:
        search.offer([v for v in order if v not in search.fixed])
    search.run()
    return (*search.order, *core.last), search.operations * OPERATION_SECONDS


def least_table(structure: Structure) -> int:
    """A lower bound on the cells of the largest table of any elimination order.

    The largest table of an order has at least the cells of the smallest neighbourhood of a variable, in the
    graph and in each of its minors, in which a merged variable counts with the smaller of both sizes.

    References:
        Bodlaender and Koster, Treewidth computations II: lower bounds, Information and Computation 209,
        1103 (2011), heuristic "least-c".

    Example:
        >>> least_table(Structure((2, 3, 5), ((0, 1), (1, 2), (2, 0))))
        30
    """
    near, sizes, bound = structure.neighbours(), list(structure.sizes), 1

    def cells(v: int) -> int:
        return math.prod(sizes[u] for u in near[v]) * sizes[v]

    heap = [(cells(v), v) for v in range(len(sizes))]
    heapq.heapify(heap)
    gone = set[int]()
    while heap:
        least, v = heapq.heappop(heap)
        if v in gone or least != cells(v):
            continue
        bound = max(bound, least)
        gone.add(v)
        for u in near[v]:
            near[u].discard(v)
        if near[v]:
            into = min(near[v], key=lambda u: (len(near[u] & near[v]), u))
            new = near[v] - near[into] - {into}
            near[into] |= new
            for u in new:
                near[u].add(into)
            sizes[into] = min(sizes[into], sizes[v])
            for u in {into, *near[into], *near[v]}:
                heapq.heappush(heap, (cells(u), u))
    return bound


def bound_in_words(structure: Structure) -> str:
    """Length of the search for the best order, and a lower bound on every order."""
    order, least = best(structure), least_table(structure)
    widest = max(map(structure.cells, order.cliques))
    return (
        f"The best elimination order found in {order.searched:.2g} s of search has a table of "
        f"{readable_cells(widest)} cells (2^{math.log2(widest):.0f}); no order has less than "
        f"{readable_cells(least)} (2^{math.log2(least):.0f})."
    )


def least_in_words(structure: Structure) -> str:
    """A lower bound on the largest table as a sentence; empty if it would take long."""
    work = sum(len(near) ** 2 for near in structure.neighbours())
    if work > MOST_PAIRS:
        return ""
    return f" No elimination order has a table of less than {readable_cells(least_table(structure))} cells."


def _cells(structure: Structure, order: Elimination) -> int:
    return sum(structure.cells(clique) for clique in junction_tree.maximal_cliques(order))


def _simplicial(structure: Structure, greedy: Elimination) -> Variables:
    """The first variables of an order by fewest new edges, as long as none adds an edge."""
    near = structure.neighbours()
    for count, (_, *around) in enumerate(greedy.cliques):
        if any(len(near[u].intersection(around)) < len(around) - 1 for u in around):
            return greedy.order[:count]
    return greedy.order


@dataclasses.dataclass(frozen=True)
class _Core:
    """The rest of a structure's graph when simplicial variables are gone, numbered from 0.

    Attributes:
        sizes: size of each variable.
        near: neighbours of each variable, as bits.
        last: variables eliminated last.
    """

    sizes: Variables
    near: tuple[int, ...]
    last: Variables


def _core(structure: Structure, first: Variables, last: Variables) -> tuple[_Core, Variables]:
    """The graph without its first variables, and the variables of the structure by their numbers in it."""
    gone, near = set(first), structure.neighbours()
    variables = tuple(v for v in range(len(near)) if v not in gone)
    number = {v: i for i, v in enumerate(variables)}
    bits = tuple(sum(1 << number[u] for u in near[v] - gone) for v in variables)
    return _Core(structure.shape(variables), bits, tuple(number[v] for v in last)), variables


def _elimination(structure: Structure, order: Sequence[int]) -> Elimination:
    """The cliques of an order."""
    near, position = structure.neighbours(), {v: i for i, v in enumerate(order)}
    cliques = []
    for v in order:
        around = near[v]
        cliques.append((v, *sorted(around, key=position.__getitem__)))
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
    return Elimination(tuple(order), tuple(cliques), "local search")


class _Graph:
    """A graph under elimination: the neighbours that remain, as bits, and the cells so far."""

    def __init__(self, near: list[int], logs: list[float]):
        self.near, self.logs = near.copy(), logs
        self.cells, self.operations = 0.0, 0

    def weight(self, v: int) -> float:
        """The cells of a variable with its neighbours, as a logarithm to base 2."""
        around = self.near[v]
        self.operations += around.bit_count() + 2
        return self.logs[v] + sum([self.logs[u] for u in members(around)])

    def fill(self, v: int) -> float:
        """The number of edges that eliminating a variable would add."""
        around = self.near[v]
        degree, edges = around.bit_count(), 0
        self.operations += degree + 2
        for u in members(around):
            edges += (around & self.near[u]).bit_count()
        return (degree * (degree - 1) - edges) // 2

    def eliminate(self, v: int) -> tuple[int, bool]:
        """Join the neighbours of a variable; return them, and whether an edge was added."""
        near, around, bit, added = self.near, self.near[v], 1 << v, False
        self.cells += 2.0 ** min(self.weight(v), MOST_BITS)
        self.operations += around.bit_count()
        for u in members(around):
            missing = around & ~near[u] & ~(1 << u)
            if missing:
                near[u] |= missing
                added = True
            near[u] &= ~bit
        return around, added


class _Search:
    """The best order found so far of the variables of a core that are not fixed as last."""

    def __init__(self, core: _Core, calls: float, longest: float = MOST_SECONDS):
        self.last, self.fixed = core.last, frozenset(core.last)
        self.near = list(core.near)
        self.logs = np.log2(core.sizes).tolist()
        self.free = [v for v in range(len(core.near)) if v not in self.fixed]
        self.order: list[int] = []
        self.cells, self.operations, self.calls, self.longest = np.inf, 0, calls, longest
        self.random = random.generator(0)

    @property
    def allowed(self) -> float:
        """Operations that the search may take for the best order so far."""
        seconds = self.calls * CELL_SECONDS * self.cells
        least = LEAST_SECONDS if seconds > SHORT_SECONDS else 0.0
        return min(max(SEARCH_SHARE * seconds, least), self.longest) / OPERATION_SECONDS

    def run(self) -> None:
        """Search until the operations are used up."""
        tried, better = 0, 0
        while self.operations < self.allowed and tried - better <= RESTARTS + PATIENCE * len(self.free):
            before = self.cells
            if tried < RESTARTS:
                self._try(0, self.free, RULES[tried % len(RULES)])
            else:
                place, again = self._part(tried % REST_EVERY == 0)
                self._try(place, again, RULES[int(self.random.random() * len(RULES))])
            tried += 1
            better = tried if self.cells < before else better

    def offer(self, order: list[int]) -> None:
        """Take an order as the best one if none is better."""
        graph = _Graph(self.near, self.logs)
        if self._follow(graph, (*order, *self.last)):
            self.order, self.cells = order, graph.cells

    def _part(self, whole: bool) -> tuple[int, list[int]]:
        """A position of the best order, and the variables whose order is made again from there on."""
        draw, order = self.random.random, self.order
        if whole:
            place = int(draw() * len(order))
            return place, order[place:]
        ball = [order[int(draw() * len(order))]]
        size, seen = 2 + int(draw() * min(len(order) - 1, MOST_MOVED)), 1 << ball[0]
        for v in ball:  # grows during iteration
            seen |= self.near[v]
            known = set(ball)
            ball += [u for u in members(self.near[v]) if u not in known and u not in self.fixed]
            if len(ball) >= size:
                break
        ball = ball[:size]
        inside = set(ball)
        places = [i for i, v in enumerate(order) if v in inside]
        return places[int(draw() * len(places))], ball

    def _try(self, place: int, again: list[int], rule: tuple[str, float]) -> None:
        """Eliminate some variables greedily at a position of the best order; keep the order unless worse."""
        graph, inside = _Graph(self.near, self.logs), set(again)
        before = [v for v in self.order[:place] if v not in inside]
        after = [v for v in self.order[place:] if v not in inside]
        between: list[int] = []
        if self._follow(graph, before) and self._greedy(graph, again, rule, between):
            rest = (*after, *self.last)
            if self._follow(graph, rest):
                self.order, self.cells = [*before, *between, *after], graph.cells
        self.operations += graph.operations + 20 * len(self.order)

    def _follow(self, graph: _Graph, order: Iterable[int]) -> bool:
        """Eliminate in a given order; False as soon as it is worse than the best one."""
        for v in order:
            graph.eliminate(v)
            if graph.cells > self.cells:
                return False
        return True

    def _greedy(self, graph: _Graph, among: list[int], rule: tuple[str, float], order: list[int]) -> bool:
        """Eliminate the cheapest of some variables until none is left, and append them to an order."""
        price = graph.fill if rule[0] == "fill" else graph.weight
        costs = {v: price(v) for v in among}
        while costs:
            limit = min(costs.values()) * (1 + rule[1]) + 1e-9
            near_ties = [v for v, cost in costs.items() if cost <= limit]
            v = near_ties[int(self.random.random() * len(near_ties))]
            graph.operations += len(costs) // 4
            del costs[v]
            order.append(v)
            around, added = graph.eliminate(v)
            if graph.cells > self.cells:
                return False
            changed = around
            if added and rule[0] == "fill":
                for u in members(around):
                    changed |= graph.near[u]
            for u in members(changed):
                if u in costs:
                    costs[u] = price(u)
        return True
