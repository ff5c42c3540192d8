"""Bulk answers of a calibrated model against brute force over all cells."""

import itertools

import numpy as np

from tests.agreement.structures import case, over_structures, sets

SHARES = 1e-12


@over_structures
def test_marginals_one_by_one_and_all_of_a_size(name, draws):
    found = case(name, draws)
    for draw in found.draws:
        calibrated = found.model(draw).calibrate()
        np.testing.assert_allclose(
            calibrated.log_partition(), found.log_partition(draw), rtol=1e-13, atol=1e-11
        )
        for clique in sets(found.domain, found.cliques):
            got = calibrated.marginal(clique) / 1000
            np.testing.assert_allclose(got, found.marginal(draw, clique), atol=SHARES)
        for size in (1, 2, 3):
            bulk = dict(calibrated.all_marginals(size))
            assert list(bulk) == list(itertools.combinations(found.domain.attributes, size))
            for clique, got in bulk.items():
                np.testing.assert_allclose(got / 1000, found.marginal(draw, clique), atol=SHARES)


@over_structures
def test_conditional_tables(name, draws):
    found = case(name, draws)
    names = found.domain.attributes
    asked = [
        ((names[0],), (names[-1],)),
        ((names[1], names[-1]), (names[0],)),
        ((names[2],), (names[1], names[0])),
    ]
    for draw in found.draws:
        calibrated = found.model(draw).calibrate()
        for target, given in asked:
            joint = found.marginal(draw, (*given, *target))
            axes = tuple(range(len(given), joint.ndim))
            sums = joint.sum(axis=axes, keepdims=True)
            got = calibrated.conditional(target, given)
            np.testing.assert_allclose(got * sums, joint, atol=SHARES)
            whole = got.sum(axis=axes, keepdims=True)
            np.testing.assert_allclose(whole[sums > 1e-250], 1, atol=1e-12)
            assert (whole[sums == 0] == 0).all()


@over_structures
def test_scores(name, draws):
    found = case(name, draws)
    generator = np.random.default_rng(5)
    tables = {c: 50 * generator.random(found.domain.shape_of(c)) for c in sets(found.domain, found.cliques)}
    distances = {
        "l1": lambda x: np.abs(x).sum(),
        "l2": lambda x: np.sqrt((x**2).sum()),
        "max": lambda x: np.abs(x).max(),
    }
    for draw in found.draws:
        calibrated = found.model(draw).calibrate()
        for distance, measure in distances.items():
            for clique, got in calibrated.scores(tables, distance).items():
                expected = measure(1000 * found.marginal(draw, clique) - tables[clique])
                np.testing.assert_allclose(got, expected, rtol=1e-11)
