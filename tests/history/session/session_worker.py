"""Workers for the sessions' tests, run as a process of its own: a parent that forks, counts and kills."""

import json
import os
import pathlib
import random
import signal
import sys
import time
import warnings

import numpy as np

from pgmjax import Dataset, Domain
from pgmjax.history import Session
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import DenseMatrix

warnings.filterwarnings("ignore", message="os.fork")
DOMAIN = Domain({"a": 6})


def table():
    return Dataset.from_columns(DOMAIN, {"a": np.repeat(np.arange(6), [50, 400, 10, 90, 700, 30])})


def begin(path):
    return Session.open(path, table(), cap=1, relation="add-remove", backend=SeededBackend(7, insecure=True))


def prepare(path):
    """Make a ledger that grants the table 1."""
    with Ledger.create(path) as ledger:
        rules = {"relation": "add-remove", "research": True, "max_attempts": 1000}
        ledger.register("t", epsilon=1, digest=ledger.digest_of(table()), domain=table().domain, **rules)


def ask(path, log, seed, times):
    """Ask random demands; what is shown is written down, and on disk, before the next one."""
    chosen = random.Random(seed)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with begin(path) as session:
        for _ in range(times):
            entries = [[chosen.randrange(2) for _ in range(5)] + [1]]
            answer = session.ask(DenseMatrix(("a",), entries), chosen.choice([20, 60, 150]), 0.2)
            os.write(handle, (json.dumps(answer.to_dict()) + "\n").encode())
            os.fsync(handle)


def forked(*arguments):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ask(*arguments)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def rush(path, workers, times):
    """Several processes at once, all from the beginning."""
    children = [forked(path, f"{path}.log{k}", k, int(times)) for k in range(int(workers))]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def shown(path):
    """Count the answers that all workers have written down."""
    return sum(log.read_bytes().count(b"\n") for log in path.parent.glob(f"{path.name}.log*"))


def storm(path, kills, seed):
    """Kill workers at random moments and start others, until `kills` were killed."""
    chosen = random.Random(int(seed))
    running, started = [], 0
    for done in range(int(kills)):
        while len(running) < 3:
            running.append(forked(path, f"{path}.log{started}", started, 10**6))
            started += 1
        time.sleep(chosen.uniform(0.02, 0.4))
        while shown(path) <= done + 1:  # however slow the machine is, each kill comes amid work
            assert not any(os.waitpid(child, os.WNOHANG)[0] for child in running), "a worker ended by itself"
            time.sleep(0.02)
        victim = running.pop(chosen.randrange(len(running)))
        os.kill(victim, signal.SIGKILL)
        _, status = os.waitpid(victim, 0)
        assert os.WIFSIGNALED(status), f"a worker ended by itself: {status}"
    for child in running:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[2])
    prepare(place)
    {"rush": rush, "storm": storm}[sys.argv[1]](place, *sys.argv[3:])
