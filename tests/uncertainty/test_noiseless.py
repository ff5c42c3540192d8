"""Impossible cells in least squares, against a dense pseudo-inverse over the possible cells."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.queries import DenseMatrix, kronecker, marginal, point, prefix
from pgmjax.uncertainty import laplace, linear
from pgmjax.uncertainty.queries import zeros_of
from tests.uncertainty.structures import CELLS, DOMAIN, QUERIES, dense, least_squares, measurements

ASKED = [
    *QUERIES,
    marginal(("a", "d")),
    kronecker({"b": prefix(), "d": prefix()}),
    marginal(("b", "c", "a")),
    marginal(("d", "c")),
]
FUNCTION = np.zeros((4, 2), bool)  # d follows from c
FUNCTION[range(4), [0, 1, 1, 0]] = True
PAIR = np.array([[True, False, True, True], [True, True, False, False], [False, True, True, True]])  # a, c
ZEROS = {
    "none": [],
    "of a measured pair": [pj.StructuralZeros(("b", "a"), [[True, False, True], [True, True, True]])],
    "a function": [pj.StructuralZeros(("c", "d"), FUNCTION)],
    "of an unmeasured pair": [pj.StructuralZeros(("a", "c"), PAIR)],
    "a value": [pj.StructuralZeros(("b",), [True, False])],
    "that imply others": [
        pj.StructuralZeros(("a", "c"), PAIR),
        pj.StructuralZeros(("c", "d"), FUNCTION),
        pj.StructuralZeros(("a", "b"), [[True, False], [True, True], [False, True]]),
    ],
    "of three": [pj.StructuralZeros(("a", "b", "c"), np.random.default_rng(2).random((3, 2, 4)) < 0.5)],
    "one cell": [pj.StructuralZeros(("c", "a"), np.arange(12).reshape(4, 3) == 7)],
}


def possible(zeros):
    """Which cells of the domain may hold records [cells]."""
    found = np.ones(len(CELLS), bool)
    for one in zeros:
        found &= one.allowed[tuple(CELLS[:, DOMAIN.attributes.index(name)] for name in one.clique)]
    return found


def by_cells(noisy, zeros, total, fixed=()):
    """Values, deviations and whether determined, by matrices with a column for each possible cell.

    Counts that meet `exact @ counts == told` are one such vector and anything in the null space of `exact`.
    """
    keep = possible(zeros)
    deviations = np.concatenate([m.row_stddevs() for m in noisy])
    matrix = np.concatenate([dense(m.query) for m in noisy])[:, keep] / deviations[:, None]
    values = np.concatenate([m.flat_values() for m in noisy]) / deviations
    rows = np.concatenate([dense(query) for query in ASKED])[:, keep]
    exact = np.concatenate(
        [np.ones((int(total is not None), keep.sum())), *(dense(marginal(f.clique))[:, keep] for f in fixed)]
    )
    told = np.concatenate([[total] if total is not None else [], *(f.counts.ravel() for f in fixed)])
    one = np.linalg.pinv(exact) @ told
    free = np.eye(keep.sum()) - np.linalg.pinv(exact) @ exact
    combination = rows @ free @ np.linalg.pinv(matrix @ free, rcond=1e-10)
    determined = np.linalg.norm((combination @ matrix - rows) @ free, axis=1) < 1e-8
    found = rows @ one + combination @ (values - matrix @ one)
    return found, np.linalg.norm(combination, axis=1), determined


@pytest.mark.parametrize("total", [None, 2000.0])
@pytest.mark.parametrize(
    ("small", "name"),
    [*((True, name) for name in ZEROS), (False, "a function"), (False, "that imply others")],
)
def test_equals_a_pseudo_inverse_over_the_possible_cells(monkeypatch, name, total, small):
    if not small:
        monkeypatch.setattr(linear, "_DENSE", 0)
    zeros = ZEROS[name]
    values, stddevs, determined = by_cells(measurements(), zeros, total)
    got = least_squares(DOMAIN, measurements(), ASKED, total, zeros)
    assert (got.determined == determined).all() and determined.any()
    assert np.allclose(got.values[determined], values[determined], rtol=1e-7, atol=1e-7)
    assert np.allclose(got.stddevs[determined], stddevs[determined], rtol=1e-7, atol=1e-9)
    ruled_out = ~np.concatenate([dense(query) for query in ASKED])[:, possible(zeros)].any(axis=1)
    assert np.allclose(got.values[ruled_out], 0, atol=1e-9) and (got.stddevs[ruled_out] == 0).all()


@pytest.mark.parametrize(
    ("small", "name"),
    [(True, "none"), (True, "a function"), (True, "that imply others"), (False, "of a measured pair")],
)
def test_fixed_marginals_are_measurements_without_noise(monkeypatch, name, small):
    if not small:
        monkeypatch.setattr(linear, "_DENSE", 0)
    zeros = ZEROS[name]
    counts = np.where(possible(zeros), np.random.default_rng(4).integers(1, 50, len(CELLS)), 0)
    fixed = [
        pj.FixedMarginal(clique, (dense(marginal(clique)) @ counts).reshape(DOMAIN.shape_of(clique)))
        for clique in (("d", "a"), ("b",), ("a",))
    ]
    values, stddevs, determined = by_cells(measurements(), zeros, None, fixed)
    got = least_squares(DOMAIN, measurements(), ASKED, float(counts.sum()), zeros, fixed)
    assert (got.determined == determined).all() and determined.any()
    assert np.allclose(got.values[determined], values[determined], rtol=1e-7, atol=1e-7)
    assert np.allclose(got.stddevs[determined], stddevs[determined], rtol=1e-7, atol=1e-7)
    without = least_squares(DOMAIN, measurements(), ASKED, None, zeros)
    seen = without.determined
    assert got.determined[seen].all() and (got.stddevs[seen] <= without.stddevs[seen] + 1e-9).all()
    assert got.stddevs[got.determined].min() < 1e-9 < without.stddevs[seen].max()


def test_zeros_determine_more_and_never_widen():
    plain = least_squares(DOMAIN, measurements(), ASKED)
    gains = 0
    for zeros in ZEROS.values():
        got = least_squares(DOMAIN, measurements(), ASKED, zeros=zeros)
        assert got.determined[plain.determined].all()
        assert (got.stddevs[plain.determined] <= plain.stddevs[plain.determined] * (1 + 1e-9)).all()
        gains += int((got.determined & ~plain.determined).sum())
    assert gains > 0


def test_more_coordinates_than_allowed_are_left_as_without_zeros(monkeypatch):
    monkeypatch.setattr(linear, "MAX_COORDINATES", 3)
    plain = least_squares(DOMAIN, measurements(), ASKED, 2000.0)
    got = least_squares(DOMAIN, measurements(), ASKED, 2000.0, ZEROS["of three"])
    seen = plain.determined
    assert (got.determined == seen).all()
    assert np.allclose(got.stddevs[seen], plain.stddevs[seen]) and np.allclose(
        got.values[seen], plain.values[seen]
    )


def test_a_function_over_many_attributes_needs_no_domain():
    domain = pj.Domain({f"x{k}": 10 for k in range(30)})
    shift = np.roll(np.eye(10, dtype=bool), 1, axis=1)
    zeros = [pj.StructuralZeros((f"x{k}", f"x{k + 1}"), shift) for k in range(9)]
    noisy = [
        pj.LinearMeasurement(("x0",), np.arange(10.0), 2.0),
        pj.LinearMeasurement(("x9", "x20"), np.ones((10, 10)), 3.0),
    ]
    diagonal = np.eye(10).reshape(1, -1)
    rows = [
        kronecker({"x5": point(0)}),
        DenseMatrix(("x4", "x20"), diagonal),
        DenseMatrix(("x5", "x21"), diagonal),
    ]
    got = least_squares(domain, noisy, rows, zeros=zeros)
    assert got.determined.tolist() == [True, True, False]
    # x5 = 0 where x0 = 5 and x9 = 4: one value of variance 4, and a sum of ten of variance 9 each
    assert got.stddevs[0] == pytest.approx(np.sqrt(1 / (1 / 4 + 1 / 90)), rel=1e-8)
    assert got.values[0] == pytest.approx((5 / 4 + 10 / 90) / (1 / 4 + 1 / 90), rel=1e-8)


def test_error_bars_take_the_models_zeros():
    zeros = ZEROS["that imply others"]
    base = pj.GraphicalModel.from_potentials(DOMAIN, {one.clique: one.log_mask() for one in zeros}, 20000)
    generator = np.random.default_rng(1)
    noisy = []
    for m in measurements():
        values = base.answer(m.query).ravel() + generator.normal(size=m.values.size)
        noisy.append(pj.LinearMeasurement(m.clique, values, 1.0, m.query))
    estimator = pj.Estimator(dtype="float64", tol=1e-8, max_steps=3000, progress=False)
    fit = estimator.fit(DOMAIN, noisy, constraints=zeros)
    bars = pj.uncertainty.error_bars(fit, noisy, ASKED)
    values, stddevs, determined = by_cells(noisy, zeros, None)
    assert (bars.determined == determined).all()
    assert np.allclose(bars.values[determined], values[determined], atol=1e-5)
    assert np.allclose(bars.stddevs[determined], stddevs[determined], rtol=1e-6)
    # the model's own curvature is another way to the same deviations, where no possible cell is at its bound
    curved = laplace.stddevs(fit.model, noisy, ASKED)
    assert np.allclose(curved[determined], stddevs[determined], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("method", ["linear", "laplace", "bootstrap"])
def test_an_answer_that_is_ruled_out_is_zero_without_error(method):
    domain = pj.Domain({"a": 2, "b": 2})
    zeros = pj.StructuralZeros(("a", "b"), [[True, False], [True, True]])
    noisy = [pj.LinearMeasurement(("a",), [30.0, 50.0], 1.0), pj.LinearMeasurement(("b",), [55.0, 24.0], 1.0)]
    quiet = pj.Estimator(progress=False, max_steps=300)
    fit = quiet.fit(domain, noisy, constraints=[zeros])
    bars = pj.uncertainty.error_bars(fit, noisy, [("a", "b")], method=method, draws=10, estimator=quiet)
    assert bars.determined.all()  # three possible cells and three sums of them
    assert bars.values[1] == bars.stddevs[1] == 0 and (bars.intervals[1] == 0).all()
    assert (bars.stddevs[[0, 2, 3]] > 0.5).all() and np.isfinite(bars.intervals).all()


@pytest.mark.parametrize("method", ["linear", "bootstrap"])
def test_an_answer_of_a_fixed_marginal_is_the_marginals(method):
    domain = pj.Domain({"a": 2, "b": 3})
    public = pj.FixedMarginal(("a",), [30, 50])
    noisy = [pj.LinearMeasurement(("a", "b"), [[12.0, 9.0, 8.0], [20.0, 19.0, 14.0]], 1.0)]
    quiet = pj.Estimator(progress=False, max_steps=300, dtype="float64")
    fit = quiet.fit(domain, noisy, constraints=[public])
    bars = pj.uncertainty.error_bars(
        fit, noisy, [("a",), ("a", "b")], method=method, draws=100, estimator=quiet, constraints=[public]
    )
    assert np.allclose(bars[0].values, [30, 50]) and (bars[0].stddevs < 1e-6).all()
    # three values of variance 1 whose sum is known
    error = 1e-9 if method == "linear" else 6 / np.sqrt(200)
    assert np.allclose(bars[1].stddevs, np.sqrt(2 / 3), rtol=error)
    assert np.allclose(bars[1].values, [[12 + 1 / 3, 9 + 1 / 3, 8 + 1 / 3, 19, 18, 13]], atol=0.05)


def test_masks_over_the_same_attributes_are_one():
    model = pj.GraphicalModel.from_potentials(
        pj.Domain({"a": 2, "b": 2}), {("a", "b"): [[0.0, -np.inf], [1.0, 0.0]]}, total=5
    )
    (one,) = zeros_of(model, [pj.StructuralZeros(("b", "a"), [[False, True], [True, True]])])
    assert one.clique == ("a", "b") and one.allowed.tolist() == [[False, False], [True, True]]
    with pytest.raises(ValueError, match="shape"):
        zeros_of(model, [pj.StructuralZeros(("a",), [True, True, False])])
