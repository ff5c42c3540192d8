"""Marginals under their labels: every cell stands where its labels say, for every model."""

import itertools
import sys

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax.model.base import Model

DOMAIN = pj.Domain(
    {
        "sex": {"labels": ["F", "M"], "missing": "?"},
        "age": {"min": 0, "max": 39, "step": 20},
        "day": {"from": "2020-01-01", "to": "2020-03-31", "step": "month"},
        "flag": {"labels": [True, False]},
        "code": 3,
        "job": {"labels": ["cook", "missing"], "other": True, "missing": True},
    }
)
VALUES = {
    "sex": ["F", "M", "missing"],
    "age": ["0 to 19", "20 to 39"],
    "day": ["2020-01", "2020-02", "2020-03"],
    "flag": [True, False],
    "code": [0, 1, 2],
    "job": ["cook", "missing", "other", "(missing)"],
}


def noisy(clique):
    size = DOMAIN.size(clique)
    return pj.LinearMeasurement(clique, np.arange(1.0, 1.0 + size), stddev=1.0)


@pytest.fixture(scope="module")
def models():
    measured = [noisy(("sex", "age")), noisy(("age", "job")), noisy(("day", "flag", "code"))]
    exact = pj.Estimator(max_steps=20, progress=False).fit(DOMAIN, measured, total=100).model
    return {
        "graphical": exact,
        "calibrated": exact.calibrate(),
        "region": pj.estimation.fit_local(DOMAIN, measured, 100, max_steps=5, progress=False).model,
        "mixture": pj.estimation.fit_mixture(
            DOMAIN, measured, 100, components=5, max_steps=5, progress=False
        ).model,
    }


@pytest.mark.parametrize("kind", ["graphical", "calibrated", "region", "mixture"])
@pytest.mark.parametrize("clique", [("sex",), ("job",), ("code", "sex"), ("flag", "day", "job")])
def test_every_cell_stands_under_its_labels(models, kind, clique):
    plain, found = models[kind].marginal(clique), models[kind].marginal(clique, labelled=True)
    assert isinstance(plain, np.ndarray) and isinstance(found, pd.Series)
    assert found.dtype == np.float64 and found.name == "count" and list(found.index.names) == list(clique)
    assert len(found) == plain.size and found.index.is_unique
    for cell in itertools.product(*(range(DOMAIN[name]) for name in clique)):
        labels = tuple(VALUES[name][code] for name, code in zip(clique, cell, strict=True))
        assert found.loc[labels if len(labels) > 1 else labels[0]] == plain[cell]


def test_sums_over_labels_are_marginals(models):
    model = models["graphical"]
    pair, alone = model.marginal(("sex", "age"), labelled=True), model.marginal(("age",), labelled=True)
    np.testing.assert_allclose(pair.groupby("age").sum()[alone.index], alone)
    assert pair.unstack("age").loc["M", "20 to 39"] == model.marginal(("sex", "age"))[1, 1]


def test_models_are_still_models_and_names_are_checked(models):
    assert all(isinstance(models[kind], Model) for kind in ("graphical", "region", "mixture"))
    for model in models.values():
        with pytest.raises(ValueError, match="'nope'"):
            model.marginal(("nope",), labelled=True)


def test_pandas_is_asked_for_when_it_is_needed(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert models["graphical"].marginal(("sex",)).shape == (3,)
    with pytest.raises(ImportError, match=r"pandas.*pgmjax\[demo\]"):
        models["graphical"].marginal(("sex",), labelled=True)
