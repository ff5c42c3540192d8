"""Histograms of groups, and queries with a function a group."""

import time

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.local import codes as responses
from pgmjax.local import statistical as grouped
from pgmjax.local.statistical import GroupHistograms
from pgmjax.privacy import SeededBackend
from pgmjax.privacy.response import KaryResponse, UnaryResponse

LAW = KaryResponse(5, 0.4)
CODES = np.random.default_rng(0).integers(0, 5, 1000)
WHERE = np.random.default_rng(1).integers(0, 7, 1000)


def test_histograms_count_by_group(monkeypatch):
    expected = np.zeros((7, 5), int)
    np.add.at(expected, (WHERE, CODES), 1)
    monkeypatch.setattr(responses, "BLOCK_ROWS", 300)
    table = co.PerturbedCodes(LAW, CODES.astype(np.uint8))
    for groups, number in ((WHERE, None), (WHERE.astype(np.int8), 7), (lambda a, b: WHERE[a:b], 7)):
        seen = co.group_histograms(table, groups, number)
        assert np.array_equal(seen.counts, expected) and seen.groups == 7
        assert np.array_equal(seen.rows, np.bincount(WHERE))
    assert np.array_equal(co.group_histograms(table).counts, expected.sum(axis=0)[None])


def test_blocks_of_queries_change_nothing(monkeypatch):
    seen = co.group_histograms(co.PerturbedCodes(LAW, CODES), WHERE)
    functions = np.random.default_rng(2).random((20, 7, 5))
    whole = seen.answer(functions)
    monkeypatch.setattr(grouped, "_BLOCK_NUMBERS", 80)
    parts = seen.answer(functions)
    assert np.allclose(whole.value, parts.value, rtol=1e-13)
    assert np.allclose(whole.variance, parts.variance, rtol=1e-12)
    assigned = seen.answer(functions[:, 0], np.arange(7)[None] + np.arange(13)[:, None])
    expected = [functions[np.arange(7) + k, 0] for k in range(13)]
    assert np.allclose(assigned.value, seen.answer(np.array(expected)).value, rtol=1e-13)


def test_errors_of_many_releases_have_the_variance_that_is_said():
    """2,000 seeded releases: bias within 5 standard errors, variance within 6 (each about 3.2 %)."""
    rows, trials, size = 400, 2000, 6
    truth = np.random.default_rng(3).integers(0, size, rows)
    where = np.arange(rows) // 100
    functions = np.random.default_rng(4).random((3, 4, size))
    backend = SeededBackend(11, insecure=True)
    distribution = backend.randomized_response(size, 2)
    drawn = backend.respond(distribution, np.tile(truth, trials)).reshape(trials, rows)
    answers = [
        co.group_histograms(co.PerturbedCodes(distribution, codes), where).answer(functions)
        for codes in drawn
    ]
    values = np.array([answer.value for answer in answers])
    exact = functions[:, where, truth].mean(axis=1)
    channel = co.Channel.of(distribution)
    per_row = functions[:, where]
    variance = (
        channel.variance(
            per_row[:, np.arange(rows), truth], per_row.sum(axis=-1), (per_row**2).sum(axis=-1)
        ).sum(axis=1)
        / rows**2
    )
    assert np.all(np.abs(values.mean(axis=0) - exact) < 5 * np.sqrt(variance / trials))
    assert np.all(np.abs(values.var(axis=0) / variance - 1) < 6 * np.sqrt(2 / trials))
    estimates = np.array([answer.variance for answer in answers])
    assert estimates.mean(axis=0) == pytest.approx(variance, rel=0.02)


def test_ten_thousand_queries_over_a_thousand_groups_take_seconds():
    seen = GroupHistograms(LAW, np.full((1000, 5), 1000))
    functions = np.random.default_rng(0).random((200, 1000, 5), dtype=np.float32)
    start = time.process_time()
    answers = seen.answer(functions)
    assert time.process_time() - start < 5  # about 0.05
    expected = np.einsum("kgv,gv->k", functions.astype(float), seen.unbiased()) / seen.counts.sum()
    assert np.allclose(answers.value, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("groups", "number", "error", "words"),
    [
        (WHERE[:10], None, ValueError, "each row"),
        (np.append(WHERE, 0), None, ValueError, "each of the 1,000 rows, got 1,001"),
        (WHERE.astype(float), None, TypeError, "integers"),
        (WHERE, 3, ValueError, r"0\.\.2"),
        (WHERE - 1, 8, ValueError, r"0\.\.7"),
        (lambda a, b: WHERE, None, ValueError, "number must say"),
        (lambda a, b: WHERE[:5], 7, ValueError, "1,000 integers"),
        (WHERE, 2**28, ValueError, "answer_queries"),
    ],
)
def test_wrong_groups_are_refused(groups, number, error, words):
    with pytest.raises(error, match=words):
        co.group_histograms(co.PerturbedCodes(LAW, CODES), groups, number)


@pytest.mark.parametrize(
    ("functions", "assignment", "error", "words"),
    [
        (np.zeros((2, 4)), None, ValueError, r"\[queries, 5\] or \[queries, 7 groups, 5\], got \(2, 4\)"),
        (np.zeros((2, 6, 5)), None, ValueError, "got"),
        (np.zeros((0, 5)), None, ValueError, "got"),
        (np.full((1, 5), np.nan), None, ValueError, "finite"),
        (np.array([["a"] * 5]), None, TypeError, "real numbers"),
        (np.zeros((2, 7, 5)), np.zeros((2, 7), int), ValueError, "shape"),
        (np.zeros((2, 5)), np.zeros((2, 6), int), ValueError, "7 groups"),
        (np.zeros((2, 5)), np.zeros((2, 7)), TypeError, "integers"),
        (np.zeros((2, 5)), np.full((2, 7), 2), ValueError, r"0\.\.1"),
    ],
)
def test_wrong_functions_are_refused(functions, assignment, error, words):
    seen = co.group_histograms(co.PerturbedCodes(LAW, CODES), WHERE)
    with pytest.raises(error, match=words):
        seen.answer(functions, assignment)


def test_counts_of_bits_are_refused():
    seen = GroupHistograms(UnaryResponse(5, 0.2), np.ones((1, 5), int))
    with pytest.raises(TypeError, match=r"KaryResponse.*UnaryResponse"):
        seen.unbiased()
