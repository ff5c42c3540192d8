"""Side information of a fit: masks, exact marginals and a prior, and whether they can be met together.

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
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain, differing
from pgmjax.estimation import regularisation
from pgmjax.estimation.constraints import AllowedSet, FixedMarginal, FunctionalDependency, StructuralZeros
from pgmjax.inference import ops
from pgmjax.inference.oracles.host import USUAL, HostModel
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp, host_max
from pgmjax.model.clique_vector import summed
from pgmjax.model.graphical import GraphicalModel

Constraint = StructuralZeros | AllowedSet | FunctionalDependency | FixedMarginal
SWEEPS = 300  # of proportional fitting before feasibility is left undecided
AGREE = 1e-9  # relative: totals are public and exact

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
        TypeError: not a list, or an entry that is not a constraint.
        ValueError: a constraint that does not fit the domain, or the smallest conflicting set found.
    """
    every: list[Any] = [*listed(constraints), *others]
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


def total_of(constraints: Sequence[Any], total: float | None) -> float | None:
    """Return the total of the fixed marginals, or the given one if there are none.

    Args:
        constraints: constraints of any kind.
        total: the given number of records (counts), or None.

    Raises:
        TypeError: a total that is not a number.
        ValueError: a total other than that of the fixed marginals.
    """
    fixed = [c for c in constraints if isinstance(c, FixedMarginal)]
    if isinstance(total, list | tuple | Constraint):
        raise TypeError(
            f"total must be a number, got {type(total).__name__}: write constraints=[...] for these."
        )
    total = None if total is None else checks.total(total)
    if not fixed:
        return total
    if total is not None and abs(total - fixed[0].total) > AGREE * fixed[0].total:
        raise ValueError(
            f"the constraints are infeasible: the fixed marginal over {fixed[0].clique} sums to "
            f"{fixed[0].total:,.6g}, and the total that was given is {total:,.6g}: a fixed marginal holds "
            "counts, and shares are multiplied by the total."
        )
    return fixed[0].total if total is None else total


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


_PRIOR = (
    "that of an earlier release is release.model, and shares make one: "
    "GraphicalModel.from_potentials(domain, {('sex',): np.log([0.5, 0.5])})"
)


@dataclasses.dataclass(frozen=True, eq=False)
class SideInformation:
    """Public knowledge over a domain.

    Attributes:
        zeros: all masks, including the zero counts of fixed marginals.
        fixed: exact marginals, each set of attributes once.
        prior: reference of the relative entropy; None for the uniform distribution.
        weight: weight of the relative entropy to the prior in the objective (records); None if it only
            selects among the models that fit equally well.
    """

    zeros: tuple[StructuralZeros, ...] = ()
    fixed: tuple[FixedMarginal, ...] = ()
    prior: GraphicalModel | None = None
    weight: float | None = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        constraints: Sequence[Constraint],
        prior: GraphicalModel | None = None,
        weight: float = 0.0,
    ) -> SideInformation:
        """Check constraints and prior against the domain and one another.

        Raises:
            TypeError: not a constraint, or not a model.
            ValueError: a prior over another domain, a weight that is negative, too large or without a
                prior, or infeasible constraints.
        """
        checks.kind(prior, GraphicalModel | None, "prior must be a GraphicalModel", _PRIOR)
        weight = checks.number("prior_weight", weight, at_least=0)
        if weight > regularisation.LARGEST:
            raise ValueError(
                f"prior_weight must be at most {regularisation.LARGEST:g}, got {weight:g}: beyond it a model "
                "is its prior."
            )
        if prior is None and weight > 0:
            raise ValueError(
                "prior_weight needs a prior: GraphicalModel.from_potentials(domain, {}) is the uniform one."
            )
        if prior is not None and prior.domain != domain:
            raise ValueError(
                "prior must be a model over the same domain: they differ in "
                f"{differing(domain, prior.domain)}."
            )
        constraints = listed(constraints)
        if prior is None and not constraints:
            return cls()
        zeros = require_feasible(domain, constraints, support(prior))
        fixed: dict[frozenset[str], FixedMarginal] = {}
        for constraint in constraints:
            if isinstance(constraint, FixedMarginal):
                fixed.setdefault(frozenset(constraint.clique), constraint)
        return cls(zeros, tuple(fixed.values()), prior, weight if weight > 0 else None)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The clique of each of `tables`."""
        of_prior = () if self.prior is None else self.prior.potentials.cliques
        return (*(mask.clique for mask in self.zeros), *of_prior)

    @functools.cached_property
    def tables(self) -> tuple[np.ndarray, ...]:
        """Fixed log-factors of every model of the fit, float64; the largest entry of each is 0."""
        of_prior = () if self.prior is None else self.prior.potentials.tables
        return (*(mask.log_mask() for mask in self.zeros), *(table - table.max() for table in of_prior))

    @property
    def finite(self) -> bool:
        """True if all cells are possible."""
        return all(bool(np.isfinite(table).all()) for table in self.tables)

    def log_partition(self, domain: Domain, cliques: Iterable[Clique]) -> float:
        """Return the prior's log-partition function in the scale of `tables` (nats).

        Args:
            domain: the attributes.
            cliques: those of a fit; attributes in neither them nor `tables` are left out.
        """
        if self.prior is None:
            return 0.0
        covered = {name for clique in (*cliques, *self.cliques) for name in clique}
        free = sum(math.log(domain[name]) for name in domain if name not in covered)
        return self.prior.log_partition() - sum(float(t.max()) for t in self.prior.potentials.tables) - free

    def start(self, warm_start: GraphicalModel | None) -> GraphicalModel | None:
        """Return an earlier model divided by the prior, as an initial model."""
        if warm_start is None or self.prior is None or warm_start.domain != self.prior.domain:
            return warm_start
        less = ((c, -np.where(np.isfinite(t), t, 0)) for c, t in self.prior.potentials.items())
        tables = summed([*warm_start.potentials.items(), *less])
        return GraphicalModel.from_potentials(warm_start.domain, tables, warm_start.total)


def listed(constraints: Sequence[Constraint]) -> list[Constraint]:
    """Return constraints as a list.

    Raises:
        TypeError: a single constraint, not a list, or an entry that is not a constraint.
    """
    if isinstance(constraints, Constraint):
        constraints = [constraints]
    then = "give a list such as [StructuralZeros(clique, mask), FixedMarginal(clique, counts)]"
    found = list(checks.several("constraints", constraints, "constraints", then))
    for constraint in found:
        checks.kind(
            constraint,
            Constraint,
            "constraints must be StructuralZeros, AllowedSet, FunctionalDependency or FixedMarginal",
        )
    return found


def support(model: GraphicalModel | None) -> list[StructuralZeros]:
    """Return the masks of a model's impossible cells; none without a model."""
    items = () if model is None else model.potentials.items()
    return [StructuralZeros(c, np.isfinite(t)) for c, t in items if not np.isfinite(t).all()]
