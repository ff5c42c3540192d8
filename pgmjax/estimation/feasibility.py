"""Feasibility: whether constraints, and the zeros of a prior, can be met together.

Of constraints that cannot, the smallest conflicting set found is named.

Iterative proportional fitting decides: potentials are updated until a model has the fixed marginals exactly.
That model is the I-projection of the initial model: among all distributions with those marginals, the one of
least relative entropy to it. If no such distribution exists, the potentials diverge, and the direction y of
their drift is a Farkas certificate: <y, target> exceeds the largest <y, marginal> of any possible record,
which is impossible if the target is a mean over records.

References:
    Csiszar (1975), I-divergence geometry of probability distributions and minimization problems.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import AGREE, FixedMarginal, StructuralZeros
from pgmjax.inference import ops
from pgmjax.inference.oracles.host import USUAL, HostModel
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp, host_max

SWEEPS = 300  # of proportional fitting before feasibility is left undecided

# limits of proportional fitting
EXACT = 1e-10  # nats: relative error of the cells
CHECKED = 10  # sweeps between two checks for a proof
PROVED = 1e-9  # of the largest potential: less could be rounding


def require_feasible(
    domain: Domain, constraints: Sequence[Any], others: Sequence[StructuralZeros] = ()
) -> tuple[StructuralZeros, ...]:
    """Refuse constraints that no table can meet together; return their masks.

    For masks the answer is exact. For fixed marginals it is a proof either way, except in the rare case
    that proportional fitting neither converges nor diverges within `SWEEPS`, which passes.

    Args:
        domain: the attributes.
        constraints: structural zeros, allowed sets, functional dependencies, fixed marginals.
        others: further masks, such as the impossible cells of a prior.

    Raises:
        ValueError: a constraint that does not fit the domain, or the smallest conflicting set found.
    """
    every: list[Any] = [*constraints, *others]
    conflict: list[tuple[Any, StructuralZeros | None]] = [(c, c.zeros(domain)) for c in every]
    masks = tuple(mask for _, mask in conflict[: len(every) - len(others)] if mask is not None)
    fixed = [c for c, _ in conflict if isinstance(c, FixedMarginal)]
    for one in fixed[1:]:
        if abs(one.total - fixed[0].total) > AGREE * fixed[0].total:
            raise ValueError(
                f"the constraints are infeasible: FixedMarginal over {fixed[0].clique} and {one.clique} do "
                "not sum to the same number of records. Correct one of them."
            )
    if not conflict or _feasible(domain, conflict):
        return masks
    for constraint in every:
        rest = [pair for pair in conflict if pair[0] is not constraint]
        if not _feasible(domain, rest):
            conflict = rest
    what = "distribution" if any(isinstance(c, FixedMarginal) for c, _ in conflict) else "record"
    raise ValueError(
        f"the constraints are infeasible: no {what} meets {_names([c for c, _ in conflict], others)} "
        "together. Correct or leave out one of them."
    )


def _names(conflict: Sequence[Any], others: Sequence[Any]) -> str:
    words, last = [], ""
    for constraint in conflict:
        kind = "the prior's zeros" if any(constraint is o for o in others) else type(constraint).__name__
        words.append(str(constraint.clique) if kind == last else f"{kind} over {constraint.clique}")
        last = kind
    return " and ".join(words)


def _feasible(domain: Domain, constraints: Sequence[tuple[Any, StructuralZeros | None]]) -> bool:
    """Return whether some table meets constraints, each with its mask; undecided counts as True."""
    masks = [mask for _, mask in constraints if mask is not None]
    fixed = [c for c, _ in constraints if isinstance(c, FixedMarginal)]
    cliques = [*(c.clique for c in fixed), *(mask.clique for mask in masks)]
    structure, _ = Structure.named(domain.sizes, cliques)
    if not structure.cliques:
        return True
    tables = (*(np.zeros(c.counts.shape) for c in fixed), *(mask.log_mask() for mask in masks))
    path = contraction.plan(structure)
    widest = max(structure.cells(step.union) for step in path.steps)
    USUAL.require_cells(widest, "the largest table that combining the constraints needs")
    best, scale = ops.contract(path, tables, host_max)
    if not np.isfinite(best + scale):
        return False
    targets = [c.probabilities for c in fixed]
    if not targets:
        return True
    return not proportional_fit(HostModel(structure, tables), range(len(fixed)), targets, SWEEPS).infeasible


@dataclasses.dataclass(frozen=True)
class ProportionalFit:
    """Result of proportional fitting.

    Attributes:
        model: the final model.
        distance: largest error of a target cell's logarithm (nats); infinity if one is impossible.
        infeasible: True if it is proved that no distribution has these marginals.
    """

    model: HostModel
    distance: float
    infeasible: bool

    @property
    def exact(self) -> bool:
        """True if the model has the marginals."""
        return self.distance <= 10 * EXACT


def proportional_fit(
    model: HostModel, places: Sequence[int], targets: Sequence[np.ndarray], sweeps: int
) -> ProportionalFit:
    """Fit some of a model's potentials to target marginals by iterative proportional fitting.

    Args:
        model: initial model; minus infinity wherever a target is zero.
        places: for each target the index of the table to update; its clique is the target's.
        targets: target marginals (probabilities); positive cells and exact zeros.
        sweeps: maximum number of passes over all targets.
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
            return ProportionalFit(model, distance, True)
        if distance <= EXACT or len(places) == 1:
            # a single target is met by one update, up to rounding
            return ProportionalFit(model, min(distance, EXACT), False)
        if sweep % CHECKED == 0:
            now = [model.tables[place] for place in places]
            if any(_proof(model, places, targets, now, base) for base in (before, start)):
                return ProportionalFit(model, distance, True)
            before = now
    return ProportionalFit(model, distance, False)


def _moved(model: HostModel, place: int, target: np.ndarray) -> tuple[HostModel, float]:
    """Return the model after one marginal update, and the largest error before it (nats)."""
    now = model.log_sum(model.structure.cliques[place])
    now = now - host_logsumexp(now, tuple(range(now.ndim)))
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
    """Return whether the drift of the potentials is a Farkas certificate of infeasibility."""
    drift = [np.where(t > 0, n - b, 0.0) for t, n, b in zip(targets, now, before, strict=True)]
    size = max(float(np.abs(table).max()) for table in drift)
    if size == 0:
        return False
    drift = [table / size for table in drift]
    tables = [np.where(table == -np.inf, -np.inf, 0.0) for table in model.tables]
    for place, table in zip(places, drift, strict=True):
        tables[place] = tables[place] + table
    best, scale = ops.contract(contraction.plan(model.structure), tables, host_max)
    asked = sum(float(np.vdot(y, t)) for y, t in zip(drift, targets, strict=True))
    return asked - float(best + scale) > PROVED
