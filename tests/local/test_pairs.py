"""Pairs of vertices as rows."""

import numpy as np
import pytest

from pgmjax.local import VertexPairs


@pytest.mark.parametrize("vertices", [2, 3, 7, 50])
def test_numbers_run_along_the_upper_triangle(vertices):
    pairs = VertexPairs(vertices)
    first, second = np.triu_indices(vertices, 1)
    assert pairs.number == len(first)
    assert np.array_equal(pairs.index(first, second), np.arange(pairs.number))
    assert np.array_equal(pairs.index(second, first), np.arange(pairs.number))


def test_codes_are_the_adjacency_matrix():
    generator = np.random.default_rng(0)
    adjacent = np.triu(generator.random((30, 30)) < 0.2, 1)
    edges = np.argwhere(adjacent)
    edges[::2] = edges[::2, ::-1]
    assert np.array_equal(VertexPairs(30).codes(edges), adjacent[np.triu_indices(30, 1)])


def test_the_largest_graph_does_not_overflow():
    pairs = VertexPairs(1 << 16)
    assert pairs.index([(1 << 16) - 2], [(1 << 16) - 1]).tolist() == [pairs.number - 1]


@pytest.mark.parametrize(
    ("edges", "error", "words"),
    [
        ([(0, 4)], ValueError, r"0\.\.3"),
        ([(-1, 2)], ValueError, r"0\.\.3"),
        ([(2, 2)], ValueError, "1 pairs join a vertex with itself"),
        ([(0, 1), (1, 0)], ValueError, "given twice"),
        ([0, 1], ValueError, r"\[edges, 2\]"),
        ([(0.0, 1.0)], TypeError, "integers"),
    ],
)
def test_wrong_edges_are_refused(edges, error, words):
    with pytest.raises(error, match=words):
        VertexPairs(4).codes(edges)


def test_one_vertex_has_no_pairs():
    with pytest.raises(ValueError, match="vertices"):
        VertexPairs(1)
