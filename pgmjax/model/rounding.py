"""Whole numbers of rows for every clique of a model, as close to its marginals as whole numbers allow.

The rows of a clique are dealt to its cells at even steps from one random start (systematic
sampling), so that each cell gets its expected number rounded up or down, and that number on average.
A clique below takes the rows of its separator as they were dealt above. The rows themselves are
then drawn from these counts without replacement, block by block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmjax.model.conditionals import Conditional

_ROW_BITS = 20  # a block has at most 2**20 rows
_KEY_BITS = 22  # and a kept table at most 2**22 groups of parents


def allocate(
    conditionals: Sequence[Conditional], rows: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Deal rows to the cells of every clique.

    Args:
        conditionals: all variables in the order of drawing, their tables kept.
        rows: how many.
        generator: of the random starts.

    Returns:
        For each conditional the counts [groups, size], int64. Those of a clique sum to those of its
        separator; each is within 1 of its expectation given the separator's counts.

    References:
        Systematic sampling: Cochran, Sampling Techniques (1977), chapter 8.
    """
    place: dict[int, int] = {}
    edges: list[tuple[np.ndarray, np.ndarray]] = []
    counts: list[np.ndarray] = []
    for i, conditional in enumerate(conditionals):
        place[conditional.variable] = i
        if not conditional.parents:
            low, high = _fresh(np.array([rows]), generator)
        else:
            # the parent drawn last has all the others among its own parents
            above = max(place[u] for u in conditional.parents)
            axes = (*conditionals[above].parents, conditionals[above].variable)
            shape = (*conditionals[above].parent_sizes, conditionals[above].size)
            if len(axes) == len(conditional.parents):
                # the same clique goes on: its cells share one walk, so that each is within 1
                order = [axes.index(u) for u in conditional.parents]
                low, high = (e.reshape(shape).transpose(order).reshape(-1) for e in edges[above])
            else:
                low, high = _fresh(_summed(counts[above], axes, shape, conditional), generator)
        upper = _between(low, high, conditional.cumulated)
        lower = np.concatenate([low[:, None], upper[:, :-1]], axis=1)
        edges.append((lower, upper))
        counts.append((np.floor(upper) - np.floor(lower)).astype(np.int64))
    return counts


def _fresh(counts: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a walk of whole length from a random start, for each group."""
    # starts are multiples of 2**-20, so that adding them to a count is exact and no row is lost
    start = generator.integers(1 << 20, size=len(counts)) / (1 << 20)
    return start, start + counts


def _between(low: np.ndarray, high: np.ndarray, cumulated: np.ndarray) -> np.ndarray:
    """Upper ends of the cells of each group's walk; behind its last possible cell no row is left over."""
    inside = np.minimum(low[:, None] + (high - low)[:, None] * cumulated, high[:, None])
    return np.where(cumulated >= 1, high[:, None], inside)


def _summed(
    counts: np.ndarray, axes: tuple[int, ...], shape: tuple[int, ...], conditional: Conditional
) -> np.ndarray:
    gone = tuple(i for i, v in enumerate(axes) if v not in conditional.parents)
    kept = [v for v in axes if v in conditional.parents]
    table = counts.reshape(shape).sum(axis=gone)
    return table.transpose([kept.index(u) for u in conditional.parents]).reshape(-1)


def take(left: np.ndarray, key: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one cell for each row out of counts, which go down; evenly, without replacement.

    Args:
        left: counts that are left [groups, size]; changed in place.
        key: group of each row [rows]; no group may have more rows than are left.
        generator: of the starts and of the order.

    Returns:
        Codes [rows]: those of a group in random order.
    """
    wanted = np.bincount(key, minlength=len(left))
    (present,) = np.nonzero(wanted)  # a block may hold few of many groups
    mine = left[present]
    reached = np.cumsum(mine, axis=1)
    whole = reached[:, -1]
    start = generator.integers(whole)
    # whole numbers throughout: a cell never gives more than it has, and the last block takes all
    ends = (reached * wanted[present, None] + start[:, None]) // whole[:, None]
    dealt = np.diff(ends, axis=1, prepend=0)
    left[present] = mine - dealt
    return deal(dealt, key, generator)


def even(cumulated: np.ndarray, wanted: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Deal the rows of each group to its cells by their probabilities.

    Args:
        cumulated: probabilities [groups, size].
        wanted: rows of each group [groups].
        generator: of the starts.

    Returns:
        Counts [groups, size], which sum to `wanted`.
    """
    low, high = _fresh(wanted, generator)
    upper = _between(low, high, cumulated)
    return np.diff(np.floor(upper), axis=1, prepend=0).astype(np.int64)


def deal(counts: np.ndarray, key: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Hand the cells of each group to its rows in random order.

    Args:
        counts: [groups, size], of those groups that have rows, in order.
        key: group of each row [rows], any whole numbers in the same order.
        generator: of the order.

    Returns:
        Codes [rows].
    """
    groups, size = counts.shape
    values = np.repeat(np.arange(groups * size) % size, counts.reshape(-1))
    if groups == 1:
        return generator.permutation(values)
    # one sort of packed numbers: by group, then at random; the low bits say which row it was.
    # 22 random bits: two rows of a group tie once in four million pairs, and then keep their order
    packed = key.astype(np.uint64) << np.uint64(64 - _KEY_BITS)
    packed |= generator.integers(1 << 22, size=len(key), dtype=np.uint64) << np.uint64(_ROW_BITS)
    packed |= np.arange(len(key), dtype=np.uint64)
    packed.sort()
    result = np.empty(len(key), np.int64)
    result[(packed & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)] = values
    return result
