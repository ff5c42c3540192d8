"""Every option of every command with wrong values: a refusal names the option as it was typed."""

import argparse
import json
import re
import shutil

import pytest

from pgmjax import cli
from pgmjax.cli import perturb
from pgmjax.cli.typed import as_typed

WRONG = ("", "abc", "1e400", "-1", "nan")
RELEASED = (
    "--domain",
    "d.json",
    "--epsilon",
    "1",
    "--relation",
    "replace-one",
    "--insecure-seed",
    "1",
    "--quiet",
)
SESSION = (
    *("a=1", "--half-width", "5", "--table", "t.csv", "--domain", "d.json", "--name", "t"),
    *("--cap", "0.001", "--relation", "replace-one"),
)
GRID = """
[grid]
name = "small"
trials = 1
epsilons = [1]
relation = "replace-one"
[[tables]]
name = "t"
path = "t.csv"
domain = "d.json"
[[workloads]]
name = "each"
all_kway = 1
[[mechanisms]]
name = "marginals"
"""
BASES = {
    "release": ("t.csv", *RELEASED, "--all-kway", "2", "--out", "o", "--dry-run"),
    "perturb": ("t.csv", *RELEASED, "--each", "--out", "o"),
    "respond": ("a=1", "b=1", "c=1", "--domain", "d.json", "--epsilon", "1", "--each", "--out", "o"),
    "query": ("made", "a=1"),
    "mechanisms compare": (
        *("--domain", "d.json", "--epsilon", "1", "--relation", "add-remove"),
        *("--records", "60", "--mechanisms", "marginals", "--all-kway", "2"),
    ),
    "domain draft": ("t.csv",),
    "domain check": ("t.csv", "d.json"),
    "fit": ("made/measurements.parquet", "--domain", "d.json", "--out", "o"),
    "ledger init": (
        *("new.db", "t.csv", "--domain", "d.json", "--relation", "replace-one"),
        *("--epsilon", "1", "--name", "t"),
    ),
    "ledger show": ("led.db",),
    "ledger verify": ("led.db",),
    "ledger add-version": ("led.db", "t", "t.csv"),
    "ledger set-domain": ("led.db", "t", "t.csv", "--domain", "d.json"),
    "session status": ("asked.db", "--name", "t"),
    "session export": ("asked.db", "--name", "t", "--out", "o"),
    "collect": ("answer.json", "--domain", "d.json", "--out", "o"),
    "session ask": ("led.db", *SESSION),
    "history ask": ("made/measurements.parquet", "a=1", "--domain", "d.json"),
    "audit": ("--mechanism", "marginals", "--runs", "2"),
    "bench run": ("grid.toml", "--results", "o", "--list"),
    "bench report": ("results.duckdb", "--out", "o"),
}
ANYTHING = {"--name", "--record-is", "--same-people-as", "--key", "--title"}  # options that take any text


def leaves(parser, path=()):
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield " ".join(path), parser
    for action in below:
        for name, command in action.choices.items():
            yield from leaves(command, (*path, name))


COMMANDS = dict(leaves(cli._parser()))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed")
    rows = "".join(f"{i % 3},{i % 2},{i % 4}\n" for i in range(60))
    (folder / "t.csv").write_text("a,b,c\n" + rows)
    (folder / "d.json").write_text(json.dumps({"a": 3, "b": 2, "c": 4}))
    (folder / "grid.toml").write_text(GRID)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.main(["release", "t.csv", *RELEASED, "--all-kway", "2", "--out", "made"]) == 0
        assert cli.main(["ledger", "init", "led.db", *BASES["ledger init"][1:]]) == 0
        assert cli.main(["respond", *BASES["respond"][:-1], "answer.json"]) == 0
        session = ["ledger", "init", "asked.db", *BASES["ledger init"][1:]]
        assert cli.main(session) == 0
        assert cli.main(["session", "ask", "asked.db", *SESSION[:-3], "0.9", *SESSION[-2:]]) == 0
        assert cli.main(["bench", "run", "grid.toml", "--results", "results.duckdb", "--quiet"]) == 0
    return folder


@pytest.mark.parametrize("name", BASES)
def test_a_refusal_names_the_option_as_typed(name, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    wrong = []
    for action in COMMANDS[name]._actions:
        option = max(action.option_strings, key=len, default="")
        if not option or action.nargs == 0 or option in ANYTHING:
            continue
        base = list(BASES[name])
        if option == "--workload" and "--all-kway" in base:  # one of the two
            del base[base.index("--all-kway") : base.index("--all-kway") + 2]
        if option in base:
            del base[base.index(option) : base.index(option) + 2]
        for value in WRONG:
            for made in (place / "o", *(place / each for each in WRONG[1:]), *place.glob("new.db*")):
                shutil.rmtree(made, ignore_errors=True)
                made.unlink(missing_ok=True)
            capsys.readouterr()
            code = cli.main([*name.split(), *base, option, value])
            said = capsys.readouterr().err.strip()
            last = re.split(r"(?:^|\n)pgmjax[\w -]*:", said)[-1]
            if code and (code != 2 or option not in last):
                wrong.append((option, value, code, last[:160]))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_sentence_keeps_its_words():
    parser = cli._parser()
    words = ["release", "t.csv", "--epsilon", "1", "--rows", "5"]
    for sentence in (
        "The total is estimated; the epsilon of each answer has its own share.",
        "Expected at least 1 record.",
        "The number of rows is public.",
    ):
        assert as_typed(sentence, parser, words) == sentence
    named = ["release", "t.csv", "--out", "e02"]
    for sentence in ("e02.csv is a file.", "There is no table e02.csv."):  # another name than the option's
        assert as_typed(sentence, parser, named) == sentence
    assert as_typed("e02 is there.", parser, named) == "--out e02 is there."
    assert as_typed("There is no file e02.", parser, named) == "--out e02: There is no file e02."
    assert as_typed("rows must be at most 3, got 5.", parser, words) == "--rows must be at most 3, got 5."
    assert as_typed('use rows_outside="drop".', parser, words) == "use --rows-outside drop."


@pytest.mark.parametrize(
    ("words", "message", "said"),
    [
        (["--relation", "replace-one"], 'rows_outside "clip" or "drop".', "--rows-outside clip."),
        (["--relation", "replace-one"], 'X, or say what happens to such records: rows_outside "drop".', "X."),
        (["--relation", "add-remove"], 'rows_outside "clip" or "drop".', "--rows-outside clip or drop."),
        (["--domain", "d.yaml"], "Domain file d.yaml, line 1: no.", "--domain d.yaml, line 1: no."),
        (["--domain", "d.yaml", "no.csv"], "There is no table no.csv.", "There is no table no.csv."),
        (
            ["--no-header"],
            "Attribute 'a': 1 row lies out, or say what happens to such records: rows_outside \"drop\".",
            "If the first line holds names, leave out --no-header. Attribute 'a'",
        ),
    ],
)
def test_advice_is_that_of_the_command_line(words, message, said):
    assert as_typed(message, cli._parser(), ["release", "t.csv", *words]).startswith(said)


def test_a_response_is_drawn_once_for_a_file(place, monkeypatch, capsys):
    """Two answers for one record tell more of it: the file is claimed before one is drawn."""
    monkeypatch.chdir(place)
    drawn = []
    real = perturb.respond
    monkeypatch.setattr(perturb, "respond", lambda *given: drawn.append(1) or real(*given))
    words = ["respond", *BASES["respond"][:-1], "once.json"]

    def taken(path):  # another process was faster
        (place / path).write_text("other")
        return place / path

    with monkeypatch.context() as patch:
        patch.setattr(perturb.checks, "new_file", taken)
        assert cli.main(words) != 0
    assert not drawn and (place / "once.json").read_text() == "other"
    (place / "once.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(perturb, "respond", lambda *given: (_ for _ in ()).throw(ValueError("no")))
        assert cli.main(words) != 0
    assert not (place / "once.json").exists()
    capsys.readouterr()
