"""Multiplicative weights against the formulas they stand for, whole and in factors."""

import itertools

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.multiplicative_weights import FactoredWeights, FullVector, exponents

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
ALL = ("a", "b", "c")
ADULT = Domain(
    {"age": 85, "race": 5, "sex": 2, "income": 2, "hours": 99, "gain": 100, "loss": 100, "occupation": 15}
)


def counts(estimate, total, clique=ALL):
    return total * estimate.marginal(clique)


def started_at(distribution):
    """An estimate over the whole of `DOMAIN` that is at a distribution."""
    estimate = FullVector(DOMAIN)
    estimate.vector(ALL).multiply(ALL, np.log(distribution))
    return estimate


def random_case(rng):
    """Estimate A, truth B, a query from -1 to 1 with an entry of size 1, an answer with |m - q(A)| <= 2n."""
    n = float(rng.integers(1, 1000))
    a, b = (rng.dirichlet(np.full(24, rng.choice([0.2, 1.0, 5.0]))) + 1e-12 for _ in range(2))
    a, b = a / a.sum(), b / b.sum()
    q = rng.uniform(-1, 1, 24) if rng.random() < 0.5 else rng.integers(-1, 2, 24).astype(float)
    q[rng.integers(24)] = rng.choice([-1.0, 1.0])
    m = n * (q @ a) + n * rng.uniform(-2, 2)
    return n, a, b, q, m


def test_an_update_is_the_formula_and_keeps_the_potential_inequality():
    """KL(B||A) falls by ((q(A)-q(B))/2n)^2 - ((m-q(B))/2n)^2 at least, in 1,500 random cases."""
    rng = np.random.default_rng(3)
    for _ in range(1500):
        n, a, b, q, m = random_case(rng)
        estimate = started_at(a.reshape(DOMAIN.shape))
        estimate.step(LinearMeasurement(ALL, [m], 1.0, queries.DenseMatrix(ALL, q[None])), n)
        after = counts(estimate, 1.0).reshape(-1)
        expected = a * np.exp(q * (m - n * (q @ a)) / (2 * n))
        np.testing.assert_allclose(after, expected / expected.sum(), rtol=1e-9)
        fallen = b @ np.log(after / a)
        promised = (q @ a - q @ b) ** 2 / 4 - (m / n - q @ b) ** 2 / 4
        assert fallen >= promised - 1e-12


@pytest.mark.parametrize("answer", [1e9, -1e9])
def test_an_answer_far_outside_is_cut_to_a_factor_of_e(answer):
    estimate = FullVector(DOMAIN)
    moved = estimate.step(
        LinearMeasurement(("a",), [answer], 1.0, queries.Product({"a": queries.point(0)})), 10
    )
    table = counts(estimate, 1.0, ("a",))
    assert moved == 1.0 and table[0] / table[1] == pytest.approx(np.exp(np.sign(answer)))


QUERIES = [
    queries.marginal(("c", "a")),
    queries.Product({"c": queries.prefix(), "b": queries.total(), "a": queries.identity()}),
    queries.Product({"a": queries.matrix([[1, -2, 0], [3, 0, 1]]), "c": queries.subset([0, 3])}),
    queries.DenseMatrix(("b", "a"), np.arange(12).reshape(2, 6) - 4),
    queries.WeightedSum(
        [
            (2, queries.Product({"a": queries.identity(), "b": queries.total()})),
            (-1, queries.Product({"b": queries.point(1), "a": queries.identity()})),
        ]
    ),
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_step_with_many_rows_never_raises_the_squared_error(query):
    """Steps of 1/L, L the smoothness of the squared error in L1, descend; 2n L is twice as careful."""
    rng = np.random.default_rng(1)
    truth = 50 * rng.dirichlet(np.ones(24)).reshape(DOMAIN.shape)
    gone = tuple(i for i, name in enumerate(ALL) if name not in query.clique)
    kept = [name for name in ALL if name in query.clique]
    table = truth.sum(axis=gone).transpose([kept.index(name) for name in query.clique])
    asked = LinearMeasurement(query.clique, np.asarray(query.apply(table), float).reshape(-1), 1.0, query)
    estimate, errors = FullVector(DOMAIN), []
    for _ in range(300):
        left = asked.flat_values() - query.apply(counts(estimate, 50.0, query.clique)).reshape(-1)
        errors.append(float(left @ left))
        estimate.step(asked, 50.0)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(errors))
    assert errors[-1] < 0.2 * errors[0]


def test_a_query_of_zeros_moves_nothing():
    query = queries.DenseMatrix(("a",), [[0, 0, 0]])
    assert not exponents(query, DOMAIN, np.array([5.0]), 10).any()


def measurements(rng, cliques, total=100):
    found = []
    for clique in cliques:
        cells = DOMAIN.size(clique)
        found.append(LinearMeasurement(clique, rng.multinomial(total, np.full(cells, 1 / cells)), 1.0))
    return found


def test_sweeps_over_consistent_marginals_end_at_the_maximum_of_entropy():
    """Decomposable: p(a, b, c) = p(a, b) p(b, c) / p(b)."""
    table = np.random.default_rng(2).integers(1, 20, DOMAIN.shape).astype(float)
    total, ab, bc = table.sum(), table.sum(2), table.sum(0)
    asked = [LinearMeasurement(("a", "b"), ab, 1.0), LinearMeasurement(("b", "c"), bc, 1.0)]
    expected = ab[:, :, None] * bc[None] / ab.sum(0)[None, :, None]
    for estimate in (FullVector(DOMAIN), FactoredWeights(DOMAIN)):
        estimate.sweep(asked, total, 4000)
        np.testing.assert_allclose(counts(estimate, total), expected, rtol=1e-6)
        np.testing.assert_allclose(estimate.model(total).marginal(ALL), expected, rtol=1e-6)


def test_sweeps_stop_where_nothing_moves():
    estimate = FullVector(DOMAIN)
    uniform = LinearMeasurement(("b",), [5, 5], 1.0)
    assert estimate.sweep([uniform], 10, 50) == 1
    assert estimate.sweep([LinearMeasurement(("b",), [9, 1], 1.0)], 10, 5) == 5


@pytest.mark.parametrize("seed", range(6))
def test_factors_are_the_whole_domain_in_less_memory(seed):
    rng = np.random.default_rng(seed)
    domain = Domain({"a": 3, "b": 2, "c": 4, "d": 2, "e": 3})
    whole, factors = FullVector(domain), FactoredWeights(domain)
    names = list(domain.attributes)
    for _ in range(6):
        clique = tuple(rng.permutation(names)[: rng.integers(1, 3)].tolist())
        asked = LinearMeasurement(clique, rng.integers(0, 60, domain.shape_of(clique)), 1.0)
        forecast = factors.cells_with(clique)
        assert whole.cells_with(clique) == domain.size(domain.attributes)
        for estimate in (whole, factors):
            estimate.sweep([asked], 100, 3)
        assert factors.size == forecast <= domain.size(domain.attributes)
        held = [name for vector in factors.vectors for name in vector.attributes]
        assert len(set(held)) == len(held)
        wanted = tuple(rng.permutation(names).tolist())
        np.testing.assert_allclose(factors.marginal(wanted), whole.marginal(wanted), rtol=1e-9)
    model = factors.model(100)
    np.testing.assert_allclose(model.marginal(("e", "a")), 100 * whole.marginal(("e", "a")), rtol=1e-9)


def test_the_whole_domain_is_refused_with_figures():
    with pytest.raises(ModelTooLargeError) as caught:
        FullVector(ADULT)
    words = str(caught.value)
    assert "the whole domain of 8 attributes hold 25,245,000,000 cells" in words
    assert "564 GiB" in words and "estimate='engine'" in words


def test_merging_factors_is_refused_with_figures_and_changes_nothing():
    """The paper's first picks on Adult overlap on race and capital gain: the union is not made."""
    estimate = FactoredWeights(ADULT, max_bytes=10**7)
    first = LinearMeasurement(("occupation", "race", "loss"), np.ones((15, 5, 100)), 1.0)
    estimate.step(first, 7500)
    assert estimate.size == 7500
    overlapping = LinearMeasurement(("hours", "race", "gain"), np.ones((99, 5, 100)), 1.0)
    cells = 5 * 99 * 100 * 15 * 100
    assert estimate.cells_with(overlapping.clique) == cells
    with pytest.raises(ModelTooLargeError, match=rf"{cells:,}.*9\.54 MiB"):
        estimate.step(overlapping, 7500)
    assert estimate.size == 7500 and len(estimate.vectors) == 1
