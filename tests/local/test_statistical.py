"""A function for every row."""

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.local import codes, statistical
from pgmjax.privacy.response import KaryResponse

LAW = KaryResponse(4, 0.3)
CODES = np.random.default_rng(0).integers(0, 4, 500)
FUNCTIONS = np.random.default_rng(1).normal(size=(3, 500, 4))


def test_blocks_and_functions_agree(monkeypatch):
    table = co.PerturbedCodes(LAW, CODES)
    whole = co.answer_rows(table, FUNCTIONS)
    monkeypatch.setattr(codes, "BLOCK_ROWS", 130)
    monkeypatch.setattr(statistical, "_BLOCK_NUMBERS", 3 * 4 * 50)
    for functions, queries in ((FUNCTIONS, None), (lambda a, b: FUNCTIONS[:, a:b], 3)):
        again = co.answer_rows(table, functions, queries)
        for name in ("value", "variance", "worst_variance", "variance_bound", "low", "high", "largest_step"):
            assert np.allclose(getattr(again, name), getattr(whole, name), rtol=1e-12)


def test_groups_of_rows_are_a_special_case():
    table, where = co.PerturbedCodes(LAW, CODES), np.arange(500) // 250
    by_group = FUNCTIONS[:, :2]
    one = co.answer_rows(table, by_group[:, where])
    other = co.group_histograms(table, where).answer(by_group)
    for name in ("value", "variance", "worst_variance", "variance_bound", "low", "high", "largest_step"):
        assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-10)


@pytest.mark.parametrize(
    ("functions", "queries", "error", "words"),
    [
        (FUNCTIONS[:, :499], None, ValueError, "shape"),
        (np.concatenate([FUNCTIONS, FUNCTIONS], axis=1), None, ValueError, "500 answers, got 1,000"),
        (FUNCTIONS[0, 0], None, ValueError, "rows, size"),
        (lambda a, b: FUNCTIONS[:, a:b], None, ValueError, "queries must say"),
        (lambda a, b: FUNCTIONS[:, a:b], 4, ValueError, "shape"),
        (np.full((500, 4), np.inf), None, ValueError, "finite"),
        (np.full((500, 4), "x"), None, TypeError, "functions.*<U1"),
    ],
)
def test_wrong_functions_are_refused(functions, queries, error, words):
    with pytest.raises(error, match=words):
        co.answer_rows(co.PerturbedCodes(LAW, CODES), functions, queries)
