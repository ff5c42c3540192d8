"""Many fits in one program: rows in error bound, rows that ask for fewer steps, and what a fit asks for."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal.device import DeviceError
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.solvers import batch, loop
from pgmjax.estimation.solvers.loop import run_single, solve_steps
from pgmjax.estimation.solvers.objective import Objective
from pgmjax.estimation.solvers.stopping import StoppingRule
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.plan.structure import Structure

DOMAIN = pj.Domain({"a": 3, "b": 4})


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["path", "fast"])
@dataclasses.dataclass(frozen=True)
class Doubtful(Contraction):
    """An oracle that doubts itself where one cell has more than half of all probability."""

    def infer_flat_with_error(self, potentials):
        log_partition, marginals, error_bound = Contraction(self.path).infer_flat_with_error(potentials)
        inaccurate = self.fast & (jnp.max(marginals) > 0.5)
        return log_partition, marginals, jnp.where(inaccurate, 1.0, error_bound)


def problem(heaviest, stddev=1.0):
    """A fit whose solution has so much probability on one cell."""
    values = np.full((3, 4), 1000 * (1 - heaviest) / 11)
    values[1, 2] = 1000 * heaviest
    loss = losses.build("l2", DOMAIN, [pj.LinearMeasurement(("a", "b"), values, stddev)], 1000.0)
    oracle = Doubtful(Contraction.build(Structure((3, 4), ((0, 1),))).path, fast=True)
    return Objective.build(oracle, loss, np.asarray(loss.lipschitz()))


def steps_of(heaviest, max_steps=200, block=20):
    """A fit that runs all its steps."""
    start = np.zeros(12, np.float32)
    stop = StoppingRule(tol=-1, max_steps=max_steps)
    return solve_steps(problem(heaviest), solvers.build("accelerated"), start, stop=stop, block=block)


def test_only_rows_in_question_go_on_in_exact_form():
    kinds = []
    heaviest = [0.2, 0.9, 0.3, 0.8]
    queue = batch.Queue(watched(steps_of(h), kinds) for h in heaviest)
    batch.run_batch(queue, 4)
    for number, h in enumerate(heaviest):
        expected, found = run_single(steps_of(h)), queue.results[number]
        assert (found.status, found.steps) == (expected.status, expected.steps)
        np.testing.assert_allclose(found.point.marginals, expected.point.marginals, atol=1e-6)
        np.testing.assert_allclose(found.point.marginals.max(), h, atol=1e-3)
    assert sorted(kinds) == [False, False, True, True, True, True]


def watched(inner, kinds):
    """A fit that notes for every start whether its oracle was fast."""
    result = None
    while True:
        try:
            request = next(inner) if result is None else inner.send(result)
        except StopIteration as end:
            return end.value
        if request.start is not None:
            kinds.append(request.problem.oracle.fast)
        result = yield request


def test_rows_that_ask_for_fewer_steps_end_as_alone():
    """Limits that are no multiple of the block: the short last blocks keep the others waiting, unchanged."""
    limits = [30, 75, 100, 41, 60]
    queue = batch.Queue(steps_of(0.1 + 0.05 * i, limit) for i, limit in enumerate(limits))
    batch.run_batch(queue, 2)
    for i, limit in enumerate(limits):
        expected, found = run_single(steps_of(0.1 + 0.05 * i, limit)), queue.results[i]
        assert found.steps == expected.steps == limit
        np.testing.assert_allclose(found.point.potentials, expected.point.potentials, atol=1e-4)


def test_a_row_that_has_ended_no_longer_changes():
    """The slot of an ended row keeps its state while the other goes on."""
    queue = batch.Queue([steps_of(0.3, 20), steps_of(0.4, 100)])
    program = batch._Program(queue, queue.next_of(), 2, None)
    states, turn = [], program.turn

    def watched_turn(active, steps):
        found = turn(active, steps)
        states.append(np.asarray(program.slots.state.candidate))
        return found

    program.turn = watched_turn
    program.run()
    assert len(states) == 5
    for later in states[1:]:
        np.testing.assert_array_equal(later[0], states[0][0])
    assert queue.results[0].steps == 20 and queue.results[1].steps == 100


def test_blocks_whose_length_is_compiled_in_give_the_same(monkeypatch):
    """As off a CPU, where the host must not decide on every step: alone and side by side."""
    limits = [30, 70]
    expected = [run_single(steps_of(0.3 + 0.2 * i, limit)) for i, limit in enumerate(limits)]
    monkeypatch.setattr(loop.device, "is_cpu", lambda: False)
    assert loop.block_steps(20) == loop.StaticSteps(20)
    queue = batch.Queue(steps_of(0.3 + 0.2 * i, limit) for i, limit in enumerate(limits))
    batch.run_batch(queue, 2)
    for i, limit in enumerate(limits):
        for found in (run_single(steps_of(0.3 + 0.2 * i, limit)), queue.results[i]):
            assert found.steps == limit
            np.testing.assert_allclose(found.point.potentials, expected[i].point.potentials, atol=1e-5)


def test_a_device_that_runs_out_of_memory_under_a_batch_says_what_to_do(monkeypatch):
    def failing(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    programs = batch._programs(None)
    monkeypatch.setattr(batch, "_programs", lambda mesh: (failing, *programs[1:]))
    rows = [[pj.LinearMeasurement(("a", "b"), np.full((3, 4), 5.0 + row), 1.0)] for row in range(2)]
    with pytest.raises(DeviceError, match=r"ran out of memory .* fewer rows"):
        pj.Estimator().fit_batch(DOMAIN, rows)
