"""The audit of discovery: neighbouring raw tables, what calls cost, and where draws go."""

import collections
import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import mechanisms
from pgmjax.audit import audit_mechanism, check_draws, claims, discovery, frontends, mutations
from pgmjax.audit.discovery import DiscoveryRuns, neighbouring_columns, tree_probabilities
from pgmjax.audit.replay import check_outcome
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.exact import exact_rho
from pgmjax.privacy.partition import key_threshold
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.privacy.tape import Call, NonInterferenceError

FALSE_ALARMS = 0.0  # everything is seeded; the checks with fresh entropy are counted in test_mutants.py

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
RELATIONS = [ADD, REPLACE]


def runs(relation=ADD, delta=0, **options):
    backend = options.pop("backend", None) or SeededBackend(0, insecure=True)
    return DiscoveryRuns(epsilon=1, relation=relation, delta=delta, backend=backend, **options)


def rows(table):
    data = table.under([discovery.partition.marginal and attribute for attribute in table.draft.closed.values()])
    return data.count()


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
    gone = []
    for number, (first, second) in enumerate(neighbouring_columns(ADD, pairs=8)):
        flag = list(first.draft.closed.values())
        counts = sorted(table.under(flag).count() for table in (first, second))
        whole = [0, 0] if first.unit is None else [1, 3]
        gone.append(counts[1] - counts[0])
        assert (first.unit is None) is (number % 2 == 0) and gone[-1] >= max(1, whole[0])
    assert gone.count(1) == 4 or gone.count(3) >= 3


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
    with pytest.raises(NonInterferenceError, match="cost 0.5 epsilon"):
        claims.check_claims([tree_call(6.0)], None, epsilon="1/3")
    with pytest.raises(NonInterferenceError, match="only epsilon 0.1 at that delta"):
        claims.check_claims([tree_call(6.0)], None, epsilon="0.1", delta="1e-9")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("records", [1, 3])
def test_keys_take_their_part_of_delta(records, relation):
    noise, delta = DiscreteGaussian(20.0), Fraction(1, 10**6)
    call = keys_call(noise, key_threshold(noise, records, delta / 2), records, relation)
    claims.check_claims([call], None, epsilon=4, delta=delta)
    for calls, given in (([call], 0), ([call], delta / 4), ([call] * 3, delta)):
        with pytest.raises(NonInterferenceError, match="show keys that one unit alone has"):
            claims.check_claims(calls, None, epsilon=4, delta=given)
    low = keys_call(noise, records, records, relation)
    with pytest.raises(NonInterferenceError, match="probability of up to 1 by"):
        claims.check_claims([low], None, epsilon=4, delta=delta)
    # what is left of delta must do for the noise: a claim that fits with the whole of it only
    rho = call.sensitivity.value / (2 * noise.scale**2)
    least = claims.rho_for(Fraction(1, 2), delta)
    if rho > least:
        with pytest.raises(NonInterferenceError, match="is claimed"):
            claims.check_claims([call], None, epsilon="1/2", delta=delta)
    assert exact_rho(rho) > 0


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_draw_of_a_search_is_in_a_number_or_asked_of_a_node(relation):
    for delta in (0, "1e-6"):
        table = next(iter(neighbouring_columns(relation, delta != 0, pairs=1)))[0]
        assert check_draws(lambda backend: runs(relation, delta, backend=backend).run(table)) > 100  # noqa: B023


@pytest.mark.parametrize("name", ["_split", "_packed"])
def test_a_partition_without_draws_of_its_own_is_found(name):
    delta = 0 if name == "_split" else "1e-6"
    table = next(iter(neighbouring_columns(ADD, delta != 0, pairs=1)))[0]
    with mutations._without_noise(name), pytest.raises(NonInterferenceError):
        check_draws(lambda backend: runs(ADD, delta, backend=backend).run(table))


def test_a_tree_that_asks_nobody_is_told_from_one_of_noise():
    with mutations.exact_tree():
        assert set(tree_probabilities((3, 0, 0, 1), DiscreteLaplace(5.0), 1).values()) == {0.0, 1.0}


def test_the_command_knows_discovery_by_name():
    assert frontends.names()["discovery"] is DiscoveryRuns
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
