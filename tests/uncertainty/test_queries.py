"""Queries as rows."""

import numpy as np

import pgmjax as pj
from pgmjax.queries import DenseMatrix, kronecker, marginal, prefix
from pgmjax.uncertainty.queries import queries_of, row_tables


def test_rows_are_those_of_the_matrix():
    domain = pj.Domain({"a": 2, "b": 3})
    queries = [
        kronecker({"b": prefix()}),
        marginal(("b", "a")),
        DenseMatrix(("a", "b"), np.arange(12.0).reshape(2, 6)),
    ]
    rows = list(row_tables(domain, queries))
    wanted = [(query.clique, row) for query in queries for row in query.matrix(domain)]
    assert len(rows) == len(wanted)
    for (clique, table), (other, row) in zip(rows, wanted, strict=True):
        assert clique == other and table.shape == domain.shape_of(clique) and (table.ravel() == row).all()


def test_names_stand_for_a_marginal():
    assert queries_of(pj.Domain({"a": 2, "b": 3}), [("a", "b")]) == (marginal(("a", "b")),)
