"""Contraction paths: every variable goes exactly once and the forecast counts what is there."""

import math

import numpy as np
import pytest

from pgmjax.inference import ops
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp
from tests import models
from tests.models import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES)
def test_steps_use_every_table_once(name):
    structure = Structure(*STRUCTURES[name])
    path = contraction.plan(structure)
    used = [i for step in path.steps for i in step.operands]
    assert sorted(used) == list(range(len(structure.cliques) + len(path.steps) - 1))
    assert path.steps[-1].kept == ()


@pytest.mark.parametrize("name", STRUCTURES)
def test_output_axes_follow_the_order_asked_for(name):
    structure = STRUCTURES[name]
    wanted = tuple(reversed(range(min(3, len(structure[0])))))
    tables = models.potentials(structure, zeros=0.2)
    path = contraction.plan(Structure(*structure), wanted)
    table, scale = ops.contract(path, tables, host_logsumexp)
    logits = models.joint(structure, tables)
    mine = np.exp(table + scale - models.log_partition(logits))
    np.testing.assert_allclose(mine, models.marginal(logits, wanted), rtol=1e-12, atol=1e-15)


def test_figures_of_a_matrix_product():
    # tables ab (2x3) and bc (3x4): reduce a, then c, then the product over b
    path = contraction.plan(Structure((2, 3, 4), ((0, 1), (1, 2))))
    assert path.work == 2 * 3 + 3 * 4 + 3
    assert path.largest == 12


def test_billion_cell_cliques_are_never_stored():
    """A structure whose triangulation has a clique of 2**30 cells is contracted with far less."""
    grid = [(i, i + 1) for i in range(35) if i % 6 != 5] + [(i, i + 6) for i in range(30)]
    structure = Structure((8,) * 36, tuple(grid))
    assert contraction.plan(structure).largest <= 8**7


def random_structure(seed, count=9, variables=10, width=3):
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(2, 4, variables))
    cliques = tuple(
        tuple(int(v) for v in rng.choice(variables, rng.integers(1, width + 1), replace=False))
        for _ in range(count)
    )
    used = sorted({v for c in cliques for v in c})
    return tuple(sizes[v] for v in used), tuple(tuple(used.index(v) for v in c) for c in cliques)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_paths_of_random_models_give_the_joint_sum(seed, quick, monkeypatch):
    monkeypatch.setattr(contraction, "WORTHWHILE", 0)
    monkeypatch.setattr(contraction, "EXHAUSTIVE_TABLES", 12 if seed % 2 else 4)
    contraction._plan.cache_clear()
    structure = random_structure(seed)
    tables = models.potentials(structure, seed=seed, zeros=0.1)
    wanted = (2, 0) if seed % 3 == 0 else ()
    path = contraction.plan(Structure(*structure), wanted, quick=quick)
    contraction._plan.cache_clear()
    table, scale = ops.contract(path, tables, host_logsumexp)
    logits = models.joint(structure, tables)
    mine = np.exp(table + scale - models.log_partition(logits))
    np.testing.assert_allclose(mine, models.marginal(logits, wanted), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("seed", range(8))
def test_axes_stand_as_their_reader_wants_them(seed):
    structure = random_structure(seed, count=12)
    path = contraction.plan(Structure(*structure))
    first = len(structure[1])
    for step, (*operands, result) in zip(path.steps, path.forms, strict=True):
        assert step.union[: len(step.kept)] == step.kept
        assert sum(math.prod(form.shape) for form in operands) == sum(
            path.structure.cells(path.variables(table)) for table in step.operands
        )
        if len(operands) == 1:
            assert operands[0].ordered == path.structure.shape(step.union)
        else:
            (batch, rows, inner), right = operands[0].shape, operands[1].shape
            assert right[:2] == (batch, inner) and result.shape == (batch, rows, right[2])
            assert batch * rows * inner * right[2] == path.structure.cells(step.union)
        for form in operands:
            assert form.table < first or form.order is None


def test_merges_build_the_same_path_again():
    for seed in range(6):
        path = contraction.plan(Structure(*random_structure(seed)), (1,))
        again = contraction.build(path.structure, path.output, path.merges, path.method)
        assert (again.work, again.largest) == (path.work, path.largest)


def test_search_is_never_heavier_than_elimination():
    for seed in range(10):
        structure = Structure(*random_structure(seed, count=14))
        weights = [
            contraction.weight(contraction.plan(structure, quick=quick), contraction.STORED)
            for quick in (False, True)
        ]
        assert weights[0] <= weights[1]


def test_tables_inside_others_are_absorbed():
    merges, left = contraction.absorbed(
        [frozenset(t) for t in ({0}, {0, 1}, {1, 2}, {2, 3}, {3, 4})], frozenset({4})
    )
    assert merges == [(0, 1), (5, 2), (6, 3), (7, 4)]
    assert left == {8: frozenset({4})}


ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
THREE_WAY = (  # fifteen marginals whose triangulation has a clique of a billion cells
    *((1, 3, 13), (6, 7, 12), (4, 8, 9), (0, 6, 8), (2, 3, 12), (0, 2, 3), (7, 9, 11), (5, 9, 12)),
    *((1, 3, 8), (1, 3, 4), (2, 5, 8), (2, 7, 9), (7, 10, 11), (1, 5, 9), (5, 7, 13)),
)


def test_fifteen_marginals_of_adult_are_planned_small():
    structure = Structure(ADULT, THREE_WAY)
    path = contraction.plan(structure)
    assert path.largest <= 10_080_000 and path.work <= 1_027_800_000
    assert path.method == "exhaustive search"
    assert contraction.plan(structure, quick=True).largest > 5 * path.largest


def test_three_hundred_cliques_are_planned():
    chain = Structure((10,) * 302, tuple((i, i + 1, i + 2) for i in range(300)))
    assert contraction.plan(chain).largest == 1000


def test_parts_that_share_nothing_are_planned_apart():
    grid = [(i, i + 1) for i in range(15) if i % 4 != 3] + [(i, i + 4) for i in range(12)]
    one = Structure((5,) * 16, tuple(grid))
    two = Structure((5,) * 32, (*grid, *((a + 16, b + 16) for a, b in grid)))
    assert contraction.plan(two).work <= 2 * contraction.plan(one).work + 1
