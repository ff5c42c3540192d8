"""Rows in a file: the rows of `sample`, decoded where asked, and never half a file."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.csv
import pytest
from pyarrow import parquet

import pgmjax as pj
from pgmjax.adapters import arrow
from pgmjax.model import row_file, sampling

MIXED = {"labels": [1, "one"]}


@pytest.fixture(scope="module")
def model(small_domain):
    spec = {name: small_domain.attribute(name) for name in small_domain}
    domain = pj.Domain(
        {**spec, "year": {"labels": [1990, 2000]}, "mixed": MIXED, "gap": {"size": 2, "missing": True}}
    )
    generator = np.random.default_rng(0)
    cliques = [("age", "sex"), ("sex", "region"), ("region", "year"), ("year", "gap")]
    tables = {clique: generator.normal(size=domain.shape_of(clique)) for clique in cliques}
    return pj.GraphicalModel.from_potentials(domain, tables, total=900)


@pytest.mark.parametrize("how", [{}, {"method": "round"}, {"device": True}], ids=["host", "round", "device"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_holds_the_rows_of_sample(model, tmp_path, monkeypatch, ending, how):
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 100)
    path = model.sample_to(tmp_path / f"rows.{ending}", seed=3, **how)
    stored = parquet.read_table(path) if ending == "parquet" else pyarrow.csv.read_csv(path)
    expected = model.sample(seed=3, **how)
    assert stored.column_names == list(expected) and stored.num_rows == 900
    assert all((stored[name].to_numpy() == codes).all() for name, codes in expected.items())
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("device", [False, True])
def test_decoded_rows_are_what_the_domain_says(model, tmp_path, device):
    path = model.sample_to(tmp_path / "rows.parquet", 500, 1, decode=True, device=device)
    stored = parquet.read_table(path)
    expected = model.domain.decode(model.sample(500, seed=1, device=device))
    for name, values in expected.items():
        values = [str(value) for value in values] if name == "mixed" else values.tolist()
        assert stored[name].to_pylist() == values
    assert stored["age"].null_count > 0 and stored["gap"].null_count > 0
    again = model.sample_to(tmp_path / "rows.csv", 500, 1, decode=True, device=device)
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    read = pyarrow.csv.read_csv(again, convert_options=options)
    assert read["age"].to_pylist() == expected["age"].tolist()
    assert read["income>50K, net"].to_pylist() == expected["income>50K, net"].tolist()


def test_decoded_rows_are_read_back_to_the_same_codes(model, tmp_path):
    """Labels and nulls are what the domain reads; bins are text and are not numbers again."""
    path = model.sample_to(tmp_path / "rows.parquet", 300, 2, decode=True)
    stored, codes = parquet.read_table(path), model.sample(300, seed=2)
    for name in ("sex", "region", "year", "gap", "income>50K, net"):
        assert (model.domain.attribute(name).encode(stored[name].to_pylist()) == codes[name]).all()


RAW = {
    "age": {"bins": [0, 18, 40, 65, 100], "missing": "?"},
    "third": {"bins": [0.1, 0.2, 0.30000000000000004]},
    "sex": {"labels": ["Female", 'a "man", or so']},
    "region": 3,
    "gap": {"size": 2, "missing": True},
    "year": {"labels": [1990, 2000]},
    "member": {"labels": [True, False], "missing": True},
    "rate": {"labels": [1, 2.5]},
    "mixed": {"labels": [1, "one", False]},
    "large": {"labels": [2**70, 5]},
    "job": {"labels": {"M": ["M", "Homme"], "F": ["Femme"]}, "other": True, "missing": "?"},
    "number": {"labels": [1, 2], "other": True},
    "mixture": {"bins": [0, 1, 2, 10], "grid": 1},  # cells of one number and of several
    "price": {"bins": [0, 0.35, 1.15], "grid": 0.01, "missing": True},
    "comma": {"bins": [0, 10, 1e4], "decimal": ",", "thousands": "."},
    "euros": {"bins": [0, 10, 1e4], "grid": 0.05, "decimal": ",", "thousands": "."},
    "years": {"min": 0, "max": 122, "step": 5, "missing": True},
    "children": {"min": 0, "max": 9},
    "most": {"bins": [0, 100, 200], "grid": 1, "within": [[0, 9], [10, 1], [100, 2]]},
    "month": {"from": "2019-02-10", "to": "2021-03-04", "step": "month", "missing": True},
    "day": {"from": "1912-12-30", "to": "1913-01-03", "step": "day"},
    "german": {"dates": ["2020-01-01", "2020-05-05", "2021-01-01"], "format": "%d.%m.%Y", "missing": "-"},
    "hour": {"from": "2020-01-01T00:00:00", "to": "2020-01-02T23:59:59", "step": "hour", "missing": True},
}


@pytest.fixture(scope="module")
def raw_model():
    domain = pj.Domain(RAW)
    generator = np.random.default_rng(0)
    pairs = zip(domain.attributes, domain.attributes[1:], strict=False)
    tables = {pair: generator.normal(size=domain.shape_of(pair)) for pair in pairs}
    return pj.GraphicalModel.from_potentials(domain, tables, total=2000)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_values_are_read_back_to_the_same_codes(raw_model, tmp_path, ending):
    path = raw_model.sample_to(tmp_path / f"rows.{ending}", seed=3, decode="values")
    codes, domain = raw_model.sample(seed=3), raw_model.domain
    read = [*pj.Dataset.read(path, domain).records(domain.attributes)]
    for name in domain:
        assert (np.concatenate([batch[name] for batch in read]) == codes[name]).all(), name


@pytest.mark.parametrize(("decimal", "parted"), [(",", ";"), (".", ",")])
def test_fields_are_parted_by_semicolons_where_commas_are_decimal(tmp_path, decimal, parted):
    domain = pj.Domain(
        {"price": {"bins": [0, 1, 2], "decimal": decimal}, "town": {"labels": ["Łódź", "a,b"]}}
    )
    model = pj.GraphicalModel.from_potentials(domain, {}, total=50)
    lines = model.sample_to(tmp_path / "r.csv", decode="values").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f'"price"{parted}"town"' and all(line.count(decimal) for line in lines[1:])


def test_values_in_memory_are_those_of_the_file(raw_model, tmp_path):
    path = raw_model.sample_to(tmp_path / "rows.parquet", seed=3, decode="values")
    columns = raw_model.sample(seed=3)
    columns = {name: columns[name] for name in reversed(columns)}
    table = arrow.rows_to_arrow(columns, raw_model.domain, decode="values", seed=3)
    stored = parquet.read_table(path)  # Parquet has no timestamps of seconds
    assert table.select(raw_model.domain.attributes).cast(stored.schema).equals(stored)


def test_values_have_types_of_their_own(raw_model, tmp_path):
    path = raw_model.sample_to(tmp_path / "rows.parquet", seed=3, decode="values")
    types = {
        **dict.fromkeys(("age", "third", "rate", "price", "comma", "euros"), "double"),
        **dict.fromkeys(("region", "gap", "year", "mixture", "years", "children", "most"), "int64"),
        **dict.fromkeys(("sex", "mixed", "large", "job", "number"), "string"),
        **dict.fromkeys(("month", "day", "german"), "date32[day]"),
        "member": "bool",
        "hour": "timestamp[ms]",
    }
    table, codes = parquet.read_table(path), raw_model.sample(seed=3)
    assert {field.name: str(field.type) for field in table.schema} == types
    for name in [name for name in RAW if raw_model.domain.attribute(name).missing]:
        missing = codes[name] == raw_model.domain[name] - 1
        assert missing.any() and (table[name].is_null().to_numpy() == missing).all()
    assert set(table["mixed"].to_pylist()) == {"1", "one", "false"}


def test_numbers_are_uniform_within_their_bins(raw_model, tmp_path):
    """The Kolmogorov-Smirnov distance of n draws exceeds 2 / sqrt(n) about once in 1,500."""
    path = raw_model.sample_to(tmp_path / "rows.parquet", seed=3, decode="values")
    ages, codes = parquet.read_table(path)["age"].to_numpy(), raw_model.sample(seed=3)["age"]
    for code, (low, high) in enumerate([(0, 18), (18, 40), (40, 65), (65, 100)]):
        share = np.sort((ages[codes == code] - low) / (high - low))
        n = len(share)
        assert n > 100 and abs(share - (np.arange(n) + 0.5) / n).max() < 2 / n**0.5


def test_values_do_not_depend_on_the_blocks(raw_model, tmp_path):
    codes = list(raw_model.sample(1000, seed=1).values())
    tables = []
    for size in (1000, 7):
        blocks = [[column[i : i + size] for column in codes] for i in range(0, 1000, size)]
        path = tmp_path / f"{size}.parquet"
        row_file.write(path, raw_model.domain, blocks, 1000, decode="values", seed=1)
        tables.append(parquet.read_table(path))
    assert tables[0].equals(tables[1])
    other = tmp_path / "other.parquet"
    row_file.write(other, raw_model.domain, [codes], 1000, decode="values", seed=2)
    assert (parquet.read_table(other)["third"].to_numpy() != tables[0]["third"].to_numpy()).all()


def test_no_rows_make_an_empty_table(model, tmp_path):
    stored = parquet.read_table(model.sample_to(tmp_path / "rows.parquet", 0))
    assert stored.num_rows == 0 and stored.column_names == list(model.domain.attributes)
    stored = parquet.read_table(model.sample_to(tmp_path / "values.parquet", 0, decode="values"))
    assert str(stored.schema.field("age").type) == "double"


def test_bad_targets_are_refused_before_any_work(model, tmp_path):
    there = tmp_path / "there.parquet"
    there.write_text("mine")
    with pytest.raises(ValueError, match="exists"):
        model.sample_to(there, 5)
    assert there.read_text() == "mine"
    with pytest.raises(ValueError, match=r"end in \.parquet or \.csv"):
        model.sample_to(tmp_path / "rows.xlsx", 5)
    with pytest.raises(
        ValueError, match=r"decode must be False \(codes\), True .* or 'values' .*, got 'value'"
    ):
        model.sample_to(tmp_path / "rows.csv", 5, decode="value")
    with pytest.raises(ValueError, match="no folder"):
        model.sample_to(tmp_path / "none" / "rows.csv", 5)
    with pytest.raises(ValueError, match=r"method.*'magic'"):
        model.sample_to(there, 5, method="magic", overwrite=True)
    assert there.read_text() == "mine"
    model.sample_to(there, 5, overwrite=True)
    assert parquet.read_table(there).num_rows == 5 and os.listdir(tmp_path) == ["there.parquet"]


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(model, tmp_path, kind):
    def failing():
        yield [np.zeros(10, np.int64)] * len(model.domain)
        yield [np.zeros(10, np.int64)] * len(model.domain)
        raise kind("stop")

    before = tmp_path / "before.csv"
    before.write_text("mine")
    with pytest.raises(kind):
        row_file.write(tmp_path / "rows.parquet", model.domain, failing(), 30)
    with pytest.raises(kind):
        row_file.write(before, model.domain, failing(), 30, overwrite=True)
    assert os.listdir(tmp_path) == ["before.csv"] and before.read_text() == "mine"


ENDLESS = """
import sys, pgmjax as pj
model = pj.GraphicalModel.from_potentials(pj.Domain({"a": 2, "b": 50}), {("a", "b"): [[0.0] * 50] * 2})
model.sample_to(sys.argv[1], 10**12)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_leaves_nothing(tmp_path):
    """A million million rows, stopped by Ctrl-C once the unfinished file is there."""
    child = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "rows.parquet")], stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 120
        while not any(file.stat().st_size > 1000 for file in tmp_path.iterdir()):
            assert child.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        errors = None
        while errors is None and time.monotonic() < end + 120:
            child.send_signal(signal.SIGINT)  # Python drops one that comes while it collects garbage
            with contextlib.suppress(subprocess.TimeoutExpired):
                _, errors = child.communicate(timeout=20)
    finally:
        child.kill()
    assert errors is not None and child.returncode != 0 and "KeyboardInterrupt" in errors
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("decode", [True, "values"])
def test_labels_that_look_like_formulas_are_escaped_on_request(tmp_path, decode):
    labels = ["=1+1", "+x", "-5", "-5,5", "-x", "@a", "a=b", "'d", "-1-1"]
    domain = pj.Domain({"=name": {"labels": labels}, "year": {"labels": [-1, -2]}})
    codes = [np.arange(len(labels)), np.zeros(len(labels), int)]
    given = {"decode": decode, "show_progress": False}

    def written(**more):
        path = tmp_path / "rows.csv"
        row_file.write(path, domain, [codes], len(labels), overwrite=True, **given, **more)
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    plain, escaped = written(), written(escape_formulas=True)
    assert plain == [["=name", "year"], *([label, "-1"] for label in labels)]
    expected = ["'=1+1", "'+x", "-5", "-5,5", "'-x", "'@a", "a=b", "'d", "'-1-1"]
    assert escaped == [["'=name", "year"], *([label, "-1"] for label in expected)]
    with pytest.raises(ValueError, match="Formulas are escaped in CSV files only, got parquet"):
        row_file.write(tmp_path / "rows.parquet", domain, [codes], 9, escape_formulas=True, **given)
    assert os.listdir(tmp_path) == ["rows.csv"]
