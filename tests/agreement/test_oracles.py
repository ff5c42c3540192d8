"""Every exact oracle, planned and asked in float64 as a user does, against brute force over all cells."""

import numpy as np
import pytest

from pgmjax.inference import oracles
from pgmjax.inference.plan.structure import Structure
from tests.agreement.structures import DRAWS, STRUCTURES, case
from tests.brute_force import BruteForce

EXACT = ("contraction", "levels", "chain", "sliced", "message_passing", BruteForce)
# compiled anew for every structure: some of them quickly, the others where slow tests run
QUICKLY = ("cycle of four", "tree with triples", "parts")
OTHERS = [name for name in STRUCTURES if name not in QUICKLY]
NAMES = [pytest.param([name], id=name) for name in QUICKLY]
NAMES += [pytest.param(OTHERS, marks=pytest.mark.slow, id="the others")]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("kind", EXACT)
def test_log_partition_and_marginals_of_every_clique(names, kind):
    for name in names:
        agrees(name, kind)


def agrees(name, kind):
    found = case(name, DRAWS)
    covered = tuple(n for n in found.domain.attributes if any(n in clique for clique in found.cliques))
    structure, attributes = Structure.named(found.domain.project(covered).sizes, found.cliques)
    plan = oracles.plan(structure, attributes, kind, itemsize=8, finite=False)
    assert type(plan.oracle) is oracles.kind(kind)
    free = np.log(found.domain.size() / found.domain.size(covered))
    for draw in found.draws:
        log_partition, marginals = plan.infer([table[draw] for table in found.tables])
        np.testing.assert_allclose(log_partition + free, found.log_partition(draw), rtol=1e-13, atol=1e-11)
        for clique, table, got in zip(found.cliques, found.tables, marginals, strict=True):
            np.testing.assert_allclose(got, found.marginal(draw, clique), atol=1e-12)
            assert (got[np.isneginf(table[draw])] == 0).all()
