"""Every seeded bug is caught by the layer that ought to, in the specimen and in the plain mechanism.

The bugs lie in code that all mechanisms share; what the others add to it is replayed by their contract
tests, and one bug that each could have is looked for in all of them.
"""

import contextlib
import dataclasses
import inspect
import math
from unittest import mock

import pytest

from pgmjax import mechanisms
from pgmjax.audit import contracts, discovery, primitives
from pgmjax.audit.specimen import SelectAndMeasure
from pgmjax.data.relation import Relation
from pgmjax.privacy import measuring, scales
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.sensitivity import Sensitivity
from tests.audit import mutants

# an unmutated check may fail by chance once in 5e7 for each of its statistics (fresh entropy): 10 of noise,
# 10 of scores, 2 of choices, 12 and 18 of responses, 3 of trees and keys; below a mutant such a failure only
# catches it
FALSE_ALARMS = 61 * 2e-8

MECHANISMS = list(mechanisms.names().values())
PAIRS = [
    (mutant, mechanism)
    for mutant in mutants.ALL
    for mechanism in {
        "any": [SelectAndMeasure, mechanisms.Marginals],
        "queries": [mechanisms.Marginals],
    }.get(mutant.scope, [SelectAndMeasure])
    if mutant.concerns(mechanism)
]


@pytest.mark.parametrize("mutant, mechanism", PAIRS, ids=[f"{m.name}-{c.__name__}" for m, c in PAIRS])
def test_a_mutant_is_caught(mutant, mechanism, capsys):
    said = mutants.caught(mutant, mechanism)
    assert said, f"{mutant.name} was missed in {mechanism.__name__}"
    with capsys.disabled():
        print(f"\n  {mutant.layer} caught in {mechanism.__name__}: {mutant.name}", end="")


@pytest.mark.parametrize("detect", sorted({mutant.detect for mutant in mutants.ALL}, key=repr))
def test_the_detectors_are_silent_without_a_mutant(detect):
    queries = {mutant.detect for mutant in mutants.ALL if mutant.scope == "queries"}
    mechanism = mechanisms.Marginals if detect in queries else SelectAndMeasure
    unchanged = mutants.Mutant("nothing", "L1", contextlib.nullcontext, "any", detect)
    assert mutants.caught(unchanged, mechanism) is None


def test_replay_is_silent_for_the_plain_mechanism():
    unchanged = mutants.Mutant("nothing", "L1", contextlib.nullcontext, "any", mutants.replayed)
    assert mutants.caught(unchanged, mechanisms.Marginals) is None


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.__name__)
def test_a_true_total_is_caught_in_every_mechanism(mechanism):
    mutant = next(each for each in mutants.ALL if each.name == "the true total under add/remove")
    if mutant.concerns(mechanism):
        assert mutants.caught(mutant, mechanism)


@pytest.mark.parametrize("detect", [mutants.replayed_with_scores, mutants.replayed_with_scores_of_units])
def test_bugs_of_published_scores_are_caught_in_the_mechanism_that_has_them(detect):
    (mutant,) = [mutant for mutant in mutants.ALL if mutant.detect is detect]
    units = detect is mutants.replayed_with_scores_of_units
    own = mutants.replayed_with_units if units else mutants.replayed
    said = mutants.caught(dataclasses.replace(mutant, detect=own), mechanisms.BatchAIM)
    assert said.startswith("Call 4 (") and "declared sensitivity is" in said


def test_a_mutation_ends_with_its_block():
    before = measuring.draw, measuring.noisy, measuring.exact_answers, measuring.plan_scores
    for mutant in mutants.ALL:
        with mutant.apply():
            pass
    now = measuring.draw, measuring.noisy, measuring.exact_answers, measuring.plan_scores
    assert now == before


def test_every_check_of_a_primitive_has_a_mutant_that_it_catches():
    """Those of noise and of selections, which draw by either of them, stand behind detectors of their own."""
    shared = {
        primitives.noise_follows_its_distribution,
        primitives.selection_follows_its_distribution,
        primitives.must_refuse,
    }
    shared.add(primitives.repeated)  # measures: who asks it decides
    in_discovery = {
        discovery.trees_keep_their_epsilon,
        discovery.keys_keep_their_delta,
        discovery.discovery_keeps_to_the_choke_point,
    }
    checks = in_discovery | {
        function
        for module in (contracts, primitives)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    detectors = {mutant.detect for mutant in mutants.ALL}
    assert mutants.noise in detectors and mutants.choices in detectors
    assert checks - shared <= {getattr(detect, "check", None) for detect in detectors}


@pytest.mark.parametrize("known", ["sensitivity", "squared sensitivity"])
def test_scales_off_by_one_ulp_are_seen_in_both_norms(known):
    """Each of the two roundings is enough by itself to be found."""
    changed = "ceil_float" if known == "sensitivity" else "ceil_sqrt"
    nearest = float if known == "sensitivity" else (lambda square: math.sqrt(float(square)))
    seeded = SeededBackend(0, insecure=True)
    contracts.scales_cover_their_budget(seeded)
    with (
        mock.patch.object(scales, changed, nearest),
        pytest.raises(primitives.AuditFailure, match="is rounded down: it costs more"),
    ):
        contracts.scales_cover_their_budget(seeded)


def test_the_account_itself_refuses_noise_too_small_for_known_sensitivities():
    """Before any audit: an event knows how far answers move, and its price must cover that."""
    true = Sensitivity.of

    def blind(query, domain, relation, norm, weight=None):
        return Sensitivity(true(query, domain, Relation.ADD_REMOVE, norm, weight).value, norm, relation)

    with (
        mock.patch.object(Sensitivity, "of", staticmethod(blind)),
        pytest.raises(ValueError, match="too small for moves of 2"),
    ):
        mutants.replayed(SelectAndMeasure)


def test_names_are_distinct_and_every_layer_has_some():
    assert len({mutant.name for mutant in mutants.ALL}) == len(mutants.ALL)
    assert {mutant.layer for mutant in mutants.ALL} == {"L0", "L1", "L2", "contract"}
