"""Cuts of perturbed graphs."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.local import graphs
from pgmjax.privacy import SeededBackend
from pgmjax.privacy.response import KaryResponse, response_for

VERTICES = 23
PAIRS = co.VertexPairs(VERTICES)
LAW = KaryResponse(2, 0.2)
CODES = np.random.default_rng(0).integers(0, 2, PAIRS.number)
MATRIX = np.zeros((VERTICES, VERTICES), int)
MATRIX[np.triu_indices(VERTICES, 1)] = CODES
MATRIX += MATRIX.T
PARTS = np.random.default_rng(1).integers(0, 3, (9, VERTICES))


@pytest.mark.parametrize("block", [1 << 22, 60, 23])
def test_cuts_are_those_of_the_matrix(block, monkeypatch):
    monkeypatch.setattr(graphs, "_BLOCK_NUMBERS", block)
    graph = co.PerturbedGraph.of(co.PerturbedCodes(LAW, CODES), VERTICES)
    first, second = PARTS == 0, PARTS == 1
    channel = co.Channel.of(LAW)
    seen = np.einsum("cv,vw,cw->c", first.astype(int), MATRIX, second.astype(int))
    across = first.sum(axis=1) * second.sum(axis=1)
    answers = graph.cuts(first, second)
    assert answers.value == pytest.approx(channel.factor * seen - channel.offset * across, abs=1e-10)
    seen = np.einsum("cv,vw,cw->c", first.astype(int), MATRIX, (~first).astype(int))
    across = first.sum(axis=1) * (~first).sum(axis=1)
    answers = graph.cuts(first.astype(int))
    assert answers.value == pytest.approx(channel.factor * seen - channel.offset * across, abs=1e-10)
    assert np.array_equal(answers.high, across) and answers.exact.all()


def test_a_cut_is_a_statistical_query():
    """The same as row functions x on the pairs across and 0 on others."""
    table = co.PerturbedCodes(LAW, CODES)
    first = PARTS == 0
    one, other = np.triu_indices(VERTICES, 1)
    across = (first[:, one] != first[:, other]).astype(float)
    functions = across[:, :, None] * [0.0, 1.0]
    rowwise = co.answer_rows(table, functions, useless="answer").times(PAIRS.number)
    answers = co.PerturbedGraph.of(table, VERTICES).cuts(first, useless="answer")
    for name in ("value", "variance", "worst_variance", "variance_bound", "low", "high", "largest_step"):
        assert np.allclose(getattr(answers, name), getattr(rowwise, name), rtol=1e-9), name
    assert rowwise.exact.all()


def test_the_variance_is_the_closed_form():
    """|S||T| e^eps / (e^eps - 1)^2 whatever the graph; the bound of the paper lies above."""
    distribution = response_for(2, Fraction(1))
    graph = co.PerturbedGraph.of(co.PerturbedCodes(distribution, CODES), VERTICES)
    half = np.arange(VERTICES) < 11
    answers = graph.cuts(half[None])
    assert answers.variance == pytest.approx([11 * 12 * math.e / (math.e - 1) ** 2], rel=1e-9)
    assert answers.variance < answers.variance_bound


def test_simulated_cuts_have_that_variance():
    """4,000 seeded releases: the mean within 5 and the variance within 6 standard errors."""
    trials, backend = 4000, SeededBackend(2, insecure=True)
    distribution = backend.randomized_response(2, Fraction(1))
    drawn = backend.respond(distribution, np.tile(CODES, trials)).reshape(trials, -1)
    half = (np.arange(VERTICES) < 11)[None]
    values = [
        co.PerturbedGraph.of(co.PerturbedCodes(distribution, c), VERTICES).cuts(half).value[0] for c in drawn
    ]
    truth = MATRIX[:11, 11:].sum()
    variance = 11 * 12 * math.e / (math.e - 1) ** 2
    assert abs(np.mean(values) - truth) < 5 * math.sqrt(variance / trials)
    assert abs(np.var(values) / variance - 1) < 6 * math.sqrt(2 / trials)


def test_a_small_cut_under_much_noise_is_refused():
    graph = co.PerturbedGraph.of(co.PerturbedCodes(KaryResponse(2, 0.49), CODES), VERTICES)
    one = (np.arange(VERTICES) == 0)[None]
    with pytest.raises(co.UselessAnswerError, match="1 of 1 answers"):
        graph.cuts(one)
    assert graph.cuts(one, useless="answer").useless.tolist() == [True]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda g: g.cuts(np.ones((1, 4), int)), "23 vertices"),
        (lambda g: g.cuts(np.full((1, VERTICES), 2)), "1 for the vertices"),
        (lambda g: g.cuts(np.zeros((1, VERTICES))), "whole numbers"),
        (lambda g: g.cuts(PARTS == 0, PARTS < 2), "disjoint"),
        (lambda g: g.cuts(PARTS == 0, PARTS[:2] == 1), "as many sets"),
        (lambda g: co.PerturbedGraph.of(co.PerturbedCodes(LAW, CODES), 24), "276 pairs, got 253 rows"),
        (lambda g: co.PerturbedGraph.of(co.PerturbedCodes(LAW, CODES), 22), "231 pairs, got 253 rows"),
        (
            lambda g: co.PerturbedGraph.of(co.PerturbedCodes(KaryResponse(3, 0.2), CODES), 23),
            "3 categories",
        ),
    ],
)
def test_wrong_arguments_are_refused(make, words):
    graph = co.PerturbedGraph.of(co.PerturbedCodes(LAW, CODES), VERTICES)
    with pytest.raises(ValueError, match=words):
        make(graph)
