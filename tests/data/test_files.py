import gzip
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from tests import pairwise

WORDS = {"labels": ["a", "b"], "missing": True}
DOMAIN = Domain({"w": WORDS, "n": 4})


def table_of(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    raw = text if isinstance(text, bytes) else text.encode("utf-8")
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def joint(path, domain=DOMAIN, **options):
    return Dataset.read(path, domain, **options).marginals([domain.attributes])[0].tolist()


EXPECTED = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 2]]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("w,n\na,0\nb,1\n,3\n,3\n", "t.csv"),
        ("w,n\na,0\nb,1\n,3\n,3", "t.CSV"),
        ("n,w,n2\n0,a,9\n1,b,\n3,,x\n3,,x\n", "t.csv"),
        ("\ufeffw,n\r\na,0\r\nb,1\r\n,3\r\n,3\r\n", "t.csv"),
        ("w,n\ra,0\rb,1\r,3\r,3\r", "t.csv"),
        (" w , n \n a , 0 \n\tb,1\t\n  ,3\n,  3\n\n\n", "t.csv"),
        ('"w","n"\n"a","0"\n"b",1\n"",3\n,3\n', "t.csv.gz"),
        ("w;n;x\na;0;1,5\nb;1;2,5\n;3;\n;3;\n", "t.txt"),
        ("w\tn\na\t0\nb\t1\n\t3\n\t3\n", "t.tsv"),
        ("w\tn\na\t0\nb\t1\n\t3\n\t3\n", "t.tsv.gz"),
        ("w|n\na|0\nb|1\n|3\n|3\n", "t.data.gz"),
        ("x,x,w,n\n1,2,a,0\n3,4,b,1\n5,6,,3\n7,8,,3\n", "t.csv"),
        ('x,w,n\n"one, ""two""\nthree",a,0\n5" pipe,b,1\n#,,3\n\',,3\n', "t.csv"),
    ],
)
def test_text_files(tmp_path, text, name):
    assert joint(table_of(tmp_path, text, name)) == EXPECTED


@pytest.mark.parametrize(
    ("before", "end", "name"),
    pairwise.rows(["\n", "\n\n\n", "\ufeff\n"], ["\n", "\r\n", "\r"], ["t.csv", "t.csv.gz"]),
)
def test_blank_lines_before_the_first_line_are_no_records(tmp_path, before, end, name):
    records = "a,0\nb,1\n,3\n,3\n"
    assert joint(table_of(tmp_path, (before + "w,n\n" + records).replace("\n", end), name)) == EXPECTED
    bare = table_of(tmp_path, (before + records).replace("\n", end), name)
    assert joint(bare, header=False) == EXPECTED
    single = table_of(tmp_path, (before + "n\n1\n3\n").replace("\n", end), name)
    assert joint(single, Domain({"n": 4})) == [0, 1, 0, 1]


def test_without_header_columns_stand_in_order(tmp_path):
    path = table_of(tmp_path, "\ufeffa, 0\nb, 1\n, 3\n, 3\n\n", "t.data")
    assert joint(path, header=False) == EXPECTED
    with pytest.raises(ValueError, match=r"t\.data.* 2 .* 3 "):
        Dataset.read(path, Domain({"w": WORDS, "n": 4, "x": 2}), header=False)
    with pytest.raises(ValueError, match="weights names a column of the header, so it needs header=True"):
        Dataset.read(path, DOMAIN, header=False, weights="k", max_weight=3)


def test_every_line_of_one_column_is_a_record(tmp_path):
    """As polars, Arrow and DuckDB write one without a value."""
    path = table_of(tmp_path, "n\n1\n\n3\n\n")
    assert joint(path, Domain({"n": {"size": 4, "missing": True}})) == [0, 1, 0, 1, 2]
    with pytest.raises(ValueError, match=r"'n'.*2 rows"):
        joint(path, Domain({"n": 4}))


@pytest.mark.parametrize("name", ["it's.csv", "a*b?.csv", "[x].csv", "sp ace ü.csv", "~.csv"])
def test_names_of_files_are_taken_to_the_letter(tmp_path, name):
    table_of(tmp_path, "w,n\nb,2\n", "axb?.csv" if "*" in name else "x.csv")
    assert joint(table_of(tmp_path, "w,n\na,0\nb,1\n,3\n,3\n", name)) == EXPECTED


def test_relative_paths_stay_where_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_of(tmp_path, "w,n\na,0\nb,1\n,3\n,3\n")
    data = Dataset.read("t.csv", DOMAIN)
    monkeypatch.chdir("/")
    assert data.marginals([("w", "n")])[0].tolist() == EXPECTED


def arrow_table():
    return pa.table(
        {
            "n": pa.array([0, 1, 3, 3], pa.int64()),
            "w": pa.array(["a", "b", None, None]),
            'it\'s "x"': pa.array([True, False, True, True]),
            "when": pa.array([1, 2, 3, 4], pa.timestamp("s")),
        }
    )


def test_parquet_file(tmp_path):
    pq.write_table(arrow_table(), tmp_path / "t.parquet")
    assert joint(tmp_path / "t.parquet") == EXPECTED
    flags = Domain({'it\'s "x"': {"labels": [False, True]}})
    assert joint(tmp_path / "t.parquet", flags) == [1, 3]


def test_parquet_folder(tmp_path):
    folder = tmp_path / "table"
    (folder / "deeper").mkdir(parents=True)
    pq.write_table(arrow_table().slice(0, 1), folder / "part-0.parquet")
    pq.write_table(arrow_table().slice(1).select(["w", "when", "n"]), folder / "deeper" / "part-1.parquet")
    (folder / "_metadata.parquet").write_bytes(b"not Parquet")
    (folder / ".hidden.parquet").write_bytes(b"not Parquet")
    assert joint(folder) == EXPECTED


def test_partitioned_folder(tmp_path):
    for n, rows in ((0, ["a"]), (1, ["b"]), (3, [None, None])):
        (tmp_path / f"n={n}").mkdir()
        pq.write_table(pa.table({"w": pa.array(rows, pa.string())}), tmp_path / f"n={n}" / "p.parquet")
    assert joint(tmp_path) == EXPECTED


def test_names_of_columns_are_exact(tmp_path):
    pq.write_table(pa.table({"N": [0, 1], "w": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet has no column named 'n', but 'N': capitals count"):
        Dataset.read(tmp_path / "t.parquet", DOMAIN)
    with pytest.raises(ValueError, match=r"t\.csv has no column named 'n', but 'N': capitals count"):
        Dataset.read(table_of(tmp_path, "N,w\n0,a\n"), DOMAIN)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("w,n\nZaphod,0\nZaphod,1\n,77777\n", "t.csv", "'w'.*2 rows.*other: true.*'n'.*1 row"),
        ("w,n\na,1.5\na,Zaphod\na,\n", "t.csv", r"'n'.*1 row.*0\.\.3.*1 row.*1 row"),
        (
            "w,n\na,1,Zaphod\n",
            "t.csv",
            "t.csv cannot be read, line 2: it has 3 fields, and 2 were expected: row names need a name too",
        ),
        ("w,n\na,1\nZaphod\n", "t.csv", r"t\.csv.*line 3"),
        ('w,n\na,1\n"Zaphod,1\nb,2\n', "t.csv", "line 3: a quote that is opened there is not closed"),
        (
            'w,n\na,1\n"Zap"hod,1\nb,2\n',
            "t.csv",
            "line 3: a quote that is opened there is not closed, or text",
        ),
        (b"w,n\na,1\nZaphod\xe9,1\n", "t.csv", r"line 3.*UTF-8"),
        ("w,n\n", "t.csv", "record"),
        ("w,n\n\n\n", "t.csv", "record"),
    ],
)
def test_bad_records_are_counted_and_never_shown(tmp_path, text, name, message):
    data = Dataset.read(table_of(tmp_path, text, name), DOMAIN)
    for scan in (data.validate, data.count, lambda: data.marginals([("n",)])):
        with pytest.raises(ValueError, match=message) as caught:
            scan()
        error = caught.value
        while error is not None:
            assert "Zaphod" not in str(error) and "7777" not in str(error)
            error = error.__context__


def test_all_attributes_are_checked_even_where_one_is_counted(tmp_path):
    data = Dataset.read(table_of(tmp_path, "w,n\na,0\nc,0\n"), DOMAIN)
    with pytest.raises(ValueError, match="Attribute 'w': 1 row"):
        data.marginals([("n",)])


def test_a_file_that_changes_is_checked_again(tmp_path):
    path = table_of(tmp_path, "w,n\na,0\nb,1\n,3\n,3\n")
    data = Dataset.read(path, DOMAIN)
    assert data.count() == 4
    table_of(tmp_path, "w,n\na,0\nb,9\n")
    with pytest.raises(ValueError, match="Attribute 'n': 1 row"):
        data.marginals([("n",)])
    path.unlink()
    with pytest.raises(ValueError, match=r"t\.csv cannot be read: there is no such file any more\."):
        data.marginals([("n",)])


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("gone.csv", FileNotFoundError, r"gone\.csv"),
        (
            "t.xls",
            ValueError,
            r"t\.xls is no kind of table that can be read .save the sheet as CSV in UTF-8, or as Parquet.: "
            r"expected \.parquet \(or a folder",
        ),
        ("t", ValueError, "t is no kind of table that can be read"),
        ("t.parquet", ValueError, r"t\.parquet cannot be read as Parquet"),
        ("t.csv.gz", ValueError, r"t\.csv\.gz cannot be read: is it a gzip-compressed text"),
        ("folder", ValueError, r"folder.*\.parquet"),
        ("empty.csv", ValueError, r"empty\.csv is empty: it must hold at least one record"),
    ],
)
def test_what_is_no_table(tmp_path, name, kind, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.csv").write_bytes(b"")
    for other in ("t.xls", "t", "t.parquet", "t.csv.gz"):
        (tmp_path / other).write_bytes(b"w,n\na,0\n")
    with pytest.raises(kind, match=message):
        Dataset.read(tmp_path / name, DOMAIN)


def test_types_that_no_attribute_takes(tmp_path):
    pq.write_table(arrow_table(), tmp_path / "t.parquet")
    with pytest.raises(TypeError, match=r"'when'.*timestamp"):
        Dataset.read(tmp_path / "t.parquet", Domain({"when": {"bins": [0, 10]}}))
    pq.write_table(pa.table({"n": [0.0, 1.0]}), tmp_path / "f.parquet")
    assert Dataset.read(tmp_path / "f.parquet", Domain({"n": 4})).marginals([("n",)])[0].tolist() == [
        1,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_weights(tmp_path, kind):
    columns = {"w": ["a", "b", "b"], "n": [0, 1, 1], "k": [2**40, 0, 7]}
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        table_of(
            tmp_path,
            "w,n,k\n" + "".join(f"{w},{n}, {k}\n" for w, n, k in zip(*columns.values(), strict=True)),
        )
    else:
        pq.write_table(pa.table(columns), path)
    data = Dataset.read(path, DOMAIN, weights="k", max_weight=2**40)
    assert data.marginals([("w",)])[0].tolist() == [2**40, 7, 0]
    assert (data.count(), data.weighted, data.max_weight) == (2**40 + 7, True, 2**40)
    with pytest.raises(ValueError, match=re.escape("Weights: 1 row is not an integer in 0..7.")):
        Dataset.read(path, DOMAIN, weights="k", max_weight=7).validate()


def test_weights_that_are_no_integers(tmp_path):
    data = Dataset.read(
        table_of(tmp_path, "w,n,k\na,0,1.5\na,0,\na,0,-1\n"), DOMAIN, weights="k", max_weight=7
    )
    with pytest.raises(ValueError, match=re.escape("Weights: 3 rows are not integers in 0..7.")):
        data.validate()
    pq.write_table(pa.table({"w": ["a"], "n": [0], "k": [1.5]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"1 row.*0\.\.7"):
        Dataset.read(tmp_path / "t.parquet", DOMAIN, weights="k", max_weight=7).validate()


def test_many_batches_and_row_groups(tmp_path):
    rng = np.random.default_rng(5)
    columns = {"a": rng.integers(0, 300, 300_001), "b": rng.integers(0, 2, 300_001)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=50_000)
    domain = Domain({"b": 2, "a": 300})
    expected = np.bincount(columns["b"] * 300 + columns["a"], minlength=600).reshape(2, 300)
    assert np.array_equal(Dataset.read(tmp_path / "t.parquet", domain).marginals([("b", "a")])[0], expected)
    text = "a,b\n" + "\n".join(f"{a},{b}" for a, b in zip(columns["a"], columns["b"], strict=True))
    path = table_of(tmp_path, text, "t.csv.gz")
    assert np.array_equal(Dataset.read(path, domain).marginals([("b", "a")])[0], expected)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_records_come_in_the_order_of_the_file(tmp_path, kind):
    """A million records in many row groups, which threads would hand over as they are read."""
    codes = np.random.default_rng(0).integers(0, 4, 1_000_000)
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"n": codes}), path, row_group_size=20_000)
    else:
        path.write_text("n\n" + "\n".join(map(str, codes.tolist())) + "\n")
    data = Dataset.read(path, Domain({"n": 4}))
    assert np.array_equal(np.concatenate([part["n"] for part in data.records(["n"])]), codes)
