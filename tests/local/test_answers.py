"""What answers say of their error, and when they are refused."""

import math

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.privacy import RandomizedResponse
from pgmjax.privacy.response import response_for


def histograms(size, rows, epsilon=1):
    return co.group_histograms(co.PerturbedCodes(response_for(size, epsilon), np.arange(rows) % size))


def test_times_gives_counts():
    answers = histograms(4, 1000).answer(np.eye(4))
    counts = answers.times(1000)
    assert counts.value == pytest.approx(answers.value * 1000)
    assert counts.stddev == pytest.approx(answers.stddev * 1000)
    assert counts.worst_stddev == pytest.approx(answers.worst_stddev * 1000)
    assert counts.half_width(0.95) == pytest.approx(answers.half_width(0.95) * 1000)
    assert counts.high == pytest.approx(np.full(4, 1000.0))
    assert np.array_equal(counts.exact, answers.exact)


def test_concatenated_keeps_order():
    seen, functions = histograms(4, 1000), np.eye(4)
    joined = co.Answers.concatenated([seen.answer(functions[:1]), seen.answer(functions[1:])])
    assert np.array_equal(joined.value, seen.answer(functions).value)
    assert len(joined) == 4 and repr(joined) == "Answers(4 queries, 0 of exact variance)"


def test_clipped_values_lie_in_the_range():
    law = RandomizedResponse(4, 0.7)
    answers = co.group_histograms(co.PerturbedCodes(law, [0] * 4)).answer(np.eye(4), useless="answer")
    assert answers.value.min() < 0 and answers.value.max() > 1
    assert answers.clipped().tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_universe_too_large_for_the_table_is_refused():
    """At 48,842 rows and epsilon 1 half of 1,024 categories: deviation 1.35 of a range of 1."""
    half = (np.arange(1024) < 512).astype(float)[None]
    seen = histograms(1024, 48842)
    with pytest.raises(co.UselessAnswerError, match=r"1 of 1 answers .* 1\.35 times the range"):
        seen.answer(half)
    answers = seen.answer(half, useless="answer")
    assert answers.useless.tolist() == [True]
    assert answers.worst_stddev == pytest.approx([1.35], rel=1e-3)
    assert not histograms(8, 48842).answer(np.eye(8)).useless.any()


def test_a_single_cell_of_a_large_universe_is_answered():
    """Its variance is far below the paper's bound, which would refuse it."""
    answers = histograms(1024, 48842).answer(np.eye(1024)[:3])
    assert answers.worst_stddev.max() < 0.15 and np.sqrt(answers.variance_bound).min() > 1.3


def test_the_middle_is_a_better_guess_exactly_from_one_half_on():
    channel = co.Channel.at(2, 1.0)
    least = math.ceil(4 * channel.largest_variance())
    assert not histograms(2, least).answer([[0, 1]]).useless.any()
    with pytest.raises(co.UselessAnswerError):
        histograms(2, least - 1).answer([[0, 1]])


def test_constants_are_never_useless():
    answers = histograms(2**10, 3).answer(np.full((1, 2**10), 0.1))
    assert answers.value == pytest.approx([0.1], rel=1e-9)
    assert answers.worst_variance[0] == 0 and answers.variance[0] == 0 and answers.exact[0]


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match="useless must be one of"):
        histograms(4, 100).answer(np.eye(4), useless="maybe")
    with pytest.raises(ValueError, match="level must be < 1"):
        histograms(4, 1000).answer(np.eye(4)).half_width(1.0)
    with pytest.raises(ValueError, match="factor must be > 0"):
        histograms(4, 1000).answer(np.eye(4)).times(0)
