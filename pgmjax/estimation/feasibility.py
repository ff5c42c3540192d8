"""Feasibility of constraints: is there a table that meets all of them, and if not, which ones conflict?

Iterative proportional fitting decides: potentials are moved until a model has the fixed marginals exactly.
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
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import AllowedSet, FixedMarginal, FunctionalDependency, StructuralZeros
from pgmjax.inference import ops
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.structure import Structure

Constraint = StructuralZeros | AllowedSet | FunctionalDependency | FixedMarginal
SWEEPS = 300  # of proportional fitting before the question is left open
AGREE = 1e-9  # relative: totals are public and exact

# limits of proportional fitting
EXACT = 1e-10  # nats: cells are right to this share of themselves
CHECKED = 10  # sweeps between two looks for a proof
PROVED = 1e-9  # of the largest potential: by less rounding might


def require_feasible(domain: Domain, constraints: Sequence[Any], others: Sequence[Any] = ()) -> None:
    """Refuse constraints that no table can meet together.

    For masks the answer is exact. For fixed marginals it is a proof either way but for the rare case
    that proportional fitting neither arrives nor drifts within so many sweeps, which passes.

    Args:
        domain: the attributes.
        constraints: structural zeros, allowed sets, functional dependencies, fixed marginals.
        others: masks of another origin, such as the impossible cells of a prior.

    Raises:
        TypeError: something that is no constraint.
        ValueError: one that does not fit the domain, or the smallest set found that conflicts.
    """
    require_kinds(constraints)
    for constraint in constraints:
        constraint.zeros(domain)
    every = [*constraints, *others]
    _require_one_total([c for c in every if isinstance(c, FixedMarginal)])
    if not every or _feasible(domain, every):
        return
    conflict = list(every)
    for constraint in every:
        rest = [other for other in conflict if other is not constraint]
        if not _feasible(domain, rest):
            conflict = rest
    what = "distribution" if any(isinstance(c, FixedMarginal) for c in conflict) else "record"
    raise ValueError(
        f"the constraints are infeasible: no {what} meets {_names(conflict, others)} together. Correct "
        "or leave out one of them."
    )


def require_kinds(constraints: Sequence[Any]) -> None:
    """Refuse what is no constraint.

    Raises:
        TypeError: naming what came.
    """
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise TypeError(
                "constraints must be StructuralZeros, AllowedSet, FunctionalDependency or FixedMarginal, got "
                f"{type(constraint).__name__}."
            )


def total_of(constraints: Sequence[Any], total: float | None) -> float | None:
    """Return the number of records that fixed marginals tell, or the one given.

    Args:
        constraints: of any kind.
        total: the number of records that was given (counts), or None.

    Raises:
        TypeError: a total that is no number.
        ValueError: a total other than that of the fixed marginals.
    """
    fixed = [c for c in constraints if isinstance(c, FixedMarginal)]
    if not fixed:
        return total
    total = None if total is None else checks.number("total", total, above=0)
    if total is not None and abs(total - fixed[0].total) > AGREE * fixed[0].total:
        raise ValueError(
            f"the constraints are infeasible: the fixed marginal over {fixed[0].clique} does not sum to the "
            "total that was given. Leave the total out, or correct one of them."
        )
    return fixed[0].total if total is None else total


def _require_one_total(fixed: Sequence[FixedMarginal]) -> None:
    for one in fixed[1:]:
        if abs(one.total - fixed[0].total) > AGREE * fixed[0].total:
            raise ValueError(
                f"the constraints are infeasible: FixedMarginal over {fixed[0].clique} and {one.clique} do "
                "not sum to the same number of records. Correct one of them."
            )


def _names(conflict: Sequence[Any], others: Sequence[Any]) -> str:
    words, last = [], ""
    for constraint in conflict:
        kind = "the prior's zeros" if any(constraint is o for o in others) else type(constraint).__name__
        words.append(str(constraint.clique) if kind == last else f"{kind} over {constraint.clique}")
        last = kind
    return " and ".join(words)


def _feasible(domain: Domain, constraints: Sequence[Any]) -> bool:
    """Whether some table meets the constraints; what is left open counts as yes."""
    masks = [mask for mask in (c.zeros(domain) for c in constraints) if mask is not None]
    fixed = [c for c in constraints if isinstance(c, FixedMarginal)]
    structure, _ = Structure.named(domain.sizes, [c.clique for c in (*fixed, *masks)])
    if not structure.cliques:
        return True
    tables = (*(np.zeros(c.counts.shape) for c in fixed), *(mask.log_mask() for mask in masks))
    path = contraction.plan(structure)
    widest = max(structure.cells(step.union) for step in path.steps)
    require_cells(widest, "the largest table that combining the constraints needs")
    best, scale = ops.contract(path, tables, ops.host_max)
    if not np.isfinite(best + scale):
        return False
    targets = [c.probabilities for c in fixed]
    if not targets:
        return True
    return not proportional_fit(HostModel(structure, tables), range(len(fixed)), targets, SWEEPS).infeasible


@dataclasses.dataclass(frozen=True)
class ProportionalFit:
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


def proportional_fit(
    model: HostModel, places: Sequence[int], targets: Sequence[np.ndarray], sweeps: int
) -> ProportionalFit:
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
            return ProportionalFit(model, distance, True)
        if distance <= EXACT or len(places) == 1:
            # one target alone is met by one move; what is left is rounding
            return ProportionalFit(model, min(distance, EXACT), False)
        if sweep % CHECKED == 0:
            now = [model.tables[place] for place in places]
            if any(_proof(model, places, targets, now, base) for base in (before, start)):
                return ProportionalFit(model, distance, True)
            before = now
    return ProportionalFit(model, distance, False)


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
