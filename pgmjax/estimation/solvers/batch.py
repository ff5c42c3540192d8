"""Batched fits of one structure: blocks of steps run as one program over a leading axis.

Each fit has its own control flow (`estimation.solvers.loop.solve_steps`), so it takes the same steps and ends
the same way as on its own. Fits occupy a fixed number of slots; when one ends, the next in the queue takes
its slot, so one compiled program serves any number of fits and little is computed for finished ones.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from collections.abc import Iterable
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import device
from pgmjax._internal.jit import jit, precision
from pgmjax._internal.sharding import over_rows, replicated, row_sharding
from pgmjax.estimation.solvers.loop import (
    BlockEnds,
    FitSteps,
    StepRequest,
    StepResult,
    T,
    _first,
    _run_block,
    block_steps,
)
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Solver

Mesh = jax.sharding.Mesh
OWN = ("loss", "curvature", "prior")  # what each fit of a program has for itself


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BatchState:
    """Device state of a program's fits; every leaf has a leading axis [slots].

    Attributes:
        loss: the losses.
        curvature: their Lipschitz constants.
        prior: the relative-entropy terms, or None.
        state: the solver states.
    """

    loss: Any
    curvature: jax.Array
    prior: Any
    state: Any


def _block(
    shared: Problem, solver: Solver, slots: BatchState, active: jax.Array, steps: Any
) -> tuple[BatchState, Evaluation, BlockEnds]:
    """Run a block of steps in every slot; inactive slots keep their state."""

    def one(
        loss: Any, curvature: jax.Array, prior: Any, state: Any, active: jax.Array
    ) -> tuple[Any, Evaluation, BlockEnds]:
        problem = dataclasses.replace(shared, loss=loss, curvature=curvature, prior=prior)
        new, point, ends = _run_block(problem, solver, state, steps, alone=False)
        return jax.tree.map(lambda a, b: jnp.where(active, a, b), new, state), point, ends

    state, point, ends = jax.vmap(one)(slots.loss, slots.curvature, slots.prior, slots.state, active)
    return dataclasses.replace(slots, state=state), point, ends


def _admit(
    shared: Problem, solver: Solver, slots: BatchState, slot: jax.Array, own: dict[str, Any], start: Any
) -> BatchState:
    """Return the slots with one of them restarted, with what is its own."""
    state = _first(dataclasses.replace(shared, **own), solver, start)
    row = BatchState(**own, state=state)
    return jax.tree.map(lambda every, one: every.at[slot].set(jnp.asarray(one, every.dtype)), slots, row)


def _take(point: Evaluation, slot: jax.Array) -> Evaluation:
    return jax.tree.map(lambda leaf: leaf[slot], point)


@functools.cache
def _programs(mesh: Mesh | None) -> tuple[Any, Any, Any]:
    """Return the programs to run a block, admit a fit and read a slot, on one device or a mesh."""
    compiled = functools.partial(jit, long_run=True)
    if mesh is None:
        return compiled(_block, donate_argnums=(2,)), compiled(_admit, donate_argnums=(2,)), compiled(_take)
    block = over_rows(mesh, _block, rows_in=(False, False, True, True, False), rows_out=(True, True, True))
    rows, every = row_sharding(mesh), replicated(mesh)

    def gathered(*arguments: Any) -> Any:
        slots, point, ends = block(*arguments)
        return slots, point, jax.lax.with_sharding_constraint(ends, every)

    return (
        compiled(gathered, donate_argnums=(2,)),
        compiled(_admit, donate_argnums=(2,), out_shardings=rows),
        compiled(_take, out_shardings=every),
    )


@dataclasses.dataclass(frozen=True)
class _Row(StepResult):
    """Result of a block in one slot."""

    slot: int
    points: Evaluation
    take: Any
    dtype: str

    def point(self) -> Evaluation:
        with device.failures_told(), precision(self.dtype):
            return jax.tree.map(np.asarray, self.take(self.points, np.int32(self.slot)))


@dataclasses.dataclass
class _Fit(Generic[T]):
    """A running fit: its number, its generator and its pending request."""

    number: int
    steps: FitSteps[T]
    request: StepRequest

    def kind(self) -> Any:
        """Return the key that fits of one program share: structure, shapes and dtype."""
        problem = self.request.problem
        leaves, structure = jax.tree.flatten((problem, self.request.solver))
        return structure, tuple(np.shape(leaf) for leaf in leaves), self.request.dtype


class Queue(Generic[T]):
    """Queue of fits waiting for a slot, shared by all threads.

    Args:
        fits: the fits, not yet started; each is started when its turn comes, so that waiting ones
            take no memory.
    """

    def __init__(self, fits: Iterable[FitSteps[T]]):
        self._fresh = collections.deque(enumerate(fits))
        self._waiting: dict[Any, collections.deque[_Fit[T]]] = {}
        self._lock = threading.Lock()
        self.results: dict[int, T] = {}

    def next_of(self, kind: Any = None) -> _Fit[T] | None:
        """Return a waiting fit of a kind (None for any), or None if there are none."""
        while True:
            with self._lock:
                if self._fresh:
                    number, steps = self._fresh.popleft()
                else:
                    kinds = [k for k, fits in self._waiting.items() if fits and kind in (None, k)]
                    return self._waiting[kinds[0]].popleft() if kinds else None
            fit = self.advanced(number, steps, None)
            if fit is not None and kind in (None, fit.kind()):
                return fit
            if fit is not None:
                self.wait(fit)

    def advanced(self, number: int, steps: FitSteps[T], result: StepResult | None) -> _Fit[T] | None:
        """Return the fit with its next request, or None if it has ended."""
        try:
            return _Fit(number, steps, next(steps) if result is None else steps.send(result))
        except StopIteration as end:
            self.results[number] = end.value
            return None

    def wait(self, fit: _Fit[T]) -> None:
        """Append a fit to the queue of its kind."""
        with self._lock:
            self._waiting.setdefault(fit.kind(), collections.deque()).append(fit)


def run_batch(queue: Queue[T], slots: int, mesh: Mesh | None = None) -> None:
    """Run fits from a queue until it is empty.

    Args:
        queue: the fits; `queue.results` receives their results by number.
        slots: number of concurrent fits; with a mesh a multiple of its devices.
        mesh: devices to share the slots; every process of it must make the same call.
    """
    while (fit := queue.next_of()) is not None:
        _Program(queue, fit, slots, mesh).run()


class _Program(Generic[T]):
    """A program for one kind of fits, run until none of that kind is waiting."""

    def __init__(self, queue: Queue[T], first: _Fit[T], count: int, mesh: Mesh | None):
        self.queue, self.kind, self.dtype = queue, first.kind(), first.request.dtype
        self.block, self.admit, self.take = _programs(mesh)
        self.solver = first.request.solver
        self.held: list[_Fit[T] | None] = [first] + [None] * (count - 1)
        device.tell_coarse_flags()
        with device.failures_told(), precision(self.dtype):
            everywhere = None if mesh is None else replicated(mesh)
            self.shared = jax.device_put(_shared(first.request.problem), everywhere)
            self.slots = _empty(first.request, count, mesh)

    def run(self) -> None:
        """Fill the slots, run a block and resume the fits, until slots and queue are empty."""
        while True:
            for slot, fit in enumerate(self.held):
                self.held[slot] = fit or self.queue.next_of(self.kind)
            live = [fit for fit in self.held if fit is not None]
            if not live:
                return
            # Only the last block of a fit is shorter: the other slots are idle during it.
            steps = min(fit.request.steps for fit in live)
            active = np.array([fit is not None and fit.request.steps == steps for fit in self.held])
            points, ends = self.turn(active, steps)
            for slot in np.flatnonzero(active).tolist():
                numbers = (float(ends.loss[slot]), float(ends.gap[slot]))
                flags = (bool(ends.stalled[slot]), bool(ends.inaccurate[slot]))
                self.tell(slot, _Row(*numbers, *flags, slot, points, self.take, self.dtype))

    def turn(self, active: np.ndarray, steps: int) -> tuple[Evaluation, BlockEnds]:
        """Restart the fits that request it, and run a block."""
        with device.failures_told(), precision(self.dtype):
            for slot in np.flatnonzero(active).tolist():
                request = self.held[slot].request  # type: ignore[union-attr]
                if request.start is not None:
                    own = {name: getattr(request.problem, name) for name in OWN}
                    row = (np.int32(slot), own, request.start)
                    self.slots = self.admit(self.shared, self.solver, self.slots, *row)
            arguments = (self.shared, self.solver, self.slots, active, block_steps(steps))
            self.slots, points, ends = self.block(*arguments)
            return points, jax.device_get(ends)  # all at once

    def tell(self, slot: int, result: StepResult) -> None:
        """Resume a fit with its result; it frees its slot if it ended or needs another program."""
        fit = self.held[slot]
        assert fit is not None
        following = self.queue.advanced(fit.number, fit.steps, result)
        if following and following.request.start is not None and following.kind() != self.kind:
            self.queue.wait(following)
            following = None
        self.held[slot] = following


def _shared(problem: Problem) -> Problem:
    """Return the part of a problem shared by all fits of a kind."""
    return dataclasses.replace(problem, loss=None, curvature=None, prior=None)  # type: ignore[arg-type]


def _empty(request: StepRequest, count: int, mesh: Mesh | None) -> BatchState:
    """Return empty slots: a loss of zeros, whose results are not read."""
    problem = request.problem
    state = jax.eval_shape(_first, problem, request.solver, request.start)
    row = BatchState(problem.loss, np.ones((), request.dtype), problem.prior, state)  # type: ignore[arg-type]
    slots = jax.tree.map(lambda x: np.zeros((count, *np.shape(x)), x.dtype), row)
    ones = {"curvature": slots.curvature + 1, "prior": jax.tree.map(lambda x: x + 1, slots.prior)}
    slots = dataclasses.replace(slots, **ones)
    return jax.device_put(slots, None if mesh is None else row_sharding(mesh))
