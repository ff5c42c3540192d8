"""The picture of a junction tree: where its lines stand, and what is written and drawn on them."""

import math

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

import pgmjax as pj
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure
from pgmjax.plotting import tree as tree_picture

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


def random_forest(nodes, seed):
    generator = np.random.default_rng(seed)
    return [-1 if n == 0 or generator.random() < 0.1 else int(generator.integers(0, n)) for n in range(nodes)]


@pytest.mark.parametrize("seed", range(8))
def test_every_node_has_a_row_and_subtrees_stay_together(seed):
    parent = random_forest(60, seed)
    layout = tree_picture.lay_out(parent)
    assert sorted(layout.row) == list(range(60))
    assert max(layout.column) <= math.log2(60)
    below = {n: {n} for n in range(60)}
    for n in reversed(range(60)):
        if parent[n] >= 0:
            below[parent[n]] |= below[n]
    for n, held in below.items():
        rows = sorted(layout.row[m] for m in held)
        assert rows == list(range(layout.row[n], layout.row[n] + len(held)))
        if parent[n] >= 0:
            assert layout.column[n] - layout.column[parent[n]] in (0, 1)


@pytest.mark.parametrize("seed", range(8))
def test_no_line_runs_through_another_node(seed):
    """A vertical line from a parent passes rows in which nothing stands in its column."""
    parent = random_forest(60, seed)
    layout = tree_picture.lay_out(parent)
    place = {(layout.row[n], layout.column[n]) for n in range(60)}
    for child, up in enumerate(parent):
        if up >= 0:
            between = range(layout.row[up] + 1, layout.row[child])
            assert not any((row, layout.column[up]) in place for row in between)


def test_a_chain_goes_straight_and_the_leaves_of_a_star_are_alike():
    assert set(tree_picture.lay_out([-1, *range(30)]).column) == {0}
    assert tree_picture.lay_out([-1, 0, 0, 0]).column == (0, 1, 1, 1)
    assert tree_picture.lay_out([-1, -1]).column == (0, 0)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_cliques_separators_and_cells_are_written():
    domain = pj.Domain({"a$b": 2, "sex": 3, "age": 40, "alone": 7})
    tables = {("a$b", "sex"): np.zeros((2, 3)), ("sex", "age"): np.zeros((3, 40))}
    axes = pj.GraphicalModel.from_potentials(domain, tables).plot_tree()
    written = texts(axes)
    nodes = {
        label.rpartition("  ")[2]: set(label.rpartition("  ")[0].split(", "))
        for label in written
        if "(" in label
    }
    assert nodes == {"(6)": {r"a\$b", "sex"}, "(120)": {"sex", "age"}, "(7)": {"alone"}}
    assert [label for label in written if "(" not in label] == ["sex"]  # the one separator
    assert axes.get_title(loc="left") == "junction tree: 3 cliques, 133 cells, the largest 120"
    assert len(axes.collections[0].get_offsets()) == 3 and len(axes.lines) == 1


@pytest.mark.parametrize("nodes", [1, 12, 40, 100])
def test_words_lie_on_no_other_words_and_inside_the_figure(nodes):
    generator = np.random.default_rng(nodes)
    cliques = tuple((int(generator.integers(max(0, i - 5), i)), i) for i in range(1, nodes + 1))
    tree = junction_tree.build(Structure((3,) * (nodes + 1), cliques))
    axes = tree_picture.draw(tree, [f"attribute {i}" for i in range(nodes + 1)])
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len([text for text in texts(axes) if "(" in text]) == nodes
    whole = axes.figure.bbox
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 and box.y1 <= whole.y1 for box in boxes)
    boxes.sort(key=lambda box: box.y0)
    overlaps = [
        (one, two)
        for i, one in enumerate(boxes)
        for two in boxes[i + 1 : i + 6]
        if two.y0 < one.y1 - 1 and one.x0 < two.x1 and two.x0 < one.x1
    ]
    assert not overlaps


def test_of_hundreds_of_cliques_the_largest_are_drawn_below_the_nearest_that_is():
    """Tables of 500 attributes on a random tree: what is drawn is found again from the tree itself."""
    generator = np.random.default_rng(5)
    sizes = tuple(int(n) for n in generator.choice([2, 3, 5, 8, 12], 500))
    whole = junction_tree.build(
        Structure(sizes, tuple((int(generator.integers(i)), i) for i in range(1, 500)))
    )
    axes = tree_picture.draw(whole, [str(i) for i in range(500)])
    labels = [text for text in texts(axes) if "(" in text]
    cells = sorted((whole.structure.cells(clique) for clique in whole.cliques), reverse=True)
    drawn = sorted((int(text.rpartition("(")[2][:-1]) for text in labels), reverse=True)
    assert len(drawn) in (60, 61)  # the root may be among the largest
    assert not set(cells[:60]) - set(drawn) and drawn[:59] == cells[:59]
    title = axes.get_title(loc="left")
    figures = f"{len(whole.cliques)} cliques ({len(drawn)} drawn), {whole.cells:,} cells, the largest"
    assert title.startswith(f"junction tree: {figures}") and axes.figure.get_figheight() < 32
    axes.figure.canvas.draw()
    titled = axes._left_title.get_window_extent()
    assert axes.figure.bbox.x0 <= titled.x0 and titled.x1 <= axes.figure.bbox.x1
    assert len(axes.lines) == len(drawn) - 1  # a tree has one root
    kept = [set(map(int, text.rpartition("  ")[0].split(", "))) for text in labels]
    down = [n for n, clique in enumerate(whole.cliques) if set(clique) in kept and whole.parent[n] >= 0]
    passed = [n for n in down if set(whole.cliques[whole.parent[n]]) not in kept]
    assert sum(line.get_linestyle() == "--" for line in axes.lines) == len(passed) > 0


def test_the_widest_clique_of_a_long_chain_is_drawn():
    sizes = tuple(50 if i in (400, 401) else 2 for i in range(500))
    whole = junction_tree.build(Structure(sizes, tuple((i, i + 1) for i in range(499))))
    axes = tree_picture.draw(whole, [str(i) for i in range(500)])
    assert any("(2,500)" in text for text in texts(axes)) and len(axes.lines) in (59, 60)


def test_long_cliques_are_cut_and_the_number_left_is_said():
    tree = junction_tree.build(Structure((2,) * 30, (tuple(range(30)),)))
    (label,) = texts(tree_picture.draw(tree, [f"attribute {i}" for i in range(30)]))
    assert "more" in label and len(label) < 100
    shown = label.count("attribute")
    assert f"and {30 - shown} more  (1.1e+9)" in label


def test_it_draws_on_axes_that_are_given():
    figure, axes = pyplot.subplots(1, 2)
    model = pj.GraphicalModel.from_potentials(pj.Domain({"a": 2, "b": 2}), {("a", "b"): np.zeros((2, 2))})
    assert model.plot_tree(axes[1]) is axes[1]
    assert texts(axes[1]) and not axes[0].texts and figure.axes == list(axes)
