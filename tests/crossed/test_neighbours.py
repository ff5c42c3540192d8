"""With the noise frozen, nothing that is left behind may differ between neighbouring tables.

A release is made of a table while a tape records, and of its neighbour while the tape plays the answers back.
Compared are what is printed, warned of and logged, every file, and what later commands and defaults make of
them. A third run on the first table tells what is of the clock.
"""

import contextlib
import io
import logging
import os
import re
import warnings

import numpy as np
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.privacy.tape import Tape
from tests.crossed.world import (
    FRAMES,
    MECHANISMS,
    NO_DISCOVERY,
    NO_WEIGHTS,
    ONLY_REPLACE,
    PERTURB,
    World,
    has,
)

# of the clock alone, in JSON and pages
CLOCK = re.compile(
    r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?|20\d\d-\d\d-\d\d"
    r"|\b\d+(\.\d+)? (s|seconds|min)\b|\"(cpu_)?seconds\": [\d.e-]+"
)
KEYED = re.compile(r"\b[0-9a-f]{16,}\b")
CASES = [
    (mechanism, context)
    for mechanism in MECHANISMS
    for context in (
        "plain",
        "unit",
        "drop",
        "clip",
        "weights",
        "discovery",
        "unit+drop",
        "unit+discovery",
        "unit+drop+counted",
    )
    if not (has(context, "weights") and mechanism in NO_WEIGHTS)
    and not (has(context, "drop") and mechanism in ONLY_REPLACE)
    and not (has(context, "discovery") and mechanism in NO_DISCOVERY)
]
QUICK = {"plain", "unit+drop", "weights", "unit+discovery"}


def neighbour(frame, context, relation):
    """Return the table without one record, or one unit's records; or with them replaced."""
    if has(context, "unit"):
        mine = frame["id"] == frame["id"].value_counts().index[0]
    else:
        own = frame["c"] == frame["c"].max()  # outside the domain, where records are
        mine = np.arange(len(frame)) == np.flatnonzero(own)[0]
    if relation == "add-remove":
        return frame[~mine].reset_index(drop=True)
    changed = frame.copy()
    changed.loc[mine, ["a", "b", "c"]] = ["z", "yes", 7]
    return changed


def plain_text(path):
    """Return the content of a file as text, without what is of the clock."""
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        said = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        return CLOCK.sub("", f"{table.to_pydict()} {said}")
    if path.suffix == ".npz":
        with np.load(path) as held:
            return str({name: held[name].tolist() for name in held.files})
    return CLOCK.sub("", path.read_text(encoding="utf-8", errors="replace"))


@contextlib.contextmanager
def listening(told, place):
    """Work in a folder; collect warnings, log records and what is printed."""
    out, err, handler = io.StringIO(), io.StringIO(), logging.StreamHandler(log := io.StringIO())
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.chdir(place), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    for name, stream in (("printed", out), ("errors", err), ("logged", log)):
        told[name] = CLOCK.sub("", stream.getvalue().replace(str(place), ""))
    told["warned"] = [str(each.message) for each in caught]


def left(folder, tables):
    """Return every file of a folder but the tables."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in tables)
    return {str(path.relative_to(folder)): plain_text(path) for path in paths}


def command(*words):
    """Run `pgmjax` and return its exit code."""
    return main([str(word) for word in words])


def released(mechanism, context, place, frame):
    """Make a release by the command, from the folder of its table, and return all that can be seen of it."""
    world = World.at(place)
    frame.to_csv(place / f"{context}.csv", index=False)
    told = {}
    words = [str(word) for word in world.words(mechanism, context)]
    words = [word.replace(f"{place}{os.sep}", "") for word in words]
    with listening(told, place):
        told["code"] = command(*words, "--insecure-seed", "3", "--out", "made", "--json")
    tables = {f"{name}.csv" for name in FRAMES}
    later = afterwards(mechanism, context, place)
    return {**told, **later, **left(place, tables)}


def afterwards(mechanism, context, place):
    """What later commands and defaults say of a release."""
    told = {}
    with listening(told, place):
        told["codes"] = [command("query", "made", "a=x", "b=no", "--json")]
        if mechanism != PERTURB:
            model = pj.load("made").model
            told["rows"] = {name: column.tolist() for name, column in model.sample(seed=1).items()}
            told["codes"] += [command("release", "made", "--add-rows")]
    return {f"later {name}": value for name, value in told.items()}


def differing(one, other):
    """Return what differs, by name, with the words around the first difference."""
    found = {}
    for name in one.keys() | other.keys():
        first, second = str(one.get(name)), str(other.get(name))
        if first != second:
            same = (a == b for a, b in zip(first, second, strict=False))
            at = max(0, next((place for place, each in enumerate(same) if not each), 0) - 60)
            found[name] = first[at : at + 200], second[at : at + 200]
    return found


@pytest.mark.parametrize(
    ("mechanism", "context"),
    [pytest.param(*case, marks=() if case[1] in QUICK else pytest.mark.slow) for case in CASES],
)
def test_nothing_but_answers_is_left_of_a_table(mechanism, context, tmp_path):
    frame = FRAMES[context]
    relation = World.relation(mechanism)
    tape, seen = Tape(), []
    for number, (own, way) in enumerate(
        (
            (frame, tape.recording),
            (frame, tape.replaying),
            (neighbour(frame, context, relation), tape.replaying),
        )
    ):
        place = tmp_path / str(number)
        place.mkdir()
        with way():
            seen.append(released(mechanism, context, place, own))
    first, again, other = seen
    assert first["code"] == 0, first["errors"]
    assert not differing(first, again), "of the clock alone"
    assert not differing(first, other)


TYPED = {  # a column of numbers and, as the sixth, a value that has another type
    "one value missing": lambda column: column.astype(float).mask(column.index == 5),
    "one text among numbers": lambda column: column.astype(object).mask(column.index == 5, "north"),
    "one large number": lambda column: column.mask(column.index == 5, 2**53 + 1),
    "one fraction": lambda column: column.astype(float).mask(column.index == 5, 2.5),
    "one boolean": lambda column: column.astype(object).mask(column.index == 5, True),
}
DOMAINS = {
    "declared": {"c": {"labels": [str(x) for x in range(8)], "other": True, "missing": True}},
    "labels found": {"c": {"labels": "discover"}},
    "bins found": {"c": {"bins": "discover"}},
    "all found": {"c": "discover"},
}


def synthesized(frame, domain, place):
    """Fit a frame in Python, and return all that can be seen of it."""
    told = {}
    with listening(told, place):
        synth = pj.Synthesizer(epsilon=8, relation="replace-one", delta=1e-6, insecure_seed=3)
        try:
            synth.fit(frame, domain, discover=0.3 if "discover" in str(domain) else None)
        except (TypeError, ValueError) as error:
            told["refused"] = f"{type(error).__name__}: {error}"
        else:
            rows = synth.sample(seed=1)
            told["rows"] = rows.to_csv(), [str(kind) for kind in rows.dtypes]
            told["answers"] = str(synth.query("a=x")), repr(synth), synth.release.statement
            synth.release.save("made")
    return {**told, **left(place, ())}


@pytest.mark.parametrize("kind", TYPED)
@pytest.mark.parametrize("declared", DOMAINS)
def test_the_type_of_one_value_is_not_seen(kind, declared, tmp_path):
    """pandas gives a whole column another type for one value."""
    frame = FRAMES["plain"].copy()
    domain = {"a": {"labels": ["x", "y", "z"]}, "b": {"labels": ["no", "yes"]}, **DOMAINS[declared]}
    tape, seen = Tape(), []
    changed = frame.assign(c=TYPED[kind](frame["c"]))
    for number, (own, way) in enumerate(((frame, tape.recording), (changed, tape.replaying))):
        place = tmp_path / str(number)
        place.mkdir()
        with way():
            seen.append(synthesized(own, domain, place))
    assert "rows" in seen[0] and not differing(*seen)


@pytest.mark.parametrize(
    "context", ["plain", "unit", "drop", "weights", "discovery", "unit+drop", "unit+drop+counted"]
)
@pytest.mark.parametrize("mechanism", ["marginals", "aim"])
def test_who_asks_a_ledger_sees_answers_only(mechanism, context, tmp_path):
    """The account's holder keeps its files; who asks sees the release, and what the ledger shows."""
    frame, tape, seen = FRAMES[context], Tape(), []
    for number, (own, way) in enumerate(
        ((frame, tape.recording), (neighbour(frame, context, "add-remove"), tape.replaying))
    ):
        place, told = tmp_path / str(number), {}
        place.mkdir()
        world = World.at(place)
        own.to_csv(place / f"{context}.csv", index=False)
        ledger = world.ledger(mechanism, context, "held", "--research")
        words = world.words(mechanism, context, ledger=True)
        with way(), listening(told, place):
            told["code"] = command(
                *words, "--ledger", ledger, "--insecure-seed", "3", "--out", "made", "--json"
            )
            told["shown"] = command("ledger", "show", ledger)
        for path in place.glob("*.ledger*"):
            path.unlink()
        seen.append({**told, **left(place, {f"{name}.csv" for name in FRAMES})})
    assert seen[0]["code"] == 0, seen[0]["errors"]
    # the names of a run and the chain of charges are under the account's own random key
    assert not differing(*({name: KEYED.sub("", str(text)) for name, text in each.items()} for each in seen))
