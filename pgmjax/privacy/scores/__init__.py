"""Scores of candidates for private selection, evaluated on exact integer tables inside the choke point.

`base` defines the interface and how to write a custom score. `counts` scores by the counts themselves,
`errors` by the distance of answers from estimates, `bayes` the parents in a Bayesian network.
"""

from pgmjax.privacy.scores.base import Score
from pgmjax.privacy.scores.bayes import BinaryF, MutualInformation, TotalVariation
from pgmjax.privacy.scores.counts import Counts, Stack
from pgmjax.privacy.scores.errors import Deviations, Distances, Overshoots

__all__ = [
    "BinaryF",
    "Counts",
    "Deviations",
    "Distances",
    "MutualInformation",
    "Overshoots",
    "Score",
    "Stack",
    "TotalVariation",
]
