"""Synthetic rows and the most likely row: walking back through an elimination.

Each variable is drawn given those eliminated after it, for a block of rows at a time, so that the
number of rows does not matter to memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pgmjax import random
from pgmjax.inference import ops
from pgmjax.inference.oracles.host import Bucket, HostModel
from pgmjax.model import conditionals, rounding
from pgmjax.model.conditionals import Conditional

METHODS = ("multinomial", "round")
BLOCK_ROWS = 1 << 18


def sample(model: HostModel, rows: int, seed: int, method: str = "multinomial") -> list[np.ndarray]:
    """Draw rows of a model: what `blocks` gives, put together.

    Returns:
        For each variable the codes [rows].
    """
    return joined(blocks(model, rows, seed, method), len(model.structure.sizes))


def joined(drawn: Iterable[Sequence[np.ndarray]], variables: int) -> list[np.ndarray]:
    """Put blocks of rows together.

    Args:
        drawn: blocks: for each variable its codes.
        variables: how many there are.

    Returns:
        For each variable the codes [rows], int64.
    """
    empty = [np.zeros(0, np.int64)] * variables
    parts = zip(*(list(drawn) or [empty]), strict=True)
    return [np.concatenate(part, dtype=np.int64) for part in parts]


def blocks(model: HostModel, rows: int, seed: int, method: str = "multinomial") -> Iterator[list[np.ndarray]]:
    """Draw rows of a model, a block at a time.

    Args:
        model: the distribution.
        rows: how many.
        seed: for the generator; the same seed gives the same rows. Not noise: it protects nothing.
        method: `multinomial` draws rows independently; `round` deals all rows to the cells of each
            clique as evenly as whole numbers allow (see `rounding`), which has less sampling
            error. Where a table is too large to be kept, each block is dealt by itself.

    Returns:
        An iterator over blocks: for each variable the codes [at most BLOCK_ROWS].

    Raises:
        ValueError: unknown method, said at once.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
    return _blocks(model.buckets(), model.structure.sizes, rows, random.generator(seed), method)


def _blocks(
    buckets: Sequence[Bucket], sizes: Sequence[int], rows: int, generator: np.random.Generator, method: str
) -> Iterator[list[np.ndarray]]:
    order = conditionals.conditionals(buckets, sizes)
    left = None
    if method == "round" and all(conditional.kept for conditional in order):
        left = rounding.allocate(order, rows, generator)
    for start in range(0, rows, BLOCK_ROWS):
        number = min(BLOCK_ROWS, rows - start)
        columns: list[np.ndarray] = [np.zeros(0, np.int64)] * len(sizes)
        for i, conditional in enumerate(order):
            key = conditional.keys(columns, number)
            if left is not None:
                columns[conditional.variable] = rounding.take(left[i], key, generator)
            else:
                columns[conditional.variable] = draw(conditional, key, generator, method)
        yield columns


def draw(
    conditional: Conditional, key: np.ndarray, generator: np.random.Generator, method: str = "multinomial"
) -> np.ndarray:
    """Draw one variable of a block of rows.

    Args:
        conditional: the variable given its parents.
        key: each row's combination of the parents [rows].
        generator: of the draws.
        method: `multinomial`, or `round` for these rows by themselves.

    Returns:
        Codes [rows].
    """
    rows = len(key)
    if method == "multinomial":
        position = generator.random(rows)
        if conditional.kept:
            return conditionals.inverse(conditional.cumulated, key, position)
    group, pieces = conditional.compact(key)
    by_group = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group))
    result = np.empty(rows, np.int64)
    for first, cumulated in pieces:
        low = ends[first - 1] if first else 0
        mine = by_group[low : ends[first + len(cumulated) - 1]]
        local = group[mine] - first
        if method == "multinomial":
            result[mine] = conditionals.inverse(cumulated, local, position[mine])
        else:
            counts = rounding.even(cumulated, np.bincount(local, minlength=len(cumulated)), generator)
            result[mine] = rounding.deal(counts, local, generator)
    return result


def mode(model: HostModel) -> list[int]:
    """The most likely assignment: a code for each variable."""
    found: dict[int, np.ndarray] = {}
    for bucket in reversed(model.buckets(ops.host_max)):
        log_weights = bucket.log_weights({u: found[u] for u in bucket.parents})
        found[bucket.variable] = np.argmax(log_weights, axis=1)
    return [int(found[v][0]) for v in range(len(model.structure.sizes))]
