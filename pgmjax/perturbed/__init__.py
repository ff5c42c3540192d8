"""Perturbed tables: what records answered for themselves, with the laws of their lies.

A `PerturbedTable` is a release: its answers stand in the order of the table's rows and may be published.
Unbiased marginals with their covariance come from `PerturbedTable.marginals`, measurements for the
engine from `measurements`, and everything else from the companion estimators.
"""

from pgmjax.perturbed.column import ResponseColumn
from pgmjax.perturbed.factor import Factor, predicted_error
from pgmjax.perturbed.marginal import ResponseMarginal
from pgmjax.perturbed.table import PerturbedTable, load
from pgmjax.perturbed.tally import Tally

__all__ = [
    "Factor",
    "PerturbedTable",
    "ResponseColumn",
    "ResponseMarginal",
    "Tally",
    "load",
    "predicted_error",
]
