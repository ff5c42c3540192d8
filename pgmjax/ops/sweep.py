"""A contraction forwards, and backwards for all marginals: written out, so that little is compiled.

Forwards each step adds two tables and sums variables out. Backwards each table receives its own
marginal: with the joint marginal `p = weight * exp(left + right - result)` of a step's union, where
`weight` is the marginal of the step's result, both operands get sums of p. Every table is used
once, so that no two contributions ever meet. Automatic differentiation reaches the same numbers
through twice the number of compiled operations.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from pgmjax.ops.tables import Reduce, Table, align, lowest, recentred
from pgmjax.plan.contraction import ContractionPath, Step
from pgmjax.plan.structure import Variables

# On paths with more steps than this from an input to the result, messages are recentred and marginals
# made to sum to 1 again: float32 keeps its digits however long the chain, and short ones pay nothing.
DEEP = 12


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What going forwards leaves behind.

    Attributes:
        tables: the inputs, then each step's result less what was taken out of it.
        results: for each step its result with that still in: minus infinity is a very low number
            here, so that differences stay numbers.
        scale: the sum of all that was taken out.
    """

    tables: tuple[Table, ...]
    results: tuple[Table, ...]
    scale: Table

    @property
    def total(self) -> Table:
        """The contraction's value."""
        return self.tables[-1] + self.scale if self.results else self.scale


def forward(path: ContractionPath, tables: Sequence[Table], reduce: Reduce) -> Sweep:
    """Run a path's steps.

    Args:
        path: the plan; its last step leaves a scalar.
        tables: log values for each clique, JAX or NumPy arrays.
        reduce: how axes go; of the same library.
    """
    variables = [*path.structure.cliques, *(step.kept for step in path.steps)]
    every = list(tables)
    results = []
    scale: Table = np.zeros((), tables[0].dtype if tables else None)
    deep = _depth(path) > DEEP
    for step in path.steps:
        combined = _combined(step, every, variables)
        result = reduce(combined, _gone(step)) if _gone(step) else combined
        results.append(lowest(result))
        if deep:
            result, top = recentred(result)
            scale = scale + top
        every.append(result)
    return Sweep(tuple(every), tuple(results), scale)


def backward(path: ContractionPath, sweep: Sweep) -> tuple[Table, ...]:
    """Marginals of all cliques (probabilities), from what `forward` left with log-sum-exp."""
    xp = np if all(isinstance(table, np.ndarray | np.generic) for table in sweep.tables) else jnp
    count = len(path.structure.cliques)
    variables = [*path.structure.cliques, *(step.kept for step in path.steps)]
    deep = _depth(path) > DEEP
    weights: list[Table] = [None] * len(sweep.tables)
    if path.steps:
        weights[-1] = xp.ones_like(sweep.tables[-1])
    for number in reversed(range(len(path.steps))):
        step = path.steps[number]
        weight = weights[count + number]
        if deep:
            total = xp.sum(weight)
            weight = weight / xp.where(total > 0, total, 1)
        joint = align(weight, step.kept, step.union)
        if _gone(step):
            combined = _combined(step, sweep.tables, variables)
            joint = joint * xp.exp(combined - align(sweep.results[number], step.kept, step.union))
        for i in step.operands:
            axes = tuple(a for a, v in enumerate(step.union) if v not in variables[i])
            held = tuple(v for v in step.union if v in variables[i])
            weights[i] = align(xp.sum(joint, axis=axes) if axes else joint, held, variables[i])
    return tuple(weights[:count])


@functools.lru_cache(maxsize=256)
def _depth(path: ContractionPath) -> int:
    """Number of steps on the longest way from an input to the result."""
    count = len(path.structure.cliques)
    depths: list[int] = []
    for step in path.steps:
        depths.append(1 + max((depths[i - count] for i in step.operands if i >= count), default=0))
    return max(depths, default=0)


def _combined(step: Step, tables: Sequence[Table], variables: Sequence[Variables]) -> Table:
    parts = [align(tables[i], variables[i], step.union) for i in step.operands]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _gone(step: Step) -> tuple[int, ...]:
    return tuple(range(len(step.kept), len(step.union)))
