"""Private selection through the choke point: what it chooses, what it costs, what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import audit, queries
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy import private_table, tape
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.gate import TableReadError
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.scores import Counts
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip

FALSE_ALARMS = 1e-26  # the noise is seeded but in one test

SEEDED = SeededBackend(3, insecure=True)


def counted(scores, **given):
    """A table of one attribute with so many records of each code, under a large budget."""
    codes = np.repeat(np.arange(len(scores)), scores)
    data = Dataset.from_columns(Domain({"a": len(scores)}), {"a": codes})
    return private_table.PrivateTable(data, Relation.ADD_REMOVE, Budget(100, **given), SEEDED)


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
    ({"epsilon": math.nan}, ValueError, "epsilon.*nan"),
    ({"epsilon": 1, "method": "best"}, ValueError, "method.*'best'"),
    ({"rho": 1, "method": "permute-and-flip"}, ValueError, "by the exponential mechanism"),
    ({"epsilon": 101}, BudgetExceeded, "epsilon"),
]


@pytest.mark.parametrize("given, error, words", BAD_SELECTIONS)
def test_bad_selections_cost_nothing_and_read_nothing(given, error, words, monkeypatch):
    private = counted([5, 6])
    monkeypatch.setattr(Dataset, "marginals", lambda *given: pytest.fail("counts were read"))
    with pytest.raises(error, match=words):
        private.select(Counts(A), **given)
    assert private.budget.spent == 0 and private.budget.events == ()


def test_something_that_is_no_score():
    with pytest.raises(TypeError, match=r"score.*list"):
        counted([1, 2]).select([3, 4], epsilon=1)


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_several_draws_are_each_charged(unit):
    private = counted([5, 205, 3], unit=unit)
    chosen = private.select_several(Counts(A), 7, epsilon="0.5", method="exponential")
    assert chosen.dtype == np.int64 and chosen.shape == (7,)
    assert private.budget.spent == 7 * (Fraction(1, 2) if unit == "epsilon" else Fraction(1, 32))
    assert len(private.budget.events) == 7 and len(set(private.budget.events)) == 1


@pytest.mark.parametrize("method", ["permute-and-flip", "exponential"])
def test_several_draws_follow_the_distribution_and_read_the_table_once(method, monkeypatch):
    """Chi-square of 20,000 seeded draws; 16.3 is exceeded once in a thousand seeds."""
    private = private_table.PrivateTable(
        counted([5, 7, 6, 9])._data, Relation.ADD_REMOVE, Budget(10**5), SEEDED
    )
    scans, scan = [], Dataset.marginals
    monkeypatch.setattr(Dataset, "marginals", lambda self, c: scans.append(c) or scan(self, c))
    chosen = private.select_several(Counts(A), 20_000, epsilon=1, method=method)
    distribution = (PermuteAndFlip if method == "permute-and-flip" else ExponentialMechanism)(2.0)
    expected = 20_000 * distribution.probabilities(np.array([5, 7, 6, 9]))
    assert ((np.bincount(chosen, minlength=4) - expected) ** 2 / expected).sum() < 16.3
    assert len(scans) == 1


def test_the_secure_backend_draws_several_in_pieces():
    """The best of candidates far apart but once in 10^27; equal ones not the same eight times over."""
    backend = OpenDPBackend()
    scores = np.zeros(70_000, np.int64)
    chosen = backend.choose_several(ExponentialMechanism(1.0), scores, 8)
    assert chosen.shape == (8,) and chosen.dtype == np.int64 and len(set(chosen.tolist())) > 1
    scores[65_537] = 10**6
    for distribution in (ExponentialMechanism(1.0), PermuteAndFlip(1.0)):
        assert backend.choose_several(distribution, scores, 4).tolist() == [65_537] * 4


def test_a_tape_counts_every_draw():
    def run(private):
        return private.select_several(Counts(A), 5, epsilon="0.5", method="exponential")

    recorded = tape.Tape()
    with recorded.recording():
        first = run(counted([5, 7]))
    epsilon, rho = audit.cost(recorded.calls)
    assert len(recorded.calls) == 5 and epsilon == pytest.approx(2.5) and rho == pytest.approx(5 * 0.25 / 8)
    with recorded.replaying():
        assert run(counted([5, 8])).tolist() == first.tolist()
    assert first.tolist() == run(counted([5, 7])).tolist()


@pytest.mark.parametrize(
    "draws, error, words",
    [
        (0, ValueError, "draws.*0"),
        (1.5, TypeError, "draws"),
        (300, BudgetExceeded, "epsilon"),
    ],
)
def test_bad_numbers_of_draws_cost_nothing(draws, error, words, monkeypatch):
    private = counted([5, 6])
    monkeypatch.setattr(Dataset, "marginals", lambda *given: pytest.fail("counts were read"))
    with pytest.raises(error, match=words):
        private.select_several(Counts(A), draws, epsilon=1)
    assert private.budget.spent == 0


def test_an_error_of_the_source_of_noise_does_not_show_the_scores(monkeypatch):
    """It was handed exact scores, and its message went to whoever asked."""

    def failing(backend, distribution, scores):
        raise ValueError(f"no choice from {scores}")

    monkeypatch.setattr(SeededBackend, "choose", failing)
    private = counted([5, 205, 3])
    with pytest.raises(TableReadError) as caught:
        private.select(Counts(A), epsilon=1)
    assert "205" not in str(caught.value) and private.budget.spent == 1
