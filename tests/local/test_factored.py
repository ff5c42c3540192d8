"""Queries on attributes of a universe, by sums in closed form."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import local as co
from pgmjax.history.rows import Rows
from pgmjax.local import statistical
from pgmjax.privacy import SeededBackend
from pgmjax.privacy.response import KaryResponse
from pgmjax.queries import DenseMatrix, Product, WeightedSum, identity, mean, point, prefix, subset

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
UNIVERSE = co.Universe(DOMAIN)
QUERIES = [
    Product({"a": prefix(), "c": point(1)}),
    Product({"b": mean([1.0, -2.0, 0.5, 3.0])}),
    WeightedSum(
        [
            (1.0, Product({"a": identity(), "b": point(2)})),
            (-2.0, Product({"a": prefix(), "b": subset([0, 3])})),
        ]
    ),
    DenseMatrix(("b", "c"), np.arange(8.0).reshape(1, 8) - 3),
]
CODES = np.random.default_rng(0).integers(0, 24, 3000)
NAMES = ("value", "variance", "worst_variance", "variance_bound", "low", "high", "largest_step")


@pytest.mark.parametrize("small", [True, False])
def test_same_as_functions_written_out(small, monkeypatch):
    if not small:
        monkeypatch.setattr(statistical, "_BLOCK_NUMBERS", 10)
    table = co.PerturbedCodes(KaryResponse(24, 0.5), CODES)
    found = co.answer_queries(table, UNIVERSE, QUERIES)
    written = co.group_histograms(table).answer(Rows.of(QUERIES, DOMAIN).matrix())
    for name in NAMES:
        assert np.allclose(getattr(found, name), getattr(written, name), rtol=1e-10, atol=1e-14), name
    assert np.array_equal(found.exact, written.exact)


@pytest.mark.parametrize("attributes", [1, 3, 12, 31])
def test_predicates_on_bits_sum_to_powers_of_two(attributes):
    """Sum over the universe of a conjunction of S of d bits: 2^(d - |S|), also for 2^31 cells."""
    bits = co.Universe(pj.Domain({f"b{k}": 2 for k in range(31)}))
    asked = Product({f"b{k}": point(k % 2) for k in range(attributes)})
    about = statistical._about(Rows.of([asked], bits.domain))
    assert about.sums.item() == about.squares.item() == 2.0 ** (31 - attributes)
    assert (about.low.item(), about.high.item()) == (0.0, 1.0)


def test_a_universe_of_two_to_the_31_is_answered():
    """Rows that tell the truth mostly: the answer is within 6 standard deviations (all seeded)."""
    domain = pj.Domain({f"b{k}": 2 for k in range(31)})
    universe, backend = co.Universe(domain), SeededBackend(1, insecure=True)
    columns = {name: np.random.default_rng(k).integers(0, 2, 2000) for k, name in enumerate(domain)}
    distribution = backend.randomized_response(universe.size, 22)
    table = co.PerturbedCodes(distribution, backend.respond(distribution, universe.encode(columns)))
    asked = Product({"b0": point(1), "b30": point(0)})
    answer = co.answer_queries(table, universe, asked)
    truth = np.mean((columns["b0"] == 1) & (columns["b30"] == 0))
    assert 0 < answer.stddev[0] < 0.05
    assert abs(answer.value[0] - truth) < 6 * answer.stddev[0]


def test_wrong_arguments_are_refused():
    table = co.PerturbedCodes(KaryResponse(24, 0.5), CODES)
    with pytest.raises(ValueError, match="24 categories and the universe has 12 cells"):
        co.answer_queries(table, co.Universe(DOMAIN, ["a", "b"]), QUERIES[:1])
    with pytest.raises(ValueError, match="height"):
        co.answer_queries(table, UNIVERSE, Product({"height": identity()}))
    with pytest.raises(ValueError, match=r"rows.*Domain\(\{b"):
        co.answer_queries(table, UNIVERSE, Rows.of(QUERIES[1:2], pj.Domain({"b": 4})))
