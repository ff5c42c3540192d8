"""Rows against brute force: drawn, dealt evenly, and completed.

Seeds are fixed, so that a test fails for a fault and not by chance. What chance gives: the distance of
independent rows lies more than 3 of `check_rows`' standard errors above its mean less often than 1.2e-4 (its
docstring). The mean over all draws, where a small bias shows first, is held to 4 of its standard errors.
"""

import numpy as np

from tests.agreement.structures import case, over_structures, sets, summed

ROWS = 2000


def distance(columns, clique, shares):
    """Total variation of a marginal of rows from probabilities."""
    cell = np.ravel_multi_index([columns[name] for name in clique], shares.shape)
    return 0.5 * np.abs(np.bincount(cell, minlength=shares.size) / len(cell) - shares.ravel()).sum()


def cells(found, columns):
    """The joint cell of each row."""
    return np.ravel_multi_index([columns[name] for name in found.domain.attributes], found.domain.shape)


@over_structures
def test_drawn_rows_are_as_far_from_the_truth_as_chance_has_it(name, draws):
    found = case(name, draws)
    errors = []
    for draw in found.draws:
        model = found.model(draw)
        columns = model.sample(ROWS, seed=draw, method="multinomial")
        assert not np.isneginf(found.logits[draw].ravel()[cells(found, columns)]).any()
        for check in model.check_rows(columns, sets(found.domain, found.cliques)):
            expected = distance(columns, check.clique, found.marginal(draw, check.clique))
            np.testing.assert_allclose(check.total_variation, expected, atol=1e-12)
            assert check.standard_errors < 3
        mine = [check.standard_errors for check in model.check_rows(columns)]
        errors.append(np.mean(mine))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors))


@over_structures
def test_rows_dealt_evenly_are_the_marginals_up_to_rounding(name, draws):
    found = case(name, draws)
    largest = []
    for draw in found.draws:
        columns = found.model(draw).sample(ROWS, seed=draw, method="round")
        assert not np.isneginf(found.logits[draw].ravel()[cells(found, columns)]).any()
        for clique in found.cliques:
            shares = found.marginal(draw, clique)
            cell = np.ravel_multi_index([columns[n] for n in clique], shares.shape)
            misses = np.abs(np.bincount(cell, minlength=shares.size) - ROWS * shares.ravel())
            largest.append(misses.max())
            others = {n for other in found.cliques if other != clique for n in other}
            if not others & set(clique):  # dealt in one walk; elsewhere a separator's rounding comes on top
                assert misses.max() < 1
    assert np.mean(largest) < 1  # independent rows: about 10 where probabilities are not all 0 and 1


@over_structures
def test_completed_rows_follow_the_conditional_distribution(name, draws):
    found = case(name, draws)
    names = found.domain.attributes
    generator = np.random.default_rng(6)
    errors = []
    for draw in found.draws:
        model = found.model(draw)
        cell = np.unravel_index(
            generator.choice(found.shares[draw].size, p=found.shares[draw].ravel()), found.domain.shape
        )
        known = {names[i]: int(cell[i]) for i in generator.permutation(len(names))[: len(names) // 2]}
        given = {n: np.full(ROWS, code) for n, code in known.items()}
        mine = []
        # half of the rows know one attribute less
        less = next(iter(given))
        given[less][ROWS // 2 :] = -1
        columns = model.complete(given, seed=draw, method="multinomial")
        assert all((columns[n] == code).all() for n, code in known.items() if n != less)
        assert (columns[less][: ROWS // 2] == known[less]).all()
        for part, evidence in (
            (slice(ROWS // 2), known),
            (slice(ROWS // 2, None), {n: c for n, c in known.items() if n != less}),
        ):
            rows = {n: column[part] for n, column in columns.items()}
            assert not np.isneginf(found.logits[draw].ravel()[cells(found, rows)]).any()
            for check in model.condition(evidence).check_rows(rows, [*found.cliques, (names[-1], names[0])]):
                agreeing = found.agreeing({n: [c] for n, c in evidence.items()})
                shares = np.where(agreeing, found.shares[draw], 0)
                expected = distance(
                    rows, check.clique, summed(found.domain, shares / shares.sum(), check.clique)
                )
                np.testing.assert_allclose(check.total_variation, expected, atol=1e-9)
                assert check.standard_errors < 3
                mine.append(check.standard_errors)
        errors.append(np.mean(mine))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors))
