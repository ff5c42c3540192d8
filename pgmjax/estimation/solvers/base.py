"""What a solver is: a state, and a step from one to the next."""

from __future__ import annotations

import abc
from typing import Any

import jax

from pgmjax.estimation.solvers.problem import Evaluation, Gauge, Problem, Vector


class Solver(abc.ABC):
    """A solver is a registered dataclass whose numeric settings are leaves.

    Two solvers that differ only in their settings so share one compiled program. `start` makes a
    state without calling the oracle; `step` calls it once (L-BFGS more often, in its line search).
    States are the solver's own; `result` and `stalled` read them.
    """

    @property
    @abc.abstractmethod
    def copies(self) -> int:
        """Tables the size of the potentials that a step holds at its peak."""

    @abc.abstractmethod
    def start(self, problem: Problem, potentials: Vector) -> Any:
        """State before the first step."""

    @abc.abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """State after one more step."""

    def recentred(self, gauge: Gauge, state: Any) -> Any:
        """The state with constants taken out of its potentials, where the solver can do without."""
        return state

    @abc.abstractmethod
    def result(self, problem: Problem, state: Any) -> Evaluation:
        """The best point so far."""

    @abc.abstractmethod
    def stalled(self, state: Any) -> jax.Array:
        """Whether no further progress can be made at this precision."""
