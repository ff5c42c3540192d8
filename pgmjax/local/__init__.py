"""Local differential privacy: perturbed tables, and unbiased estimators on them.

Each record has answered for itself by randomised response; the distribution by which it lied is public. A
`PerturbedTable` is a release: its answers stand in the order of the table's rows and may be published. From them every
answer here is unbiased and comes with its exact variance, or an unbiased estimate of it, and with bounds that hold for
every table. Nothing costs budget: it is all post-processing.
"""

from pgmjax.local.answers import Answers, UselessAnswerError
from pgmjax.local.bounds import lower_bound, upper_bound
from pgmjax.local.channel import Channel, predicted_stddev
from pgmjax.local.codes import Perturbed, PerturbedCodes
from pgmjax.local.column import ResponseColumn
from pgmjax.local.continuous import Discretisation, Grid, best_grid
from pgmjax.local.factor import Factor, predicted_error
from pgmjax.local.factored import answer_queries
from pgmjax.local.graphs import PerturbedGraph
from pgmjax.local.grouped import GroupHistograms, group_histograms
from pgmjax.local.lipschitz import ContinuousAnswers, answer_lipschitz
from pgmjax.local.marginals import ResponseMarginal
from pgmjax.local.pairs import VertexPairs
from pgmjax.local.proper import Achievable
from pgmjax.local.statistical import answer_rows
from pgmjax.local.table import PerturbedTable, load
from pgmjax.local.tally import Tally
from pgmjax.local.universe import Universe

__all__ = [
    "Achievable",
    "Answers",
    "Channel",
    "ContinuousAnswers",
    "Discretisation",
    "Factor",
    "Grid",
    "GroupHistograms",
    "Perturbed",
    "PerturbedCodes",
    "PerturbedGraph",
    "PerturbedTable",
    "ResponseColumn",
    "ResponseMarginal",
    "Tally",
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
    "predicted_error",
    "predicted_stddev",
    "upper_bound",
]
