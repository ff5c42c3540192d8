"""The command's edges: help, version, mechanisms, exit codes, a reader that leaves."""

import itertools
import json
import shlex
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas
import pytest

import pgmjax as pj
from pgmjax import __version__, cli, mechanisms
from pgmjax.cli import main


@pytest.mark.parametrize("command", [[], ["release"], ["query"], ["mechanisms"]])
def test_help(command, capsys):
    assert main([*command, "--help"]) == 0
    assert "usage: pgmjax" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pgmjax {__version__}\n"


@pytest.mark.parametrize("words", [["nonsense"]])
def test_usage_errors_are_2(words, capsys):
    assert main(words) == 2
    assert "usage: pgmjax" in capsys.readouterr().err


def test_mechanisms_are_listed(capsys):
    assert main(["mechanisms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == list(mechanisms.names())
    assert main(["mechanisms", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["mechanisms"]
    assert listed["marginals"]["summary"] == mechanisms.Marginals.summary
    assert listed["marginals"]["options"] == {"split": "weighted"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("a bad\n  value"), 2),
        (TypeError("a bad value"), 2),
        (FileNotFoundError(2, "No such file", "x"), 2),
        (ImportError("run pip install"), 1),
        (OverflowError("too large a number"), 2),
        (OSError("disk"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_exit_codes(error, code, capsys, monkeypatch):
    def fail(arguments):
        raise error

    monkeypatch.setattr("pgmjax.cli.mechanisms.run", fail)
    assert main(["mechanisms"]) == code
    said = capsys.readouterr().err
    assert said.startswith("pgmjax: ") and said.count("\n") == 1 and len(said) > 10


def test_a_bug_is_not_dressed_up_as_bad_input(monkeypatch):
    def fail(arguments):
        raise AttributeError

    monkeypatch.setattr("pgmjax.cli.mechanisms.run", fail)
    with pytest.raises(AttributeError):
        main(["mechanisms"])


def test_signal_handler_is_put_back_and_threads_are_no_problem(capsys):
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    assert main(["mechanisms"]) == 0
    assert [signal.getsignal(number) for number in numbers] == before
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["mechanisms"])))
    thread.start()
    thread.join()
    assert codes == [0]


def test_a_reader_that_leaves_is_no_traceback():
    """As in `pgmjax mechanisms | true`, in a process of its own, started as `python -m pgmjax`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pgmjax", "mechanisms"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == b""


def test_a_closed_standard_output_is_no_error():
    """As in `pgmjax mechanisms >&-`."""
    command = f"{shlex.quote(sys.executable)} -m pgmjax mechanisms >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stderr == b""


def test_a_usage_error_ends_with_an_example(capsys):
    assert main(["release", "--demo"]) == 2
    said = capsys.readouterr().err
    assert "required: --epsilon" in said
    assert "example: pgmjax release --demo --epsilon 1 --relation add-remove --out" in said


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["releese"], "release"),
        (["release", "--epsilom", "1"], "--epsilon"),
        (["ledger", "shwo"], "show"),
        (["release", "t.csv", "--mechanism", "marginal"], "marginals"),
    ],
)
def test_what_was_meant_is_asked(words, meant, capsys):
    assert main(words) == 2
    assert f"Did you mean {meant}?" in capsys.readouterr().err


def test_without_a_command_all_are_listed(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(command in said for command in ("release", "query", "ledger", "domain", "fit", "audit"))
    assert main(["xyzzy"]) == 2 and "Did you mean" not in capsys.readouterr().err


def test_usage_errors_load_no_jax():
    code = "import sys, pgmjax.cli; codes = [pgmjax.cli.main(words.split()) for words in sys.argv[1:]]; "
    code += "print(codes, 'jax' in sys.modules, 'scipy' in sys.modules)"
    wrong = ["releese", "release --nope", "ledger init", "fit a --epsilom 1", "--version", "session --help"]
    wrong += ["mechanisms compare --records 1", "mechanisms compare --help"]
    done = subprocess.run([sys.executable, "-c", code, *wrong], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[2, 2, 2, 2, 0, 0, 2, 0] False False"
    assert "Did you mean release?" in done.stderr


def test_choices_are_those_of_the_library():
    from pgmjax.cli import options
    from pgmjax.cli.options import shared
    from pgmjax.estimation import losses
    from pgmjax.history.session import log
    from pgmjax.local import answers
    from pgmjax.model import sampling
    from pgmjax.privacy import responding
    from pgmjax.release import folder

    assert tuple(mechanisms.names()) == options.release.MECHANISMS
    assert shared.SYNTHETIC_FORMATS == folder.SYNTHETIC_FORMATS
    assert shared.ROW_METHODS == sampling.METHODS
    (loss,) = (each for each in shared.FIT_AND_OUTPUT if each.names == ("--loss",))
    assert tuple(loss.settings["choices"]) == losses.names()
    assert options.local.ENCODINGS == responding.ENCODINGS and options.local.USELESS == answers.USELESS
    assert options.session.NAME == log.NAME
    assert pj.Estimator.solver == "auto"


def test_numbers_and_names_are_read_as_they_are_typed():
    words = "release t.csv --max-cells 1e6 --steps 1_000 --relation Add_Remove --mechanism AIM --out Release"
    given = cli._parser().parse_args(words.split())
    assert (given.max_cells, given.steps) == (1_000_000, 1000)
    assert (given.relation, given.mechanism, given.out) == ("add-remove", "aim", "Release")
    assert cli._parser().parse_args(["query", "Release", "AGE<3"]).folder == "Release"


def test_a_number_that_is_not_whole_is_said(capsys):
    assert main(["release", "t.csv", "--steps", "1.5"]) == 2
    assert "--steps" in capsys.readouterr().err


DEMO = ["release", "--demo", "--relation", "add-remove", "--out", "o"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["release", "t.csv", "--seed", "4"], "Noise that protects has no seed"),
        (["release", "t.csv", "--constraints", "f.json"], "It is an option of pgmjax fit"),
        (["perturb", "t.csv", "--each", "--dry-run"], "It is an option of pgmjax release"),
        (["session", "start", "b.ledger"], "session ask begins a session"),
        (["release", "t.csv", "--rows", "10.000"], "write 10000 or 10"),
        (["fit", "t.csv", "--total", "2.500"], "write 2500, without a separator"),
        (["release", "t.csv", "--marginals", "a,b"], "--workload FILE"),
        (["release", "t.csv", "--columns", "a"], "The domain file chooses the columns"),
        (["release", "t.csv", "--force"], "Nothing that exists is written over"),
        (["report", "r"], "DIR/report.html"),
        (["release", "t.csv", "--relation", "unbounded"], "add-remove if the number of records is secret"),
        (["release", "t.csv", "--relation", "unbounded"], "Did you mean add-remove?"),
        (["release", "t.csv", "--relation", "bounded"], "Did you mean replace-one?"),
        (["release", "t.csv", "--relation", "add_remov"], "Did you mean add-remove?"),
        (["release", "t.csv", "--all-kway", "a,b"], "how many attributes a marginal has"),
        (["query", "r", "--marginal", "a", "b"], "--marginal age,sex"),
        (["audit", "r"], "what a release promises is in its report.html"),
        (
            ["session", "ask", "l", "a=0", "--half-width", "5", "--epsilon", "1"],
            "what its --half-width needs",
        ),
        (["domain", "check", "d.yaml", "t.csv"], "It stands before the domain file"),
        (["domain", "check", "d.yaml", "t.csv.gz"], "It stands before the domain file"),
        (["domain", "schema", "d.yaml"], "to check one: pgmjax domain check TABLE DOMAIN"),
        (["release", "t.csv", "--rows", "all"], "left out, as many rows as records are estimated"),
        (["release", "t.csv", "--method", "sample"], "Did you mean multinomial?"),
        (["perturb", "t.csv", "--all-kway", "2"], "--each, --groups NAMES or --workload FILE"),
        ([*DEMO, "--epsilon", "1", "--delta", "1"], "1e-9"),
        ([*DEMO, "--epsilon", "1", "--from", "d.json"], "expected the folder of an earlier release"),
        (["release", "--epsilon", "1", "--relation", "add-remove", "--out", "o"], "The table is missing"),
        (["ledger", "show", "people"], "the name of an account goes behind --name"),
        (["query", "a=0", "r"], "The folder stands before the conditions"),
        (
            [
                *("release", "t.csv", "--domain", "d.json", "--all-kway", "1", "--epsilon", "1"),
                *("--relation", "add-remove", "--out", "rows.csv"),
            ],
            "rows.csv is the name of a file",
        ),
        (["audit", "--mechanism", "mine.py:Mine"], "write mine:Mine"),
        (["domain", "create", "t.csv"], "Did you mean pgmjax domain draft?"),
        (["domain", "d.json"], "as in pgmjax domain draft d.json"),
        (["domain", "draft", "t.csv", "t.yaml"], "Did you mean --out t.yaml?"),
        (["domain", "check", "--table", "t.csv"], "Did you mean TABLE, without an option?"),
        (["ledger", "set-budget", "b.ledger", "3"], "fixes a budget, which cannot be changed"),
        (["ledger", "reset", "b.ledger"], "no charge is taken back"),
        (["release", "t.csv", "--gpu"], "JAX chooses the device"),
        (["release", "t.csv", "--mechanism", "Gaussian"], "Noise follows from the budget"),
        (["release", "t.csv", "--relation", "laplace"], "Noise follows from the budget"),
        (["release", "t.csv", "--relation", "swap"], "Did you mean replace-one?"),
        (["query", "r", "a=0", "--error-bars", "95%"], "every interval is of 95 %"),
        (["query", "r", "--where", "a=0"], "Conditions stand behind DIR"),
        (["query", "r"], "folder"),
        ([*DEMO, "--epsilon", "1,5"], "write 1.5."),
        ([*DEMO, "--epsilon", "1", "--delta", "10^-9"], "write 1e-9."),
        ([*DEMO, "--epsilon", "1", "--count-left-out", "5%"], "write 0.05."),
        ([*DEMO, "--epsilon", "1e999999999%"], "--epsilon"),
        (["release", "t.csv", "--rows", "1,000"], "write 1000 or 1"),
        (["release", "t.csv", "--rows-outside", "ignore"], "Did you mean drop?"),
        (["release", "t.csv", "--output", "o"], "Did you mean --out?"),
        (["release", "t.csv", "--synthesizer", "mst"], "Did you mean --mechanism?"),
        (["release", "t.csv", "--user-id", "person"], "Did you mean --unit?"),
        (["release", "t.csv", "--sep", ";"], "Leave it out: commas, semicolons"),
        (["release", "t.csv", "--discover"], "--discover SHARE, spend this share of the budget, such as 0.1"),
        (["release", "t.csv", "--n", "9"], "Did you mean --rows?"),
        (["release", "t.csv", "-d", "d.json"], "Options have no short form here: write --domain"),
        (["fit", "c.csv", "--scale", "5"], "of scale 5 it is --stddev 7.07"),
        (["similarities", "r.csv", "3,17"], "--records (how many records were rated"),
        (["domain", "check", "d.yaml"], "the table is missing before d.yaml"),
        (["domain", "draft", "*.csv"], "give the name of one"),
        ([*DEMO, "--epsilon", "1", "--option", "rounds=5"], "is an option of aim, batch-aim, mwem"),
        (["domain", "draft", "t.csv", "--encoding", "ansi"], "what Windows calls ANSI is cp1252"),
        (["bench", "report", "r.duckdb"], "pgmjax bench run GRID"),
        (["release", "--from", "r", "--add-rows", "9"], "write pgmjax release r --add-rows"),
        (["release", "t.csv", "--sigma", "3"], "Noise follows from --epsilon"),
        (["release", "--input", "t.csv"], "pgmjax release TABLE"),
        (["fit", "c.csv", "--sigma", "3"], "Did you mean --stddev?"),
        (["fit", "c.csv", "--epsilon", "3"], "No noise is added here"),
        (["fit", "c.csv", "d.yaml", "--out", "o"], "Did you mean --domain d.yaml?"),
        (["ledger", "show", "b.ledger", "people"], "goes behind --name"),
        ([*DEMO[:-1], "C:\\Users\\o", "--epsilon", "1"], "is a name as Windows writes it"),
        (["collect", "a*.json", "--domain", "d.json", "--out", "o"], "A shell replaces * and ?"),
        (["domain", "draft", "https://example.org/t.csv"], "is an address: download"),
        (
            ["release", "--demo", "--epsilon", "1", "--relation", "add-remove", "--out", "~/o"],
            "begins with ~",
        ),
    ],
)
def test_what_to_write_instead_is_said(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text('{"a": 2}')
    assert main(words) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["d.json"]


READING = (
    "release {} --domain d.json --all-kway 1 --epsilon 1 --relation add-remove --out o",
    "perturb {} --domain d.json --each --epsilon 1 --relation replace-one --out o",
    "domain check {} d.json",
    "ledger init o {} --domain d.json --name a --epsilon 1 --relation add-remove",
    "fit {} --domain d.json --stddev 5 --out o",
    "history ask {} a=1 --domain d.json --stddev 5",
    "history train {} --domain d.json --stddev 5 --out o",
    "query {} a=1",
    "release t.csv --domain {} --all-kway 1 --epsilon 1 --relation add-remove --out o",
    "release t.csv --domain d.json --workload {} --epsilon 1 --relation add-remove --out o",
    "collect {} --domain d.json --out o",
    "similarities {} 0,1 --records 3 --items 3 --scale 1,5 --protect record --epsilon 1 "
    "--relation replace-one",
    "bench run {}",
)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt", "bare.csv", "t.parquet", "t.xlsx"])
@pytest.mark.parametrize("command", READING)
def test_no_command_quotes_a_record(command, name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text('{"a": 2, "b": ["x", "y"]}')
    (tmp_path / "t.csv").write_text("a,b\n0,x\n7171,Zaphod,y\n")
    (tmp_path / "t.tsv").write_text("a\tb\n0\tx\n7171\tZaphod\ty\n")
    (tmp_path / "t.txt").write_text("a,b\n0,x\n7171,Zaphod,y\n")
    (tmp_path / "bare.csv").write_text("7171,Zaphod\n0,x\n")
    frame = pandas.DataFrame({"a": [0, 7171], "b": ["x", "Zaphod"]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    assert main(command.format(name).split()) in (1, 2)
    said = capsys.readouterr()
    assert "7171" not in said.err + said.out and "Zaphod" not in said.err + said.out


@pytest.mark.parametrize(
    "words",
    [
        ["query", "rel", "sex=Male", "age<35", "--json", "--draws", "20"],
        ["history", "ask", "hist", "sex=Male", "age<35", "--method", "ridge", "--alpha", "3"],
        ["session", "ask", "b.ledger", "sex=Male", "--half-width", "30", "--table", "t.csv", "--cap", "1"],
        [
            "session",
            "online-weights",
            "b.ledger",
            "a=1",
            "b=1",
            "--table",
            "t.csv",
            "--domain",
            "d.yaml",
            "--epsilon",
            "1",
            "--relation",
            "replace-one",
        ],
        ["respond", "age=34", "sex=F", "--domain", "d.yaml", "--epsilon", "2", "--groups", "age,sex"],
        ["ledger", "init", "b.ledger", "t.csv", "--epsilon", "3", "--name", "people"],
    ],
)
def test_arguments_and_options_stand_in_any_order(words):
    first = next(k for k, word in enumerate(words) if word.startswith("--"))
    begun = 1 + (words[1] in ("ask", "online-weights", "init"))
    command, places, options = words[:begun], words[begun:first], words[first:]
    pairs, left = [], options
    while left:
        size = 1 if left[0] == "--json" else 2
        pairs.append(left[:size])
        left = left[size:]

    def read(words):
        return {**vars(cli._parser().parse_args(words)), "parser": None}

    expected = read(words)
    rng = np.random.default_rng(0)
    for _ in range(20):
        parts = [[word] for word in places]
        for pair in pairs:
            parts.insert(int(rng.integers(len(parts) + 1)), pair)
        mixed = [*command, *itertools.chain(*parts)]
        assert read(mixed) == expected, mixed
