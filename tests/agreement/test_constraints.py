"""Fits under public constraints: models keep to them, and their answers agree with brute force."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation.constraints import AllowedSet, FixedMarginal, FunctionalDependency
from pgmjax.queries import kronecker, matrix, prefix
from tests.agreement.structures import STRUCTURES, case, sets, summed

QUICKLY = ("cycle of four", "parts", "free attributes")  # a fit compiles for every structure
OTHERS = [name for name in STRUCTURES if name not in QUICKLY]
NAMES = [pytest.param([name], id=name) for name in QUICKLY]
NAMES += [pytest.param(OTHERS, marks=pytest.mark.slow, id="the others")]
ROWS = 5000


def constrained(name):
    """A table that meets constraints of all three kinds: domain, cliques, constraints, counts."""
    found = case(name, 1)
    domain, names = found.domain, found.domain.attributes
    generator = np.random.default_rng(list(STRUCTURES).index(name))
    clique = found.cliques[0]
    mask = generator.random(domain.shape_of(clique)) < 0.7
    mask[tuple(np.arange(max(mask.shape)) % size for size in mask.shape)] = True  # every value is possible
    allowed = AllowedSet(clique, np.argwhere(mask).tolist())
    # the last attribute follows from one that it may share no clique with
    function = generator.integers(domain[names[-1]], size=domain[names[0]])
    follows = FunctionalDependency((names[0],), names[-1], function)
    possible = np.ones(domain.shape, bool)
    codes = np.indices(domain.shape)
    possible &= mask[tuple(codes[names.index(n)] for n in clique)]
    possible &= codes[-1] == function[codes[0]]
    counts = np.where(possible, generator.integers(1, 40, domain.shape), 0)
    middle = names[1:3] if name != "chain" else (names[1], names[3])  # and one of two attributes in no clique
    fixed = [FixedMarginal(c, summed(domain, counts, c)) for c in (middle, (names[0],))]
    return domain, found.cliques, [allowed, follows, *fixed], possible, counts


def joint_of(model):
    """Log-potentials of all cells, summed."""
    names, result = model.domain.attributes, np.zeros(model.domain.shape)
    for clique, table in model.potentials.items():
        turned = table.transpose([clique.index(n) for n in names if n in clique])
        result = result + turned.reshape([model.domain[n] if n in clique else 1 for n in names])
    return result


@pytest.mark.parametrize("names", NAMES)
def test_a_constrained_fit_keeps_to_its_constraints_and_agrees_with_brute_force(names):
    for name in names:
        keeps(name)


def keeps(name):
    domain, cliques, constraints, possible, counts = constrained(name)
    generator = np.random.default_rng(7)
    noisy = []
    for clique in cliques:
        values = summed(domain, counts, clique)
        noisy.append(pj.LinearMeasurement(clique, values + generator.normal(0, 3, values.shape), 3.0))
    fit = pj.Estimator(dtype="float64", max_steps=2000, progress=False).fit(
        domain, noisy, constraints=constraints
    )
    assert fit.status == pj.Status.WITHIN_NOISE and fit.gap <= 0.5  # pulled by a weight that the noise chose
    model, total = fit.model, counts.sum()
    assert model.total == pytest.approx(total)
    logits = joint_of(model)
    assert np.isneginf(logits[~possible]).all()
    top = logits.max()
    np.testing.assert_allclose(
        model.log_partition(), top + np.log(np.exp(logits - top).sum()), rtol=1e-13, atol=1e-11
    )
    shares = np.exp(logits - top)
    shares /= shares.sum()
    for one in constraints[2:]:
        np.testing.assert_allclose(total * summed(domain, shares, one.clique), one.counts, rtol=1e-9)
    agrees(model, shares, possible)


def agrees(model, shares, possible):
    """Marginals, answers, conditions, mode and rows of a model against its joint."""
    domain, names = model.domain, model.domain.attributes
    calibrated = model.calibrate()
    for clique in sets(domain, model.potentials.cliques):
        expected = summed(domain, shares, clique)
        for got in (model.marginal(clique), calibrated.marginal(clique)):
            np.testing.assert_allclose(got / model.total, expected, atol=1e-12)
            assert (got[summed(domain, possible, clique) == 0] == 0).all()
    last = matrix(np.random.default_rng(8).normal(size=(3, domain[names[-1]])))
    for query in (kronecker({names[0]: prefix(), names[-1]: last}), kronecker({names[1]: prefix()})):
        expected = query.matrix(domain).astype(float) @ summed(domain, shares, query.clique).ravel()
        np.testing.assert_allclose(np.ravel(model.answer(query)) / model.total, expected, atol=1e-11)
    assert shares[tuple(model.mode()[n] for n in names)] == pytest.approx(shares.max(), rel=1e-9)
    code = int(np.argmax(summed(domain, shares, (names[1],))))
    condition = model.condition({names[1]: code})
    given = np.take(shares, [code], axis=1)
    assert condition.total == pytest.approx(model.total * given.sum(), rel=1e-10)
    got = condition.marginal((names[-1], names[0])) / condition.total
    np.testing.assert_allclose(got, summed(domain, given / given.sum(), (names[-1], names[0])), atol=1e-12)
    for method in ("multinomial", "round"):
        rows = model.sample(ROWS, seed=1, method=method)
        assert possible[tuple(rows[n] for n in names)].all()
        # 1.2e-4 for a clique at most (McDiarmid), and the seed is fixed
        assert all(check.standard_errors < 3 for check in model.check_rows(rows))
    completed = model.complete({names[1]: np.full(ROWS, code)}, seed=2)
    assert possible[tuple(completed[n] for n in names)].all()
    assert all(check.standard_errors < 3 for check in condition.check_rows(completed))
