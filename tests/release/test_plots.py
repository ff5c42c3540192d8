"""Plots: what is drawn, that it follows the page's colours, and that it holds nothing to fetch."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from pgmjax.plotting import axes
from pgmjax.release import drawing, figures


def elements(svg, tag):
    return list(ElementTree.fromstring(svg).iter(tag))


def points(svg):
    """The y places of the markers drawn in the colour of noisy counts."""
    return [float(e.get("cy")) for e in elements(svg, "circle") if "--noisy" in e.get("fill")]


def test_bars_and_points_stand_for_the_numbers():
    svg = drawing.bars(["x", "y", "z"], np.array([10.0, 20, 30]), np.array([12, 18, -5]), np.full(3, 2.0))
    heights = points(svg)
    assert len(heights) == 3 and heights[1] < heights[0] < heights[2]  # SVG counts downwards
    assert [e.text for e in elements(svg, "text")][:3] == ["x", "y", "z"]
    # places are linear in the counts: 18 to 12 is 6 counts, 12 to -5 is 17
    assert (heights[2] - heights[0]) / (heights[0] - heights[1]) == pytest.approx(17 / 6, rel=1e-3)


def test_without_measurement_there_are_no_points():
    assert not points(drawing.bars(["x", "y"], np.array([1.0, 2.0])))


def test_many_values_are_grouped_and_keep_their_sum():
    assert drawing.grouped(np.ones(1000), 9).sum() == 1000
    svg = drawing.bars([str(i) for i in range(1000)], np.ones(1000), np.ones(1000), np.ones(1000))
    assert len(points(svg)) == -(-1000 // 9)
    assert len(elements(svg, "text")) < 30


def test_of_many_values_without_an_order_the_largest_are_drawn(monkeypatch):
    counts = np.arange(3000.0)
    svg, said = figures._largest_svg(
        [f"v{k}" for k in range(3000)], counts, counts + 1, counts * 0 + 2, title=""
    )
    words = [e.text for e in elements(svg, "text")]
    assert words.index("v2999") < words.index("v2998") and "v2976" in words and "v2975" not in words
    assert len(points(svg)) == 24
    others = counts[:2976]
    assert (
        f"the other 2,976 together: {others.sum():,.0f} fitted, {others.sum() + 2976:,.0f} ± 218 noisy"
        in said
    )


def test_groups_are_named_by_their_ends():
    svg = drawing.bars([f"n{k}" for k in range(1000)], np.ones(1000))
    assert next(e.text for e in elements(svg, "text")) == "n0 … n8"


def test_two_way_draws_both_tables():
    tables = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    svg = drawing.heat_maps(["a", "b"], ["1", "2", "3"], *tables, axis_names=("first", "second"))
    assert len(elements(svg, "image")) == 4  # two tables, each with the scale
    words = [e.text for e in elements(svg, "text")]
    assert {"first", "second", "fitted", "measured (noisy)", "a", "b", "3"} <= set(words)


def test_a_table_without_counts_can_be_drawn():
    zeros = np.zeros((2, 2))
    assert drawing.heat_maps(["a", "b"], ["1", "2"], zeros - 3, zeros, axis_names=("r", "c"))


@pytest.mark.parametrize("name", ["$5$ & <b>", "a" * 50, '"quoted"'])
def test_names_are_escaped_and_shortened(name):
    svg = drawing.bars([name, "other"], np.array([1.0, 2.0]), title=name)
    shown = elements(svg, "text")[0].text
    assert shown == (name if len(name) <= 16 else name[:15] + "…")


LONG = [f"Municipality of the northern border no. {k}" for k in range(9)]
MIDDLE = [f"Municipality of the north no. {k}, with all of its islands" for k in range(9)]


@pytest.mark.parametrize("names", [LONG, MIDDLE, [*MIDDLE[:4], "a"], ["x" * 40, "x" * 41]])
@pytest.mark.parametrize("most", [8, 12, 16, 22])
def test_names_that_differ_are_cut_so_that_they_still_differ(names, most):
    cut = axes.distinct(names, most)
    assert len(set(cut)) == len(names) and max(map(len, cut)) <= most


def test_names_and_places_on_axes_stand_within_the_drawing_and_differ():
    counts, low = np.arange(9.0), np.linspace(0.2, 3.4, 9)
    drawings = [drawing.bars(LONG, low), drawing.largest(LONG, low, low, low / 4, title="t")]
    drawings += [drawing.bars(LONG[:1], counts[:1]), drawing.bars(LONG, counts * 1e6, -counts, counts)]
    maps = drawing.heat_maps(LONG[:2], LONG, np.ones((2, 9)), np.ones((2, 9)), axis_names=("a", "b" * 60))
    for svg in (*drawings, *re.findall(r"<svg.*?</svg>", maps, re.DOTALL)):
        root = ElementTree.fromstring(svg)
        wide = float(root.get("viewBox").split()[2])
        words = [e.text for e in root.iter("text")]
        assert len(set(words)) == len(words)  # 1.5 and 2.5 are not both "2"
        for each in root.iter("text"):
            length, x, end = 6.0 * len(each.text), float(each.get("x")), each.get("text-anchor")
            turned = re.match(r"rotate\((-?\d+)", each.get("transform") or "")
            length *= np.cos(np.radians(float(turned[1]))) if turned else 1
            first = x - {"start": 0, "middle": length / 2, "end": length}[end]
            assert first >= -1 and first + length <= wide + 1, (each.text, first, wide)


def test_colours_are_the_pages_and_nothing_is_fetched():
    svg = drawing.bars(["x"], np.ones(1), np.ones(1), np.ones(1), title="age")
    assert "var(--fit)" in svg and "var(--noisy)" in svg and "#0" not in svg
    assert "http" not in svg and "font-family" not in svg
    assert 'aria-label="age: fitted' in svg
    ids = re.findall(r' id="([^"]*)"', svg)
    assert len(ids) == len(set(ids))


def test_equal_plots_are_equal_text():
    draw = lambda: drawing.bars(["x"], np.ones(1), np.ones(1), np.ones(1), title="age")  # noqa: E731
    assert draw() == draw()
