"""Forecasts refuse with figures, and the figures are of the right size."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import memory
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.solvers import loop
from pgmjax.estimation.solvers.objective import Objective
from pgmjax.inference import oracles
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.oracles.message_passing import MessagePassing
from pgmjax.inference.plan import forecast
from pgmjax.inference.plan.structure import Structure
from tests.solver_names import SOLVERS


def test_refusal_names_figures_and_cliques():
    structure, names = Structure.named(
        {"age": 1000, "zip": 2000, "job": 500}, [("age", "zip"), ("zip", "job"), ("job", "age")]
    )
    with pytest.raises(forecast.ModelTooLargeError) as error:
        oracles.plan(structure, names, "message_passing", max_bytes=10**9)
    text = str(error.value)
    assert "1,000,000,000 cells" in text and "953.7 MiB is available" in text.replace("954 MiB", "953.7 MiB")
    assert all(name in text for name in ("age", "zip", "job"))
    assert "fewer or smaller cliques" in text
    assert isinstance(error.value, ValueError)


def test_readable_bytes():
    assert forecast.readable_bytes(512) == "512 bytes"
    assert forecast.readable_bytes(3 * 2**30) == "3 GiB"


def test_available_memory_is_that_of_this_machine():
    assert 2**20 < memory.available_bytes() < 2**50


@pytest.mark.parametrize("kind", [Contraction, MessagePassing])
def test_forecast_covers_what_xla_allocates(kind):
    """The compiled oracle's own buffers stay under the forecast, and not absurdly far under it."""
    structure = Structure((40, 30, 50, 20, 30), ((0, 1, 2), (2, 3), (3, 4, 0)))
    oracle = kind.build(structure)
    tables = tuple(np.zeros(shape, np.float32) for shape in structure.shapes)
    memory = jax.jit(oracle.infer).lower(tables).compile().memory_analysis()
    used = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert used <= oracle.forecast.peak_bytes(4) <= 4 * used


@pytest.mark.parametrize(
    ("solver", "oracle"),
    list(zip(SOLVERS, itertools.cycle(["contraction", "message_passing"]), strict=False)),
)
def test_forecast_covers_a_solver(solver, oracle):
    """The same for a block of solver steps, on a model that is mostly potentials."""
    domain = pj.Domain({"a": 40, "b": 60, "c": 50, "d": 30})
    measured = [
        pj.LinearMeasurement(c, np.ones(domain.shape_of(c)), 1.0) for c in (("a", "b", "c"), ("c", "d"))
    ]
    bound = losses.build("l2", domain, measured, 100.0, "float32")
    plan = pj.Estimator(solver=solver, oracle=oracle).plan(domain, bound.cliques)
    problem = Objective.build(plan.oracle, bound, np.asarray(1.0))
    method = solvers.build(solver)
    state = method.start(problem, jnp.zeros(plan.oracle.length))
    memory = (
        jax.jit(loop._run_block, donate_argnums=(2,))
        .lower(problem, method, state, jnp.asarray(5))
        .compile()
        .memory_analysis()
    )
    used = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    used -= memory.alias_size_in_bytes
    assert used <= plan.oracle.forecast.peak_bytes(4, plan.copies) <= 3 * used
    assert plan.peak_bytes >= plan.oracle.forecast.peak_bytes(4, plan.copies)
