"""Oracles: marginals, log-partition and most likely value of a model, from its log-potentials.

- `base`: the interface. `choose`: plans the oracle for a structure, by name or by cost, with its forecasts.
- Exact: `contraction` (compiled, or in NumPy), `levels` (many small cliques), `chain` (cliques in a row, few
  launches), `sliced` (little memory), and `message_passing`, which reads like a textbook: open it first.
- Approximate: `belief_propagation`.
- On the host, one query at a time, without compilation: `host`.
- `verification`: a check of an oracle of your own.
"""

from typing import TYPE_CHECKING, Any

from pgmjax._internal import migration
from pgmjax.inference.oracles.base import Oracle
from pgmjax.inference.oracles.base import Plan as Plan
from pgmjax.inference.oracles.choose import kind as kind
from pgmjax.inference.oracles.choose import names as names
from pgmjax.inference.oracles.choose import plan as plan

if TYPE_CHECKING:
    from pgmjax.inference.oracles.belief_propagation import ConvexBP, LoopyBP
    from pgmjax.inference.oracles.message_passing import MessagePassing
    from pgmjax.inference.oracles.verification import verify
    from pgmjax.inference.plan.growth import candidate_cells

__all__ = [
    "ConvexBP",
    "LoopyBP",
    "MessagePassing",
    "Oracle",
    "candidate_cells",
    "verify",
]


def _later() -> dict[str, Any]:
    """Return what is asked for by name, which a fit by "auto" does without."""
    from pgmjax.inference.oracles.belief_propagation import ConvexBP, LoopyBP
    from pgmjax.inference.oracles.message_passing import MessagePassing
    from pgmjax.inference.oracles.verification import verify
    from pgmjax.inference.plan.growth import candidate_cells

    named = {"ConvexBP": ConvexBP, "LoopyBP": LoopyBP, "MessagePassing": MessagePassing}
    return {**named, "verify": verify, "candidate_cells": candidate_cells}


migration.answer(globals(), _later)
