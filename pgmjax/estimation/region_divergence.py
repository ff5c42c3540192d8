"""Relative entropy of a model to a product of one-way marginals, approximated over regions.

The relative entropy of a joint distribution to a product is the cross-entropy of its one-way marginals less
its entropy. If there is no joint distribution, or its entropy is a sum over too many states, its tables over
regions stand for it: each region counts as much as the conditional entropies that `inference.plan.regions`
chooses for it, and once. Exact if the regions form a junction tree; otherwise neither bound nor estimate of
strong dependence, but right to second order in weak dependence between pairs, and convex in any case.

References:
    Globerson and Jaakkola (2007), Approximate inference using conditional entropy decompositions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.inference.plan import regions
from pgmjax.inference.plan.regions import CountingNumbers, RegionGraph

Vector = Any
LEAST = 1e-30
"""Probability below which a cell's logarithm counts as that of this number."""


def counting_numbers(graph: RegionGraph) -> CountingNumbers:
    """Return the counting numbers of conditional entropies, scaled so that every outer region counts once.

    Example:
        >>> from pgmjax.inference.plan.regions import region_graph
        >>> from pgmjax.inference.plan.structure import Structure
        >>> numbers = counting_numbers(region_graph(Structure((2, 2, 2), ((0, 1), (1, 2), (2, 0)))))
        >>> numbers.outer.tolist(), numbers.inner.round(2).tolist()
        ([1.0, 1.0, 1.0], [-0.5, -1.0, -0.0])
    """
    found = regions.trees(graph)
    assert found.conditional is not None
    conditional = tuple(
        counts / found.outer[list(holders)]
        for counts, holders in zip(found.conditional, graph.above, strict=True)
    )
    inner = np.array([-counts.sum() for counts in conditional])
    return CountingNumbers(np.ones(len(graph.outer)), inner, conditional)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["weight", "cells", "part", "number", "first", "value", "variable", "share"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True, eq=False)
class RegionDivergence:
    """Relative entropy to a product, as a function of one vector of the outer regions' tables.

    Attributes:
        weight: for each cell of the outer regions, the number of its region.
        cells: positions of the cells that are summed to marginals on parts of their regions.
        part: for each of these the cell of the part.
        number: for each cell of a part, the weight of its logarithm.
        first: positions of the cells that are summed to one-way marginals.
        value: for each of these the value, over all variables.
        variable: for each value its variable.
        share: for each variable how often it counts: once on a junction tree.
    """

    weight: Any
    cells: Any
    part: Any
    number: Any
    first: Any
    value: Any
    variable: Any
    share: Any

    @classmethod
    def of(cls, graph: RegionGraph, numbers: CountingNumbers) -> RegionDivergence:
        """Lay the regions of a graph out in vectors.

        Args:
            graph: the regions.
            numbers: their counting numbers, a sum of conditional entropies.
        """
        structure = graph.structure
        sizes = np.array([structure.cells(region) for region in graph.outer])
        starts = np.cumsum([0, *sizes])
        share = np.zeros(len(structure.sizes))
        for region, number in zip(graph.outer, numbers.outer, strict=True):
            share[list(region)] += number
        cells, part, number, used = [], [], [], 0
        assert numbers.conditional is not None
        for inner, holders, given in zip(graph.inner, graph.above, numbers.conditional, strict=True):
            for holder, one in zip(holders, given, strict=True):
                if one > 0:
                    region = graph.outer[holder]
                    within = _within(structure.shape(region), [v in inner for v in region])
                    cells.append(starts[holder] + np.arange(sizes[holder]))
                    part.append(used + within)
                    number.append(np.full(structure.cells(inner), one))
                    used += structure.cells(inner)
                    share[list(inner)] -= one
        first, value = [], []
        ends = np.cumsum([0, *structure.sizes])
        for variable in range(len(structure.sizes)):
            holder = next(i for i, region in enumerate(graph.outer) if variable in region)
            region = graph.outer[holder]
            first.append(starts[holder] + np.arange(sizes[holder]))
            value.append(ends[variable] + _within(structure.shape(region), [v == variable for v in region]))
        return cls(
            np.repeat(numbers.outer, sizes),
            _joined(cells),
            _joined(part),
            np.concatenate([np.zeros(0), *number]),
            _joined(first),
            _joined(value),
            np.repeat(np.arange(len(structure.sizes), dtype=np.int32), structure.sizes),
            share,
        )

    def one_way(self, outer: Vector) -> Vector:
        """Return the one-way marginals of all variables [values], from the regions' tables."""
        return jnp.zeros(len(self.variable), outer.dtype).at[self.value].add(outer[self.first])

    def entropy(self, outer: Vector) -> Vector:
        """Return the sum over regions in place of the entropy (nats)."""
        parts = jnp.zeros(len(self.number), outer.dtype).at[self.part].add(outer[self.cells])
        return _weighted(self.number, parts) - _weighted(self.weight, outer)

    def cross_entropy(self, outer: Vector, logarithms: Vector) -> Vector:
        """Return the cross-entropy of the one-way marginals to others (nats).

        Args:
            outer: the regions' tables (probabilities).
            logarithms: of the others' probabilities [values].
        """
        share = jnp.asarray(self.share, outer.dtype)[self.variable]
        return -jnp.sum(share * self.one_way(outer) * logarithms)

    def floored(self, outer: Vector, least: Any) -> Vector:
        """Return the logarithms of the one-way marginals [values], none below a least probability."""
        raised = jnp.maximum(self.one_way(outer), least)
        totals = jnp.zeros(len(self.share), outer.dtype).at[self.variable].add(raised)
        return jnp.log(raised / totals[self.variable])


def _weighted(weight: Vector, tables: Vector) -> Vector:
    """Return the weighted sum of ``p * log(p)``."""
    logs = jnp.log(jnp.maximum(tables, LEAST))
    return jnp.sum(jnp.asarray(weight, tables.dtype) * tables * logs)


def _within(shape: tuple[int, ...], kept: list[bool]) -> np.ndarray:
    """Return for each cell of a table, row-major, the cell of its marginal on the axes kept."""
    small = [size if keep else 1 for size, keep in zip(shape, kept, strict=True)]
    return np.broadcast_to(np.arange(int(np.prod(small))).reshape(small), shape).reshape(-1)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int32)
