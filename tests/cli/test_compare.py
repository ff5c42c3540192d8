"""`pgmjax mechanisms compare`: the recommendation as a table and as JSON, and that no table is opened."""

import json
import subprocess
import sys

import pytest

from pgmjax import mechanisms
from pgmjax.cli import main
from pgmjax.mechanisms import Mechanism


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A domain and a workload, beside a table that must not be opened."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(b"\xff not a table")
    (tmp_path / "people.json").write_text('{"a": 3, "b": 4, "c": 2}')
    (tmp_path / "w.json").write_text('[["a", "b"], ["c"]]')
    return tmp_path


def words(**changes):
    """The words of a good call; None leaves an option out."""
    given = {"domain": "people.json", "workload": "w.json", "epsilon": "1", "relation": "replace-one"}
    given |= {"records": "400", "seeds": "2", "mechanisms": "marginals mst", **changes}
    options = [["--" + name.replace("_", "-"), *v.split()] for name, v in given.items() if v is not None]
    return ["mechanisms", "compare", *(word for option in options for word in option)]


def test_the_table_ends_with_the_recommendation(folder, capsys):
    assert main(words()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "400 records, epsilon 1, delta 0, replace-one" in lines[0]
    assert lines[1].split()[:4] == ["mechanism", "independent", "tree", "dense"]
    rows = {line.split("  ")[0]: line for line in lines[2:7]}
    assert set(rows) == {"marginals", "mst", "one-way only", "exact product", "noisy counts"}
    assert lines[-2].startswith("Recommended: ") and lines[2].split()[0] in lines[-2]
    assert lines[-1].startswith("No table was read. The simulated tables are not yours")


@pytest.mark.parametrize("form", [["--format", "json"], ["--json"]])
def test_json_is_what_the_function_returns(form, folder, capsys):
    assert main([*words(all_kway="1", workload=None, mechanisms="marginals privbayes"), *form]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"] in found["mechanisms"] and found["records"] == 400 and found["epsilon"] == "1"
    assert set(found["mechanisms"]["marginals"]["tables"]) == {"independent", "tree", "dense"}
    assert len(found["mechanisms"]["marginals"]["tables"]["tree"]["errors"]) == found["seeds"] == 2


def test_json_may_stand_before_the_subcommand(folder, capsys):
    asked = words(seeds="1", mechanisms="privbayes", relation="add-remove")
    assert main(["mechanisms", "--json", *asked[1:]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"] is None and list(found["refused"]) == ["privbayes"]


def test_refusals_are_listed(folder, capsys):
    assert main(words(seeds="1", mechanisms="privbayes marginals", relation="add-remove")) == 0
    said = capsys.readouterr().out
    assert "privbayes does not run: PrivBayes" in said and "replace-one" in said and "+-" not in said


def test_only_the_public_files_are_opened(folder):
    code = "import sys; from pgmjax.cli import main\n"
    code += "sys.addaudithook(lambda e, a: e == 'open' and print('OPEN', a[0], file=sys.stderr))\n"
    code += "sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words(seeds="1", mechanisms="marginals")],
        capture_output=True,
        text=True,
        check=True,
    )
    opened = {line.removeprefix("OPEN ") for line in done.stderr.splitlines() if line.startswith("OPEN ")}
    assert opened >= {"people.json", "w.json"}
    assert not [path for path in opened if "people.csv" in path]
    assert {path.name for path in folder.iterdir()} == {"people.csv", "people.json", "w.json"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": None}, "the following arguments are required: --records"),
        ({"epsilon": None}, "the following arguments are required: --epsilon"),
        ({"relation": None}, "the following arguments are required: --relation"),
        ({"workload": None}, "one of the arguments --workload --all-kway is required"),
        ({"all_kway": "2"}, "not allowed with argument"),
        ({"mechanisms": "amst"}, "mst?"),
        ({"mechanisms": "mst people.csv"}, "invalid choice: 'people.csv'"),
        ({"records": "0"}, "--records"),
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"all_kway": "4", "workload": None}, "--all-kway 4"),
        ({"workload": "other.json"}, "'z'"),
        ({"workload": "none.json"}, "none.json"),
        ({"domain": "none.json"}, "none.json"),
    ],
)
def test_bad_input_is_refused_before_any_work(changes, message, folder, capsys, monkeypatch):
    def run(*_, **__):
        raise AssertionError("a mechanism ran")

    monkeypatch.setattr(Mechanism, "run", run)
    (folder / "other.json").write_text('[["a", "z"]]')
    assert main(words(**changes)) == 2
    assert message in capsys.readouterr().err


def test_it_takes_no_table(folder, capsys):
    command = words()
    assert main([*command[:2], "people.csv", *command[2:]]) == 2
    assert "unrecognized arguments: people.csv" in capsys.readouterr().err


def test_an_interrupt_says_that_nothing_was_spent(folder, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(mechanisms.Marginals, "run", stop)
    assert main(words()) == 130
    assert "interrupted; no table was read and nothing was spent" in capsys.readouterr().err
