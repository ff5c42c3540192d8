"""Answers without a model are those of dense least squares; strategies are compared as they should be."""

import itertools

import numpy as np
import pytest

from pgmjax import queries, strategies
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import DenseMatrix, Product, WeightedSum, prefix
from pgmjax.queries.workload import Workload
from pgmjax.strategies import strategy as made
from pgmjax.strategies.strategy import unit_variances, weighted_error, whole

DOMAIN = Domain({"a": 3, "b": 2, "c": 5})
RNG = np.random.default_rng(3)
DIFFERENCE = WeightedSum(
    [
        (2, Product({"c": prefix(), "a": queries.total()})),
        (-1, Product({"c": queries.identity(), "a": queries.total()})),
    ]
)
JOINT = DenseMatrix(("b", "a"), RNG.integers(-2, 3, (4, 6)))
WORKLOAD = Workload([["a", "b"], Product({"c": prefix(), "a": queries.identity()}), DIFFERENCE, JOINT])


def moves(parts):
    """From each of some parts to each other."""
    units = np.eye(parts)
    return [units[to] - units[of] for of, to in itertools.permutations(range(parts), 2)]


def measure(query, stddev=1.0):
    answers = RNG.normal(50, 10, query.num_rows(DOMAIN))
    return LinearMeasurement(query.clique, answers, stddev, query)


def over(query, clique):
    """A query's matrix over a larger clique's cells."""
    if isinstance(query, DenseMatrix):
        rest = [name for name in clique if name not in query.clique]
        matrix = np.kron(query.matrix(DOMAIN), np.ones((1, DOMAIN.size(rest))))
        shape = (len(matrix), *DOMAIN.shape_of([*query.clique, *rest]))
        order = [[*query.clique, *rest].index(name) + 1 for name in clique]
        return matrix.reshape(shape).transpose([0, *order]).reshape(len(matrix), -1).astype(float)
    terms = []
    for coefficient, blocks in query.factors(DOMAIN):
        whole_blocks = {name: blocks.get(name, queries.total()) for name in clique}
        ordered = Product({**{name: whole_blocks[name] for name in query.clique}, **whole_blocks})
        matrix = ordered.matrix(DOMAIN).astype(float)
        shape = (len(matrix), *DOMAIN.shape_of(ordered.clique))
        order = [ordered.clique.index(name) + 1 for name in clique]
        terms.append(coefficient * matrix.reshape(shape).transpose([0, *order]).reshape(len(matrix), -1))
    return sum(terms)


@pytest.mark.parametrize("kind", ["identity", "h2", "union"])
def test_local_answers_are_those_of_dense_least_squares(kind):
    chosen = made(kind, WORKLOAD, DOMAIN, "l1", Relation.ADD_REMOVE, restarts=1)
    measured = [measure(query) for query in chosen.queries]
    answers = strategies.local_least_squares(DOMAIN, WORKLOAD, measured)
    for entry, place, answer in zip(WORKLOAD.entries, chosen.serves, answers, strict=True):
        taken = measured[place]
        matrix, wanted = over(taken.query, taken.clique), over(entry.query, taken.clique)
        np.testing.assert_allclose(answer, wanted @ np.linalg.pinv(matrix) @ taken.values, atol=1e-8)


def test_local_answers_from_a_larger_measurement():
    taken = measure(Product({"c": prefix(), "b": queries.identity(), "a": queries.identity()}))
    answers = strategies.local_least_squares(DOMAIN, Workload(WORKLOAD.entries[:3]), [taken])
    for entry, answer in zip(WORKLOAD.entries, answers, strict=False):
        matrix, wanted = over(taken.query, taken.clique), over(entry.query, taken.clique)
        np.testing.assert_allclose(answer, wanted @ np.linalg.pinv(matrix) @ taken.values, atol=1e-8)


def test_the_better_of_two_measurements_answers():
    exact, loose = (measure(queries.marginal(["a", "b"]), stddev) for stddev in (1.0, 100.0))
    (answer,) = strategies.local_least_squares(DOMAIN, Workload([["a", "b"]]), [loose, exact])
    assert (answer == exact.values).all()


def test_global_answers_are_those_of_dense_least_squares():
    asked = [
        queries.marginal(["a", "b"]),
        Product({"c": prefix(), "b": queries.identity()}),
        DIFFERENCE,
        JOINT,
    ]
    measured = [measure(query, stddev) for query, stddev in zip(asked, (1.0, 3.0, 0.5, 2.0), strict=True)]
    answers = strategies.global_least_squares(DOMAIN, WORKLOAD, measured)
    names = DOMAIN.attributes
    matrix = np.concatenate([over(each.query, names) / each.stddev for each in measured])
    values = np.concatenate([each.values / each.stddev for each in measured])
    cells = np.linalg.lstsq(matrix, values, rcond=None)[0]
    for entry, answer in zip(WORKLOAD.entries, answers, strict=True):
        np.testing.assert_allclose(answer, over(entry.query, names) @ cells, atol=1e-5)


def test_what_cannot_be_answered_is_refused():
    measured = [measure(Product({"a": queries.total()}))]
    with pytest.raises(ValueError, match=r"workload entry 0 .* cannot be answered from any one of the 1"):
        strategies.local_least_squares(DOMAIN, Workload([["a"]]), measured)
    with pytest.raises(ValueError, match="vector of 6 cells, above the limit of 5"):
        strategies.global_least_squares(DOMAIN, Workload([["a", "b"]]), measured, max_cells=5)


@pytest.mark.parametrize("norm, power", [("l1", 1 / 3), ("l2", 1 / 2)])
def test_the_split_of_opt_plus_is_the_best(norm, power):
    workload = Workload([["a"], ["b", "c"], {"clique": ["c"], "weight": 2}])
    chosen = made("identity", workload, DOMAIN, norm, Relation.ADD_REMOVE)
    errors = np.array([3.0, 10.0, 4 * 5.0])
    np.testing.assert_allclose(chosen.shares, errors**power / (errors**power).sum(), rtol=1e-12)
    total = weighted_error(chosen, unit_variances(chosen, norm, Relation.ADD_REMOVE, DOMAIN), workload)
    closed = (errors ** (1 / 3)).sum() ** 3 if norm == "l1" else np.sqrt(errors).sum() ** 2
    assert total == pytest.approx(closed, rel=1e-12)
    equal = made("identity", workload, DOMAIN, norm, Relation.ADD_REMOVE, split="equal")
    assert weighted_error(equal, unit_variances(equal, norm, Relation.ADD_REMOVE, DOMAIN), workload) > total


@pytest.mark.parametrize("norm, power", [("l1", 2), ("l2", 1)])
def test_no_move_between_the_shares_of_weighted_marginals_helps(norm, power):
    """A cell moves by 1 in each marginal, so that its variance in units is one over the share's power."""
    workload = Workload([["a"], ["b", "c"], {"clique": ["c"], "weight": 2}])
    chosen = made("marginals", workload, DOMAIN, norm, Relation.ADD_REMOVE, restarts=1)
    shares = np.array(chosen.shares)
    assert shares.sum() == pytest.approx(1, rel=1e-12)
    error, *moved = (
        np.array([1, 1, 2**2]) @ chosen.errors(1 / split**power)
        for split in (shares, *(shares + 0.1 * shares.min() * move for move in moves(len(shares))))
    )
    assert min(moved) > error


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", ["workload", "h2", "wavelet", "union", "kron", "marginals"])
def test_expected_errors_are_those_of_the_joint_matrices(name, norm):
    workload = Workload([["a", "b"], Product({"c": prefix(), "a": queries.identity()}), ["c"]])
    chosen = made(name, workload, DOMAIN, norm, Relation.ADD_REMOVE, restarts=1)
    variances = np.linspace(0.5, 2, len(chosen.queries))
    names = DOMAIN.attributes
    stack = [over(q, names) / v**0.5 for q, v in zip(chosen.queries, variances, strict=True)]
    for place, (entry, error) in enumerate(zip(workload.entries, chosen.errors(variances), strict=True)):
        matrix = np.concatenate(stack) if name == "marginals" else stack[chosen.serves[place]]
        wanted = over(entry.query, names)
        dense = np.trace(wanted @ np.linalg.pinv(matrix.T @ matrix, hermitian=True) @ wanted.T)
        assert error == pytest.approx(dense, rel=1e-6)


def test_candidates_come_best_first():
    workload = Workload([Product({"c": prefix(), "a": queries.identity()}), ["b"]])
    found = strategies.candidates(workload, DOMAIN, "l1", Relation.REPLACE_ONE, restarts=1)
    assert {each.name for each, _ in found} == set(strategies.NAMES)
    assert [error for _, error in found] == sorted(error for _, error in found)
    small = strategies.candidates(
        workload,
        DOMAIN,
        "l1",
        Relation.REPLACE_ONE,
        restarts=1,
        fits=lambda cliques: max(map(len, cliques)) < 3,
    )
    assert "kron" not in {each.name for each, _ in small}
    for each, _ in found:
        assert sum(each.shares) == pytest.approx(1) and all(q.is_integral(DOMAIN) for q in each.queries)


def test_rounded_strategies_are_near_the_real_ones():
    real = queries.matrix(RNG.random((4, 5)))
    for query in (Product({"c": real}), Product({"c": real, "a": queries.matrix(RNG.random((2, 3)))})):
        rounded = whole(query, DOMAIN)
        matrix, found = query.matrix(DOMAIN), rounded.matrix(DOMAIN)
        assert found.dtype == np.int64 and found.max() <= 2**30
        scale = found.sum() / matrix.sum()
        assert np.abs(found / scale - matrix).max() < 2e-3


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("relation", list(Relation))
def test_a_total_of_zero_sensitivity_has_noise(norm, relation):
    """Under replace-one its sensitivity is 0: no variance may become 0, and no error NaN."""
    workload = Workload([["a", "b"], {"clique": ["c"], "queries": {"c": "total"}}])
    found = strategies.candidates(workload, DOMAIN, norm, relation, restarts=1)
    assert len(found) == len(strategies.NAMES)
    for chosen, error in found:
        assert np.isfinite(error) and error > 0
        assert (unit_variances(chosen, norm, relation, DOMAIN) > 0).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_noise_too_small_for_floats_has_no_error():
    chosen = made("marginals", Workload([["a"], ["b", "c"]]), DOMAIN, "l1", Relation.ADD_REMOVE, restarts=1)
    number = len(chosen.queries)
    assert (chosen.errors(np.zeros(number)) < 1e-90).all()
    some = np.where(np.arange(number) == number - 1, 1.0, 0.0)
    np.testing.assert_allclose(chosen.errors(some), chosen.errors(np.maximum(some, 1e-30)), atol=1e-20)


def test_bad_arguments_of_strategies():
    workload = Workload([JOINT])
    with pytest.raises(ValueError, match=r"\('b', 'a'\)"):
        made("marginals", workload, DOMAIN, "l1", Relation.ADD_REMOVE)
    found = strategies.candidates(workload, DOMAIN, "l1", Relation.ADD_REMOVE, restarts=1)
    assert {each.name for each, _ in found} == {"workload", "identity", "h2", "hb", "wavelet", "union"}
    for asked, words in ((workload, r"\('b', 'a'\)"), (Workload([["a"]]), "fits in memory")):
        with pytest.raises(ValueError, match=words):
            strategies.candidates(asked, DOMAIN, "l1", Relation.ADD_REMOVE, fits=lambda cliques: False)
