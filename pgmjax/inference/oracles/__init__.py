"""Oracles: marginals, log-partition and most likely value of a model, from its log-potentials.

- `base`: the interface. `choose`: selects the oracle for a structure, by name or by cost;
  `planned`: that oracle with its forecasts.
- Exact: `contraction`, `levels` (many small cliques), `chain` (cliques in a row, few launches), `sliced`
  (little memory), `message_passing`, `host_contraction` (NumPy, nothing compiled), and `brute_force`, the
  reference for all others.
- Approximate: `belief_propagation`.
- On the host, one query at a time, without compilation: `host`.
"""

from pgmjax.inference.oracles.base import Oracle
from pgmjax.inference.oracles.belief_propagation import ConvexBP, CoverBP, LoopyBP
from pgmjax.inference.oracles.brute_force import BruteForce
from pgmjax.inference.oracles.chain import Chain
from pgmjax.inference.oracles.choose import kind, names, plan
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.oracles.host_contraction import HostContraction
from pgmjax.inference.oracles.levels import Levels
from pgmjax.inference.oracles.message_passing import MessagePassing
from pgmjax.inference.oracles.planned import Plan
from pgmjax.inference.oracles.sliced import Sliced
from pgmjax.inference.plan.growth import candidate_cells

__all__ = [
    "BruteForce",
    "Chain",
    "Contraction",
    "ConvexBP",
    "CoverBP",
    "HostContraction",
    "Levels",
    "LoopyBP",
    "MessagePassing",
    "Oracle",
    "Plan",
    "Sliced",
    "candidate_cells",
    "kind",
    "names",
    "plan",
]
