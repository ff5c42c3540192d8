"""Best linear unbiased estimates against dense algebra, row by row, over cells and over spans."""

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.history.bayes import blue as module
from pgmjax.history.bayes.blue import BestLinearUnbiased, NotEstimableError
from pgmjax.history.history import History
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.queries import Product, marginal, point, prefix

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})


def random_problem(rows=30, cells=6, rank=None, seed=0):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, (rows, cells)).astype(float)
    if rank is not None:
        matrix = rng.integers(-2, 3, (rows, rank)) @ rng.integers(-1, 2, (rank, cells)).astype(float)
    scales = rng.uniform(0.5, 20, rows)
    return matrix, rng.normal(size=rows) * 10, scales


def dense(matrix, values, variances, targets):
    """Generalised least squares by the pseudo-inverse: estimates, combination, variances."""
    weighted = matrix.T / variances
    inverse = np.linalg.pinv(weighted @ matrix, rcond=1e-10)
    combination = targets @ inverse @ weighted
    return combination @ values, combination, np.diag(targets @ inverse @ targets.T)


def history():
    rng, distribution = np.random.default_rng(0), DiscreteLaplace(3.0)
    queries = [marginal(["a", "b"]), Product({"c": prefix()}), marginal(["b", "c"])]
    values = [rng.integers(0, 50, query.num_rows(DOMAIN)) for query in queries]
    return History(
        DOMAIN, [LinearMeasurement.released(q, v, distribution) for q, v in zip(queries, values, strict=True)]
    )


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("continuous", [True, False])
def test_estimates_are_those_of_generalised_least_squares(rank, continuous):
    matrix, values, scales = random_problem(rank=rank)
    blue = BestLinearUnbiased.from_matrix(matrix, values, scales, continuous=continuous)
    variances = 2 * scales**2 if continuous else np.array([DiscreteLaplace(s).variance for s in scales])
    targets = matrix[:3] + matrix[5:8]
    expected, combination, spreads = dense(matrix, values, variances, targets)
    np.testing.assert_allclose(blue.combination(targets), combination, atol=1e-9)
    np.testing.assert_allclose(blue.variances(targets), spreads, rtol=1e-9)
    np.testing.assert_allclose(blue.combination(targets) @ matrix, targets, atol=1e-9)  # unbiased
    answer = blue.answer(targets[0])
    assert answer.value == pytest.approx(expected[0]) and answer.variance == pytest.approx(spreads[0])
    np.testing.assert_allclose(targets @ blue.estimate, expected, atol=1e-8)
    assert (blue.information.null is None) == (rank is None)


def test_no_other_unbiased_combination_has_less_variance():
    matrix, values, scales = random_problem(rows=12)
    blue = BestLinearUnbiased.from_matrix(matrix, values, scales)
    target = np.ones(6)
    best = blue.combination(target)[0]
    variances = np.array([distribution.variance for distribution in blue.distributions])
    null = np.linalg.svd(matrix.T)[2][6:]  # combinations of answers that tell nothing
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = best + rng.normal(size=6) @ null
        assert (other**2) @ variances >= (best**2) @ variances


@pytest.mark.parametrize("rank", [None, 3])
def test_rows_one_by_one_equal_all_at_once(rank):
    matrix, values, scales = random_problem(rows=90, rank=rank, seed=3)
    grown = BestLinearUnbiased.from_matrix(matrix[:2], values[:2], scales[:2])
    for row, value, scale in zip(matrix[2:], values[2:], scales[2:], strict=True):
        before = grown
        grown = grown.append(row, value, scale)
        inside = before.is_estimable(matrix[:1])[0]
        if inside:  # more answers never make an estimate worse
            assert grown.variances(matrix[:1])[0] <= before.variances(matrix[:1])[0] * (1 + 1e-9)
    whole = BestLinearUnbiased.from_matrix(matrix, values, scales)
    np.testing.assert_allclose(grown.estimate, whole.estimate, atol=1e-8)
    np.testing.assert_allclose(grown.information.inverse, whole.information.inverse, atol=1e-9)


def test_an_inconsistent_or_missing_direction_is_named():
    blue = BestLinearUnbiased.from_matrix([[1, 1, 0], [0, 0, 1]], [5, 3], 2.0)
    with pytest.raises(NotEstimableError, match=r"1 of 2 targets.* target 1\b.*cell") as caught:
        blue.combination([[1, 1, 1], [1, 0, 0]])
    np.testing.assert_allclose(caught.value.direction, [0.5, -0.5, 0])
    assert blue.is_estimable([[1, 1, 1], [1, 0, 0]]).tolist() == [True, False]
    biased = blue.answer([1, 0, 0], biased=True)
    assert biased.biased and biased.value == pytest.approx(2.5)  # the least norm splits evenly
    assert not blue.answer([1, 1, 0], biased=True).biased
    joint = blue.answers([[1, 0, 0], [1, 1, 0]], biased=True)
    assert [joint[k].biased for k in (0, 1)] == [True, False]
    assert not blue.answers([[1, 1, 0]])[0].biased


def test_a_history_over_cells_and_over_its_span_agree(monkeypatch):
    asked = [marginal(["b"]), Product({"a": point(1), "b": point(0)}), marginal(["c"])]
    over_cells = BestLinearUnbiased.of(history())
    monkeypatch.setattr(module, "MAX_CELLS", 1)
    over_span = BestLinearUnbiased.of(history())
    assert over_span.rows.shape[1] < DOMAIN.size()
    for query in asked:
        np.testing.assert_allclose(over_span.combination(query), over_cells.combination(query), atol=1e-9)
        np.testing.assert_allclose(over_span.variances(query), over_cells.variances(query), rtol=1e-8)
    missing = Product({"a": point(0), "c": point(2)})
    assert not over_span.is_estimable(missing)[0] and not over_cells.is_estimable(missing)[0]
    with pytest.raises(NotEstimableError, match="do not tell the effect of a x c"):
        over_span.answer(missing)
    with pytest.raises(NotEstimableError, match=r"\(a=0, b=0, c=2\)"):
        over_cells.answer(missing)
    near = [blue.answer(missing, biased=True).value for blue in (over_cells, over_span)]
    assert near[0] == pytest.approx(near[1])
    grown = [blue.append(missing, 7.0, DiscreteGaussian(2.0)) for blue in (over_cells, over_span)]
    for query in (missing, marginal(["b"])):
        np.testing.assert_allclose(grown[0].combination(query), grown[1].combination(query), atol=1e-8)
    with pytest.raises(TypeError, match=r"pgmjax\.queries.*float64"):
        over_span.answer(np.ones(24))


def test_correlated_gaussian_noise():
    rng = np.random.default_rng(5)
    spread = rng.normal(size=(4, 4))
    covariance = spread @ spread.T + 4 * np.eye(4)
    measured = LinearMeasurement(("c",), [5.0, 6, 7, 8], np.sqrt(np.diag(covariance)))
    kept = History(Domain({"c": 4}), [measured], covariance=covariance)
    blue = BestLinearUnbiased.of(kept)
    total = blue.answer(np.ones(4))
    assert total.value == pytest.approx(26) and total.variance == pytest.approx(covariance.sum())
    assert total.half_width(0.95) == pytest.approx(1.959964 * np.sqrt(covariance.sum()), rel=1e-6)
    with pytest.raises(ValueError, match="independent noise only"):
        blue.append(np.ones(4), 1.0, 2.0)
    with pytest.raises(ValueError, match="joint distributions need independent noise"):
        blue.answers(np.eye(4))
    laplace = LinearMeasurement(("c",), [5.0, 6, 7, 8], measured.stddev, noise="laplace")
    with pytest.raises(ValueError, match="is not Gaussian"):
        BestLinearUnbiased.of(History(Domain({"c": 4}), [laplace], covariance=covariance))
    mixed = kept.append(LinearMeasurement.released(marginal(["c"]), [5, 6, 7, 8], DiscreteLaplace(1.0)))
    with pytest.raises(ValueError, match=r"has a covariance of its noise, and that .* is not Gaussian"):
        BestLinearUnbiased.of(mixed)


def test_distributions_must_be_known_or_taken_by_name():
    kept = History(Domain({"c": 4}), [LinearMeasurement(("c",), [5, 6, 7, 8], 3.0, noise="laplace")])
    with pytest.raises(ValueError, match=r"is not known, and a standard deviation does not tell it"):
        BestLinearUnbiased.of(kept)
    answer = BestLinearUnbiased.of(kept, continuous=True).answer([1, 0, 0, 0])
    assert answer.variance == pytest.approx(9)
    assert answer.half_width(0.95) == pytest.approx(3 / np.sqrt(2) * np.log(20))


def test_bad_input():
    with pytest.raises(ValueError, match=r"finite numbers \[answers, cells\], got shape \(2,\)"):
        BestLinearUnbiased.from_matrix([1.0, 2.0], [1.0], 1.0)
    with pytest.raises(ValueError, match="expected 1 finite answers"):
        BestLinearUnbiased.from_matrix([[1.0]], [np.nan], 1.0)
    with pytest.raises(ValueError, match="row 0"):
        BestLinearUnbiased.from_matrix([[1.0]], [1.0], 0.0)
    with pytest.raises(ValueError, match=r"distribution.*2"):
        BestLinearUnbiased.from_matrix([[1.0]], [1.0], [1.0, 2.0])
    blue = BestLinearUnbiased.from_matrix([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match=r"\[targets, 2 cells\], got shape \(3,\)"):
        blue.answer([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="one row, got 2: use answers"):
        blue.answer(np.eye(2))
    with pytest.raises(ValueError, match="plain matrix"):
        blue.answer(marginal(["a"]))
    with pytest.raises(ValueError, match="the appended answer must be finite"):
        blue.append([1.0, 1.0], np.inf, 1.0)


def test_noise_that_is_zero_is_refused_by_its_answer():
    with pytest.raises(ValueError, match="answer 2 of 3 has noise that is 0"):
        BestLinearUnbiased.from_matrix(np.eye(3), [1, 2, 3], [1.0, 1e-6, 1.0])
