"""Hill climbing on the loss: it finds what a list of neighbours misses, and never passes a sound claim."""

import numpy as np
import pytest

from pgmjax import mechanisms
from pgmjax.audit import check_pairs, largest_loss, neighbours
from pgmjax.audit.mechanism import DOMAIN, AuditCase
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.mechanisms.parameters import PrivacyParameters
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import DenseMatrix, marginal
from pgmjax.queries.workload import Workload
from tests.audit import frontends

FALSE_ALARMS = 0.0  # everything is seeded; searches here are limited by pairs and not by time

CELLS = 400
WIDE = Domain({"a": CELLS, "b": 2})
ANY = Workload([marginal(["a"])])
ENTRIES = np.zeros((1, CELLS), dtype=np.int64)
ENTRIES[0, : CELLS // 2] = np.arange(CELLS // 2)  # loses more and more up to code 199: a slope to climb


class Slope(PrivacyParameters):
    """Measures one query whose answer only few records move far; `stated` is what it states of that."""

    name = "slope"
    stated = CELLS // 2 - 1

    def run(self, data, workload):
        table = PrivateTable(data, self.relation, self.budget(), self.backend)
        return table.measure([DenseMatrix(["a"], ENTRIES)], epsilons=[self.epsilon], show_progress=False)


class Understated(Slope):
    """A sensitivity that 3 of 400 codes pass."""

    name = "understated"
    stated = CELLS // 2 - 4


@pytest.fixture
def stated(monkeypatch):
    """States the sensitivity of the class that is audited."""

    def of(mechanism):
        made = Sensitivity(mechanism.stated, "l1", Relation.ADD_REMOVE)
        monkeypatch.setattr(Sensitivity, "of", staticmethod(lambda *given: made))
        monkeypatch.setattr("pgmjax.privacy.measuring.shifts_of", lambda *given: None)

    return of


def test_the_search_climbs_to_the_claim():
    found = largest_loss(AuditCase(Slope, "add-remove"), pairs=300, seconds=None, domain=WIDE, workload=ANY)
    assert found.passed and found.pairs == 300 and found.claimed == 1
    assert 0.98 < found.loss <= 1 and 2 <= found.records <= 40


def test_the_search_finds_what_the_list_misses(stated):
    """No pair of the list has one of the 3 codes out of 400 at which the sensitivity is passed."""
    stated(Understated)
    case = AuditCase(Understated, "add-remove")

    def run(data):
        return case.make().run(data, ANY)

    pairs = [
        pair
        for number, pair in enumerate(neighbours(WIDE, "add-remove", pairs=60))
        if number % 4 != 3  # but for the corners, where the query is 0
    ]
    assert check_pairs(run, pairs, epsilon=1).pairs == 45
    found = largest_loss(case, pairs=600, seconds=None, domain=WIDE, workload=ANY)
    assert not found.passed and "NonInterferenceError" in found.fault and "FAILED" in str(found)


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_loss_is_that_of_the_exact_distances(relation, delta):
    """Marginals of 3 entries: what a record moves at most, in closed form, is the claim."""
    case = AuditCase(mechanisms.Marginals, relation, delta=delta)
    found = largest_loss(case, pairs=60, seconds=None)
    assert found.passed and found.unit == ("rho" if delta else "epsilon")
    assert 0.85 * found.claimed <= found.loss <= found.claimed * (1 + 1e-9)


def test_weights_are_searched_too():
    found = largest_loss(AuditCase(mechanisms.Marginals, "add-remove"), pairs=60, seconds=None, max_weight=3)
    assert found.passed and found.loss > 0.85


def test_ratings_have_neighbours_of_their_own():
    found = largest_loss(AuditCase(frontends.RatingsCalls, "replace-one"), pairs=20, seconds=None)
    assert found.passed and 0 < found.loss <= 1 and found.pairs == 20 and found.records is None


def test_time_is_a_limit_and_the_same_seed_finds_the_same():
    case = AuditCase(Slope, "add-remove")
    assert largest_loss(case, seconds=0.0, domain=WIDE, workload=ANY).pairs == 1
    twice = [largest_loss(case, pairs=20, seconds=None, domain=WIDE, workload=ANY) for _ in range(2)]
    assert twice[0] == twice[1] and twice[0].to_dict()["passed"]
    with pytest.raises(ValueError, match="give `seconds`, or a number of `pairs`"):
        largest_loss(case, seconds=None)


def test_what_is_refused_loses_nothing():
    found = largest_loss(AuditCase(mechanisms.Marginals, "add-remove"), pairs=2, seconds=None, domain=WIDE)
    assert found.passed and found.loss == 0 and len(DOMAIN) == 3
