"""Trees, wavelets and bounds reproduce the published error columns; error formulas match simulation."""

import importlib.util
import math
import pathlib

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.queries import Product, WeightedSum, all_ranges, prefix
from pgmjax.strategies import fixed, grams
from pgmjax.strategies.strategy import column_norm, inverse_gram

HERE = pathlib.Path(__file__).parent


def load(name):
    """A helper module of this folder."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORKLOADS = load("workloads")

# root mean squared error in units of sqrt(2) / epsilon: identity, H2, wavelet, HB; the bound is for L2
TABLE = {
    (64, "prefix"): (5.7009, 6.6615, 6.6287, 5.7009, 2.0401),
    (64, "range"): (4.6904, 7.9764, 7.1501, 4.6904, 2.2773),
    (64, "width32"): (5.6569, 8.5002, 7.8396, 5.6569, 1.9471),
    (64, "permuted"): (4.6904, 17.695, 13.415, 4.6904, 2.2773),
    (128, "prefix"): (8.0312, 7.9477, 7.9040, 8.0312, 2.2544),
    (128, "range"): (6.5828, 9.6881, 8.7717, 6.5828, 2.5735),
    (128, "width32"): (5.6569, 9.7310, 8.6109, 5.6569, 2.2010),
    (128, "permuted"): (6.5828, 29.880, 22.203, 6.5828, 2.5735),
    (256, "prefix"): (11.3358, 9.3067, 9.2552, 6.3431, 2.4714),
    (256, "range"): (9.2736, 11.5061, 10.5150, 6.2939, 2.8764),
    (256, "width32"): (5.6569, 10.9636, 9.5983, 5.2384, 2.3038),
    (256, "permuted"): (9.2736, 46.843, 34.711, 13.068, 2.8764),
    (512, "prefix"): (16.0156, 10.7339, 10.6765, 7.6295, 2.6901),
    (512, "range"): (13.0894, 13.4238, 12.3682, 7.5642, 3.1832),
    (512, "width32"): (5.6569, 12.1948, 10.6479, 5.8210, 2.3504),
    (512, "permuted"): (13.0894, 73.971, 54.636, 18.557, 3.1832),
}
STRATEGIES = ("identity", "h2", "wavelet", "hb")


@pytest.mark.parametrize("size, kind", TABLE)
def test_published_errors_in_both_norms(size, kind):
    gram, number = WORKLOADS.gram_and_queries(kind, size)
    *published, bound = TABLE[size, kind]
    for name, value in zip(STRATEGIES, published, strict=True):
        strategy = fixed.FIXED[name](size)
        levels = np.abs(strategy).sum(axis=0).max()
        error = np.vdot(gram, inverse_gram(strategy))
        l1, l2 = (np.sqrt(column_norm(strategy, norm) ** 2 * error / number) for norm in ("l1", "l2"))
        digits = 6e-4 if kind == "permuted" else 1e-4  # as many as are printed
        assert l1 == pytest.approx(value, abs=digits)
        assert l2 == pytest.approx(value / math.sqrt(levels), abs=digits)
    assert WORKLOADS.root_mean_square(WORKLOADS.svd_bound(gram), number) == pytest.approx(bound, abs=1e-4)


@pytest.mark.parametrize("size", [1, 2, 5, 32])
def test_closed_forms_of_the_identity(size):
    identity = np.eye(size)
    for block, error in ((prefix(), (size + 1) / 2), (all_ranges(), (size + 2) / 3)):
        gram = grams.block_gram(block, size)
        assert WORKLOADS.expected_error(gram, identity) / block.rows(size) == pytest.approx(error, rel=1e-12)
    assert all_ranges().max_column(size, 1) == (size + 1) ** 2 // 4


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, 30])
def test_fixed_strategies_answer_any_workload(size):
    for make in fixed.FIXED.values():
        strategy = make(size)
        assert strategy.dtype == np.int64 and strategy.shape[1] == size
        assert np.linalg.matrix_rank(strategy) == size
        assert len(np.unique(strategy, axis=0)) == len(strategy)


def test_sensitivities_of_trees():
    assert fixed.h2(64).sum(axis=0).tolist() == [7] * 64
    assert np.abs(fixed.wavelet(64)).sum(axis=0).tolist() == [7] * 64
    assert [fixed.hb_branching(size) for size in (64, 128, 256, 512, 1024)] == [64, 128, 16, 23, 32]
    assert fixed.total(3).tolist() == [[1, 1, 1]]


@pytest.mark.parametrize(
    "block",
    [queries.identity(), queries.total(), prefix(), all_ranges(), queries.range(1, 3), queries.mean()],
)
def test_gram_matrices_are_those_of_the_matrices(block):
    matrix = block.matrix(6).astype(float)
    np.testing.assert_allclose(grams.block_gram(block, 6), matrix.T @ matrix, atol=1e-12)


def test_gram_matrices_of_products_and_sums():
    domain = Domain({"a": 3, "b": 4})
    cells = Product({"a": queries.identity(), "b": queries.identity()})
    sums = WeightedSum([(2, Product({"a": prefix(), "b": prefix()})), (-0.5, cells)])
    for query in (Product({"a": prefix(), "b": queries.total()}), sums):
        matrix = query.matrix(domain).astype(float)
        found = WORKLOADS.dense(grams.query_terms(query, domain), query.clique, domain)
        np.testing.assert_allclose(found, matrix.T @ matrix, atol=1e-12)
        inverses = {"a": np.diag([1.0, 2, 3]), "b": grams.block_gram(prefix(), 4)}
        trace = grams.trace(grams.query_terms(query, domain), inverses)
        joint = np.kron(inverses["a"], inverses["b"])
        assert trace == pytest.approx(np.trace(matrix.T @ matrix @ joint), rel=1e-12)


def test_the_formula_is_the_error_of_least_squares():
    rng = np.random.default_rng(0)
    strategy, workload = fixed.h2(8).astype(float), np.tri(8)
    answer = workload @ np.linalg.pinv(strategy)
    noise = rng.laplace(scale=column_norm(strategy, "l1"), size=(200_000, len(strategy)))
    squares = ((noise @ answer.T) ** 2).sum(axis=1)
    expected = 2 * WORKLOADS.expected_error(workload.T @ workload, strategy)
    assert abs(squares.mean() - expected) < 5 * squares.std() / math.sqrt(len(squares))


def test_bad_arguments():
    with pytest.raises(ValueError, match="too many for its expected error"):
        grams.block_gram(queries.ranges([(0, 1)] * 60_000), 1000)
