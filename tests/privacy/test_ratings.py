"""Ratings behind their choke point: sensitivities in units of the grid, noise, refusals.

How far similarities move, against searches for the worst neighbours.
"""

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from pgmjax.audit.mechanism import AuditCase, replay_case
from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import Relation
from pgmjax.mechanisms import SimilarityMLDP
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.gate import TableReadError, holder_log
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.ratings import GRID, PrivateRatings, joint_sensitivity, pair_sensitivity, value_range
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import NonInterferenceError, Tape
from tests.audit import frontends

REPLACE = Relation.REPLACE_ONE
PAIRS = np.array([(0, 1), (1, 2), (3, 4), (0, 5), (0, 2)])


def dense(seed, records=6, items=8):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 11, (records, items)) / 2 * (rng.random((records, items)) < 0.7)


def ratings(table, scale=(0.5, 5)):
    records, items = np.nonzero(table)
    return Ratings(records, items, table[records, items], table.shape, scale)


def private(table, protect="record", epsilon=1, backend=None, **more):
    backend = SeededBackend(0, insecure=True) if backend is None else backend
    return PrivateRatings(ratings(table, **more), REPLACE, Budget(epsilon), protect=protect, backend=backend)


def exact(table, measure):
    return np.rint(ratings(table).similarities(PAIRS, measure) / GRID)


@pytest.mark.parametrize("measure", ["cosine", "pearson", "inner_product"])
@pytest.mark.parametrize("protect", ["record", "rating"])
def test_neighbours_are_no_farther_apart_than_the_stated_sensitivity(measure, protect):
    rng = np.random.default_rng(1)
    for seed in range(150):
        table = dense(seed)
        other, record = table.copy(), rng.integers(6)
        if protect == "record":
            other[record] = dense(seed + 999)[record]
        else:
            rated = np.flatnonzero(table[record])
            if not rated.size:
                continue
            other[record, rng.choice(rated)] = rng.choice([0.5, 5.0])
        stated = private(table, protect).similarities(PAIRS, measure, epsilon=1).sensitivity
        assert stated == private(other, protect).similarities(PAIRS, measure, epsilon=1).sensitivity
        assert np.abs(exact(table, measure) - exact(other, measure)).sum() <= stated


def test_sensitivities_count_the_pairs_of_a_record():
    found = private(dense(0)).similarities(PAIRS, "cosine", epsilon=1)
    assert found.sensitivity * GRID == 3 and found.distribution.scale * GRID == pytest.approx(3)
    assert private(dense(0)).similarities(PAIRS, "pearson", epsilon=1).sensitivity * GRID == 6
    few = private(np.ones((6, 8)) * 3, "rating").similarities(PAIRS, "cosine", epsilon=1)
    assert few.sensitivity * GRID < 3


def test_noise_has_the_stated_distribution():
    """1,000 runs of five pairs: mean and spread of the noise within 5 standard errors."""
    table = dense(2)
    noise = []
    for seed in range(1000):
        backend = SeededBackend(seed, insecure=True)
        found = private(table, epsilon=2, backend=backend).similarities(PAIRS, "cosine", epsilon=2)
        noise.append(found.answers - ratings(table).similarities(PAIRS, "cosine"))
    noise = np.array(noise)
    assert abs(noise.mean()) < 5 * (found.distribution.stddev * GRID) / np.sqrt(noise.size)
    assert noise.std() == pytest.approx((found.distribution.stddev * GRID), rel=5 * np.sqrt(5 / noise.size))


def test_released_values_are_whole_and_the_noise_is_secure_by_default():
    table = PrivateRatings(ratings(dense(0)), REPLACE, Budget(1), protect="record")
    assert isinstance(table._backend, OpenDPBackend) and table._backend.secure
    assert table.similarities(PAIRS, "cosine", epsilon=1).values.dtype == np.int64


def test_what_is_spent_is_spent():
    table = private(dense(0))
    table.similarities(PAIRS, "cosine", epsilon="0.75")
    with pytest.raises(BudgetExceeded):
        table.similarities(PAIRS, "cosine", epsilon="0.5")
    assert str(table.budget.remaining) == "1/4"


def test_an_error_of_reading_is_withheld(tmp_path, monkeypatch):
    """Its message went to whoever asked, and the holder's log did not have it."""

    def failing(*given):
        raise ValueError("record 3 rated item 7 with 4.5")

    table, log = private(dense(1)), tmp_path / "holder.log"
    monkeypatch.setattr(Ratings, "similarities", failing)
    with holder_log(log), pytest.raises(TableReadError) as caught:
        table.similarities(PAIRS, "cosine", epsilon="0.1")
    assert "4.5" not in str(caught.value) and "4.5" in log.read_text()
    assert table.budget.spent == Fraction(1, 10)


def test_what_cannot_be_asked_spends_nothing(monkeypatch):
    monkeypatch.setattr(Ratings, "similarities", lambda *given: pytest.fail("ratings were read"))
    table = private(dense(0), scale=None)
    for pairs, measure, words in (
        ([(0, 0)], "cosine", "pair"),
        ([(0, 9)], "cosine", r"pairs.*0\.\.5"),
        (PAIRS, "inner_product", "unbounded"),
        (PAIRS, "euclidean", "measure"),
    ):
        with pytest.raises(ValueError, match=words):
            table.similarities(pairs, measure, epsilon=1)
    with pytest.raises(ValueError, match="on a scale above 0"):
        private(dense(0), "rating", scale=None).similarities(PAIRS, "cosine", epsilon=1)
    assert table.budget.spent == 0


def test_other_relations_units_and_tables_are_refused():
    with pytest.raises(ValueError, match="replace-one only"):
        PrivateRatings(ratings(dense(0)), Relation.ADD_REMOVE, Budget(1), protect="record")
    with pytest.raises(ValueError, match="counted in epsilon"):
        PrivateRatings(ratings(dense(0)), REPLACE, Budget(1, "rho"), protect="record")
    with pytest.raises(ValueError, match=r"protect.*'item'"):
        PrivateRatings(ratings(dense(0)), REPLACE, Budget(1), protect="item")
    with pytest.raises(TypeError, match="Ratings"):
        PrivateRatings(dense(0), REPLACE, Budget(1), protect="record")


def test_inner_products_beyond_what_floats_tell_apart_are_refused():
    wide = Ratings([0, 1], [0, 0], [3e4, 3e4], (2, 10_000), (0, 30_000))
    table = PrivateRatings(wide, REPLACE, Budget(1), protect="rating")
    with pytest.raises(ValueError, match="larger units"):
        table.similarities([(0, 1)], "inner_product", epsilon=1)
    assert table.budget.spent == 0


def test_the_sensitivity_of_an_inner_product_counts_its_rounding():
    def stated(items):
        table = Ratings([0, 1], [0, 0], [1.0, 1.0], (2, items), (0, 5))
        private = PrivateRatings(table, REPLACE, Budget(1), protect="rating")
        return private.similarities([(0, 1)], "inner_product", epsilon=1).sensitivity

    assert stated(10) == 25 / GRID + 2  # one for rounding the sum, one for rounding to the grid
    # the sums of both tables err by up to 25 items**2 / 2**53 each
    assert stated(100_000) >= 25 / GRID + 2 * 25 * 100_000**2 * 2.0**-53 / GRID


def test_a_star_of_many_pairs_has_no_small_sensitivity():
    """In 64 bits the product of its pairs and the range of one would overflow."""
    table = Ratings([0], [0], [1.0], (4097, 10_000), (0, 600))
    private = PrivateRatings(table, REPLACE, Budget(64), protect="record")
    with pytest.raises(ValueError, match=r"2\^50"):
        private.similarities([(0, other) for other in range(1, 4097)], "inner_product", epsilon=64)
    assert private.budget.spent == 0


def cosine(x, y):
    return x @ y / np.sqrt((x @ x) * (y @ y))


@pytest.mark.parametrize("scale", [(0.5, 5.0), (1.0, 2.0), (1.0, 100.0)])
@pytest.mark.parametrize("ratings", [1, 2, 3, 12, 60])
def test_one_rating_never_moves_a_cosine_farther(scale, ratings):
    """Random neighbours: other ratings, the changed one and the other record at both ends or in between."""
    bound = pair_sensitivity("cosine", "rating", scale, 80, ratings)
    rng = np.random.default_rng(ratings)
    for _ in range(3000):
        before = rng.choice([scale[0], scale[1], rng.uniform(*scale)], ratings)
        after = before.copy()
        before[0], after[0] = rng.permutation([scale[0], scale[1]])
        other = rng.choice([0.0, scale[0], scale[1]], ratings + 1, p=[0.6, 0.2, 0.2])
        if other[:-1].any():
            other[:-1] *= rng.choice([1.0, 0.3], ratings) ** (other[:-1] == 0)
            moved = cosine(np.append(before, 0), other) - cosine(np.append(after, 0), other)
            assert abs(moved) <= bound + 1e-12  # of floats; the grid leaves room for them


@pytest.mark.parametrize("ratings", [2, 5, 20, 100])
def test_the_worst_move_of_a_cosine_is_met(ratings):
    """A grid over the other ratings' norm, the other record being the worst there: equal to the bound."""
    low, high = 0.5, 5.0
    norms = np.linspace(low, high, 20_001) * np.sqrt(ratings - 1)
    fall = norms / np.hypot(norms, low) - norms / np.hypot(norms, high)
    rise = high / np.hypot(norms, high) - low / np.hypot(norms, low)
    worst = max(fall.max(), rise.max())
    bound = pair_sensitivity("cosine", "rating", (low, high), 1000, ratings)
    assert worst <= bound <= worst * (1 + 1e-6)
    # and it is met by records: the others equal x, the other record rated only the changed item or the rest
    x = norms[int(np.argmax(np.maximum(fall, rise)))] / np.sqrt(ratings - 1)
    before, after = np.full(ratings, x), np.full(ratings, x)
    before[0], after[0] = low, high
    alone, rest = np.eye(ratings)[0] * high, np.where(np.arange(ratings) > 0, x, 0)
    moves = [abs(cosine(before, other) - cosine(after, other)) for other in (alone, rest)]
    assert max(moves) == pytest.approx(worst, rel=1e-6)


def test_ranges_are_attained_by_replaced_records():
    for measure, worst in (("cosine", 1.0), ("pearson", 2.0)):
        assert pair_sensitivity(measure, "record", (0.5, 5), 10) == worst
    assert cosine(np.array([5.0, 0.0]), np.array([5.0, 0.0])) == 1.0
    assert np.corrcoef([1, 5], [1, 5])[0, 1] - np.corrcoef([5, 1], [1, 5])[0, 1] == pytest.approx(2)
    assert pair_sensitivity("pearson", "rating", (0.5, 5), 10, 2) == 2.0
    assert pair_sensitivity("cosine", "record", None, 10) == 2.0


def test_inner_products_need_a_scale():
    assert value_range("inner_product", (0.5, 5), 10) == (0, 250)
    assert pair_sensitivity("inner_product", "rating", (1, 5), 10) == 20
    for protect in ("record", "rating"):
        with pytest.raises(ValueError, match="unbounded"):
            pair_sensitivity("inner_product", protect, None, 10)


def test_what_is_not_bounded_is_refused():
    for scale in (None, (0, 5), (-1, 1)):
        with pytest.raises(ValueError, match="on a scale above 0"):
            pair_sensitivity("cosine", "rating", scale, 10, 3)
    with pytest.raises(ValueError, match=r"measure.*'euclidean'"):
        pair_sensitivity("euclidean", "record", (1, 5), 10)
    with pytest.raises(ValueError, match=r"protect.*'item'"):
        pair_sensitivity("cosine", "item", (1, 5), 10)


def test_pairs_add_up_where_they_share_a_record():
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2)])
    assert joint_sensitivity(pairs, np.ones(5)) == 3
    assert joint_sensitivity(pairs, np.array([0.1, 1, 0.5, 0.2, 9])) == 2
    assert joint_sensitivity(np.array([(0, k) for k in range(1, 4097)]), np.full(4097, 2**52)) == 2**64


def test_a_ledger_charges_once_and_gives_the_same_similarities(tmp_path):
    table = ratings(dense(3))
    shuffled = np.random.default_rng(0).permutation(len(table.values))
    same = Ratings(
        *(getattr(table, name)[shuffled] for name in ("records", "items", "values")), table.shape, table.scale
    )
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register("ratings", epsilon=1, relation="replace-one", digest=ledger.digest_of(table))
        mechanism = SimilarityMLDP(epsilon="0.5", relation=REPLACE, protect="record", training_count=5)
        released = [mechanism.run(each, ledger=ledger) for each in (table, same)]
        assert np.array_equal(*(each.released.values for each in released))
        assert ledger.account("ratings").charges == 1 and ledger.account("ratings").spent == Fraction(1, 2)
        assert released[0].ledger["account"] == "ratings" and released[0].secure
        with pytest.raises(BudgetExceeded):
            SimilarityMLDP(0.6, REPLACE, "record", training_count=5).run(table, ledger=ledger)
        with pytest.raises(ValueError, match="answers for whole records"):
            SimilarityMLDP(0.1, REPLACE, "rating", training_count=5).run(table, ledger=ledger)
        other = ratings(dense(4))
        with pytest.raises(ValueError, match=r"budgets\.ledger"):
            mechanism.run(other, ledger=ledger)
        with pytest.raises(TypeError, match=r"ratings must be .*Ratings, got ndarray"):
            mechanism.run(dense(3), ledger=ledger)
        with pytest.raises(TypeError, match=r"ledger.*str"):
            mechanism.run(table, ledger="budgets.ledger")
        with pytest.raises(ValueError, match="ledger"):
            mechanism.run(table, key="run 1")
        assert ledger.account("ratings").charges == 1


def test_similarities_pass_a_tape_and_their_sensitivity_is_checked():
    """The exact similarities of neighbours, played back, are no farther apart than what is stated."""
    for protect, measure in (("record", "cosine"), ("rating", "cosine"), ("rating", "inner_product")):
        case = AuditCase(
            frontends.RatingsCalls, "replace-one", options={"protect": protect, "measure": measure}
        )
        seen = replay_case(case, case.tables(12))
        assert seen.pairs == 12 and seen.calls == 2 and seen.epsilon == pytest.approx(1)
    with (
        mock.patch.object(PrivateRatings, "_sensitivity", lambda self, pairs, measure: 1),
        pytest.raises(NonInterferenceError, match=r"L1.*1"),
    ):
        replay_case(case, case.tables(12))


def test_what_is_made_under_a_tape_is_not_secure():
    ratings = next(frontends.neighbouring_ratings("record", 1))[0]
    with Tape().recording():
        table = PrivateRatings(ratings, Relation.REPLACE_ONE, Budget(1), protect="record")
    assert table._backend.secure and not table.secure
