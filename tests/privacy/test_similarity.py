"""How far similarities move, against searches for the worst neighbours."""

import numpy as np
import pytest

from pgmjax.privacy.similarity import joint_sensitivity, pair_sensitivity, value_range


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
    with pytest.raises(ValueError, match="measure must be one of"):
        pair_sensitivity("euclidean", "record", (1, 5), 10)
    with pytest.raises(ValueError, match="protect must be one of"):
        pair_sensitivity("cosine", "item", (1, 5), 10)


def test_pairs_add_up_where_they_share_a_record():
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2)])
    assert joint_sensitivity(pairs, np.ones(5)) == 3
    assert joint_sensitivity(pairs, np.array([0.1, 1, 0.5, 0.2, 9])) == 2
    assert joint_sensitivity(np.array([(0, k) for k in range(1, 4097)]), np.full(4097, 2**52)) == 2**64
