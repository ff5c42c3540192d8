"""Histories of the experiments: random queries about the table, Laplace noise, and a prior bought."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

import numpy as np
import table

import pgmjax as pj
from pgmjax.history import History, ProductPrior
from pgmjax.history.builders import random_ranges, random_tables
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import Query

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
KINDS = {"range": random_ranges, "general": random_tables}


def exact(queries: Sequence[Query], data: pj.Dataset) -> np.ndarray:
    """The true answers [rows], in one scan."""
    cliques = list(dict.fromkeys(query.clique for query in queries))
    tables = dict(zip(cliques, data.marginals(cliques), strict=True))
    return np.concatenate([np.ravel(query.apply(tables[query.clique])) for query in queries]).astype(float)


def noise(scale: float, count: int, seed: int) -> np.ndarray:
    """Discrete Laplace noise [count], the difference of two geometric numbers."""
    draws = np.random.default_rng(seed).geometric(1 - np.exp(-1 / scale), (2, count))
    return (draws[0] - draws[1]).astype(float)


def history(
    queries: Sequence[Query], data: pj.Dataset, scale: float, seed: int
) -> tuple[History, np.ndarray]:
    """Noisy answers to queries about the table, and the true ones."""
    truth = exact(queries, data)
    noisy = truth + noise(scale, len(truth), seed)
    return History.from_answers(table.domain(), queries, noisy, distribution=DiscreteLaplace(scale)), truth


def prior(data: pj.Dataset, epsilon: str = "0.02", seed: int = 0) -> ProductPrior:
    """One-way marginals bought with the paper's 0.02 of budget, under add/remove, as a prior."""
    backend = pj.privacy.SeededBackend(seed, insecure=True)
    budget = pj.privacy.Budget(epsilon)
    private = pj.privacy.PrivateTable(data, pj.Relation.ADD_REMOVE, budget, backend)
    return ProductPrior.bought(private, epsilon=epsilon)[0]


def rmse(answers: np.ndarray, truth: np.ndarray) -> float:
    """Root of the mean squared error (counts)."""
    return float(np.sqrt(np.mean((answers - truth) ** 2)))
