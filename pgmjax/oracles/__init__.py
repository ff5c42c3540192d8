"""Oracles: marginals, log-partition and most likely value of a model, from its log-potentials."""

from pgmjax.oracles.base import Oracle
from pgmjax.oracles.brute_force import BruteForce
from pgmjax.oracles.choose import Plan, kind, names, plan
from pgmjax.oracles.contraction import Contraction
from pgmjax.oracles.levels import Levels
from pgmjax.oracles.message_passing import MessagePassing
from pgmjax.oracles.regions import ConvexBP, CoverBP, LoopyBP
from pgmjax.oracles.sliced import Sliced

__all__ = [
    "BruteForce",
    "Contraction",
    "ConvexBP",
    "CoverBP",
    "Levels",
    "LoopyBP",
    "MessagePassing",
    "Oracle",
    "Plan",
    "Sliced",
    "kind",
    "names",
    "plan",
]
