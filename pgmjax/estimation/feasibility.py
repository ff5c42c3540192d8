"""Whether any table meets all constraints, and which of them conflict where none does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.estimation import proportional
from pgmjax.estimation.constraints import AllowedSet
from pgmjax.estimation.dependency import FunctionalDependency
from pgmjax.estimation.fixed import FixedMarginal
from pgmjax.estimation.zeros import StructuralZeros
from pgmjax.inference import ops
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.structure import Structure

Constraint = StructuralZeros | AllowedSet | FunctionalDependency | FixedMarginal
SWEEPS = 300  # of proportional fitting before the question is left open
AGREE = 1e-9  # relative: totals are public and exact


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
    return not proportional.fit(HostModel(structure, tables), range(len(fixed)), targets, SWEEPS).infeasible
