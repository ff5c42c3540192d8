"""Contraction paths: every variable goes exactly once and the forecast counts what is there."""

import numpy as np
import pytest

from pgmjax import ops
from pgmjax.plan import contraction
from pgmjax.plan.structure import Structure
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
    table, scale = ops.contract(path, tables, ops.host_logsumexp)
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
