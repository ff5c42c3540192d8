"""The tables, contexts and releases that the crossed tests share: each release is made once."""

import contextlib
import dataclasses
import functools
import io
import itertools
import json
import pathlib
import shutil

import numpy as np
import pandas

import pgmjax as pj
from pgmjax import mechanisms
from pgmjax.cli import main
from pgmjax.data.dataset import Dataset
from pgmjax.release.folder import SavedRelease

EPSILON, DELTA, SEED = "8", "0.000001", "3"
LABELS = {"a": ["x", "y", "z"], "b": ["no", "yes"], "c": ["0 to 1", "2 to 3", "4 to 5", "6 to 7"]}
DOMAIN = {"a": {"labels": LABELS["a"]}, "b": {"labels": LABELS["b"]}, "c": {"min": 0, "max": 7, "step": 2}}
PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]
PERTURB = "perturb"
OPTIONS = {"randomized-response": {"useless": "answer"}, "aim": {"rounds": 5}}
MECHANISMS = [*mechanisms.names(), PERTURB]
CONTEXTS = ["plain", "unit", "drop", "clip", "weights", "discovery"]
CONTEXTS += ["unit+drop", "weights+clip", "unit+discovery", "unit+drop+counted"]
NO_WEIGHTS = ("dual-query", "privbayes", "randomized-response", PERTURB)
ONLY_REPLACE = NO_WEIGHTS
NO_DISCOVERY = ("dual-query", "randomized-response", PERTURB)
_COLUMNS = {"unit": "id", "weights": "w"}


def has(context, *kinds):
    """Return whether a context is of one of some kinds."""
    return not set(kinds).isdisjoint(context.split("+"))


def frames():
    """Return the table of each context, in which all records of a person are alike."""
    rng = np.random.default_rng(0)
    people = 120
    a = rng.choice(LABELS["a"], people, p=[0.5, 0.3, 0.2])
    b = np.where((a == "x") | (rng.random(people) < 0.4), "no", "yes")
    c, number, weight = rng.integers(0, 8, people), rng.integers(1, 5, people), rng.integers(1, 4, people)
    whole = pandas.DataFrame({"id": np.arange(people), "w": weight, "a": a, "b": b, "c": c})
    whole = whole.loc[np.repeat(np.arange(people), number)].reset_index(drop=True)
    made = {}
    for name in CONTEXTS:
        frame = whole.copy()
        if has(name, "drop"):
            frame.loc[frame["id"] % 17 == 0, "a"] = "elsewhere"
        if has(name, "drop", "clip"):
            frame.loc[frame["id"] % 13 == 0, "c"] = 99
        more = [column for kind, column in _COLUMNS.items() if has(name, kind)]
        made[name] = frame[[*more, "a", "b", "c"]]
    return made


FRAMES = frames()


def counted(context):
    """Return the records that count within a unit of privacy."""
    frame = FRAMES[context]
    return frame.groupby("id").head(2) if has(context, "unit") else frame


def truth(context):
    """Return the exact counts over a, b, c of what counts, by pandas alone [3, 2, 4]."""
    frame = counted(context).copy()
    if has(context, "drop"):
        frame = frame[frame["a"].isin(LABELS["a"]) & (frame["c"] <= 7)]
    frame["c"] = np.minimum(frame["c"], 7) // 2
    weight = frame["w"] if has(context, "weights") else pandas.Series(1, frame.index)
    counts = weight.groupby([frame["a"], frame["b"], frame["c"]]).sum()
    cells = itertools.product(LABELS["a"], LABELS["b"], range(4))
    return np.array([counts.get(cell, 0) for cell in cells], float).reshape(3, 2, 4)


@dataclasses.dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def call(*words):
    """Run `pgmjax` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Said(code, out.getvalue(), err.getvalue())


class CommandError(Exception):
    """A command failed: its exit code, and what it said."""

    def __init__(self, code, said):
        super().__init__(said)
        self.code = code


def good(*words):
    """Run `pgmjax`, which must succeed.

    Raises:
        CommandError: it failed.
    """
    said = call(*words)
    if said.code:
        raise CommandError(said.code, f"{said.err}\n{' '.join(map(str, words))}")
    return said


@dataclasses.dataclass(frozen=True)
class World:
    """A folder with the tables, in which releases are made.

    Attributes:
        folder: the folder.
    """

    folder: pathlib.Path

    @classmethod
    def at(cls, folder):
        for name, frame in FRAMES.items():
            frame.to_csv(folder / f"{name}.csv", index=False)
        (folder / "domain.json").write_text(json.dumps(DOMAIN))
        (folder / "open.json").write_text(json.dumps(dict.fromkeys(DOMAIN, "discover")))
        (folder / "one.json").write_text(json.dumps([["a"]]))
        return cls(folder)

    def __hash__(self):
        return hash(self.folder)

    @staticmethod
    def relation(mechanism):
        return "replace-one" if mechanism in ONLY_REPLACE else "add-remove"

    def delta(self, context):
        return DELTA if has(context, "discovery") else "0"

    def words(self, mechanism, context, *, ledger=False, workload=None):
        """Return the words of the command that makes a release, without where it goes and its noise."""
        given = ["perturb" if mechanism == PERTURB else "release", self.folder / f"{context}.csv"]
        given += ["--epsilon", EPSILON, "--relation", self.relation(mechanism)]
        if mechanism == PERTURB:
            given += ["--each", "--useless", "answer"]
        else:
            given += ["--mechanism", mechanism, "--steps", "300"]
            given += ["--all-kway", "2"] if workload is None else ["--workload", workload]
            given += ["--rows", "40"] if has(context, "weights") else []
        given += ["--count-left-out", "0.1", "--largest-unit", "4"] if has(context, "counted") else []
        for name, value in OPTIONS.get(mechanism, {}).items():
            given += ["--option", f"{name}={value}"]
        if has(context, "discovery"):
            return [*given, "--discover", "0.3", "--delta", DELTA, *self.defined(context)]
        return [*given, "--domain", self.folder / "domain.json", *self.defined(context, ledger)]

    def defined(self, context, ledger=False):
        """Return the words that define a table, without those that its holder fixes in a ledger."""
        unit, weights = ["--unit", "id", "--max-records", "2"], ["--weights", "w", "--max-weight", "3"]
        words = {"unit": unit, "weights": weights}
        if not ledger:
            words |= {kind: ["--rows-outside", kind] for kind in ("drop", "clip")}
        return [word for kind in context.split("+") for word in words.get(kind, [])]

    @functools.cache  # noqa: B019 one world to a run of the tests
    def out(self, mechanism, context):
        """Return the folder of the release, made by the first test that needs it."""
        place = self.folder / f"{mechanism}-{context}"
        said = good(*self.words(mechanism, context), "--insecure-seed", SEED, "--out", place, "--json")
        (self.folder / f"{place.name}.printed").write_text(said.out)
        return place

    def copy(self, mechanism, context, name):
        """Return a copy of the release that a test may change."""
        place = self.folder / f"{mechanism}-{context}-{name}"
        shutil.copytree(self.out(mechanism, context), place)
        return place

    @functools.cache  # noqa: B019
    def saved(self, mechanism, context) -> SavedRelease:
        return pj.load(self.out(mechanism, context))

    @functools.cache  # noqa: B019
    def counts(self, mechanism, context):
        """Return the exact counts of what counts over the domain of the release."""
        if not has(context, "discovery"):
            return truth(context)
        domain = self.saved(mechanism, context).model.domain
        outside = "drop" if self.relation(mechanism) == "add-remove" else None
        data = Dataset.from_frame(domain, counted(context)[["a", "b", "c"]], rows_outside=outside)
        return np.asarray(data.marginals([("a", "b", "c")])[0], float)

    def ledger(self, mechanism, context, name, *more):
        """Return a new ledger that grants the table twice the budget of a release."""
        place = self.folder / f"{mechanism}-{context}-{name}.ledger"
        words = ["ledger", "init", place, self.folder / f"{context}.csv", "--name", "t", "--epsilon", "16"]
        words += ["--relation", self.relation(mechanism)]
        found = has(context, "discovery")
        words += ["--domain", self.folder / ("open.json" if found else "domain.json")]
        good(*words, *(["--delta", "0.00001"] if found else []), *self.defined(context), *more)
        return place
