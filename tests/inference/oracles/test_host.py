"""The host's one-off inference against brute force.

The calibrated tree: its tables are the model's marginals, its conditionals multiply to the joint.

Marginals between cliques of a calibrated tree, with what is kept bounded.
"""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference.oracles import host as questions
from pgmjax.inference.oracles.host import HostModel, QuestionLimits
from pgmjax.inference.oracles.host_tree import HostTree, SlicedTree, summed
from pgmjax.inference.plan import elimination
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.models import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES)
def test_buckets_multiply_to_the_distribution(name):
    """The conditionals read backwards give the joint probability of every cell."""
    structure = STRUCTURES[name]
    tables = models.potentials(structure, zeros=0.2)
    host = HostModel(Structure(*structure), tuple(tables))
    logits = models.joint(structure, tables)
    cells = np.indices(structure[0]).reshape(len(structure[0]), -1)
    log_probability = np.zeros(cells.shape[1])
    with np.errstate(invalid="ignore"):
        for bucket in reversed(host.buckets()):
            weights = bucket.log_weights({v: cells[v] for v in bucket.parents})
            weights = np.broadcast_to(weights, (cells.shape[1], weights.shape[1]))
            norm = np.logaddexp.reduce(weights, axis=1)
            value = weights[np.arange(cells.shape[1]), cells[bucket.variable]] - norm
            log_probability += np.where(np.isnan(value), -np.inf, value)
    expected = models.marginal(logits, tuple(range(len(structure[0])))).ravel()
    np.testing.assert_allclose(np.exp(log_probability), expected, atol=1e-13)


def test_extra_tables_add_variables():
    structure = STRUCTURES["chain"]
    tables = models.potentials(structure)
    host = HostModel(Structure(*structure), tuple(tables))
    compress = np.array([[1, 1, 0], [0, 0, 1.0]])
    with np.errstate(divide="ignore"):
        found = host.log_sum((4, 3), [(np.log(compress), (4, 0))])
    expected = compress @ models.marginal(models.joint(structure, tables), (0, 3))
    np.testing.assert_allclose(np.exp(found - host.log_partition), expected, atol=1e-13)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("spread", [1.0, 400.0])
def test_tables_and_log_partition_are_those_of_the_joint(name, spread):
    structure = STRUCTURES[name]
    tables = models.potentials(structure, seed=3, spread=spread, zeros=0.2)
    logits = models.joint(structure, tables)
    found = HostTree(HostModel(Structure(*structure), tuple(tables)))
    assert found.log_partition == pytest.approx(models.log_partition(logits), rel=1e-13, abs=1e-12)
    product = np.ones(structure[0])
    tables = [found.table(n) for n in range(len(found.given))]
    for given, clique, table in zip(found.given, found.tree.cliques, tables, strict=True):
        np.testing.assert_allclose(table, models.marginal(logits, clique), rtol=0, atol=1e-12)
        order = np.argsort(clique)
        shape = [structure[0][v] if v in clique else 1 for v in range(len(structure[0]))]
        product = product * given.transpose(order).reshape(shape)
    everything = tuple(range(len(structure[0])))
    np.testing.assert_allclose(product, models.marginal(logits, everything), rtol=0, atol=1e-12)


def test_variables_of_one_value_change_nothing():
    """Their cliques' sums have one term each."""
    sizes, cliques = (2, 1, 3, 1), ((0, 1), (0, 2), (0, 3), (1,))
    tables = models.potentials((sizes, cliques), seed=4)
    logits = models.joint((sizes, cliques), tables)
    tree = HostTree(HostModel(Structure(sizes, cliques), tuple(tables)))
    assert tree.log_partition == pytest.approx(models.log_partition(logits), abs=1e-13)
    for wanted in [(0,), (1, 2), (2, 0), (3, 1, 0, 2)]:
        np.testing.assert_allclose(tree.marginal(wanted), models.marginal(logits, wanted), atol=1e-14)


def test_a_tree_that_does_not_fit_is_refused_as_a_whole(monkeypatch):
    """Every table alone would fit."""
    sizes = (100,) * 40
    cliques = tuple((i, i + 1) for i in range(39))
    host = HostModel(Structure(sizes, cliques), tuple(np.zeros((100, 100)) for _ in cliques))
    monkeypatch.setattr(questions, "available_bytes", lambda: 8 * 39 * 10_000)
    with pytest.raises(ModelTooLargeError, match="junction tree"):
        HostTree(host)


def test_summed_keeps_the_order_asked_for():
    table = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(summed(table, (5, 6, 7), (7, 5)), table.sum(axis=1).T)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_every_order_of_every_set(name, cache_bytes):
    structure = STRUCTURES[name]
    tables = models.potentials(structure, seed=5, spread=3.0, zeros=0.2)
    logits = models.joint(structure, tables)
    tree = HostTree(HostModel(Structure(*structure), tuple(tables)), cache_bytes)
    for k in range(1, len(structure[0]) + 1):
        for wanted in itertools.permutations(range(len(structure[0])), k):
            np.testing.assert_allclose(
                tree.marginal(wanted), models.marginal(logits, wanted), rtol=0, atol=1e-13
            )


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_sets_of_one_large_clique(cache_bytes):
    shape = (2, 3, 2, 4, 2, 3, 2)
    table = np.random.default_rng(0).normal(0, 2, shape)
    tree = HostTree(HostModel(Structure(shape, (tuple(range(7)),)), (table,)), cache_bytes)
    everything = np.exp(table) / np.exp(table).sum()
    for wanted in (w for count in (1, 2, 3, 6) for w in itertools.permutations(range(7), count)):
        gone = tuple(v for v in range(7) if v not in wanted)
        expected = everything.sum(axis=gone).transpose(np.argsort(np.argsort(wanted)))
        np.testing.assert_allclose(tree.marginal(wanted), expected, atol=1e-14)


def test_a_marginal_far_apart_is_refused_beforehand_if_it_takes_too_long():
    """The limit counts the cells between the attributes; marginals in a clique are no matter."""
    rng, size, length = np.random.default_rng(0), 60, 40
    chain = Structure((size,) * length, tuple((i, i + 1) for i in range(length - 1)))
    host = HostModel(chain, tuple(rng.normal(size=(size, size)) for _ in range(length - 1)))
    tree = HostTree(dataclasses.replace(host, limits=QuestionLimits(max_seconds=1e-3)))
    assert tree.seconds((3, 4)) < 1e-3 < tree.seconds((0, length - 1)) < 1
    assert tree.marginal((3, 4)).sum() == pytest.approx(1)
    with pytest.raises(ModelTooLargeError, match="may be used"):
        tree.marginal((0, length - 1))


def test_pairs_of_a_chain_cost_one_product_each():
    """Each new pair adds one message at most: the path between two attributes is not walked again."""
    length = 30
    cliques = tuple((i, i + 1) for i in range(length - 1))
    rng = np.random.default_rng(0)
    tree = HostTree(HostModel(Structure((3,) * length, cliques), tuple(rng.normal(size=(length - 1, 3, 3)))))
    products = []
    plain = tree._product
    tree._product = lambda factors, output: products.append(1) or plain(factors, output)
    pairs = list(itertools.combinations(range(length), 2))
    for pair in pairs:
        tree.marginal(pair)
    assert len(products) <= 3 * len(pairs)  # the message, the pair, its axes


def test_a_grid_of_loops_between_the_attributes():
    sizes = (2, 3, 2, 3, 2, 3, 2, 3, 2)
    cliques = tuple((r * 3 + c, r * 3 + c + 1) for r in range(3) for c in range(2))
    cliques += tuple((r * 3 + c, r * 3 + c + 3) for r in range(2) for c in range(3))
    tables = models.potentials((sizes, cliques), seed=1, spread=2.0)
    logits = models.joint((sizes, cliques), tables)
    tree = HostTree(HostModel(Structure(sizes, cliques), tuple(tables)))
    for wanted in [(0, 8), (8, 2, 6), (6, 0, 8, 2), tuple(range(9))]:
        np.testing.assert_allclose(tree.marginal(wanted), models.marginal(logits, wanted), rtol=0, atol=1e-13)


NETWORK = Structure((2, 3, 2, 2, 3), ((0,), (1, 0), (2, 0, 1), (3, 2), (4, 2, 3)))


def network(seed: int = 0) -> HostModel:
    """A Bayesian network: the table of each variable, given the ones that follow it in its clique."""
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.ones(shape[0]), shape[1:]) for shape in NETWORK.shapes]
    return HostModel(NETWORK, tuple(np.log(np.moveaxis(table, -1, 0)) for table in tables))


@pytest.mark.parametrize("wanted", [(0,), (2,), (1, 2), (3, 0), (4, 1)])
def test_marginals_of_a_network_need_only_the_ancestors(wanted):
    host = network()
    logits = models.joint((NETWORK.sizes, NETWORK.cliques), list(host.tables))
    np.testing.assert_allclose(host.marginal(wanted), models.marginal(logits, wanted), atol=1e-14)
    asked, _ = host._asked(wanted)
    used = {v for clique in asked.cliques for v in clique}
    ancestors = {0: {0}, 1: {0, 1}, 2: {0, 1, 2}, 3: {0, 1, 2, 3}, 4: {0, 1, 2, 3, 4}}
    assert used == set().union(*(ancestors[v] for v in wanted))


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("seed", range(3))
def test_evidence_is_cut_away(name, seed, monkeypatch):
    """Some codes of some variables, by the whole path and by a plan of what is left."""
    rng = np.random.default_rng(seed)
    sizes, cliques = STRUCTURES[name]
    tables = models.potentials((sizes, cliques), seed=seed, zeros=0.2)
    host = HostModel(Structure(sizes, cliques), tuple(tables))
    held = [v for v in range(len(sizes)) if any(v in c for c in cliques) and rng.random() < 0.6]
    allowed = {v: np.sort(rng.permutation(sizes[v])[: rng.integers(1, sizes[v] + 1)]) for v in held}
    logits = models.joint((sizes, cliques), tables)
    for v, codes in allowed.items():
        logits = np.where(np.isin(np.indices(sizes)[v], codes), logits, -np.inf)
    expected = models.log_partition(logits)
    assert host.log_evidence(allowed) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    monkeypatch.setattr("pgmjax.inference.oracles.host._PLANNING", 0.0)
    assert host.log_evidence(allowed) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["loop", "triangle", "disconnected", "wide"])
def test_parts_of_a_model_give_the_marginals_of_the_whole(name, monkeypatch):
    """Memory for less than half of the tree: through slices of a contraction, and parts of the tree."""
    sizes, cliques = STRUCTURES[name]
    tables = models.potentials((sizes, cliques), spread=20.0, zeros=0.2)
    host = HostModel(Structure(sizes, cliques), tuple(tables))
    order = elimination.best(host.structure)
    assert host.divided() == [{}]
    half = QuestionLimits(questions.needed_bytes(host.structure, order) // 2)
    host = dataclasses.replace(host, limits=half)
    divided = host.divided()
    assert len(divided) > 1
    logits = models.joint((sizes, cliques), tables)
    wanted = [*cliques, (0, len(sizes) - 1)]
    for found, variables in zip(SlicedTree(host, divided).marginals(wanted), wanted, strict=True):
        np.testing.assert_allclose(found, models.marginal(logits, variables), atol=1e-13)
    logs = [host.restricted(some).log_partition for some in divided]
    assert np.logaddexp.reduce(logs) == pytest.approx(models.log_partition(logits), abs=1e-12)


def test_many_questions_of_a_star_are_answered_by_its_tree(monkeypatch):
    """Leaves around a wide attribute: the table of a clique is first summed to what is asked of it."""
    rng = np.random.default_rng(2)
    sizes, leaves = (300, *[11] * 14), range(1, 15)
    tables = [rng.normal(size=(300, 11)) for _ in leaves]
    host = HostModel(Structure(sizes, tuple((0, leaf) for leaf in leaves)), tuple(tables))
    tree, alone = HostTree(host), []
    monkeypatch.setattr(HostModel, "marginal", lambda self, wanted: alone.append(wanted))
    found = {pair: tree.marginal(pair) for pair in itertools.combinations(leaves, 2)}
    assert not alone
    given = [np.exp(table - table.max()) for table in tables]
    sums = np.prod([table.sum(axis=1) for table in given], axis=0)
    for (i, j), table in found.items():
        one, other = given[i - 1], given[j - 1]
        rest = sums / one.sum(axis=1) / other.sum(axis=1)
        joint = np.einsum("hx,hy,h->xy", one, other, rest)
        np.testing.assert_allclose(table, joint / joint.sum(), rtol=1e-9)


def test_evidence_of_a_model_of_jax_arrays():
    rng = np.random.default_rng(3)
    tables = [rng.normal(size=(3, 4)), rng.normal(size=(4, 2))]
    structure, allowed = Structure((3, 4, 2), ((0, 1), (1, 2))), {0: np.array([1]), 1: np.array([0, 3])}
    joint = tables[0][:, :, None] + tables[1][None]
    truth = np.log(np.exp(joint[1][[0, 3]]).sum())
    for made in (tables, [jnp.asarray(table, jnp.float32) for table in tables]):
        assert HostModel(structure, tuple(made)).log_evidence(allowed) == pytest.approx(truth, abs=1e-5)
