"""Operations on log-space tables: the semirings that inference runs on, and their executors."""

from pgmjax.ops.tables import (
    Reduce,
    Table,
    align,
    contract,
    host_logsumexp,
    host_max,
    logmax,
    logsumexp,
    lowest,
    project,
    recentred,
)

__all__ = [
    "Reduce",
    "Table",
    "align",
    "contract",
    "host_logsumexp",
    "host_max",
    "logmax",
    "logsumexp",
    "lowest",
    "project",
    "recentred",
]
