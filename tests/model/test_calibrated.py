"""A calibrated model's streamed answers against brute force, and its refusals."""

import gc
import itertools
import tracemalloc

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.model.graphical import GraphicalModel
from tests.models import STRUCTURES, joint, potentials

DRAWS = 60


def named(structure, tables, total=1.0):
    """A model over attributes v0, v1, ... ."""
    sizes, cliques = structure
    domain = Domain({f"v{v}": size for v, size in enumerate(sizes)})
    sums = {}
    for clique, table in zip(cliques, tables, strict=True):
        sums[tuple(f"v{v}" for v in clique)] = table
    return GraphicalModel.from_potentials(domain, sums, total)


def joints(structure, drawn):
    """Log-weights of every cell of many draws at once [draws, sizes], by broadcasting."""
    sizes, cliques = structure
    result = np.zeros((len(drawn), *sizes))
    for i, clique in enumerate(cliques):
        stacked = np.stack([tables[i] for tables in drawn])
        order = np.argsort(clique)
        shape = [sizes[v] if v in clique else 1 for v in range(len(sizes))]
        result += stacked.transpose([0, *(1 + order)]).reshape([len(drawn), *shape])
    return result


def summed(weights, variables):
    """Marginals of every draw [draws, sizes of the variables], axes in the order asked for."""
    gone = tuple(1 + v for v in range(weights.ndim - 1) if v not in variables)
    kept = [v for v in range(weights.ndim - 1) if v in variables]
    return weights.sum(axis=gone).transpose([0, *(1 + kept.index(v) for v in variables)])


@pytest.mark.parametrize("name", STRUCTURES)
def test_sixty_draws_agree_with_brute_force(name):
    """Marginals, conditional tables, scores, evidence; every other draw has structural zeros."""
    structure = STRUCTURES[name]
    sizes, _ = structure
    drawn = [potentials(structure, seed, spread=2.0, zeros=0.25 * (seed % 2)) for seed in range(DRAWS)]
    logits = joints(structure, drawn)
    assert np.array_equal(logits[7], joint(structure, drawn[7])) or np.allclose(
        logits[7], joint(structure, drawn[7]), atol=1e-12
    )
    weights = np.exp(logits)
    partition = weights.sum(axis=tuple(range(1, weights.ndim)), keepdims=True)
    weights /= partition
    variables = range(len(sizes))
    asked = [c for k in range(1, len(sizes) + 1) for c in itertools.combinations(reversed(variables), k)]
    expected = {clique: summed(weights, clique) for clique in asked}
    observed = weights[:, 0, ..., 0] if len(sizes) > 1 else weights[:, 0]
    likely = observed.reshape(DRAWS, -1).sum(axis=1)
    for draw, tables in enumerate(drawn):
        model = named(structure, tables, total=10.0)
        ready = model.calibrate()
        assert ready.log_partition() == pytest.approx(np.log(partition.flat[draw]), abs=1e-11)
        cliques = [tuple(f"v{v}" for v in clique) for clique in asked]
        for clique, (found_for, table) in zip(asked, ready.marginals(cliques), strict=True):
            assert found_for == tuple(f"v{v}" for v in clique)
            truth = 10 * expected[clique][draw]
            np.testing.assert_allclose(table, truth, rtol=0, atol=1e-11)
            assert np.array_equal(table == 0, truth == 0), "structural zeros are exact zeros"
        evidence = {"v0": 0, f"v{len(sizes) - 1}": 0}
        assert model.log_partition(evidence) - model.log_partition() == pytest.approx(
            np.log(likely[draw]), abs=1e-11
        )
        if len(sizes) > 1:
            _check_pair(ready, expected[1, 0][draw])
        if draw % 10 == 0:
            assert model.condition(evidence).total == pytest.approx(10 * likely[draw], rel=1e-11)


def _check_pair(ready, pair):
    """The conditional table of v0 given v1 and the scores of (v1, v0), whose probabilities are known."""
    sums = pair.sum(axis=1, keepdims=True)
    conditional = np.divide(pair, sums, out=np.zeros_like(pair), where=sums > 0)
    np.testing.assert_allclose(ready.conditional(("v0",), given=("v1",)), conditional, rtol=0, atol=1e-11)
    shifted = 10 * pair + np.linspace(-1, 2, pair.size).reshape(pair.shape)
    for distance, norm in (("l1", 1), ("l2", 2), ("max", np.inf)):
        (score,) = ready.scores({("v1", "v0"): shifted}, distance).values()
        assert score == pytest.approx(np.linalg.norm(np.linspace(-1, 2, pair.size), norm), abs=1e-10)


def chain(length, size=4, seed=0):
    rng = np.random.default_rng(seed)
    domain = Domain({f"a{i}": size for i in range(length)})
    names = domain.attributes
    logs = {names[i : i + 2]: rng.normal(size=(size, size)) for i in range(length - 1)}
    return GraphicalModel.from_potentials(domain, logs, total=100.0)


@pytest.mark.parametrize("cache_bytes", [0, 2000, 1 << 28])
def test_what_is_kept_changes_nothing(cache_bytes):
    model = chain(9)
    ready = model.calibrate(cache_bytes)
    for k in (1, 2, 3):
        for clique, table in ready.all_marginals(k):
            np.testing.assert_allclose(table, model.marginal(clique), rtol=0, atol=1e-10)
    assert ready._tree._cache.held <= cache_bytes


def test_all_marginals_stand_in_the_domains_order():
    model = chain(5)
    cliques = [clique for clique, _ in model.calibrate().all_marginals(3)]
    assert cliques == list(itertools.combinations(model.domain.attributes, 3))


def test_a_stream_of_tables_takes_bounded_memory():
    """All 1,140 triples have 4.7 MB in all; what is kept is 0.3 MB, and no more is held at any time."""
    model = chain(20, size=8)
    ready = model.calibrate(cache_bytes=300_000)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    streamed = sum(table.nbytes for _, table in ready.all_marginals(3))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert streamed == 20 * 19 * 18 // 6 * 512 * 8
    assert peak - before < 2_500_000


def test_cliques_may_come_from_a_generator_and_are_worked_out_one_by_one():
    ready = chain(6).calibrate()
    asked = []

    def cliques():
        for i in range(5):
            asked.append(i)
            yield (f"a{i}", "a5")

    stream = ready.marginals(cliques())
    next(stream)
    assert asked == [0]
    assert len(list(stream)) == 4


def test_answers_are_the_callers_to_change():
    ready = chain(4).calibrate()
    for clique in (("a0",), ("a0", "a1"), ("a0", "a3")):
        first = ready.marginal(clique)
        kept = first.copy()
        first[:] = -1
        np.testing.assert_array_equal(ready.marginal(clique), kept)


def test_conditionals_are_streamed_and_sum_to_one():
    ready = chain(6).calibrate()
    pairs = [(("a0",), ("a5",)), (("a2", "a1"), ("a4", "a0"))]
    for (pair, table), wanted in zip(ready.conditionals(pairs), pairs, strict=True):
        assert pair == wanted and table.ndim == len(pair[0]) + len(pair[1])
        axes = tuple(range(len(pair[1]), table.ndim))
        np.testing.assert_allclose(table.sum(axis=axes), 1, atol=1e-13)


def test_a_condition_of_probability_zero_has_a_row_of_zeros():
    logs = np.array([[0.0, 0.0], [-np.inf, -np.inf]])
    model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a", "b"): logs})
    assert model.calibrate().conditional(("b",), given=("a",)).tolist() == [[0.5, 0.5], [0.0, 0.0]]


def test_a_long_chain_needs_no_recursion():
    ready = chain(1500, size=2).calibrate()
    assert ready.marginal(("a0", "a1499")).sum() == pytest.approx(100)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: m.marginals("ab"), TypeError, "one string"),
        (lambda m: list(m.marginals(["ab"])), TypeError, r"\[\('ab',\)\]"),
        (lambda m: m.marginal(("a0", "z")), ValueError, "'z'"),
        (lambda m: m.marginal(("a0", "a0")), ValueError, "twice"),
        (lambda m: m.all_marginals(0), ValueError, "^k "),
        (lambda m: m.all_marginals(5), ValueError, "^k "),
        (lambda m: m.all_marginals(2.5), TypeError, "^k "),
        (lambda m: m.conditional(("a0",), ("a0", "a1")), ValueError, "both sides"),
        (lambda m: m.scores({("a0",): [1, 2]}), ValueError, "shape"),
        (lambda m: m.scores({("a0",): [1, 2, 3, np.nan]}), ValueError, "finite"),
        (lambda m: m.scores({}, "l3"), ValueError, "'l1'"),
    ],
)
def test_wrong_questions_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(chain(4).calibrate())


def test_a_wrong_cache_is_refused():
    with pytest.raises(ValueError, match="cache_bytes"):
        chain(4).calibrate(cache_bytes=-1)
