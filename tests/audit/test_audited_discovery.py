"""The audit of discovery: neighbouring raw tables, what calls cost, and where draws go."""

import collections
import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import mechanisms
from pgmjax.audit import audit_mechanism, check_draws, claims
from pgmjax.audit.replay import check_outcome
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.accounting.zcdp import epsilon_of
from pgmjax.privacy.partition import key_threshold
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.privacy.tape import Call, NonInterferenceError
from tests.audit import discovery, mutations
from tests.audit.discovery import DiscoveryRuns, neighbouring_columns, tree_probabilities

FALSE_ALARMS = 0.0  # everything is seeded; the checks with fresh entropy are counted in test_mutants.py

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
RELATIONS = [ADD, REPLACE]


def runs(relation=ADD, delta=0, **options):
    backend = options.pop("backend", None) or SeededBackend(0, insecure=True)
    return DiscoveryRuns(epsilon=1, relation=relation, delta=delta, backend=backend, **options)


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_reach_every_step_of_a_search(relation):
    """Numbers, dates and texts are found, on tables that really differ, by one row and by a person's rows."""
    for delta, last in ((0, "tree"), ("1e-6", "keys")):
        made, seen, moved = runs(relation, delta), collections.Counter(), collections.Counter()
        for first, second in made.neighbours(4, 0):
            outcome = check_outcome(made.run, first, second)
            assert outcome.error is None
            for call, distance in zip(outcome.tape.calls, outcome.tape.distances, strict=True):
                seen[call.kind] += 1
                moved[call.kind, first.unit is not None] += distance > 0
        assert seen[last] >= 3
        assert moved[last, False] and moved[last, True]


def test_tables_differ_in_a_row_or_in_more_rows_of_a_person_than_count():
    for number, (first, second) in enumerate(neighbouring_columns(ADD, pairs=8)):
        sizes = [table.under(table.draft.closed.values()).count() for table in (first, second)]
        whole = first.unit is not None
        assert whole is (number % 2 == 1) and (number < 4) is (sizes[0] > sizes[1])
        if number != 3:  # of whose rows a table with a single other one has but one
            assert abs(sizes[0] - sizes[1]) == (2 if whole else 1)  # as many as count


def tree_call(scale, moved=1):
    sensitivity = Sensitivity(moved, "l1", ADD)
    return Call("tree", (None, 4, 0, 99), DiscreteLaplace(scale), sensitivity, np.zeros(4, dtype=np.int64))


def keys_call(distribution, threshold, records=1, relation=ADD):
    square = records**2 * (1 if relation is ADD else 2)
    sensitivity = Sensitivity(square, "l2_squared", relation)
    return Call("keys", ("x", threshold), distribution, sensitivity, np.zeros(4, dtype=np.int64))


def test_a_tree_costs_what_its_path_loses():
    assert claims.cost([tree_call(6.0)]) == (0.5, 0.125)
    claims.check_claims([tree_call(6.0)], None, epsilon="1/2")
    with pytest.raises(NonInterferenceError, match=r"cost 0\.5 epsilon"):
        claims.check_claims([tree_call(6.0)], None, epsilon="1/3")
    with pytest.raises(NonInterferenceError, match=r"only epsilon 0\.1 at that delta"):
        claims.check_claims([tree_call(6.0)], None, epsilon="0.1", delta="1e-9")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("records", [1, 3])
def test_keys_take_their_part_of_delta(records, relation):
    noise, delta = DiscreteGaussian(20.0), Fraction(1, 10**6)
    least = key_threshold(noise, records, delta / 2)
    call = keys_call(noise, least, records, relation)
    claims.check_claims([call], None, epsilon=4, delta=delta)
    risk = records * discovery.at_least(noise, least - records)
    assert risk <= delta / 2 < records * discovery.at_least(noise, least - records - 2)
    for calls, given in (([call], 0), ([call], 0.99 * risk), ([call] * 4, delta)):
        with pytest.raises(NonInterferenceError, match="show keys that one unit alone has"):
            claims.check_claims(calls, None, epsilon=4, delta=given)
    low = keys_call(noise, records, records, relation)
    with pytest.raises(NonInterferenceError, match="probability of up to 1 by"):
        claims.check_claims([low], None, epsilon=4, delta=delta)
    # the noise must do with what is left of delta: this epsilon it has with the whole of it only
    rho = Fraction(call.sensitivity.value, 2 * 20**2)
    tight = (epsilon_of(rho, delta) + epsilon_of(rho, delta - Fraction(risk))) / 2
    with pytest.raises(NonInterferenceError, match="is claimed"):
        claims.check_claims([call], None, epsilon=tight, delta=delta)


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_every_draw_of_a_search_is_in_a_number_or_asked_of_a_node(delta):
    """Under replace-one, where no such noise ends a run: nothing is left out of the domain that it finds."""
    table = next(iter(neighbouring_columns(REPLACE, delta != 0, pairs=1)))[0]
    seen = []

    def run(backend):
        seen.append(runs(REPLACE, delta, backend=backend).run(table)[0]["cost"]["events"])

    assert check_draws(run) > 100
    assert seen[0].get("keys" if delta else "tree")
    with mutations._without_noise("_packed" if delta else "_split"), pytest.raises(NonInterferenceError):
        check_draws(run)


def test_a_tree_that_asks_nobody_is_told_from_one_of_noise():
    with mutations.exact_tree():
        assert set(tree_probabilities((3, 0, 0, 1), DiscreteLaplace(5.0), 1).values()) == {0.0, 1.0}


def test_discovery_is_audited_as_a_mechanism():
    line = audit_mechanism(DiscoveryRuns, REPLACE, delta="1e-6", pairs=2, fit=True)
    assert line.passed and (line.pairs, line.unit_pairs) == (1, 1)
    with mutations.true_bounds():
        assert not audit_mechanism(DiscoveryRuns, ADD, pairs=2).passed


def test_the_list_has_pairs_that_differ_in_a_whole_unit():
    line = audit_mechanism(mechanisms.Marginals, ADD, pairs=6, trials=0)
    assert line.passed and (line.pairs, line.unit_pairs) == (6, 2)
    for mutation in (mutations.unbounded_units, mutations.unscaled_unit):
        with mutation():
            line = audit_mechanism(mechanisms.Marginals, ADD, pairs=16, trials=0)
        assert "neighbouring tables are" in line.fault and line.pairs == 16
    assert dataclasses.asdict(line)["unit_pairs"] < 4
