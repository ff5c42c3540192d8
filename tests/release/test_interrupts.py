"""An interrupt at every draw of every mechanism: the same call goes on, and the budget is spent once."""

import itertools
import shutil
import threading
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax import mechanisms
from pgmjax.cli import main
from pgmjax.job import Job
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.release import run_folder
from pgmjax.release.run_folder import FolderJournal, OtherRun

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {"a": RNG.choice(list("xyz"), 300), "b": RNG.integers(0, 3, 300), "c": RNG.integers(0, 2, 300)}
)
DOMAIN = pj.Domain({"a": {"labels": ["x", "y", "z"]}, "b": 3, "c": 2})
RELATION = pj.Relation.REPLACE_ONE
OPTIONS = {
    "mst": {},
    "aim": {"rounds": 4},
    "batch-aim": {},
    "mwem": {"rounds": 2},
    "hdmm": {},
    "privbayes": {},
    "dual-query": {"samples": 5, "rounds": 3},
    "mldp": {},
    "marginals": {},
    "maximum-entropy": {},
    "auto": {},
    "randomized-response": {"useless": "answer"},
}
DRAWS = ("draw", "choose", "choose_several", "respond", "respond_bits")


class Source:
    """The draws of the secure backend, numbered; one of them can be interrupted, before it or after it."""

    def __init__(self, monkeypatch):
        self.number, self.stops, self.after = 0, None, False
        for name in DRAWS:
            monkeypatch.setattr(OpenDPBackend, name, self._numbered(getattr(OpenDPBackend, name)))

    def _numbered(self, draw):
        def numbered(backend, *given, **more):
            self.number += 1
            stops = self.number == self.stops
            if stops and not self.after:
                raise KeyboardInterrupt
            drawn = draw(backend, *given, **more)
            if stops:
                raise KeyboardInterrupt
            return drawn

        return numbered

    def begin(self, stops=None, after=False):
        self.number, self.stops, self.after = 0, stops, after


class Answers:
    """What a run is given at each step, and which of it was computed then."""

    def __init__(self, monkeypatch):
        self.given, self.computed = [], 0
        answer = FolderJournal.answer

        def noted(journal, request, compute):
            def counted():
                values = compute()
                self.computed += 1
                return values

            values = answer(journal, request, counted)
            self.given.append(values.tobytes())
            return values

        monkeypatch.setattr(FolderJournal, "answer", noted)

    def begin(self):
        self.given, self.computed = [], 0


def estimator(regularisation="auto"):
    return pj.Estimator(max_steps=15, progress=False, regularisation=regularisation)


def by_run(name, place):
    """A call of `Mechanism.run`; returns the exact cost."""
    table = pj.Dataset.from_frame(DOMAIN, FRAME)

    def call(regularisation="auto"):
        kind = mechanisms.names()[name]
        made = kind(epsilon=1, relation=RELATION, estimator=estimator(regularisation), **OPTIONS[name])
        return made.run(table, pj.Workload.all_kway(DOMAIN, 2), show_progress=False).spent.epsilon

    return call


def by_fit(name, place):
    """A call of `Synthesizer.fit`, each time of one object."""
    made = mechanisms.names()[name](epsilon=1, relation=RELATION, estimator=estimator(), **OPTIONS[name])
    synth = pj.Synthesizer(epsilon=1, relation=RELATION, mechanism=made)

    def call():
        return synth.fit(FRAME, DOMAIN, show_progress=False).release.spent.epsilon

    return call


def by_command(name, place):
    """A call of the command."""
    FRAME.to_csv(place / "t.csv", index=False)
    DOMAIN.write(place / "d.json")
    words = ["release", place / "t.csv", "--domain", place / "d.json", "--all-kway", "2", "--epsilon", "1"]
    words += ["--relation", RELATION.value, "--mechanism", name, "--steps", "15", "--rows", "20", "--quiet"]
    for option, value in OPTIONS[name].items():
        words += ["--option", f"{option}={value}"]

    def call(*more):
        code = main([*map(str, (*words, "--out", place / "out")), *more])
        if code == 130:
            raise KeyboardInterrupt
        assert code == 0
        return Fraction(pj.load(place / "out").record["spent"]["epsilon"])

    return call


def left():
    """The answers in the folders of unfinished runs."""
    return sorted(run_folder.place().glob("*/answers/*.npy"))


@pytest.mark.parametrize(("name", "front"), [*itertools.product(OPTIONS, (by_run, by_fit, by_command))])
def test_an_interrupt_at_any_draw(name, front, tmp_path, monkeypatch):
    source, answers, stop = Source(monkeypatch), Answers(monkeypatch), 0
    while True:
        stop += 1
        place = tmp_path / str(stop)
        place.mkdir()
        call = front(name, place)
        source.begin(stop, after=stop % 2 == 0)
        answers.begin()
        try:
            call()
            break  # it has fewer draws
        except KeyboardInterrupt as error:
            first, partial = answers.given, place / "out.partial"
            folder = partial if front is by_command else getattr(error, "folder", None)
            assert (folder is not None and folder.is_dir()) == bool(first)
            stored = [] if folder is None else sorted(folder.glob("answers/*.npy"))
            assert [np.load(path).tobytes() for path in stored] == first
        source.begin()
        answers.begin()
        assert call() <= 1
        assert answers.given[: len(first)] == first
        assert answers.computed == len(answers.given) - len(first)
        assert not left() and not partial.exists()
    assert stop > 1


def begun_synthesizer(monkeypatch, **changes):
    """A synthesizer whose fit was interrupted after its first draw."""
    source = Source(monkeypatch)
    made = pj.Synthesizer(**{"epsilon": 1, "relation": RELATION, "mechanism": "aim", **changes})
    source.begin(2)
    with pytest.raises(KeyboardInterrupt):
        made.fit(FRAME, DOMAIN, show_progress=False)
    source.begin()
    return made, source


def test_a_synthesizer_spends_once_whatever_comes_second(monkeypatch):
    synth, source = begun_synthesizer(monkeypatch)
    folder = synth.run_folder
    stored = {path: path.read_bytes() for path in folder.rglob("*.npy")}
    longer = pd.concat([FRAME, FRAME[:1]], ignore_index=True)
    coarser = pj.Domain({"a": {"labels": ["x", "y", "z"]}, "b": 3, "c": 3})
    for frame, domain, more in (
        (longer, DOMAIN, {}),
        (FRAME, coarser, {}),
        (FRAME, DOMAIN, {"workload": pj.Workload([["a"]])}),
        (FRAME[["a", "b", "c"]].astype({"a": "category"})[::-1].reset_index(drop=True), DOMAIN, {}),
    ):
        with pytest.raises(ValueError, match=r"its budget is spent \(epsilon = 1\)") as told:
            synth.fit(frame, domain, show_progress=False, **more)
        assert str(folder) in str(told.value) and synth.run_folder == folder
    for name, value in {
        "epsilon": 2,
        "mechanism": "mst",
        "insecure_seed": 3,
        "relation": "add-remove",
    }.items():
        before = synth.get_params()[name]
        with pytest.raises(ValueError, match="its budget is spent"):
            synth.set_params(**{name: value}).fit(FRAME, DOMAIN, show_progress=False)
        synth.set_params(**{name: before})
    assert source.number == 0 and stored == {path: path.read_bytes() for path in folder.rglob("*.npy")}
    assert synth.fit(FRAME, DOMAIN, show_progress=False).release.spent.epsilon == 1
    assert synth.run_folder is None and not left()
    with pytest.raises(ValueError, match=r"Synthesizer\(\*\*synth\.get_params"):
        synth.fit(FRAME, DOMAIN)


def test_a_synthesizer_whose_answers_are_gone_is_refused(monkeypatch):
    synth, source = begun_synthesizer(monkeypatch)
    shutil.rmtree(synth.run_folder)
    with pytest.raises(ValueError, match=r"its budget is spent .* a new one: Synthesizer"):
        synth.fit(FRAME, DOMAIN, show_progress=False)
    assert source.number == 0


def test_a_synthesizer_with_a_seed_does_not_go_on(monkeypatch):
    draw = SeededBackend.draw
    monkeypatch.setattr(SeededBackend, "draw", interrupting)
    synth = pj.Synthesizer(epsilon=1, relation=RELATION, mechanism="marginals", insecure_seed=1)
    with pytest.raises(KeyboardInterrupt):
        synth.fit(FRAME, DOMAIN)
    monkeypatch.setattr(SeededBackend, "draw", draw)
    with pytest.raises(ValueError, match=r"its budget is spent .* Make a new one"):
        synth.fit(FRAME, DOMAIN)
    assert synth.run_folder is None


def interrupting(*given, **more):
    raise KeyboardInterrupt


def test_a_refused_fit_leaves_a_synthesizer_as_it_was():
    synth = pj.Synthesizer(epsilon=1, relation=RELATION, mechanism="marginals")
    strange = FRAME.assign(a="w")
    with pytest.raises(ValueError, match=r"not in the domain|rows"):
        synth.fit(strange, DOMAIN, show_progress=False)
    assert synth.run_folder is None and not left()
    synth.fit(FRAME, DOMAIN, show_progress=False)


def test_a_failed_fit_goes_on_from_its_answers(monkeypatch):
    answers = Answers(monkeypatch)
    fit = pj.Estimator.fit
    monkeypatch.setattr(pj.Estimator, "fit", failing)
    synth = pj.Synthesizer(epsilon=1, relation=RELATION, mechanism="mst")
    with pytest.raises(pj.FitError, match="running the same again goes on") as told:
        synth.fit(FRAME, DOMAIN, show_progress=False)
    assert told.value.folder == synth.run_folder and told.value.measurements
    first = list(answers.given)
    monkeypatch.setattr(pj.Estimator, "fit", fit)
    answers.begin()
    synth.fit(FRAME, DOMAIN, show_progress=False)
    assert answers.given[: len(first)] == first and answers.computed == len(answers.given) - len(first)


def failing(*given, **more):
    raise MemoryError("the fit needs more")


def test_two_threads_fit_a_synthesizer_once(monkeypatch):
    ready, said = threading.Barrier(4), []
    synth = pj.Synthesizer(epsilon=1, relation=RELATION, mechanism="marginals")

    def fit():
        ready.wait()
        try:
            said.append(synth.fit(FRAME, DOMAIN, show_progress=False))
        except ValueError as error:
            said.append(str(error))

    threads = [threading.Thread(target=fit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [each for each in said if isinstance(each, str)]
    assert len(refused) == 3 and all("another" in each.lower() for each in refused)


def open_tables(place):
    """A call that finds open columns and goes on with the rest of the budget."""
    synth = pj.Synthesizer(epsilon=8, delta="1e-6", relation="add-remove", mechanism="marginals")
    frame = FRAME.assign(b=FRAME["b"] * 10)

    def call():
        return synth.fit(frame, discover="0.5", show_progress=False).release.spent.epsilon / 8

    return call


def charged(place):
    """A call of one run in a ledger by one object."""
    table = pj.Dataset.from_frame(DOMAIN, FRAME)
    ledger = pj.privacy.Ledger.create(place / "b.ledger")
    ledger.register("t", epsilon=9, relation=RELATION, digest=ledger.digest_of(table), domain=DOMAIN)
    synth = pj.Synthesizer(epsilon=1, relation=RELATION, mechanism="mst")

    def call():
        synth.fit(FRAME, DOMAIN, ledger=ledger, show_progress=False)
        assert [charge.cost for charge in ledger.charges("t")] == [1]
        ledger.verify().raise_if_bad()
        return synth.release.spent.epsilon

    return call


def every_record(order):
    def front(place):
        table = pj.Dataset.from_frame(DOMAIN, FRAME)
        made = mechanisms.RandomizedResponse(epsilon=3, relation=RELATION, useless="answer")

        def call():
            public = order == "table"
            found = made.perturb(table, row_order=order, row_order_is_public=public, out=place / "out")
            assert (place / "out").is_dir()
            return found.epsilon / 3

        return call

    return front


@pytest.mark.parametrize("front", [open_tables, charged, every_record("sorted"), every_record("table")])
def test_an_interrupt_at_any_draw_of_other_runs(front, tmp_path, monkeypatch):
    monkeypatch.setattr("pgmjax.privacy.responding._MOST_ROWS", 100)
    monkeypatch.setattr("pgmjax.privacy.responding._FEWEST_ROWS", 100)
    source, answers, stop = Source(monkeypatch), Answers(monkeypatch), 0
    while True:
        stop += 1
        place = tmp_path / str(stop)
        place.mkdir()
        call = front(place)
        source.begin(stop, after=stop % 2 == 0)
        answers.begin()
        try:
            call()
            break
        except KeyboardInterrupt as error:
            first = answers.given
            assert (getattr(error, "folder", None) is not None) == bool(first)
        source.begin()
        answers.begin()
        assert call() <= 1
        assert answers.given[: len(first)] == first
        assert answers.computed == len(answers.given) - len(first)
        assert not left()
    assert stop > 2


def test_a_discovery_that_allows_no_run_spends_once(monkeypatch):
    """The domain that was found may not allow the run: a second fit is no other one."""
    source, answers = Source(monkeypatch), Answers(monkeypatch)
    synth = pj.Synthesizer(epsilon=8, delta="1e-6", relation="add-remove", mechanism="marginals")
    frame = FRAME.assign(b=FRAME["b"] * 10)
    asked = pj.queries.workload.KWay(3, 2)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"3-way.*max_cells"):
            synth.fit(frame, discover="0.5", workload=asked, show_progress=False)
    drawn = source.number
    with pytest.raises(ValueError, match="its budget is spent"):
        synth.fit(frame, discover="0.4", show_progress=False)
    assert source.number == drawn and answers.computed == len(answers.given) // 2


def test_an_attempt_goes_on_with_the_run_that_was_begun_or_not_at_all():
    """Another request under the same budget would be a second run, and so would answers drawn anew."""
    data = pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0, 1, 1]})
    first = run_folder.UnfinishedRun()
    first.bind({"asked": "one thing"}, data)
    first.begun = first.answered = True
    first.close()
    with pytest.raises(OtherRun, match="asked for something else"):
        run_folder.UnfinishedRun(first).bind({"asked": "another"}, data)
    again = run_folder.UnfinishedRun(first)
    again.bind({"asked": "one thing"}, data)
    assert again.folder == first.folder
    again.close()
    shutil.rmtree(first.folder)
    with pytest.raises(OtherRun, match="which is gone"):
        run_folder.UnfinishedRun(first).bind({"asked": "one thing"}, data)
    assert not first.folder.exists()


def test_what_an_interrupt_left_is_what_is_there(tmp_path, monkeypatch):
    """Nothing is promised of answers that are not there, or of a charge that may not have been made."""
    out = tmp_path / "o"
    job = Job(epsilon=1, relation="replace-one")
    assert job.after_interrupt(out) == "interrupted; nothing was spent"
    assert "it is charged only once" in job.after_interrupt(out, charged=True)
    with monkeypatch.context() as drawn:
        drawn.setattr(Job, "drawn", True)
        assert "under the same charge in the ledger" in job.after_interrupt(out, charged=True)
    answers = tmp_path / "o.partial" / "answers"
    answers.mkdir(parents=True)
    assert job.after_interrupt(out) == "interrupted; nothing was spent"
    (answers / "1.npy").touch()
    assert "continues from these answers" in job.after_interrupt(out)
