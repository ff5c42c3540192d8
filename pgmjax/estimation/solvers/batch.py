"""Many fits of one structure at once: their blocks of steps run as one program over a leading axis.

Each fit decides for itself (`estimation.solvers.loop.solve_steps`), so that it takes the steps and ends the
way it would alone. Fits stand in a fixed number of slots; where one ends, the next that waits takes its
slot, so that one compiled program serves any number of fits and little is computed for those that have ended.
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

from pgmjax._internal.jit import options, precision
from pgmjax._internal.sharding import over_rows, replicated, row_sharding
from pgmjax.estimation.solvers.loop import FitSteps, StepRequest, StepResult, T, _first, _run_block
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Solver, negligible

Mesh = jax.sharding.Mesh


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BatchState:
    """The fits of a program on the device; every leaf has a leading axis [slots].

    Attributes:
        loss: the losses.
        curvature: their constants.
        state: the solver's states.
    """

    loss: Any
    curvature: jax.Array
    state: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BlockEnds:
    """How a block ended in every slot [slots], read by the host."""

    loss: jax.Array
    gap: jax.Array
    stalled: jax.Array
    inaccurate: jax.Array


def _block(
    shared: Problem, solver: Solver, slots: BatchState, active: jax.Array, steps: jax.Array
) -> tuple[BatchState, Evaluation, BlockEnds]:
    """A block of steps in every slot; those that are not active stay as they are."""

    def one(
        loss: Any, curvature: jax.Array, state: Any, active: jax.Array
    ) -> tuple[Any, Evaluation, BlockEnds]:
        problem = dataclasses.replace(shared, loss=loss, curvature=curvature)
        new, point, gap, stalled = _run_block(problem, solver, state, steps)
        state = jax.tree.map(lambda a, b: jnp.where(active, a, b), new, state)
        return state, point, BlockEnds(point.loss, gap, stalled, point.error_bound > negligible(point))

    state, point, ends = jax.vmap(one)(slots.loss, slots.curvature, slots.state, active)
    return dataclasses.replace(slots, state=state), point, ends


def _admit(
    shared: Problem, solver: Solver, slots: BatchState, slot: jax.Array, loss: Any, curvature: Any, start: Any
) -> BatchState:
    """The slots with one of them started anew."""
    state = _first(dataclasses.replace(shared, loss=loss, curvature=curvature), solver, start)
    row = BatchState(loss, jnp.asarray(curvature, slots.curvature.dtype), state)
    return jax.tree.map(lambda every, one: every.at[slot].set(one), slots, row)


def _take(point: Evaluation, slot: jax.Array) -> Evaluation:
    return jax.tree.map(lambda leaf: leaf[slot], point)


@functools.cache
def _programs(mesh: Mesh | None) -> tuple[Any, Any, Any]:
    """Block, admission and reading of a slot, for one device or for all of a mesh."""
    jit = functools.partial(jax.jit, compiler_options=options(jax.default_backend(), long_run=True))
    if mesh is None:
        return jit(_block, donate_argnums=(2,)), jit(_admit, donate_argnums=(2,)), jit(_take)
    block = over_rows(mesh, _block, rows_in=(False, False, True, True, False), rows_out=(True, True, True))
    rows, every = row_sharding(mesh), replicated(mesh)

    def gathered(*arguments: Any) -> Any:
        slots, point, ends = block(*arguments)
        return slots, point, jax.lax.with_sharding_constraint(ends, every)

    return (
        jit(gathered, donate_argnums=(2,)),
        jit(_admit, donate_argnums=(2,), out_shardings=rows),
        jit(_take, out_shardings=every),
    )


@dataclasses.dataclass(frozen=True)
class _Row(StepResult):
    """How a block ended in one slot."""

    slot: int
    points: Evaluation
    take: Any
    dtype: str

    def point(self) -> Evaluation:
        with precision(self.dtype):
            return jax.tree.map(np.asarray, self.take(self.points, np.int32(self.slot)))


@dataclasses.dataclass
class _Fit(Generic[T]):
    """A fit under way: its place among all, what it asks for, and whether it has a slot."""

    number: int
    steps: FitSteps[T]
    request: StepRequest

    def kind(self) -> Any:
        """What fits must share to run in one program, numbers apart."""
        problem = self.request.problem
        leaves, structure = jax.tree.flatten((problem, self.request.solver))
        return structure, tuple(np.shape(leaf) for leaf in leaves), self.request.dtype


class Queue(Generic[T]):
    """Fits that wait for a slot, shared by all that run them.

    Args:
        fits: the fits, which nothing has started yet; they are started when their turn comes, so
            that those who wait take no memory.
    """

    def __init__(self, fits: Iterable[FitSteps[T]]):
        self._fresh = collections.deque(enumerate(fits))
        self._waiting: dict[Any, collections.deque[_Fit[T]]] = {}
        self._lock = threading.Lock()
        self.results: dict[int, T] = {}

    def next_of(self, kind: Any = None) -> _Fit[T] | None:
        """A fit of a kind that waits, any where None; None where there is none."""
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
        """The fit with its next request; None where it has ended."""
        try:
            return _Fit(number, steps, next(steps) if result is None else steps.send(result))
        except StopIteration as end:
            self.results[number] = end.value
            return None

    def wait(self, fit: _Fit[T]) -> None:
        """Put a fit at the end of those of its kind."""
        with self._lock:
            self._waiting.setdefault(fit.kind(), collections.deque()).append(fit)


def run_batch(queue: Queue[T], slots: int, mesh: Mesh | None = None) -> None:
    """Run fits from a queue until none waits there.

    Args:
        queue: the fits; `queue.results` gets their results by number.
        slots: how many run at once; with a mesh a multiple of its devices.
        mesh: devices to share the slots between; every process of it must call this alike.
    """
    while (fit := queue.next_of()) is not None:
        _Program(queue, fit, slots, mesh).run()


class _Program(Generic[T]):
    """The slots of one kind of fits, from the first of them until none of that kind waits."""

    def __init__(self, queue: Queue[T], first: _Fit[T], count: int, mesh: Mesh | None):
        self.queue, self.kind, self.dtype = queue, first.kind(), first.request.dtype
        self.block, self.admit, self.take = _programs(mesh)
        self.solver = first.request.solver
        self.held: list[_Fit[T] | None] = [first] + [None] * (count - 1)
        with precision(self.dtype):
            everywhere = None if mesh is None else replicated(mesh)
            self.shared = jax.device_put(_shared(first.request.problem), everywhere)
            self.slots = _empty(first.request, count, mesh)

    def run(self) -> None:
        """Fill the slots, run a block, tell the fits, until all slots are empty and nobody waits."""
        while True:
            for slot, fit in enumerate(self.held):
                self.held[slot] = fit or self.queue.next_of(self.kind)
            live = [fit for fit in self.held if fit is not None]
            if not live:
                return
            # Only the last block of a fit is shorter: the others keep still for it.
            steps = min(fit.request.steps for fit in live)
            active = np.array([fit is not None and fit.request.steps == steps for fit in self.held])
            points, ends = self.turn(active, steps)
            for slot in np.flatnonzero(active).tolist():
                numbers = (float(ends.loss[slot]), float(ends.gap[slot]))
                flags = (bool(ends.stalled[slot]), bool(ends.inaccurate[slot]))
                self.tell(slot, _Row(*numbers, *flags, slot, points, self.take, self.dtype))

    def turn(self, active: np.ndarray, steps: int) -> tuple[Evaluation, BlockEnds]:
        """Start those anew that ask for it, and run a block."""
        with precision(self.dtype):
            for slot in np.flatnonzero(active).tolist():
                request = self.held[slot].request  # type: ignore[union-attr]
                if request.start is not None:
                    row = (np.int32(slot), request.problem.loss, request.problem.curvature, request.start)
                    self.slots = self.admit(self.shared, self.solver, self.slots, *row)
            arguments = (self.shared, self.solver, self.slots, active, np.int32(steps))
            self.slots, points, ends = self.block(*arguments)
            return points, jax.tree.map(np.asarray, ends)

    def tell(self, slot: int, result: StepResult) -> None:
        """Tell a fit how its block ended; it keeps its slot unless it has ended or needs another program."""
        fit = self.held[slot]
        assert fit is not None
        following = self.queue.advanced(fit.number, fit.steps, result)
        if following and following.request.start is not None and following.kind() != self.kind:
            self.queue.wait(following)
            following = None
        self.held[slot] = following


def _shared(problem: Problem) -> Problem:
    """What all fits of a kind share: all but the numbers of the loss."""
    return dataclasses.replace(problem, loss=None, curvature=None)  # type: ignore[arg-type]


def _empty(request: StepRequest, count: int, mesh: Mesh | None) -> BatchState:
    """Slots that hold nothing: a loss of zeros, whose steps nobody reads."""
    problem = request.problem
    state = jax.eval_shape(_first, problem, request.solver, request.start)
    row = (problem.loss, np.ones((), request.dtype), state)
    loss, curvature, state = jax.tree.map(lambda x: np.zeros((count, *np.shape(x)), x.dtype), row)
    return jax.device_put(
        BatchState(loss, curvature + 1, state), None if mesh is None else row_sharding(mesh)
    )
