"""Iterative proportional fitting: potentials moved until a model has some marginals exactly.

The model found is, of all distributions with those marginals, the one of least relative entropy to the
model at the start. Where there is no such distribution, potentials drift apart without end, and the
direction y of their drift proves it (Farkas): <y, target> lies above the largest <y, marginal> that any
possible record reaches, which it could not if the target were a mean over records.

References:
    Csiszar (1975), I-divergence geometry of probability distributions and minimization problems.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from pgmjax.inference import ops
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import contraction

EXACT = 1e-10  # nats: cells are right to this share of themselves
CHECKED = 10  # sweeps between two looks for a proof
PROVED = 1e-9  # of the largest potential: by less rounding might


@dataclasses.dataclass(frozen=True)
class Fitted:
    """How proportional fitting ended.

    Attributes:
        model: the model that was reached.
        distance: the most that a wanted cell's logarithm is off (nats); infinity where one is impossible.
        infeasible: whether it is proved that no distribution has these marginals.
    """

    model: HostModel
    distance: float
    infeasible: bool

    @property
    def exact(self) -> bool:
        """Whether the model has the marginals."""
        return self.distance <= 10 * EXACT


def fit(model: HostModel, places: Sequence[int], targets: Sequence[np.ndarray], sweeps: int) -> Fitted:
    """Move some of a model's potentials until it has some marginals.

    Args:
        model: where to start; minus infinity wherever a target is zero.
        places: number of the table to move, for each target; its clique is the target's.
        targets: marginals wanted (probabilities); positive cells and exact zeros.
        sweeps: passes over all targets at most.
    """
    start = [model.tables[place] for place in places]
    before = start
    distance = np.inf
    for sweep in range(1, sweeps + 1):
        distance = 0.0
        for place, target in zip(places, targets, strict=True):
            model, off = _moved(model, place, target)
            distance = max(distance, off)
        if not np.isfinite(distance):
            return Fitted(model, distance, True)
        if distance <= EXACT or len(places) == 1:
            # one target alone is met by one move; what is left is rounding
            return Fitted(model, min(distance, EXACT), False)
        if sweep % CHECKED == 0:
            now = [model.tables[place] for place in places]
            if any(_proof(model, places, targets, now, base) for base in (before, start)):
                return Fitted(model, distance, True)
            before = now
    return Fitted(model, distance, False)


def _moved(model: HostModel, place: int, target: np.ndarray) -> tuple[HostModel, float]:
    """The model with one marginal made right, and the most that a cell was off (nats)."""
    now = model.log_sum(model.structure.cliques[place])
    now = now - ops.host_logsumexp(now, tuple(range(now.ndim)))
    wanted = target > 0
    if not np.isfinite(now[wanted]).all():
        return model, np.inf
    change = np.zeros(target.shape)
    change[wanted] = np.log(target[wanted]) - now[wanted]
    tables = list(model.tables)
    tables[place] = tables[place] + change
    return dataclasses.replace(model, tables=tuple(tables)), float(np.abs(change).max())


def _proof(
    model: HostModel,
    places: Sequence[int],
    targets: Sequence[np.ndarray],
    now: Sequence[np.ndarray],
    before: Sequence[np.ndarray],
) -> bool:
    """Whether the drift of the potentials proves that no possible records have the targets as mean."""
    drift = [np.where(t > 0, n - b, 0.0) for t, n, b in zip(targets, now, before, strict=True)]
    size = max(float(np.abs(table).max()) for table in drift)
    if size == 0:
        return False
    drift = [table / size for table in drift]
    tables = [np.where(table == -np.inf, -np.inf, 0.0) for table in model.tables]
    for place, table in zip(places, drift, strict=True):
        tables[place] = tables[place] + table
    best, scale = ops.contract(contraction.plan(model.structure), tables, ops.host_max)
    asked = sum(float(np.vdot(y, t)) for y, t in zip(drift, targets, strict=True))
    return asked - float(best + scale) > PROVED
