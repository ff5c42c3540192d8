import csv
import gzip
import inspect
import itertools
import pathlib
import re

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain

ADULT = pathlib.Path(__file__).parent.parent.parent / "docs" / "examples" / "uci-adult.yaml"
DOMAIN = Domain({"a": 3, "b": 2})

SPEC = {
    "word": {"labels": ["low", "high", "1"], "missing": "?"},
    "flag": {"labels": [True, False]},
    "level": {"labels": [10, 30, 20], "missing": True},
    "number": {"bins": [-1, 0, 2.5, 10], "missing": ["-9"], "clip": True},
    "code": 5,
    "late": {"size": 300, "missing": True},
}
MIXED = Domain(SPEC)


def raw_columns(rows, seed=0):
    """Raw values, and beside them the codes they must get, found by a list look-up and comparisons."""
    rng = np.random.default_rng(seed)
    pick = {
        "word": ["low", "high", "1", None, "?"],
        "flag": [True, False],
        "level": [10, 30, 20, None],
        "number": [-50.0, -1.0, -0.5, 0.0, 2.49, 2.5, 10.0, 1e9, None],
        "code": list(range(5)),
        "late": [*range(300), None],
    }
    codes = {
        "word": [0, 1, 2, 3, 3],
        "flag": [0, 1],
        "level": [0, 1, 2, 3],
        "number": [0, 0, 0, 1, 1, 2, 2, 2, 3],
        "code": list(range(5)),
        "late": list(range(301)),
    }
    drawn = {name: rng.integers(0, len(values), rows) for name, values in pick.items()}
    raw = {name: [pick[name][k] for k in drawn[name]] for name in pick}
    return raw, {name: np.array(codes[name])[drawn[name]] for name in pick}


def plain_count(domain, codes, clique, weights=None):
    flat = np.zeros(len(codes[clique[0]]), dtype=np.int64)
    for name in clique:
        flat = flat * domain[name] + codes[name]
    table = np.zeros(domain.size(clique), dtype=np.int64)
    for cell, weight in zip(
        flat.tolist(), weights if weights is not None else itertools.repeat(1), strict=False
    ):
        table[cell] += int(weight)
    return table.reshape(domain.shape_of(clique))


def to_arrow(raw):
    types = {"level": pa.int16(), "code": pa.uint8(), "late": pa.int64()}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in raw.items()})


def to_pandas(raw):
    return pandas.DataFrame(raw).astype({"level": "Int64", "late": "Int32", "word": "category"})


def to_csv(raw, path):
    lines = [
        ",".join(raw),
        *(", ".join("" if v is None else str(v) for v in row) for row in zip(*raw.values(), strict=True)),
    ]
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def to_parquet(raw, path):
    pq.write_table(to_arrow(raw), path, row_group_size=1000)
    return path


def datasets(kind, raw, codes, folder, weights=None):
    """The same records through one of the ways in."""
    table = dict(raw) if weights is None else {"extra": raw["code"], **raw, "k": weights.tolist()}
    named = {} if weights is None else {"weights": "k", "max_weight": 2**40}
    given = {} if weights is None else {"weights": weights, "max_weight": 2**40}
    match kind:
        case "columns":
            return Dataset.from_columns(MIXED, codes, **given)
        case "encoded":
            encoded = {name: MIXED.attribute(name).encode(values) for name, values in raw.items()}
            return Dataset.from_columns(MIXED, encoded, **given)
        case "pandas":
            return Dataset.from_frame(MIXED, to_pandas(table), **named)
        case "polars":
            return Dataset.from_frame(MIXED, polars.from_arrow(to_arrow(table)), **named)
        case "arrow":
            return Dataset.from_frame(MIXED, to_arrow(table), **named)
        case "csv" | "csv.gz":
            return Dataset.read(to_csv(table, folder / f"t.{kind}"), MIXED, **named)
        case "parquet":
            return Dataset.read(to_parquet(table, folder / "t.parquet"), MIXED, **named)


KINDS = ["columns", "encoded", "pandas", "polars", "arrow", "csv", "csv.gz", "parquet"]
CLIQUES = [*itertools.combinations(MIXED, 2), ("late", "word", "flag"), ("code",), ("flag", "word")]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_in_gives_the_plain_count(kind, weighted, tmp_path):
    raw, codes = raw_columns(3000)
    weights = np.random.default_rng(1).integers(0, 2**40, 3000, endpoint=True) if weighted else None
    data = datasets(kind, raw, codes, tmp_path, weights)
    tables = data.marginals(CLIQUES)
    for clique, table in zip(CLIQUES, tables, strict=True):
        assert table.dtype == np.int64 and table.shape == MIXED.shape_of(clique)
        assert np.array_equal(table, plain_count(MIXED, codes, clique, weights))
    assert data.count() == (3000 if weights is None else sum(weights.tolist()))
    again = data.marginals([["word"], ("number", "word")])
    assert np.array_equal(again[0], plain_count(MIXED, codes, ("word",), weights))
    assert np.array_equal(again[1], plain_count(MIXED, codes, ("number", "word"), weights))
    assert data.marginals([]) == []


@given(st.data())
def test_marginals_against_a_loop(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    domain = Domain({f"a{k}": size for k, size in enumerate(sizes)})
    rows = data.draw(st.integers(1, 8))
    draw = {
        name: data.draw(st.lists(st.integers(0, domain[name] - 1), min_size=rows, max_size=rows))
        for name in domain
    }
    clique = tuple(data.draw(st.permutations(domain.attributes)))[: data.draw(st.integers(1, len(domain)))]
    table = Dataset.from_columns(domain, draw).marginals([clique])[0]
    assert np.array_equal(table, plain_count(domain, {name: np.array(draw[name]) for name in domain}, clique))


def test_cells_and_totals_beyond_float32():
    rows = 2**24 + 3
    column = np.zeros(rows, dtype=np.int64)
    column[-1] = 1
    data = Dataset.from_columns(DOMAIN, {"a": column, "b": column})
    assert data.marginals([("a", "b")])[0].tolist() == [[2**24 + 2, 0], [0, 1], [0, 0]]
    assert data.count() == rows


def test_weights_beyond_float64_steps():
    weights = np.array([2**52, 1, 2**51 + 1])
    data = Dataset.from_columns(DOMAIN, {"a": [0, 0, 1], "b": [1, 1, 1]}, weights=weights, max_weight=2**52)
    assert data.marginals([("a", "b")])[0].tolist() == [[0, 2**52 + 1], [0, 2**51 + 1], [0, 0]]


def test_records_are_copied():
    column = np.array([0, 1], dtype=np.uint8)
    data = Dataset.from_columns(DOMAIN, {"a": column, "b": column})
    column[:] = 1
    assert data.marginals([("a",)])[0].tolist() == [1, 1, 0]


def test_what_is_shown_holds_nothing_of_the_records():
    few = Dataset.from_columns(DOMAIN, {"a": [0], "b": [1]})
    many = Dataset.from_columns(DOMAIN, {"a": [2] * 99, "b": [0] * 99})
    assert repr(few) == repr(many) == str(many) == "Dataset(Domain({a: 3, b: 2}))"
    weighted = Dataset.from_columns(DOMAIN, {"a": [0], "b": [1]}, weights=[3], max_weight=7)
    assert repr(weighted) == "Dataset(Domain({a: 3, b: 2}), max_weight=7)"
    assert (few.weighted, few.max_weight, weighted.weighted, weighted.max_weight) == (False, 1, True, 7)
    with pytest.raises(TypeError):
        len(few)


@pytest.mark.parametrize("make", [Dataset.from_columns, Dataset.from_frame, Dataset.read])
def test_the_domain_has_no_default(make):
    parameters = inspect.signature(make).parameters
    assert parameters["domain"].default is inspect.Parameter.empty


COLUMNS = {"a": [0, 1], "b": [1, 1]}


@pytest.mark.parametrize(
    ("columns", "options", "kind", "message"),
    [
        ({"a": [0, 1]}, {}, ValueError, "no column for the attribute 'b' of the domain"),
        ([[0, 1], [1, 1]], {}, TypeError, "columns.*list"),
        ({**COLUMNS, "a": [0, 3]}, {}, ValueError, r"'a'.*1 row.*0\.\.2"),
        ({**COLUMNS, "a": [-1, -2]}, {}, ValueError, r"'a'.*2 rows.*0\.\.2"),
        (
            {**COLUMNS, "a": [0.0, 1.0]},
            {},
            TypeError,
            "'a' must hold whole numbers 0, 1, ..., got (float64|numbers with)",
        ),
        (
            {**COLUMNS, "a": [0, np.nan]},
            {},
            TypeError,
            "'a' must hold whole numbers 0, 1, ..., got (float64|numbers with)",
        ),
        (
            {**COLUMNS, "a": [0, None]},
            {},
            TypeError,
            "'a' must hold whole numbers .*, got (object|numbers with)",
        ),
        (
            {**COLUMNS, "a": [True, False]},
            {},
            TypeError,
            "'a' must hold whole numbers .*, got bool",
        ),
        ({**COLUMNS, "a": ["0", "1"]}, {}, TypeError, "'a' must hold whole numbers .*, got texts"),
        (
            {**COLUMNS, "a": [0, 2**70]},
            {},
            TypeError,
            "'a' must hold whole numbers .*, got (object|numbers with)",
        ),
        (
            {**COLUMNS, "a": pandas.array([0, None])},
            {},
            TypeError,
            "'a' must hold whole numbers .*, got (object|numbers with)",
        ),
        (
            {**COLUMNS, "a": np.ma.array([0, 1], mask=[0, 1])},
            {},
            ValueError,
            "'a' must be one-dimensional integers",
        ),
        (
            {**COLUMNS, "a": [[0], [1]]},
            {},
            ValueError,
            r"'a' must be one-dimensional integers .*got shape \(2, 1\)",
        ),
        (
            {**COLUMNS, "a": [[0], [1, 2]]},
            {},
            ValueError,
            "'a' must be one-dimensional integers without gaps",
        ),
        ({**COLUMNS, "a": 3}, {}, ValueError, r"'a' must be one-dimensional integers .*got shape \(\)"),
        ({**COLUMNS, "a": [0, 1, 2]}, {}, ValueError, r"must have equally many rows, got \[2, 3\]"),
        ({"a": [], "b": []}, {}, ValueError, "Column 'a' is empty: the table must hold at least one record"),
        ({"a": np.zeros(0, int), "b": np.zeros(0, int)}, {}, ValueError, "Column 'a' is empty"),
        (
            COLUMNS,
            {"weights": [1, 2]},
            ValueError,
            "weights need max_weight, the largest weight that a record may",
        ),
        (COLUMNS, {"max_weight": 2}, ValueError, "max_weight is given without weights"),
        (COLUMNS, {"weights": [1, 2], "max_weight": 0}, ValueError, r"max_weight.*1\.\.9007199254740991"),
        (COLUMNS, {"weights": [1, 2], "max_weight": 2**53}, ValueError, r"max_weight.*1\.\."),
        (COLUMNS, {"weights": [1, 2], "max_weight": 2.5}, TypeError, r"max_weight.*float 2\.5"),
        (COLUMNS, {"weights": [1, 3], "max_weight": 2}, ValueError, r"1 row.*0\.\.2"),
        (COLUMNS, {"weights": [-1, -1], "max_weight": 2}, ValueError, r"2 rows.*0\.\.2"),
        (
            COLUMNS,
            {"weights": [1.0, 2.0], "max_weight": 2},
            TypeError,
            "weights must hold whole numbers 0, 1, ..., got (float64|numbers with)",
        ),
        (
            COLUMNS,
            {"weights": [1], "max_weight": 2},
            ValueError,
            r"\(and weights\) must have equally many rows, got \[1, 2\]",
        ),
        (COLUMNS, {"weights": [2**53 - 1] * 2, "max_weight": 2**53 - 1}, ValueError, r"2\*\*53"),
    ],
)
def test_bad_columns_are_refused(columns, options, kind, message):
    with pytest.raises(kind, match=message):
        Dataset.from_columns(DOMAIN, columns, **options)


FRAME = pandas.DataFrame({"a": [0, 1], "b": [1, 1], "k": [1, 2]})


@pytest.mark.parametrize(
    ("frame", "options", "kind", "message"),
    [
        (FRAME[["a"]], {}, ValueError, "'b'"),
        (FRAME[["a", "b", "a"]], {}, ValueError, "The table has 2 columns named 'a', and needs one"),
        (COLUMNS, {}, TypeError, "DataFrame.*dict"),
        (FRAME.assign(a=[0, 7]), {}, ValueError, r"'a'.*1 row.*0\.\.2"),
        (FRAME.assign(a=[0, np.nan]), {}, ValueError, "'a'.*1 row.*missing: true"),
        (FRAME.assign(a=["x", "y"]), {}, ValueError, "'a'.*2 rows.*text"),
        (FRAME.astype({"a": "datetime64[ns]"}), {}, TypeError, "'a'.*timestamp"),
        (FRAME.iloc[:0], {}, ValueError, "record"),
        (FRAME, {"weights": "k"}, ValueError, "weights need max_weight"),
        (FRAME, {"weights": "k", "max_weight": 1}, ValueError, r"1 row.*0\.\.1"),
        (
            FRAME,
            {"weights": "w", "max_weight": 1},
            ValueError,
            "weights names 'w', and the frame has no such column",
        ),
        (
            FRAME,
            {"weights": "a", "max_weight": 1},
            ValueError,
            "weights names 'a', which is an attribute of the domain",
        ),
        (
            FRAME,
            {"weights": [1, 2], "max_weight": 2},
            TypeError,
            "weights must be the name of a column, got list",
        ),
    ],
)
def test_bad_frames_are_refused(frame, options, kind, message):
    with pytest.raises(kind, match=message):
        Dataset.from_frame(DOMAIN, frame, **options)


@pytest.mark.parametrize(
    ("cliques", "kind", "message"),
    [
        ([("a", "c")], ValueError, "'c'"),
        ([("a", "a")], ValueError, r"\('a', 'a'\)"),
        ([()], ValueError, "clique"),
        (["ab"], TypeError, "a list of cliques, got one"),
        (("a", "b"), TypeError, "a list of cliques, got one"),
    ],
)
def test_bad_cliques_are_refused(cliques, kind, message):
    with pytest.raises(kind, match=message):
        Dataset.from_columns(DOMAIN, COLUMNS).marginals(cliques)


def test_records_come_in_order_with_the_attributes_asked_for():
    data = Dataset.from_columns(DOMAIN, COLUMNS, weights=[3, 4], max_weight=5)
    (columns,) = data.records(("b", "a"))
    assert {name: codes.tolist() for name, codes in columns.items()} == {"b": [1, 1], "a": [0, 1]}


def adult_codes(domain, path):
    """Codes of the raw table by the csv module and plain comparisons."""
    with gzip.open(path, "rt") as stream:
        rows = [row for row in csv.reader(stream, skipinitialspace=True) if row]
    codes = {}
    for name, fields in zip(domain, zip(*rows, strict=True), strict=True):
        attribute = domain.attribute(name)
        if attribute.bins is not None:
            edges = attribute.bins
            inside = [min(max(float(field), edges[0]), edges[-1]) for field in fields]
            column = [min(sum(edge <= x for edge in edges), len(edges) - 1) - 1 for x in inside]
        else:
            known = [str(label) for label in attribute.labels]
            column = [attribute.size - 1 if field == "?" else known.index(field) for field in fields]
        codes[name] = np.array(column)
    return codes


def test_raw_adult_through_the_public_domain_file(data_dir):
    domain = Domain.read(ADULT)
    assert len(domain) == 15
    path = data_dir / "adult" / "adult.data.gz"
    data = Dataset.read(path, domain, header=False)
    codes = adult_codes(domain, path)
    cliques = list(itertools.combinations(domain, 2))
    for clique, table in zip(cliques, data.marginals(cliques), strict=True):
        assert np.array_equal(table, plain_count(domain, codes, clique))
    assert data.count() == 32561


@pytest.mark.parametrize(
    ("name", "rows"), [("adult", 48842), ("titanic", 1304), ("loans", 42535), ("stroke", 19434)]
)
def test_coded_tables_by_name(data_dir, name, rows):
    folder = data_dir / name
    domain = Domain.read(folder / f"{name}-domain.json")
    path = folder / f"{name}.csv.gz"
    codes = {column: values.to_numpy() for column, values in pandas.read_csv(path).items()}
    data = Dataset.read(path, domain)
    cliques = [(name,) for name in domain] + list(itertools.pairwise(domain))
    for clique, table in zip(cliques, data.marginals(cliques), strict=True):
        assert np.array_equal(table, plain_count(domain, codes, clique))
    assert data.count() == rows == len(next(iter(codes.values())))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("numbers", [[1, 2], [1, 99], [1, 2.5], ["1", "x"], [1, None]])
@pytest.mark.parametrize("labels", [["F", "M"], ["F", "Q"], ["F", None]])
def test_the_remedies_that_are_offered_are_those_that_help(missing, numbers, labels):
    """Each way to treat records outside the domain is tried; the message offers all that work, no other."""
    low, high = {"min": 0, "max": 9, "missing": missing}, {"labels": ["F", "M"], "missing": missing}
    domain = Domain({"a": low, "s": high})
    frame = pandas.DataFrame({"a": numbers, "s": labels})

    def refusal(rows_outside):
        try:
            Dataset.from_frame(domain, frame, rows_outside=rows_outside).count()
        except ValueError as error:
            return str(error)
        return ""

    said = refusal(None)
    works = {word for word in ("clip", "missing", "drop") if not refusal(word)}
    assert not said or set(re.findall(r'"(clip|missing|drop)"', said)) == works


def test_a_range_of_python_is_one_of_whole_numbers():
    assert Domain({"age": range(18, 90)}) == Domain({"age": {"min": 18, "max": 89}})
    with pytest.raises(TypeError, match="a list of 36"):
        Domain({"age": range(18, 90, 2)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.set_index("age"), r"index of the frame has 'age', .* frame.reset_index\(\)"),
        (lambda frame: pandas.concat({"x": frame}, axis=1), "names of several levels"),
    ],
)
def test_a_column_in_the_index_or_below_another_is_said(change, said):
    frame = pandas.DataFrame({"age": [18, 20], "sex": [0, 1]})
    with pytest.raises(ValueError, match=said):
        Dataset.from_frame(Domain({"age": range(18, 90), "sex": 2}), change(frame))


def test_columns_of_unequal_length_are_named_and_a_frame_is_sent_to_from_frame():
    domain = Domain({"age": 80, "sex": 2})
    with pytest.raises(ValueError, match=r"equally many rows, got \[1, 2\]: correct 'sex' or 'age'"):
        Dataset.from_columns(domain, {"age": [1, 2], "sex": [1]})
    with pytest.raises(TypeError, match=r"write Dataset.from_frame\(domain, frame\)"):
        Dataset.from_columns(domain, pandas.DataFrame({"age": [1]}))
    with pytest.raises(TypeError, match="got list: put the files of one table together"):
        Dataset.read(["a.csv", "b.csv"], domain)


def test_days_of_another_zone_are_warned_of_by_the_type_of_the_column():
    domain = Domain({"d": {"from": "2023-01-01", "to": "2024-12-31", "step": "month"}})
    frame = pandas.DataFrame({"d": pandas.to_datetime(["2024-03-01"])})
    local = frame.assign(d=frame["d"].dt.tz_localize("Europe/Berlin"))
    for each in (local, pa.Table.from_pandas(local), polars.from_pandas(local)):
        with pytest.warns(UserWarning, match=r"'d' has the time zone Europe/Berlin .*tz_localize\(None\)"):
            assert Dataset.from_frame(domain, each).marginals([("d",)])[0][13] == 1
    for each in (frame, frame.assign(d=frame["d"].dt.tz_localize("UTC"))):
        assert Dataset.from_frame(domain, each).marginals([("d",)])[0][14] == 1
