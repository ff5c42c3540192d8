"""Small joint tables over a, b and c in which most cells are empty, and noisy counts of their marginals."""

import math

import numpy as np

import pgmjax as pj


def sparse_table(shape, total, seed=0):
    """A joint table in which most cells are empty, as counts."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(math.prod(shape), 0.3))
    return rng.multinomial(int(total), shares).reshape(shape).astype(float)


def marginal(joint, clique):
    return joint.sum(axis=tuple(i for i, name in enumerate("abc") if name not in clique))


def measured(joint, cliques, stddev=8.0, seed=1):
    """The marginals of some cliques with Gaussian noise."""
    rng = np.random.default_rng(seed)
    exact = [marginal(joint, clique) for clique in cliques]
    return [
        pj.LinearMeasurement(clique, counts + rng.normal(0, stddev, counts.shape), stddev=stddev)
        for clique, counts in zip(cliques, exact, strict=True)
    ]


def squared_loss(noisy, marginal_of):
    """The l2 loss of measurements of whole marginals, given a function from cliques to counts."""
    return sum(0.5 * np.sum(((marginal_of(m.clique) - m.values) / m.row_stddevs()[0]) ** 2) for m in noisy)
