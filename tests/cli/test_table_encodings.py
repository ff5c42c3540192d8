"""Commands on text that is not UTF-8: what they are told, and what those who only ask cannot choose."""

import json

import pytest

from pgmjax.cli import main
from pgmjax.data.definition import TableDefinition
from pgmjax.data.domain import Domain

ASK = ["--epsilon", "1", "--relation", "replace-one", "--quiet"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table in cp1252 whose header is ASCII, and its domain."""
    monkeypatch.chdir(tmp_path)
    rows = ["Genève", "Zürich", "Chur"] * 20
    (tmp_path / "t.csv").write_bytes(("town\n" + "\n".join(rows) + "\n").encode("cp1252"))
    Domain({"town": {"labels": ["Genève", "Zürich", "Chur"]}}).write("d.yaml")
    return tmp_path


def release(*more, out="out"):
    fixed = ["--domain", "d.yaml", "--all-kway", "1", *ASK, "--steps", "30", "--rows", "4", "--out", out]
    return main(["release", "t.csv", *fixed, *more])


def test_the_encoding_is_asked_for_and_taken(folder, capsys):
    assert release() == 2
    said = capsys.readouterr().err
    assert "It looks like cp1252: give" in said and "--encoding cp1252" in said and "Gen" not in said
    assert not (folder / "out").exists()
    assert release("--encoding", "cp1252") == 0
    assert main(["query", "out", "town=Genève", "--json"]) == 0
    assert release("--encoding", "klingon", out="o2") == 2
    assert "'klingon'" in capsys.readouterr().err


def test_perturb_has_the_option_by_another_name(folder, capsys):
    words = [
        "perturb",
        "t.csv",
        "--domain",
        "d.yaml",
        "--each",
        "--epsilon",
        "1",
        "--relation",
        "replace-one",
    ]
    words += ["--responses", "csv", "--quiet"]
    assert main([*words, "--out", "p", "--text-encoding", "cp1252"]) == 0
    assert len((folder / "p" / "responses.csv").read_text(encoding="utf-8").split()) == 61


def test_the_domain_commands_take_it(folder, capsys):
    assert main(["domain", "check", "t.csv", "d.yaml"]) == 2
    assert "--encoding cp1252" in capsys.readouterr().err
    assert main(["domain", "check", "t.csv", "d.yaml", "--encoding", "cp1252"]) == 0
    (folder / "u.csv").write_bytes("größe\ngroß\n".encode("cp1252"))
    assert main(["domain", "draft", "u.csv"]) == 2
    assert main(["domain", "draft", "u.csv", "--encoding", "cp1252"]) == 0
    assert "größe: discover" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="--public"):
        assert main(["domain", "draft", "u.csv", "--encoding", "cp1252", "--public"]) == 0
    assert "größe:\n  labels: [groß]\n" in capsys.readouterr().out


def test_under_a_ledger_the_holder_says_it_and_nobody_else(folder, capsys):
    init = [
        "ledger",
        "init",
        "b.ledger",
        "t.csv",
        "--name",
        "a",
        "--epsilon",
        "3",
        "--relation",
        "replace-one",
    ]
    init += ["--domain", "d.yaml"]
    assert main(init) == 2
    assert "Nothing was registered" in capsys.readouterr().err and not (folder / "b.ledger").exists()
    assert main([*init, "--encoding", "cp1252"]) == 0
    capsys.readouterr()
    # another encoding shifts records, or fails by what they hold: refused whatever they are, at no cost
    for wrong in ("latin-1", "shift_jis"):
        assert release("--ledger", "b.ledger", "--encoding", wrong) == 2
        assert "registered as cp1252 text: leave encoding (--encoding) out" in capsys.readouterr().err
    assert main(["ledger", "show", "b.ledger", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accounts"][0]["spent"] == "0"
    assert release("--ledger", "b.ledger", out="o1") == 0
    assert release("--ledger", "b.ledger", "--encoding", "windows-1252", out="o2") == 0
    assert json.loads((folder / "o2" / "release.json").read_text())["ledger"]["charge"] == 1
    ask = ["session", "ask", "b.ledger", "town=Chur", "--half-width", "50", "--table", "t.csv", "--domain"]
    ask += ["d.yaml", "--cap", "1", "--relation", "replace-one"]
    assert main([*ask, "--encoding", "latin-1"]) == 2
    assert "registered as cp1252 text" in capsys.readouterr().err
    assert main([*ask, "--encoding", "cp1252"]) == 0


def test_other_tables_of_the_account_are_in_its_encoding_or_no_text(folder, capsys):
    init = [
        "ledger",
        "init",
        "b.ledger",
        "t.csv",
        "--name",
        "a",
        "--epsilon",
        "3",
        "--relation",
        "replace-one",
    ]
    assert main([*init, "--domain", "d.yaml", "--encoding", "cp1252"]) == 0
    (folder / "v.csv").write_bytes("town\nGenève\n".encode("cp1252"))
    assert main(["ledger", "add-version", "b.ledger", "a", "v.csv", "--encoding", "utf-16"]) == 2
    assert "The account's text files have the encoding cp1252" in capsys.readouterr().err
    assert main(["ledger", "add-version", "b.ledger", "a", "v.csv"]) == 0
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"town": ["Genève"] * 3}), "w.parquet")
    assert main(["ledger", "add-version", "b.ledger", "a", "w.parquet"]) == 0
    again = ["release", "w.parquet", "--domain", "d.yaml", "--all-kway", "1", *ASK, "--steps", "30"]
    assert main([*again, "--rows", "4", "--out", "o3", "--ledger", "b.ledger"]) == 0


def test_a_definition_keeps_the_encoding():
    domain = Domain({"x": 2})
    held = TableDefinition(domain, encoding="windows-1252")
    assert held.encoding == "cp1252" and TableDefinition.from_dict(held.to_dict()) == held
    assert "encoding" not in TableDefinition(domain, encoding="UTF8").to_dict()
    with pytest.raises(ValueError, match=r"encoding.*'klingon'"):
        TableDefinition(domain, encoding="klingon")
