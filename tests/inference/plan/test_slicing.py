"""Slices add up to the whole model, keep to the memory they are given, or are refused with figures."""

import itertools
import math

import numpy as np
import pytest

from pgmjax.inference import ops
from pgmjax.inference.plan import contraction, slicing
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp
from tests import models
from tests.inference.plan.test_contraction import ADULT, THREE_WAY, random_structure

TWO_GB = 2 * 10**9


def pairs(count, size):
    return Structure((size,) * count, tuple(itertools.combinations(range(count), 2)))


def cut(sliced, tables, index):
    """Tables of one slice."""
    starts = sliced.starts[index]
    found = []
    for table, axes in zip(tables, sliced.axes, strict=True):
        for axis, place in axes:
            table = table.take(range(starts[place], starts[place] + sliced.widths[place]), axis=axis)
        found.append(table)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_slices_add_up_to_the_whole(seed):
    structure = Structure(*random_structure(seed, count=8, variables=8))
    tables = models.potentials((structure.sizes, structure.cliques), seed=seed, zeros=0.1)
    logits = models.joint((structure.sizes, structure.cliques), tables)
    sliced = slicing.plan(structure, 10**6, min_slices=4)
    assert sliced.slices >= 4 and sliced.path.structure.cliques == structure.cliques
    logs, sums = [], [np.zeros(s) for s in structure.shapes]
    for index in range(sliced.slices):
        part = cut(sliced, tables, index)
        assert [t.shape for t in part] == list(sliced.path.structure.shapes)
        table, scale = ops.contract(sliced.path, part, host_logsumexp)
        logs.append(table + scale)
        cells = np.exp(models.joint((sliced.path.structure.sizes, structure.cliques), part))
        for n, (clique, axes) in enumerate(zip(structure.cliques, sliced.axes, strict=True)):
            where = [slice(None)] * len(clique)
            for axis, place in axes:
                start = sliced.starts[index][place]
                where[axis] = slice(start, start + sliced.widths[place])
            order = sorted(range(len(clique)), key=lambda a: clique[a])
            mine = cells.sum(axis=tuple(v for v in range(cells.ndim) if v not in clique))
            sums[n][tuple(where)] += mine.transpose(np.argsort(order))
    total = models.log_partition(logits)
    assert np.logaddexp.reduce(logs) == pytest.approx(total, abs=1e-12)
    for clique, mine in zip(structure.cliques, sums, strict=True):
        np.testing.assert_allclose(mine / np.exp(total), models.marginal(logits, clique), rtol=1e-11)


@pytest.mark.parametrize("megabytes", [150, 100, 50, 20, 10])
def test_fifteen_marginals_of_adult_in_less_and_less_memory(megabytes):
    structure = Structure(ADULT, THREE_WAY)
    sliced = slicing.plan(structure, megabytes * 10**6)
    assert 4 * sliced.cost.peak <= megabytes * 10**6
    assert sliced.slices == math.prod(sliced.parts) == sliced.cost.slices
    assert all(structure.sizes[v] % w == 0 for v, w in zip(sliced.variables, sliced.widths, strict=True))
    assert sliced.overhead <= 2.5 and sliced.cost.exponentials == sliced.slices * sliced.path.work
    assert hash(sliced) == hash(slicing.plan(structure, megabytes * 10**6))


def test_a_billion_cells_run_in_two_gigabytes():
    adult, seven = Structure(ADULT, THREE_WAY), pairs(7, 20)
    for structure in (adult, seven):
        sliced = slicing.plan(structure, TWO_GB)
        assert 4 * sliced.cost.peak < TWO_GB / 8 and sliced.variables == ()
        assert sliced.path == contraction.plan(structure)
        assert sliced.overhead == 1.0
    assert seven.cells(range(7)) == 1_280_000_000


def test_half_a_trillion_cells_run_in_two_gigabytes_in_slices():
    sliced = slicing.plan(pairs(9, 20), TWO_GB)
    assert contraction.plan(pairs(9, 20)).work > 10**11
    assert sliced.slices > 1 and 4 * sliced.cost.peak <= TWO_GB
    assert sliced.overhead < 1.1


def test_lines_name_what_is_sliced():
    structure = Structure(ADULT, THREE_WAY)
    text = slicing.plan(structure, 50 * 10**6).lines()[-1]
    assert text.startswith("sliced: variable ") and "values by" in text and "combined cells" in text
    assert not any("sliced" in line for line in slicing.plan(structure, TWO_GB).lines())


def test_devices_share_slices():
    assert slicing.plan(Structure(ADULT, THREE_WAY), TWO_GB, min_slices=8).slices >= 8


REFUSED = {
    "potentials": (
        Structure((1000, 1000, 2), ((0, 1), (1, 2))),
        10**6,
        {},
        r"alone take 7\.64 MiB, so slicing",
    ),
    "work": (pairs(12, 20), 10**14, {}, r"One call takes 4,\d{3},\d{3},.* more than 10,000,000,000,000"),
    "slices": (
        pairs(7, 20),
        5 * 10**6,
        {"MAX_WORK": 1_290_000_000},
        r"slices over \([variable 0-6, ]+\) it takes 1,29\d,.* combined cells, more than 1,290,000,000",
    ),
    "asked": (
        Structure((3, 3), ((0, 1),)),
        10**6,
        {},
        r"into 9 slices over \(variable 0, variable 1\), it needs .* at least 100 slices were asked for",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_says_what_was_tried(case, monkeypatch):
    structure, limit, settings, words = REFUSED[case]
    for name, value in settings.items():
        monkeypatch.setattr(slicing, name, value)
    slicing.plan.cache_clear()
    with pytest.raises(ModelTooLargeError, match=words) as error:
        slicing.plan(structure, limit, 100 if case == "asked" else 1)
    assert str(error.value).startswith("The model needs about ")
    assert "may be used" in str(error.value) and "coarsen the bins" in str(error.value)
