"""Synthetic rows and the most likely row, by backward passes through an elimination.

Each variable is drawn given those eliminated after it, for a block of rows at a time, so memory does
not depend on the number of rows. A conditional distribution of moderate size is computed once and used
for every block. A larger one is recomputed for the parents that occur in a block, a piece at a time, so
that memory stays bounded.

With the method `round`, which is the default, integer numbers of rows are allocated to the cells of each
clique, as close to the model's marginals as integers allow. They are taken at even steps from a random start
(systematic sampling), so each cell gets its expected number rounded up or down, and that number on average. A
child clique uses the counts of its separator from its parent. The rows themselves are then drawn from these
counts without replacement, block by block, in random order. They are not independent of one another: those
of `multinomial` are.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.inference.oracles.host import Bucket, HostModel
from pgmjax.inference.plan.structure import Variables
from pgmjax.kernels.log_sum_exp import host_max

ROUND, INDEPENDENT = METHODS = ("round", "multinomial")
BLOCK_ROWS = 1 << 18

KEPT_CELLS = 1 << 22  # most cells of a table that is computed once
PIECE_CELLS = 1 << 20  # of a piece of a table that is recomputed

GOLDEN = (math.sqrt(5) - 1) / 2
_ROW_BITS = 20  # a block has at most 2**20 rows
_KEY_BITS = 22  # and a kept table at most 2**22 groups of parents


def joined(drawn: Iterable[Sequence[np.ndarray]], variables: int) -> list[np.ndarray]:
    """Concatenate blocks of rows.

    Args:
        drawn: blocks, each with the codes of each variable.
        variables: number of variables.

    Returns:
        Codes [rows] of each variable, int64.
    """
    empty = [np.zeros(0, np.int64)] * variables
    parts = zip(*(list(drawn) or [empty]), strict=True)
    return [np.concatenate(part, dtype=np.int64) for part in parts]


def blocks(model: HostModel, rows: int, seed: int, method: str = ROUND) -> Iterator[list[np.ndarray]]:
    """Draw rows of a model, a block at a time.

    Args:
        model: the distribution.
        rows: number of rows.
        seed: for the generator; the same seed gives the same rows. It protects nothing.
        method: `round` allocates all rows to the cells of each clique as evenly as integers allow (see
            `allocate`); from the first table on that is too large to be kept, each block is allocated
            separately. `multinomial` draws rows independently, which has more sampling error.

    Returns:
        An iterator over blocks: codes [at most BLOCK_ROWS] of each variable.

    Raises:
        ValueError: unknown method; raised at the call, before iteration.
    """
    method = checks.choice("method", method, METHODS)
    divided = model.divided()
    if len(divided) > 1:
        return _sliced_blocks(model, divided, rows, random.generator(seed), method)
    return _blocks(model.buckets(), model.structure.sizes, rows, random.generator(seed), method)


def _sliced_blocks(
    model: HostModel, divided: list[dict[int, slice]], rows: int, generator: np.random.Generator, method: str
) -> Iterator[list[np.ndarray]]:
    """Blocks of rows of a model in parts: first each row's part, then its codes; all rows are in memory."""
    cumulated = cumulate(np.array([[model.restricted(some).log_partition for some in divided]]))
    if method == ROUND:
        (counts,) = even(cumulated, np.array([rows]), generator)
        # shuffled, as the rows of each part would else stand together
        which = generator.permutation(np.repeat(np.arange(len(counts)), counts))
    else:
        which = inverse(cumulated, np.zeros(rows, np.int64), generator.random(rows))
    sizes = model.structure.sizes
    columns = [np.zeros(rows, np.int64) for _ in sizes]
    for number, some in enumerate(divided):
        mine = np.flatnonzero(which == number)
        if len(mine):
            part = model.restricted(some)
            drawn = _blocks(part.buckets(), part.structure.sizes, len(mine), generator, method)
            for v, codes in enumerate(joined(drawn, len(sizes))):
                columns[v][mine] = codes + (some[v].start if v in some else 0)
    for start in range(0, rows, BLOCK_ROWS):
        yield [column[start : start + BLOCK_ROWS] for column in columns]


def _blocks(
    buckets: Sequence[Bucket], sizes: Sequence[int], rows: int, generator: np.random.Generator, method: str
) -> Iterator[list[np.ndarray]]:
    order = conditionals(buckets, sizes)
    # for all rows before the first block, so that the blocks add up to one allocation
    left = allocate(order, rows, generator) if method == ROUND else [None] * len(order)
    for start in range(0, rows, BLOCK_ROWS):
        number = min(BLOCK_ROWS, rows - start)
        columns: list[np.ndarray] = [np.zeros(0, np.int64)] * len(sizes)
        for i, conditional in enumerate(order):
            key = conditional.keys(columns, number)
            counts = left[i]
            if counts is not None:
                columns[conditional.variable] = take(counts, key, generator)
            else:
                columns[conditional.variable] = draw(conditional, key, generator, method)
        yield columns


def draw(
    conditional: Conditional, key: np.ndarray, generator: np.random.Generator, method: str = ROUND
) -> np.ndarray:
    """Draw one variable of a block of rows.

    Args:
        conditional: the variable given its parents.
        key: each row's combination of the parents [rows].
        generator: of the draws.
        method: `round` allocates this block of rows separately; `multinomial` draws its rows independently.

    Returns:
        Codes [rows].
    """
    rows = len(key)
    if method == INDEPENDENT:
        position = generator.random(rows)
        if conditional.kept:
            return inverse(conditional.cumulated, key, position)
    values, group = np.unique(key, return_inverse=True)
    # rows by group, so that those of a piece stand together
    by_group = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group))
    result = np.empty(rows, np.int64)
    for first, cumulated in conditional.pieces(values):
        low = ends[first - 1] if first else 0
        mine = by_group[low : ends[first + len(cumulated) - 1]]
        local = group[mine] - first
        if method == INDEPENDENT:
            result[mine] = inverse(cumulated, local, position[mine])
        else:
            counts = even(cumulated, np.bincount(local, minlength=len(cumulated)), generator)
            result[mine] = deal(counts, local, generator)
    return result


def mode(model: HostModel) -> list[int]:
    """The most likely assignment, as a code for each variable."""
    best, codes = -np.inf, [0] * len(model.structure.sizes)
    for some in model.divided():
        found: dict[int, np.ndarray] = {}
        for bucket in reversed(model.restricted(some).buckets(host_max)):
            log_weights = bucket.log_weights({u: found[u] for u in bucket.parents})
            found[bucket.variable] = np.argmax(log_weights, axis=1)
        here = [int(found[v][0]) + (some[v].start if v in some else 0) for v in range(len(codes))]
        value = sum(
            float(table[tuple(here[v] for v in clique)])
            for table, clique in zip(model.tables, model.structure.cliques, strict=True)
        )
        if value > best:
            best, codes = value, here
    return codes


@dataclasses.dataclass(frozen=True, eq=False)
class Conditional:
    """A variable given its parents.

    Attributes:
        bucket: its elimination bucket, with log-tables over the variable and its parents.
        size: number of codes of the variable.
        parent_sizes: number of codes of each parent.
    """

    bucket: Bucket
    size: int
    parent_sizes: tuple[int, ...]

    @property
    def variable(self) -> int:
        """The variable."""
        return self.bucket.variable

    @property
    def parents(self) -> Variables:
        """Its parents, in the order of their axes."""
        return self.bucket.parents

    @property
    def groups(self) -> int:
        """Number of combinations of the parents."""
        return math.prod(self.parent_sizes)

    @property
    def kept(self) -> bool:
        """True if the table is small enough to be computed once and kept."""
        return self.groups * self.size <= KEPT_CELLS

    def keys(self, columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
        """Index of each row's combination of the parents [rows], row-major in the order of the parents."""
        key = np.zeros(rows, np.int64)
        for parent, size in zip(self.parents, self.parent_sizes, strict=True):
            key *= size
            key += columns[parent]
        return key

    @functools.cached_property
    def cumulated(self) -> np.ndarray:
        """The table of `tabulated`, kept for all blocks."""
        return self.tabulated()

    def tabulated(self) -> np.ndarray:
        """Return the cumulated probabilities [groups, size]; to be called only if `kept`."""
        pieces = [table for _, table in self.pieces(np.arange(self.groups))]
        return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]

    def pieces(self, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Compute the table of some combinations of the parents, piece by piece.

        Args:
            keys: the combinations, each once, as `keys` numbers them.

        Returns:
            An iterator over pieces: the place of its first combination among them, and the cumulated
            probabilities [combinations of the piece, size].
        """
        step = max(PIECE_CELLS // self.size, 1)
        for start in range(0, max(len(keys), 1), step):
            part = keys[start : start + step]
            codes = np.unravel_index(part, self.parent_sizes) if self.parents else ()
            log_weights = self.bucket.log_weights(dict(zip(self.parents, codes, strict=True)))
            yield start, cumulate(log_weights)


def conditionals(buckets: Sequence[Bucket], sizes: Sequence[int]) -> list[Conditional]:
    """The conditional of every bucket, in the order in which rows are drawn (the last eliminated first)."""
    return [Conditional(b, sizes[b.variable], tuple(sizes[u] for u in b.parents)) for b in reversed(buckets)]


def cumulate(log_weights: np.ndarray) -> np.ndarray:
    """Cumulated probabilities of log-weights [groups, size]; the last of each group is exactly 1.

    A group without a possible cell gets a uniform distribution: no row of the model has these parents.
    """
    top = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0.0))
    weights[~np.isfinite(top[:, 0])] = 1.0
    cumulated = np.cumsum(weights, axis=1)
    # copied, as the division in place would read what it has overwritten
    cumulated /= cumulated[:, -1:].copy()
    return cumulated


def inverse(cumulated: np.ndarray, group: np.ndarray, position: np.ndarray) -> np.ndarray:
    """The first cell of each row's group whose cumulated probability exceeds the row's position.

    A cell of probability zero is never returned: its cumulated value equals that of the previous cell.

    Args:
        cumulated: [groups, size], each group increasing to 1.
        group: [rows].
        position: [rows], in [0, 1).

    Returns:
        Codes [rows].
    """
    size = cumulated.shape[1]
    flat = cumulated.reshape(-1)
    base = group * size
    found = np.zeros(len(group), np.int64)
    # the largest power of 2 below the size; 0 where there is one cell and nothing to search
    step = 1 << max(size - 1, 0).bit_length() >> 1
    # binary search over all rows at once; probes past the last cell are clipped to it (its value is 1)
    while step:
        probe = np.minimum(found + (step - 1), size - 1)
        probe += base
        found += step * (flat[probe] <= position)
        step >>= 1
    return found


def allocate(
    order: Sequence[Conditional], rows: int, generator: np.random.Generator
) -> list[np.ndarray | None]:
    """Allocate rows to the cells of every clique.

    Args:
        order: all variables in the order of drawing.
        rows: number of rows.
        generator: of the random starts.

    Returns:
        Counts [groups, size] of each conditional; None for one that is not `kept`, and for those below it.
        The counts of a clique sum to those of its separator, and each is within 1 of its expectation given
        the separator's counts.

    References:
        Systematic sampling: Cochran, Sampling Techniques (1977), chapter 8.
    """
    above = _above(order)
    edges: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    last = {parent: i for i, parent in enumerate(above) if _same_clique(order, i, parent)}
    counts: list[np.ndarray | None] = []
    for i, conditional in enumerate(order):
        parent = above[i]
        of_parent = None if parent is None else counts[parent]
        if not conditional.kept or (parent is not None and of_parent is None):
            counts.append(None)
            continue
        if parent is None or of_parent is None:
            low, high = _fresh(np.array([rows]), generator)
        else:
            axes = (*order[parent].parents, order[parent].variable)
            shape = (*order[parent].parent_sizes, order[parent].size)
            if parent in edges and _same_clique(order, i, parent):
                # its cells share one walk with the parent's, so that each count is within 1
                turned = [axes.index(u) for u in conditional.parents]
                low, high = (e.reshape(shape).transpose(turned).reshape(-1) for e in edges[parent])
            else:
                low, high = _fresh(_summed(of_parent, axes, shape, conditional), generator)
        upper = _between(low, high, conditional.tabulated())
        lower = np.concatenate([low[:, None], upper[:, :-1]], axis=1)
        if i in last:
            edges[i] = lower, upper
        if parent is not None and last.get(parent) == i:
            del edges[parent]  # its memory is free
        dtype = np.int32 if rows <= np.iinfo(np.int32).max else np.int64
        # a cell gets as many rows as there are whole numbers on its part of the walk
        counts.append((np.floor(upper) - np.floor(lower)).astype(dtype))
    return counts


def _above(order: Sequence[Conditional]) -> list[int | None]:
    """The place of each conditional's parent drawn last, which has all the others among its own parents."""
    place = {conditional.variable: i for i, conditional in enumerate(order)}
    return [max((place[u] for u in conditional.parents), default=None) for conditional in order]


def _same_clique(order: Sequence[Conditional], i: int, parent: int | None) -> bool:
    """True if the parents of a conditional are the whole clique of the one above it."""
    return parent is not None and len(order[i].parents) == len(order[parent].parents) + 1


def _fresh(counts: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a walk of integer length for each group.

    The start of every walk is uniform. Those of successive groups differ by the golden ratio, so that any
    groups in a row cover the unit interval evenly: what many small groups round up adds up to little.
    """
    walks = np.cumsum(counts > 0)
    # starts are multiples of 2**-20, so that adding them to a count is exact and no row is lost
    start = np.floor((generator.random() + GOLDEN * walks) % 1 * (1 << 20)) / (1 << 20)
    return start, start + counts


def _between(low: np.ndarray, high: np.ndarray, cumulated: np.ndarray) -> np.ndarray:
    """Upper ends of the cells of each group's walk; the last possible cell ends exactly at the walk's end."""
    inside = np.minimum(low[:, None] + (high - low)[:, None] * cumulated, high[:, None])
    return np.where(cumulated >= 1, high[:, None], inside)


def _summed(
    counts: np.ndarray, axes: tuple[int, ...], shape: tuple[int, ...], conditional: Conditional
) -> np.ndarray:
    kept = [axes.index(u) for u in conditional.parents]
    return np.einsum(counts.reshape(shape), range(len(axes)), kept).reshape(-1)


def take(left: np.ndarray, key: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one cell per row from remaining counts, evenly and without replacement.

    Args:
        left: remaining counts [groups, size]; decreased in place.
        key: group of each row [rows]; no group may have more rows than its remaining counts.
        generator: of the starts and of the order.

    Returns:
        Codes [rows], in random order within a group.
    """
    wanted = np.bincount(key, minlength=len(left))
    (present,) = np.nonzero(wanted)  # a block may contain few of many groups
    mine = left[present]
    reached = np.cumsum(mine, axis=1, dtype=np.int64)
    whole = reached[:, -1]
    start = generator.integers(whole)
    # integer arithmetic: a cell never gives more than it has, and the last block takes all
    ends = (reached * wanted[present, None] + start[:, None]) // whole[:, None]
    dealt = np.diff(ends, axis=1, prepend=0)
    left[present] = mine - dealt
    return deal(dealt, key, generator)


def even(cumulated: np.ndarray, wanted: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Allocate the rows of each group to its cells in proportion to their probabilities.

    Args:
        cumulated: cumulated probabilities [groups, size].
        wanted: number of rows of each group [groups].
        generator: of the starts.

    Returns:
        Counts [groups, size], which sum to `wanted`.
    """
    low, high = _fresh(wanted, generator)
    upper = _between(low, high, cumulated)
    return np.diff(np.floor(upper), axis=1, prepend=0).astype(np.int64)


def deal(counts: np.ndarray, key: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Assign the cells of each group to its rows in random order.

    Args:
        counts: [groups, size], only the groups that have rows, in increasing order.
        key: group of each row [rows], any integers in the same order.
        generator: of the order.

    Returns:
        Codes [rows].
    """
    groups, size = counts.shape
    values = np.repeat(np.arange(groups * size) % size, counts.reshape(-1))
    if groups == 1:
        return generator.permutation(values)
    # one sort of packed numbers: by group, then at random; the low bits are the row's index.
    # with 22 random bits, one in four million pairs of rows of a group ties and keeps its order
    packed = key.astype(np.uint64) << np.uint64(64 - _KEY_BITS)
    packed |= generator.integers(1 << 22, size=len(key), dtype=np.uint64) << np.uint64(_ROW_BITS)
    packed |= np.arange(len(key), dtype=np.uint64)
    packed.sort()
    result = np.empty(len(key), np.int64)
    result[(packed & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)] = values
    return result
