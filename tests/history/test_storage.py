"""Histories come back from disk as they were, or not at all."""

import json
import os

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history import History
from pgmjax.history.history import DESCRIPTION
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.queries import DenseMatrix, Product, marginal, matrix, prefix
from tests.history import dense

DOMAIN = pj.Domain({"a": 3, "b": {"labels": ["w", "x", "y", "z"]}, "c": 2, "d": 5})


def every_kind():
    rng = np.random.default_rng(0)
    measured = [
        pj.LinearMeasurement(query.clique, rng.normal(size=query.num_rows(DOMAIN)), 1.5, query)
        for query in dense.mixed_queries()
    ]
    return [
        *measured,
        pj.LinearMeasurement.released(marginal(["a", "c"]), 2**60 + np.arange(6), DiscreteLaplace(0.1)),
        pj.LinearMeasurement.released(Product({"b": prefix()}), [[1, 2, 3, 4]][0], DiscreteGaussian(7.0)),
        pj.LinearMeasurement(("c", "a"), rng.normal(size=(2, 3)), rng.uniform(1, 2, (2, 3))),
        pj.LinearMeasurement(("a",), [4, 5], [0.1, 0.3], matrix([[1, 0.5, 1e-300], [0, 1, 2]]), "laplace"),
        pj.LinearMeasurement(("a", "c"), [4], 1, DenseMatrix(("a", "c"), [[2**40, -(2**62), 0, 0, 0, 1]])),
    ]


def assert_same(first, second):
    assert first.domain == second.domain and first.relation is second.relation
    assert first.queries == second.queries and first.distributions == second.distributions
    for one, other in zip(first.measurements, second.measurements, strict=True):
        assert one.values.dtype == other.values.dtype and one.noise == other.noise
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.stddev, other.stddev)
    assert (first.covariance is None) == (second.covariance is None)
    if first.covariance is not None:
        np.testing.assert_array_equal(first.covariance, second.covariance)


@pytest.mark.parametrize("relation", [None, "replace-one"])
def test_every_kind_comes_back(tmp_path, relation):
    history = History(DOMAIN, every_kind(), relation=relation)
    history.save(tmp_path / "deep" / "folder")
    assert_same(History.load(tmp_path / "deep" / "folder"), history)


def test_covariances_come_back(tmp_path):
    square = [[4.0, 1.0], [1.0, 9.0]]
    history = History(DOMAIN, [pj.LinearMeasurement(("c",), [1, 2], [2.0, 3.0])], covariance=square)
    history.save(tmp_path / "h")
    assert_same(History.load(tmp_path / "h"), history)


def test_no_answers_yet(tmp_path):
    History(DOMAIN, []).save(tmp_path / "h")
    assert History.load(tmp_path / "h").num_rows == 0


def test_saving_again_is_refused(tmp_path):
    first = History(DOMAIN, every_kind())
    first.save(tmp_path / "h")
    with pytest.raises(ValueError, match="exists"):
        first.append(every_kind()[0]).save(tmp_path / "h")
    assert_same(History.load(tmp_path / "h"), first)
    assert len(os.listdir(tmp_path / "h")) == 2


def test_an_interrupt_leaves_no_history(tmp_path, monkeypatch):
    replace, calls = os.replace, []

    def once(*given):
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        replace(*given)

    monkeypatch.setattr(os, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        History(DOMAIN, every_kind()).save(tmp_path / "h")
    with pytest.raises(FileNotFoundError, match=r"history\.json"):
        History.load(tmp_path / "h")


def test_nothing_is_pickled(tmp_path):
    History(DOMAIN, every_kind()).save(tmp_path / "h")
    (arrays,) = tmp_path.glob("h/*.npz")
    with np.load(arrays, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "iuf" for name in file.files)


def test_missing_and_corrupt_files(tmp_path):
    tmp_path = tmp_path / "h"
    with pytest.raises(FileNotFoundError, match=r"folder .*h\b"):
        History.load(tmp_path)
    History(DOMAIN, every_kind()).save(tmp_path)
    (arrays,) = tmp_path.glob("*.npz")
    content = arrays.read_bytes()
    arrays.write_bytes(content[:-9])
    with pytest.raises(ValueError, match=r"corrupt: .* is not what was written under this name"):
        History.load(tmp_path)
    arrays.unlink()
    with pytest.raises(FileNotFoundError, match=r"history-.*npz"):
        History.load(tmp_path)
    arrays.write_bytes(content)
    path = tmp_path / DESCRIPTION
    description = json.loads(path.read_text())
    path.write_text(json.dumps({**description, "format_version": 99}))
    with pytest.raises(ValueError, match="99"):
        History.load(tmp_path)
    path.write_text(json.dumps({**description, "measurements": [{}]}))
    with pytest.raises(ValueError, match="corrupt"):
        History.load(tmp_path)
    path.write_text(json.dumps({**description, "relation": "nearby"}))
    with pytest.raises(ValueError, match="corrupt"):
        History.load(tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match="JSON"):
        History.load(tmp_path)
