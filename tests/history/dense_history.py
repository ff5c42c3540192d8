"""A small history with all its matrices written out: 25 answers of rank 20 on 120 cells, unequal noise."""

import numpy as np

from pgmjax.history import History, ProductPrior
from pgmjax.history.rows import Rows
from pgmjax.queries import DenseMatrix, Product, WeightedSum, marginal, range, subset, total
from tests.history.dense import DOMAIN

PRIOR = ProductPrior(
    DOMAIN, {"a": [0.5, 0.3, 0.2], "b": [0.1, 0.2, 0.3, 0.4], "c": [0.7, 0.3], "d": [0.4, 0.3, 0.1, 0.1, 0.1]}
)
PRIORS = {"uniform": None, "product": PRIOR}
RNG = np.random.default_rng(0)
X = RNG.integers(0, 40, DOMAIN.size()).astype(float)
QUERIES = [
    marginal(["a"]),
    marginal(["b", "c"]),
    Product({"d": range(1, 3)}),
    Product({"a": subset([0, 2]), "d": range(2, 4)}),
    DenseMatrix(("c", "d"), RNG.integers(-2, 3, (4, 10)).astype(float)),
    WeightedSum(
        [(2.0, Product({"a": range(0, 1), "b": total()})), (-1.0, Product({"a": total(), "b": range(1, 3)}))]
    ),
    marginal(["d"]),
    marginal(["c"]),
]
Q = Rows.of(QUERIES, DOMAIN).matrix()
SCALES = RNG.uniform(1, 6, len(Q))
ROOT = RNG.standard_normal((len(Q), len(Q))) + 4 * np.eye(len(Q))
COVARIANCE = ROOT @ ROOT.T
VALUES = Q @ X + SCALES * RNG.standard_normal(len(Q))
HISTORIES = {
    "independent": History.from_answers(DOMAIN, QUERIES, VALUES, stddev=SCALES),
    "correlated": History.from_answers(DOMAIN, QUERIES, VALUES, covariance=COVARIANCE),
}
NEW = [marginal(["a", "c"]), Product({"b": subset([0, 3]), "d": range(0, 2)})]


def sigma(history):
    """The covariance of the noise, dense."""
    return history.full_covariance()


def weights_of(prior):
    """The prior's probability of every cell [cells]."""
    prior = ProductPrior.uniform(DOMAIN) if prior is None else prior
    result = np.ones(1)
    for probabilities in prior.probabilities:
        result = np.multiply.outer(result, probabilities).reshape(-1)
    return result


def explicit(history, prior, alpha):
    """The answer to every cell, (Q^T Sigma^-1 Q + diag(1 / p0) / alpha^2)^-1 Q^T Sigma^-1, cells x rows.

    As one least squares problem with the penalty as further rows, which squares no condition number.
    """
    back = np.linalg.inv(np.linalg.cholesky(sigma(history)))
    longer = np.vstack([back @ Q, np.diag(1 / np.sqrt(weights_of(prior))) / alpha])
    right = np.vstack([back, np.zeros((Q.shape[1], len(Q)))])
    return np.linalg.lstsq(longer, right, rcond=None)[0]
