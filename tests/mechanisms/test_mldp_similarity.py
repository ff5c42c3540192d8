"""MLDP on similarities: pairs that share little, vectors of pairs, predictions."""

import numpy as np
import pytest

from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import Relation
from pgmjax.learning import Linear
from pgmjax.mechanisms.mldp_similarity import SimilarityMLDP, covering_pairs, encode_pairs
from pgmjax.privacy.seeded import SeededBackend

REPLACE = Relation.REPLACE_ONE


def ratings(records=30, items=40, seed=0):
    rng = np.random.default_rng(seed)
    table = np.clip(np.rint(2 * (3 + rng.normal(0, 1, (records, 1)) + rng.normal(0, 1, items))) / 2, 0.5, 5)
    rows, columns = np.nonzero(rng.random((records, items)) < 0.6)
    return Ratings(rows, columns, table[rows, columns], (records, items), (0.5, 5))


def make(**more):
    settings = {"epsilon": 1, "relation": REPLACE, "protect": "record", "learner": Linear()}
    return SimilarityMLDP(**{**settings, "backend": SeededBackend(0, insecure=True), **more})


@pytest.mark.parametrize("records", [2, 3, 8, 11])
def test_pairs_are_different_and_spread_evenly(records):
    most = records * (records - 1) // 2
    for count in range(1, most + 1):
        pairs = covering_pairs(records, count, seed=count)
        assert len({frozenset(pair) for pair in pairs.tolist()}) == count
        degrees = np.bincount(pairs.ravel(), minlength=records)
        assert degrees.max() <= 2 * -(-count // records)
    with pytest.raises(ValueError, match="number of pairs"):
        covering_pairs(records, most + 1)


def test_vectors_do_not_depend_on_the_order_of_a_pair():
    features = np.random.default_rng(0).normal(size=(6, 2))
    pairs = np.array([(0, 3), (5, 2)])
    assert np.array_equal(encode_pairs(pairs, 6, features), encode_pairs(pairs[:, ::-1], 6, features))
    assert encode_pairs(pairs, 6).tolist()[0] == [1, 1, 0, 0, 1, 0, 0]
    with pytest.raises(ValueError, match="features"):
        encode_pairs(pairs, 6, features[:3])
    for wrong in (1e308, np.nan, np.inf):  # a learner would refuse their squares after the spend
        with pytest.raises(ValueError, match="features"):
            encode_pairs(pairs, 6, np.full((6, 1), wrong))


@pytest.mark.parametrize(
    "protect, measure", [("record", "cosine"), ("rating", "cosine"), ("record", "pearson")]
)
def test_similarities_are_learned(protect, measure):
    """With much budget the model is near the truth; its noise is what pairs of one record add up to."""
    data = ratings()
    model = make(epsilon=60, protect=protect, measure=measure, training_count=120).run(data)
    fresh = covering_pairs(30, 300, seed=9)
    truth = data.similarities(fresh, measure)
    assert np.abs(model.predict(fresh) - truth).mean() < 0.8 * np.abs(truth).mean()
    assert len(model.released.values) == 120 and not model.secure
    degree = 8 * (2 if measure == "pearson" else 1)
    assert model.released.sensitivity / 2**20 <= degree


def test_predictions_are_refused_for_others():
    model = make(training_count=20).run(ratings())
    with pytest.raises(ValueError, match=r"pairs.*0\.\.29"):
        model.predict([(0, 30)])


def test_wrong_settings_are_refused():
    for options, words in (
        ({"relation": Relation.ADD_REMOVE}, "replace-one only"),
        ({"measure": "angle"}, "measure.*'angle'"),
        ({"protect": "item"}, "protect.*'item'"),
        ({"training_count": 0}, "training_count"),
        ({"epsilon": 0}, "epsilon"),
        ({"learner": "oracle"}, "oracle"),
    ):
        with pytest.raises(ValueError, match=words):
            make(**options)
    with pytest.raises(ValueError, match="number of pairs"):
        make(training_count=436).run(ratings())
