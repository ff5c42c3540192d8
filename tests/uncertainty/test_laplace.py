"""The Laplace approximation, against the dense Fisher information and against least squares."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.uncertainty import laplace
from tests.uncertainty.structures import CELLS, DOMAIN, QUERIES, asked, least_squares, measurements, system


def fitted():
    estimator = pj.Estimator(dtype="float64", tol=1e-10, max_steps=5000, progress=False)
    return estimator.fit(DOMAIN, measurements(), total=2000.0).model


def by_dense_fisher(model, total_known):
    """Standard deviations by matrices over all cells, as the pseudo-inverse gives them."""
    joint = model.marginal(DOMAIN.attributes).ravel() / model.total
    indicators = []
    for clique in model.potentials.cliques:
        shape = DOMAIN.shape_of(clique)
        cell = np.ravel_multi_index(CELLS[:, [DOMAIN.attributes.index(n) for n in clique]].T, shape)
        indicators.append(cell[None] == np.arange(np.prod(shape))[:, None])
    features = np.concatenate(indicators).astype(float)
    moved = features * joint
    moved = moved - (features @ joint)[:, None] * joint  # derivative of the joint: [potentials, cells]
    if not total_known:
        moved = np.concatenate([moved, joint[None]])
    jacobian = system(measurements())[0] @ moved.T * model.total
    gradients = asked() @ moved.T * model.total
    return np.linalg.norm(gradients @ np.linalg.pinv(jacobian, rcond=1e-9), axis=1)


@pytest.mark.parametrize("total", [2000.0, None])
def test_equals_the_dense_fisher_information(total):
    model = fitted()
    got = laplace.stddevs(model, measurements(), QUERIES, total)
    assert np.allclose(got, by_dense_fisher(model, total is not None), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("total", [2000.0, None])
def test_equals_least_squares_at_an_interior_optimum(total):
    rows = least_squares(DOMAIN, measurements(), QUERIES, total)
    got = laplace.stddevs(fitted(), measurements(), QUERIES, total)
    assert np.allclose(got[rows.determined], rows.stddevs[rows.determined], rtol=1e-5, atol=1e-6)


def test_a_structural_zero_has_no_error():
    domain = pj.Domain({"a": 2, "b": 2})
    potentials = {("a", "b"): [[0.0, -np.inf], [0.0, 0.0]]}
    model = pj.GraphicalModel.from_potentials(domain, potentials, total=30)
    noisy = [pj.LinearMeasurement(("a", "b"), [[10, 0], [10, 10]], 2.0)]
    got = laplace.stddevs(model, noisy, [pj.queries.marginal(("a", "b"))])
    assert np.allclose(got, [2, 0, 2, 2], rtol=1e-6)


def test_a_direction_without_curvature_has_no_deviation():
    domain = pj.Domain({"a": 2, "b": 2})
    model = pj.GraphicalModel.from_potentials(domain, {("a",): [0.0, 1.0], ("b",): [0.0, 0.5]}, total=30)
    noisy = [pj.LinearMeasurement(("a",), [10.0, 20.0], 2.0)]
    got = laplace.stddevs(model, noisy, [pj.queries.marginal(("a",)), pj.queries.marginal(("b",))])
    assert np.allclose(got[:2], 2, rtol=1e-6) and np.isnan(got[2:]).all()
