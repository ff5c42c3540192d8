"""What a solver is: a state, and a step from one to the next."""

from __future__ import annotations

from typing import Any, Protocol

import jax

from pgmjax.solvers.problem import Evaluation, Problem, Tables


class Solver(Protocol):
    """A solver is a registered dataclass whose numeric settings are leaves.

    Two solvers that differ only in their settings so share one compiled program. `start` makes a
    state without calling the oracle; `step` calls it once (L-BFGS more often, in its line search).
    States are the solver's own; `result` and `stalled` read them.
    """

    @property
    def copies(self) -> int:
        """Tables the size of the potentials that a step holds at its peak."""
        ...

    def start(self, problem: Problem, potentials: Tables) -> Any:
        """State before the first step."""
        ...

    def step(self, problem: Problem, state: Any) -> Any:
        """State after one more step."""
        ...

    def result(self, problem: Problem, state: Any) -> Evaluation:
        """The best point so far."""
        ...

    def stalled(self, state: Any) -> jax.Array:
        """Whether no further progress can be made at this precision."""
        ...
