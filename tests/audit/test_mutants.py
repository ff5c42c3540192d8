"""Every seeded bug is caught by the layer that ought to, in every mechanism that could have it."""

from unittest import mock

import pytest

from pgmjax import mechanisms
from pgmjax.audit import mutants
from pgmjax.audit.specimen import SelectAndMeasure
from pgmjax.privacy import measuring
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.relation import Relation

# an unmutated check may fail by chance once in 5e7 for each of its statistics (fresh entropy)
FALSE_ALARMS = 30 * 2e-8

MECHANISMS = [getattr(mechanisms, name) for name in mechanisms.__all__]
PAIRS = [
    (mutant, mechanism)
    for mutant in mutants.ALL
    for mechanism in {
        "any": [SelectAndMeasure, *MECHANISMS],
        "queries": [mechanisms.Marginals],
    }.get(mutant.scope, [SelectAndMeasure])
]


@pytest.mark.parametrize("mutant, mechanism", PAIRS, ids=[f"{m.name}-{c.__name__}" for m, c in PAIRS])
def test_a_mutant_is_caught(mutant, mechanism, capsys):
    said = mutants.caught(mutant, mechanism)
    assert said, f"{mutant.name} was missed in {mechanism.__name__}"
    with capsys.disabled():
        print(f"\n  {mutant.layer} caught in {mechanism.__name__}: {mutant.name}", end="")


@pytest.mark.parametrize("detect", sorted({mutant.detect for mutant in mutants.ALL}, key=repr))
def test_the_detectors_are_silent_without_a_mutant(detect):
    detect(SelectAndMeasure)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.__name__)
def test_replay_is_silent_for_every_mechanism(mechanism):
    mutants.replayed(mechanism)


def test_a_mutation_ends_with_its_block():
    before = measuring.draw, measuring.noisy, measuring.exact_answers
    for mutant in mutants.ALL:
        with mutant.apply():
            pass
    assert (measuring.draw, measuring.noisy, measuring.exact_answers) == before


def test_the_account_itself_refuses_noise_too_small_for_known_moves():
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
