"""Keys: one a cell, the same for the same content, another for any other."""

import pytest

from pgmjax import sweeps
from pgmjax.sweeps.grid import groups, load


def cells_of(path):
    grid = sweeps.SweepGrid.read(path)
    tables = {spec.name: load(spec) for spec in grid.tables}
    return [cell for group in groups(grid, tables) for cell in group.cells]


def test_keys_and_seeds_are_distinct_and_repeatable(write_grid):
    cells = cells_of(write_grid())
    assert len(cells) == len({cell.key for cell in cells}) == len({cell.seed for cell in cells}) == 4
    assert cells == cells_of(write_grid())
    assert [cell.trial for cell in cells] == [0, 1, 0, 1]
    assert all(len(cell.key) == 64 and 0 <= cell.seed < 2**60 for cell in cells)


def test_more_trials_keep_the_cells_there_are(write_grid):
    few = cells_of(write_grid())
    more = cells_of(write_grid(write_grid().read_text().replace("trials = 2", "trials = 5")))
    assert len(more) == 10 and set(few) < set(more)


def test_the_form_and_place_of_the_table_do_not_count(write_grid, tmp_path):
    path = write_grid()
    lines = (tmp_path / "people.csv").read_text().splitlines()
    swapped = [",".join(reversed(line.split(","))) for line in lines]
    before = cells_of(path)
    (tmp_path / "elsewhere.csv").write_text("\n".join(swapped) + "\n")
    assert cells_of(write_grid(path.read_text().replace("people.csv", "elsewhere.csv"))) == before


CHANGES = {
    "seed": ("trials", "seed = 1\ntrials"),
    "delta": ("trials", "delta = 1e-9\ntrials"),
    "relation": ("replace-one", "add-remove"),
    "epsilon": ('[0.5, "1/3"]', "[0.6, 0.7]"),
    "workload": ("all_kway = 1", "all_kway = 2"),
    "mechanism": ('name = "marginals"', 'name = "hdmm"'),
    "option": ('name = "marginals"', 'name = "marginals"\noptions = { split = "weighted" }'),
    "estimator": ("[[tables]]", "[estimator]\ntol = 1e-3\n[[tables]]"),
    "attributes": ('domain = "domain.json"', 'domain = "domain.json"\nattributes = ["a", "b"]'),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_whatever_a_result_depends_on_changes_the_key(write_grid, old, new):
    before = cells_of(write_grid())
    after = cells_of(write_grid(write_grid().read_text().replace(old, new)))
    assert not {cell.key for cell in before} & {cell.key for cell in after}


def test_a_record_more_changes_the_keys(write_grid, tmp_path):
    before = cells_of(write_grid())
    table = tmp_path / "people.csv"
    table.write_text(table.read_text() + "0,0,0\n")
    assert not {cell.key for cell in before} & {cell.key for cell in cells_of(tmp_path / "grid.toml")}
