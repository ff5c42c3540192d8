"""The forecast of a release: what it says is what the run does, and nothing is read or spent."""

import json

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.mechanisms.forecast import forecast
from pgmjax.queries.workload import KWay

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 5})
WORKLOAD = pj.Workload.all_kway(DOMAIN, 2)


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("unit", [None, pj.Unit("who", 3)])
def test_the_noise_is_that_of_the_run(delta, unit):
    mechanism = pj.mechanisms.Marginals(
        1, "add-remove", delta, estimator=pj.Estimator(max_steps=2, progress=False)
    )
    found = forecast(mechanism, DOMAIN, WORKLOAD, unit=unit)
    columns = {name: np.arange(60) % size for name, size in DOMAIN.sizes.items()}
    columns |= {"who": list(range(60))} if unit else {}
    release = mechanism.run(pj.Dataset.from_columns(DOMAIN, columns, unit=unit), WORKLOAD)
    measured = [(m.clique, m.values.size, float(m.row_stddevs()[0])) for m in release.measurements]
    assert [(t.clique, t.cells, pytest.approx(t.stddev)) for t in found.tables] == measured


def test_a_mechanism_that_chooses_says_so():
    found = forecast(pj.mechanisms.MST(1, "add-remove", delta="1e-6"), DOMAIN, WORKLOAD)
    assert not found.tables and "chooses what to measure while it runs" in next(iter(found.lines()))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_what_auto_measures_where_noise_drowns_nothing_is_told_beforehand(relation):
    mechanism = pj.mechanisms.Auto(1, relation, backend=pj.privacy.SeededBackend(0, insecure=True))
    found = forecast(mechanism, DOMAIN, WORKLOAD)
    assert "without those in which the noise drowns" in next(iter(found.lines()))
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, DOMAIN[name], 100_000) for name in DOMAIN}
    release = mechanism.run(pj.Dataset.from_columns(DOMAIN, columns), WORKLOAD, show_progress=False)
    wide = [m for m in release.measurements if m.query != mechanism_count(release)]
    measured = {frozenset(m.clique): float(m.row_stddevs()[0]) for m in wide}
    assert {frozenset(t.clique): pytest.approx(t.stddev) for t in found.tables} == measured


def mechanism_count(release):
    """The query for the number of records, which comes first where it is private."""
    first = release.measurements[0].query
    return None if release.total_public else first


def test_a_dry_run_reads_the_names_of_the_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text('{"a": 3, "b": 4}')
    words = ["release", "t.csv", "--domain", "d.json", "--all-kway", "2", "--dry-run", "--epsilon", "1"]
    words += ["--relation", "add-remove"]
    for header, code in (("a,b", 0), ("A,b", 2), ("x,y", 2)):
        (tmp_path / "t.csv").write_text(f"{header}\n")
        assert main(words) == code
    said = capsys.readouterr().err
    assert "no column named 'a'" in said and "'A'" in said
    (tmp_path / "t.csv").unlink()
    assert main(words) == 2 and "a file with that one line is enough" in capsys.readouterr().err


def test_the_command_reads_and_spends_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(b"\xff not a table")
    (tmp_path / "d.json").write_text('{"a": 30, "b": 40, "c": 500}')
    words = ["release", "t.csv", "--domain", "d.json", "--all-kway", "2", "--max-cells", "16000", "--dry-run"]
    words += ["--mechanism", "marginals", "--epsilon", "1", "--relation", "replace-one", "--rows", "6000"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Will be measured: 2 tables of 16,200 counts" in said or "Will be measured: 1 table of" in said
    assert "left out" in said and "b, c" in said and "No record was read and no budget was spent" in said
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["left_out"] and found["tables"][0]["stddev"] > 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.json", "t.csv"]
    assert main([*words, "--discover", "0.1"]) == 2
    assert "--dry-run needs a complete domain" in capsys.readouterr().err


def test_cells_below_the_noise_are_counted():
    tables = forecast(pj.mechanisms.Marginals(1, "replace-one"), DOMAIN, pj.Workload([["a"], ["b", "c"]]))
    noise = tables.tables[0].stddev
    said = " ".join(tables.lines(rows=int(noise * 4)))  # above the noise in 3 cells, below in 20
    assert "Smaller than their noise, on average: 20 of 23 counts." in said


def test_a_run_is_logged_without_a_count(caplog):
    columns = {name: np.zeros(7414, int) for name in DOMAIN}
    with caplog.at_level("INFO", logger="pgmjax"):
        short = pj.Estimator(max_steps=2, progress=False)
        pj.mechanisms.Marginals(1, "add-remove", estimator=short).run(
            pj.Dataset.from_columns(DOMAIN, columns), WORKLOAD
        )
    assert [record.name for record in caplog.records] == ["pgmjax"] * 3
    begun, measured, fitted = (record.getMessage() for record in caplog.records)
    assert begun == f"marginals: begun on {len(DOMAIN)} columns, epsilon 1, delta 0, add-remove"
    assert measured == "marginals: measured 3 tables" and "after 2 steps" in fitted
    assert not [value for record in caplog.records for value in record.args if value == 7414]


def test_a_discovery_is_logged_too(caplog):
    table = pj.discovery.OpenTable.from_columns({"age": [31, 45, 28] * 100})
    with caplog.at_level("INFO", logger="pgmjax"):
        pj.mechanisms.MST(8, "add-remove", delta="1e-6").run(
            table, KWay(1), discover=pj.discovery.Discovery("0.5"), show_progress=False
        )
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "mst: begun on 1 columns, epsilon 8, delta 0.000001, add-remove"
    assert said[1] == "mst: found the domain of 1 columns" and said[2] == "mst: measured 1 tables"
