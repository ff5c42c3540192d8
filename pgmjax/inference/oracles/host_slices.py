"""Models whose junction tree does not fit in the host's memory: parts of some variables' values, in turn.

Each part is a model of its own with a smaller tree. A marginal is the mean of the parts' marginals, weighted
by their shares of the partition function, so one pass over the parts answers any number of questions.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.oracles.host_tree import CACHE_BYTES, HostTree, tree_of
from pgmjax.inference.plan import parts
from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Variables


@dataclasses.dataclass(frozen=True, eq=False)
class Slices:
    """A model in parts, each with some values of some variables.

    Attributes:
        model: the whole.
        division: which values each part has.
    """

    model: HostModel
    division: parts.Division

    @property
    def whole(self) -> bool:
        """True if there is a single part."""
        return not self.division.widths

    def parts(self) -> Iterator[tuple[dict[int, slice], HostModel]]:
        """The values of each divided variable in a part, and the part."""
        for some in self.division:
            yield some, self.model.restricted(some)

    @functools.cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the first part, the largest one."""
        return tree_of(next(self.parts())[1].structure)


def sliced(model: HostModel) -> Slices:
    """Divide a model so that each part's junction tree fits; a single part if that of the model does.

    Raises:
        ModelTooLargeError: no division fits, or all parts take too long.
    """
    return Slices(model, parts.divide(model.structure, model.limits))


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

    def seconds(self, wanted: Variables) -> float:
        """Forecast of the time of a marginal, on one core (s)."""
        return self.slices.model.seconds(wanted)

    def marginals(self, wanted: Sequence[Variables]) -> list[np.ndarray]:
        """Several marginals by one pass over the parts."""
        shape = self.slices.model.structure.shape
        found = [np.zeros(shape(variables)) for variables in wanted]
        top = -np.inf
        for some, part in self.slices.parts():
            top = self._add(found, wanted, some, HostTree(part, self.cache_bytes), top)
        return [table / table.sum() for table in found]

    def _add(
        self,
        found: list[np.ndarray],
        wanted: Sequence[Variables],
        some: dict[int, slice],
        tree: HostTree,
        top: float,
    ) -> float:
        """Add a part's marginals times its share, on a scale that keeps the largest share at 1."""
        if tree.log_partition == -np.inf:
            return top
        if tree.log_partition > top:
            for table in found:
                table *= math.exp(top - tree.log_partition)
            top = tree.log_partition
        share = math.exp(tree.log_partition - top)
        for table, variables in zip(found, wanted, strict=True):
            mine = tuple(some.get(v, slice(None)) for v in variables)
            table[mine] += share * tree.marginal(variables)
        return top


def tree(model: HostModel, cache_bytes: int = CACHE_BYTES) -> HostTree | SlicedTree:
    """The calibrated tree of a model, or its parts in turn if the tree does not fit in memory.

    Raises:
        ModelTooLargeError: too many parts would be needed, or they would take too long.
    """
    slices = sliced(model)
    return HostTree(model, cache_bytes) if slices.whole else SlicedTree(slices, cache_bytes)
