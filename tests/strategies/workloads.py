"""The workloads of one attribute that HDMM's papers compare strategies on, and errors by dense matrices."""

import functools

import numpy as np

from pgmjax.queries import all_ranges, prefix, ranges
from pgmjax.strategies.grams import block_gram
from pgmjax.strategies.strategy import column_norm

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


def expected_error(gram, strategy, norm="l1"):
    """The total expected squared error of a strategy [rows, size] that answers a workload, in units."""
    inner = np.asarray(strategy, float).T @ np.asarray(strategy, float)
    return column_norm(strategy, norm) ** 2 * np.vdot(gram, np.linalg.pinv(inner, hermitian=True))


def svd_bound(gram):
    """A lower bound for any strategy with Gaussian noise, so with Laplace noise too (Li and Miklau 2013)."""
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum() ** 2 / len(gram)


def root_mean_square(error, queries):
    """The root mean squared error of one query, from the total squared error of all."""
    return np.sqrt(error / queries)


def dense(terms, clique, domain):
    """A factored Gram matrix over the joint cells of a small clique."""
    result = np.zeros((domain.size(clique),) * 2)
    for term in terms:
        result += term.coefficient * functools.reduce(np.kron, [term.factor(n, domain[n]) for n in clique])
    return (result + result.T) / 2
