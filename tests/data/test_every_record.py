"""Messy files that other programs write: every record counts, as the rows that were written say."""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import tarfile
import unicodedata
import zipfile

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmjax.data import files
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Unit

VALUES = ["x", "a b", "v,w", "l\nm", "r\r\ns", 'q"u', "0;1", "1,5", "\u00e9", ""]
LABELS = [value for value in VALUES if value.isprintable() and value]
DOMAIN = {"labels": LABELS, "other": True, "missing": True}
ASKED = ["v", "Age of the person", "h\n(x)", 'in "quotes"', "e\u0301t\u00e9", "m;n,o"]
OTHERS = ["", "", "row", "twice", "twice", "of", "the", '5" pipe', "v w"]


def counts(path, names, **options):
    data = Dataset.read(path, Domain(dict.fromkeys(names, DOMAIN)), **options)
    return [marginal.tolist() for marginal in data.marginals([(name,) for name in names])]


def true_counts(rows, places):
    """Of each label, of values with a line break, and of no value."""
    columns = [[row[place] for row in rows] for place in places]
    return [[*map(c.count, LABELS), sum("\n" in value for value in c), c.count("")] for c in columns]


@st.composite
def tables(draw):
    """A header, the names that are asked for, and records."""
    asked = draw(st.lists(st.sampled_from(ASKED), min_size=1, max_size=3, unique=True))
    header = draw(st.permutations(asked + draw(st.lists(st.sampled_from(OTHERS), max_size=3))))
    row = st.tuples(*[st.sampled_from(VALUES)] * len(header))
    return header, asked, draw(st.lists(row, min_size=1, max_size=6))


UNMARKED = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
"""Encodings in which nothing says what a file is written in, so that it is given."""


@st.composite
def layouts(draw):
    """How a program writes a text file: what of it is independent of the table."""
    return {
        "delimiter": draw(st.sampled_from(",;\t| ")),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "ends": draw(st.lists(st.sampled_from(["\n", "\r\n", "\r", "\r\r\n"]), min_size=1, max_size=3)),
        "last": draw(st.booleans()),
        "above": draw(
            st.sampled_from(["", "", "\n\n", "sep", "Table 1\n", "# made by R\n\n", "One title\nTwo\n"])
        ),
        "below": draw(st.sampled_from(["", "\n", "\n\n\n"])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", *UNMARKED])),
        "packed": draw(st.booleans()),
    }


def text_of(header, rows, how):
    """The text of a file: as csv writes each line, with the line ends in turn."""
    lines = []
    for row in [header, *rows]:
        line = io.StringIO()
        csv.writer(line, delimiter=how["delimiter"], quoting=how["quoting"]).writerow(row)
        lines.append(line.getvalue().removesuffix("\r\n"))
    ends = [how["ends"][k % len(how["ends"])] for k in range(len(lines))]
    ends[-1] = ends[-1] if how["last"] else ""
    above = f"sep={how['delimiter']}{ends[0] or how['ends'][0]}" if how["above"] == "sep" else how["above"]
    below = how["below"] if len(header) > 1 and how["last"] else ""
    return above + "".join(line + end for line, end in zip(lines, ends, strict=True)) + below


@settings(max_examples=100, deadline=None)
@given(tables(), layouts())
def test_text_in_any_layout(tmp_path_factory, table, how):
    (header, asked, rows), folder = table, tmp_path_factory.mktemp("t")
    assume(len(header) > 1 or how["above"] in ("", "sep", "\n\n"))  # a title of one column is as its header
    raw = text_of(header, rows, how).encode(how["encoding"])
    assume(how["delimiter"] != " " or how["above"] in ("", "sep", "\n\n"))  # titles have spaces
    path = folder / ("t.csv.gz" if how["packed"] else "t.csv")
    path.write_bytes(gzip.compress(raw) if how["packed"] else raw)
    given_encoding = how["encoding"] if how["encoding"] in UNMARKED else None
    composed = [unicodedata.normalize("NFC", name).replace("\n", " ") for name in asked]
    expected = true_counts(rows, [header.index(name) for name in asked])
    titled = how["above"] not in ("", "sep", "\n\n")
    if titled and sum(map(bool, header)) == 1 and header[0]:  # a title exported with the columns looks so too
        with pytest.raises(ValueError, match=r"has no column named .*remove what stands above the names"):
            counts(path, composed, encoding=given_encoding)
        return
    assert counts(path, composed, encoding=given_encoding) == expected


ENDS = ["\n", "\r\n", "\r", "\r\r\n"]


@pytest.mark.parametrize(
    "lines", [["v,w", "x,", "0;1,y"], ['v,"w\r\n"', '"r\r\ns",z', "x,"], ["v", "x", "0;1"], ["v", '""', "x"]]
)
def test_all_line_ends_beside_each_other(tmp_path, lines):
    """DuckDB alone reads no record at all from some of these files, and one too many from others."""
    found = set()
    for ends in itertools.product(ENDS, ENDS, [*ENDS, ""]):
        (tmp_path / "t.csv").write_bytes("".join(map(str.__add__, lines, ends)).encode())
        found.add(str(counts(tmp_path / "t.csv", ["v"])))
    values = [(next(csv.reader([line])) or [""])[0] for line in lines[1:]]
    assert found == {str(true_counts([[value] for value in values], [0]))}


def frame_of(header, rows):
    return pd.DataFrame([[value or None for value in row] for row in rows], columns=header, dtype="object")


WRITERS = {
    "pandas.csv": lambda f, path: f.to_csv(path, index=False),
    "index.csv": lambda f, path: f.to_csv(path),
    "polars.csv": lambda f, path: pl.from_pandas(f).write_csv(path),
    "arrow.csv": lambda f, path: arrow_csv.write_csv(pa.Table.from_pandas(f), path),
    "duckdb.csv": lambda f, path: duckdb.from_arrow(pa.Table.from_pandas(f)).write_csv(str(path)),
    "t.tsv": lambda f, path: f.to_csv(path, sep="\t", index=False),
    "t.xlsx": lambda f, path: f.to_excel(path, index=False),
    "title.xlsx": lambda f, path: f.to_excel(path, index=False, startrow=2),
    "t.parquet": lambda f, path: f.to_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("width", [1, 2])
def test_records_without_a_value_in_every_store(tmp_path, name, width):
    values = ["", "x", "", "", "a b", ""]
    rows = [(value,) * width for value in values]
    frame = frame_of(["v", "w"][:width], rows).astype("string")
    WRITERS[name](frame, tmp_path / name)
    # a row below the last value of a sheet is none, whatever its cells are formatted as
    expected = true_counts(rows[:-1] if name.endswith("xlsx") else rows, range(width))
    assert counts(tmp_path / name, ["v", "w"][:width]) == expected
    domain = Domain({"v": DOMAIN})
    for held in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        assert Dataset.from_frame(domain, held).marginals([("v",)])[0].tolist() == true_counts(rows, [0])[0]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("sep=;\nv;w\nx;1,5\n", "vw"),
        ('"sep=|"\r\nv|w\r\nx|1,5\r\n', "vw"),
        ("Population, by region\n\nv;w\nx;1,5\n", "vw"),
        ('"Population, by region",,\nSource: office,,\n,,\nv,u,w\nx,,"1,5"\n', "vw"),
        ("# Office, 2020, revised, table 3\nv;w\nx;1,5\n", "vw"),
        ('"",v,"",w,z,z\n1,x,,"1,5",,\n', "vw"),
        ("v,w,\nx,'1,5',\n".replace("'", '"'), "vw"),
        ("v w u\tw\nx\t1,5\n", ["v w u", "w"]),
        ('Age of v,Sex at birth of w\nx,"1,5"\n', ["Age of v", "Sex at birth of w"]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*without a name of their own")
def test_what_stands_above_and_beside_the_names(tmp_path, text, names):
    (tmp_path / "t.csv").write_text(text, newline="")
    one = [int(value == "x") for value in LABELS], [int(value == "1,5") for value in LABELS]
    assert counts(tmp_path / "t.csv", [*names]) == [[*row, 0, 0] for row in one]
    assert {*names} <= {*files.column_names(tmp_path / "t.csv")}
    with pytest.raises(ValueError, match="has no column named 'of'"):
        counts(tmp_path / "t.csv", ["of"])


@pytest.mark.parametrize(
    "text",
    [
        "v,w\nx,y\n",
        "v;w\nx;Smith, J\nx;Doe, A\n",
        "#v,w\nx,y\n",
        "v,w\nx,y,\n",
        "v\nx\n",
        ",v\n1,x\n",
        "v,w\n,x\n",
    ],
)
def test_no_name_is_found_in_a_record(tmp_path, text):
    """Otherwise who chooses the names of a domain could ask what the first record holds."""
    (tmp_path / "t.csv").write_text(text)
    for value in {
        field.strip() for line in text.splitlines()[1:] for d in ",;" for field in line.split(d)
    } - {""}:
        with pytest.raises(ValueError, match="has no column named"):
            counts(tmp_path / "t.csv", [value])


def test_row_names_of_r_and_lines_without_an_end_are_said(tmp_path):
    for name, text in (("t.csv", "v,w\n1,x,y\n"), ("t.txt", '"v" "w"\n"1" "x" "y"\n')):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=r"line 2.*3.*2"):
            counts(tmp_path / name, ["v"])
    (tmp_path / "t.csv").write_bytes(b"v,w," * (1 << 20))
    with pytest.raises(ValueError, match=r"cannot be read: its first line is longer than 2 MB"):
        counts(tmp_path / "t.csv", ["v"])


def test_two_names_of_one_column_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("e\u0301,b\nx,x\n")
    for names in (["b", " b"], ["e\u0301", "\u00e9"]):
        with pytest.raises(ValueError, match="Unicode"):
            counts(tmp_path / "t.csv", names)
        with pytest.raises(
            ValueError, match=r"are one column of .*t\.csv, as white space .*do not count, and"
        ):
            Dataset.read(tmp_path / "t.csv", Domain({names[0]: ["x"]}), unit=Unit(names[1], 1))
    (tmp_path / "t.csv").write_text("b,b \nx,a b\n")
    assert counts(tmp_path / "t.csv", ["b"]) == true_counts([["x"]], [0])


@given(st.permutations([" b\n(x) ", "e\u0301", "\u00e9t\u00e9", "d"]), st.sampled_from(["NFC", "NFD"]))
@settings(max_examples=20, deadline=None)
def test_a_name_is_one_in_each_store_and_in_a_book_of_codes(tmp_path_factory, header, form):
    folder = tmp_path_factory.mktemp("t")
    frame = pd.DataFrame({name: ["x", "\u00e9", "x"] for name in header})
    asked = [unicodedata.normalize(form, " ".join(name.split())) for name in header]
    written, (label, *_) = unicodedata.normalize(form, "\u00e9"), asked
    (folder / "book.csv").write_text(f"k,{header[0].replace(chr(10), ' ')}\n1,x\n2,{written}\n")
    (folder / "d.json").write_text(
        json.dumps({n: {"labels_file": "book.csv", "column": label} for n in asked})
    )
    domain = Domain.read(folder / "d.json")
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    opened = [Dataset.read(folder / name, domain) for name in ("t.csv", "t.parquet")]
    opened += [Dataset.from_frame(domain, some) for some in (frame, pa.table(frame), pl.from_pandas(frame))]
    for data in opened:
        assert [data.marginals([(name,)])[0].tolist() for name in asked] == [[2, 1]] * 4


def zipped(text):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("t.csv", text)
    return held.getvalue()


def tarred(text):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        member = tarfile.TarInfo("t.csv")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return held.getvalue()


def written(write):
    held = io.BytesIO()
    write(held)
    return held.getvalue()


TEXT = b"v,w\nx,\n"
FRAME = pd.DataFrame({"v": ["x"], "w": [""]})
KINDS = {
    "gzip": gzip.compress(TEXT),
    "bzip2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "zstd": pa.compress(TEXT, "zstd", asbytes=True),
    "zip": zipped(TEXT),
    "tar": tarred(TEXT),
    "Excel": written(lambda held: FRAME.to_excel(held, index=False)),
    "Parquet": written(FRAME.to_parquet),
    "Feather": written(FRAME.to_feather),
    "NumPy": written(lambda held: np.save(held, np.zeros((3, 2), int))),
    "HTML": b"\n<!DOCTYPE html>\n<html><body>please log in</body></html>\n" * 20,
    "old Excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
}


def test_other_sheets_are_told_of(tmp_path):
    with pd.ExcelWriter(tmp_path / "two.xlsx") as book:
        for name, value in (("now", 1), ("then", 2)):
            pd.DataFrame({"a": [value]}).to_excel(book, sheet_name=name, index=False)
    with pytest.warns(UserWarning, match="two.xlsx has 2 sheets: the first, 'now', is read alone"):
        data = Dataset.read(tmp_path / "two.xlsx", Domain({"a": 3}))
    assert data.marginals([("a",)])[0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npy", "t.xlsx", "t.csv.gz"])
def test_a_name_that_lies_is_found_out(tmp_path, kind, name):
    own = {"gzip": "t.csv.gz", "Excel": "t.xlsx", "zip": "t.xlsx", "Parquet": "t.parquet", "NumPy": "t.npy"}
    if own.get(kind) == name:
        return
    raw = KINDS[kind]
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    for read in (counts, lambda path, _: files.column_names(path)):
        with pytest.raises(ValueError, match=f"(is|by|an?) .*{kind}"):
            read(tmp_path / name, ["v"])


def test_a_table_on_another_sheet_is_told_as_such(tmp_path):
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame({"notes": ["of 2024"]}).to_excel(book, sheet_name="Notes", index=False)
        pd.DataFrame({"v": [1], "w": [2]}).to_excel(book, sheet_name="Data", index=False)
    with pytest.raises(
        ValueError, match=r"The first sheet of .* has no column named 'v', and no other is read"
    ):
        counts(tmp_path / "t.xlsx", ["v", "w"])


@pytest.mark.parametrize("name", ["t.parquet", "t.npy", "t.xlsx", "t.csv.gz"])
def test_text_under_another_name_is_said(tmp_path, name):
    (tmp_path / name).write_bytes(TEXT)
    with pytest.raises(ValueError, match=r"begins as text does. End its name in .csv|a gzip-compressed text"):
        counts(tmp_path / name, ["v"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="is a pipe or a device, and a table is read several times: save it"):
        counts(tmp_path / "t.csv", ["v"])


def test_a_damaged_gzip_file_is_refused(tmp_path):
    """Of some DuckDB reads the records that are left, as it does not look at the checksum."""
    whole = gzip.compress(b"v,w\n" + b"".join(b"x,%d\n" % k for k in range(50_000)))
    for place in (len(whole) // 2, len(whole) - 6):
        bad = bytearray(whole)
        bad[place] ^= 0xFF
        (tmp_path / "t.csv.gz").write_bytes(bad)
        with pytest.raises(ValueError, match=r"t\.csv\.gz cannot be read: (it is damaged|is it a gzip)"):
            counts(tmp_path / "t.csv.gz", ["v"])
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"v,w\nx,1\n") + gzip.compress(b"x,2\n"))
    assert counts(tmp_path / "t.csv.gz", ["v"]) == true_counts(["x", "x"], [0])


def test_files_of_a_folder_with_other_types_and_names(tmp_path):
    edges = Domain({"n": {"bins": [0, 1.2, 1.7, 9]}})
    folder = tmp_path / "t"
    for place in ("_temporary/0", "_delta_log", "k=1"):
        (folder / place).mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), folder / "a.parquet")
    pq.write_table(pa.table({"n": [1.5, 2.5]}), folder / "k=1" / "b.PARQUET")
    pq.write_table(pa.table({"n": [5]}), folder / "_temporary" / "0" / "c.parquet")
    pq.write_table(pa.table({"add": [5]}), folder / "_delta_log" / "d.parquet")
    assert Dataset.read(folder, edges).marginals([("n",)])[0].tolist() == [1, 1, 2]
    pq.write_table(pa.table({"N": [1.5, 2.5]}), folder / "e.parquet")
    with pytest.raises(ValueError, match="'n'"):
        Dataset.read(folder, edges)
