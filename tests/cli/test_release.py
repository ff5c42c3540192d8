"""`pgmjax release`: the main job end to end, and every refusal before anything is spent."""

import contextlib
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import pandas
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax import cli, job
from pgmjax.cli import main
from pgmjax.data.dataset import Dataset
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.mechanisms import forecast
from pgmjax.privacy import opendp
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.release import folder as release_folder


@pytest.fixture
def table(small_domain, small_columns, tmp_path):
    """Files of a table, its domain and a workload, in an empty folder."""
    pandas.DataFrame(small_columns).to_csv(tmp_path / "t.csv", index=False)
    small_domain.write(tmp_path / "d.json")
    (tmp_path / "w.json").write_text(json.dumps([["age", "sex"], ["region"]]))
    return tmp_path


def arguments(folder, **changes):
    """The arguments of a good call; None leaves one out, True gives it without a value."""
    given = {
        "table": folder / "t.csv",
        "domain": folder / "d.json",
        "workload": folder / "w.json",
        "epsilon": "1",
        "relation": "add-remove",
        "out": folder / "out",
        "steps": "50",
        "rows": "10",
        **changes,
    }
    words = [str(given.pop("table"))]
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        words += [] if value is None else [option] if value is True else [option, str(value)]
    return ["release", *words]


def test_release_says_where_it_lies_and_what_was_spent(table, capsys):
    assert main(arguments(table, epsilon="0.1")) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == f"Release written to {table / 'out'}"
    assert all(fact in lines[-1] for fact in ("epsilon = 0.1", "delta = 0", "add-remove"))
    assert said.err == ""
    record = json.loads((table / "out" / "release.json").read_text())
    assert record["epsilon"] == "0.1" and record["secure"] is True and record["seed"] is None
    rows = parquet.read_table(table / "out" / "synthetic.parquet")
    assert len(rows) == 10 and set(rows["sex"].to_pylist()) <= {"Female", "Male"}
    assert sorted(os.listdir(table)) == ["d.json", "out", "t.csv", "w.json"]


@pytest.mark.parametrize("unit", [False, True])
def test_columns_that_were_left_out_are_counted_and_not_named(table, small_columns, unit, capsys):
    persons = [f"p{row // 2}" for row in range(len(small_columns["age"]))]
    pandas.DataFrame({**small_columns, "secretname": 1, "person": persons}).to_csv(
        table / "t.csv", index=False
    )
    more = {"unit": "person", "max_records": "2"} if unit else {}
    assert main(arguments(table, **more)) == 0
    said = capsys.readouterr().out
    assert f"not name were left out: {1 if unit else 2} (pgmjax domain check" in said
    assert ("--unit COLUMN protects" in said) is not unit and "secretname" not in said


def test_a_fit_may_be_pulled_and_the_release_says_so(table, capsys):
    assert main(arguments(table, regularisation="auto", steps="1000")) == 0
    record = json.loads((table / "out" / "release.json").read_text())
    pull = record["fit"]["regularisation"]
    assert pull["weight"] > 0 and pull["divergence"] >= 0
    assert "pulled towards the product" in (table / "out" / "report.html").read_text()
    assert main(arguments(table, regularisation="much", out=table / "other")) == 2
    assert "'much'" in capsys.readouterr().err
    assert not (table / "other").exists()


def test_json_prints_one_object_and_nothing_else(table, capsys):
    assert main(arguments(table, json=True)) == 0
    said = capsys.readouterr()
    printed = json.loads(said.out)
    assert printed.pop("out") == str(table / "out") and said.err == ""
    assert printed == json.loads((table / "out" / "release.json").read_text())


def test_quiet_prints_nothing(table, capsys):
    assert main(arguments(table, quiet=True)) == 0
    said = capsys.readouterr()
    assert said.out == "" and said.err == ""


def test_same_seed_same_numbers_and_marked_insecure(table, capsys):
    for name, dtype in (("a", None), ("b", "float64")):  # the type of the fit where none is named
        assert main(arguments(table, insecure_seed="5", dtype=dtype, out=table / name)) == 0
    assert "NOBODY" in capsys.readouterr().out
    first, second = (parquet.read_table(table / name / "measurements.parquet") for name in ("a", "b"))
    assert first.equals(second)
    record, other = (json.loads((table / name / "release.json").read_text()) for name in ("a", "b"))
    assert record["secure"] is False and record["seed"] == 5 and record["fit"] == other["fit"]


def test_delta_buys_gaussian_noise(table):
    assert main(arguments(table, delta="1e-6", quiet=True)) == 0
    record = json.loads((table / "out" / "release.json").read_text())
    assert record["delta"] == "0.000001" and "rho" in record["spent"]
    noise = parquet.read_table(table / "out" / "measurements.parquet")["noise"].unique().to_pylist()
    assert noise == ["gaussian"]


def test_weights_of_the_workload_share_out_the_budget(table):
    entries = [{"clique": ["age", "sex"], "weight": 3}, {"clique": ["region"], "weight": 1}]
    (table / "w.json").write_text(json.dumps(entries))
    for split in ("equal", "weighted"):
        given = {"mechanism": "marginals", "option": f"split={split}", "out": table / split}
        assert main(arguments(table, **given, quiet=True)) == 0
    spread = {}
    for split in ("equal", "weighted"):
        rows = parquet.read_table(table / split / "measurements.parquet").to_pylist()
        spread[split] = {row["stddev"] for row in rows if row["clique"] == ["region"]}
    # epsilon 1/2 against 1/4: discrete Laplace of scales 2 and 4, variance 2q/(1-q)^2 with q = exp(-1/scale)
    for split, scale in (("equal", 2), ("weighted", 4)):
        q = math.exp(-1 / scale)
        assert list(spread[split]) == [pytest.approx(math.sqrt(2 * q) / (1 - q))]


def test_replace_one_takes_the_number_of_records_as_public(table):
    assert main(arguments(table, relation="replace-one", quiet=True)) == 0
    record = json.loads((table / "out" / "release.json").read_text())
    assert record["relation"] == "replace-one" and record["total"] == 400


def test_all_kway_with_a_limit_and_csv(table):
    call = arguments(table, workload=None, all_kway="2", max_cells="30", synthetic="csv", quiet=True)
    call += ["--mechanism", "marginals"]
    assert main([*call, "--codes"]) == 0
    record = json.loads((table / "out" / "release.json").read_text())
    assert all(len(clique) == 2 for clique in record["workload"]) and len(record["workload"]) < 6
    lines = (table / "out" / "synthetic.csv").read_text().splitlines()
    assert len(lines) == 11 and all(set(line) <= {*"01234,"} for line in lines[1:])


@pytest.mark.parametrize(("mechanism", "k"), [("marginals", "2"), ("marginals", "3"), ("hdmm", "2")])
def test_pairs_that_are_left_out_name_the_mechanism_that_chooses(table, capsys, mechanism, k):
    call = arguments(table, workload=None, all_kway=k, max_cells="30", mechanism=mechanism)
    assert main([*call, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "--max-cells" in said and "--mechanism auto would choose" in said


@pytest.mark.parametrize("mechanism", [None, "batch-aim", "aim", "mwem", "mst"])
@pytest.mark.parametrize("k", ["2", "3"])
def test_whoever_chooses_gets_every_marginal_whose_own_table_fits(table, capsys, mechanism, k):
    """Whether it is named or taken by itself, and the limit holds for the model that comes out."""
    given = {} if mechanism is None else {"mechanism": mechanism}
    limit = 30 if k == "2" else 60
    assert main(arguments(table, workload=None, all_kway=k, max_cells=str(limit), delta="1e-6", **given)) == 0
    record = json.loads((table / "out" / "release.json").read_text())
    assert record["mechanism"] == (mechanism or "auto")
    domain = pj.load(table / "out").model.domain
    every = [each for each in itertools.combinations(domain.attributes, int(k)) if domain.size(each) <= limit]
    assert sorted(record["workload"]) == sorted(map(list, every)) and len(every) > 1
    if mechanism != "mst":  # which chooses a tree of pairs, whatever it costs
        model = pj.load(table / "out").model
        places = [tuple(map(model.domain.attributes.index, c)) for c in model.potentials.cliques]
        assert total_cells(model.domain.shape, places) <= limit


def test_a_run_goes_on_with_the_limit_that_it_began_with(table, capsys, monkeypatch):
    """The forecast of a minute is of the machine, and may be another one the next day."""
    call = arguments(table, workload=None, all_kway="2", insecure_seed="1")
    monkeypatch.setattr(forecast, "LIMITS", (30,))
    with monkeypatch.context() as broken:
        broken.setattr(Estimator, "fit", failing(MemoryError("no room")))
        assert main(call) == 1
    monkeypatch.setattr(forecast, "LIMITS", (10_000,))
    assert main(call) == 0
    model = pj.load(table / "out").model
    places = [tuple(map(model.domain.attributes.index, c)) for c in model.potentials.cliques]
    assert total_cells(model.domain.shape, places) <= 30


def test_unnamed_columns_and_weights(table, small_columns):
    frame = pandas.DataFrame(small_columns)
    frame.to_csv(table / "bare.csv", index=False, header=False)
    assert main(arguments(table, table=table / "bare.csv", no_header=True, quiet=True)) == 0
    frame["w"] = 2
    frame.to_csv(table / "weighted.csv", index=False)
    call = arguments(
        table, table=table / "weighted.csv", weights="w", max_weight="3", out=table / "o2", quiet=True
    )
    assert main(call) == 0


BAD = [
    ({"epsilon": "0"}, "--epsilon"),
    ({"epsilon": "nan"}, "--epsilon"),
    ({"epsilon": "inf"}, "--epsilon"),
    ({"epsilon": "True"}, "--epsilon"),
    ({"epsilon": "one"}, "--epsilon"),
    ({"delta": "1"}, "--delta"),
    ({"relation": "bounded"}, "invalid choice: 'bounded'"),
    ({"relation": None}, "required: --relation"),
    ({"epsilon": None}, "required: --epsilon"),
    ({"out": None}, "required: --out"),
    ({"mechanism": "magic"}, "invalid choice: 'magic'"),
    ({"domain": None}, "--domain is missing"),
    ({"workload": None}, "Nothing says what to measure: give --all-kway 2"),
    ({"all_kway": "2"}, "not both"),
    ({"max_cells": "9", "mechanism": "marginals"}, "--max-cells needs --all-kway"),
    ({"workload": None, "all_kway": "0"}, "--all-kway"),
    ({"workload": None, "all_kway": "9"}, "--all-kway 9 is more than the 4 attributes"),
    ({"workload": None, "all_kway": "two"}, "'two'"),
    ({"rows": "-1"}, "--rows"),
    ({"steps": "0"}, "--steps"),
    ({"solver": "magic"}, "--solver"),
    ({"insecure_seed": "-1"}, "seed"),
    ({"table": "nowhere.csv"}, "nowhere.csv"),
    ({"domain": "nowhere.json"}, "nowhere.json"),
    ({"workload": "nowhere.json"}, "nowhere.json"),
    ({"out": "/proc/none"}, "/proc/none"),
    ({"out": "n" * 256}, "n" * 256),
    ({"demo": True}, "--demo has a table of its own"),
    ({"weights": "nothing", "max_weight": "2"}, "nothing"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=lambda v: str(v))
def test_bad_input_is_one_line_and_spends_nothing(changes, message, table, capsys, monkeypatch):
    def spend(*args, **kwargs):
        raise AssertionError("something was spent")

    monkeypatch.setattr(PrivateTable, "_answer", spend)
    assert main(arguments(table, **changes)) == 2
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err and said.out == ""
    assert not (table / "out").exists()
    if "usage:" not in said.err:
        assert said.err.count("\n") == 1 and said.err.startswith("pgmjax: ")


WRONG_FILES = [
    ("t.csv", "age,sex,region\n5,Male,1\n", "income>50K, net"),
    ("t.csv", "5,Male,1,<no>\n", "with --no-header"),
    ("t.csv", 'age,sex,region,"income>50K, net"\n', "record"),
    ("t.csv", None, "3 rows lie outside"),
    (
        "t.csv",
        'age,sex,region,"income>50K, net"\n5,Sekret,1,no\n',
        "the table (pgmjax domain check TABLE DOMAIN shows more).\n",
    ),
    ("w.json", "[['age', 'sex']]", "JSON takes double quotes: write [["),
    ("w.json", '[["age*sex"]]', 'names \'age*sex\', which is several attributes: write ["age", "sex"]'),
    ("w.json", "[]", "workload"),
    ("w.json", '[["age", "height"]]', "height"),
    ("w.json", '[["age", "age"]]', "twice"),
    ("w.json", "{", "w.json"),
    ("d.json", "{", "d.json"),
    ("d.json", '{"age": 0}', "age"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG_FILES, ids=str)
def test_bad_files_are_named_and_show_no_value(name, text, message, table, small_columns, capsys):
    if text is None:
        frame = pandas.DataFrame(small_columns)
        frame.loc[:2, "sex"] = "Sekret"
        frame.to_csv(table / "t.csv", index=False)
    else:
        (table / name).write_text(text)
    assert main(arguments(table)) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and "Sekret" not in said
    assert not (table / "out").exists()


def test_existing_folder_is_refused_before_the_table_is_read(table, capsys, monkeypatch):
    (table / "out").mkdir()
    monkeypatch.setattr(Dataset, "read", lambda *a, **k: pytest.fail("the table was opened"))
    assert main(arguments(table)) == 2
    assert "exists" in capsys.readouterr().err
    assert os.listdir(table / "out") == []


def test_a_model_too_large_is_refused_with_the_figure(table, capsys):
    domain = {f"a{i}": 1000 for i in range(4)}
    (table / "d.json").write_text(json.dumps(domain))
    (table / "t.csv").write_text("a0,a1,a2,a3\n1,2,3,4\n")
    assert main(arguments(table, workload=None, all_kway="4")) == 2
    assert "no 4-way marginal has at most 30,000,000 cells: raise --max-cells" in capsys.readouterr().err
    assert main(arguments(table, workload=None, all_kway="4", max_cells=str(10**13))) == 2
    said = capsys.readouterr().err
    assert "GB" in said or "GiB" in said or "bytes" in said or "TB" in said
    assert not (table / "out").exists()


INPUT = ["d.json", "t.csv", "w.json"]


def failing(error):
    """A function that raises this."""

    def fail(*args, **kwargs):
        raise error

    return fail


@pytest.mark.parametrize("module", ["pyarrow.parquet", "opendp.prelude", "duckdb"])
def test_a_missing_package_is_said_before_anything_is_spent(module, table, capsys, monkeypatch):
    monkeypatch.setattr(PrivateTable, "measure", failing(AssertionError("something was spent")))
    for name in [m for m in sys.modules if m == module or m.startswith(module + ".")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    opendp.opendp.cache_clear()
    assert main(arguments(table)) == 1
    assert "'pgmjax[" in capsys.readouterr().err
    assert sorted(os.listdir(table)) == INPUT


def test_seeded_noise_needs_no_opendp(table, monkeypatch):
    monkeypatch.setattr(job, "default_backend", failing(ImportError("no opendp")))
    assert main(arguments(table, insecure_seed="1", quiet=True)) == 0


def test_a_long_name_is_possible(table):
    assert main(arguments(table, out=table / ("n" * 250), quiet=True)) == 0


def resumable(table):
    partial = table / "out.partial"
    again = f"Run the same command again, or pgmjax release --resume {partial}"
    return f"the noisy answers are in {partial}. {again}: it continues from these answers at no further cost"


def test_interrupt_while_measuring_fitting_or_writing(table, capsys, monkeypatch):
    """The same command goes on each time; the noisy answers are those of its first turn."""
    cases = [
        (PrivateTable, "measure", "nothing was spent"),
        (Estimator, "fit", resumable(table)),
        (release_folder, "render", resumable(table)),
        (release_folder, "read", f"the release is at {table / 'out'}"),
    ]
    measured = []
    for owner, name, message in cases:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing(KeyboardInterrupt))
            assert main(arguments(table)) == 130
        assert capsys.readouterr().err == f"pgmjax: interrupted; {message}\n"
        assert sorted(set(os.listdir(table)) - {"out", "out.partial"}) == INPUT
        assert (table / "out").exists() == (name == "read")
        assert (table / "out.partial").exists() == (name in ("fit", "render"))
        measured += [parquet.read_table(path) for path in table.glob("*/measurements.parquet")]
    assert len(measured) == 3 and all(each.equals(measured[0]) for each in measured)


@pytest.mark.parametrize(("owner", "name"), [(SeededBackend, "laplace"), (Estimator, "fit")])
def test_a_signal_that_a_library_drops_is_heard(owner, name, table, capsys, monkeypatch):
    good = getattr(owner, name)

    def dropping(*args, **kwargs):
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        return good(*args, **kwargs)

    monkeypatch.setattr(owner, name, dropping)
    assert main(arguments(table, insecure_seed="1", mechanism="marginals")) == 130
    left = resumable(table) if name == "fit" else "nothing was spent"
    assert capsys.readouterr().err == f"pgmjax: interrupted; {left}\n"
    assert sorted(set(os.listdir(table)) - {"out.partial"}) == INPUT


@pytest.mark.parametrize("answer", ["local", "global"])
def test_a_baseline_answers_the_workload_in_place_of_the_model(answer, table, capsys):
    given = {"mechanism": "hdmm", "insecure_seed": "1"}
    words = [*arguments(table, **given), "--option", "strategy=identity", "--option", f"answer={answer}"]
    assert main(words) == 0
    assert f"answers  by {answer} least squares, not of the model" in capsys.readouterr().out
    saved = release_folder.read(table / "out")
    assert saved.record["answered_by"] == answer
    schema = parquet.read_schema(table / "out" / "answers.parquet")
    assert schema.metadata[b"answered_by"] == answer.encode() and schema.metadata[b"secure"] == b"false"
    estimates = saved.answers()["estimate"].to_pylist()
    if answer == "local":
        assert estimates == saved.measurements()["value"].to_pylist()
    else:
        assert sum(estimates[:-3]) == pytest.approx(sum(estimates[-3:]))


STAGES = [
    (Estimator, "fit", ValueError("too stiff."), "The fit failed: too stiff."),
    (release_folder, "_write_record", OSError("disk is full"), "The writing failed: disk is full."),
]


@pytest.mark.parametrize(("owner", "name", "error", "message"), STAGES, ids=["fit", "writing"])
def test_answers_that_were_paid_for_are_kept(owner, name, error, message, table, capsys, monkeypatch):
    monkeypatch.setattr(owner, name, failing(error))
    kept = []
    for _ in range(2):
        assert main(arguments(table, delta="1/1000")) == 1
        spent = "The budget is spent (epsilon = 1, delta = 0.001)"
        assert capsys.readouterr().err == f"pgmjax: {message} {spent}; {resumable(table)}.\n"
        kept.append(parquet.read_table(table / "out.partial" / "measurements.parquet"))
    assert sorted(os.listdir(table)) == sorted([*INPUT, "out.partial"])
    monkeypatch.undo()
    assert main(["release", "--resume", str(table / "out.partial"), "--rows", "7", "--quiet"]) == 0
    assert sorted(os.listdir(table)) == sorted([*INPUT, "out"])
    saved = release_folder.read(table / "out")
    kept.append(parquet.read_table(table / "out" / "measurements.parquet"))
    assert all(each.equals(kept[0]) for each in kept) and saved.record["spent"]["epsilon"] == "1"
    assert parquet.read_metadata(table / "out" / "synthetic.parquet").num_rows == 7
    names = {path.name for path in (table / "out").iterdir()}
    assert not names & {".run.json", "answers", ".lock", "command.json"}


def test_a_resumed_run_is_the_run_that_was_begun(table, capsys, monkeypatch):
    monkeypatch.setattr(Estimator, "fit", failing(KeyboardInterrupt))
    assert main(arguments(table)) == 130
    monkeypatch.undo()
    partial = str(table / "out.partial")
    for words, said in (
        (arguments(table, epsilon="2"), "pgmjax release --resume"),
        (["release", "--resume", partial, "--epsilon", "2"], "--epsilon was fixed when the run began"),
        (["release", "--resume", str(table)], "is not a folder that an interrupted release left"),
    ):
        capsys.readouterr()
        assert main(words) == 2 and said in capsys.readouterr().err
    before = (table / "t.csv").read_text()
    (table / "t.csv").write_text(before + before.splitlines()[-1] + "\n")
    assert main(["release", "--resume", partial]) == 2
    assert "out.partial" in capsys.readouterr().err
    (table / "t.csv").write_text(before)
    assert main(["release", "--resume", partial]) == 0


def test_weights_need_a_number_of_rows(table, capsys):
    """Two thousand records with weights asked for 10^9 synthetic rows."""
    words = arguments(table, weights="w", max_weight="5", rows=None)
    assert main(words) == 2
    assert "--rows is missing" in capsys.readouterr().err


def test_a_failure_while_measuring_says_that_the_budget_is_spent(table, capsys, monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", failing(OSError("Sekret")))
    assert main(arguments(table)) == 1
    said = capsys.readouterr().err
    assert "The budget is spent (epsilon = 1)" in said and "Sekret" not in said and said.count("\n") == 1
    assert sorted(os.listdir(table)) == INPUT


def test_another_folder_in_that_place_is_left_alone(table, capsys, monkeypatch):
    """Also one that is a release of its own, such as of `--out out.partial`."""
    (table / "out.partial").mkdir()
    (table / "out.partial" / "notes.txt").write_text("mine")
    monkeypatch.setattr(PrivateTable, "_answer", failing(AssertionError("something was spent")))
    assert main(arguments(table)) == 2
    assert "was not left by an interrupted release" in capsys.readouterr().err
    assert (table / "out.partial" / "notes.txt").read_text() == "mine"
    assert os.listdir(table / "out.partial") == ["notes.txt"]
    monkeypatch.undo()

    shutil.rmtree(table / "out.partial")
    assert main(arguments(table, out=table / "out.partial", quiet=True)) == 0
    before = sorted(os.listdir(table / "out.partial"))
    assert main(arguments(table, epsilon="2", quiet=True)) == 2
    assert sorted(os.listdir(table / "out.partial")) == before and not (table / "out").exists()


STOPPED = """
import sys, time
from pgmjax import cli
from pgmjax.estimation.estimator import Estimator
from pgmjax.release import folder as release_folder
fit = Estimator.fit
def long_fit(*args, **kwargs):
    fit(*args, **kwargs)
    print('started', flush=True)
    while True:
        fit(*args, **kwargs)
def long_writing(*args, **kwargs):
    print('started', flush=True)
    time.sleep(60)
if sys.argv.pop(1) == 'fit':
    Estimator.fit = long_fit
else:
    release_folder.render = long_writing
cli.run()
"""


@pytest.mark.parametrize(("name", "stage"), [("SIGINT", "fit"), ("SIGTERM", "writing")])
def test_a_signal_ends_a_real_run_without_a_trace(name, stage, table):
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, stage, *arguments(table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "started\n"
    assert any(part.endswith(".partial") for part in os.listdir(table))
    started = time.monotonic()
    process.send_signal(getattr(signal, name))
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - started < 20
    assert said == f"pgmjax: interrupted; {resumable(table)}\n"
    assert sorted(os.listdir(table)) == sorted([*INPUT, "out.partial"])
    measured = parquet.read_table(table / "out.partial" / "measurements.parquet")
    assert main(arguments(table, quiet=True)) == 0
    assert parquet.read_table(table / "out" / "measurements.parquet").equals(measured)


def test_a_reader_that_leaves_does_not_undo_the_release(table):
    """As in `pgmjax release ... | true`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pgmjax", *arguments(table)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.wait(timeout=120) == 0 and process.stderr.read() == b""
    assert (table / "out" / "release.json").exists()


def test_closed_standard_streams_do_not_undo_the_release(table, monkeypatch):
    """As in `pgmjax release ... >&- 2>&-`, where Python has None for both."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(arguments(table)) == 0
    assert (table / "out" / "release.json").exists()
    assert main(arguments(table)) == 2


@pytest.mark.slow
def test_demo_in_a_process_of_its_own(tmp_path):
    command = [
        sys.executable,
        "-m",
        "pgmjax",
        "release",
        "--demo",
        "--epsilon",
        "1",
        "--relation",
        "add-remove",
    ]
    done = subprocess.run(
        [*command, "--out", "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0 and done.stderr == ""
    assert str(tmp_path / "demo") in done.stdout and "GPL-3.0" in done.stdout
    record = release_folder.read(tmp_path / "demo").record
    assert abs(record["total"] - 53_940) < 2_000 and "ggplot2" in record["source"]
    assert (tmp_path / "demo" / "report.html").stat().st_size < 3_000_000


def test_fits_are_in_float64_unless_asked():
    """Small fits run on the host in float64 whatever is asked, so that only the option itself tells."""
    words = ["release", "t.csv", "--epsilon", "1", "--out", "o"]
    assert cli._parser().parse_args(words).dtype == "float64"
    assert cli._parser().parse_args([*words, "--dtype", "float32"]).dtype == "float32"
