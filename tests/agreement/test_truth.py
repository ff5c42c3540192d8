"""The truth that the other tests use, against sums written cell by cell; and what the draws hold."""

import itertools
import math

import numpy as np
import pytest

from tests.agreement.structures import DRAWS, STRUCTURES, case


def test_the_structures_are_ten_and_small():
    assert len(STRUCTURES) == 10
    for sizes, _ in STRUCTURES.values():
        assert math.prod(sizes) <= 5000 and set(sizes) <= {2, 3, 4}


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_joint_is_the_sum_of_the_potentials_of_each_cell(name):
    found = case(name, DRAWS)
    names = found.domain.attributes
    for draw in (0, 3):
        weights = {}
        for cell in itertools.product(*map(range, found.domain.shape)):
            codes = dict(zip(names, cell, strict=True))
            logs = [
                table[(draw, *(codes[n] for n in clique))]
                for clique, table in zip(found.cliques, found.tables, strict=True)
            ]
            assert math.isclose(found.logits[draw][cell], math.fsum(logs), rel_tol=1e-12, abs_tol=1e-12) or (
                -math.inf in logs and found.logits[draw][cell] == -math.inf
            )
            weights[cell] = math.fsum(logs) if -math.inf not in logs else -math.inf
        top = max(weights.values())
        whole = math.fsum(math.exp(value - top) for value in weights.values())
        assert found.log_partition(draw) == pytest.approx(top + math.log(whole), abs=1e-11)
        some = math.fsum(math.exp(v - top) for c, v in weights.items() if c[0] == 1 and c[1] == 0) / whole
        assert found.marginal(draw, (names[1], names[0]))[0, 1] == pytest.approx(some, abs=1e-14)


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_draws_hold_zeros_and_wide_spreads(name):
    found = case(name, DRAWS)
    cells = tuple(range(1, found.logits.ndim))
    holds = np.isneginf(found.logits).any(axis=cells)
    assert not holds[0::2].any() and holds[1::2].mean() > 0.9
    assert np.isfinite(found.logits).any(axis=cells).all()
    tops = found.shares.reshape(DRAWS, -1).max(axis=1)
    assert np.median(tops[2::4]) > 2 * np.median(tops[0::4])  # a wide spread leaves few likely cells
