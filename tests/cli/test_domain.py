"""`pgmjax domain`: drafts hold no value of the table; checks count and log what has no place."""

import csv
import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pgmjax as pj
from pgmjax.cli import main
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
    assert "exists already" in capsys.readouterr().err
    assert main(["domain", "draft", str(table / "t.csv")]) == 0
    assert '"age": "discover"' in capsys.readouterr().out


def test_a_draft_of_parquet_knows_its_types(tmp_path, capsys):
    frame = pa.table({"n": [1.5], "on": [True], "day": [datetime.date(2020, 1, 1)], "s": ["secret"]})
    pq.write_table(frame, tmp_path / "t.parquet")
    assert main(["domain", "draft", str(tmp_path / "t.parquet"), "--out", str(tmp_path / "d.json")]) == 0
    draft = Draft.read(tmp_path / "d.json")
    assert draft.open == {"n": "bins", "day": "dates", "s": "any"} and draft.closed["on"].labels == (
        False,
        True,
    )
    with pytest.warns(UserWarning, match="only where that table is public"):
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
    assert "age: 1 no number, 1 out of range" in said and "price: 1 no number, 1 missing" in said
    assert "job: 2 no label, 1 missing" in said and "not in the domain: who" in said
    assert "412" not in said and "judge" not in said
    rows = list(csv.reader((table / "bad.csv").open(encoding="utf-8")))
    assert ["age", "412", "outside", "1"] in rows and ["price", "9.5", "unreadable", "1"] in rows
    assert ["job", "judge", "outside", "1"] in rows and (table / "bad.csv").stat().st_mode & 0o777 == 0o600
    assert main(asked) == 2 and "exists already" in capsys.readouterr().err


def test_a_table_that_fits(table, capsys):
    pj.Domain({"who": {"labels": ["Zaphod"], "other": True}}).write(table / "d.json")
    assert main(["domain", "check", str(table / "t.csv"), str(table / "d.json")]) == 0
    assert "All rows have a place" in capsys.readouterr().out


def test_what_cannot_be_drafted(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,,a\n1,2,3\n", encoding="utf-8")
    (tmp_path / "t.ods").write_bytes(b"PK")
    for name, words in (
        ("none.csv", "There is no table"),
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
    assert main([*asked[:-2], "--relation", "add-remove", "--delta", "0", "--out", str(tmp_path / "o2")]) == 2
    assert "cannot be found without a delta" in capsys.readouterr().err and not (tmp_path / "o2").exists()
