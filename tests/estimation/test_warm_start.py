"""Where a fit starts from an earlier model: the same distribution, or the nearest that its cliques hold."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
import scipy.optimize

import pgmjax as pj
from pgmjax.estimation.start import starting_point
from pgmjax.inference.oracles import host
from tests import models
from tests.optimum import to_optimum

DOMAIN = pj.Domain({"a": 3, "b": 2, "c": 4, "d": 3})


def model_over(cliques, seed=0, spread=1.0, zeros=0.0, total=1.0):
    numbers = tuple(tuple(DOMAIN.attributes.index(name) for name in clique) for clique in cliques)
    tables = models.potentials((DOMAIN.shape, numbers), seed, spread, zeros)
    return pj.GraphicalModel.from_potentials(DOMAIN, dict(zip(cliques, tables, strict=True)), total)


def joint(cliques, tables):
    """Probabilities of every cell, from the sum of all potentials."""
    logits = np.zeros(DOMAIN.shape)
    for clique, table in zip(cliques, tables, strict=True):
        numbers = [DOMAIN.attributes.index(name) for name in clique]
        for cell in itertools.product(*map(range, DOMAIN.shape)):
            logits[cell] += table[tuple(cell[v] for v in numbers)]
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def of(model):
    return joint(model.potentials.cliques, model.potentials.tables)


def divergence(p, q):
    return float(np.sum(np.where(p > 0, p * (np.log(np.where(p > 0, p, 1)) - np.log(q)), 0)))


@pytest.mark.parametrize(
    "cliques",
    [
        [("a", "b"), ("b", "c"), ("d",)],  # the same
        [("b", "a"), ("c", "b"), ("d",)],  # in another axis order
        [("a", "b"), ("b", "c"), ("d",), ("c", "d"), ("d", "a")],  # more of them
        [("c", "a", "b"), ("d", "b")],  # larger ones
    ],
    ids=["same", "permuted", "more", "larger"],
)
def test_cliques_that_hold_the_earlier_ones_keep_the_distribution(cliques):
    model = model_over([("a", "b"), ("b", "c"), ("d",)], spread=5.0, total=77.0)
    tables = starting_point(DOMAIN, cliques, model)
    np.testing.assert_allclose(joint(cliques, tables), of(model), atol=1e-14)


def test_a_split_clique_leaves_its_marginals():
    """Where the parts form a tree, the start has the earlier marginals and is their product form."""
    model = model_over([("a", "b", "c"), ("c", "d")], spread=2.0)
    cliques = [("b", "a"), ("b", "c"), ("d", "c")]
    start = joint(cliques, starting_point(DOMAIN, cliques, model))
    truth = of(model)
    ab, bc, b = truth.sum((2, 3)), truth.sum((0, 3)), truth.sum((0, 2, 3))
    d_given_c = truth.sum((0, 1)) / truth.sum((0, 1, 3))[:, None]
    expected = np.einsum("ab,bc,b,cd->abcd", ab, bc, 1 / b, d_given_c)
    np.testing.assert_allclose(start, expected, atol=1e-9)


def test_the_parts_of_a_triple_are_the_nearest_model():
    """Three pairs in place of one triple: no sum of tables over pairs is nearer, by scipy."""
    model = model_over([("a", "b", "c"), ("c", "d")], seed=3, spread=1.0)
    cliques = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    truth, shapes = of(model), [DOMAIN.shape_of(clique) for clique in cliques]
    start = starting_point(DOMAIN, cliques, model)

    def distance(vector):
        ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        tables = [part.reshape(shape) for part, shape in zip(np.split(vector, ends), shapes, strict=True)]
        return divergence(truth, joint(cliques, tables))

    here = distance(np.concatenate([table.ravel() for table in start]))
    best = scipy.optimize.minimize(
        distance, np.zeros(sum(map(np.prod, shapes))), options={"maxiter": 200, "gtol": 1e-5}
    )
    assert here <= best.fun + 1e-6
    assert here < divergence(truth, np.full(truth.shape, 1 / truth.size)) / 2


def test_a_clique_no_longer_measured_leaves_what_is_covered():
    model = model_over([("a", "b"), ("c", "d")], seed=5, spread=2.0)
    cliques = [("a",), ("d", "b")]  # of the pair (c, d) only d is left
    start = joint(cliques, starting_point(DOMAIN, cliques, model))
    truth = of(model)
    np.testing.assert_allclose(start.sum((1, 2, 3)), truth.sum((1, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(start.sum((0, 1, 2)), truth.sum((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(start.sum((0, 2, 3)), truth.sum((0, 2, 3)), atol=1e-6)


def test_several_split_cliques_come_nearer_than_dropping_them():
    model = model_over([("a", "b", "c"), ("b", "c", "d"), ("a", "d")], seed=2, spread=1.0)
    cliques = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    start = starting_point(DOMAIN, cliques, model)
    dropped = [np.zeros(DOMAIN.shape_of(clique)) for clique in cliques]
    dropped[3] = dict(model.potentials)["a", "d"]
    truth = of(model)
    assert divergence(truth, joint(cliques, start)) < divergence(truth, joint(cliques, dropped)) / 2


@pytest.mark.parametrize(
    "cliques", [[("a", "b"), ("b", "c")], [("a",), ("b", "c")], [("c", "a", "b")]], ids=str
)
def test_impossible_cells_are_not_taken_over(cliques):
    model = model_over([("a", "b"), ("b", "c"), ("a", "d")], zeros=0.4, spread=300.0)
    for table in starting_point(DOMAIN, cliques, model):
        assert np.isfinite(table).all()


def test_impossible_cells_start_with_the_mean_weight_of_the_others():
    model = pj.GraphicalModel.from_potentials(
        pj.Domain({"a": 3}), {("a",): [np.log(3.0), np.log(1.0), -np.inf]}, total=5
    )
    (table,) = starting_point(model.domain, [("a",)], model)
    np.testing.assert_allclose(np.exp(table), [3.0, 1.0, 2.0])


def test_potentials_of_a_finished_fit_split_without_overflow():
    """Zero cells drive potentials thousands of nats down; logarithms of marginals would not hold that."""
    model = model_over([("a", "b", "c"), ("c", "d")], spread=5000.0)
    cliques = [("a", "b"), ("b", "c"), ("d",)]
    with np.errstate(all="raise", under="ignore"):
        start = joint(cliques, starting_point(DOMAIN, cliques, model))
    truth = of(model)
    np.testing.assert_allclose(start.sum((2, 3)), truth.sum((2, 3)), atol=1e-6)
    np.testing.assert_allclose(start.sum((0, 3)), truth.sum((0, 3)), atol=1e-6)


def test_without_a_model_all_cells_are_equal():
    assert all((table == 0).all() for table in starting_point(DOMAIN, [("a",), ("b", "c")], None))


def test_no_clique_in_common_starts_uniform():
    (table,) = starting_point(DOMAIN, [("a",)], model_over([("b", "c")]))
    assert (table == 0).all()


def test_where_memory_is_short_a_split_potential_counts_alone(monkeypatch):
    model = model_over([("a", "b", "c")], spread=2.0)  # alone it is: nothing else is to be known
    cliques = [("a", "b"), ("b", "c")]
    expected = starting_point(DOMAIN, cliques, model)
    monkeypatch.setattr(host, "available_bytes", lambda: 100)
    for table, other in zip(starting_point(DOMAIN, cliques, model), expected, strict=True):
        np.testing.assert_allclose(table - table.max(), other - other.max(), atol=1e-9)


def test_a_model_over_another_domain_is_refused():
    other = pj.GraphicalModel.from_potentials(pj.Domain({"z": 2}), {})
    with pytest.raises(ValueError, match="warm_start"):
        starting_point(DOMAIN, [("a",)], other)


CLIQUES = [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("d", "c"), ("c", "b"), ("a", "d")]


def measured(count, total=5000.0):
    """Answers about the first so many cliques of a growing structure."""
    rng = np.random.default_rng(11)
    truth = rng.dirichlet(np.full(DOMAIN.size(), 0.3)).reshape(DOMAIN.shape) * total
    result = []
    for clique in CLIQUES:
        axes = tuple(i for i, name in enumerate(DOMAIN.attributes) if name not in clique)
        kept = [name for name in DOMAIN.attributes if name in clique]
        exact = truth.sum(axes).transpose([kept.index(name) for name in clique])
        result.append(pj.LinearMeasurement(clique, exact + 20 * rng.normal(size=exact.shape), 20.0))
    return result[:count]


def loss_of(model, measurements):
    return sum(0.5 * np.sum(((model.marginal(m.clique) - m.values) / m.stddev) ** 2) for m in measurements)


def test_a_growing_structure_starts_where_it_was_and_comes_further():
    """Each round adds a clique: the start fits the old answers as before, and few steps lead further.

    Further than from the uniform distribution: a fit of its own starts in closed form.
    """
    uniform = pj.GraphicalModel.from_potentials(DOMAIN, {}, total=5000)
    estimator = to_optimum(dtype="float64", tol=1e-5, max_steps=5000)
    short = dataclasses.replace(estimator, max_steps=20, tol=0.0)
    model = estimator.fit(DOMAIN, measured(4), total=5000).model
    for count in range(5, len(CLIQUES) + 1):
        before = loss_of(model, measured(count - 1))
        tables = starting_point(DOMAIN, CLIQUES[:count], model)
        start = pj.GraphicalModel.from_potentials(
            DOMAIN, dict(zip(CLIQUES[:count], tables, strict=True)), total=5000
        )
        assert loss_of(start, measured(count - 1)) == pytest.approx(before, rel=1e-10)
        cold = short.fit(DOMAIN, measured(count), total=5000, warm_start=uniform)
        warm = short.fit(DOMAIN, measured(count), total=5000, warm_start=model)
        best = estimator.fit(DOMAIN, measured(count), total=5000, warm_start=model)
        assert best.status is pj.Status.CONVERGED
        assert warm.loss - best.loss < (cold.loss - best.loss) / 2
        model = best.model


def test_another_total_starts_from_the_same_distribution():
    estimator = to_optimum(dtype="float64", tol=1e-6, max_steps=5000)
    first = estimator.fit(DOMAIN, measured(8), total=5000)
    doubled = [pj.LinearMeasurement(m.clique, 2 * m.values, 2 * m.stddev) for m in measured(8)]
    tables = starting_point(DOMAIN, CLIQUES, first.model)
    start = pj.GraphicalModel.from_potentials(DOMAIN, dict(zip(CLIQUES, tables, strict=True)), total=10_000)
    assert loss_of(start, doubled) == pytest.approx(first.loss, rel=1e-10)
    again = estimator.fit(DOMAIN, doubled, total=10_000, warm_start=first.model)
    assert again.status is pj.Status.CONVERGED
    assert again.loss <= first.loss * (1 + 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_certificates_hold_from_any_start(dtype):
    """However bad the start: the loss less the certified gap never passes the optimum."""
    best = to_optimum(dtype="float64", tol=1e-9, max_steps=20_000).fit(DOMAIN, measured(8), total=5000)
    bad = model_over([("a", "c", "d"), ("b", "d")], seed=4, spread=100.0)
    for steps in (1, 10, 100):
        fit = to_optimum(dtype=dtype, max_steps=steps, tol=0.0).fit(
            DOMAIN, measured(8), total=5000, warm_start=bad
        )
        assert fit.loss - fit.gap <= best.loss + 1e-6
        assert fit.loss >= best.loss - best.gap - 1e-6
    assert not jax.config.jax_enable_x64
