"""A predictor on disk: what is read back predicts the same, damage is said."""

import dataclasses
import json

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning import Linear
from pgmjax.learning import predictor as predictor_folder
from pgmjax.learning.base import FittedLearner, Learner, NotDescribedError
from pgmjax.learning.encodings import CellWeights, Encoding
from pgmjax.learning.predictor import Part, Predictor
from pgmjax.learning.training_set import TrainingSet
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import Product, marginal, prefix

DOMAIN = Domain({"a": {"labels": ["no", "yes", "perhaps"]}, "b": 4})
QUERY = Product({"a": prefix(), "b": prefix()})


@dataclasses.dataclass(frozen=True)
class Secretive(Learner):
    """Its settings cannot be written down."""

    name = "secretive"

    def _learn(self, given, seed):
        return {}

    def _predict(self, learned, rows):
        return np.zeros((1, len(rows)))

    def to_dict(self):
        raise NotDescribedError("no words for it")


def predictor(encoding=None, learner=None):
    encoding = CellWeights() if encoding is None else encoding
    parts = []
    for clique in (("a", "b"), ("b",)):
        training_set = TrainingSet.of(clique, [marginal(clique)], encoding, DOMAIN)
        values = np.arange(DOMAIN.size(clique)) ** 2
        measured = [LinearMeasurement.released(marginal(clique), values, DiscreteLaplace(3.0))]
        parts.append(Part.fit(training_set, measured, Linear() if learner is None else learner))
    return Predictor(DOMAIN, encoding, tuple(parts))


def test_what_is_read_back_predicts_the_same(tmp_path):
    saved = predictor()
    saved.save(tmp_path / "p")
    read = predictor_folder.read(tmp_path / "p")
    assert read.domain == DOMAIN and [part.clique for part in read.parts] == [("a", "b"), ("b",)]
    assert np.array_equal(read.predict(QUERY), saved.predict(QUERY))
    assert np.array_equal(read.half_widths(QUERY)[0], saved.half_widths(QUERY)[0])


def test_a_learner_without_arrays_learns_again(tmp_path, monkeypatch):
    saved = predictor()
    monkeypatch.setattr(type(saved.parts[0].fitted), "arrays", lambda self: None)
    saved.save(tmp_path / "p")
    assert json.loads((tmp_path / "p/predictor.json").read_text())["parts"][0]["learned"] is False
    assert np.allclose(predictor_folder.read(tmp_path / "p").predict(QUERY), saved.predict(QUERY))


def test_what_cannot_be_read_back_is_not_written(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Own(Encoding):
        name = "own"

        def dimensions(self, domain, clique):
            return domain.size(clique)

        def _encode(self, query, domain, clique):
            return CellWeights().encode(query, domain, clique)

    with pytest.raises(ValueError, match="encoding 'own' is not one of"):
        predictor(Own()).save(tmp_path / "p")
    kept = predictor()
    parts = [dataclasses.replace(part, fitted=FittedLearner(Secretive(), 12, {})) for part in kept.parts]
    with pytest.raises(NotDescribedError, match="no words"):
        Predictor(DOMAIN, CellWeights(), tuple(parts)).save(tmp_path / "p")
    assert not (tmp_path / "p").exists()


def test_damage_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"predictor\.json"):
        predictor_folder.read(tmp_path)
    predictor().save(tmp_path)
    record = json.loads((tmp_path / "predictor.json").read_text())
    for change, words in (
        ({"encoding": "roots"}, "encoding.*'roots'"),
        ({"format": "x"}, "'pgmjax:predictor'"),
        ({"parts": [{}]}, "'clique'"),
        ({"format_version": 9}, "version 9"),
    ):
        (tmp_path / "predictor.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(ValueError, match=words):
            predictor_folder.read(tmp_path)
    (tmp_path / "predictor.json").write_text(json.dumps(record))
    (tmp_path / "part-1.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"part-1\.npz"):
        predictor_folder.read(tmp_path)
    (tmp_path / "part-1.npz").unlink()
    with pytest.raises(ValueError, match=r"part-1\.npz"):
        predictor_folder.read(tmp_path)
