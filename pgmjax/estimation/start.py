"""Where a fit of a mixture starts: random rows, or an earlier mixture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.estimation.mixture_layout import Logits, Places
from pgmjax.estimation.zeros import StructuralZeros
from pgmjax.model.mixture import MixtureModel

LEAST = 16.0
"""Nats below its row's largest at which an earlier model's logits start at the least: they can rise."""


def starts(
    domain: Domain, components: int, restarts: int, seed: int, dtype: str, warm_start: MixtureModel | None
) -> Iterator[Logits]:
    """Give logits to start from, one set a restart: standard Gaussian rows of equal weight.

    Args:
        domain: the attributes.
        components: number of products.
        restarts: how many starts.
        seed: the same seed gives the same starts. Not noise: it protects nothing.
        dtype: of the logits.
        warm_start: what the first start is instead.
    """
    generator = random.generator(seed)
    places = Places.of(domain)
    for number in range(restarts):
        weights = np.zeros(components)
        if number == 0 and warm_start is not None:
            weights = _raised(warm_start.log_weights)
            tables = {
                name: _raised(table) for name, table in zip(domain, warm_start.log_probabilities, strict=True)
            }
        else:
            tables = {name: generator.standard_normal((components, domain[name])) for name in domain}
        rows = places.stacked(tables, 0.0)
        yield weights.astype(dtype), tuple(table.astype(dtype) for table in rows)


def _raised(logs: np.ndarray) -> np.ndarray:
    return np.maximum(logs, logs.max(axis=-1, keepdims=True) - LEAST)


def allowed_values(domain: Domain, constraints: Sequence[StructuralZeros]) -> dict[str, np.ndarray]:
    """Give the possible values of each constrained attribute, booleans [size].

    Raises:
        TypeError: something else than structural zeros.
        ValueError: zeros over several attributes, which a mixture cannot keep, or none possible.
    """
    allowed: dict[str, np.ndarray] = {}
    for zeros in checks.several("constraints", constraints, "StructuralZeros"):
        if not isinstance(zeros, StructuralZeros):
            raise TypeError(f"constraints must be StructuralZeros, got {type(zeros).__name__}.")
        zeros.validate(domain)
        if len(zeros.clique) > 1:
            raise ValueError(
                f"a mixture of products keeps impossible values of single attributes only, got zeros over "
                f"{zeros.clique}: fit a graphical model, join these attributes into one, or leave them out."
            )
        (name,) = zeros.clique
        allowed[name] = zeros.allowed & allowed.get(name, True)
        if not allowed[name].any():
            raise ValueError(f"the constraints are infeasible: together they leave {name!r} no value.")
    return allowed


def model_of(
    domain: Domain, logs: Logits, total: float, cliques: Sequence[Any], allowed: Mapping[str, np.ndarray]
) -> MixtureModel:
    """Make a model of logits on the host, impossible values exactly so."""
    places = Places.of(domain)
    weights, arrays = np.asarray(logs[0], np.float64), [np.asarray(table, np.float64) for table in logs[1]]
    rows = {}
    for name in domain:
        at, row = places.row[name]
        table = arrays[at][row][:, : domain[name]]
        rows[name] = np.where(allowed[name], table, -np.inf) if name in allowed else table
    return MixtureModel.from_logits(domain, weights, rows, total, cliques)
