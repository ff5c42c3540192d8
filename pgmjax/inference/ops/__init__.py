"""Operations on log-space tables: how they are combined, and the executors of contraction paths.

- `tables`: tables that are aligned, projected, contracted; several of them in one vector.
- `sweep`: the forward pass of a contraction, and the backward pass for all marginals.
- `host_sweep`: the same in NumPy.

The sums themselves are those of `pgmjax.kernels`.
"""

from pgmjax.inference.ops.tables import (
    Reduce,
    Table,
    align,
    contract,
    project,
    recentred,
    reduced_sum,
)

__all__ = [
    "Reduce",
    "Table",
    "align",
    "contract",
    "project",
    "recentred",
    "reduced_sum",
]
