"""Gaussian functions of encodings against their formula and kernel ridge regression."""

import numpy as np
import pytest

from pgmjax.learning import GaussianBasis

RNG = np.random.default_rng(0)
ROWS = RNG.random((30, 2))
ANSWERS = np.sin(5 * ROWS[:, 0]) * 100 + 20 * ROWS[:, 1]


def learned(fitted):
    """Return the centres and the coefficients of the functions, the constant last."""
    found = fitted.learned
    return found["centres"], np.append(found["coefficients"], found["constants"])


def test_predictions_are_the_formula():
    fitted = GaussianBasis(width=0.3, penalty=0.1).fit(ROWS, ANSWERS)
    fresh = RNG.random((5, 2))
    centres, coefficients = learned(fitted)
    distances = ((fresh[:, None] - centres[None]) ** 2).sum(axis=2)
    expected = np.exp(-distances / (2 * 0.3**2)) @ coefficients[:-1] + coefficients[-1]
    assert np.allclose(fitted.predict(fresh), expected)


def test_coefficients_solve_the_ridge_problem():
    fitted = GaussianBasis(width=0.3, penalty=0.1).fit(ROWS, ANSWERS)
    units = GaussianBasis(width=0.3, penalty=0.1).fit(ROWS, np.eye(30)).predict(ROWS)
    assert np.allclose(units.T @ ANSWERS, fitted.predict(ROWS))  # linear in the answers
    centres, coefficients = learned(fitted)
    distances = ((ROWS[:, None] - centres[None]) ** 2).sum(axis=2)
    phi = np.hstack([np.exp(-distances / 0.18), np.ones((30, 1))])
    normal = phi.T @ (phi @ coefficients - ANSWERS) + 0.1 * coefficients * (np.arange(31) < 30)
    assert np.abs(normal).max() < 1e-8


def test_unseen_queries_are_predicted_from_near_ones():
    fitted = GaussianBasis().fit(ROWS, ANSWERS)
    fresh = 0.2 + 0.6 * RNG.random((50, 2))
    truth = np.sin(5 * fresh[:, 0]) * 100 + 20 * fresh[:, 1]
    error = np.abs(fitted.predict(fresh) - truth).mean()
    assert error < 0.2 * np.abs(truth - truth.mean()).mean()


def test_centres_are_drawn_from_different_encodings():
    fitted = GaussianBasis(centres=4).fit(np.repeat(ROWS[:6], 5, axis=0), np.arange(30.0), seed=1)
    centres = learned(fitted)[0]
    assert centres.shape == (4, 2)
    assert all(any(np.array_equal(centre, row) for row in ROWS[:6]) for centre in centres)


def test_a_single_encoding_has_a_width():
    assert GaussianBasis().fit(np.ones((3, 2)), [4, 5, 6]).predict([[1, 1]])[0] == pytest.approx(5, rel=1e-9)


@pytest.mark.parametrize("settings", [{"centres": 0}, {"width": 0}, {"penalty": -1.0}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        GaussianBasis(**settings)
