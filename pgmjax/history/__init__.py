"""Learning from a history of noisy answers, after the budget that bought them is spent.

`History` holds linear queries with their noisy answers; `Rows` are the queries in factored form,
`kernel` their inner products under a `ProductPrior`. Everything here is post-processing of released
numbers.
"""

from pgmjax.history.answers import Answers
from pgmjax.history.history import History
from pgmjax.history.kernel import kernel, kernel_blocks
from pgmjax.history.kernel_pca import KernelPCA
from pgmjax.history.max_entropy import MaxEntropy, MaxEntropyFit
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows

__all__ = [
    "Answers",
    "History",
    "KernelPCA",
    "MaxEntropy",
    "MaxEntropyFit",
    "ProductPrior",
    "Rows",
    "kernel",
    "kernel_blocks",
]
