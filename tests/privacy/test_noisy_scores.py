"""Scores of all candidates with noise: what they cost, how much noise they have, what is refused."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax import audit, queries
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.measuring import plan_scores
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Distances
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import Tape

DOMAIN = Domain({"a": 3, "b": 2})
COLUMNS = {"a": np.repeat([0, 1, 2], [700, 200, 100]), "b": np.tile([0, 1], 500)}
CLIQUES = (("a",), ("b",), ("a", "b"))


def score(number=3, **options):
    """Distances of the first marginals from nothing, so that each is the number of records."""
    tables = [np.zeros(DOMAIN.shape_of(clique)) for clique in CLIQUES[:number]]
    pairs = zip(CLIQUES, tables, strict=False)
    return Distances([(queries.marginal(clique), table) for clique, table in pairs], **options)


def private(relation="add-remove", unit="epsilon", seed=1, cap=10**6):
    data = Dataset.from_columns(DOMAIN, COLUMNS)
    return PrivateTable(data, Relation.parse(relation), Budget(cap, unit), SeededBackend(seed, insecure=True))


@pytest.mark.parametrize("relation, moved", [("add-remove", 1), ("replace-one", 2)])
@pytest.mark.parametrize("number", [1, 3])
def test_the_noise_is_that_of_all_candidates_together(relation, moved, number):
    backend = SeededBackend(0, insecure=True)
    given = (DOMAIN, Relation.parse(relation), None, backend)
    each = moved * 2**8  # on the grid of scores
    pure = plan_scores(score(number), "0.5", None, *given)
    assert pure.distribution.scale == number * each / 0.5
    assert (pure.sensitivity.norm, pure.sensitivity.value) == ("l1", number * each)
    gauss = plan_scores(score(number), None, "0.5", *given)
    assert gauss.distribution.scale == pytest.approx(each * number**0.5, rel=1e-12)
    assert gauss.distribution.scale**2 >= number * each**2
    assert (gauss.sensitivity.norm, gauss.sensitivity.value) == ("l2_squared", number * each**2)
    assert (pure.event.epsilon, gauss.event.rho) == (Fraction(1, 2), Fraction(1, 2))


def test_a_unit_of_several_records_moves_every_score_by_all_of_them():
    given = (DOMAIN, Relation.ADD_REMOVE, None, SeededBackend(0, insecure=True))
    for cost in ({"epsilon": "0.5", "rho": None}, {"epsilon": None, "rho": "0.5"}):
        one, four = (plan_scores(score(), *cost.values(), *given, records) for records in (1, 4))
        assert four.distribution.scale == pytest.approx(4 * one.distribution.scale, rel=1e-12)


def test_the_declared_sensitivity_is_reached():
    """A record more moves each of the three distances by one."""
    plan = plan_scores(score(), 1, None, DOMAIN, Relation.ADD_REMOVE, None, SeededBackend(0, insecure=True))
    more = {name: np.append(column, 0) for name, column in COLUMNS.items()}
    exact = []
    for columns in (COLUMNS, more):
        data = Dataset.from_columns(DOMAIN, columns)
        tables = dict(zip(CLIQUES, data.marginals(CLIQUES), strict=True))
        exact.append(plan.score.values(DOMAIN, tables))
    assert np.abs(exact[1] - exact[0]).sum() == plan.sensitivity.value


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_scores_are_exact_up_to_noise_of_the_declared_size(unit):
    table = private(unit=unit)
    cost = Fraction(1, 4)
    drawn = np.array([table.measure_scores(score(), **{unit: cost}) for _ in range(400)]) - 1000
    assert table.budget.spent == 400 * cost
    assert {event.kind for event in table.budget.events} == {"laplace" if unit == "epsilon" else "gaussian"}
    variance = 2 * 12.0**2 if unit == "epsilon" else 3 / (2 * 0.25)
    # 1,200 draws: the mean square lies within 30 % of the variance but for a chance below 1e-6
    assert np.mean(drawn**2) == pytest.approx(variance, rel=0.3)
    assert abs(np.mean(drawn)) < 5 * (variance / drawn.size) ** 0.5


BAD = [
    ({}, ValueError, "either epsilon or rho"),
    ({"epsilon": 1, "rho": 1}, ValueError, "either epsilon or rho"),
    ({"epsilon": "-1"}, ValueError, "epsilon"),
    ({"epsilon": 11}, BudgetExceeded, "epsilon"),
    ({"rho": 1}, ValueError, "gaussian"),
]


@pytest.mark.parametrize("given, error, words", BAD)
def test_bad_costs_spend_nothing_and_read_nothing(given, error, words, monkeypatch):
    table = private(cap=10)
    monkeypatch.setattr(Dataset, "marginals", lambda *given: pytest.fail("counts were read"))
    with pytest.raises(error, match=words):
        table.measure_scores(score(), **given)
    assert table.budget.spent == 0 and table.budget.events == ()
    with pytest.raises(TypeError, match=r"score must be a pgmjax\.privacy\.Score, got list"):
        table.measure_scores([1, 2], epsilon=1)


def test_a_failure_after_the_charge_says_nothing_and_stays_paid(monkeypatch):
    table = private()
    monkeypatch.setattr(Dataset, "marginals", lambda *given: 1 / 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError after the budget was charged"):
        table.measure_scores(score(), epsilon=2)
    assert table.budget.spent == 2


def test_the_tape_adds_up_what_they_cost_and_plays_them_back():
    def run(columns):
        data = Dataset.from_columns(DOMAIN, columns)
        backend = SeededBackend(5, insecure=True)
        return PrivateTable(data, Relation.ADD_REMOVE, Budget(3, "rho"), backend).measure_scores(
            score(), rho="0.5"
        )

    recorded = Tape()
    with recorded.recording():
        first = run(COLUMNS)
    _, rho = audit.cost(recorded.calls)
    assert len(recorded.calls) == 1 and rho == pytest.approx(0.5, rel=1e-6)
    with recorded.replaying():
        assert run({name: column[1:] for name, column in COLUMNS.items()}).tolist() == first.tolist()
    assert recorded.distances == (3 * 2**16,)
