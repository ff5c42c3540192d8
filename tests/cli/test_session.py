"""`pgmjax session`: ask, look, export."""

import io
import json

import pandas
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.history import History
from pgmjax.queries import text as query_text

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
        (["--name", "other"], "'other'"),
        (["--account", "other"], "'other'"),
        (["--table", "nowhere.csv", "--account", "small"], "--account cannot be used with --table"),
        (
            ["--table", "nowhere.csv", "--domain", "x.yaml", "--cap", "1", "--relation", "add-remove"],
            "x.yaml",
        ),
        (["--table", "nowhere.csv", "--cap", "1"], "--domain"),
    ],
)
def test_bad_input(folder, capsys, words, message):
    assert ask(folder, *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("status", "--name", "other"), ("export", "--name", "other", "--out", "h")]
)
def test_a_refused_session_leaves_no_file_beside_the_ledger(folder, capsys, words):
    before = {path.name for path in folder.iterdir()}
    assert call(folder, *words) == 2
    assert {path.name for path in folder.iterdir()} == before


def test_the_name_of_an_account_is_no_session(folder, capsys):
    assert ask(folder, *table(folder)) == 0
    assert call(folder, "status", "--name", "small") == 2
    assert "but an account: write --account small" in capsys.readouterr().err


def test_a_misspelt_session_is_not_advised_to_charge_another_cap(folder, capsys):
    assert ask(folder, *table(folder)) == 0
    assert ask(folder, "--name", "sesion") == 2
    said = capsys.readouterr().err
    assert "'session'" in said and "begin it" not in said
    assert ask(folder, *table(folder), "--name", "sesion") == 2
    assert "is nearly 'session', a session that is there" in capsys.readouterr().err
    assert ask(folder, *table(folder, cap="5"), "--name", "other") == 2
    assert "beside" not in capsys.readouterr().err
    for name in ("second", "second 2"):  # a number makes another name
        assert ask(folder, *table(folder), "--name", name) == 0
        assert "was begun beside 'se" in capsys.readouterr().err


def test_what_a_session_was_begun_with_is_named(folder, capsys):
    assert ask(folder, *table(folder)) == 0
    assert ask(folder, *table(folder, cap="0.25")) == 2
    assert "was begun with another cap (0.5): give the same" in capsys.readouterr().err


def test_a_table_that_is_not_there(folder, capsys):
    words = [str(word).replace("t.csv", "nowhere.csv") for word in table(folder)]
    assert ask(folder, *words) == 2
    assert "nowhere.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"condition": "height=3"}, "height"),
        (("--beta", "0"), "--beta"),
        (("--delta", "0.1"), "is --beta"),
        (("--half-width", "-50"), "--half-width"),
        (("--half-width", "0.01"), "is in records, and an answer as close as that costs epsilon"),
    ],
)
def test_a_bad_question_is_refused_before_the_cap_is_charged(folder, capsys, words, said):
    given, settings = ((), words) if isinstance(words, dict) else (words, {})
    assert ask(folder, *table(folder), *given, **settings) == 2
    assert said in capsys.readouterr().err
    assert main(["ledger", "show", str(folder / "b.ledger"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accounts"][0]["spent"] == "0"
    assert main(["session", "status", str(folder / "none")]) == 2
    assert "ledger" in capsys.readouterr().err


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


def online(folder, *words, epsilon="1", relation="replace-one"):
    given = ["--table", folder / "t.csv", "--domain", folder / "d.json", "--epsilon", epsilon]
    return call(folder, "online-weights", *words, *given, "--relation", relation, "--updates", 2)


@pytest.fixture
def replaced(folder, capsys):
    """The same table, with an account under replace-one."""
    for old in folder.glob("b.ledger*"):
        old.unlink()
    init = ["ledger", "init", folder / "b.ledger", folder / "t.csv", "--name", "small", "--epsilon", "2"]
    assert main([*map(str, init), "--relation", "replace-one", "--domain", str(folder / "d.json")]) == 0
    capsys.readouterr()
    return folder


def spent(folder, capsys):
    assert main(["ledger", "show", str(folder / "b.ledger"), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["accounts"][0]["spent"]


def test_online_weights_answer_as_in_python_and_again_for_free(replaced, small_domain, capsys):
    """A threshold of 1 makes every count far off: two are measured, the third is the estimate's."""
    first = small_domain.attribute(small_domain.attributes[0])
    asked = [f"{first.name}={name}" for name in first.code_names()[:3]]
    assert online(replaced, *asked, "--threshold", 1, "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["query"] for one in told] == asked
    assert {one["source"] for one in told} <= {"measured", "estimate"} and told[0]["secure"]
    assert sum(one["source"] == "measured" for one in told) <= 2 and told[-1]["epsilon"] == "1"
    assert spent(replaced, capsys) == "1"
    assert online(replaced, *asked, "--threshold", 1, "--json") == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["value"] for one in again] == [one["value"] for one in told]
    assert spent(replaced, capsys) == "1"
    assert online(replaced, *asked[::-1], "--threshold", 1) == 2
    assert "repeat them as they were and in their order" in capsys.readouterr().err
    data = pj.Dataset.read(replaced / "t.csv", small_domain)
    with pj.privacy.Ledger.open(replaced / "b.ledger") as ledger:
        mechanism = pj.mechanisms.OnlineWeights(1, "replace-one", updates=2, threshold=1)
        opened = mechanism.open(data, ledger=ledger)
        for one in told:
            assert opened.answer(query_text.parse(one["query"], small_domain))[0] == one["value"]


def test_online_weights_read_standard_input_and_go_on_after_a_bad_line(replaced, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"height=3\n\n{CONDITION}\n"))
    assert online(replaced, "--name", "typed") == 2
    said = capsys.readouterr()
    assert "height" in said.err and "Some conditions were not answered" in said.err
    assert said.out.startswith(f"{CONDITION}: ") and "of 1 is spent" in said.out


def test_online_weights_without_a_condition_spend_nothing(replaced, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert online(replaced, "--name", "typed") == 2
    assert "There is no condition to answer" in capsys.readouterr().err and spent(replaced, capsys) == "0"


@pytest.mark.parametrize(
    "words, message",
    [
        ({"epsilon": "-1"}, "--epsilon"),
        ({"relation": "add-remove"}, "needs --relation replace-one"),
        ({"epsilon": "5"}, "5"),
    ],
)
def test_online_weights_that_cannot_be_spend_nothing(replaced, capsys, words, message):
    assert online(replaced, CONDITION, **words) == 2
    assert message in capsys.readouterr().err and spent(replaced, capsys) == "0"
    assert online(replaced, CONDITION, "height=3") == 2
    assert "height" in capsys.readouterr().err and spent(replaced, capsys) == "0"


def test_a_cap_below_zero_is_refused_before_anything_is_charged(folder, capsys):
    assert ask(folder, *table(folder, cap="-0.5")) == 2
    assert "--cap -0.5" in capsys.readouterr().err and spent(folder, capsys) == "0"
