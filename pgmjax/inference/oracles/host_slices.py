"""Models whose junction tree does not fit in the host's memory: parts of some variables' values, in turn.

Each part is a model of its own with a smaller tree. A marginal is the mean of the parts' marginals, weighted
by their shares of the partition function, so one pass over the parts answers any number of questions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.oracles.host import CACHE_BYTES, HostModel, HostTree, tree_bytes, tree_of
from pgmjax.inference.plan import elimination, forecast, junction_tree
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Structure, Variables

MOST = 1 << 16  # parts
_LARGEST = 3  # tables, of which a variable is divided next


@dataclasses.dataclass(frozen=True, eq=False)
class Slices:
    """A model in parts, each with some values of some variables.

    Attributes:
        model: the whole.
        widths: number of values of each divided variable in a part (fewer in its last part).
    """

    model: HostModel
    widths: dict[int, int]

    def __len__(self) -> int:
        sizes = self.model.structure.sizes
        return math.prod(-(-sizes[v] // width) for v, width in self.widths.items())

    def parts(self) -> Iterator[tuple[dict[int, slice], HostModel]]:
        """The values of each divided variable in a part, and the part."""
        sizes = self.model.structure.sizes
        ranges = [range(0, sizes[v], width) for v, width in self.widths.items()]
        for starts in itertools.product(*ranges):
            ends = [start + width for start, width in zip(starts, self.widths.values(), strict=True)]
            some = dict(zip(self.widths, map(slice, starts, ends), strict=True))
            yield some, self.model.restricted(some)

    @functools.cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the first part, the largest one."""
        return tree_of(next(self.parts())[1].structure)


def sliced(model: HostModel, max_bytes: int | None = None) -> Slices:
    """Divide a model so that each part's junction tree fits; a single part if that of the model does.

    Args:
        model: the model.
        max_bytes: memory that may be used. Default: what is available.

    Raises:
        ModelTooLargeError: more than MOST parts would be needed.
    """
    limit = forecast.available_bytes() if max_bytes is None else max_bytes
    structure, widths = model.structure, dict[int, int]()
    if tree_bytes(tree_of(structure)) <= limit:
        return Slices(model, widths)
    order = elimination.best(structure)
    cliques, sizes = junction_tree.maximal_cliques(order), list(structure.sizes)
    while True:
        v = _divided(cliques, sizes)
        sizes[v] = widths[v] = -(-sizes[v] // 2)
        found = Slices(model, dict(widths))
        if _bytes(cliques, sizes) <= limit and tree_bytes(found.tree) <= limit:
            return found
        if len(found) > MOST or max(sizes) == 1:
            raise ModelTooLargeError(_refusal(structure, order, limit))


def _divided(cliques: Sequence[Variables], sizes: Sequence[int]) -> int:
    """The variable of the largest tables whose division leaves the least memory."""

    def left(v: int) -> tuple[int, int]:
        return _bytes(cliques, [-(-size // 2) if u == v else size for u, size in enumerate(sizes)]), v

    largest = sorted(cliques, key=lambda clique: -math.prod(sizes[v] for v in clique))[:_LARGEST]
    return min({v for clique in largest for v in clique if sizes[v] > 1}, key=left)


def _bytes(cliques: Sequence[Variables], sizes: Sequence[int]) -> int:
    """Memory of the tables of a tree of these cliques."""
    return 8 * sum(math.prod(sizes[v] for v in clique) for clique in cliques)


def _refusal(structure: Structure, order: junction_tree.Elimination, limit: int) -> str:
    largest = max(structure.cells(clique) for clique in order.cliques)
    return (
        f"the best elimination order found has a table of {largest:,} cells (2^{math.log2(largest):.0f}) and "
        f"{readable_bytes(limit)} is available: the model would have to be divided into more than {MOST:,} "
        "parts. Ask for marginals of few attributes one at a time, condition on attributes that many others "
        "depend on, or fit fewer or smaller cliques."
    )


class SlicedTree:
    """Questions to a model whose junction tree does not fit in memory at once.

    Args:
        slices: the model in parts.
        cache_bytes: size of the cache of each part's tree.
    """

    def __init__(self, slices: Slices, cache_bytes: int = CACHE_BYTES):
        self.slices, self.cache_bytes = slices, cache_bytes
        self.tree = slices.tree

    @property
    def log_partition(self) -> float:
        """Log of the sum over all joint states (nats)."""
        return self.slices.model.log_partition

    def marginal(self, wanted: Variables) -> np.ndarray:
        """Probabilities of some variables [size of each], with axes in the order of `wanted`."""
        return self.slices.model.marginal(wanted)

    def marginals(self, wanted: Sequence[Variables]) -> list[np.ndarray]:
        """Several marginals by one pass over the parts."""
        shape = self.slices.model.structure.shape
        found = [np.zeros(shape(variables)) for variables in wanted]
        top = -np.inf
        for some, part in self.slices.parts():
            tree = HostTree(part, self.cache_bytes)
            if tree.log_partition == -np.inf:
                continue
            if tree.log_partition > top:
                for table in found:
                    table *= math.exp(top - tree.log_partition)
                top = tree.log_partition
            share = math.exp(tree.log_partition - top)
            for table, variables in zip(found, wanted, strict=True):
                mine = tuple(some.get(v, slice(None)) for v in variables)
                table[mine] += share * tree.marginal(variables)
        return [table / table.sum() for table in found]


def tree(model: HostModel, cache_bytes: int = CACHE_BYTES) -> HostTree | SlicedTree:
    """The calibrated tree of a model, or its parts in turn if the tree does not fit in memory.

    Raises:
        ModelTooLargeError: too many parts would be needed.
    """
    slices = sliced(model)
    return SlicedTree(slices, cache_bytes) if slices.widths else HostTree(model, cache_bytes)
