"""Private multiplicative weights: what is spent, what is learned, what is frozen, what is refused."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax.audit import check_pairs, neighbours
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.mechanisms.online_weights import OnlineWeights
from pgmjax.privacy.ledger import IdempotencyConflict, Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import DenseMatrix, Product, point, prefix, range, ranges
from pgmjax.queries.workload import Workload

REPLACE = Relation.REPLACE_ONE
DOMAIN = Domain({"a": 32})
COUNTS = np.bincount(np.random.default_rng(0).binomial(31, 0.2, 20_000), minlength=32)
DATA = Dataset.from_columns(DOMAIN, {"a": np.repeat(np.arange(32), COUNTS)})
WORKLOAD = Workload([{"clique": ["a"], "queries": {"a": "prefix"}}])


def make(epsilon=1, seed=0, **more):
    return OnlineWeights(epsilon, REPLACE, backend=SeededBackend(seed, insecure=True), **more)


def test_what_is_near_costs_one_test_only():
    uniform = Dataset.from_columns(DOMAIN, {"a": np.repeat(np.arange(32), 600)})
    found = make(updates=10).run(uniform, WORKLOAD)
    assert found.measurements == [] and found.asked == 32 and found.late == 0
    assert found.spent.epsilon == Fraction(1, 20)
    assert np.allclose(found.answered[0], 600 * np.arange(1, 33))


@pytest.mark.parametrize("split", ["1/4", "3/4"])
def test_the_split_is_the_share_that_measures(split):
    """A budget of 8 for two updates: 4 each, of which 1 or 3 measures a count that one record moves by 1."""
    opened = make(epsilon=8, updates=2, threshold=1000, split=split).open(DATA)
    measuring = 4 * Fraction(split)
    opened.answer(Product({"a": range(0, 31)}))
    assert opened.measurements == [] and opened.spent.epsilon == 4 - measuring
    (answer,) = opened.answer(Product({"a": range(0, 7)}))
    (measured,) = opened.measurements
    assert opened.spent.epsilon == 4 and measured.values[0] == answer
    assert isinstance(measured.distribution, DiscreteLaplace)
    assert measured.distribution.scale == pytest.approx(float(1 / measuring), rel=1e-12)


def test_what_is_far_is_measured_and_learned():
    found = make(updates=8, threshold=800, sweeps=20).run(DATA, WORKLOAD)
    assert 2 <= len(found.measurements) <= 8
    truth = np.cumsum(COUNTS)
    uniform = np.abs(20_000 * np.arange(1, 33) / 32 - truth).mean()
    assert np.abs(found.answered[0] - truth).mean() < 0.2 * uniform
    assert np.abs(found.predict(Product({"a": range(3, 9)})) - COUNTS[3:10].sum())[0] < 2500
    assert found.model.marginal(("a",)).sum() == pytest.approx(20_000)


def test_all_is_spent_when_all_updates_are_made_and_then_nothing_more():
    found = make(updates=2, threshold=1).run(DATA, WORKLOAD)
    assert len(found.measurements) == 2 and found.spent.epsilon == 1 and found.late > 0
    assert not found.secure
    late = found.late
    assert np.allclose(found.answer(Product({"a": point(3)})), found.predict(Product({"a": point(3)})))
    assert found.late == late + 1 and found.spent.epsilon == 1


def test_an_update_without_sweeps_is_that_of_the_papers():
    found = make(updates=1, threshold=1, epsilon=50).run(
        DATA, Workload([{"clique": ["a"], "queries": {"a": {"range": [0, 7]}}}])
    )
    (measured,) = found.measurements
    inside = np.arange(32) < 8
    residual = float(measured.values[0]) - 20_000 / 4
    weights = np.exp(inside * residual / (2 * 20_000))
    assert np.allclose(found.model.marginal(("a",)), 20_000 * weights / weights.sum())
    assert found.answered[0].tolist() == [float(measured.values[0])]


def test_nothing_but_released_numbers_depends_on_the_table():
    domain = Domain({"a": 3, "b": 2})
    workload = Workload([{"clique": ["a", "b"], "queries": {"a": "prefix"}}, ["b"]])

    def run(data):
        found = OnlineWeights(
            2, REPLACE, updates=3, threshold=2, backend=SeededBackend(5, insecure=True)
        ).run(data, workload)
        return [*found.answered, found.spent, found.late, found.model.marginal(("a", "b"))]

    assert check_pairs(run, neighbours(domain, REPLACE, pairs=25), epsilon=2).pairs == 25


def test_the_workload_is_checked_before_anything_is_spent():
    signed = Workload([{"clique": ["a"], "queries": {"a": {"matrix": [[-1] + [0] * 31]}}}])
    with pytest.raises(ValueError, match="0 or 1"):
        make().run(DATA, signed)
    opened = make().open(DATA)
    with pytest.raises(ValueError, match="0 or 1"):
        opened.answer(DenseMatrix(("a",), [[2] + [0] * 31]))
    with pytest.raises(ValueError, match="'prefix'"):
        opened.answer("prefix")
    assert opened.spent.epsilon == 0 and opened.asked == 0


@pytest.mark.parametrize(
    "settings, error, message",
    [
        ({"relation": Relation.ADD_REMOVE}, ValueError, "replace-one.*add-remove"),
        ({"updates": 0}, ValueError, "updates"),
        ({"threshold": 0}, ValueError, "threshold"),
        ({"expected_queries": 0}, ValueError, "expected_queries"),
        ({"split": 1}, ValueError, "split"),
        ({"sweeps": 0}, ValueError, "sweeps"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"updates": 2.5}, TypeError, "updates"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        OnlineWeights(**{"epsilon": 1, "relation": REPLACE, **settings})


def test_what_is_no_table_is_refused():
    with pytest.raises(TypeError, match="Dataset"):
        make().open([1, 2, 3])


def test_ranges_of_a_workload_come_back_entry_by_entry():
    found = make().run(DATA, Workload([Product({"a": ranges([(0, 3), (4, 31)])}), Product({"a": prefix()})]))
    assert [part.shape for part in found.answered] == [(2,), (32,)]


def test_a_ledger_is_charged_once_and_an_interrupted_run_goes_on(tmp_path):
    """What was answered is answered again; what was open is lost, so that one update fewer is made."""
    near = [Product({"a": range(0, 31)})] * 3
    far = [Product({"a": range(low, low + 3)}) for low in (0, 8, 16)]
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "table", epsilon=8, relation="replace-one", digest=ledger.digest_of(DATA), domain=DATA.domain
        )
        mechanism = OnlineWeights(8, REPLACE, updates=2, threshold=1000)
        opened = mechanism.open(DATA, ledger=ledger)
        first = [opened.answer(query) for query in near]
        assert opened.secure and ledger.account("table").spent == 8
        again = mechanism.open(DATA, ledger=ledger)
        assert [again.answer(query) for query in near] == first
        answers = [again.answer(query) for query in far]
        assert len(again.measurements) == 1 and again.spent.epsilon == 6 and again.late > 0
        third = mechanism.open(DATA, ledger=ledger)
        assert [third.answer(query) for query in [*near, *far]] == [*first, *answers]
        assert ledger.account("table").charges == 1 and third.spent.epsilon == 6
        with pytest.raises(IdempotencyConflict):
            mechanism.open(DATA, ledger=ledger).answer(far[0])
