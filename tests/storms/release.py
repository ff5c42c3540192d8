"""Kill `pgmjax release` at random moments and count what is lost.

To be run on demand: `python tests/storms/release.py KILLS [SEED]`.

Runs of marginals and AIM, with and without a ledger, end by SIGINT or SIGKILL after a random time or at a
random step of writing, up to three times each, and are resumed until they are complete. Each process writes
down every noisy answer that it was given to use. Prints the numbers of kills by stage, of answers lost, drawn
twice or without a charge, and fails if one of the last three is not 0.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import numpy as np
import pyarrow.parquet as parquet

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import program_cache

from pgmjax import cli
from pgmjax.cli import ledger as ledger_command  # noqa: F401  imported before the first fork
from pgmjax.privacy import Ledger
from pgmjax.privacy.private_table import PrivateTable

KINDS = [("marginals", False), ("aim", True), ("aim", False), ("marginals", True)]


def prepare(folder):
    """Write a table of 200 records and its domain, and a ledger that grants it 1."""
    rng = np.random.default_rng(0)
    rows = zip(*(rng.integers(0, size, 200) for size in (2, 3, 4)), strict=True)
    (folder / "t.csv").write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    (folder / "d.json").write_text(json.dumps({"a": 2, "b": 3, "c": 4}))


def new_ledger(folder):
    """Make the ledger, in this process."""
    words = ["ledger", "init", "l.ledger", "t.csv", "--name", "small", "--epsilon", "1"]
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        assert cli.main([*words, "--relation", "add-remove", "--domain", "d.json"]) == 0


def command(mechanism, ledger):
    """The words of a first call."""
    words = ["release", "t.csv", "--domain", "d.json", "--all-kway", "2", "--epsilon", "1", "--relation"]
    words += [
        "add-remove",
        "--mechanism",
        mechanism,
        "--steps",
        "30",
        "--rows",
        "9",
        "--out",
        "out",
        "--quiet",
    ]
    words += ["--option", "rounds=8", "--option", "steps=10"] if mechanism == "aim" else []
    return [*words, "--ledger", "l.ledger"] if ledger else words


def child(words, number, stop_at):
    """Run the command in this forked process, writing down every answer that is used or computed."""
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    step, kept, calls = [0], PrivateTable._kept, [0]

    def noting(table, request, compute):
        place, step[0] = step[0], step[0] + 1

        def computing():
            values = compute()
            os.write(log, f"computed {place}\n".encode())
            return values

        values = kept(table, request, computing)
        os.write(log, f"used {place} {next(iter(request))} {values.tobytes().hex()}\n".encode())
        return values

    def counting(good):
        def called(*given, **more):
            calls[0] += 1
            if calls[0] == stop_at:
                os.kill(os.getpid(), number)
            return good(*given, **more)

        return called

    PrivateTable._kept = noting
    os.fsync, os.replace, os.rename = map(counting, (os.fsync, os.replace, os.rename))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(os.open("err", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    code = 70
    with contextlib.suppress(BaseException):
        code = cli.main(words)
    os._exit(code)


def attempt(words, number=signal.SIGKILL, delay=None, stop_at=None):
    """Run the command in a process, to be ended so; return its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        child(words, number, stop_at)
    started = time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if delay is not None and time.monotonic() - started > delay:
            os.kill(pid, number)
            delay = None
        time.sleep(0.002)


def noted():
    """The log: for each step the different answers that were used, steps computed after that, and kinds."""
    used, again, kinds = collections.defaultdict(list), [], {}
    for line in pathlib.Path("log").read_text().splitlines() if os.path.exists("log") else []:
        word, step, *rest = line.split(" ")
        if word == "computed":
            again += [step] if int(step) in used else []
        else:
            kinds[int(step)] = rest[0]
            if rest[1] not in used[int(step)]:
                used[int(step)].append(rest[1])
    return used, again, kinds


def stored():
    """The answers on disk by step, as hex."""
    found = {}
    for path in pathlib.Path("out.partial/answers").glob("[0-9]*.npz"):
        with np.load(path) as arrays:
            found[int(path.stem)] = arrays["values"].tobytes().hex()
    return found


def charged():
    """The number of charges in the ledger, and of answers under them."""
    with Ledger.open("l.ledger") as book:
        charges = book.charges("small")
        return len(charges), sum(charge.answers for charge in charges)


def check(tally, ledger):
    """Compare what was used with what is on disk, after a kill; return the stage at which it came."""
    used, _, kinds = noted()
    if os.path.exists("out"):
        check_complete(tally, used, kinds)
        return "complete, or while removing the helper files"
    here = stored()
    tally["lost"] += sum(values != [here.get(step)] for step, values in used.items())
    if ledger and used:
        charges, answers = charged()
        tally["without a charge"] += len(used) if charges != 1 else max(0, len(used) - answers)
    if not here:
        return "before the first answer"
    return "while an answer was stored or given" if len(here) > len(used) else "with answers, before the end"


def check_complete(tally, used, kinds):
    """Compare a release with the answers that were used."""
    values = [used[step][0] for step in sorted(used) if kinds[step] == "measure"]
    expected = np.frombuffer(bytes.fromhex("".join(values)), dtype=np.int64)
    released = parquet.read_table("out/measurements.parquet")["value"].to_numpy()
    tally["lost"] += int(not np.array_equal(expected, released))
    assert json.loads(pathlib.Path("out/release.json").read_text())["spent"]["epsilon"] == "1"


def one_release(kind, rng, kills, spans, tally):
    """Kill one release so many times, then let it end; return the kills that came in time."""
    mechanism, ledger = kind
    prepare(pathlib.Path())
    if ledger:
        new_ledger(pathlib.Path())
    words, done = command(mechanism, ledger), 0
    for _ in range(kills):
        number = rng.choice([signal.SIGINT, signal.SIGKILL])
        by_time = rng.random() < 0.5
        how = {"delay": rng.uniform(0, spans[kind])} if by_time else {"stop_at": rng.randint(1, 40)}
        before = os.path.lexists("out.partial")  # left by a SIGKILL
        code = attempt(words, number, **how)
        if code == 0:
            break
        if code not in (130, -signal.SIGKILL, -signal.SIGINT):
            raise SystemExit(f"exit code {code}: {pathlib.Path('err').read_text()}")
        done += 1
        tally[check(tally, ledger)] += 1
        if os.path.exists("out"):
            break
        if os.path.exists("out.partial/arguments.json") and stored():
            words = ["release", "--resume", "out.partial", "--quiet"]
        elif number == signal.SIGINT:
            assert before or not os.path.lexists("out.partial"), (
                "left by an interrupt"
            )
    if not os.path.exists("out"):
        code = attempt(words)
        if code != 0:
            raise SystemExit(f"exit code {code}: {pathlib.Path('err').read_text()}")
    used, again, kinds = noted()
    check_complete(tally, used, kinds)
    tally["drawn twice"] += len(again) + sum(len(values) > 1 for values in used.values())
    if ledger:
        charges, answers = charged()
        tally["without a charge"] += int(charges != 1 or answers != len(used))
    tally["releases"] += 1
    return done


def main(kills, seed=0):
    """Run the storm and print the numbers; return the exit code."""
    rng, tally, done = random.Random(seed), collections.Counter(), 0
    spans, turn = {}, 0
    home = os.getcwd()
    while done < kills:
        kind = KINDS[turn % len(KINDS)]
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                if kind not in spans:
                    spans[kind] = 4.0  # seconds, until one is measured
                    if kills > 20:
                        prepare(pathlib.Path())
                        if kind[1]:
                            new_ledger(pathlib.Path())
                        started = time.monotonic()
                        assert attempt(command(*kind)) == 0
                        spans[kind] = time.monotonic() - started
                        for name in os.listdir():
                            os.rename(name, f"first-{name}")
                done += one_release(kind, rng, min(rng.randint(1, 3), kills - done), spans, tally)
            finally:
                os.chdir(home)
        turn += 1
        print(f"{done} kills", dict(tally), file=sys.stderr, flush=True)
    bad = {name: tally.pop(name, 0) for name in ("lost", "drawn twice", "without a charge")}
    print(f"{done} kills of {tally.pop('releases', 0)} releases")
    for name, count in sorted(tally.items()):
        print(f"  {count:4} {name}")
    for name, count in bad.items():
        print(f"answers {name}: {count}")
    return 1 if any(bad.values()) else 0


if __name__ == "__main__":
    program_cache.switch_on()
    sys.exit(main(*map(int, sys.argv[1:])))
