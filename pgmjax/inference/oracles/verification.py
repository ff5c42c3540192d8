"""A check of an oracle of one's own: that of what every fit and its certificate assume."""

from __future__ import annotations

import jax
import numpy as np

from pgmjax import random
from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax.inference.oracles.base import Oracle, require_registered
from pgmjax.inference.oracles.message_passing import MessagePassing
from pgmjax.inference.plan.structure import Structure

_STRUCTURES = {
    "a chain": ((2, 3, 2), ((0, 1), (1, 2))),
    "a loop": ((2, 3, 2, 2), ((0, 1), (1, 2), (2, 3), (3, 0))),
    "cliques within a clique, and a variable apart": ((3, 2, 2, 4), ((1, 0), (0,), (0, 1, 2), (3,))),
}
"""Sizes of the variables, and cliques, whose order and axes are as they come."""
_CLOSE = 1e-9


def verify(oracle: type[Oracle]) -> None:
    """Check that an oracle gives log-partitions, marginals and maxima, compiled and in float64.

    They are compared with `MessagePassing` on small structures and random potentials, with impossible cells
    and without. A fit with a wrong oracle ends with a wrong certificate.

    Args:
        oracle: a class of oracles with `build`.

    Raises:
        TypeError: it is no class of oracles, or none that JAX can compile.
        ValueError: something differs; the message says what, and on which structure.

    Example:
        >>> verify(MessagePassing)
    """
    if not (isinstance(oracle, type) and issubclass(oracle, Oracle)):
        came = getattr(oracle, "__name__", type(oracle).__name__)
        raise TypeError(
            f"oracle must be a class of pgmjax.oracles.Oracle, such as MessagePassing, got {came}."
        )
    require_registered(oracle.build(Structure(*_STRUCTURES["a chain"])))
    rng = random.generator(0)
    for name, parts in _STRUCTURES.items():
        structure = Structure(*parts)
        own, right = oracle.build(structure), MessagePassing.build(structure)
        for zeros in (0.0, 0.3):
            tables = [rng.normal(size=shape) for shape in structure.shapes]
            tables = [np.where(rng.random(t.shape) < zeros, -np.inf, t) for t in tables]
            for t in tables:
                t.flat[0] = 0.0  # one joint state is possible
            where = f"on {name}{', with impossible cells' * (zeros > 0)}"
            with precision("float64"):
                _compare(_answers(own, tuple(tables)), _answers(right, tuple(tables)), where)


@jit
def _answers(
    oracle: Oracle, tables: tuple[jax.Array, ...]
) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
    log_partition, marginals = oracle.infer(tables)
    return log_partition, tuple(marginals), oracle.maximum(tables)


def _compare(found: tuple, wanted: tuple, where: str) -> None:
    if len(found[1]) != len(wanted[1]):
        raise ValueError(
            f"infer gives {len(found[1])} marginals {where}, and there are {len(wanted[1])} cliques."
        )
    pairs = [("the log-partition", found[0], wanted[0]), ("the maximum", found[2], wanted[2])]
    pairs += [
        (f"the marginal of clique {k}", *both) for k, both in enumerate(zip(found[1], wanted[1], strict=True))
    ]
    for said, one, right in pairs:
        if np.shape(one) != np.shape(right):
            raise ValueError(f"{said} {where} has shape {np.shape(one)}, and should have {np.shape(right)}.")
        off = float(np.max(np.abs(np.asarray(one) - np.asarray(right)), initial=0.0))
        if not off <= _CLOSE:
            raise ValueError(f"{said} {where} is off by {off:.3g} in float64.")
