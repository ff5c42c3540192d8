"""A junction tree calibrated on the host: one pass up, one pass down, in float64.

The pass up turns log-potentials into the distribution of each tree clique given what it shares with its
parent; the pass down gives the tree cliques' own marginals. Only the pass up works with logarithms: what it
leaves are probabilities.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), sections 10.2 and 10.3.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pgmjax.inference import ops
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Variables


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """What the two passes leave.

    Attributes:
        tree: the junction tree (forest).
        given: for each tree clique its probabilities given its separator [sizes of the clique]; all zero
            where the separator's values are impossible.
        tables: for each tree clique its probabilities [sizes of the clique].
        log_partition: log of the sum over all joint states (nats).
    """

    tree: JunctionTree
    given: tuple[np.ndarray, ...]
    tables: tuple[np.ndarray, ...]
    log_partition: float


def calibrate(host: HostModel) -> Calibration:
    """Calibrate a model.

    Args:
        host: the model; its potentials leave at least one possible state.

    Raises:
        ModelTooLargeError: the tree's tables together do not fit in the host's memory.

    Example:
        >>> from pgmjax.inference.plan.structure import Structure
        >>> pair = HostModel(Structure((2, 2), ((0, 1),)), (np.zeros((2, 2)),))
        >>> calibrate(pair).tables[0].tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """
    tree = junction_tree.build(host.structure)
    largest = max((tree.structure.cells(clique) for clique in tree.cliques), default=1)
    require_cells(tree.cells + largest, f"the model's junction tree (its largest table: {largest:,} cells)")
    given, log_partition = _conditionals(tree, host)
    return Calibration(tree, tuple(given), tuple(_marginals(tree, given)), log_partition)


def _conditionals(tree: JunctionTree, host: HostModel) -> tuple[list[np.ndarray], float]:
    """Each tree clique's distribution given its separator, which leads its axes; log-partition."""
    logs = [np.zeros(tree.structure.shape(clique)) for clique in tree.cliques]
    for table, clique, home in zip(host.tables, tree.structure.cliques, tree.home, strict=True):
        logs[home] += ops.align(table, clique, tree.cliques[home])
    log_partition = 0.0
    for n in reversed(range(len(logs))):
        shared, above = tree.separator[n], tree.parent[n]
        message = ops.host_logsumexp(logs[n], tuple(range(len(shared), logs[n].ndim)))
        if above >= 0:
            centred, shift = ops.recentred(message)
            log_partition += float(shift)
            logs[above] += ops.align(centred, shared, tree.cliques[above])
        else:
            log_partition += float(message)
        floor = np.where(np.isfinite(message), message, 0.0)
        logs[n] -= ops.align(floor, shared, tree.cliques[n])
        np.exp(logs[n], out=logs[n])
    return logs, log_partition


def _marginals(tree: JunctionTree, given: list[np.ndarray]) -> list[np.ndarray]:
    tables: list[np.ndarray] = []
    for n, own in enumerate(given):
        shared, above = tree.separator[n], tree.parent[n]
        if above >= 0:
            own = own * ops.align(summed(tables[above], tree.cliques[above], shared), shared, tree.cliques[n])
        tables.append(own)
    return tables


def summed(table: np.ndarray, variables: Variables, kept: Variables) -> np.ndarray:
    """A table over `variables` summed to some of them, with the axes in the order of `kept`."""
    gone = tuple(i for i, v in enumerate(variables) if v not in kept)
    left = [v for v in variables if v in kept]
    order = [left.index(v) for v in kept]
    table = table.sum(axis=gone) if gone else table
    return table if order == sorted(order) else table.transpose(order)
