"""Exact histograms of many cliques in one pass over batches of codes.

Small cliques are counted together. If the union of their attributes has few cells, one joint histogram
over it is counted and each marginal is a sum over that histogram. For all two-way marginals of ten
attributes this takes about twenty passes over a batch instead of forty-five.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.data.domain import Clique, Domain, marginal_of, maximal

# a joint histogram of this many int64 cells stays in the second-level cache of a core
_JOINT_CELLS = 1 << 16


def joint_cliques(
    domain: Domain, cliques: Sequence[Clique], limit: int = _JOINT_CELLS
) -> dict[Clique, list[Clique]]:
    """Return a small set of unions of cliques so that each given clique is contained in one of them.

    A union starts from the smallest clique not yet covered. It is extended by the attribute that covers
    most further cliques while it has at most `limit` cells. A clique with more cells is left as it is.

    Args:
        domain: the domain.
        cliques: the cliques, none contained in another.
        limit: the largest number of cells of a union.

    Returns:
        For every union, the cliques contained in it that no earlier union covers.

    Example:
        >>> domain = Domain({"a": 2, "b": 3, "c": 4})
        >>> joint_cliques(domain, [("a", "b"), ("b", "c"), ("a", "c")])
        {('a', 'b', 'c'): [('a', 'b'), ('a', 'c'), ('b', 'c')]}
        >>> joint_cliques(domain, [("a", "b"), ("b", "c"), ("a", "c")], limit=12)
        {('a', 'b'): [('a', 'b')], ('a', 'c'): [('a', 'c')], ('b', 'c'): [('b', 'c')]}
    """
    # the smallest first: it has most room to grow, and takes others along
    ordered = sorted(cliques, key=domain.size)
    place = {name: k for k, name in enumerate(domain)}
    member = np.zeros((len(ordered), len(domain)), dtype=np.int32)
    for row, clique in enumerate(ordered):
        member[row, [place[name] for name in clique]] = 1
    width = member.sum(axis=1)
    within = np.zeros(len(ordered), dtype=bool)
    unions: dict[Clique, list[Clique]] = {}
    for first, clique in enumerate(ordered):
        if within[first]:
            continue
        # cliques that are covered already count as lacking too much to gain by an attribute
        union = _grown(domain, member, np.where(within, len(domain) + 1, width), clique, limit)
        taken = np.flatnonzero(~within & (member[:, [place[name] for name in union]].sum(axis=1) == width))
        within[taken] = True
        unions[union] = [ordered[row] for row in taken]
    return unions


def _grown(domain: Domain, member: np.ndarray, width: np.ndarray, clique: Clique, limit: int) -> Clique:
    """Extend a clique one attribute at a time; see `joint_cliques`."""
    sizes = np.array(domain.shape, dtype=np.float64)
    union = [domain.attributes.index(name) for name in clique]
    lacking = width - member[:, union].sum(axis=1)
    while True:
        # cliques that lack one attribute are covered once the union has it
        gain = member[lacking == 1].sum(axis=0)
        gain[union] = 0
        gain[sizes > limit // math.prod(domain.shape[k] for k in union)] = 0
        # ties go to the attribute with the fewest codes
        best = int(np.lexsort((sizes, -gain))[0])
        if not gain[best]:
            return tuple(domain.attributes[k] for k in union)
        union.append(best)
        lacking = lacking - member[:, best]


class Histograms:
    """Exact counts over cliques, filled batch by batch.

    Args:
        domain: the domain of the codes.
        cliques: the cliques to count, assumed valid.

    Raises:
        ValueError: the tables together exceed the available memory.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique]):
        self._domain = domain
        self._cliques = list(cliques)
        unions = joint_cliques(domain, maximal(self._cliques))
        self._union_of = {frozenset(part): union for union, parts in unions.items() for part in parts}
        for clique in self._cliques:
            if frozenset(clique) not in self._union_of:
                self._union_of[frozenset(clique)] = next(u for u in unions if set(clique) <= set(u))
        check_memory(domain, [*unions, *self._cliques])
        self._counts = {union: np.zeros(domain.size(union), dtype=np.int64) for union in unions}

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes to count, in the domain's order."""
        used = {name for union in self._counts for name in union}
        return tuple(name for name in self._domain if name in used)

    def add(self, columns: Mapping[str, np.ndarray], weights: np.ndarray | None = None) -> None:
        """Count a batch.

        Args:
            columns: valid codes [rows] by attribute, unsigned.
            weights: non-negative integer weights [rows]. Default: 1 per row.
        """
        value = 1 if weights is None else weights.astype(np.int64)
        wide: dict[tuple[str, np.dtype], np.ndarray] = {}
        for union, counts in self._counts.items():
            # 16 bits hold every cell of a small table, at a quarter of the memory traffic
            dtype = np.dtype(np.uint16 if counts.size < 1 << 16 else np.intp)
            for name in union:
                if (name, dtype) not in wide:
                    wide[name, dtype] = columns[name].astype(dtype)
            # copied: it is changed in place below, and other unions use the same codes
            cell = wide[union[0], dtype].copy()
            for name in union[1:]:
                np.multiply(cell, dtype.type(self._domain[name]), out=cell)
                np.add(cell, wide[name, dtype], out=cell)
            # faster than bincount, no new table per batch, and exact with weights (bincount adds floats)
            np.add.at(counts, cell.astype(np.intp, copy=False), value)

    def marginals(self) -> list[np.ndarray]:
        """Return for every clique its counts, an int64 array of the clique's shape."""
        return [self._marginal(clique) for clique in self._cliques]

    def _marginal(self, clique: Clique) -> np.ndarray:
        union = self._union_of[frozenset(clique)]
        table = self._counts[union].reshape(self._domain.shape_of(union))
        counts: np.ndarray = marginal_of(union, table, clique).copy()
        return counts


def check_memory(domain: Domain, cliques: Sequence[Clique]) -> None:
    """Check that the tables of counts fit in memory. Reads no record.

    Raises:
        ValueError: they do not fit. The message gives both sizes and the largest clique.
    """
    needed, free = 8 * sum(domain.size(clique) for clique in cliques), available_bytes()
    if needed > free:
        largest = max(cliques, key=domain.size)
        raise ValueError(
            f"Counting these marginals needs {readable_bytes(needed)} and {readable_bytes(free)} is "
            f"available; the largest is over {largest} with {domain.size(largest):,} cells: leave it out or "
            "coarsen its attributes."
        )
