"""A run's folder: nothing that was paid for is lost, drawn again or mixed with another run's."""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import threading

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax._internal import files
from pgmjax.cli import main
from pgmjax.mechanisms import RunFolder
from pgmjax.privacy import IdempotencyConflict, Ledger, PrivateTable
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.release import run_folder
from pgmjax.release.run_folder import NotKept

ADD = pj.Relation.ADD_REMOVE
RNG = np.random.default_rng(3)
DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
DATA = pj.Dataset.from_columns(DOMAIN, {name: RNG.integers(DOMAIN[name], size=200) for name in DOMAIN})
WORKLOAD = pj.Workload.all_kway(DOMAIN, 2)
FAST = pj.Estimator(max_steps=20, progress=False)


def mechanism(name, epsilon=2):
    made = {"marginals": pj.mechanisms.Marginals, "aim": pj.mechanisms.AIM, "mst": pj.mechanisms.MST}[name]
    return made(epsilon=epsilon, relation=ADD, estimator=FAST)


@contextlib.contextmanager
def interrupted_after(monkeypatch, number):
    """Let so many fits be made in the block, and interrupt the next."""
    fit, fits = pj.Estimator.fit, []

    def counted(self, *given, **more):
        fits.append(1)
        if len(fits) > number:
            raise KeyboardInterrupt
        return fit(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(pj.Estimator, "fit", counted)
        yield


def stopped_after(monkeypatch, number, call):
    """Run until so many fits were made, and interrupt the next."""
    with interrupted_after(monkeypatch, number), pytest.raises(KeyboardInterrupt):
        call()


@pytest.mark.parametrize("in_a_ledger", [False, True])
@pytest.mark.parametrize(("name", "fits"), [("marginals", 0), ("mst", 0), ("aim", 1), ("aim", 3)])
def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch, name, fits, in_a_ledger):
    with Ledger.create(tmp_path / "b.ledger") as ledger:
        ledger.register("t", epsilon=2, relation=ADD, digest=ledger.digest_of(DATA), domain=DOMAIN)
        more = {"ledger": ledger if in_a_ledger else None}
        begun = RunFolder(tmp_path / "run")
        stopped_after(monkeypatch, fits, lambda: mechanism(name).run(DATA, WORKLOAD, folder=begun, **more))
        begun.close()
        stored = {path.name: path.read_bytes() for path in (tmp_path / "run" / "answers").iterdir()}
        measured = parquet.read_table(tmp_path / "run" / "measurements.parquet")["value"].to_pylist()
        assert stored and measured
        draws, draw = [], OpenDPBackend.draw
        monkeypatch.setattr(
            OpenDPBackend, "draw", lambda self, *given: draws.append(given[1]) or draw(self, *given)
        )
        release = mechanism(name).run(DATA, WORKLOAD, folder=RunFolder(tmp_path / "run"), **more)
        values = np.concatenate([m.flat_values() for m in release.measurements]).tolist()
        assert values[: len(measured)] == measured and sum(draws) == len(values) - len(measured)
        assert all((tmp_path / "run" / "answers" / n).read_bytes() == kept for n, kept in stored.items())
        assert release.spent.epsilon <= 2 and len(ledger.charges("t")) == in_a_ledger


def test_a_folder_is_of_one_run_and_one_table(tmp_path):
    folder = RunFolder(tmp_path)
    mechanism("marginals").run(DATA, WORKLOAD, folder=folder)
    with pytest.raises(ValueError, match="Another process is using"):
        RunFolder(tmp_path)
    with pytest.raises(ValueError, match="holds the answers of another run"):
        mechanism("marginals", epsilon=3).run(DATA, WORKLOAD, folder=folder)
    rows = {name: np.append(RNG.integers(DOMAIN[name], size=200), 0) for name in DOMAIN}
    with pytest.raises(ValueError, match="are about another table"):
        mechanism("marginals").run(pj.Dataset.from_columns(DOMAIN, rows), WORKLOAD, folder=folder)
    assert (tmp_path / ".run.json").stat().st_mode & 0o077 == 0


def test_an_answer_is_on_disk_before_it_is_used(tmp_path, monkeypatch):
    folder, seen = RunFolder(tmp_path), []
    measure = PrivateTable.measure

    def watched(self, *given, **more):
        found = measure(self, *given, **more)
        seen.append(folder.answers)
        return found

    monkeypatch.setattr(PrivateTable, "measure", watched)
    mechanism("aim").run(DATA, WORKLOAD, folder=folder)
    assert seen[0] == 1 and all(one < two for one, two in itertools.pairwise(seen))


def test_an_answer_to_another_request_is_not_played_back(tmp_path):
    folder = RunFolder(tmp_path)
    journal = folder.journal(None)
    assert journal.answer({"ask": 1}, lambda: np.array([5])).tolist() == [5]
    again = folder.journal(None)
    assert again.holds({"ask": 1}) and not again.holds({"ask": 2})
    with pytest.raises(IdempotencyConflict, match="holds the answer to another request"):
        again.answer({"ask": 2}, lambda: np.array([6]))
    assert again.answer({"ask": 1}, lambda: np.array([6])).tolist() == [5]


ADAPTIVE = {
    "aim": {"rounds": 6},
    "batch-aim": {},
    "mwem": {"rounds": 3},
    "mst": {},
    "auto": {"max_cells": 20},
    "privbayes": {},
}
OTHERS = (
    {"regularisation": "none"},
    {"max_steps": 1},
    {"dtype": "float64", "solver": "mirror_descent"},
    {"loss": "l1", "tol": 0.01},
)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_run_goes_on_with_other_settings_of_the_fit(tmp_path, monkeypatch, name):
    """Rounds decide by the settings that the run began with: no step becomes another one."""
    relation = pj.Relation.REPLACE_ONE
    kind = pj.mechanisms.names()[name]
    rng = np.random.default_rng(0)
    a = rng.integers(3, size=400)
    table = pj.Dataset.from_columns(DOMAIN, {"a": a, "b": a, "c": a % 2})

    def run(**settings):
        chosen = pj.Estimator(progress=False, **{"max_steps": 20, **settings})
        made = kind(epsilon=3, relation=relation, estimator=chosen, **ADAPTIVE[name])
        return made.run(table, WORKLOAD, show_progress=False)

    given, answer = [], run_folder.FolderJournal.answer

    def interrupted(journal, request, compute):
        values = answer(journal, request, compute)
        given.append((json.dumps(request, sort_keys=True), values.tolist()))
        if len(given) > done:
            raise KeyboardInterrupt
        return values

    monkeypatch.setattr(run_folder.FolderJournal, "answer", interrupted)
    seen = []
    for done in itertools.count():
        given.clear()
        try:
            release = run(**(OTHERS[done % len(OTHERS)] if done else {}))
            break
        except KeyboardInterrupt:
            assert given[:-1] == seen
            seen = list(given)
    assert given == seen and done > 1 and release.spent.epsilon == 3
    assert not any(run_folder.place().iterdir())


def test_the_last_fit_takes_the_new_settings(monkeypatch):
    began = pj.Estimator(max_steps=20, progress=False)
    stopped_after(monkeypatch, 2, lambda: mechanism("aim").run(DATA, WORKLOAD))
    settings, fit = [], pj.Estimator.fit

    def noted(self, *given, **more):
        settings.append((self.regularisation, self.dtype))
        return fit(self, *given, **more)

    monkeypatch.setattr(pj.Estimator, "fit", noted)
    now = pj.Estimator(max_steps=20, progress=False, regularisation="none", dtype="float64")
    release = pj.mechanisms.AIM(epsilon=2, relation=ADD, estimator=now).run(DATA, WORKLOAD)
    assert settings[-1] == ("none", "float64")
    assert set(settings[:-1]) == {(began.regularisation, began.dtype)}
    assert release.fit.regularisation is None


def test_rounds_of_a_loss_that_is_an_object_need_it_again(tmp_path, monkeypatch):
    def squares(marginals):
        return sum(((each - 10.0) ** 2).sum() for each in marginals.values())

    own = pj.Estimator(max_steps=5, progress=False, loss=squares)
    folder = tmp_path / "run"
    made = pj.mechanisms.AIM(epsilon=2, relation=ADD, estimator=own)
    begun = RunFolder(folder)
    stopped_after(monkeypatch, 1, lambda: made.run(DATA, WORKLOAD, folder=begun))
    begun.close()
    with pytest.raises(ValueError, match=r"began with the loss .* give an estimator with this loss"):
        mechanism("aim").run(DATA, WORKLOAD, folder=RunFolder(folder))


def other(words, option, value):
    """The same command with another value of an option."""
    place = words.index(option) + 1
    return [*words[:place], value, *words[place + 1 :]]


BINDINGS = {
    "epsilon": lambda words: other(words, "--epsilon", "2"),
    "delta": lambda words: [*words, "--delta", "1e-6"],
    "relation": lambda words: ["replace-one" if word == "add-remove" else word for word in words],
    "rows outside": lambda words: [*words, "--rows-outside", "clip"],
    "header": lambda words: [*words, "--no-header"],
    "encoding": lambda words: [*words, "--encoding", "latin-1"],
    "unit": lambda words: [*words, "--unit", "who", "--max-records", "2"],
    "weights": lambda words: [*words, "--weights", "w", "--max-weight", "3"],
    "table": lambda words: ["other.csv" if word == "t.csv" else word for word in words],
    "domain": lambda words: ["other.json" if word == "d.json" else word for word in words],
    "workload": lambda words: ["1" if word == "2" else word for word in words],
    "noise": lambda words: [*words, "--insecure-seed", "1"],
    "ledger": lambda words: [*words, "--ledger", "b.ledger"],
}


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """The words of a command that was interrupted after its measurement, in a folder with its files."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 3},{i % 4},{i % 2},{i},1" for i in range(200)]
    for name in ("t.csv", "other.csv"):
        (tmp_path / name).write_text("a,b,c,who,w\n" + "\n".join(rows) + "\n")
    DOMAIN.write("d.json")
    pj.Domain({"a": 3, "b": 5, "c": 2}).write("other.json")
    with Ledger.create("b.ledger"):
        pass
    words = ["release", "t.csv", "--domain", "d.json", "--epsilon", "1", "--relation", "add-remove"]
    words += [
        "--mechanism",
        "aim",
        "--all-kway",
        "2",
        "--steps",
        "5",
        "--rows",
        "9",
        "--out",
        "out",
        "--quiet",
    ]

    def stopped(*given, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pj.Estimator, "fit", stopped)
        assert main(words) == 130
    return words


@pytest.mark.parametrize("what", BINDINGS)
def test_a_command_of_another_run_is_refused_before_it_spends(begun, what, monkeypatch, capsys):
    stored = {path: path.read_bytes() for path in pathlib.Path("out.partial").rglob("*.npy")}
    capsys.readouterr()
    with monkeypatch.context() as patch:
        for name in ("draw", "choose"):
            patch.setattr(OpenDPBackend, name, lambda *given: pytest.fail("noise was drawn"))
        assert main(BINDINGS[what](begun)) == 2
    said = capsys.readouterr().err
    assert "another run" in said or (what == "header" and "5 columns" in said)
    assert stored == {path: path.read_bytes() for path in pathlib.Path("out.partial").rglob("*.npy")}
    assert main(begun) == 0


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        (["--regularisation", "none"], 2),
        (["--steps", "2"], 0),
        (["--dtype", "float64"], 2),
        (["--solver", "lbfgs", "--regularisation", "none"], 2),
        (["--rows", "3", "--synthetic", "csv", "--codes"], 0),
        (["--method", "multinomial"], 2),
    ],
)
def test_what_may_change_does_not_stop_a_run(begun, changes, fits, monkeypatch):
    """Changed settings that fail are not kept, and those that succeed are those of the release."""
    before = run_folder.command_in(pathlib.Path("out.partial"))
    with interrupted_after(monkeypatch, fits):
        assert main(["release", "--resume", "out.partial", *changes, "--quiet"]) == 130
    assert run_folder.command_in(pathlib.Path("out.partial")) == before
    assert main(["release", "--resume", "out.partial", *changes, "--quiet"]) == 0
    assert "out" in os.listdir() and "out.partial" not in os.listdir()


def test_a_folder_in_python_is_of_one_way_to_read_a_file(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,b,c\n" + "".join(f"{i % 3},{i % 4},{i % 2}\n" for i in range(200)))
    again = tmp_path / "u.csv"
    again.write_bytes(file.read_bytes())
    folder = RunFolder(tmp_path / "run")
    mechanism("marginals").run(pj.Dataset.read(file, DOMAIN), WORKLOAD, folder=folder)
    others = [
        pj.Dataset.read(again, DOMAIN),
        pj.Dataset.read(file, DOMAIN, rows_outside="clip"),
        pj.Dataset.read(file, DOMAIN, encoding="latin-1"),
        pj.Dataset.from_columns(DOMAIN, {name: np.arange(200) % DOMAIN[name] for name in DOMAIN}),
    ]
    for data in others:
        with pytest.raises(ValueError, match="holds the answers of another run"):
            mechanism("marginals").run(data, WORKLOAD, folder=folder)
    mechanism("marginals").run(pj.Dataset.read(file, DOMAIN), WORKLOAD, folder=folder)
    assert "t.csv" not in (tmp_path / "run" / ".run.json").read_text()


def test_threads_share_a_folder_one_after_another(tmp_path, monkeypatch):
    folder, inside, go_on, said = RunFolder(tmp_path), threading.Event(), threading.Event(), []
    draw = OpenDPBackend.draw

    def slow(self, *given):
        inside.set()
        assert go_on.wait(60)
        return draw(self, *given)

    monkeypatch.setattr(OpenDPBackend, "draw", slow)
    first = threading.Thread(
        target=lambda: said.append(mechanism("marginals").run(DATA, WORKLOAD, folder=folder))
    )
    first.start()
    assert inside.wait(60)
    with pytest.raises(ValueError, match="Another run of this process is using"):
        mechanism("marginals").run(DATA, WORKLOAD, folder=folder)
    go_on.set()
    first.join()
    again = mechanism("marginals").run(DATA, WORKLOAD, folder=folder)
    assert np.array_equal(again.measurements[0].values, said[0].measurements[0].values)


def test_threads_of_one_table_draw_no_step_twice(tmp_path):
    """Eight threads ask a table the same, all at once: each answer is drawn once, for a step of its own."""
    folder = RunFolder(tmp_path)
    folder.bind({}, DATA)
    table = PrivateTable(DATA, ADD, pj.privacy.Budget(100), None, folder.journal(None))
    ready, found = threading.Barrier(8), []

    def ask():
        ready.wait()
        for _ in range(5):
            found.append(table.measure([pj.queries.marginal(["a"])], epsilons=[1])[0].values.tolist())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = [np.load(path).tolist() for path in sorted((tmp_path / "answers").iterdir())]
    assert len(stored) == 40 and sorted(stored) == sorted(found) and table.budget.spent == 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_does_not_spend_with_its_parents_folder(tmp_path):
    folder = RunFolder(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            mechanism("marginals").run(DATA, WORKLOAD, folder=folder)
        except RuntimeError as error:
            os._exit(42 if "made by a fork" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42 and folder.answers == 0


def test_runs_at_the_same_time_are_independent(monkeypatch):
    """The same call in two threads is two runs: each has a folder and noise of its own."""
    ready, found, draw = threading.Barrier(2), [], OpenDPBackend.draw

    def together(self, *given):
        ready.wait(60)
        return draw(self, *given)

    monkeypatch.setattr(OpenDPBackend, "draw", together)
    threads = [
        threading.Thread(target=lambda: found.append(mechanism("marginals").run(DATA, WORKLOAD)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one, two = (release.measurements[0].flat_values() for release in found)
    assert not np.array_equal(one, two) and not any(run_folder.place().iterdir())


def test_a_folder_of_an_unfinished_run_is_of_its_table(monkeypatch):
    stopped_after(monkeypatch, 0, lambda: mechanism("marginals").run(DATA, WORKLOAD))
    rows = {name: RNG.integers(DOMAIN[name], size=200) for name in DOMAIN}
    mechanism("marginals").run(pj.Dataset.from_columns(DOMAIN, rows), WORKLOAD)
    (left,) = run_folder.place().iterdir()
    (stored,) = left.glob("answers/*.npy")
    values, mode = np.load(stored).tolist(), left.stat().st_mode
    release = mechanism("marginals").run(DATA, WORKLOAD)
    assert np.concatenate([each.flat_values() for each in release.measurements]).tolist() == values
    assert mode & 0o077 == 0 and not left.exists()


def test_noise_of_a_seed_and_a_ledgers_run_have_no_folder(tmp_path, monkeypatch):
    with Ledger.create(tmp_path / "b.ledger") as ledger:
        ledger.register("t", epsilon=2, relation=ADD, digest=ledger.digest_of(DATA), domain=DOMAIN)
        monkeypatch.setattr(run_folder.UnfinishedRun, "bind", lambda *given: pytest.fail("a folder was made"))
        mechanism("marginals").run(DATA, WORKLOAD, ledger=ledger)
    seeded = SeededBackend(1, insecure=True)
    pj.mechanisms.Marginals(epsilon=1, relation=ADD, estimator=FAST, backend=seeded).run(DATA, WORKLOAD)
    synth = pj.Synthesizer(epsilon=1, relation=ADD, insecure_seed=1, mechanism="marginals")
    synth.fit(pd.DataFrame({"a": [0, 1] * 9}), {"a": 2})
    assert not run_folder.place().exists() and synth.run_folder is None


def test_a_place_that_cannot_be_written_is_said_before_spending(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(OpenDPBackend, "draw", lambda *given: pytest.fail("noise was drawn"))
    with pytest.raises(ValueError, match=r"cannot be written.*XDG_STATE_HOME.*Nothing was spent"):
        mechanism("marginals").run(DATA, WORKLOAD)


@pytest.mark.parametrize(
    ("name", "every"), [("marginals", 1), ("aim", 5), pytest.param("aim", 1, marks=pytest.mark.slow)]
)
def test_a_full_disk_at_any_write(tmp_path, monkeypatch, name, every):
    """The n-th time that something is put on disk fails, for every n: the same call goes on."""
    fsync, given, answer = os.fsync, [], run_folder.FolderJournal.answer
    calls, fails = 0, 0

    def full(handle):
        nonlocal calls
        calls += 1
        if calls == fails:
            raise OSError(28, "No space left on device")
        fsync(handle)

    def noted(journal, request, compute):
        given.append(answer(journal, request, compute).tolist())
        return np.array(given[-1])

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(run_folder.FolderJournal, "answer", noted)
    for fails in itertools.count(1, every):
        folder, calls = RunFolder(tmp_path / str(fails)), 0
        given.clear()
        try:
            mechanism(name).run(DATA, WORKLOAD, folder=folder)
            break
        except (ValueError, NotKept) as error:
            assert "No space left on device" in str(error)
        first = list(given)
        given.clear()
        mechanism(name).run(DATA, WORKLOAD, folder=folder)
        assert given[: len(first)] == first and not list(folder.folder.rglob(".*.partial"))
    assert fails > 5


def test_the_secret_of_a_run_does_not_follow_from_what_is_public(tmp_path):
    keys = []
    for name in "ab":
        folder = RunFolder(tmp_path / name)
        folder.bind({"mechanism": "MST"}, DATA)
        keys.append(folder.key())
    assert len(set(keys)) == 2 and min(map(len, keys)) == 32


def test_no_log_line_gives_the_number_of_records(tmp_path, caplog):
    rows = 7919  # in no other number of the run
    data = pj.Dataset.from_columns(DOMAIN, {name: np.zeros(rows, np.int64) for name in DOMAIN})
    caplog.set_level("DEBUG")
    for name in ("marginals", "mst", "aim"):
        mechanism(name, epsilon="0.01").run(data, WORKLOAD, folder=RunFolder(tmp_path / name))
    said = caplog.text.replace(",", "")
    assert "begun" in said and str(rows) not in said


@pytest.mark.parametrize("name", ["marginals", "mst"])
def test_measurements_of_an_unfinished_run_say_of_which_noise_they_are(tmp_path, monkeypatch, name):
    for seed, of_seed in ((3, b"3"), (None, None)):
        folder, secure = RunFolder(tmp_path / f"{name}-{seed}"), seed is None
        backend = None if seed is None else SeededBackend(seed, insecure=True)
        made = dataclasses.replace(mechanism(name), backend=backend)
        stopped_after(
            monkeypatch, 0, lambda made=made, folder=folder: made.run(DATA, WORKLOAD, folder=folder)
        )
        marks = parquet.read_schema(folder.folder / run_folder.MEASUREMENTS).metadata
        assert marks[b"secure"] == str(secure).lower().encode() and marks.get(b"seed") == of_seed
        assert {each["secure"] for each in json.loads(marks[b"inputs"])} == {secure}
        assert folder.secure is secure
        assert (folder.folder / run_folder.MEASUREMENTS).stat().st_mode & 0o077 == 0


def test_a_kill_before_the_first_answer_leaves_no_release(tmp_path, monkeypatch):
    """The name of the release is tried elsewhere, so that the same command can be given again."""
    made, make = [], os.mkdir
    monkeypatch.setattr(os, "mkdir", lambda path, *mode: (made.append(pathlib.Path(path)), make(path, *mode)))
    RunFolder.beside(tmp_path / "out", {}, {}).close()
    assert made and tmp_path / "out" not in made
    assert os.listdir(tmp_path) == ["out.partial"]


def test_what_a_kill_left_of_an_answer_is_swept(tmp_path):
    (tmp_path / "run" / "answers").mkdir(parents=True)
    (tmp_path / "run" / "answers" / ".000000-x-secure.npy.partial").write_bytes(b"half")
    RunFolder(tmp_path / "run").close()
    assert os.listdir(tmp_path / "run" / "answers") == []


def test_a_folder_that_its_run_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    """The lock of a folder without a name keeps nobody out of the one that has the name now."""
    lock, ended = files.try_lock, []

    def late(path):
        handle = lock(path)
        if not ended:
            ended.append(path)
            shutil.rmtree(path)
        return handle

    monkeypatch.setattr(files, "try_lock", late)
    folder = RunFolder(tmp_path / "run")
    assert folder.folder.is_dir()
    with pytest.raises(ValueError, match="Another process is using"):
        RunFolder(tmp_path / "run")


def test_a_folder_is_as_secure_as_its_worst_answer(tmp_path):
    folder = RunFolder(tmp_path / "run")
    for number, secure in enumerate((True, False, True)):
        folder.store(number, "x", np.array([number]), secure)
        assert folder.secure is (number == 0)
        assert folder.step(number, "x") == (np.array([number]), secure)
    said = folder.folder / "answers" / "000000-x-secure.npy"
    said.rename(said.with_name("000000-x.npy"))  # a name that does not say it
    assert folder.step(0, "x") == (np.array([0]), False)


@pytest.mark.parametrize(("error", "begun"), [(ValueError, False), (KeyboardInterrupt, True)])
def test_a_run_that_is_refused_has_not_begun(tmp_path, error, begun):
    """One that is interrupted may have been charged."""

    class Refusing:
        def begin(self, *given):
            raise error

    folder = RunFolder(tmp_path / "run")
    with pytest.raises(error):
        folder.journal(Refusing()).begin(object(), None, ADD, True)
    assert folder.begun is begun


def test_the_answers_go_when_the_release_is_on_disk(begun, monkeypatch, on_disk):
    """A power cut after the command left a release without contents, and its answers were gone."""
    dropped, drop = [], files.drop

    def checked(folder):
        out = pathlib.Path("out").absolute()
        dropped.append([str(path) for path in [*out.rglob("*"), out, out.parent] if not on_disk(path)])
        drop(folder)

    monkeypatch.setattr(files, "drop", checked)
    assert main(begun) == 0
    assert dropped == [[]]


def test_an_answer_is_on_disk_with_the_folders_above_it(tmp_path, on_disk):
    folder = RunFolder(tmp_path / "new" / "run")
    folder.store(0, "x", np.array([1]), True)
    (answer,) = folder.folder.rglob("*.npy")
    assert all(map(on_disk, [answer, *list(answer.parents)[:4]]))
