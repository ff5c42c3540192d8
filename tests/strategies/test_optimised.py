"""OPT_0, its counterpart for Gaussian noise, OPT_kron and OPT_M reach the published errors."""

import importlib.util
import itertools
import pathlib

import jax
import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.queries import Product, all_ranges, prefix
from pgmjax.queries.workload import Workload
from pgmjax.strategies import attribute, grams, optimise, weighted_marginals
from pgmjax.strategies import choose as kron
from pgmjax.strategies.strategy import column_norm

HERE = pathlib.Path(__file__).parent


def load(name):
    """A helper module of this folder."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORKLOADS, CENSUS = load("workloads"), load("census")

OPT_0 = {
    (64, "prefix"): 3.7633,
    (64, "range"): 3.940,
    (64, "width32"): 4.1591,
    (64, "permuted"): 3.926,
    (128, "prefix"): 4.4760,
    (128, "range"): 4.7626,
    (128, "width32"): 4.4602,
    (128, "permuted"): 4.764,
    (256, "prefix"): 5.1951,
    (256, "range"): 5.700,
    (256, "width32"): 4.4896,
    (256, "permuted"): 5.702,
    (512, "prefix"): 5.9837,
    (512, "range"): 6.807,
    (512, "width32"): 4.5307,
    (512, "permuted"): 6.801,
}
LARGE = [pytest.param(*case, marks=pytest.mark.slow) for case in OPT_0 if case[0] > 128]


def rmse(kind, size, restarts=3):
    gram, number = WORKLOADS.gram_and_queries(kind, size)
    weights, error = attribute.optimise_p_identity(gram, restarts=restarts)
    assert column_norm(attribute.p_identity(weights), "l1") == pytest.approx(1, rel=1e-12)
    return WORKLOADS.root_mean_square(error, number)


@pytest.mark.parametrize("size, kind", [case for case in OPT_0 if case[0] <= 128] + LARGE)
def test_opt_0_reaches_the_published_error(size, kind):
    assert rmse(kind, size) <= 1.02 * OPT_0[size, kind]


@pytest.mark.parametrize("size", [64, 128, pytest.param(512, marks=pytest.mark.slow)])
def test_opt_0_does_not_see_the_order_of_codes(size):
    assert rmse("permuted", size, 5) == pytest.approx(rmse("range", size, 5), rel=0.005)


@pytest.mark.parametrize("size, published", [(85, 4.04257), (99, 4.19567), (100, 4.20512)])
def test_opt_0_reaches_the_stored_strategies_of_paper_004(size, published):
    assert rmse("prefix", size, 5) <= 1.02 * published


def test_woodbury_error_and_gradient_are_exact():
    rng = np.random.default_rng(0)
    gram, theta = grams.block_gram(prefix(), 12), rng.random((3, 12))
    dense = WORKLOADS.expected_error(gram, attribute.p_identity(theta))
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(attribute.p_identity_error, argnums=1)(gram, theta)
        assert float(value) == pytest.approx(dense, rel=1e-12)
        for place in [(0, 0), (1, 7), (2, 11)]:
            step = np.zeros_like(theta)
            step[place] = 1e-6
            ends = [float(attribute.p_identity_error(gram, theta + sign * step)) for sign in (1, -1)]
            assert float(gradient[place]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def uniform_error(gram, weight):
    """The error of the identity with one row of equal weights (Li et al. 2015)."""
    return (1 + weight) ** 2 * (np.trace(gram) - weight**2 * gram.sum() / (1 + len(gram) * weight**2))


def test_one_row_of_equal_weights_in_closed_form():
    gram = grams.block_gram(prefix(), 32)
    weights = np.linspace(0, 1, 100_001)
    values = [uniform_error(gram, weight) for weight in weights]
    assert weights[np.argmin(values)] == pytest.approx(0.32944, abs=1e-5)
    assert WORKLOADS.root_mean_square(min(values), 32) == pytest.approx(3.71905, abs=1e-5)
    assert WORKLOADS.root_mean_square(values[0], 32) == pytest.approx(4.06202, abs=1e-5)
    dense = WORKLOADS.expected_error(gram, attribute.p_identity(np.full((1, 32), 0.4)))
    assert uniform_error(gram, 0.4) == pytest.approx(dense, rel=1e-12)


def test_restarts_only_help_and_a_start_is_gone_on_from():
    gram, _ = WORKLOADS.gram_and_queries("range", 32)
    weights, one = attribute.optimise_p_identity(gram, restarts=1)
    assert attribute.optimise_p_identity(gram, restarts=4)[1] <= one
    assert attribute.optimise_p_identity(gram, restarts=0, start=weights)[1] <= one * (1 + 1e-9)


def test_searches_side_by_side_are_those_of_one_after_another():
    gram, _ = WORKLOADS.gram_and_queries("range", 16)
    roots = np.sqrt(np.random.default_rng(0).random((3, 1, 16)))
    with jax.enable_x64(True):
        settings = (attribute.p_identity_error, (gram / np.trace(gram),))
        ends, values = optimise.search_side_by_side(*settings, roots, 500, 1e-9)
        for at, each in enumerate(roots):
            end, value = optimise.search(*settings, each, 500, 1e-9)
            np.testing.assert_allclose(values[at], value, rtol=1e-6)
            assert end.shape == ends[at].shape == (1, 16)


@pytest.mark.parametrize(
    "kind, published, bound",
    [("range", 2.5992, 2.5735), ("prefix", 2.3122, 2.2544), ("width32", 2.3, 2.2010)],
)
def test_the_best_strategy_for_gaussian_noise(kind, published, bound):
    gram, number = WORKLOADS.gram_and_queries(kind, 128)
    matrix, error = attribute.optimise_full_rank(gram)
    assert WORKLOADS.expected_error(gram, matrix, "l2") == pytest.approx(error, rel=1e-6)
    assert bound < WORKLOADS.root_mean_square(error, number) <= 1.001 * published


def test_small_workloads_need_no_search():
    for gram, rows in ((np.ones((4, 4)), 1), (2 * np.eye(4), 4)):
        assert len(attribute.best_factor(gram, "l1").matrix) == rows
        assert len(attribute.fixed_factor("h2", gram, "l1").matrix) == rows


def test_bad_gram_matrices_are_refused():
    with pytest.raises(ValueError, match="must be finite"):
        attribute.optimise_full_rank(np.full((2, 2), np.nan))


def test_product_errors_are_those_of_the_joint_matrices():
    domain = Domain({"a": 4, "b": 6})
    union = [
        Product({"a": prefix(), "b": queries.identity()}),
        Product({"a": queries.total(), "b": all_ranges()}),
    ]
    terms = [term for query in union for term in grams.query_terms(query, domain)]
    for norm in ("l1", "l2"):
        factors, error = kron.optimise_product(terms, ("a", "b"), domain, norm, restarts=1)
        joint = np.kron(factors["a"].matrix, factors["b"].matrix)
        dense = WORKLOADS.expected_error(WORKLOADS.dense(terms, ("a", "b"), domain), joint, norm)
        assert error == pytest.approx(dense, rel=1e-9)


def census_terms():
    return [term for product in CENSUS.products() for term in grams.query_terms(product, CENSUS.DOMAIN)]


def test_the_census_workload():
    products = CENSUS.products()
    rows = sum(product.num_rows(CENSUS.DOMAIN) for product in products)
    assert (len(products), rows, CENSUS.l1_sensitivity()) == (33, 4151, 41)
    identity = {name: np.eye(size) for name, size in CENSUS.DOMAIN.sizes.items()}
    error = grams.trace(census_terms(), identity)
    assert WORKLOADS.root_mean_square(error, rows) == pytest.approx(16.408, abs=5e-4)


@pytest.mark.slow
def test_opt_kron_on_the_census_workload():
    factors, error = kron.optimise_product(
        census_terms(), CENSUS.DOMAIN.attributes, CENSUS.DOMAIN, restarts=3
    )
    assert WORKLOADS.root_mean_square(error, 4151) <= 5.6
    assert all(column_norm(factor.matrix, "l1") >= 1 - 1e-12 for factor in factors.values())


# sizes, k, OPT_M and the optimum for Gaussian noise, OPT_M for Laplace noise
MARGINALS = [
    ((2, 3, 4), 1, 20.377, 19.3832, 48.559),
    ((2, 3, 4), 2, 52.730, 50.8504, 72.0),
    ((5, 5, 5), 1, 39.0, 37.7138, 117.0),
    ((5, 5, 5), 2, 183.0, 177.9695, 375.0),
    ((10, 10, 10), 1, 84.0, 82.5531, 252.0),
    ((10, 10, 10), 2, 813.0, 800.4136, 2439.0),
    ((4, 4, 4, 4), 1, 52.0, 49.0, 208.0),
    ((4, 4, 4, 4), 2, 402.0, 372.8191, 1536.0),
    ((4, 4, 4, 4), 3, 700.0, 670.5002, 1024.0),
]


def spectrum(domain, workload):
    terms = [grams.query_terms(entry.query, domain) for entry in workload.entries]
    return weighted_marginals.Spectrum.of(terms, domain.attributes, domain)


@pytest.mark.parametrize("sizes, k, gaussian, optimum, laplace", MARGINALS)
def test_opt_m_on_all_k_way_marginals(sizes, k, gaussian, optimum, laplace):
    domain = Domain(dict(zip("abcd", sizes, strict=False)))
    found = spectrum(domain, Workload.all_kway(domain, k))
    assert weighted_marginals.optimise_marginals(found, "l2")[1] == pytest.approx(
        gaussian, abs=6e-4 + 1e-5 * gaussian
    )
    assert weighted_marginals.optimise_marginals(found, "l1")[1] == pytest.approx(
        laplace, abs=6e-4 + 1e-5 * laplace
    )
    many = [np.prod([domain[name] - 1 for name in each]) for each in found.sets]  # the least of any strategy
    best = np.sqrt(found.values.sum(axis=0) * many).sum() ** 2 / domain.size()
    assert best == pytest.approx(optimum, abs=1e-4)


@pytest.mark.parametrize("size, d", [(3, 2), (5, 3), (2, 4)])
def test_closed_forms_of_all_one_way_marginals(size, d):
    domain = Domain(dict.fromkeys("abcd"[:d], size))
    found = spectrum(domain, Workload.all_kway(domain, 1))
    equal = [1 / len(each) if len(each) == 1 else 0.0 for each in found.marginals]
    inner = d * (d * size - d + 1)
    for power, scale in ((1, d**2), (2, d)):
        variance = [scale if weight else np.inf for weight in equal]
        assert found.errors(1 / np.array(variance)).sum() == pytest.approx(inner * scale / d, rel=1e-12), (
            power
        )


@pytest.mark.parametrize("norm, power", [("l1", 2), ("l2", 1)])
def test_opt_m_moves_on_a_domain_of_any_size(norm, power):
    """Eigenvalues of 20^12 cells must not make the search believe that it has arrived."""
    d, size = 12, 20
    domain = Domain({f"x{place}": size for place in range(d)})
    found = spectrum(domain, Workload.all_kway(domain, 1))
    _, error = weighted_marginals.optimise_marginals(found, norm, restarts=1)
    assert error <= d**power * (d * size - d + 1) * (1 + 1e-3)


def test_the_error_of_weighted_marginals_is_that_of_the_joint_matrices():
    domain = Domain({"a": 2, "b": 3, "c": 4})
    workload = Workload(
        [
            {"clique": ["a", "b"], "queries": {"b": "prefix"}},
            {"clique": ["c", "b"], "queries": {"c": "all_ranges"}},
        ]
    )
    found = spectrum(domain, workload)
    weights, error = weighted_marginals.optimise_marginals(found, "l1", restarts=1)
    rows = []
    for weight, clique in zip(weights, found.marginals, strict=True):
        blocks = {name: queries.identity() if name in clique else queries.total() for name in domain}
        rows.append(weight * Product(blocks).matrix(domain))
    asked = []
    for entry in workload.entries:
        blocks = dict(zip(entry.query.clique, entry.query.blocks, strict=True))
        asked.append(Product({name: blocks.get(name, queries.total()) for name in domain}).matrix(domain))
    workload_gram = sum(matrix.T @ matrix for matrix in asked).astype(float)
    assert WORKLOADS.expected_error(workload_gram, np.concatenate(rows)) == pytest.approx(error, rel=1e-8)


def test_marginals_that_cannot_answer_are_refused():
    domain = Domain({"a": 2, "b": 3})
    found = spectrum(domain, Workload([["a", "b"]]))
    with pytest.raises(ValueError, match="cannot answer the workload"):
        found.errors(np.array([float(len(each) < 2) for each in found.marginals]))
    many = Domain({f"x{place}": 2 for place in range(16)})
    with pytest.raises(ValueError, match="too many"):
        spectrum(many, Workload([list(many)]))
    assert len(list(itertools.chain(found.sets))) == 4


def _share_of_nothing(gram, weights):
    return (gram * weights).sum() / gram.sum()


def test_searches_that_find_no_number_say_so():
    with pytest.raises(ValueError, match="no search of 2 reached a finite error"):
        optimise.best_end(_share_of_nothing, [np.zeros(3)], [np.ones(3), np.full(3, 2.0)])


def _nothing(gram, weights):
    return (gram * weights).sum()


def test_a_workload_of_zeros_has_no_error():
    assert optimise.best_end(_nothing, [np.zeros(3)], [np.ones(3)])[1] == 0
