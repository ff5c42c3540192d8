"""Checks of private partitions: trees of counts by enumeration, labels above a threshold by their tails.

A tree over a few cells has few shapes, whose probabilities follow from the tails of the noise in each node.
So the largest privacy loss of `privacy.partition.find_cells` is computed on all small tables and all their
neighbours, for the scale that the code itself takes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.audit import goodness
from pgmjax.audit.claims import label_delta
from pgmjax.audit.primitives import ALPHA, AuditFailure
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.data.unit import Unit
from pgmjax.discovery import OpenTable, key_column
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import partition
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.tape import Call, Tape

Shape = tuple[int, ...]
"""The edges within a partition."""

_CELLS = 4
_MOST_RECORDS = 2  # of a cell, in the tables that are enumerated
_DEEP = ((9, *(0,) * 15), (10, *(0,) * 15))  # neighbours on which counts that do not fall show
_TREES = 600
_DRAWN = (0, 3, 1, 4)
_KEYS, _OFTEN = 1500, 400


def tree_probabilities(
    counts: Sequence[int], distribution: DiscreteLaplace, least: int
) -> dict[Shape, float]:
    """Return the probability of every shape of `find_cells` on exact counts of a power of 2 of cells.

    Args:
        counts: of the cells.
        distribution: of the noise of a node.
        least: as in `find_cells`.

    Example:
        >>> shapes = tree_probabilities([0, 5], DiscreteLaplace(1.0), 2)
        >>> {shape: round(p, 3) for shape, p in shapes.items()}
        {(): 0.099, (1,): 0.901}
    """
    return _trees(list(counts), distribution, least, partition.tree_step(distribution), 0, 0)


def _trees(
    counts: list[int], distribution: DiscreteLaplace, least: int, step: int, first: int, depth: int
) -> dict[Shape, float]:
    if len(counts) == 1:
        return {(): 1.0}
    biased = max(sum(counts) - depth * step, least - step)
    split = _exceeds(least - biased, distribution.scale)
    half = len(counts) // 2
    below = _trees(counts[:half], distribution, least, step, first, depth + 1)
    above = _trees(counts[half:], distribution, least, step, first + half, depth + 1)
    found: dict[Shape, float] = {(): 1 - split}
    for (low, p), (high, q) in itertools.product(below.items(), above.items()):
        found[(*low, first + half, *high)] = split * p * q
    return found


def _exceeds(value: int, scale: float) -> float:
    """Return P(Z > value) of discrete Laplace noise Z."""
    q = math.exp(-1 / scale)
    return q ** (value + 1) / (1 + q) if value >= 0 else 1 - q ** (-value) / (1 + q)


def largest_tree_loss(
    neighbours: Iterable[tuple[Sequence[int], Sequence[int]]], distribution: DiscreteLaplace, least: int
) -> float:
    """Return the largest absolute log ratio of the probabilities of one shape on two neighbours.

    Args:
        neighbours: pairs of counts.
        distribution: of the noise of a node.
        least: as in `find_cells`.

    Example:
        >>> round(largest_tree_loss([([4, 0], [5, 0])], DiscreteLaplace(3.0), 2), 3)
        0.333
    """
    worst = 0.0
    for one, other in neighbours:
        first, second = (tree_probabilities(each, distribution, least) for each in (one, other))
        worst = max(worst, *(_loss(first[shape], second[shape]) for shape in first))
    return worst


def _loss(one: float, other: float) -> float:
    if one and other:
        return abs(math.log(one / other))
    return 0.0 if one == other else math.inf


def _neighbours(relation: Relation) -> list[tuple[Shape, Shape]]:
    """Return all small tables with all their neighbours, and a deep pair."""
    tables = itertools.product(range(_MOST_RECORDS + 1), repeat=_CELLS)
    if relation is Relation.ADD_REMOVE:
        return [
            *(
                (t, tuple(c + (k == place) for k, c in enumerate(t)))
                for t in tables
                for place in range(_CELLS)
            ),
            _DEEP,
        ]
    return [
        (t, tuple(c - (k == low) + (k == high) for k, c in enumerate(t)))
        for t in tables
        for low, high in itertools.permutations(range(_CELLS), 2)
        if t[low]
    ]


def trees_keep_their_epsilon() -> None:
    """L0: by enumeration, no neighbours of a small table are told apart by more than a tree's epsilon.

    Raises:
        AuditFailure: a loss is larger, at the scale that `find_cells` takes.
    """
    for relation in Relation:
        pairs = _neighbours(relation)
        for epsilon, least in itertools.product(("1", "4"), (0, 2, 9)):
            call = _tree_call(relation, epsilon, least)
            assert isinstance(call.distribution, DiscreteLaplace)
            found = largest_tree_loss(pairs, call.distribution, least)
            if found > float(epsilon) * (1 + 1e-9):
                raise AuditFailure(
                    f"A tree that costs epsilon = {epsilon} under {relation.value} tells neighbours apart by "
                    f"{found:.3g}."
                )


def _tree_call(relation: Relation, epsilon: str, least: int) -> Call:
    tape = Tape()
    with tape.recording():
        table = _table(_DRAWN, relation, Budget(epsilon))
        partition.find_cells(table, "x", _CELLS, epsilon=epsilon, least=least)
    return tape.calls[0]


def _table(counts: Sequence[int], relation: Relation, budget: Budget, backend: Any = None) -> PrivateTable:
    data = Dataset.from_columns(Domain({"x": len(counts)}), {"x": np.repeat(np.arange(len(counts)), counts)})
    return PrivateTable(data, relation, budget, backend)


def trees_follow_their_distribution(backend: NoiseBackend | None = None) -> None:
    """L2: the shapes that `find_cells` draws have the probabilities that follow from its noise.

    Args:
        backend: source of noise. Default: the secure backend.

    Raises:
        AuditFailure: they have not.
    """
    relation, least, epsilon = Relation.ADD_REMOVE, 3, "6"
    call = _tree_call(relation, epsilon, least)
    assert isinstance(call.distribution, DiscreteLaplace)
    wanted = tree_probabilities(_DRAWN, call.distribution, least)
    seen = dict.fromkeys(wanted, 0)
    for _ in range(_TREES):
        table = _table(_DRAWN, relation, Budget(epsilon), backend)
        shape = tuple(partition.find_cells(table, "x", _CELLS, epsilon=epsilon, least=least)[1:-1].tolist())
        if shape not in wanted:
            raise AuditFailure(f"A tree has the edges {shape}, which halves of halves cannot have.")
        seen[shape] += 1
    p_value = goodness.categorical_fit(np.array([*seen.values()]), np.array([*wanted.values()])).p_value
    if p_value < ALPHA:
        raise AuditFailure(f"Trees do not have the shapes that their noise gives: p = {p_value:.2g}.")


def labels_keep_their_delta(backend: NoiseBackend | None = None) -> None:
    """L0 and L2: a label that one unit alone has shows with at most delta, and the counts have their noise.

    Args:
        backend: source of noise. Default: the secure backend.

    Raises:
        AuditFailure: the threshold is too low, or the noise is not as claimed.
    """
    for relation, rho, delta in itertools.product(Relation, ("0.5", "0.001"), ("1e-3", "1e-9")):
        for records in (1, 3):
            call = _labels(["a"] * 5, relation, rho, delta, backend, Unit("who", records))[0]
            shows = label_delta(call)
            if shows > float(Fraction(delta)) * (1 + 1e-6):
                raise AuditFailure(
                    f"A label that one unit of at most {records} records alone has shows with probability "
                    f"{shows:.3g} under {relation.value}, and {delta} is claimed."
                )
    texts = [f"label {k}" for k in range(_KEYS) for _ in range(_OFTEN)]
    call, keys = _labels(texts, Relation.ADD_REMOVE, "0.1", "1e-6", backend)
    assert isinstance(call.distribution, DiscreteGaussian)
    noise = np.array([keys.get(f"label {k}", _OFTEN) - _OFTEN for k in range(_KEYS)])
    p_value = goodness.goodness_of_fit(noise, call.distribution).p_value
    if p_value < ALPHA:
        raise AuditFailure(f"Counts of labels do not have the noise that is claimed: p = {p_value:.2g}.")


def _labels(
    texts: Sequence[str], relation: Relation, rho: str, delta: str, backend: Any, unit: Unit | None = None
) -> tuple[Call, dict[str, int]]:
    """Find labels, and return the call that passed the choke point and the noisy counts."""
    tape = Tape()
    with tape.recording():
        columns: dict[str, Any] = {"x": list(texts), "who": list(range(len(texts)))}
        data, coder = key_column(OpenTable.from_columns(columns, unit=unit), "x")
        table = PrivateTable(data, relation, Budget(rho, unit="rho", delta=delta), backend)
        keys = partition.find_keys(table, "x", coder, rho=rho, delta=delta)[0]
    return tape.calls[0], keys
