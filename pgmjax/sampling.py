"""Synthetic rows and the most likely row: walking back through an elimination.

Each variable is drawn given those eliminated after it. Rows with the same parents are drawn
together, so the cost goes with the number of distinct parents, not of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pgmjax import ops, random
from pgmjax.oracles.host import Bucket, HostModel

Draw = Callable[[np.ndarray, np.ndarray], np.ndarray]
METHODS = ("multinomial", "round")


def sample(model: HostModel, rows: int, seed: int, method: str = "multinomial") -> list[np.ndarray]:
    """Draw rows of a model.

    Args:
        model: the distribution.
        rows: how many.
        seed: for the generator; the same seed gives the same rows. Not noise: it protects nothing.
        method: `multinomial` draws rows independently; `round` spreads the rows of every group
            of equal parents as evenly as whole numbers allow (each count is its expectation rounded
            up or down), which has less sampling error.

    Returns:
        For each variable the codes [rows].

    Raises:
        ValueError: unknown method.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
    generator = random.generator(seed)

    def draw(weights: np.ndarray, group: np.ndarray) -> np.ndarray:
        count = np.bincount(group, minlength=len(weights))
        if method == "multinomial":
            position = generator.random(len(group))
        else:
            position = _even_positions(group, count, generator)
        return _inverse(weights, group, position)

    return _walk(model.buckets(), len(model.structure.sizes), rows, draw)


def mode(model: HostModel) -> list[int]:
    """The most likely assignment: a code for each variable."""

    def best(weights: np.ndarray, group: np.ndarray) -> np.ndarray:
        return np.argmax(weights, axis=1)[group]

    columns = _walk(model.buckets(ops.host_max), len(model.structure.sizes), 1, best)
    return [int(column[0]) for column in columns]


def _walk(buckets: list[Bucket], variables: int, rows: int, draw: Draw) -> list[np.ndarray]:
    columns: list[np.ndarray] = [np.zeros(0, np.int64)] * variables
    for bucket in reversed(buckets):
        group, parents = _groups([columns[v] for v in bucket.parents], rows)
        log_weights = bucket.log_weights(dict(zip(bucket.parents, parents, strict=True)))
        log_weights = log_weights - log_weights.max(axis=1, keepdims=True)
        columns[bucket.variable] = draw(np.exp(log_weights), group)
    return columns


def _groups(columns: list[np.ndarray], rows: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Number the distinct combinations of some columns.

    Returns:
        The group of each row [rows], and the codes of each group [groups] for each column.
    """
    if not columns:
        return np.zeros(rows, np.int64), []
    sizes = [int(c.max(initial=0)) + 1 for c in columns]
    key = np.ravel_multi_index(columns, sizes)
    values, group = np.unique(key, return_inverse=True)
    return group, list(np.unravel_index(values, sizes))


def _even_positions(group: np.ndarray, count: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Within each group, evenly spaced positions in [0, 1) with one random offset, shuffled."""
    order = np.lexsort((generator.random(len(group)), group))
    starts = np.cumsum(count) - count
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - np.repeat(starts, count)
    offset = generator.random(len(count))
    return (rank + offset[group]) / count[group]


def _inverse(weights: np.ndarray, group: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Where each position falls among its group's cumulated weights."""
    cumulated = np.cumsum(weights, axis=1)
    cumulated /= cumulated[:, -1:]
    groups, size = cumulated.shape
    # groups side by side on one axis, so that one search serves all rows
    flat = (cumulated + np.arange(groups)[:, None]).ravel()
    found = np.searchsorted(flat, group + position, side="right") - group * size
    # rounding near the end of a group must not give a cell of weight zero
    last = size - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.minimum(found, last[group])
