"""Ways to answer test queries under a budget, all with the signature of `answers`.

| method | what is measured | known beforehand |
|---|---|---|
| laplace | the test queries themselves | test queries |
| matrix | OPT_0's strategy for the test queries (p-Identity), least squares | test queries |
| wavelet, hb, identity, tree | that strategy, least squares | nothing |
| pmw:UPDATES:THRESHOLD | on-line multiplicative weights, `pmw.py` | nothing |
| random:M:LEARNER | MLDP: M random ranges (subsets of ten cells), predictions of a learner | nothing |

"hb", "tree" and "identity" are what MLDP(training=...) with the linear learner predicts: they determine
every cell, so that the prediction is the least-squares answer (`mae.py --check` compares). Here the least
squares of a strategy are prepared once and used for all draws of noise. All measuring but that of pmw goes
through `PrivateTable`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import common
import numpy as np
import pmw
import scipy.linalg
from common import CLIQUE, Histogram, histogram, rows, sampled

import pgmjax as pj
from pgmjax.data.relation import Relation
from pgmjax.learning.learners import as_learner
from pgmjax.learning.training_set import training_query
from pgmjax.queries import Query, matrix
from pgmjax.queries.random import distinct_ranges, random_subsets
from pgmjax.strategies import fixed, strategy

FIXED = ("identity", "tree", "hb", "wavelet")
KNOWING = ("laplace", "matrix")


def answers(
    method: str, name: str, test: tuple[int, int], epsilon: str, seeds: tuple[int, ...]
) -> np.ndarray:
    """Answer test queries.

    Args:
        method: of the table above.
        name: of the histogram.
        test: how many test queries, and which draw of them.
        epsilon: all that is spent by one run.
        seeds: of the noise, a run each.

    Returns:
        float64 [seeds, queries].
    """
    private = histogram(name)
    cells = len(private.counts)
    query = sampled(cells, *test)
    if method == "laplace":
        return np.stack([private.measured(query, epsilon, seed) for seed in seeds])
    if method == "matrix":
        return _matrix(private, test, epsilon, seeds)
    if method in FIXED:
        return _cells(method, name, epsilon, seeds) @ rows(query, cells).T
    kind, *settings = method.split(":")
    if kind == "pmw":
        made = pmw.PMW(int(settings[0]), float(settings[1]))
        weights = rows(query, cells)
        return np.stack([made.answer(private.counts, weights, float(epsilon), seed) for seed in seeds])
    return _learned(name, int(settings[0]), test[1], settings[1], epsilon, seeds)(rows(query, cells))


@functools.lru_cache(maxsize=4)
def _strategy(method: str, cells: int) -> tuple[Query, Callable[[np.ndarray], np.ndarray]]:
    """Return a strategy and its least squares, from answers [rows, runs] to cells [cells, runs]."""
    domain = pj.Domain({"cell": cells})
    if method == "wavelet":
        query: Query = pj.queries.Product({"cell": matrix(fixed.wavelet(cells).astype(np.int64))})
    else:
        query = training_query(method, CLIQUE, domain)
    weights = rows(query, cells)
    if weights.shape == (cells, cells) and np.array_equal(weights, np.eye(cells)):
        return query, lambda values: values
    return query, _least_squares(weights)


def _least_squares(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    factor = scipy.linalg.cho_factor(weights.T @ weights, check_finite=False)
    return lambda values: scipy.linalg.cho_solve(factor, weights.T @ values)


@functools.lru_cache(maxsize=128)
def _cells(method: str, name: str, epsilon: str, seeds: tuple[int, ...]) -> np.ndarray:
    """Return the estimated cells [seeds, cells]."""
    private = histogram(name)
    query, solve = _strategy(method, len(private.counts))
    values = np.stack([private.measured(query, epsilon, seed) for seed in seeds])
    return solve(values.T).T


def _matrix(private: Histogram, test: tuple[int, int], epsilon: str, seeds: Sequence[int]) -> np.ndarray:
    """Measure OPT_0's strategy on the cells that the test queries tell apart."""
    merged, weights, query, solve = _optimised(len(private.counts), *test)
    counts = np.bincount(merged, private.counts).astype(np.int64)
    grouped = _grouped(private.name, counts.tobytes())
    values = np.stack([grouped.measured(query, epsilon, seed) for seed in seeds])
    return solve(values.T).T @ weights.T


@functools.lru_cache(maxsize=2)
def _grouped(name: str, counts: bytes) -> Histogram:
    return Histogram(name, np.frombuffer(counts, np.int64))


@functools.lru_cache(maxsize=16)
def _optimised(cells: int, number: int, draw: int) -> tuple:
    """Return which merged cell each cell is in, the test queries on merged cells, a strategy, its solver."""
    asked = rows(sampled(cells, number, draw), cells)
    columns, merged = np.unique(asked.T, axis=0, return_inverse=True)
    weights = columns.T
    domain = pj.Domain({"cell": len(columns)})
    query = pj.queries.DenseMatrix(CLIQUE, weights.astype(np.int64))
    made = strategy("kron", pj.Workload([query]), domain, "l1", Relation.ADD_REMOVE, restarts=1)
    (chosen,) = made.queries
    return merged.reshape(-1), weights, chosen, _least_squares(rows(chosen, len(columns)))


@functools.lru_cache(maxsize=16)
def _learned(
    name: str, count: int, draw: int, learner: str, epsilon: str, seeds: tuple[int, ...]
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the predictions [seeds, queries] of a learner trained on random queries."""
    private = histogram(name)
    cells = len(private.counts)
    query = (distinct_ranges if cells > 10 else random_subsets)(private.domain, CLIQUE, count, draw)
    values = np.stack([private.measured(query, epsilon, seed) for seed in seeds])
    encodings = rows(query, cells)
    if learner in ("linear", "ridge"):
        return as_learner(learner).fit(encodings, values).predict
    if learner == "gaussian-basis":
        fitted = as_learner(learner).fit(_corners(encodings), values)
        return lambda asked: fitted.predict(_corners(asked))
    return _scikit(learner, encodings, values, seeds)


def _scikit(
    learner: str, encodings: np.ndarray, values: np.ndarray, seeds: Sequence[int]
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the predictions of a scikit-learn regressor on the corners of ranges, answers standardised."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    make = {
        "svr": lambda seed: SVR(C=10.0),
        "network": lambda seed: MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=300, random_state=seed),
        "bagging": lambda seed: BaggingRegressor(n_estimators=50, random_state=seed),
        "boosting": lambda seed: GradientBoostingRegressor(random_state=seed),
    }[learner]
    inputs = _corners(encodings)
    fitted = [
        TransformedTargetRegressor(make(seed), transformer=StandardScaler()).fit(inputs, row)
        for seed, row in zip(seeds, values, strict=True)
    ]
    return lambda asked: np.stack([each.predict(_corners(asked)) for each in fitted])


def _corners(ranges: np.ndarray) -> np.ndarray:
    """Return both ends of ranges as fractions [queries, 2]; of ten cells the weights themselves."""
    cells = ranges.shape[1]
    if cells <= 10:
        return ranges
    return np.stack([ranges.argmax(axis=1), cells - ranges[:, ::-1].argmax(axis=1)], axis=1) / cells


assert common  # its import puts bench/ on the path
