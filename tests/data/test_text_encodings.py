"""Text files in other encodings, and Excel files: the same codes as from UTF-8, and what is refused."""

import datetime
import gzip
import pickle
import sys
import tempfile

import numpy as np
import pytest

from pgmjax.data import files
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Unit

TEXT = "größe;prénom;n\r\nklein;Zoë;1\r\ngroß;Zoë;2\r\ngroß;Œuvre €;3\r\n"
DOMAIN = Domain({"größe": {"labels": ["klein", "groß"]}, "prénom": {"labels": ["Zoë", "Œuvre €"]}, "n": 4})
TABLE = [[1, 0], [1, 1]]  # of größe and prénom


def counts(path, domain=DOMAIN, clique=("größe", "prénom"), **options):
    return Dataset.read(path, domain, **options).marginals([clique])[0].tolist()


@pytest.mark.parametrize(
    ("encoding", "given"),
    [
        ("utf-8", "UTF8"),
        ("utf-8-sig", None),
        ("cp1252", "cp1252"),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-16-be", "utf-16-be"),
        ("cp1140", "cp1140"),  # EBCDIC: not even its delimiters are those of ASCII
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_codes_whatever_the_encoding(tmp_path, encoding, given, packed):
    text = TEXT.replace("Œuvre", "Auvre") if encoding == "cp1140" else TEXT
    domain = Domain({**DOMAIN.to_dict(), "prénom": {"labels": ["Zoë", text.split(";")[-2]]}})
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(text.encode(encoding)) if packed else text.encode(encoding))
    assert counts(path, domain, encoding=given) == TABLE
    assert files.column_names(path, given) == ["größe", "prénom", "n"]
    data = Dataset.read(path, domain, encoding=given, weights=None, unit=None)
    assert counts(path, Domain({"n": 4}), ("n",), encoding=given) == [0, 1, 1, 1]
    assert pickle.loads(pickle.dumps(data)).count() == 3


def test_a_unit_is_found_in_another_encoding(tmp_path):
    (tmp_path / "t.csv").write_bytes(TEXT.encode("cp1252"))
    data = Dataset.read(
        tmp_path / "t.csv", Domain({"n": 4}), encoding="cp1252", unit=Unit("prénom", 1)
    ).chosen_by(b"0" * 16)
    assert data.count() == 2


@pytest.mark.parametrize(
    ("raw", "looks"),
    [("é".encode("cp1252"), "cp1252"), (b"\x81", "latin-1")],
)
@pytest.mark.parametrize("head", [b"x,y\n", b"x,y\xe9\n"])
def test_what_is_not_utf8_is_said_with_what_it_looks_like(tmp_path, raw, looks, head):
    (tmp_path / "t.csv").write_bytes(head + b"ZZtop,1\n" * 5 + raw + b",1\n")
    with pytest.raises(ValueError, match=f"bytes that are not UTF-8. It looks like {looks}: give") as caught:
        Dataset.read(tmp_path / "t.csv", Domain({"x": {"labels": ["a"], "other": True}})).validate()
    assert "line 7" in str(caught.value) or "line 1:" in str(caught.value)
    assert "ZZ" not in str(caught.value) and caught.value.__context__ is None


def test_utf16_without_a_mark_is_said_too(tmp_path):
    (tmp_path / "t.csv").write_bytes("x,y\na,1\n".encode("utf-16-le"))
    with pytest.raises(
        ValueError, match=r"line 1: it holds bytes that are not UTF-8\. It looks like utf-16: give"
    ):
        Dataset.read(tmp_path / "t.csv", Domain({"x": {"labels": ["a"]}}))


def test_bytes_that_the_encoding_has_not_are_refused_without_them(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"x\nab\n\x81\n")
    data = Dataset.read(tmp_path / "t.csv", Domain({"x": {"labels": ["ab"]}}), encoding="cp1252")
    with pytest.raises(ValueError, match="holds bytes that are not cp1252 text") as caught:
        data.validate()
    assert caught.value.__context__ is None


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "base64", "", "../x"])
def test_no_such_encoding(tmp_path, encoding):
    (tmp_path / "t.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match="encoding must be that of a text file, such as utf-8, cp1252"):
        Dataset.read(tmp_path / "t.csv", Domain({"x": 2}), encoding=encoding)


def test_an_encoding_is_that_of_text(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((3, 1), int))
    with pytest.raises(ValueError, match=r"t\.npy is none: leave it out"):
        Dataset.read(tmp_path / "t.npy", Domain({"x": 2}), encoding="cp1252")
    with pytest.raises(TypeError, match="name of an encoding, got int"):
        Dataset.read(tmp_path / "t.npy", Domain({"x": 2}), encoding=3)


def test_no_copy_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "t.csv").write_bytes(TEXT.encode("cp1252"))
    assert counts(tmp_path / "t.csv", encoding="cp1252") == TABLE
    (tmp_path / "t.csv").write_bytes(b"n\nx\n\x81\n")
    with pytest.raises(ValueError, match="not cp1252"):
        counts(tmp_path / "t.csv", Domain({"n": 4}), ("n",), encoding="cp1252")
    assert not list((tmp_path / "tmp").iterdir())


SHEET = [
    ["day", "sex", "n", "price", "when", "ok"],
    [datetime.datetime(2024, 2, 29), "F", 1, 9.99, datetime.datetime(2024, 2, 29, 13, 30), True],
    [None, " M ", 2.0, 1000000.5, datetime.datetime(2024, 3, 1), False],
    [datetime.datetime(2024, 3, 1), 'a,"b"c', 3, 0, datetime.datetime(2024, 2, 29, 23, 59), None],
]
OF_SHEET = Domain(
    {
        "day": {"from": "2024-02-29", "to": "2024-03-01", "missing": True},
        "sex": {"labels": ["F", "M", 'a,"b"c']},
        "n": 4,
        "price": {"bins": [0, 5, 10, 1e7]},
        "when": {"from": "2024-02-29T00:00", "to": "2024-03-01T23:59:59", "step": "12 hours"},
        "ok": {"labels": [True, False], "missing": True},
    }
)


def test_the_first_sheet_of_an_excel_file_is_read(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in SHEET:
        book.active.append(row)
    book.active.cell(9, 6).number_format = "0.00"  # below the table: formatted, and no record
    book.create_sheet("second").append(["nothing"])
    book.save(tmp_path / "t.xlsx")
    assert files.column_names(tmp_path / "t.xlsx") == SHEET[0]
    data = Dataset.read(tmp_path / "t.xlsx", OF_SHEET)
    rows = np.argwhere(data.marginals([tuple(OF_SHEET)])[0]).tolist()
    assert sorted(rows) == sorted([[0, 0, 1, 1, 1, 0], [2, 1, 2, 2, 2, 1], [1, 2, 3, 0, 1, 2]])
    unit = Dataset.read(tmp_path / "t.xlsx", OF_SHEET.project(("n",)), unit=Unit("when", 1))
    assert unit.chosen_by(b"0" * 16).count() == 3
    (tmp_path / "bad.xlsx").write_bytes(b"PK\x03\x04 no such book")
    with pytest.raises(ValueError, match="cannot be read as an Excel file: save the sheet as CSV"):
        Dataset.read(tmp_path / "bad.xlsx", OF_SHEET)


def test_without_openpyxl_the_remedy_is_said(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"'pgmjax\[excel\]'"):
        Dataset.read(tmp_path / "t.xlsx", OF_SHEET)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "cp1140", "shift_jis", "iso2022_jp", "utf-7"])
def test_no_record_becomes_part_of_the_names(tmp_path, encoding):
    """Otherwise the encoding would let one ask, by names in a domain, how the first record begins."""
    names = []
    for records in (b"", b"AB,1\n", b"AC,1\n"):
        (tmp_path / "t.csv").write_bytes(b"x,y\n" + records)
        names.append(files.column_names(tmp_path / "t.csv", encoding))
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize("encoding", ["idna", "punycode"])
def test_an_encoding_that_cannot_read_the_first_line_is_named_without_its_bytes(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes(TEXT.encode("cp1252"))
    with pytest.raises(ValueError, match=f"no {encoding} text") as refused:
        counts(tmp_path / "t.csv", encoding=encoding)
    assert type(refused.value) is ValueError and refused.value.__context__ is None
