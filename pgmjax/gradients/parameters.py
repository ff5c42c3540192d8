"""The numbers of a fit that it can be differentiated by, and what is known of where it ended."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class FitParameters:
    """What a fit depends on: a pytree of arrays, also the form of a gradient.

    Attributes:
        values: for each measurement its noisy answers [rows] (counts), flat in the order of its query's rows.
        stddevs: for each measurement one standard deviation, or one a row [rows] (counts), > 0.
        weights: what multiplies the share of each measurement in the loss [measurements], > 0.
        prior: log-potentials of the prior, a table for each of its cliques [sizes] (nats), finite; without
            tables the prior is uniform.
        prior_weight: how many records the prior counts as, >= 0.
        total: number of records (counts), > 0.
    """

    values: tuple[Any, ...]
    stddevs: tuple[Any, ...]
    weights: Any
    prior: tuple[Any, ...]
    prior_weight: Any
    total: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Diagnostics:
    """Where a fit ended, and whether the conditions of the implicit gradient hold there.

    At an interior optimum the objective's derivative is the same at every joint state of the table, since
    moving a record from any state to any other changes nothing to first order. Where the optimum holds
    cells at nothing, or is not reached, it is not.

    Attributes:
        steps: how many were done.
        slope: largest difference of that derivative between two joint states, in units of what one standard
            deviation of residual in the most precise answer contributes; 0 at an interior optimum.
        smallest: least expected count of a cell of the fitted cliques.
        interior: whether `slope` is 0 up to rounding.
    """

    steps: Any
    slope: Any
    smallest: Any
    interior: Any
