"""Oracles: marginals, log-partition and most likely value of a model, from its log-potentials."""

from pgmjax.oracles.base import Oracle
from pgmjax.oracles.brute_force import BruteForce
from pgmjax.oracles.choose import Plan, kind, names, plan
from pgmjax.oracles.contraction import Contraction
from pgmjax.oracles.message_passing import MessagePassing

__all__ = ["BruteForce", "Contraction", "MessagePassing", "Oracle", "Plan", "kind", "names", "plan"]
