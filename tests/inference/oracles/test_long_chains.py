"""Float32 against float64 on a chain: what recentring of messages is for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.oracles.message_passing import MessagePassing
from pgmjax.inference.plan.structure import Structure


def chain(variables):
    return Structure((4,) * variables, tuple((i, i + 1) for i in range(variables - 1)))


def reference(structure, tables):
    """Marginals of a chain by the textbook's two sweeps in float64, messages summing to 1."""
    tables = [np.asarray(t, np.float64) for t in tables]
    forward, backward = [np.zeros(4)], [np.zeros(4)]
    for table in tables[:-1]:
        message = np.logaddexp.reduce(forward[-1][:, None] + table, axis=0)
        forward.append(message - np.logaddexp.reduce(message))
    for table in reversed(tables[1:]):
        message = np.logaddexp.reduce(backward[-1][None, :] + table, axis=1)
        backward.append(message - np.logaddexp.reduce(message))
    for f, table, b in zip(forward, tables, reversed(backward), strict=True):
        belief = f[:, None] + table + b[None, :]
        yield np.exp(belief - np.logaddexp.reduce(belief, axis=None))


@jax.jit
def infer(oracle, tables):
    return oracle.infer(tables)


def error(kind, variables, spread):
    structure = chain(variables)
    rng = np.random.default_rng(0)
    tables = [(spread * rng.normal(size=(4, 4))).astype(np.float32) for _ in structure.cliques]
    marginals = infer(kind.build(structure), [jnp.asarray(t) for t in tables])[1]
    pairs = zip(marginals, reference(structure, tables), strict=True)
    return max(float(np.abs(np.asarray(m, np.float64) - r).max()) for m, r in pairs)


@pytest.mark.parametrize("kind", [MessagePassing, Contraction])
@pytest.mark.parametrize("spread", [1.0, 100.0, 1000.0])
def test_promise_on_100_variables(kind, spread):
    assert error(kind, 100, spread) <= 2e-6 * max(1, spread / 10)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 1000.0])
def test_promise_on_1000_variables(spread):
    assert error(Contraction, 1000, spread) <= 2e-6 * max(1, spread / 10)
