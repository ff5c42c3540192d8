"""Batched fits of one structure: blocks of steps run as one program over a leading axis.

Each fit has its own control flow (`estimation.solvers.loop.solve_steps`), so it takes the same steps and ends
the same way as on its own. Fits occupy a fixed number of slots; when one ends, the next in the queue takes
its slot, so one compiled program serves any number of fits and little is computed for finished ones. Fits
start together where several slots are free, one array is read of each block, and the final points of many
fits are evaluated together.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import device
from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax._internal.sharding import over_rows, replicated, row_sharding
from pgmjax.estimation.solvers import loop
from pgmjax.estimation.solvers.loop import (
    CertificateRequest,
    Certified,
    FitSteps,
    StepRequest,
    StepResult,
    T,
    _first,
    _run_block,
    block_steps,
    certified,
    numbers_of,
)
from pgmjax.estimation.solvers.objective import Evaluation, Objective, Solver, Vector, negligible

Mesh = jax.sharding.Mesh
TOGETHER = 8  # fits start in groups of 1, 8, 64 and so on


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BatchState:
    """Device state of a program's fits; every leaf has a leading axis [slots].

    Attributes:
        own: what each fit has for itself (see `Objective.own`).
        state: the solver states.
    """

    own: Any
    state: Any


def _block(
    shared: Objective, solver: Solver, slots: BatchState, active: jax.Array, steps: Any
) -> tuple[BatchState, Evaluation, jax.Array]:
    """Run a block of steps in every slot; inactive slots keep their state."""

    def one(own: Any, state: Any, active: jax.Array) -> tuple[Any, Evaluation, jax.Array]:
        new, point, ends = _run_block(shared.with_own(own), solver, state, steps, alone=False)
        return jax.tree.map(lambda a, b: jnp.where(active, a, b), new, state), point, ends

    state, point, ends = jax.vmap(one)(slots.own, slots.state, active)
    return dataclasses.replace(slots, state=state), point, ends


def _admit(
    shared: Objective, solver: Solver, slots: BatchState, places: jax.Array, own: Any, starts: Any
) -> BatchState:
    """Return the slots with some of them restarted, with what is their own."""
    state = jax.vmap(lambda own, start: _first(shared.with_own(own), solver, start))(own, starts)
    rows = BatchState(own, state)
    return jax.tree.map(lambda every, some: every.at[places].set(jnp.asarray(some, every.dtype)), slots, rows)


@functools.cache
def _programs(mesh: Mesh | None) -> tuple[Any, Any, Any]:
    """Return the programs to run a block, admit fits and gather points, on one device or a mesh."""
    # a block runs many times, and what admits fits once for each
    long = functools.partial(jit, long_run=True)
    gather = jit(lambda points: points, out_shardings=None if mesh is None else replicated(mesh))
    if mesh is None:
        return long(_block, donate_argnums=(2,)), jit(_admit, donate_argnums=(2,)), gather
    block = over_rows(mesh, _block, rows_in=(False, False, True, True, False), rows_out=(True, True, True))
    rows, every = row_sharding(mesh), replicated(mesh)

    def gathered(*arguments: Any) -> Any:
        slots, point, ends = block(*arguments)
        return slots, point, jax.lax.with_sharding_constraint(ends, every)

    return (
        long(gathered, donate_argnums=(2,)),
        jit(_admit, donate_argnums=(2,), out_shardings=rows),
        gather,
    )


@dataclasses.dataclass
class _Fit(Generic[T]):
    """A running fit: its number, its generator and its pending request."""

    number: int
    steps: FitSteps[T]
    request: Any  # a StepRequest or a CertificateRequest

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
        self.size = len(self._fresh)
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

    def advanced(self, number: int, steps: FitSteps[T], result: Any) -> _Fit[T] | None:
        """Return the fit with its next request, or None if it has ended."""
        try:
            return _Fit(number, steps, steps.send(result))  # None starts a generator
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
        self.block, self.admit, self.gather = _programs(mesh)
        self.solver = first.request.solver
        self.held: list[_Fit[T] | None] = [first] + [None] * (count - 1)
        self.ended: list[_Fit[T]] = []  # that wait for their certificates
        device.tell_coarse_flags()
        with device.failures_told(), precision(self.dtype):
            everywhere = None if mesh is None else replicated(mesh)
            self.shared = jax.device_put(first.request.problem.shared(), everywhere)
            self.slots = _empty(first.request, count, mesh)

    def run(self) -> None:
        """Fill the slots, run a block and resume the fits, until slots and queue are empty."""
        together = max(1, len(self.held) // 2)  # float64 takes twice the memory
        while True:
            for slot, fit in enumerate(self.held):
                self.held[slot] = fit or self.queue.next_of(self.kind)
            live = [fit for fit in self.held if fit is not None]
            if len(self.ended) >= together or (self.ended and not live):
                some, self.ended = self.ended[:together], self.ended[together:]
                self.certify(some, together)
                continue
            if not live:
                return
            # Only the last block of a fit is shorter: the other slots are idle during it.
            steps = min(fit.request.steps for fit in live)
            active = np.array([fit is not None and fit.request.steps == steps for fit in self.held])
            points, ends = self.turn(active, steps)
            for slot in np.flatnonzero(active).tolist():
                point = functools.partial(_row, points, slot)
                self.tell(slot, StepResult(*numbers_of(ends[slot]), point))

    def turn(self, active: np.ndarray, steps: int) -> tuple[Callable[[], Evaluation], np.ndarray]:
        """Restart the fits that request it, and run a block; points stay on the device until one is asked."""
        fresh = [(slot, fit.request) for slot, fit in enumerate(self.held) if fit and active[slot]]
        fresh = [(slot, request) for slot, request in fresh if request.start is not None]
        with device.failures_told(), precision(self.dtype):
            self.start(fresh)
            arguments = (self.shared, self.solver, self.slots, active, block_steps(steps))
            self.slots, points, ends = self.block(*arguments)

            @functools.cache
            def on_host() -> Evaluation:
                with device.failures_told():
                    near = points.loss.is_fully_addressable
                    return jax.device_get(points if near else self.gather(points))

            return on_host, np.asarray(ends)

    def start(self, fresh: list[tuple[int, StepRequest]]) -> None:
        """Start fits in their slots, some at a time: each number of them is a program."""
        while fresh:
            size = 1
            while size < min(len(fresh), len(self.held)):
                size = min(size * TOGETHER, len(self.held))
            some, fresh = fresh[:size], fresh[size:]
            some += some[-1:] * (size - len(some))
            places = np.array([slot for slot, _ in some], np.int32)
            own = stacked([request.problem.own() for _, request in some])
            starts = np.stack([request.start for _, request in some])
            self.slots = self.admit(self.shared, self.solver, self.slots, places, own, starts)

    def tell(self, slot: int, result: StepResult) -> None:
        """Resume a fit with its result; it frees its slot if it ended or needs another program."""
        fit = self.held[slot]
        assert fit is not None
        following = self.queue.advanced(fit.number, fit.steps, result)
        if following and isinstance(following.request, CertificateRequest):
            self.ended.append(following)
            following = None
        if following and following.request.start is not None and following.kind() != self.kind:
            self.queue.wait(following)
            following = None
        self.held[slot] = following

    def certify(self, fits: list[_Fit[T]], together: int) -> None:
        """Evaluate the final points of fits that ended, together if that is worth a compiled program."""
        requests = [fit.request for fit in fits]
        if self.queue.size * sum(request.cells for request in requests[:1]) > loop.HOST_CELLS:
            found = evaluate_rows(requests, together)
        else:
            found = [loop.evaluate(request) for request in requests]
        for fit, result in zip(fits, found, strict=True):
            following = self.queue.advanced(fit.number, fit.steps, result)
            if following:
                self.queue.wait(following)


def _row(points: Callable[[], Evaluation], slot: int) -> Evaluation:
    return points().row(slot)


def _empty(request: StepRequest, count: int, mesh: Mesh | None) -> BatchState:
    """Return empty slots: a loss of zeros, whose results are not read."""
    problem = request.problem
    state = jax.eval_shape(_first, problem, request.solver, request.start)
    loss, equalities, curvature, prior = problem.own()
    row = BatchState((loss, equalities, curvature.astype(request.dtype), prior), state)
    slots = jax.tree.map(lambda x: np.zeros((count, *np.shape(x)), x.dtype), row)
    loss, equalities, *rest = slots.own
    slots = BatchState((loss, equalities, *jax.tree.map(lambda x: x + 1, rest)), slots.state)
    return jax.device_put(slots, None if mesh is None else row_sharding(mesh))


def evaluate_rows(requests: list[CertificateRequest], count: int) -> list[Certified]:
    """Evaluate points of one structure in one compiled program, and read all results at once.

    Args:
        requests: at most `count` of them.
        count: number of points that the program is compiled for.
    """
    padded = [*requests, *requests[-1:] * (count - len(requests))]
    with device.failures_told(), precision("float64"):
        shared = requests[0].problem.shared()
        rows = stacked([request.problem.own() for request in padded])
        potentials = np.stack([request.potentials for request in padded])
        points, gaps = jax.device_get(_rows_on_device(shared, rows, potentials))
        inexact = points.error_bound > negligible(points)
        if inexact.any():
            exact = jax.device_get(_rows_on_device(shared.exact(), rows, potentials))
            points, gaps = _chosen(inexact, exact, (points, gaps))
    return [(points.row(number), float(gaps[number])) for number in range(len(requests))]


def _chosen(inexact: np.ndarray, exact: Any, found: Any) -> Any:
    """Return the exact results of the rows in doubt, and the others as found."""
    return jax.tree.map(lambda a, b: np.where(inexact.reshape(-1, *(1,) * (a.ndim - 1)), a, b), exact, found)


def stacked(rows: Sequence[Any]) -> Any:
    """Return pytrees of one structure as one whose leaves have a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def _each_certified(shared: Objective, rows: Any, potentials: Vector) -> tuple[Evaluation, jax.Array]:
    return jax.vmap(lambda own, start: certified(shared.with_own(own), start))(rows, potentials)


_rows_on_device = jit(_each_certified)
