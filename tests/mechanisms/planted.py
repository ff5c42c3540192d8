"""A table whose dependence no pair of attributes shows, and workloads over it."""

import numpy as np

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 2, "b": 2, "c": 2, "d": 3, "e": 3})


def planted(rows=4000):
    """c is a xor b: no pair shows it, only the triple does."""
    rng = np.random.default_rng(7)
    columns = {name: rng.integers(0, size, rows) for name, size in DOMAIN.sizes.items()}
    columns["c"] = columns["a"] ^ columns["b"]
    return columns


COLUMNS = planted()
DATA = Dataset.from_columns(DOMAIN, COLUMNS)
WORKLOAD = Workload([["c", "d", "e"], {"clique": ["a", "b", "c"], "queries": {"a": "prefix"}}])
PAIR = Workload([["a", "b"], {"clique": ["c"], "queries": {"c": "prefix"}, "weight": "1/3"}])
