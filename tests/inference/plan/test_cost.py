"""Cost figures: known products, memory counted table by table, and sums that must hold."""

import dataclasses

import pytest

from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.contraction import SHOWN, build, of_path
from pgmjax.inference.plan.forecast import Rates
from pgmjax.inference.plan.structure import Structure
from tests.models import STRUCTURES

SQUARE = Structure((10, 20, 30, 40), ((0, 1), (1, 2), (2, 3), (3, 0)))


def test_figures_of_one_matrix_product():
    # ab (2x3), bc (3x4) and ca (4x2): ab x bc -> ca, then both ca are multiplied and summed
    path = build(Structure((2, 3, 4), ((0, 1), (1, 2), (2, 0))), (), [(0, 1), (3, 2)], "hand")
    found = of_path(path)
    assert [(p.batch, p.left, p.summed, p.right) for p in found.products] == [(1, 2, 3, 4)]
    assert found.exponentials == 24 + 8
    assert "144 flops as matrix products" in found.lines()[0]
    assert (path.structure.length, found.stored, path.largest) == (26, 8 + 1, 12)
    assert found.moved == 3 * ((6 + 12 + 8) + (8 + 8 + 1))


def live_cells(path):
    """Peak by keeping a set of live tables: inputs and gradients always, results until differentiated."""
    cells, first = path.structure.cells, len(path.structure.cliques)
    live = {("input", i): cells(c) for i, c in enumerate(path.structure.cliques)}
    live |= {("gradient", i): cells(c) for i, c in enumerate(path.structure.cliques)}
    live |= {("result", first + n): cells(s.kept) for n, s in enumerate(path.steps)}
    live["gradient", first + len(path.steps) - 1] = cells(path.steps[-1].kept)
    peak = 0
    for n in reversed(range(len(path.steps))):
        step = path.steps[n]
        for i in step.operands:
            live["gradient", i] = cells(path.variables(i))
        work = sum(cells(path.variables(i)) for i in step.operands) + cells(step.kept)
        peak = max(peak, sum(live.values()) + work)
        del live["result", first + n], live["gradient", first + n]
    return peak


@pytest.mark.parametrize("name", STRUCTURES)
def test_peak_counts_every_live_table(name):
    path = contraction.plan(Structure(*STRUCTURES[name]))
    assert of_path(path).peak == live_cells(path)


def test_union_of_a_product_is_not_part_of_the_peak():
    wide = Structure((300, 300, 300), ((0, 1), (1, 2), (2, 0)))
    found = of_path(contraction.plan(wide))
    assert found.exponentials >= 300**3
    assert found.peak < 20 * 300**2


@pytest.mark.parametrize("name", STRUCTURES)
def test_figures_agree_with_the_path(name):
    path = contraction.plan(Structure(*STRUCTURES[name]))
    found = of_path(path)
    assert found.exponentials == path.work
    assert found.operations >= len(path.steps)
    assert found.seconds() <= found.seconds(exact=True) + 1e-15


def test_rates_scale_the_forecast():
    """One large product of tables of 90 x 80 and 80 x 70 cells, then a sum over the 90 x 70 that are left."""
    path = build(Structure((90, 80, 70), ((0, 1), (1, 2), (2, 0))), (), [(0, 1), (3, 2)], "hand")
    found, nothing = of_path(path), Rates(0.0, 0.0, 0.0, 0.0)
    each = {
        rate: found.seconds(dataclasses.replace(nothing, **{rate: 1.0}))
        for rate in ("exponential", "flop", "cell")
    }
    assert each == {
        "exponential": 3 * 90 * 70,
        "flop": 3 * 2 * 90 * 80 * 70,
        "cell": 3 * (90 * 80 + 80 * 70 + 90 * 70),
    }
    exact = found.seconds(dataclasses.replace(nothing, exponential=1.0), exact=True)
    assert exact == 3 * found.exponentials == 3 * (90 * 80 * 70 + 90 * 70)


def test_lines_say_what_a_run_will_take():
    found = of_path(contraction.plan(SQUARE))
    text = "\n".join(found.lines())
    assert "compiled operations" in text and "at the peak" in text and "flops as matrix products" in text
    assert text.count("exact, at once") == len(found.products)
    large = of_path(contraction.plan(Structure((90,) * 3, ((0, 1), (1, 2), (2, 0)))))
    assert "exact, in tiles" in large.lines()[3] and "matrix product" in large.lines(fast=True)[3]
    many = dataclasses.replace(large, products=large.products * (SHOWN + 3), slices=3)
    assert many.lines()[-1] == "  and 3 smaller products"
    assert many.lines()[0].startswith(f"{3 * 90**3 * (SHOWN + 3):,} combined cells")
