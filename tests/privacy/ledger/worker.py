"""Workers for the ledger's tests, run as a process of its own: a parent that forks and kills.

The library's front door imports JAX, which must not be forked; so the packages are entered beside it.
"""

import json
import os
import pathlib
import random
import signal
import sys
import time
import types

assert "jax" not in sys.modules, "to be run as a process of its own"
ROOT = pathlib.Path(__file__).parents[3] / "pgmjax"
for name in ("pgmjax", "pgmjax.privacy"):
    package = types.ModuleType(name)
    package.__path__ = [str(ROOT.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package

from pgmjax.privacy.accounting.events import Pure  # noqa: E402
from pgmjax.privacy.budget import BudgetExceeded  # noqa: E402
from pgmjax.privacy.ledger import AttemptsExhausted, Ledger  # noqa: E402

RULES = {"relation": "add-remove", "secure": True}
COST = [Pure("0.01")]


def forked(work, *arguments):
    """Run in a child, which ends with 0 if nothing was raised; return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(*arguments)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait(children):
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def reserve(path, worker, times, out):
    """Reserve as often as is granted, and write down how often that was."""
    granted = 0
    with Ledger.open(path) as ledger:
        for k in range(times):
            try:
                ledger.reserve("table", f"{worker}-{k}", {"k": k}, COST, **RULES)
                granted += 1
            except BudgetExceeded:
                pass
    pathlib.Path(f"{out}.{worker}").write_text(str(granted))


def rush(path, workers, times):
    """Many processes at once."""
    workers, times = int(workers), int(times)
    wait([forked(reserve, path, k, times, path) for k in range(workers)])
    print(json.dumps([int(pathlib.Path(f"{path}.{k}").read_text()) for k in range(workers)]))


def carry(path):
    """An open ledger is carried across a fork: the child charges before and after the parent closes."""
    ledger = Ledger.open(path)
    ledger.reserve("table", "parent", {}, COST, **RULES)
    told, heard = os.pipe(), os.pipe()

    def child():
        ledger.reserve("table", "child 1", {}, COST, **RULES)
        os.write(told[1], b".")
        os.read(heard[0], 1)
        ledger.reserve("table", "child 2", {}, COST, **RULES)

    children = [forked(child)]
    os.read(told[0], 1)
    ledger.reserve("table", "parent again", {}, COST, **RULES)
    ledger.close()
    os.write(heard[1], b".")
    wait(children)
    with Ledger.open(path) as again:
        print(json.dumps([charge.key for charge in again.charges("table")]))


def show(path, log, seed):
    """Reserve, answer and show for ever; what is shown is written down first."""
    chosen = random.Random(seed)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with Ledger.open(path) as ledger:
        while True:
            key, steps = f"run {chosen.randrange(KEYS)}", range(2)
            try:
                charge = ledger.reserve("table", key, {"key": key}, COST, **RULES)
                for step in steps:
                    noisy = charge.answer(step, {"step": step}, lambda: os.urandom(20))
                    os.write(handle, f"{key}\t{step}\t{noisy.hex()}\n".encode())
                    os.fsync(handle)
            except (BudgetExceeded, AttemptsExhausted):
                pass


KEYS = 5000


def storm(path, kills, seed):
    """Kill workers at random moments and start others, until `kills` were killed."""
    chosen = random.Random(int(seed))
    running, started = [], 0
    for _ in range(int(kills)):
        while len(running) < 3:
            running.append(forked(show, path, f"{path}.log{started % 3}", started))
            started += 1
        time.sleep(chosen.uniform(0.005, 0.08))
        victim = running.pop(chosen.randrange(len(running)))
        os.kill(victim, signal.SIGKILL)
        _, status = os.waitpid(victim, 0)
        assert os.WIFSIGNALED(status), f"a worker ended by itself: {status}"
    for child in running:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print(json.dumps({"started": started}))


def full(path, limit):
    """Work until no file may grow any more."""
    import resource

    from pgmjax.privacy.ledger import LedgerError

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    shown, charged, said = [], [], None
    with Ledger.open(path) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        for k in range(1000):
            try:
                charge = ledger.reserve("table", f"run {k}", {}, COST, **RULES)
                charged.append(f"run {k}")
                shown.append([charge.key, charge.answer(0, {}, lambda: os.urandom(3000)).hex()])
            except LedgerError as error:
                said = str(error)
                break
    print(json.dumps({"shown": shown, "charged": charged, "said": said}))


if __name__ == "__main__":
    {"rush": rush, "carry": carry, "storm": storm, "full": full}[sys.argv[1]](*sys.argv[2:])
