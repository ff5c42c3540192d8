"""The two error terms against brute force, and the choice they lead to."""

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning.training_set import _OTHER_SEED, ErrorTerms, error_terms, training_query

DOMAIN = Domain({"x": 12, "y": 2})
XY = ("x", "y")


def laplace(cover, epsilon=1.0):
    return 2 * (cover / epsilon) ** 2


@pytest.mark.parametrize("training", ["random", "random_subsets"])
@pytest.mark.parametrize("concentration", [1.0, 0.05])
def test_both_terms_are_what_least_squares_errs(training, concentration):
    """Against explicit pseudo-inverses, and 4,000 Dirichlet histograms, 6 standard errors."""
    terms = error_terms(
        training,
        XY,
        DOMAIN,
        records=300,
        noise_variance=laplace,
        concentration=concentration,
        most=40,
        seed=3,
    )
    rows = training_query(training, XY, DOMAIN, count=40, seed=3).matrix(DOMAIN).astype(float)
    fresh = {"count": 234 if training == "random" else 256, "seed": 3 + _OTHER_SEED}
    asked = training_query(training, XY, DOMAIN, **fresh).matrix(DOMAIN).astype(float)
    tables = 300 * np.random.default_rng(0).dirichlet(np.full(24, concentration), 4000)
    for count, noise, model in zip(terms.counts, terms.noise, terms.model, strict=True):
        weights = asked @ np.linalg.pinv(rows[:count])
        cover = rows[:count].sum(axis=0).max()
        assert noise == pytest.approx(laplace(cover) * (weights**2).sum() / len(asked), rel=1e-6)
        missed = ((tables @ (weights @ rows[:count] - asked).T) ** 2).mean(axis=1)
        assert abs(missed.mean() - model) < 6 * missed.std() / np.sqrt(4000) + 1e-6


def test_less_budget_asks_fewer_queries():
    best = [
        error_terms(
            "random", ("x",), Domain({"x": 512}), records=5000, noise_variance=lambda c, e=e: laplace(c, e)
        ).best
        for e in (0.05, 0.5, 5.0)
    ]
    assert best == sorted(best) and best[0] < best[-1]


def test_the_least_sum_is_taken():
    assert ErrorTerms((1, 2, 3), (1.0, 2.0, 9.0), (9.0, 2.0, 1.0)).best == 2


def test_small_domains_and_wrong_numbers():
    tiny = error_terms("random", ("y",), DOMAIN, records=5, noise_variance=laplace)
    assert max(tiny.counts) == 3
    with pytest.raises(ValueError, match="expected number of records"):
        error_terms("random", ("y",), DOMAIN, records=0, noise_variance=laplace)
    with pytest.raises(ValueError, match="concentration"):
        error_terms("random", ("y",), DOMAIN, records=5, noise_variance=laplace, concentration=0)
