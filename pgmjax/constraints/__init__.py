"""What is publicly known of a table beyond its domain: impossible cells, dependencies, exact marginals."""

from pgmjax.constraints.allowed import AllowedSet
from pgmjax.constraints.dependency import FunctionalDependency
from pgmjax.constraints.feasible import Constraint, require_feasible, require_kinds, total_of
from pgmjax.constraints.fixed import FixedMarginal
from pgmjax.constraints.zeros import StructuralZeros

__all__ = [
    "AllowedSet",
    "Constraint",
    "FixedMarginal",
    "FunctionalDependency",
    "StructuralZeros",
    "require_feasible",
    "require_kinds",
    "total_of",
]
