"""Gradients through a fit: derivatives of a fitted model's answers by its inputs.

`DifferentiableFit` is planned once for a structure and is then a function of values, standard deviations,
weights, prior and total, differentiated by unrolling a solver or implicitly at the optimum.
"""

from pgmjax._internal import migration
from pgmjax.gradients.differentiable_fit import DifferentiableFit

__all__ = ["DifferentiableFit"]

migration.answer(globals())
