"""Partitions of one column that are found privately: cells by a tree of counts, keys by a threshold.

Both belong to the choke point: they read exact counts of a `PrivateTable` and release a partition only.
`find_cells` splits an ordered column where its records are (PrivTree); `find_keys` releases the texts that
enough records have. What is released says nothing else about the counts.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import measuring, tape
from pgmjax.privacy.accounting.events import KeysEvent, TreeEvent
from pgmjax.privacy.exact import exact_delta, exact_epsilon, exact_rho
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import marginal

_PATH_LOSS = 3
"""The privacy loss of one record's path through the tree, in units of 1 / scale, if counts halve."""
_MARGIN = 1
"""Added to a threshold, as a wide Gaussian's tail is that of the continuous one up to half a count."""
_TAPE_BUCKETS = 4096

OTHER, MISSING = 0, 1
"""Codes of a column of keys: what can be no key, and no value."""
FIRST = 2
"""The code of the first key that was met."""


def find_cells(
    table: PrivateTable, name: str, cells: int, *, epsilon: Any, least: int = 0, most: int = 1 << 12
) -> np.ndarray:
    """Split the codes 0..cells-1 of an attribute in halves while many records have them (PrivTree).

    Args:
        table: the private table. Codes of the attribute from `cells` on, such as that of missing values, are
            left out.
        name: the attribute.
        cells: number of ordered codes, a power of 2.
        epsilon: cost of the tree, exact.
        least: a node with at most this many records is not split, up to noise; public, >= 0.
        most: number of cells from which on no level is added; public.

    Returns:
        The edges of the cells found, increasing, int64 [n + 1], from 0 to `cells`.

    Raises:
        ValueError: an argument is invalid; nothing was spent.
        BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
        TableReadError: the table could not be read; the spend stays.

    Guarantees:
        epsilon-DP under the table's relation, whatever the depth. A node of depth d with c records is split
        if max(c - d step, least - step) plus discrete Laplace noise of a scale b exceeds `least`, where step
        is at least b ln 2. A record changes the counts on one path of nodes. On it the biased counts fall by
        at least step a level, so that the logarithms of the probabilities of a split change by at most 1/b at
        the deepest node that is not held at its least, and above it by 1/b, 1/(2b), 1/(4b) and so on: 3/b in
        all. Several records or weights are as many changes by one (group privacy), so b is 3 times the L1
        sensitivity of the counts over epsilon.

    References:
        Zhang, Xiao and Xie 2016, "PrivTree: A differentially private algorithm for hierarchical
        decompositions", Theorem 3.1, with halves; integer noise has P(Z >= t) proportional to exp(-t / b), by
        which the proof goes through unchanged.

    Example:
        >>> import pgmjax as pj
        >>> data = pj.Dataset.from_columns(pj.Domain({"age": 8}), {"age": [5] * 3000})
        >>> seeded = pj.privacy.SeededBackend(0, insecure=True)  # empty nodes are split now and then
        >>> table = pj.privacy.PrivateTable(data, pj.Relation.ADD_REMOVE, pj.privacy.Budget(1), seeded)
        >>> find_cells(table, "age", 8, epsilon=1, least=1000).tolist()
        [0, 4, 5, 6, 8]
    """
    domain = table.domain
    size = checks.integer("cells", cells, low=1, high=domain[name])
    if size & (size - 1):
        raise ValueError(f"cells must be a power of 2, as nodes are halved, got {size}.")
    least = checks.integer("least", least, low=0)
    most = checks.integer("most", most, low=1)
    cost = exact_epsilon(epsilon)
    query = marginal([name])
    moved = Sensitivity.of(query, domain, table.relation, "l1", table._weight_bound())
    moved = moved.of_unit(table.max_records)
    distribution = table._backend.laplace(_PATH_LOSS * moved.value, cost)
    asked = {"attribute": name, "cells": size, "scale": distribution.scale, "least": least, "most": most}

    def released() -> np.ndarray:
        exact = table._marginals([query.clique])[query.clique]
        call = tape.Call("tree", (query, size, least, most), distribution, moved, exact)
        return table._through_tape(call, lambda: _split(table, exact[:size], distribution, least, most))

    return table._buy([TreeEvent(cost)], {"tree": asked}, released)


def _split(
    table: PrivateTable, exact: np.ndarray, distribution: DiscreteLaplace, least: int, most: int
) -> np.ndarray:
    """Return the edges of the leaves of a tree over counts [cells]."""
    step = tree_step(distribution)
    below = np.append(0, np.cumsum(exact))  # a node's count is a difference of two of these
    edges, ends = [0, len(exact)], np.array([[0, len(exact)]], dtype=np.int64)
    depth = 0
    while len(ends) and ends[0, 1] - ends[0, 0] > 1 and len(edges) <= most:
        # all nodes of a depth at once, each with a draw of its own; a deeper node must hold more to be split
        biased = np.maximum(below[ends[:, 1]] - below[ends[:, 0]] - depth * step, least - step)
        noise = measuring.fresh(table._backend, distribution, len(ends))
        split = ends[biased + noise > least]
        middle = split.mean(axis=1).astype(np.int64)
        edges += middle.tolist()
        ends = np.stack([split[:, 0], middle, middle, split[:, 1]], axis=1).reshape(-1, 2)
        depth += 1
    return np.array(sorted(edges), dtype=np.int64)


def tree_step(distribution: DiscreteLaplace) -> int:
    """Return by how much the counts of a tree's nodes are lowered a level: at least scale * ln 2."""
    return math.floor(Fraction(distribution.scale) * Fraction(math.nextafter(math.log(2), 1))) + 1


class Keys(Protocol):
    """An encoder that gives every text the next code, from `FIRST` on, when it first meets it."""

    @property
    def keys(self) -> list[str]:
        """The texts met so far, in the order of their codes. Private."""


def find_keys(
    table: PrivateTable, name: str, coder: Keys, *, rho: Any, delta: Any
) -> tuple[dict[str, int], int, int, int]:
    """Release the texts of a column that enough records have, with their noisy counts.

    Args:
        table: the private table, unweighted; the attribute is encoded by `coder`.
        name: the attribute.
        coder: its encoder, which nothing else has read.
        rho: cost of the noise of the counts, exact.
        delta: bound on the probability that a text shows which one person alone has, in (0, 1).

    Returns:
        The noisy count of every text whose noisy count reaches the threshold, by text and in alphabetical
        order; the noisy counts of missing values and of values that can be no label; the threshold.

    Raises:
        ValueError: an argument is invalid or records have weights; nothing was spent.
        BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
        TableReadError: the table could not be read; the spend stays.

    Guarantees:
        delta-approximate rho-zCDP under the table's relation: discrete Gaussian noise for the L2 sensitivity
        of the counts, and a threshold t such that K P(K + Z >= t) <= delta, where K bounds the records of one
        unit. Texts that only one neighbour has are at most K, each with at most K records, so that with
        probability 1 - delta none of them is released; on the others both neighbours draw from distributions
        that are rho-close.

    References:
        Korolova et al. 2009, "Releasing search queries and clicks privately"; Wilson et al. 2020,
        "Differentially private SQL with bounded user contribution", section 4; Bun and Steinke 2016 (delta).

    Example:
        >>> import pgmjax as pj
        >>> from pgmjax.discovery.open_table import key_column
        >>> people = pj.discovery.OpenTable.from_columns({"x": ["a"] * 900})
        >>> data, coder = key_column(people, "x")
        >>> budget = pj.privacy.Budget("0.1", unit="rho", delta="1e-6")
        >>> table = pj.privacy.PrivateTable(data, pj.Relation.ADD_REMOVE, budget)
        >>> [*find_keys(table, "x", coder, rho="0.1", delta="1e-6")[0]]
        ['a']
    """
    if table.weighted:
        raise ValueError("Keys are not found in weighted tables: give the labels in the domain.")
    cost, risk = exact_rho(rho), exact_delta(delta)
    moved = Sensitivity.of(marginal([name]), table.domain, table.relation, "l2_squared")
    moved = moved.of_unit(table.max_records)
    distribution = table._backend.gaussian(moved.value, cost)
    least = key_threshold(distribution, table.max_records, risk)
    request = {"keys": {"attribute": name, "scale": distribution.scale, "threshold": least}}

    def released() -> np.ndarray:
        exact = table._withheld("Reading the table", _counted, table, name)
        # a key of records that are left out alone is none: it would be drawn for in one of two neighbours
        keys = [key for key, count in zip(coder.keys, exact[FIRST:], strict=False) if count]
        exact = np.append(exact[:FIRST], exact[FIRST:][exact[FIRST:] > 0])
        call = tape.Call("keys", (name, least), distribution, moved, _folded(exact, keys, table))
        return table._through_tape(call, lambda: _packed(table, exact, keys, distribution, least))

    return unpacked(table._buy([KeysEvent(cost, risk)], request, released), least)


def key_threshold(distribution: DiscreteGaussian, records: int, delta: Fraction) -> int:
    """Return the least count at which a key is released: t with records * P(records + Z >= t) <= delta.

    Example:
        >>> key_threshold(DiscreteGaussian(10.0), 1, Fraction(1, 10**6))
        51
    """
    target = float(delta) / records
    # beyond a radius on either side is twice as much as above it; above 0 is less than half
    high = max(1, distribution.radius(2 * target)) if target < 0.5 else 1
    return records + high + 1 + _MARGIN


def _counted(table: PrivateTable, name: str) -> np.ndarray:
    """Return the number of records of each code met, int64 [codes]."""
    counts = np.zeros(FIRST, dtype=np.int64)
    for batch in table._records().records([name]):
        # a later batch may bring codes that none before had
        found = np.bincount(batch[name].astype(np.int64), minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
    return counts


def _folded(exact: np.ndarray, keys: list[str], table: PrivateTable) -> np.ndarray:
    """Return counts for a tape: keys by digest, in a vector whose length says nothing of them."""
    if table._tape is None:
        return exact
    folded = np.zeros(FIRST + _TAPE_BUCKETS, dtype=np.int64)
    folded[:FIRST] = exact[:FIRST]
    for key, count in zip(keys, exact[FIRST:], strict=True):
        folded[place_on_tape(key)] += count
    return folded


def place_on_tape(key: str) -> int:
    """Return where in the exact numbers of a tape's call the count of a key is, with those of few others."""
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
    return FIRST + int.from_bytes(digest[:8], "big") % _TAPE_BUCKETS


def _packed(
    table: PrivateTable, exact: np.ndarray, keys: list[str], distribution: DiscreteGaussian, least: int
) -> np.ndarray:
    """Return what is released as one array: noisy counts of OTHER, MISSING and the keys found, then texts."""
    noisy = measuring.noisy(exact, measuring.fresh(table._backend, distribution, len(exact)))
    # in the order of the texts: that in which they were met is the order of the records
    found = sorted(
        (key, int(count)) for key, count in zip(keys, noisy[FIRST:], strict=True) if count >= least
    )
    # no key holds a line end: the coder takes printable texts only
    texts = np.frombuffer("\n".join(key for key, _ in found).encode(errors="surrogatepass"), dtype=np.uint8)
    counts = [*noisy[:FIRST].tolist(), len(found), *(count for _, count in found)]
    return np.concatenate([np.array(counts, dtype=np.int64), texts.astype(np.int64)])


def unpacked(values: np.ndarray, least: int) -> tuple[dict[str, int], int, int, int]:
    """Return what `find_keys` returns from what it releases as one array, and the threshold."""
    other, missing, number = (int(value) for value in values[: FIRST + 1])
    counts = values[FIRST + 1 : FIRST + 1 + number]
    text = values[FIRST + 1 + number :].astype(np.uint8).tobytes().decode(errors="surrogatepass")
    keys = text.split("\n") if number else []
    return dict(zip(keys, counts.tolist(), strict=True)), missing, other, least
