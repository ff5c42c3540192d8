"""A value counts alike in every store: each Arrow type, under each kind of entry, in each store of tables.

The right counts come from `Fraction`, `datetime` and the tables below alone. A column of a type that an entry
has no place for is refused as a whole where a store declares types; in text stores its values are texts.
"""

import collections
import datetime
import decimal
import itertools
import math
import re
import unicodedata
import uuid
from fractions import Fraction

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import pgmjax as pj
from pgmjax.data.attribute import Attribute
from pgmjax.discovery.open_table import OpenTable, key_column
from pgmjax.discovery.probes import KINDS, kind_probe
from pgmjax.privacy.partition import FIRST

D, DAY, MOMENT = decimal.Decimal, datetime.date, datetime.datetime
UTC = datetime.UTC
NAN, INF = math.nan, math.inf
ROWS = 20
E_ACUTE, E_AND_ACUTE = "caf\u00e9", "cafe\u0301"

# Columns: what they hold, by family, of which each type has what it can hold.
WHOLE = [0, 1, 1, 2, 3, 7, -1, 99, 1000]
FRACTIONS = [D("0.1"), D("0.7"), D("0.7"), D("1.5"), D("-0.5")]
LARGE = [2**53, 2**53 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**22]
ODD = [-0.0, INF, -INF, NAN]
DAYS = [DAY(2020, 1, 1), DAY(2020, 1, 1), DAY(1969, 12, 31), DAY(1912, 1, 1), DAY(2020, 2, 29)]
TIMES = [MOMENT(2020, 1, 1, 12, 30), MOMENT(1969, 12, 31, 23, 59, 59), MOMENT(2020, 1, 1, 23, 30)]
FINE = [MOMENT(2020, 1, 1, 12, 30, 0, 500000)]
WORDS = ["a", " a", "b", E_ACUTE, E_AND_ACUTE, "true", "True", "1", "1.0", "0.7", "0.70", "007", "2020-01-01"]
WORDS += ["2020-01-01 00:00:00", "", "  ", "?", "A"]
UUIDS = [uuid.UUID(int=number) for number in (1, 1, 2**127)]


def holds(dtype, value):
    """Whether a type holds a number, in its shortest notation, exactly."""
    if isinstance(value, float):
        return pa.types.is_floating(dtype)
    if pa.types.is_integer(dtype):
        bits, signed = dtype.bit_width, not str(dtype).startswith("u")
        return value == int(value) and -(2 ** (bits - 1)) * signed <= value < 2 ** (bits - signed)
    if pa.types.is_floating(dtype):
        with np.errstate(over="ignore"):
            held = dtype.to_pandas_dtype()(value)
        if not math.isfinite(held) or (value == int(value) and int(held) != value):
            return False
        return Fraction(str(held)) == Fraction(value) or (dtype == pa.float64() and value == int(value))
    scaled = Fraction(value) * 10**dtype.scale
    return scaled.denominator == 1 and abs(scaled) < 10**dtype.precision


def numbers(dtype, pool):
    values = [value for value in pool if holds(dtype, value)]
    if pa.types.is_floating(dtype):
        return pa.array(np.array([float(value) for value in values], dtype.to_pandas_dtype())), values
    return pa.array([D(v) if pa.types.is_decimal(dtype) else int(v) for v in values], dtype), values


def in_arrow(values, dtype):
    return pa.array(values, dtype), values


def columns():
    """Return by name an Arrow array [ROWS] of each type and the values that it holds."""
    made = {}
    integers = [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    ]
    floats = [pa.float16(), pa.float32(), pa.float64()]
    decimals = [pa.decimal32(6, 2), pa.decimal64(12, 3), pa.decimal128(9, 2), pa.decimal128(23, 2)]
    for dtype in (*integers, *floats, *decimals, pa.decimal256(40, 2)):
        made[str(dtype)] = numbers(dtype, [*WHOLE, *FRACTIONS, *(ODD if dtype in floats else [])])
    for dtype in (pa.int64(), pa.uint64(), pa.float64(), pa.float32(), pa.decimal128(38, 0)):
        made[f"large {dtype}"] = numbers(dtype, [*WHOLE, *LARGE])
    made["bool"] = in_arrow([True, False, True], pa.bool_())
    for dtype in (pa.string(), pa.large_string(), pa.string_view()):
        made[str(dtype)] = in_arrow(WORDS, dtype)
    made["date32"], made["date64"] = in_arrow(DAYS, pa.date32()), in_arrow(DAYS, pa.date64())
    for unit, zone in itertools.product(("s", "ms", "us", "ns"), (None, "UTC", "Europe/Paris")):
        values = [*map(midnight, DAYS), *TIMES, *([] if unit == "s" else FINE)]
        given = [value.replace(tzinfo=UTC) if zone else value for value in values]
        made[str(pa.timestamp(unit, zone))] = pa.array(given, pa.timestamp(unit, zone)), values
    for name in ("int64", "string", "double", "bool", "date32", "timestamp[us, tz=Europe/Paris]"):
        made[f"dictionary of {name}"] = made[name][0].dictionary_encode(), made[name][1]
    made["null"] = in_arrow([], pa.null())
    made["uuid"] = pa.array([value.bytes for value in UUIDS], pa.uuid()), UUIDS
    made.update(UNREADABLE)
    return {name: padded(*each) for name, each in made.items()}


def padded(array, values):
    lacking = ROWS - len(array)
    assert lacking > 0, array.type
    if isinstance(array, pa.DictionaryArray):
        indices = pa.concat_arrays([array.indices, pa.nulls(lacking, array.indices.type)])
        return pa.DictionaryArray.from_arrays(indices, array.dictionary), [*values, *[None] * lacking]
    if isinstance(array, pa.ExtensionArray):
        stored = pa.concat_arrays([array.storage, pa.nulls(lacking, array.storage.type)])
        return pa.ExtensionArray.from_storage(array.type, stored), [*values, *[None] * lacking]
    return pa.concat_arrays([array, pa.nulls(lacking, array.type)]), [*values, *[None] * lacking]


def midnight(day):
    return MOMENT(day.year, day.month, day.day)


SECONDS = [datetime.timedelta(1), datetime.timedelta(0, 3)]
HOURS = [datetime.time(8), datetime.time(8, 30)]
UNREADABLE = {
    str(dtype): in_arrow(values, dtype)
    for dtype, values in (
        *(
            (dtype, [b"a", b"1"])
            for dtype in (pa.binary(), pa.large_binary(), pa.binary(1), pa.binary_view())
        ),
        *((pa.duration(unit), SECONDS) for unit in ("s", "ms", "us", "ns")),
        *((dtype, HOURS) for dtype in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
        (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3])]),
        (pa.list_(pa.int64()), [[1], [0, 1]]),
        (pa.large_list(pa.string()), [["a"]]),
        (pa.list_(pa.int8(), 1), [[1]]),
        (pa.map_(pa.string(), pa.int8()), [[("a", 1)]]),
        (pa.struct([("left", pa.int64()), ("right", pa.int64())]), [{"left": 0, "right": 1}]),
    )
}
COLUMNS = columns()


def kind(name):
    """How a type stores values: by what it holds, in Python."""
    if name in UNREADABLE:
        return ""
    present = [value for value in COLUMNS[name][1] if value is not None]
    kinds = {
        "bool" if isinstance(v, bool) else "text" if isinstance(v, str | uuid.UUID)
        else "date" if isinstance(v, datetime.date) else "number" for v in present
    }  # fmt: skip
    return kinds.pop() if kinds else "nothing"


# What a value is, in Python alone.
PADDED = {"007": "7"}  # a number, but for labels that are texts
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def meaning(value):
    """A number as a fraction, a moment, a bool or a text; None if it is missing."""
    if isinstance(value, str):
        text = unicodedata.normalize("NFC", value.strip())
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if PLAIN.fullmatch(text):
            return Fraction(text)
        if re.match(r"\d{4}-\d{2}-\d{2}", text):
            return MOMENT.fromisoformat(text)
        return text or None
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, datetime.date):
        return value if isinstance(value, MOMENT) else midnight(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return Fraction(value)


# Entries: what a domain file says, which storages it has a place for, and the code of a meaning: a number,
# OUT (of no label, out of range, unreadable) or MISS.
OUT, MISS = "out", "missing"


def among(labels, other=False, bools=False):
    known = [[(type(one) is bool, one) for one in map(meaning, group)] for group in labels]

    def code(value):
        value = int(value) if bools and isinstance(value, bool) else value
        for place, group in enumerate(known):
            if (isinstance(value, bool), value) in group:
                return place
        return len(labels) if other else OUT

    return code


def within(edges, last=True, clip=False, grid=None):
    edges = list(map(Fraction, edges))

    def code(value):
        if isinstance(value, bool):
            value = Fraction(value)
        if not isinstance(value, Fraction | float):
            return OUT
        if clip:
            value = min(max(value, edges[0]), edges[-1])
        elif grid and (isinstance(value, float) or (value / grid).denominator != 1):
            return OUT
        for place, (low, high) in enumerate(itertools.pairwise(edges)):
            if low <= value < high or ((last or clip) and value == high == edges[-1]):
                return place
        return OUT

    return code


def dated(edges):
    edges = [MOMENT.fromisoformat(edge) for edge in edges]

    def code(value):
        if not isinstance(value, MOMENT) or not edges[0] <= value < edges[-1]:
            return OUT
        return sum(edge <= value for edge in edges) - 1

    return code


def codes_below(size):
    def code(value):
        value = Fraction(value) if isinstance(value, bool) else value
        good = isinstance(value, Fraction) and value.denominator == 1 and 0 <= value < size
        return int(value) if good else OUT

    return code


def marked(code, *marks):
    marks = [meaning(mark) for mark in marks]

    def found(value):
        real = not isinstance(value, bool)
        return MISS if real and value in marks else code(value)

    return found


NUMBER, DATE = {"number", "bool"}, {"date"}  # beside text
EDGES = ["2020-01-01", "2020-01-02", "2020-03-01"]
ENTRIES = {
    "size": ({"size": 3, "missing": True}, NUMBER, codes_below(3)),
    "size, all": ({"size": 10000, "missing": ["?", -1, 0.5]}, NUMBER,
        marked(codes_below(10000), -1, "?", "0.5")),
    "text": ({"labels": ["a", "b", E_AND_ACUTE], "missing": True}, set(), among([["a"], ["b"], [E_ACUTE]])),
    "text, other": ({"labels": ["a", E_ACUTE], "other": True, "missing": True}, set(),
        among([["a"], [E_ACUTE]], True)),
    "code book": ({"labels": ["0", "1", "2", "99", "1000"], "other": True, "missing": True}, {"number"},
        among([["0"], ["1"], ["2"], ["99"], ["1000"]], True)),
    "written": ({"labels": ["0.10", "0.7", "1.50"], "other": True, "missing": True}, {"number"},
        among([["0.1"], ["0.7"], ["1.5"]], True)),
    "large": ({"labels": [2**53, 2**53 + 1, str(2**64), 10**22], "other": True, "missing": True}, {"number"},
        among([[2**53], [2**53 + 1], [2**64], [10**22]], True)),
    "numbers": ({"labels": [0, 0.7, 1.5, 7], "other": True, "missing": [99]}, NUMBER,
        marked(among([[0], ["0.7"], ["1.5"], [7]], True, True), 99)),
    "spelled": ({"labels": {"none": [0, "?"], "one": [1, "true"]}, "other": True, "missing": True}, NUMBER,
        among([["none", 0, "?"], ["one", 1, True]], True, True)),
    "bools": ({"labels": [False, True], "other": True, "missing": True}, NUMBER,
        among([[False, 0], [True, 1]], True)),
    "bools as text": ({"labels": ["True", "False"], "other": True, "missing": True}, {"bool"},
        among([[True], [False]], True)),
    "days": ({"labels": ["2020-01-01", "1969-12-31"], "other": True, "missing": ["1912-01-01"]}, DATE,
        marked(among([["2020-01-01"], ["1969-12-31"]], True), "1912-01-01")),
    "moments": ({"labels": ["2020-01-01T12:30", "2020-02-29 00:00:00"], "other": True, "missing": True}, DATE,
        among([["2020-01-01T12:30"], ["2020-02-29"]], True)),
    "bins": ({"bins": [0, 0.7, 1.5, 1000], "missing": [-1, "?"]}, NUMBER,
        marked(within([0, D("0.7"), D("1.5"), 1000]), -1, "?")),
    "bins, clipped": ({"bins": [0, 0.7, 1], "clip": True, "missing": True}, NUMBER,
        within([0, D("0.7"), 1], clip=True)),
    "bins, far": ({"bins": [-1e30, 2**53, 2**53 + 2, 1e30], "missing": True}, NUMBER,
        within([-(10**30), 2**53, 2**53 + 2, 10**30])),
    "grid": ({"bins": [-1, 0.1, 0.8, 2000], "grid": 0.1, "missing": True}, NUMBER,
        within([-1, D("0.1"), D("0.8"), 2000], last=False, grid=Fraction("0.1"))),
    "whole numbers": ({"min": -1, "max": 999, "step": 500, "missing": True, "clip": True}, NUMBER,
        within([-1, 499, 999, 1000], clip=True)),
    "months": ({"from": "2020-01-01", "to": "2020-02-29", "step": "month", "missing": "1969-12-31"}, DATE,
        dated(["2020-01-01", "2020-02-01", "2020-03-01"])),
    "dates": ({"dates": ["1912-01-01", "1970-01-01", "2020-01-02", "2020-03-01"], "missing": True}, DATE,
        dated(["1912-01-01", "1970-01-01", "2020-01-02", "2020-03-01"])),
    "times": ({"dates": ["1912-01-01", "2020-01-01T12:30", "2020-03-01"], "missing": True}, DATE,
        dated(["1912-01-01", "2020-01-01T12:30", "2020-03-01"])),
    "no bucket": ({"size": 10000}, NUMBER, codes_below(10000)),
}  # fmt: skip


def truth(name, entry):
    """Return the right counts, or the number of rows that have no code."""
    spec, numeric, code = ENTRIES[entry]
    size = Attribute.from_spec("x", spec).size
    if entry == "months":  # 1969-12-31 is a marker
        code = marked(code, *[str(t) for t in COLUMNS[name][1] if isinstance(t, DAY) and t.year == 1969])
    found = collections.Counter()
    for value in COLUMNS[name][1]:
        value = meaning(
            PADDED.get(value, value)
            if isinstance(value, str) and "number" in numeric and "bool" in numeric
            else value
        )
        found[MISS if value is None else code(value)] += 1
    if "missing" in spec:
        found[size - 1] += found.pop(MISS, 0)
    lost = found.pop(OUT, 0), found.pop(MISS, 0)
    return lost if any(lost) else [found[code] for code in range(size)]


PAIRS = [(name, entry) for name in COLUMNS for entry in ENTRIES]
FITS = {"text", "nothing"}


def is_typed(name, entry):
    """Whether a column is refused where its type is declared."""
    return kind(name) not in FITS | ENTRIES[entry][1]


# Stores. What one cannot hold, or its writer writes as something else, is left out of it, and named here.
LARGE_WHOLE = [name for name in COLUMNS if name.startswith("large ") and kind(name) == "number"]
HALF, WIDE, SPANS = "halffloat", "decimal256(40, 2)", "month_day_nano_interval"
SLIGHT = [name for name in COLUMNS if name.startswith("timestamp[") and name[10:12] in ("ms", "us", "ns")]


def in_pandas(table):
    return pd.DataFrame({name: pd.Series(pd.array(column, pd.ArrowDtype(column.type)), copy=False)
        for name, column in zip(table.column_names, table.columns, strict=True)})  # fmt: skip


def by_arrow(table, path):
    pyarrow.csv.write_csv(table, path)


def by_duckdb(table, path):
    with duckdb.connect() as connection:
        connection.register("given", table)
        connection.execute(f"COPY given TO '{path}' (HEADER)")


def by_excel(table, path):
    book = openpyxl.Workbook()
    book.active.append(table.column_names)
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        book.active.append([as_cell(value) for value in row])
    book.save(path)


def as_cell(value):
    if isinstance(value, MOMENT) and value.tzinfo is not None:
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return float(value) if isinstance(value, D) else str(value) if isinstance(value, uuid.UUID) else value


FRAMES = {
    "pyarrow": (lambda table: table, []),
    "pandas, Arrow types": (in_pandas, []),
    # where a value is missing, pandas makes whole numbers floats
    "pandas": (lambda table: table.to_pandas(), [*LARGE_WHOLE, "dictionary of double"]),
    "polars": (lambda table: pl.from_arrow(table), [WIDE, SPANS, "uuid"]),
    "DuckDB": (duckdb.from_arrow, [HALF, WIDE]),
}
FILES = {
    "t.parquet": (lambda table, path: pq.write_table(table, path), [SPANS]),
    "pandas.csv": (
        lambda table, path: table.to_pandas().to_csv(path, index=False),
        [*LARGE_WHOLE, "dictionary of double"],
    ),
    # single precision is written in double, as 0.10000000149011612
    "typed-pandas.csv": (
        lambda table, path: in_pandas(table).to_csv(path, index=False),
        [HALF, "float", "string_view"],
    ),
    "polars.csv": (lambda table, path: pl.from_arrow(table).write_csv(path), [HALF, WIDE, "uuid"]),
    "polars.tsv": (
        lambda table, path: pl.from_arrow(table).write_csv(path, separator="\t"),
        [HALF, WIDE, "uuid"],
    ),
    "arrow.csv": (by_arrow, [HALF, "uuid", "string_view"]),
    "duckdb.csv": (by_duckdb, [HALF, WIDE]),
    # numbers are doubles, and times of day are rounded
    "excel.xlsx": (by_excel, [HALF, "float", *LARGE_WHOLE, *SLIGHT]),
}


def wide(pairs):
    """A table with a column for each pair, and one more, as no record is to be empty."""
    return pa.table({"row": range(ROWS), **{f"{name}|{entry}": COLUMNS[name][0] for name, entry in pairs}})


def domain_of(pairs):
    return pj.Domain({f"{name}|{entry}": ENTRIES[entry][0] for name, entry in pairs})


def check(pairs, opened):
    """Compare the counts of columns, or the rows that they are refused for, all at once."""
    right = {f"{name}|{entry}": truth(name, entry) for name, entry in pairs}
    counted = [pair for pair in pairs if isinstance(right["|".join(pair)], list)]
    found = opened(counted).marginals([("|".join(pair),) for pair in counted])
    wrong = {"|".join(p): (f.tolist(), right["|".join(p)]) for p, f in zip(counted, found, strict=True)
             if f.tolist() != right["|".join(p)]}  # fmt: skip
    lost = [pair for pair in pairs if pair not in counted]
    with pytest.raises(ValueError, match="row") as refused:
        opened(lost).marginals([("|".join(lost[0]),)])
    said = dict(re.findall(r"Attribute '(.*?)': (.*?)(?=\. (?:Attribute|Correct)|$)", str(refused.value)))
    for pair in lost:
        parts = said.get("|".join(pair), "")
        rows = [int(n) for n in re.findall(r"([0-9]+) rows? (?:lie|ha(?:ve|s) a value|holds? text)", parts)]
        missing = [int(n) for n in re.findall(r"([0-9]+) rows? ha(?:ve|s) no value", parts)]
        if (sum(rows), sum(missing)) != right["|".join(pair)]:
            wrong["|".join(pair)] = (parts, right["|".join(pair)])
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


@pytest.mark.parametrize("store", FRAMES)
def test_frames_count_alike(store):
    convert, left_out = FRAMES[store]
    pairs = [pair for pair in PAIRS if pair[0] not in left_out]
    check(
        [pair for pair in pairs if not is_typed(*pair)],
        lambda some: pj.Dataset.from_frame(domain_of(some), convert(wide(some))),
    )
    for name, refused in itertools.groupby([pair for pair in pairs if is_typed(*pair)], lambda pair: pair[0]):
        frame = convert(pa.table({"x": COLUMNS[name][0]}))
        for _, entry in refused:
            check_refusal(entry, lambda domain, f=frame: pj.Dataset.from_frame(domain, f))


def check_refusal(entry, opened):
    spec = ENTRIES[entry][0]
    words = {"size": "codes", "labels": "labels", "bins": "bins", "min": "bins"}
    with pytest.raises(TypeError, match=f"'x'.*{words.get(next(iter(spec)), 'dates')}"):
        opened(pj.Domain({"x": spec}))


@pytest.mark.parametrize("store", FILES)
def test_files_count_alike(store, tmp_path):
    write, left_out = FILES[store]
    texts = store != "t.parquet"
    path = tmp_path / store
    pairs = [pair for pair in PAIRS if pair[0] not in left_out and not (texts and pair[0] in UNREADABLE)]

    def opened(some):
        write(wide(some), path)
        return pj.Dataset.read(path, domain_of(some))

    # a NaN is written as the text nan, which only an entry that takes numbers reads as missing
    check(
        [pair for pair in pairs if not is_typed(*pair) or (texts and NAN not in COLUMNS[pair[0]][1])], opened
    )
    # as the schema of an Arrow table is, of which every pair is tried
    for name, entry in [] if texts else [pair for pair in pairs if is_typed(*pair)][::37]:
        pq.write_table(pa.table({"x": COLUMNS[name][0]}), path)
        check_refusal(entry, lambda domain: pj.Dataset.read(path, domain))


def who(name, store, tmp_path):
    """Open a table whose unit has a type; each unit keeps one record."""
    table, unit = pa.table({"who": COLUMNS[name][0], "one": [0] * ROWS}), pj.Unit("who", 1)
    if store in FRAMES:
        return pj.Dataset.from_frame(pj.Domain({"one": 1}), FRAMES[store][0](table), unit=unit)
    FILES[store][0](table, tmp_path / store)
    return pj.Dataset.read(tmp_path / store, pj.Domain({"one": 1}), unit=unit)


UNITS = ["int8", "uint64", "float", "double", "decimal128(9, 2)", "bool", "string", "string_view", "date32"]
UNITS += ["large int64", "large uint64", "large decimal128(38, 0)", "timestamp[ns, tz=Europe/Paris]", "uuid"]
UNITS += ["timestamp[s]", "dictionary of int64", "dictionary of string", "null", "time64[us]", "binary"]


WRITES_NAN = ["polars.csv", "polars.tsv", "arrow.csv", "duckdb.csv", "excel.xlsx"]  # as a text, so a name


@pytest.mark.parametrize("store", [*FRAMES, *FILES])
def test_units_are_told_apart_alike(store, tmp_path):
    for name in [name for name in UNITS if name not in {**FRAMES, **FILES}[store][1]]:
        if name in UNREADABLE:
            if store in ("pyarrow", "pandas, Arrow types", "polars", "DuckDB", "t.parquet"):
                with pytest.raises(TypeError, match="unit"):
                    who(name, store, tmp_path)
            continue
        # a text such as 0.70 is a name like others
        values = ["nan" if v is NAN and store in WRITES_NAN else v for v in COLUMNS[name][1]]
        people = [value if value == "0.70" else meaning(value) for value in values]
        known = {(isinstance(person, bool), person) for person in people if person is not None}
        assert who(name, store, tmp_path).count() == len(known) + people.count(None), name


def opened_as_open(name, store, tmp_path, entry):
    table, draft = pa.table({"x": COLUMNS[name][0], "row": range(ROWS)}), pj.discovery.Draft({"x": entry})
    if store in FRAMES:
        return OpenTable.from_frame(FRAMES[store][0](table), draft)
    FILES[store][0](table, tmp_path / store)
    return OpenTable.read(tmp_path / store, draft)


@pytest.mark.parametrize("store", [*FRAMES, *FILES])
def test_open_columns_are_counted_alike(store, tmp_path):
    """By keys, of which labels are made, and by the kinds of values, which bins and dates follow from."""
    for name in [name for name in UNITS if name not in {**FRAMES, **FILES}[store][1]]:
        if name in UNREADABLE:
            if store in ("pyarrow", "t.parquet"):
                with pytest.raises(
                    TypeError, match="and any are to be discovered in it: cast them to numbers"
                ):
                    opened_as_open(name, store, tmp_path, "discover")
            continue
        table = opened_as_open(name, store, tmp_path, "discover")
        data, _ = key_column(table, "x")
        found = collections.Counter(itertools.chain(*(b["x"].tolist() for b in data.records(["x"]))))
        people = [v if v in ("0.70", "?") else meaning(v) for v in COLUMNS[name][1]]
        people = [None if person == "?" else person for person in people]
        known = collections.Counter((isinstance(p, bool), p) for p in people if p is not None)
        if name.startswith("large") and store in ("pandas, Arrow types", "polars"):
            continue  # whole numbers of an undeclared type may have been rounded
        assert sorted(n for code, n in found.items() if code >= FIRST) == sorted(known.values()), name
        if INF in COLUMNS[name][1] or "string" in name:
            continue
        kinds = table.under([kind_probe("x")]).marginals([("x",)])[0]
        right = collections.Counter(map(kind_of_meaning, people))
        assert {KINDS[code]: n for code, n in enumerate(kinds.tolist()) if n} == right, name


def kind_of_meaning(value):
    if value is None:
        return "missing"
    if isinstance(value, Fraction):
        places = next(places for places in range(9) if (value * 10**places).denominator == 1)
        return f"number, {places} decimal{'s' * (places != 1)}"
    if isinstance(value, MOMENT):
        return "date" if value == MOMENT(value.year, value.month, value.day) else "date and time"
    return "text"


def frame_of(values, **how):
    return pd.DataFrame({"x": pd.Series(values, **how)})


OBJECTS = {
    "intervals": frame_of(pd.arrays.IntervalArray.from_breaks([0, 1, 2])),
    "intervals as objects": frame_of([pd.Interval(0, 1), None], dtype=object),
    "categories of intervals": frame_of(pd.cut([0.5, 1.5], [0, 1, 2])),
    "periods": frame_of(pd.period_range("2020-01", periods=2, freq="M")),
    "complex numbers": frame_of(np.array([1j, 1])),
    "differences of times": frame_of(pd.to_timedelta([1, 2], unit="s")),
    "bytes": frame_of([b"a", b"1"], dtype=object),
    "lists": frame_of([[1], [2]], dtype=object),
    "arrays of polars": pl.DataFrame({"x": [[1], [2]]}, schema={"x": pl.Array(pl.Int8, 1)}),
    "bytes in a dictionary": pa.table({"x": pa.array([b"a", b"b"]).dictionary_encode()}),
}
WHOLE_OBJECTS = {
    "whole numbers of 128 bits": pl.DataFrame({"x": [1, 2**100, None]}, schema={"x": pl.Int128}),
    "unsigned ones": pl.DataFrame({"x": [1, 2**100, None]}, schema={"x": pl.UInt128}),
    "whole numbers as objects": frame_of([1, 2**100, None], dtype=object),
    "floats as objects": frame_of([1.0, float(2**100), NAN], dtype=object),
    "decimals as objects": frame_of([D("1.00"), D(2**100), D("NaN")], dtype=object),
    "fractions": frame_of([Fraction(1), Fraction(2**100), None], dtype=object),
    "sparse numbers": frame_of(pd.arrays.SparseArray([1.0, 2.0**100, NAN])),
    "categories of numbers": frame_of(pd.Categorical([1.0, 2.0**100, None])),
}


@pytest.mark.parametrize("entry", ["size", "text, other", "numbers", "bins", "dates", "bools"])
def test_frames_without_an_arrow_type(entry):
    spec, numeric, _ = ENTRIES[entry]
    for frame in OBJECTS.values():
        with pytest.raises(TypeError, match="'x'"):
            pj.Dataset.from_frame(pj.Domain({"x": spec}), frame)
    for frame in WHOLE_OBJECTS.values():
        if "number" in numeric:
            data = pj.Dataset.from_frame(pj.Domain({"x": ENTRIES["large"][0]}), frame)
            assert data.marginals([("x",)])[0].tolist() == [0, 0, 0, 0, 2, 1]
            labels = {"labels": [1, str(2**100)], "missing": True}
            data = pj.Dataset.from_frame(pj.Domain({"x": labels}), frame)
            assert data.marginals([("x",)])[0].tolist() == [1, 1, 1]
        else:
            with pytest.raises(TypeError, match="'x'"):
                pj.Dataset.from_frame(pj.Domain({"x": spec}), frame)


@pytest.mark.parametrize(
    "values", [np.array([1, 2], "m8[ns]"), np.array([b"1"]), np.array([1j]), np.array([(1,)], "i8,")]
)
def test_arrays_of_numpy_that_are_no_values(values):
    with pytest.raises(TypeError, match=r"0\.\.2"):
        Attribute.from_spec("x", 3).encode(values)


def test_a_refusal_comes_before_any_charge(tmp_path):
    """Of files, whose records are read last: by their types and, in text, by their values."""
    pq.write_table(pa.table({"x": COLUMNS["date32"][0]}), tmp_path / "t.parquet")
    by_arrow(pa.table({"x": COLUMNS["date32"][0]}), tmp_path / "t.csv")
    domain = pj.Domain({"x": ENTRIES["bins"][0]})
    with pytest.raises(TypeError, match=r"'x'.*date32\[day\]"):
        pj.Dataset.read(tmp_path / "t.parquet", domain)
    budget = pj.privacy.Budget(1)
    table = pj.privacy.PrivateTable(
        pj.Dataset.read(tmp_path / "t.csv", domain), pj.Relation.ADD_REMOVE, budget
    )
    with pytest.raises(ValueError, match=r"'x'.*5 rows"):
        table.measure([pj.queries.marginal(["x"])], epsilons=[1])
    assert budget.spent == 0


@pytest.mark.parametrize("name", ["uint8", "int64", "float", "double", "decimal128(9, 2)", "bool", "string"])
def test_weights_count_alike(name, tmp_path):
    values = [meaning(value) for value in COLUMNS[name][1]]
    good = [place for place, value in enumerate(values) if codes_below(2000)(value) != OUT]
    right = sum(int(values[place]) for place in good)
    table = pa.table({"w": COLUMNS[name][0], "one": [0] * ROWS}).take(good)
    for store in [*FRAMES, *FILES]:
        convert, left_out = {**FRAMES, **FILES}[store]
        if name in left_out:
            continue
        how = {"weights": "w", "max_weight": 2000}
        if store in FRAMES:
            data = pj.Dataset.from_frame(pj.Domain({"one": 1}), convert(table), **how)
        else:
            convert(table, tmp_path / store)
            data = pj.Dataset.read(tmp_path / store, pj.Domain({"one": 1}), **how)
        assert data.marginals([("one",)])[0].tolist() == [right], store
