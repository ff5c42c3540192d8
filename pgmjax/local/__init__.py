"""Local differential privacy: perturbed tables, and unbiased estimators on them.

Each record has answered for itself by randomised response; the distribution by which it lied is public. A
`PerturbedTable` is a release: its answers stand in the order of the table's rows and may be published.
`PerturbedTable.marginals` gives unbiased marginals with their covariance, `PerturbedTable.measurements` the
same as measurements for the engine. From the answers every other estimate here is unbiased too and comes with
its exact variance, or an unbiased estimate of it, and with bounds that hold for every table. Nothing costs
budget: it is all post-processing.

- `table`: a perturbed table. `codes`: its codes, their universe. `channel`: the numbers of a response.
- `marginals`: unbiased counts. `statistical`: any statistical query. `grouped`: a function for each group of
  rows. `continuous`: attributes in the unit cube. `graphs`: cuts of a graph.
- `answers`: what comes out, with its error. `proper`: the nearest value that some table has. `bounds`: what
  no mechanism can beat.
"""

from pgmjax._internal.moved import serve_old_names
from pgmjax.local.answers import UnbiasedAnswers, UselessAnswerError
from pgmjax.local.bounds import lower_bound, upper_bound
from pgmjax.local.channel import Channel, predicted_error, predicted_stddev
from pgmjax.local.codes import Perturbed, PerturbedCodes, Universe
from pgmjax.local.continuous import ContinuousAnswers, Discretisation, Grid, answer_lipschitz, best_grid
from pgmjax.local.graphs import PerturbedGraph, VertexPairs
from pgmjax.local.grouped import GroupHistograms, group_histograms
from pgmjax.local.marginals import ReleasedResponses, ResponseMarginal, Tally, marginals_of
from pgmjax.local.proper import ProperEstimator
from pgmjax.local.statistical import answer_queries, answer_rows
from pgmjax.local.table import PerturbedTable, ResponseColumn, load

__all__ = [
    "Channel",
    "ContinuousAnswers",
    "Discretisation",
    "Grid",
    "GroupHistograms",
    "Perturbed",
    "PerturbedCodes",
    "PerturbedGraph",
    "PerturbedTable",
    "ProperEstimator",
    "ReleasedResponses",
    "ResponseColumn",
    "ResponseMarginal",
    "Tally",
    "UnbiasedAnswers",
    "Universe",
    "UselessAnswerError",
    "VertexPairs",
    "answer_lipschitz",
    "answer_queries",
    "answer_rows",
    "best_grid",
    "group_histograms",
    "load",
    "lower_bound",
    "marginals_of",
    "predicted_error",
    "predicted_stddev",
    "upper_bound",
]

serve_old_names(__name__, "perturbed")
