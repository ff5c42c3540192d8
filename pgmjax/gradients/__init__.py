"""Gradients through a fit: how a fitted model's answers move with what it was fitted to.

`DifferentiableFit` is planned once for a structure and is then a function of values, standard deviations,
weights, prior and total, differentiated by unrolling a solver or from the conditions of optimality.
"""

from pgmjax._internal.moved import serve_old_names
from pgmjax.gradients.fit import DifferentiableFit
from pgmjax.gradients.problem import Diagnostics, FitParameters

__all__ = ["Diagnostics", "DifferentiableFit", "FitParameters"]

serve_old_names(__name__)
