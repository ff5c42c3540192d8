"""The closed form of single tables by which draws were tuned is what draws do."""

import importlib
import pathlib

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.uncertainty import posterior

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the tests run apart from the source tree")


def test_single_tables_are_fitted_as_draws_are(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    emptied = importlib.import_module("emptied")
    rng, domain = np.random.default_rng(0), pj.Domain({"x": 5, "y": 4})
    values = rng.multinomial(emptied.RECORDS, rng.dirichlet(np.full(20, 0.2)), 3) + rng.normal(0, 60, (3, 20))
    rows = [[pj.LinearMeasurement(("x", "y"), each, 60.0)] for each in values]
    exact = pj.Estimator(regularisation="none", dtype="float64", tol=1e-9, max_steps=20_000, progress=False)

    def fitted(given, before):
        return [exact.fit(domain, row, emptied.RECORDS).model for row in given]

    found = [model.marginal(("x", "y")).reshape(-1) for model in posterior.debiased(rows, fitted)]
    wanted = emptied.fitted(values, (5, 4), 60.0, posterior.ROUNDS, posterior.DEGREE)
    assert (wanted == 0).any() and (wanted != emptied.projected(values)).any()
    np.testing.assert_allclose(found, wanted, atol=0.5)  # records, of 5,000
