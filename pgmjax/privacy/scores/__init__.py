"""Scores of candidates for private selection, evaluated on exact integer tables inside the choke point."""

from pgmjax.privacy.scores.base import Score
from pgmjax.privacy.scores.bayes import BinaryF, MutualInformation, TotalVariation
from pgmjax.privacy.scores.counts import Counts
from pgmjax.privacy.scores.errors import Distances, Errors
from pgmjax.privacy.scores.overshoots import Overshoots
from pgmjax.privacy.scores.stack import Stack

__all__ = [
    "BinaryF",
    "Counts",
    "Distances",
    "Errors",
    "MutualInformation",
    "Overshoots",
    "Score",
    "Stack",
    "TotalVariation",
]
