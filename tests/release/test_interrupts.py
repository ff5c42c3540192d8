"""An interrupt at every draw of every mechanism: the same call goes on, and the budget is spent once."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax import mechanisms
from pgmjax.cli import main
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.release import unfinished
from pgmjax.release.run_folder import FolderJournal

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
    return sorted(unfinished.place().glob("*/answers/*.npy"))


@pytest.mark.parametrize("front", [by_run, by_fit, by_command])
@pytest.mark.parametrize("name", OPTIONS)
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
