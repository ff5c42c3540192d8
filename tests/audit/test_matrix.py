"""The matrix of settings and refusals: what it covers, and that it passes and finds faults."""

import itertools

import pytest

from pgmjax import mechanisms
from pgmjax.audit.mechanism import WORKLOAD, AuditCase, neighbours
from pgmjax.data.relation import Relation
from pgmjax.mechanisms import Marginals
from pgmjax.privacy.budget import Budget, BudgetExceeded
from tests.audit import frontends, matrix, refusals
from tests.audit.matrix import audit_matrix

FALSE_ALARMS = 0.0  # everything is seeded

ALL = [*mechanisms.names().values(), *frontends.names().values()]
every = pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: mechanism.name)
PART = 7  # cases of each mechanism that are visited here


@pytest.mark.parametrize("sizes", [(2, 3), (5, 4, 3, 3, 2, 2, 2), (9, 1, 2, 5)])
def test_any_two_values_stand_together(sizes):
    factors = {f"f{i}": [f"{i}.{j}" for j in range(size)] for i, size in enumerate(sizes)}
    rows = list(matrix.covering(factors, seed=1))
    for one, other in itertools.combinations(factors, 2):
        assert {(row[one], row[other]) for row in rows} == set(
            itertools.product(factors[one], factors[other])
        )
    largest = sorted(sizes)[-1] * sorted(sizes)[-2]
    assert largest <= len(rows) <= 2 * largest


@every
def test_every_option_has_values_that_it_may_have(mechanism):
    """Each value by itself makes an instance, but for the few that want another option too."""
    lone = {"history": (False,), "accounting": ("simple", "tight", "zcdp")}
    relation = mechanism.relations[0]
    for name, values in matrix.levels(mechanism).items():
        assert values and len(set(map(repr, values))) == len(values), name
        for value in values:
            if value not in lone.get(name, ()):
                AuditCase(mechanism, relation, options={name: value}).make()


def test_values_follow_from_types():
    assert matrix.levels(mechanisms.MST)["compress"] == (True, False)
    assert matrix.levels(mechanisms.AIM) == {
        "rounds": (None, 1, 2),
        "share": ("0.9", "1/2"),
        "max_cells": (10_000_000, 30),
        "kept_noise": (None, 1.0),
        "steps": (5, 1),
    }
    assert matrix.levels(type("Bare", (), {"audited_values": {"x": [1]}})) == {"x": (1,)}


@pytest.mark.parametrize("kind", matrix.KINDS)
@pytest.mark.parametrize("domain", matrix.DOMAINS, ids=lambda domain: str(domain.shape))
def test_workloads_are_integral_and_fit(kind, domain):
    found = {str(matrix.workload_of(kind, domain, seed).to_list()) for seed in range(6)}
    assert len(found) > 1
    for seed in range(6):
        workload = matrix.workload_of(kind, domain, seed)
        workload.over(domain)
        assert all(entry.query.is_integral(domain) for entry in workload.entries)


def test_cases_follow_from_the_seed():
    first, again, other = (
        [str(case) for case in itertools.islice(matrix.cases(mechanisms.MWEM, seed), 40)]
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_the_small_worlds_differ_in_what_hides_bugs():
    """Weights, both relations, a delta, more than 64 and than 2^18 rows, refusals of every kind."""
    cases = list(itertools.islice(matrix.cases(Marginals), 80))
    kinds = {case.kind for case in cases}
    assert {f"refusal: {word}" for word in ("budget", "ledger", "workload", "option", "reading")} < kinds
    assert {case.max_weight for case in cases} == {None, 3, 2**31 - 1}
    assert {case.case.relation for case in cases} == set(Relation)
    assert len({case.case.delta for case in cases}) == 2
    rows = {
        max(entry.query.num_rows(case.domain) for entry in case.workload.entries): case.kind for case in cases
    }
    assert max(rows) > 2**18 and rows[max(rows)] == "large" and any(64 < number < 2**10 for number in rows)


@every
def test_a_part_of_the_matrix_passes(mechanism):
    """Settings and refusals in turn, without the large ones."""
    cases = (case for case in matrix.cases(mechanism) if case.kind != "large")
    faults, kinds = [], set()
    for case in itertools.islice(cases, PART):
        kinds.add(matrix._visited(case, faults)[1].partition(" (")[0])
    assert not faults and {"answers"} < kinds


@pytest.mark.parametrize("mechanism", [Marginals, frontends.TableCalls])
def test_large_calls_carry_a_draw_a_cell(mechanism):
    large = [case for case in itertools.islice(matrix.cases(mechanism), 2) if case.kind == "large"]
    seen = [matrix.visit(case) for case in large]
    assert max(each.draws for each in seen) > 2**18 and not any(each.refused for each in seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [each for each in ALL if matrix.LARGE_SETTINGS.get(each.name, {}) is not None]
)
def test_all_that_can_measure_more_than_2_to_18_cells_do(mechanism):
    large = [case for case in itertools.islice(matrix.cases(mechanism), 2) if case.kind == "large"]
    assert max(matrix.visit(case).draws for case in large) > 2**18


class TellsInItsRefusal(Marginals):
    name = "tells"

    def run(self, data, workload, **more):
        try:
            return super().run(data, workload, **more)
        except (ValueError, RuntimeError) as error:
            error.add_note(f"{data.count()} records")
            raise


class TellsOfHeavyRecords(Marginals):
    name = "heavy"

    def run(self, data, workload, **more):
        if data.weighted and self.split == "weighted":
            return data.count()
        return super().run(data, workload, **more)


@pytest.mark.parametrize(
    "mechanism, said",
    [
        (TellsInItsRefusal, "both neighbours"),
        (TellsOfHeavyRecords, "result: a private number got past the noise"),
    ],
)
def test_a_fault_in_a_corner_is_found_and_told_with_its_settings(mechanism, said):
    found = audit_matrix([mechanism], seconds=None, most=16)
    assert not found.passed and said in found.faults[0][1]
    assert found.faults[0][0].startswith(f"{mechanism.name} (")
    assert found.to_dict()["passed"] is False and sum(found.visited.values()) == 16


def test_time_and_number_are_limits():
    assert sum(audit_matrix([Marginals], seconds=0.0).visited.values()) == 0
    assert sum(audit_matrix([frontends.TableCalls], most=3, seconds=None).visited.values()) == 3
    with pytest.raises(ValueError, match="give `seconds`, or `most` cases"):
        audit_matrix([Marginals], seconds=None)
    with pytest.raises(ValueError, match="seed"):
        audit_matrix([Marginals], most=1, seed=-1)


@pytest.mark.parametrize("relation", list(Relation))
def test_what_ought_to_be_refused_is(relation):
    """Each kind for the plain mechanism; of the accounts the first has enough."""
    case = AuditCase(Marginals, relation)
    table = next(neighbours(matrix.DOMAIN, relation))[0]
    granted = []
    for number, (kind, run) in enumerate(refusals.refusals(case, WORKLOAD, matrix.levels(Marginals))):
        try:
            run(table)
            granted.append((number, kind))
        except (ValueError, TypeError, RuntimeError) as error:
            assert str(table.count()) not in str(error).split() or kind in ("ledger", "workload")
    # an account that has enough, and a workload of fractions: the mechanism rounds no query by itself
    assert [kind for _, kind in granted] == ["ledger"]


def test_a_short_budget_is_refused_on_the_way():
    short = refusals.ShortBudget(Budget(1), "1/2")
    assert short.cap == short.remaining == 1
    parts = short.split([1, 1, 1])
    short.charge(parts[0])
    with pytest.raises(BudgetExceeded):
        short.charge(parts[1])


def test_neighbouring_ratings_are_neighbours():
    for protect in ("record", "rating"):
        for first, second in frontends.neighbouring_ratings(protect, 12):
            tables = []
            for each in (first, second):
                cells = {(r, i): v for r, i, v in zip(each.records, each.items, each.values, strict=True)}
                tables.append(cells)
            changed = {key for key in {**tables[0], **tables[1]} if tables[0].get(key) != tables[1].get(key)}
            assert len({record for record, _ in changed}) <= 1
            if protect == "rating":
                assert len(changed) == 1 and set(tables[0]) == set(tables[1])
