"""Strategies of the matrix mechanism (HDMM): measured queries that minimise a workload's expected error.

A strategy is chosen from the workload alone, before any private data is used: `strategy` makes one by name,
`candidates` makes all of them with their expected errors. `local_least_squares` and `global_least_squares`
answer a workload from noisy answers without a model.

- `choose`: strategies by name, OPT_kron and OPT_+. `strategy`: their types and expected errors. `grams`: Gram
  matrices.
- `attribute`, `fixed`: strategies of one attribute.
- `weighted_marginals`: OPT_M. `optimise`: the numerical search. `least_squares`: answers without a model.
"""

from pgmjax._internal import migration
from pgmjax.strategies.choose import NAMES, SPLITS, answered_alone, candidates, strategy
from pgmjax.strategies.least_squares import check_cells, global_least_squares, local_least_squares
from pgmjax.strategies.strategy import (
    LocalStrategy,
    MarginalStrategy,
    Strategy,
)

__all__ = [
    "NAMES",
    "SPLITS",
    "LocalStrategy",
    "MarginalStrategy",
    "Strategy",
    "answered_alone",
    "candidates",
    "check_cells",
    "global_least_squares",
    "local_least_squares",
    "strategy",
]

migration.answer(globals())
