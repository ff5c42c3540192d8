"""Each layer of the audit is silent on the library; tests/faults/audited.py seeds what must wake it."""

import inspect
import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from pgmjax import random
from pgmjax.audit import primitives
from pgmjax.audit.mechanism import UNIT, AuditCase, replay_mechanism
from pgmjax.audit.replay import check_pairs
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.mechanisms import Marginals
from pgmjax.privacy import scales
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import DenseMatrix, marginal
from pgmjax.queries.workload import Workload
from tests.audit import contracts, discovery, frontends, identity, matrix
from tests.audit.specimen import ScoreAndMeasure, SelectAndMeasure

# a check may fail by chance once in 5e7 for each of its statistics (fresh entropy): 10 of noise, 10 of
# scores, 2 of choices, 18 of responses, 3 of trees and keys
FALSE_ALARMS = 43 * 2e-8

ODD = 2**24 + 1  # the least whole number that is no 32-bit float
PARAMETERS = {
    primitives.noise_follows_its_distribution: [{"unit": "epsilon"}, {"unit": "rho"}],
    primitives.selection_follows_its_distribution: [
        {"method": "permute-and-flip"},
        {"method": "exponential"},
    ],
}
HELPERS = (contracts.must_refuse, primitives.repeated)  # whoever asks them decides
SEARCHES = (
    discovery.trees_keep_their_epsilon,
    discovery.keys_keep_their_delta,
    discovery.discovery_keeps_to_the_choke_point,
)
CHECKS = [
    (function, more)
    for module in (contracts, primitives, discovery)
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_") and function not in HELPERS
    if module is not discovery or function in SEARCHES
    for more in PARAMETERS.get(function, [{}])
]
CHECKS += [(check, {}) for check in identity.CHECKS.values()]


@pytest.mark.parametrize("check, more", CHECKS, ids=lambda value: getattr(value, "__name__", ""))
def test_checks_of_parts_pass(check, more):
    check(**more)


@pytest.mark.parametrize("mechanism", [SelectAndMeasure, Marginals, ScoreAndMeasure])
@pytest.mark.parametrize("unit", [None, UNIT], ids=["records", "units"])
def test_replays_pass(mechanism, unit):
    """Under both relations and kinds of budget, without and with weights."""
    weights = (None, 3) if mechanism.accepts_weights and unit is None else (None,)
    for relation in mechanism.relations:
        for max_weight in weights:
            for delta, pairs in ((0, 40), ("1e-6", 16)):
                replay_mechanism(
                    mechanism, relation, delta=delta, pairs=pairs, max_weight=max_weight, unit=unit
                )


def test_a_replay_at_large_epsilon_passes():
    """Gaussian noise of a scale below 1."""
    for relation in Relation:
        replay_mechanism(Marginals, relation, epsilon=8, delta="1e-6", pairs=16)


def test_a_replay_of_heavy_records_passes():
    """Weights up to 2^31 - 1, whose sums need 64 bits; and such that 32-bit floats round."""
    replay_mechanism(Marginals, Relation.ADD_REMOVE, pairs=16, max_weight=2**31 - 1)
    domain = Domain({"a": 2})

    def run(data):
        table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), SeededBackend(0, insecure=True))
        return table.measure([marginal(["a"])], epsilons=[1], show_progress=False)[0].values

    def records(number):
        columns = {"a": np.zeros(number, dtype=np.int64)}
        return Dataset.from_columns(domain, columns, weights=np.full(number, ODD), max_weight=ODD)

    check_pairs(run, [(records(number + 1), records(number)) for number in range(1, 5)], epsilon=1)


def test_a_replay_of_large_entries_passes():
    """Columns have squared distances of 2^62 and more."""
    signs = random.generator(0).choice([-1, 1], (100, 110))
    workload = Workload([DenseMatrix(["a"], signs.astype(np.int64) * 2**29)])
    domain = Domain({"a": 110})
    replay_mechanism(Marginals, Relation.REPLACE_ONE, delta="1e-6", pairs=2, domain=domain, workload=workload)


@pytest.mark.parametrize("kind", ["marginals", "sums"])
@pytest.mark.parametrize("relation", list(Relation))
def test_weighted_worlds_pass(relation, kind):
    wide = matrix.DOMAINS[-1]
    case = AuditCase(frontends.TableCalls, relation, epsilon=Fraction(3))
    asked = matrix.workload_of(kind, wide)
    # the record that differs in the third pair has the largest weight
    matrix.visit(matrix.MatrixCase("weights", case, wide, asked, max_weight=3, pair=3))


@pytest.mark.parametrize("known", ["sensitivity", "squared sensitivity"])
def test_scales_off_by_one_ulp_are_seen_in_both_norms(known):
    """Each of the two roundings is enough by itself to be found."""
    changed = "ceil_float" if known == "sensitivity" else "ceil_sqrt"
    nearest = float if known == "sensitivity" else (lambda square: math.sqrt(float(square)))
    with (
        mock.patch.object(scales, changed, nearest),
        pytest.raises(primitives.AuditFailure, match="is rounded down: it costs more"),
    ):
        primitives.scales_cover_their_budget(SeededBackend(0, insecure=True))


def test_the_account_itself_refuses_noise_too_small_for_known_sensitivities():
    """Before any audit: an event knows how far answers move, and its price must cover that."""
    true = Sensitivity.of

    def blind(query, domain, relation, norm, weight=None):
        return Sensitivity(true(query, domain, Relation.ADD_REMOVE, norm, weight).value, norm, relation)

    with (
        mock.patch.object(Sensitivity, "of", staticmethod(blind)),
        pytest.raises(ValueError, match=r"0\.25.*2.*4\.0"),
    ):
        replay_mechanism(SelectAndMeasure, Relation.REPLACE_ONE, pairs=16)
