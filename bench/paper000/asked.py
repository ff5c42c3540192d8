"""Random queries of the paper's two kinds, their true answers, and histories of noisy ones."""

from __future__ import annotations

import dataclasses

import numpy as np
from paper_learner import Ranges

import pgmjax as pj
from pgmjax import queries as q
from pgmjax.history import History
from pgmjax.measurements.noise import DiscreteLaplace


@dataclasses.dataclass(frozen=True)
class Asked:
    """Queries with their true answers.

    Attributes:
        queries: one row each.
        truth: counts [queries].
        ranges: the queries as arrays, where they are ranges.
    """

    queries: list
    truth: np.ndarray
    ranges: Ranges | None = None


def ranges(domain: pj.Domain, pairs: dict, count: int, seed: int) -> Asked:
    """Random ranges over two random attributes.

    Args:
        domain: the attributes.
        pairs: exact counts of all pairs, see `table.pair_counts`.
        count: how many.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    names, sizes = domain.attributes, np.array(domain.shape)
    attributes = np.sort(np.array([rng.choice(len(names), 2, replace=False) for _ in range(count)]), axis=1)
    ends = np.sort(np.floor(rng.random((count, 2, 2)) * sizes[attributes][:, :, None]).astype(int), axis=2)
    queries = [
        q.Product({names[k]: q.range(int(e[0]), int(e[1])) for k, e in zip(pair, both, strict=True)})
        for pair, both in zip(attributes, ends, strict=True)
    ]
    truth = np.array([float(query.apply(pairs[query.clique]).reshape(())) for query in queries])
    return Asked(queries, truth, Ranges(tuple(domain.shape), attributes, ends[:, :, 0], ends[:, :, 1]))


def general(domain: pj.Domain, pairs: dict, count: int, seed: int) -> Asked:
    """Random sets of cells of two random attributes, each cell with probability one half."""
    rng = np.random.default_rng(seed)
    names = domain.attributes
    queries = []
    for _ in range(count):
        clique = tuple(names[k] for k in np.sort(rng.choice(len(names), 2, replace=False)))
        queries.append(q.DenseMatrix(clique, [rng.integers(2, size=domain.size(clique))]))
    truth = np.array([float(query.apply(pairs[query.clique])[0]) for query in queries])
    return Asked(queries, truth)


def history(domain: pj.Domain, asked: Asked, scale: float, seed: int) -> History:
    """Noisy answers: Laplace noise of a scale (counts), rounded to the integers as released."""
    noise = np.random.default_rng(seed).laplace(0, scale, len(asked.truth))
    return noisy(domain, asked, np.round(asked.truth + noise).astype(np.int64), scale)


def noisy(domain: pj.Domain, asked: Asked, values: np.ndarray, scale: float) -> History:
    """Answers that were given to the queries, as they are."""
    return History.from_answers(domain, asked.queries, values, distribution=DiscreteLaplace(scale))


def rmse(answers: np.ndarray, truth: np.ndarray) -> float:
    """Root of the mean squared error (counts)."""
    return float(np.sqrt(np.mean((answers - truth) ** 2)))
