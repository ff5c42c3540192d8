"""Every way of asking a model keeps to the constraints it was fitted under: against its joint in NumPy."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from tests.optimum import to_optimum

NAMES = "abcd"
DOMAIN = pj.Domain({"a": 3, "b": 2, "c": {"labels": ["x", "y", "z"]}, "d": 2})
STRUCTURES = [
    [("a", "b"), ("b", "c"), ("c", "d")],
    [("a", "b"), ("c",)],
    [("a", "c"), ("b", "d"), ("a", "d")],
]


def allowed_joint(masks):
    joint = np.ones(DOMAIN.shape, bool)
    for mask in masks:
        order = sorted(mask.clique)
        table = mask.allowed.transpose([mask.clique.index(name) for name in order])
        joint &= table.reshape([DOMAIN[n] if n in order else 1 for n in NAMES])
    return joint


def some_model(seed):
    """A fit under a random mask, an allowed set, a dependency and a fixed marginal with an empty cell."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(36)).reshape(DOMAIN.shape) * 500
    pair = list(itertools.combinations(NAMES, 2))[rng.integers(6)][::-1]
    mask = rng.random(DOMAIN.shape_of(pair)) < 0.8
    mask.flat[0] = True
    combinations = [c for c in itertools.product(range(3), "xyz") if c[1] == "x" or rng.random() < 0.7]
    constraints = [
        pj.StructuralZeros(pair, mask),
        pj.AllowedSet(("a", "c"), combinations),
        pj.FunctionalDependency(("a", "b"), "d", rng.integers(0, 2, (3, 2))),
    ]
    truth = joint * allowed_joint([c.zeros(DOMAIN) for c in constraints])
    if not truth.any():
        return some_model(seed + 1000)
    truth[:, :, rng.integers(1, 3)] = 0
    if truth.any():
        constraints.append(pj.FixedMarginal(("c",), truth.sum((0, 1, 3))))
    masks = [m for m in (c.zeros(DOMAIN) for c in constraints) if m is not None]
    measured = []
    for clique in STRUCTURES[seed % 3]:
        table = truth.sum(tuple(i for i, n in enumerate(NAMES) if n not in clique))
        measured.append(pj.LinearMeasurement(clique, table + rng.normal(size=table.shape) * 5, 5.0))
    fit = to_optimum(max_steps=100, progress=False).fit(DOMAIN, measured, constraints=constraints)
    return fit.model, allowed_joint(masks), constraints


def brute_force(model):
    logs = np.zeros(DOMAIN.shape)
    for clique, table in zip(model.potentials.cliques, model.potentials.tables, strict=True):
        order = sorted(clique)
        table = table.transpose([clique.index(name) for name in order])
        logs = logs + table.reshape([DOMAIN[n] if n in order else 1 for n in NAMES])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum(), logs.max() + np.log(weights.sum())


@pytest.mark.parametrize("seed", range(6))
def test_everything_a_model_is_asked(seed):
    model, allowed, constraints = some_model(seed)
    joint, log_partition = brute_force(model)
    assert (joint[~allowed] == 0).all()
    np.testing.assert_allclose(model.log_partition(), log_partition, rtol=1e-12)
    calibrated = model.calibrate()
    rows = {name: np.asarray(codes) for name, codes in model.sample(2000, seed=seed).items()}
    assert allowed[tuple(rows[n] for n in NAMES)].all()
    mode = model.mode()
    assert joint[tuple(mode[n] for n in NAMES)] == pytest.approx(joint.max(), rel=1e-9)
    for size in (1, 2, 3, 4):
        for clique in (
            itertools.permutations(NAMES, size) if size < 3 else itertools.combinations(NAMES, size)
        ):
            gone = tuple(i for i, n in enumerate(NAMES) if n not in clique)
            order = [n for n in NAMES if n in clique]
            expected = joint.sum(gone).transpose([order.index(n) for n in clique]) * model.total
            possible = allowed.any(gone).transpose([order.index(n) for n in clique])
            for found in (
                model.marginal(clique),
                calibrated.marginal(clique),
                model.answer(pj.queries.marginal(clique)),
            ):
                np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
                assert (found[~possible] == 0).all()
    for constraint in constraints:
        if isinstance(constraint, pj.FixedMarginal):
            np.testing.assert_allclose(model.marginal(constraint.clique), constraint.counts, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_condition_keeps_them_and_refuses_the_impossible(seed):
    model, allowed, _ = some_model(seed)
    joint, _ = brute_force(model)
    for a, label in itertools.product(range(3), "xyz"):
        evidence, c = {"a": a, "c": label}, "xyz".index(label)
        if not allowed[a, :, c].any():
            assert model.log_partition(evidence) == -np.inf
            with pytest.raises(ValueError, match=r"\('a', 'c'\)"):
                model.condition(evidence)
            continue
        given = model.condition(evidence)
        expected = joint[a, :, c] * model.total
        np.testing.assert_allclose(given.marginal(("b", "d")), expected, rtol=1e-8, atol=1e-9)
        assert (given.marginal(("b", "d"))[~allowed[a, :, c]] == 0).all()
        table = given.marginal(("a", "c"))
        assert table[a, c] == pytest.approx(expected.sum()) and np.count_nonzero(table) == 1
