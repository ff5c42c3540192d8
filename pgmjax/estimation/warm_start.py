"""Warm start of a fit from an earlier model, keeping all that the new cliques can represent.

A potential whose clique is a subset of a measured clique is added to that clique's: the distribution is then
the earlier one exactly, for any added cliques. A potential t over a clique O that is a subset of none (its
clique was split, or is no longer measured) is replaced by a sum s of tables over the intersections D of O
with the measured cliques. The earlier distribution is p(O) p(others | O), and replacing t by s changes only
its first factor, so the loss of information,

    KL(p || q) = KL(p(O) || q(O)),   q(O) proportional to exp(r + s),   r = log p(O) - t,

concerns a single table. It is minimal if q(O) has the marginals of p on every D, the limit of iterative
proportional fitting. Several such cliques are replaced independently of one another.

A warm start cannot make a fit wrong: the certificate holds at any point, from any start.

References:
    Csiszar (1975), I-divergence geometry of probability distributions (iterative proportional fitting).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique, first_holding
from pgmjax.data.domain import Domain
from pgmjax.inference import ops
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp
from pgmjax.model.graphical import GraphicalModel

SWEEPS = 100  # of proportional fitting; two suffice if the intersections form a tree
ENOUGH = 1e-6  # nats: precise enough for a start


def starting_point(
    domain: Domain, cliques: Sequence[Clique], model: GraphicalModel | None
) -> list[np.ndarray]:
    """Return initial log-potentials.

    Args:
        domain: the attributes.
        cliques: the measured cliques, no two over the same attributes.
        model: an earlier model over the same domain, with any cliques and any total; None for the
            uniform distribution. Its impossible cells come from its constraints and are not carried over:
            they start with the mean weight of their table's possible cells.

    Returns:
        For each clique finite log-potentials [size of each attribute], float64.

    Raises:
        ValueError: a model over another domain.
    """
    tables = [np.zeros(domain.shape_of(clique)) for clique in cliques]
    if model is None:
        return tables
    if model.domain != domain:
        raise ValueError("warm_start must be a model over the same domain.")
    for number, clique in enumerate(model.potentials.cliques):
        if first_holding(cliques, clique) is not None:
            parts = {clique: model.potentials.tables[number]}
        else:
            parts = _replaced(model, number, _intersections(cliques, clique))
        for names, table in parts.items():
            holder = first_holding(cliques, names)
            assert holder is not None
            tables[holder] += ops.align(_finite(table), names, cliques[holder])
    return tables


def _intersections(cliques: Sequence[Clique], clique: Clique) -> list[Clique]:
    """Return the maximal nonempty intersections of a clique with the given cliques."""
    parts = {tuple(name for name in clique if name in other) for other in cliques} - {()}
    return sorted(part for part in parts if not any(set(part) < set(other) for other in parts))


def _replaced(model: GraphicalModel, number: int, parts: Sequence[Clique]) -> dict[Clique, np.ndarray]:
    """Return the tables over parts of a clique that best replace its potential."""
    clique, potential = model.potentials.cliques[number], model.potentials.tables[number]
    possible = potential > -np.inf
    others = _log_weight_of_others(model, number)
    others = np.where(possible, others, -np.inf)
    truth = others + np.where(possible, potential, 0.0)
    scale = host_logsumexp(truth, tuple(range(truth.ndim)))
    if not parts or not np.isfinite(scale):
        return {}
    return _fitted(clique, others, truth - scale, parts)


def _log_weight_of_others(model: GraphicalModel, number: int) -> np.ndarray:
    """Return the log-marginal of all other potentials, over the cells of one potential.

    If that does not fit in memory the other potentials are ignored.
    """
    structure, _ = Structure.named(model.domain.sizes, model.potentials.cliques)
    tables = list(model.potentials.tables)
    tables[number] = np.zeros_like(tables[number])
    try:
        return HostModel(structure, tuple(tables)).log_sum(structure.cliques[number])
    except ModelTooLargeError:
        return tables[number]


def _fitted(
    clique: Clique, others: np.ndarray, truth: np.ndarray, parts: Sequence[Clique]
) -> dict[Clique, np.ndarray]:
    """Return the tables whose sum, added to `others`, has the marginals of `truth` on every part."""
    gone = [tuple(i for i, name in enumerate(clique) if name not in part) for part in parts]
    wanted = [host_logsumexp(truth, axes) for axes in gone]
    found = [np.zeros_like(table) for table in wanted]
    guess = others
    for _ in range(SWEEPS):
        moved = 0.0
        for i, (part, axes) in enumerate(zip(parts, gone, strict=True)):
            known = wanted[i] > -np.inf
            now = host_logsumexp(guess, axes)
            change = np.where(known, wanted[i] - np.where(known, now, 0.0), 0.0)
            found[i] = found[i] + change
            guess = guess + ops.align(change, part, clique)
            moved = max(moved, float(np.sum(np.exp(wanted[i]) * np.abs(change))))
        if moved < ENOUGH:
            break
    masked = (np.where(w > -np.inf, table, -np.inf) for w, table in zip(wanted, found, strict=True))
    return dict(zip(parts, masked, strict=True))


def _finite(table: np.ndarray) -> np.ndarray:
    """Return a log-table with impossible cells set to the mean weight of the others."""
    possible = table > -np.inf
    if possible.all():
        return table
    weights = host_logsumexp(table, tuple(range(table.ndim)))
    mean = weights - np.log(max(int(possible.sum()), 1))
    return np.where(possible, table, mean if np.isfinite(mean) else 0.0)
