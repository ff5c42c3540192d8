"""Companion estimators: any statistical query from one table of perturbed records.

Each record has answered for itself by randomised response; the law by which it lied is public. From the
codes in the order of the rows every answer here is unbiased and comes with its exact variance, or an
unbiased estimate of it, and with bounds that hold for every table. Nothing costs budget: it is all
post-processing.
"""

from pgmjax.companion.achievable import Achievable
from pgmjax.companion.answers import Answers, UselessAnswerError
from pgmjax.companion.channel import Channel, predicted_stddev
from pgmjax.companion.cuts import PerturbedGraph
from pgmjax.companion.factored import answer_queries
from pgmjax.companion.grid import Discretisation, Grid, best_grid
from pgmjax.companion.grouped import GroupHistograms, group_histograms
from pgmjax.companion.lipschitz import ContinuousAnswers, answer_lipschitz
from pgmjax.companion.minimax import lower_bound, upper_bound
from pgmjax.companion.pairs import VertexPairs
from pgmjax.companion.responses import Perturbed, PerturbedCodes
from pgmjax.companion.rowwise import answer_rows
from pgmjax.companion.universe import Universe

__all__ = [
    "Achievable",
    "Answers",
    "Channel",
    "ContinuousAnswers",
    "Discretisation",
    "Grid",
    "GroupHistograms",
    "Perturbed",
    "PerturbedCodes",
    "PerturbedGraph",
    "Universe",
    "UselessAnswerError",
    "VertexPairs",
    "answer_lipschitz",
    "answer_queries",
    "answer_rows",
    "best_grid",
    "group_histograms",
    "lower_bound",
    "predicted_stddev",
    "upper_bound",
]
