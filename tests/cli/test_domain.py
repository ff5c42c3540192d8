"""`pgmjax domain`: drafts hold no value of the table; checks count and log what has no place."""

import csv
import datetime
import decimal
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import pgmjax as pj
from pgmjax.cli import domain as domain_command
from pgmjax.cli import main
from pgmjax.data import entry
from pgmjax.discovery import Draft


@pytest.fixture
def table(tmp_path):
    lines = [
        "age,price,job,who",
        '17,"1,5",cook,Zaphod',
        '33,"2,0",chef,Zaphod',
        "x,9.5,,Trillian",
        "412,,judge,Ford",
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_a_draft_holds_names_and_no_values(table, capsys):
    out = table / "d.yaml"
    assert main(["domain", "draft", str(table / "t.csv"), "--out", str(out), "--unit", "who"]) == 0
    text = out.read_text(encoding="utf-8")
    assert Draft.read(out).open == {"age": "any", "price": "any", "job": "any"}
    assert not any(value in text for value in ("Zaphod", "judge", "412", "17"))
    capsys.readouterr()
    assert main(["domain", "draft", str(table / "t.csv"), "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["domain", "draft", str(table / "t.csv")]) == 0
    assert "\nage: discover\n" in capsys.readouterr().out


def test_a_draft_of_parquet_knows_its_types(tmp_path, capsys):
    frame = pa.table({"n": [1.5], "on": [True], "day": [datetime.date(2020, 1, 1)], "s": ["secret"]})
    pq.write_table(frame, tmp_path / "t.parquet")
    assert main(["domain", "draft", str(tmp_path / "t.parquet"), "--out", str(tmp_path / "d.json")]) == 0
    draft = Draft.read(tmp_path / "d.json")
    assert draft.open == {"n": "bins", "day": "dates", "s": "any"} and draft.closed["on"].labels == (
        False,
        True,
    )
    with pytest.warns(UserWarning, match="only if the table is public"):
        assert main(["domain", "draft", str(tmp_path / "t.parquet"), "--public"]) == 0
    assert "secret" in capsys.readouterr().out


def test_a_check_counts_what_has_no_place(table, capsys):
    domain = pj.Domain(
        {
            "age": {"min": 0, "max": 120},
            "price": {"bins": [0, 10], "decimal": ","},
            "job": {"labels": ["cook"]},
        }
    )
    domain.write(table / "d.json")
    asked = [
        "domain",
        "check",
        str(table / "t.csv"),
        str(table / "d.json"),
        "--holder-log",
        str(table / "bad.csv"),
    ]
    assert main(asked) == 1
    said = capsys.readouterr().out
    assert "age: 1 no number, 1 without a cell" in said and "price: 1 no number, 1 missing" in said
    assert "job: 2 not among the labels, 1 missing" in said and "not in the domain: who" in said
    assert "412" not in said and "judge" not in said
    rows = list(csv.reader((table / "bad.csv").open(encoding="utf-8")))
    assert ["age", "412", "outside", "1"] in rows and ["price", "9.5", "unreadable", "1"] in rows
    assert ["job", "judge", "outside", "1"] in rows and (table / "bad.csv").stat().st_mode & 0o777 == 0o600
    assert main(asked) == 2 and "exists" in capsys.readouterr().err


def test_a_table_that_fits(table, capsys):
    pj.Domain({"who": {"labels": ["Zaphod"], "other": True}}).write(table / "d.json")
    assert main(["domain", "check", str(table / "t.csv"), str(table / "d.json")]) == 0
    said = capsys.readouterr().out
    assert "All rows fit the domain" in said and "count as other" not in said


def test_a_check_says_that_no_value_is_a_label(tmp_path, capsys):
    (tmp_path / "d.json").write_text('{"n": {"labels": ["one", "two"], "other": true, "missing": true}}')
    table = pa.table({"n": [1, 2, None]})
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.json")]) == 0
    assert "n: all 2 rows with a value count as other: none is a label" in capsys.readouterr().out
    pq.write_table(table, tmp_path / "t.parquet")
    assert main(["domain", "check", str(tmp_path / "t.parquet"), str(tmp_path / "d.json")]) == 1
    assert "int64" in (capsys.readouterr().out)


SPREADSHEET = {  # what a spreadsheet made of values: what is said of it
    "joined": (
        {"from": "2024-01-01", "to": "2024-12-31", "step": "month"},
        ["45333", "45360"],
        "counts days",
    ),
    "size": ({"labels": ["1-4", "5-9"]}, ["1-4", "05-Sep"], "dates that a spreadsheet made of ranges"),
    "town": (
        {"labels": ["Z\u00fcrich"]},
        ["Z\u00fcrich", "Z\u00c3\u00bcrich"],
        "read as UTF-8, some are labels",
    ),
    "dept": ({"labels": ["01", "02"]}, ["1", "2"], "without zeros before them"),
}


@pytest.mark.parametrize("name", SPREADSHEET)
def test_what_a_spreadsheet_did_is_told(name, tmp_path, capsys):
    entry, values, said = SPREADSHEET[name]
    pj.Domain({name: entry}).write(tmp_path / "d.json")
    (tmp_path / "t.csv").write_text("\n".join([name, *values]) + "\n", encoding="utf-8")
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.json")]) == 1
    assert said in capsys.readouterr().out


def test_a_line_of_units_is_told(tmp_path, capsys):
    pj.Domain({"age": {"bins": [0, 50, 100]}, "region": 3}).write(tmp_path / "d.json")
    (tmp_path / "t.csv").write_text("age,region\nyears,code\n3,1\n4,2\n", encoding="utf-8")
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.json")]) == 1
    assert "a row in each of age, region: is a line of units" in capsys.readouterr().out


def test_dates_in_two_forms_are_told_from_dates_in_one_other(tmp_path, capsys):
    domain = {"on": {"from": "2019-01-01", "to": "2023-12-31", "step": "year", "missing": True}}
    pj.Domain(domain).write(tmp_path / "d.json")
    for rows, two in ((["01.02.2020", "2020-02-01"], True), (["01.02.2020", ""], False)):
        lines = ["on,k", *(f"{row},1" for row in rows)]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.json")]) == 1
        said = capsys.readouterr().out
        assert "on: 1 no date" in said and ("an entry has one form" in said) is two


def test_a_drafted_file_has_a_line_for_each_column(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    out = tmp_path / "d.yaml"
    assert main(["domain", "draft", str(tmp_path / "t.csv"), "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8").endswith("\na: discover\nb: discover\n")
    assert f"pgmjax domain check {tmp_path / 't.csv'} {out}" in capsys.readouterr().out


def test_a_draft_without_a_header_shows_no_value(tmp_path, capsys):
    path, out = tmp_path / "t.csv", tmp_path / "d.yaml"
    path.write_text("71,Zyxw\n72,Abcd\n")
    with pytest.warns(UserWarning, match="are numbers or dates: if it is a record, give --no-header"):
        assert main(["domain", "draft", str(path)]) == 0
    assert main(["domain", "draft", str(path), "--no-header", "--out", str(out)]) == 0
    assert Draft.read(out).open == {"column1": "any", "column2": "any"}
    assert f"domain check {path} {out} --no-header" in capsys.readouterr().out
    path.write_text("age sex\n71 F\n")
    with pytest.warns(
        UserWarning, match="one column, named 'age sex': if spaces stand between columns, save"
    ):
        assert main(["domain", "draft", str(path)]) == 0


def test_what_cannot_be_drafted(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,,a\n1,2,3\n", encoding="utf-8")
    (tmp_path / "t.ods").write_bytes(b"PK")
    for name, words in (
        ("none.csv", "none.csv"),
        ("t.csv", "without a name"),
        ("t.ods", "save the sheet as CSV"),
    ):
        assert main(["domain", "draft", str(tmp_path / name)]) == 2
        assert words in capsys.readouterr().err


def test_a_raw_table_is_released_in_one_command(tmp_path, capsys):
    rows = [f"{k % 60 + 18},{'ab'[k % 2]},p{k // 2}" for k in range(1200)]
    (tmp_path / "t.csv").write_text("age,sex,who\n" + "\n".join(rows) + "\n", encoding="utf-8")
    given = ["--unit", "who", "--max-records", "2", "--discover", "0.3", "--all-kway", "1", "--steps", "60"]
    asked = [
        "release",
        str(tmp_path / "t.csv"),
        *given,
        "--epsilon",
        "20",
        "--delta",
        "1e-6",
        "--relation",
        "add-remove",
    ]
    assert main([*asked, "--out", str(tmp_path / "out"), "--synthetic", "csv"]) == 0
    assert "protecting one who, of at most 2 records" in capsys.readouterr().out
    synthetic = list(csv.DictReader((tmp_path / "out" / "synthetic.csv").open(encoding="utf-8")))
    assert {row["sex"] for row in synthetic} >= {"a", "b"} and [*synthetic[0]] == ["age", "sex"]
    assert all(int(row["age"]) >= 0 for row in synthetic)
    assert pj.Domain.read(tmp_path / "out" / "domain.json")["sex"] >= 2
    assert main([*asked[:-4], "--relation", "add-remove", "--delta", "0", "--out", str(tmp_path / "o2")]) == 2
    assert "--delta" in capsys.readouterr().err and not (tmp_path / "o2").exists()


UNTIDY = {
    "age": (["17", "NA", "412", "33"], {"min": 0, "max": 120}),
    "height": (["1.5", "2", "3", "17"], {"min": 0, "max": 17}),
    "income": (["1.234,50", "2,0", "-7", "1.500"], {"bins": [-100, 0, 1000, 5000]}),
    "price": (["1.5", "2.25", "9", "0"], {"bins": [0, 10], "decimal": ","}),
    "born": (["31.12.1999", "01.02.2000", "", "13.05.2001"], {"from": "1990-01-01", "to": "2020-12-31"}),
    "seen": (
        ["2001-02-03", "2001-02-04", "NULL", "2002-01-01"],
        {"dates": ["2001-01-01", "2003-01-01"], "format": "%d.%m.%Y"},
    ),
    "sex": (["f", "F", "M", "?"], {"labels": ["F", "M"]}),
    "grade": (["01", "2", "02", "1.0"], {"labels": ["1", "2"]}),
    "mixed": (["NO", "true", "True", "no"], {"labels": ["NO", True]}),
    "town": (
        ["L\u2019Île", "Orleans", "Brest", "Lyon"],
        {"labels": ["L'Ile", "Orléans", "Brest"]},
    ),
    "region": (["0", "3", "2", "1"], 3),
    "fine": (["a", "b", "", "c"], {"labels": ["a"], "missing": True, "other": True}),
}
TOLD = {
    "age": ("1 no number, 1 without a cell", '`missing: ["NA"]`', "`clip: true`"),
    "height": ("1 without a cell", "some are no whole numbers"),
    "income": ("2 no number", '`decimal: ",", thousands: "."` reads all of them'),
    "price": ("2 no number", "no `decimal` and no `thousands`, for numbers such as 1.5, reads all of them"),
    "born": ("3 no date, 1 missing", '`format: "%d.%m.%Y"` reads all of them', "`missing: true`"),
    "seen": ("4 no date", '`missing: ["NULL"]`', "no `format`, for ISO dates, reads all of them"),
    "sex": (
        *("2 not among the labels", "differ from a label only in capitals"),
        *('`missing: ["?"]`', "`other: true`"),
    ),
    "grade": (
        "2 not among the labels",
        "`labels: [1, 2, ...]`",
        "`other: true`",
    ),
    "mixed": (
        "1 not among the labels",
        "only in capitals",
        "the labels mix text with numbers or true and false",
        "`other: true`",
    ),
    "town": (
        "3 not among the labels",
        "accents, dashes or quotes, of \"L'Ile\", 'Orléans': write",
        "`other: true`",
    ),
    "region": ("1 without a cell", "a larger size"),
}
MENDED = {
    "age": {"min": 0, "max": 120, "missing": ["NA"], "clip": True},
    "height": {"bins": [0, 17]},
    "income": {"bins": [-100, 0, 1000, 5000], "decimal": ",", "thousands": "."},
    "price": {"bins": [0, 10]},
    "born": {"from": "1990-01-01", "to": "2020-12-31", "format": "%d.%m.%Y", "missing": True},
    "seen": {"dates": ["2001-01-01", "2003-01-01"], "missing": ["NULL"]},
    "sex": {"labels": {"F": ["f"], "M": []}, "missing": ["?"]},
    "grade": {"labels": [1, 2]},
    "mixed": {"labels": {"NO": ["no"], "true": ["True"]}},
    "town": {"labels": {"L'Ile": ["L\u2019Île"], "Orléans": ["Orleans"], "Brest": [], "Lyon": []}},
    "region": 4,
    "fine": UNTIDY["fine"][1],
}


def untidy(path, **how):
    rows = zip(*(values for values, _ in UNTIDY.values()), strict=True)
    with path.open("w", newline="", **how) as file:
        csv.writer(file).writerows([UNTIDY, *rows])
    return str(path)


def test_remedies_are_told_and_work(tmp_path, capsys):
    table = untidy(tmp_path / "t.csv", encoding="utf-8")
    pj.Domain({name: spec for name, (_, spec) in UNTIDY.items()}).write(tmp_path / "d.json")
    assert main(["domain", "check", table, str(tmp_path / "d.json")]) == 1
    said = capsys.readouterr()
    assert "11 of 12 columns have rows that do not fit the domain" in said.err
    parts, name = {}, ""
    for line in said.out.splitlines()[1:]:
        name = line[2:].split(":")[0] if not line.startswith("    ") else name
        parts.setdefault(name, []).append(line)
    assert [*parts] == [*TOLD]
    for name, (counts, *remedies) in TOLD.items():
        assert parts[name][0] == f"  {name}: {counts}"
        assert len(parts[name]) == 1 + len(remedies)
        assert all(told in line for told, line in zip(remedies, parts[name][1:], strict=True)), parts[name]
    assert "412" not in said.out and "1.234" not in said.out
    pj.Domain(MENDED).write(tmp_path / "m.json")
    assert main(["domain", "check", table, str(tmp_path / "m.json")]) == 0


def test_ambiguous_forms_are_both_told(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(
        'n,d,u\n"1,500",01/02/2000,12 %\n"2,250",03/04/2000,x\n', encoding="utf-8"
    )
    spec = {"n": {"bins": [0, 9999]}, "d": {"from": "1990-01-01", "to": "2020-12-31"}, "u": {"bins": [0, 1]}}
    pj.Domain(spec).write(tmp_path / "d.json")
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.json")]) == 1
    said = capsys.readouterr().out
    assert '`decimal: ","` or `thousands: ","` reads all of them' in said
    assert '`format: "%d/%m/%Y"` or `format: "%m/%d/%Y"` reads all of them' in said
    assert "the remaining texts are in no known form of numbers" in said
    lines = ["n", *(f"{k}.5" for k in range(1200))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pj.Domain({"n": {"bins": [0, 9999], "decimal": ","}}).write(tmp_path / "e.json")
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "e.json")]) == 1
    assert "such as 1.5, reads all of them (of the 1,000 most frequent)" in capsys.readouterr().out


def test_columns_that_the_table_or_the_domain_lacks(table, capsys):
    text = "who: discover\nage: {labels: ['17', '33', x, '412']}\ngone: 3\n"
    (table / "d.yaml").write_text(text, encoding="utf-8")
    assert main(["domain", "check", str(table / "t.csv"), str(table / "d.yaml")]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[1:] == [
        "  not in the table: gone",
        "  not in the domain: price, job",
        "  not checked, because they are to be discovered: who",
    ]
    assert "1 column of the domain is not in the table" in said.err
    (table / "d.yaml").write_text("who: discover\n", encoding="utf-8")
    assert main(["domain", "check", str(table / "t.csv"), str(table / "d.yaml")]) == 1
    assert "nothing was checked" in capsys.readouterr().err


def test_columns_of_types_that_an_entry_does_not_take(tmp_path, capsys):
    frame = pa.table(
        {
            "day": [datetime.date(2020, 1, 1)] * 3,
            "real": [0.5, 1.0, 2.0],
            "price": [decimal.Decimal("1.5"), decimal.Decimal("12.25"), None],
            "on": [True, False, None],
        }
    )
    pq.write_table(frame, tmp_path / "t.parquet")
    pj.Domain({"day": 3, "real": 3, "price": {"bins": [0, 10]}, "on": {"labels": [True]}}).write(
        tmp_path / "d.json"
    )
    asked = ["domain", "check", str(tmp_path / "t.parquet"), str(tmp_path / "d.json")]
    assert main([*asked, "--holder-log", str(tmp_path / "bad.csv")]) == 1
    said = capsys.readouterr().out
    assert "date32[day]" in said
    assert "real: 1 without a cell" in said
    assert "price: 1 without a cell, 1 missing" in said and "on: 1 not among the labels, 1 missing" in said
    rows = list(csv.reader((tmp_path / "bad.csv").open(encoding="utf-8")))[1:]
    assert sorted(rows) == [
        ["on", "", "missing", "1"],
        ["on", "false", "outside", "1"],
        ["price", "", "missing", "1"],
        ["price", "12.25", "outside", "1"],
        ["real", "0.5", "outside", "1"],
    ]


def test_a_log_lists_so_many_values(table, capsys, monkeypatch):
    monkeypatch.setattr(domain_command, "_MOST_TEXTS", 2)
    pj.Domain({"who": {"labels": ["nobody"]}, "age": {"bins": [0, 1]}}).write(table / "d.json")
    asked = [
        "domain",
        "check",
        str(table / "t.csv"),
        str(table / "d.json"),
        "--holder-log",
        str(table / "b.csv"),
    ]
    assert main(asked) == 1
    rows = list(csv.reader((table / "b.csv").open(encoding="utf-8")))[1:]
    assert [row for row in rows if row[0] == "who"] == [
        ["who", "Zaphod", "outside", "2"],
        ["who", "Trillian", "outside", "1"],
        ["who", "", "further values, which are not listed", "1"],
    ]
    assert sum(int(row[3]) for row in rows if row[0] == "age") == 4


def test_tables_without_names_and_of_codes(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("17,a\n200,b\n", encoding="utf-8")
    (tmp_path / "d.yaml").write_text("age: {min: 0, max: 120}\nword: discover\n", encoding="utf-8")
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.yaml"), "--no-header"]) == 1
    assert "age: 1 without a cell" in capsys.readouterr().out
    np.save(tmp_path / "t.npy", np.array([[0, 1], [5, 0], [2, 7]]))
    pj.Domain({"a": 5, "b": 8}).write(tmp_path / "c.json")
    assert main(["domain", "check", str(tmp_path / "t.npy"), str(tmp_path / "c.json")]) == 1
    assert "  a: 1 without a cell" in capsys.readouterr().out
    pj.Domain({"a": 6, "b": 8}).write(tmp_path / "e.json")
    assert main(["domain", "check", str(tmp_path / "t.npy"), str(tmp_path / "e.json")]) == 0
    (tmp_path / "i.csv").write_text(",age\n0,17\n1,20\n", encoding="utf-8")  # with an index without a name
    pj.Domain({"age": {"min": 0, "max": 120}}).write(tmp_path / "a.json")
    assert main(["domain", "check", str(tmp_path / "i.csv"), str(tmp_path / "a.json")]) == 0
    (tmp_path / "l.csv").write_bytes("größe\n1\n".encode("cp1252"))
    pj.Domain({"größe": 2}).write(tmp_path / "l.json")
    asked = ["domain", "check", str(tmp_path / "l.csv"), str(tmp_path / "l.json")]
    assert main([*asked, "--encoding", "cp1252"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["draft", "t.npy"], "does not name its columns"),
        (["draft", "t.csv", "--unit", "whom"], "--unit names the column 'whom'"),
        (["draft", "one.csv", "--unit", "who"], "has no column besides the unit's"),
        (["draft", "t.csv", "--out", "none/d.yaml"], "folder"),
        (["draft", "t.csv", "--out", "d.txt"], "'.txt'"),
        (["draft", "t.csv", "--public", "--max-labels", "0"], "--max-labels"),
        (["draft", "t.csv", "--max-labels", "5"], "--max-labels is for --public"),
        (["check", "none.csv", "d.json"], "none.csv"),
        (["check", "t.csv", "none.json"], "none.json"),
        (["check", "t.csv", "bad.json"], "bad.json"),
        (["check", "t.npy", "d.json"], "3 columns"),
        (["check", "t.csv", "d.json", "--holder-log", "t.csv"], "t.csv"),
        (["check", "t.csv", "d.json", "--encoding", "klingon"], "--encoding"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.filterwarnings("ignore:--public")
def test_bad_input(words, message, table, capsys, monkeypatch):
    monkeypatch.chdir(table)
    np.save("t.npy", np.zeros((2, 3), int))
    (table / "one.csv").write_text("who\nFord\n", encoding="utf-8")
    (table / "bad.json").write_text("{", encoding="utf-8")
    pj.Domain({"age": 3, "who": 2}).write("d.json")
    before = {path.name: path.read_bytes() for path in table.iterdir()}
    assert main(["domain", *words]) == 2
    assert message in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in table.iterdir()} == before


@pytest.mark.filterwarnings("ignore:--public")
@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_domain_of_a_public_table_fits_it(tmp_path, kind, capsys):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    rows = 400
    frame = pandas.DataFrame(
        {
            "whole": rng.integers(-50000, 10**6, rows),
            "few": rng.integers(0, 3, rows),
            "real": rng.normal(size=rows) / 1000,
            "marked": np.where(rng.random(rows) < 0.1, "?", rng.integers(0, 9, rows).astype(str)),
            "zip": [f"{number:05d}" for number in rng.integers(0, 10**5, rows)],
            "day": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, rows), unit="D"),
            "on": rng.random(rows) < 0.3,
            "huge": ["1e999"] * rows,
            "empty": [None] * rows,
            "german": [f"{number:.3f}".replace(".", ",") for number in rng.normal(size=rows)],
            "thousands": [f"{number:,}" for number in rng.integers(0, 10**7, rows)],
            "either": [f"{number // 1000},{number % 1000:03d}" for number in rng.integers(1000, 9999, rows)],
            "born": [f"{day:02d}/{1 + day % 12:02d}/1990" for day in rng.integers(1, 29, rows)],
            "early": [f"{day:02d}/{month:02d}/1990" for day, month in rng.integers(1, 13, (rows, 2))],
        }
    )
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep={"csv": ",", "tsv": "\t"}[kind])
    out = str(tmp_path / "d.yaml")
    assert main(["domain", "draft", str(path), "--public", "--out", out, "--max-labels", "30"]) == 0
    draft = Draft.read(out)
    assert not draft.open and {*draft.closed} == {*frame} - {"empty"}
    assert "left out: empty" in capsys.readouterr().err
    assert all(a.size <= 32 for name, a in draft.closed.items() if name != "born")
    assert draft.closed["whole"].to_spec() == {"min": -50000, "max": 999999, "step": 50000}
    assert draft.closed["few"].labels == (0, 1, 2) and draft.closed["zip"].other
    german, thousands = (draft.closed[name].to_spec() for name in ("german", "thousands"))
    assert german["decimal"] == "," and german["bins"][0] < 0 and thousands["thousands"] == ","
    assert draft.closed["born"].to_spec()["format"] == "%d/%m/%Y" and draft.closed["early"].labels
    assert draft.closed["either"].labels is not None  # may be thousands
    assert draft.closed["marked"].missing_markers == ("?",) and draft.closed["day"].time == "day"
    assert main(["domain", "check", str(path), out]) == 0


def test_the_schema_is_printed(capsys):
    assert main(["domain", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == entry.json_schema()


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """A table of persons with several weighted visits, and a domain of its one attribute."""
    monkeypatch.chdir(tmp_path)
    rows = ["who,sex,times", "p,F,1", "p,F,2", "p,M,3", "q,M,9", "r,F,x", ",F,0", ",M,0", ",M,0"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "d.yaml").write_text("sex: [F, M]\n", encoding="utf-8")
    return ["t.csv", "d.yaml", "--unit", "who", "--max-records", "2", "--weights", "times", "--max-weight"]


def test_a_check_knows_the_unit_and_the_weights(visits, capsys):
    """Records without a value in the column of the unit are units of their own."""
    assert main(["domain", "check", *visits, "5"]) == 1
    said = capsys.readouterr().out
    assert (
        "who, the unit: 1 of 3 have more than 2 records; what they have beyond that, 1 of 5 records, is left"
        in said
    )
    assert "times: 1 no number, 1 without a cell" in said or "times: 1 without a cell, 1 no number" in said
    assert "not in the domain" not in said
    table = (pathlib.Path("t.csv")).read_text(encoding="utf-8").replace(",x", ",4")
    pathlib.Path("t.csv").write_text(table, encoding="utf-8")
    assert main(["domain", "check", *visits, "9"]) == 0


def test_a_draft_leaves_out_the_unit_and_the_weights(visits, capsys):
    assert main(["domain", "draft", "t.csv", "--out", "new.yaml", *visits[2:], "9"]) == 0
    assert Draft.read("new.yaml").open == {"sex": "any"}
    options = "--unit who --max-records 2 --weights times --max-weight 9"
    assert f"pgmjax domain check t.csv new.yaml {options}" in capsys.readouterr().out
    pathlib.Path("a b.csv").write_text("sexe,le sujet\nF,1\n", encoding="utf-8")
    assert main(["domain", "draft", "a b.csv", "--out", "b.yaml", "--unit", "le sujet"]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.endswith("pgmjax domain check 'a b.csv' b.yaml --unit 'le sujet' --max-records K")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["draft", "t.csv", "--weights", "time"],
            "--weights names the column 'time', which t.csv does not have",
        ),
        (["draft", "t.csv", "--unit", "whom"], "(did you mean who?)"),
        (["check", "t.csv", "d.yaml", "--unit", "who"], "Give --unit COLUMN and --max-records K together"),
        (
            ["check", "t.csv", "d.yaml", "--weights", "times"],
            "Give --weights NAME and --max-weight N together",
        ),
        (["check", "t.csv", "d.yaml", "--unit", "sex", "--max-records", "2"], "'sex'"),
        (["check", "t.csv", "d.yaml", "--weights", "sex", "--max-weight", "2"], "and none of the domain"),
        (["check", "t.csv", "d.yaml", "--weights", "times", "--max-weight", "0"], "--max-weight"),
        (["check", "t.csv", "d.yaml", "--unit", "whom", "--max-records", "2"], "no column named 'whom'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_units_and_weights(words, message, visits, capsys):
    assert main(["domain", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_column_that_is_misspelt_is_named(visits, capsys):
    pathlib.Path("d.yaml").write_text("sx: [F, M]\n", encoding="utf-8")
    assert main(["domain", "check", "t.csv", "d.yaml"]) == 1
    assert "not in the table: sx (did you mean sex?)" in capsys.readouterr().out


def test_clipped_rows_are_told(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("cost\n-5\n50\n1000\n2000\n")
    (tmp_path / "d.yaml").write_text("cost: {bins: [0, 100, 1000], clip: true}\n")
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.yaml")]) == 0
    assert "cost: 2 rows beyond the ends count in the end cells" in capsys.readouterr().out


def test_dates_of_a_domain_file_begin_with_the_year(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("day\n03/02/2023\n")
    (tmp_path / "d.yaml").write_text(
        'day: {from: 01/02/2023, to: 31/12/2023, step: month, format: "%d/%m/%Y"}\n'
    )
    assert main(["domain", "check", str(tmp_path / "t.csv"), str(tmp_path / "d.yaml")]) == 2
    assert "write dates year first" in (said := capsys.readouterr().err) and "from: 2023-02-01, if" in said
