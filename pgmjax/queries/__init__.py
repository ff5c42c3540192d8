"""Linear queries on a clique, from blocks of one attribute each, and workloads of them.

Blocks: `identity`, `total`, `point`, `subset`, `range`, `ranges`, `all_ranges`, `prefix`, `compression`,
`mean`, `moments`, `matrix`. They combine to `Product` (`marginal` is one of them) and `WeightedSum`;
`DenseMatrix` is any matrix over joint cells. Every query has L1, L2 and L-infinity sensitivities under a
given neighbouring relation. Only integral queries can be measured; `quantise` rounds real entries to
integers.

- `single`, `block`, `blocks`: queries on one attribute. `query`, `product`, `sums`: queries on a clique.
- `columns`, `sensitivity`: exact sensitivities. `integers`: exact answers. `rounding`: `quantise`.
- `spec`, `text`: queries as text or plain data. `workload`: the queries a release must answer. `rows`:
  single rows.
"""

from typing import TYPE_CHECKING, Any

from pgmjax._internal import migration
from pgmjax.data.attribute import Code
from pgmjax.queries.query import Product, Query, kronecker, marginal
from pgmjax.queries.sums import DenseMatrix, WeightedSum

if TYPE_CHECKING:
    from pgmjax.queries.rounding import quantise
    from pgmjax.queries.single import (
        all_ranges,
        compression,
        identity,
        matrix,
        mean,
        moments,
        point,
        prefix,
        range,
        ranges,
        subset,
        total,
    )

__all__ = [
    "Code",
    "DenseMatrix",
    "Product",
    "Query",
    "WeightedSum",
    "all_ranges",
    "compression",
    "identity",
    "kronecker",
    "marginal",
    "matrix",
    "mean",
    "moments",
    "point",
    "prefix",
    "quantise",
    "range",
    "ranges",
    "subset",
    "total",
]


def _later() -> dict[str, Any]:
    """Return what makes queries, which a fit of given ones does without."""
    from pgmjax.queries import single
    from pgmjax.queries.rounding import quantise

    return {**vars(single), "quantise": quantise}


migration.answer(globals(), _later)
