"""`kill -9` at random moments: what was paid for is there afterwards, and is paid for once.

    python tests/storms/kills.py [KILLS [SEED]]

The first run, of AIM, is left alone: kills come within its time. Each trial then runs `pgmjax release`,
`session ask`, `perturb` or `Synthesizer.fit` in a process and kills it after a random time, until one run of
it ends by itself, or its result is there. A release that is resumed is given other settings of
the fit each time. Then every noisy answer that was on disk after a kill must be in the
result to the bit, a ledger must have one charge for the command, and only the result may be left. It prints
how many kills hit which stage, and exits with 1 if an answer was lost or charged twice.
"""

import collections
import contextlib
import itertools
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import numpy as np
import pandas
import pyarrow.parquet as parquet

import pgmjax as pj
from pgmjax._internal import files
from pgmjax.cli import main
from pgmjax.release import folder as release_folder
from pgmjax.release import run_folder

DOMAIN = pj.Domain({"a": {"labels": ["x", "y", "z"]}, "b": 3, "c": 2})
LIMIT = 120.0  # seconds of a run that is left alone


def table(path):
    rng = np.random.default_rng(0)
    rows = zip(
        rng.choice(list("xyz"), 300), rng.integers(3, size=300), rng.integers(2, size=300), strict=True
    )
    path.write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    return path


def in_a_process(words):
    """Run a command, or call a function, in a forked process and return its number."""
    child = os.fork()
    if child == 0:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os._exit(words() if callable(words) else main([str(word) for word in words]))
    return child


def killed(words, seconds):
    """Kill the command after some seconds; its exit code if it ended before, None if it was killed."""
    child, until = in_a_process(words), time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def answers(folder):
    """The stored answers by the names of their files, and the measured values."""
    stored = {path.name: np.load(path) for path in folder.glob("answers/[0-9]*.npy")}
    path = folder / "measurements.parquet"
    measured = parquet.read_table(path)["value"].to_pylist() if path.is_file() else []
    return stored, measured


def trial(place, mechanism, in_a_ledger, dice, longest, resumes=False):
    """One command, killed until it ends; return where the kills hit and what is wrong."""
    words = ["release", table(place / "t.csv"), "--domain", place / "d.json", "--all-kway", "2"]
    words += ["--epsilon", "1", "--relation", "add-remove", "--mechanism", mechanism, "--steps", "30"]
    words += ["--rows", "50", "--out", place / "out", "--quiet"]
    DOMAIN.write(place / "d.json")
    if in_a_ledger:
        init = ["ledger", "init", place / "b.ledger", place / "t.csv", "--domain", place / "d.json"]
        init += ["--name", "t", "--epsilon", "3", "--relation", "add-remove", "--json"]
        assert os.waitstatus_to_exitcode(os.waitpid(in_a_process(init), 0)[1]) == 0
        words += ["--ledger", place / "b.ledger"]
    partial, stages, wrong, seen = place / "out.partial", [], [], {}
    while True:
        if resumes and (partial / "command.json").is_file():
            fit = [
                "--regularisation",
                dice.choice(["auto", "none"]),
                "--steps",
                dice.choice(["1", "20", "40"]),
            ]
            words = ["release", "--resume", partial, *fit, "--dtype", dice.choice(["float32", "float64"])]
        code = killed(words, dice.uniform(0, longest) if len(stages) < 8 else LIMIT)
        if code is not None:
            break
        stored, measured = answers(partial)
        stages.append("release, " + ("answered" if stored or measured else "before the first answer"))
        if (partial / "release" / "release.json").is_file():
            stages[-1] = "release, writing"
        if (place / "out").exists() and not partial.exists():
            files.sweep(place)
            stages[-1], code = "release, published", 0
            break
        for name, values in seen.items():
            if name in stored and not np.array_equal(stored[name], values):
                wrong.append(f"{name} was drawn again")
            if name not in stored and not (partial / "release" / "release.json").is_file():
                wrong.append(f"{name} was lost")
        seen |= stored
    if code != 0:
        wrong.append(f"the command ended with {code}")
        return stages, wrong
    released = release_folder.read(place / "out").measurements()["value"].to_pylist()
    if mechanism == "marginals" and seen and released != np.concatenate([*seen.values()]).tolist():
        wrong.append("the release has other answers than those that were stored")
    if mechanism != "marginals" and not {v for a in seen.values() if a.size > 1 for v in a} <= set(released):
        wrong.append("the release lacks answers that were stored")
    left = sorted(path.name for path in place.iterdir() if not path.name.startswith("b.ledger"))
    if left != ["d.json", "out", "t.csv"]:
        wrong.append(f"left behind: {left}")
    if in_a_ledger:
        with pj.privacy.Ledger.open(place / "b.ledger") as ledger:
            if [str(charge.cost) for charge in ledger.charges("t")] != ["1"]:
                wrong.append("not one charge of 1")
            ledger.verify().raise_if_bad()
    return stages, wrong


def until_it_ends(words, dice, longest, look, out=None):
    """Kill a command until it ends; return its exit code and what `look` returned after each kill."""
    seen = []
    while True:
        code = killed(words, dice.uniform(0, longest) if len(seen) < 8 else LIMIT)
        if code is not None:
            return code, seen
        seen.append(look())
        if out is not None and out.exists():
            return 0, seen


def kept(place):
    """The answers that a ledger holds: charge, step and contents."""
    with pj.privacy.Ledger.open(place / "b.ledger") as ledger:
        charges = [ledger.charge("t", charge.key) for charge in ledger.charges("t")]
        return {(charge.key, step): payload for charge in charges for step, payload in charge.stored()}


def in_the_ledger(place, command, dice, longest):
    """One `session ask` or `perturb` on an account; return where the kills hit and what is wrong."""
    DOMAIN.write(place / "d.json")
    init = [
        "ledger",
        "init",
        place / "b.ledger",
        table(place / "t.csv"),
        "--domain",
        place / "d.json",
        "--name",
        "t",
    ]
    init += ["--epsilon", "3", "--relation", "replace-one", "--json"]
    assert os.waitstatus_to_exitcode(os.waitpid(in_a_process(init), 0)[1]) == 0
    shared = ["--domain", place / "d.json", "--relation", "replace-one", "--json"]
    if command == "perturb":
        words = ["perturb", place / "t.csv", *shared, "--each", "--epsilon", "1", "--out", place / "out"]
        words += ["--useless", "answer", "--ledger", place / "b.ledger"]
    else:
        words = ["session", "ask", place / "b.ledger", "a=x,c=1", "--half-width", "30", "--cap", "1"]
        words += ["--table", place / "t.csv", *shared]
    code, seen = until_it_ends(words, dice, longest, lambda: kept(place), place / "out")
    wrong, last = [] if code == 0 else [f"the command ended with {code}"], kept(place)
    for answers_then in seen:
        if any(last.get(step) != payload for step, payload in answers_then.items()):
            wrong.append("an answer was lost or drawn again")
    with pj.privacy.Ledger.open(place / "b.ledger") as ledger:
        if [str(charge.cost) for charge in ledger.charges("t")] != ["1"]:
            wrong.append("not one charge of 1")
        ledger.verify().raise_if_bad()
    left = {path.name for path in place.iterdir() if not path.name.startswith("b.ledger")}
    if left - {"out"} != {"d.json", "t.csv"}:
        wrong.append(f"left behind: {sorted(left)}")
    return [f"{command}, {'answered' if then else 'before the first answer'}" for then in seen], wrong


def in_python(place, mechanism, dice, longest):
    """One `Synthesizer.fit`, killed until it ends; return where the kills hit and what is wrong."""
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    frame = pandas.read_csv(table(place / "t.csv"))

    def fit():
        made = pj.Synthesizer(epsilon=1, relation="add-remove", mechanism=mechanism)
        release = made.fit(frame, DOMAIN, show_progress=False).release
        np.save(place / "values.npy", np.concatenate([m.flat_values() for m in release.measurements]))
        return 0

    def look():
        paths = run_folder.place().glob("*/answers/[0-9]*.npy")
        return {path.name: np.load(path) for path in paths}

    code, seen = until_it_ends(fit, dice, longest, look)
    wrong = [] if code == 0 else [f"the call ended with {code}"]
    for before, after in itertools.pairwise(seen):
        if before and after and any(not np.array_equal(after.get(name), before[name]) for name in before):
            wrong.append("an answer was lost or drawn again")
    if seen and code == 0:
        stored = {v for values in seen[-1].values() if values.size > 1 for v in values.tolist()}
        # a kill between the end of the fit and that of the process leaves nothing to go on from
        if not stored <= set(np.load(place / "values.npy").tolist()):
            wrong.append("the release lacks answers that were stored")
    left = [str(path) for path in run_folder.place().rglob("*")]
    if left:
        wrong.append(f"left behind: {left}")
    return [f"fit, {'answered' if then else 'before the first answer'}" for then in seen], wrong


def storm(kills, seed):
    """Kill until so many processes have died; return the number of faults."""
    dice, counts, faults = random.Random(seed), collections.Counter(), []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        _, faults = trial(pathlib.Path(folder), "aim", False, dice, 1e9)
    longest = time.monotonic() - start
    print(f"kills within {longest:.1f} s", flush=True)
    while sum(counts.values()) < kills:
        command, is_charged = (
            dice.choice(["marginals", "aim", "mst", "session", "perturb", "fit", "resume", "resume", "fit"]),
            dice.random() < 0.5,
        )
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            if command in ("session", "perturb"):
                stages, wrong = in_the_ledger(place, command, dice, longest)
            elif command == "fit":
                stages, wrong = in_python(place, dice.choice(["marginals", "aim", "mst"]), dice, longest)
            elif command == "resume":
                named = dice.choice(["aim", "mst"])
                stages, wrong = trial(place, named, is_charged, dice, longest, resumes=True)
            else:
                stages, wrong = trial(place, command, is_charged, dice, longest)
        counts.update(stages)
        faults += [f"{command}{' in a ledger' * is_charged}: {each}" for each in wrong]
        print(f"{sum(counts.values())} kills, {dict(counts)}, faults {faults}", flush=True)
    print("\n".join(faults))
    return len(faults)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(bool(storm(*given, *(100, 7)[len(given) :])))
