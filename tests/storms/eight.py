"""Eight processes and eight threads at once, on one run's folder and on one account of a ledger.

    python tests/storms/eight.py [ROUNDS]

Of runs of one name, all that succeed must have the same answers to the bit, and one charge; of runs of
different names, as many are granted as the account affords. The others must be refused in words. It prints
what each of them said and how often, and exits with 1 if anything was spent or drawn twice.
"""

import collections
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import threading

import numpy as np

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.mechanisms import RunFolder
from pgmjax.release import folder as release_folder

NUMBER, CAP = 8, 3
DOMAIN = pj.Domain({"a": 2, "b": 3})
WORKLOAD = pj.Workload([["a", "b"]])
REFUSALS = (
    "Another process is using",
    "Another run of this process is using",
    "already exists",
    "is being used by another",
    "is left in account",
)


def table(place):
    rng = np.random.default_rng(0)
    rows = zip(rng.integers(2, size=300), rng.integers(3, size=300), strict=True)
    (place / "t.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    DOMAIN.write(place / "d.json")
    with pj.privacy.Ledger.create(place / "l.ledger") as ledger:
        promise = {"epsilon": CAP, "relation": "add-remove", "digest": ledger.digest_of(place / "t.csv")}
        ledger.register("t", domain=DOMAIN, unit="person", **promise)


def in_processes(place, words):
    """Run a command in each process from one moment on; return what each said of its failure, or None."""
    wait, go = os.pipe()
    children = []
    for number in range(NUMBER):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(wait, 1)  # ends for all when the parent closes its end
            said = io.StringIO()
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                code = main([str(word) for word in words(number)])
            (place / f"said.{number}").write_text(said.getvalue())
            os._exit(code)
        children.append(child)
    os.close(wait)
    os.close(go)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return [(place / f"said.{n}").read_text() if code else None for n, code in enumerate(codes)]


def in_threads(run):
    """Call a function in each thread from one moment on; return results and errors."""
    ready, found = threading.Barrier(NUMBER), [None] * NUMBER

    def call(number):
        ready.wait()
        try:
            found[number] = run(number)
        except (ValueError, RuntimeError) as error:
            found[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(NUMBER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def values(release):
    return np.concatenate([each.flat_values() for each in release.measurements]).tolist()


def stored(folder):
    return release_folder.read(folder).measurements()["value"].to_pylist()


def charges(place):
    """The number of charges, of an account that must be sound."""
    with pj.privacy.Ledger.open(place / "l.ledger") as ledger:
        ledger.verify().raise_if_bad()
        account, costs = ledger.account("t"), [each.cost for each in ledger.charges("t")]
        assert account.spent == sum(costs) <= CAP
        return len(costs)


def processes(place, ledger, one):
    """The command in eight processes: with one name and place (`one`), or of a name and a place each."""
    words = ["release", place / "t.csv", "--domain", place / "d.json", "--all-kway", "2", "--epsilon", "1"]
    words += ["--relation", "add-remove", "--mechanism", "marginals", "--rows", "5", "--quiet"]
    words += ["--ledger", place / "l.ledger"] if ledger else []

    def of(number):
        key = ["--key", "one" if one else number] if ledger else []
        return [*words, *key, "--out", place / ("out" if one and not ledger else f"out.{number}")]

    said = in_processes(place, of)
    done = [stored(out) for out in place.glob("out*") if not out.name.endswith(".partial")]
    return said, done


def threads(place, ledger, one):
    """The same by `Mechanism.run`, in eight threads."""
    data = pj.Dataset.read(place / "t.csv", DOMAIN)
    quiet = pj.Estimator(max_steps=20, progress=False)
    once = pj.mechanisms.Marginals(epsilon=1, relation="add-remove", estimator=quiet)
    given = {"ledger": pj.privacy.Ledger.open(place / "l.ledger")} if ledger else {}
    folder = None if ledger else RunFolder(place / "run")
    found = in_threads(
        lambda number: once.run(
            data,
            WORKLOAD,
            show_progress=False,
            **(given | {"key": "one" if one else str(number)} if ledger else {"folder": folder}),
        )
    )
    said = [str(each) if isinstance(each, Exception) else None for each in found]
    (given["ledger"] if ledger else folder).close()
    return said, [values(each) for each in found if not isinstance(each, Exception)]


def trial(front, ledger, one):
    """One round; return what was said, and what is wrong."""
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        table(place)
        said, done = front(place, ledger, one)
        wrong, different = [], len({tuple(each) for each in done})
        if len(done) != (1 if one and not ledger and front is processes else said.count(None)):
            wrong.append(f"{said.count(None)} succeeded, and {len(done)} releases are there")
        if not done or different != (1 if one else min(CAP, NUMBER)):
            wrong.append(f"{len(done)} releases have {different} different answers")
        if charges(place) != (0 if not ledger else 1 if one else CAP):
            wrong.append(f"{charges(place)} charges")
        strange = [each for each in said if each is not None and not any(word in each for word in REFUSALS)]
        wrong += [f"it said {each!r}" for each in strange]
        left = [path.name for path in place.iterdir() if re.search(r"^\.|lock$", path.name)]
        if left:
            wrong.append(f"left behind: {left}")
        short = [
            "done" if each is None else " ".join(re.sub(r"\S*/\S*", "PATH", each).split()[:12])
            for each in said
        ]
        return short, wrong


def storm(rounds):
    """Run all of it so many times; return the number of faults."""
    faults, counts = [], collections.Counter()
    ways = {
        "a folder": {"ledger": False, "one": True},
        "an account, one name": {"ledger": True, "one": True},
        "an account, each its own name": {"ledger": True, "one": False},
    }
    for front in (processes, threads):  # forks first: a process with threads is not forked
        for way in [*ways] * rounds:
            title = f"eight {front.__name__}, {way}"
            short, wrong = trial(front, **ways[way])
            counts.update(f"{title}: {each}" for each in short)
            faults += [f"{title}: {each}" for each in wrong]
            print(title, wrong, flush=True)
    print("\n".join(f"{number:5} {each}" for each, number in sorted(counts.items())))
    print("\n".join(faults))
    return len(faults)


if __name__ == "__main__":
    sys.exit(bool(storm(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
