"""The descent of one start: Adam in compiled blocks of steps, whose rate is halved where the loss settles.

References:
    Kingma and Ba 2015, "Adam: a method for stochastic optimization", algorithm 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pgmjax._internal.jit import jit
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.mixture_layout import Layout, Logits
from pgmjax.estimation.solvers.loop import Status

BLOCK = 25
"""Steps between two looks at the loss."""

SETTLED = 0.02
"""A block that lowers the loss by a smaller share halves the rate."""

_HALVINGS = 8
_ADAM = optax.scale_by_adam(eps=1e-16)  # gradients are those of the loss over its start, and may be small


@dataclasses.dataclass(frozen=True, eq=False)
class Descent:
    """How one start ended.

    Attributes:
        logits: the best point seen at the end of a block.
        loss: the loss there, as the device has it.
        stationarity: Euclidean norm of the loss's gradient by the logits there (the loss's unit a nat).
        status: why it stopped.
        steps: steps done.
    """

    logits: Logits
    loss: float
    stationarity: float
    status: Status
    steps: int


def _evaluate(loss: BoundLoss, layout: Layout, logits: Logits) -> tuple[jax.Array, Logits]:
    return jax.value_and_grad(lambda point: loss.flat(layout.marginals(point)))(logits)


def _run_block(
    loss: BoundLoss, layout: Layout, logits: Logits, moments: Any, scale: Any, rate: Any, steps: Any
) -> tuple[Logits, Any, jax.Array, jax.Array]:
    """Some steps, then the loss and the norm of its gradient where they end."""

    def step(_: Any, state: tuple[Logits, Any]) -> tuple[Logits, Any]:
        point, before = state
        _, gradient = _evaluate(loss, layout, point)
        gradient = jax.tree.map(lambda each: each / scale, gradient)
        direction, after = _ADAM.update(gradient, before)
        return jax.tree.map(lambda x, d: x - rate * d, point, direction), after

    logits, moments = jax.lax.fori_loop(0, steps, step, (logits, moments))
    value, gradient = _evaluate(loss, layout, logits)
    squares = [jnp.sum(jnp.square(each / scale)) for each in jax.tree.leaves(gradient)]
    return logits, moments, value, jnp.sqrt(jnp.sum(jnp.stack(squares))) * scale


_block = jit(_run_block)


def descend(
    loss: BoundLoss,
    layout: Layout,
    start: Logits,
    *,
    rate: float,
    max_steps: int,
    enough: Callable[[float], Status | None],
    watch: Callable[[int, float], None],
) -> Descent:
    """Lower the loss from one start.

    Args:
        loss: bound to the measurements, in the dtype of the start.
        layout: of the loss's cliques.
        start: logits.
        rate: nats that a logit moves in a step, at first.
        max_steps: steps at most, >= 1.
        enough: given the loss, how the descent ends there, or None.
        watch: called after each block with (steps done in it, loss).
    """
    kind = start[0].dtype.type
    arrays = jax.tree.map(jnp.asarray, (loss, layout, start))
    moments, done, halvings = _ADAM.init(arrays[2]), 0, 0
    logits = arrays[2]
    _, _, value, norm = _block(*arrays, moments, kind(1), kind(0), np.int32(0))
    best = Descent(logits, float(value), float(norm), Status.NOT_FINITE, 0)
    if not math.isfinite(best.loss):
        return best
    scale = kind(best.loss if best.loss > 0 else 1)
    status = enough(best.loss)
    while status is None:
        steps = min(BLOCK, max_steps - done)
        logits, moments, value, norm = _block(
            *arrays[:2], logits, moments, scale, kind(rate * 0.5**halvings), np.int32(steps)
        )
        done, now = done + steps, float(value)
        watch(steps, now)
        if not now < best.loss * (1 - SETTLED):  # nor NaN
            halvings += 1
        if now < best.loss:
            best = Descent(logits, now, float(norm), Status.STALLED, done)
        if not math.isfinite(now):
            logits, moments = best.logits, _ADAM.init(best.logits)
        status = enough(best.loss)
        if status is None and halvings > _HALVINGS:
            status = Status.STALLED
        if status is None and done >= max_steps:
            status = Status.MAX_STEPS
    return dataclasses.replace(best, status=status, steps=done)
