"""Every answer of a graphical model against brute force over all cells."""

import numpy as np
import pytest

from pgmjax.queries import DenseMatrix, WeightedSum, kronecker, matrix, mean, prefix, ranges
from tests.agreement.structures import DRAWS, case, over_structures, sets, summed

LOGS = {"rtol": 1e-13, "atol": 1e-11}  # nats; sums reach a few hundred
SHARES = 1e-12


def queries(domain, generator):
    """Factored queries and a dense one, entries of both signs, over attributes near and far."""
    first, second, last = domain.attributes[0], domain.attributes[1], domain.attributes[-1]
    signed = matrix(generator.normal(size=(3, domain[last])))
    product = kronecker({first: mean(generator.normal(size=domain[first])), last: signed})
    single = kronecker({first: prefix(), last: prefix()})
    other = kronecker({first: prefix(), last: matrix(generator.normal(size=(domain[last],) * 2))})
    return [
        kronecker({second: ranges([(0, 0), (0, 1)])}),
        product,
        kronecker({name: matrix(generator.normal(size=(2, domain[name]))) for name in domain.attributes[:3]}),
        WeightedSum([(1.5, single), (-2.0, other)]),
        DenseMatrix((last, first), generator.normal(size=(4, domain.size((last, first))))),
    ]


def evidences(domain, generator):
    """One value, lists of values, and values of most attributes."""
    names = domain.attributes
    some = {name: [int(generator.integers(domain[name]))] for name in names[1:]}
    return [{names[-1]: [1]}, {names[0]: [0, 1], names[1]: [0, domain[names[1]] - 1]}, some]


@over_structures
def test_log_partition_and_marginals(name, draws):
    found = case(name, draws)
    for draw in found.draws:
        model = found.model(draw)
        np.testing.assert_allclose(model.log_partition(), found.log_partition(draw), **LOGS)
        for clique in sets(found.domain, found.cliques):
            expected = found.marginal(draw, clique)
            got = model.marginal(clique)
            np.testing.assert_allclose(got / 1000, expected, atol=SHARES)
            assert (got[found.impossible(draw, clique)] == 0).all()


@over_structures
def test_evidence_and_conditions(name, draws):
    found = case(name, draws)
    generator = np.random.default_rng(3)
    impossible = 0
    for draw in found.draws:
        model = found.model(draw)
        for evidence in evidences(found.domain, generator):
            agreeing = found.agreeing(evidence)
            expected = found.log_partition(draw, agreeing)
            np.testing.assert_allclose(model.log_partition(evidence), expected, **LOGS)
            share = np.exp(expected - found.log_partition(draw))
            if share == 0:
                impossible += 1
                with pytest.raises(ValueError, match=r"probability zero|smallest float64"):
                    model.condition(evidence)
                continue
            condition = model.condition(evidence)
            np.testing.assert_allclose(condition.total, 1000 * share, rtol=1e-10)
            logits = np.where(agreeing, found.logits[draw], -np.inf)
            weights = np.exp(logits - logits.max())
            for clique in (*found.cliques, (found.domain.attributes[-1], found.domain.attributes[0])):
                expected = summed(found.domain, weights / weights.sum(), clique)
                np.testing.assert_allclose(
                    condition.marginal(clique) / condition.total, expected, atol=SHARES
                )
    assert impossible > 0 or draws < DRAWS


@over_structures
def test_answers_of_queries_with_entries_of_both_signs(name, draws):
    found = case(name, draws)
    generator, signs = np.random.default_rng(4), set()
    for draw in found.draws:
        model = found.model(draw)
        for query in queries(found.domain, generator):
            rows = query.matrix(found.domain).astype(float)
            signs |= set(np.sign(rows).ravel())
            expected = rows @ found.marginal(draw, query.clique).ravel()
            got = np.ravel(model.answer(query)) / 1000
            np.testing.assert_allclose(got, expected, atol=SHARES * np.abs(rows).sum(axis=1).max())
    assert signs == {-1, 0, 1}


@over_structures
def test_mode_and_entropy(name, draws):
    found = case(name, draws)
    for draw in found.draws:
        model = found.model(draw)
        cell = tuple(model.mode()[n] for n in found.domain.attributes)
        np.testing.assert_allclose(found.logits[draw][cell], found.logits[draw].max(), rtol=1e-13)
        p = found.shares[draw][found.shares[draw] > 0]
        np.testing.assert_allclose(model.entropy(), -(p * np.log(p)).sum(), atol=1e-10)
