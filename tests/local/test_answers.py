"""What answers say of their error, and when they are refused.

Every way of asking, against all tables and all releases of three rows over four categories.
"""

import itertools
import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import local as co
from pgmjax.privacy.response import KaryResponse, response_for


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


def test_clipped_values_lie_in_the_range():
    distribution = KaryResponse(4, 0.7)
    answers = co.group_histograms(co.PerturbedCodes(distribution, [0] * 4)).answer(
        np.eye(4), useless="answer"
    )
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
    with pytest.raises(ValueError, match=r"useless.*'maybe'"):
        histograms(4, 100).answer(np.eye(4), useless="maybe")
    with pytest.raises(ValueError, match=r"level.*1"):
        histograms(4, 1000).answer(np.eye(4)).half_width(1.0)
    with pytest.raises(ValueError, match=r"factor.*0"):
        histograms(4, 1000).answer(np.eye(4)).times(0)


SIZE, ROWS, QUERIES = 4, 3, 5
LAW = KaryResponse(SIZE, 0.55)
GROUPS = np.array([0, 1, 0])
OUTCOMES = np.array(list(itertools.product(range(SIZE), repeat=ROWS)))
GENERATOR = np.random.default_rng(5)
BY_GROUP = GENERATOR.normal(size=(QUERIES, 2, SIZE))
BY_GROUP[0] = np.array([0, 1, 1, 0])  # of the same variance for every table: S = size / 2
BY_GROUP[1, 0] = 2.5  # a constant on the rows of one group
LIBRARY = GENERATOR.normal(size=(3, SIZE))
CHOSEN = GENERATOR.integers(0, 3, (QUERIES, 2))
BITS = co.Universe(pj.Domain({"a": 2, "b": 2}))
ASKED = [
    pj.queries.Product({"b": pj.queries.point(1)}),
    pj.queries.WeightedSum(
        [
            (2.0, pj.queries.Product({"a": pj.queries.identity()})),
            (-0.5, pj.queries.Product({"a": pj.queries.prefix()})),
        ]
    ),
]


def release(codes):
    return co.PerturbedCodes(LAW, codes)


WAYS = {
    "groups": (
        lambda codes: co.group_histograms(release(codes), GROUPS).answer(BY_GROUP, useless="answer"),
        BY_GROUP[:, GROUPS],
    ),
    "list": (
        lambda codes: co.group_histograms(release(codes), GROUPS).answer(LIBRARY, CHOSEN, useless="answer"),
        LIBRARY[CHOSEN][:, GROUPS],
    ),
    "linear": (
        lambda codes: co.group_histograms(release(codes), GROUPS).answer(BY_GROUP[:, 0], useless="answer"),
        np.repeat(BY_GROUP[:, :1], ROWS, axis=1),
    ),
    "rows": (
        lambda codes: co.answer_rows(release(codes), BY_GROUP[:, GROUPS] * [[1], [2], [3]], useless="answer"),
        BY_GROUP[:, GROUPS] * [[1], [2], [3]],
    ),
    "factored": (
        lambda codes: co.answer_queries(release(codes), BITS, ASKED, useless="answer"),
        np.repeat(np.array([[0, 1, 0, 1], [1.5, 1.5, 0, 0], [-0.5, -0.5, 1.5, 1.5]])[:, None], ROWS, 1),
    ),
}


@pytest.fixture(scope="module", params=WAYS)
def everything(request):
    """Answers to all releases [outcomes, ...], functions [queries, rows, size], P(release | table)."""
    ask, functions = WAYS[request.param]
    answers = [ask(outcome) for outcome in OUTCOMES]
    chance = np.prod(LAW.channel()[OUTCOMES[:, None], OUTCOMES[None]], axis=-1)
    return answers, functions, chance


def truths(functions):
    """True answers [queries, tables]."""
    return np.mean([functions[:, row, OUTCOMES[:, row]] for row in range(ROWS)], axis=0)


def variances(everything):
    """Exact variances [queries, tables]."""
    answers, functions, chance = everything
    values = np.array([answer.value for answer in answers])
    return np.einsum("to,oqt->qt", chance, (values[:, :, None] - truths(functions)) ** 2)


def test_answers_are_unbiased_for_every_table(everything):
    answers, functions, chance = everything
    mean = (chance @ np.array([answer.value for answer in answers])).T
    assert mean == pytest.approx(truths(functions), abs=1e-12)


def test_estimated_variances_are_unbiased(everything):
    answers, _, chance = everything
    mean = (chance @ np.array([answer.variance for answer in answers])).T
    assert mean == pytest.approx(variances(everything), abs=1e-12)


def test_the_worst_variance_is_that_of_the_worst_table(everything):
    expected = variances(everything).max(axis=1)
    for answer in everything[0]:
        assert answer.worst_variance == pytest.approx(expected, rel=1e-10)
        assert np.all(answer.worst_variance <= answer.variance_bound * (1 + 1e-12))


def test_exact_is_said_where_all_tables_have_the_same_variance(everything):
    each = variances(everything)
    same = np.ptp(each, axis=1) < 1e-12
    for answer in everything[0]:
        assert np.array_equal(answer.exact, same)
        assert answer.variance[same] == pytest.approx(each[same, 0], rel=1e-10)


def test_the_range_is_that_of_all_tables(everything):
    expected = truths(everything[1])
    assert everything[0][0].low == pytest.approx(expected.min(axis=1), abs=1e-12)
    assert everything[0][0].high == pytest.approx(expected.max(axis=1), abs=1e-12)


def test_half_widths_hold_for_every_table(everything):
    answers, functions, chance = everything
    for level in (0.5, 0.9):
        wide = np.array([answer.half_width(level) for answer in answers])
        off = np.abs(np.array([answer.value for answer in answers])[:, :, None] - truths(functions))
        covered = np.einsum("to,oqt->qt", chance, off <= wide[:, :, None] + 1e-12)
        assert covered.min() >= level


def test_the_bound_is_the_papers_for_one_function():
    """factor^2 (b - a)^2 / (4 n)."""
    answer = co.group_histograms(release([0, 1, 2])).answer([[0.0, 1.0, 3.0, 2.0]], useless="answer")
    expected = co.Channel.of(LAW).factor ** 2 * 3.0**2 / (4 * ROWS)
    assert answer.variance_bound == pytest.approx([expected])


def test_no_rows_have_no_answer():
    with pytest.raises(ValueError, match="no rows"):
        co.group_histograms(release(np.zeros(0, int))).answer(np.eye(SIZE))
