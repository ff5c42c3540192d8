"""Operations on log-space tables: the semirings that inference runs on, and their executors.

- `tables`: reductions of tables, and the executor of a contraction path.
- `log_matmul_exp`: the matrix product in log space; `exact_product` and `fast_product` are forms of it.
- `sweep`: the forward pass of a contraction, and the backward pass for all marginals.
"""

from pgmjax.inference.ops.fast_product import fast_backward, fast_forward
from pgmjax.inference.ops.log_matmul_exp import choose_form, log_matmul_exp
from pgmjax.inference.ops.tables import (
    Reduce,
    Table,
    align,
    contract,
    host_logsumexp,
    host_max,
    host_product,
    logmax,
    logsumexp,
    lowest,
    project,
    recentred,
    reduced_sum,
)

__all__ = [
    "Reduce",
    "Table",
    "align",
    "choose_form",
    "contract",
    "fast_backward",
    "fast_forward",
    "host_logsumexp",
    "host_max",
    "host_product",
    "log_matmul_exp",
    "logmax",
    "logsumexp",
    "lowest",
    "project",
    "recentred",
    "reduced_sum",
]
