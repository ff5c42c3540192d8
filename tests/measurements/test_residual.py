"""The residual basis against a pseudo-inverse over all cells, and against empirical errors."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.measurements import residual
from pgmjax.measurements.residual import MeasuredTable, ResidualAnswers, as_table
from pgmjax.queries import (
    DenseMatrix,
    WeightedSum,
    all_ranges,
    kronecker,
    marginal,
    matrix,
    mean,
    moments,
    point,
    prefix,
    total,
)

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 5})
CODES = np.array(list(itertools.product(*(np.arange(size) for size in DOMAIN.shape))))
MEASURED = [(("a", "b"), 2.0), (("c", "b"), 3.0), (("b", "c", "d"), 5.0), (("d",), 1.0), (("a", "c"), 0.7)]
INSIDE = [("a", "b"), ("c", "b"), ("b", "c", "d"), ("d",), ("a", "c"), ("a",), ("d", "b"), ("c", "d")]
OUTSIDE = [("a", "d"), ("a", "b", "c"), ("a", "b", "c", "d")]
RNG = np.random.default_rng(0)
TRUE = RNG.integers(0, 50, len(CODES))
QUERIES = [
    kronecker({"a": prefix(), "d": prefix()}),  # determined where either is the whole
    kronecker({"a": total(), "d": all_ranges()}),
    kronecker({"a": total(), "b": prefix(), "d": point(2)}),
    kronecker({"c": mean([1.0, -1.0]), "a": point(1)}),
    kronecker({"a": mean([0.1, 0.1, 0.1]), "d": point(1)}),  # constant up to rounding
    kronecker({"b": matrix(RNG.normal(size=(3, 4))), "c": moments(2)}),
    WeightedSum([(1, kronecker({"a": point(k), "d": point(1)})) for k in range(3)]),  # sums to a marginal
    WeightedSum(
        [(2, kronecker({"a": point(0), "d": point(1)})), (-1, kronecker({"a": point(1), "d": point(1)}))]
    ),
    DenseMatrix(("d", "b"), RNG.normal(size=(3, 20))),
    DenseMatrix(("a", "d"), RNG.normal(size=(2, 15))),
]


def dense(query):
    """A query's matrix over all cells of the domain [rows, cells]."""
    places = [DOMAIN.attributes.index(name) for name in query.clique]
    cell = np.ravel_multi_index(CODES[:, places].T, DOMAIN.shape_of(query.clique))
    return query.matrix(DOMAIN)[:, cell].astype(float)


def measurements():
    drawn = [dense(marginal(c)) @ TRUE for c, _ in MEASURED]
    noise = [s * RNG.normal(size=len(d)) for d, (_, s) in zip(drawn, MEASURED, strict=True)]
    parts = zip(MEASURED, drawn, noise, strict=True)
    return [pj.LinearMeasurement(clique, exact + error, s) for (clique, s), exact, error in parts]


def by_pseudo_inverse(noisy, query):
    """Values, variances and whether they are determined."""
    spread = np.concatenate([m.row_stddevs() for m in noisy])
    rows = np.concatenate([dense(m.query) for m in noisy]) / spread[:, None]
    values = np.concatenate([m.flat_values() for m in noisy]) / spread
    wanted = dense(query)
    combined = wanted @ np.linalg.pinv(rows, rcond=1e-12)
    left = np.linalg.norm(combined @ rows - wanted, axis=1)
    known = left <= 1e-8 * np.linalg.norm(wanted, axis=1)
    return combined @ values, np.square(combined).sum(axis=1), known


@pytest.mark.parametrize("query", [*map(marginal, INSIDE + OUTSIDE), *QUERIES], ids=str)
def test_answers_are_those_of_the_pseudo_inverse(query):
    noisy = measurements()
    values, variances, known = by_pseudo_inverse(noisy, query)
    found = ResidualAnswers(DOMAIN, [as_table(DOMAIN, m) for m in noisy]).answers(query)
    assert (found.determined == known).all()
    assert np.allclose(found.values[known], values[known], rtol=1e-12, atol=1e-12 * np.abs(TRUE).sum())
    assert np.allclose(found.variances[known], variances[known], rtol=1e-12)
    assert np.isnan(found.values[~known]).all()  # no number for what is not determined


def test_a_marginal_is_determined_if_one_measured_marginal_contains_it():
    """Not by its parts: of a, b, c every pair was measured."""
    found = ResidualAnswers(DOMAIN, [as_table(DOMAIN, m) for m in measurements()])
    assert all(found.answers(marginal(c)).determined.all() for c in INSIDE)
    assert not any(found.answers(marginal(c)).determined.any() for c in OUTSIDE)


def test_stated_variances_are_those_of_the_errors():
    asked, errors = [marginal(("b",)), kronecker({"b": prefix(), "d": prefix()})], [[], []]
    for _ in range(1000):
        found = ResidualAnswers(DOMAIN, [as_table(DOMAIN, m) for m in measurements()])
        answers = [found.answers(query) for query in asked]
        for kept, answer, query in zip(errors, answers, asked, strict=True):
            kept.append((answer.values - dense(query) @ TRUE) ** 2 / answer.variances)
    for kept in errors:  # a mean of squares of standard Gaussians has the variance 2 / 1000
        assert (np.abs(np.mean(kept, axis=0) - 1) < 5 * np.sqrt(2 / 1000)).all()


def test_exact_tables_have_no_noise_and_outweigh_all_others():
    noisy = [as_table(DOMAIN, m) for m in measurements()]
    exact = TRUE.reshape(DOMAIN.shape).sum(axis=(1, 2)).astype(float)
    found = ResidualAnswers(DOMAIN, [*noisy, MeasuredTable(("a", "d"), exact, 0.0)])
    known = found.answers(marginal(("a", "d")))
    assert np.allclose(known.values, exact.ravel()) and (known.variances == 0).all()
    without, having = (each.answers(marginal(("d", "b"))) for each in (ResidualAnswers(DOMAIN, noisy), found))
    assert (having.variances < without.variances).all()


def test_totals_and_attributes_of_one_value_are_no_axes():
    domain = pj.Domain({"a": 3, "one": 1, "b": 2})
    counted = pj.LinearMeasurement(("a", "b"), [1.0, 2, 3], 2.0, {"b": "total"})
    found = ResidualAnswers(domain, [as_table(domain, counted)])
    assert found.answers(marginal(("one", "a"))).values.tolist() == [1, 2, 3]
    assert not found.answers(marginal(("b",))).determined.any()
    assert as_table(domain, pj.LinearMeasurement(("a",), [1, 2, 3], 1.0, "prefix")) is None
    assert as_table(domain, pj.LinearMeasurement(("a",), [1, 2, 3], [1.0, 1.0, 2.0])) is None


def test_wide_tables_need_no_domain_and_large_answers_are_refused(monkeypatch):
    domain = pj.Domain({f"x{k}": 10 for k in range(40)})
    tables = [MeasuredTable(pair, np.full((10, 10), 5.0), 4.0) for pair in itertools.combinations(domain, 2)]
    found = ResidualAnswers(domain, tables)
    asked = kronecker({name: point(0) for name in domain})  # 10 ** 40 cells
    assert not found.answers(asked).determined.any()
    two = {name: point(0) if name in ("x3", "x7") else total() for name in domain}
    best = found.answers(kronecker(two))
    # averages of 780 totals, of 39 columns each, and of one pair
    variance = 400 / 780 / 1e4 + 2 * (0.9 / 100) * 40 / 39 + 0.81 * 4
    assert best.values[0] == pytest.approx(5) and best.variances[0] == pytest.approx(variance, rel=1e-12)
    monkeypatch.setattr(residual, "MOST_READ", 100)
    assert ResidualAnswers(domain, tables).answers(marginal(("x3", "x7"))) is None
