"""Side information of a fit: masks, exact marginals and a prior."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation import regularisation
from pgmjax.estimation.constraints import FixedMarginal, StructuralZeros
from pgmjax.estimation.feasibility import Constraint, require_feasible, require_kinds
from pgmjax.model.clique_vector import summed
from pgmjax.model.graphical import GraphicalModel

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
        constraints = listed(constraints)
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
            raise ValueError("prior must be a model over the same domain.")
        require_feasible(domain, constraints, _support(prior))
        masks = (constraint.zeros(domain) for constraint in constraints)
        fixed: dict[frozenset[str], FixedMarginal] = {}
        for constraint in constraints:
            if isinstance(constraint, FixedMarginal):
                fixed.setdefault(frozenset(constraint.clique), constraint)
        zeros = tuple(mask for mask in masks if mask is not None)
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
    require_kinds(found)
    return found


def _support(prior: GraphicalModel | None) -> list[StructuralZeros]:
    """Return the masks of a model's impossible cells."""
    if prior is None:
        return []
    pairs = zip(prior.potentials.cliques, prior.potentials.tables, strict=True)
    return [StructuralZeros(c, np.isfinite(t)) for c, t in pairs if not np.isfinite(t).all()]
