"""Discovery on neighbours that differ in the type of one value: nothing beside noisy counts may differ.

What a program makes of a column because of one value (floats, objects, a longer way of writing) is no more
than another way of storing the other values.
"""

import datetime
import decimal
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pgmjax as pj
from pgmjax.audit import CannotAuditError
from pgmjax.audit.replay import check_pair, check_pairs
from pgmjax.discovery import Draft, OpenTable
from pgmjax.privacy import SeededBackend
from tests.audit.discovery import DiscoveryRuns

DAY, MOMENT = datetime.date(2021, 3, 1), datetime.datetime(2021, 3, 1, 10, 30)
BASES = {
    "whole": [1, 2, 3],
    "real": [0.5, 1.25, 2.0],
    "flag": [True, False],
    "day": [DAY, datetime.date(2021, 3, 9)],
    "midnight": [datetime.datetime(2021, 3, 1), datetime.datetime(2021, 4, 1)],
    "text": ["a", "b"],
    "decimal": [decimal.Decimal("1.50"), decimal.Decimal(2)],
    "wide": [2**53, 2**53 + 1, 7],
}
ODD = [None, "x", "", 2.5, True, decimal.Decimal("0.1"), 2**60, DAY, MOMENT, float("inf"), np.float32(0.1)]
ROWS = 120


def of_pandas(values, draft, path):
    return OpenTable.from_frame(pd.DataFrame({"c": values}), draft)


def of_polars(values, draft, path):
    try:
        frame = pl.DataFrame({"c": values})
    except (TypeError, pl.exceptions.PolarsError):
        frame = pl.DataFrame({"c": pl.Series(values, dtype=pl.Object)})
    return OpenTable.from_frame(frame, draft)


def of_columns(values, draft, path):
    return OpenTable.from_columns({"c": values}, draft)


def of_csv(values, draft, path):
    pd.DataFrame({"c": values, "z": 0}).to_csv(path / "t.csv", index=False)
    (path / "t.csv").rename(path := path / f"{len([*path.iterdir()])}.csv")
    return OpenTable.read(path, draft, leave_out=["z"])


def of_sheet(values, draft, path):
    path = path / f"{len([*path.iterdir()])}.xlsx"
    pd.DataFrame({"c": values, "z": 0}).to_excel(path, index=False)
    return OpenTable.read(path, draft, leave_out=["z"])


def replayed(pair, relation):
    made = DiscoveryRuns(20, relation, "1e-3", backend=SeededBackend(0, insecure=True))
    try:
        check_pair(made.run, *pair)
    except CannotAuditError:  # it finds nothing on either table, for one reason
        return 0
    return 1


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("store", [of_pandas, of_polars, of_columns, of_csv, of_sheet])
@pytest.mark.parametrize("base", BASES)
def test_one_value_of_another_type(store, base, whole, tmp_path):
    if base == "wide" and store in (of_csv, of_sheet):
        pytest.skip("what pandas rounds before it writes a file is not in the file")
    checked = 0
    part = 1 if whole else {of_csv: 7, of_sheet: 11}.get(store, 3)
    for number, (odd, shape) in enumerate(itertools.product(ODD, ("any", "labels"))):
        if number % part != [*BASES].index(base) % part:
            continue  # over all bases each odd value meets each shape in each store
        relation = [*pj.Relation][number // 2 % 2]
        values = (BASES[base] * ROWS)[:ROWS]
        draft = Draft({"c": {"labels": "discover"}}) if shape == "labels" else None
        others = values if relation is pj.Relation.ADD_REMOVE else [*values, values[0]]
        pair = store([*values, odd], draft, tmp_path), store(others, draft, tmp_path)
        checked += replayed(pair if number % 4 < 2 else pair[::-1], relation)
    assert checked >= {1: 18, 3: 6}.get(part, 2)


@pytest.mark.parametrize("base", ["whole", "real", "flag", "day", "text"])
def test_a_declared_type_says_what_a_column_may_be(base, tmp_path):
    kind = {
        "whole": pa.int64(),
        "real": pa.float64(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "text": pa.string(),
    }
    shapes = {"whole": "bins", "real": "bins", "day": "dates", "text": "any"}
    values = (BASES[base] * ROWS)[:ROWS]
    for store in ("arrow", "parquet"):
        pair = []
        for number, rows in enumerate((values, [*values, None])):
            table = pa.table({"c": pa.array(rows, kind[base])})
            pq.write_table(table, path := tmp_path / f"{number}.parquet")
            pair.append(OpenTable.from_frame(table) if store == "arrow" else OpenTable.read(path))
            assert pair[-1].draft.open == ({"c": shapes[base]} if base in shapes else {})
        if base in shapes:
            made = DiscoveryRuns(20, "add-remove", "1e-3", backend=SeededBackend(0, insecure=True))
            check_pairs(made.run, [pair], epsilon=20, delta="1e-3")


def test_one_value_decides_neither_scale_nor_labels():
    """A text among whole numbers, and a missing one: the same noise is published, and the same labels."""
    codes = np.tile([1, 2, 3], 1000)
    draft = Draft({"c": {"labels": "discover"}})
    for shape in (None, draft):
        published, labels = set(), []
        for odd in (2, None, "x", 2.0):
            frame = pd.DataFrame({"c": [*codes.tolist(), odd]})
            made = DiscoveryRuns(5, "add-remove", "1e-6", backend=SeededBackend(3, insecure=True))
            found = made.run(OpenTable.from_frame(frame, shape))
            published.add(tuple(float(m.stddev) for m in found[3]))
            labels.append(found[0]["domain"]["c"].get("labels"))
        assert len(published) == 1
        assert labels == [["1", "2", "3"]] * 4 if shape else labels == [None] * 4


def test_the_rows_that_come_out_have_types_of_the_domain():
    """One missing value makes floats of a column, one text objects: sampled rows have neither type."""
    domain = {"c": {"min": 0, "max": 9, "missing": "x"}, "d": {"labels": [1, 2], "missing": True}}
    shown = set()
    for odd in (1, None, 1.0, "x"):
        frame = pd.DataFrame({"c": [0, 1, 2] * 30 + [odd], "d": [1, 2, 2] * 30 + [odd if odd != "x" else 2]})
        synth = pj.Synthesizer(epsilon=5, relation="replace-one", insecure_seed=1, mechanism="marginals")
        rows = synth.fit(frame, domain, show_progress=False).sample(40)
        shown.add(tuple(map(str, rows.dtypes)))
    assert shown == {("Int64", "Int64")}


@pytest.mark.parametrize(
    ("kind", "shape"),
    [(pa.int64(), "dates"), (pa.bool_(), "bins"), (pa.date32(), "bins"), (pa.binary(), "labels")],
)
def test_unfit_pairs_are_refused_before_anything_is_read(kind, shape):
    table = pa.table({"c": pa.nulls(3, kind)})
    with pytest.raises(TypeError, match="'c'"):
        OpenTable.from_frame(table, Draft({"c": {shape: "discover"}}))
