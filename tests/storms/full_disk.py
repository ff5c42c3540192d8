"""A full disk at any write of a run: it is said in words, nothing is lost, and the same again goes on.

    python tests/storms/full_disk.py [MECHANISM ...]

Needs the right to mount a file system in memory. For each of many sizes of a disk it runs `pgmjax release`,
`pgmjax perturb` and `Synthesizer.fit` there until the disk is full, makes it larger, and runs the same again.
Answers that were stored must be in the result to the bit, every failure must say "No space left", and nothing
may be left behind. It prints at which stages the disk was full, and exits with 1 if something was wrong.
"""

import collections
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.release.run_folder import FolderJournal

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({name: RNG.integers(0, 4, 300) for name in "abcd"})
DOMAIN = pj.Domain(dict.fromkeys("abcd", 4))
SIZES = (*range(4, 132, 4), *range(140, 700, 40))  # KiB


class Given:
    """What a run is given, and how much of it was computed."""

    def __init__(self):
        self.values, self.computed, answer = [], 0, FolderJournal.answer

        def noted(journal, request, compute):
            def counted():
                values = compute()
                self.computed += 1
                return values

            self.values.append(answer(journal, request, counted).tobytes())
            return np.frombuffer(self.values[-1], np.int64)

        FolderJournal.answer = noted

    def begin(self):
        self.values, self.computed = [], 0


@contextlib.contextmanager
def disk(kibibytes):
    """A small disk, and a function that makes it larger."""
    place = tempfile.mkdtemp()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k"]
    subprocess.run([*mount, "pgmjax-storm", place], check=True)
    try:
        yield (
            pathlib.Path(place),
            lambda: subprocess.run(["mount", "-o", "remount,size=64m", place], check=True),
        )
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)  # errors in hand keep files open
        shutil.rmtree(place)


def command(words, out):
    """A call of a command; returns what it says, and whether it succeeded."""

    def call():
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = main([*map(str, words), "--out", str(out), "--quiet"])
        return said.getvalue(), code == 0

    return call


def fit(mechanism):
    made = pj.Synthesizer(epsilon=1, relation="replace-one", mechanism=mechanism)

    def call():
        try:
            made.fit(FRAME, DOMAIN, show_progress=False)
        except (ValueError, RuntimeError, OSError) as error:
            return str(error), False
        return "", True

    return call


def trial(front, mechanism, size, given, tables):
    """One run on a disk of a size; return the stage at which it was full, and what is wrong."""
    with disk(size) as (place, enlarge):
        os.environ["XDG_STATE_HOME"] = str(place / "state")
        words = [tables / "t.csv", "--domain", tables / "d.json", "--epsilon", "1"]
        words += ["--relation", "replace-one"]
        if front == "release":
            words += ["--all-kway", "2", "--mechanism", mechanism, "--steps", "10", "--rows", "20"]
            call = command(["release", *words], place / "out")
        elif front == "perturb":
            call = command(["perturb", *words, "--each", "--useless", "answer"], place / "out")
        else:
            call = fit(mechanism)
        given.begin()
        said, done = call()
        if done:
            return "enough", []
        first, wrong = given.values, []
        if "No space left" not in said and "incomplete" not in said:
            wrong.append(f"it said {said!r}")
        stage = f"{len(first)} answers" + (
            ", then writing" if (place / "out.partial/release").exists() else ""
        )
        enlarge()
        given.begin()
        said, done = call()
        if not done:
            wrong.append(f"it did not go on: {said!r}")
        if given.values[: len(first)] != first or given.computed != len(given.values) - len(first):
            wrong.append("an answer was lost or drawn again")
        left = [path for path in place.rglob("*") if path.is_file() and "out" not in path.parts]
        if left or (place / "out.partial").exists():
            wrong.append(f"left behind: {left}")
        return stage, wrong


def storm(names):
    """Run everything on disks of all sizes; return the number of faults."""
    counts, faults, given = collections.Counter(), [], Given()
    with tempfile.TemporaryDirectory() as folder:
        tables = pathlib.Path(folder)
        FRAME.to_csv(tables / "t.csv", index=False)
        DOMAIN.write(tables / "d.json")
        for front in ("release", "perturb", "fit"):
            for mechanism in names if front != "perturb" else names[:1]:
                for size in SIZES:
                    stage, wrong = trial(front, mechanism, size, given, tables)
                    counts[f"{front}, {stage}"] += 1
                    faults += [f"{front} {mechanism} {size} KiB: {each}" for each in wrong]
                print(front, mechanism, len(faults), flush=True)
    print(dict(counts))
    print("\n".join(faults))
    return len(faults)


if __name__ == "__main__":
    sys.exit(bool(storm(sys.argv[1:] or ["aim", "marginals", "mst"])))
