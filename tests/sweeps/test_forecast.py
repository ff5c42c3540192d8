"""Forecasts: they grow with the trials of a batch, and refuse what memory does not hold."""

import dataclasses

import pytest

import pgmjax as pj
from pgmjax import sweeps
from pgmjax.sweeps.grid import groups, load
from pgmjax.sweeps.work import forecast

MORE = '[[mechanisms]]\nname = "mst"\n[[mechanisms]]\nname = "hdmm"\noptions = { strategy = "kron" }\n'
HUGE = pj.Domain({"a": 100_000, "b": 100_000, "c": 100_000})


@pytest.fixture
def group_of(write_grid):
    grid = sweeps.SweepGrid.read(
        write_grid(write_grid().read_text().replace("all_kway = 1", "all_kway = 2") + MORE)
    )
    tables = {spec.name: load(spec) for spec in grid.tables}
    return {group.mechanism.name: group for group in groups(grid, tables)}


def with_trials(group, trials):
    return dataclasses.replace(group, grid=dataclasses.replace(group.grid, trials=trials))


def test_a_batch_needs_memory_for_all_its_trials(group_of):
    domain = pj.Domain({"a": 20, "b": 30, "c": 40})
    few, many = (forecast(with_trials(group_of["marginals"], trials), domain).bytes for trials in (1, 1000))
    cells = 20 * 30 + 20 * 40 + 30 * 40
    # at least the marginals and potentials of every trial in float64
    assert many - few > 999 * cells * 16 and few > cells * 8
    alone = forecast(group_of["mst"], domain).bytes
    assert alone == forecast(with_trials(group_of["mst"], 1000), domain).bytes


def test_one_product_over_all_is_planned_as_that(group_of):
    domain = pj.Domain({"a": 20, "b": 30, "c": 40})
    assert forecast(group_of["hdmm"], domain).bytes > 20 * 30 * 40 * 4


def test_what_is_too_large_is_refused_with_the_figures(group_of):
    refused = forecast(group_of["marginals"], HUGE)
    assert refused.bytes is None and str(refused) == "refused: too large"
    assert "memory" in refused.refused or "available" in refused.refused
    limited = forecast(group_of["mst"], HUGE)
    assert not limited.refused and str(limited) == "limited by the mechanism"
