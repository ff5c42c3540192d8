"""Private selection through the choke point: what it chooses, what it costs, what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.dataset import Dataset
from pgmjax.domain import Domain
from pgmjax.privacy import noise
from pgmjax.privacy.backend_seeded import SeededBackend
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.scores import Counts
from pgmjax.relation import Relation

FALSE_ALARMS = 0.0  # the noise is seeded

SEEDED = SeededBackend(3, insecure=True)


def counted(scores, **given):
    """A table of one attribute with so many records of each code, under a large budget."""
    codes = np.repeat(np.arange(len(scores)), scores)
    data = Dataset.from_columns(Domain({"a": len(scores)}), {"a": codes})
    return noise.PrivateTable(data, Relation.ADD_REMOVE, Budget(100, **given), SEEDED)


A = queries.marginal(["a"])


@pytest.mark.parametrize("method", ["permute-and-flip", "exponential", None])
def test_the_best_of_candidates_far_apart_is_chosen(method):
    """A lead of 200 at epsilon 1 loses with a probability below exp(-99)."""
    private = counted([5, 205, 3])
    assert private.select(Counts(A), epsilon=1, method=method) == 1
    assert private.budget.spent == 1
    (event,) = private.budget.events
    assert event.method == (method or "permute-and-flip")


def test_a_rho_buys_the_exponential_mechanism():
    private = counted([5, 205, 3], unit="rho")
    assert private.select(Counts(A), rho="0.125") == 1
    (event,) = private.budget.events
    assert event.method == "exponential" and event.epsilon == 1 and private.budget.spent == Fraction(1, 8)
    private.select(Counts(A), rho="1e-9")  # sqrt(8e-9) is no fraction: the cost is just below
    spent = private.budget.spent - Fraction(1, 8)
    assert Fraction("1e-9") * (1 - Fraction(1, 10**8)) < spent <= Fraction("1e-9")
    private.select(Counts(A), epsilon=2)
    assert private.budget.events[-1].method == "exponential"


BAD_SELECTIONS = [
    ({}, ValueError, "either epsilon or rho"),
    ({"epsilon": 1, "rho": 1}, ValueError, "either epsilon or rho"),
    ({"epsilon": math.nan}, ValueError, "epsilon must be finite"),
    ({"epsilon": 1, "method": "best"}, ValueError, "method must be one of"),
    ({"rho": 1, "method": "permute-and-flip"}, ValueError, "by the exponential mechanism"),
    ({"epsilon": 101}, BudgetExceeded, "This needs epsilon"),
]


@pytest.mark.parametrize("given, error, words", BAD_SELECTIONS)
def test_bad_selections_cost_nothing_and_read_nothing(given, error, words, monkeypatch):
    private = counted([5, 6])
    monkeypatch.setattr(Dataset, "marginals", lambda *given: pytest.fail("counts were read"))
    with pytest.raises(error, match=words):
        private.select(Counts(A), **given)
    assert private.budget.spent == 0 and private.budget.events == ()


def test_something_that_is_no_score():
    with pytest.raises(TypeError, match=r"score must be a pgmjax\.privacy\.Score, got list"):
        counted([1, 2]).select([3, 4], epsilon=1)
