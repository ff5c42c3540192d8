"""Approximate fits are chosen where no exact plan fits or it takes hours, and say what they are."""

import itertools
import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation import approximate, problem
from pgmjax.model.mixture import MixtureModel
from pgmjax.model.regions import RegionModel

SIZE, COUNT = 4, 24  # all pairs: an exact model needs tables of some 4**23 cells
DOMAIN = pj.Domain({f"q{i:02d}": SIZE for i in range(COUNT)})
PAIRS = list(itertools.combinations(DOMAIN.attributes, 2))
BYTES = 8_000_000


def noisy(seed=0, rows=2000, stddev=10.0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, rows)
    codes = np.where(rng.random((rows, COUNT)) < 0.6, (kind[:, None] + np.arange(COUNT)) % SIZE, 0)
    made = []
    for a, b in itertools.combinations(range(COUNT), 2):
        table = np.zeros((SIZE, SIZE))
        np.add.at(table, (codes[:, a], codes[:, b]), 1)
        values = table + rng.normal(0, stddev, table.shape)
        made.append(pj.LinearMeasurement(PAIRS[len(made)], values, stddev))
    return made, rows


def fitted(choice, **settings):
    made, rows = noisy()
    settings = {"max_bytes": BYTES, "max_steps": 200, "progress": False, **settings}
    estimator = pj.Estimator(approximate=choice, **settings)
    return estimator.fit(DOMAIN, made, total=rows)


def test_an_exact_fit_is_refused_with_a_way_out():
    with pytest.raises(pj.ModelTooLargeError, match=r"approximate=True"):
        fitted(False)


def test_the_planner_takes_belief_propagation_and_its_bound_holds_for_every_table():
    fit = fitted(True)
    assert fit.method == approximate.CONVEX and isinstance(fit.model, RegionModel) and fit.plan is None
    made, rows = noisy()
    # the table that the noise was added to is one of those that the bound speaks of
    clean, _ = noisy(stddev=1e-12)
    truth = sum(
        0.5 * float(np.sum(((t.values - m.values) / 10.0) ** 2)) for t, m in zip(clean, made, strict=True)
    )
    assert fit.loss - fit.gap <= truth
    for clique in PAIRS[:5]:
        assert math.isclose(fit.model.marginal(clique).sum(), rows, rel_tol=1e-9)


def test_a_mixture_by_name():
    fit = fitted("mixture")
    assert fit.method == approximate.MIXTURE and isinstance(fit.model, MixtureModel)
    assert fit.gap == math.inf
    assert len(fit.model.sample(10, seed=0)["q00"]) == 10


def test_what_fits_is_fitted_exactly_whatever_is_allowed():
    made, rows = noisy()
    fit = pj.Estimator(approximate=True, progress=False).fit(DOMAIN, made[:3], total=rows)
    assert fit.method == "exact" and isinstance(fit.model, pj.GraphicalModel)


def test_a_fit_that_would_take_hours_is_approximate_only_where_that_is_allowed(monkeypatch):
    made, rows = noisy()
    steps = 20
    needed = pj.Estimator(max_steps=steps).plan(DOMAIN, PAIRS[:3]).seconds
    per_call = pj.Estimator(max_steps=1).plan(DOMAIN, PAIRS[:3]).seconds
    assert math.isclose(needed, steps * per_call)  # on the host: nothing is compiled
    fixed = pj.FixedMarginal(("q00",), [rows / SIZE] * SIZE)

    def method(choice, longest, constraints=(), **settings):
        for module in (approximate, problem):
            monkeypatch.setattr(module, "LONGEST", longest)
        estimator = pj.Estimator(approximate=choice, max_steps=steps, progress=False, **settings)
        return estimator.fit(DOMAIN, made[:3], total=rows, constraints=constraints).method

    allowed = {True: approximate.CONVEX, "convex": approximate.CONVEX, "mixture": approximate.MIXTURE}
    for choice, expected in allowed.items():
        assert method(choice, 0.99 * needed) == expected
    assert method(True, 1.01 * needed) == "exact"
    with pytest.warns(UserWarning, match="forecast to take up to 0 hours: ask for fewer or smaller ones"):
        assert method(False, 0.0) == "exact"
    # what the approximation lacks leaves the fit exact: it is slow, not impossible
    assert method(True, 0.0, [fixed]) == "exact"


def test_what_only_exact_fits_hold_is_refused():
    made, _ = noisy()
    fixed = pj.FixedMarginal(("q00",), [500] * 4)
    estimator = pj.Estimator(approximate=True, max_bytes=BYTES, progress=False)
    with pytest.raises(ValueError, match="impossible cells only"):
        estimator.fit(DOMAIN, made, constraints=[fixed])
    with pytest.raises(ValueError, match="approximate"):
        pj.Estimator(approximate="loopy")


def test_what_is_no_method_is_refused():
    for wrong in (1, 0, np.ones(2)):
        with pytest.raises(ValueError, match="approximate"):
            pj.Estimator(approximate=wrong)
