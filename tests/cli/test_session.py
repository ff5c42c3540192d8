"""`pgmjax session`: ask, look, export."""

import json

import pandas
import pytest

from pgmjax.cli import main
from pgmjax.history import History

CONDITION = "a=0"


@pytest.fixture
def folder(small_domain, small_columns, tmp_path, capsys):
    """A table, its domain and a ledger that grants it 2."""
    pandas.DataFrame(small_columns).to_csv(tmp_path / "t.csv", index=False)
    small_domain.write(tmp_path / "d.json")
    init = ["ledger", "init", tmp_path / "b.ledger", tmp_path / "t.csv", "--name", "small", "--epsilon", "2"]
    init += ["--relation", "add-remove", "--domain", tmp_path / "d.json"]
    assert main([*map(str, init)]) == 0
    capsys.readouterr()
    return tmp_path


def call(folder, command, *words):
    return main([str(word) for word in ["session", command, folder / "b.ledger", *words]])


def ask(folder, *words, width=20, condition=None):
    return call(folder, "ask", condition or CONDITION, "--half-width", width, *words)


def table(folder, cap="0.5"):
    return [
        "--table",
        folder / "t.csv",
        "--domain",
        folder / "d.json",
        "--cap",
        cap,
        "--relation",
        "add-remove",
    ]


@pytest.fixture(autouse=True)
def condition(small_domain, monkeypatch):
    first = small_domain.attribute(small_domain.attributes[0])
    monkeypatch.setattr(f"{__name__}.CONDITION", f"{first.name}={first.code_names()[0]}", raising=True)


def test_ask_look_and_export(folder, capsys):
    assert ask(folder, *table(folder)) == 0
    assert "epsilon 0.1" in capsys.readouterr().out
    assert ask(folder, *table(folder), "--json") == 0
    free = json.loads(capsys.readouterr().out)
    assert free["source"] == "history" and free["epsilon"] == "0" and free["cap"] == "0.5"
    assert ask(folder, "--json") == 0  # without the table
    assert json.loads(capsys.readouterr().out)["value"] == free["value"]
    assert ask(folder, *table(folder), width=0.5) == 1
    assert "more than the cap" in capsys.readouterr().err
    assert call(folder, "status") == 0
    assert "4 queries, 2 free, 1 measured, 1 refused" in capsys.readouterr().out
    assert call(folder, "status", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["answers"]) == 4
    assert call(folder, "export", "--out", folder / "h") == 0
    assert "1 noisy answers" in capsys.readouterr().out
    assert History.load(folder / "h").num_rows == 1
    assert call(folder, "export", "--out", folder / "h") == 2


@pytest.mark.parametrize(
    "words, message",
    [
        (["--cap", "1"], "--cap needs --table"),
        (["--name", "other"], "no session 'other'"),
        (["--account", "other"], "of account 'other'"),
        (["--table", "nowhere.csv", "--account", "small"], "--account cannot be used with --table"),
        (
            ["--table", "nowhere.csv", "--domain", "x", "--cap", "1", "--relation", "add-remove"],
            "nowhere.csv",
        ),
        (["--table", "nowhere.csv", "--cap", "1"], "--domain is missing"),
    ],
)
def test_bad_input(folder, capsys, words, message):
    assert ask(folder, *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"condition": "height=3"}, "height"),
        (("--delta", "0"), "--delta must be"),
        (("--half-width", "-50"), "--half-width must be"),
    ],
)
def test_a_bad_question_is_refused_before_the_cap_is_charged(folder, capsys, words, said):
    given, settings = ((), words) if isinstance(words, dict) else (words, {})
    assert ask(folder, *table(folder), *given, **settings) == 2
    assert said in capsys.readouterr().err
    assert main(["ledger", "show", str(folder / "b.ledger"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accounts"][0]["spent"] == "0"
    assert main(["session", "status", str(folder / "none")]) == 2
    assert "no ledger" in capsys.readouterr().err


def test_repeatable_noise_is_named_in_every_output(folder, capsys):
    for old in folder.glob("b.ledger*"):
        old.unlink()
    init = ["ledger", "init", folder / "b.ledger", folder / "t.csv", "--name", "small", "--epsilon", "2"]
    init += ["--relation", "add-remove", "--domain", folder / "d.json"]
    assert main([*map(str, init), "--research"]) == 0
    capsys.readouterr()
    assert ask(folder, *table(folder), "--insecure-seed", "7") == 0
    assert "for research only" in capsys.readouterr().out
    for command, words in (
        ("ask", [CONDITION, "--half-width", 20]),
        ("status", []),
        ("export", ["--out", folder / "h"]),
    ):
        assert call(folder, command, *words, "--account", "small", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert told["secure"] is False and told["seed"] == 7
    assert not History.load(folder / "h").secure
    assert call(folder, "export", "--out", folder / "again") == 0
    assert "for research only" in capsys.readouterr().out
