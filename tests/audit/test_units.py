"""Whole units of privacy: all changes of one on tiny tables, and every mechanism on such neighbours."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import mechanisms
from pgmjax.audit import neighbours, replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit
from pgmjax.history.session.costs import PLACES, CellAccount
from pgmjax.privacy import measuring
from pgmjax.privacy.left_out import CountLeftOut
from pgmjax.privacy.scores import Counts, Distances
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import distance
from pgmjax.queries import DenseMatrix, Product, marginal, point, total
from tests.audit import frontends

DOMAIN = Domain({"a": 2, "b": 2})
UNIT = Unit("person", 2)
KEY = b"the same for both neighbours"
OTHERS = ((0, 0, "x"), (1, 0, "x"), (1, 1, "x"), (0, 1, "y"), (0, 1, ""))
MOST = 3
RELATIONS = list(Relation)


def table(mine):
    """A table in which a person has these cells (number 0 to 3), spread among the others' records."""
    rows = list(OTHERS)
    for number, cell in enumerate(mine):
        rows.insert(2 * number, (cell // 2, cell % 2, "me"))
    columns = dict(zip(("a", "b", "person"), zip(*rows, strict=True), strict=True))
    return Dataset.from_columns(DOMAIN, columns, unit=UNIT).chosen_by(KEY)


TABLES = {
    mine: table(mine)
    for number in range(MOST + 1)
    for mine in itertools.product(range(DOMAIN.size()), repeat=number)
}
COUNTS = {mine: data.marginals([("a", "b")])[0] for mine, data in TABLES.items()}


def pairs(relation):
    """All pairs of tables that differ in everything of one person."""
    if relation is Relation.ADD_REMOVE:
        return [((), mine) for mine in TABLES if mine]
    by_number = itertools.groupby(TABLES, key=len)
    return [pair for _, group in by_number for pair in itertools.combinations(tuple(group), 2)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("unit", ["epsilon", "rho"])
@pytest.mark.parametrize(
    "query",
    [
        marginal(["a", "b"]),
        DenseMatrix(("a", "b"), np.array([[1, -2, 0, 3], [0, 1, 1, -1]])),
        Product({"a": total()}),
    ],
    ids=["marginal", "matrix", "total"],
)
def test_no_person_moves_a_measurement_further_than_its_noise_is_for(query, unit, relation):
    planned = measuring.plan_measurements(
        query, unit, Fraction(1), DOMAIN, relation, None, SeededBackend(0, insecure=True), UNIT.max_records
    )
    clique = list(query.clique)
    exact = {mine: query.apply(data.marginals([clique])[0]).reshape(-1) for mine, data in TABLES.items()}
    worst = max(distance(planned.sensitivity.norm, exact[one], exact[two]) for one, two in pairs(relation))
    assert worst <= planned.sensitivity.value
    if query == marginal(["a", "b"]):  # all of it is needed
        assert worst == planned.sensitivity.value


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "score",
    [
        Counts(marginal(["a", "b"])),
        Distances([(marginal(["a"]), np.ones(2), 1, 0), (marginal(["a", "b"]), np.zeros((2, 2)), 2, 0)], 0),
    ],
    ids=["counts", "distances"],
)
def test_no_person_moves_a_score_further_than_its_choice_is_for(score, relation):
    backend = SeededBackend(0, insecure=True)
    planned = measuring.plan_selection(
        score, Fraction(1), None, None, "epsilon", DOMAIN, relation, None, backend, 1, UNIT.max_records
    )
    exact = {}
    for mine, data in TABLES.items():
        tables = dict(zip(score.cliques, data.marginals(score.cliques), strict=True))
        exact[mine] = planned.score.values(DOMAIN, tables)
    worst = max(distance("linf", exact[one], exact[two]) for one, two in pairs(relation))
    assert worst <= planned.sensitivity.value
    if isinstance(score, Counts):
        assert worst == planned.sensitivity.value


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
@pytest.mark.parametrize(
    ("relation", "drop"), [("add-remove", True), ("add-remove", False), ("replace-one", False)]
)
def test_no_person_moves_what_is_left_out_further_than_its_noise_is_for(relation, drop, unit):
    """Of all cells, one may be outside the domain, and a person may have more records than any bound."""
    relation, known, most = Relation.parse(relation), Domain({"a": 2}), 5
    largest = 4 if relation is Relation.ADD_REMOVE else None
    tables = {}
    for mine in (each for number in range(most + 1) for each in itertools.product(range(3), repeat=number)):
        columns = {"a": [0, 1, 1, 2, 0, *mine], "person": ["x", "x", "x", "y", "", *["me"] * len(mine)]}
        if drop or 2 not in mine:
            columns["a"][3] = 2 if drop else 1
            outside = "drop" if drop else None
            data = Dataset.from_columns(known, columns, unit=UNIT, rows_outside=outside)
            tables[mine] = data.chosen_by(KEY).left_out()
    planned = CountLeftOut("0.1", largest).plan(relation, UNIT, drops=drop, weighted=False)
    exact = {mine: [each.exact(*found) for each in planned] for mine, found in tables.items()}
    by_number = [tuple(group) for _, group in itertools.groupby(tables, key=len)]
    near = [((), mine) for mine in tables if mine]
    if relation is Relation.REPLACE_ONE:
        near = [pair for group in by_number for pair in itertools.combinations(group, 2)]
    for number, each in enumerate(planned):
        worst = max(abs(exact[one][number] - exact[two][number]) for one, two in near)
        assert worst == each.moved  # all of it is needed, and no more
        if relation is Relation.ADD_REMOVE:
            backend = SeededBackend(0, insecure=True)
            sensitivity, noise, event = each.noise(backend, unit, Fraction(1, 4), relation)
            assert sensitivity.value == (worst if unit == "epsilon" else worst**2)
            paid = worst / noise.scale if unit == "epsilon" else (worst / noise.scale) ** 2 / 2
            assert paid <= 0.25 and (event.epsilon if unit == "epsilon" else event.rho) == Fraction(1, 4)


def test_at_most_as_many_records_answer_differently_as_count():
    answers = {
        mine: np.concatenate(
            [2 * part["a"].astype(np.int64) + part["b"] for part in data.records(["a", "b"])]
        )
        for mine, data in TABLES.items()
    }
    changed = []
    for one, two in pairs(Relation.REPLACE_ONE):
        assert answers[one].shape == answers[two].shape
        changed.append(distance("records", answers[one], answers[two]))
    assert max(changed) == UNIT.max_records


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_session_charges_a_person_for_all_that_its_answers_move(relation):
    asked = [
        (Product({"a": point(0), "b": point(0)}), 10**11),
        (Product({"a": point(1)}), 25 * 10**10),
        (Product({"b": point(1)}), 7 * 10**10),
    ]
    account = CellAccount(DOMAIN, Relation.parse(relation), records=UNIT.max_records)
    for query, rate in asked:
        account = account.added(query, rate)
    exact = {
        mine: [int(query.apply(data.marginals([query.clique])[0]).reshape(-1)[0]) for query, _ in asked]
        for mine, data in TABLES.items()
    }
    lost = max(
        sum(rate * abs(p - q) for (_, rate), p, q in zip(asked, exact[one], exact[two], strict=True))
        for one, two in pairs(relation)
    )
    assert account.cost == Fraction(lost, 10**PLACES)


def test_the_bound_is_what_protects():
    """Without it the same changes pass the stated sensitivities: these tables can tell."""
    unbounded = {
        mine: np.bincount([*mine, *(2 * a + b for a, b, _ in OTHERS)], minlength=4) for mine in TABLES
    }
    assert max(np.abs(unbounded[()] - unbounded[mine]).sum() for mine in TABLES) == MOST > UNIT.max_records


@pytest.mark.parametrize("relation", RELATIONS)
def test_made_up_neighbours_differ_in_one_person(relation):
    seen = set()
    for first, second in neighbours(DOMAIN, relation, pairs=16, unit=UNIT):
        one, two = (data.chosen_by(KEY).marginals([("a", "b")])[0].reshape(-1) for data in (first, second))
        moved = distance("l1", one, two)
        assert moved <= UNIT.max_records * (1 if relation is Relation.ADD_REMOVE else 2)
        seen.add(moved)
    assert max(seen) == UNIT.max_records * (1 if relation is Relation.ADD_REMOVE else 2)


@pytest.mark.parametrize(
    "mechanism", [*mechanisms.names().values(), frontends.TableCalls], ids=lambda each: each.__name__
)
def test_no_mechanism_costs_a_person_more_than_it_claims(mechanism):
    if hasattr(mechanism, "neighbours"):
        pytest.skip("its tables are no Dataset")
    relation = mechanism.relations[0]
    replayed = replay_mechanism(mechanism, relation, pairs=4, unit=UNIT)
    assert replayed.calls
