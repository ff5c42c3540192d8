"""The workloads of one attribute that HDMM's papers compare strategies on."""

import numpy as np

from pgmjax.queries import all_ranges, prefix, ranges
from pgmjax.strategies.grams import block_gram

KINDS = ("prefix", "range", "width32", "permuted")


def gram_and_queries(kind, size):
    """The Gram matrix of a workload and its number of queries."""
    if kind == "prefix":
        return block_gram(prefix(), size), size
    if kind == "width32":
        windows = ranges([(low, low + 31) for low in range(size - 31)])
        return block_gram(windows, size), size - 31
    gram = block_gram(all_ranges(), size)
    if kind == "permuted":
        order = np.random.RandomState(0).permutation(size)
        gram = gram[np.ix_(order, order)]
    return gram, size * (size + 1) // 2
