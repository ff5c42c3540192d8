"""The rivals of maximum entropy in bench/paper000: the paper's learner and two randomised responses."""

import pathlib
import sys

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.history import History, MaxEntropy
from pgmjax.measurements.noise import DiscreteLaplace

FOLDER = pathlib.Path(__file__).parent.parent.parent / "bench" / "paper000"
SIZES = {"a": 3, "b": 4, "c": 2}
ROWS = 40_000


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("paper_learner", "response"):
        sys.modules.pop(name, None)


def test_the_papers_learner_comes_close_to_the_optimum():
    import paper_learner

    domain = Domain(SIZES)
    rng = np.random.default_rng(0)
    attributes = np.array([[0, 1], [1, 2], [0, 2], [0, 1]])
    low = np.array([[0, 1], [2, 0], [1, 1], [1, 0]])
    high = np.array([[1, 3], [3, 0], [2, 1], [1, 1]])
    names = domain.attributes
    asked = [
        q.Product({names[k]: q.range(int(x), int(y)) for k, x, y in zip(*each, strict=True)})
        for each in zip(attributes, low, high, strict=True)
    ]
    values = np.round(1000 * rng.random(4) * 0.6).astype(int)
    history = History.from_answers(domain, asked, values, distribution=DiscreteLaplace(20.0))
    box = 0.02 * 1000 / 20.0
    ranges = paper_learner.Ranges(tuple(SIZES.values()), attributes, low, high)
    weights, seconds = paper_learner.learn(ranges, values / 1000, box, iterations=50_000, rate=1e-3)
    assert seconds > 0 and (np.abs(weights) <= box + 1e-6).all()
    settings = MaxEntropy(alpha=0.02, tol=1e-9)
    best = settings.fit(history, 1000).objective
    assert settings.dual(history, 1000).at(np.clip(weights, -box, box)).value == pytest.approx(best, abs=5e-3)


def table():
    rng = np.random.default_rng(1)
    a = rng.choice(3, ROWS, p=[0.6, 0.3, 0.1])
    return {"a": a, "b": (a + rng.integers(2, size=ROWS)) % 4, "c": (rng.random(ROWS) < 0.2).astype(int)}


@pytest.mark.parametrize("kind", ["Retention", "Flipping"])
def test_estimates_from_randomised_responses_are_unbiased(kind):
    import response

    columns = table()
    found = [getattr(response, kind).of(columns, SIZES, 6.0, seed) for seed in range(8)]
    asked = [{"a": (0, 1), "b": (1, 2)}, {"c": (1, 1)}]
    exact = np.zeros((3, 4))
    np.add.at(exact, (columns["a"], columns["b"]), 1 / ROWS)
    tables = np.array([response.joint(each, ("a", "b"), ROWS) for each in found])
    shares = np.array([response.ranges(each, asked, ROWS) for each in found])
    for estimates, truth in ((tables, exact), (shares, [exact[:2, 1:3].sum(), columns["c"].mean()])):
        error = estimates.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert (np.abs(estimates.mean(axis=0) - truth) <= 6 * error).all()


def test_the_odds_of_an_attribute_are_its_share_of_the_budget():
    """Retention: a value over another one; flipping: two bits; both exp(epsilon / attributes)."""
    import response

    gamma = np.exp(2.0 / 3)
    kept = response.Retention._kept(gamma, 4)
    assert (kept + (1 - kept) / 4) / ((1 - kept) / 4) == pytest.approx(gamma)
    flip = response.Flipping.of(table(), SIZES, 2.0, 0).flip
    assert ((1 - flip) / flip) ** 2 == pytest.approx(gamma)
