"""L1 of the audit: what replay sees in a mechanism, and what it works out of its calls."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.audit import claims, mechanism, replay, smoke
from pgmjax.audit.mechanism import neighbours
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Counts
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.privacy.tape import Call, NonInterferenceError
from tests.audit.specimen import SelectAndMeasure

FALSE_ALARMS = 0.0  # everything is seeded or exact

DOMAIN = Domain({"a": 3, "b": 2})
A = queries.marginal(["a"])
SEEDED = SeededBackend(1, insecure=True)


def table(data, relation=Relation.ADD_REMOVE, unit="epsilon"):
    return PrivateTable(data, relation, Budget(10, unit), SEEDED)


def call(distribution, value, norm, kind="laplace"):
    return Call(
        kind, (), distribution, Sensitivity(value, norm, Relation.ADD_REMOVE), np.zeros(1, dtype=np.int64)
    )


def test_costs_follow_from_sensitivities_and_scales():
    """Closed forms: s/b, s^2/(2 sigma^2), 2s/b for selections, an eighth of the square by bounded range."""
    laplace, gaussian = call(DiscreteLaplace(8.0), 2, "l1"), call(DiscreteGaussian(2.0), 2, "l2_squared")
    flip, exponential = call(PermuteAndFlip(4.0), 1, "linf"), call(ExponentialMechanism(4.0), 1, "linf")
    assert claims.cost([laplace]) == (0.25, 0.03125)
    assert claims.cost([gaussian]) == (None, 0.25)
    assert claims.cost([flip]) == (0.5, 0.125)
    assert claims.cost([exponential]) == (0.5, 0.03125)
    assert claims.cost([laplace, flip, exponential]) == (1.25, 0.1875)
    assert claims.cost([]) == (0.0, 0.0)


@pytest.mark.parametrize(
    "distribution, norm", [(DiscreteLaplace(1.0), "l2_squared"), (DiscreteGaussian(1.0), "l1")]
)
def test_a_sensitivity_in_the_wrong_norm_is_found(distribution, norm):
    with pytest.raises(NonInterferenceError, match=f"declares its sensitivity in {norm}, where its noise"):
        claims.cost([call(distribution, 1, norm)])


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("max_weight", [None, 4])
def test_made_up_neighbours_are_neighbours(relation, max_weight):
    """Counted independently: they differ in one record's cells and by its weight at most."""
    pairs = list(neighbours(DOMAIN, relation, pairs=40, max_weight=max_weight, seed=3))
    assert len(pairs) == 40
    orders = set()
    for first, second in pairs:
        counts = [data.marginals([("a", "b")])[0] for data in (first, second)]
        moved = np.abs(counts[0] - counts[1])
        bound = max_weight or 1
        cells = 1 if relation is Relation.ADD_REMOVE else 2
        assert (moved > 0).sum() <= cells and moved.max(initial=0) <= bound
        orders.add(int(np.sign(counts[0].sum() - counts[1].sum())))
    assert {-1, 1} <= orders or relation is Relation.REPLACE_ONE


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("max_weight", [None, 4])
def test_the_record_that_differs_has_extreme_codes(relation, max_weight):
    """Every fourth pair: what one table has and the other has not lies in corners, with extreme weights."""
    corners = set()
    for number, (first, second) in enumerate(neighbours(DOMAIN, relation, pairs=80, max_weight=max_weight)):
        if number % 4 != 3:
            continue
        moved = np.subtract(*(data.marginals([("a", "b")])[0] for data in (first, second)))
        places = {(int(a), int(b)) for a, b in zip(*np.nonzero(moved), strict=True)}
        assert places and places <= {(0, 0), (0, 1), (2, 0), (2, 1)}
        assert set(np.abs(moved[moved != 0])) == {max_weight or 1}
        if relation is Relation.REPLACE_ONE and max_weight is None:
            assert len(places) == 2
        corners |= places
    assert len(corners) == 4


def test_an_exact_number_that_moves_is_found():
    moving = Call("public count", (), None, Sensitivity(1, "l1", Relation.ADD_REMOVE), np.zeros(1, np.int64))
    with pytest.raises(NonInterferenceError, match="hands out exact numbers that neighbours move by 1"):
        claims.cost([moving])
    still = Call("public count", (), None, Sensitivity(0, "l1", Relation.REPLACE_ONE), np.zeros(1, np.int64))
    assert claims.cost([still]) == (0.0, 0.0)


def test_neighbours_are_made_up_again_from_the_seed():
    def codes(seed):
        pairs = neighbours(DOMAIN, Relation.ADD_REMOVE, pairs=8, seed=seed)
        return [data.marginals([("a", "b")])[0].tolist() for pair in pairs for data in pair]

    assert codes(1) == codes(1) != codes(2)


def test_selection_passes_the_choke_point():
    def run(data):
        private = table(data)
        first = private.select(Counts(A), epsilon=1)
        second = private.select(Counts(A), epsilon=1, method="exponential")
        return first, second, private.budget.spent

    seen = replay.check_pairs(run, neighbours(DOMAIN, Relation.ADD_REMOVE, pairs=24), epsilon=2)
    assert seen.calls == 2 and seen.epsilon == 2.0 and seen.rho == 0.5 + 0.125


def test_more_than_claimed_is_found():
    def run(data):
        return table(data).measure([A], epsilons=["0.5"], show_progress=False)[0].values

    pairs = list(neighbours(DOMAIN, Relation.ADD_REMOVE, pairs=4))
    assert replay.check_pairs(run, pairs, epsilon=Fraction(1, 2)).epsilon == 0.5
    with pytest.raises(NonInterferenceError, match=r"0\.5.*0\.4"):
        replay.check_pairs(run, pairs, epsilon="0.4")
    with pytest.raises(NonInterferenceError, match=r"cost 0\.125 rho"):
        replay.check_pairs(run, pairs, rho=Fraction(1, 10))


def test_a_pure_claim_for_gaussian_noise_is_found():
    def run(data):
        return table(data, unit="rho").measure([A], rhos=["0.5"], show_progress=False)[0].values

    with pytest.raises(NonInterferenceError, match="cost no finite epsilon"):
        replay.check_pairs(run, neighbours(DOMAIN, Relation.ADD_REMOVE, pairs=4), epsilon=100)


def test_nothing_checked_is_no_pass():
    with pytest.raises(ValueError, match="nothing was checked"):
        replay.check_pairs(lambda data: 0, neighbours(DOMAIN, Relation.ADD_REMOVE, pairs=4))


@pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)
@pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "approximate"])
@pytest.mark.parametrize("max_weight", [None, 3], ids=["unweighted", "weighted"])
def test_the_specimen_is_sound(relation, delta, max_weight):
    seen = mechanism.replay_mechanism(
        SelectAndMeasure, relation, delta=delta, max_weight=max_weight, pairs=20
    )
    counted = relation is Relation.REPLACE_ONE and max_weight is None
    assert seen.pairs == 20 and seen.calls == (5 if counted else 4)


def test_black_box_runs_of_the_specimen_stay_below_the_claim():
    """200 runs a table cannot show much; the bound must not pass the claim."""
    found = smoke.lower_bound(SelectAndMeasure, "add-remove", epsilon=1, trials=200, show_progress=False)
    assert 0 <= found.value <= 1 and found.draws == 200


def test_black_box_runs_find_a_mechanism_without_noise(monkeypatch):
    """Noise far too small is found by the smoke alarm too."""
    from tests.audit import mutations

    with mutations.no_noise():
        found = smoke.lower_bound(SelectAndMeasure, "add-remove", epsilon=1, trials=400, show_progress=False)
    assert found.exceeds(1)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NonInterferenceError("it differs"), "it differs"),
        (replay.CannotAuditError("it never works"), "it never works"),
        (AssertionError(), "AssertionError: "),
        (ValueError("no"), "ValueError: no"),
    ],
    ids=repr,
)
def test_a_finding_is_told_as_it_is_and_an_error_with_its_class(error, said):
    def check():
        raise error

    assert replay.fault_of(check) == said
