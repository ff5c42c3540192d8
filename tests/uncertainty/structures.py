"""Small structures with dense matrices beside them."""

import itertools

import numpy as np

import pgmjax as pj
from pgmjax.queries import kronecker, marginal, prefix
from pgmjax.uncertainty.linear import BestLinear

DOMAIN = pj.Domain({"a": 3, "b": 2, "c": 4, "d": 2})
QUERIES = [
    marginal(("a",)),
    marginal(("a", "b")),
    kronecker({"c": prefix()}),
    marginal(("a", "c")),
    marginal(("d",)),
    marginal(("c", "b")),
]
CELLS = np.array(list(itertools.product(*map(range, DOMAIN.shape))))


def measurements(seed=0):
    """Noisy answers: a marginal out of order, one with a deviation a row, a product."""
    generator = np.random.default_rng(seed)
    model = pj.GraphicalModel.from_potentials(
        DOMAIN, {("a", "b"): generator.normal(size=(3, 2)), ("b", "c"): generator.normal(size=(2, 4))}, 2000
    )
    asked = [
        (marginal(("b", "a")), 3.0),
        (marginal(("b", "c")), generator.uniform(1, 4, 8)),
        (kronecker({"c": prefix()}), 2.0),
    ]
    found = []
    for query, stddev in asked:
        answer = np.ravel(model.answer(query))
        noisy = answer + stddev * generator.normal(size=answer.size)
        found.append(pj.LinearMeasurement(query.clique, noisy, stddev, query))
    return found


def dense(query):
    """A query's matrix over all cells of the domain [rows, cells]."""
    places = [DOMAIN.attributes.index(name) for name in query.clique]
    cell = np.ravel_multi_index(CELLS[:, places].T, DOMAIN.shape_of(query.clique))
    return query.matrix(DOMAIN)[:, cell].astype(float)


def system(noisy):
    """The measurements over their deviations: matrix [values, cells] and values."""
    deviations = np.concatenate([m.row_stddevs() for m in noisy])
    matrix = np.concatenate([dense(m.query) for m in noisy]) / deviations[:, None]
    return matrix, np.concatenate([m.flat_values() for m in noisy]) / deviations


def asked():
    """All rows of the queries over the cells of the domain [answers, cells]."""
    return np.concatenate([dense(query) for query in QUERIES])


def least_squares(domain, measured, queries, total=None, zeros=(), fixed=()):
    """The best linear unbiased estimates of the answers to some queries."""
    cliques = [query.clique for query in queries]
    return BestLinear(domain, measured, total, zeros, fixed, cliques).answers(queries)
