"""The host side of the level oracle: trees, classes, schedules and index maps."""

import numpy as np
import pytest

from pgmjax.inference.plan import levels
from pgmjax.inference.plan.levels import round_up
from pgmjax.inference.plan.structure import Structure
from tests.models import STRUCTURES


def chain(variables, size=10):
    return Structure((size,) * variables, tuple((i, i + 1, i + 2) for i in range(variables - 2)))


@pytest.mark.parametrize("name", STRUCTURES)
def test_nodes_share_with_parent_and_children_what_they_say(name):
    structure = Structure(*STRUCTURES[name])
    nodes, fan_in = levels.build(structure)
    assert sorted(n.clique for n in nodes if n.clique >= 0) == list(range(len(structure.cliques)))
    for node in nodes:
        above = set(nodes[node.parent].variables) if node.parent >= 0 else set()
        assert node.above == set(node.variables) & above
        assert len(node.children) <= fan_in
        for child in node.children:
            assert nodes[child].above == node.below
        if node.clique >= 0:
            assert node.variables == structure.cliques[node.clique]


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_variable_stands_in_one_connected_part(name):
    """Running intersection: below the topmost node of a variable, no node without it has it again."""
    nodes, _ = levels.build(Structure(*STRUCTURES[name]))
    for v in range(len(STRUCTURES[name][0])):
        tops = [n for n in nodes if v in n.variables and v not in n.above]
        assert len(tops) == 1


@pytest.mark.parametrize("name", STRUCTURES)
def test_children_come_before_parents_and_places_are_used_once(name):
    arrangement = levels.arrange(Structure(*STRUCTURES[name]))
    nodes, sizes = arrangement.nodes, arrangement.sizes
    for node in nodes:
        assert 0 <= node.step < sizes.steps
        assert 0 <= node.place < sizes.widths[node.kind]
        if node.parent >= 0:
            assert node.step < nodes[node.parent].step
    assert len({(node.kind, node.step, node.place) for node in nodes}) == len(nodes)


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_number_has_one_cell(name):
    structure = Structure(*STRUCTURES[name])
    arrangement = levels.arrange(structure)
    maps = levels.index_maps(arrangement)
    out = maps.out
    cells = sum(structure.cells(c) for c in structure.cliques)
    joined = np.concatenate([one.ravel() for one in maps.tables])
    assert sorted(joined[joined >= 0]) == list(range(cells))
    np.testing.assert_array_equal(joined[out[:cells]], np.arange(cells))
    assert (out[cells:] == levels.IMPOSSIBLE).all()


def test_a_chain_is_rooted_at_its_middle_and_is_one_class_without_padding():
    arrangement = levels.arrange(chain(1000))
    sizes = arrangement.sizes
    assert sizes.shapes == ((10, 10, 10, 1),)
    assert sizes.widths == (2,)
    assert sizes.steps == 512
    assert max(node.height for node in arrangement.nodes) + 1 == 501


def test_thousands_of_attributes_are_planned_in_half_as_many_steps():
    arrangement = levels.arrange(chain(10_000))
    assert max(node.height for node in arrangement.nodes) + 1 <= arrangement.sizes.steps < 5200


@pytest.mark.parametrize("number", [1, 8, 9, 100, 998_000])
def test_rounding_up_wastes_at_most_a_quarter(number):
    assert number <= round_up(number) <= 1.25 * number


def test_more_cells_than_int32_can_number_are_refused():
    structure = Structure((2000,) * 4, ((0, 1, 2), (1, 2, 3)))
    with pytest.raises(ValueError, match=r"32 bits, got .* padded cells: use another oracle"):
        levels.arrange(structure)
