"""Conditions on perturbed records, against sums over every answer that a record can give."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.local import UselessAnswerError, answer_cells, answer_conditions
from pgmjax.local.table import PerturbedTable, ResponseColumn
from pgmjax.privacy.response import KaryResponse, UnaryResponse

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 3, "d": 2})
GROUPS = (("b", "a"), ("c",))


def distributions(encoding):
    if encoding == "direct":
        return KaryResponse(6, 0.375), KaryResponse(3, 0.25)
    if encoding == "mixed":
        return KaryResponse(6, 0.375), UnaryResponse(3, 0.25)
    return UnaryResponse(6, 0.25), UnaryResponse(3, 0.375, True)


def answers_of(distribution):
    """Every answer as (answer, [its probability for each true category])."""
    size, lie = distribution.size, distribution.lie
    if isinstance(distribution, KaryResponse):
        for answer in range(size):
            yield answer, [1 - lie if truth == answer else lie / (size - 1) for truth in range(size)]
        return
    truth_bit = float(distribution.truth)
    for bits in itertools.product((0, 1), repeat=size):
        ones = [[truth_bit if k == truth else lie for k in range(size)] for truth in range(size)]
        yield (
            bits,
            [float(np.prod([p if bit else 1 - p for p, bit in zip(row, bits, strict=True)])) for row in ones],
        )


def table_of(encoding, rows):
    """A table whose records answered these pairs."""
    columns = []
    for place, (group, distribution) in enumerate(zip(GROUPS, distributions(encoding), strict=True)):
        answers = np.array([row[place] for row in rows], np.uint8)
        name = "direct" if answers.ndim == 1 else "optimal-unary"
        answers = answers if answers.ndim == 1 else np.packbits(answers.astype(bool), axis=1)
        columns.append(ResponseColumn(group, name, distribution, Fraction(3), answers))
    return PerturbedTable(DOMAIN, tuple(columns), len(rows), False, 0)


CONDITIONS = [{"a": [1]}, {"b": [0, 2], "c": [1]}, {"c": [0, 1], "a": [0], "b": [1]}, {"c": [0, 1, 2]}]


@pytest.mark.parametrize("encoding", ["direct", "mixed", "unary"])
@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_means_variances_and_ranges_are_the_exact_ones(encoding, condition):
    first, second = distributions(encoding)
    pairs = list(itertools.product(answers_of(first), answers_of(second)))
    found = [
        answer_conditions(table_of(encoding, [(one[0], two[0])]), [condition], useless="answer")
        for one, two in pairs
    ]
    values = np.array([each.value[0] for each in found])
    estimated = np.array([each.variance[0] for each in found])
    exact = []
    for cell, c in itertools.product(range(6), range(3)):
        b, a = divmod(cell, 2)
        record = {"a": a, "b": b, "c": c}
        truth = float(all(record[name] in codes for name, codes in condition.items()))
        weights = np.array([one[1][cell] * two[1][c] for one, two in pairs])
        assert weights.sum() == pytest.approx(1)
        assert weights @ values == pytest.approx(truth, abs=1e-12)
        exact.append(weights @ (values - truth) ** 2)
        assert weights @ estimated == pytest.approx(exact[-1], abs=1e-11)
    assert found[0].worst_variance[0] == pytest.approx(max(exact), abs=1e-12)
    assert found[0].largest_step[0] == pytest.approx(values.max() - values.min(), abs=1e-12)
    assert found[0].variance_bound[0] >= found[0].worst_variance[0]


@pytest.mark.parametrize("encoding", ["direct", "mixed", "unary"])
def test_cells_are_conditions(encoding):
    rng = np.random.default_rng(5)
    kinds = [list(answers_of(each)) for each in distributions(encoding)]
    rows = [tuple(kind[rng.integers(len(kind))][0] for kind in kinds) for _ in range(200)]
    table = table_of(encoding, rows)
    cells = answer_cells(table, ("c", "a"), useless="answer")
    asked = [{"c": [c], "a": [a]} for c in range(3) for a in range(2)]
    conditions = answer_conditions(table, asked, useless="answer")
    for name in ("value", "worst_variance", "variance_bound", "largest_step", "low", "high"):
        np.testing.assert_allclose(getattr(cells, name), getattr(conditions, name), atol=1e-12)
    if encoding == "direct":  # with bits there are several unbiased estimates of a variance
        np.testing.assert_allclose(cells.variance, conditions.variance, atol=1e-12)


def test_what_cannot_be_answered_is_said():
    table = table_of("direct", [(0, 0), (5, 2)])
    for condition, words in [
        ({"d": [0]}, "'d'"),
        ({"a": []}, "'a'"),
        ({"a": [2]}, r"2.*'a'"),
        ({"e": [0]}, "'e'"),
        ({}, "at least one"),
    ]:
        with pytest.raises(ValueError, match=words):
            answer_conditions(table, [condition], useless="answer")
    with pytest.raises(ValueError, match="no condition"):
        answer_conditions(table, [])
    with pytest.raises(TypeError, match=r"condition.*list"):
        answer_conditions(table, [["a"]])
    with pytest.raises(ValueError, match=r"0\.5.*'a'"):
        answer_conditions(table, [{"a": [0.5]}])
    with pytest.raises(UselessAnswerError, match="2 of 2 answers"):
        answer_conditions(table, [{"a": [0]}, {"b": [0]}])
    with pytest.raises(UselessAnswerError):
        answer_cells(table, ["a"])
