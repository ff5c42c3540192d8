"""Workloads of a sweep: marginals by rule, or a file."""

import pytest

import pgmjax as pj
from pgmjax import sweeps

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 4})


def workload_of(write_grid, lines):
    text = write_grid().read_text().replace("all_kway = 1", lines)
    return sweeps.SweepGrid.read(write_grid(text)).workloads[0]


def test_marginals_by_rule(write_grid):
    assert workload_of(write_grid, "all_kway = 2").build(DOMAIN) == pj.Workload.all_kway(DOMAIN, 2)
    small = workload_of(write_grid, "all_kway = 2\nmax_cells = 20").build(DOMAIN)
    assert small.cliques == (("a", "b"), ("a", "c"))


def test_a_workload_file(write_grid, tmp_path):
    asked = pj.Workload([{"clique": ["a", "b"], "queries": {"b": "prefix"}}])
    asked.write(tmp_path / "w.json")
    spec = workload_of(write_grid, 'file = "w.json"')
    assert spec.build(DOMAIN) == asked
    with pytest.raises(ValueError, match=r"1-way.*'"):
        spec.build(pj.Domain({"a": 2}))


def test_more_attributes_than_there_are(write_grid):
    with pytest.raises(ValueError, match=r"1-way.*k.*4"):
        workload_of(write_grid, "all_kway = 4").build(DOMAIN)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('file = "w.json"\nall_kway = 1', r"grid\.toml.*'all_kway'.*'file'"),
        ('file = "no.json"', r"no\.json"),
        ('file = "people.csv"\nmax_cells = 9', "'max_cells' goes with 'all_kway'"),
        ("all_kway = 1\nmax_cells = 0", "'max_cells'.*0"),
    ],
)
def test_bad_entries(write_grid, lines, said):
    with pytest.raises(ValueError, match=said):
        workload_of(write_grid, lines)
